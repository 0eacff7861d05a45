from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.model.adapters import with_drafts, with_lora
from roofline.training.layouts.remedies import fixes
from roofline.training.memory.memory import memory_of
from roofline.training.memory.saved_activations import kept_bytes
from roofline.training.memory.workspace import parameters
from roofline.work.recipe import OPTIMIZERS, RECIPES, newton_schulz_flops
from roofline.work.training import RECOMPUTE, Training

LLAMA, QWEN = rl.load("meta-llama/Llama-3.1-8B"), rl.load("Qwen/Qwen3-30B-A3B")


def gpt(hidden: int, layers: int, heads: int, tokens: int = 2048) -> rl.Model:
    """A GPT of arXiv:2205.05198, table 3: vocabulary of 51200, learned positions."""
    return rl.load({
        "model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads, "n_inner": 4 * hidden,
        "vocab_size": 51200, "n_positions": tokens, "activation_function": "gelu", "dtype": "float16",
    })  # fmt: skip


# -- FLOPs ---------------------------------------------------------------------------------------------------------
@folded(
    ("id", "tokens", "published"),
    [
        ("meta-llama/Meta-Llama-3-8B", 8192, 51.5), ("meta-llama/Llama-3.1-70B", 8192, 449),
        ("meta-llama/Llama-3.1-405B", 8192, 2524), ("deepseek-ai/DeepSeek-V3", 4096, 249.7),
        ("Qwen/Qwen3-30B-A3B", 4096, 23.0), ("Qwen/Qwen3-235B-A22B", 4096, 148),
    ],
)  # fmt: skip
def test_flops_a_token_are_the_published_ones(id: str, tokens: int, published: float) -> None:
    """Model TFLOP/s over tokens/s of Megatron-Bridge's performance summary, in GFLOP per token."""
    flops = rl.analyze(rl.load(id), rl.training(batch=1, tokens=tokens)).flops / tokens / 1e9
    assert flops == pytest.approx(published, rel=0.005)


def test_a_token_that_predicts_two_ahead() -> None:
    model = with_drafts(rl.load("deepseek-ai/DeepSeek-V3"))
    assert rl.analyze(model, rl.training(1, 4096)).flops / 4096 / 1e9 == pytest.approx(260, rel=0.005)


def test_products_cost_three_times_their_forward_and_so_does_everything() -> None:
    forward = {c.name: c.flops for c in rl.analyze(LLAMA, rl.prefill(1, 512).with_logits("all")).ops}
    whole = rl.analyze(LLAMA, rl.training(1, 512))
    back = {c.name: c.flops for c in whole.ops}
    for name in ("qkv_proj", "down_proj", "lm_head"):
        assert back[f"{name}_dgrad"] == back[f"{name}_wgrad"] == forward[name]
    for name in ("attention", "attn_norm", "act", "rope"):
        assert back[f"{name}_backward"] == 2 * forward[name]


OTHERS = ("attn_norm", "rope", "attn_residual", "ffn_norm", "act", "ffn_residual")


@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_flops_run_again(recompute: str) -> None:
    plain = rl.analyze(LLAMA, rl.training(1, 512))
    again = rl.analyze(LLAMA, rl.training(1, 512, recompute=recompute))
    ops = [c for c in plain.ops if c.op.phase == "forward" and c.block not in ("embedding", "head")]
    wanted = {
        "none": 0,
        "selective": sum(c.flops for c in ops if c.name == "attention"),
        "full": sum(c.flops for c in ops),
        # of q, k, v, o, gate, up, down the second, fourth and sixth
        "op": sum(c.flops for c in ops if c.name in OTHERS) + 32 * 2 * 512 * 4096 * (1024 + 4096 + 14336),
    }
    assert again.flops - plain.flops == wanted[recompute]


def test_flops_of_all_ranks_add_up() -> None:
    """Column and row products, attention and what is between them; norms run on every tensor-parallel rank."""
    layout = rl.Layout(tp=4, dp=2, sp=True)
    mine = rl.analyze(rl.shard(LLAMA, layout), rl.training(2, 512, recompute="full")).flops
    assert layout.ranks * mine == rl.analyze(LLAMA, rl.training(4, 512, recompute="full")).flops


# -- memory --------------------------------------------------------------------------------------------------------
@folded(("heads", "hidden", "tokens", "batch"), [(64, 6144, 2048, 4), (96, 12288, 2048, 1)])
@folded(("tp", "sp"), [(1, False), (8, False), (8, True)])
@folded("recompute", ["none", "selective", "full"])
def test_activations_are_those_of_the_published_formula(
    heads: int, hidden: int, tokens: int, batch: int, tp: int, sp: bool, recompute: str
) -> None:
    """arXiv:2205.05198 §4, less its dropout: sbh(8 + 24/t + 5as/(ht)), all over t with sequence parallelism.

    The published 10 + 24/t counts 2 bytes of two dropouts' masks that GPT-2's code here does not have.
    """
    model, layout = gpt(hidden, 1, heads), rl.Layout(tp=tp, sp=sp)
    step = rl.training(batch, tokens, recompute=recompute, recipe="fp16", flash=False)
    (block, _), *_ = rl.shard(model, layout).blocks
    sbh, scores = tokens * batch * hidden, 5 * heads * tokens * tokens * batch // tp
    wanted = (8 * sbh // tp if sp else 8 * sbh) + 24 * sbh // tp + (0 if recompute == "selective" else scores)
    if recompute != "full":
        found = kept_bytes(block.modules, step)
        row_sums = 4 * batch * tokens * heads // tp if recompute == "selective" else 0
        assert abs(found - wanted) <= row_sums


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_zero_divides_what_its_stage_says(zero: int) -> None:
    """arXiv:1910.02054 §5: Ψ(w + g + s), then s, g and w over N in turn; w = 2, g = 4, s = 12."""
    n, psi = 8, LLAMA.parameters
    layout = rl.Layout(dp=n, zero=zero)
    memory = memory_of(rl.shard(LLAMA, layout), rl.training(1, 128), layout)
    assert memory.weights == 2 * psi // (n if zero >= 3 else 1)
    assert memory.gradients == 4 * psi // (n if zero >= 2 else 1)
    assert memory.optimizer == 12 * psi // (n if zero >= 1 else 1)


def test_experts_have_fewer_copies_to_share_out() -> None:
    layout = rl.Layout(dp=8, ep=4, zero=1)
    rank = rl.shard(QWEN, layout)
    parts = parameters(rank.modules())
    memory = memory_of(rank, rl.training(1, 128), layout)
    assert memory.optimizer == 12 * (math.ceil(parts.dense / 8) + math.ceil(parts.experts / 2))


@folded(
    ("optimizer", "recipe", "bytes_each"),
    [("adamw", "bf16", 12), ("adamw-bf16", "bf16", 8), ("adafactor", "bf16", 4), ("momentum", "bf16", 8),
     ("sgd", "bf16", 4), ("adamw", "bf16-pure", 8), ("adamw", "fp32", 8), ("muon", "bf16", 8),
     ("lion", "bf16", 8), ("lion", "fp32", 4)],
)  # fmt: skip
def test_bytes_of_state_a_weight(optimizer: str, recipe: str, bytes_each: int) -> None:
    assert RECIPES[recipe].state(OPTIMIZERS[optimizer]).bytes(1000) == 1000 * bytes_each


def test_llama_3_70b_in_four_stages_on_b200() -> None:
    """SimuMax docs/b200: 12 layers of Llama-3-70B, tp 1, pp 2, dp 4, ZeRO-1, 4096 tokens: 66.55 GiB at the peak."""
    config = {
        "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "vocab_size": 128256,
        "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 12, "max_position_embeddings": 8192,
        "dtype": "bfloat16",
    }  # fmt: skip
    e = rl.estimate(
        rl.load(config),
        rl.training(16, 4096, overlap=False),
        on="dgx-b200",
        layout="pp=2,dp=4,zero=1",
        engine="megatron-2025",
    )
    assert max(s.memory.allocated for s in e.stages) / 2**30 == pytest.approx(66.55, rel=0.02)
    assert e.time == pytest.approx(0.843, rel=0.08)


# -- time ----------------------------------------------------------------------------------------------------------
@folded(
    ("hidden", "layers", "heads", "layout", "batch", "micro", "full", "selective"),
    [
        (6144, 48, 64, "tp=8", 4, 4, 1.42, 1.10), (12288, 96, 96, "tp=8,pp=8,vp=3", 64, 1, 18.13, 13.75),
        (20480, 105, 128, "tp=8,pp=35,vp=3", 280, 1, 49.05, 37.83),
        (25600, 128, 160, "tp=8,pp=64", 512, 1, 94.42, 71.49),
    ],
    ids=["22B", "175B", "530B", "1T"],
)  # fmt: skip
@folded("recompute", ["full", "selective"])
def test_iterations_on_a100_within_twelve_percent(
    hidden: int,
    layers: int,
    heads: int,
    layout: str,
    batch: int,
    micro: int,
    full: float,
    selective: float,
    recompute: str,
) -> None:
    """arXiv:2205.05198, table 5: seconds an iteration; full recomputation, and selective with sequence parallelism."""
    spread = layout + (",sp" if recompute == "selective" else "")
    step = rl.training(
        batch, 2048, recompute=recompute, micro_batch=micro, recipe="fp16", flash=False, overlap="pp",
        schedule="interleaved" if "vp" in layout else "1f1b",
    )  # fmt: skip
    e = rl.estimate(gpt(hidden, layers, heads), step, on="1024xa100-sxm-80gb", layout=spread)
    assert e.time == pytest.approx(full if recompute == "full" else selective, rel=0.12)


def test_the_parts_of_a_step_add_up() -> None:
    e = rl.estimate(LLAMA, rl.training(64, 4096), on="2xdgx-h100", layout="tp=2,pp=2,dp=4,zero=1,sp")
    assert e.time == pytest.approx(sum(s.expected for s in (e.passes, e.reduction, e.gathering, e.update, e.waiting)))
    assert e.floor < e.interval[0] < e.time < e.interval[1]
    assert e.passes.expected == pytest.approx(e.timeline.length, rel=1e-12)
    assert e.mfu == pytest.approx(e.model_flops / (16 * 989.4e12 * e.time), rel=0.01)
    assert e.hfu == e.mfu
    assert e.model_flops == rl.analyze(LLAMA, rl.training(64, 4096)).flops
    assert e.tokens_per_second == 64 * 4096 / e.time
    assert e.tokens_per_second_per_chip == pytest.approx(64 * 4096 / e.time / 16)
    assert e.slowest.passes.busy.expected == max(s.passes.busy.expected for s in e.stages)


def test_more_recomputation_is_slower_and_smaller() -> None:
    estimates = [
        rl.estimate(LLAMA, rl.training(8, 4096, recompute=r), on="dgx-h100", layout="tp=2,dp=4,zero=1")
        for r in RECOMPUTE
    ]
    totals = [e.memory.total for e in estimates]
    assert estimates[0].time < estimates[1].time < estimates[2].time
    assert totals[0] >= totals[1] > totals[2]
    assert (
        estimates[2].hfu
        > estimates[2].mfu
        == pytest.approx(estimates[2].model_flops / estimates[2].hardware_flops * estimates[2].hfu)
    )


def test_overlap_hides_communication_between_replicas() -> None:
    hidden, shown = (
        rl.estimate(LLAMA, rl.training(8, 4096, overlap=o), on="dgx-h100", layout="dp=8,zero=1") for o in (True, False)
    )
    assert hidden.reduction.expected < shown.reduction.expected
    assert hidden.passes == shown.passes


def test_muon_adds_its_products() -> None:
    """Newton–Schulz on m × n: 5 rounds of X·Xᵀ, its square, both times X; 2·(2s²l + s³) FLOPs each."""
    assert newton_schulz_flops(100, 300, 5) == 5 * 2 * (2 * 100 * 100 * 300 + 100**3)
    adam, muon = (
        rl.estimate(LLAMA, rl.training(8, 1024, optimizer=o), on="dgx-h100", layout="tp=8") for o in ("adamw", "muon")
    )
    assert muon.update.expected > 3 * adam.update.expected
    assert muon.memory.total < adam.memory.total


# -- adapters ------------------------------------------------------------------------------------------------------
def test_adapters_are_those_of_the_published_code() -> None:
    """Rank 16 on q, k, v, o, gate, up, down of Llama-3.1-8B: 41,943,040 parameters (peft's count)."""
    tuned = with_lora(LLAMA, 16)
    assert tuned.parameters - LLAMA.parameters == 41_943_040
    memory = memory_of(tuned, rl.training(1, 2048), rl.Layout())
    assert memory.gradients == 4 * 41_943_040
    assert memory.weights == 2 * tuned.parameters
    names = {c.name for c in rl.analyze(tuned, rl.training(1, 128)).ops}
    assert "qkv_proj_wgrad" not in names
    assert "qkv_proj_lora_b_wgrad" in names


def test_quantised_weights_do_not_learn() -> None:
    with pytest.raises(rl.InputError, match="recipe"):
        rl.estimate(LLAMA, rl.training(1, 128, recipe="qlora"), on="h100-sxm")
    small = rl.estimate(with_lora(LLAMA, 16), rl.training(1, 128, recipe="qlora"), on="h100-sxm")
    large = rl.estimate(with_lora(LLAMA, 16), rl.training(1, 128), on="h100-sxm")
    assert small.stages[0].memory.weights < 0.4 * large.stages[0].memory.weights


# -- runs and changes ----------------------------------------------------------------------------------------------
def test_a_run_by_hand() -> None:
    e = rl.estimate(LLAMA, rl.training(64, 4096), on="dgx-h100", layout="tp=8")
    run = rl.run(e, 1e12, mtbf_hours=1000, save_seconds=60)
    apart = 3600 * 1000 / 8
    every = math.sqrt(2 * 60 * apart)
    assert run.steps == math.ceil(1e12 / (64 * 4096))
    assert run.checkpoint_interval == pytest.approx(every)
    assert run.progress == pytest.approx(every / apart * math.exp(-600 / apart) / math.expm1((every + 60) / apart))
    assert run.seconds == pytest.approx(run.steps * e.time / run.progress)
    assert run.cost == pytest.approx(8 * run.seconds / 3600 * e.chip.price.usd_per_hour)


@pytest.mark.parametrize(
    "given",
    [{"tokens": 0}, {"tokens": math.inf}, {"tokens": 1, "mtbf_hours": 0}, {"tokens": 1, "save_seconds": -1}],
    ids=str,
)
def test_a_bad_run_is_an_input_error(given: dict[str, Any]) -> None:
    e = rl.estimate(LLAMA, rl.training(8, 128), on="dgx-h100", layout="tp=8")
    with pytest.raises(rl.InputError):
        rl.run(e, **given)


def test_what_would_make_it_fit_does() -> None:
    e = rl.train(LLAMA, batch=8, tokens=8192, on="dgx-h100", layout="dp=8")
    assert not e.fits
    ways = fixes(e, "dgx-h100")
    assert ways
    assert all(f.estimate.fits for f in ways)
    assert [f.cost for f in ways] == sorted(f.cost for f in ways)


# -- input ---------------------------------------------------------------------------------------------------------
@folded(
    "given",
    [{"recompute": "some"}, {"recipe": "bf17"}, {"optimizer": "adam"}, {"schedule": "2f2b"}, {"micro_batch": 0},
     {"offload": "weights"}, {"flash": 1}, {"overlap": "network"}, {"tokens": 0}],
    ids=str,
)  # fmt: skip
def test_a_bad_option_is_an_input_error(given: dict[str, Any]) -> None:
    with pytest.raises(rl.InputError):
        rl.training(**{"batch": 8, "tokens": 128, **given})


@pytest.mark.parametrize(
    ("step", "layout", "field"),
    [
        (rl.training(7, 128), "dp=2", "batch"), (rl.training(8, 129), "cp=2", "layout.cp"),
        (rl.training(8, 128), "tp=8,dp=2", "layout"), (rl.training(8, 2**20), "tp=2", "context"),
    ],
)  # fmt: skip
def test_what_does_not_divide_is_an_input_error(step: Training, layout: str, field: str) -> None:
    with pytest.raises(rl.InputError) as caught:
        rl.estimate(LLAMA, step, on="8xh100-sxm", layout=layout)
    assert caught.value.field == field


def test_an_array_without_a_layout_has_that_of_its_largest_step() -> None:
    """The largest step of an array gets the layout that it gets alone, unless another step does not divide into it."""
    asked: dict[str, Any] = {"on": "8xh100-sxm", "tokens": 4096}
    alone = rl.train(LLAMA, batch=128, **asked)
    together = rl.train(LLAMA, batch=np.array([64, 128]), **asked)
    assert (together.deployment.layout, together.recompute) == (alone.deployment.layout, alone.recompute)
    assert together.time[1] == pytest.approx(alone.time, rel=1e-12)
    odd = rl.train(LLAMA, batch=np.array([4, 128]), **asked)
    layout = odd.deployment.layout
    assert odd.deployment.chosen
    assert layout.chips == 8
    assert layout.dp in (1, 2, 4)
    assert np.all(odd.fits)
    cut = rl.train(LLAMA, batch=8, **{**asked, "tokens": np.array([4098, 8196])})
    assert cut.deployment.layout.cp in (1, 2)


def test_an_estimate_of_many_layouts_is_that_of_each() -> None:
    degrees = np.array([1, 2, 4, 8])
    many = rl.estimate(LLAMA, rl.prefill(1, 1024), on="dgx-h100", layout=rl.Layout(tp=degrees))
    for i, tp in enumerate(degrees):
        one = rl.estimate(LLAMA, rl.prefill(1, 1024), on="dgx-h100", layout=rl.Layout(tp=int(tp)))
        assert many.time[i] == pytest.approx(one.time, rel=1e-12)


def test_many_training_layouts_at_once() -> None:
    """Stages in a list, the other degrees and the batch in arrays: the steps one by one."""
    degrees = np.array([(1, 1), (2, 2), (1, 2), (2, 1)])
    tp, dp, batch = degrees[:, :1], degrees[:, 1:], np.array([64, 256])
    layout = {"tp": tp, "pp": [1, 2, 4], "dp": dp, "zero": 1}
    many = rl.estimate(LLAMA, rl.training(batch=batch, tokens=2048), on="16xh100-sxm", layout=layout)
    assert many.time.shape == many.memory.total.shape == many.fits.shape == (3, 4, 2)
    for i, p in enumerate((1, 2, 4)):
        for j, (t, d) in enumerate(degrees.tolist()):
            for k, b in enumerate((64, 256)):
                alone = rl.Layout(tp=t, pp=p, dp=d, zero=1)
                one = rl.estimate(LLAMA, rl.training(b, 2048), on="16xh100-sxm", layout=alone)
                assert many.memory.total[i, j, k] == pytest.approx(one.memory.total, rel=1e-12)
                assert many.time[i, j, k] == pytest.approx(one.time, rel=1e-12)
                assert many.fits[i, j, k] == one.fits


def test_degrees_and_batches_in_arrays_together() -> None:
    tp, batch = np.array([1, 2, 4, 8])[:, None], np.array([1, 8, 64])[None, :]
    many = rl.estimate(LLAMA, rl.decode(batch=batch, context=4096), on="8xh100-sxm", layout=rl.Layout(tp=tp))
    assert many.time.shape == (4, 3)
    for i, t in enumerate((1, 2, 4, 8)):
        for j, b in enumerate((1, 8, 64)):
            one = rl.estimate(LLAMA, rl.decode(b, 4096), on="8xh100-sxm", layout=rl.Layout(tp=t))
            assert many.time[i, j] == pytest.approx(one.time, rel=1e-12)
            assert many.analysis.flops[i, j] == one.analysis.flops
            assert many.memory.total[i, j] == one.memory.total


@pytest.mark.parametrize("precision", ["bf16", rl.load("meta-llama/Llama-3.1-8B").precision, "weights=bf16"])
def test_formats_given_to_a_step_leave_those_of_gradients_and_optimizer(precision: object) -> None:
    model, step = rl.load("meta-llama/Llama-3.1-8B"), rl.training(batch=8, tokens=1024)
    plain = rl.estimate(model, step, on="8xh100-sxm", layout="dp=8")
    assert rl.estimate(model, step, on="8xh100-sxm", layout="dp=8", precision=precision).time == plain.time
    formats = step.precision.merged(precision)
    assert (formats.gradients, formats.optimizer) == (step.precision.gradients, step.precision.optimizer)  # type: ignore[attr-defined]


SWEPT: list[tuple[str, dict[str, Any]]] = [
    ("meta-llama/Llama-3.2-1B", {"dp": [1, 2, 8]}),
    ("meta-llama/Llama-3.2-1B", {"dp": [1, 2, 8], "zero": 1}),
    ("meta-llama/Llama-3.2-1B", {"dp": [1, 2, 8], "zero": 3}),
    ("meta-llama/Llama-3.2-1B", {"tp": 2, "dp": [1, 2, 4]}),
    ("meta-llama/Llama-3.2-1B", {"cp": [1, 2, 8]}),
    ("meta-llama/Llama-3.2-1B", {"pp": [1, 2, 4]}),
    ("meta-llama/Llama-3.2-1B", {"pp": 2, "dp": [1, 2, 4]}),
    ("Qwen/Qwen1.5-MoE-A2.7B", {"dp": 4, "ep": [1, 2, 4]}),
    ("Qwen/Qwen1.5-MoE-A2.7B", {"tp": 2, "dp": 4, "ep": [1, 2, 4], "zero": 1}),
]


@folded(("name", "degrees"), SWEPT, ids=[str(d) for _, d in SWEPT])
@folded("precision", [None, "weights=fp8"])
def test_a_sweep_is_the_steps_one_by_one(name: str, degrees: dict[str, Any], precision: str | None) -> None:
    model, step, on = rl.load(name), rl.training(16, 512), "8xh100-sxm"
    arrays = {k: np.array(v) if isinstance(v, list) and k != "pp" else v for k, v in degrees.items()}
    swept = rl.estimate(model, step, on=on, layout=arrays, precision=precision)
    for i in range(3):
        layout = rl.Layout(**{k: v[i] if isinstance(v, list) else v for k, v in degrees.items()})
        one = rl.estimate(model, step, on=on, layout=layout, precision=precision)
        assert swept.time[i] == pytest.approx(one.time, rel=1e-12)
        assert swept.memory.total[i] == one.memory.total
