"""What would make a training step fit: changes to the layout and to the step, the least expensive first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from roofline.estimates.place import Place
from roofline.estimates.training import TrainingEstimate, estimate_training, has_room
from roofline.layout.layout import Layout
from roofline.model.errors import InputError
from roofline.work.training import Training, with_options


@dataclass(frozen=True)
class Fix:
    """Changes that make it fit, in words, and the estimate with them. `cost`: expected chip-seconds of a step."""

    detail: str
    estimate: TrainingEstimate

    @property
    def cost(self) -> float:
        """Expected chip-seconds of one step."""
        return self.estimate.time * self.estimate.chips


Change = tuple[str, dict[str, Any], dict[str, Any]]
"""In words, what it changes of the layout, what of the step."""


def changes(step: Training, layout: Layout) -> Iterator[Change]:
    """Everything that takes less memory a rank, on as many chips first."""
    if layout.dp * layout.cp > 1:
        yield from ((f"zero={z}", {"zero": z}, {}) for z in range(layout.zero + 1, 4))
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


def fixes(estimate: TrainingEstimate, on: Place, most: int = 3, **options: Any) -> tuple[Fix, ...]:
    """The least expensive changes that make an estimate fit, one alone or two together."""
    step, layout = estimate.step, estimate.where.layout
    known = list(changes(step, layout))
    found: dict[str, Fix] = {}
    for together in (1, 2):
        for chosen in combinations(known, together):
            names = [n for _, spread, run in chosen for n in (*spread, *run)]
            if len(set(names)) < len(names) or any(c[0] in found for c in chosen):
                continue  # twice the same, or more than is needed
            tried = _tried(estimate, on, chosen, options)
            if tried is not None and tried.fits:
                detail = ", ".join(c[0] for c in chosen)
                found[detail] = Fix(detail, tried)
    return tuple(sorted(found.values(), key=lambda f: f.cost)[:most])


def _tried(estimate: TrainingEstimate, on: Place, chosen: tuple[Change, ...], options: Any) -> TrainingEstimate | None:
    layout, step = estimate.where.layout, estimate.step
    try:
        for _, spread, run in chosen:
            layout = replace(layout, **spread)
            step = with_options(step, **run)
        if not has_room(estimate.model, step, on=on, layout=layout):
            return None
        return estimate_training(estimate.model, step, on=on, layout=layout, **options)
    except InputError:  # a degree that does not divide, or more chips than the cluster has
        return None
