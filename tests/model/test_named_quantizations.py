"""Quantisations by their tools' names: bits by hand, what they leave alone, what does not exist."""

from __future__ import annotations

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
