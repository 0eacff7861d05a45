"""A search at a rate follows few plans, and answers as if it followed all."""

from __future__ import annotations

import random
from typing import Any

import pytest

import roofline as rl
from roofline.whatif.search.serving import followed
from roofline.whatif.search.serving.plans import ServingPlan

MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b")
OBJECTIVES = ("chips", "chips", "cost", "latency", "interactivity", "energy")


def drawn(seed: int) -> dict[str, Any]:
    """A search of a few chips at a rate that these can take, always the same of a seed."""
    draw = random.Random(seed)
    on, lengths = draw.choice(("h100-sxm", "b200")), {"input": draw.choice((200, 1000, 4000))}
    lengths["output_tokens"] = draw.choice((8, 60, 300))
    model, chips = draw.choice(MODELS), draw.choice((2, 3, 4))
    most = rl.serve(model, on=on, **lengths, concurrency=2**20, formula=True).requests_per_second
    return {
        "model": model, "on": on, **lengths, "chips": chips, "rate": float(most) * chips * draw.uniform(0.1, 0.6),
        "ttft": draw.choice((0.3, 1.0, 3.0)), "tpot": draw.choice((0.02, 0.05)), "layout": ["tp=1", "tp=2"],
        "objective": draw.choice(OBJECTIVES), "attainment": draw.choice((0.99, "mean")),
    }  # fmt: skip


def said(answer: rl.Search) -> list[object]:
    """What a search says of its plans."""

    def row(plan: ServingPlan | None) -> object:
        return plan and (plan.groups, plan.concurrency, plan.ttft.expected, plan.tpot.expected, plan.chance, plan.why)

    machines = [(row(place.plan), place.rank) for place in answer.machines]
    return [*map(row, answer.plans), row(answer.recommended), answer.error, *machines]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("seed", range(24))
def test_the_plans_that_are_not_followed_are_not_among_the_best(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case, numbers = drawn(seed), list[int]()
    again = followed._again
    monkeypatch.setattr(followed, "_again", lambda *given: numbers.append(1) or again(*given))
    short = rl.search(**case)
    some = len(numbers)
    monkeypatch.setattr(followed, "_may_rank", lambda *_: True)
    assert said(rl.search(**case)) == said(short), case
    assert some <= len(numbers) - some
