"""Write chip files with fitted constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from roofline.hardware.chip import Chip
from roofline.measured.calibrate.cases import Calibration

_CLOCKS = {"cpu": "the CPU time of one thread", "wall": "wall clock"}


def chip_toml(calibration: Calibration) -> str:
    """Chip file of a calibration: peaks in TFLOP/s, bandwidth in GB/s, constants and errors by dtype and kind."""
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
    return "\n".join([*lines, *_laws(chip)]) + "\n"


def known_chip_toml(chip: Chip) -> str:
    """Chip file of a catalog chip with new constants: all figures that affect times, and the constants."""
    memory = {
        "bandwidth_gbs": chip.bandwidth / 1e9, "capacity_gb": (chip.nominal_capacity or chip.capacity) / 1e9,
        **({} if chip.nominal_capacity is None else {"usable_gb": chip.capacity / 1e9}),
        **({} if chip.cache is None else {"l2_mb": chip.cache / 1e6}),
        **({} if chip.units is None else {"units": chip.units}),
        **({} if chip.clock is None else {"clock_mhz": chip.clock / 1e6}),
    }  # fmt: skip
    power = {f"{name}_w": watts for name, watts in (("tdp", chip.tdp), ("idle", chip.idle)) if watts is not None}
    links = {f"{name}_gbs": speed / 1e9 for name, speed in (("scale_up", chip.link), ("host", chip.host)) if speed}
    lines = [
        "# Written by `roofline calibrate --llama-bench`: the catalog's figures, the laws as llama-bench ran.",
        *_table(chip.id, {
            "name": chip.name, "vendor": chip.vendor, "generation": chip.generation, "kind": chip.kind,
        }),
    ]  # fmt: skip
    vector: dict[str, float] = {f: rate / 1e12 for f, rate in chip.vector.items()}
    if chip.exponentials != 1:
        vector["exponentials"] = chip.exponentials
    parts = {"peak": {f: rate / 1e12 for f, rate in chip.peaks.items()}, "vector": vector, "memory": memory}
    for part, figures in {**parts, "link": links, "power": power}.items():
        if figures:
            lines += [f"\n[{chip.id}.{part}]", *(f"{key} = {figure!r}" for key, figure in figures.items())]
    return "\n".join([*lines, *_laws(chip)]) + "\n"


def _laws(chip: Chip) -> Iterable[str]:
    """Yield the lines of the constants' tables."""
    for dtype, kinds in (chip.constants or {}).items():
        for kind, softwares in kinds.items():
            for software, entry in softwares.items():
                key = f'"{software}"' if "." in software else software
                yield from _table(f"{chip.id}.constants.{dtype}.{kind}.{key}", entry)


def _table(name: str, entries: Mapping[str, object]) -> Iterable[str]:
    return [f"\n[{name}]", *(f"{key} = {_value(value)}" for key, value in entries.items())]


def _value(value: object) -> str:
    if isinstance(value, str):
        plain = "".join(c if c.isprintable() else " " for c in value)
        return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value == float("inf"):
        return "inf"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.5g}"
    return str(int(value)) if isinstance(value, (int, float)) else str(value)
