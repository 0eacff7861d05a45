"""Op × chip → seconds: the physical floor, the expected time, and its uncertainty.

The floor is max(FLOPs / peak, least bytes / bandwidth). The expected time is the law of the kernel that runs, with
constants fitted for this chip, its generation, or any chip (grades A, B, C). Nothing here depends on a model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from roofline.declared.numbers.maths import Count, is_array, least, most, where
from roofline.kernels import law
from roofline.kernels.collectives import Transfer, collective
from roofline.kernels.constants import Grade, worse
from roofline.kernels.deviation import EXACT, PARTS, Deviation, deviation_between, deviation_within
from roofline.kernels.exchanges import ExchangeKernel, Routing
from roofline.kernels.kernels import (  # fmt: skip
    KERNELS,
    is_matrix,
    launch_of,
    matrix_format,
    padding_of,
    plainer,
    restricted,
    shape_of,
    share_of,
    tiles_of,
    work_of,
)
from roofline.kernels.memories import (
    bandwidth_of,
    bytes_by_memory,
    drawing_seconds,
    least_memory_seconds,
    memory_seconds,
)
from roofline.kernels.power import Busy, under_cap
from roofline.kernels.target import WIDE, Target, wide_key
from roofline.work import ops as o
from roofline.work.counting import STANDARD
from roofline.work.traffic import FLOOR, FUSED, UNFUSED


@dataclass(frozen=True)
class Timing:
    """Seconds of one op. `compute`, `memory`, `network`: at full peak and bandwidth. `fixed`: launch time, a part of
    `expected`.

    `error`: deviations from `expected` that hold 80 % of measurements. `grade`: A fitted on this chip, B on its
    generation, C on others. `launches`: kernels launched, 0 if the op has no work or is fused into another kernel.
    `more_compute`, `more_memory`: seconds for which the units draw power beyond these: products on slower instructions,
    and bytes of activations where each elementary step is a kernel of its own. Seconds at peak whose watts differ:
    `padding`, of rows without a token in grouped products, and `tiles`, of attention's whole tiles of query rows, where
    few rows are real.
    """

    compute: Count
    memory: Count
    expected: Count
    error: Deviation
    fixed: Count
    grade: Grade
    network: Count = 0.0
    launches: Count = 1
    more_compute: Count = 0.0
    more_memory: Count = 0.0
    padding: Count = 0.0
    tiles: Count = 0.0

    @property
    def low(self) -> Count:
        """Lower end of the interval that holds 80 % of measurements, never below the floor."""
        return most(self.expected - self.error.below, self.floor)

    @property
    def high(self) -> Count:
        """Upper end of the interval that holds 80 % of measurements."""
        return self.expected + self.error.above

    @property
    def floor(self) -> Count:
        """Lower bound: the largest of compute, memory and network."""
        return most(most(self.compute, self.memory), self.network)


SUMMED = (
    "compute",
    "memory",
    "expected",
    "fixed",
    "network",
    "launches",
    "more_compute",
    "more_memory",
    "padding",
    "tiles",
)
"""Fields of a timing that are added up over ops; its error is combined separately."""


def ideal(op: o.Op, target: Target) -> tuple[Count, Count]:
    """Seconds of the FLOPs at full peak, and of the minimum bytes at full bandwidth."""
    chip, of = target.chip, op.origin
    if is_matrix(op):
        peak = chip.peak(matrix_format(of, target))
        if isinstance(of, o.Attend):  # attention over an 8-bit cache may compute in 8 bits
            peak = max(peak, chip.peaks.get(target.precision.kv.compute or "", 0.0))
        if isinstance(of, o.Score):  # indexers compute in 8 bits if the chip supports it
            peak = max(peak, chip.peaks.get("fp8", 0.0))
    else:
        peak = max(chip.vector.values(), default=max(chip.peaks.values()))
    return STANDARD.flops(op) / peak, least_memory_seconds(op, FLOOR.bytes(op, target.precision), chip)


def time_op(op: o.Op, target: Target) -> Timing:
    """Time one op, elementwise for arrays. Raises InputError if the chip does not support the op's format."""
    if isinstance(op, o.Communicate):
        return _communicate(op, target)
    code = KERNELS[type(op)].regime(op)
    if not is_array(code):
        return _time(op, target)
    if (code == code.flat[0]).all():
        return _time(op if code.flat[0] == -1 else plainer(op), target)
    code = np.broadcast_to(code, shape_of(op))
    seconds = {name: np.zeros(code.size) for name in SUMMED}
    errors = {name: np.zeros(code.size) for name in PARTS}
    grade = np.full(code.size, "-")
    for number in set(np.unique(code)) - {-1}:
        places = np.flatnonzero(code == number)
        part = _time(restricted(op, code.shape, places), target)
        for name in SUMMED:
            seconds[name][places] = getattr(part, name)
        for name in PARTS:
            errors[name][places] = getattr(part.error, name)
        grade[places] = part.grade
    error = Deviation(**{name: v.reshape(code.shape) for name, v in errors.items()})
    values = {name: v.reshape(code.shape) for name, v in seconds.items()}
    return Timing(**values, error=error, grade=grade.reshape(code.shape))


def _time(op: o.Op, target: Target) -> Timing:
    return _over_memories(op, target) if target.chip.placement else _from_one(op, target)


def _over_memories(op: o.Op, target: Target) -> Timing:
    """Time an op whose bytes lie in several memories.

    Let t_i be its time if all bytes came from memory i, of which they would take M_i, while they take M. Then

        t = max over memories of t_i · min(1, M / M_i)

    which is M over the law's share of bandwidth where memory limits the op, and the law's arithmetic where that does:
    M is at least M_i of the fastest memory. A memory that multiplies does so wherever that is faster and it keeps the
    op's weights or cache.
    """
    chip = target.chip
    moved = replace(UNFUSED.bytes(op, target.precision), scratch=0)  # what its kernel reads and writes
    seconds, tiers = memory_seconds(op, moved, chip), bytes_by_memory(op, moved, chip)
    chosen = _from_one(op, target)  # of a law that is not fitted, the floor or shares of it
    if target.mode.name == "calibrated":
        fastest, *others = sorted(tiers, key=partial(bandwidth_of, chip), reverse=True)
        slowest = _from_one(op, target.reading(fastest))
        for tier in others:
            share = least(1.0, seconds / most(moved.total / bandwidth_of(chip, tier), TINY))
            timing = _times(_from_one(op, target.reading(tier)), share)
            slowest = _one_or(timing.expected > slowest.expected, timing, slowest)
        compute, memory = ideal(op, target)
        chosen = replace(slowest, compute=compute, memory=memory)
        chosen = replace(chosen, expected=most(chosen.expected, chosen.floor))
    drawn = drawing_seconds(op, FLOOR.bytes(op, target.precision), chip)
    for tier in tiers:
        if tier is not None and tier.inside is not None and is_matrix(op):
            inside = _from_one(op, target.reading(tier, inside=True))
            chosen = _one_or(inside.expected < chosen.expected, inside, chosen)
    return replace(chosen, more_memory=drawn - chosen.memory)


TINY = 1e-30
HOST_LINK = 25e9
"""Bytes/s between host and card where nothing says them: PCIe 4.0 x16, 31.5 GB/s less protocol overhead."""


def _times(t: Timing, share: Count) -> Timing:
    """A timing whose seconds are a share of another's."""
    return replace(t, expected=share * t.expected, fixed=share * t.fixed, error=t.error.times(share))


def _one_or(condition: Count, one: Timing, other: Timing) -> Timing:
    """Select elementwise between two timings."""
    if not is_array(condition):
        return one if condition else other
    names = (f.name for f in fields(Timing) if f.name != "error")
    both = {name: where(condition, getattr(one, name), getattr(other, name)) for name in names}
    return Timing(**both, error=one.error.where(condition, other.error))


def _from_one(op: o.Op, target: Target) -> Timing:
    """Time an op all of whose bytes are in one memory."""
    compute, memory = ideal(op, target)
    floor, mode = most(compute, memory), target.mode
    runs = UNFUSED.elements(op).total > 0  # an element of a sweep may not run this op at all
    rides = op.rides and not target.engine.unfused
    launches = 0 if rides else runs * 1
    if mode.name == "ideal":
        return Timing(compute, memory, floor, EXACT, 0.0, "-", launches=launches)
    if mode.name == "fixed":
        expected = most(compute / mode.mfu, memory / mode.mbu)
        return Timing(compute, memory, expected, EXACT, 0.0, "-", launches=launches)
    seconds, constants = KERNELS[type(op)].law(op, target)
    generation, work = target.chip.generation, work_of(op)
    if work == "products" and matrix_format(op.origin, target) in WIDE:
        work = "wide"
    grade = worse(constants.grade, target.engine.grade(generation, work))
    factor = target.engine.factor(generation, work) * target.engine.unfused.get(op.kind, 1.0)
    seconds = where(runs, seconds * factor, 0.0)
    expected = most(seconds, floor)
    if factor < 1:  # an engine is never faster than its ops' bytes
        expected = most(expected, runs * FUSED.bytes(op, target.precision).total / target.chip.bandwidth)
    if isinstance(op, o.Lookup) and op.hashed and target.engine.hosted(target.chip):
        expected = most(expected, UNFUSED.bytes(op, target.precision).weights / (target.chip.host or HOST_LINK))
    more_compute, more_memory = _beyond(op, target, compute, memory)
    padding: Count = 0.0
    if isinstance(op, o.ExpertMatMul):
        padding = padding_of(op, target) / target.chip.peak(matrix_format(op, target))
    tiles = tiles_of(op, compute) if isinstance(op, o.Attend) else 0.0
    if target.chip.cap is not None:
        busy = Busy(expected, compute, memory + more_memory, 0.0, padding, tiles, more_compute)
        expected = under_cap(target.chip, expected, busy)
    fixed = 0.0 if rides else launch_of(op, constants) * (seconds > 0)
    within = target.engine.within(generation, work)
    error = constants.deviation(expected) if within is None else deviation_within(expected, within)
    if target.engine.grade(generation, work) == "C":  # an assumed factor f may really be 1 to f²
        error = error.beside(deviation_within(expected, abs(math.log(factor))))
    if isinstance(op, o.ExpertMatMul):
        error = error.of_a_part(share_of(op))
    return Timing(
        compute, memory, expected, error, fixed, grade, launches=launches, more_compute=more_compute,
        more_memory=more_memory, padding=padding, tiles=tiles,
    )  # fmt: skip


def _beyond(op: o.Op, target: Target, compute: Count, memory: Count) -> tuple[Count, Count]:
    """Seconds for which the units draw power beyond the least: arithmetic, memory."""
    engine = target.engine
    if not engine.unfused:
        return 0.0, 0.0
    if is_matrix(op):
        return compute * most(engine.factor(target.chip.generation, work_of(op)) - 1, 0.0), 0.0
    moved = UNFUSED.bytes(op, target.precision).total / target.chip.bandwidth
    return 0.0, most(0.0, moved * engine.unfused.get(op.kind, 1.0) - memory)


def time_quantise(op: o.Op, target: Target) -> Timing | None:
    """Time of the separate pass that quantises a product's activations; None without such a pass."""
    if target.mode.name != "calibrated":
        return None
    if isinstance(op, (o.MatMul, o.ExpertMatMul)) and op.phase == "weight":
        return _turned(op, target)
    if not isinstance(op, o.MatMul):
        return None
    if op.beside and op.phase != "backward":  # products of one input share a forward pass
        return None
    path = target.path(op)
    if not path.quantise:
        return None
    constants, roof = target.quantising(path.dtype), target.roof(path.compute)
    if constants is None:
        constants = target.constants(wide_key(target.precision.activations.compute), "stream")
        seconds, floor = law.stream(path.quantise * op.m * op.k, roof, constants.record), constants.launch
    else:
        seconds = law.quantise_pass(op.m, op.k, path.quantise, roof, constants.record)
        floor = constants.record.quantise_t0
    seconds = where(op.m > 0, seconds, 0.0)
    fixed = least(seconds, floor)
    return Timing(0.0, 0.0, seconds, constants.deviation(seconds), fixed, constants.grade, launches=(op.m > 0) * 1)


def _turned(op: o.MatMul | o.ExpertMatMul, target: Target) -> Timing | None:
    """Time to scale the operands of a weight gradient along tokens, for scales of 1 × 128 elements (fp8 in blocks).

    The input, kept in fp8, is read and written (2 bytes an element), the output's gradient is read in 16 bits and
    written in fp8 (3 bytes): arXiv:2412.19437 §3.5.2.
    """
    if target.path(op).dtype != "fp8_block":
        return None
    of_experts = isinstance(op, o.ExpertMatMul)
    tokens, inputs, outputs = (op.m, op.k, op.n) if of_experts else (op.k, op.n, op.m)
    constants = target.constants(wide_key(target.precision.activations.compute), "stream")
    roof = target.roof(target.path(op).compute)
    seconds = where(tokens > 0, law.stream(tokens * (2 * inputs + 3 * outputs), roof, constants.record), 0.0)
    fixed, launches = least(seconds, constants.launch), (tokens > 0) * 1
    return Timing(0.0, 0.0, seconds, constants.deviation(seconds), fixed, constants.grade, launches=launches)


def _communicate(op: o.Communicate, target: Target) -> Timing:
    """Time a collective on the target's cluster. Sizes use the format of the activations or, for dispatch, its own."""
    if op.collective not in ("dispatch", "combine"):
        return _transferred(op, target, None)
    decoding = op.decoding
    if not is_array(decoding):
        return _transferred(op, target, "low_latency" if decoding else "normal")
    if (decoding == decoding.flat[0]).all():
        return _transferred(op, target, "low_latency" if decoding.flat[0] else "normal")
    one, other = (_transferred(op, target, kernel) for kernel in ("low_latency", "normal"))
    return _one_or(decoding == 1, one, other)


GATHERED = {"dispatch": "all_gather", "combine": "reduce_scatter"}
"""Exchange of tokens → what engines run instead where they gather, as over PCIe: kernels that send a token to its ranks
write to their memory over NVLink or RDMA (github.com/deepseek-ai/DeepEP; vLLM's all2all_backend is
allgather_reducescatter by default; TensorRT-LLM without NVLink has AlltoallMethodType.NotEnabled)."""


def _transferred(op: o.Communicate, target: Target, kernel: ExchangeKernel | None) -> Timing:
    """Time a collective. `kernel`: kernel of a dispatch or combine, None for other collectives."""
    routing, name, elements = None, op.collective, op.elements
    how, pcie = target.engine.dispatcher, target.joined.levels[0].kind == "pcie"
    gathers = how == "allgather" or (pcie and how != "alltoall")
    if kernel is not None and gathers:  # each token goes to all ranks once, whoever needs it
        name, elements, kernel = GATHERED[name], op.elements * op.ranks / op.top_k, None
    elif kernel is not None and how == "alltoall":
        name = "all_to_all"
    elif kernel is not None:
        kernel = "nvlink" if how == "nvlink" else kernel
        routing = Routing(op.top_k, op.experts, op.groups, op.top_groups, op.identities, kernel)
    size = target.precision.sent(op.collective).bytes(elements)
    t = collective(
        name, size, op.ranks, target.joined, stride=op.stride,
        software=target.engine.network or target.engine.software or "nccl", routing=routing,
    )  # fmt: skip
    t = slowed(t, target, "collectives" if kernel is None else "exchanges")
    launches = (t.expected > 0) * 1  # a single rank, which an array of degrees may include, sends nothing
    error = deviation_between(t.expected, t.low, t.high, t.grade)
    return Timing(0.0, 0.0, t.expected, error, t.fixed, t.grade, t.floor, launches)


def slowed(t: Transfer, target: Target, kind: str = "collectives") -> Transfer:
    """Apply the engine's slowdown factors to a transfer, or the ideal or fixed law."""
    if target.mode.name != "calibrated":
        seconds = t.floor / (target.mode.mbu if target.mode.name == "fixed" else 1.0)
        return Transfer(t.floor, seconds, seconds, seconds, 0.0, t.moved, "-")
    generation = target.chip.generation
    slower = target.engine.factor(generation, kind)
    later = (target.engine.factor(generation, "latency") - 1) * t.fixed
    grade = worse(t.grade, max(target.engine.grade(generation, part) for part in (kind, "latency")))
    width = math.exp(target.engine.within(generation, "latency") or 0.0)
    ends = ((t.expected, 1.0), (t.low, 1 / width), (t.high, width))
    expected, low, high = (slower * seconds + share * later for seconds, share in ends)
    if target.engine.grade(generation, "collectives") == "C":
        low, high = least(low, t.low), most(high, slower * expected)
    return replace(t, expected=expected, low=low, high=high, grade=grade)
