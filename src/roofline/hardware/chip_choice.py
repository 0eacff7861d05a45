"""Filter the catalog's chips by vendor, kind, memory and text."""

from __future__ import annotations

import re
from math import inf

from roofline.declared.errors import InputError, nearest
from roofline.hardware.chip import Chip, chips

_MEMORY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([MGT]i?)B", re.ASCII)
_SCALES = {"M": 1e6, "G": 1e9, "T": 1e12, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_ABOUT = 0.1
"""Relative tolerance of a memory given as a single size."""


def chosen_chips(
    vendor: str | None = None, kind: str | None = None, memory: str | None = None, text: str | None = None
) -> dict[str, Chip]:
    """Chips of the catalog that match all filters given: `vendor`, `kind`, `memory`, and `text` in their description.

    A memory is a range (`80GB-`, `24GB-48GB`, `-16GB`), or one size with a tolerance of a tenth. As in the names of
    chips, 48 GB may mean 48 GiB, part of which may go to ECC: either the datasheet's or the usable bytes must match.

    Raises InputError for an invalid memory, and for a vendor or a kind that no chip has.
    """
    every = chips()
    for option, value, known in (
        ("--vendor", vendor, {c.vendor for c in every.values()}), ("--kind", kind, {c.kind for c in every.values()}),
    ):  # fmt: skip
        if value is not None and value.lower() not in known:
            names = sorted(filter(None, known))
            raise InputError(option, value, f"one of {', '.join(names)}", nearest(value, names))
    least, most = (0.0, inf) if memory is None else _range(memory)
    words = "" if text is None else text.lower()
    return {
        id: c
        for id, c in every.items()
        if (vendor is None or c.vendor == vendor.lower())
        and (kind is None or c.kind == kind.lower())
        and least <= (c.nominal_capacity or c.capacity)
        and c.capacity <= most * _SCALES["Gi"] / _SCALES["G"]
        and words in f"{id}\n{c.name}\n{c.generation}\n{c.memory_kind}\n{c.note}\n{' '.join(c.aliases)}".lower()
    }


def _range(memory: str) -> tuple[float, float]:
    """Least and most bytes of a memory filter."""
    first, dash, last = memory.strip().partition("-")
    if not dash:
        return _bytes(memory, first) * (1 - _ABOUT), _bytes(memory, first) * (1 + _ABOUT)
    least, most = _bytes(memory, first) if first else 0.0, _bytes(memory, last) if last else inf
    if least > most or (not first and not last):
        raise InputError("--memory", memory, "a range that begins with the smaller memory, such as 24GB-48GB")
    return least, most


def _bytes(memory: str, text: str) -> float:
    parts = _MEMORY.fullmatch(text.strip())
    if parts is None:
        raise InputError("--memory", memory, "a memory with its unit, such as 80GB, or a range such as 24GB-48GB")
    return float(parts[1]) * _SCALES[parts[2]]
