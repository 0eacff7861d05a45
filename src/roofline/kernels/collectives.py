"""Collectives among chips: bytes in closed form, steps, and time.

`size` is the size in bytes that nccl-tests prints. For all-reduce, all-to-all, broadcast and point to point it is the
buffer of one rank; for all-gather all that a rank has in the end; for reduce-scatter all that it had at the start.
Sizes, ranks and strides may be numbers or arrays.

The links that a group crosses, and the algorithms it may use, are determined once per group as a `Route`. Its time is
then arithmetic on the size, for one group or for many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, lru_cache, reduce
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, is_array, least, most, where
from roofline.hardware.cluster import MOST, Cluster, LevelPart, level_part
from roofline.kernels.constants import UNKNOWN, Grade, worse
from roofline.kernels.exchanges import Routing, exchange_constants
from roofline.kernels.links import SHARE, Link, assumed, measured

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "p2p", "dispatch", "combine")


# -- closed forms --------------------------------------------------------------------------------------------------
def _log2(n: int) -> int:
    """⌈log₂ n⌉."""
    return (n - 1).bit_length()


Bytes = Callable[[Count, int], Count]
Turns = Callable[[int], int]
ALGORITHMS: Mapping[str, Mapping[str, tuple[Bytes, Turns]]] = MappingProxyType({
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
    """Bytes that the busiest rank sends, including relayed ones; 0 for one rank.

    >>> bytes_moved("all_reduce", "ring", 800, 8)
    1400.0
    """
    return _algorithm(op, algorithm)[0](size, _ranks(ranks))


def steps(op: str, algorithm: str, ranks: int) -> int:
    """Number of consecutive steps, each taking one link latency.

    >>> steps("all_reduce", "ring", 8), steps("all_reduce", "tree", 8)
    (14, 6)
    """
    return _algorithm(op, algorithm)[1](_ranks(ranks))


def hierarchical_bytes(op: str, size: Count, counts: tuple[int, ...]) -> tuple[Count, ...]:
    """Bytes a rank sends at each level, innermost first, for an op done level by level.

    counts: parts of each level that take part. All-reduce over g ranks in each of N nodes: a reduce-scatter and an
    all-gather of S inside, 2(g−1)/g·S, around an all-reduce of S/g outside, 2(N−1)/N·S/g. All-gather and reduce-scatter
    are one half of that; the sum over the levels is the flat ring's. All-to-all sends (g−1)/(gN)·S inside and (N−1)/N·S
    outside.

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


def _ranks(n: object) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InputError("ranks", n, "a whole number of at least 1")
    return n


def _algorithm(op: str, algorithm: str) -> tuple[Bytes, Turns]:
    if op not in ALGORITHMS:
        raise not_one_of("collective", op, ALGORITHMS)
    known = ALGORITHMS[op]
    if algorithm not in known:
        raise not_one_of(f"{op} algorithm", algorithm, known)
    return known[algorithm]


# -- one level -----------------------------------------------------------------------------------------------------
RING: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("all_to_all", "p2p", "dispatch", "combine"), "direct")
    | dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "broadcast"), "ring")
)
"""The algorithm whose bytes a fitted share of the bandwidth refers to."""
CHOICES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "switch": {"all_reduce": ("ring", "tree"), "all_gather": ("ring",), "reduce_scatter": ("ring",)},
    "mesh": {"all_reduce": ("two_shot", "one_shot"), "all_gather": ("direct",), "reduce_scatter": ("direct",)},
    "network": {"all_reduce": ("ring", "tree"), "all_gather": ("ring",), "reduce_scatter": ("ring",)},
})  # fmt: skip
"""Algorithms available on a kind of level without measurements; elsewhere ring or direct."""


def least_bytes(op: str, part: LevelPart) -> float:
    """Bytes over the links of the busiest rank per byte of size, relays included, by the algorithm that needs
    fewest."""
    n = part.count
    if op == "all_reduce":
        ring = bytes_moved(op, "ring", 1.0, n)
        if not part.level.in_switch:
            return float(ring)
        switched = "in_network" if part.level.kind == "network" else "in_switch"
        return min(float(ring), float(bytes_moved(op, switched, 1.0, n)))
    if op == "all_to_all" and part.axes and part.level.kind in ("torus", "ring"):
        return _crossing(part)
    return float(bytes_moved(op, RING[op], 1.0, n))


def _crossing(part: LevelPart) -> float:
    """Bytes of an all-to-all of size 1 on a torus or ring, scaled so that dividing by the bandwidth gives its time.

    A byte travels ⌊d²/4⌋/d steps on average along a closed axis of d chips, over the two links that a rank has on it.
    The middle link of an open axis carries twice as much; an open part's bandwidth is halved already.
    """
    return max((d * d // 4) / d for d in part.axes) * len(part.axes)


@dataclass(frozen=True)
class Hop:
    """An op on one level: `share` of the collective's size goes through it, by the faster of `ways`.

    A way: the constants, and the bytes that a rank sends of one byte of size. `bandwidth`: bytes/s.
    """

    share: Count
    ways: tuple[tuple[Link, Count], ...]
    bandwidth: Count

    def timed(self, size: Count) -> Timed:
        """Seconds for a collective of `size` bytes; the interval is that of the first way."""
        size = size * self.share
        seconds = reduce(least, (link.seconds(size, sent * size, self.bandwidth) for link, sent in self.ways))
        link = self.ways[0][0]
        low, high = link.interval(seconds)
        return Timed(seconds, low * seconds, high * seconds, link.alpha, link.grade)


@dataclass(frozen=True)
class Timed:
    """Expected seconds, the interval's ends, the latency included, and the grade."""

    expected: Count
    low: Count
    high: Count
    fixed: Count
    grade: Grade


@dataclass(frozen=True)
class Sending:
    """A dispatch or combine: its latency, and seconds per byte of size over the scale-up link and over the NIC.

    Transfers inside and across nodes run concurrently. The interval is `small`'s up to three latencies.
    """

    alpha: Count
    inside: Count
    across: Count
    grade: Grade
    small: tuple[Count, Count]
    large: tuple[Count, Count]

    def timed(self, size: Count) -> Timed:
        """Seconds for `size`, the bytes of all copies of a rank's tokens."""
        seconds = self.alpha + most(self.inside * size, self.across * size)
        short = seconds < 3 * self.alpha
        low, high = (where(short, a, b) for a, b in zip(self.small, self.large, strict=True))
        return Timed(seconds, low * seconds, high * seconds, self.alpha, self.grade)


@dataclass(frozen=True)
class Levels:
    """An op done level by level, pipelined in pieces: latencies add up, the levels' transfers overlap.

    So t = Σ fixed + max over levels of (t − fixed). NCCL on 4 nodes of 8 B200, 400 Gb/s each: 22 ms for 4 GiB, which is
    the outer level's 21.5 ms and not the sum of 31.
    """

    inside: tuple[Hop, ...]
    outside: Hop | Levels

    def timed(self, size: Count) -> Timed:
        """Seconds for a collective of `size` bytes."""
        inner, outer = [hop.timed(size) for hop in self.inside], self.outside.timed(size)
        fixed, grade = outer.fixed, outer.grade
        for t in inner:
            fixed, grade = t.fixed + fixed, worse(grade, t.grade)

        def joined(end: Callable[[Timed], Count]) -> Count:
            within: Count = 0.0
            for t in inner:
                within = within + most(end(t) - t.fixed, 0.0)
            return fixed + most(within, most(end(outer) - outer.fixed, 0.0))

        short = 0.5 * fixed  # low end below the latency: half of it, as without measurements
        return Timed(
            joined(lambda t: t.expected), joined(lambda t: t.low) - short, joined(lambda t: t.high) + fixed, fixed,
            grade,
        )  # fmt: skip


def hop(op: str, share: float, part: LevelPart, chip: str, software: str = "nccl") -> Hop:
    """An op on one level, by the constants that serve it."""
    n, kind = part.count, part.level.kind
    algorithm = RING[op]
    speed = part.pair if op == "p2p" else part.bandwidth
    link = measured(chip, kind, op, software, n) or measured(chip, kind, op, "nccl", n)
    if link is None and op in ("broadcast", "p2p") and kind != "torus":
        near = measured(chip, kind, "all_gather", "nccl", n)
        link = near and replace(near, grade="C", small=UNKNOWN, large=UNKNOWN)
    if link is not None:
        return Hop(share, ((link, float(bytes_moved(op, algorithm, 1.0, n))),), speed)
    if kind in ("torus", "ring"):
        hops = sum(d // 2 if part.wrapped else d - 1 for d in part.axes) if op != "p2p" else 1
        link = Link((2 if op == "all_reduce" else 1) * hops * part.level.latency, SHARE, 1.0)
        factor = _crossing(part) if op == "all_to_all" else float(bytes_moved(op, algorithm, 1.0, n))
        return Hop(share, ((link, factor),), speed)
    names = CHOICES.get(kind, {}).get(op, (algorithm,))
    ways = ((assumed(part.level, steps(op, name, n)), float(bytes_moved(op, name, 1.0, n))) for name in names)
    return Hop(share, tuple(ways), speed)


# -- a group of chips ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Route:
    """One op in one group: the ways it may take, and a lower bound.

    `floor`: seconds at full bandwidth, `moved`: bytes that a rank sends at each level, both per byte of size.
    """

    floor: Count
    moved: tuple[tuple[str, Count], ...]
    ways: tuple[Hop | Levels | Sending, ...]


@lru_cache(maxsize=4096)
def route(op: str, ranks: int, stride: int, cluster: Cluster, software: str, routing: Routing | None) -> Route | None:
    """The route of a group of every `stride`-th chip of a cluster; None for one rank."""
    parts = cluster.span(ranks, stride)
    if not parts:
        return None
    if op == "p2p":
        first = cluster.to_rails(parts[-1], stride)
        parts = (*([] if first is None else [first]), alone_above(parts[-1], stride, cluster))
    crossing, landing = 1.0, 0.0
    if routing is not None:
        crossing, landing = routing.sent(ranks // parts[0].count), routing.sent(ranks)
    floor, moved = _floor(op, parts, crossing, landing)
    if routing is not None and op in ("dispatch", "combine"):
        moved = _sent(routing, parts, moved)
    own = sending(op, parts, cluster.chip, routing or Routing()) if op in ("dispatch", "combine") else None
    ways = (own,) if own is not None else tuple(_ways(op, parts, cluster.chip, software, crossing))
    return Route(floor, moved, ways)


def alone_above(part: LevelPart, senders: int, cluster: Cluster) -> LevelPart:
    """A level for `senders` chips of one of its parts, such as a stage's that send to the next stage.

    Where its links are oversubscribed o times and c chips share those of a part, each of s senders has
    min(o, c / s) times its share, up to its own links.
    """
    level = part.level
    inside = math.prod(x.size for x in cluster.levels[: [x.name for x in cluster.levels].index(level.name)])
    more = min(level.oversubscription, max(1.0, inside / senders))
    return (
        part
        if more == 1
        else replace(
            part,
            bandwidth=part.bandwidth * more,
            level=replace(level, bandwidth=level.bandwidth * more, oversubscription=level.oversubscription / more),
        )
    )


def _floor(
    op: str, parts: tuple[LevelPart, ...], crossing: float, landing: float
) -> tuple[float, tuple[tuple[str, Count], ...]]:
    """The busiest level's least bytes at full bandwidth, and the bytes at each level, for a byte of size."""
    names, counts = [p.level.name for p in parts], tuple(p.count for p in parts)
    if op in ("dispatch", "combine"):
        sent = hierarchical_bytes("all_to_all", 1.0, counts)
        inner, nodes = parts[0], _count(parts[1:])
        inside = landing * (inner.count - 1) / inner.count / inner.bandwidth
        slow = min(p.bandwidth for p in parts[1:]) if nodes > 1 else 1.0
        across = (landing > 0) * crossing * (nodes - 1) / nodes / slow
        return max(inside, across), tuple(zip(names, sent, strict=True))
    if op == "p2p":
        return 1.0 / parts[-1].level.bandwidth, ((names[-1], 1.0),)
    floor, inside, outside = 0.0, 1, _count(parts)
    for part in parts:
        outside //= part.count
        share = 1.0 / outside if op == "all_to_all" else 1.0 if op == "broadcast" else 1.0 / inside
        floor = max(floor, share * least_bytes(op, part) / part.bandwidth)
        inside *= part.count
    return floor, tuple(zip(names, hierarchical_bytes(op, 1.0, counts), strict=True))


def sending(op: str, parts: tuple[LevelPart, ...], chip: str, routing: Routing) -> Sending | None:
    """A dispatch or combine by the law of `roofline.kernels.exchanges`; None on links without such kernels."""
    inner = parts[0] if parts[0].level.kind == "switch" else None
    outer = parts if inner is None else parts[1:]
    ranks, nodes = _count(parts), _count(outer)
    constants = exchange_constants(chip, op, routing.kernel, nodes)
    if constants is None or any(p.level.kind not in ("switch", "network") for p in parts):
        return None
    inside, across = 0.0, 0.0
    if inner is not None:
        inside = routing.inside(ranks, nodes) / (constants.inside * inner.bandwidth)
    if outer:
        across = routing.across(nodes) / (constants.across * min(p.bandwidth for p in outer))
    return Sending(constants.alpha, inside, across, constants.grade, constants.small, constants.large)


def _sent(
    routing: Routing, parts: tuple[LevelPart, ...], copies: tuple[tuple[str, Count], ...]
) -> tuple[tuple[str, Count], ...]:
    """Bytes at each level of the copies that remain under the routing, given those of all copies."""
    (name, _), *outer = copies
    nodes = _count(parts[1:])
    once = 1.0 if routing.kernel == "low_latency" else routing.sent(nodes)
    return (name, routing.inside(parts[0].count * nodes, nodes)), *((n, share * once) for n, share in outer)


def _count(parts: tuple[LevelPart, ...]) -> int:
    total = 1
    for part in parts:
        total *= part.count
    return total


LIBRARIES = ("nccl", "pytorch")
"""Libraries that run every collective; other software has its own kernels for some and uses NCCL's for the rest."""


def _ways(op: str, parts: tuple[LevelPart, ...], chip: str, software: str, crossing: float) -> Iterator[Hop | Levels]:
    """The possible ways, of which the fastest is taken; for an engine outside a CUDA graph only its own."""
    if op in ("dispatch", "combine"):
        op = "all_to_all"
    library = software if software in LIBRARIES else "nccl"
    if op == "p2p":
        last = hop(op, 1.0, replace(parts[-1], count=2), chip, library)
        yield last if len(parts) == 1 else Levels((hop(op, 1.0, parts[0], chip, library),), last)
    elif len(parts) > 1 and op == "all_to_all" and parts[-1].level.rails:
        yield _by_level(op, 1.0, parts, chip, software, crossing)
    elif len(parts) > 1:
        everyone = level_part(replace(parts[-1].level, kind="network", axes=(), in_switch=False), _count(parts))
        yield hop(op, 1.0, replace(everyone, bandwidth=min(p.bandwidth for p in parts)), chip, library)
        yield _by_level(op, 1.0, parts, chip, software, crossing)
    else:
        own = None
        if op == "all_reduce" and software != library:
            own = measured(chip, parts[0].level.kind, op, software, parts[0].count)
        if own is None or "-eager" not in software:
            yield hop(op, 1.0, parts[0], chip, library)
        if own is not None:
            yield Hop(1.0, ((own, float(bytes_moved(op, "ring", 1.0, parts[0].count))),), parts[0].bandwidth)


def _by_level(
    op: str, share: float, parts: tuple[LevelPart, ...], chip: str, software: str, crossing: float = 1.0
) -> Levels:
    """A reduce-scatter and an all-gather inside around an all-reduce outside, and so on."""
    inner, rest = parts[0], parts[1:]
    if op == "all_to_all":
        phases, beyond = [(op, share / _count(rest))], crossing * share
    else:
        names = ("reduce_scatter", "all_gather") if op == "all_reduce" else (op,)
        phases, beyond = [(name, share) for name in names], share if op == "broadcast" else share / inner.count
    inside = tuple(hop(name, part, inner, chip) for name, part in phases)
    outside = _by_level(op, beyond, rest, chip, software) if len(rest) > 1 else hop(op, beyond, rest[0], chip, software)
    return Levels(inside, outside)


# -- many groups ---------------------------------------------------------------------------------------------------
Tree = TypeVar("Tree")


def leaves(tree: object) -> Iterator[float]:
    """The numbers of a tree of dataclasses and tuples, in order; a grade becomes a number."""
    if isinstance(tree, str):
        yield float(ord(tree))
    elif isinstance(tree, tuple):
        for branch in tree:
            yield from leaves(branch)
    elif is_dataclass(tree):
        for name in _names(tree.__class__):
            yield from leaves(getattr(tree, name))
    else:
        yield float(tree)  # type: ignore[arg-type]


def form(tree: object) -> object:
    """The structure of a tree without its numbers."""
    if isinstance(tree, tuple):
        return tuple(form(branch) for branch in tree)
    if is_dataclass(tree):
        return type(tree), *(form(getattr(tree, field.name)) for field in fields(tree))
    return None


def rebuilt(tree: Tree, numbers: Iterator[Any]) -> Tree:
    """The tree with other numbers, such as arrays, in the order of `leaves`."""
    if isinstance(tree, str):
        return next(numbers).astype(np.uint32).view("<U1")  # type: ignore[no-any-return]
    if isinstance(tree, tuple):
        return tuple([rebuilt(branch, numbers) for branch in tree])  # type: ignore[return-value]
    if is_dataclass(tree):
        kind: Any = tree.__class__
        return kind(*[rebuilt(getattr(tree, name), numbers) for name in _names(kind)])  # type: ignore[no-any-return]
    return next(numbers)  # type: ignore[no-any-return]


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@lru_cache(maxsize=4096)
def _flat(way: Route) -> tuple[object, tuple[float, ...]]:
    """The form and the numbers of a route, without the bytes at each level, whose names differ."""
    plain = replace(way, moved=())
    return form(plain), tuple(leaves(plain))


def many(routes: Sequence[Route], index: Array) -> Route:
    """Merge routes of one form into one with arrays: element i has the numbers of routes[index[i]]."""
    numbers = np.array([_flat(r)[1] for r in routes]).T[:, index]
    return rebuilt(replace(routes[0], moved=()), iter(numbers))


# -- time ----------------------------------------------------------------------------------------------------------
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
    grade: Grade


NOTHING = Transfer(0.0, 0.0, 0.0, 0.0, 0.0, (), "A")


def timed(way: Route, size: Count) -> Transfer:
    """The time of a route for a size, that of its fastest way; zero bytes take no time."""
    first, *others = (w.timed(size) for w in way.ways)
    expected, low, high, fixed, grade = first.expected, first.low, first.high, first.fixed, first.grade
    for other in others:
        faster = other.expected < expected
        low, high, fixed, expected, grade = (
            where(faster, getattr(other, name), value)
            for name, value in (
                ("low", low),
                ("high", high),
                ("fixed", fixed),
                ("expected", expected),
                ("grade", grade),
            )
        )
    floor, any_bytes = way.floor * size, size > 0
    expected = where(any_bytes, most(expected, floor), 0.0)
    low, high = where(any_bytes, most(low, floor), 0.0), where(any_bytes, most(high, expected), 0.0)
    fixed = where(any_bytes, least(fixed, expected), 0.0)  # of another way, it may be longer than the faster one
    return Transfer(floor, expected, low, high, fixed, tuple((n, f * size) for n, f in way.moved), grade)


def collective(
    op: str, size: Count, ranks: Count, cluster: Cluster, *, stride: Count = 1, software: str = "nccl",
    routing: Routing | None = None,
) -> Transfer:  # fmt: skip
    """The time of one collective among `ranks` chips of a cluster, every `stride`-th; sizes as nccl-tests counts them.

    Within one level it is the law. An all-to-all over rails is done level by level: inside to the chip on the rail of
    its destination, then along that rail. Across other levels it is the faster of one ring over all at the slowest
    bandwidth and of the op done level by level (`hierarchical_bytes`). `software` names the engine whose own all-reduce
    may be faster than NCCL's (vllm, trtllm, sglang; `vllm-eager` outside a CUDA graph; `vllm 0.14.0` for one release),
    or the library that runs all of them: nccl, or pytorch, whose ranks also wait for one another. Outside a CUDA graph
    it has no choice: the host's launches are in its time, and not in NCCL's. `dispatch` and `combine` are expert
    parallelism's exchanges by DeepEP, size the bytes that a rank's tokens have for all their experts; `routing` says
    how many ranks and nodes a token goes to, to each once: with evenly loaded experts no exchange moves less. Where it
    is not given, how much stays on a rank is up to the router, and the floor is 0. Zero bytes or one rank take no time.
    Arrays broadcast, and each group of ranks is understood once.

    Raises InputError for an op or a group there is not, or a negative size.
    """
    if op not in OPS:
        raise not_one_of("collective", op, OPS)
    if isinstance(size, bool) or not np.all(np.isfinite(size)) or np.any(np.asarray(size) < 0):
        raise InputError("size", size, "bytes, zero or more")
    if not is_array(ranks) and not is_array(stride):
        alone = route(op, _ranks(ranks), _ranks(stride), cluster, software, routing)
        return NOTHING if alone is None else timed(alone, size)
    arrays = np.broadcast_arrays(size, ranks, stride)
    if arrays[0].size > SMALL:
        return _of_many(op, arrays[0], arrays[1], arrays[2], cluster, software, routing)
    sizes, counts, strides = (a.astype(float) for a in arrays)
    key = (sizes.tobytes(), counts.tobytes(), strides.tobytes(), sizes.shape)
    return _of_few(op, *key, cluster, software, routing)


SMALL = 512
"""Most elements of arrays whose collectives are cached, as layers repeat the collectives of a step."""


@lru_cache(maxsize=1024)
def _of_few(
    op: str, sizes: bytes, ranks: bytes, strides: bytes, shape: tuple[int, ...], cluster: Cluster, software: str,
    routing: Routing | None,
) -> Transfer:  # fmt: skip
    size, count, stride = (np.frombuffer(v).reshape(shape) for v in (sizes, ranks, strides))
    return _of_many(op, size, count, stride, cluster, software, routing)


def _of_many(
    op: str, size: Array, ranks: Array, stride: Array, cluster: Cluster, software: str, routing: Routing | None
) -> Transfer:
    """The times of the collectives of many groups."""
    groups, index = np.unique(ranks.ravel() * (MOST + 1) + stride.ravel(), return_inverse=True)
    numbers = (divmod(int(group), MOST + 1) for group in groups)
    routes = [route(op, _ranks(count), _ranks(step), cluster, software, routing) for count, step in numbers]
    return _merged(routes, index.ravel(), size)


def _merged(routes: Sequence[Route | None], index: Array, size: Array) -> Transfer:
    """The times of many groups, element i by routes[index[i]]; routes of one form are timed together."""
    flat, names = size.ravel().astype(float), ("floor", "expected", "low", "high", "fixed")
    results = {name: np.zeros(flat.shape) for name in names}
    grade = np.full(flat.shape, "A")
    forms: dict[object, list[int]] = {}
    for number, way in enumerate(routes):
        if way is not None:
            forms.setdefault(_flat(way)[0], []).append(number)
    for numbers in forms.values():
        position = np.full(len(routes), -1)
        position[numbers] = range(len(numbers))
        mine = np.flatnonzero(position[index] >= 0)
        t = timed(many([routes[n] for n in numbers], position[index[mine]]), flat[mine])  # type: ignore[misc]
        for name in names:
            results[name][mine] = getattr(t, name)
        grade[mine] = t.grade
    return Transfer(**{n: v.reshape(size.shape) for n, v in results.items()}, moved=(), grade=grade.reshape(size.shape))
