"""What an architecture takes where a config.json leaves a key out, as the classes of transformers 5.23 define it.

Only keys whose absence means a number of the architecture's own, rather than the feature's absence, stand here. Each
use leaves a note that the model carries among its warnings.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Key and value heads, and the types that have so many.
_KV_HEADS = {
    2: """
        ernie4_5 gemma3n_text glm glm4 internlm3 muse_glimmer_text qwen3_5_moe_text qwen3_next starcoder2
    """,
    4: """
        ernie4_5_moe gemma2 gemma3_text gemma4_text gemma4_unified_text granite_swa kolibri1 mellum mimo_v2_flash
        minimax_m3_vl_text qwen3_5_text qwen3_moe smollm3 vaultgemma
    """,
    5: "bitnet",
    8: """
        bamba cosmos3_edge_text cwm falcon_h1 glm4_moe gpt_oss hy_v3 iquestcoder jamba laguna lfm2 lfm2_moe llama4_text
        minimax minimax_m2 ministral3 mistral mixtral nemotron nemotron_h phimoe seed_oss solar_open
    """,
    16: "muse_spark_text",
    32: "dots1 exaone_moe",
}
_OTHERS = {
    "afmoe": {"num_shared_experts": 2, "num_experts_per_tok": 6},
    "axk1": {"n_shared_experts": 1, "num_experts_per_tok": 8, "q_lora_rank": 1536},
    "axk2": {"n_shared_experts": 1, "num_experts_per_tok": 8},
    "codegen": {"rotary_dim": 64},
    "deepseek_v2": {"n_shared_experts": 2, "q_lora_rank": 1536},
    "deepseek_v3": {"n_shared_experts": 1, "q_lora_rank": 1536, "num_experts_per_tok": 8},
    "deepseek_v32": {"n_shared_experts": 1, "num_experts_per_tok": 8},
    "deepseek_v4": {"n_shared_experts": 1, "num_experts_per_tok": 6},
    "dots3_note": {"n_shared_experts": 1, "num_experts_per_tok": 8, "q_lora_rank": 1024},
    "dots3_note_text": {"n_shared_experts": 1, "num_experts_per_tok": 8, "q_lora_rank": 1024},
    "ernie4_5_moe": {"moe_num_shared_experts": 2},
    "exaone_moe": {"num_shared_experts": 1, "num_experts_per_tok": 8},
    "falcon_h1": {"mamba_d_ssm": 1024},
    "gemma3_text": {"num_attention_heads": 8, "vocab_size": 262208},
    "gemma3n_text": {"num_kv_shared_layers": 15},
    "glm4_moe_lite": {"n_shared_experts": 1, "q_lora_rank": 768, "num_experts_per_tok": 4},
    "glm5_next_text": {"n_shared_experts": 1, "num_experts_per_tok": 8},
    "glm_moe_dsa": {"n_shared_experts": 1, "num_experts_per_tok": 8},
    "gptj": {"rotary_dim": 64},
    "hy_v3": {"num_shared_experts": 1, "num_experts_per_tok": 8},
    "hy_v4": {"n_shared_experts": 1, "num_experts_per_tok": 8},
    "kimi_linear": {"num_experts_per_token": 8, "num_shared_experts": 1},
    "lfm2_moe": {"num_experts_per_tok": 4},
    "llama4_text": {"attention_chunk_size": 8192},
    "longcat_flash": {"zero_expert_num": 256},
    "mellum": {"num_experts_per_tok": 8},
    "minimax_m3_vl_text": {"rotary_dim": 64},
    "mimo_v2_flash": {"num_experts_per_tok": 8},
    "minicpm3": {"q_lora_rank": 768},
    "mistral": {"sliding_window": 4096},
    "mistral4": {"n_shared_experts": 1, "num_experts_per_tok": 4, "q_lora_rank": 1024},
    "solar_open": {"n_shared_experts": 1, "num_experts_per_tok": 8},
    "youtu": {"q_lora_rank": 1536},
}


def _table() -> Mapping[str, Mapping[str, int]]:
    table = {name: {"num_key_value_heads": heads} for heads, names in _KV_HEADS.items() for name in names.split()}
    for name, values in _OTHERS.items():
        table[name] = table.get(name, {}) | values
    return MappingProxyType(table)


DEFAULTS = _table()
