"""Further families: small configs, each with the parameters and the counted FLOPs of the real code, to the digit.

The figures were read off transformers 5.23 and torch 2.13: all parameters of the model class, and what
`torch.utils.flop_counter` counts for a forward over 2 sequences of 130 tokens (None where it cannot run).
"""

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.model.modules import Attention, CompressedAttention, LinearAttention

# fmt: off
DENSE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128}
WIDE = {**DENSE, "head_dim": 16}
LATENT = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 4, "vocab_size": 128, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8}
SCAN = {"mamba_n_heads": 8, "mamba_d_state": 8, "mamba_n_groups": 2, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_chunk_size": 32}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim":
    16, "linear_conv_kernel_dim": 4}

CASES: list[tuple[str, dict[str, Any], int, int | None]] = [
    ("cwm", {**WIDE}, 139840, 102768640),
    ("cwm", {**WIDE, "mlp_bias": True, "layer_types": ["sliding_attention", "full_attention",
     "sliding_attention", "full_attention"], "sliding_window": 8, "tie_word_embeddings": True}, 132672,
     102768640),
    ("iquestcoder", {**WIDE}, 139840, 102768640),
    ("iquestcoder", {**WIDE, "attention_bias": True, "mlp_bias": True}, 141632, 102768640),
    ("hyperclovax", {**WIDE}, 140352, 102768640),
    ("hyperclovax", {**DENSE, "use_post_norm": False, "attention_bias": True, "mlp_bias": True}, 141632,
     102768640),
    ("jais2", {**WIDE}, 117248, 89989120),
    ("jais2", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
     "vocab_size": 128, "head_dim": 16, "attention_bias": False, "mlp_bias": False}, 132224, 98508800),
    ("nanochat", {**DENSE}, 114688, 89989120),
    ("nanochat", {**DENSE, "attention_bias": True, "tie_word_embeddings": True}, 107264, 89989120),
    ("granite_swa", {**DENSE}, 131664, 102768640),
    ("granite_swa", {**DENSE, "attention_bias": True, "mlp_bias": True, "layer_types": ["sliding_attention",
     "full_attention", "sliding_attention", "full_attention"], "tie_word_embeddings": False}, 141648,
     102768640),
    ("gpt_neo", {"hidden_size": 64, "num_layers": 4, "num_heads": 4, "vocab_size": 128,
     "max_position_embeddings": 256, "attention_types": [[["global", "local"], 2]], "window_size": 8}, 223872,
     141107200),
    ("gpt_neo", {"hidden_size": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 128,
     "max_position_embeddings": 256, "intermediate_size": 100, "attention_types": [[["local"], 2]],
     "tie_word_embeddings": False}, 92232, 51916800),
    ("codegen", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 128, "rotary_dim":
     8}, 115840, 72683520),
    ("codegen", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 128, "rotary_dim": 8,
     "n_inner": 80}, 70432, 49254400),
    ("biogpt", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
     "vocab_size": 128, "max_position_embeddings": 32}, 127872, 98508800),
    ("xglm", {"d_model": 64, "ffn_dim": 96, "num_layers": 3, "attention_heads": 4, "vocab_size": 128}, 96352,
     74946560),
    ("gpt_neox_japanese", {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size":
     128, "intermediate_multiple_size": 3}, 173248, 124067840),
    ("persimmon", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
     "vocab_size": 128}, 134144, 98508800),
    ("persimmon", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
     "vocab_size": 128, "qk_layernorm": False}, 133888, 98508800),
    ("openai-gpt", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 128}, 112256,
     None),
    ("ctrl", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 128, "dff": 100}, 68168,
     51916800),
    ("dots1", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "n_routed_experts": 6,
     "n_shared_experts": 2, "first_k_dense_replace": 1, "sliding_window": None}, 196416, 88990720),
    ("dots1", {**DENSE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "n_routed_experts": 6,
     "n_shared_experts": 1, "attention_bias": True, "sliding_window": 8, "max_window_layers": 2}, 197568,
     74813440),
    ("exaone_moe", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "num_shared_experts": 1, "sliding_window": 8}, 182592, 81802240),
    ("exaone_moe", {**DENSE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "num_shared_experts": 2, "first_k_dense_replace": 2, "sliding_window": 8, "layer_types":
     ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]}, 177600, 93583360),
    ("solar_open", {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads":
     2, "vocab_size": 128, "head_dim": 16, "moe_intermediate_size": 24, "num_experts_per_tok": 2,
     "n_routed_experts": 6, "n_shared_experts": 1}, 196672, 74813440),
    ("solar_open", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "n_routed_experts": 6,
     "n_shared_experts": 2, "attention_bias": True}, 215616, 84398080),
    ("hy_v3", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "num_shared_experts": 1}, 182592, 81802240),
    ("hy_v3", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "num_shared_experts": 2, "attention_bias": True, "mlp_bias": True, "mlp_layer_types": ["dense", "dense",
     "sparse", "dense"]}, 160480, 98176000),
    ("afmoe", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "num_shared_experts": 1, "num_dense_layers": 1, "sliding_window": 8}, 199506, 90321920),
    ("afmoe", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
     "vocab_size": 128, "head_dim": 16, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "num_shared_experts": 0, "num_dense_layers": 2, "attention_bias": True, "layer_types":
     ["sliding_attention", "full_attention", "sliding_attention", "full_attention"], "sliding_window": 8},
     193484, 101038080),
    ("mimo_v2_flash", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "n_routed_experts": 6,
     "v_head_dim": 12, "sliding_window": 8}, 173260, 72683520),
    ("mimo_v2_flash", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "n_routed_experts": 6,
     "v_head_dim": 12, "sliding_window_size": 8, "attention_bias": True, "layer_types": ["sliding_attention",
     "full_attention", "sliding_attention", "full_attention"], "mlp_layer_types": ["sparse", "sparse", "sparse",
     "sparse"]}, 179864, 61434880),
    ("flex_olmo", {**WIDE, "pad_token_id": 0, "num_experts": 6, "num_experts_per_tok": 2}, 510400, 65228800),
    ("flex_olmo", {**DENSE, "pad_token_id": 0, "num_experts": 6, "num_experts_per_tok": 2, "attention_bias":
     True}, 511168, 65228800),
    ("cohere2_moe", {**WIDE, "num_experts": 6, "num_experts_per_tok": 2, "sliding_window": 8}, 501568,
     65228800),
    ("cohere2_moe", {**WIDE, "num_experts": 6, "num_experts_per_tok": 2, "num_shared_experts": 2,
     "first_k_dense_replace": 1, "prefix_dense_intermediate_size": 40, "attention_bias": True, "rms_norm_eps":
     1e-05, "sliding_window": 8}, 509632, 126530560),
    ("mellum", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6}, 178368,
     65228800),
    ("mellum", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "attention_bias": True, "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
     "full_attention"], "mlp_layer_types": ["dense", "sparse", "dense", "sparse"]}, 159936, 83998720),
    ("laguna", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "shared_expert_intermediate_size": 20}, 181330, 81136640),
    ("laguna", {**WIDE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "shared_expert_intermediate_size": 20, "gating": "per-element", "attention_bias": True,
     "num_attention_heads_per_layer": [4, 6, 4, 8], "layer_types": ["sliding_attention", "full_attention",
     "sliding_attention", "full_attention"]}, 215986, 111687680),
    ("granitemoe_swa", {**DENSE, "num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 8}, 510032,
     65228800),
    ("granitemoe_swa", {**DENSE, "num_local_experts": 6, "num_experts_per_tok": 2, "shared_intermediate_size":
     20, "attention_bias": True}, 526160, 73216000),
    ("kolibri1", {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
     "vocab_size": 128, "head_dim": 16, "sliding_window": 8, "moe_intermediate_size": 24, "num_experts_per_tok":
     2, "num_local_experts": 6, "shared_expert_intermediate_size": 20}, 194240, 73216000),
    ("aria_text", {**DENSE, "moe_num_experts": 6, "moe_topk": 2, "moe_num_shared_experts": 2}, 657472,
     141905920),
    ("aria_text", {**DENSE, "moe_num_experts": 6, "moe_topk": 2, "moe_num_shared_experts": 1, "attention_bias":
     True, "mlp_bias": True}, 585536, 103567360),
    ("dbrx", {"d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 128, "max_seq_len": 64, "attn_config":
     {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0}, "ffn_config": {"ffn_hidden_size": 24,
     "moe_num_experts": 6, "moe_top_k": 2}}, 97344, 44328960),
    ("vaultgemma", {**WIDE, "sliding_window": 8}, 131648, 102768640),
    ("vaultgemma", {**WIDE, "attention_bias": True, "tie_word_embeddings": False, "sliding_window": 8}, 140608,
     102768640),
    ("lfm2", {**DENSE, "full_attn_idxs": [1, 3], "block_multiple_of": 8}, 115712, 77146112),
    ("lfm2", {**DENSE, "block_auto_adjust_ff_dim": False, "conv_bias": True, "layer_types": ["conv",
     "full_attention", "conv", "conv"], "conv_L_cache": 5}, 145888, 83714560),
    ("lfm2", {**DENSE, "block_ff_dim": 100, "block_ffn_dim_multiplier": 1.3, "block_multiple_of": 16,
     "full_attn_idxs": [0]}, 144544, 83504128),
    ("lfm2_moe", {**DENSE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "layer_types": ["conv", "full_attention", "conv", "conv"]}, 163744, 64734208),
    ("lfm2_moe", {**DENSE, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "num_experts": 6,
     "num_dense_layers": 1, "conv_bias": True, "layer_types": ["conv", "full_attention", "conv",
     "full_attention"]}, 169728, 61770752),
    ("granitemoehybrid", {**DENSE, **SCAN, "mamba_d_head": 16, "num_local_experts": 6, "num_experts_per_tok": 2,
     "shared_intermediate_size": 20, "layer_types": ["mamba", "attention", "mamba", "mamba"]}, 572776,
     87612928),
    ("granitemoehybrid", {**DENSE, **SCAN, "mamba_d_head": 16, "num_local_experts": 0, "num_experts_per_tok": 0,
     "shared_intermediate_size": 20, "attention_bias": True, "mamba_proj_bias": True, "mamba_conv_bias": False,
     "layer_types": ["mamba", "attention", "mamba", "attention"], "position_embedding_type": "rope"}, 113856,
     82015232),
    ("bamba", {**DENSE, **SCAN, "mamba_d_head": 16, "attn_layer_indices": [1]}, 187240, 117165568),
    ("bamba", {**DENSE, **SCAN, "attn_layer_indices": [0, 3], "attention_bias": True, "mlp_bias": True,
     "mamba_proj_bias": True, "mamba_conv_bias": False}, 173248, 112366592),
    ("falcon_h1", {**DENSE, **SCAN, "mamba_d_head": 16, "mamba_d_ssm": 128}, 251680, 182134784),
    ("falcon_h1", {**WIDE, **SCAN, "mamba_d_head": 8, "mamba_d_ssm": 64, "mamba_rms_norm": True,
     "projectors_bias": True, "mamba_proj_bias": True, "attention_bias": True, "mlp_bias": True}, 204224,
     147871744),
    ("nemotron_h", {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads":
     2, "head_dim": 16, "vocab_size": 128, "hybrid_override_pattern": "M*-E", "ssm_state_size": 8,
     "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "chunk_size": 32, "n_routed_experts": 6,
     "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 20, "num_experts_per_tok": 2}, 90744,
     47064576),
    ("nemotron_h", {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads":
     2, "vocab_size": 128, "layers_block_type": ["mamba", "attention", "moe", "mlp", "moe"], "ssm_state_size":
     8, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "chunk_size": 32, "n_routed_experts": 6,
     "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 20, "moe_latent_size": 16,
     "num_experts_per_tok": 2, "use_bias": True, "mlp_bias": True, "use_conv_bias": False}, 175336, 156023296),
    ("kimi_linear", {**LATENT, "v_head_dim": 10, "pad_token_id": 0, "num_experts": 6, "num_shared_experts": 1,
     "moe_intermediate_size": 24, "num_experts_per_token": 2, "linear_attn_config": {"full_attn_layers": [2],
     "kda_layers": [1, 3, 4], "head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4}}, 175188, 67381632),
    ("kimi_linear", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads":
     4, "num_key_value_heads": 4, "vocab_size": 128, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim":
     12, "qk_rope_head_dim": 8, "v_head_dim": 10, "pad_token_id": 0, "num_experts": 6, "num_shared_experts": 2,
     "moe_intermediate_size": 24, "num_experts_per_token": 2, "linear_head_dim": 8, "linear_num_heads": 6,
     "attention_bias": True, "first_k_dense_replace": 2}, 287694, 135120000),
    ("olmo_hybrid", {**DENSE, **DELTA, "pad_token_id": 0}, 148840, 103830016),
    ("olmo_hybrid", {**DENSE, **DELTA, "pad_token_id": 0, "attention_bias": True, "layer_types":
     ["full_attention", "linear_attention", "full_attention", "linear_attention"]}, 146352, 103476224),
    ("minimax", {**WIDE, "num_local_experts": 6, "num_experts_per_tok": 2, "block_size": 32}, 526528, 62771200),
    ("minimax", {**WIDE, "num_local_experts": 6, "num_experts_per_tok": 2, "block_size": 48, "layer_types":
     ["linear_attention", "full_attention", "linear_attention", "full_attention"]}, 526528, 64475136),
    ("glm_moe_dsa", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10, "n_routed_experts": 6, "n_shared_experts":
     1, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "index_topk": 16,
     "index_head_dim": 8, "index_n_heads": 2}, 145056, 93691520),
    ("glm_moe_dsa", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10, "n_routed_experts": 6, "n_shared_experts":
     1, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "index_topk": 16,
     "index_head_dim": 8, "index_n_heads": 2, "first_k_dense_replace": 1, "attention_bias": True,
     "indexer_types": ["full", "shared", "full", "shared"]}, 171840, 76215360),
    ("axk1", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10, "n_routed_experts": 6, "n_shared_experts": 1,
     "n_group": 1, "topk_group": 1, "moe_intermediate_size": 24, "num_experts_per_tok": 2}, 169504, 72716800),
    ("axk1", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10, "n_routed_experts": 6, "n_shared_experts": 1,
     "n_group": 1, "topk_group": 1, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "attention_bias":
     True, "first_k_dense_replace": 0, "moe_layer_freq": 2}, 155680, 79705600),
    ("mistral4", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10, "n_routed_experts": 6, "n_shared_experts": 1,
     "moe_intermediate_size": 24, "num_experts_per_tok": 2}, 183520, None),
    ("mistral4", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10, "n_routed_experts": 6, "n_shared_experts": 1,
     "moe_intermediate_size": 24, "num_experts_per_tok": 2, "first_k_dense_replace": 2, "attention_bias": True},
     155552, None),
    ("youtu", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10}, 118496, 93683200),
    ("youtu", {**LATENT, "q_lora_rank": None, "v_head_dim": 10, "attention_bias": True, "tie_word_embeddings":
     False}, 133600, 97144320),
    ("minicpm3", {**LATENT, "q_lora_rank": 24, "v_head_dim": 10}, 118496, 93683200),
    ("minicpm3", {**LATENT, "q_lora_rank": None, "attention_bias": True, "mlp_bias": True}, 134112, 107627520),
    ("gemma4_text", {**WIDE, "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
     "full_attention"], "sliding_window": 8, "global_head_dim": 32, "vocab_size_per_layer_input": 100,
     "hidden_size_per_layer_input": 0}, 156928, 132853760),
    ("gemma4_text", {**WIDE, "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
     "full_attention"], "sliding_window": 8, "global_head_dim": 32, "vocab_size_per_layer_input": 100,
     "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 1, "use_double_wide_mlp": True}, 176744,
     141373440),
    ("gemma4_text", {**WIDE, "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
     "full_attention"], "sliding_window": 8, "global_head_dim": 32, "vocab_size_per_layer_input": 100,
     "hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 1,
     "enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 24,
     "attention_bias": True}, 258648, 127262720),
    ("gemma3n_text", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 5, "num_attention_heads":
     4, "num_key_value_heads": 2, "vocab_size": 128, "head_dim": 16, "num_kv_shared_layers": 0, "laurel_rank":
     4, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 100, "sliding_window": 8}, 205080,
     149701760),
    ("gemma3n_text", {"hidden_size": 64, "intermediate_size": [96, 80, 64, 32], "num_hidden_layers": 4,
     "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, "head_dim": 16,
     "num_kv_shared_layers": 2, "laurel_rank": 4, "hidden_size_per_layer_input": 8,
     "vocab_size_per_layer_input": 100, "sliding_window": 8, "layer_types": ["sliding_attention",
     "full_attention", "sliding_attention", "full_attention"], "altup_num_inputs": 3, "attention_bias": True},
     132920, 102177920),
    ("deepseek_v4", {"hidden_size": 64, "moe_intermediate_size": 24, "num_hidden_layers": 4,
     "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "qk_rope_head_dim": 4, "q_lora_rank":
     24, "o_groups": 2, "o_lora_rank": 12, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8,
     "n_routed_experts": 6, "n_shared_experts": 1, "num_experts_per_tok": 2, "vocab_size": 128,
     "sliding_window": 8, "compress_ratios": [0, 4, 128, 4, 0]}, 272525, 160010240),
    ("deepseek_v4", {"hidden_size": 64, "moe_intermediate_size": 24, "num_hidden_layers": 3,
     "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "q_lora_rank": 24, "o_groups": 4,
     "o_lora_rank": 12, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8, "n_routed_experts": 6,
     "n_shared_experts": 1, "num_experts_per_tok": 2, "vocab_size": 128, "sliding_window": 8, "hc_mult": 2,
     "compress_rates": {"compressed_sparse_attention": 8, "heavily_compressed_attention": 32}}, 170649,
     93649920),
    ("recurrent_gemma", {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 5,
     "num_attention_heads": 4, "vocab_size": 128, "attention_window_size": 8}, 178944, 99719168),
    ("recurrent_gemma", {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 4,
     "num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 128, "lru_width": 80, "conv1d_width": 3,
     "attention_bias": True, "block_types": ["attention", "recurrent"]}, 143008, 90109440),
    ("zamba2", {"hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 128,
     "n_mamba_heads": 8, "mamba_d_state": 8, "chunk_size": 32, "adapter_rank": 6, "layers_block_type": ["mamba",
     "hybrid", "mamba", "hybrid", "mamba", "hybrid"]}, 299888, 349741568),
    ("zamba2", {"hidden_size": 64, "num_hidden_layers": 6, "intermediate_size": 96, "num_attention_heads": 4,
     "vocab_size": 128, "n_mamba_heads": 8, "mamba_d_state": 8, "mamba_ngroups": 2, "chunk_size": 32,
     "adapter_rank": 6, "num_mem_blocks": 2, "use_shared_attention_adapter": True, "use_mem_rope": True,
     "layers_block_type": ["hybrid", "mamba", "hybrid", "hybrid", "mamba", "hybrid"]}, 370064, 371444736),
    ("modernbert-decoder", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 5,
     "num_attention_heads": 4, "vocab_size": 128, "local_attention": 16, "pad_token_id": 0}, 187264, 140175360),
    ("modernbert-decoder", {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
     "num_attention_heads": 4, "vocab_size": 128, "pad_token_id": 0, "local_attention": 16, "norm_bias": True,
     "attention_bias": True, "mlp_bias": True, "classifier_bias": True, "decoder_bias": False,
     "tie_word_embeddings": False, "global_attn_every_n_layers": 2}, 163136, 113418240),
]
# fmt: on
FORMS = {"attention_kv_b", "attention_q_absorb", "attention_v_absorb", "attention", "attention_absorbed"}
"""Ops of latent attention, which runs in either of two forms."""
NAMES = [f"{kind}-{i}" for i, (kind, *_) in enumerate(CASES)]


def load(kind: str, config: dict[str, Any]) -> rl.Model:
    """The model that a config of that type describes."""
    return rl.load({"model_type": kind, **config})


@folded(("kind", "config", "parameters", "flops"), CASES, ids=NAMES)
def test_parameters(kind: str, config: dict[str, Any], parameters: int, flops: int | None) -> None:
    assert load(kind, config).parameters == parameters


@folded(("kind", "config", "parameters", "flops"), CASES, ids=NAMES)
def test_counted_flops(kind: str, config: dict[str, Any], parameters: int, flops: int | None) -> None:
    if flops is not None:
        assert rl.analyze(load(kind, config), rl.prefill(batch=2, tokens=130), counting="torch").flops == flops


@folded(("kind", "config", "parameters", "flops"), CASES, ids=NAMES)
def test_no_traffic_below_the_floor(kind: str, config: dict[str, Any], parameters: int, flops: int | None) -> None:
    model = load(kind, config)
    for step in (rl.prefill(batch=2, tokens=130), rl.decode(batch=3, context=500)):
        floor, fused, unfused = (rl.analyze(model, step, traffic=t).bytes for t in ("floor", "fused", "unfused"))
        assert 0 < floor <= fused <= unfused


@folded(("kind", "config", "parameters", "flops"), CASES, ids=NAMES)
def test_prefill_equals_its_chunks(kind: str, config: dict[str, Any], parameters: int, flops: int | None) -> None:
    """Work on tokens one after the other adds up to the work on all at once, the head apart."""
    model = load(kind, config)
    skip = FORMS if "kv_lora_rank" in config else set()

    def rows(cached: int, tokens: int) -> list[tuple[str, int]]:
        ops = rl.analyze(model, rl.prefill(cached=cached, tokens=tokens)).ops
        return [(row.name, row.flops) for row in ops if row.block != "head" and row.name not in skip]

    parts = [rows(cached, tokens) for cached, tokens in ((0, 20), (20, 29), (49, 1))]
    for (name, flops_of_all), *each in zip(rows(0, 50), *parts, strict=True):
        assert flops_of_all == sum(flops_of_part for _, flops_of_part in each), name


GEMMA4 = {
    **WIDE, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 8, "global_head_dim": 32,
    "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 100,
}  # fmt: skip


def test_borrowed_keys_and_values_are_not_cached_twice() -> None:
    own, borrowed = (load("gemma4_text", {**GEMMA4, "num_kv_shared_layers": n}) for n in (0, 2))
    assert own.kv_elements(100) == 2 * (2 * 32 * 8 + 2 * 64 * 100)
    assert borrowed.kv_elements(100) == 2 * 32 * 8 + 2 * 64 * 100
    last = [m for m in borrowed.layers[-1].modules if isinstance(m, Attention)]
    assert [m.borrowed for m in last] == [True]
    step = rl.decode(batch=1, context=100)
    read = [rl.analyze(m, step).moved.cache_read for m in (own, borrowed)]
    assert read[0] == read[1], "a layer that borrows still reads them"


def test_keys_that_are_values_are_projected_once() -> None:
    two, one = (load("gemma4_text", {**GEMMA4, "attention_k_eq_v": same}) for same in (False, True))
    assert two.parameters - one.parameters == 2 * 64 * 2 * 32
    assert two.kv_elements(100) == one.kv_elements(100)


@folded("select", [None, 3])
@folded(("cached", "new"), [(0, 1), (0, 7), (0, 40), (5, 9), (31, 1), (100, 30)])
def test_compressed_attention_sees_its_window_and_whole_entries(cached: int, new: int, select: int | None) -> None:
    from roofline.work.lower import lower

    core = CompressedAttention(name="attention", heads=2, head_dim=4, window=6, rate=4, select=select)
    (op,) = lower(core, rl.prefill(tokens=new, cached=cached))
    places = range(cached + 1, cached + new + 1)
    entries = [p // 4 if select is None else min(p // 4, select) for p in places]
    assert op.pairs == sum(min(p, 6) for p in places) + sum(entries)  # type: ignore[attr-defined]


def test_lightning_attention_keeps_a_state_and_no_cache() -> None:
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    model = load("minimax", {**WIDE, "num_local_experts": 6, "num_experts_per_tok": 2, "layer_types": kinds})
    assert model.kv_elements(1000) == 2 * 2 * 16 * 1000
    assert model.state_bytes() == 3 * 4 * 16 * 16 * model.precision.state.bytes(1)
    scans = [m for m, _ in model.modules() if isinstance(m, LinearAttention)]
    assert [m.state for m in scans] == [4 * 16 * 16]


def test_per_layer_heads_keep_their_own_cache() -> None:
    config = {**GEMMA4, "num_global_key_value_heads": 1, "attention_k_eq_v": True}
    assert load("gemma4_text", config).kv_elements(100) == 2 * (2 * 32 * 8 + 1 * 64 * 100)


@folded(
    ("kind", "config", "field"),
    [
        ("gpt_neo", {"attention_types": [[["global", "near"], 2]]}, "attention_types"),
        ("nemotron_h", {"hybrid_override_pattern": "MX"}, "hybrid_override_pattern"),
        ("deepseek_v4", {"compress_ratios": [4, 7]}, "compress_ratios"),
        ("laguna", {"gating": "sometimes"}, "gating"),
        ("granitemoehybrid", {"layer_types": ["mamba", "mambo", "mamba", "mamba"]}, "layer_types"),
        ("gemma4_text", {"num_kv_shared_layers": 4}, "num_kv_shared_layers"),
    ],
)
def test_bad_patterns_are_named(kind: str, config: dict[str, Any], field: str) -> None:
    base = next(c for k, c, *_ in CASES if k == kind)
    with pytest.raises(rl.InputError, match=field):
        load(kind, {**base, **config})


@pytest.mark.parametrize("kind", ["kimi_linear", "nemotron_h"])
def test_a_head_that_the_code_never_ties(kind: str) -> None:
    config = next(c for k, c, *_ in CASES if k == kind)
    assert load(kind, {**config, "tie_word_embeddings": True}).parameters == load(kind, config).parameters


def test_the_newer_name_of_the_tie_wins() -> None:
    config = next(c for k, c, *_ in CASES if k == "lfm2")
    tied, untied = (load("lfm2", {**config, "tie_word_embeddings": False, "tie_embedding": t}) for t in (True, False))
    assert untied.parameters - tied.parameters == 128 * 64
