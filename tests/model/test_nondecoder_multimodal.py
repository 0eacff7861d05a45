"""Towers beside language models, and alone: parameters and FLOPs of the real classes, to the digit.

`nondecoder/multimodal.json`: config, parameters and FLOPs of steps by transformers 5.23 on torch's meta device.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import folded
from nondecoder import score
from roofline.model.media.images import AnyResolution, image_rule
from roofline.work.step import read_whole

DATA = json.loads(Path(__file__).with_name("nondecoder").joinpath("multimodal.json").read_text())
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in DATA["cases"]}
QWEN = {
    "model_type": "qwen3_vl", "tie_word_embeddings": True,
    "text_config": {
        "model_type": "qwen3_vl_text", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
    },
    "vision_config": {
        "model_type": "qwen3_vl", "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 4,
        "out_hidden_size": 64, "num_position_embeddings": 16, "patch_size": 16, "deepstack_visual_indexes": [0],
    },
}  # fmt: skip


@folded("name", CASES)
def test_cases_are_exact(name: str) -> None:
    told = score(CASES[name])
    assert (told.refused, told.parameters, dict(told.flops)) == ("", 0, dict.fromkeys(dict(told.flops), 0))


# -- published models ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("google/gemma-3-4b-it", 4_300_079_472),
        ("google/gemma-3-27b-it", 27_432_406_640),
        ("meta-llama/Llama-4-Scout-17B-16E", 108_641_793_536),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", 24_011_361_280),
        ("Qwen/Qwen3.5-9B", 9_409_813_744),
    ],
)
def test_published_totals(name: str, parameters: int) -> None:
    model = rl.load(name)
    assert model.parameters == parameters
    assert model.not_counted == ()
    assert model.active_parameters <= rl.load(name, text_only=True).parameters == model.parameters_by_tower()[""]


# -- by hand -------------------------------------------------------------------------------------------------------
def test_a_tower_by_hand() -> None:
    """Of 64 patches: embedding, two layers with 64² pairs, a merger of 16 squares, and another of DeepStack."""
    model = rl.load(QWEN)
    layer = 4 * 32 * 32 + 2 * 32 * 48
    merger = 128 * 128 + 128 * 64
    products = 64 * (3 * 2 * 256 * 32 + 2 * layer) + 2 * 16 * merger
    attention = 2 * 2 * 64 * 64 * 32
    ours = rl.analyze(model.alone("images"), read_whole(1, 64), counting="torch").flops
    assert ours == 2 * (products + attention)
    vectors = 3 * 32 + 32 + 48 + 32 + 4 * 32
    biases = 2 * vectors + 32
    norms = 2 * 32 + 2 * 128
    weights = 3 * 2 * 256 * 32 + 2 * layer + 16 * 32 + 2 * (merger + 128 + 64)
    assert sum(tower.parameters for tower in model.towers) == weights + biases + norms


def test_a_step_of_text_passes_the_tower_over() -> None:
    model, text, step = rl.load(QWEN), rl.load(QWEN, text_only=True), rl.prefill(2, 100)
    assert rl.analyze(model, step).flops == rl.analyze(text, step).flops
    assert rl.analyze(model, rl.decode(2, 100)).bytes == rl.analyze(text, rl.decode(2, 100)).bytes
    assert model.kv_bytes(1000) == text.kv_bytes(1000)
    assert model.weight_bytes() - text.weight_bytes() == 2 * sum(tower.parameters for tower in model.towers)


def test_a_prefill_of_images_is_the_towers_and_the_text() -> None:
    model = rl.load(QWEN)
    both = rl.analyze(model, rl.prefill(1, 116).reading("images", 64))
    tower, text = rl.analyze(model.alone("images"), read_whole(1, 64)), rl.analyze(model, rl.prefill(1, 116))
    assert both.flops == tower.flops + text.flops


def test_a_config_without_a_section_has_no_tower() -> None:
    """mlx-lm drops `vision_config` with the weights that it leaves out."""
    model = rl.load({key: value for key, value in QWEN.items() if key != "vision_config"})
    assert (model.towers, model.not_counted) == ((), ())


def test_a_tower_that_is_not_known_is_refused_and_left_out_by_request() -> None:
    config = {
        "model_type": "llava", "text_config": {**QWEN["text_config"], "model_type": "qwen3"},  # type: ignore[dict-item]
        "vision_config": {"model_type": "seventh_eye", "hidden_size": 8},
    }  # fmt: skip
    with pytest.raises(rl.InputError, match="text_only leaves it out"):
        rl.load(config)
    assert rl.load(config, text_only=True).towers == ()


@pytest.mark.parametrize("tp", [2, 8])
def test_towers_are_divided_where_their_heads_are(tp: int) -> None:
    """Gemma 3's tower has 16 heads; of every part but the table of positions a rank holds a share."""
    model = rl.load("google/gemma-3-4b-it")
    e = rl.estimate(
        model, rl.prefill(1, 356).reading("images", 4096), on="8xh100-sxm", layout=rl.Layout(tp=tp, dp=8 // tp)
    )
    alone = rl.estimate(model, rl.prefill(1, 356), on="8xh100-sxm", layout=rl.Layout(tp=tp, dp=8 // tp))
    assert e.span.expected > alone.span.expected


# -- images --------------------------------------------------------------------------------------------------------
def test_patches_of_an_image() -> None:
    """The positions of an input of the tower, and inputs: 24 by 32 squares of four patches; 64 by 64 of one size."""
    qwen = image_rule({"model_type": "qwen2_5_vl", "vision_config": {"patch_size": 14, "spatial_merge_size": 2}})
    assert qwen is not None
    assert (qwen.tokens(896, 672), qwen.patches(896, 672)) == (24 * 32 + 2, (4 * 24 * 32, 1))
    gemma = rl.load("google/gemma-3-4b-it").images
    assert gemma is not None
    assert gemma.patches(100, 900) == (4096, 1)
    llama = rl.load("meta-llama/Llama-4-Scout-17B-16E").images
    assert llama is not None
    assert (llama.patches(300, 300), llama.patches(672, 336)) == ((577, 1), (577, 3))


def test_llava_next_fits_tiles_to_the_image() -> None:
    """Two tiles and the whole image; 24 rows of a square image, each with a marker (transformers' processor)."""
    rule = AnyResolution(336, 24, 577, ((336, 672), (672, 336), (672, 672)))
    assert (rule.tokens(336, 336), rule.patches(336, 336)) == (24 * 24 + 24 + 576, (577, 3))
    assert rule.best(1000, 400) == (336, 672)
