"""How long any step takes: `estimate` of a prefill, a decode or a training step, of one layout or of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from roofline.estimates.latency import Estimate, estimate_step
from roofline.estimates.place import Place
from roofline.layout.layout import layout_named
from roofline.model.model import Model
from roofline.work.step import Step
from roofline.work.training import Training

if TYPE_CHECKING:
    from roofline.estimates.training import TrainingEstimate


@overload
def estimate(model: Model, step: Training, *, on: Place, layout: object = None, **options: Any) -> TrainingEstimate: ...


@overload
def estimate(model: Model, step: Step, *, on: Place, layout: object = None, **options: Any) -> Estimate: ...


def estimate(model: Model, step: Step, **options: Any) -> Any:
    """How long `step` takes: of a prefill or decode `estimate_step`, of a training step `estimate_training`.

    A training step with degrees or a batch in arrays gives a `TrainingSweep`.
    """
    if isinstance(step, Training) and (step.shape or layout_named(options.get("layout")).shape):
        from roofline.estimates.training_sweep import sweep_training

        return sweep_training(model, step, **{**options, "layout": layout_named(options.get("layout"))})
    if isinstance(step, Training):
        from roofline.estimates.training import estimate_training

        return estimate_training(model, step, **options)
    return estimate_step(model, step, **options)
