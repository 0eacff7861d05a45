"""Images as tokens: counts by hand, by the models' published rules."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from alike import EQUAL
from folded import folded
from roofline.declared.errors import InputError
from roofline.model.media.images import Images, ImageTiles, MergedPatches, PatchRows, image_rule, image_tokens
from roofline.work.lower import lower
from roofline.work.ops import MatMul
from roofline.work.step import images_beside
from roofline.work.step import replace as replace_step

QWEN, QWEN3, GEMMA = "Qwen2.5-VL", "Qwen/Qwen3.5-9B", "google/gemma-3-12b-it"
LLAMA, MISTRAL = "meta-llama/Llama-4-Scout-17B-16E-Instruct", "mistralai/Mistral-Small-3.1-24B-Instruct-2503"
CONFIGS: dict[str, dict[str, Any]] = {
    QWEN: {"model_type": "qwen2_5_vl", "vision_config": {"patch_size": 14, "spatial_merge_size": 2}},
    "LLaVA": {
        "model_type": "llava", "vision_feature_select_strategy": "default",
        "vision_config": {"model_type": "clip_vision_model", "patch_size": 14, "image_size": 336},
    },
    "Pixtral": {"model_type": "llava", "vision_config": {"model_type": "pixtral", "patch_size": 16}},
    "InternVL": {
        "model_type": "internvl_chat", "downsample_ratio": 0.5, "max_dynamic_patch": 12, "use_thumbnail": True,
        "vision_config": {"patch_size": 14, "image_size": 448},
    },
    "SmolVLM": {"model_type": "smolvlm", "scale_factor": 4, "vision_config": {"patch_size": 16, "image_size": 512}},
    "PaliGemma": {"model_type": "paligemma", "vision_config": {"patch_size": 14, "image_size": 448}},
    "GLM-4V": {"model_type": "glm4v", "vision_config": {"patch_size": 14, "spatial_merge_size": 2}},
}  # fmt: skip


@folded(("name", "width", "height", "tokens"), [
    (QWEN, 1024, 768, 37 * 27 + 2),  # 36.57 and 27.43 patches of 28 pixels
    (QWEN, 28, 28, 2 * 2 + 2),  # 56 × 56 pixels at least
    (QWEN, 8000, 8000, 128 * 128 + 2),  # 3,584² = 16,384 · 28² pixels at most
    (QWEN, 14, 140, 1 * 7 + 2),  # 0 (half, to even) and 5 patches; scaled by 56 / √(14·140) = 1.265: 0.63 and 6.3
    ("LLaVA", 1024, 768, 24 * 24),
    ("LLaVA", 10, 10, 24 * 24),
    ("Pixtral", 1024, 768, 48 * (64 + 1)),
    ("Pixtral", 2048, 1000, 32 * (64 + 1)),  # scaled to 1,024 × 500: 31.25 rows
    ("Pixtral", 17, 16, 1 * (2 + 1)),
    ("InternVL", 448, 448, 256 + 2),
    ("InternVL", 1024, 768, 12 * 256 + 256 + 2),  # 4 × 3 tiles have its ratio exactly, and the whole image
    ("InternVL", 2000, 400, 5 * 256 + 256 + 2),
    ("SmolVLM", 512, 512, 4 * (4 * 66 + 1) + 64 + 3),  # scaled to 2,048 × 2,048: 4 × 4 tiles of 64 tokens and 2 marks
    ("SmolVLM", 1024, 768, 3 * (4 * 66 + 1) + 64 + 3),
    ("PaliGemma", 1024, 768, 32 * 32),
    ("GLM-4V", 1024, 768, 37 * 27 + 2),
])  # fmt: skip
def test_by_hand(name: str, width: int, height: int, tokens: int) -> None:
    rule = image_rule(CONFIGS[name])
    assert rule is not None
    assert rule.tokens(width, height) == tokens


@folded(("model", "width", "height", "tokens"), [
    (QWEN3, 1024, 768, 32 * 24 + 2), (QWEN3, 64, 64, 8 * 8 + 2),
    (GEMMA, 1024, 768, 256 + 4), (GEMMA, 1, 1, 256 + 4),
    (MISTRAL, 1024, 768, 28 * (37 + 1)), (MISTRAL, 3080, 1540, 28 * (55 + 1)),
    (LLAMA, 336, 336, 144 + 3), (LLAMA, 100, 100, 144 + 3),
    (LLAMA, 337, 336, 2 * 145 + 144 + 3),  # two tiles side by side, a separator and an end of the row
    (LLAMA, 1024, 768, 12 * 145 + 144 + 3),  # 4 × 3 tiles: 1,344 / 1,024 = 1,008 / 768
    (LLAMA, 5000, 5000, 16 * 145 + 144 + 3),  # scaled down least on 4 × 4
])  # fmt: skip
def test_models_of_the_catalog(model: str, width: int, height: int, tokens: int) -> None:
    built = rl.load(model)
    assert image_tokens(built.images, built.name, Images(3, width, height)).tokens == 3 * tokens


@given(width=st.integers(1, 4000), height=st.integers(1, 4000))
def test_what_always_holds(width: int, height: int) -> None:
    """Squares cover the image; never more than the limit allows; rows and columns may be swapped but for row ends."""
    rows = PatchRows(28, 1540).tokens(width, height)
    assert rows <= 55 * 56
    tiles = ImageTiles(336, 144, 16)
    across, down = tiles.grid(width, height)
    assert across * down <= 16
    if max(width, height) <= 336 * 4:
        assert across >= ceil(width / 336)
        assert down >= ceil(height / 336)
    assert tiles.tokens(width, height) == tiles.tokens(height, width)
    if max(width, height) <= 200 * min(width, height):
        merged = MergedPatches(28, 3136, 12845056)
        assert merged.tokens(width, height) == merged.tokens(height, width) <= 16384 + 2


def test_what_no_rule_is_known_of() -> None:
    assert image_rule({"model_type": "llama"}) is None
    wrong = {"patch_size": True, "spatial_merge_size": 2}
    assert image_rule({"model_type": "qwen2_vl", "vision_config": wrong}) is None
    assert image_rule({"model_type": "qwen2_vl", "vision_config": [1]}) is None
    assert image_rule({"model_type": [], "vision_config": {}}) is None
    assert rl.load("google/gemma-4-31B").images is None
    with pytest.raises(InputError, match="a model whose rule is known"):
        rl.serve("Qwen/Qwen3-8B", input=1, output=1, concurrency=1, on="h100-sxm", images=Images(1, 100, 100))


@pytest.mark.parametrize("wrong", [(0, 10, 10), (1, 0, 10), (1, 10, 2**17), (1.5, 10, 10), (True, 10, 10)])
def test_wrong_sizes(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match="whole number from 1"):
        Images(*wrong)


def test_too_narrow() -> None:
    with pytest.raises(InputError, match="at most 200 to 1"):
        MergedPatches(28, 3136, 12845056).tokens(201, 1)


def test_images_are_a_longer_prompt_that_a_tower_encodes() -> None:
    """Of a server, and of a simulation: without the tower in every respect but what they say."""
    text = rl.load(QWEN3, text_only=True)
    given_ = {"output": 50, "on": "h100-sxm", "engine": "vllm", **EQUAL}
    seen = {"images": Images(2, 1024, 768)}
    s, longer = (rl.serve(text, input=n, concurrency=8, **given_, **k) for n, k in ((100, seen), (1640, {})))
    assert (s.ttft, s.tpot, s.input) == (longer.ttft, longer.tpot, 1640)
    size = {"number": 2, "width": 1024, "height": 768, "frames": 1, "each": 770, "tokens": 1540}
    unheard = {"audio": 0.0, "audio_tokens": 0, "audio_positions": 0, "audio_inputs": 0}
    assert s.to_dict()["images"] == {**size, "positions": 0, "inputs": 0, **unheard}
    assert longer.to_dict()["images"] is None
    runs = [
        rl.simulate(text, input=n, rate=2, extent=rl.Extent(requests=200), **given_, **k)
        for n, k in ((100, seen), (1640, {}))
    ]
    assert runs[0].ttft.mean == runs[1].ttft.mean
    assert runs[0].traffic.endswith("input 100 + 1540, output 50")
    whole = rl.load(QWEN3)
    plan = {"on": "h100-sxm", "engine": "vllm"}
    alone = rl.estimate(whole, rl.prefill(1, 1640), **plan).span.expected
    both = rl.estimate(whole, rl.prefill(1, 1640).reading("images", 3072, 2), **plan).span.expected
    lone = [rl.serve(x, input=100, concurrency=1, **seen, **given_) for x in (whole, text)]
    assert lone[0].ttft.expected - lone[1].ttft.expected == pytest.approx(both - alone, rel=0.02)
    assert (lone[0].images.positions, lone[0].images.inputs) == (3072, 1)
    assert lone[0].tpot.expected == pytest.approx(lone[1].tpot.expected, rel=1e-9)
    slower = rl.simulate(whole, input=100, rate=2, extent=rl.Extent(requests=200), **seen, **given_)
    assert slower.ttft.mean > runs[0].ttft.mean + 0.9 * (both - alone)


def test_a_step_and_a_batch_read_images() -> None:
    """The same ops as the step that names what the tower reads; behind cached tokens there is nothing to read."""
    seen = {"images": Images(2, 1024, 768)}
    by_hand = rl.prefill(3, 100 + 2 * 770).reading("images", 3072, 6)
    assert rl.analyze(QWEN3, rl.prefill(3, 100), **seen).flops == rl.analyze(QWEN3, by_hand).flops
    place = {"on": "h100-sxm", "engine": "none"}
    assert rl.estimate(QWEN3, rl.prefill(3, 100), **seen, **place).time == rl.estimate(QWEN3, by_hand, **place).time
    later = rl.decode(3, 1000)
    assert rl.analyze(QWEN3, later, **seen).flops == rl.analyze(QWEN3, later).flops
    arrays = rl.analyze(QWEN3, rl.prefill(np.array([1, 3]), 100), **seen).flops
    assert arrays.tolist() == [rl.analyze(QWEN3, rl.prefill(n, 100), **seen).flops for n in (1, 3)]
    batch = {"batch": 3, "output_tokens": 2, **place}
    longer = rl.generate(rl.load(QWEN3, text_only=True), input=1640, **batch)
    both = rl.generate(QWEN3, input=100, **seen, **batch)
    assert (both.input, both.images.tokens, both.tpot.expected) == (1640, 1540, pytest.approx(longer.tpot.expected))
    tower = rl.estimate(QWEN3, by_hand, **place).time - rl.estimate(QWEN3, rl.prefill(3, 1640), **place).time
    assert both.ttft.expected - longer.ttft.expected == pytest.approx(tower, rel=0.02)
    with pytest.raises(InputError, match="none in a training step"):
        rl.estimate(QWEN3, rl.training(1, 100), on="8xh100-sxm", **seen)


def test_a_trace_has_its_own_lengths(tmp_path: Any) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time,input,output\n0,10,10\n")
    with pytest.raises(InputError, match="the lengths of its prompts are whole"):
        rl.simulate(QWEN3, trace=trace, on="h100-sxm", images=Images(1, 100, 100))


@pytest.mark.parametrize("tp", [2, 4])
def test_ranks_join_as_many_neighbours_as_one_chip(tp: int) -> None:
    """32 × 32 squares of four patches: every rank's projector has 1,024 rows, not the 4,096 patches."""
    model = rl.load("Qwen/Qwen3-VL-8B-Instruct")
    seen = model.seen(Images(1, 1024, 1024))
    assert seen is not None
    step = replace_step(rl.prefill(1, 1), beside=images_beside(seen, 1))
    rank = rl.shard(model, rl.Layout(tp=tp))
    ops = [op for t in rank.towers for block, _ in t.blocks for x in block.modules for op in lower(x, step)]
    joined = [op.m for op in ops if isinstance(op, MatMul) and "linear" in op.name and op.name.startswith(("m", "d"))]
    assert joined == [1024] * 8


def test_videos_by_hand() -> None:
    """32 frames of 640 × 480: 16 pairs of 20 × 15 squares of 32 pixels and two markers; 23 × 17 of 28 in Qwen2.5-VL."""
    model = rl.load("Qwen/Qwen3-VL-8B-Instruct")
    seen = model.seen(Images(1, 640, 480, 32))
    assert seen is not None
    assert (seen.each, seen.positions, seen.inputs) == (16 * (20 * 15 + 2), 20 * 15 * 4, 16)
    assert seen.text.startswith("1 video of 32 frames of 640x480, 4832 tokens each")
    older = image_rule(CONFIGS[QWEN])
    assert isinstance(older, MergedPatches)
    filmed = older.filmed(3)
    assert filmed is not None
    assert filmed.tokens(640, 480) == 2 * 23 * 17 + 2  # 22.86 and 17.14; a third frame is half of a pair
    large = model.seen(Images(1, 1920, 1080, 64))
    assert large is not None
    assert large.each == 32 * (26 * 14 + 2)  # √(64 · 1920 · 1080 / 25,165,824) = 2.2964: 26.1 and 14.7 squares
    with pytest.raises(InputError, match="whose rule of videos is known"):
        rl.load(GEMMA).seen(Images(1, 640, 480, 32))
    with pytest.raises(InputError, match="frames"):
        rl.serve(model, input=1, output_tokens=1, concurrency=1, on="h100-sxm", frames=8)
