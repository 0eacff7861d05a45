"""What would help: what is promised is what comes when it is done, and it fits."""

from __future__ import annotations

from typing import Any

import pytest
from cyclopts import CycloptsError

import roofline as rl
from roofline.doors.cli.main import app
from roofline.inference.fit import fit
from roofline.views.report.parts.subject import report_on
from roofline.views.report.parts.summary import best_changes
from roofline.whatif.search.recommendations import (
    SEQUENCES,
    Advice,
    Served,
    advice,
    best_first,
    best_of_levers,
    changes,
    served,
    training_advice,
)


def advised(name: str, **how: Any) -> tuple[rl.Model, Served, tuple[Advice, ...]]:
    model = rl.load(name)
    now = served(model, **how)
    return model, now, advice(now)


CASES = [
    ("meta-llama/Llama-3.1-8B", {"on": "l4", "batch": 8, "precision": "kv=fp8"}),
    ("meta-llama/Llama-3.1-8B", {"on": "l4", "batch": 8, "input": 4096, "output": 512}),
    ("meta-llama/Llama-3.1-70B", {"on": "8xl40s", "layout": "tp=2,pp=4", "batch": 8}),
    ("openai/gpt-oss-120b", {"on": "mi300x", "batch": 8}),
    ("EleutherAI/gpt-neo-1.3B", {"on": "gb10", "batch": 3}),
]


@pytest.mark.parametrize(("name", "how"), CASES, ids=[f"{n} {h['on']}" for n, h in CASES])
def test_the_options_give_what_is_promised(name: str, how: dict[str, Any]) -> None:
    model, now, every = advised(name, **how)
    assert every
    base = now.generation
    for a in every:
        words = a.option.split()
        options = dict(zip(words[::2], words[1::2], strict=True))
        on = options.get("--on", how["on"])
        again = served(
            model, on=on, layout=options.get("--layout", how.get("layout")), input=how.get("input"),
            output=how.get("output"), batch=int(options.get("--batch", how["batch"])),
            precision=options.get("--precision", how.get("precision")), engine=options.get("--engine"),
        )  # fmt: skip
        g = again.generation
        gain = (g.tokens_per_second / g.deployment.chips) / (base.tokens_per_second / base.deployment.chips)
        assert gain == pytest.approx(a.per_chip), a.option
        if a.lever == "machine":
            assert a.gain == pytest.approx(base.usd_per_million_tokens / g.usd_per_million_tokens), a.option
        else:
            assert a.gain == a.per_chip
        there = fit(
            model, on=on, layout=again.asked.layout, batch=again.batch, context=again.input + again.output,
            precision=again.asked.formats, engine=options.get("--engine"),
        )  # fmt: skip
        assert there.fits or 1 < g.waves <= base.waves, a.option
        together = again.batch if there.fits else g.first_wave * again.asked.layout.dp  # a wave is what memory holds
        wave = fit(
            model, on=on, layout=again.asked.layout, batch=together, context=again.input + again.output,
            precision=again.asked.formats, engine=options.get("--engine"),
        )  # fmt: skip
        assert wave.memory.total == a.memory, a.option


def test_a_models_own_drafts_are_a_lever() -> None:
    name, how = "deepseek-ai/DeepSeek-V3", {"on": "8xh200-sxm", "layout": "tp=8", "batch": 16}
    _, now, every = advised(name, **how)
    (drafts,) = (a for a in every if a.lever == "drafts")
    assert drafts.option == "--mtp"
    with_them = rl.generate(name, input=now.input, output_tokens=now.output, mtp=True, **how)
    assert drafts.per_chip == pytest.approx(with_them.tokens_per_second / now.generation.tokens_per_second)
    assert not [a for a in advised("meta-llama/Llama-3.1-8B", on="h100-sxm")[2] if a.lever == "drafts"]


@pytest.mark.parametrize(
    ("on", "engine", "others"),
    [("h100-sxm", None, {"sglang", "trtllm"}), ("mi300x", None, {"sglang"}), ("h100-sxm", "sglang", {"vllm", "trtllm"}),
     ("m4-max", None, set()), ("v100-sxm2-32gb", None, set())],
)  # fmt: skip
def test_engines_that_run_there_are_a_lever(on: str, engine: str | None, others: set[str]) -> None:
    """Each is tried on chips that its documentation lists, in place of another server alone."""
    tried = changes(served(rl.load("meta-llama/Llama-3.1-8B"), on=on, engine=engine))
    assert {trial.option.split()[1] for trial in tried if trial.lever == "engine"} == others


def test_a_replica_without_a_sequence_gains_nothing() -> None:
    """Of one sequence the second replica has none: half the tokens per chip in either phase."""
    _, _, every = advised("google/gemma-3-270m", on="xeon-8480", batch=1)
    (twice,) = (a for a in every if a.what == "twice the DP")
    assert (twice.prefill, twice.decode) == pytest.approx((0.5, 0.5))


def test_a_model_without_a_cache_is_not_told_to_narrow_it() -> None:
    _, _, every = advised("state-spaces/mamba-130m-hf", on="h100-sxm", batch=4)
    assert not [a for a in every if "cache" in a.what]


def test_a_lever_is_what_is_turned_in_any_layout() -> None:
    model = rl.load("Qwen/Qwen3-30B-A3B")
    levers = {c.what: c.lever for c in changes(served(model, on="8xh100-sxm", layout="tp=2,dp=2", batch=4))}
    assert levers == {
        "weights in 8 bits": "weights", "weights in 4 bits": "weights", "KV cache in 8 bits": "cache",
        "a batch of 8": "batch", "a batch of 16": "batch", "twice the TP": "tp", "half the TP": "tp",
        "twice the DP": "dp", "data-parallel attention and expert parallelism": "ep",
        "served by SGLang": "engine", "served by TensorRT-LLM": "engine",
        **{f"4x{chip} instead": "machine" for chip in ("rtx-4090", "l40s", "h200-sxm", "b200", "mi300x")},
    }  # fmt: skip


def test_of_one_token_there_is_no_decode_to_gain_in() -> None:
    _, _, every = advised("google/gemma-3-270m", on="l4", batch=2, input=64, output=1)
    assert every
    assert {(a.decode, a.tpot) for a in every} == {(None, None)}
    (more,) = (a for a in every if a.what == "a batch of 4")
    assert more.prefill == pytest.approx(2 / more.ttft)


def test_the_options_of_training_give_what_is_promised() -> None:
    model, layout = rl.load("meta-llama/Llama-3.1-8B"), "tp=2,dp=2,zero=1"
    now = rl.train(model, batch=8, tokens=1024, on="8xh200-sxm", layout=layout)
    every = training_advice(now, "8xh200-sxm")
    assert {a.lever for a in every} == {"recipe", "batch", "micro-batch", "loss", "sp", "dp", "tp"}
    assert [a.per_chip for a in every] == sorted((a.per_chip for a in every), reverse=True)
    for a in every:
        option, _, value = a.option.partition(" ")
        given: dict[str, Any] = {
            "--recipe": {"recipe": value}, "--micro-batch": {"micro_batch": int(value or 0)} if value.isdigit() else {},
            "--fused-loss": {"fused_loss": True},
        }.get(option, {})  # fmt: skip
        batch, spread = int(value) if option == "--batch" else 8, value if option == "--layout" else layout
        e = rl.train(model, batch=batch, tokens=1024, on="8xh200-sxm", layout=spread, **given)
        assert e.fits
        assert a.per_chip == pytest.approx((e.tokens / e.time / e.chips) / (8 * 1024 / now.time / 4)), a.option


@pytest.mark.parametrize(("name", "sparse"), [("meta-llama/Llama-3.1-8B", False), ("Qwen/Qwen3-30B-A3B", True)])
def test_experts_are_put_apart_where_there_are_some(name: str, sparse: bool) -> None:
    model = rl.load(name)
    levers = {trial.lever for trial in changes(served(model, on="8xh100-sxm", layout="tp=4"))}
    assert ("ep" in levers) == sparse


# -- beside a command ----------------------------------------------------------------------------------------------
GIVEN = {
    "generate": "--on 8xh100-sxm --input 1024 --output-tokens 256",
    "serve": "--on 8xh100-sxm --input 1024 --output-tokens 256",
    "report": "--on 8xh100-sxm --out a.html",
    "train": "--on 8xh100-sxm --batch 64 --tokens 512",
}
"""A command line of each command, to which an advised option is added."""


def parsed(command: str, option: str) -> Any:
    """What the command's own parser makes of a line with the option. Raises CycloptsError where it has no such one."""
    rest = GIVEN[command].split()
    name = option.split()[0]
    if name in rest:
        del rest[rest.index(name) : rest.index(name) + 2]
    words = [command, "meta-llama/Llama-3.1-8B", *rest, *option.removeprefix("no ").split()]
    _, bound, _ = app().parse_args(words, exit_on_error=False, print_error=False)
    return bound


@pytest.mark.parametrize("command", SEQUENCES)
@pytest.mark.parametrize(("name", "how"), CASES[1:4], ids=[f"{n} {h['on']}" for n, h in CASES[1:4]])
def test_every_advised_option_is_one_of_the_command_beside_it(name: str, how: dict[str, Any], command: str) -> None:
    options = [c.option for c in changes(served(rl.load(name), command=command, **how))]
    assert any(option.startswith(f"{SEQUENCES[command]} ") for option in options)
    for option in options:
        parsed(command, option)


def test_the_parser_refuses_what_a_command_has_not() -> None:
    with pytest.raises(CycloptsError):
        parsed("serve", "--batch 128")
    with pytest.raises(CycloptsError):
        parsed("generate", "--concurrency 128")


def test_every_option_advised_for_training_is_one_of_train() -> None:
    e = rl.train("meta-llama/Llama-3.1-8B", batch=64, tokens=512, on="8xh100-sxm", layout="tp=8")
    every = training_advice(e, "8xh100-sxm")
    assert {"--recipe", "--batch", "--layout"} <= {a.option.split()[0] for a in every}
    for a in every:
        parsed("train", a.option)


# -- which come first ----------------------------------------------------------------------------------------------
def test_of_a_lever_the_change_that_is_known_best_comes_first() -> None:
    """Weights in fp8 and in int4 gain 35 % each; fp8's constants are measured, int4's are not."""
    report = report_on(rl.load("meta-llama/Llama-3.1-8B"), on=["h100-sxm"], batch=16)
    by = {a.option: a for a in report.advice}
    fp8, int4 = by["--precision weights=fp8"], by["--precision weights=int4"]
    assert (fp8.generation.grade, int4.generation.grade) == ("A", "C")
    assert fp8.per_chip == pytest.approx(1.35, abs=0.01)
    best = [a.option for a in best_changes(report)]
    assert best == ["--batch 64", "--precision weights=fp8", "--on b200"]
    assert [a.gain_of for a in best_changes(report)] == [*2 * ["tokens/s per chip"], "tokens per dollar"]
    assert [a.option for a in best_first(report.advice)][:3] == best
    assert set(map(id, best_first(report.advice))) == set(map(id, report.advice))


def test_among_changes_of_one_grade_the_largest_gain_is_best() -> None:
    rows = [("a", 1.2, "B"), ("a", 1.9, "C"), ("a", 1.3, "B"), ("b", 1.5, "C"), ("c", 1.0, "A")]
    best = best_of_levers(rows, lambda r: r[0], lambda r: r[1], lambda r: r[2])
    assert best == (("b", 1.5, "C"), ("a", 1.3, "B"))
