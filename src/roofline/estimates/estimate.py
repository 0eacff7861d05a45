"""How long any step takes: `estimate` of a prefill, a decode or a training step, of one setting or of many."""

from __future__ import annotations

from typing import Any, Unpack

from roofline.estimates.settings import Settings, each, setup
from roofline.estimates.step import Estimate, step_estimate
from roofline.model.load import model_of
from roofline.work.counting import Counting
from roofline.work.step import Step
from roofline.work.traffic import Traffic
from roofline.work.training import Training


def estimate(
    model: Any, step: Step, *, counting: str | Counting = "standard", traffic: str | Traffic = "fused",
    within: bool = True, **settings: Unpack[Settings],
) -> Any:  # fmt: skip
    """Seconds that `step` takes and bytes that it needs: an `Estimate`, of a training step a `TrainingEstimate`.

    `model`: a Model, its name, path or config. `step`: of all replicas together; the busiest one's share of it is
    timed. The settings are those of `Settings`; of lists of them a `Grid`. The engine's kernels are timed, its host's
    time is no part of a step (see `generate`); of training it says whose slow-downs.
    `counting` and `traffic`: as in `analyze`. `within`: whether a step beyond the model's context is an error.
    Arrays in the step and in the layout's degrees broadcast, and every figure has their shape.
    Raises InputError for a chip, layout, law, format or engine that is not understood, a format that the chip lacks,
    a degree that does not divide what it shares out, a layout of more chips than the cluster has, a training batch that
    does not divide into micro-batches, and a sequence longer than the model's context.
    """
    if isinstance(step, Training):
        from roofline.estimates.train import train_step

        return train_step(model, step, **settings)

    def one(model: Any, **where: Any) -> Estimate:
        asked = setup(model_of(model), **where)
        return step_estimate(asked, step, counting=counting, traffic=traffic, within=within)

    return each(one, {"model": model, **settings})
