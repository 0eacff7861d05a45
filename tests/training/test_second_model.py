"""Distillation and DPO: a frozen second model beside the one that learns."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.training.emit.make import FRAMEWORKS, hand_over
from roofline.training.memory.by_part import module_bytes

SMALL, LARGE = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"
ASKED: dict[str, Any] = {"batch": 64, "tokens": 4096, "on": "dgx-h100"}


def _forward(model: str, layout: str) -> float:
    """Seconds of a step's forward passes on the slowest stage."""
    e = rl.train(model, layout=layout, **ASKED)
    return float(e.stages[0].passes.forward.expected) * e.micro_batches


@folded(("layout", "zero"), [("tp=8", 0), ("tp=2,dp=4,zero=1", 1)])
def test_a_teacher_adds_its_forward_passes_and_its_weights(layout: str, zero: int) -> None:
    """70B beside 8B: 2 bytes a parameter on every rank, whatever ZeRO-1 shares; logits of one micro-batch."""
    alone, taught = (rl.train(SMALL, layout=layout, **ASKED, **more) for more in ({}, {"teacher": LARGE}))
    assert taught.second.expected == pytest.approx(_forward(LARGE, layout), rel=0.01)
    assert taught.time - alone.time == pytest.approx(float(taught.second.expected), rel=0.01)
    tp = alone.asked.layout.tp
    more = taught.stages[0].memory.weights - alone.stages[0].memory.weights
    assert more == pytest.approx(2 * 70_553_706_496 / tp, rel=1e-3)  # norms are on every rank
    assert taught.stages[0].memory.optimizer == alone.stages[0].memory.optimizer
    assert taught.stages[0].memory.working - alone.stages[0].memory.working == 2 * 4096 * 128_256 / tp
    assert taught.model_flops == alone.model_flops
    assert taught.busy.compute > alone.busy.compute
    broken = rl.breakdown(taught)
    assert broken.rest["second"] == taught.second.expected
    assert broken.total == pytest.approx(float(taught.time))
    rows = module_bytes(taught)
    assert sum(row.weights for row in rows) == pytest.approx(taught.stages[0].memory.weights)
    assert next(row.weights for row in rows if row.module == "frozen model") == more


def test_a_reference_is_a_third_pass_over_the_same_weights() -> None:
    """Under ZeRO-3 an eighth of 2 bytes a parameter; beside adapters it has no weights of its own (PEFT)."""
    for lora, weights in ((None, 2 * 8_030_261_248 / 8), (16, 0)):
        alone, paired = (
            rl.train(SMALL, layout="dp=8,zero=3", lora=lora, reference=on, **ASKED) for on in (False, True)
        )
        assert paired.stages[0].memory.weights - alone.stages[0].memory.weights == pytest.approx(weights, rel=1e-6)
        assert paired.stages[0].memory.working == alone.stages[0].memory.working
        assert paired.second.expected == pytest.approx(_forward(SMALL, "dp=8,zero=3"), rel=0.1)


def test_a_teacher_runs_through_the_same_stages() -> None:
    """Four stages, m micro-batches: Σ F + (m − 1) · max F."""
    e = rl.train(SMALL, layout="tp=2,pp=4,zero=1", teacher=LARGE, **ASKED)
    forwards = [float(s.passes.forward.expected) for s in rl.train(LARGE, layout="tp=2,pp=4,zero=1", **ASKED).stages]
    assert e.second.expected == pytest.approx(sum(forwards) + (e.micro_batches - 1) * max(forwards), rel=0.02)
    assert all(s.memory.second > 0 for s in e.stages)


@folded(
    ("asked", "field"),
    [
        ({"teacher": LARGE, "reference": True, "layout": "tp=8"}, "reference"),
        ({"teacher": "Qwen/Qwen2.5-7B", "layout": "tp=8"}, "teacher"),
        ({"reference": True}, "layout"),
        ({"reference": True, "layout": "tp=8", "batch": 63}, "batch"),
    ],
)  # fmt: skip
def test_what_cannot_be_beside_is_an_input_error(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError, match=field):
        rl.train(SMALL, **{**ASKED, **asked})


@folded("framework", FRAMEWORKS)
def test_what_is_handed_over_says_that_it_lacks_the_second_model(framework: Any) -> None:
    e = rl.train(SMALL, layout="dp=8,zero=3", reference=True, **ASKED)
    assert any(what.startswith(f"reference {SMALL}") for what in hand_over(e, framework).missing)


def test_a_search_has_one_model() -> None:
    with pytest.raises(rl.InputError, match="teacher"):
        rl.search_training(SMALL, batch=64, tokens=1024, on="dgx-h100", reference=True)
