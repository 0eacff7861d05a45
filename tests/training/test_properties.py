"""What an option of training does to memory and time, over drawn layouts: each changes what it should, and one way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import by_day
from roofline.training.estimate import TrainingEstimate
from roofline.training.memory.saved_activations import kept_bytes
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


@settings(max_examples=by_day(5, 25), deadline=None)
@given(cases())
def test_more_recomputation_takes_less_memory_and_more_time(case: Drawn) -> None:
    none, selective, full = (step(case, recompute=r) for r in ("none", "selective", "full"))
    for less, more in ((none, selective), (selective, full)):
        assert all(b.memory.each <= a.memory.each for a, b in zip(less.stages, more.stages, strict=True))
        assert more.time * ROOM >= less.time
        assert more.hardware_flops >= less.hardware_flops
        assert more.model_flops == less.model_flops
    assert full.time > none.time


@settings(max_examples=by_day(5, 25), deadline=None)
@given(cases())
def test_more_zero_takes_less_memory_and_no_less_traffic(case: Drawn) -> None:
    """From stage 1 on; before, an all-reduce of gradients in fp32 sends more than a gather of weights in bf16."""
    estimates = [step(case, zero=z, overlap=False) for z in range(4)]
    shown = [e.reduction.expected + e.gathering.expected for e in estimates]
    for less, more in pairwise(estimates):
        for a, b in zip(less.stages, more.stages, strict=True):
            for term in ("weights", "gradients", "optimizer"):
                assert getattr(b.memory, term) <= getattr(a.memory, term)
        assert more.passes == less.passes
    assert shown[1] <= shown[2] * ROOM
    assert shown[2] <= shown[3] * ROOM


@settings(max_examples=by_day(5, 25), deadline=None)
@given(cases(), st.sampled_from(["gpipe", "1f1b", "zb-h1", "zb-h2"]))
def test_more_micro_batches_have_a_smaller_bubble(case: Drawn, schedule: str) -> None:
    batch = case[2]["batch"]
    one, two = (step(case, batch=b, schedule=schedule) for b in (batch, 2 * batch))
    assert two.micro_batches == 2 * one.micro_batches
    assert two.bubble <= one.bubble + 1e-9
    assert two.time * ROOM >= one.time


@settings(max_examples=by_day(5, 25), deadline=None)
@given(cases())
def test_a_second_node_is_never_free(case: Drawn) -> None:
    """Twice the replicas and the batch: no less time, and no more work of a chip."""
    batch, dp = case[2]["batch"], case[1]["dp"]
    one, two = step(case), step(case, on="2xdgx-h100", dp=2 * dp, batch=2 * batch)
    assert two.reduction.expected + two.gathering.expected > 0
    assert two.passes.expected * ROOM >= one.passes.expected  # stages may be on two nodes
    assert two.time >= one.time - one.update.expected  # ZeRO shares the update out over twice as many ranks
    assert two.model_flops == 2 * one.model_flops


@settings(max_examples=by_day(5, 25), deadline=None)
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


@settings(max_examples=by_day(20, 60), deadline=None)
@given(st.data(), st.sampled_from([*MODELS, "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"]), st.booleans())
def test_running_more_again_by_name_never_keeps_more(data: st.DataObject, model: str, sp: bool) -> None:
    """Whatever is made again, one name more frees as much or more, and never all that a layer keeps."""
    names = names_of(model)
    some = data.draw(st.lists(st.sampled_from(names), unique=True))
    more = [*some, data.draw(st.sampled_from(names))]
    (block, _) = rl.shard(rl.load(model), rl.Layout(tp=2, sp=sp)).blocks[-1]
    kept = [kept_bytes(block.modules, rl.training(1, 256, recompute=r)) for r in ("none", some or "none", more)]
    assert 0 < kept[2] <= kept[1] <= kept[0]


@settings(max_examples=by_day(6, 20), deadline=None)
@given(cases(), st.booleans(), st.sampled_from(["bf16", "fp32"]))
def test_options_of_sharding_leave_the_passes_alone(case: Drawn, quiet: bool, sent: str) -> None:
    """FSDP's settings change what travels and what is held of weights and gradients, not what is computed or kept."""
    assume(case[1]["dp"] * case[1]["cp"] > 1)
    usual = step(case, zero=3, overlap=False)
    options = {"reshard": False, "no_sync": quiet, "reduce_format": sent, "gather_format": "fp8"}
    other = step(case, zero=3, overlap=False, **options)
    assert other.passes == usual.passes
    assert other.update == usual.update
    for a, b in zip(usual.stages, other.stages, strict=True):
        assert (b.memory.activations, b.memory.each) == (a.memory.activations, a.memory.each)
        assert (b.memory.weights, b.memory.optimizer) == (a.memory.weights, a.memory.optimizer)
        assert b.memory.gradients >= a.memory.gradients or sent == "bf16"
    assert other.gathering.expected <= usual.gathering.expected * ROOM
    assert other.reduction.expected <= usual.reduction.expected * ROOM


@settings(max_examples=by_day(6, 20), deadline=None)
@given(cases())
def test_weights_that_stay_cost_memory_and_save_time(case: Drawn) -> None:
    assume(case[1]["dp"] * case[1]["cp"] > 1)
    usual, stays = step(case, zero=3), step(case, zero=3, reshard=False)
    assert stays.time <= usual.time * ROOM
    for a, b in zip(usual.stages, stays.stages, strict=True):
        layers = sum(int(n) for _, n in a.rank.blocks)
        assert b.memory.working >= a.memory.working or layers < 2
        for term in ("weights", "gradients", "optimizer", "activations"):
            assert getattr(b.memory, term) == getattr(a.memory, term)


@settings(max_examples=by_day(6, 20), deadline=None)
@given(cases(), st.sampled_from(["selective", "op", "full"]), st.integers(1, 6))
def test_more_layers_run_again_take_less_memory_and_more_time(case: Drawn, recompute: str, layers: int) -> None:
    few, more, every = (
        step(case, recompute=recompute, recompute_layers=n) for n in (layers, layers + 2, None)
    )  # fmt: skip
    for less, further in ((few, more), (more, every)):
        assert all(b.memory.each <= a.memory.each * ROOM for a, b in zip(less.stages, further.stages, strict=True))
        assert further.passes.expected * ROOM >= less.passes.expected
        assert further.hardware_flops * ROOM >= less.hardware_flops
        assert further.model_flops == less.model_flops
        assert further.reduction == less.reduction or case[2]["overlap"]


@settings(max_examples=by_day(6, 20), deadline=None)
@given(cases(), st.integers(1, 4))
def test_packs_have_the_tokens_of_one_sequence_and_fewer_pairs(case: Drawn, parts: int) -> None:
    tokens = case[2]["tokens"]
    lengths = [tokens // 2**parts] * 2**parts
    whole, packs = step(case, overlap=False), step(case, overlap=False, lengths=lengths)
    assert packs.tokens == whole.tokens
    assert packs.micro_batches == whole.micro_batches
    assert packs.model_flops < whole.model_flops
    assert packs.update == whole.update
    assert packs.reduction == whole.reduction
    if case[2]["flash"]:  # kernel by kernel the scores of a pack are fewer too
        assert [s.memory for s in packs.stages] == [s.memory for s in whole.stages]
    assert packs.passes.expected <= whole.passes.expected * ROOM


@settings(max_examples=by_day(6, 15), deadline=None)
@given(cases())
def test_what_lives_with_the_host_is_not_on_the_chip_and_takes_time(case: Drawn) -> None:
    assume(case[1]["dp"] * case[1]["cp"] > 1)
    usual = step(case, zero=3)
    for name, term in (("parameters", "weights"), ("gradients", "gradients"), ("optimizer", "optimizer")):
        away = step(case, zero=3, offload=name)
        assert away.time >= usual.time / ROOM
        assert away.passes == usual.passes
        for a, b in zip(usual.stages, away.stages, strict=True):
            assert getattr(b.memory, term) == 0
            assert b.memory.total < a.memory.total
            assert b.memory.working == a.memory.working
