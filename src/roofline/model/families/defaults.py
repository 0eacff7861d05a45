"""What an architecture takes where a config.json leaves a key out, as the classes of transformers 5.23 define it.

Only keys whose absence means a number of the architecture's own, rather than the feature's absence, stand here. Each
use leaves a note that the model carries among its warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

Values = Mapping[str, int]


def _kv_heads(count: int, *model_types: str) -> Iterable[tuple[str, dict[str, int]]]:
    return ((t, {"num_key_value_heads": count}) for t in model_types)


def _table() -> Mapping[str, Values]:
    table: dict[str, dict[str, int]] = {}
    entries = (
        *_kv_heads(
            8, "mistral", "mixtral", "ministral3", "gpt_oss", "jamba", "glm4_moe", "lfm2", "llama4_text", "minimax_m2",
            "nemotron", "phimoe", "seed_oss", "bamba",
        ),
        *_kv_heads(
            8, "cwm", "falcon_h1", "hy_v3", "iquestcoder", "laguna", "lfm2_moe", "minimax", "nemotron_h", "solar_open"
        ),
        *_kv_heads(32, "dots1", "exaone_moe"),
        *_kv_heads(5, "bitnet"),
        *_kv_heads(4, "ernie4_5_moe", "gemma2", "gemma3_text", "qwen3_moe", "qwen3_5_text", "smollm3"),
        *_kv_heads(
            4, "gemma4_text", "gemma4_unified_text", "granite_swa", "kolibri1", "mellum", "mimo_v2_flash", "vaultgemma"
        ),
        *_kv_heads(2, "gemma3n_text"),
        *_kv_heads(2, "ernie4_5", "glm", "glm4", "internlm3", "qwen3_5_moe_text", "qwen3_next", "starcoder2"),
        ("gemma3_text", {"num_attention_heads": 8, "vocab_size": 262208}),
        ("deepseek_v2", {"n_shared_experts": 2, "q_lora_rank": 1536}),
        ("deepseek_v3", {"n_shared_experts": 1, "q_lora_rank": 1536, "num_experts_per_tok": 8}),
        ("deepseek_v32", {"n_shared_experts": 1, "num_experts_per_tok": 8}),
        ("glm4_moe_lite", {"n_shared_experts": 1, "q_lora_rank": 768, "num_experts_per_tok": 4}),
        ("kimi_linear", {"num_experts_per_token": 8, "num_shared_experts": 1}),
        ("ernie4_5_moe", {"moe_num_shared_experts": 2}),
        ("llama4_text", {"attention_chunk_size": 8192}),
        ("mistral", {"sliding_window": 4096}),
        ("gptj", {"rotary_dim": 64}),
        ("codegen", {"rotary_dim": 64}),
        ("afmoe", {"num_shared_experts": 2, "num_experts_per_tok": 6}),
        ("axk1", {"n_shared_experts": 1, "num_experts_per_tok": 8, "q_lora_rank": 1536}),
        ("deepseek_v4", {"n_shared_experts": 1, "num_experts_per_tok": 6}),
        ("exaone_moe", {"num_shared_experts": 1, "num_experts_per_tok": 8}),
        ("falcon_h1", {"mamba_d_ssm": 1024}),
        ("gemma3n_text", {"num_kv_shared_layers": 15}),
        ("glm_moe_dsa", {"n_shared_experts": 1, "num_experts_per_tok": 8}),
        ("hy_v3", {"num_shared_experts": 1, "num_experts_per_tok": 8}),
        ("lfm2_moe", {"num_experts_per_tok": 4}),
        ("mellum", {"num_experts_per_tok": 8}),
        ("mimo_v2_flash", {"num_experts_per_tok": 8}),
        ("minicpm3", {"q_lora_rank": 768}),
        ("mistral4", {"n_shared_experts": 1, "num_experts_per_tok": 4, "q_lora_rank": 1024}),
        ("solar_open", {"n_shared_experts": 1, "num_experts_per_tok": 8}),
        ("youtu", {"q_lora_rank": 1536}),
    )  # fmt: skip
    for model_type, values in entries:
        table.setdefault(model_type, {}).update(values)
    return MappingProxyType(table)


DEFAULTS = _table()
