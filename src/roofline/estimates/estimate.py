"""How long any step takes: `estimate` of a prefill, a decode or a training step, of one layout or of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from roofline.estimates.latency import Estimate, estimate_step
from roofline.estimates.place import Place
from roofline.layout.layout import layout_named
from roofline.machine.engine import Engine
from roofline.machine.timing import Mode
from roofline.model.model import Model
from roofline.work.counting import Counting
from roofline.work.step import Step
from roofline.work.traffic import Traffic
from roofline.work.training import Training

if TYPE_CHECKING:
    from roofline.estimates.training import TrainingEstimate


@overload
def estimate(  # type: ignore[overload-overlap]  # a Training is a Step, but the narrower comes first
    model: Model, step: Training, *, on: Place, layout: object = None, law: str | Mode = ...,
    precision: object = None, engine: str | Engine | None = ...,
) -> TrainingEstimate: ...  # fmt: skip


@overload
def estimate(
    model: Model, step: Step, *, on: Place, layout: object = None, law: str | Mode = ..., precision: object = None,
    engine: str | Engine | None = ..., counting: str | Counting = ..., traffic: str | Traffic = ...,
    within: bool = ...,
) -> Estimate: ...  # fmt: skip


def estimate(model: Model, step: Step, *, on: Place, layout: object = None, **options: Any) -> Any:
    """Seconds that `step` takes and bytes that it needs: an `Estimate`, of a training step a `TrainingEstimate`.

    `on`: a chip of the catalog (`h100-sxm`), a chip file, figures (`peak=1000T,bw=4.8T,mem=141G`), or a cluster
    (`8xh100-sxm`, a preset, a cluster file). `layout`: degrees such as `tp=8` or a Layout; a prefill or a decode is
    then the step of one data-parallel replica, a training step that of all.
    `law`: `calibrated` on measurements, `ideal` (the speed of light) or `fixed(mfu,mbu)`. `precision`: changes to the
    checkpoint's formats (`fp8`, `weights=int4,kv=fp8`), to a training recipe's. `engine`: whose kernels, `vllm`,
    `trtllm` or `sglang`; of training whose slow-downs, `megatron` (not given), `fsdp`; None for neither.
    Of a prefill or a decode alone, `counting` and `traffic`: as in `analyze`; `within`: whether a step beyond the
    model's context is an error (True).
    Arrays in the step broadcast, and every figure has their shape; a training step with degrees or a batch in arrays
    gives a `TrainingSweep`.
    Raises InputError for a chip, layout, law, format or engine that is not understood, a format that the chip lacks,
    a degree that does not divide what it shares out, a layout of more chips than the cluster has, a batch that does
    not divide into micro-batches, and a sequence longer than the model's context.
    """
    if isinstance(step, Training) and (step.shape or layout_named(layout).shape):
        from roofline.estimates.training_sweep import sweep_training

        return sweep_training(model, step, on=on, layout=layout_named(layout), **options)
    if isinstance(step, Training):
        from roofline.estimates.training import estimate_training

        return estimate_training(model, step, on=on, layout=layout, **options)
    return estimate_step(model, step, on=on, layout=layout, **options)
