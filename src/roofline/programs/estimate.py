"""How long any step takes: `estimate` of a prefill, a decode or a training step, of one setting or of many."""

from __future__ import annotations

from typing import Annotated, Any

from roofline.declared.errors import InputError
from roofline.declared.groups import CountingText, TrafficText, Where
from roofline.declared.kinds import Switch
from roofline.inference.cost.bill import Bill
from roofline.inference.settings import question, setup
from roofline.inference.step import step_estimate
from roofline.model.load import Source, model_of
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.work.lower import seeing
from roofline.work.step import Step
from roofline.work.training import Training


@question
def estimate(
    model: Model | Source,
    step: Step,
    where: Where,
    *,
    counting: CountingText = "standard",
    traffic: TrafficText = "fused",
    within: Annotated[Switch, "A step beyond the model's context is an error."] = True,
    images: Images | None = None,
    bill: Bill | None = None,
) -> Any:
    """Seconds of `step` and the bytes that it needs: an `Estimate`, or for a training step a `TrainingEstimate`.

    Lists of settings give a `Grid`. `model`: a Model, its name, path or config. `step`: of all replicas together; the
    busiest replica's share is timed. The engine's kernels are timed; its host time is not part of a step (see
    `generate`). `counting`, `traffic` and `images`: as in `analyze`. `within`: whether a step beyond the model's
    context is an error.
    Arrays in the step and in the layout's degrees broadcast, and every figure has their shape.
    Raises InputError for a chip, layout, law, format or engine that is not understood, a format that the chip lacks,
    a degree that does not divide what it shares out, a layout of more chips than the cluster has, and a sequence longer
    than the model's context.
    """
    if isinstance(step, Training):
        from roofline.training.train import train_step

        if images is not None:
            raise InputError(
                "images" if images.number else "audio", images.number or images.audio, "none in a training step"
            )
        return train_step(model, step, where, bill)
    asked = setup(model_of(model).hearing(images), where, bill)
    return step_estimate(asked, seeing(asked.model, step, images), counting=counting, traffic=traffic, within=within)
