"""FSDP as it is used: every byte held and every volume sent by a formula worked out by hand, with its source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.layout.layout import Layout
from roofline.model.adapters import with_lora
from roofline.model.formats import FORMATS
from roofline.serving.simulate.load.lengths import lengths_named
from roofline.training.estimate import TrainingEstimate
from roofline.training.memory.memory import memory_of
from roofline.training.memory.saved_activations import kept_by_op, layer_bytes
from roofline.training.memory.workspace import WORKSPACES, reduced_in, stored, total_bytes, travelling
from roofline.training.replicas.traffic import gathered_of, times_of
from roofline.work.checkpointing import layers_again
from roofline.work.packing import drawn_pack, packed

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
LAYER = 4096 * (4096 + 1024 + 1024) + 4096 * 4096 + 3 * 4096 * 14336
"""Matrices of a layer of Llama-3.1-8B; two norms of 4096 beside them."""
ENDS = 2 * 128256 * 4096 + 4096
"""Its embedding, head and last norm."""
GIVEN: dict[str, Any] = {"batch": 8, "tokens": 2048, "on": "dgx-h100", "overlap": False, "engine": "fsdp"}


def step(layout: str = "dp=8,zero=3", **changes: Any) -> TrainingEstimate:
    """A step of Llama-3.1-8B on a node of eight, with some options changed."""
    estimate: TrainingEstimate = rl.train(LLAMA, layout=layout, **{**GIVEN, **changes})
    return estimate


# -- what is sent --------------------------------------------------------------------------------------------------
def on_links(size: float, ranks: int = 8) -> float:
    """Seconds of a gather or a reduce-scatter of `size` bytes by 450 GB/s: (N − 1)/N of them go through each link."""
    return (ranks - 1) / ranks * size / 450e9


def test_weights_that_stay_are_gathered_once() -> None:
    """FSDP2's reshard_after_forward: 2 bytes a parameter gathered twice and 4 reduced, or gathered once.

    arXiv:1910.02054 §7.2.2: ZeRO-3 sends 3Ψ, a third of which is the second gather.
    """
    usual, kept = step(), step(reshard=False)
    psi = LLAMA.parameters
    sent = [(e.reduction + e.gathering).floor for e in (usual, kept)]
    assert sent[0] == pytest.approx(on_links((2 + 2 + 4) * psi), rel=0.02)
    assert sent[1] == pytest.approx(on_links((2 + 4) * psi), rel=0.02)
    assert usual.passes == kept.passes
    assert kept.gathering == usual.gathering


def test_gradients_without_synchronisation_are_reduced_once() -> None:
    """Four micro-batches: 4 · 2 gathers and 4 reductions, or 1 (FSDP2's set_requires_gradient_sync)."""
    psi = LLAMA.parameters
    usual, quiet = (step(batch=32, no_sync=n) for n in (False, True))
    assert (usual.reduction + usual.gathering).floor == pytest.approx(on_links(4 * (2 + 2 + 4) * psi), rel=0.02)
    assert (quiet.reduction + quiet.gathering).floor == pytest.approx(on_links((4 * (2 + 2) + 4) * psi), rel=0.02)
    two, silent = (step("dp=8,zero=2", batch=32, no_sync=n) for n in (False, True))
    assert two.reduction.floor == pytest.approx(4 * silent.reduction.floor)
    assert silent.gathering == two.gathering


@folded(
    ("zero", "reshard", "no_sync", "often"),
    [(0, True, False, (0, 0, 1)), (1, True, False, (1, 0, 1)), (2, True, False, (1, 0, 6)), (2, True, True, (1, 0, 1)),
     (3, True, False, (6, 6, 6)), (3, False, False, (6, 0, 6)), (3, True, True, (6, 6, 1))],
)  # fmt: skip
def test_how_often_each_is_sent(zero: int, reshard: bool, no_sync: bool, often: tuple[int, int, int]) -> None:
    times = times_of(rl.training(1, 1, reshard=reshard, no_sync=no_sync), rl.Layout(zero=zero), 6)
    assert (times.forward, times.backward, times.reduced) == often


@pytest.mark.parametrize(("gather", "reduce", "bytes_each"), [
    (None, None, 2 + 2 + 4), ("fp32", None, 4 + 4 + 4), ("bf16", "bf16", 2 + 2 + 2), (None, "bf16", 2 + 2 + 2),
])  # fmt: skip
def test_formats_that_travel(gather: str | None, reduce: str | None, bytes_each: int) -> None:
    """MixedPrecisionPolicy's param_dtype and reduce_dtype (torch/distributed/fsdp)."""
    e = step(gather_format=gather, reduce_format=reduce)
    assert (e.reduction + e.gathering).floor == pytest.approx(on_links(bytes_each * LLAMA.parameters), rel=0.02)


def test_matrices_of_layers_are_gathered_in_fp8() -> None:
    """torchao's float8 all-gather: linear layers in one byte, embedding, head and norms in two."""
    formats = travelling(LLAMA.modules(), rl.training(1, 1, gather_format="fp8"))
    matrices, others = 32 * LAYER, ENDS + 32 * 2 * 4096
    assert {f.name: p.dense for f, p in formats.items()} == {"fp8": matrices, "bf16": others}
    assert matrices + others == LLAMA.parameters
    e = step(gather_format="fp8")
    sent = 2 * (matrices + 2 * others) + 4 * LLAMA.parameters
    assert (e.reduction + e.gathering).floor == pytest.approx(on_links(sent), rel=0.02)


@pytest.mark.parametrize("zero", [1, 2])
def test_frozen_weights_are_not_gathered_after_an_update(zero: int) -> None:
    """Adapters of rank 16: 41,943,040 parameters learn, and only they change; ZeRO-3 gathers all."""
    tuned, step_of = with_lora(LLAMA, 16), rl.training(1, 1)
    gathered = gathered_of((tuned,), step_of, zero)
    assert sum(p.dense for p in gathered.values()) == 41_943_040
    assert sum(p.dense for p in gathered_of((tuned,), step_of, 3).values()) == tuned.parameters
    e = step(f"dp=8,zero={zero}", lora=16)
    assert e.gathering.floor < on_links(2 * 41_943_040) + 1e-4


def test_shares_within_a_node_and_copies_across() -> None:
    """HSDP: gathered and reduced among 8, then an all-reduce of an eighth, 2·(D − 1)/D of it by 50 GB/s."""
    e = rl.train(LLAMA, **{**GIVEN, "batch": 16, "on": "2xdgx-h100"}, layout="dp=16,zero=3,shard=8")
    psi = LLAMA.parameters
    between = 2 * (1 / 2) * 4 * psi / 8 / 50e9
    assert (e.reduction + e.gathering).floor == pytest.approx(on_links(8 * psi) + between, rel=0.03)
    assert e.fullest.weights == 2 * psi // 8


# -- what is held --------------------------------------------------------------------------------------------------
def test_weights_that_stay_are_held_gathered() -> None:
    """At the loss, 32 layers in bf16 where else the last one is, of which torchtitan says not to give it up."""
    usual, kept = step(batch=16), step(batch=16, reshard=False)
    more = kept.fullest.working - usual.fullest.working
    layer = 2 * (LAYER + 2 * 4096)
    assert more == 31 * layer
    assert kept.fullest.weights == usual.fullest.weights


def test_gradients_without_synchronisation_are_whole() -> None:
    """Kept in the format in which they are reduced (FSDP2, `_fsdp_param.py`, `unsharded_accumulated_grad`)."""
    psi = LLAMA.parameters
    assert step(batch=16).fullest.gradients == 4 * psi // 8
    assert step(batch=16, no_sync=True).fullest.gradients == 4 * psi
    assert step(batch=16, no_sync=True, reduce_format="bf16").fullest.gradients == 2 * psi


def test_a_gradient_that_is_used_at_once_is_the_only_one() -> None:
    """torchtune's optimizer_in_bwd: the head's, 128256 · 4096 in the recipe's 4 bytes, is the largest."""
    e = rl.train(LLAMA, batch=1, tokens=1024, on="h100-sxm", optimizer_in_backward=True, recipe="bf16-pure")
    memory = memory_of(LLAMA, rl.training(1, 1024, optimizer_in_backward=True, recipe="bf16-pure"), Layout())
    assert memory.gradients == 2 * 128256 * 4096
    assert e.fullest.gradients in (0, memory.gradients)
    assert e.time == rl.train(LLAMA, batch=1, tokens=1024, on="h100-sxm", recipe="bf16-pure").time
    with pytest.raises(rl.InputError, match="optimizer_in_backward"):
        rl.train(LLAMA, batch=2, tokens=1024, on="h100-sxm", optimizer_in_backward=True)


@pytest.mark.parametrize(("tokens", "last"), [(64, True), (16384, False)])
def test_gradients_come_while_activations_go(tokens: int, last: bool) -> None:
    """PyTorch has none before the backward pass of a step's one micro-batch, and all of them after it.

    With one device in bf16 alone: 2 + 2 + 4 bytes a parameter at the end and a layer beside them; at the loss 2 + 4,
    the inputs of 32 layers, three fp32 copies of the logits, and room for a layer's gradients as they are made.
    """
    e = rl.train(
        LLAMA, batch=1, tokens=tokens, on="b200", recipe="bf16-pure", optimizer="adamw-bf16", recompute="full",
        engine="fsdp",
    )  # fmt: skip
    psi, memory = LLAMA.parameters, e.fullest
    assert memory.gradients == (2 * psi if last else 0)
    if last:
        assert memory.activations == 0
        assert memory.allocated == pytest.approx((2 + 2 + 4) * psi, rel=0.01)
    else:
        logits = 12 * tokens * 128256 + 2 * 2 * tokens * 4096
        assert memory.allocated == (2 + 4) * psi + 32 * tokens * 4096 * 2 + logits + WORKSPACES + 2 * (
            6144 * 4096 + 4096 * 4096 + 3 * 4096 * 14336
        )
    twice = rl.train(
        LLAMA, batch=2, tokens=tokens, on="b200", recipe="bf16-pure", optimizer="adamw-bf16", recompute="full",
        engine="fsdp",
    )  # fmt: skip
    assert twice.fullest.gradients == 2 * psi


def test_shards_in_fp32_are_their_own_master() -> None:
    """FSDP2 under MixedPrecisionPolicy(bf16, fp32): 4 + 4 + 8 bytes a parameter, of which bf16 copies are gathered."""
    e = step(recipe="bf16-mixed")
    psi = LLAMA.parameters
    assert (e.fullest.weights, e.fullest.gradients) == (4 * psi // 8, 4 * psi // 8)
    assert e.fullest.optimizer == 8 * psi // 8
    assert (e.reduction + e.gathering).floor == pytest.approx(on_links((2 + 2 + 4) * psi), rel=0.02)
    assert e.model_flops == step().model_flops


def test_primary_weights_in_fp8() -> None:
    """TransformerEngine's fp8_model_init: one byte for matrices of layers, two for the rest."""
    formats = stored(LLAMA.modules(), rl.training(1, 1, recipe="fp8-primary"))
    assert total_bytes(formats, Layout(), False) == 32 * LAYER + 2 * (ENDS + 32 * 2 * 4096)
    assert step(recipe="fp8-primary").passes == step(recipe="fp8").passes


def test_peak_of_fsdp_at_the_loss() -> None:
    """torchtitan's Llama-3.1-8B, full checkpointing: fp32 shards, inputs of layers, and three fp32 copies of logits.

    Beside them the layer that is gathered and those outside layers, in bf16; logits of 2 bytes leave a free block.
    """
    tokens = 16384
    e = step(recipe="bf16-mixed", batch=16, micro_batch=2, tokens=8192, recompute="full")
    memory = e.fullest
    assert memory.activations == 32 * tokens * 4096 * 2
    logits = tokens * 128256
    head = 12 * logits + 2 * 2 * tokens * 4096  # what the last norm and the head read
    assert memory.working == WORKSPACES + head + 2 * ENDS + 2 * (LAYER + 2 * 4096)
    assert memory.fragments == 2 * logits


def test_state_is_paged_where_there_is_no_room() -> None:
    """bitsandbytes' paged optimizers: as much of the state stays as the device has room for, the rest travels twice."""
    given: dict[str, Any] = {"batch": 1, "tokens": 1024, "recipe": "bf16-pure", "recompute": "full"}
    roomy, plain = (
        rl.train(LLAMA, on="b200", optimizer=o, **given) for o in ("paged-adamw", "adamw")
    )  # fmt: skip
    assert roomy.fullest == plain.fullest
    assert roomy.time == plain.time
    tight = rl.train(LLAMA, on="h100-sxm", optimizer="paged-adamw", **given)
    assert tight.fits
    assert not rl.train(LLAMA, on="h100-sxm", optimizer="adamw", **given).fits
    away = 8 * LLAMA.parameters - tight.fullest.optimizer
    assert tight.fullest.total == pytest.approx(tight.deployment.chip.capacity)
    plain_update = rl.train(LLAMA, on="h100-sxm", optimizer="adamw", **given).update
    host = tight.deployment.chip.host
    assert host is not None
    assert tight.update.floor - plain_update.floor == pytest.approx(2 * away / host)


def test_parameters_and_gradients_of_the_host() -> None:
    """FSDP's CPUOffloadPolicy: an eighth comes before each gather and goes after each reduction, and for the update."""
    usual, away = step(batch=16), step(batch=16, offload=("parameters", "gradients"))
    assert (away.fullest.weights, away.fullest.gradients) == (0, 0)
    assert away.fullest.working == usual.fullest.working
    host, share = away.deployment.chip.host, LLAMA.parameters / 8
    assert host is not None
    more = (away.reduction + away.gathering).floor - (usual.reduction + usual.gathering).floor
    assert more == pytest.approx(2 * (2 + 2 + 4) * share / host, rel=1e-6)
    assert away.update.floor - usual.update.floor == pytest.approx((2 + 4) * share / host, rel=1e-6)


# -- checkpointing in part -----------------------------------------------------------------------------------------
def test_every_second_product_is_run_again() -> None:
    """torchtitan's selective checkpointing: q, v, gate and down of q, k, v, o, gate, up, down are kept.

    And attention's output, a log-sum-exp of 4 bytes a head, and the input of the layer.
    """
    (block, _) = LLAMA.blocks[0]
    tokens = 512
    kept = kept_by_op(block.modules, rl.training(1, tokens, recompute="op"))
    assert kept == tokens * (2 * (4096 + 4096 + 1024 + 4096 + 14336 + 4096) + 4 * 32)


@pytest.mark.parametrize(("most", "every", "layers"), [(None, None, 32), (8, None, 8), (40, None, 32), (None, 3, 10)])
def test_layers_that_are_run_again(most: int | None, every: int | None, layers: int) -> None:
    """Megatron-LM's block method, and torchtitan's each n-th; time, FLOPs and memory lie between none and all."""
    assert layers_again(32, most, every) == layers
    none, some, full = (
        step(recompute=r, **more)
        for r, more in (
            ("none", {}), ("full", {"recompute_layers": most, "recompute_every": every}), ("full", {}),
        )
    )  # fmt: skip
    share = layers / 32
    assert some.fullest.each == pytest.approx((1 - share) * none.fullest.each + share * full.fullest.each)
    between = (1 - share) * none.passes.expected + share * full.passes.expected
    assert some.passes.expected == pytest.approx(between, rel=1e-9)
    assert some.hardware_flops == pytest.approx((1 - share) * none.hardware_flops + share * full.hardware_flops)
    assert some.model_flops == none.model_flops


def test_nothing_is_said_of_what_frees_memory() -> None:
    assert step(recompute="op").notes == ()
    assert step(recompute="selective").notes != ()


def test_a_layer_that_is_run_again_is_there_once() -> None:
    (block, _) = LLAMA.blocks[0]
    full, none = (layer_bytes(block.modules, rl.training(1, 512, recompute=r)) for r in ("full", "none"))
    assert full.again == none.kept == full.plain
    assert full.kept == 512 * 4096 * 2


# -- packs ---------------------------------------------------------------------------------------------------------
def test_sequences_in_a_pack_attend_to_themselves() -> None:
    """Pairs are Σ l(l + 1)/2 of each sequence; tokens, and everything else, as of one: 6·L·H·Q·2 FLOPs a pair."""
    whole, parts = step(), step(lengths="1024,512x2")
    pairs = [2048 * 2049 // 2, 1024 * 1025 // 2 + 2 * 512 * 513 // 2]
    assert parts.tokens == whole.tokens
    assert parts.fullest == whole.fullest
    assert whole.model_flops - parts.model_flops == 3 * 4 * 128 * 32 * 32 * 8 * (pairs[0] - pairs[1])
    assert parts.passes.expected < whole.passes.expected
    one = step(lengths=[2048])
    assert one.time == whole.time
    assert packed("512x8,4096", 8192) == ((4096, 1), (512, 8))


@folded("text", ["lognormal(512,1.2)", "lognormal(3000,2)", "uniform(100,900)", "uniform(2,5000)", "lognormal(4,0.2)"])
def test_drawn_lengths_are_those_of_drawn_sequences(text: str) -> None:
    """Pairs a token of many sequences drawn one by one, cut to the pack; windows, whose pairs are not a square, too."""
    lengths = np.minimum(lengths_named(text).draw(np.random.default_rng(1), 400_000), 4096)
    pack = drawn_pack(text, 4096)
    assert sum(length * number for length, number in pack) == 4096
    pairs = np.sum(lengths * (lengths + 1) / 2) / np.sum(lengths)
    assert sum(n * x * (x + 1) / 2 for x, n in pack) / 4096 == pytest.approx(pairs, rel=0.01)
    inside = np.minimum(lengths, 512)
    windowed = np.sum(inside * (inside + 1) / 2 + 512 * (lengths - inside)) / np.sum(lengths)
    mine = sum(n * (min(x, 512) * (min(x, 512) + 1) / 2 + 512 * max(0, x - 512)) for x, n in pack) / 4096
    assert mine == pytest.approx(windowed, rel=0.02)
    sequences = 4096 * len(lengths) / np.sum(lengths)
    assert sum(n for x, n in pack if x > 1) == pytest.approx(sequences, rel=0.15)


def test_a_step_of_drawn_packs() -> None:
    """FLOPs by hand, 12·H·Q·layers a pair over all passes; memory and everything per token as of one sequence."""
    whole, packs = step(), step(lengths="uniform(100,900)")
    each = sum(n * x * (x + 1) / 2 for x, n in drawn_pack("uniform(100,900)", 2048))
    assert whole.model_flops - packs.model_flops == pytest.approx(
        3 * 4 * 128 * 32 * 32 * 8 * (2048 * 2049 // 2 - each), rel=1e-9
    )
    assert (packs.batch, packs.tokens_each, packs.tokens) == (whole.batch, 2048, whole.tokens)
    assert packs.fullest == whole.fullest
    together = step(lengths="uniform(100,900)", batch=np.array([8, 16]))
    assert together.time[0] == pytest.approx(packs.time)
    assert list(together.batch) == [8, 16]


# -- what is refused -----------------------------------------------------------------------------------------------
@folded(
    ("layout", "options", "field"),
    [
        ("dp=8,zero=2", {"reshard": False}, "reshard"), ("dp=8,zero=1", {"no_sync": True}, "no_sync"),
        ("dp=8", {"gather_format": "fp8"}, "gather_format"), ("tp=8", {"reduce_format": "bf16"}, "reduce_format"),
        ("dp=8,zero=3", {"gather_format": "fp9"}, "gather_format"),
        ("dp=8,zero=3", {"reduce_format": "fp8"}, "reduce_format"),
        ("dp=8,zero=2", {"offload": "parameters"}, "offload"), ("dp=8,zero=1", {"offload": "gradients"}, "offload"),
        ("dp=8", {"recompute_every": 2}, "recompute_every"), ("dp=8", {"recompute_layers": 4}, "recompute_layers"),
        ("dp=8", {"recompute": "full", "recompute_layers": 4, "recompute_every": 2}, "recompute_every"),
        ("dp=8", {"recompute": "full", "recompute_layers": 0}, "recompute_layers"),
        ("dp=8", {"lengths": "1024,512"}, "lengths"), ("dp=8", {"lengths": "abc"}, "lengths"),
        ("dp=8", {"lengths": "0x3,2048"}, "lengths"), ("dp=8", {"lengths": 7}, "lengths"),
        ("dp=8", {"lengths": "lognormal(512)"}, "lengths"), ("dp=8", {"lengths": "uniform(9,2)"}, "lengths"),
        ("dp=8", {"lengths": "normal(9,2)"}, "lengths"), ("dp=8", {"lengths": "lognormal(0,1)"}, "lengths"),
    ],
)  # fmt: skip
def test_what_does_nothing_or_cannot_be_is_refused(layout: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError) as caught:
        step(layout, **options)
    assert caught.value.field == field


def test_gradients_are_reduced_as_the_recipe_keeps_them() -> None:
    assert reduced_in(rl.training(1, 1)) == FORMATS["fp32"]
    assert reduced_in(rl.training(1, 1, recipe="bf16-gradients")) == FORMATS["bf16"]
    assert reduced_in(rl.training(1, 1, reduce_format="fp16")) == FORMATS["fp16"]


@folded(
    "options",
    [
        {"recompute": "full"}, {"recompute": "op", "reshard": False, "no_sync": True},
        {"optimizer": "paged-adamw", "engine": "megatron"}, {"recompute": "full", "recompute_every": 3, "lora": 8},
        {"offload": "activations,gradients,parameters"}, {"gather_format": "fp8", "recipe": "fp8-primary"},
    ],
)  # fmt: skip
def test_arrays_are_as_their_elements(options: dict[str, Any]) -> None:
    """Of batches, so that gradients come with activations in the first alone; of degrees, one of which is 1."""
    layouts = [{"tp": t, "dp": 8 // t, "zero": 3, "sp": True} for t in (1, 2, 4)]
    given = {**GIVEN, **options}
    many = rl.train(LLAMA, **{**given, "batch": np.array([8, 16])}, layout="dp=8,zero=3")
    ones = [rl.train(LLAMA, **{**given, "batch": b}, layout="dp=8,zero=3") for b in (8, 16)]
    spread = {**layouts[0], "tp": np.array([1, 2, 4]), "dp": np.array([8, 4, 2])}
    wide = rl.train(LLAMA, **given, layout=spread)
    each = [rl.train(LLAMA, **given, layout=layout) for layout in layouts]
    for several, alone in ((many, ones), (wide, each)):
        assert several.time == pytest.approx([e.time for e in alone])
        for term in ("gradients", "optimizer", "activations", "working", "total"):
            assert getattr(several.fullest, term) == pytest.approx([getattr(e.fullest, term) for e in alone])


def test_an_interleaved_pipeline_reduces_once_for_micro_batches_in_a_row() -> None:
    """ZeRO-2, 4 stages, 4 chunks: 16 micro-batches are 4 rows of 4; gradients of two of a stage's chunks are whole."""
    given = {"on": "4xdgx-h100", "batch": 64, "tokens": 1024}
    plain, row = (
        rl.train(LLAMA, layout=f"pp=4,dp=4,zero=2{vp}", schedule=schedule, **given)
        for vp, schedule in (("", "1f1b"), (",vp=4", "interleaved"))
    )
    layout = rl.Layout(pp=4, vp=4, dp=4, zero=2)
    times = times_of(row.step, layout, 16)
    assert (times.reduced, times.row) == (4, 4)
    assert times_of(plain.step, rl.Layout(pp=4, dp=4, zero=2), 16).reduced == 16
    assert times_of(row.step, rl.Layout(pp=4, vp=4, dp=4, zero=1), 16).reduced == 1
    share, whole = plain.stages[1].memory.gradients, 4 * plain.stages[1].rank.parameters
    assert share == whole / 4
    assert row.stages[1].memory.gradients == share + whole / 2
