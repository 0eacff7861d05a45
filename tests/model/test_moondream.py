"""Moondream 3 by hand, tensor by tensor as vLLM's moondream3.py makes them, and its published size."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.work.step import read_whole

SMALL: dict[str, Any] = {
    "model_type": "moondream3", "dtype": "bfloat16",
    "config": {
        "text": {
            "dim": 64, "ff_dim": 96, "n_layers": 3, "vocab_size": 128, "n_heads": 4, "n_kv_heads": 4,
            "moe": {"num_experts": 8, "start_layer": 1, "experts_per_token": 2, "expert_inner_dim": 24},
        },
        "vision": {
            "enc_dim": 32, "enc_n_layers": 2, "enc_n_heads": 2, "enc_ff_dim": 48, "proj_inner_dim": 56,
            "crop_size": 56,
        },
    },
}  # fmt: skip
WIDTH, HEADS, SEEN = 64, 4, 32


def affine(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


ATTENTION = affine(WIDTH, 3 * WIDTH) + affine(WIDTH, WIDTH) + HEADS + 2 * HEADS * 3 * WIDTH + 2 * WIDTH
DENSE = affine(WIDTH, 96) + affine(96, WIDTH)
EXPERTS = affine(WIDTH, 8) + 8 * (WIDTH * 2 * 24 + 24 * WIDTH)
TEXT = 128 * WIDTH + 3 * ATTENTION + DENSE + 2 * EXPERTS + 2 * WIDTH + affine(WIDTH, 128)
EYE = 4 * SEEN + affine(SEEN, 3 * SEEN) + affine(SEEN, SEEN) + affine(SEEN, 48) + affine(48, SEEN)
VISION = affine(3 * 14 * 14, SEEN) + 16 * SEEN + 2 * EYE + 2 * SEEN
PROJECTOR = affine(2 * SEEN, 56) + affine(56, WIDTH)
REGION = 128 + 2 * 256 + affine(256, WIDTH) + affine(WIDTH, 1024) + affine(512, WIDTH) + affine(WIDTH, 2048) + 2 * WIDTH


def test_parameters_by_part() -> None:
    model = rl.load(SMALL)
    assert (model.warnings, model.not_counted) == ((), ())
    assert model.parameters_by_tower() == {"vision": VISION, "projector": PROJECTOR, "region": REGION, "": TEXT}
    assert rl.load(SMALL, text_only=True).parameters == TEXT


def test_a_config_that_names_no_size_has_those_of_the_published_code() -> None:
    """9.27 B, as mlx-vlm's page states; 2 B active."""
    model = rl.load({"model_type": "moondream3", "dtype": "bfloat16", "config": {"skills": ["query", "point"]}})
    assert model.parameters == pytest.approx(9.27e9, abs=5e6)
    assert round(model.active_parameters / 1e9) == 2


def test_products_of_a_token_and_of_a_crop() -> None:
    """A token meets its attention with the scales of heads, and two of eight experts; a crop has 16 patches.

    Standard counting has two FLOPs for each weight, one for each value of a bias, and so for the pairs of attention.
    """
    model = rl.load(SMALL)
    own = WIDTH * 3 * WIDTH + WIDTH * WIDTH + 2 * HEADS * 3 * WIDTH
    dense, experts = 2 * WIDTH * 96, WIDTH * 8 + 2 * 3 * 24 * WIDTH
    pairs = 4 * 50 * WIDTH
    token = 2 * (3 * own + dense + 2 * experts + WIDTH * 128) + 3 * pairs
    biases = 3 * (3 * WIDTH + WIDTH) + 96 + WIDTH + 2 * 8 + 128
    ops = [o for o in rl.analyze(model, rl.decode(1, 49)).ops if o.kind in ("matmul", "attention", "experts")]
    assert sum(o.flops for o in ops) == token + biases
    layer = SEEN * 3 * SEEN + SEEN * SEEN + 2 * SEEN * 48
    crop = 2 * 16 * (3 * 14 * 14 * SEEN + 2 * layer + 2 * SEEN * 56 + 56 * WIDTH) + 2 * 4 * 16 * 16 * SEEN
    assert rl.analyze(model.alone("images"), read_whole(1, 16), counting="torch").flops == crop
