"""Views of a training estimate: memory by stage and term, the step, the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from roofline.estimates.run import Run
from roofline.estimates.train import Stage, TrainingEstimate
from roofline.estimates.training_changes import Fix
from roofline.result import Result, Units
from roofline.show.estimate import GRADES, span_text
from roofline.show.tables import Column, Table
from roofline.units import percent, seconds, share, si


@dataclass(frozen=True, repr=False)
class Trained(Result):
    """The answer of `train`: a step; where it does not fit what would make it; a run where one is asked for."""

    SCHEMA: ClassVar[str] = "roofline.train/2"
    FIGURES: ClassVar[Units] = {**TrainingEstimate.FIGURES, "fits": "", "changes": "", "run": ""}
    OF: ClassVar[type] = TrainingEstimate

    estimate: TrainingEstimate
    changes: tuple[Fix, ...] = ()
    run: Run | None = None

    @property
    def fits(self) -> bool:
        """Whether the fullest rank has room."""
        return bool(self.estimate.fits)

    def figure(self, name: str) -> Any:
        """Its own; else the estimate's."""
        return getattr(self, name) if name in ("fits", "changes", "run") else self.estimate.figure(name)


AXES = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data"}


def setting_text(e: TrainingEstimate) -> str:
    """What runs where, and how."""
    d = e.deployment
    return (
        f"{d.cluster.name}: {e.batch} × {e.tokens_each} tokens a step in {e.micro_batches} micro-batches of "
        f"{e.micro_batch} on each of {d.layout.dp} replicas · {e.schedule} · recipe {e.recipe} · {e.optimizer} · "
        f"recompute {e.recompute}{_of_layers(e)}{''.join(f' · {words}' for words in _sharded(e))}"
    )


def _of_layers(e: TrainingEstimate) -> str:
    """Of which layers something is run again, where not of all."""
    if e.step.recompute_layers is not None:
        return f" in {e.step.recompute_layers} layers a stage"
    return "" if e.step.recompute_every is None else f" in one of {e.step.recompute_every} layers"


def _sharded(e: TrainingEstimate) -> Iterator[str]:
    """What is not as it is where nothing is said: of weights and gradients that are shared out, and of packs."""
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
        yield f"{', '.join(step.offload)} in the host's memory"
    if step.lengths:
        yield f"packed from {', '.join(f'{n} × {length}' for length, n in step.lengths)}"


def memory_table(e: TrainingEstimate) -> Table:
    """One line for each stage that differs from the one before."""
    columns = (
        Column("Stage"), Column("Layers", "count"), Column("Weights", "B"), Column("Gradients", "B"),
        Column("Optimizer", "B"), Column("Activations", "B"), Column("In flight", "plain", drop=2),
        Column("Working", "B", drop=1), Column("Context", "B", drop=3), Column("Total", "B"),
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


def training_step_text(e: TrainingEstimate) -> str:
    """The step: time, where it goes, utilization."""
    slowest = e.slowest.passes
    sent = ", ".join(f"{AXES[axis]} {seconds(value)}" for axis, value in e.exposed.items()) or "none"
    where = ", ".join(
        f"{name} {seconds(span.expected)}"
        for name, span in (("forward", slowest.forward), ("backward", slowest.backward), ("weights", slowest.weight))
    )
    lines = [
        f"step        {span_text(e.span)}",
        f"passes      {seconds(e.passes.expected)}; one micro-batch on the slowest stage: {where}",
        f"bubble      {percent(e.bubble)} of the passes, the mean over the stages",
        f"exposed     {sent} of communication in a step",
        f"optimizer   {seconds(e.update.expected)}",
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
    ]
    return "\n".join(lines)


def run_text(r: Run) -> str:
    """The whole run."""
    low, high = r.interval
    lines = [
        f"{r.tokens:.4g} tokens: {r.steps:,} steps, {r.seconds / 86400:,.1f} days ({low / 86400:,.1f} to "
        f"{high / 86400:,.1f}), {r.chip_hours:,.0f} chip hours",
        f"failures    one in {seconds(r.failures_apart)}; a checkpoint every {seconds(r.checkpoint_interval)}; "
        f"{100 * r.progress:.1f} % of the time is progress (goodput), with {r.save_seconds:g} s for a checkpoint and "
        f"{r.restart_seconds:g} s after a failure",
    ]
    if r.cost is not None and r.estimate.chip.price is not None:
        price = r.estimate.chip.price
        lines.append(f"cost        {r.cost:,.0f} USD at {price.usd_per_hour:g} $/h a chip, assumed {price.date}")
    if r.energy is not None:
        lines.append(f"energy      {r.energy / 3.6e9:,.1f} MWh of the chips alone")
    return "\n".join(lines)


def fixes_text(fixes: tuple[Fix, ...]) -> str:
    """What would make it fit."""
    if not fixes:
        return "does not fit; no one or two changes make it"
    ways = [f"{f.detail} ({f.estimate.chips} chips, {seconds(f.estimate.time)} a step)" for f in fixes]
    return "does not fit; would with: " + "; or ".join(ways)
