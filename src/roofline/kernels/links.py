"""The law of one network level, and its fitted constants.

    t = (A^p + B^p)^(1/p),   A = α·(1 + Σ_k c_k·u_k²/(1 + u_k²)),   u_k = size/2^k,   B = f·size/(e·W)

A is the latency, which rises at each size where the library switches to a protocol for larger messages (c ≥ 0, so time
never falls with size). B is the time of the bytes that a rank sends at the share e of its bandwidth W. Without
measurements c = 0 and p = 0.7, an exponent that stands in for the protocols. `collective_constants.toml` holds α, e and
c, fitted by `benchmarks/fit_collectives.py`, with the error on held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from types import MappingProxyType

import numpy as np

from roofline.declared.numbers.maths import Count, where
from roofline.declared.trees import TomlTable
from roofline.hardware.chip_files import Tables, raw
from roofline.hardware.cluster import Level
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import FITTED_VENDOR, UNKNOWN, Grade, places, scattered_ends
from roofline.kernels.law import smooth_max

FILE = Path(__file__).with_name("collective_constants.toml")
KNOTS = tuple(float(2**k) for k in range(12, 26, 2))
"""Message sizes, in bytes, around which the latency may rise."""
SHARP = 0.7
"""The exponent p without measured rises: of 0.6 to 1, the best on 56 NCCL tables fitted without rises."""
LAUNCH = 5e-6
"""Seconds to start a collective where none was measured: an assumption, as is SHARE."""
SHARE = 0.75
"""Share of the link's bandwidth where none was measured."""
FEWEST = 12
"""Rows without which those bound by latency, or by bandwidth, have the interval of all."""
WIDER = 1.15
"""Factor on the interval for each doubling of ranks beyond those measured."""


LONE: Mapping[str, float] = MappingProxyType({"B": 0.28, "C": 0.56})
"""Grade → log deviation of a chip's links from constants of another of its generation, or of another generation, beside
the interval of that one's own sizes. It holds 80 % of the rows of each chip by the constants of each other one
(`benchmarks/fit_links.py`)."""
BY_RANKS: Mapping[str, Mapping[int, float]] = MappingProxyType({
    "all_gather": {2: 0.65, 4: 1.79, 8: 1.29},
    "all_reduce": {2: 1.39, 4: 0.89, 8: 0.92},
    "all_to_all": {2: 0.53, 4: 0.54, 8: 1.28},
    "reduce_scatter": {2: 0.68, 4: 2.21, 8: 1.05},
})  # fmt: skip
"""Op of NCCL → number of ranks → power of the ends of a chip's own interval, which is that of all its numbers of ranks,
though each runs algorithms and protocols of its own. It holds 80 % of the rows of sizes left out, and of
those of chips left out (`benchmarks/fit_ranks.py`)."""


@dataclass(frozen=True)
class Link:
    """Constants of one op among a number of ranks at one level.

    alpha: s. share: of the bandwidth, for the bytes of the ring algorithm. sharp: exponent p. rises: c_k at KNOTS.
    grade: A fitted on this chip, B on its generation or beyond the ranks measured, C on others or assumed. small,
    large: factors of the interval that holds 80 % of measurements, for latency-bound and bandwidth-bound sizes.
    """

    alpha: Count
    share: Count
    sharp: Count = SHARP
    rises: tuple[Count, ...] = ()
    grade: Grade = "C"
    small: tuple[Count, Count] = UNKNOWN
    large: tuple[Count, Count] = UNKNOWN

    def seconds(self, size: Count, moved: Count, bandwidth: Count) -> Count:
        """The law: `size` as nccl-tests counts it, `moved` the bytes that a rank sends, `bandwidth` in bytes/s."""
        latency = self.alpha * (1 + sum(c * (size / k) ** 2 / (1 + (size / k) ** 2) for c, k in self._rises))
        return smooth_max(self.sharp, latency, moved / (self.share * bandwidth))

    @property
    def _rises(self) -> list[tuple[Count, float]]:
        return list(zip(self.rises, KNOTS, strict=False))

    def interval(self, seconds: Count) -> tuple[Count, Count]:
        """Factors of the 80 % interval."""
        short = seconds < 3 * self.alpha
        return where(short, self.small[0], self.large[0]), where(short, self.small[1], self.large[1])


@cache
def _tables() -> TomlTable:
    return Tables(raw, FILE) if FILE.exists() else {}


def measured(chip: str, kind: str, op: str, software: str, ranks: int) -> Link | None:
    """The fitted constants: the chip's, its generation's, or those of the kind of link; None where none were fitted.

    An unmeasured release of an engine, `vllm 0.15.0`, has the constants of the newest measured one and the interval
    across releases, as does an engine without a release.

    Between measured numbers of ranks α, e and c follow log₂ n. Beyond them α is extrapolated, e and c stay constant.
    """
    named = chip_named(chip)
    for place, grade in places(named):
        entry = entry_of(place, kind, op, software)
        if entry:
            own = grade == "A" and software == "nccl" and named.vendor == FITTED_VENDOR
            return link_of(entry, ranks, grade, software, _power(op, ranks) if own else None)
    return None


def _power(op: str, ranks: int) -> float | None:
    """BY_RANKS at a number of ranks, between and beyond those known by log₂ n; None for other ops."""
    known = BY_RANKS.get(op)
    if known is None:
        return None
    return float(np.interp(np.log2(ranks), np.log2(list(known)), list(known.values())))


def measured_chips(kind: str, op: str, software: str) -> list[str]:
    """The chips with constants of their own."""
    own = (place for place in _tables() if place != "generic" and not place.startswith("generation-"))
    return [place for place in own if software in _tables()[place].get(kind, {}).get(op, {})]


def entry_of(place: str, kind: str, op: str, software: str) -> TomlTable | None:
    """The fitted constants of a chip, of a generation, or of all; an engine's where its release has none."""
    node = _tables().get(place, {}).get(kind, {}).get(op, {})
    entry: TomlTable | None = node.get(software) or node.get(software.partition(" ")[0])
    return entry


def held_out_error(chip: str, kind: str, op: str, software: str) -> float | None:
    """Mean absolute error of a chip's own constants on rows that took no part in their fit; None where it has none."""
    entry = entry_of(chip_named(chip).id, kind, op, software)
    return None if not entry else entry.get("mape")


def link_of(
    entry: TomlTable, ranks: int, grade: str, software: str | None = None, power: float | None = None
) -> Link:  # fmt: skip
    """The constants of an entry at a number of ranks; grade B at best beyond those measured.

    If the fitted rows are of `software` (or it is None), the interval is theirs; otherwise it is that across all
    releases, where others were measured. With `power` it is at least theirs, the ends to this power.

    Ends of few rows are moved outwards (`of_few`), those of half of the rows where both halves, bound by latency and by
    bandwidth, have FEWEST. The interval is wider by a tenth between the numbers of ranks measured, and by WIDER for
    each doubling beyond: four ranks predicted from two and eight, and eight from two and four, are 8 and 15 points
    worse than the rows themselves. Constants of a lone chip of a generation, or a lone generation of all, have LONE.
    """
    known = [float(np.log2(n)) for n in entry["ranks"]]
    log_ranks = float(np.log2(ranks))

    def at(values: list[float], grows: bool = False) -> float:
        value = float(np.interp(log_ranks, known, values))
        if grows and log_ranks > known[-1]:
            slope = (values[-1] - values[-2]) / (known[-1] - known[-2]) if len(known) > 1 else values[-1] / known[-1]
            value += max(0.0, slope) * (log_ranks - known[-1])
        return value

    most = entry.get("measured", entry["ranks"][-1])
    doublings = max(0.0, float(np.log2(ranks / most)))
    wide = WIDER**doublings * (1.0 if ranks in entry["ranks"] else 1.1)
    others = software is not None and "later_low" in entry and software != entry.get("release")
    names = ("low", "high", "low_small", "high_small")
    low, high, low_small, high_small = (entry[f"later_{k}" if others else k] for k in names)
    rows = entry.get("rows")
    few = of_few(rows / 2 if rows >= 2 * FEWEST else rows) if rows else 1.0
    if not others:
        low, high, low_small, high_small = (end ** (few * (power or 1.0)) for end in (low, high, low_small, high_small))
    elif power is not None:
        own = [entry[k] ** (few * power) for k in names]
        low, low_small = min(low, own[0]), min(low_small, own[2])
        high, high_small = max(high, own[1]), max(high_small, own[3])
    small, large = (low_small / wide, high_small * wide), (low / wide, high * wide)
    if entry.get("lone"):
        small, large = (scattered_ends(ends, LONE[grade]) for ends in (small, large))
    rises = tuple(at(list(column)) for column in zip(*entry["rises"], strict=True)) if entry.get("rises") else ()
    return Link(
        at(entry["alpha"], grows=True), at(entry["share"]), entry["sharp"], rises,
        "B" if grade == "A" and (doublings or ranks < entry["ranks"][0]) else grade,
        small, large,
    )  # fmt: skip


@cache
def of_few(rows: float) -> float:
    """Power of an interval's ends, so that they hold 80 % of further rows where they hold 80 % of so many.

    Between the quantiles at 10 and 90 % of n rows fall 0.8·(n − 1)/(n + 1) of further ones, for the k-th of n in order
    is exceeded with probability 1 − k/(n + 1). The logarithms are taken to be normal.

    >>> [round(of_few(n), 2) for n in (12, 25, 50, 1000)]
    [1.3, 1.14, 1.07, 1.0]
    """
    covered = 0.8 * (rows - 1) / (rows + 1)
    return NormalDist().inv_cdf(0.9) / NormalDist().inv_cdf(0.5 + covered / 2)


def assumed(level: Level, steps: int) -> Link:
    """Constants without measurements: α = LAUNCH + steps·latency of the level, e = SHARE, p = 0.7."""
    return Link(LAUNCH + steps * level.latency, SHARE)
