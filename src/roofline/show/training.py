"""Views of a training estimate: memory by stage and term, the step, the run."""

from __future__ import annotations

from typing import Any

from roofline.estimates.training import Run, Stage, TrainingEstimate
from roofline.estimates.training_changes import Fix
from roofline.estimates.training_memory import TrainingMemory
from roofline.show.analysis import precision_json
from roofline.show.estimate import GRADES, span_json, span_text
from roofline.show.tables import Column, Table
from roofline.show.units import seconds, share, si

AXES = {"tp": "tensor", "cp": "context", "ep": "expert", "dp": "data"}


def setting_text(e: TrainingEstimate) -> str:
    """What runs where, and how."""
    step, (query,) = e.step, e.step.queries
    again = step.recompute if isinstance(step.recompute, str) else ", ".join(step.recompute)
    return (
        f"{e.where.layout.text()} · {e.chips} × {e.where.chip.name} ({e.where.cluster.name})\n"
        f"{query.count} × {query.new} tokens a step in {e.micro_batches} micro-batches of {step.micro_batch} a replica"
        f" · {step.schedule} · recipe {step.recipe.name} · {step.optimizer.name} · recompute {again}"
    )


def memory_table(e: TrainingEstimate) -> Table:
    """One line for each stage that differs from the one before."""
    columns = (
        Column("Stage", False), Column("Layers"), Column("Weights"), Column("Gradients"), Column("Optimizer"),
        Column("Activations"), Column("In flight", drop=2), Column("Working", drop=1), Column("Context", drop=3),
        Column("Total"), Column("Of memory"),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for stage in e.stages:
        cells = _memory_cells(stage, e.where.chip.capacity)
        if rows and rows[-1][1:] == cells:
            first = rows[-1][0].partition("–")[0]
            rows[-1] = (f"{first}–{stage.number}", *cells)
        else:
            rows.append((str(stage.number), *cells))
    return Table(columns, tuple(rows), title="memory of one rank")


def _memory_cells(stage: Stage, capacity: float) -> tuple[str, ...]:
    memory = stage.memory
    terms = (memory.weights, memory.gradients, memory.optimizer, memory.activations)
    return (
        str(layers_of(stage)), *(si(v, "B") for v in terms), f"{memory.in_flight:g}", si(memory.working, "B"),
        si(memory.context, "B"), si(memory.total, "B"), share(memory.total, capacity),
    )  # fmt: skip


def layers_of(stage: Stage) -> int:
    """Layers that a stage's rank holds."""
    return sum(int(n) for block, n in stage.rank.blocks if block.name != "pipeline")


def step_text(e: TrainingEstimate) -> str:
    """The step: time, where it goes, utilization."""
    slowest = e.slowest.passes
    sent = ", ".join(f"{AXES[axis]} {seconds(value)}" for axis, value in e.exposed) or "none"
    where = ", ".join(
        f"{name} {seconds(span.expected)}"
        for name, span in (("forward", slowest.forward), ("backward", slowest.backward), ("weights", slowest.weight))
    )
    lines = [
        f"step        {span_text(e.span)}",
        f"passes      {seconds(e.passes.expected)}; one micro-batch on the slowest stage: {where}",
        f"bubble      {100 * e.bubble:.1f} % of the passes, the mean over the stages",
        f"exposed     {sent} of communication in a step",
        f"optimizer   {seconds(e.update.expected)}",
        f"rate        {e.tokens_per_second:,.0f} tokens/s, {e.tokens_per_second_per_chip:,.0f} per chip",
        f"MFU         {100 * e.mfu:.1f} %: model FLOPs, {si(e.model_flops, 'FLOP')} a step, over chips · peak · time",
        f"HFU         {100 * e.hfu:.1f} %: with what is run again, {si(e.hardware_flops, 'FLOP')}",
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
        f"{100 * r.progress:.1f} % of the time is progress",
    ]
    if r.cost is not None and r.estimate.where.chip.price is not None:
        price = r.estimate.where.chip.price
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


# -- JSON ----------------------------------------------------------------------------------------------------------
def memory_json(memory: TrainingMemory) -> dict[str, float]:
    """Bytes by term."""
    return {
        "weight_bytes": memory.weights,
        "gradient_bytes": memory.gradients,
        "optimizer_bytes": memory.optimizer,
        "activation_bytes": memory.activations,
        "working_bytes": memory.working,
        "context_bytes": memory.context,
        "allocated_bytes": memory.allocated,
        "total_bytes": memory.total,
        "in_flight": memory.in_flight,
    }


def layout_json(e: TrainingEstimate) -> dict[str, Any]:
    """The degrees."""
    spread = e.where.layout
    return {
        "tp": spread.tp, "pp": spread.pp, "dp": spread.dp, "cp": spread.cp, "ep": spread.ep,
        "etp": spread.expert_tp, "sp": spread.sp, "zero": spread.zero, "vp": spread.vp, "shard": spread.sharers,
    }  # fmt: skip


def training_json(e: TrainingEstimate, run: Run | None, fixes: tuple[Fix, ...]) -> dict[str, Any]:
    """`roofline.train/1`."""
    step, (query,) = e.step, e.step.queries
    return {
        "schema": "roofline.train/1",
        "model": e.model.name,
        "precision": precision_json(step.precision),
        "chip": e.where.chip.id,
        "cluster": e.where.cluster.name,
        "chips": e.chips,
        "layout": layout_json(e),
        "batch": query.count,
        "tokens": query.new,
        "micro_batch": step.micro_batch,
        "micro_batches": e.micro_batches,
        "schedule": step.schedule,
        "recipe": step.recipe.name,
        "optimizer": step.optimizer.name,
        "recompute": step.recompute if isinstance(step.recompute, str) else list(step.recompute),
        "stages": [
            {
                "stage": s.number,
                "layers": layers_of(s),
                "forward_seconds": span_json(s.passes.forward),
                "backward_seconds": span_json(s.passes.backward),
                "weight_seconds": span_json(s.passes.weight),
                "memory": memory_json(s.memory),
            }
            for s in e.stages
        ],
        "step_seconds": span_json(e.span),
        "passes_seconds": span_json(e.passes),
        "optimizer_seconds": span_json(e.update),
        "bubble": e.bubble,
        "exposed_seconds": dict(e.exposed),
        "model_flops": e.model_flops,
        "hardware_flops": e.hardware_flops,
        "mfu": e.mfu,
        "hfu": e.hfu,
        "tokens_per_second": e.tokens_per_second,
        "memory_bytes": e.memory,
        "capacity_bytes": e.where.chip.capacity,
        "fits": e.fits,
        "changes": [
            {"detail": f.detail, "chips": f.estimate.chips, "seconds": f.estimate.time} for f in fixes
        ],
        "run": None if run is None else run_json(run),
        "grade": e.grade,
    }  # fmt: skip


def run_json(r: Run) -> dict[str, Any]:
    """The whole run's part."""
    low, high = r.interval
    return {
        "run_tokens": r.tokens, "steps": r.steps, "days": r.seconds / 86400, "low_days": low / 86400,
        "high_days": high / 86400, "chip_hours": r.chip_hours, "usd": r.cost,
        "energy_joules": r.energy, "failures_apart_seconds": r.failures_apart,
        "checkpoint_interval_seconds": r.checkpoint_interval, "progress": r.progress,
    }  # fmt: skip
