"""`precision` by names of modules: bytes by hand, order, what names nothing."""

from __future__ import annotations

import pytest

import roofline as rl
from folded import folded

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
LAYER = {"qkv": 4096 * 6144, "o": 4096 * 4096, "gate_up": 4096 * 2 * 14336, "down": 14336 * 4096}
"""Weights of each matrix of a layer."""
ALL = 32 * sum(LAYER.values())
BF16 = 2 * LLAMA.parameters


def weights(precision: object) -> int:
    step = rl.estimate(LLAMA, rl.decode(1, 1000), on="h100-sxm", precision=precision)
    return int(step.memory.weights)


@folded(
    ("precision", "expected"),
    [
        ("weights=fp8", BF16 - ALL),
        ("weights=fp8,o_proj=bf16", BF16 - ALL + 32 * LAYER["o"]),
        ({"weights": "fp8", "self_attn.o_proj": "bf16"}, BF16 - ALL + 32 * LAYER["o"]),
        ("model.layers.0.*=fp8", BF16 - sum(LAYER.values())),
        ({"re:.*layers.[0-9]{1,1}.mlp.down_proj": "fp8"}, BF16 - 10 * LAYER["down"]),
        ("lm_head=fp8", BF16 - 128256 * 4096),
        ("model.layers.3.mlp=fp8,model.layers.3.*=int8", BF16 - sum(LAYER.values())),
    ],
)
def test_bytes(precision: object, expected: int) -> None:
    assert weights(precision) == expected


def test_analysis_reads_what_the_estimate_holds() -> None:
    step = rl.decode(1, 1000)
    plain, mixed = (rl.analyze(LLAMA, step, precision=p) for p in (None, "o_proj=fp8"))
    assert plain.bytes - mixed.bytes == 32 * LAYER["o"]


def test_the_checkpoints_own_formats_stay() -> None:
    own = rl.load("openai/gpt-oss-20b")
    changed = rl.estimate(own, rl.decode(1, 100), on="h100-sxm", precision="lm_head=fp8").memory.weights
    plain = rl.estimate(own, rl.decode(1, 100), on="h100-sxm").memory.weights
    assert plain - changed == 201088 * 2880


@pytest.mark.parametrize("pattern", ["foo_proj", "model.layers.99.mlp", "re:nothing.*"])
def test_a_name_of_nothing(pattern: str) -> None:
    with pytest.raises(rl.InputError, match="precision: expected a role, or a name or pattern of the model's modules"):
        weights({pattern: "fp8"})


def test_a_format_of_nothing() -> None:
    with pytest.raises(rl.InputError, match="o_proj: expected a number format, got 'fp9'"):
        weights("o_proj=fp9")
