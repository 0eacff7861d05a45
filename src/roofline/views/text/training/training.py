"""Text of a training estimate: memory by stage and term, the step, and the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.numbers.units import counted, percent, seconds, share, si, tokens_text
from roofline.declared.result import FigureValue, Result, Units
from roofline.training.breakdown import PHASES, Breakdown
from roofline.training.estimate import Stage, TrainingEstimate
from roofline.training.layouts.remedies import Fix
from roofline.training.memory.by_part import RankBytes
from roofline.training.runs.run import Run
from roofline.views.text.inference.cost import cost_lines
from roofline.views.text.inference.estimate import GRADES, span_text
from roofline.views.text.tables import Column, Table
from roofline.work.packing import packed_text


@dataclass(frozen=True, repr=False)
class Trained(Result):
    """Answer of `train`: a step, what would make it fit, and on request a run.

    `breakdown` and `modules`: time by part and a rank's memory by module, on request.
    """

    SCHEMA: ClassVar[str] = "roofline.train/4"
    FIGURES: ClassVar[Units] = {
        **TrainingEstimate.FIGURES,
        "fits": "",
        "changes": "",
        "run": "",
        "breakdown": "",
        "modules": "",
    }
    OF: ClassVar[type] = TrainingEstimate

    estimate: TrainingEstimate
    changes: tuple[Fix, ...] = ()
    run: Run | None = None
    breakdown: Breakdown | None = None
    modules: tuple[RankBytes, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the fullest rank fits in memory."""
        return bool(self.estimate.fits)

    def figure(self, name: str) -> FigureValue:
        """A figure of this answer; otherwise of the estimate."""
        own = ("fits", "changes", "run", "breakdown", "modules")
        return getattr(self, name) if name in own else self.estimate.figure(name)


AXES = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data"}


def setting_text(e: TrainingEstimate) -> str:
    """Model, layout and settings of the step."""
    d = e.deployment
    return (
        f"{d.cluster.name}: {e.batch} × {e.tokens_each} tokens a step in {e.micro_batches} micro-batches of "
        f"{e.micro_batch} on each of {d.layout.dp} replicas · {e.schedule} · recipe {e.recipe} · {e.optimizer} · "
        f"recompute {e.recompute}{_of_layers(e)}{''.join(f' · {words}' for words in _sharded(e))}"
    )


def stack_text(e: TrainingEstimate) -> str:
    """What the call left open: the layout that a search found, and the settings of the stack's recipes."""
    searched = ["layout: the fastest that fits, of all legal ones on this machine"] if e.deployment.chosen else []
    settings = ", ".join(f"{s.name} {_value_text(s.value)}" for s in e.stack)
    return "\n".join([*searched, *([f"{e.engine.titled} sets {settings}"] if settings else [])])


def _value_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _of_layers(e: TrainingEstimate) -> str:
    """The layers with recomputation, if not all."""
    if e.step.recompute_layers is not None:
        return f" in {e.step.recompute_layers} layers a stage"
    return "" if e.step.recompute_every is None else f" in one of {e.step.recompute_every} layers"


def _sharded(e: TrainingEstimate) -> Iterator[str]:
    """Settings that differ from the defaults: sharding of weights and gradients, and packed sequences."""
    step = e.step
    if not step.reshard:
        yield "weights stay gathered"
    if step.no_sync:
        yield "gradients reduced once"
    if step.gather_format is not None:
        yield f"gathered in {step.gather_format}"
    if step.reduce_format is not None:
        yield f"reduced in {step.reduce_format}"
    if step.optimizer_in_backward:
        yield "optimizer in the backward pass"
    if step.offload:
        some = "" if step.offload_layers is None else f" (activations of {step.offload_layers} layers a stage)"
        yield f"{', '.join(step.offload)} in the host's memory{some}"
    if step.lengths:
        yield f"packed from {packed_text(step.lengths)}"


def memory_table(e: TrainingEstimate) -> Table:
    """One line for each stage that differs from the previous one."""
    columns = (
        Column("Stage"), Column("Layers", "count", drop=5), Column("Weights", "B", drop=2),
        Column("Gradients", "B", drop=4),
        Column("Optimizer", "B", drop=3), Column("Activations", "B", drop=1), Column("In flight", "plain", drop=7),
        Column("Working", "B", drop=6), Column("Context", "B", drop=8), Column("Total", "B"),
        Column("Of memory", "share"),
    )  # fmt: skip
    rows: list[tuple[object, ...]] = []
    for stage in e.stages:
        cells = _memory_cells(stage, e.chip.capacity)
        if rows and rows[-1][1:] == cells:
            first = str(rows[-1][0]).partition("–")[0]
            rows[-1] = (f"{first}–{stage.number}", *cells)
        else:
            rows.append((str(stage.number), *cells))
    return Table(columns, tuple(rows), title="memory of one rank")


def _memory_cells(stage: Stage, capacity: float) -> tuple[object, ...]:
    m = stage.memory
    terms = (m.weights, m.gradients, m.optimizer, m.activations, m.in_flight, m.working, m.context, m.total)
    return (stage.layers, *terms, share(m.total, capacity))


OVER_PHASES = {"forward": "Forward", "recompute": "Again", "backward": "Backward", "weight": "Weights"}


def breakdown_table(b: Breakdown, by: str) -> Table:
    """Seconds of a step on one stage by module or op, then work outside of ops; the last line is the whole step."""
    columns = (
        Column("Op" if by == "ops" else "Module", long=24),
        *(Column(OVER_PHASES[phase], "s", drop=1) for phase in PHASES),
        Column("Time", "s"), Column("Of the step", "share"),
    )  # fmt: skip
    rows: list[tuple[object, ...]] = []
    if by == "ops":
        for op in sorted(b.ops, key=lambda op: -op.seconds):
            cells = [op.seconds if op.phase == phase else None for phase in PHASES]
            rows.append((f"{op.name} ({op.block})", *cells, op.seconds, share(op.seconds, b.total)))
    else:
        for module, phases in b.modules.items():
            time = sum(phases.values())
            rows.append((module, *(phases[phase] or None for phase in PHASES), time, share(time, b.total)))
    blank = (None,) * len(PHASES)
    rows += [(LINES[name.split()[0]].format(*name.split()[1:]), *blank, value, share(value, b.total))
             for name, value in b.rest.items() if value]  # fmt: skip
    rows.append(("the step", *(b.phases[phase] or None for phase in PHASES), b.total, share(b.total, b.total)))
    return Table(columns, tuple(rows), title=f"time of a step on stage {b.stage}")


LINES = {
    "exposed": "exposed communication, {}", "slowed": "slowed beside communication, to the host and back",
    "host": "waiting for the host's launches", "waiting": "waiting for other stages",
    "reduction": "exposed reduction of gradients", "gathering": "exposed gathering of weights", "update": "optimizer",
    "second": "forward passes of the frozen model",
    "stragglers": "waiting for the slowest rank", "between": "between steps",
}  # fmt: skip
"""Names of the lines of a breakdown that are not ops."""


def modules_table(rows: tuple[RankBytes, ...]) -> Table:
    """Bytes of a rank by module; the last line is the total."""
    terms = ("weights", "gradients", "optimizer", "activations", "total")
    columns = (
        Column("Module", long=24),
        *(Column(term.capitalize(), "B", drop=int(term != "total")) for term in terms),
    )
    cells = [(row.module, *(getattr(row, term) or None for term in terms)) for row in rows]
    cells.append(("all", *(sum(getattr(row, term) for row in rows) for term in terms)))
    return Table(columns, tuple(cells), title="memory of the fullest rank by module")


def training_step_text(e: TrainingEstimate) -> str:
    """The step: time, its parts, and utilization."""
    slowest, second = e.slowest.turns, e.asked.second and e.asked.second.setup
    sent = ", ".join(f"{AXES[axis]} {seconds(value)}" for axis, value in e.exposed.items())
    where = ", ".join(
        f"{name} {seconds(span.expected)}"
        for name, span in (("forward", slowest.forward), ("backward", slowest.backward), ("weights", slowest.weight))
    )
    lines = [
        f"step        {span_text(e.span)}",
        f"passes      {seconds(e.passes.expected)}; one micro-batch on the slowest stage: {where}",
        f"bubble      {percent(e.bubble)} of the passes, the mean over the stages",
        f"exposed     {sent} of communication in a step" if sent else "exposed     no communication",
        f"optimizer   {seconds(e.update.expected)}",
        *([f"frozen      {seconds(e.second.expected)}: forward passes of {second.model.name}"] if second else []),
        *(
            [f"waiting     {seconds(e.waiting.expected)} for slower ranks and between steps"]
            if e.waiting.expected
            else []
        ),
        f"rate        {e.tokens_per_second:,.0f} tokens/s, {e.tokens_per_second_per_chip:,.0f} per chip",
        f"MFU         {percent(e.mfu)}: model FLOPs, {si(e.model_flops, 'FLOP')} a step, over chips · peak · time; "
        f"{percent(e.mfu_palm)} with attention's masked half (PaLM)",
        f"HFU         {percent(e.hfu)}: with what is run again, {si(e.hardware_flops, 'FLOP')}",
        f"grade       {e.grade}: {GRADES[e.grade]}",
        *cost_lines(e, 12, assumed=False, token="trained token"),
    ]
    return "\n".join(lines)


def run_text(r: Run) -> str:
    """The whole run: days and their parts, failures, cost, energy, and assumptions."""
    low, high = r.interval
    days = f"{r.seconds / 86400:,.1f} days ({low / 86400:,.1f} to {high / 86400:,.1f})"
    epochs = "" if r.epochs is None else f", {r.epochs:,.3g} epochs"
    every = f"one every {seconds(r.checkpoint_interval)}"
    lines = [
        f"{tokens_text(r.tokens)} tokens: {r.steps:,.0f} steps{epochs}, {days}, {r.chip_hours:,.0f} chip hours",
        f"goodput     {percent(r.progress)} of the time is steps that last; {_parts_text(r)}",
        f"failures    {r.failures:,.1f}, one in {seconds(r.failures_apart)}{_causes_text(r)}",
        f"checkpoints {every} of work, {si(r.saving.size, 'B')}; each holds the run up {seconds(r.saving.blocking)}",
    ]
    if r.cost is not None:
        lines.append(
            f"cost        {r.cost:,.0f} USD, {r.bill.usd_per(r.tokens / 1e6):.4g} USD per million trained tokens"
        )
    if r.energy is not None:
        each = r.bill.joules_per(r.tokens)
        lines.append(f"energy      {r.energy / 3.6e9:,.1f} MWh, {each:.4g} J per trained token")
    if r.carbon is not None:
        lines.append(f"carbon      {r.carbon / 1e3:,.1f} t of CO2 equivalent")
    return "\n".join([*lines, *(f"assumed     {said}" for said in r.assumptions)])


def _parts_text(r: Run) -> str:
    """Shares of the time outside of steps."""
    lost = {name: value for name, value in r.parts.items() if name != "steps" and value > 0}
    return ", ".join(f"{name} {percent(value / r.seconds)}" for name, value in lost.items()) or "nothing else"


def _causes_text(r: Run) -> str:
    """The most frequent causes of failure."""
    ranked = sorted(r.failures_by.items(), key=lambda pair: -float(pair[1]))[:3]
    return ": " + ", ".join(f"{name} {number:,.1f}" for name, number in ranked) + ", …" if ranked else ""


def fixes_text(fixes: tuple[Fix, ...]) -> str:
    """What would make it fit."""
    if not fixes:
        return "does not fit; no one change would make it, nor two together"
    ways = [f"{f.detail} ({counted(f.estimate.chips, 'chip')}, {seconds(f.estimate.time)} a step)" for f in fixes]
    return "does not fit; would with: " + "; or ".join(ways)
