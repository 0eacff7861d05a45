"""Weights in bytes against `metadata.total_size` of the published index beside a config, to the byte.

`published_bytes.json`: config, total, and what else the files hold, by hand: buffers that were saved as tensors, and
the few vectors that a checkpoint keeps in 32 bits. Three of the configs have a vision tower.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl

PAIRS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("published_bytes.json").read_text())
MLX = {name: pair["config"] for name, pair in PAIRS.items() if "quantization" in pair["config"]}


@pytest.mark.parametrize("name", PAIRS)
def test_bytes_are_those_of_the_index(name: str) -> None:
    pair = PAIRS[name]
    model = rl.load(pair["config"], precision=pair.get("precision"))
    assert model.weight_bytes() + sum(pair["beside"].values()) == pair["total_size"]


@pytest.mark.parametrize("name", MLX)
def test_mlx_says_its_section_twice(name: str) -> None:
    """mlx-lm writes `quantization` and the same as `quantization_config`, in which no method stands."""
    both = MLX[name]
    assert both["quantization"] == both["quantization_config"]
    once = {key: value for key, value in both.items() if key != "quantization_config"}
    assert rl.load(both).weight_bytes() == rl.load(once).weight_bytes()


def test_mlx_leaves_a_router_that_is_no_linear_layer() -> None:
    """Mistral's 36 routers of 128 by 4096 stay in 16 bits; those of Qwen3 are linear layers, in 4.5 bits."""
    model = rl.load(MLX["delsakov/mcp_tests"])
    assert model.precision.plain()["router"] == "bf16"
    assert rl.load("Qwen/Qwen3-30B-A3B", precision="mlx-4bit").precision.plain()["router"] == "int4-g64"
    assert rl.load("deepseek-ai/DeepSeek-V3", precision="mlx-4bit").precision.plain()["router"] == "bf16"
