"""`roofline here`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from roofline.doors.cli.common import Form
from roofline.doors.cli.derived import with_tables


@with_tables
def here(
    *,
    recorded: Annotated[Path | None, Parameter(name="--from")] = None,
    json: Form = False,
) -> None:
    """Detect this machine: GPUs, CPU, memory, and the chip that models run on. Commands accept it as `--on here`.

    Example: `roofline here`

    Parameters
    ----------
    recorded:
        A folder with another machine's outputs instead, any of: nvidia-smi.txt, rocm-smi.txt, system-profiler.txt,
        sysctl.txt, lscpu.txt, meminfo.txt, dmidecode.txt.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.hardware.detect.probe import recorded_outputs
    from roofline.hardware.detect.recognise import machine_of, this_machine
    from roofline.views.text.catalogs.chips import chip_table
    from roofline.views.text.catalogs.here import Here, devices_table
    from roofline.views.text.tables import print_json, print_tables, print_text

    result = Here(machine_of(recorded_outputs(recorded)) if recorded else this_machine())
    if json:
        print_json(result.to_dict())
        return
    print_tables((devices_table(result), ""), (chip_table(result.of.chip), ""))
    several = f" It has {result.of.count} of them: --layout tp={result.of.count}." if result.of.count > 1 else ""
    print_text("\n".join([f"Models run on {result.of.on}, by --on here.{several}", *result.of.notes]))
