from __future__ import annotations

import itertools
import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

import roofline as rl
from folded import by_day
from roofline.training.layouts.degrees import chunk_numbers, degree_points
from roofline.whatif.search.training_search import search_training

SMALL = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "vocab_size": 32000,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "dtype": "bfloat16",
    "max_position_embeddings": 4096,
}  # fmt: skip
MODEL = rl.load(SMALL)
ON = "4xh100-sxm"
PARTS = "attn_norm,ffn_norm,act,"
"""What Megatron's recompute_modules layernorm and moe_act are here."""


def test_brute_force_finds_nothing_better_and_each_equals_itself_alone() -> None:
    batch = by_day(4, 8)
    s = search_training(MODEL, batch=batch, tokens=2048, on=ON, top=10**6)
    best, legal = float("inf"), 0
    alone: dict[tuple[str, int, str], tuple[float, float]] = {}
    degrees, micros = (1, 2, 4), (1, 2, 4, 8)
    for tp, pp, cp, vp, zero, micro in itertools.product(degrees, degrees, degrees, (1, 2, 3, 4), range(4), micros):
        dp = 4 // (tp * pp * cp)
        if tp * pp * cp * dp != 4 or batch % (dp * micro) or (vp > 1 and pp == 1):
            continue
        if pp > 1 and zero > 1:  # Megatron shards gradients and weights without stages alone
            continue
        if 4 % (pp * vp) and 6 % (pp * vp):  # alone, or with the embedding and the head counted as layers
            continue
        for recompute in ("none", "selective", "full", PARTS):
            layout = rl.Layout(tp=tp, pp=pp, cp=cp, dp=dp, vp=vp, zero=zero, sp=tp > 1)
            try:
                e = rl.train(
                    MODEL, batch=batch, tokens=2048, on=ON, layout=layout, micro_batch=micro, recompute=recompute,
                    schedule="interleaved" if vp > 1 else "1f1b",
                )  # fmt: skip
            except rl.InputError:
                continue
            legal += 1
            if e.fits:
                alone[layout.text(), micro, recompute] = float(e.time), float(e.memory.total)
            best = min(best, float(e.time) if e.fits else best)
    assert s.considered == legal
    assert {p.recompute for p in s.plans} == {"none", "selective", "full", PARTS}
    assert s.plans[0].seconds == pytest.approx(best, rel=1e-9)
    assert len(s.plans) == len(alone)
    for p in s.plans:
        assert (p.seconds, p.bytes) == pytest.approx(alone[p.layout, p.micro_batch, p.recompute], rel=1e-9)
    first = s.plans[0]
    again = rl.train(
        MODEL, batch=batch, tokens=2048, on=ON, layout=first.spread, micro_batch=first.micro_batch,
        recompute=first.recompute, schedule=first.schedule, recipe=first.recipe,
    )  # fmt: skip
    assert float(again.time) == pytest.approx(first.seconds, rel=1e-9)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("engine", ["fsdp", "deepspeed"])
@pytest.mark.parametrize("overlap", [False, ("pp", "dp")])
def test_what_layouts_share_depends_on_nothing_that_tells_them_apart(engine: str, overlap: object) -> None:
    """Sends that are waited for take longer with chunks, and a replica without a gradient buffer peaks elsewhere."""
    options = {"batch": 16, "tokens": 1024, "on": ON, "engine": engine, "overlap": overlap}
    s = search_training(MODEL, **options, top=10**6)
    for p in s.plans[:: max(1, len(s.plans) // 40)]:
        alone = rl.train(
            MODEL, layout=p.spread, micro_batch=p.micro_batch, recompute=p.recompute, schedule=p.schedule,
            recipe=p.recipe, **options,  # type: ignore[arg-type]
        )  # fmt: skip
        assert float(alone.time) == pytest.approx(p.seconds, rel=1e-9)
        assert float(alone.memory.total) == pytest.approx(p.bytes, rel=1e-9)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    "options",
    [{"optimizer": "paged-adamw"}, {"offload": "optimizer"}, {"offload": "activations", "overlap": False},
     {"reshard": False, "engine": "fsdp"}, {"lora": 8, "recipe": "qlora"}],
)  # fmt: skip
def test_options_of_memory_are_those_of_each_alone(options: dict[str, object]) -> None:
    asked = {"batch": 16, "tokens": 4096, "on": "4xrtx-4090", **options}
    s = search_training("meta-llama/Llama-3.2-3B", **asked, top=10**6)
    assert len(s.plans) == s.considered - s.left_out.get("memory", 0) > 0
    for p in s.plans[:: max(1, len(s.plans) // 30)]:
        how = {**asked, "recipe": p.recipe, "schedule": p.schedule, "recompute": p.recompute}
        alone = rl.train("meta-llama/Llama-3.2-3B", layout=p.spread, micro_batch=p.micro_batch, **how)  # type: ignore[arg-type]
        assert alone.fits
        assert float(alone.time) == pytest.approx(p.seconds, rel=1e-9)
        assert float(alone.memory.total) == pytest.approx(p.bytes, rel=1e-9)


def test_what_one_zero_alone_allows() -> None:
    """Weights that stay gathered are of ZeRO-3: of the four, three are no plan."""
    every = search_training(MODEL, batch=8, tokens=2048, on=ON, engine="fsdp")
    kept = search_training(MODEL, batch=8, tokens=2048, on=ON, engine="fsdp", reshard=False, top=10**6)
    assert {p.spread.zero for p in kept.plans} == {3}
    assert kept.left_out["reshard"] == 3 * kept.considered == every.considered * 3 // 4


def test_stages_that_do_not_divide() -> None:
    """126 layers are 128 with the embedding and the head; 61, and 63, are no multiple of two."""
    layers = {126: (8, [1, 2, 4, 8, 16]), 80: (4, [1, 2, 4, 5, 10, 20]), 61: (2, [1, 2, 4, 8, 16]), 5: (4, [1])}
    for number, (pp, chunks) in layers.items():
        assert chunk_numbers(rl.load({**SMALL, "num_hidden_layers": number}), pp) == chunks
    few = rl.load({**SMALL, "num_hidden_layers": 3})
    assert {p.spread.pp for p in search_training(few, batch=8, tokens=1024, on=ON, top=10**6).plans} == {1, 2}


def test_objectives_and_reasons() -> None:
    asked: dict[str, Any] = by_day({"schedule": "1f1b", "recompute": "full"}, {})
    few = search_training(
        "meta-llama/Llama-3.1-8B", batch=8, tokens=4096, on="8xh100-sxm", objective="chips", top=3, **asked
    )
    assert few.plans[0].chips < 8
    assert few.left_out["memory"] > 0
    cheap = search_training(MODEL, batch=8, tokens=2048, on=ON, objective="cost")
    assert [p.chip_seconds for p in cheap.plans] == sorted(p.chip_seconds for p in cheap.plans)
    mixture = search_training(
        "Qwen/Qwen3-30B-A3B", batch=16, tokens=1024, on="8xh200-sxm", recipe=["bf16", "fp8"], top=3, **asked
    )
    assert mixture.plans[0].spread.ep > 1
    assert mixture.plans[0].recipe == "fp8"


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"objective": "joy"}, {"on": "h100-sxm"}, {"top": 0}])
def test_bad_questions(wrong: dict[str, object]) -> None:
    with pytest.raises(rl.InputError):
        search_training(MODEL, **{"batch": 8, "tokens": 2048, "on": ON, **wrong})


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    words = ["search", "Qwen/Qwen3-0.6B", "--train", "--batch", "8", "--tokens", "2048", "--on", ON, "--top", "3"]
    main([*words, "--json"])
    assert json.loads(capsys.readouterr().out)["schema"] == "roofline.search_training/1"
    main(words)
    assert "micro-batch" in capsys.readouterr().out
    for refused in (["--ttft", "1s"], ["--input", "10"], ["--on", "l4"], ["--engine", "fsdp", "megatron"]):
        with pytest.raises(SystemExit) as left:
            main([*words, *refused])
        assert left.value.code == 2
    with pytest.raises(SystemExit, match="2"):
        main(["search", "gpt2", "--on", "l4", "--input", "9", "--output-tokens", "9", "--optimizer", "sgd"])
    assert "--optimizer: expected --train as well" in capsys.readouterr().err


@pytest.mark.parametrize("schedule", ["dualpipe", "gpipe", "zb-h1", "interleaved"])
@pytest.mark.parametrize("recompute", ["full", "op", "attention,"])
def test_a_schedule_and_a_recomputation_that_are_asked_for_are_those_of_the_plans(
    schedule: str, recompute: str
) -> None:
    """And the figures are those of `train` with them."""
    asked = {"batch": 16, "tokens": 512, "on": ON, "schedule": schedule, "recompute": recompute}
    s = search_training(MODEL, **asked, top=10**6)
    assert {(p.schedule, p.recompute) for p in s.plans} == {(schedule, recompute)}
    assert 2 in {p.spread.pp for p in s.plans}
    for p in (s.plans[0], next(p for p in s.plans if p.spread.pp == 2), s.plans[-1]):
        alone = rl.train(MODEL, layout=p.spread, micro_batch=p.micro_batch, **asked)  # type: ignore[arg-type]
        assert float(alone.time) == pytest.approx(p.seconds, rel=1e-9)
        assert float(alone.memory.total) == pytest.approx(p.bytes, rel=1e-9)


def test_several_to_choose_from() -> None:
    asked = {"batch": 16, "tokens": 512, "on": by_day("2xh100-sxm", ON), "top": 10**6}
    several = search_training(MODEL, schedule=["1f1b", "dualpipe"], recompute=["none", "full"], **asked)
    pipelines = {(p.schedule, p.recompute) for p in several.plans if p.spread.pp > 1}
    assert pipelines == set(itertools.product(("1f1b", "dualpipe"), ("none", "full")))
    free = search_training(MODEL, **asked)
    again = search_training(
        MODEL, schedule=["1f1b", "interleaved"], recompute=["none", "selective", "full", PARTS], **asked
    )  # fmt: skip
    assert [(p.spread, p.micro_batch, p.recompute, p.schedule, p.seconds, p.bytes) for p in again.plans] == [
        (p.spread, p.micro_batch, p.recompute, p.schedule, p.seconds, p.bytes) for p in free.plans
    ]
    told, usual = (
        replace(s, plans=s.plans[: by_day(12, None)]).to_dict() for s in (again, free)
    )  # with what each costs
    assert told == usual


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"schedule": "dualpip"}, "nearest: dualpipe"), ({"recompute": "ful"}, "nearest: full"),
        ({"recompute": "atention,"}, "nearest: attention"),
        ({"schedule": []}, "at least one"), ({"optimizer": "adamx"}, "adamw"), ({"law": "nonsense"}, "calibrated"),
        ({"engine": "vllm"}, "megatron"),
        ({"recompute_layers": 0}, "from 1"),
    ],
)  # fmt: skip
def test_words_that_are_not_known_are_errors(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(rl.InputError, match=said):
        search_training(MODEL, **{"batch": 8, "tokens": 512, "on": ON, **wrong})


@pytest.mark.parametrize("searched", [{"layout": "tp=2"}, {"tp": 2}, {"micro_batch": 2}])
def test_what_is_searched_for_is_no_setting(searched: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=f"no setting '{next(iter(searched))}'"):
        search_training(MODEL, batch=8, tokens=512, on=ON, **searched)


def test_an_option_of_some_recomputations_leaves_out_the_others() -> None:
    s = search_training(MODEL, batch=8, tokens=512, on=ON, recompute_layers=1, top=10**6)
    assert {p.recompute for p in s.plans} == {"selective", "full", PARTS}
    assert s.left_out["recompute_layers"] > 0


def test_the_command_honours_both(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    words = ["search", "Qwen/Qwen3-0.6B", "--train", "--batch", "16", "--tokens", "512", "--on", ON, "--json"]
    main([*words, "--schedule", "dualpipe", "--recompute", "full"])
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert {(p["schedule"], p["recompute"]) for p in plans} == {("dualpipe", "full")}
    more = {"optimizer": "sgd", "engine": "fsdp", "flash": False, "law": "ideal"}
    main([*words, "--optimizer", "sgd", "--engine", "fsdp", "--no-flash", "--law", "ideal", "--top", "2"])
    alone = rl.search_training("Qwen/Qwen3-0.6B", batch=16, tokens=512, on=ON, top=2, **more)
    assert json.loads(capsys.readouterr().out)["plans"] == json.loads(json.dumps(alone.to_dict()["plans"]))
    for wrong in (["--schedule", "dualpip"], ["--recompute", "ful"]):
        with pytest.raises(SystemExit) as left:
            main([*words, *wrong])
        assert left.value.code == 2
        assert "nearest" in capsys.readouterr().err


def test_a_search_knows_what_its_stack_runs_and_nothing_else() -> None:
    """ZeRO-2 and 3 of Megatron have no stages; torchtitan's have. hai-llm has DualPipe and ZeRO-1 alone."""
    asked: dict[str, Any] = {"batch": 32, "tokens": 1024, "on": "16xh100-sxm", "top": 10**6}
    megatron = search_training(MODEL, **asked).plans
    assert {p.spread.zero for p in megatron if p.spread.pp > 1} == {0, 1}
    assert {p.spread.zero for p in megatron if p.spread.pp == 1} == {0, 1, 2, 3}
    titan = search_training(MODEL, engine="torchtitan", **asked).plans
    assert {p.schedule for p in titan if p.spread.pp > 1} == {"1f1b", "interleaved", "gpipe", "zb-v", "dualpipev"}
    assert {p.recompute for p in titan} == {"none", "op", "full"}
    assert 3 in {p.spread.zero for p in titan if p.spread.pp > 1}
    theirs = search_training(MODEL, engine="hai-llm", **asked).plans
    assert {(p.spread.zero, p.schedule) for p in theirs} == {(1, "dualpipe")}


def test_weights_may_be_shared_by_the_replicas_of_a_node() -> None:
    """HSDP: 8 of 16 replicas share; each plan is as `train` says of it."""
    asked: dict[str, Any] = {"batch": 32, "tokens": 1024, "on": "2xdgx-h100", "engine": "fsdp"}
    plans = search_training(MODEL, top=10**6, **asked).plans
    hybrid = [p for p in plans if p.spread.shard == 8]
    assert {p.spread.zero for p in hybrid} == {2, 3}
    for p in hybrid[:: max(1, len(hybrid) // 5)]:
        e = rl.train(MODEL, layout=p.spread, micro_batch=p.micro_batch, recompute=p.recompute, **asked)
        assert (float(e.time), float(e.memory.total)) == pytest.approx((p.seconds, p.bytes), rel=1e-9)


def test_experts_may_be_cut_by_tensor_parallelism() -> None:
    asked: dict[str, Any] = {"batch": 32, "tokens": 1024, "on": "8xh100-sxm"}
    plans = search_training("Qwen/Qwen1.5-MoE-A2.7B", top=10**6, **asked).plans
    cut = [p for p in plans if p.spread.etp is not None]
    assert {(p.spread.tp, p.spread.etp) for p in cut} == {(2, 2), (4, 4)}
    p = cut[len(cut) // 2]
    e = rl.train("Qwen/Qwen1.5-MoE-A2.7B", layout=p.spread, micro_batch=p.micro_batch, recompute=p.recompute,
                 schedule=p.schedule, **asked)  # fmt: skip
    assert (float(e.time), float(e.memory.total)) == pytest.approx((p.seconds, p.bytes), rel=1e-9)


def test_a_search_by_a_stack_keeps_what_its_recipes_set() -> None:
    """Optimizer and recomputation of DeepSeek-V3 in Bridge are others without ZeRO-3: each plan keeps its promise."""
    asked: dict[str, Any] = {"batch": 256, "tokens": 4096, "on": "256xb200", "engine": "megatron-bridge",
                             "recipe": "mxfp8"}  # fmt: skip
    plans = search_training("deepseek-ai/DeepSeek-V3", top=10**6, **asked).plans
    for zero in {p.spread.zero for p in plans}:
        p = next(p for p in plans if p.spread.zero == zero)
        e = rl.train("deepseek-ai/DeepSeek-V3", layout=p.spread, micro_batch=p.micro_batch, recompute=p.recompute,
                     schedule=p.schedule, **asked)  # fmt: skip
        assert (float(e.time), float(e.memory.total)) == pytest.approx((p.seconds, p.bytes), rel=1e-9)


RUN = {"run_tokens": 1e9, "failures": "bloom", "save_every": 600.0}


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("objective", "figure"),
    [
        ("days", lambda r, e: r.seconds),
        ("dollars", lambda r, e: r.cost),
        ("energy", lambda r, e: r.energy),
        ("goodput", lambda r, e: r.seconds * e.chips / r.tokens),
    ],
)
def test_the_best_of_a_run_is_that_of_train_and_run_asked_of_every_layout(objective: str, figure: Any) -> None:
    """Brute force: every plan of the search by time is trained and run by itself; by day on two chips."""
    most = by_day(2, 4)
    asked: dict[str, Any] = {"batch": 8, "tokens": 1024, "on": f"{most}xh100-sxm", "recompute": "full", "pue": 1.3}
    sizes = (most,) if objective == "days" else (4, 2, 1)[by_day(1, 0) :]
    plans = [p for n in sizes for p in search_training(MODEL, **asked, chips=n, top=10**6).plans]
    alone = []
    for p in plans:
        e = rl.train(
            MODEL, batch=8, tokens=1024, on=asked["on"], layout=p.spread, micro_batch=p.micro_batch, recompute="full",
            schedule=p.schedule, pue=1.3,
        )  # fmt: skip
        alone.append(float(figure(rl.run(e, **RUN), e)))
    best = search_training(MODEL, **asked, **RUN, objective=objective, top=10**6)
    assert len(best.plans) == len(plans)
    found = [float(figure(p.run, p.estimate)) for p in best.plans]
    assert found == sorted(found)
    assert found == pytest.approx(sorted(alone), rel=1e-9)
    first = best.best
    assert first.run is not None
    assert (first.run_time, first.usd, first.energy) == (first.run.seconds, first.run.cost, first.run.energy)
    assert first.goodput == pytest.approx(1e9 / (first.run.seconds * first.chips), rel=1e-12)


def test_energy_of_a_step_needs_no_run_and_days_need_one() -> None:
    s = search_training(MODEL, batch=8, tokens=1024, on=ON, objective="energy")
    assert s.best.run is None
    assert s.best.energy == s.best.estimate.spending.joules
    assert s.best.energy == min(p.energy for p in s.plans)
    with pytest.raises(rl.InputError, match="objective: expected run_tokens as well, got 'days'"):
        search_training(MODEL, batch=8, tokens=1024, on=ON, objective="days")


def test_what_there_was_no_time_for_is_counted() -> None:
    asked: dict[str, Any] = {"batch": 8, "tokens": 1024, "on": ON}
    looked = list[int]()
    whole = search_training(MODEL, **asked, progress=looked.append)
    none = search_training(MODEL, **asked, seconds=1e-9)
    assert none.considered == 0
    assert not none.plans
    assert looked[-1] == none.left_out["time"]
    assert "time" not in whole.left_out
    illegal = sum(n for why, n in whole.left_out.items() if why not in ("memory", "micro-batches"))
    assert whole.considered + illegal == none.left_out["time"]


def test_pieces_of_points_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"batch": 8, "tokens": 2048, "on": ON, "top": 10**6}
    whole = search_training(MODEL, **asked)
    monkeypatch.setattr(import_module("roofline.training.layouts.candidates"), "PIECE", 3)
    monkeypatch.setattr(import_module("roofline.training.pipeline.schedule"), "MOST_NUMBERS", 100)
    pieces = search_training(MODEL, **asked)
    assert (pieces.considered, pieces.left_out) == (whole.considered, whole.left_out)
    assert sorted((p.seconds, p.bytes) for p in pieces.plans) == sorted((p.seconds, p.bytes) for p in whole.plans)


def test_tensor_parallelism_divides_the_chips_of_a_node_that_are_used() -> None:
    """64 of a rack's 72 chips take 16 and 32 ranks, all 72 take 8; two pods of 4,096 that have 3,072 chips each take
    PaLM's 12 (arXiv:2204.02311 §4)."""

    def degrees(model: rl.Model, on: str, ranks: int, pp: int) -> set[int]:
        return set(degree_points(model, on, [ranks], pp, (18432, 4096), [1]).tp.tolist())

    llama = rl.load("meta-llama/Llama-3.1-8B")
    assert degrees(llama, "1xgb200-nvl72", 72, 1) == {1, 2, 4, 8}
    assert degrees(llama, "1xgb200-nvl72", 64, 1) == degrees(llama, "1xgb200-nvl72", 32, 2) == {1, 2, 4, 8, 16, 32}
    wide = {"model_type": "cohere", "num_attention_heads": 48, "num_key_value_heads": 1, "head_dim": 256}
    palm = rl.load({
        **wide, "hidden_size": 18432, "intermediate_size": 73728, "num_hidden_layers": 118, "vocab_size": 256000,
        "tie_word_embeddings": True, "max_position_embeddings": 2048, "dtype": "bfloat16",
    })  # fmt: skip
    assert 12 in degrees(palm, "2xtpu-v4-pod", 6144, 1)
    assert 12 not in degrees(palm, "2xtpu-v4-pod", 8192, 1)


def test_the_best_plan_is_handed_over(capsys: pytest.CaptureFixture[str]) -> None:
    from roofline.doors.cli.main import main

    words = [
        "search",
        "Qwen/Qwen3-0.6B",
        "--train",
        "--batch",
        "8",
        "--tokens",
        "2048",
        "--on",
        ON,
        "--seconds",
        "1min",
    ]
    best = rl.search_training("Qwen/Qwen3-0.6B", batch=8, tokens=2048, on=ON).best
    main([*words, "--emit", "megatron"])
    assert capsys.readouterr().out == rl.hand_over(best.estimate, "megatron").text
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--emit", "vllm"])
    assert "--emit: expected one of megatron, bridge, torchtitan, deepspeed, maxtext with --train" in (
        capsys.readouterr().err
    )
    with pytest.raises(SystemExit, match="2"):
        main(["search", "gpt2", "--on", "l4", "--input", "9", "--output-tokens", "9", "--emit", "megatron"])
    assert "without --train, got 'megatron'" in capsys.readouterr().err
