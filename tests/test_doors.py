"""One question, one answer: the same settings through library, command, REST and MCP, and what asks many at once."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anyio
import pytest

import roofline as rl
from roofline.declared.errors import InputError, error_line
from roofline.declared.question import group_settings, question_settings
from roofline.doors.cli.main import main
from roofline.views.report.page import html

DENSE, SMALL, MIXTURE = "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-30B-A3B"
WINDOWED, LATENT, SEEING = "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3", "google/gemma-3-4b-it"
ONE_CHIP = ("h100-sxm", "a100-sxm-80gb", "mi300x", "b200", "peak=200T,bw=2T,mem=80G")
SEVERAL = (("8xh100-sxm", {"layout": "tp=4"}), ("8xh200-sxm", {"tp": 8}), ("8xb200", {"layout": "tp=2", "dp": 4}),
           ("8xmi300x", {}), ("2xl40s", {"layout": "tp=2"}))  # fmt: skip
DRAWN_BY_DAY, DRAWN = 6, 200


@dataclass(frozen=True)
class Drawn:
    """A question of one model: its name, and its settings flat."""

    name: str
    model: str
    settings: Mapping[str, Any] = field(hash=False)

    @property
    def words(self) -> list[str]:
        """As words of the command: the model and its options, or two sides."""
        if self.name == "diff":
            return [spec(side) for side in self.settings.values()]
        return [self.model, *(word for name, value in self.settings.items() for word in option(name, value))]

    @property
    def body(self) -> dict[str, Any]:
        """As a body of the API."""
        return dict(self.settings) if self.name == "diff" else {"model": self.model, **self.settings}


def option(name: str, value: object) -> Iterator[str]:
    """A setting as words of a command line."""
    flag = name.replace("_", "-")
    if isinstance(value, list):
        yield from (f"--{flag}", *map(str, value))
    elif isinstance(value, bool):
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


def step(draw: random.Random) -> dict[str, Any]:
    """Which step."""
    name = draw.choice(("input", "context"))
    return {name: draw.choice((16, 1000, 4096)), "batch": draw.choice((1, 8, 48))}


def analyze(draw: random.Random) -> dict[str, Any]:
    """Settings of `analyze`."""
    given = step(draw)
    if draw.random() < 0.3:
        given = {"cached": [0, 500], "new": [64, 1]}
    if draw.random() < 0.4:
        given["counting"] = draw.choice(("torch", "original"))
    if draw.random() < 0.4:
        given["traffic"] = draw.choice(("unfused", "floor", "fused(weights=0.5)"))
    if draw.random() < 0.3:
        given["precision"] = draw.choice(("weights=int8", "kv=fp8"))
    return given


def estimate(draw: random.Random) -> dict[str, Any]:
    """Settings of `estimate`, which `analyze --on` prints."""
    return where(draw) | step(draw)


def train(draw: random.Random) -> dict[str, Any]:
    """Settings of `train`."""
    on, spread = draw.choice((*SEVERAL[:3], ("h100-sxm", {}), ("8xh100-sxm", {"layout": "tp=2,zero=3", "dp": 4})))
    given: dict[str, Any] = {"on": on, **spread, "batch": 16, "tokens": draw.choice((512, 2048)), **bill(draw)}
    several = {
        "recompute": ("full", "selective", "attention,"), "recipe": ("fp8", "bf16-pure"), "optimizer": ("sgd", "muon"),
        "micro_batch": (2, 16), "loss": ("chunked", "fused"), "flash": (False,), "overlap": ("none", "dp"),
        "offload": ("optimizer",), "lora": (8,), "engine": ("fsdp", "none"), "law": ("ideal",), "power": (500.0,),
        "lengths": ("256x2", "512x3,256x2"), "reshard": (False,), "schedule": ("gpipe", "nonsense"),
    }  # fmt: skip
    for name, values in several.items():
        if draw.random() < 0.2:
            given[name] = draw.choice(values)
    return given


def report(draw: random.Random) -> dict[str, Any]:
    """Settings of `report`."""
    given = where(draw) | lengths(draw) | {"batch": draw.choice((1, 8, 48))}
    given.pop("law", None)
    return given | ({"train": True} if draw.random() < 0.3 else {})


def offload(draw: random.Random) -> dict[str, Any]:
    """Settings of `offload`."""
    given: dict[str, Any] = {"on": draw.choice(("rtx-4090", ["rtx-4090", "rtx-3060"], "h100-sxm")), **lengths(draw)}
    given |= {"host": draw.choice(("ryzen-9-7950x", "peak=2T,bw=80G,mem=64G")), "batch": draw.choice((1, 4))}
    several = {
        "ram": ("256GB", "32GB"), "ram_bw": ("60GB/s",), "pcie": ("12GB/s",), "drive": ("5GB/s",), "engine": ("vllm",),
        "precision": ("q4_k_m", "bf16"), "gpu_layers": (0, 5, 500), "cpu_experts": (3,), "law": ("ideal",),
        "no_kv_offload": (True,),
    }  # fmt: skip
    for name, values in several.items():
        if draw.random() < 0.3:
            given[name] = draw.choice(values)
    if "no_kv_offload" in given:  # of llama.cpp alone
        given.pop("engine", None)
    return given


def solve(draw: random.Random) -> dict[str, Any]:
    """Settings of `solve`: of what is looked for none is given."""
    find = draw.choice(("batch", "concurrency", "input", "output", "bandwidth", "nonsense"))
    given = (
        where(draw) | lengths(draw) | {"find": find, "where": draw.choice(("tpot <= 15ms", "latency <= 9s and fits"))}
    )
    given |= {} if find == "concurrency" else {draw.choice(("batch", "concurrency")): 8} if find != "batch" else {}
    given.pop({"input": "input", "output": "output_tokens"}.get(find, ""), None)
    return given | ({"strict": True} if draw.random() < 0.3 else {})


def diff(draw: random.Random) -> dict[str, Any]:
    """Both sides of `diff`, each a mapping of its settings."""
    return {side: _side(draw) for side in ("a", "b")}


def _side(draw: random.Random) -> dict[str, Any]:
    given = where(draw) | {"model": draw.choice(MODELS), "batch": draw.choice((1, 8, 48))}
    given |= {"context": draw.choice((100, 2000)), "prompt": draw.choice((64, 2000))}
    return {name: value for name, value in given.items() if name not in ("law", "tp", "dp")}


def spec(side: Mapping[str, Any]) -> str:
    """A side as the library and the command read it."""
    rest = (f"{'input' if name == 'prompt' else name}=[{value}]" for name, value in side.items()
            if name not in ("model", "on"))  # fmt: skip
    return f"{side['model']}@{side['on']}:{','.join(rest)}"


MAKERS: Mapping[str, Callable[[random.Random], dict[str, Any]]] = {
    "fit": fit, "generate": generate, "serve": serve, "analyze": analyze, "estimate": estimate, "train": train,
    "report": report, "offload": offload, "diff": diff, "solve": solve,
}  # fmt: skip
OF_COMMAND = {"estimate": "analyze"}
"""Questions whose command has another name."""
ALONE = {"train": {"schema", "fits", "changes", "run", "breakdown", "modules", "warnings", "not_counted"},
         "analyze": {"schema", "name", "estimate"}}  # fmt: skip
"""What of an answer one door alone says: its schema, and what a command adds."""
ORDER = ("fit", "generate", "serve", "report", "analyze", "diff", "estimate", "offload", "serve", "train", "solve")
"""Questions one after another, so that a dozen has all of them."""
MODELS = (DENSE, DENSE, SMALL, MIXTURE, WINDOWED, LATENT, SEEING)


def drawn(number: int) -> list[Drawn]:
    """So many questions, always the same."""
    draw = random.Random(30)
    questions = []
    for i in range(number):
        name, model = ORDER[i % len(ORDER)], draw.choice(MODELS)
        settings = MAKERS[name](draw)
        if model == SEEING and name == "serve" and draw.random() < 0.7:
            settings |= {"images": 2, "image_size": "640x480"}
        questions.append(Drawn(name, model, settings))
    return questions


# -- doors ---------------------------------------------------------------------------------------------------------
def by_library(asked: Drawn) -> Any:
    """The figures that the library gives."""
    if asked.name == "diff":
        return plain(rl.diff(*map(spec, asked.settings.values())).to_dict())
    if asked.name == "report":
        return plain(reported(asked).to_dict())
    return plain(getattr(rl, asked.name)(asked.model, **asked.settings).to_dict())


@cache
def reported(asked: Drawn) -> Any:
    """The report that the library makes, once: its figures and its page are both looked at."""
    return rl.report(asked.model, **asked.settings)


def by_command(asked: Drawn) -> Any:
    """Those that the command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([OF_COMMAND.get(asked.name, asked.name), *asked.words, "--json"])
        except SystemExit as stop:
            if stop.code == 2:
                raise RefusedError(err.getvalue().strip().splitlines()[-1]) from stop
    answer = json.loads(out.getvalue())
    if "steps" not in answer:
        return answer
    (one,) = answer["steps"]
    return {**one, **one["estimate"]} if asked.name == "estimate" else one


def by_api(asked: Drawn) -> Any:
    """Those that the API gives."""
    questions = pytest.importorskip(
        "roofline.doors.web.questions", reason="pydantic, of the web extra, is not installed"
    )
    try:
        answer = questions.answered(asked.name, asked.body)
    except questions.ValidationError as error:
        wrong = questions.invalid_body(error, questions.QUESTIONS[asked.name].body)
        raise RefusedError(error_line(wrong)) from error
    return plain(answer.decode() if isinstance(answer, bytes) else answer)


def by_page(asked: Drawn) -> Any:
    """The figures of a report whose page the API gives, the same to the letter as the one that the library writes."""
    page = by_api(asked)
    whole = reported(asked)
    assert page == html(whole)
    one = rl.generate(asked.model, **{name: value for name, value in asked.settings.items() if name != "train"})
    assert plain(whole.of.generation.to_dict()) == plain(one.to_dict())
    return plain(whole.to_dict())


def by_tool(asked: Drawn) -> Any:
    """Those that an agent gets."""
    agents = pytest.importorskip("roofline.doors.mcp", reason="mcp, of the mcp extra, is not installed")

    async def called() -> Any:
        return await agents.tool_answer(asked.name, asked.body, Here(), None)

    return plain(anyio.run(called))


class Here:
    """Answers in this process what agents ask of workers."""

    async def ask(self, questions: Any, allowed: Any, gone: Any) -> Any:
        """The answers."""
        from roofline.doors.web.allow_list import NOTHING_MORE
        from roofline.doors.web.questions import answered_all

        return answered_all(questions, NOTHING_MORE)


class RefusedError(Exception):
    """A door said no, in these words."""


CUT = 60
"""Letters of a line that is cut, which every door shows."""


def plain(answer: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(answer))


def told(door: Callable[[Drawn], Any], asked: Drawn) -> Any:
    """The answer of a door, or what it says it expected."""
    try:
        answer = door(asked)
        return {name: value for name, value in answer.items() if name not in ALONE.get(asked.name, ())}
    except (InputError, RefusedError) as error:
        line = error_line(error) if isinstance(error, InputError) else str(error)
        words = line.partition(": expected ")[2].partition(", got ")[0]
        words = words[:CUT] if words.endswith("...") else words  # a long list is cut to the length of the line
        return {"refused": re.sub(r"--[a-z-]+", lambda option: option[0][2:].replace("-", "_"), words)}


DOORS: Mapping[str, tuple[Callable[[Drawn], Any], ...]] = {
    "report": (by_command, by_page, by_tool),
}  # fmt: skip
"""Doors of questions that not all doors have."""


def check(asked: Drawn) -> None:
    """Every door gives the figures of the library, or refuses for the same reason."""
    expected = told(by_library, asked)
    for door in DOORS.get(asked.name, (by_command, by_api, by_tool)):
        answer = told(door, asked)
        if asked.name == "estimate" and door is by_command and "refused" not in answer:
            common = expected.keys() & answer.keys() - {"schema", "ops"}
            assert common > {"time", "memory", "mfu", "bound"}
            answer, own = {n: answer[n] for n in common}, {n: expected[n] for n in common}
            assert answer == own, (door.__name__, asked)
        else:
            assert answer == expected, (door.__name__, asked)


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


@pytest.mark.drawn(4)
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


NOT_PRINTED = {"within", *group_settings(rl.Bill)}
"""Settings of `estimate` that `analyze --on` does not take: it warns beyond the context, and prints no cost."""


def test_every_setting_is_an_option_a_field_and_an_argument() -> None:
    bodies = pytest.importorskip("roofline.doors.web.questions", reason="pydantic, of the web extra, is not installed")
    for name in MAKERS:
        settings = question_settings(getattr(rl, name)).keys()
        assert settings <= bodies.QUESTIONS[name].body.model_fields.keys(), name
        page = helped(OF_COMMAND.get(name, name))
        for setting in settings - (NOT_PRINTED if name == "estimate" else set()):
            assert f"--{setting.replace('_', '-')}" in page, (name, setting)


def helped(name: str) -> str:
    """The page of help of a command."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([name, "--help"])
    return out.getvalue()
