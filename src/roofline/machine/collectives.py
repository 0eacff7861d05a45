"""How long a group of chips takes to combine or exchange what they hold: bytes in closed form, steps, and time.

`size` is what nccl-tests prints as its size, in bytes: for all-reduce, all-to-all, broadcast and point to point the
buffer of one rank; for all-gather everything that a rank has in the end; for reduce-scatter everything it had at the
start. Sizes may be numbers or arrays; a group has a whole number of ranks.

The law of one level, per op, chip, link and number of ranks, is

    t = (A^p + B^p)^(1/p),   A = α·(1 + Σ_k c_k·u_k²/(1 + u_k²)),   u_k = size/2^k,   B = f·size/(e·W)

A is the latency, which rises each time the library changes to a protocol for larger messages (c ≥ 0, so time never
falls as size grows); B is the bytes a rank sends at the share e of its bandwidth W. Where nothing was measured, c = 0
and p = 0.7: the exponent stands for the protocols. `collective_constants.toml` holds α, e and c, fitted by
`benchmarks/fit_collectives.py`, with the error on rows that took no part.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from roofline.machine.chip import chip_named
from roofline.machine.constants import UNKNOWN, places
from roofline.machine.fabric import Cluster, Level, Part, part_of
from roofline.machine.law import smooth_max
from roofline.model.errors import InputError, not_one_of
from roofline.model.maths import Count

FILE = Path(__file__).with_name("collective_constants.toml")
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "p2p", "dispatch", "combine")
KNOTS = tuple(float(2**k) for k in range(12, 26, 2))
"""Sizes, bytes, about which the latency may rise."""
SHARP = 0.7
"""The exponent p where the rises were not measured: of 0.6 to 1, the best on 56 NCCL tables without rises."""
LAUNCH = 5e-6
"""Seconds to start a collective where none was measured: an assumption, as is SHARE."""
SHARE = 0.75
"""Share of the link's bandwidth where none was measured."""
WIDER = 1.15
"""Factor on the interval for each doubling of the ranks beyond those measured."""


# -- closed forms --------------------------------------------------------------------------------------------------
def _log2(n: int) -> int:
    """⌈log₂ n⌉."""
    return (n - 1).bit_length()


Bytes = Callable[[Count, int], Count]
Steps = Callable[[int], int]
ALGORITHMS: Mapping[str, Mapping[str, tuple[Bytes, Steps]]] = MappingProxyType({
    "all_reduce": {
        "ring": (lambda s, n: 2 * (n - 1) * s / n, lambda n: 2 * (n - 1)),
        "tree": (lambda s, n: 2 * s * (n > 1), lambda n: 2 * _log2(n)),
        "one_shot": (lambda s, n: (n - 1) * s, lambda n: int(n > 1)),
        "two_shot": (lambda s, n: 2 * (n - 1) * s / n, lambda n: 2 * (n > 1)),
        "in_switch": (lambda s, n: (n + 1) * s / n * (n > 1), lambda n: 2 * (n > 1)),
        "in_network": (lambda s, n: s * (n > 1), lambda n: int(n > 1)),
    },
    "all_gather": {
        "ring": (lambda s, n: (n - 1) * s / n, lambda n: n - 1),
        "direct": (lambda s, n: (n - 1) * s / n, lambda n: int(n > 1)),
    },
    "reduce_scatter": {
        "ring": (lambda s, n: (n - 1) * s / n, lambda n: n - 1),
        "direct": (lambda s, n: (n - 1) * s / n, lambda n: int(n > 1)),
    },
    "all_to_all": {
        "direct": (lambda s, n: (n - 1) * s / n, lambda n: n - 1),
        "ring": (lambda s, n: (n * n // 4) * s / n, lambda n: n // 2),
    },
    "broadcast": {
        "ring": (lambda s, n: s * (n > 1), lambda n: n - 1),
        "tree": (lambda s, n: 2 * s * (n > 1), _log2),
    },
    "p2p": {"direct": (lambda s, n: s * (n > 1), lambda n: int(n > 1))},
})  # fmt: skip
"""op → algorithm → (bytes the busiest rank sends, steps one after another), each of n ranks.

Ring, tree, one-shot (every rank reads every buffer), two-shot (a reduce-scatter and an all-gather, each in one step),
in-switch ((n+1)/n: the switch reads every buffer once and multicasts each rank's share), in-network (SHARP between
nodes).
An all-to-all on a bidirectional ring carries ⌊n²/4⌋/n of the buffer over a rank's links, relays included.
"""


def bytes_moved(op: str, algorithm: str, size: Count, ranks: int) -> Count:
    """Bytes that the busiest rank sends, relayed ones included. 0 for one rank.

    >>> bytes_moved("all_reduce", "ring", 800, 8)
    1400.0
    """
    return _algorithm(op, algorithm)[0](size, _ranks(ranks))


def steps(op: str, algorithm: str, ranks: int) -> int:
    """Steps that follow one another, each one link latency.

    >>> steps("all_reduce", "ring", 8), steps("all_reduce", "tree", 8)
    (14, 6)
    """
    return _algorithm(op, algorithm)[1](_ranks(ranks))


def hierarchical_bytes(op: str, size: Count, counts: tuple[int, ...]) -> tuple[Count, ...]:
    """Bytes a rank sends at each level, from the inside out, of an op done level by level.

    counts: how many parts of each level take part. All-reduce over g ranks in each of N nodes: a reduce-scatter and an
    all-gather of S inside, 2(g−1)/g·S, around an all-reduce of S/g outside, 2(N−1)/N·S/g. All-gather and reduce-scatter
    one of the two; the sum over the levels is the flat ring's. All-to-all sends (g−1)/(gN)·S inside, (N−1)/N·S outside.

    >>> hierarchical_bytes("all_reduce", 1600, (8, 2))
    (2800.0, 200.0)
    """
    sent: list[Count] = []
    outside = 1
    for count in counts:
        outside *= count
    inside = 1
    for count in counts:
        outside //= count
        if op in ("all_reduce", "all_gather", "reduce_scatter"):
            sent.append(bytes_moved(op, "ring", size / inside, count))
        elif op == "all_to_all":
            sent.append(bytes_moved(op, "direct", size / outside, count))
        else:
            sent.append(bytes_moved(op, "ring" if op == "broadcast" else "direct", size, count))
        inside *= count
    return tuple(sent)


def _ranks(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError("ranks", n, "a whole number of at least 1")
    return n


def _algorithm(op: str, algorithm: str) -> tuple[Bytes, Steps]:
    if op not in ALGORITHMS:
        raise not_one_of("collective", op, ALGORITHMS)
    known = ALGORITHMS[op]
    if algorithm not in known:
        raise not_one_of(f"{op} algorithm", algorithm, known)
    return known[algorithm]


# -- the law -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Link:
    """Constants of one op among some number of ranks at one level.

    alpha: s.  share: of the bandwidth, for the bytes of the ring algorithm.  sharp: exponent p.  rises: c_k at KNOTS.
    grade: A fitted on this chip, B on its generation or beyond the numbers of ranks measured, C on others or not at
    all.  small, large: factors of the interval that holds 80 % of measurements, where latency rules and where not.
    """

    alpha: Count
    share: Count
    sharp: float = SHARP
    rises: tuple[Count, ...] = ()
    grade: str = "C"
    small: tuple[float, float] = UNKNOWN
    large: tuple[float, float] = UNKNOWN

    def seconds(self, size: Count, moved: Count, bandwidth: Count) -> Count:
        """The law: `size` as nccl-tests counts it, `moved` the bytes a rank sends, bandwidth in bytes/s."""
        latency = self.alpha * (1 + sum(c * (size / k) ** 2 / (1 + (size / k) ** 2) for c, k in self._rises))
        return smooth_max(self.sharp, latency + 0.0 * size, moved / (self.share * bandwidth))

    @property
    def _rises(self) -> list[tuple[Count, float]]:
        return list(zip(self.rises, KNOTS, strict=False))

    def interval(self, seconds: Count) -> tuple[Count, Count]:
        """Factors of the 80 % interval."""
        short = np.asarray(seconds) < 3 * self.alpha
        low, high = (np.where(short, self.small[i], self.large[i]) for i in (0, 1))
        return low, high


@cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def measured(chip: str, kind: str, op: str, software: str, ranks: int) -> Link | None:
    """The fitted constants: the chip's, its generation's, those of the kind of link; None where none were fitted.

    An engine's release that was not measured, `vllm 0.15.0`, has the constants of the newest that was.

    Between the numbers of ranks measured, α, e and c follow log₂ n; above them α goes on rising as it did, e and c
    stay.
    """
    for place, grade in places(chip_named(chip)):
        node = _tables().get(place, {}).get(kind, {}).get(op, {})
        entry = node.get(software) or node.get(software.partition(" ")[0])
        if entry:
            return link_of(entry, ranks, grade)
    return None


def link_of(entry: Mapping[str, Any], ranks: int, grade: str) -> Link:
    """The constants of an entry at a number of ranks; grade B at best beyond those measured.

    The interval is wider by a tenth between the numbers of ranks measured, and by WIDER for each doubling beyond: four
    ranks from two and eight, and eight from two and four, are 8 and 15 points worse than the rows themselves.
    """
    known = [float(np.log2(n)) for n in entry["ranks"]]
    here = float(np.log2(ranks))

    def at(values: list[float], grows: bool = False) -> float:
        value = float(np.interp(here, known, values))
        if grows and here > known[-1]:
            slope = (values[-1] - values[-2]) / (known[-1] - known[-2]) if len(known) > 1 else values[-1] / known[-1]
            value += max(0.0, slope) * (here - known[-1])
        return value

    most = entry.get("measured", entry["ranks"][-1])
    doublings = max(0.0, float(np.log2(ranks / most)))
    wide = WIDER**doublings * (1.0 if ranks in entry["ranks"] else 1.1)
    low, high, low_small, high_small = (entry[k] for k in ("low", "high", "low_small", "high_small"))
    rises = tuple(at(list(column)) for column in zip(*entry["rises"], strict=True)) if entry.get("rises") else ()
    return Link(
        at(entry["alpha"], grows=True), at(entry["share"]), entry["sharp"], rises,
        "B" if grade == "A" and (doublings or ranks < entry["ranks"][0]) else grade,
        (low_small / wide, high_small * wide), (low / wide, high * wide),
    )  # fmt: skip


def assumed(level: Level, op: str, algorithm: str, ranks: int) -> Link:
    """Constants where nothing was measured: α = LAUNCH + steps·latency of the level, e = SHARE, p = 0.7."""
    return Link(LAUNCH + steps(op, algorithm, ranks) * level.latency, SHARE)


RING: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("all_to_all", "p2p", "dispatch", "combine"), "direct")
    | dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "broadcast"), "ring")
)
"""The algorithm whose bytes a fitted share is of."""
CHOICES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "switch": {"all_reduce": ("ring", "tree"), "all_gather": ("ring",), "reduce_scatter": ("ring",)},
    "mesh": {"all_reduce": ("two_shot", "one_shot"), "all_gather": ("direct",), "reduce_scatter": ("direct",)},
    "network": {"all_reduce": ("ring", "tree"), "all_gather": ("ring",), "reduce_scatter": ("ring",)},
})  # fmt: skip
"""What a library may choose from on a kind of level that nobody measured; elsewhere the ring, or direct."""


# -- one level -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Transfer:
    """A collective's time, seconds.

    `floor`: bytes at full bandwidth, without latency, by the algorithm that needs fewest. `expected`, and `low` and
    `high`, the interval that 80 % of measurements fall in. `fixed`: the latency of the smallest message. `moved`: bytes
    a rank sends at each level, by its name. `grade`: A fitted on this chip, B on its generation, C on others.
    """

    floor: Count
    expected: Count
    low: Count
    high: Count
    fixed: Count
    moved: tuple[tuple[str, Count], ...]
    grade: str


def least_bytes(op: str, size: Count, part: Part) -> Count:
    """Bytes over the links of the busiest rank by the algorithm that needs fewest; a torus counts its relays."""
    n = part.count
    if op == "all_reduce":
        ring = bytes_moved(op, "ring", size, n)
        if not part.level.in_switch:
            return ring
        switched = "in_network" if part.level.kind == "network" else "in_switch"
        return np.minimum(ring, bytes_moved(op, switched, size, n))
    if op == "all_to_all" and part.axes and part.level.kind in ("torus", "ring"):
        return _crossing(size, part)
    if op in ("dispatch", "combine"):
        return 0.0 * size  # how much stays on a rank is up to the router
    return bytes_moved(op, RING[op], size, n)


def _crossing(size: Count, part: Part) -> Count:
    """Bytes of an all-to-all on a torus or ring, so that bytes over the bandwidth is the time of its busiest axis.

    A byte travels ⌊d²/4⌋/d steps on average along a closed axis of d chips, over the two links that a rank has on it.
    The middle link of an open axis carries twice as much; the bandwidth of a part that is open is halved already.
    """
    return size * max((d * d // 4) / d for d in part.axes) * len(part.axes)


def floor_of(op: str, size: Count, part: Part) -> Count:
    """Seconds of the least bytes at the full bandwidth of the level, without latency."""
    return least_bytes(op, size, part) / part.bandwidth


def on_level(op: str, size: Count, part: Part, chip: str, software: str) -> tuple[Count, Link]:
    """Seconds at one level, and the constants that gave them."""
    n, kind = part.count, part.level.kind
    algorithm = RING[op]
    speed = part.pair if op == "p2p" else part.bandwidth
    found = measured(chip, kind, op, software, n) or measured(chip, kind, op, "nccl", n)
    if found is None and op in ("broadcast", "p2p") and kind != "torus":
        near = measured(chip, kind, "all_gather", "nccl", n)
        found = near and replace(near, grade="C", small=UNKNOWN, large=UNKNOWN)
    if kind in ("torus", "ring") and found is None:
        hops = sum(d // 2 if part.wrapped else d - 1 for d in part.axes) if op != "p2p" else 1
        link = Link(LAUNCH + (2 if op == "all_reduce" else 1) * hops * part.level.latency, SHARE)
        moved = _crossing(size, part) if op == "all_to_all" else bytes_moved(op, algorithm, size, n)
        return link.seconds(size, moved, speed), link
    if found is not None:
        return found.seconds(size, bytes_moved(op, algorithm, size, n), speed), found
    best: tuple[Count, Link] | None = None
    for name in CHOICES.get(kind, {}).get(op, (algorithm,)):
        link = assumed(part.level, op, name, n)
        seconds = link.seconds(size, bytes_moved(op, name, size, n), speed)
        best = (seconds, link) if best is None else (np.minimum(best[0], seconds), best[1])
    assert best is not None
    return best


# -- a cluster -----------------------------------------------------------------------------------------------------
Timed = tuple[Count, Count, Count, Count, str]
"""Seconds: expected, low, high, fixed; and the grade."""


def collective(
    op: str,
    size: Count,
    ranks: int,
    cluster: Cluster,
    *,
    stride: int = 1,
    software: str = "nccl",
    crossing: float = 1.0,
    landing: float = 0.0,
) -> Transfer:
    """The time of one collective among `ranks` chips of a cluster, every `stride`-th; sizes as nccl-tests counts them.

    Within one level it is the law. Across levels it is the faster of one ring over all at the slowest bandwidth and
    of the op done level by level (`hierarchical_bytes`). `software` names the engine whose own all-reduce may be
    faster than NCCL's (vllm, trtllm, sglang; `vllm-eager` outside a CUDA graph; `vllm 0.14.0` for one release).
    Outside a CUDA graph it has no choice: the host's launches are in its time, and not in NCCL's. `dispatch` and
    `combine` are expert parallelism's exchanges by DeepEP, size the bytes that a rank's tokens have for all their
    experts; `crossing` is the share of them that goes from node to node, where a token is sent once, `landing` the
    share that goes to distinct ranks: with evenly loaded experts no exchange moves less. Where it is 0, how much stays
    on a rank is up to the router, and the floor is 0. Zero bytes or one rank take no time.

    Raises InputError for an op or a group there is not, or a negative size.
    """
    if op not in OPS:
        raise not_one_of("collective", op, OPS)
    if isinstance(size, bool) or np.any(np.asarray(size) < 0) or not np.all(np.isfinite(np.asarray(size, dtype=float))):
        raise InputError("size", size, "bytes, zero or more")
    size = np.asarray(size, dtype=float)
    parts = cluster.span(_ranks(ranks), stride)
    if not parts:
        zero = 0.0 * size
        return Transfer(zero, zero, zero, zero, zero, (), "A")
    floor, moved = _floor(op, size, parts, crossing, landing)
    options = _options(op, size, parts, cluster.chip, software, crossing)
    expected, low, high, fixed, grade = options[0]
    for other in options[1:]:
        faster = other[0] < expected
        grade = other[4] if np.all(faster) else grade if not np.any(faster) else max(grade, other[4])
        low, high, fixed = (np.where(faster, o, b) for o, b in zip(other[1:4], (low, high, fixed), strict=True))
        expected = np.where(faster, other[0], expected)
    some = size > 0
    expected = np.where(some, np.maximum(expected, floor), 0.0)
    low = np.where(some, np.maximum(low, floor), 0.0)
    high = np.where(some, np.maximum(high, expected), 0.0)
    fixed = np.where(some, np.minimum(fixed, expected), 0.0)  # of another way, it may be longer than the faster one
    return Transfer(floor, expected, low, high, fixed, moved, grade)


def _floor(
    op: str, size: Count, parts: tuple[Part, ...], crossing: float, landing: float
) -> tuple[Count, tuple[tuple[str, Count], ...]]:
    """The busiest level's least bytes at full bandwidth, and the bytes at each level."""
    names = [p.level.name for p in parts]
    if op in ("dispatch", "combine"):
        sent = hierarchical_bytes("all_to_all", size, tuple(p.count for p in parts))
        inner, nodes = parts[0], _count(parts[1:])
        inside = landing * size * (inner.count - 1) / inner.count / inner.bandwidth
        slow = min(p.bandwidth for p in parts[1:]) if nodes > 1 else 1.0
        across = (landing > 0) * crossing * size * (nodes - 1) / nodes / slow
        return np.maximum(inside, across), tuple(zip(names, sent, strict=True))
    if op == "p2p":
        return size / parts[-1].level.bandwidth, ((names[-1], size),)
    moved = hierarchical_bytes(op, size, tuple(p.count for p in parts))
    floor = 0.0 * size
    inside, outside = 1, _count(parts)
    for part in parts:
        outside //= part.count
        held = size / outside if op == "all_to_all" else size if op == "broadcast" else size / inside
        floor = np.maximum(floor, floor_of(op, held, part))
        inside *= part.count
    return floor, tuple(zip(names, moved, strict=True))


def _count(parts: tuple[Part, ...]) -> int:
    total = 1
    for part in parts:
        total *= part.count
    return total


def _options(
    op: str, size: Count, parts: tuple[Part, ...], chip: str, software: str, crossing: float = 1.0
) -> list[Timed]:
    """The ways to do it, of which the fastest is taken."""
    if op in ("dispatch", "combine"):
        link = measured(chip, parts[0].level.kind, op, "deepep", _count(parts))
        if link is not None:
            return [_timed(link.seconds(size, size, parts[0].level.bandwidth), link)]
        op = "all_to_all"
    if op == "p2p":
        return [_timed(*on_level(op, size, replace(parts[-1], count=2), chip, "nccl"))]
    if len(parts) > 1:
        everyone = part_of(replace(parts[-1].level, kind="network", axes=(), in_switch=False), _count(parts))
        slowest = min(p.bandwidth for p in parts)
        flat = on_level(op, size, replace(everyone, bandwidth=slowest), chip, "nccl")
        return [_timed(*flat), _by_level(op, size, parts, chip, software, crossing)]
    ways = [_timed(*on_level(op, size, parts[0], chip, "nccl"))]
    if op == "all_reduce" and software != "nccl":
        own = measured(chip, parts[0].level.kind, op, software, parts[0].count)
        if own is not None:
            moved = bytes_moved(op, "ring", size, parts[0].count)
            timed = _timed(own.seconds(size, moved, parts[0].bandwidth), own)
            ways = [timed] if "-eager" in software else [*ways, timed]
    return ways


def _timed(seconds: Count, link: Link) -> Timed:
    low, high = link.interval(seconds)
    return seconds, low * seconds, high * seconds, link.alpha + 0.0 * np.asarray(seconds), link.grade


def _by_level(op: str, size: Count, parts: tuple[Part, ...], chip: str, software: str, crossing: float = 1.0) -> Timed:
    """Level by level, in pieces that follow one another: latencies add up, the levels' transfers overlap.

    So t = Σ fixed + max over levels of (t − fixed). NCCL on 4 nodes of 8 B200, 400 Gb/s each: 22 ms for 4 GiB, which is
    the outer level's 21.5 ms and not the sum of 31.
    """
    inner, rest = parts[0], parts[1:]
    if op == "all_to_all":
        phases, held = [(op, size / _count(rest))], crossing * size
    else:
        held = size if op == "broadcast" else size / inner.count
        names = ("reduce_scatter", "all_gather") if op == "all_reduce" else (op,)
        phases = [(name, size) for name in names]
    inside = [_timed(*on_level(name, part, inner, chip, "nccl")) for name, part in phases]
    outside = _outside(op, held, rest, chip, software)
    fixed = sum(t[3] for t in inside) + outside[3]

    def joined(i: int) -> Count:
        within = sum(np.maximum(t[i] - t[3], 0.0) for t in inside)
        return fixed + np.maximum(within, np.maximum(outside[i] - outside[3], 0.0))

    grade = max(outside[4], *(t[4] for t in inside))
    short = 0.5 * fixed  # a low end below the latency: half of it, as where nothing was measured
    return joined(0), joined(1) - short, joined(2) + fixed, fixed, grade


def _outside(op: str, size: Count, parts: tuple[Part, ...], chip: str, software: str) -> Timed:
    if len(parts) > 1:
        return _by_level(op, size, parts, chip, software)
    return _timed(*on_level(op, size, parts[0], chip, "nccl"))
