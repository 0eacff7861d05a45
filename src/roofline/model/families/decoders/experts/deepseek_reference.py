"""Read configs with the key names of DeepSeek's own inference code (deepseek-ai/DeepSeek-V3, inference/configs)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from roofline.declared.trees import JsonObject
from roofline.model.configs.config import Config

_SIZES: Mapping[str, str] = MappingProxyType({
    "dim": "hidden_size", "inter_dim": "intermediate_size", "moe_inter_dim": "moe_intermediate_size",
    "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads", "n_activated_experts": "num_experts_per_tok",
    "n_shared_experts": "n_shared_experts",
})  # fmt: skip


def named_as_published(c: Config) -> Config:
    """The config with the key names of a config.json; any other config is returned unchanged.

    Configs of the inference code have no model_type. `q_lora_rank` 0 means that queries are not compressed. `dtype` fp8
    means products in fp8 with a scale for each 128 × 128 weights, as in the published checkpoint.
    """
    if "model_type" in c.raw or not {"moe_inter_dim", "kv_lora_rank", "n_dense_layers"} <= c.raw.keys():
        return c
    sizes = {theirs: c.size(ours) for ours, theirs in _SIZES.items()}
    groups = c.size("n_expert_groups", 1), c.size("n_limited_groups", 1)
    stored = c.text("dtype", "bf16", ("bf16", "fp8"))
    fp8: JsonObject = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    c.mark_read("score_func", "route_scale", "mscale", "scale_fmt", "beta_fast", "beta_slow")
    model_type = "deepseek_v32" if c.has("index_topk") else "deepseek_v3"
    return c.of_kind(model_type).with_values(
        **sizes,
        model_type=model_type,
        first_k_dense_replace=c.size("n_dense_layers", least=0),
        q_lora_rank=c.size("q_lora_rank", 0, least=0) or None,
        n_group=groups[0],
        topk_group=groups[1],
        max_position_embeddings=c.size("original_seq_len", 4096) * c.size("rope_factor", 40),
        dtype="bfloat16",
        **({"quantization_config": fp8} if stored == "fp8" else {}),
    )
