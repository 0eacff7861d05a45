"""Weights in fewer bits: what takes more is narrowed, what takes less is left."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.inference.settings import setup
from roofline.whatif.search.recommendations import changes, served
from roofline.whatif.sensitivity.quantized_weights import quantized_weights, weights_text
from roofline.whatif.sensitivity.tornado import OperatingPoint, answers, grid


def test_experts_in_four_bits_are_not_widened() -> None:
    model = rl.load("openai/gpt-oss-120b")
    narrow = quantized_weights(model, model.precision, "fp8")
    assert narrow is not None
    assert (narrow.what, narrow.precision.spec(model.precision)) == ("attention weights", "attention=fp8")
    assert narrow.precision.experts.name == "mxfp4"
    assert model.weight_bytes(narrow.precision) < model.weight_bytes()
    attention = sum(n * x.matrix for x, n in model.modules() if getattr(x, "part", "") == "attention")
    assert model.weight_bytes() - model.weight_bytes(narrow.precision) == attention
    assert quantized_weights(model, narrow.precision, "fp8") is None
    assert weights_text(model, narrow.precision) == "fp8/mxfp4"


def test_all_weights_of_one_format_are_one_option() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    narrow = quantized_weights(model, model.precision, "int8")
    assert narrow is not None
    assert (narrow.what, narrow.precision.spec(model.precision), narrow.bytes) == ("weights", "weights=int8", 0.5)


@pytest.mark.parametrize("name", ["openai/gpt-oss-120b", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3", "gpt2"])
def test_no_change_stores_more(name: str) -> None:
    model = rl.load(name)
    now = served(model, on="h200-sxm")
    for trial in changes(now):
        if "bits" in trial.what:
            assert model.weight_bytes(trial.then().asked.formats) <= model.weight_bytes(now.asked.formats), trial.what


def test_the_grid_and_the_knobs_do_not_widen_either() -> None:
    model = rl.load("openai/gpt-oss-20b")
    point = OperatingPoint(setup(model, on="h200-sxm"), 8, 1024)
    assert not [a for a in answers(point) if a.knob.startswith("weights in")]
    assert {g.weights for g in grid(point)} == {"bf16/mxfp4", "fp8/mxfp4"}
