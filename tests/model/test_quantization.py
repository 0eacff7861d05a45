"""Formats by module: a checkpoint's rules, matched against the names of its matrices, and the bytes they come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.inference.settings import setup
from roofline.model.load import catalog, catalog_config

QWEN, MOE, KIMI, BIG = "Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "moonshotai/Kimi-K2-Instruct", "meta-llama/Llama-3.1-405B"


def quantised(name: str, **quantization: Any) -> rl.Model:
    config = {k: v for k, v in catalog_config(name).items() if k != "quantization_config"}
    return rl.load({**config, "quantization_config": quantization})


def gigabytes(model: rl.Model) -> float:
    return float(model.weight_bytes()) / 1e9


# -- bytes ---------------------------------------------------------------------------------------------------------
def test_a_norm_behind_attention_is_not_attention() -> None:
    """Qwen3's FP8 checkpoints list norms and routers of every layer, `post_attention_layernorm` among them."""
    names = ("input_layernorm", "post_attention_layernorm", "mlp.gate")
    spared = ["lm_head", *(f"model.layers.{i}.{name}" for i in range(48) for name in names)]
    model = quantised(MOE, quant_method="fp8", weight_block_size=[128, 128], modules_to_not_convert=spared)
    assert gigabytes(model) == pytest.approx(31.175, rel=1e-3)
    assert model.warnings == ()


def test_bitsandbytes_leaves_what_t5_keeps_in_32_bits() -> None:
    """T5's class keeps `wo` in fp32, so that bitsandbytes does not quantise it: FLUX's second text encoder in NF4."""
    sizes = {"d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "num_layers": 24, "vocab_size": 32128}
    t5 = {"model_type": "t5", "architectures": ["T5EncoderModel"], "feed_forward_proj": "gated-gelu", **sizes}
    nf4 = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    kept, quantised = 24 * 4096 * 10240, 24 * 4096 * (4 * 4096 + 2 * 10240)
    rest = 32128 * 4096 + 32 * 64 + (2 * 24 + 1) * 4096
    model = rl.load({**t5, "torch_dtype": "float16", "quantization_config": nf4})
    assert model.weight_bytes() == 4 * kept + quantised * (4 + 32 / 64) / 8 + 2 * rest


def test_patterns_of_experts_that_are_shared_leave_the_routed_ones() -> None:
    """Kimi-K2-Thinking and K2.5: int4 experts in groups of 32, everything else in 16 bits."""
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    weights = {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group", "symmetric": True}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}
    model = quantised(KIMI, quant_method="compressed-tensors", config_groups=groups, ignore=ignore)
    assert gigabytes(model) == pytest.approx(594.2, rel=1e-3)
    assert model.precision.plain()["experts"] == "int4-g32"
    assert model.precision.plain()["attention"] == model.precision.plain()["ffn"] == "bf16"


def test_layers_that_are_partly_left_out() -> None:
    """Llama-3.1-405B-FP8: the feed-forwards of the first and the last layer, the attention of the first."""
    spared = [f"model.layers.{i}.mlp.{name}_proj" for i in (0, 125) for name in ("down", "gate", "up")]
    spared += [f"model.layers.0.self_attn.{name}_proj" for name in "qkvo"]
    model = quantised(BIG, quant_method="fbgemm_fp8", modules_to_not_convert=spared)
    assert gigabytes(model) == pytest.approx(415.865, rel=1e-3)
    assert [n for _, n in model.blocks] == [1, 124, 1]


@pytest.mark.parametrize(("pattern", "billions"), [("o_proj", 10.04), ("down_proj", 11.25), ("re:.*o_proj", 10.04)])
def test_one_projection_is_not_its_part(pattern: str, billions: float) -> None:
    model = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["lm_head", pattern])
    assert gigabytes(model) == pytest.approx(billions, rel=1e-3)


def test_one_of_two_fused_matrices_is_half_of_the_product() -> None:
    one = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["lm_head", "gate_proj"])
    none = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["lm_head"])
    assert one.weight_bytes() - none.weight_bytes() == 36 * 4096 * 12288


def test_wrappers_and_draft_layers_go_by_their_own_names() -> None:
    outer = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["model.language_model.layers.0.mlp*"])
    inner = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["model.layers.0.mlp"])
    beside = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["mtp.layers.0*", "visual.blocks.0.mlp"])
    assert outer.weight_bytes() == inner.weight_bytes() > beside.weight_bytes()
    assert outer.warnings == inner.warnings == beside.warnings == ()


def test_a_layer_is_not_the_layers_whose_number_begins_as_its_own() -> None:
    one = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["model.layers.1.mlp"])
    many = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["model.layers.1*"])  # a glob: 1 and 10 to 19
    assert [n for _, n in one.blocks] == [35, 1]
    assert [n for _, n in many.blocks] == [25, 11]


def test_what_names_nothing_is_named() -> None:
    (warning,) = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["self_atn.q_proj"]).warnings
    assert warning == "quantization_config names what this model does not have: self_atn.q_proj"


def test_experts_beside_a_dense_network_are_not_inside_it() -> None:
    """nvidia/Gemma-4-26B-A4B-NVFP4: dense networks, attention and routers are spared, experts are not."""
    spared = [f"model.language_model.layers.{i}.{n}*" for i in range(30) for n in ("mlp", "router", "self_attn")]
    ignore = ["lm_head", *spared, "model.embed_vision*", "model.vision_tower*"]
    model = quantised("google/gemma-4-26B-A4B", quant_method="modelopt", quant_algo="NVFP4", ignore=ignore)
    experts = 30 * 128 * 3 * 2816 * 704
    assert model.weight_bytes() == 2 * (model.parameters - experts) + experts * 9 // 16 == 18_782_263_904
    assert model.precision.plain()["experts"] == "nvfp4"
    assert model.warnings == ()


V4 = "deepseek-ai/DeepSeek-V4-Flash"


def test_what_nvfp4_spares_of_an_fp8_checkpoint_stays_in_fp8() -> None:
    """nvidia/DeepSeek-V4-Flash-NVFP4: `ignore` is of the second quantisation, that of the experts."""
    raw = catalog_config(V4)["quantization_config"]
    layers = {f"layers.{i}.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16} for i in range(43)}
    again = {"quant_algo": "MIXED_PRECISION", "moe_quant_algo": "NVFP4", "group_size": 16, "quantized_layers": layers}
    ignore = ["*.attn.*", "*.ffn.shared_experts.*", "head", "mtp.*"]
    groups = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 16}}}
    model = quantised(V4, **raw, **again, ignore=ignore, config_groups=groups)
    more = 43 * 256 * 3 * 4096 * 2048 * (9 / 16 - 17 / 32)
    assert model.weight_bytes() == rl.load(V4).weight_bytes() + more == 164_275_029_486
    assert model.warnings == rl.load(V4).warnings
    spared = quantised(V4, **raw, **again, modules_to_not_convert=["*.attn.*"])
    assert spared.precision.plain()["attention"] == "bf16"  # by FP8's own list


def test_nvfp4_weights_of_products_in_16_bits() -> None:
    """The layout of nvidia/Qwen3.6-27B-NVFP4: feed-forwards and head in NVFP4, multiplied in bf16; mixers in FP8."""
    name, layers = "Qwen/Qwen3.5-27B", {}
    mixers = {"full_attention": ("self_attn", "q_proj k_proj v_proj o_proj")}
    mixers["linear_attention"] = "linear_attn", "in_proj_qkv in_proj_z out_proj"
    for i, kind in enumerate(catalog_config(name)["text_config"]["layer_types"]):
        within, leaves = mixers[kind]
        fp8 = [f"{within}.{leaf}" for leaf in leaves.split()]
        layers |= {f"model.language_model.layers.{i}.{leaf}": {"quant_algo": "FP8"} for leaf in fp8}
        for leaf in ("gate_proj", "up_proj", "down_proj"):
            layers[f"model.language_model.layers.{i}.mlp.{leaf}"] = {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    layers["lm_head"] = {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    model = quantised(name, quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)
    four = 64 * 3 * 5120 * 17408 + 248320 * 5120
    eight = 16 * 5120 * (2 * 6144 + 2 * 1024 + 6144) + 48 * 5120 * (10240 + 6144 + 6144)
    assert model.weight_bytes() == four * 9 / 16 + eight + 2 * (model.parameters - four - eight) == 21_072_026_080
    assert (model.precision.ffn.name, model.precision.ffn.compute) == ("nvfp4-a16", None)
    wide = quantised(QWEN, quant_method="modelopt", quant_algo="W4A16_NVFP4", group_size=32)
    assert wide.precision.ffn.stored_bits == 4.25


MATRICES = 36 * 4096 * (4096 + 2 * 1024 + 4096 + 3 * 12288)
"""Values of Qwen3-8B's layers, in matrices."""


def test_gptq_stores_the_group_of_each_input() -> None:
    """32 bits for each input of each of seven matrices, beside a scale and a zero point for 128 values."""
    model, plain = quantised(QWEN, quant_method="gptq", bits=4, group_size=128), rl.load(QWEN)
    indices = 36 * 4 * (6 * 4096 + 12288)
    expected = 2 * (plain.parameters - MATRICES) + MATRICES * (4 + 20 / 128) / 8 + indices
    assert model.weight_bytes() == expected


def test_auto_round_packed_as_gptq_has_its_zero_points() -> None:
    own = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}
    packed = quantised(QWEN, **own, packing_format="auto_round:auto_gptq")
    assert packed.weight_bytes() == quantised(QWEN, quant_method="gptq", bits=4, group_size=128).weight_bytes()
    assert packed.weight_bytes() > quantised(QWEN, **own).weight_bytes()


def test_awq_by_auto_round_is_awq() -> None:
    """hualayn/ai-articles, Qwen3.6-27B: AWQ's method and layout, and AutoRound's own settings beside them."""
    own = {"autoround_version": "0.12.3", "data_type": "int", "low_gpu_mem_usage": True, "nsamples": 1024}
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
    both = quantised(QWEN, **awq, **own, provider="auto-round", seqlen=4096, to_quant_block_names="model.layers")
    assert both.warnings == ()
    assert both.weight_bytes() == quantised(QWEN, **awq).weight_bytes()


def test_torchao_has_zero_points_of_16_bits() -> None:
    kwargs = {"group_size": 128}
    model = quantised(QWEN, quant_method="torchao", quant_type="int4_weight_only", quant_type_kwargs=kwargs)
    assert model.weight_bytes() == 2 * (rl.load(QWEN).parameters - MATRICES) + MATRICES * (4 + 32 / 128) / 8


ROWS = 36 * (4096 + 2 * 1024 + 4096 + 2 * 12288 + 4096)
"""Outputs of the seven matrices of Qwen3-8B's layers."""
INPUTS = 36 * (6 * 4096 + 12288)


@folded(
    ("section", "bits", "row_bits", "more"),
    [
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, 32, 0),
        ({"quant_method": "fbgemm_fp8"}, 8, 32, 0),
        ({"quant_method": "eetq"}, 8, 16, 0),
        ({"quant_method": "quanto", "weights": "int8"}, 8, 16, 0),
        ({"quant_method": "quanto", "weights": "int2"}, 2 + 32 / 128, 0, 0),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4, 16 + 4, 32 * INPUTS),
        ({"quant_method": "hqq", "quant_config": {"nbits": 3, "group_size": 64}}, 3.2 + 32 / 64, 0, 0),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, 8, 16, 0),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, 8, 32, 0),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"}, 4.5, 0, 16 * INPUTS),
        (
            {"quant_method": "aqlm", "in_group_size": 8, "num_codebooks": 1, "nbits_per_codebook": 16},
            2,
            16,
            36 * 7 * 2**16 * 8 * 16,
        ),
    ],
)
def test_what_a_method_stores_for_a_row_an_input_and_a_matrix(
    section: dict[str, Any], bits: float, row_bits: int, more: int
) -> None:
    expected = 2 * (rl.load(QWEN).parameters - MATRICES) + (MATRICES * bits + ROWS * row_bits + more) / 8
    assert quantised(QWEN, **section).weight_bytes() == pytest.approx(expected, abs=ROUNDED)


def test_fastdeploy_says_dense_products_and_experts_in_its_words() -> None:
    section = {"dense_quant_type": "wint8", "moe_quant_type": "wint4", "kv_cache_quant_type": "float8_e4m3fn"}
    model = quantised("Qwen/Qwen3-30B-A3B", **section, quantization="mix_quant")
    plain = model.precision.plain()
    assert (plain["attention"], plain["experts"], plain["kv"]) == ("int8-row", "int4-row", "fp8")
    assert model.warnings == ()


ROUNDED = 36 * 4
"""Bytes by which four products of each of 36 layers may be rounded up."""


@folded(
    ("weights", "layout", "bits", "row_bits", "more"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, "float-quantized", 8, 16, 0),
        ({"num_bits": 8, "type": "float", "strategy": "tensor"}, "float-quantized", 8, 0, 0),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, "int-quantized", 8, 16, 0),
        ({"num_bits": 4, "type": "int", "strategy": "channel"}, "pack-quantized", 4, 16, 0),
        ({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}, "pack-quantized", 4 + 16 / 128, 0, 0),
        ({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}, "naive-quantized", 8 + 16 / 128, 0, 0),
        (
            {"num_bits": 3, "type": "int", "strategy": "group", "group_size": 128},
            "pack-quantized",
            3 + 16 / 128,
            0,
            0,
        ),
        (
            {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": False},
            "pack-quantized",
            4 + 20 / 32,
            0,
            0,
        ),
        (
            {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "actorder": "group"},
            "pack-quantized",
            4 + 16 / 128,
            0,
            32 * INPUTS,
        ),
        ({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}, "dense", 16, 0, 0),
    ],
)
def test_strategies_and_layouts_of_compressed_tensors(
    weights: dict[str, Any], layout: str, bits: float, row_bits: int, more: int
) -> None:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    section = {"quant_method": "compressed-tensors", "format": layout, "config_groups": groups, "ignore": ["lm_head"]}
    expected = 2 * (rl.load(QWEN).parameters - MATRICES) + (MATRICES * bits + ROWS * row_bits + more) / 8
    assert quantised(QWEN, **section).weight_bytes() == pytest.approx(expected, abs=ROUNDED)


# -- methods -------------------------------------------------------------------------------------------------------
METHODS: list[tuple[dict[str, Any], str]] = [
    ({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}, "nvfp4"),
    ({"quant_method": "gptq_marlin", "bits": 4, "group_size": 64}, "int4-g64"),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}, "int4-g128"),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "int4-g64"),
    ({"quant_method": "quanto", "weights": "int8"}, "int8-row"),
    ({"quant_method": "quanto", "weights": "int4"}, "int4-g128"),
    ({"quant_method": "eetq", "weights": "int8"}, "int8-row"),
    ({"quant_method": "higgs", "bits": 4, "group_size": 256}, "higgs4"),
    ({"quant_method": "aqlm", "in_group_size": 8, "num_codebooks": 1, "nbits_per_codebook": 16}, "aqlm"),
    ({"quant_method": "spqr", "bits": 3, "beta1": 16, "beta2": 16}, "spqr"),
    (
        {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 32}},
        "int4-g32",
    ),
    (
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig", "_data": {}}}},
        "fp8",
    ),
    ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "fp8"),
    (
        {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}},
        "mxfp4",
    ),
]  # fmt: skip


@folded(("section", "name"), METHODS, ids=[f"{s['quant_method']} {n}" for s, n in METHODS])
def test_every_method_says_its_format(section: dict[str, Any], name: str) -> None:
    model = quantised(QWEN, **section)
    assert model.precision.plain()["ffn"] == model.precision.plain()["attention"] == name
    assert model.precision.plain()["head"] == model.precision.plain()["embedding"] == "bf16"
    assert model.warnings == ()


def test_modules_in_formats_of_their_own() -> None:
    layers = {
        f"model.layers.{i}.mlp.{p}_proj": {"quant_algo": "NVFP4"} for i in range(36) for p in ("gate", "up", "down")
    }
    layers |= {f"model.layers.{i}.self_attn.{p}_proj": {"quant_algo": "FP8"} for i in range(36) for p in "qkvo"}
    model = quantised(QWEN, quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)
    assert (model.precision.plain()["ffn"], model.precision.plain()["attention"]) == ("nvfp4", "fp8")


def test_gptq_says_which_modules_are_otherwise() -> None:
    dynamic = {r"-:.*self_attn.*": {}, r"+:.*\.down_proj": {"bits": 8}}
    model = quantised(QWEN, quant_method="gptq", bits=4, group_size=128, dynamic=dynamic)
    formats = {x.name: model.precision.of(x).name for x in model.layers[0].modules if x.matrix}
    assert formats["qkv_proj"] == formats["o_proj"] == "bf16"
    assert (formats["gate_up_proj"], formats["down_proj"]) == ("int4", "int8-g128")


def test_mlx_quantises_the_table_and_the_head_and_names_its_exceptions() -> None:
    config = {k: v for k, v in catalog_config(QWEN).items() if k != "quantization_config"}
    own = {"group_size": 64, "bits": 4, "model.layers.0.mlp.down_proj": {"bits": 8, "group_size": 64}}
    model = rl.load({**config, "quantization": own})
    assert {model.precision.plain()[p] for p in ("embedding", "head", "attention", "ffn")} == {"int4-g64"}
    assert model.precision.of(model.layers[0].modules[-2]).name == "int8-g64"
    assert [n for _, n in model.blocks] == [1, 35]


def test_a_file_of_model_optimizer_beside_the_config(tmp_path: Path) -> None:
    config = {k: v for k, v in catalog_config(QWEN).items() if k != "quantization_config"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    stated = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": stated})
    )
    model = rl.load(tmp_path)
    assert (model.precision.plain()["ffn"], model.precision.plain()["kv"]) == ("fp8", "fp8")
    assert gigabytes(model) == pytest.approx(9.437, rel=1e-3)


@pytest.mark.parametrize(
    ("own", "beside", "cache"), [(None, "FP8", "fp8"), (None, None, "bf16"), ("NVFP4", "FP8", "nvfp4")]
)
def test_model_optimizer_states_the_cache_beside_a_config_that_states_the_rest(
    own: str | None, beside: str | None, cache: str, tmp_path: Path
) -> None:
    stated = {"quant_method": "modelopt", "quant_algo": "FP8", **({"kv_cache_quant_algo": own} if own else {})}
    (tmp_path / "config.json").write_text(json.dumps({**catalog_config(QWEN), "quantization_config": stated}))
    algorithms = {"quant_algo": "FP8", "kv_cache_quant_algo": beside}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": algorithms}))
    model = rl.load(tmp_path)
    assert (model.precision.plain()["ffn"], model.precision.plain()["kv"]) == ("fp8", cache)
    assert not any("hf_quant" in warning for warning in model.warnings)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize("name", [name for name in catalog() if name.endswith("NVFP4")])
def test_a_cache_that_a_checkpoint_of_the_catalog_asks_for_is_used(name: str, engine: str) -> None:
    assert catalog_config(name)["quantization_config"]["kv_cache_scheme"]["num_bits"] == 8
    assert setup(rl.load(name), on="8xb200", layout="tp=8", engine=engine).formats.kv.name == "fp8"


@pytest.mark.parametrize(
    ("engine", "asked", "cache"),
    [
        ("trtllm", "fp8", "fp8"), ("trtllm", "weights=nvfp4", "fp8"), ("trtllm", {"weights": "fp8"}, "fp8"),
        ("trtllm", "weights=fp8,kv=bf16", "bf16"), ("trtllm", {"weights": "fp8", "kv": "bf16"}, "bf16"),
        ("trtllm", "weights=int4", "bf16"), ("trtllm", None, "bf16"), ("vllm", "fp8", "bf16"),
    ],
)  # fmt: skip
def test_fp8_for_tensorrt_llm_has_the_cache_of_such_checkpoints(engine: str, asked: object, cache: str) -> None:
    """NVIDIA's; a checkpoint that is in fp8 by itself says which cache it has."""
    bf16, fp8 = rl.load("meta-llama/Llama-3.1-70B"), rl.load("Qwen/Qwen3-8B-FP8")
    on = {"on": "8xb200", "layout": "tp=8", "engine": engine, "precision": asked}
    assert setup(bf16, **on).formats.kv.name == cache
    assert setup(fp8, **{**on, "precision": None}).formats.kv.name == "bf16"


@pytest.mark.parametrize("scheme", ["FP8", "fp8_e4m3", {"num_bits": 8, "type": "float"}])
def test_the_cache_is_stated_in_several_forms(scheme: object) -> None:
    assert quantised(QWEN, quant_method="fp8", kv_cache_scheme=scheme).precision.kv.name == "fp8"


# -- what a caller says --------------------------------------------------------------------------------------------
def test_a_format_that_is_asked_for_is_that_of_all_modules_of_its_part() -> None:
    model = quantised(QWEN, quant_method="fp8", modules_to_not_convert=["lm_head", "model.layers.0.mlp"])
    asked = model.precision.merged("weights=int4")
    assert {asked.of(x).name for x in model.layers[0].modules if x.matrix} == {"int4"}
    e = rl.estimate(model, rl.decode(1, 64), on="h100-sxm", precision="weights=int4")
    assert e.memory.weights == model.weight_bytes(asked) < model.weight_bytes()
