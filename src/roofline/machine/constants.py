"""Fitted constants: for a chip, else its generation, else any chip, with the error they showed on held-out rows.

`constants/*.toml` are written by `benchmarks/fit_laws.py`; the measurements they were fitted on are named there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from roofline.machine.chip import Chip
from roofline.machine.law import RECORDS
from roofline.model.maths import Count

FOLDER = Path(__file__).with_name("constants")
UNKNOWN = (0.5, 2.0)
"""The interval of a law nobody has measured on anything like this chip."""


@dataclass(frozen=True)
class Constants:
    """A law's record and what is known of it: the grade and the interval's factors for short and for long ops."""

    record: Any
    grade: str
    small: tuple[float, float]
    large: tuple[float, float]
    mape: float | None = None
    rows: int = 0

    def interval(self, seconds: Count, thin: Count = False) -> tuple[Count, Count]:
        """Factors of the 80 % interval: the wider ones for `thin` products and ops under three launch floors."""
        import numpy

        short = thin | (seconds < 3 * (self.record.t0 + getattr(self.record, "quantise_t0", 0.0)))
        low, high = (numpy.where(short, self.small[i], self.large[i]) for i in (0, 1))
        return low, high


@cache
def _table(name: str) -> Mapping[str, Any]:
    path = FOLDER / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def places(chip: Chip) -> tuple[tuple[str, str], ...]:
    """Whose constants serve a chip, best first, with their grades: its own, its generation's, the generic ones."""
    own = (chip.like or chip.id, "A" if chip.like is None else "B")
    return own, (f"generation-{chip.generation}", "B"), ("generic", "C")


@cache
def constants_for(chip: Chip, dtype: str, kind: str, software: str | None = None) -> Constants:
    """The constants of a kind of op in a dtype: the chip's own, its generation's, then the generic ones.

    Where a software is named and was measured, its own; otherwise the default. fp16 has bf16's constants where it has
    none of its own; another dtype that nobody measured has them too, with grade C.
    """
    if chip.constants is not None:
        found = _record(chip.constants.get(dtype, {}).get(kind, {}), kind, software, "A")
        if found:
            return found
    for place, grade in places(chip):
        found = _record(_table(place).get(dtype, {}).get(kind, {}), kind, software, grade)
        if found:
            return found if grade != "C" else _foreign(found, chip)
    if dtype not in ("bf16", "bf16_kv_bf16"):
        base = constants_for(chip, "bf16_kv_bf16" if kind.startswith("latent") else "bf16", _plain(kind), software)
        if dtype == "fp16" or kind == "stream":
            return base
        return Constants(_as(RECORDS[kind], base.record), "C", UNKNOWN, UNKNOWN)
    return Constants(RECORDS[kind](), "C", UNKNOWN, UNKNOWN)


def _foreign(found: Constants, chip: Chip) -> Constants:
    """Generic constants on a chip nobody measured: products in rows of 16, and off GPUs the widest interval."""
    record = replace(found.record, height=16.0) if hasattr(found.record, "height") else found.record
    if chip.kind == "gpu":
        return replace(found, record=record)
    return replace(found, record=record, small=UNKNOWN, large=UNKNOWN)


def _plain(kind: str) -> str:
    return "matmul" if kind == "quantised_matmul" else kind


def _as(record: type[Any], base: Any) -> Any:
    """The same constants in another record; what it has besides stays at its default."""
    shared = {f.name for f in fields(record)} & {f.name for f in fields(base)}
    return record(**{name: getattr(base, name) for name in shared})


def _record(node: Mapping[str, Any], kind: str, software: str | None, grade: str) -> Constants | None:
    entry = node.get(software or "default") or node.get("default")
    if not entry:
        return None
    names = {f.name for f in fields(RECORDS[kind])}
    return Constants(
        RECORDS[kind](**{k: float(v) for k, v in entry.items() if k in names}), grade,
        (entry["low_small"], entry["high_small"]), (entry["low"], entry["high"]),
        entry.get("mape"), entry.get("rows", 0),
    )  # fmt: skip
