"""Formats, and the precision a checkpoint states."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.model.formats import FORMATS, format_named
from roofline.model.precision import uniform

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 2, "vocab_size": 100, "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
}  # fmt: skip


def precision(**quantization: Any) -> rl.Precision:
    return rl.load({**LLAMA, "quantization_config": quantization}).precision


@folded(
    ("name", "bits"),
    [
        ("bf16", 16), ("fp8", 8), ("int4", 4 + Fraction(20, 128)), ("nvfp4", 4 + Fraction(1, 2)),
        ("mxfp4", 4 + Fraction(1, 4)), ("mxfp8", 8 + Fraction(1, 4)), ("fp8-block", 8 + Fraction(32, 16384)),
        ("ternary", 2), ("int4-g32", 4 + Fraction(20, 32)), ("nf4", 4 + Fraction(1, 2)),
    ],
)  # fmt: skip
def test_group_scales_count(name: str, bits: Fraction) -> None:
    assert format_named(name).stored_bits == bits


def test_bytes_are_exact_for_ints_and_round_up_to_whole_ones() -> None:
    assert FORMATS["bf16"].bytes(10**30 + 1) == 2 * (10**30 + 1)
    assert FORMATS["int4"].bytes(128) == (4 * 128 + 20 + 7) // 8
    assert FORMATS["nvfp4"].bytes(16) == 9
    assert FORMATS["mxfp4"].bytes(np.array([32, 64])).tolist() == [17, 34]


@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
def test_old_and_new_dtype_keys(key: str) -> None:
    config = {k: v for k, v in LLAMA.items() if k != "torch_dtype"}
    assert rl.load({**config, key: "float16"}).precision == uniform(FORMATS["fp16"])


def test_a_missing_dtype_is_named() -> None:
    model = rl.load({k: v for k, v in LLAMA.items() if k != "torch_dtype"})
    assert any("dtype" in w and "bf16" in w for w in model.warnings)


def test_gptq_and_awq() -> None:
    p = precision(quant_method="gptq", bits=4, group_size=32, desc_act=True)
    assert p.attention.stored_bits == 4 + Fraction(20, 32) + Fraction(32, 64)  # of each input its group, for 64 outputs
    assert p.embedding.name == p.head.name == p.kv.name == p.activations.name == "bf16"
    assert precision(quant_method="awq", bits=4, group_size=128, zero_point=True).ffn == FORMATS["int4"]


def test_fp8() -> None:
    assert precision(quant_method="fp8", weight_block_size=[128, 128]).ffn == FORMATS["fp8-block"]
    assert precision(quant_method="fp8").attention == FORMATS["fp8"]


def test_bitsandbytes() -> None:
    assert (
        precision(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_use_double_quant=True).ffn
        == FORMATS["nf4-double"]
    )
    eight = precision(load_in_8bit=True).ffn
    assert (eight.name, eight.bits, eight.scales) == ("bnb-int8", 8, "channel")
    assert eight.overhead == Fraction(32, 64)  # a scale for each row of 64 values


def test_mxfp4_changes_the_experts_only() -> None:
    p = rl.load("openai/gpt-oss-120b").precision
    assert p.experts == FORMATS["mxfp4"]
    assert p.attention.name == p.head.name == "bf16"


def test_gpt_oss_120b_is_stored_in_65_gb() -> None:
    """The published checkpoint: 65.25 GB; biases, norms, attention, embedding and head stay bf16."""
    assert rl.load("openai/gpt-oss-120b").weight_bytes() == pytest.approx(65.25e9, rel=2e-3)


def test_compressed_tensors() -> None:
    groups = {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}}}
    p = precision(quant_method="compressed-tensors", config_groups=groups, ignore=["lm_head"])
    assert p.ffn.stored_bits == 4 + Fraction(16, 128)
    scheme = {"num_bits": 8, "type": "float"}
    assert (
        precision(quant_method="compressed-tensors", config_groups=groups, kv_cache_scheme=scheme).kv == FORMATS["fp8"]
    )


def test_bitnet_is_ternary() -> None:
    assert rl.load("microsoft/bitnet-b1.58-2B-4T").precision.ffn == FORMATS["ternary"]


def test_overrides() -> None:
    base = rl.load(LLAMA).precision
    assert base.merged("fp16").plain() == uniform(FORMATS["fp16"]).plain()
    assert base.merged("int4").kv.name == "bf16"
    p = base.merged("weights=fp8, kv=int8, head=fp32")
    assert (p.attention.name, p.experts.name, p.kv.name, p.head.name, p.activations.name) == (
        "fp8",
        "fp8",
        "int8",
        "fp32",
        "bf16",
    )
    assert base.merged({"ffn": "int4"}).ffn == FORMATS["int4"]


def test_weights_are_halved_by_fp8_but_for_embedding_head_and_norms() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    table = 2 * 128256 * 4096
    norms = 65 * 4096
    assert model.weight_bytes(model.precision.merged("weights=fp8")) == (8_030_261_248 - table - norms) + 2 * (
        table + norms
    )


@pytest.mark.parametrize(
    "excluded",
    [
        ["self_attn", "lm_head"],
        ["model.layers.*.self_attn*"],
        [f"model.layers.{i}.self_attn*" for i in range(2)],
        [f"model.layers.{i}.self_attn.{p}_proj" for i in range(2) for p in "qkvo"],
        ["re:.*self_attn.*"],
    ],
)
def test_attention_left_out_as_a_whole_or_layer_by_layer_is_left_out(excluded: list[str]) -> None:
    p = precision(quant_method="fp8", modules_to_not_convert=excluded)
    assert (p.attention.name, p.ffn.name) == ("bf16", "fp8")


def test_layers_that_are_left_out_are_blocks_of_their_own() -> None:
    left = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp"]}
    model = rl.load({**LLAMA, "quantization_config": left})
    assert model.warnings == ()
    formats = [{x.name: model.precision.of(x).name for x in layer.modules if x.matrix} for layer in model.layers]
    assert [f["gate_up_proj"] for f in formats] == [f["down_proj"] for f in formats] == ["bf16", "fp8"]
    assert [f["qkv_proj"] for f in formats] == ["fp8", "fp8"]
    matrices = 2 * 64 * 64 * 4 + 3 * 64 * 128  # attention of both layers, the feed-forward of one
    assert model.weight_bytes() == 2 * model.parameters - matrices


def test_the_scans_state_has_a_dtype_of_its_own() -> None:
    model = rl.load("Qwen/Qwen3.5-27B")
    scan, conv = 48 * 48 * 128 * 128, 48 * (2 * 16 * 128 + 48 * 128) * 3
    assert model.state_bytes() == 4 * scan + 2 * conv == 153_944_064
