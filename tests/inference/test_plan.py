"""A plan: distinct modules with their counts, timed on distinct steps in pieces, remembered; constant branches gone."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from math import hypot
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.inference import plan as plans
from roofline.inference.plan import Plan
from roofline.inference.settings import setup
from roofline.kernels.timing import SUMMED, time_op, time_quantise
from roofline.work.ops import Op
from roofline.work.training import step_ops

MODELS = (
    "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "google/gemma-3-1b-it", "openai/gpt-oss-20b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct", "meta-llama/Llama-4-Scout-17B-16E",
)  # fmt: skip
STEPS = (rl.decode(7, 900), rl.prefill(2, 300), rl.Step([(0, 256), (900, 1, 8)]), rl.training(2, 128, recompute="full"))


def compiled(name: str, layout: str = "tp=2", step: rl.Step | None = None) -> Plan:
    """A plan that nobody has asked yet; for a step of training in its formats."""
    asked = setup(rl.load(name), on="8xh100-sxm", layout=layout)
    asked = replace(asked, formats=step.precision) if isinstance(step, rl.Training) else asked
    return Plan(asked.plan.rank, asked.plan.target)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Op, int]]:
    """Every op that a plan times from here on, with the number of elements it has."""
    timed: list[tuple[Op, int]] = []

    def time(op: Op, target: Any) -> Any:
        timing = time_op(op, target)
        timed.append((op, int(np.size(timing.expected))))
        return timing

    monkeypatch.setattr(plans, "time_op", time)
    return timed


@folded("name", MODELS)
def test_distinct_modules_with_their_counts_are_the_list_of_all_layers(name: str) -> None:
    plan = compiled(name)
    layers: dict[str, Any] = {}
    for section, _, count in plan.rank.placed():
        layers[section] = layers.get(section, 0) + count
    for entries in (plan.entries, plan.named_entries):
        sums: dict[str, Any] = {}
        for entry in entries:
            for section, n, _ in entry.places:
                sums[section] = sums.get(section, 0) + n
        assert sums == layers
        parameters = sum(entry.module.parameters * count for entry in entries for _, count, _ in entry.places)
        assert parameters == sum(module.parameters * count for module, count in plan.rank.modules())
    assert len(plan.entries) <= len(plan.named_entries) <= sum(1 for _ in plan.rank.placed())


@folded("name", MODELS)
@folded("step", STEPS, ids=["decode", "prefill", "mixed", "training"])
def test_the_total_is_the_sum_over_the_list_of_ops(name: str, step: rl.Step) -> None:
    """Every module of every layer by itself, timed as it stands: a second way to every number of the sum."""
    plan = compiled(name, step=step)
    sums = dict.fromkeys(SUMMED, 0.0)
    for section, module, layers in plan.rank.placed():
        for op in step_ops((module,), step, section not in plans.ENDS):
            for timing in (time_op(op, plan.target), time_quantise(op, plan.target)):
                for term in SUMMED if timing is not None else ():
                    sums[term] += layers * getattr(timing, term)
    total = plan.total(step)
    for term in SUMMED:
        assert getattr(total, term) == pytest.approx(sums[term], rel=1e-12), term


def test_alike_modules_of_several_blocks_are_timed_once() -> None:
    """gemma-3: five windowed layers to a full one, which differ in attention and rotation alone."""
    plan = compiled("google/gemma-3-1b-it", layout="tp=1")
    kinds = [type(entry.module).__name__ for entry in plan.entries]
    assert kinds.count("Attention") == 2
    both = [entry for entry in plan.entries if len(entry.places) == 2]
    layers = len(rl.load("google/gemma-3-1b-it").layers)
    names = {entry.module.name: sum(count for _, count, _ in entry.places) for entry in both}
    assert {names[name] for name in ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")} == {layers}


def test_each_op_is_timed_on_the_distinct_values_of_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 batches × 200 contexts: a product sees 100 numbers of tokens, attention 20,000 steps."""
    timed = counted(monkeypatch)
    plan = compiled("meta-llama/Llama-3.1-8B")
    plan.total(rl.decode(np.arange(1, 101)[:, None], np.arange(1000, 1200)))
    sizes: dict[str, int] = {}
    for op, size in timed:
        sizes[op.name] = sizes.get(op.name, 0) + size
    assert sizes.pop("attention") == 100 * 200
    assert set(sizes.values()) == {100}


def test_drawn_points_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 drawn points of 50 batches and 70 contexts: products at 50 values, attention at the 3,500 that differ."""
    timed = counted(monkeypatch)
    rng = np.random.default_rng(1)
    batch, context = rng.integers(1, 51, 20_000), rng.integers(1000, 1070, 20_000)
    plan = compiled("meta-llama/Llama-3.1-8B")
    plan.total(rl.decode(batch, context))
    sizes = {op.name: size for op, size in timed}
    assert sizes.pop("attention") == len(set(zip(batch.tolist(), context.tolist(), strict=True)))
    assert set(sizes.values()) == {50}


def test_pieces_bound_memory() -> None:
    """400,000 points that all differ: a sum is 3.2 MB, and beside the sums no more is held than pieces take."""
    points = 400_000
    rng = np.random.default_rng(2)
    step = rl.decode(rng.integers(1, 5000, points), rng.integers(1, 100_000, points))
    plan = compiled("meta-llama/Llama-3.1-8B")
    plan.total(rl.decode(np.arange(1, 100), 1000))
    tracemalloc.start()
    total = plan.total(step)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.shape(total.expected) == (points,)
    assert peak < 300 * points  # some 40 numbers a point; every op's times at once would be ten times as much


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    step = rl.decode(rng.integers(1, 5000, 1000), rng.integers(1, 100_000, 1000))
    whole = compiled("deepseek-ai/DeepSeek-V3").total(step)
    monkeypatch.setattr(plans, "PIECE", 37)
    pieces = compiled("deepseek-ai/DeepSeek-V3").total(step)
    for term in (*SUMMED, "floor", "communication"):
        assert np.array_equal(getattr(whole, term), getattr(pieces, term)), term


def test_a_plan_is_compiled_once_and_remembers_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    asked = [setup(model, on="h100-sxm", precision="fp8", engine="vllm") for _ in range(2)]
    assert asked[0].plan is asked[1].plan
    assert setup(model, on="h100-sxm", precision=None, engine="vllm").plan is not asked[0].plan
    timed = counted(monkeypatch)
    plan = compiled(model.name)
    first = plan.total(rl.decode(3, 1000))
    number = len(timed)
    assert number > 0
    assert plan.total(rl.decode(3, 1000)) == first
    assert len(timed) == number
    plan.total(rl.decode(3, 1001))
    assert {op.name for op, _ in timed[number:]} == {"attention"}  # all other modules see three tokens as before


def test_constant_branches_collapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latent attention runs expanded or absorbed: where all points run one form, the other is not timed."""
    timed = counted(monkeypatch)
    plan = compiled("deepseek-ai/DeepSeek-V3")
    batch = np.arange(1, 200)

    def forms(step: rl.Step) -> tuple[bool, bool]:
        timed.clear()
        plan.total(step)
        names = {op.name for op, size in timed}
        return any(n.endswith("_kv_b") for n in names), any("absorb" in n for n in names)

    assert forms(rl.decode(batch, 1000)) == (False, True)
    assert forms(rl.prefill(batch, 1000)) == (True, False)
    assert forms(rl.Step(cached=1000, new=np.where(batch > 100, 1, 1000), batch=1)) == (True, True)


def test_a_number_and_an_array_of_it_are_one() -> None:
    plan = compiled("deepseek-ai/DeepSeek-V3")
    for step in STEPS[:3]:
        many = replace_numbers(step)
        alone, together = plan.total(step), plan.total(many)
        for term in (*SUMMED, "floor", "communication"):
            assert np.asarray(getattr(together, term)).reshape(-1)[0] == pytest.approx(getattr(alone, term), rel=1e-13)


def test_lengths_in_an_array_join_the_queries_of_the_same_length() -> None:
    """A prompt of which one token is new and seven that decode run together, however the one is written."""
    plan = compiled("ibm-granite/granite-4.0-h-tiny")
    alone = plan.total(rl.Step([(0, 1, 1), (3, 1, 7)])).expected
    for new in (np.array([1, 1]), np.array([1, 5])):
        assert plan.total(rl.Step([(0, new, 1), (3, 1, 7)])).expected[0] == pytest.approx(alone, rel=1e-13)


def replace_numbers(step: rl.Step) -> rl.Step:
    return step.with_queries(tuple(replace(q, count=np.array([q.count])) for q in step.queries))


def test_ranks_that_share_experts_err_more_where_their_engine_was_not_fitted_on_servers() -> None:
    """TensorRT-LLM's steps were fitted on servers of H100, vLLM's on one dense model alone."""
    model, h100 = rl.load("Qwen/Qwen3-30B-A3B"), rl.chips()["h100-sxm"]
    known = {name: engine.was_served_on(h100) for name, engine in rl.engines().items()}
    assert (known["trtllm"], known["vllm"], known["sglang"], known["llama-cpp"]) == (True, False, False, False)
    assert rl.engines()["sglang"].was_served_on(rl.chips()["h200-sxm"])

    def unexplained(engine: str, layout: str) -> float:
        e = rl.estimate(model, rl.decode(64, 1024), on="4xh100-sxm", layout=layout, engine=engine)
        return float(e.plan.unexplained)

    assert unexplained("trtllm", "dp=4,ep=4") == pytest.approx(hypot(0.06, 0.12))
    assert unexplained("vllm", "dp=4,ep=4") == pytest.approx(hypot(0.06, 0.15))
    assert unexplained("vllm", "tp=4") == pytest.approx(0.06)
    assert unexplained("none", "tp=4") == pytest.approx(0.06)
    for never_served in ("vllm@0.6", "trtllm@0.9", "llama-cpp"):
        assert unexplained(never_served, "tp=4") == pytest.approx(hypot(0.06, 0.22))
