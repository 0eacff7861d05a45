"""Converts a training step to a picture of its memory."""

from __future__ import annotations

from roofline.declared.numbers.units import whole
from roofline.training.estimate import TrainingEstimate
from roofline.training.memory.by_part import memory_over_step
from roofline.views.plots import data as d
from roofline.views.text.inference.estimate import deployment_text

MOST_STAGES = 4
"""Largest number of pipeline stages in a picture."""


def step_memory_plot(e: TrainingEstimate) -> d.StepMemoryPlot:
    """Memory of training ranks over a step; with many stages some of them, the first and last included."""
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
