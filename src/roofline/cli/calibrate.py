"""`roofline calibrate`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from roofline.model.checks import count
from roofline.model.errors import InputError


def calibrate(
    *,
    device: Literal["cpu", "cuda"] = "cpu",
    dtype: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    threads: int | None = None,
    cpu_clock: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    output: Path | None = None,
    force: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measures this machine and writes the chip file that `--on FILE` takes.

    Products, copies, attention, experts and elementwise work, each by itself as eager PyTorch runs it (NumPy where
    there is no PyTorch: products and copies alone). Takes a minute and a half; an idle machine measures best.

    Example: `roofline calibrate --quick --output laptop.toml`

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
    output:
        Write the chip file here.
    force:
        Overwrite the file.
    """
    from roofline.machine.calibrate import chip_toml, fit, measure
    from roofline.show import calibrate as views

    if output is not None:
        _writable(output, force)
    least = None if threads is None else count("--threads", threads, 1)
    calibration = fit(measure(device, dtype, quick, cpu_clock, least, progress=_progress))
    if json:
        from json import dumps

        sys.stdout.write(dumps(views.calibration_json(calibration), indent=2, allow_nan=False) + "\n")
    else:
        from roofline.show.tables import print_line, print_table

        print_table(views.machine_table(calibration))
        print_line("")
        print_table(views.fit_table(calibration))
    if output is None:
        print("nothing written: --output FILE keeps the chip file", file=sys.stderr)
        return
    write(output, chip_toml(calibration), force)
    print(f"wrote {output}; use it with --on {output}", file=sys.stderr)


def _writable(output: Path, force: bool) -> None:
    """An InputError now rather than after the measurements."""
    if output.suffix != ".toml":
        raise InputError("--output", str(output), "a .toml file")
    if output.is_dir():
        raise InputError("--output", str(output), "a file, not a folder")
    if output.exists() and not force:
        raise InputError("--output", str(output), "a new file, or --force to overwrite it")
    if not os.access(output.parent, os.W_OK):
        raise InputError("--output", str(output), "a file in a folder that is there and can be written")


def write(output: Path, text: str, force: bool) -> None:
    """All of the file or none of it: beside it first, then in its place."""
    _writable(output, force)
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(output)
    except OSError as error:
        raise InputError("--output", str(output), f"a file that can be written ({error.strerror})") from None
    finally:
        beside.unlink(missing_ok=True)


def _progress(done: int, total: int, what: str) -> None:
    """One line on stderr, rewritten on a terminal; elsewhere a line for every tenth."""
    if sys.stderr.isatty():
        end = "\r" if done < total else "\n"
        sys.stderr.write(f"\r\x1b[Kmeasuring {done}/{total} {what}{end if done == total else ''}")
        sys.stderr.flush()
    elif done == total or done % max(1, total // 10) == 0:
        print(f"measuring {done}/{total} {what}", file=sys.stderr)
