"""Rules of images against the image processors of transformers: tiles, patches and tokens of drawn sizes."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest

from roofline.model.media.images import AnyResolution, ClosestTiles, ImageRule, MergedPatches, SplitRows, image_rule

pytestmark = pytest.mark.oracle
PROCESSORS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "qwen2_vl": ("qwen2_vl", {"vision_config": {"patch_size": 14, "spatial_merge_size": 2}},
                 {"min_pixels": 4 * 28 * 28, "max_pixels": 16384 * 28 * 28}),
    "glm4v": ("glm4v", {"vision_config": {"patch_size": 14, "spatial_merge_size": 2, "image_size": 336}}, {}),
    "ernie4_5_vl_moe": ("ernie4_5_vl_moe", {"vision_config": {"patch_size": 14, "spatial_merge_size": 2}}, {}),
    "paddleocr_vl": ("paddleocr_vl", {"vision_config": {"patch_size": 14, "spatial_merge_size": 2}}, {}),
    "idefics3": ("idefics3", {"scale_factor": 2, "vision_config": {"patch_size": 14, "image_size": 364}}, {}),
    "internvl": ("got_ocr2", {"downsample_ratio": 0.5, "vision_config": {"patch_size": 14, "image_size": 448}},
                 {"crop_to_patches": True, "max_patches": 12, "size": {"height": 448, "width": 448}}),
    "aya_vision": ("got_ocr2", {"downsample_factor": 2, "vision_config": {"patch_size": 14, "image_size": 364}},
                   {"crop_to_patches": True, "max_patches": 12, "size": {"height": 364, "width": 364}}),
}  # fmt: skip
"""Type → the module with its processor, a config, and the settings of published checkpoints."""


def rule_of(kind: str, **config: Any) -> ImageRule:
    rule = image_rule({"model_type": kind, **config})
    assert rule is not None
    return rule


@pytest.mark.parametrize("kind", PROCESSORS)
def test_tiles_and_patches(kind: str) -> None:
    module, config, settings = PROCESSORS[kind]
    code = importlib.import_module(f"transformers.models.{module}.image_processing_{module}")
    made = next(v for k, v in vars(code).items() if k.endswith("ImageProcessor") and v.__module__ == code.__name__)
    processor, rule, draw = made(**settings), rule_of(kind, **config), random.Random(36)
    for _ in range(400):
        width, height = (draw.randrange(30, 5_000) for _ in range(2))
        if max(width, height) > 190 * min(width, height):
            continue
        real, (positions, inputs) = processor.get_number_of_image_patches(height, width), rule.patches(width, height)
        if isinstance(rule, MergedPatches):
            assert (real, real // 4 + 2) == (positions * inputs, rule.tokens(width, height)), (width, height)
        elif isinstance(rule, SplitRows):
            assert (real[0] or 1, real[1:]) == (inputs, _rows(rule, width, height)), (width, height)
        else:
            assert isinstance(rule, ClosestTiles)
            assert real == inputs, (width, height)


def _rows(rule: SplitRows, width: int, height: int) -> tuple[int, int]:
    across, down = rule.grid(width, height)
    return (down, across) if across * down > 1 else (0, 0)


def test_llava_onevision() -> None:
    """Tokens by the processor's own count of features, which needs no image."""
    code = importlib.import_module("transformers.models.llava_onevision.processing_llava_onevision")
    sizes = [[384 * i, 384 * j] for i in range(1, 7) for j in range(1, 7)]

    class Stub:
        image_processor = type("Fitted", (), {"image_grid_pinpoints": sizes})
        num_image_tokens, vision_aspect_ratio = 729, "anyres_max_9"
        _get_unpadded_features = code.LlavaOnevisionProcessor._get_unpadded_features

    rule, draw = rule_of(
        "llava_onevision", image_grid_pinpoints=sizes, vision_config={"patch_size": 14, "image_size": 384}
    ), random.Random(36)  # fmt: skip
    assert isinstance(rule, AnyResolution)
    for _ in range(400):
        width, height = (draw.randrange(30, 3_000) for _ in range(2))
        real = code.LlavaOnevisionProcessor._get_number_of_features(Stub(), height, width, 384, 384)
        assert rule.tokens(width, height) == real, (width, height)


@pytest.mark.parametrize(
    ("kind", "module", "patch", "size"),
    [
        ("qwen2_5_vl", "qwen2_vl", 14, None),
        ("qwen3_vl", "qwen3_vl", 16, {"shortest_edge": 4096, "longest_edge": 25_165_824}),
    ],
)
def test_videos(kind: str, module: str, patch: int, size: dict[str, int] | None) -> None:
    """Patches of drawn videos by the processor's own count; `size` is that of published checkpoints."""
    code = importlib.import_module(f"transformers.models.{module}.video_processing_{module}")
    made = next(v for k, v in vars(code).items() if k.endswith("VideoProcessor") and v.__module__ == code.__name__)
    processor = made(**({} if size is None else {"size": size}))
    rule, draw = rule_of(kind, vision_config={"patch_size": patch, "spatial_merge_size": 2}), random.Random(36)
    assert isinstance(rule, MergedPatches)
    for _ in range(400):
        width, height, frames = draw.randrange(40, 3_000), draw.randrange(40, 3_000), draw.randrange(2, 600)
        real, filmed = processor.get_num_of_video_patches(frames, height, width, {}), rule.filmed(frames)
        assert filmed is not None
        positions, pairs = filmed.patches(width, height)
        assert positions * pairs == real, (width, height, frames)
