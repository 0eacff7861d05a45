"""Changes to the layout or the step that would make a training step fit, cheapest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count
from roofline.declared.result import Figured, Units
from roofline.inference.deployment import Machine, deploy
from roofline.layout.layout import Layout
from roofline.training.estimate import TrainingEstimate
from roofline.training.layouts.validation import has_room
from roofline.training.train import retrained
from roofline.work.training import Training, with_options


@dataclass(frozen=True)
class Fix(Figured):
    """Changes that make a step fit, as text, and the resulting estimate. `cost`: expected chip-seconds per step."""

    FIGURES: ClassVar[Units] = {"detail": "", "chips": "", "time": "s", "cost": ""}

    detail: str
    estimate: TrainingEstimate

    @property
    def chips(self) -> Count:
        """Chips of the changed layout."""
        return self.estimate.chips

    @property
    def time(self) -> Count:
        """Expected seconds of a step with the changes."""
        return self.estimate.time

    @property
    def cost(self) -> float:
        """Expected chip-seconds of one step."""
        return float(self.estimate.time * self.estimate.chips)


TrainingRemedy = tuple[str, dict[str, Any], dict[str, Any]]
"""A description, changes to the layout, changes to the step."""


def training_remedies(step: Training, layout: Layout) -> Iterator[TrainingRemedy]:
    """Changes that reduce memory per rank, those on the same number of chips first."""
    highest = 3 if layout.pp == 1 else 1  # DeepSpeed's runtime/engine.py refuses higher stages with pipelines
    if layout.dp * layout.cp > 1:
        yield from ((f"zero={z}", {"zero": z}, {}) for z in range(layout.zero + 1, highest + 1))
    if layout.tp > 1 and not layout.sp:
        yield "sp", {"sp": True}, {}
    if step.micro_batch > 1:
        yield "micro_batch=1", {}, {"micro_batch": 1}
    if not step.flash:
        yield "flash attention", {}, {"flash": True}
    if step.recompute != "full":
        yield "recompute=full", {}, {"recompute": "full"}
    if not step.fused_loss:
        yield "fused_loss", {}, {"fused_loss": True}
    if step.optimizer.name == "adamw":
        yield "optimizer=adam8bit", {}, {"optimizer": "adam8bit"}
    if "optimizer" not in step.offload:
        yield "offload=optimizer", {}, {"offload": (*step.offload, "optimizer")}
    for degree in ("tp", "pp"):
        for factor in (2, 4, 8):
            size = factor * getattr(layout, degree)
            if layout.dp % factor == 0:
                yield f"{degree}={size},dp={layout.dp // factor}", {degree: size, "dp": layout.dp // factor}, {}
            yield f"{degree}={size}", {degree: size}, {}


def fixes(estimate: TrainingEstimate, on: Machine, most: int = 3) -> tuple[Fix, ...]:
    """The cheapest changes that make an estimate fit, alone or in pairs."""
    known = list(training_remedies(estimate.step, estimate.deployment.layout))
    fitting: dict[str, Fix] = {}
    for together in (1, 2):
        for chosen in combinations(known, together):
            names = [n for _, spread, run in chosen for n in (*spread, *run)]
            if len(set(names)) < len(names) or any(c[0] in fitting for c in chosen):
                continue  # a duplicate, or more than needed
            tried = _tried(estimate, on, chosen)
            if tried is not None and tried.fits:
                detail = ", ".join(c[0] for c in chosen)
                fitting[detail] = Fix(detail, tried)
    return tuple(sorted(fitting.values(), key=lambda f: f.cost)[:most])


def _tried(estimate: TrainingEstimate, on: Machine, chosen: tuple[TrainingRemedy, ...]) -> TrainingEstimate | None:
    asked, layout, step = estimate.asked, estimate.deployment.layout, estimate.step
    try:
        for _, spread, run in chosen:
            layout = replace(layout, **spread)
            step = with_options(step, **run)
        deployment = deploy(on, layout)
        return retrained(asked, step, deployment) if has_room(asked.model, step, deployment, asked.engine) else None
    except InputError:  # a degree that does not divide, or more chips than the cluster has
        return None
