"""Keys of a config.json that cannot change parameters, FLOPs, bytes or cache, and the check of each value.

A key that no family reads and that is not listed here gives a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject, JsonValue

# Token ids and sizes, and lists of them.
_TOKENS = """
bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id
boi_token_index eoi_token_index image_token_index image_token_id video_token_id audio_token_id vision_start_token_id
vision_end_token_id vision_token_id boi_token_id eoi_token_id boa_token_id eoa_token_index boa_token_index
audio_token_index video_token_index mm_tokens_per_image forced_bos_token_id forced_eos_token_id suppress_tokens
begin_suppress_tokens bad_words_ids image_newline_id n_special eoa_token_id
"""
# Dropouts and epsilons: numbers from 0 to 1.
_FRACTIONS = """
attention_dropout hidden_dropout hidden_dropout_prob attention_probs_dropout_prob embd_pdrop resid_pdrop attn_pdrop
dropout activation_dropout classifier_dropout layerdrop embedding_dropout residual_dropout emb_pdrop attn_dropout
ffn_dropout summary_first_dropout embed_dropout mlp_dropout attention_dropout_prob resid_dropout
encoder_layerdrop decoder_layerdrop summary_last_dropout classifier_dropout_prob
drop_path_rate pooler_dropout classifier_dropout_prob semantic_classifier_dropout dropout_prob auxiliary_loss_weight
rms_norm_eps post_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps mixer_rms_eps block_norm_eps
"""
# Losses, noise, initialisation: numbers from 0.
_RATES = """
router_jitter_noise input_jitter_noise router_aux_loss_coef aux_loss_alpha router_z_loss_coef initializer_range
init_std initializer_factor seq_aux_coef z_loss_coefficient moe_jitter_eps moe_router_logit_softcapping
initializer_cutoff_factor temperature top_p repetition_penalty typical_p diversity_penalty
block_mlp_init_scale block_out_init_scale lambda_std_dev aux_loss_coef
linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max linear_dt_init_floor embedding_initializer_range
final_w_init_variance_scale w_init_variance_scale
"""
# Bases, limits and steps: numbers above 0.
_POSITIVE = """
rope_theta rotary_emb_base rope_local_base_freq global_rope_theta local_rope_theta
query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping output_multiplier qk_scale_factor
residual_gate_temperature
time_step_min time_step_max time_step_floor logits_soft_cap time_step_scale clip_qkv dim_model_base alibi_bias_max
rope_scaling_factor
"""
# Multipliers: numbers other than 0.
_SCALES = """
attn_scale floor_scale embedding_multiplier logits_scaling residual_multiplier attention_multiplier logit_scale
routed_scaling_factor swiglu_limit swiglu_alpha moe_norm_min softmax_scale scale_emb scale_depth
layernorm_full_attention_beta layernorm_linear_attention_beta layernorm_mlp_beta length_penalty
mup_width_scale lm_head_multiplier key_multiplier route_scale router_scaling_factor moe_routed_scaling_factor
attention_value_scale attention_in_multiplier attention_out_multiplier ssm_in_multiplier ssm_out_multiplier
logit_scale_init_value
full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor linear_attn_beta_factor mlp_alpha_factor
mlp_beta_factor
"""
_FLAGS = """
use_cache output_router_logits output_attentions output_hidden_states output_scores return_dict return_dict_in_generate
is_decoder norm_topk_prob attn_temperature_tuning rope_interleave rope_interleaved
scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn summary_use_proj summary_proj_to_labels
torchscript gradient_checkpointing use_bfloat16 tf_legacy_loss slow_but_exact attention_softmax_in_fp32
scale_attention_softmax_in_fp32 residual_in_fp32 rescale_prenorm_residual use_mamba_kernels use_mambapy
use_associative_scan seq_aux mup_enabled tie_encoder_decoder
remove_invalid_values early_stopping do_sample apply_residual_connection_post_layernorm output_past
low_cpu_mem_usage is_llama_config calc_logits_for_entire_prompt
fused_add_norm predict_special_tokens use_embedding_sharing use_parallel_embedding for_llm_compressor
moe_use_aux_free mtp_use_dedicated_embeddings use_mtp use_mrope use_return_dict
unsloth_fixed use_fused_rope masked_softmax_fusion bias_dropout_fusion skip_bias_add
scale_embedding enable_moe_fp32_combine moe_apply_router_weight_on_input indexer_rope_interleave pad_key_length
block_use_xavier_init conv_use_xavier_init mamba_norm_before_gate moe_renormalize moe_shared_expert_overlap
linear_allow_neg_eigval use_grouped_topk deterministic_flash_attn repad_logits_with_grad sparse_prediction
reference_compile
skip_bias_add_qkv ep_enabled sequence_parallel use_kernels moe_gate_fp32
"""
# true, false, or "auto".
_SWITCHES = "use_flash_attention use_flash_attn bf16 fp16 fp32"
# Names, versions: text.
_TEXT = """
_name_or_path name_or_path cache_implementation topk_method scoring_func summary_type summary_activation init_device
problem_type finetuning_task tokenizer_class tokenizer_name position_embedding_type rope_type time_step_init_scheme
vision_feature_select_strategy projector_hidden_act processor_class shared_moe_mode
order_of_interleaved_layers qk_norm_type router_dtype expert_selection_fn shared_expert_combination_strategy
attention_chunk_type _commit_hash prefix moe_router_activation_func mtp_hybrid_override_pattern classifier_pooling
"""
# Labels, versions, settings of other programs: any value.
_OTHER = """
architectures auto_map transformers_version torch_dtype dtype _attn_implementation attn_implementation
_experts_implementation experts_implementation init_method id2label label2id task_specific_params attn_impl
model_version language unsloth_version hf_version time_step_limit vision_feature_layer spatial_merge_size verbose
inference_runner offset_alibi model_max_length layer_switch pre_allocate_kv_cache validate_runner_input
max_batch_size max_sequence_length_hint license generation_config transformers.js_config special_tokens_map
img_context_token_id layer_rope_theta mtp_layer_types mtp_mlp_layer_types force_download trust_remote_code
inference_config sparse_pred_ignore_index mlp_multipliers ssm_multipliers mtp_layers_block_type
out_features out_indices stage_names semantic_loss_ignore_index
"""
# Counts that steer routing groups, drafting or sampling: whole numbers from 0.
_COUNTS = """
pretraining_tp n_group topk_group num_nextn_predict_layers mtp_num_hidden_layers num_mtp_modules
mtp_transformer_layers max_window_layers original_max_position_embeddings initial_context_length ep_size num_labels
top_k max_length min_length num_beams num_return_sequences chunk_size_feed_forward
no_repeat_ngram_size encoder_no_repeat_ngram_size num_beam_groups max_new_tokens min_new_tokens
num_logits_to_keep pad_vocab_size_multiple
time_step_rank sliding_window_size n_ctx seq_length moe_layer_num_skipped expert_tensor_parallel_size
num_expert_group num_hash_layers
"""

Check: TypeAlias = Callable[[str, JsonValue], None]
Checks: TypeAlias = Mapping[str, Check]

NEUTRAL: JsonObject = MappingProxyType({
    # Features that a family always or never has: harmless at the value that agrees.
    "attention_bias": False, "mlp_bias": False, "qkv_bias": False, "add_bias_linear": False, "use_bias": False,
    "attn_output_gate": True, "rms_norm": True, "norm_before_gate": True, "rotary": True, "qk_norm": True,
    "use_qk_norm": True, "use_parallel_block": True, "use_gated_activation": True, "mamba_inner_layernorms": True,
    "mlp_type": "default", "norm_type": "layer_norm", "use_sliding_window": False, "use_cla": False,
    "use_mixed_mlp_moe": False, "cla_share_factor": 2, "shared_expert_intermediate_size": 0,
    "shared_intermediate_size": 0, "partial_rotary_factor": 1.0, "ff_factor": 4, "mlp_only_layers": [],
    "moe_drop_tokens": False, "use_rotary_pos_emb": True, "dense_list": [0], "moe_layer_freq": 1,
    "use_bidirectional_attention": False, "is_encoder_decoder": False, "add_cross_attention": False,
    "post_norm": False, "use_routing_bias": True, "pruned_heads": {}, "ssm_cfg": {},
    "normalization_function": "rmsnorm",
    "block_use_swiglu": True, "use_pos_enc": True, "mla_use_nope": True,
})  # fmt: skip


def _number(field: str, value: JsonValue, expected: str, valid: Callable[[float], bool]) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not valid(value):
        raise InputError(field, value, expected)


def _fraction(field: str, value: JsonValue) -> None:
    _number(field, value, "a number from 0 to 1", lambda v: 0 <= v <= 1)


def _rate(field: str, value: JsonValue) -> None:
    _number(field, value, "a number from 0", lambda v: 0 <= v <= 1e9)


def _positive(field: str, value: JsonValue) -> None:
    _number(field, value, "a number above 0", lambda v: 0 < v <= 1e12)


def _scale(field: str, value: JsonValue) -> None:
    _number(field, value, "a number other than 0", lambda v: 0 < abs(v) <= 1e12)


def _count(field: str, value: JsonValue) -> None:
    if type(value) is not int or not 0 <= value <= 2**40:
        raise InputError(field, value, "a whole number from 0")


def _flag(field: str, value: JsonValue) -> None:
    if not isinstance(value, bool):
        raise InputError(field, value, "true or false")


def _switch(field: str, value: JsonValue) -> None:
    if not isinstance(value, bool) and value != "auto":
        raise InputError(field, value, "true, false or auto")


def _token(field: str, value: JsonValue) -> None:
    if isinstance(value, list):
        for i, entry in enumerate(value):
            _token(f"{field}[{i}]", entry)
    elif type(value) is not int or abs(value) > 2**40:
        raise InputError(field, value, "a token id or a list of them")


def _text(field: str, value: JsonValue) -> None:
    if not isinstance(value, str):
        raise InputError(field, value, "text")


def _anything(field: str, value: JsonValue) -> None:
    del field, value


def _checks(*groups: tuple[str, Check]) -> Checks:
    return MappingProxyType({key: check for keys, check in groups for key in keys.split()})


HARMLESS = _checks(
    (_TOKENS, _token), (_FRACTIONS, _fraction), (_RATES, _rate), (_POSITIVE, _positive), (_SCALES, _scale),
    (_FLAGS, _flag), (_SWITCHES, _switch), (_TEXT, _text), (_OTHER, _anything), (_COUNTS, _count),
)  # fmt: skip

# Harmless keys of a `quantization_config`: how the checkpoint was made, and how activations are treated.
HARMLESS_QUANTIZATION = _checks(
    (
        """
        activation_scheme scale_fmt linear_class quantization_mode version format quantization_status
        checkpoint_format pack_dtype backend quantizer bnb_4bit_compute_dtype bnb_4bit_quant_storage
        """,
        _text,
    ),
    (
        """
        cache_block_outputs desc_act sym true_sequential use_cuda_fp16 use_exllama disable_exllama static_groups
        do_fuse llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight use_rms_norm
        """,
        _flag,
    ),
    ("damp_percent damp_auto_increment llm_int8_threshold rms_norm_eps activation_scale_ub", _rate),
    ("batch_size fuse_max_seq_len max_input_length model_seqlen", _count),
    (
        """
        block_name_to_quantize dataset exllama_config global_compression_ratio meta model_file_base_name
        model_name_or_path module_name_preceding_first_block modules_to_fuse pad_token_id producer tokenizer
        autoround_version data_type iters low_gpu_mem_usage nsamples provider seqlen to_quant_block_names
        """,
        _anything,
    ),
)
NEUTRAL_QUANTIZATION: JsonObject = MappingProxyType({
    "zero_point": True, "dequantize": False, "sparsity_config": {}, "dynamic": {}, "modules_in_block_to_quantize": [],
    "lm_head": False,
})  # fmt: skip
