"""DeepSpeed: the JSON config, by deepspeed/runtime/constants.py, deepspeed/runtime/zero/config.py and its docs."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.training.emit.sizes import (
    ConfigEntry,
    LayoutSizes,
    Missing,
    Told,
    not_of_layout,
    overlaps,
    recompute_words,
)
from roofline.training.estimate import TrainingEstimate

GRADIENTS: Mapping[str, str] = {"bf16": "fp32", "bf16-gradients": "bf16", "fp16": "fp32"}
"""Recipe → format in which gradients are accumulated."""


def deepspeed_told(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Settings of DeepSpeed. train_batch_size = micro-batch · accumulation · replicas."""
    layout, step = e.asked.layout, e.step
    yield ConfigEntry("train_batch_size", n.batch)
    yield ConfigEntry("train_micro_batch_size_per_gpu", n.micro_batch)
    yield ConfigEntry("gradient_accumulation_steps", n.micro_batches)
    yield ConfigEntry("zero_optimization.stage", layout.zero)
    if layout.zero:
        yield ConfigEntry("zero_optimization.overlap_comm", overlaps(step, "dp"))
    if layout.zero and n.sharers < n.dp * n.cp:
        yield Missing(f"shard {n.sharers}: DeepSpeed shares out over all ranks, since it has no MiCS any more (0.19)")
    if "optimizer" in step.offload:
        yield ConfigEntry("zero_optimization.offload_optimizer.device", "cpu")
    if "parameters" in step.offload:
        yield ConfigEntry("zero_optimization.offload_param.device", "cpu")
    left = [name for name in step.offload if name not in ("optimizer", "parameters")]
    if left:
        yield Missing(f"offload {', '.join(left)}: of no setting")
    yield from _precision(e)
    if e.optimizer == "adamw":
        yield ConfigEntry("optimizer.type", "AdamW")
    else:
        yield Missing(f"optimizer {e.optimizer}: DeepSpeed takes it as a Python object")
    yield from _parallelism(e, n)
    yield Missing(f"sequences of {n.tokens} tokens: the data loader's")
    if recompute_words(step) != "none":
        yield Missing(f"recompute {recompute_words(step)}: the model's, which calls deepspeed.checkpointing itself")
    if not overlaps(step, "dp") and not layout.zero and n.dp > 1:
        yield Missing("no overlap: of no setting without ZeRO")
    yield from not_of_layout(e, "DeepSpeed")


def _precision(e: TrainingEstimate) -> Told:
    if e.recipe in GRADIENTS:
        yield ConfigEntry("fp16.enabled" if e.recipe == "fp16" else "bf16.enabled", True)
        yield ConfigEntry("data_types.grad_accum_dtype", GRADIENTS[e.recipe])
    elif e.recipe != "fp32":
        yield Missing(f"recipe {e.recipe}: DeepSpeed has bf16 and fp16 with a master in fp32, and fp32")


def _parallelism(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Settings of parallelism: DeepSpeed has one for tensor parallelism; the rest is set up in code."""
    if n.tp > 1:
        yield ConfigEntry("tensor_parallel.autotp_size", n.tp)
        if e.asked.layout.zero == 3:
            yield Missing("tp with zero=3: DeepSpeed's automatic tensor parallelism goes with stages up to 2")
    if e.asked.layout.sp and n.tp > 1:
        yield Missing("sp: DeepSpeed's automatic tensor parallelism keeps norms and residuals whole")
    if n.pp > 1:
        yield Missing(f"pp={n.pp}, vp={n.vp}, {e.schedule}: a PipelineModule in code")
    if n.cp > 1:
        yield Missing(f"cp={n.cp}, {e.asked.layout.exchange}: sequence parallelism is made in code")
    if n.ep > 1:
        yield Missing(f"ep={n.ep}: deepspeed.moe.layer.MoE in code")
