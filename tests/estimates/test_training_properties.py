"""What an option of training does to memory and time, over drawn layouts: each changes what it should, and one way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.estimates.train import TrainingEstimate
from roofline.estimates.training_memory import kept_bytes
from roofline.work.training import forward_ops

MODELS = ("meta-llama/Llama-3.2-1B", "Qwen/Qwen1.5-MoE-A2.7B", "google/gemma-2-2b")
ROOM = 1 + 1e-9
Drawn = tuple[str, dict[str, Any], dict[str, Any]]


@st.composite
def cases(draw: st.DrawFn) -> Drawn:
    """A model, a layout of a node of eight, and the sizes of a step."""
    model = draw(st.sampled_from(MODELS))
    tp, pp = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2]))
    replicas = 8 // tp // pp
    cp = draw(st.sampled_from([n for n in (1, 2) if replicas % n == 0]))
    layout = {"tp": tp, "pp": pp, "cp": cp, "dp": replicas // cp, "sp": draw(st.booleans()), "zero": 1}
    if model.startswith("Qwen"):
        layout["ep"] = draw(st.sampled_from([1, 2, 4]))
        assume(8 // pp % layout["ep"] == 0 and 60 % layout["ep"] == 0)
    sizes = {
        "batch": layout["dp"] * draw(st.sampled_from([4, 8, 32])), "tokens": draw(st.sampled_from([512, 2048, 4096])),
        "flash": draw(st.booleans()), "recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "overlap": draw(st.booleans()),
    }  # fmt: skip
    return model, layout, sizes


def step(case: Drawn, on: str = "dgx-h100", **changes: Any) -> TrainingEstimate:
    """The estimate of a case with some options or degrees changed."""
    model, layout, sizes = case
    degrees = {k: changes.pop(k, v) for k, v in layout.items()}
    estimate: TrainingEstimate = rl.train(model, on=on, layout=degrees, **{**sizes, **changes})
    return estimate


@settings(max_examples=25, deadline=None)
@given(cases())
def test_more_recomputation_takes_less_memory_and_more_time(case: Drawn) -> None:
    none, selective, full = (step(case, recompute=r) for r in ("none", "selective", "full"))
    for less, more in ((none, selective), (selective, full)):
        assert all(b.memory.each <= a.memory.each for a, b in zip(less.stages, more.stages, strict=True))
        assert more.time * ROOM >= less.time
        assert more.hardware_flops >= less.hardware_flops
        assert more.model_flops == less.model_flops
    assert full.time > none.time


@settings(max_examples=25, deadline=None)
@given(cases())
def test_more_zero_takes_less_memory_and_no_less_traffic(case: Drawn) -> None:
    """From stage 1 on; before, an all-reduce of gradients in fp32 sends more than a gather of weights in bf16."""
    estimates = [step(case, zero=z, overlap=False) for z in range(4)]
    shown = [e.reduction.expected + e.gathering.expected for e in estimates]
    for less, more in pairwise(estimates):
        for term in ("weights", "gradients", "optimizer"):
            assert getattr(more.fullest, term) <= getattr(less.fullest, term)
        assert more.passes == less.passes
    assert shown[1] <= shown[2] * ROOM
    assert shown[2] <= shown[3] * ROOM


@settings(max_examples=25, deadline=None)
@given(cases(), st.sampled_from(["gpipe", "1f1b", "zb-h1", "zb-h2"]))
def test_more_micro_batches_have_a_smaller_bubble(case: Drawn, schedule: str) -> None:
    batch = case[2]["batch"]
    one, two = (step(case, batch=b, schedule=schedule) for b in (batch, 2 * batch))
    assert two.micro_batches == 2 * one.micro_batches
    assert two.bubble <= one.bubble + 1e-9
    assert two.time * ROOM >= one.time


@settings(max_examples=25, deadline=None)
@given(cases())
def test_a_second_node_is_never_free(case: Drawn) -> None:
    """Twice the replicas and the batch: no less time, and no more work of a chip."""
    batch, dp = case[2]["batch"], case[1]["dp"]
    one, two = step(case), step(case, on="2xdgx-h100", dp=2 * dp, batch=2 * batch)
    assert two.reduction.expected + two.gathering.expected > 0
    assert two.passes.expected * ROOM >= one.passes.expected  # stages may be on two nodes
    assert two.time >= one.time - one.update.expected  # ZeRO shares the update out over twice as many ranks
    assert two.model_flops == 2 * one.model_flops


@settings(max_examples=25, deadline=None)
@given(cases())
def test_an_option_of_memory_leaves_time_alone_and_the_other_way_round(case: Drawn) -> None:
    plain, eager = step(case, loss="in-place"), step(case, loss="eager")
    assert eager.time == plain.time
    assert eager.stages[-1].memory.working >= plain.stages[-1].memory.working
    assert eager.stages[-1].memory.total > plain.stages[-1].memory.total
    assert eager.stages[-1].memory.activations == plain.stages[-1].memory.activations
    shown = step(case, overlap=False)
    assert shown.memory == step(case, overlap=True).memory
    assert shown.time * ROOM >= step(case, overlap=True).time


def names_of(model: str) -> list[str]:
    """The modules of a model's last block, in order."""
    (block, _) = rl.load(model).blocks[-1]
    return [op.name for op in forward_ops(block.modules, rl.training(1, 64))]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([*MODELS, "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"]), st.booleans())
def test_running_more_again_by_name_never_keeps_more(data: st.DataObject, model: str, sp: bool) -> None:
    """Whatever is made again, one name more frees as much or more, and never all that a layer keeps."""
    names = names_of(model)
    some = data.draw(st.lists(st.sampled_from(names), unique=True))
    more = [*some, data.draw(st.sampled_from(names))]
    (block, _) = rl.shard(rl.load(model), rl.Layout(tp=2, sp=sp)).blocks[-1]
    kept = [kept_bytes(block.modules, rl.training(1, 256, recompute=r)) for r in ("none", some or "none", more)]
    assert 0 < kept[2] <= kept[1] <= kept[0]
