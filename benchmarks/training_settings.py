"""What MLPerf's LoRA submissions set, which the tables of results leave out, and which memory depends on.

train.py (`target_modules`, `fp8_params`, grad_reduce_in_fp32=False) and config_*.sh (FP8_ACT, FP8_ACTIVATION, ACL, FP4,
PRE_QUANTIZED_MODEL) of the submissions' llama2_70b_lora in mlcommons/training_results_v4.1 to v5.1. What the recipes of
NeMo and Megatron-Bridge set is in engines/stacks.toml.
"""

from __future__ import annotations

from typing import Any


def lora_settings(chip: str, cp: int, recipe: str) -> dict[str, Any]:
    """Options of MLPerf's LoRA of Llama-2-70B: adapters beside qkv and the output projection alone.

    Frozen matrices are kept in fp8, or in nvfp4 where that is computed in. Inputs of SwiGLU are kept in fp8 on AMD's
    chips, on one H200 NVL, and on B200 and GB200 where a rank has whole sequences. On MI300X 21 layers are run again.
    No transposed copies of frozen matrices: AMD's configs say so, and on Hopper they would not fit.
    """
    amd = chip.startswith("mi")
    changes = [f"matrices={'nvfp4' if recipe == 'nvfp4' else 'fp8'}"] if recipe in ("fp8", "nvfp4") else []
    if changes and (amd or chip == "h200-nvl" or (chip in ("b200", "gb200") and cp == 1)):
        changes.append("activated=fp8")
    if not amd:
        changes.insert(0, "gradients=bf16")
    options: dict[str, Any] = {
        "recipe": f"{recipe}({','.join(changes)})" if changes else recipe, "lora_targets": ("qkv_proj", "o_proj"),
    }  # fmt: skip
    return options | ({"recompute": "full", "recompute_layers": 21} if chip == "mi300x" else {})
