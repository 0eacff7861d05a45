"""What a stack's recipes set where a call does not say, by release, chip, model and formats."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.engines.engine import engine_named, engines, trainers
from roofline.engines.stacks import stack_rows
from roofline.training.settings import Learner, TrainingWhere
from roofline.training.stack import Call, with_stack
from roofline.work.training import TrainingOptions

V3 = "deepseek-ai/DeepSeek-V3"
LLAMA = "meta-llama/Meta-Llama-3-70B"
OSS = "openai/gpt-oss-120b"
USUAL = ("dp", "cp", "pp")


def settings(model: str, on: str, engine: str, layout: str = "dp=64", **options: object) -> dict[str, object]:
    where = TrainingWhere(on=on, engine=engine, layout=layout)
    call = with_stack(rl.load(model), Call(where, TrainingOptions(**options), Learner()))  # type: ignore[arg-type]
    return {s.name: s.value for s in call.stack}


@pytest.mark.parametrize(
    ("model", "on", "engine", "recipe", "name", "value"),
    [
        # a pipelined MXFP8 run overlaps its exchanges since 26.06 on NVL72, since 26.04.01 on B200
        (V3, "4xgb200-nvl72", "megatron-bridge@26.04", "mxfp8", "overlap", None),
        (V3, "4xgb200-nvl72", "megatron-bridge@26.06", "mxfp8", "overlap", ("dp", "ep", "cp", "pp")),
        (V3, "4xgb200-nvl72", "megatron-bridge@26.06", "bf16", "overlap", None),
        (V3, "256xb200", "megatron-bridge@26.04", "mxfp8", "overlap", None),
        (V3, "256xb200", "megatron-bridge@26.04.01", "mxfp8", "overlap", ("dp", "ep", "cp", "pp")),
        (LLAMA, "64xh100-sxm", "megatron-bridge", "fp8", "overlap", ("dp", "tp", "cp", "pp")),
        # matrices in fp8: a transposed copy on Hopper makes them two bytes again
        (LLAMA, "64xh100-sxm", "megatron-bridge", "fp8", "matrices", None),
        (LLAMA, "64xb200", "megatron-bridge", "fp8", "matrices", "fp8"),
        (LLAMA, "64xb200", "megatron-bridge", "mxfp8", "matrices", None),
        (LLAMA, "64xb200", "megatron-bridge", "bf16", "gradients", "bf16"),
        # dispatchers
        (OSS, "64xh100-sxm", "megatron-bridge", "bf16", "dispatcher", "alltoall"),
        (OSS, "64xb300", "megatron-bridge@26.02", "bf16", "dispatcher", "alltoall"),
        (OSS, "64xb300", "megatron-bridge@26.02.01", "bf16", "dispatcher", None),
        (OSS, "1xgb200-nvl72", "megatron-bridge", "mxfp8", "dispatcher", "nvlink"),
        # Megatron-LM's own defaults are its engine's
        (LLAMA, "64xb200", "megatron", "fp8", "gradients", None),
        (LLAMA, "64xh100-sxm", "torchtitan", "bf16", "recompute", "op"),
    ],
)
def test_a_row_holds_for_its_release_chip_model_and_formats(
    model: str, on: str, engine: str, recipe: str, name: str, value: object
) -> None:
    assert settings(model, on, engine, recipe=recipe).get(name) == value


def test_what_a_call_says_is_kept() -> None:
    said = {"overlap": "dp", "recompute": "full", "optimizer": "adamw", "recipe": "fp8(gradients=fp32)"}
    assert "overlap" not in settings(V3, "4xgb200-nvl72", "megatron-bridge", **said)
    e = rl.train(
        V3, on="256xb200", batch=1024, tokens=4096, layout="pp=8,dp=32,ep=32,zero=1", engine="megatron-bridge", **said
    )
    assert (e.recipe, e.optimizer, e.recompute) == ("fp8(matrices=fp8)", "adamw", "full")
    assert e.step.overlap == ("dp",)
    own = rl.train(LLAMA, on="64xb200", batch=64, tokens=4096, layout="tp=2,dp=32,zero=1", engine="megatron-bridge",
                   recipe="fp8")  # fmt: skip
    assert own.recipe == "fp8(gradients=bf16,matrices=fp8)"
    assert [(s.name, s.date) for s in own.stack] == [
        ("gradients", "2025-11"), ("matrices", "2025-11"), ("overlap", "2025-11"),
    ]  # fmt: skip
    spelt = "megatron-bridge(moe_token_dispatcher_type=deepep)"
    assert "dispatcher" not in settings(OSS, "64xh100-sxm", spelt, recipe="bf16")


def test_sharded_runs_offload_the_layers_of_their_config() -> None:
    asked = {
        "model": "meta-llama/Meta-Llama-3-70B",
        "on": "1xgb200-nvl72",
        "engine": "megatron-bridge",
        "recipe": "fp8",
    }
    assert settings(**asked, layout="dp=64,zero=3")["offload_layers"] == 40  # type: ignore[arg-type]
    assert "offload_layers" not in settings(**asked, layout="dp=64,zero=1")  # type: ignore[arg-type]


def test_a_default_call_is_the_call_that_says_the_same() -> None:
    asked = {"on": "64xb200", "batch": 64, "tokens": 4096, "layout": "tp=2,pp=4,dp=8,vp=5,zero=1", "recipe": "fp8"}
    e = rl.train(LLAMA, engine="megatron-bridge", **asked)  # type: ignore[arg-type]
    told = {**asked, "recipe": e.recipe, "overlap": ("dp", "tp", "cp", "pp"), "schedule": "interleaved"}
    assert rl.train(LLAMA, engine="megatron", **told).time == e.time  # type: ignore[arg-type]


def test_a_container_has_the_constants_of_its_time() -> None:
    """26.06 fuses grouped products; those before are NeMo's."""
    asked = {"on": "16xh100-sxm", "batch": 1024, "tokens": 4096, "layout": "dp=16,ep=16,zero=1", "recipe": "fp8"}
    old, new = (
        rl.train("Qwen/Qwen3-30B-A3B", engine=f"megatron-bridge@{release}", **asked)  # type: ignore[arg-type]
        for release in ("26.04", "26.06")
    )
    assert (old.engine.like, new.engine.like) == ("nemo", "megatron")
    assert old.engine.titled == "Megatron-Bridge 26.04"
    assert old.time != new.time


def test_every_row_is_of_an_engine_and_has_a_source_and_a_month() -> None:
    for id, rows in stack_rows().items():
        assert engines()[id].trains
        for row in rows:
            assert row.source
            assert row.sets
            assert len(row.date) == 7


def test_deepseek_v3_by_one_plain_call() -> None:
    """arXiv:2412.19437: 2.664 M H800 hours for 14.8 T tokens, of which 61,440 × 1,024 a step; nothing fitted on it.

    16 stages, experts over 64 chips, ZeRO-1, DualPipe, fp8 in blocks and one layer of multi-token prediction.
    """
    e = rl.train(V3, on="2048xh800-sxm", batch=15360, tokens=4096, engine="hai-llm")
    assert (e.deployment.text, e.schedule, e.optimizer) == ("pp=16, dp=128, ep=64, zero=1", "dualpipe", "adamw-bf16")
    assert e.recipe == "fp8-block(activated=fp8)"
    assert e.fits
    hours = float(e.time) * 14.8e12 / (15360 * 4096) * 2048 / 3600
    assert hours == pytest.approx(2.461e6, rel=0.005)  # 8 % less
    assert e.waiting.expected / e.time == pytest.approx(0.0646, rel=0.01)  # for the slowest of 2,048
    assert {"layout", "schedule", "recipe", "recompute", "drafts"} <= {s.name for s in e.stack}
    without = rl.train(V3, on="2048xh800-sxm", batch=15360, tokens=4096, engine="hai-llm", drafts=0)
    assert without.model.parameters < e.model.parameters
    assert without.time < e.time


# -- experts by terms ----------------------------------------------------------------------------------------------
def parts(model: str, on: str, engine: str, **options: object) -> rl.Breakdown:
    asked = {"batch": 64, "tokens": 4096, "layout": "dp=16,ep=16,zero=1", "on": on, **options}
    return rl.breakdown(rl.train(model, engine=engine, **asked))  # type: ignore[arg-type]


def test_kernels_of_biased_experts_move_88_bytes_a_value_and_twice_that_back() -> None:
    """gpt-oss under Megatron: 60 of an activation's output and 28 of an expert's; hidden and inner width are 2,880."""
    on, layers, rows = "1xgb200-nvl72", 36, 4 * 4096 * 4 * 4
    own = {"recipe": "bf16", "recompute": "none", "batch": 64, "micro_batch": 4}
    unfused = parts(OSS, on, "megatron-bridge", **own).modules
    plain = parts(OSS, on, "none", **own).modules
    bandwidth = rl.chips()["gb200"].bandwidth
    for module, each in (("experts_act", 60), ("experts_combine", 28)):
        for phase, times in (("forward", 1), ("backward", 2)):
            more = unfused[module][phase] - plain[module][phase]
            floor = layers * rows / 4 * 2880 * each * times / bandwidth
            assert more == pytest.approx(floor / 0.6917, rel=0.01)  # the share of bandwidth that streams have
    fused = parts(OSS, on, "megatron-bridge", **{**own, "recipe": "mxfp8"}).modules
    assert fused["experts_act"]["forward"] < 0.1 * unfused["experts_act"]["forward"]


def test_a_layer_with_experts_takes_no_less_than_its_launches() -> None:
    """3.1 ms forward and 6.2 ms backward by a host without CUDA graphs; nothing where the chip takes much longer."""
    small = parts("Qwen/Qwen3-30B-A3B", "16xh100-sxm", "megatron-bridge", recipe="fp8")
    assert small.host > 0
    seconds = sum(op.seconds for op in small.ops) + sum(small.exposed.values()) + small.host
    assert seconds / 48 / 4 == pytest.approx(9.5e-3, rel=0.05)
    assert small.total == pytest.approx(sum(small.rest.values()) + sum(op.seconds for op in small.ops))
    large = parts("Qwen/Qwen3-30B-A3B", "16xh100-sxm", "megatron-bridge", recipe="fp8", micro_batch=4)
    assert large.host < 0.15 * small.host
    assert parts("Qwen/Qwen3-30B-A3B", "1xgb200-nvl72", "megatron-bridge", recipe="mxfp8").host == 0
    assert parts("Qwen/Qwen3-30B-A3B", "16xh100-sxm", "megatron-bridge", recipe="fp8", law="ideal").host == 0


def test_gradients_of_weights_permute_nothing_again() -> None:
    """The fused layer's passes over tokens are of its forward and input gradients."""
    on = {"recipe": "bf16", "law": "calibrated"}
    modules = parts("Qwen/Qwen3-30B-A3B", "16xh100-sxm", "none", **on).modules["experts_gate_up_proj"]
    assert modules["weight"] < modules["backward"]


def test_operands_of_weight_gradients_in_blocks_are_scaled_along_tokens_first() -> None:
    """2 bytes of an input and 3 of an output's gradient (arXiv:2412.19437 §3.5.2)."""
    e = rl.train(V3, on="2048xh800-sxm", batch=15360, tokens=4096, engine="hai-llm")
    ops = {op.name: op.seconds for op in rl.breakdown(e).ops if op.block == rl.breakdown(e).ops[-1].block}
    seconds = ops["experts_down_proj_wgrad_quantise"]
    elements = 32768 * (2 * 2048 + 3 * 7168)
    floor = elements / e.chip.bandwidth * 120
    assert seconds / 4 == pytest.approx(floor / 0.5751, rel=0.01)  # the share of bandwidth that streams have


def test_a_chosen_layout_keeps_what_it_was_chosen_with() -> None:
    """Bridge runs up-projections again without ZeRO-3 alone; a ZeRO-3 layout that needs them for room says so."""
    asked = {"on": "1024xh100-sxm", "batch": 4096, "tokens": 4096, "engine": "megatron-bridge", "recipe": "fp8"}
    e = rl.train(V3, **asked)  # type: ignore[arg-type]
    assert e.fits
    told = {"layout": e.deployment.layout, "recompute": e.recompute, "schedule": e.schedule}
    alone = rl.train(V3, **{**asked, **told})  # type: ignore[arg-type]
    assert (alone.time, alone.memory.total) == (e.time, e.memory.total)


LARGEST = 1.3
"""Largest factor between work as a training framework runs it and alone that is left without a cause."""
BEYOND = {
    # FlashAttention-2 on chips whose law was measured on newer kernels (torchtitan in 2024)
    ("torchtitan", "hopper", "attention"),
    # eight runs of one model size: products in 16 bits at 500 W, and fp8 by torchao
    ("torchtitan", "hopper", "products"), ("torchtitan", "hopper", "experts"), ("torchtitan", "hopper", "wide"),
    # one machine of eight B200, SimuMax
    ("megatron-2025", "blackwell", "wide"), ("megatron-2025", "blackwell", "collectives"),
    ("megatron-2025", "blackwell", "exchanges"),
}  # fmt: skip
KINDS = ("products", "wide", "experts", "attention", "collectives", "exchanges", "latency")


def test_what_slows_work_in_training_without_a_cause_is_at_most_so_much_but_for_what_is_named() -> None:
    """No layer with experts of a stack of Megatron's is slowed by more than 1.22 in all, permutation and router
    included."""
    beyond = set()
    for id in trainers():
        engine = engines()[id]
        for generation in ("ampere", "hopper", "blackwell", "cdna3", "cdna4", "tpu"):
            for kind in KINDS:
                product = engine.factor(generation, kind)
                beyond |= {(id, generation, kind)} if product > LARGEST else set()
                if id in ("megatron", "megatron-bridge", "nemo", "hai-llm"):
                    assert product <= 1.22
    assert beyond == BEYOND
    assert [id for id in trainers() if engines()[id].unfused] == ["fsdp", "prime-rl"]


def test_prime_rl_makes_its_logits_twice_in_tf32_and_moves_them_in_fp32() -> None:
    """2·T·h·V FLOPs more than a fused loss, at TF32's peak, 44 and 52 bytes a logit; the model has as many FLOPs."""
    given = {"on": "1xh100-sxm", "batch": 2, "tokens": 16384, "recompute": "none", "recipe": "bf16-mixed"}
    cut, fused = (rl.train("Qwen/Qwen3-0.6B", engine=name, loss=loss, **given) for name, loss in
                  (("prime-rl", None), ("fsdp", "fused")))  # fmt: skip
    product = 2 * 32768 * 1024 * 151936
    assert (cut.loss, cut.hardware_flops - fused.hardware_flops) == ("cut", product)
    assert cut.model_flops == fused.model_flops == fused.hardware_flops
    head = {(op.name, op.phase): op.seconds for op in rl.breakdown(cut).ops if op.block == "head"}
    assert head["lm_head", "forward"] == head["lm_head", "recompute"] > product / cut.chip.peak("tf32")
    assert head["lm_head_dgrad", "backward"] < 0.6 * head["lm_head", "forward"]
    logits = 32768 * 151936
    for name, phase, each in (("loss", "forward", 44), ("loss_backward", "backward", 52)):
        floor = each * logits / cut.chip.bandwidth
        assert head[name, phase] == pytest.approx(floor / 0.5751, rel=0.02)  # the share of bandwidth that streams have


def test_prime_rl_loops_over_experts_with_adapters_where_no_grouped_product_runs() -> None:
    """(17 + 17 + 46) launches of 22 µs for each expert, layer and micro-batch on Blackwell; none without adapters."""
    given = {"batch": 16, "tokens": 4096, "recompute": "full", "engine": "prime-rl", "layout": "dp=8,zero=3"}
    looped = rl.train("Qwen/Qwen3-30B-A3B", on="8xb200", lora=16, **given)
    launches = 2 * 48 * 128 * (17 + 17 + 46) * 2.2e-5
    assert looped.time == pytest.approx(launches, rel=0.05)
    assert looped.time > 10 * rl.train("Qwen/Qwen3-30B-A3B", on="8xb200", **given).time
    assert rl.train("Qwen/Qwen3-30B-A3B", on="8xh200-sxm", lora=16, **given).time < 0.2 * launches


def test_models_of_transformers_run_kernel_after_kernel_under_the_newest_fsdp() -> None:
    """A norm moves 36 bytes an element where one kernel moves 4, a rotation 20 for 4, a gated activation 10 for 6."""
    new, old = engine_named("fsdp"), engine_named("fsdp@2.1")
    assert (new.slower, new.spread) == ({}, {})
    assert new.unfused == {"norm": 36 / 4, "rope": 20 / 4, "activation": pytest.approx(10 / 6, abs=0.01)}
    assert (old.factor("hopper", "attention"), old.factor("ampere", "attention"), old.unfused) == (3.02, 1.48, {})
    given = {"on": "dgx-h100", "batch": 8, "tokens": 8192, "layout": "dp=8,zero=3"}
    both = [rl.breakdown(rl.train("Qwen/Qwen3-8B", engine=name, **given)).modules for name in ("fsdp", "none")]
    norms = [sum(modules["ffn_norm"].values()) for modules in both]
    assert norms[0] / norms[1] == pytest.approx(9, rel=0.05)
