"""Degrees of parallelism and micro-batches of a training search: all that divide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.declared.checks import count
from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import Array
from roofline.hardware.cluster import cluster_named
from roofline.inference.deployment import Machine, node_size, tensor_degrees
from roofline.layout.layout import Layout
from roofline.model.model import Model
from roofline.model.modules import Experts
from roofline.training.pipeline.schedule import check_micro_batches

MOST_CHUNKS = 20
"""Maximum chunks per stage."""


@dataclass(frozen=True, eq=False)
class MicroBatches:
    """Micro-batches of all points of a search, each once: the degrees that its layers see, and its sequences.

    `index`: for each of some points the number of its micro-batch.
    """

    tp: Array
    cp: Array
    ep: Array
    etp: Array
    micro: Array
    index: Array


@dataclass(frozen=True)
class DegreePoints:
    """Degrees and micro-batch sizes as arrays; `shard`: how many replicas share one set of weights, None for all.

    `among`: the micro-batches of the whole search; None where points stand alone.
    """

    tp: Array
    cp: Array
    dp: Array
    ep: Array
    etp: Array
    micro: Array
    shard: int | None = None
    among: MicroBatches | None = None

    def __len__(self) -> int:
        return len(self.tp)

    def layout(self, pp: int, vp: int, zero: int) -> Layout:
        """All points as one layout with arrays of degrees; sequence parallelism has no effect where tp is 1."""
        return Layout(
            tp=self.tp, cp=self.cp, dp=self.dp, ep=self.ep, etp=self.etp, pp=pp, vp=vp, zero=zero, sp=True,
            shard=self.shard,
        )  # fmt: skip

    def one(self, i: int, pp: int, vp: int, zero: int) -> Layout:
        """The layout of the i-th point."""
        tp, cp, dp, ep, etp = (int(v[i]) for v in (self.tp, self.cp, self.dp, self.ep, self.etp))
        usual = etp == (tp if ep == 1 else 1)
        return Layout(
            tp=tp, cp=cp, dp=dp, ep=ep, etp=None if usual else etp, pp=pp, vp=vp, zero=zero, sp=tp > 1, shard=self.shard
        )

    def where(self, kept: Array | slice) -> DegreePoints:
        """A selection of points."""
        tp, cp, dp, ep, etp, micro = (v[kept] for v in (self.tp, self.cp, self.dp, self.ep, self.etp, self.micro))
        among = self.among and replace(self.among, index=self.among.index[kept])
        return DegreePoints(tp, cp, dp, ep, etp, micro, self.shard, among)

    def sharing(self, ranks: int) -> DegreePoints:
        """The points of which more than so many replicas share weights, in sets of so many (HSDP)."""
        replicas = self.dp * self.cp
        return replace(self.where((replicas > ranks) & (replicas % ranks == 0)), shard=ranks)


def machine_sizes(on: Machine, objective: str, chips: int | None, most: int | None = None) -> list[int]:
    """Numbers of chips to train on; `most`: how many a limit allows."""
    whole = cluster_named(on).chips
    sizes = [whole if chips is None else count("chips", chips, 1)]
    if sizes[0] > whole:
        raise InputError("chips", sizes[0], f"at most the {whole} that there are")
    if most is not None and chips is not None and chips > most:
        raise InputError("chips", chips, f"at most the {most} that the limit allows")
    while most is not None and sizes[0] > most:
        sizes = [sizes[0] // 2 if sizes[0] % 2 == 0 else most]
    while objective not in ("time", "days") and sizes[-1] % 2 == 0:
        sizes.append(sizes[-1] // 2)
    return sizes


def stage_numbers(model: Model, chips: int) -> list[int]:
    """Numbers of pipeline stages, at most as many as layers."""
    return [pp for pp in _divisors(chips) if pp <= len(model.layers)]


def chunk_numbers(model: Model, pp: int) -> list[int]:
    """Numbers of chunks per stage that divide the layers, with or without embedding and head.

    Counted as layers, these two leave the first and the last chunk one layer fewer, as in `Layout.layers_of`. If no
    number divides either, powers of two.
    """
    layers = len(model.layers)
    if pp == 1:
        return [1]
    few = range(1, max(1, min(MOST_CHUNKS, (layers + 2) // pp)) + 1)
    even = [vp for vp in few if layers % (pp * vp) == 0 or (layers + 2) % (pp * vp) == 0]
    return even or [vp for vp in few if vp & (vp - 1) == 0]


def degree_points(
    model: Model, on: Machine, ranks: Sequence[int], pp: int, work: tuple[int, int], micros: Sequence[int]
) -> DegreePoints:
    """Every tp, cp, dp, ep and micro-batch of `micros` that divides, for these numbers of ranks per stage.

    tp divides the chips of a node, or those of it that are used where the chips are spread evenly over nodes.

    Where experts are divided among ranks they may be cut by tensor parallelism besides.
    """
    batch, tokens = work
    experts = [x.experts for x, _ in model.modules() if isinstance(x, Experts)]
    node = node_size(cluster_named(on))
    rows = []
    for n in ranks:
        nodes = -(-n * pp // node)
        used = n * pp // nodes if n * pp % nodes == 0 else node
        degrees = {*tensor_degrees(model, node), *tensor_degrees(model, used)}
        for tp in sorted(d for d in degrees if n % d == 0):
            for cp in (d for d in _powers(n // tp) if n // tp % d == 0 and tokens % d == 0):
                dp = n // tp // cp
                eps = [e for e in _divisors(n) if all(x % e == 0 for x in experts)] if experts else [1]
                cuts = [(ep, etp) for ep in eps for etp in _cuts(tp, ep) if n % (ep * etp) == 0]
                rows += [(tp, cp, dp, ep, etp, m) for ep, etp in cuts for m in micros if batch % (dp * m) == 0]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    return DegreePoints(*columns)


def with_micro_batches(every: Sequence[DegreePoints]) -> list[DegreePoints]:
    """Lists of points that know the micro-batches of them all."""
    columns = {name: np.concatenate([getattr(points, name) for points in every]) for name in SEEN}
    codes = np.zeros(sum(map(len, every)), dtype=np.int64)
    for column in columns.values():
        known, numbers = np.unique(column, return_inverse=True)
        codes = codes * len(known) + numbers
    _, first, index = np.unique(codes, return_index=True, return_inverse=True)
    whole = MicroBatches(**{name: column[first] for name, column in columns.items()}, index=index)
    ends = np.cumsum([len(points) for points in every])[:-1]
    return [
        replace(points, among=replace(whole, index=own))
        for points, own in zip(every, np.split(index, ends), strict=True)
    ]


SEEN = ("tp", "cp", "ep", "etp", "micro")
"""Columns of points that the layers of a micro-batch see."""


def takes(schedule: str, points: DegreePoints, batch: int, pp: int, vp: int) -> Array:
    """Which points have a number of micro-batches that a schedule supports.

    An interleaved schedule needs a multiple of the number of stages. DualPipe needs an even number, at least two per
    stage.
    """
    numbers = batch // (points.dp * points.micro)
    legal = [number for number in np.unique(numbers) if _is_taken(schedule, pp, int(number), vp)]
    return np.asarray(np.isin(numbers, legal))


def _is_taken(schedule: str, pp: int, micro_batches: int, vp: int) -> bool:
    try:
        check_micro_batches(schedule, pp, micro_batches, vp)
    except InputError:
        return False
    return True


def _cuts(tp: int, ep: int) -> tuple[int, ...]:
    """Tensor parallelism inside an expert: with all experts on a rank that of the rest, else none or that."""
    return (tp,) if ep == 1 else (1,) if tp == 1 else (1, tp)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _powers(most: int) -> list[int]:
    return [2**k for k in range(most.bit_length()) if 2**k <= most]
