"""What would help: what is promised is what comes when it is done, and it fits."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.estimates.memory import fit
from roofline.explore.guidance import Advice, Served, advice, served


def advised(name: str, **how: Any) -> tuple[rl.Model, Served, tuple[Advice, ...]]:
    model = rl.load(name)
    now = served(model, **how)
    return model, now, advice(model, now, now.of(model))


CASES = [
    ("meta-llama/Llama-3.1-8B", {"on": "l4", "batch": 8, "precision": "kv=fp8"}),
    ("meta-llama/Llama-3.1-8B", {"on": "l4", "batch": 8, "input": 4096, "output": 512}),
    ("meta-llama/Llama-3.1-70B", {"on": "8xl40s", "layout": "tp=2,pp=4", "batch": 8}),
    ("openai/gpt-oss-120b", {"on": "mi300x", "batch": 8}),
    ("EleutherAI/gpt-neo-1.3B", {"on": "gb10", "batch": 3}),
]


@pytest.mark.parametrize(("name", "how"), CASES, ids=[f"{n} {h['on']}" for n, h in CASES])
def test_the_options_give_what_is_promised(name: str, how: dict[str, Any]) -> None:
    model, now, found = advised(name, **how)
    assert found
    base = now.of(model)
    for a in found:
        words = a.option.split()
        options = dict(zip(words[::2], words[1::2], strict=True))
        again = served(
            model, on=how["on"], layout=options.get("--layout", how.get("layout")), input=how.get("input"),
            output=how.get("output"), batch=int(options.get("--batch", how["batch"])),
            precision=options.get("--precision", how.get("precision")),
        )  # fmt: skip
        g = again.of(model)
        gain = (g.tokens_per_second / g.where.chips) / (base.tokens_per_second / base.where.chips)
        assert gain == pytest.approx(a.per_chip), a.option
        there = fit(
            model, on=how["on"], layout=again.layout, batch=again.batch, context=again.input + again.output,
            precision=again.precision, engine="none",
        )  # fmt: skip
        assert there.fits, a.option
        assert there.needed == a.memory, a.option


def test_a_replica_without_a_sequence_gains_nothing() -> None:
    """Of one sequence the second replica has none: half the tokens per chip in either phase."""
    _, _, found = advised("google/gemma-3-270m", on="xeon-8480", batch=1)
    (twice,) = (a for a in found if a.what == "twice the DP")
    assert (twice.prefill, twice.decode) == pytest.approx((0.5, 0.5))


def test_a_model_without_a_cache_is_not_told_to_narrow_it() -> None:
    _, _, found = advised("state-spaces/mamba-130m-hf", on="h100-sxm", batch=4)
    assert not [a for a in found if "cache" in a.what]
