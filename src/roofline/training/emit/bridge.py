"""Megatron Bridge: a YAML file of overrides of its `ConfigContainer`, by docs/megatron-lm-to-megatron-bridge.md."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.training.emit.core import core_told
from roofline.training.emit.sizes import ConfigEntry, LayoutSizes, Missing, Told, recipe_words
from roofline.training.estimate import TrainingEstimate

SECTIONS: Mapping[str, str] = {
    **dict.fromkeys(("micro_batch_size", "global_batch_size"), "train"),
    **dict.fromkeys(
        (
            "use_distributed_optimizer", "num_distributed_optimizer_instances", "use_megatron_fsdp",
            "data_parallel_sharding_strategy", "overlap_grad_reduce", "overlap_param_gather",
        ),
        "ddp",
    ),
    **dict.fromkeys(
        ("optimizer", "optimizer_cpu_offload", "use_precision_aware_optimizer", "exp_avg_dtype", "exp_avg_sq_dtype"),
        "optimizer",
    ),
    "ckpt_format": "checkpoint",
    "tp_comm_overlap": "comm_overlap",
}  # fmt: skip
"""Fields outside the model's section → their section."""
PRECISION: Mapping[str, str] = {
    "bf16": "bf16_mixed", "fp8": "bf16_with_fp8_current_scaling_mixed",
    "fp8-block": "bf16_with_fp8_subchannel_scaling_mixed", "mxfp8": "bf16_with_mxfp8_mixed",
}  # fmt: skip
"""Recipe → mixed-precision recipe of training/mixed_precision.py."""
DIFFERENCES: Mapping[str, str] = {
    "fp8": "recipe fp8 in the first and the last layer, which Bridge's current scaling keeps in bf16",
    "mxfp8": "recipe mxfp8 with weights gathered in bf16: Bridge keeps and gathers them in mxfp8",
}
"""Recipe → how Bridge's recipe differs from it."""


def bridge_told(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Overrides of Megatron Bridge's config, with their sections."""
    for told in core_told(e, n):
        if isinstance(told, Missing):
            yield told
            continue
        yield ConfigEntry(f"{SECTIONS.get(told.name, 'model')}.{told.name}", told.value)
        if told.name == "seq_length":
            yield ConfigEntry("dataset.seq_length", told.value)
        if told.name == "use_distributed_optimizer":
            yield ConfigEntry("optimizer.use_distributed_optimizer", told.value)
    recipe, changes = recipe_words(e.recipe)
    if recipe in PRECISION:
        yield ConfigEntry("mixed_precision", PRECISION[recipe])
    else:
        yield Missing(f"recipe {recipe}: Megatron Bridge has no mixed-precision recipe of it")
    if recipe in DIFFERENCES:
        yield Missing(DIFFERENCES[recipe])
    for change in changes:
        yield Missing(f"recipe {e.recipe}, {change}: Bridge's recipes of mixed precision are Python objects")
    if not e.step.flash:
        yield Missing("attention kernel by kernel: the attention backend is a Python object in Megatron Bridge")
