"""What training frameworks do, rule by rule: every number by a formula worked out by hand, with its source."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.hardware.cluster import cluster_named
from roofline.layout.layout import Exchange, Layout
from roofline.model.load import catalog_config
from roofline.training.breakdown import breakdown
from roofline.training.layouts.remedies import training_remedies
from roofline.training.memory.memory import trained
from roofline.training.memory.saved_activations import kept_bytes, op_bytes
from roofline.training.memory.workspace import gathered_bytes
from roofline.training.passes import MOST_KNOWN, timed_micro_batch
from roofline.training.pipeline.schedule import StageTimes, length
from roofline.training.replicas.optimizer import update_ops
from roofline.training.replicas.whole_matrices import whole_bytes
from roofline.work import ops as o
from roofline.work.recipe import OPTIMIZERS, newton_schulz_flops, soap_flops
from roofline.work.training import step_ops

LLAMA, LARGE = rl.load("meta-llama/Llama-3.1-8B"), rl.load("meta-llama/Llama-3.1-70B")
SMALL = rl.load("Qwen/Qwen2.5-0.5B")
HUGE, MIXTURE, DEEP = (
    rl.load(name) for name in ("meta-llama/Llama-3.1-405B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3")
)


# -- layouts -------------------------------------------------------------------------------------------------------
def test_a_degree_that_would_do_nothing_is_refused() -> None:
    for model, layout, field in ((LLAMA, "dp=8,ep=8", "layout.ep"), (LLAMA, "dp=8,shard=4", "layout.shard")):
        with pytest.raises(rl.InputError) as caught:
            rl.train(model, batch=8, tokens=1024, on="dgx-h100", layout=layout)
        assert caught.value.field == field
    assert rl.shard(MIXTURE, Layout(dp=8, ep=8)).parameters < MIXTURE.parameters
    assert Layout(dp=8, shard=4, zero=3).sharers == 4


def test_chunks_without_stages_are_refused() -> None:
    with pytest.raises(rl.InputError) as caught:
        rl.train(LLAMA, batch=8, tokens=1024, on="dgx-h100", layout="tp=8,sp,vp=2")
    assert caught.value.field == "layout.vp"


def test_embedding_and_loss_count_as_layers_of_interleaved_stages() -> None:
    """Llama-3 405B has 126 layers for 128 of them (arXiv:2407.21783 §3.3.2): 16 stages of 8 chunks of one layer each.

    The first chunk has the embedding alone and the last the loss.
    """
    stages = Layout(pp=16, vp=8).layers_of(126)
    assert [len(s) for s in stages] == [7, *[8] * 14, 7]
    assert sorted(i for s in stages for i in s) == list(range(126))
    assert stages[0] == tuple(range(15, 126, 16))  # of chunks 0, 16, 32, …: all but the first
    e = rl.train(
        HUGE, batch=128, tokens=8192, on="1024xh100-sxm", layout="tp=8,pp=16,vp=8,dp=8,zero=1",
        schedule="interleaved",
    )  # fmt: skip
    assert sum(s.layers for s in e.stages) == 126
    with pytest.raises(rl.InputError, match="at most 16 stages"):
        Layout(pp=17, vp=8).layers_of(126)
    with pytest.raises(rl.InputError, match="at most 126 stages"):
        Layout(pp=127).layers_of(126)


@folded(
    ("chips", "racks", "each"), [(256, 4, 64), (512, 8, 64), (2048, 32, 64), (144, 2, 72), (5120, 80, 64), (100, 2, 50)]
)
def test_racks_are_used_in_part(chips: int, racks: int, each: int) -> None:
    """18 trays of 4 GPUs a rack: as few racks as have equal parts of whole trays."""
    if each % 4:
        with pytest.raises(rl.InputError, match="cluster"):
            cluster_named(f"{chips}xgb200")
        return
    cluster = cluster_named(f"{chips}xgb200")
    assert cluster.chips == chips
    assert [level.size for level in cluster.levels] == [each, racks]


# -- schedules -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("schedule", "units"), [("1f1b", 117), ("zb-h1", 103), ("zb-h2", 96), ("gpipe", 117)])
def test_zero_bubble_schedules_take_what_their_formulas_say(schedule: str, units: int) -> None:
    """8 stages, 32 micro-batches, F = B = W = 1: 96 of work; 21 of bubble, ZB-H1 a third, ZB-H2 none.

    (p − 1)(F + B + W), (p − 1)(F + B − W), (p − 1)(F + B − 2W): arXiv:2401.10241, table 2.
    """
    assert length(schedule, [StageTimes(1.0, 1.0, 1.0)] * 8, 32) == units


# -- ZeRO ----------------------------------------------------------------------------------------------------------
def test_shared_gradients_are_reduced_after_every_micro_batch() -> None:
    """DeepSpeed reduces from stage 2 at every backward pass (runtime/engine.py), before only at the end of a step.

    70B on 8 nodes, tp=8, dp=8: a reduce-scatter sends 7/8 of a rank's 4-byte gradients by 50 GB/s, 64 times.
    """
    step: dict[str, Any] = {"batch": 512, "tokens": 4096, "on": "8xdgx-h100", "overlap": False}
    one, two = (rl.train(LARGE, layout=f"tp=8,dp=8,zero={z}", **step) for z in (1, 2))
    rank = rl.shard(LARGE, Layout(tp=8, dp=8)).parameters
    assert one.micro_batches == two.micro_batches == 64
    assert one.reduction.floor == pytest.approx(7 / 8 * 4 * rank / 50e9, rel=0.02)
    assert two.reduction.floor == pytest.approx(64 * 7 / 8 * 4 * rank / 50e9, rel=0.02)
    assert 35 < two.reduction.floor < 41
    assert two.time > one.time
    assert two.memory.total < one.memory.total


def test_more_than_zero_1_is_not_offered_with_pipelines() -> None:
    """DeepSpeed's pipeline engine refuses it (runtime/pipe/engine.py)."""
    step = rl.training(64, 4096)
    offered = {words for words, *_ in training_remedies(step, Layout(tp=8, pp=4, dp=2))}
    assert "zero=1" in offered
    assert not {"zero=2", "zero=3"} & offered
    assert {"zero=2", "zero=3"} <= {words for words, *_ in training_remedies(step, Layout(tp=8, dp=8))}


def test_one_replica_shares_its_weights_with_nobody() -> None:
    """Nothing is gathered, nothing reduced: ZeRO of any stage takes what none does."""
    every = [rl.train(LLAMA, batch=1, tokens=2048, on="b200", layout=f"dp=1,zero={z}") for z in range(4)]
    assert len({e.stages[0].memory for e in every}) == 1
    assert len({e.time for e in every}) == 1
    arrays = rl.train(LLAMA, batch=8, tokens=2048, on="dgx-b200", layout=Layout(dp=np.array([1, 8]), zero=3))
    eight = rl.train(LLAMA, batch=8, tokens=2048, on="dgx-b200", layout="dp=8,zero=3")
    one = rl.train(LLAMA, batch=8, tokens=2048, on="b200", layout="dp=1")
    assert arrays.memory.total.tolist() == [one.memory.total, eight.memory.total]


def test_experts_that_one_rank_alone_holds_are_not_gathered() -> None:
    """Of eight ranks with an eighth of the experts each, the layer's other weights alone are."""
    layout = Layout(dp=8, ep=8, zero=3)
    (block, _), *_ = rl.shard(MIXTURE, layout).blocks
    step = rl.training(1, 128)
    dense = sum(x.parameters for x in block.modules if x.name != "experts")
    assert gathered_bytes([(x, 1) for x in block.modules], step, layout) == 2 * dense


# -- tied embeddings -----------------------------------------------------------------------------------------------
def test_a_table_of_both_ends_is_added_up_between_them() -> None:
    """Llama-3.1-8B with one table: 128,256 · 4096 gradients of 4 bytes, 2.1 GB by 50 GB/s, 42 ms, and a copy each."""
    tied = rl.load({**catalog_config("meta-llama/Llama-3.1-8B"), "tie_word_embeddings": True})
    given: dict[str, Any] = {"batch": 64, "tokens": 4096, "on": "2xdgx-h100"}
    one, other = (rl.train(model, layout="pp=16", **given) for model in (tied, LLAMA))
    assert one.reduction.floor == pytest.approx(4 * 128256 * 4096 / 50e9, rel=1e-3)
    assert other.reduction.floor == 0
    assert one.time > other.time + 0.042
    for i in range(16):
        assert one.stages[i].memory == other.stages[i].memory
    split = rl.train(tied, layout="tp=8,pp=2", **given)
    assert split.reduction.floor == pytest.approx(4 * 128256 * 4096 / 8 / 50e9, rel=1e-3)
    both = [rl.train(m, layout="pp=8,dp=2", schedule="dualpipe", **given) for m in (tied, LLAMA)]
    assert both[0].reduction == both[1].reduction  # the ranks of either end have both, as replicas


# -- Muon ----------------------------------------------------------------------------------------------------------
def test_a_rank_orthogonalises_every_matrix_that_its_share_has_a_part_of() -> None:
    """Parameters in a row, matrices in any order, cut in eight: what the ranks work and receive, on average.

    Newton–Schulz runs on whole matrices (arXiv:2502.16982, algorithm 1).
    """
    model, ranks, rounds = SMALL, 8, 5
    shapes = [(896, 896), (896, 128), (896, 128), (896, 896), (896, 4864), (896, 4864), (4864, 896)] * 24
    rest = model.parameters - sum(a * b for a, b in shapes)
    assert rest == 151936 * 896 + 24 * (2 * 896 + 1152) + 896
    sizes = np.array([a * b for a, b in shapes] + [rest / 1000] * 1000)  # what is no matrix of layers
    flops = np.array([newton_schulz_flops(a, b, rounds) for a, b in shapes] + [0] * 1000)
    rng, worked, received = np.random.default_rng(5), [], []
    for _ in range(1500):
        order = rng.permutation(len(sizes))
        ends = np.cumsum(sizes[order])
        cuts = np.linspace(0, ends[-1], ranks + 1)
        begins = ends - sizes[order]
        for low, high in pairwise(cuts):
            part = np.clip(np.minimum(ends, high) - np.maximum(begins, low), 0, None)
            touched = (part > 0) & (flops[order] > 0)
            worked.append(flops[order][touched].sum())
            received.append((sizes[order] - part)[touched].sum())
    layout = Layout(dp=ranks, zero=1)
    ops = update_ops([model], layout, rl.training(8, 128, optimizer="muon"))
    mine = sum(2 * op.m * op.k * op.n * op.groups for op in ops if isinstance(op, o.MatMul))
    assert mine == pytest.approx(np.mean(worked), rel=0.01)
    learning = trained(model)
    gathered = whole_bytes([model], learning, layout, False, OPTIMIZERS["muon"])
    assert gathered * (1 - 1 / ranks) / 2 == pytest.approx(np.mean(received), rel=0.02)


def test_muon_is_shared_out_down_to_whole_matrices_and_gathers_their_rest() -> None:
    """8B: every rank of very many orthogonalises a matrix, of which it gathers 2 bytes of each gradient."""
    given: dict[str, Any] = {"tokens": 4096, "layout": "dp=2048,zero=1", "on": "256xdgx-h100", "batch": 2048}
    adam, muon = (rl.train(LLAMA, optimizer=name, **given) for name in ("adamw", "muon"))
    shapes = {(4096, 4096): 64, (4096, 1024): 64, (4096, 14336): 96}
    mean = sum(n * (a * b) ** 2 for (a, b), n in shapes.items()) / LLAMA.parameters
    learning = trained(LLAMA)
    assert whole_bytes([LLAMA], learning, Layout(dp=2048, zero=1), False, OPTIMIZERS["muon"]) == pytest.approx(2 * mean)
    assert muon.reduction.expected > adam.reduction.expected
    one = sum(n * a * b * newton_schulz_flops(a, b, 5) for (a, b), n in shapes.items()) / LLAMA.parameters
    assert muon.update.floor - adam.update.floor > one / 989.4e12
    assert muon.time > adam.time
    alone = [
        rl.train(LLAMA, optimizer=name, batch=8, tokens=128, on="dgx-h100", layout="dp=8") for name in ("adamw", "muon")
    ]
    assert alone[0].reduction == alone[1].reduction  # every rank has all gradients


# -- optimizers of matrices ----------------------------------------------------------------------------------------
def _tiny() -> rl.Model:
    return rl.load({
        "model_type": "llama", "hidden_size": 96, "intermediate_size": 200, "vocab_size": 1000,
        "num_attention_heads": 6, "num_key_value_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
    })  # fmt: skip


SHAPES = [(1000, 96)] * 2 + 3 * [(96, 96), (96, 32), (96, 32), (96, 96), (96, 200), (96, 200), (200, 96)]
"""The matrices of that model, as its published code has them; its vectors are 7 norms of 96."""


def _state(optimizer: str, layout: str = "dp=1", model: rl.Model | None = None) -> float:
    given: dict[str, Any] = {"batch": 8, "tokens": 32, "on": "dgx-h100", "layout": layout, "recipe": "bf16-pure"}
    return float(rl.train(model or _tiny(), optimizer=optimizer, **given).stages[0].memory.optimizer)


def test_adafactor_keeps_rows_and_columns_of_matrices_and_vectors_whole() -> None:
    """What torch.optim.Adafactor 2.13 keeps of these tensors, by its own state: 29,792 bytes."""
    assert _state("adafactor", "tp=1") == 4 * (sum(a + b for a, b in SHAPES) + 7 * 96) == 29_792
    assert _state("adafactor", "dp=8,zero=1") == 29_792 / 8


def test_soap_keeps_two_moments_and_two_squares_of_each_side() -> None:
    """2·m² + 2·n² + 2·m·n values for a matrix (arXiv:2409.11321 §6); sides beyond 10,000 have no squares."""
    squares = sum(a * a + b * b for a, b in SHAPES)
    assert _state("soap", "tp=1") == 8 * (_tiny().parameters + squares)
    big = rl.train(SMALL, optimizer="soap", recipe="bf16-pure", batch=1, tokens=32, on="h100-sxm", layout="tp=1")
    sides = 896**2 + 24 * (9 * 896**2 + 2 * 128**2 + 3 * 4864**2)  # the table has one side of 151,936
    assert big.stages[0].memory.optimizer == 8 * (SMALL.parameters + sides)


def test_muon_leaves_what_is_no_matrix_of_a_layer_to_adamw() -> None:
    inside = sum(a * b for a, b in SHAPES[2:])
    assert _state("muon", "tp=1") == 4 * inside + 8 * (_tiny().parameters - inside)


def test_soap_multiplies_as_its_algorithm_does() -> None:
    model = _tiny()
    ops = update_ops([model], Layout(), rl.training(8, 32, optimizer="soap"))
    mine = sum(2 * op.m * op.k * op.n * op.groups for op in ops if isinstance(op, o.MatMul))
    assert mine == pytest.approx(sum(soap_flops(a, b, a, b) for a, b in SHAPES))
    assert soap_flops(100, 300, 100, 300) == 8 * 100 * 300 * 400 + 14 / 30 * (100**3 + 300**3)


# -- DualPipe ------------------------------------------------------------------------------------------------------
def test_what_a_rank_of_dualpipe_spends_adds_up_to_the_step() -> None:
    """It takes turns with its own stage and the other end's, so that it never waits for less than nothing."""
    e = rl.train(MIXTURE, batch=64, tokens=4096, on="64xh800-sxm", schedule="dualpipe", layout="pp=4,dp=4,ep=4")
    assert e.stages[0].passes.busy.expected != e.stages[3].passes.busy.expected
    busy = [sum(many * part.passes.busy.expected for part, many in e.run_by(stage)) for stage in e.stages]
    assert busy == pytest.approx([e.micro_batches * stage.turns.busy.expected for stage in e.stages])
    assert sum(busy) == pytest.approx(sum(e.micro_batches * stage.passes.busy.expected for stage in e.stages))
    assert e.timeline.busy == pytest.approx(busy)
    for stage in range(4):
        lines = breakdown(e, stage)
        assert lines.total == pytest.approx(e.time)
        assert lines.waiting == pytest.approx(e.passes.expected - busy[stage])
        assert lines.waiting > 0


@pytest.mark.parametrize("zero", [0, 1])
def test_dualpipe_holds_two_copies_of_the_parameters(zero: int) -> None:
    """arXiv:2412.19437, table 2: parameters 2 ×, activations PP + 1. Stage 0's rank holds the last stage too.

    Of each stage it keeps as many micro-batches as stages follow, its own included.

    Copies are replicas, so that ZeRO shares their state out over twice as many ranks.
    """
    step: dict[str, Any] = {"batch": 64, "tokens": 4096, "on": "64xh800-sxm"}
    dual = rl.train(MIXTURE, schedule="dualpipe", layout=f"pp=4,dp=4,ep=4,zero={zero}", **step)
    plain = rl.train(MIXTURE, layout=f"pp=4,dp=4,ep=4,zero={zero}", **step)
    for i in range(4):
        ends = plain.stages[i].memory, plain.stages[3 - i].memory
        memory = dual.stages[i].memory
        assert memory.weights == ends[0].weights + ends[1].weights
        assert memory.gradients == ends[0].gradients + ends[1].gradients
        together = ends[0].optimizer + ends[1].optimizer
        assert memory.optimizer == (together if zero == 0 else pytest.approx(together / 2, abs=64))
        assert memory.in_flight == 5
        assert memory.activations == (4 - i) * ends[0].each + (i + 1) * ends[1].each
        ways = [[x for x in dual.timeline.items if x.stage == i and x.chunk == way] for way in (0, 1)]
        for way, most in zip(ways, (4 - i, i + 1), strict=True):  # chunk 0 came in at the first stage
            changes = [(x.start, 1) for x in way if x.kind == "F"] + [(x.end, -1) for x in way if x.kind == "W"]
            flying = list(accumulate(change for _, change in sorted(changes)))
            assert max(flying) <= most


@pytest.mark.parametrize("schedule", ["zb-v", "dualpipev"])
def test_the_first_stage_of_a_v_holds_both_ends_of_the_model_and_every_parameter_is_held_once(schedule: str) -> None:
    """A tied table is on one stage: twice on two of them with 1F1B, whose gradients have to be summed."""
    tied = rl.load("meta-llama/Llama-3.2-1B")
    given = {"batch": 32, "tokens": 4096, "on": "4xh100-sxm", "engine": "none"}
    v = rl.train(tied, layout="pp=4,vp=2", schedule=schedule, **given)
    plain = rl.train(tied, layout="pp=4", schedule="1f1b", **given)
    assert sum(s.memory.weights for s in v.stages) == 2 * tied.parameters
    assert sum(s.memory.weights for s in plain.stages) == 2 * (tied.parameters + 128_256 * 2048)
    assert [bool(s.rank.embedding and s.rank.head) for s in v.stages] == [True, False, False, False]
    assert [s.memory.in_flight for s in v.stages] == [4 if schedule == "zb-v" else 4.5] * 4
    placed = v.asked.layout.layers_of(16, v_shaped=True)
    assert placed == ((0, 1, 14, 15), (2, 3, 12, 13), (4, 5, 10, 11), (6, 7, 8, 9))
    uneven = rl.train(tied, layout="pp=4,vp=2,stages=1+2+2+3+3+2+2+1", schedule=schedule, **given)
    assert [s.layers for s in uneven.stages] == [2, 4, 4, 6]
    assert uneven.time < 0.8 * v.time


def test_dualpipe_of_one_stage_is_a_single_copy() -> None:
    one, other = (
        rl.train(LLAMA, batch=8, tokens=1024, on="dgx-h100", layout="dp=8", schedule=s, engine="none")
        for s in ("dualpipe", "1f1b")
    )
    assert one.stages[0].memory == other.stages[0].memory
    assert one.time == other.time


# -- what weights and logits take ----------------------------------------------------------------------------------
def test_qlora_quantises_the_frozen_layers_alone() -> None:
    """arXiv:2305.14314 §3: NF4 with 8-bit scales of 64 values, those with an fp32 scale of 256 of them; the rest bf16.

    Llama-3.1-8B: 218,103,808 weights a layer in 4 + 8/64 + 32/(64·256) bits; embedding, head, 65 norms, and 41,943,040
    of adapters in 2 bytes, of which the last alone have gradients and state.
    """
    layers = 32 * (4096 * (4096 + 1024 + 1024) + 4096 * 4096 + 3 * 4096 * 14336)
    frozen = layers * (4 * 64 * 256 + 8 * 256 + 32) // (64 * 256) // 8 + 2 * (2 * 128256 * 4096 + 65 * 4096)
    e = rl.train(LLAMA, batch=1, tokens=128, on="h100-sxm", recipe="qlora", lora=16)
    memory = e.stages[0].memory
    assert LLAMA.weight_bytes(e.step.precision) == frozen
    assert memory.weights == frozen + 2 * 41_943_040
    assert memory.gradients == 4 * 41_943_040
    assert memory.optimizer == 12 * 41_943_040


@folded(
    ("loss", "recipe", "bytes_each"),
    [("in-place", "bf16", 2 + 4), ("eager", "bf16", 3 * 4), ("fused", "bf16", 0), ("cut", "bf16", 0),
     ("in-place", "fp32", 4), ("compiled", "bf16", 2 + 2),
         ("chunked", "bf16", 2 + 2 / 8), ("eager", "fp32", 3 * 4), (None, "bf16", 6)],
)  # fmt: skip
def test_logits_take_what_their_loss_keeps(loss: str | None, recipe: str, bytes_each: int) -> None:
    """bf16 logits and their softmax in fp32 (Megatron-LM core/tensor_parallel/cross_entropy.py, in place).

    PyTorch's cross-entropy of `logits.float()` in its backward pass: the log-softmax, the gradient of it, and that of
    the logits, all in fp32 (aten/src/ATen/native/SoftMax.cpp, `log_softmax_backward`); the logits themselves are gone.
    """
    tokens = 512
    step = rl.training(1, tokens, recipe=recipe, loss=loss)
    others = kept_bytes(LLAMA.head, rl.training(1, tokens, recipe=recipe, loss="fused"))
    assert kept_bytes(LLAMA.head, step) - others == bytes_each * tokens * 128256


def test_an_engine_has_its_own_loss() -> None:
    given: dict[str, Any] = {"batch": 8, "tokens": 8192, "on": "dgx-h100", "layout": "dp=8,zero=3"}
    megatron, fsdp, fused = (
        rl.train(LLAMA, **given, **more) for more in ({}, {"engine": "fsdp"}, {"engine": "fsdp", "fused_loss": True})
    )
    assert (megatron.loss, fsdp.loss, fused.loss) == ("in-place", "eager", "fused")
    assert fsdp.memory.activations - megatron.memory.activations == 6 * 8192 * 128256
    with pytest.raises(rl.InputError, match="loss"):
        rl.training(1, 1, loss="eager", fused_loss=True)
    with pytest.raises(rl.InputError, match="loss"):
        rl.training(1, 1, loss="chunky")


# -- collectives of the backward pass ------------------------------------------------------------------------------
def exchanged(layout: Layout, axis: str) -> list[o.Communicate]:
    """The collectives of one layer along an axis, forward and backward, of one sequence of 4096 tokens."""
    (block, _), *_ = rl.shard(LLAMA, layout).blocks
    ops = step_ops(block.modules, rl.training(1, 4096))
    return [op for op in ops if isinstance(op, o.Communicate) and op.axis == axis]


def test_sequence_parallelism_has_ten_collectives_a_layer_of_which_six_show() -> None:
    """Forward two all-gathers and two reduce-scatters, backward as many and two all-gathers more (arXiv:2205.05198,
    §4.2.2): the inputs' beside their gradient, its reduce-scatter beside the weights' gradient. Each is of s·b·h.
    """
    ops = exchanged(Layout(tp=8, sp=True), "tp")
    kinds = [(op.phase, op.collective) for op in ops]
    assert kinds.count(("forward", "all_gather")) == kinds.count(("forward", "reduce_scatter")) == 2
    assert kinds.count(("backward", "all_gather")) == 4
    assert kinds.count(("backward", "reduce_scatter")) == 2
    assert len(ops) == 10
    assert all(op.elements == 4096 * 4096 for op in ops)
    assert len([op for op in ops if not op.beside]) == 6
    assert [op.beside for op in ops if op.beside] == ["backward", "weight"] * 2


def test_collectives_beside_products_are_exposed_where_they_are_longer() -> None:
    """A layer's six are all that shows where links are fast; a schedule that puts the weights' off shows eight.

    The second stage has 16 layers, and a head with an all-gather, and its reduce-scatter beside the weights' gradient.
    """
    given: dict[str, Any] = {"batch": 8, "tokens": 8192, "on": "2xdgx-h100", "layout": "tp=8,pp=2,sp", "law": "ideal"}
    shown, apart = (
        rl.train(LLAMA, schedule=s, **given).stages[1].passes.exchange["tp"].expected for s in ("1f1b", "zb-h1")
    )
    assert apart / shown == pytest.approx((16 * 8 + 2) / (16 * 6 + 1), rel=0.01)  # switches add up a little faster


@pytest.mark.parametrize("exchange", ["ring", "all_gather"])
def test_context_parallelism_sends_keys_and_values_again(exchange: Exchange) -> None:
    """Ring attention (arXiv:2310.01889 §3): keys and values forward, backward again, and their gradients: three times.

    A token has 2 · 8 heads · 128 of them; 4096 tokens of a sequence.
    """
    ops = exchanged(Layout(cp=4, exchange=exchange), "cp")
    assert [(op.phase, op.collective) for op in ops] == [
        ("forward", "all_gather"), ("backward", "all_gather"), ("backward", "reduce_scatter"),
    ]  # fmt: skip
    assert all(op.elements == 4096 * 2 * 8 * 128 for op in ops)


# -- recomputation by name -----------------------------------------------------------------------------------------
def freed(model: rl.Model, names: list[str] | str, layout: Layout | None = None) -> float:
    """bf16 elements a token that a layer keeps less, of 1024 tokens, over all ranks that share them out."""
    layout = layout or Layout()
    (block, _) = rl.shard(model, layout).blocks[-1]
    plain, again = (kept_bytes(block.modules, rl.training(1, 1024, recompute=r)) for r in ("none", names))
    return float((plain - again) * layout.tp / 1024 / 2)


@folded("layout", [Layout(), Layout(tp=8, sp=True)], ids=["one", "sp"])
@folded(
    ("names", "elements"),
    [
        (["act"], 14336),  # what the down projection reads
        (["gate_up_proj", "act"], 3 * 14336),  # also the gate and the up projection's output
        (["attn_norm", "ffn_norm"], 2 * 4096),  # what they make; under sp it is scattered
        (["ffn_norm", "gate_up_proj", "act"], 4096 + 3 * 14336),
        (["rope"], 0),  # its input must stay instead of its output
        (["qkv_proj"], 1024),  # values; positions have turned queries and keys
        (["qkv_proj", "rope"], 4096 + 2 * 1024),
        (["attn_residual"], 0),  # the branch must stay instead of the sum
        ("selective", 2 * 32),  # the sums of 32 heads' scores, in fp32
    ],
)
def test_recomputing_by_name_frees_what_is_made_again(names: list[str] | str, elements: int, layout: Layout) -> None:
    """Llama-3.1-8B, elements a token and layer: width 4096, 32 and 8 heads of 128, inner 14336."""
    assert freed(LLAMA, names, layout) == elements


@folded(
    ("names", "elements"),
    [
        (["q_norm", "k_norm"], 0),  # their inputs stay, positions turn their outputs
        (["q_norm", "k_norm", "rope"], 4096 + 512),
        (["q_norm", "k_norm", "rope", "qkv_proj"], 4096 + 512 + 512 + (4096 + 512)),
        (["experts_act"], 8 * 768), (["experts_gate_up_proj", "experts_act"], 3 * 8 * 768),
        (["ffn_norm"], 2048),
    ],
)  # fmt: skip
def test_recomputing_norms_of_heads_and_experts(names: list[str], elements: int) -> None:
    """Qwen3-30B-A3B: width 2048, 32 and 4 heads of 128, 8 experts of 768 a token."""
    assert freed(MIXTURE, names) == elements


def test_recomputing_the_up_projections_of_latent_attention() -> None:
    """DeepSeek-V3: 128 heads of 192 of queries and keys and 128 of values, latents of 1536 and 512 normed, 64 rotated.

    All are made again from the latents before their norms and the 64 (Megatron-LM's mla_up_proj with layernorm).
    """
    names = ["q_a_norm", "kv_a_norm", "q_b_proj", "attention_kv_b", "rope"]
    assert freed(DEEP, names) == 128 * (192 + 192 + 128) + 1536 + 512 - 64


def kept_each(model: rl.Model, **options: Any) -> float:
    """Bytes a token that a layer of experts keeps."""
    return float(kept_bytes(model.blocks[-1][0].modules, rl.training(1, 4096, **options)) / 4096)


LATENTS, HEADS, EXPERTS = 7168 + 1536 + 512, 128 * (192 + 192 + 128), 8 * (7168 + 2 * 2048 + 2048)


def test_what_products_read_in_common_is_kept_once() -> None:
    """DeepSeek-V3, elements a token: every tensor once, whoever reads it.

    Both norms' inputs; their outputs, of which q_a and kv_a read one, router and shared expert the other; latents
    before and after their norms; queries, keys, values; attention's output; tokens of eight experts with gate and up
    and what down reads; the shared expert's. In fp32 a sum for each of 128 heads and 256 scores of the router.
    """
    shared = 2 * 2048 + 2048
    elements = 2 * 7168 + LATENTS + (1536 + 512) + HEADS + 16384 + 7168 + EXPERTS + shared
    assert kept_each(DEEP, recipe="bf16") == 2 * elements + 4 * (128 + 256)


def test_a_stream_that_is_made_again_is_kept_for_none_of_its_readers() -> None:
    """Without the outputs of both norms kv_a and the shared expert keep nothing, as q_a and the router."""
    again = kept_each(DEEP, recipe="bf16", recompute=["attn_norm", "ffn_norm"])
    assert kept_each(DEEP, recipe="bf16") - again == 2 * 2 * 7168


def test_products_in_other_formats_keep_copies_of_their_own() -> None:
    """In fp8 the router reads 16 bits of what the shared expert has 8 of; q_a and kv_a share theirs."""
    (of_block, _) = DEEP.blocks[-1]
    sizes = {op.name: size / 4096 for op, size in op_bytes(of_block.modules, rl.training(1, 4096, recipe="fp8"))}
    assert (sizes["router"], sizes["shared_gate_up_proj"]) == (2 * 7168, 7168)
    assert (sizes["q_a_proj"], sizes["kv_a_proj"]) == (7168, 0)


def test_deepseek_keeps_attention_s_output_once() -> None:
    """arXiv:2412.19437 §3.3.3: for attention and the product behind; Transformer Engine has 16 and 8 bits of it."""
    assert kept_each(DEEP, recipe="fp8") - kept_each(DEEP, recipe="fp8(attended=bf16)") == 16384
    names = ["attn_norm", "ffn_norm", "q_a_norm", "kv_a_norm", "q_b_proj", "attention_kv_b", "rope", "experts_act",
             "shared_act"]  # fmt: skip
    halves = 7168 + 1536 + (512 + 64) + 16384 + 7168  # inputs of norms, keys' positions, attention's output
    eighths = 8 * 7168 + 8 * 2 * 2048 + 2 * 2048
    by_hand = 2 * halves + eighths + 4 * (128 + 256)
    assert kept_each(DEEP, recipe="fp8-block(activated=fp8)", recompute=names) == pytest.approx(by_hand, rel=1e-3)


def test_timed_micro_batches_are_kept_in_a_bounded_number() -> None:
    for tokens in range(64, 64 * (MOST_KNOWN + 4), 64):
        rl.train(SMALL, batch=1, tokens=tokens, on="h100-sxm")
    assert timed_micro_batch.cache_info().currsize == timed_micro_batch.cache_info().maxsize == MOST_KNOWN < 100


def test_unknown_names_to_recompute_are_refused() -> None:
    given: dict[str, Any] = {"batch": 8, "tokens": 1024, "on": "dgx-h100", "layout": "tp=8"}
    for names in ("nonsense,act", ["act", "nonsense"]):
        with pytest.raises(rl.InputError, match="nonsense") as caught:
            rl.train(LLAMA, recompute=names, **given)
        assert caught.value.field == "recompute"
    assert rl.train(LLAMA, recompute="act,", **given).recompute == "act"


def test_what_frees_nothing_says_so() -> None:
    given: dict[str, Any] = {"batch": 8, "tokens": 4096, "on": "dgx-h100", "layout": "tp=8,sp"}
    (note,) = rl.train(LLAMA, recompute="selective", **given).notes
    assert "frees 0." in note
    assert "flash attention keeps no scores" in note
    assert rl.train(LLAMA, recompute=["rope"], **given).notes
    for recompute in ("none", "full", ["attn_norm", "ffn_norm"]):
        assert not rl.train(LLAMA, recompute=recompute, **given).notes
    assert not rl.train(LLAMA, recompute="selective", flash=False, **given).notes


# -- utilization ---------------------------------------------------------------------------------------------------
def test_mfu_by_both_definitions() -> None:
    """405B at 131,072 tokens (arXiv:2407.21783 §3.3.2): 6·N and 12·L·H·Q·T of a token, of which a mask leaves half.

    PaLM's formula (arXiv:2204.02311, App. B) takes the whole; N without the embedding, which multiplies nothing.
    """
    tokens = 131072
    e = rl.train(HUGE, batch=16, tokens=tokens, on="2048xh100-sxm", layout="tp=8,cp=16,pp=16,sp,zero=1")
    products = 6 * (HUGE.parameters - 128256 * 16384)
    square = 12 * 126 * 128 * 128 * tokens
    rate = e.tokens_per_second_per_chip / 989.4e12
    assert e.mfu == pytest.approx(rate * (products + square / 2), rel=2e-3)
    assert e.mfu_palm == pytest.approx(rate * (products + square), rel=2e-3)
    assert e.mfu_palm / e.mfu == pytest.approx(48.6 / 34.7, rel=2e-3)


def test_hardware_flops_count_the_squares_that_kernels_without_a_mask_multiply() -> None:
    """Kernel by kernel q·kᵀ and its product with v run on all pairs, half of them masked: 12·L·H·Q·T a token."""
    given: dict[str, Any] = {"batch": 8, "tokens": 4096, "on": "dgx-h100", "layout": "tp=8"}
    flash, eager = (rl.train(LLAMA, flash=f, **given) for f in (True, False))
    masked = 6 * 32 * 32 * 128 * 4096 * (4096 - 1) * 8
    assert flash.hardware_flops == flash.model_flops == eager.model_flops
    assert eager.hardware_flops - eager.model_flops == masked
    assert eager.hfu > eager.mfu


# -- draft layers --------------------------------------------------------------------------------------------------
def test_a_draft_layer_that_learns_is_not_said_to_be_left_out() -> None:
    given: dict[str, Any] = {"batch": 64, "tokens": 4096, "on": "64xh800-sxm", "layout": "pp=4,dp=4,ep=4,zero=1"}
    assert any("multi-token-prediction" in note for note in rl.train(DEEP, **given).model.not_counted)
    assert not any("multi-token-prediction" in note for note in rl.train(DEEP, drafts=1, **given).model.not_counted)


# -- a run ---------------------------------------------------------------------------------------------------------
def test_goodput_of_the_published_run() -> None:
    """Llama 3 (arXiv:2407.21783 §3.3.4): 419 failures in 54 days of 16,384 chips, and more than 90 % effective time.

    M = 54 days / 419, τ = √(2·10·M): 1 − 10/τ − τ/2M − 600/M to first order.
    """
    e = rl.train(HUGE, batch=2048, tokens=8192, on="16384xh100-sxm", layout="tp=8,pp=16,dp=128,sp,zero=1")
    apart = 54 * 86_400 / 419
    usual = rl.run(e, 15e12)
    assert usual.failures_apart == pytest.approx(apart)
    every = (2 * 10 * apart) ** 0.5
    assert usual.checkpoint_interval == pytest.approx(every)
    assert usual.progress == pytest.approx(1 - 10 / every - every / (2 * apart) - 600 / apart, abs=0.005)
    assert usual.progress > 0.9
    slow = rl.run(e, 15e12, save_seconds=60, restart_seconds=1800)
    every = (2 * 60 * apart) ** 0.5
    assert slow.progress == pytest.approx(1 - 60 / every - every / (2 * apart) - 1800 / apart, abs=0.04)
    assert slow.seconds > usual.seconds
    with pytest.raises(rl.InputError, match="restart_seconds"):
        rl.run(e, 15e12, restart_seconds=-1)
