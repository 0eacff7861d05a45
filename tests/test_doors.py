"""One question, one answer: the same settings through library, command, REST and MCP, and what asks many at once."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

import roofline as rl
from roofline.cli.main import main
from roofline.declared.errors import InputError, error_line
from roofline.declared.question import question_settings

DENSE, SMALL, MIXTURE = "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-30B-A3B"
WINDOWED, LATENT, SEEING = "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3", "google/gemma-3-4b-it"
ONE_CHIP = ("h100-sxm", "a100-sxm-80gb", "mi300x", "b200", "peak=200T,bw=2T,mem=80G")
SEVERAL = (("8xh100-sxm", {"layout": "tp=4"}), ("8xh200-sxm", {"tp": 8}), ("8xb200", {"layout": "tp=2", "dp": 4}),
           ("8xmi300x", {}), ("2xl40s", {"layout": "tp=2"}))  # fmt: skip
DRAWN_BY_DAY, DRAWN = 12, 200


@dataclass(frozen=True)
class Drawn:
    """A question of one model: its name, and its settings flat."""

    name: str
    model: str
    settings: Mapping[str, Any] = field(hash=False)

    @property
    def options(self) -> list[str]:
        """As options of the command."""
        return [word for name, value in self.settings.items() for word in option(name, value)]


def option(name: str, value: object) -> Iterator[str]:
    """A setting as words of a command line."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        yield f"--{'' if value else 'no-'}{flag}"
    else:
        yield from (f"--{flag}", str(value))


def where(draw: random.Random) -> dict[str, Any]:
    """Where a model runs."""
    given: dict[str, Any] = {}
    if draw.random() < 0.6:
        given["on"] = draw.choice(ONE_CHIP)
    else:
        on, spread = draw.choice(SEVERAL)
        given |= {"on": on, **spread}
    if draw.random() < 0.4:
        given["engine"] = draw.choice(("vllm", "sglang", "trtllm", "none", "vllm(max_num_seqs=64)"))
    if draw.random() < 0.3:
        given["precision"] = draw.choice(("weights=int8", "kv=fp8", "weights=int4", "bf16"))
    if draw.random() < 0.2:
        given["law"] = draw.choice(("ideal", "fixed(0.5,0.8)"))
    return given


def bill(draw: random.Random) -> dict[str, Any]:
    """Who pays what."""
    given = {"price": 2.5, "utilisation": 0.7, "pue": 1.2, "grid": "fr"}
    return {name: given[name] for name in given if draw.random() < 0.15}


def drafts(draw: random.Random) -> dict[str, Any]:
    """What drafts tokens."""
    return draw.choice(({}, {}, {}, {"draft": "none", "acceptance": 0.6}, {"draft_length": 2}))


def lengths(draw: random.Random) -> dict[str, Any]:
    """Tokens of a prompt and of an answer."""
    return {"input": draw.choice((64, 500, 1024, 4000)), "output_tokens": draw.choice((1, 16, 256))}


def fit(draw: random.Random) -> dict[str, Any]:
    """Settings of `fit`."""
    given = where(draw) | {"batch": draw.choice((1, 7, 64)), "context": draw.choice((100, 4096))}
    given.pop("law", None)
    return given


def generate(draw: random.Random) -> dict[str, Any]:
    """Settings of `generate`."""
    return where(draw) | lengths(draw) | {"batch": draw.choice((1, 8, 48))} | drafts(draw) | bill(draw)


def serve(draw: random.Random) -> dict[str, Any]:
    """Settings of `serve`."""
    given = where(draw) | lengths(draw) | bill(draw)
    given |= {"concurrency": draw.choice((1, 8, 40))} if draw.random() < 0.7 else {"rate": draw.choice((0.1, 0.5))}
    if draw.random() < 0.3:
        given["prefix"] = draw.choice((0.25, 0.5))
    if "concurrency" in given and draw.random() < 0.3:
        given["rounds"] = 4
    elif draw.random() < 0.2:
        given["formula"] = draw.random() < 0.5
    if draw.random() < 0.15:
        given |= {"on": "8xh100-sxm", "layout": "tp=2", "prefill_layout": "tp=1", "chips": 8}
        given = {name: value for name, value in given.items() if name not in ("tp", "dp", "rounds", "formula")}
    return given | drafts(draw)


MAKERS: Mapping[str, Callable[[random.Random], dict[str, Any]]] = {"fit": fit, "generate": generate, "serve": serve}
MODELS = (DENSE, DENSE, SMALL, MIXTURE, WINDOWED, LATENT, SEEING)


def drawn(number: int) -> list[Drawn]:
    """So many questions, always the same."""
    draw = random.Random(30)
    questions = []
    for _ in range(number):
        name, model = draw.choice(("fit", "generate", "serve", "serve")), draw.choice(MODELS)
        settings = MAKERS[name](draw)
        if model == SEEING and name == "serve" and draw.random() < 0.7:
            settings |= {"images": 2, "image_size": "640x480"}
        questions.append(Drawn(name, model, settings))
    return questions


# -- doors ---------------------------------------------------------------------------------------------------------
def by_library(asked: Drawn) -> Any:
    """The figures that the library gives."""
    return plain(getattr(rl, asked.name)(asked.model, **asked.settings).to_dict())


def by_command(asked: Drawn) -> Any:
    """Those that the command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([asked.name, asked.model, *asked.options, "--json"])
        except SystemExit as stop:
            if stop.code == 2:
                raise RefusedError(err.getvalue().strip().splitlines()[-1]) from stop
    return json.loads(out.getvalue())


def by_api(asked: Drawn) -> Any:
    """Those that the API gives."""
    questions = pytest.importorskip("roofline.web.questions", reason="pydantic, of the web extra, is not installed")
    try:
        answer = questions.answered(asked.name, {"model": asked.model, **asked.settings})
    except questions.ValidationError as error:
        raise RefusedError(": expected ".join(questions.first_fault(error))) from error
    return plain(answer)


def by_tool(asked: Drawn) -> Any:
    """Those that an agent gets."""
    agents = pytest.importorskip("roofline.web.agents", reason="mcp, of the mcp extra, is not installed")

    async def called() -> Any:
        return await agents.tool_answer(asked.name, {"model": asked.model, **asked.settings}, Here(), None)

    return plain(anyio.run(called))


class Here:
    """Answers in this process what agents ask of workers."""

    async def ask(self, questions: Any, allowed: Any, gone: Any) -> Any:
        """The answers."""
        from roofline.web.choices import NOTHING_MORE
        from roofline.web.questions import answered_all

        return answered_all(questions, NOTHING_MORE)


class RefusedError(Exception):
    """A door said no, in these words."""


def plain(answer: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(answer))


def told(door: Callable[[Drawn], Any], asked: Drawn) -> Any:
    """The answer of a door, or what it says it expected."""
    try:
        return door(asked)
    except (InputError, RefusedError) as error:
        line = error_line(error) if isinstance(error, InputError) else str(error)
        return {"refused": line.partition(": expected ")[2].partition(", got ")[0]}


def check(asked: Drawn) -> None:
    """Every door gives the figures of the library, or refuses for the same reason."""
    expected = told(by_library, asked)
    for door in (by_command, by_api, by_tool):
        assert told(door, asked) == expected, (door.__name__, asked)


@pytest.mark.parametrize("number", range(DRAWN_BY_DAY))
def test_every_door_gives_the_same_figures(number: int) -> None:
    check(drawn(DRAWN)[number])


def test_every_door_gives_the_same_figures_to_many(whole: bool) -> None:
    if not whole:
        pytest.skip(f"{DRAWN} questions run with --whole; {DRAWN_BY_DAY} of them above")
    for asked in drawn(DRAWN):
        check(asked)


@pytest.mark.parametrize(
    "more", [{}, {"rounds": 4}, {"draft_length": 2, "acceptance": 0.5}, {"formula": False}, {"law": "ideal"}]
)
def test_a_row_of_a_sweep_is_a_server(more: Mapping[str, Any]) -> None:
    given = {"on": "h100-sxm", "input": 1024, "prefix": 0.25, "concurrency": 24, **more}
    rows = rl.sweep(DENSE, phase="serve", output_tokens=[64, 256], **given).to_frame()
    for row in rows.iter_rows(named=True):
        one = rl.serve(DENSE, output_tokens=row["output"], **given)
        for name, value in row.items():
            if name in one.FIGURES and name not in ("model", "input", "output", "prefix", "rounds", "law"):
                figure = one.figure(name)
                assert value == pytest.approx(getattr(figure, "expected", figure), rel=1e-12), name


PLANS: tuple[dict[str, Any], ...] = (
    {"concurrency": 32}, {"ttft": 0.5, "tpot": 0.02}, {"rate": 9.0, "ttft": 0.5}, {"concurrency": 7, "prefix": 0.5},
    {"ttft": 0.5, "kind": "disaggregated"}, {"concurrency": 32, "kind": "disaggregated"},
    {"rate": 9.0, "kind": "disaggregated"},
)  # fmt: skip


@pytest.mark.parametrize("asked", PLANS)
def test_a_plan_of_a_search_is_a_server(asked: dict[str, Any]) -> None:
    sizes = {"input": 1024, "output_tokens": 256, "prefix": asked.get("prefix", 0.0)}
    found = rl.search(DENSE, on=["h100-sxm"], chips=3, top=4, **{"kind": "aggregated", **sizes, **asked})
    assert found.plans
    for plan in found.plans:
        load = {"rate": asked["rate"]} if "rate" in asked else {"concurrency": plan.concurrency}
        where: dict[str, Any] = {"on": f"{plan.chips}xh100-sxm", **sizes, **load}
        if plan.kind == "disaggregated":
            degree = "tp=1" if plan.prefill_layout == "one chip" else plan.prefill_layout
            pools = {"prefills": plan.prefills, "decodes": plan.decodes, "prefill_layout": degree}
            one = rl.pools(DENSE, layout=plan.layout if plan.layout != "one chip" else "tp=1", **pools, **where)
        else:
            one = rl.serve(DENSE, layout=server_layout(plan), **where)
        for name in ("ttft", "tpot", "latency"):
            figures = getattr(one, name).ends()
            assert figures == pytest.approx(getattr(plan, name).ends(), rel=1e-9), plan
        for name in ("requests_per_second", "tokens_per_second", "tokens_per_second_per_chip"):
            assert getattr(one, name) == pytest.approx(getattr(plan, name), rel=1e-9), plan


def server_layout(plan: Any) -> str:
    """The layout of all replicas of a plan."""
    own = "" if plan.layout == "one chip" else f"{plan.layout},"
    return f"{own}dp={plan.replicas}"


@pytest.mark.parametrize("find", ["concurrency", "input", "rate"])
def test_what_is_found_is_asked_again(find: str) -> None:
    given: dict[str, Any] = {"on": "h100-sxm", "input": 1024, "output_tokens": 64, "concurrency": 16}
    given.pop(find, None)
    if find == "rate":
        given.pop("concurrency")
        given["formula"] = True
    found = rl.solve(DENSE, find=find, where="ttft <= 300ms and tpot <= 15ms", **given)
    one = rl.serve(DENSE, **given, **{find: found.value})
    for requirement in found.to_dict()["requirements"]:
        figure = getattr(one, requirement["metric"]).expected
        assert requirement["value"] == pytest.approx(figure, rel=1e-12), requirement


def test_every_setting_is_an_option_a_field_and_an_argument() -> None:
    bodies = pytest.importorskip("roofline.web.questions", reason="pydantic, of the web extra, is not installed")
    for name in MAKERS:
        settings = question_settings(getattr(rl, name)).keys()
        assert settings <= bodies.QUESTIONS[name].body.model_fields.keys(), name
        page = helped(name)
        for setting in settings:
            assert f"--{setting.replace('_', '-')}" in page, (name, setting)


def helped(name: str) -> str:
    """The page of help of a command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([name, "--help"])
    return out.getvalue()
