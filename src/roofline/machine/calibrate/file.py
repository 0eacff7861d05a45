"""The chip file that a calibration writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roofline.machine.calibrate.cases import Calibration

_CLOCKS = {"cpu": "the CPU time of one thread", "wall": "wall clock"}


def chip_toml(calibration: Calibration) -> str:
    """The chip file: peaks in TFLOP/s, bandwidth in GB/s, the constants of each dtype and kind with their error."""
    chip, machine = calibration.chip, calibration.measurements.machine
    lines = [
        "# Written by `roofline calibrate`. Peaks are dense, TFLOP/s, as sustained here; t0 and the like in seconds.",
        *_table(chip.id, {
            "name": chip.name, "vendor": chip.vendor, "generation": chip.generation, "kind": chip.kind,
            "note": f"Measured with {machine.software}, {_CLOCKS[machine.clock]}.",
        }),
        *_table(f"{chip.id}.peak", {f: peak / 1e12 for f, peak in chip.peaks.items()}),
        *_table(f"{chip.id}.memory", {
            "bandwidth_gbs": chip.bandwidth / 1e9, "capacity_gb": chip.capacity / 1e9,
            "l2_mib": (chip.cache or 1) / 2**20, "units": chip.units or 1,
        }),
        *_table(f"{chip.id}.sources", {"figures": chip.source, "date": chip.date}),
    ]  # fmt: skip
    for dtype, kinds in (chip.constants or {}).items():
        for kind, softwares in kinds.items():
            for software, entry in softwares.items():
                lines += _table(f"{chip.id}.constants.{dtype}.{kind}.{software}", entry)
    return "\n".join(lines) + "\n"


def _table(name: str, entries: Mapping[str, object]) -> Iterable[str]:
    return [f"\n[{name}]", *(f"{key} = {_value(value)}" for key, value in entries.items())]


def _value(value: object) -> str:
    if isinstance(value, str):
        plain = "".join(c if c.isprintable() else " " for c in value)
        return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.5g}"
    return str(int(value)) if isinstance(value, (int, float)) else str(value)
