"""`roofline calibrate`."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.cli.common import OutFile, Switch, Whole, deliver, say
from roofline.model.checks import count


def calibrate(
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    dtype: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    quick: Switch = False,
    threads: Whole = None,
    cpu_clock: Switch = False,
    json: Switch = False,
    out: OutFile = None,
    force: Switch = False,
) -> None:
    """Measures this machine and writes the chip file that `--on FILE` takes.

    Products, copies, attention, experts and elementwise work, each by itself as eager PyTorch runs it (NumPy where
    there is no PyTorch: products and copies alone). Takes a minute and a half; an idle machine measures best.

    Example: `roofline calibrate --quick --out laptop.toml`

    Then `roofline analyze MODEL --on laptop.toml` and the other commands take it.

    Parameters
    ----------
    device:
        `cpu`, or `cuda` through PyTorch.
    dtype:
        Formats to measure: fp32, bf16, fp16, fp64. Without it fp32 and bf16 (on CUDA fp16 too).
    quick:
        A dozen seconds, fewer shapes.
    threads:
        CPU threads instead of PyTorch's own number.
    cpu_clock:
        One thread, timed by its CPU clock: for a machine that other work keeps busy.
    json:
        Print the documented JSON schema.
    out:
        Write the chip file here.
    force:
        Overwrite the file.
    """
    from roofline.machine.calibrate import calibrate as run
    from roofline.machine.calibrate import chip_toml
    from roofline.show import calibrate as views
    from roofline.show.files import check_ending, check_file

    if out is not None:
        check_ending(out, (".toml",), "--out")
        check_file(out, force, "--out")
    least = None if threads is None else count("--threads", threads, 1)
    calibration = run(device=device, dtypes=dtype, quick=quick, cpu_clock=cpu_clock, threads=least, progress=_progress)
    if json:
        from roofline.show.tables import print_json

        print_json(calibration.to_dict())
    else:
        from roofline.show.tables import print_line, print_table

        print_table(views.machine_table(calibration))
        print_line("")
        print_table(views.fit_table(calibration))
    if out is None:
        print("nothing written: --out FILE keeps the chip file", file=sys.stderr)
        return
    deliver(chip_toml(calibration), out, force)
    say(f"wrote {out}; use it with --on {out}")


def _progress(done: int, total: int, what: str) -> None:
    """One line on stderr, rewritten on a terminal; elsewhere a line for every tenth."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r\x1b[Kmeasuring {done}/{total} {what}{end}")
        sys.stderr.flush()
    elif done == total or done % max(1, total // 10) == 0:
        print(f"measuring {done}/{total} {what}", file=sys.stderr)
