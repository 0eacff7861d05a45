"""How much of a multimodal model is its language model: parameters of the whole as published, and the share of text.

Configs have the published sizes; totals are those of the checkpoints' tensors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl

BF16 = {"dtype": "bfloat16"}
EYES = {
    "model_type": "qwen3_vl", "depth": 24, "hidden_size": 1024, "num_heads": 16, "intermediate_size": 4096,
    "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3,
    "num_position_embeddings": 2304, "deepstack_visual_indexes": [5, 11, 17], "hidden_act": "gelu_pytorch_tanh",
}  # fmt: skip


def qwen3_vl(width: int, layers: int, heads: int, inner: int) -> dict[str, Any]:
    text = {
        "model_type": "qwen3_vl_text", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": inner, "vocab_size": 151936,
        "tie_word_embeddings": True,
    }  # fmt: skip
    return {
        "model_type": "qwen3_vl", "tie_word_embeddings": True, "text_config": text,
        "vision_config": {**EYES, "out_hidden_size": width}, **BF16,
    }  # fmt: skip


QWEN2_VL = {
    "model_type": "qwen2_vl", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False,
    "vision_config": {
        "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3, "hidden_size": 3584,
        "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
    },
    **BF16,
}  # fmt: skip
MEDGEMMA = {
    "model_type": "gemma3", "mm_tokens_per_image": 256,
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504, "vocab_size": 262208,
    },
    "vision_config": {
        "model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
        "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
    },
    **BF16,
}  # fmt: skip
SHARES: dict[str, tuple[str | dict[str, Any], int, float]] = {
    "Qwen3-VL-2B": (qwen3_vl(2048, 28, 16, 6144), 2_127_532_032, 80.9),
    "Qwen3-VL-4B": (qwen3_vl(2560, 36, 32, 9728), 4_437_815_808, 90.6),
    "Qwen2-VL-7B": (QWEN2_VL, 8_291_375_616, 91.8),
    "Qwen3-VL-8B": ("Qwen/Qwen3-VL-8B-Instruct", 8_767_123_696, 93.4),
    "Gemma-4-26B": ("google/gemma-4-26B-A4B", 25_805_933_872, 97.8),
    "Qwen3.5-27B": ("Qwen/Qwen3.5-27B", 27_356_728_560, 98.3),
    "medgemma-27B": (MEDGEMMA, 27_432_406_640, 98.5),
}


def test_text_of_a_published_checkpoint_with_remote_code() -> None:
    """LocateAnything-3B: its language model is 80.6 % of the index of a copy, which has the tied head a second time."""
    pairs = json.loads(Path(__file__).with_name("index_corpus.json").read_text())["pairs"]
    pair = pairs["oguzaybilir/LocateAnything-3B-FineTuning"]
    whole, text = rl.load(pair["config"]), rl.load(pair["config"], text_only=True)
    assert 100 * text.weight_bytes() / pair["total_size"] == pytest.approx(80.6, abs=0.05)
    assert whole.weight_bytes() == pytest.approx(pair["total_size"] - sum(pair["beside"].values()), rel=1e-3)


@pytest.mark.parametrize("name", SHARES)
def test_the_whole_is_counted_and_text_is_its_share(name: str) -> None:
    config, total, share = SHARES[name]
    whole, text = rl.load(config), rl.load(config, text_only=True)
    assert whole.parameters == total
    assert 100 * text.parameters / whole.parameters == pytest.approx(share, abs=0.05)
    assert whole.parameters - text.parameters == sum(tower.parameters for tower in whole.towers)
