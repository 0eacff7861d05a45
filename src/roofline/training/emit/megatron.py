"""Megatron-LM: the flags of `pretrain_gpt.py`, by megatron/training/arguments.py."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.training.emit.core import core_told
from roofline.training.emit.sizes import ConfigEntry, LayoutSizes, Missing, OptionValue, Told, recipe_words
from roofline.training.estimate import TrainingEstimate

FLAGS: Mapping[str, str] = {
    "virtual_pipeline_model_parallel_size": "--num-virtual-stages-per-pipeline-rank",
    "gradient_accumulation_fusion": "--no-gradient-accumulation-fusion",
}
"""Fields whose flags have other names."""
PRECISION: Mapping[str, tuple[tuple[str, OptionValue], ...]] = {
    "bf16": (("--bf16", True),),
    "bf16-gradients": (("--bf16", True), ("--grad-reduce-in-bf16", True)),
    "fp16": (("--fp16", True), ("--accumulate-allreduce-grads-in-fp32", True)),
    "fp32": (),
    "fp8": (("--bf16", True), ("--fp8-format", "hybrid"), ("--fp8-recipe", "tensorwise")),
    "fp8-block": (("--bf16", True), ("--fp8-format", "e4m3"), ("--fp8-recipe", "blockwise")),
    "mxfp8": (("--bf16", True), ("--fp8-format", "e4m3"), ("--fp8-recipe", "mxfp8")),
    "nvfp4": (("--bf16", True), ("--fp4-format", "e2m1"), ("--fp4-recipe", "nvfp4")),
}
"""Recipe → its flags; with bf16, gradients are accumulated in fp32 by default."""


def megatron_told(e: TrainingEstimate, n: LayoutSizes) -> Told:
    """Flags of Megatron-LM. The launcher sets the number of GPUs, which determines the number of replicas."""
    for told in core_told(e, n):
        yield told if isinstance(told, Missing) else ConfigEntry(flag_of(told.name), told.value)
    recipe, changes = recipe_words(e.recipe)
    if recipe in PRECISION:
        yield from (ConfigEntry(name, value) for name, value in PRECISION[recipe])
    else:
        yield Missing(f"recipe {recipe}: Megatron-LM has no flags for it")
    for change in changes:
        if change == "gradients=bf16" and recipe != "fp16":
            yield ConfigEntry("--grad-reduce-in-bf16", True)
        else:
            yield Missing(f"recipe {e.recipe}, {change}: not among the flags that are written")
    yield ConfigEntry("--attention-backend", "flash" if e.step.flash else "unfused")


def flag_of(field: str) -> str:
    """Flag of a field.

    >>> flag_of("tensor_model_parallel_size")
    '--tensor-model-parallel-size'
    """
    return FLAGS.get(field, f"--{field.replace('_', '-')}")


def flags_text(settings: tuple[ConfigEntry, ...]) -> str:
    """Flags, one per line; boolean flags have no value."""
    lines = []
    for name, value in settings:
        words = value if isinstance(value, tuple) else () if isinstance(value, bool) else (value,)
        lines.append(" ".join([name, *map(_quoted, words)]))
    return "\n".join(lines) + "\n"


def _quoted(word: object) -> str:
    text = f"{word}"
    return f"'{text}'" if any(c in text for c in "|*() ") else text
