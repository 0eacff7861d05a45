"""A config.json that is wrong: one line that names the key and the value, and never a number."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import roofline as rl
from folded import folded
from oracle.defaults import load as class_defaults
from roofline.declared.errors import InputError
from roofline.model.configs.ignored_keys import HARMLESS, NEUTRAL
from roofline.model.load import catalog_config

LLAMA, SCOUT, OSS = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-4-Scout-17B-16E", "openai/gpt-oss-20b"
MIXTRAL, QWEN, NEXT = "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct"
V3, JAMBA, MAMBA = "deepseek-ai/DeepSeek-V3", "ai21labs/Jamba-v0.1", "AntonV/mamba2-130m-hf"
GPT2 = "openai-community/gpt2"
MODELS = (
    LLAMA, SCOUT, OSS, MIXTRAL, QWEN, NEXT, V3, JAMBA, MAMBA, "google/gemma-3-4b-pt", "google/gemma-3-1b-pt",
    GPT2, "tiiuae/falcon-7b", "facebook/opt-350m",
)  # fmt: skip

# -- one key at a time ---------------------------------------------------------------------------------------------
ANYWHERE = (10**30, [1], {"a": 1}, float("nan"), float("inf"), -float("inf"))
BAD: Mapping[type, tuple[object, ...]] = {
    int: (-1, 0, 2 * 10**12, "abc", "12", "", 1.5, 1.0, True, False, [], {}, *ANYWHERE),
    float: ("abc", "0.5", "", True, False, [], {}, *ANYWHERE),
    bool: (0, 1, -1, 1.5, "true", "abc", "", [], {}, *ANYWHERE),
    str: (0, 1, 1.5, True, False, [], {}, *ANYWHERE),
    list: (1, -1, 1.5, True, "abc", {"a": 1}, [None], ["abc"], [1.0], [[1]], [True], [-1], [10**9], [float("nan")]),
}
ZERO_IS_A_CHOICE = {
    "first_k_dense_replace", "n_shared_experts", "attn_layer_offset", "expert_layer_offset", "max_window_layers",
}  # fmt: skip
NOT_HERE = {"quantization_config", "rope_scaling", "task_specific_params"}  # further down, or of no concern
NO_CHECK = {"architectures", "transformers_version", "torch_dtype", "verbose", "init_device"}


def changed(id: str, **values: Any) -> dict[str, Any]:
    """A published config with some of the language model's keys changed; `...` takes a key out."""
    raw = copy.deepcopy(catalog_config(id))
    inside = raw.get("text_config", raw)
    for key, value in values.items():
        inside.pop(key, None)
        if value is not ...:
            inside[key] = value
    return raw


def refused(raw: Mapping[str, Any]) -> InputError:
    """The error a config ends in, at the latest when its work is counted."""
    with pytest.raises(InputError) as caught:
        rl.analyze(rl.load(raw), rl.prefill(batch=2, tokens=64)).flops  # noqa: B018
    assert str(caught.value).isprintable()
    return caught.value


def complaint(id: str, key: str, value: object) -> str | None:
    """What is wrong with the answer to a bad value: nothing where an error names the key and the value.

    A feature the family never has may be refused by a warning that names it, too.
    """
    try:
        model = rl.load(changed(id, **{key: value}))
        rl.analyze(model, rl.prefill(batch=2, tokens=64)).flops  # noqa: B018
    except InputError as error:
        text = str(error)
        shown = repr(value[0] if isinstance(value, list) and len(value) == 1 else value)[:50]
        if text.isprintable() and error.field.partition("[")[0].endswith(key) and shown in text:
            return None
        if "entries" in text and isinstance(value, list):
            return None
        return f"{value!r}: {text}"
    if key in NEUTRAL and any(f"{key} was not counted; only " in warning for warning in model.warnings):
        return None
    return f"{value!r}: no error"


def keys_of(id: str) -> Iterator[tuple[str, type]]:
    raw = catalog_config(id)
    warned = " ".join(rl.load(raw).warnings)
    for key, value in raw.get("text_config", raw).items():
        if value is not None and key not in NOT_HERE | NO_CHECK and key not in warned:
            yield key, type(value)


CASES = [pytest.param(id, key, kind) for id in MODELS for key, kind in keys_of(id)]


@folded(("id", "key", "kind"), CASES, drawn=30)
def test_a_value_of_the_wrong_kind_is_an_error_that_names_key_and_value(id: str, key: str, kind: type) -> None:
    values = list(BAD[kind])
    if key in HARMLESS:
        values = [v for v in values if not _fits(key, v)]
    elif key in ZERO_IS_A_CHOICE:
        values = [v for v in values if v != 0 or type(v) is not int]
    elif kind is list:
        values = [v for v in values if not (key == "mlp_only_layers" and v in ([1], []))]
    elif kind is float:
        values += [-1, -0.5]
    if key == "model_type":
        values = [v for v in values if v] + ["lama2", " llama"]
    if key in NEUTRAL:
        values = [v for v in values if isinstance(v, bool) or v != NEUTRAL[key]]
    assert [c for c in (complaint(id, key, v) for v in values) if c] == []


def _fits(key: str, value: object) -> bool:
    """Whether a key that changes no figure may have the value."""
    try:
        HARMLESS[key](key, value)
    except InputError:
        return False
    return True


@folded("key", ["no_rope_layers", "model_type"])
@folded("value", [0, False, "", {}], ids=repr)
def test_false_is_not_missing(key: str, value: object) -> None:
    assert complaint(SCOUT, key, value) is None


def test_a_mamba_without_width() -> None:
    assert complaint("state-spaces/mamba-130m-hf", "expand", 0) is None


def test_a_pattern_of_no_layers() -> None:
    assert complaint("LGAI-EXAONE/EXAONE-4.0-32B", "sliding_window_pattern", "") is None


@folded(
    ("key", "values"),
    [
        ("rope_theta", ("abc", -1, 0, [10000])), ("rms_norm_eps", (-1, 2, "1e-5")), ("attention_dropout", (-0.1, 7)),
        ("use_cache", ("yes", 1)), ("initializer_range", (-1, "x")), ("eos_token_id", ("</s>", 1.5, ["x"], True)),
        ("router_aux_loss_coef", (-1,)), ("num_nextn_predict_layers", (1.5, -1, "one")), ("scoring_func", (3, [])),
        ("pretraining_tp", (1.5, "1")), ("cache_implementation", (3,)),
    ],
)  # fmt: skip
def test_keys_that_change_no_figure_are_checked_too(key: str, values: tuple[object, ...]) -> None:
    assert [c for c in (complaint(LLAMA, key, v) for v in values) if c] == []


needed = pytest.mark.parametrize(
    ("id", "key"),
    [
        *((LLAMA, k) for k in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")),
        (LLAMA, "intermediate_size"), (MIXTRAL, "num_local_experts"),
        (MIXTRAL, "num_experts_per_tok"), (QWEN, "moe_intermediate_size"), (QWEN, "num_experts"),
        (NEXT, "linear_num_key_heads"), (NEXT, "linear_conv_kernel_dim"), (NEXT, "shared_expert_intermediate_size"),
        (V3, "kv_lora_rank"), (V3, "qk_rope_head_dim"), (V3, "v_head_dim"), (V3, "n_routed_experts"),
        (SCOUT, "intermediate_size_mlp"), (SCOUT, "num_local_experts"), (OSS, "sliding_window"),
        (MAMBA, "state_size"), (MAMBA, "num_heads"), (JAMBA, "intermediate_size"), (GPT2, "n_embd"),
        (GPT2, "n_layer"), (GPT2, "n_positions"), ("facebook/opt-350m", "ffn_dim"),
        ("google/gemma-3-4b-pt", "hidden_size"), ("tiiuae/falcon-7b", "num_attention_heads"),
    ],
)  # fmt: skip


@needed
def test_a_size_without_which_nothing_can_be_counted(id: str, key: str) -> None:
    error = refused(changed(id, **{key: None}))
    assert key in str(error)
    assert "missing key" in str(error) or error.value is None


@needed
def test_a_size_that_is_left_out_is_the_class_s_and_named(id: str, key: str) -> None:
    """The class's own error where its sizes contradict those of the file."""
    try:
        warnings = rl.load(changed(id, **{key: ...})).warnings
    except InputError:
        return
    note = next(w for w in warnings if w.startswith("loaded with transformers' defaults: "))
    assert f"{key} " in note


@pytest.mark.parametrize("value", [..., None], ids=["missing", "null"])
def test_without_a_model_type_nothing_is_known(value: object) -> None:
    assert refused(changed(LLAMA, model_type=value)).field == "model_type"


@folded("key", ["num_key_value_heads", "rope_scaling", "sliding_window", "head_dim"])
@folded("id", [LLAMA, MIXTRAL, QWEN])
def test_null_is_a_choice_for_optional_keys(id: str, key: str) -> None:
    model = rl.load(changed(id, **{key: None}))
    assert not any(key in warning for warning in model.warnings)
    heads = {m.kv_heads for m, _ in model.modules() if hasattr(m, "kv_heads")}
    assert heads == ({32} if key == "num_key_value_heads" else {4 if id == QWEN else 8})


def test_defaults_of_a_minimal_config_are_named() -> None:
    warnings = rl.load("google/gemma-3-4b-pt").warnings
    (note,) = (w for w in warnings if w.startswith("loaded with transformers' defaults: "))
    for key, default in (("num_attention_heads", 8), ("num_key_value_heads", 4), ("head_dim", 256)):
        assert f"text_config.{key} {default}" in note


# -- keys that contradict each other -------------------------------------------------------------------------------
@folded(
    ("id", "values", "field", "says"),
    [
        (LLAMA, {"num_attention_heads": 33, "num_key_value_heads": 33}, "num_attention_heads", "hidden_size = 4096"),
        (LLAMA, {"num_key_value_heads": 5}, "num_key_value_heads", "num_attention_heads = 32"),
        (LLAMA, {"num_key_value_heads": 64}, "num_key_value_heads", "nearest: 1, 2, 4, 8, 16, 32"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "num_experts_per_tok", "8"),
        (V3, {"num_experts_per_tok": 257}, "num_experts_per_tok", "256"),
        (OSS, {"num_experts_per_tok": 33}, "num_experts_per_tok", "32"),
        (JAMBA, {"num_experts_per_tok": 17}, "num_experts_per_tok", "16"),
        (JAMBA, {"attn_layer_offset": 8}, "attn_layer_offset", "0 to 7"),
        (NEXT, {"linear_num_value_heads": 17}, "linear_num_value_heads", "linear_num_key_heads = 16"),
        (MAMBA, {"num_heads": 23}, "num_heads", "24"),
        (OSS, {"layer_types": ["full_attention"]}, "layer_types", "24"),
        (OSS, {"layer_types": ["full_atention"] * 24}, "layer_types[0]", "nearest: full_attention"),
        (OSS, {"layer_types": ["full_attention"] * 23 + ["linear_attention"]}, "layer_types[23]", "sliding_attention"),
        (OSS, {"layer_types": "full_attention"}, "layer_types", "a list of 24"),
        (OSS, {"sliding_window": None}, "sliding_window", "sliding_attention"),
        (SCOUT, {"no_rope_layers": [1, 0]}, "text_config.no_rope_layers", "48"),
        (SCOUT, {"no_rope_layers": [1.0] * 48}, "text_config.no_rope_layers[0]", "0, 1"),
        (SCOUT, {"moe_layers": [0, 48]}, "text_config.moe_layers[1]", "0 to 47"),
        (QWEN, {"mlp_only_layers": [0, 48]}, "mlp_only_layers[1]", "0 to 47"),
        (NEXT, {"layer_types": ["sliding_attention"] * 48}, "layer_types[0]", "linear_attention"),
    ],
)  # fmt: skip
def test_contradictions(id: str, values: dict[str, Any], field: str, says: str) -> None:
    error = refused(changed(id, **values))
    assert error.field == field
    assert says in str(error)


def test_two_names_of_one_key_may_not_differ_silently() -> None:
    model = rl.load(changed(OSS, num_experts_per_tok=2))
    assert "experts_per_token = 4 was not used, num_experts_per_tok = 2 was" in model.warnings
    assert refused(changed(OSS, experts_per_token="4")).field == "experts_per_token"
    assert refused(changed(GPT2, n_ctx=-1)).field == "n_ctx"
    model = rl.load(changed(LLAMA, dtype="float32"))
    assert "torch_dtype = bfloat16 was not used, dtype = float32 was" in model.warnings
    assert refused(changed(LLAMA, dtype="float32", torch_dtype="bf17")).field == "torch_dtype"


# -- names ---------------------------------------------------------------------------------------------------------
def test_a_misspelt_key_is_named_with_the_nearest() -> None:
    error = refused(changed(LLAMA, num_attention_heads=..., num_atention_heads=32))
    assert error.field == "num_attention_heads"
    assert error.nearest == ("num_atention_heads",)
    for key, near in (("num_atention_heads", "num_attention_heads"), ("tie_word_embedding", "tie_word_embeddings")):
        (warning,) = rl.load(changed(LLAMA, **{key: 1})).warnings
        assert warning.startswith(f"{key} is not understood and was not counted; nearest known: {near}")


def test_a_far_word_is_no_suggestion() -> None:
    assert refused(changed(GPT2, n_embd=None)).nearest == ()
    (warning,) = rl.load(changed(LLAMA, zebra=3)).warnings
    assert warning == "zebra is not understood and was not counted"


@pytest.mark.parametrize(
    "key",
    ["moe_layer_freq", "is_encoder_decoder", "add_cross_attention", "use_bidirectional_attention", "pruned_heads"],
)
def test_a_feature_that_would_change_the_work_is_named(key: str) -> None:
    values: dict[str, object] = {"moe_layer_freq": 2, "pruned_heads": {"0": [1]}}
    (warning,) = rl.load(changed(LLAMA, **{key: values.get(key, True)})).warnings
    assert warning.startswith(f"{key} was not counted; only ")


@pytest.mark.parametrize(
    ("value", "near"),
    [("lama", "llama"), ("Llama", "llama"), ("gpt-2", "gpt2"), ("qwen3moe", "qwen3_moe"), ("mixtrall", "mixtral")],
)
def test_an_unknown_model_type_suggests_the_nearest(value: str, near: str) -> None:
    error = refused(changed(LLAMA, model_type=value))
    assert error.field == "model_type"
    assert error.nearest[0] == near


@folded("value", ["", "x" * 500, "a\nb", 3, True, None, ["llama"], {"a": 1}, ...], ids=repr)
def test_no_model_type(value: object) -> None:
    assert refused(changed(LLAMA, model_type=value)).field == "model_type"


@pytest.mark.parametrize("value", [None, [], "x", 3, True], ids=repr)
def test_text_config_that_is_no_object(value: object) -> None:
    assert refused({**catalog_config(SCOUT), "text_config": value}).field == "text_config"


@pytest.mark.parametrize("raw", [{}, {"text_config": {}}, {"model_type": "llama4", "text_config": {}}], ids=repr)
def test_nearly_nothing(raw: dict[str, Any]) -> None:
    assert "missing key" in str(refused(raw)) or "model_type" in str(refused(raw))


@pytest.mark.parametrize("raw", [[1], 3, "no such model, hopefully", None, 1.5], ids=repr)
def test_no_config_at_all(raw: Any) -> None:
    assert refused(raw).field == "model"


@pytest.mark.parametrize("key", [3, None, "a\nb", "\ud800", "\x1b[31m"], ids=repr)
def test_keys_that_cannot_be_printed(key: Any) -> None:
    assert refused({**catalog_config(LLAMA), key: 1}).value == key
    assert refused(changed(LLAMA, rope_scaling={key: 1})).value == key


# -- sections ------------------------------------------------------------------------------------------------------
@folded(
    ("value", "field"),
    [
        ("x", ""), ([], ""), (3, ""), (True, ""), ({"type": 3}, ".type"),
        ({"rope_type": "linear", "factor": "8"}, ".factor"),
        ({"factor": -1}, ".factor"), ({"factor": float("nan")}, ".factor"), ({"factor": float("inf")}, ".factor"),
        ({"short_factor": ["a"]}, ".short_factor"), ({"full_attention": {"factor": "2"}}, ".full_attention.factor"),
    ],
    ids=repr,
)  # fmt: skip
def test_rope_scaling(value: object, field: str) -> None:
    assert refused(changed(LLAMA, rope_scaling=value)).field == f"rope_scaling{field}"


@folded(
    "value",
    ["float17", "bf17", "", "auto", "int4", "nf4", "mxfp8", "fp8-block", "tf32", 3, 1.5, True, [], {}],
    ids=repr,
)
@folded("key", ["torch_dtype", "dtype"])
def test_dtype(key: str, value: object) -> None:
    error = refused(changed(LLAMA, **{"torch_dtype": ..., key: value}))
    assert (error.field, error.value, error.expected) == (key, value, "a dtype such as bfloat16")
    assert "int4" not in error.nearest


def test_the_nearest_dtype() -> None:
    assert refused(changed(LLAMA, torch_dtype="bfloat61")).nearest[0] == "bfloat16"
    assert refused(changed(LLAMA, torch_dtype="torch.floot16")).nearest[0] == "float16"


def quantized(method: str | None = None, **values: Any) -> dict[str, Any]:
    return changed(LLAMA, quantization_config={**({"quant_method": method} if method else {}), **values})


def compressed(**weights: Any) -> dict[str, Any]:
    return quantized("compressed-tensors", config_groups={"group_0": {"weights": weights}})


WEIGHTS = "config_groups.group_0.weights"


@folded(
    ("raw", "field"),
    [
        (quantized(), "quant_method"), (quantized("gptqq", bits=4), "quant_method"),
        (quantized("nuq"), "quant_method"), (quantized(quant_method=3), "quant_method"),
        (quantized("gptq"), "bits"), (quantized("gptq", bit=8), "bits"),
        *((quantized("gptq", bits=bits), "bits") for bits in (0, 1, 9, -4, 3.5, "4", True, [], None, 10**30)),
        *((quantized("awq", bits=4, group_size=g), "group_size") for g in (0, -2, "128", 1.5, True, 10**12, [], {})),
        (quantized("awq", w_bit=4, q_group_size="x"), "q_group_size"),
        (quantized("gptq", bits=4, lm_head=1), "lm_head"),
        *((quantized("fp8", weight_block_size=b), "weight_block_size") for b in (128, [128], [0, 128], [1, 10**12])),
        (quantized("fp8", fmt="e9m9"), "fmt"), (quantized("fp8", activation_scheme=3), "activation_scheme"),
        (quantized("fp8", modules_to_not_convert="lm_head"), "modules_to_not_convert"),
        (quantized("fp8", modules_to_not_convert=[3]), "modules_to_not_convert"),
        (quantized("bitsandbytes"), "load_in_4bit"), (quantized("bitsandbytes", load_in_4bit=False), "load_in_4bit"),
        (quantized("bitsandbytes", load_in_4bit="yes"), "load_in_4bit"), (quantized(load_in_4bit=3), "load_in_4bit"),
        (quantized("bitsandbytes", load_in_4bit=True, load_in_8bit=True), "load_in_4bit"),
        (quantized("bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="nf5"), "bnb_4bit_quant_type"),
        (quantized("bitsandbytes", load_in_4bit=True, bnb_4bit_use_double_quant=1), "bnb_4bit_use_double_quant"),
        (quantized("modelopt"), "quant_algo"), (quantized("modelopt", quant_algo="NVFP5"), "quant_algo"),
        (quantized("modelopt", quant_algo=3), "quant_algo"),
        (quantized("modelopt", quant_algo="FP8", kv_cache_quant_algo="fp7"), "kv_cache_quant_algo"),
        (quantized("compressed-tensors"), "config_groups"),
        (quantized("compressed-tensors", config_groups=[]), "config_groups"),
        (quantized("compressed-tensors", config_groups={"g": 3}), "config_groups.g"),
        (compressed(), f"{WEIGHTS}.num_bits"), (compressed(num_bits=17), f"{WEIGHTS}.num_bits"),
        (compressed(num_bits=5, type="float"), f"{WEIGHTS}.num_bits"),
        (compressed(num_bits=4, type="flt"), f"{WEIGHTS}.type"),
        (compressed(num_bits=4, group_size=0), f"{WEIGHTS}.group_size"),
        (compressed(num_bits=4, symmetric=3), f"{WEIGHTS}.symmetric"),
        *((quantized("fp8", kv_cache_scheme={"num_bits": n}), "kv_cache_scheme.num_bits") for n in (0, 5, 7, 16, "8")),
        (quantized("fp8", kv_cache_scheme={"type": "foo"}), "kv_cache_scheme.type"),
        (quantized("fp8", kv_cache_scheme="fp7"), "kv_cache_scheme"),
    ],
)  # fmt: skip
def test_quantization(raw: dict[str, Any], field: str) -> None:
    assert refused(raw).field == f"quantization_config.{field}"


@folded("key", ["quantization_config", "compression_config"])
@folded("value", [3, "x", [], True], ids=repr)
def test_quantization_that_is_no_object(key: str, value: object) -> None:
    assert refused(changed(LLAMA, **{key: value})).field == key


def test_what_is_not_understood_of_a_quantization_is_named() -> None:
    warnings = rl.load(quantized("mxfp4", bits=99)).warnings
    assert warnings == ("quantization_config.bits is not understood and was not counted",)
    (warning,) = rl.load(quantized("gptq", bits=4, grup_size=32)).warnings
    assert warning.startswith(
        "quantization_config.grup_size is not understood and was not counted; nearest known: group"
    )
    groups = {name: {"weights": {"num_bits": n}} for name, n in (("a", 4), ("b", 8))}
    (warning,) = rl.load(quantized("compressed-tensors", config_groups=groups)).warnings
    assert warning == "quantization_config.config_groups.b was not counted, another group was for all"


def test_the_older_name_of_a_quantization_counts() -> None:
    raw = changed(LLAMA, compression_config=compressed(num_bits=8, type="float")["quantization_config"])
    assert rl.load(raw).precision.ffn.name == "fp8"


def test_published_quantizations_are_understood() -> None:
    for id in (OSS, V3, "Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen3-8B-FP8"):
        assert not any("quantization" in warning for warning in rl.load(id).warnings)


# -- keys left out -------------------------------------------------------------------------------------------------
def figures(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    model = rl.load(raw)
    try:
        return model.parameters, rl.analyze(model, rl.prefill(batch=1, tokens=20_000)).flops
    except InputError:
        return (model.parameters,)


KV_HEADS = ("bitnet", "mistral", "mixtral", "qwen3_moe", "qwen3_next", "gpt_oss", "jamba", "glm4_moe", "starcoder2")


@pytest.mark.drawn(8)
@pytest.mark.parametrize(
    "model_type",
    [
        "llama", "qwen2", "gemma", "phi3", "falcon", "mamba2", "gpt2", "olmo2", "cohere",
        "deepseek_v3", "llama4_text", "gptj", *KV_HEADS,
    ],
)  # fmt: skip
def test_a_missing_key_means_what_it_means_to_the_real_code(model_type: str) -> None:
    """Without a key whose value is its class's default: the same figures, a warning or an error."""
    full = {"dtype": "bfloat16", **class_defaults()[model_type]["config"]}
    expected = figures(full)
    for key in full:
        raw = {k: v for k, v in full.items() if k != key}
        try:
            model = rl.load(raw)
        except InputError as error:
            named = key in str(error)
        else:
            named = figures(raw) == expected or any(key in warning for warning in model.warnings)
        assert named, key


# -- large, but allowed --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("id", [LLAMA, V3, NEXT])
def test_the_deepest_model_is_built_and_counted_at_once(id: str) -> None:
    raw = changed(id, num_hidden_layers=8192)
    start = time.process_time()
    model = rl.load(raw)
    analysis = rl.analyze(model, rl.decode(batch=10**6, context=10**9))
    assert analysis.flops > 0 < analysis.bytes
    assert time.process_time() - start < 3
    assert len(model.layers) == 8192


def test_the_largest_sizes_stay_exact() -> None:
    sizes = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    model = rl.load(changed(LLAMA, vocab_size=2**28, num_hidden_layers=8192, **dict.fromkeys(sizes, 2**26)))
    analysis = rl.analyze(model, rl.prefill(batch=2**40, tokens=2**40))
    assert type(analysis.flops) is type(analysis.bytes) is int
    assert analysis.flops > 2**180
