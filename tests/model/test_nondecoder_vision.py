"""Vision models: parameters and FLOPs of their real classes, published sizes, a formula by hand, ranks of a layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import nondecoder
import roofline as rl
from roofline.model.configs.config import Inputs
from roofline.model.families.blocks.images.convolutions import chain, conv, pool, strided
from roofline.model.families.blocks.images.sight import Map
from roofline.model.modules import Attention, Convolution
from roofline.work.step import read_whole

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "nondecoder" / "vision.json").read_text("utf-8"))[
    "cases"
]
VIT = {
    "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "intermediate_size": 3072, "image_size": 224, "patch_size": 16, "num_labels": 1000,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_parameters_and_flops_are_those_of_the_real_class(case: dict[str, Any]) -> None:
    score = nondecoder.score(case)
    assert not score.refused
    assert score.parameters == 0
    assert [difference for _, difference in score.flops] == [0] * len(score.flops)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [  # figures of torchvision's table of models
        (VIT, 86_567_656),
        ({**VIT, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
         304_326_632),
        ({"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "depths": [3, 4, 6, 3],
          "hidden_sizes": [256, 512, 1024, 2048], "num_labels": 1000}, 25_557_032),
        ({"model_type": "resnet", "architectures": ["ResNetForImageClassification"], "depths": [2, 2, 2, 2],
          "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic", "num_labels": 1000}, 11_689_512),
        ({"model_type": "swin", "architectures": ["SwinForImageClassification"], "embed_dim": 96,
          "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "num_labels": 1000}, 28_288_354),
        ({"model_type": "convnext", "architectures": ["ConvNextForImageClassification"], "depths": [3, 3, 9, 3],
          "hidden_sizes": [96, 192, 384, 768], "num_labels": 1000}, 28_589_128),
        ({"model_type": "mobilenet_v2", "architectures": ["MobileNetV2ForImageClassification"],
          "depth_multiplier": 1.0, "num_labels": 1000}, 3_504_872),
    ],
    ids=["vit-b", "vit-l", "resnet-50", "resnet-18", "swin-t", "convnext-t", "mobilenet-v2"],
)  # fmt: skip
def test_published_sizes(config: dict[str, Any], parameters: int) -> None:
    assert rl.load(config).parameters == parameters


def test_flops_of_a_vision_transformer_by_hand() -> None:
    """12 layers of 197 positions: 24·n·d² for the products, 4·n²·d for attention, the patches, the scores of labels."""
    n, d = 197, 768
    by_hand = 12 * (24 * n * d * d + 4 * n * n * d) + 2 * 196 * 3 * 16 * 16 * d + 2 * d * 1000
    model = rl.load(VIT)
    assert model.positions == n
    assert rl.analyze(model, read_whole(1, n), counting="torch").flops == by_hand


def test_an_image_of_another_size_has_more_positions() -> None:
    model = rl.load(VIT, inputs=Inputs(height=448, width=224))
    assert model.positions == 28 * 14 + 1
    assert model.parameters == rl.load(VIT).parameters


def test_batches_multiply_the_work() -> None:
    model = rl.load(VIT)
    one, many = (rl.analyze(model, read_whole(batch, 1), counting="torch").flops for batch in (1, 8))
    assert many == 8 * one


def test_two_ranks_share_heads_and_neurons() -> None:
    step = read_whole(64, 197)
    alone = rl.estimate(VIT, step, on="h100-sxm").time
    pair = rl.estimate(VIT, step, on="2xh100-sxm", layout="tp=2").time
    assert alone / 2 < pair < alone


def test_windows_of_swin_are_no_larger_than_the_grid() -> None:
    config = {"model_type": "swin", "image_size": 224, "window_size": 8}
    sides = {
        (m.positions, m.runs) for b in rl.load(config).layers for m in b.modules if isinstance(m, Attention)
    }  # fmt: skip
    assert sides == {(64, 49), (64, 16), (64, 4), (49, 1)}


def test_maps_of_convolutions() -> None:
    assert strided(224, 7, 2) == 112
    assert strided(112, 3, 2, dilation=2) == 56
    modules, y = chain(Map(3, 224, 224), conv("stem", 64, 7, 2), pool(3, 2))
    assert y == Map(64, 56, 56)
    first = modules[0]
    assert isinstance(first, Convolution)
    assert (first.positions, first.parameters) == (112 * 112, 64 * 3 * 49)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "timm_wrapper", "architecture": "tresnet_l"}, "a network of timm that is covered"),
        ({**VIT, "architectures": ["ViTForSomething"]}, "a class that is covered"),
        ({"model_type": "dpt", "neck_ignore_stages": [1], "architectures": ["DPTForDepthEstimation"]}, "neck_ignore"),
        (
            {"model_type": "upernet", "backbone_config": {"model_type": "cvt", "depth": [1, 2, 10]}},
            "a backbone that is",
        ),
        ({**VIT, "image_size": [224, 224, 3]}, "one whole number or two"),
        ({"model_type": "resnet", "depths": [3, 4], "hidden_sizes": [256, 512, 1024]}, "as many entries"),
    ],
)
def test_what_is_refused_and_why(config: dict[str, Any], said: str) -> None:
    with pytest.raises(rl.InputError, match=said):
        rl.load(config)


def test_no_warning_for_published_keys() -> None:
    """Keys of losses, dropouts and stages that cannot change the work."""
    for case in CASES:
        warnings = [w for w in rl.load(case["config"]).warnings if "is not understood" in w or "not counted" in w]
        assert warnings == [], case["id"]
