"""What published configs say of training runs that the tables of results leave out, and that memory depends on.

Megatron-Bridge: scripts/performance/configs of NVIDIA-NeMo/Megatron-Bridge, `set_*_common_configs`
(grad_reduce_in_fp32=False), `cpu_offloading_num_layers` and `recompute_modules` of the workload base configs,
src/megatron/bridge/training/mixed_precision.py (`fp8_param_gather`), recipes/deepseek/deepseek_v3.py
(`exp_avg_dtype`). MLPerf's pre-training: pretrain.py (grad_reduce_in_fp32=False) and config_common.sh (FP8_PARAMS,
FP8_PARAM_GATHER) of llama31_405b in mlcommons/training_results_v5.0. MLPerf's LoRA: train.py (`target_modules`,
`fp8_params`, grad_reduce_in_fp32=False) and config_*.sh (FP8_ACT, FP8_ACTIVATION, ACL, FP4, PRE_QUANTIZED_MODEL) of
the submissions' llama2_70b_lora in mlcommons/training_results_v4.1 to v5.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OFFLOADED: Mapping[tuple[str, str, str], int] = {
    ("llama3_70b", "gb300", "bf16"): 30, ("llama3_70b", "gb300", "fp8"): 20, ("llama3_70b", "gb200", "bf16"): 20,
    ("llama3_70b", "gb200", "fp8"): 40, ("llama3_70b", "b200", "fp8"): 5, ("llama3.1_405b", "gb300", "bf16"): 40,
    ("llama3.1_405b", "gb300", "fp8"): 10, ("llama3.1_405b", "gb200", "fp8"): 92,
}  # fmt: skip
"""Model, chip and recipe of runs with Megatron's FSDP → layers whose activations are offloaded."""
UP_PROJECTIONS = ("q_b_proj", "attention_kv_b", "rope")
"""What `mla_up_proj` runs again."""
DENSE = ("gate_up_proj", "act", "down_proj")
"""What `mlp` runs again: the dense layers'."""


def bridge_settings(model: str, chip: str, recipe: str, fsdp: bool) -> dict[str, Any]:
    """Options of a run of Megatron-Bridge by its name for the model.

    `moe_act` and `layernorm` of gpt-oss are left out.
    """
    options: dict[str, Any] = {"recipe": _kept_recipe(chip, recipe)}
    layers = OFFLOADED.get((model, chip, recipe)) if fsdp else None
    if layers is not None:
        options |= {"offload": "activations", "offload_layers": layers}
    if model.startswith("deepseek"):
        dense = DENSE if chip in ("h100-sxm", "b200") else ()
        options |= {"recompute": (*UP_PROJECTIONS, *dense)} | ({} if fsdp else {"optimizer": "adamw-bf16"})
    return options


def pretraining_settings(benchmark: str, chip: str, recipe: str) -> dict[str, Any]:
    """Options of MLPerf's pre-training of Llama-3.1 with NeMo; of others nothing is read."""
    return {} if benchmark == "gpt3" or chip.startswith("mi") else {"recipe": _kept_recipe(chip, recipe)}


def _kept_recipe(chip: str, recipe: str) -> str:
    """A recipe with gradients that are kept and reduced in bf16, and matrices of layers in fp8 with scales by tensor.

    On Hopper these have a transposed copy besides, so that both take two bytes as bf16 does; MXFP8 has two copies
    everywhere, for its scales run along rows or columns; of NVFP4 weights stay in bf16.
    """
    single = recipe == "fp8" and chip not in ("h100-sxm", "h200-sxm")
    return f"{recipe}(gradients=bf16{',matrices=fp8' if single else ''})"


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
