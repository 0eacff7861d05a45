"""The memories of a chip that an op reads and writes: bytes of each, and the seconds that they take.

Weights and cache are in the memory that keeps them (`hardware/tiers.py`), activations in the main one. At the speed of
light the memories transfer at the same time; kernels are expected to wait for one after another:

    least = max over memories of bytes / bandwidth,   expected = Σ over memories of bytes / bandwidth
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from roofline.declared.numbers.maths import Count, is_array, most
from roofline.hardware.chip import Chip
from roofline.hardware.tiers import CACHE, MemoryTier
from roofline.kernels.power import draw_of
from roofline.work import ops as o
from roofline.work.traffic import Moved


def bytes_by_memory(op: o.Op, moved: Moved, chip: Chip) -> Mapping[MemoryTier | None, Count]:
    """Bytes that an op moves in each memory: None is the main one."""
    cache: Count = moved.cache
    bytes_of: dict[MemoryTier | None, Count] = {None: moved.activations}
    for tier, amount in ((chip.tier_of(op.origin.part), moved.weights), (chip.tier_of(CACHE), cache)):
        if is_array(amount) or amount != 0:
            bytes_of[tier] = bytes_of.get(tier, 0) + amount
    return bytes_of


def bandwidth_of(chip: Chip, tier: MemoryTier | None) -> float:
    """Bytes a second of a memory."""
    return chip.bandwidth if tier is None else tier.bandwidth


def memory_seconds(op: o.Op, moved: Moved, chip: Chip) -> Count:
    """Seconds of an op's bytes at full bandwidth, those of one memory after those of another."""
    return sum(_each_seconds(op, moved, chip)) if chip.placement else moved.total / chip.bandwidth


def least_memory_seconds(op: o.Op, moved: Moved, chip: Chip) -> Count:
    """Seconds of an op's bytes at full bandwidth of all memories at once."""
    return reduce(most, _each_seconds(op, moved, chip)) if chip.placement else moved.total / chip.bandwidth


def _each_seconds(op: o.Op, moved: Moved, chip: Chip) -> list[Count]:
    return [amount / bandwidth_of(chip, tier) for tier, amount in bytes_by_memory(op, moved, chip).items()]


def drawing_seconds(op: o.Op, moved: Moved, chip: Chip) -> Count:
    """Seconds at full main bandwidth that take as many joules as an op's bytes take in their memories.

    A tier without joules a bit of its own draws what the main memory does for as many bytes.
    """
    draw = draw_of(chip)
    joules = 0.0 if draw is None else draw.memory / (8 * chip.bandwidth)
    total: Count = 0.0
    for tier, amount in bytes_by_memory(op, moved, chip).items():
        share = tier.energy / joules if tier is not None and tier.energy is not None and joules else 1.0
        total = total + share * amount / chip.bandwidth
    return total
