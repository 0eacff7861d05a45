"""Memory tiers inside one chip: memories beside its main one, such as DRAM behind SRAM or flash beside HBM.

A tier has a capacity, a bandwidth and, where known, joules a bit. Weights, by part, and the cache are kept where the
machine says, by default in main memory, where activations always are. A tier may multiply by itself: arithmetic at its
banks has a bandwidth and FLOP/s of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from roofline.declared.errors import InputError, nearest
from roofline.declared.frozen_mapping import frozen
from roofline.declared.kinds import Given
from roofline.hardware.chip_files import only_known, plain_name, positive, tables_of, word

MAIN = "main"
"""The name of a chip's own memory, beside its tiers."""
CACHE = "cache"
"""The role of the KV cache and recurrent state."""
WEIGHTS = "weights"
"""The role that stands for every part of the weights without a place of its own."""
ROLES = (WEIGHTS, "attention", "ffn", "experts", "router", "embedding", "head", "other", CACHE)
"""What a memory may be said to keep: the parts are those of a model's weights."""
TierPlaces: TypeAlias = Mapping[str, str]
"""Role → the name of the memory that keeps it; `main` for the rest."""


@dataclass(frozen=True)
class MemoryTier:
    """A memory of a chip beside its main one.

    `capacity` in bytes, `bandwidth` in bytes/s. `energy`: joules a bit, None where not known. `inside`: bytes/s of
    arithmetic at the memory's own banks and `inside_flops` its FLOP/s, None for a memory that does not compute.
    """

    name: str
    capacity: float
    bandwidth: float
    kind: str = ""
    energy: float | None = None
    inside: float | None = None
    inside_flops: float | None = None


def keeper_of(placement: TierPlaces, role: str) -> str:
    """The name of the memory that keeps the cache or a part of the weights."""
    rest = MAIN if role == CACHE else placement.get(WEIGHTS, MAIN)
    return placement.get(role, rest)


def with_place(field: str, placement: TierPlaces, tiers: Sequence[MemoryTier], role: str, name: str) -> TierPlaces:
    """The placement with a role kept in the memory of a name; `weights` moves every part of them.

    Raises InputError for a role or a memory that is not there.
    """
    names = (MAIN, *(tier.name for tier in tiers))
    if name not in names:
        known = f"a memory of this chip ({', '.join(names)})" if tiers else "a chip with memory tiers"
        raise InputError(field, name, known, nearest(name, names))
    if role not in ROLES:
        raise InputError(field, role, f"what is kept in memory: {', '.join(ROLES)}", nearest(role, ROLES))
    others = {other: memory for other, memory in placement.items() if role != WEIGHTS or other == CACHE}
    return frozen({**others, role: name})


_FIGURES: Mapping[str, tuple[str, float]] = frozen({
    "capacity_gb": ("capacity", 1e9), "capacity_gib": ("capacity", 2.0**30), "bandwidth_gbs": ("bandwidth", 1e9),
    "pj_per_bit": ("energy", 1e-12), "inside_gbs": ("inside", 1e9), "inside_tflops": ("inside_flops", 1e12),
})  # fmt: skip
"""Key of a tier in a chip's file → its field and the factor to SI."""
MOST_TIERS = 8
"""Memory tiers of a chip."""


def tiers_from(field: str, table: Given) -> tuple[tuple[MemoryTier, ...], TierPlaces]:
    """The tiers of a chip's file, and what is kept in them.

    Raises InputError naming the key that is missing, unknown or not possible.
    """
    tiers, holds = list[MemoryTier](), dict[str, Sequence[str]]()
    for name, entry in tables_of(field, table):
        key, values = f"{field}.{name}", dict[str, float]()
        only_known(key, entry, (*_FIGURES, "kind", "holds"))
        for each, (figure, factor) in _FIGURES.items():
            if each in entry:
                if figure in values:
                    raise InputError(f"{key}.{each}", entry[each], f"one figure for {figure}, not two")
                values[figure] = positive(f"{key}.{each}", entry[each]) * factor
        kept = entry.get("holds", [])
        if not isinstance(kept, list) or not all(isinstance(role, str) for role in kept):
            raise InputError(f"{key}.holds", kept, "a list of what is kept there")
        holds[name] = kept
        tiers.append(tier_of_figures(field, name, values, word(f"{key}.kind", entry.get("kind", ""))))
    return tuple(tiers), kept_in(field, tiers, holds)


def tier_of_figures(field: str, name: str, values: Mapping[str, float], kind: str = "") -> MemoryTier:
    """A tier of its figures. Raises InputError where capacity or bandwidth is missing, or half of its arithmetic."""
    if name == MAIN or not name or plain_name(name) != name:
        raise InputError(field, name, f"a plain name, in lower case, other than {MAIN}")
    for figure, unit in (("capacity", "capacity_gb"), ("bandwidth", "bandwidth_gbs")):
        if figure not in values:
            raise InputError(f"{field}.{name}.{unit}", "nothing (missing key)", "a positive number")
    if ("inside" in values) is not ("inside_flops" in values):
        missing = "inside_tflops" if "inside" in values else "inside_gbs"
        raise InputError(f"{field}.{name}.{missing}", "nothing (missing key)", "both figures of arithmetic in memory")
    return MemoryTier(name=name, kind=kind, **values)


def kept_in(field: str, tiers: Sequence[MemoryTier], holds: Mapping[str, Sequence[str]]) -> TierPlaces:
    """The placement that tiers say. Raises InputError for too many of them, and for a role that two of them keep."""
    if len(tiers) > MOST_TIERS:
        raise InputError(field, len(tiers), f"at most {MOST_TIERS} memories beside the main one")
    pairs = [(role, name) for name, kept in holds.items() for role in kept]
    roles = [role for role, _ in pairs]
    if again := next((role for role in roles if roles.count(role) > 1), None):
        raise InputError(field, again, "a role that one memory keeps, not two")
    placement: TierPlaces = frozen({})
    for role, name in sorted(pairs, key=lambda pair: pair[0] != WEIGHTS):  # a part's own place after that of all
        placement = with_place(f"{field}.{name}.holds", placement, tiers, role, name)
    return placement
