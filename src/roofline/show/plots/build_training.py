"""From a training step to a picture of its memory."""

from __future__ import annotations

from roofline.declared.units import whole
from roofline.estimates.train import TrainingEstimate
from roofline.explore.training_bytes import memory_over_step
from roofline.show.estimate import deployment_text
from roofline.show.plots import data as d

MOST_STAGES = 4
"""Stages of a pipeline that a picture has room for."""


def step_memory_plot(e: TrainingEstimate) -> d.StepMemoryPlot:
    """The memory of training ranks over a step; of many stages some, the first and the last among them."""
    every = memory_over_step(e)
    last = len(every) - 1
    shown = sorted({round(i * last / (MOST_STAGES - 1)) for i in range(MOST_STAGES)})
    stages = tuple(
        d.StageMemory(f"stage {c.stage}" if last else "rank", c.seconds, c.state, c.total, c.peak)
        for c in (every[i] for i in shown)
    )
    note = f"{e.schedule} · {whole(int(e.micro_batches))} micro-batches of {e.micro_batch} · recompute {e.recompute}"
    note += f" · {len(every)} stages, {len(shown)} of them drawn" if len(shown) < len(every) else ""
    note += "" if e.fits else " · does not fit"
    title = f"{e.model.name} · {deployment_text(e.deployment)}"
    return d.StepMemoryPlot(title, stages, float(e.timeline.length), float(e.chip.capacity), note, bool(e.fits))
