"""Where the time and the memory of a training step go: parts that add up, over modules, ops and time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import roofline as rl
from roofline.training.breakdown import breakdown
from roofline.training.estimate import TrainingEstimate
from roofline.training.memory.by_part import LAYER_INPUTS, memory_over_step, module_bytes
from roofline.views.files.timeline import training_trace
from roofline.views.plots.build_training import step_memory_plot
from roofline.views.plots.plotly import page
from roofline.views.plots.style import Style
from roofline.views.plots.write import write

DENSE, DEEP = "meta-llama/Llama-3.1-70B", "deepseek-ai/DeepSeek-V3"
PIPED: dict[str, Any] = {"batch": 32, "tokens": 4096, "on": "8xdgx-h100", "layout": "tp=8,pp=4,dp=2,sp,zero=1"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "one stage": ("meta-llama/Llama-3.1-8B", {"batch": 64, "tokens": 4096, "on": "dgx-h100", "layout": "tp=2,dp=4"}),
    "shared out": (
        "meta-llama/Llama-3.1-8B",
        {"batch": 16, "tokens": 8192, "on": "dgx-h100", "layout": "cp=4,dp=2,zero=3", "recompute": "full"},
    ),
    "named": ("meta-llama/Llama-3.1-8B", {"batch": 8, "tokens": 4096, "on": "dgx-h100", "recompute": "act,ffn_norm"}),
    **{name: (DENSE, {**PIPED, "schedule": name}) for name in ("gpipe", "1f1b", "zb-h1", "dualpipe")},
    "interleaved": (DENSE, {**PIPED, "schedule": "interleaved", "layout": "tp=8,pp=4,vp=4,dp=2,sp,zero=1"}),
    "experts": (
        DEEP, {"batch": 512, "tokens": 4096, "on": "256xh800-sxm", "layout": "pp=8,dp=32,ep=32,zero=1"},
    ),
    "offloaded": (
        "meta-llama/Llama-3.1-8B",
        {"batch": 16, "tokens": 8192, "on": "dgx-h100", "layout": "cp=4,dp=2", "offload": "activations"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def step(request: pytest.FixtureRequest) -> TrainingEstimate:
    model, options = CASES[request.param]
    estimate: TrainingEstimate = rl.train(model, **options)
    return estimate


# -- time ----------------------------------------------------------------------------------------------------------
def test_the_parts_of_every_stage_are_the_step(step: TrainingEstimate) -> None:
    for stage in range(len(step.stages)):
        parts = breakdown(step, stage)
        assert parts.total == pytest.approx(step.time, rel=1e-12)
        assert min(op.seconds for op in parts.ops) >= 0
        assert min(parts.rest.values()) >= 0
        assert sum(sum(p.values()) for p in parts.modules.values()) == pytest.approx(sum(parts.phases.values()))


def test_ops_and_exposed_communication_are_all_that_the_passes_do(step: TrainingEstimate) -> None:
    """Timed op by op, they come to the passes by themselves: nothing is left but what goes to the host."""
    slowed = breakdown(step).slowed
    assert (slowed > 0) == ("activations" in step.step.offload)


def test_what_is_run_again_is_there_where_it_is_asked_for(step: TrainingEstimate) -> None:
    again = breakdown(step).phases["recompute"]
    assert (again > 0) == (step.recompute != "none")


def test_a_product_takes_as_long_as_it_does_alone() -> None:
    """The step of one micro-batch: the op's own time in `Estimate`, 32 layers of it."""
    e = rl.train("meta-llama/Llama-3.1-8B", batch=1, tokens=4096, on="h200-sxm", optimizer="sgd", recipe="bf16-pure")
    (alone,) = [op for op in e.micro(e.stages[0]).ops if op.name == "down_proj_wgrad"]
    (part,) = [op for op in breakdown(e).ops if op.name == "down_proj_wgrad"]
    assert part.seconds == pytest.approx(alone.expected)


@pytest.mark.parametrize("stage", [-1, 4])
def test_a_stage_that_is_not_there(stage: int) -> None:
    e = rl.train(DENSE, **PIPED)
    with pytest.raises(rl.InputError, match="stage"):
        breakdown(e, stage)
    with pytest.raises(rl.InputError, match="stage"):
        module_bytes(e, stage)


def test_arrays_have_a_breakdown_each() -> None:
    e = rl.train("gpt2", batch=[8, 16], tokens=256, on="dgx-h100")
    for parts in (breakdown, module_bytes, memory_over_step):
        with pytest.raises(rl.InputError):
            parts(e)


# -- memory --------------------------------------------------------------------------------------------------------
def test_the_bytes_of_modules_are_those_of_the_rank(step: TrainingEstimate) -> None:
    for stage in step.stages:
        rows = module_bytes(step, stage.number)
        for term in ("weights", "gradients", "optimizer", "activations"):
            assert sum(getattr(row, term) for row in rows) == pytest.approx(getattr(stage.memory, term), rel=1e-12)


def test_full_recomputation_keeps_the_inputs_of_layers() -> None:
    """By hand: 32 layers of 4,096 tokens of 4,096 values in bf16, of one micro-batch."""
    e = rl.train("meta-llama/Llama-3.1-8B", batch=8, tokens=4096, on="dgx-h100", recompute="full", layout="dp=8")
    kept = {row.module: row.activations for row in module_bytes(e) if row.activations}
    assert kept == {LAYER_INPUTS: 32 * 4096 * 4096 * 2}


def test_the_peak_over_the_step_is_the_stage_s(step: TrainingEstimate) -> None:
    for curve, stage in zip(memory_over_step(step), step.stages, strict=True):
        assert curve.peak == stage.memory.total
        assert max(curve.in_flight) == stage.memory.in_flight
        assert curve.in_flight[-1] == 0
        assert curve.total[-1] == curve.state < curve.peak
        assert all(a < b for a, b in pairwise(curve.seconds))
        assert min(curve.activations) == 0


def test_a_picture_of_it(step: TrainingEstimate, tmp_path: Any) -> None:
    picture = step_memory_plot(step)
    assert 1 <= len(picture.stages) <= 4
    (path,) = write(picture, tmp_path / "memory.svg")
    assert path.stat().st_size > 1000


def test_a_picture_to_zoom() -> None:
    pytest.importorskip("plotly")
    assert "always there" in page(step_memory_plot(rl.train(DENSE, **PIPED)), Style())


# -- the trace -----------------------------------------------------------------------------------------------------
def test_the_trace_has_no_overlaps_and_ends_with_the_step(step: TrainingEstimate) -> None:
    trace = training_trace(step, "a step")
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    named = {event["tid"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    for track in named:
        mine = sorted((s for s in slices if s["tid"] == track), key=lambda s: s["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(mine))
    assert {s["tid"] for s in slices} <= named
    end = max(s["ts"] + s["dur"] for s in slices) / 1e6
    assert end == pytest.approx(step.time, rel=1e-9)
    stages = len(step.stages)
    sent = sum(s["dur"] for s in slices if s["tid"] == stages and s["name"] == "exposed communication") / 1e6
    parts = breakdown(step, 0)
    assert sent == pytest.approx(sum(parts.exposed.values()) + parts.host + parts.slowed, rel=1e-9, abs=1e-9)
    for name, span in (("reduction", step.reduction), ("gathering", step.gathering), ("optimizer", step.update)):
        each = [s["dur"] / 1e6 for s in slices if s["name"] == name]
        assert each == pytest.approx([span.expected] * len(each))
        assert len(each) == (stages if span.expected else 0)
