"""Keys of a config.json that cannot change parameters, FLOPs, bytes or cache, and what their values have to be.

A key that no family reads and that does not stand here becomes a named warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from roofline.model.errors import InputError

# Ids, and strings or lists of them.
_TOKENS = """
bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id
boi_token_index eoi_token_index image_token_index image_token_id video_token_id audio_token_id vision_start_token_id
vision_end_token_id vision_token_id boi_token_id eoi_token_id boa_token_id eoa_token_index boa_token_index
audio_token_index video_token_index mm_tokens_per_image forced_bos_token_id forced_eos_token_id suppress_tokens
begin_suppress_tokens bad_words_ids prefix image_newline_id n_special eoa_token_id
"""
# Dropouts, losses, initialisation: numbers from 0.
_RATES = """
attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob embd_pdrop resid_pdrop attn_pdrop
dropout activation_dropout classifier_dropout layerdrop embedding_dropout residual_dropout emb_pdrop attn_dropout
ffn_dropout summary_first_dropout router_jitter_noise input_jitter_noise router_aux_loss_coef aux_loss_alpha
router_z_loss_coef initializer_range init_std initializer_factor seq_aux_coef z_loss_coefficient embed_dropout
mlp_dropout attention_dropout_prob moe_jitter_eps
"""
# Epsilons, bases and multipliers: numbers other than 0.
_SCALES = """
rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps mixer_rms_eps rope_theta rotary_emb_base
rope_local_base_freq attn_scale floor_scale embedding_multiplier logits_scaling residual_multiplier
attention_multiplier logit_scale routed_scaling_factor query_pre_attn_scalar swiglu_limit swiglu_alpha
attn_logit_softcapping final_logit_softcapping moe_norm_min time_step_min time_step_max time_step_floor
time_step_scale clip_qkv softmax_scale scale_emb dim_model_base scale_depth alibi_bias_max
layernorm_full_attention_beta layernorm_linear_attention_beta layernorm_mlp_beta rope_scaling_factor
mup_width_scale lm_head_multiplier key_multiplier
"""
_FLAGS = """
use_cache output_router_logits output_attentions output_hidden_states return_dict return_dict_in_generate
is_encoder_decoder is_decoder norm_topk_prob attn_temperature_tuning rope_interleave rope_interleaved
scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn summary_use_proj summary_proj_to_labels
torchscript gradient_checkpointing use_bfloat16 tf_legacy_loss slow_but_exact attention_softmax_in_fp32
scale_attention_softmax_in_fp32 residual_in_fp32 rescale_prenorm_residual use_mamba_kernels use_mambapy
use_associative_scan seq_aux use_bidirectional_attention mup_enabled tie_encoder_decoder add_cross_attention
remove_invalid_values early_stopping do_sample apply_residual_connection_post_layernorm output_past
low_cpu_mem_usage use_flash_attention use_flash_attn is_llama_config calc_logits_for_entire_prompt
fused_add_norm predict_special_tokens use_embedding_sharing use_parallel_embedding for_llm_compressor
moe_use_aux_free mtp_use_dedicated_embeddings use_mtp use_mrope use_routing_bias use_return_dict
unsloth_fixed use_fused_rope masked_softmax_fusion bias_dropout_fusion skip_bias_add
skip_bias_add_qkv post_norm ep_enabled sequence_parallel use_kernels moe_gate_fp32
"""
# Names, versions, labels: anything.
_TEXT = """
architectures auto_map transformers_version _name_or_path name_or_path torch_dtype dtype _attn_implementation
attn_implementation _experts_implementation experts_implementation cache_implementation topk_method scoring_func
summary_type summary_activation init_method init_device problem_type id2label label2id task_specific_params
finetuning_task tokenizer_class position_embedding_type attn_impl model_version rope_type language unsloth_version
pruned_heads hf_version time_step_init_scheme time_step_limit mamba_ssm_dtype vision_feature_layer
vision_feature_select_strategy projector_hidden_act spatial_merge_size processor_class verbose inference_runner
offset_alibi model_max_length shared_moe_mode order_of_interleaved_layers layer_switch ssm_cfg
pre_allocate_kv_cache validate_runner_input max_batch_size max_sequence_length_hint qk_norm_type license
quantization generation_config transformers.js_config router_dtype special_tokens_map img_context_token_id
attention_chunk_type force_download trust_remote_code inference_config _commit_hash
"""
# Counts that steer routing groups, drafting or sampling: numbers from 0.
_COUNTS = """
pretraining_tp n_group topk_group num_nextn_predict_layers mtp_num_hidden_layers num_mtp_modules
mtp_transformer_layers max_window_layers original_max_position_embeddings initial_context_length ep_size num_labels
temperature top_k top_p max_length min_length num_beams num_return_sequences chunk_size_feed_forward
no_repeat_ngram_size encoder_no_repeat_ngram_size length_penalty repetition_penalty typical_p num_beam_groups
diversity_penalty max_new_tokens min_new_tokens moe_layer_freq num_logits_to_keep pad_vocab_size_multiple
time_step_rank sliding_window_size n_ctx seq_length moe_layer_num_skipped expert_tensor_parallel_size
num_expert_group num_hash_layers
"""

NEUTRAL: Mapping[str, Any] = MappingProxyType({
    # Features that a family either always has or never has: harmless at the value that says so.
    "attention_bias": False, "mlp_bias": False, "qkv_bias": False, "add_bias_linear": False, "use_bias": False,
    "attn_output_gate": True, "rms_norm": True, "norm_before_gate": True, "rotary": True, "qk_norm": True,
    "use_qk_norm": True, "use_parallel_block": True, "use_gated_activation": True, "mamba_inner_layernorms": True,
    "mlp_type": "default", "norm_type": "layer_norm", "use_sliding_window": False, "use_cla": False,
    "use_mixed_mlp_moe": False, "cla_share_factor": 2, "shared_expert_intermediate_size": 0,
    "shared_intermediate_size": 0, "partial_rotary_factor": 1.0, "ff_factor": 4, "mlp_only_layers": [],
    "moe_drop_tokens": False, "use_rotary_pos_emb": True, "dense_list": [0],
})  # fmt: skip


def _number(field: str, value: object, expected: str, valid: Callable[[float], bool]) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not valid(value):
        raise InputError(field, value, expected)


def _rate(field: str, value: object) -> None:
    _number(field, value, "a number from 0", lambda v: 0 <= v <= 1e9)


def _scale(field: str, value: object) -> None:
    _number(field, value, "a number other than 0", lambda v: 0 < abs(v) <= 1e12)


def _count(field: str, value: object) -> None:
    _number(field, value, "a number from 0", lambda v: 0 <= v <= 2**40)


def _flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InputError(field, value, "true or false")


def _token(field: str, value: object) -> None:
    for entry in value if isinstance(value, list) else [value]:
        number = isinstance(entry, int) and not isinstance(entry, bool) and abs(entry) <= 2**40
        if not number and not isinstance(entry, (str, list)):
            raise InputError(field, value, "a token id or a list of them")


def _anything(field: str, value: object) -> None:
    del field, value


HARMLESS: Mapping[str, Callable[[str, object], None]] = MappingProxyType({
    key: check
    for keys, check in (
        (_TOKENS, _token), (_RATES, _rate), (_SCALES, _scale), (_FLAGS, _flag), (_TEXT, _anything), (_COUNTS, _count),
    )
    for key in keys.split()
})  # fmt: skip
