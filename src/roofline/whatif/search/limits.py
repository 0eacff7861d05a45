"""Limits of a whole site: the chips that a budget or watts allow, for servers and for training."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from roofline.declared.checks import real
from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.hardware.cluster import MOST

POWER = "Maximum watts of all boards, each at its limit (`h100-sxm@490W`), else at its TDP."
"""What the watts of a site are, for every search."""
_KNOWN: Mapping[str, str] = {"budget": "price", "power": "power", "site_power": "power"}


def chips_within(name: str, most: Given, each: Mapping[str, float | None]) -> dict[str, int]:
    """How many chips of each kind a limit on their sum allows; at least one of some kind.

    `each`: what a chip takes of it, by id. Raises InputError for a limit that is no number above 0 or is not enough for
    one chip, and where what a chip takes is not known.
    """
    value = real(most)
    if value is None or not 0 < value < inf:
        raise InputError(name, most, "a number above 0")
    known = {chip: taken for chip, taken in each.items() if taken}
    if unknown := next((chip for chip in each if chip not in known), None):
        raise InputError(name, most, f"chips whose {_KNOWN[name]} is known, not {unknown}")
    if value < min(known.values()):
        raise InputError(name, most, f"enough for one chip, {min(known.values()):g}")
    return {chip: int(min(value // taken, MOST)) for chip, taken in known.items()}
