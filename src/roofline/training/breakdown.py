"""Breakdown of a training step's time, op by op on one stage; the parts add up to the expected step time."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, get_args

from roofline.declared.errors import InputError
from roofline.declared.result import Figured, Result, Units
from roofline.inference.plan import Plan
from roofline.layout.shard import PIPELINE
from roofline.training.estimate import Stage, TrainingEstimate
from roofline.training.passes import HOST
from roofline.work import ops as o
from roofline.work.training import with_batch

PHASES: tuple[str, ...] = get_args(o.PassPhase)[:4]
"""The phases of a micro-batch: forward, recompute, backward, weight."""
PASS_OF: Mapping[str, str] = {
    "forward": "forward", "recompute": "backward", "backward": "backward", "weight": "weight",
}  # fmt: skip
"""Phase of an op → the pass of a stage that contains it."""
ROUNDING = 1e-12
"""Differences below this share of a step are rounding errors."""


@dataclass(frozen=True)
class OpShare(Figured):
    """The time of one op of a step on one stage, over all its layers and all micro-batches.

    `module`: the op of the forward pass that it belongs to. `block`: the block that contains it.
    """

    FIGURES: ClassVar[Units] = {"name": "", "module": "", "block": "", "phase": "", "seconds": "s"}

    name: str
    module: str
    block: str
    phase: str
    seconds: float


@dataclass(frozen=True, repr=False)
class Breakdown(Result):
    """The expected time of a step, as one stage spends it. All parts add up to `total`.

    `ops`: computation on the chip. `exposed`: communication within a replica that is not overlapped, by axis. `host`:
    waiting for the host, which launches the kernels of layers with experts. `slowed`: slowdown of computation by
    overlapped communication, and offloading to the host that is not overlapped. `waiting`: for other stages, their
    sends included (the pipeline bubble). `reduction`, `gathering`: exposed communication between replicas. `update`:
    the optimizer. `second`: forward passes of a frozen second model. `stragglers`: for the slowest rank. `between`: the
    rest of the step: time between two steps. `beside`: `exposed`, `host` and `slowed` together, by pass. `levels`: the
    outermost level of the network that each axis crosses. `hops`: the switches on the longest way of its messages.
    """

    SCHEMA: ClassVar[str] = "roofline.breakdown/1"
    FIGURES: ClassVar[Units] = {
        "stage": "", "total": "s", "phases": "s", "exposed": "s", "slowed": "s", "waiting": "s", "reduction": "s",
        "gathering": "s", "update": "s", "second": "s", "stragglers": "s", "between": "s", "beside": "s", "host": "s",
        "levels": "", "hops": "", "ops": "",
    }  # fmt: skip

    stage: int
    ops: tuple[OpShare, ...]
    exposed: Mapping[str, float]
    slowed: float
    waiting: float
    reduction: float
    gathering: float
    update: float
    between: float
    beside: Mapping[str, float]
    host: float = 0.0
    levels: Mapping[str, str] = field(default_factory=dict)
    second: float = 0.0
    stragglers: float = 0.0
    hops: Mapping[str, int] = field(default_factory=dict)

    @property
    def phases(self) -> Mapping[str, float]:
        """Seconds of the ops by phase: forward, recompute, backward, weight."""
        return {phase: sum(op.seconds for op in self.ops if op.phase == phase) for phase in PHASES}

    @property
    def modules(self) -> Mapping[str, Mapping[str, float]]:
        """Seconds of the ops by module, then by phase; the longest module first."""
        every: dict[str, dict[str, float]] = {}
        for op in self.ops:
            row = every.setdefault(op.module, dict.fromkeys(PHASES, 0.0))
            row[op.phase] += op.seconds
        return dict(sorted(every.items(), key=lambda pair: -sum(pair[1].values())))

    @property
    def rest(self) -> Mapping[str, float]:
        """Seconds of everything other than ops, by name."""
        sent = {f"exposed {axis}": value for axis, value in self.exposed.items()}
        return {
            **sent, "host": self.host, "slowed": self.slowed, "waiting": self.waiting, "reduction": self.reduction,
            "gathering": self.gathering, "update": self.update, "second": self.second,
            "stragglers": self.stragglers, "between": self.between,
        }  # fmt: skip

    @property
    def total(self) -> float:
        """Seconds of all parts, equal to the step time."""
        return sum(op.seconds for op in self.ops) + sum(self.rest.values())


def module_of(name: str) -> str:
    """The op of the forward pass that an op belongs to, by name.

    >>> module_of("qkv_proj_wgrad"), module_of("experts_dispatch_again"), module_of("loss_backward")
    ('qkv_proj', 'experts_dispatch', 'loss')
    """
    return re.sub(r"(_dgrad|_wgrad|_backward|_again)+$", "", name)


def breakdown(e: TrainingEstimate, stage: int | None = None) -> Breakdown:
    """The breakdown of a step on one stage, the slowest by default.

    Raises InputError for arrays of steps, and for an unknown stage.
    """
    if e.shape:
        raise InputError("breakdown", f"{e.shape} points", "one batch and one layout")
    if stage is not None and not 0 <= stage < len(e.stages):
        raise InputError("stage", stage, f"one of the {len(e.stages)} stages, from 0")
    chosen = e.slowest if stage is None else e.stages[stage]
    times, of_pass = _ops(e, chosen), dict.fromkeys(PASS_OF.values(), 0.0)
    for op in times:
        of_pass[PASS_OF[op.phase]] += op.seconds
    passes, many = chosen.turns, float(e.micro_batches)
    beside = {name: many * float(getattr(passes, name).expected) - seconds for name, seconds in of_pass.items()}
    exposed = {axis: many * float(span.expected) for axis, span in passes.exchange.items() if span.expected > 0}
    slowed = sum(beside.values()) - sum(exposed.values())
    host = exposed.pop(HOST, 0.0)
    waiting = float(e.passes.expected) - many * float(passes.busy.expected)
    return Breakdown(
        chosen.number, times, exposed, _rounded(slowed, e), waiting, float(e.reduction.expected),
        float(e.gathering.expected), float(e.update.expected), _rounded(between(e) - float(e.late), e), beside,
        host, crossed(e), float(e.second.expected), float(e.late), hops(e),
    )  # fmt: skip


def crossed(e: TrainingEstimate) -> Mapping[str, str]:
    """The outermost level of the machine's network that the groups of each axis of several ranks cross."""
    layout, cluster = e.asked.layout, e.deployment.cluster
    degrees = {axis: int(getattr(layout, axis)) for axis in ("tp", "cp", "ep", "dp", "pp")}
    spans = {axis: cluster.span(n, int(layout.stride(axis))) for axis, n in degrees.items() if n > 1}
    return {axis: parts[-1].level.name for axis, parts in spans.items() if parts}


def hops(e: TrainingEstimate) -> Mapping[str, int]:
    """Switches on the longest way of a message of each axis; over rails with that inside of the node."""
    layout, cluster, ways = e.asked.layout, e.deployment.cluster, dict[str, int]()
    for axis in crossed(e):
        stride = int(layout.stride(axis))
        parts = cluster.span(int(getattr(layout, axis)), stride)
        another = axis in ("ep", "pp")  # an exchange and a send may go to any rail; rings keep to theirs
        over = cluster.to_rails(parts[-1], stride) if another else None
        ways[axis] = cluster.switches(parts[-1], over)
    return ways


def between(e: TrainingEstimate) -> float:
    """Seconds of a step outside its passes, the communication between replicas and the optimizer."""
    parts = (e.passes, e.reduction, e.gathering, e.update, e.second)
    return _rounded(float(e.time) - sum(float(span.expected) for span in parts), e)


def _rounded(seconds: float, e: TrainingEstimate) -> float:
    """The seconds, or 0 where they are only a rounding error."""
    return seconds if abs(seconds) > ROUNDING * float(e.time) else 0.0


class OpKey(NamedTuple):
    """An op of a block and phase, and whether it communicates."""

    name: str
    block: str
    phase: str
    sent: bool


def _ops(e: TrainingEstimate, stage: Stage) -> tuple[OpShare, ...]:
    """The ops that the rank of a stage runs in a step, without collectives."""
    micro = with_batch(e.step, e.micro_batch)
    seconds: dict[OpKey, float] = {}
    for part, many in e.run_by(stage):
        for key, total in Plan(part.rank, e.asked.target).totals(micro, _by_op).items():
            assert isinstance(key, OpKey)
            if not key.sent and key.block != PIPELINE:
                seconds[key] = seconds.get(key, 0.0) + float(many) * float(total.expected)
    return tuple(
        OpShare(key.name, module_of(key.name.removesuffix("_quantise")), key.block, key.phase, value)
        for key, value in seconds.items()
    )


def _by_op(section: str, op: o.Op, kind: str) -> Hashable:
    """Key of an op: name, block, phase, and whether it communicates. Quantisation before a matmul has its own key."""
    name = f"{op.name}_quantise" if kind == "quantise" else op.name
    return OpKey(name, section, op.phase, isinstance(op, o.Communicate))
