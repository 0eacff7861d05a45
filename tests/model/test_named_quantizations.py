"""Quantisations by their tools' names: bits by hand, what they leave alone, what does not exist."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from folded import folded

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
LAYERS = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
TABLE = HEAD = 128256 * 4096
NORMS = 65 * 4096
INDICES = 32 * 4 * (6 * 4096 + 14336)
"""GPTQ's group of each input of seven matrices, 32 bits each."""
ROWS = 32 * 4 * (6144 + 4096 + 2 * 14336 + 4096)
"""The 32-bit scale of each row that LLM.int8() stores."""


@folded(
    ("name", "bits", "table", "head"),
    [
        ("mlx-4bit", 4.5, 4.5, 4.5),
        ("mlx-8bit-g32", 9, 9, 9),
        ("MLX-3bit-g128", 3.25, 3.25, 3.25),
        ("exl2-4.25bpw", 4.25, 16, 6),
        ("exl2-4.0bpw-h8", 4, 16, 8),
        ("exl3-2.5bpw", 2.5, 16, 6),
        ("gptq-4bit", 4 + 20 / 128, 16, 16),
        ("gptq-int4-g32", 4 + 20 / 32, 16, 16),
        ("awq-4bit", 4 + 20 / 128, 16, 16),
        ("hqq-4bit", 4.5, 16, 16),
        ("bnb-4bit", 4.5, 16, 16),
        ("bnb-8bit", 8, 16, 16),
    ],
)
def test_bits_by_hand(name: str, bits: float, table: float, head: float) -> None:
    expected = (LAYERS * bits + TABLE * table + HEAD * head) / 8 + 2 * NORMS
    expected += {"gptq": INDICES, "bnb-8bit": ROWS}.get(name if name == "bnb-8bit" else name.partition("-")[0], 0)
    model = rl.load("meta-llama/Llama-3.1-8B", precision=name)
    assert model.weight_bytes() == expected
    assert model.precision.activations.name == "bf16"
    assert rl.estimate(LLAMA, rl.decode(1, 10), on="h100-sxm", precision=f"{name},kv=fp8").memory.weights == expected


def test_a_checkpoint_that_is_quantised_is_quantised_anew() -> None:
    once = rl.load("Qwen/Qwen2.5-7B-Instruct", precision="mlx-4bit").weight_bytes()
    assert rl.load("Qwen/Qwen2.5-7B-Instruct-AWQ", precision="mlx-4bit").weight_bytes() == once


@folded("name", ["mlx-7bit", "mlx-4bit-g16", "exl2-9bpw", "exl2-1.0bpw", "awq-8bit", "gptq-5bit"])
def test_what_the_tool_does_not_have(name: str) -> None:
    with pytest.raises(rl.InputError, match=f"precision: expected .* bits.*, got '{name}'"):
        rl.load("meta-llama/Llama-3.1-8B", precision=name)


def test_a_tied_head_is_told() -> None:
    tied = rl.load("meta-llama/Llama-3.2-1B", precision="exl2-4.0bpw")
    assert [w for w in tied.warnings if "tied" in w]
    assert not [w for w in rl.load("meta-llama/Llama-3.1-8B", precision="exl2-4.0bpw").warnings if "tied" in w]


LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
}  # fmt: skip
MATRICES = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
TABLES, NORMS = 2 * 128256 * 4096, 65 * 4096
PER_LAYER_IN, PER_LAYER_OUT = 3 * 4096 + 4096 + 2 * 4096 + 14336, 6144 + 4096 + 2 * 14336 + 4096
PRUNED = {"format": "sparse-24-bitmask", "targets": ["Linear"], "ignore": ["lm_head"]}


@pytest.mark.parametrize(
    ("section", "bits", "more"),
    [
        # a trellis of 3.5 bits, signs of 16 bits of every input and output, the head in 6 bits
        ({"quant_method": "exl3", "bits": 3.5, "head_bits": 6}, 3.5, "exl3"),
        ({"quant_method": "exl2", "bits": 4.65, "head_bits": 8}, 4.65, "exl2"),
        ({"quant_method": "quip", "codebook": "E8P12RVQ4B"}, 4, "signs"),
        ({"quant_method": "marlin", "group_size": 128}, 4 + 16 / 128, ""),
        ({"quant_method": "squeezellm", "wbits": 4}, 4, "tables"),
        (
            {"quant_method": "compressed-tensors", "format": "dense", "config_groups": {}, "sparsity_config": PRUNED},
            9,
            "",
        ),
    ],
)
def test_formats_of_other_engines_by_hand(section: dict[str, Any], bits: float, more: str) -> None:
    head, signs = 128256 * 4096, 32 * 16 * (PER_LAYER_IN + PER_LAYER_OUT)
    extra = {
        "": 0.0,
        "signs": signs,
        "tables": 32 * 256 * PER_LAYER_OUT,
        "exl3": signs + (6 - 16) * head + 16 * (4096 + 128256),
        "exl2": (8 + 4 / 128 - 16) * head + 32 * 4096,
    }[more]
    whole = (bits * MATRICES + 16 * (TABLES + NORMS) + extra) / 8
    assert rl.load({**LLAMA_8B, "quantization_config": section}).weight_bytes() == pytest.approx(whole, rel=1e-6)
