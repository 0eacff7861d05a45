"""Seconds of steps that mix decodes with prompts."""

from __future__ import annotations

from dataclasses import replace

import pytest

import roofline as rl
from roofline.inference.plan import Plan
from roofline.inference.settings import setup
from roofline.model import modules as m
from roofline.serving.closed_forms.mixed_batches import Prompts, mixed_seconds


def plan_of(model: rl.Model) -> Plan:
    asked = setup(model, rl.Where(on="h100-sxm"))
    return Plan(asked.deployment.rank(asked.model), asked.target)


def test_every_token_of_a_draft_has_logits() -> None:
    """256 answers of 4 tokens a step: the head multiplies 1,025 rows, a row of each prompt among them, not 257."""
    model = rl.load("meta-llama/Llama-3.1-8B")
    headless = replace(model, head=tuple(x for x in model.head if not isinstance(x, m.Linear)))
    chunks, sizes = Prompts(512, 0, 512), {"prompts": 1, "context": 1000, "decodes": 256}

    def head(width: int) -> float:
        whole, rest = (mixed_seconds(plan_of(x), chunks, **sizes, width=width) for x in (model, headless))
        return float(whole - rest)

    def alone(rows: int) -> float:
        whole = rl.estimate(model, rl.decode(batch=rows, context=1), on="h100-sxm")
        return float(next(op.expected for op in whole.ops if op.name == "lm_head"))

    assert head(1) == pytest.approx(alone(257), rel=0.02)
    assert head(4) == pytest.approx(alone(1025), rel=0.02)
