"""Select models of the catalog by family, size and text."""

from __future__ import annotations

import re
from math import inf

from roofline.declared.errors import InputError, nearest
from roofline.model.load import CatalogEntry, catalog

_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([KMBGT])", re.IGNORECASE | re.ASCII)
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_ABOUT = 0.1
"""Relative deviation from a single size within which a model matches."""


def chosen_models(
    family: str | None = None, size: str | None = None, text: str | None = None
) -> tuple[CatalogEntry, ...]:
    """Models of the catalog whose model_type contains `family`, that have a `size`, and whose description has `text`.

    A condition that is None always holds. A size is a range of parameters (`7B-80B`, `70B-`, `-500M`), or one number,
    which matches models within a tenth of it. Raises InputError for an invalid size, and for a family that matches no
    model.
    """
    entries = tuple(catalog().values())
    if family is not None:
        wanted = family.lower()
        types = sorted({e.model_type for e in entries})
        if not any(wanted in model_type for model_type in types):
            raise InputError("--family", family, "a part of a model_type of the catalog", nearest(wanted, types))
        entries = tuple(e for e in entries if wanted in e.model_type)
    if size is not None:
        least, most = _range(size)
        entries = tuple(e for e in entries if least <= e.parameters <= most)
    if text is not None:
        words = text.lower()
        entries = tuple(e for e in entries if words in f"{e.id}\n{e.scope}\n{e.source}".lower())
    return entries


def _range(size: str) -> tuple[float, float]:
    """Smallest and largest number of parameters of a size."""
    first, dash, last = size.strip().partition("-")
    if not dash:
        return _number(size, first) * (1 - _ABOUT), _number(size, first) * (1 + _ABOUT)
    if not first and not last:
        raise InputError("--size", size, "a range such as 7B-80B")
    least, most = _number(size, first) if first else 0.0, _number(size, last) if last else inf
    if least > most:
        raise InputError("--size", size, "a range that begins with the smaller size")
    return least, most


def _number(size: str, text: str) -> float:
    parts = _SIZE.fullmatch(text.strip())
    if parts is None:
        raise InputError("--size", size, "a range such as 7B-80B, in M, B or T parameters")
    return float(parts[1]) * _UNITS[parts[2].lower()]
