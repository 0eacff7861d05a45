"""`roofline calibrate`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.declared.checks import count
from roofline.declared.errors import InputError
from roofline.doors.cli.common import OutFile, Switch, Whole, deliver, say
from roofline.doors.cli.derived import with_tables


@Parameter(name="*")
@dataclass(frozen=True)
class BenchOptions:
    """Options to fit llama-bench results instead of new measurements."""

    llama_bench: Path | None = None
    "Output of `llama-bench -o json` or `-o csv`: fit llama.cpp's constants to it instead of measuring."
    model: str | None = None
    "With --llama-bench: the model that ran."
    on: str | None = None
    "With --llama-bench: the chip that it ran on, a name or `here`."
    engine: str | None = None
    "With --llama-bench: llama.cpp (the chip's own backend) or llama.cpp-vulkan."
    precision: str | None = None
    "With --llama-bench: the model's format, such as q4_k_m; not needed for a GGUF file."


@with_tables
def calibrate(
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    dtype: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    quick: Switch = False,
    threads: Whole = None,
    cpu_clock: Switch = False,
    bench: BenchOptions = BenchOptions(),
    json: Switch = False,
    out: OutFile = None,
    force: Switch = False,
) -> None:
    """Measure this machine and write a chip file for `--on FILE`.

    Products, copies, attention, experts and elementwise work are timed separately in eager PyTorch (without PyTorch,
    only products and copies, in NumPy). Takes 90 s. The machine should be idle.

    Example: `roofline calibrate --quick --out laptop.toml`

    Use the file with `roofline analyze MODEL --on laptop.toml` and other commands.

    `roofline calibrate --llama-bench bench.json --model Qwen/Qwen3-4B --precision q4_k_m --on rtx-3090 --out mine.toml`
    fits llama.cpp's kernels to llama-bench results instead, and keeps the chip's figures.

    Parameters
    ----------
    device:
        `cpu`, or `cuda` through PyTorch.
    dtype:
        Formats to measure: fp32, bf16, fp16, fp64. Default: fp32 and bf16, on CUDA also fp16.
    quick:
        Measure fewer shapes, in about 12 s.
    threads:
        Number of CPU threads (default: PyTorch's).
    cpu_clock:
        Use one thread and its CPU time, for a machine that is busy with other work.
    json:
        Print the documented JSON schema.
    out:
        Write the chip file here.
    force:
        Overwrite the file.
    """
    if bench.llama_bench is not None:
        _by_bench(bench, json, out, force)
        return
    for name in ("model", "on", "engine", "precision"):
        if getattr(bench, name) is not None:
            raise InputError(f"--{name}", getattr(bench, name), "--llama-bench as well")
    from roofline.measured.calibrate import calibrate as run
    from roofline.measured.calibrate.file import chip_toml
    from roofline.views.files.atomic import check_ending, check_file
    from roofline.views.text.measured import calibrate as views

    if out is not None:
        check_ending(out, (".toml",), "--out")
        check_file(out, force, "--out")
    least = None if threads is None else count("--threads", threads, 1)
    calibration = run(device=device, dtypes=dtype, quick=quick, cpu_clock=cpu_clock, threads=least, progress=_progress)
    if json:
        from roofline.views.text.tables import print_json

        print_json(calibration.to_dict())
    else:
        from roofline.views.text.tables import print_line, print_table

        print_table(views.machine_table(calibration))
        print_line("")
        print_table(views.fit_table(calibration))
    if out is None:
        print("nothing written: --out FILE keeps the chip file", file=sys.stderr)
        return
    deliver(chip_toml(calibration), out, force)
    say(f"wrote {out}; use it with --on {out}")


def _by_bench(bench: BenchOptions, json: bool, out: Path | None, force: bool) -> None:
    """Fit constants to llama-bench results. Raises InputError if model, chip or format are missing."""
    from roofline.measured.calibrate.file import known_chip_toml
    from roofline.measured.compare.bench_fit import bench_fit
    from roofline.measured.compare.read import bench_rows
    from roofline.views.files.atomic import check_ending, check_file
    from roofline.views.text.measured import calibrate as views
    from roofline.views.text.tables import print_json, print_table

    for name in ("model", "on"):
        if getattr(bench, name) is None:
            raise InputError(f"--{name}", "nothing (missing)", f"what llama-bench ran{' on' if name == 'on' else ''}")
    if out is not None:
        check_ending(out, (".toml",), "--out")
        check_file(out, force, "--out")
    assert bench.llama_bench is not None
    assert bench.model is not None
    assert bench.on is not None
    fit = bench_fit(bench.model, bench_rows(bench.llama_bench), bench.on, bench.engine, bench.precision)
    if json:
        print_json(fit.to_dict())
    else:
        print_table(views.bench_table(fit))
        say(views.bench_text(fit))
    if out is None:
        say("nothing written: --out FILE keeps the chip file")
        return
    deliver(known_chip_toml(fit.chip), out, force)
    say(f"wrote {out}; use it with --on {out} --engine {fit.engine}")


def _progress(done: int, total: int, what: str) -> None:
    """Show progress on stderr: one line that is updated on a terminal, else a line for each 10 %."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r\x1b[Kmeasuring {done}/{total} {what}{end}")
        sys.stderr.flush()
    elif done == total or done % max(1, total // 10) == 0:
        print(f"measuring {done}/{total} {what}", file=sys.stderr)
