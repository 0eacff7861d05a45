"""Keys that a family once misread, each with the figures of the real code, to the digit.

Parameters and counted FLOPs (2 sequences of 70 tokens) were read off transformers 5.23 and torch 2.13 on the meta
device. Where the code comes with the checkpoint, the figures are worked out by hand beside the case.
"""

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.model.modules import Attention

# fmt: off
DENSE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128}
DEEPSEEK_V4 = {"model_type": "deepseek_v4", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "vocab_size": 128, "q_lora_rank": 32, "head_dim": 16, "o_groups": 2, "o_lora_rank": 16, "qk_rope_head_dim": 8,
    "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2, "index_topk": 8, "index_n_heads": 2,
    "index_head_dim": 16, "sliding_window": 8, "num_key_value_heads": 1}
ZAMBA2 = {"model_type": "zamba2", "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
    "vocab_size": 128, "intermediate_size": 96, "n_mamba_heads": 8, "mamba_d_state": 16, "num_key_value_heads": 4,
    "layers_block_type": ["mamba", "hybrid"] * 3, "use_mem_rope": True, "use_shared_attention_adapter": True}
GEMMA3N = {"model_type": "gemma3n_text", **DENSE, "head_dim": 16, "laurel_rank": 8, "vocab_size_per_layer_input": 100,
    "hidden_size_per_layer_input": 8, "num_kv_shared_layers": 0, "sliding_window": 8, "intermediate_size": [96] * 4,
    "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "activation_sparsity_pattern": [0.0] * 4}
GRIFFIN = {"model_type": "recurrent_gemma", **DENSE, "head_dim": 16, "lru_width": 64, "attention_window_size": 8,
    "intermediate_size": 192}
MIMO = {"model_type": "mimo_v2_flash", **DENSE, "head_dim": 24, "v_head_dim": 16, "num_key_value_heads": 1,
    "moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2, "sliding_window": 9}
GEMMA4 = {"model_type": "gemma4_text", **DENSE, "head_dim": 16, "global_head_dim": 32, "sliding_window": 8,
    "layer_types": ["sliding_attention"] * 4, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 100}
GLM_MOE = {"model_type": "glm4_moe", **DENSE, "head_dim": 16, "moe_intermediate_size": 32, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "n_shared_experts": 0, "first_k_dense_replace": 1}
MINISTRAL = {"model_type": "ministral", **DENSE, "head_dim": 16}
DBRX = {"model_type": "dbrx", "d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 128, "max_seq_len": 64,
    "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8}}
DBRX_EXPERTS = {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2}
LATENT = {"kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 16}
BARE = {"use_shared_attention_adapter": False}

SLIPS: list[tuple[str, dict[str, Any], int, int]] = [
    ("one shared expert", {**DEEPSEEK_V4, "n_shared_experts": 1}, 345533, 50400000),
    ("one shared expert, said to be three", {**DEEPSEEK_V4, "n_shared_experts": 3}, 345533, 50400000),
    ("one shared expert, said to be none", {**DEEPSEEK_V4, "n_shared_experts": 0}, 345533, 50400000),
    ("deepseek_v4's biased shared expert", {**DEEPSEEK_V4, "mlp_bias": True}, 346045, 50400000),
    ("zamba2", ZAMBA2, 658640, 669264896),
    ("zamba2's sizes by their own keys", {**ZAMBA2, "attention_head_dim": 32, "attention_hidden_size": 128},
     658640, 669264896),
    ("zamba2's wider heads", {**ZAMBA2, **BARE, "attention_head_dim": 64}, 421072, 649911296),
    ("zamba2 untied", {**ZAMBA2, "tie_word_embeddings": False}, 1605200, 669264896),
    ("zamba2 untied without adapters", {**ZAMBA2, **BARE, "tie_word_embeddings": False}, 720464, 586689536),
    ("zamba2 untied, two in turn", {**ZAMBA2, "num_mem_blocks": 2, "tie_word_embeddings": False}, 1080912, 669264896),
    ("gemma3n with one stream", {**GEMMA3N, "altup_num_inputs": 1}, 147024, 49819840),
    ("gemma3n with two streams", {**GEMMA3N, "altup_num_inputs": 2}, 155512, 52483200),
    ("recurrent layers alone", {**GRIFFIN, "block_types": ["recurrent"]}, 143680, 39292928),
    ("attention layers alone", {**GRIFFIN, "block_types": ["attention"]}, 132928, 46735360),
    ("one recurrent to one attention", {**GRIFFIN, "block_types": ["recurrent", "attention"]}, 138304, 43014144),
    ("mimo", MIMO, 243276, 36915200),
    ("mimo by its own keys", {**MIMO, "hybrid_layer_pattern": [0, 1, 1, 1], "moe_layer_freq": [0, 1, 1, 1],
     "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 24, "swa_v_head_dim": 16,
     "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False}, 243276, 36915200),
    ("mimo has no shared expert", {**MIMO, "n_shared_experts": 1}, 243276, 36915200),
    ("gemma4's last layer is full", GEMMA4, 154216, 54405120),
    ("glm4_moe without a shared expert", GLM_MOE, 233536, 31682560),
    ("ministral", {**MINISTRAL, "sliding_window": 8}, 139840, 46735360),
    ("ministral's wider heads", {**MINISTRAL, "head_dim": 24}, 164416, 58634240),
    ("dbrx's activation as an object", {**DBRX, "ffn_config": {**DBRX_EXPERTS, "ffn_act_fn": {"name": "silu"}}},
     189248, 34979840),
    ("dbrx's activation as text", {**DBRX, "ffn_config": {**DBRX_EXPERTS, "ffn_act_fn": "silu"}}, 189248, 34979840),
]

REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("helium's square o_proj", {"model_type": "helium", **DENSE, "head_dim": 24}, "head_dim"),
    ("zamba2's stream", {**ZAMBA2, "attention_hidden_size": 64}, "attention_hidden_size"),
    ("zamba2's adapters", {**ZAMBA2, "attention_head_dim": 16}, "attention_head_dim"),
    ("zamba2's adapters of keys", {**ZAMBA2, "num_key_value_heads": 2}, "num_key_value_heads"),
    ("zamba2's scan", {**ZAMBA2, "mamba_headdim": 32}, "mamba_headdim"),
    ("Kimi Linear's activation", {"model_type": "kimi_linear", **DENSE, **LATENT, "hidden_act": "sit"}, "hidden_act"),
]

HUNYUAN = {"model_type": "hunyuan", "hidden_size": 6400, "intermediate_size": 18304, "num_hidden_layers": 64,
    "num_attention_heads": 80, "num_key_value_heads": 8, "num_experts": 16, "moe_topk": 1, "num_shared_expert": 1,
    "use_mixed_mlp_moe": True, "use_cla": True, "cla_share_factor": 2, "use_qk_norm": True, "vocab_size": 128512,
    "tie_word_embeddings": True, "dtype": "bfloat16"}

DEEPSEEK_V3 = {"vocab_size": 129280, "dim": 7168, "inter_dim": 18432, "moe_inter_dim": 2048, "n_layers": 61,
    "n_dense_layers": 3, "n_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1, "n_activated_experts": 8,
    "n_expert_groups": 8, "n_limited_groups": 4, "route_scale": 2.5, "score_func": "sigmoid", "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "dtype": "fp8"}
DEEPSEEK_V2_LITE = {"vocab_size": 102400, "dim": 2048, "inter_dim": 10944, "moe_inter_dim": 1408, "n_layers": 27,
    "n_dense_layers": 1, "n_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2, "n_activated_experts": 6,
    "route_scale": 1.0, "q_lora_rank": 0, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "mscale": 0.707}
# fmt: on


@folded(("config", "parameters", "flops"), [s[1:] for s in SLIPS], ids=[s[0] for s in SLIPS])
def test_equals_the_real_code(config: dict[str, Any], parameters: int, flops: int) -> None:
    model = rl.load(config)
    assert model.parameters == parameters
    assert rl.analyze(model, rl.prefill(batch=2, tokens=70), counting="torch").flops == flops


@folded(("config", "field"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_what_the_real_code_cannot_run_is_refused(config: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.load(config)
    assert error.value.field == field


def test_a_key_that_is_not_used_is_said() -> None:
    assert any("n_shared_experts" in each for each in rl.load({**DEEPSEEK_V4, "n_shared_experts": 3}).warnings)
    assert not any("n_shared_experts" in each for each in rl.load({**DEEPSEEK_V4, "n_shared_experts": 1}).warnings)


# -- windows -------------------------------------------------------------------------------------------------------
def _windows(config: dict[str, Any]) -> list[int | None]:
    return [m.window for block in rl.load(config).layers for m in block.modules if isinstance(m, Attention)]


def test_ministral_slides_where_layer_types_says() -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    assert _windows({**MINISTRAL, "sliding_window": 8, "layer_types": kinds}) == [8, None, 8, None]
    assert _windows({**MINISTRAL, "sliding_window": 8}) == [8] * 4
    assert _windows({**MINISTRAL, "sliding_window": None}) == [None] * 4


def test_mimo_slides_and_is_dense_where_its_patterns_say() -> None:
    """A sliding layer of one head of 8 more values: q, k of 8 more columns, v and o of none; a dense second layer."""
    pattern = {**MIMO, "hybrid_layer_pattern": [0, 1, 0, 1], "moe_layer_freq": [0, 0, 1, 1]}
    assert _windows(pattern) == [None, 9, None, 9]
    names = [block.name for block in rl.load(pattern).layers]
    assert names == ["dense", "sliding dense", "moe", "sliding moe"]
    wider = rl.load({**pattern, "swa_head_dim": 32})
    assert wider.parameters - rl.load(pattern).parameters == 2 * (64 * 4 * 8 + 64 * 2 * 8)


# -- borrowed keys and values --------------------------------------------------------------------------------------
def test_hunyuan_large_shares_keys_and_values_between_two_layers() -> None:
    """Tencent-Hunyuan-Large (389B, 52B active as published), by hand: heads of 80, one shared expert beside 16.

    Every second layer has no key and value projections, and nothing in the cache; each has norms of its own for both.
    """
    kv, experts = 6400 * 2 * 8 * 80, 17 * 3 * 6400 * 18304 + 6400 * 16
    layer = 2 * 6400 * 6400 + experts + 2 * 80 + 2 * 6400
    model = rl.load(HUNYUAN)
    assert model.parameters == 64 * layer + 32 * kv + 128512 * 6400 + 6400 == 388_698_128_640
    assert model.active_parameters == model.parameters - 64 * 15 * 3 * 6400 * 18304
    assert model.kv_bytes(1) == 32 * 2 * 8 * 80 * 2
    assert model.warnings == ()


def test_hunyuan_without_sharing() -> None:
    alone = rl.load({**HUNYUAN, "use_cla": False})
    assert alone.parameters - rl.load(HUNYUAN).parameters == 32 * 6400 * 2 * 8 * 80
    assert alone.kv_bytes(1) == 64 * 2 * 8 * 80 * 2


# -- names ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("config", "published"),
    [(DEEPSEEK_V3, "deepseek-ai/DeepSeek-V3"), (DEEPSEEK_V2_LITE, "deepseek-ai/DeepSeek-V2-Lite")],
    ids=["V3", "V2-Lite"],
)
def test_deepseek_by_the_names_of_its_inference_code(config: dict[str, Any], published: str) -> None:
    """The files of deepseek-ai/DeepSeek-V3's inference/configs are the models that the Hub has under other names."""
    ours, theirs = rl.load(config), rl.load(published)
    assert (ours.parameters, ours.weight_bytes()) == (theirs.parameters, theirs.weight_bytes())
    steps = rl.prefill(batch=2, tokens=70), rl.decode(batch=2, context=70)
    assert [rl.analyze(ours, s).flops for s in steps] == [rl.analyze(theirs, s).flops for s in steps]
    assert ours.warnings == theirs.warnings


def test_an_error_names_the_key_of_the_file() -> None:
    with pytest.raises(rl.InputError) as error:
        rl.load({**DEEPSEEK_V3, "dim": -1})
    assert error.value.field == "dim"


def test_sparse_attention_goes_by_two_names() -> None:
    """GLM-5.2's checkpoints call their layers deepseek_sparse_attention."""
    plain = rl.load("zai-org/GLM-5")
    raw = {**_raw("zai-org/GLM-5"), "layer_types": ["deepseek_sparse_attention"] * len(plain.layers)}
    assert rl.load(raw).layers == plain.layers


def _raw(name: str) -> dict[str, Any]:
    import json
    from importlib.resources import files

    return dict(json.loads((files("roofline.model") / "catalog" / f"{name}.json").read_text()))


# -- weights -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["fp8", "modelopt"])
def test_deepseek_v4_with_experts_in_nvfp4(method: str) -> None:
    """Its NVFP4 checkpoints keep all but the experts as published: a scale for each 16 values instead of each 32."""
    raw = _raw("deepseek-ai/DeepSeek-V4-Flash")
    experts = {"quant_method": method, "moe_quant_algo": "NVFP4", "quant_algo": "MIXED_PRECISION", "group_size": 16}
    model = rl.load({**raw, "quantization_config": {**raw["quantization_config"], **experts}})
    more = 43 * 256 * 3 * 4096 * 2048 // 16 - 43 * 256 * 3 * 4096 * 2048 // 32
    assert model.weight_bytes() - rl.load(raw).weight_bytes() == more
    assert (model.precision.experts.name, model.precision.attention.name) == ("nvfp4", "fp8-block")
    assert model.warnings == rl.load(raw).warnings


# -- keys ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["use_flash_attn", "bf16", "fp16"])
def test_qwen_leaves_a_switch_to_its_code(key: str) -> None:
    """Qwen-7B and Qwen-72B publish `use_flash_attn: "auto"`."""
    raw = _raw("Qwen/Qwen3-8B")
    assert rl.load({**raw, key: "auto"}).warnings == rl.load(raw).warnings
    with pytest.raises(rl.InputError, match=rf"^{key}: expected true, false or auto, got 'maybe'"):
        rl.load({**raw, key: "maybe"})


def test_fuyu_has_a_product_of_patches() -> None:
    """Patches of 30 by 30 pixels in three colours become the stream: 2700 x 4096 values and a bias."""
    text = {"model_type": "persimmon", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 64,
        "vocab_size": 262144, "intermediate_size": 16384}  # fmt: skip
    alone, whole = rl.load(text), rl.load({"model_type": "fuyu", "patch_size": 30, "text_config": text})
    assert whole.parameters - alone.parameters == 2700 * 4096 + 4096 == 11_063_296
    assert whole.parameters == 9_408_238_592  # FuyuForCausalLM of transformers 5.23, on the meta device
    assert whole.active_parameters == alone.active_parameters
    step = rl.decode(batch=1, context=64)
    assert rl.analyze(whole, step).flops == rl.analyze(alone, step).flops


# -- states --------------------------------------------------------------------------------------------------------
XLSTM = {"model_type": "xlstm", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 50304, "num_heads": 8}
RWKV = {"model_type": "rwkv", "hidden_size": 768, "num_hidden_layers": 12, "vocab_size": 50277}


def test_delta_rules_keep_their_state_in_fp32() -> None:
    """Qwen3-Next: 36 layers of 32 heads of 128 by 128 in fp32; the last three inputs of 8192 channels in bf16."""
    model = rl.load("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert model.state_bytes() == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2) == 77_266_944
    asked = model.precision.merged("state=bf16")
    assert model.state_bytes(asked) == 36 * (32 * 128 * 128 * 2 + 3 * 8192 * 2)


def test_vllm_keeps_the_state_of_a_gated_delta_net_in_the_weights_format() -> None:
    """Unless a caller or the config says otherwise; SGLang keeps the published code's fp32."""
    model, layout = rl.load("Qwen/Qwen3-Next-80B-A3B-Instruct"), rl.Layout(tp=4)

    def state(engine: str, asked: str | None = None) -> float:
        fit = rl.fit(model, on="h100-sxm", layout=layout, engine=engine, context=4096, precision=asked)
        return float(fit.memory.state)

    sums, inputs = 36 * 8 * 128 * 128, 36 * 3 * 2048 * 2  # of each of four ranks
    assert state("sglang") == state("sglang", "state=fp32") == 4 * sums + inputs
    assert state("vllm") == state("vllm", "state=bf16") < state("vllm", "state=fp32")


@pytest.mark.parametrize(("dtype", "bytes"), [("float32", 4), ("bfloat16", 2), (None, 4)])
def test_xlstm_says_the_format_of_its_state(dtype: str | None, bytes: int) -> None:
    """A matrix [256, 512], a normaliser of 256 and a scale for each of 8 heads of 32 layers; 134.5 MB in fp32."""
    model = rl.load({**XLSTM, "inference_state_dtype": dtype} if dtype else XLSTM)
    assert model.state_bytes() == 32 * 8 * (256 * 512 + 256 + 1) * bytes


def test_rwkv_keeps_three_of_five_states_in_fp32() -> None:
    """Numerator, denominator and largest exponent in fp32; the last input of either half in bf16."""
    assert rl.load(RWKV).state_bytes() == 12 * 768 * (3 * 4 + 2 * 2)


def test_a_state_space_keeps_its_state_as_its_config_says() -> None:
    raw = _raw("ibm-granite/granite-4.0-h-tiny")
    assert rl.load(raw).precision.state.name == "bf16"
    assert rl.load({**raw, "mamba_ssm_dtype": "float32"}).precision.state.name == "fp32"
