"""Every field that a body accepts is honoured; what a question does not answer by is refused by its name."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import anyio
import pytest
from pydantic import BaseModel, ValidationError

import roofline as rl
from question_bodies import BASES, MODEL, OTHER, PLACE, SIDE
from roofline.declared.errors import InputError, error_line
from roofline.doors.mcp import TOOLS, tool_answer
from roofline.doors.web import exports as more_answers
from roofline.doors.web import request_models as b
from roofline.doors.web.questions import QUESTIONS, answered, first_fault
from roofline.doors.web.server.workers import Workers
from roofline.views.report.page import html
from roofline.whatif.search.what_fits import OF_ONE
from small_gguf import write_gguf

OTHERS: Mapping[str, Any] = {
    "requests_a_day": 5e5, "peak": 3.0, "users": 16, "work": "code", "reading_speed": True,
    "model": OTHER, "on": "2xh200-sxm", "layout": "tp=2", "precision": "fp8", "engine": "sglang", "law": "ideal",
    "bill": {"price": "7", "grid": "fr", "pue": 2.0}, "price": "7", "grid": "fr", "pue": 2.0, "years": 3.0,
    "utilisation": 0.5, "tp": 2, "pp": 2, "dp": 2, "ep": 2, "chunk": 64, "rounds": 3, "formula": False,
    "draft": "none", "mtp": True, "draft_length": 2, "acceptance": 0.5, "images": 1, "image_size": "64x64",
    "frames": 8, "audio": "3s", "encoders": 1, "encoder_layout": "tp=2", "encoder_on": "l40s",
    "encoder_bandwidth": 1e9,
    "prefill_layout": "tp=1", "prefill_on": "h200-sxm", "prefill_engine": "sglang", "prefill_bandwidth": 1e9,
    "chips": 2, "prefills": 1, "decodes": 1, "budget": 3.0, "power": 800.0, "site_power": 800.0, "latency": 1e-6,
    "strict": True,
    "attainment": 0.9,
    "router": "least-loaded", "lora": 8, "arrivals": "constant", "think": 0.01, "ramp": 0.01, "prefixes": "2x16",
    "speed": 2.0, "warmup": 5, "until": 0.5, "phase": "prefill", "batch": 4, "context": 512,
    "counting": "torch", "traffic": "unfused", "op": "down_proj", "input": 128, "output_tokens": 36, "concurrency": 16,
    "rate": 90.0, "prefix": 0.5, "input_cv": 0.5, "output_cv": 0.25, "a": {**SIDE, "batch": 2},
    "b": {**SIDE, "batch": 8}, "tokens": 1024,
    "recompute": "full", "micro_batch": 2, "only": ["time"], "requests": 30, "seed": 1, "launcher": "sglang",
    "objective": "chips", "top": 3, "start": 7, "count": 3, "ttft": 1e-6, "tpot": 1e-6, "framework": "torchtitan",
    "cached": [5], "new": [3], "within": False, "power_share": 0.5, "schedule": "gpipe", "recipe": "fp8",
    "text_only": True, "optimizer": "sgd", "offload": "optimizer", "offload_layers": 1, "flash": False,
    "loss": "chunked",
    "fused_loss": True, "overlap": "none", "recompute_layers": 2, "recompute_every": 2, "lengths": "256x2",
    "reshard": False, "no_sync": True, "gather_format": "fp32", "reduce_format": "fp32",
    "optimizer_in_backward": True, "lora_targets": "o_proj", "drafts": 1, "train": True,
    "host": "xeon-8480", "ram": "7GB", "ram_bw": "60GB/s", "pcie": "12GB/s", "drive": "5GB/s", "no_kv_offload": True,
    "find": "input", "where": "tpot <= 1ms", "against": "on=b200", "extreme": "greatest", "most_chips": 3,
    "formats": ["q8_0"], "gpu_layers": 5, "cpu_experts": 3, "step": "decode", "prompt": 100,
    "name": "estimate", "body": {**PLACE, "batch": 9}, "form": "parquet", "kind": "memory", "size": 10**6,
    "seconds": 5.0, "run_tokens": 1e9, "failures": "bloom", "mtbf_hours": 5e4, "save_seconds": 20.0, "storage": 1e12,
    "asynchronous": True, "save_every": 600.0, "restart_seconds": 60.0, "stall_seconds": 0.1, "dataset_tokens": 1e8,
    "evaluation_tokens": 1e6, "evaluation_every": 10, "rampup_batch_size": "2,2,8", "context_length": 100,
    "teacher": "Qwen/Qwen2.5-1.5B", "reference": True, "spare_nodes": 1, "repair_hours": 24.0,
    "stragglers": "0.1:2", "dora": True,
}  # fmt: skip
"""Field → another value that it may have."""
OTHERS_OF: Mapping[tuple[str, str], Any] = {
    **{(name, "engine"): "torchtitan" for name in ("train", "timeline", "recipe")},
    ("recipe", "engine"): "deepspeed", ("train", "layout"): "tp=2", ("timeline", "layout"): "dp=2",
    ("recipe", "layout"): "tp=2",
    ("advice", "tp"): 1, ("remedies", "batch"): 256, ("remedies", "engine"): "torchtitan", ("advice", "layout"): "dp=2",
    ("layouts", "batch"): 8, ("plot", "kind"): "memory", ("plot", "cached"): [5], ("analyze", "input"): 512,
    ("sweep", "batch"): [4], ("sweep", "context"): [512], ("runs", "on"): "l4", ("runs", "context"): 1000,
    ("search", "on"): "h200-sxm", ("search", "objective"): "throughput", ("search", "layout"): "tp=2",
    ("offload", "on"): "rtx-3090", ("search", "kind"): "disaggregated", ("generate", "dp"): 2, ("fit", "tp"): 1,
    ("encode", "batch"): 8, ("encode", "size"): "64x64", ("encode", "frames"): 2, ("encode", "seconds"): "3s",
    ("encode", "tower"): "images", ("encode", "passes"): 3, ("encode", "guidance"): True,
}  # fmt: skip
SEEING = {"model": "Qwen/Qwen3-VL-8B-Instruct"}
"""A model with towers that may be left out."""
BESIDE: Mapping[tuple[str, str], dict[str, Any]] = {
    ("machines", "chips"): {"users": 4000}, ("machines", "peak"): {"users": None, "requests_a_day": 5e5},
    ("estimate", "within"): {"context": 40_000}, ("sweep", "within"): {"context": [40_000]},
    ("explain", "cached"): {"op": "attention"},
    ("explain", "traffic"): {"op": "attention"}, ("explain", "context"): {"op": "attention"},
    ("explain", "counting"): {"op": "attention", "phase": "prefill"},
    ("recipe", "engine"): {"on": "8xh100-sxm", "layout": None},
    **{("offload", name): {"gpu_layers": 4} for name in ("host", "ram", "ram_bw", "pcie")},
    **{("runs", name): {"model": MODEL, "count": None} for name in OF_ONE},
    **{("layouts", name): {"run_tokens": 1e9} for name in (
        "failures", "mtbf_hours", "save_seconds", "storage", "save_every", "restart_seconds", "stall_seconds",
        "dataset_tokens")},
    ("layouts", "asynchronous"): {"run_tokens": 1e9, "storage": 1e12},
    ("layouts", "evaluation_tokens"): {"run_tokens": 1e9, "evaluation_every": 10, "evaluation_tokens": 2e6},
    ("layouts", "evaluation_every"): {"run_tokens": 1e9, "evaluation_every": 20, "evaluation_tokens": 1e6},
    ("layouts", "spare_nodes"): {"run_tokens": 1e9, "spare_nodes": 0, "repair_hours": 24.0},
    ("layouts", "repair_hours"): {"run_tokens": 1e9, "spare_nodes": 0, "repair_hours": 48.0},
    ("offload", "drive"): {"gpu_layers": 4, "ram": "0.1GB"},
    **{("serve", name): {**SEEING, "images": 1, "image_size": "64x64", "encoders": 2} for name in (
        "encoders", "encoder_layout", "encoder_on", "encoder_bandwidth")},
}  # fmt: skip
"""What both bodies have, so that the field can tell."""
INSTEAD: Mapping[tuple[str, str], dict[str, Any]] = {
    ("machines", "requests_a_day"): {"users": None},
    ("serve", "rate"): {"concurrency": None}, ("simulate", "concurrency"): {"rate": None},
    ("runs", "model"): {"count": None},
}  # fmt: skip
"""What the other body cannot have beside the field."""
FORMER = {"bill", "output"}
"""Names that fields had, which are taken for a release."""
NOT_TOLD = frozenset({
    ("gguf", "size"), ("gguf", "head"), ("launch", "launcher"), ("recipe", "framework"), ("report", "form"),
    *((name, "text_only") for name in ("plot", "machines", "analyze", "explain", "limits")),
})  # fmt: skip
"""A header says the same of a longer file; launchers, frameworks and forms have a test of their own. A step of tokens
runs no tower."""
RECORDED = ("report", "solve", "train", "search_training", "simulate", "search")
"""Functions of the library whose calls are compared, as their answers take too long."""


class ReachedError(Exception):
    """A function was called."""


def asked(name: str, body: dict[str, Any]) -> Any:
    """The answer, or what the library was called with."""
    try:
        return answered(name, body)
    except ReachedError as call:
        return str(call)
    except InputError as error:  # of what cannot be beside it: the field was looked at
        return error_line(error)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def recorder(*given: object, **named: object) -> NoReturn:
        raise ReachedError(*map(repr, given), sorted((key, repr(value)) for key, value in named.items()))

    for function in RECORDED:
        monkeypatch.setattr(rl, function, recorder)
    for function in ("what_runs", "formats_that_run"):
        monkeypatch.setattr(more_answers, function, recorder)


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path)
    head, size = path.read_bytes(), path.stat().st_size
    return {**BASES, "gguf": {"head": b64encode(head[:50_000]).decode(), "size": size}}


def fields(kind: type[BaseModel]) -> Iterator[str]:
    yield from kind.model_fields


def refusal(name: str, body: dict[str, Any]) -> str:
    """The line that refuses a body; raises AssertionError where there is none."""
    try:
        answered(name, body)
    except ValidationError as error:
        return ": expected ".join(first_fault(error))
    except InputError as error:
        return error_line(error)
    raise AssertionError((name, body))


def test_there_is_a_body_of_every_question(bodies: Mapping[str, dict[str, Any]]) -> None:
    assert bodies.keys() == QUESTIONS.keys()


@pytest.mark.drawn(12)
@pytest.mark.parametrize("name", [*BASES, "gguf"])
@pytest.mark.usefixtures("recorded")
def test_another_value_of_a_field_is_another_answer(name: str, bodies: Mapping[str, dict[str, Any]]) -> None:
    for field in fields(QUESTIONS[name].body):
        if (name, field) in NOT_TOLD:
            continue
        base = {**bodies[name], **(SEEING if field == "text_only" else {}), **BESIDE.get((name, field), {})}
        other = {field: OTHERS_OF.get((name, field), OTHERS.get(field)), **INSTEAD.get((name, field), {})}
        assert asked(name, base) != asked(name, {**base, **other}), field


@pytest.mark.parametrize("name", [*BASES, "gguf"])
def test_a_value_that_cannot_be_is_refused_in_one_line(name: str, bodies: Mapping[str, dict[str, Any]]) -> None:
    for field in fields(QUESTIONS[name].body):
        for wrong in ("nonsense", -1, [-1], {"nonsense": 1}):
            said = refusal(name, {**bodies[name], field: wrong})
            assert "\n" not in said
            assert len(said) < 1000, said


@pytest.mark.parametrize("name", [*BASES, "gguf"])
def test_a_field_of_other_questions_is_refused_by_its_name(name: str, bodies: Mapping[str, dict[str, Any]]) -> None:
    own = set(fields(QUESTIONS[name].body))
    every = {field for question in QUESTIONS.values() for field in fields(question.body)}
    for field in every - own - (FORMER if own & {"price", "output_tokens"} else set()):
        said = refusal(name, {**bodies[name], field: OTHERS.get(field, "x")})
        assert said == f"{field}: expected a field that this question takes"


def test_what_is_no_question_of_time_has_no_law_and_what_is_none_of_cost_no_bill() -> None:
    timed = {name for name, question in QUESTIONS.items() if "law" in question.body.model_fields} - {"plot"}
    billed = {name for name, question in QUESTIONS.items() if {"bill", "price"} & question.body.model_fields.keys()}
    first = {"answer", "machines"}
    assert billed - first == {
        "estimate",
        "generate",
        "encode",
        "serve",
        "train",
        "sweep",
        "simulate",
        "search",
        "launch",
        "layouts",
    }
    assert timed - billed == {"timeline", "advice", "remedies", "offload", "solve"}


@pytest.mark.parametrize("kind", ["memory", "parameters", "diagram"])
def test_a_picture_refuses_what_it_does_not_show(kind: str) -> None:
    degrees = {"tp", "pp", "dp", "ep"}
    shown = {"memory": {"on", "layout", "precision", "engine", "batch"} | degrees}.get(kind, set())
    base = {"model": MODEL, "kind": kind, **({"on": PLACE["on"]} if shown else {})}
    for field in set(fields(b.PlotAsked)) - {"model", "kind", "text_only"}:
        if field in degrees & shown:
            assert asked("plot", base) != asked("plot", {**base, field: 2}), field
        elif field in shown:
            assert answered("plot", base) != answered("plot", {**base, field: OTHERS[field]}), field
        else:
            assert refusal("plot", {**base, field: OTHERS[field]}).startswith(f"{field}: ")
    assert refusal("plot", {"model": MODEL}).startswith("on: ")


def test_a_bill_s_fields_are_honoured() -> None:
    base = {**BASES["serve"], "on": "h100-sxm"}
    free = answered("serve", {**base, "bill": {"price": "2", "grid": "de"}})
    for field, other in {"price": "3", "grid": "fr", "pue": 1.5, "utilisation": 0.5}.items():
        assert free != answered("serve", {**base, "bill": {"price": "2", "grid": "de", field: other}}), field
        for wrong in ("nonsense", -1, []):
            refusal("serve", {**base, "bill": {field: wrong}})


def test_former_names_let_nothing_else_in_and_drop_nothing() -> None:
    base = BASES["serve"]
    for wrong in ({"bill": {"engine": "none"}}, {"bill": {"price": 9}, "price": 1}, {"bill": "cheap"}):
        assert refusal("serve", {**base, **wrong}).startswith("bill: "), wrong
    assert answered("serve", {**base, "bill": {"price": 9}}) == answered("serve", {**base, "price": 9})
    for question in ("search", "launch"):
        both = {**{k: v for k, v in BASES[question].items() if k != "concurrency"}, "rate": 2.0, "concurrency": 8}
        assert "got 'both'" in refusal(question, both)
        both.pop("concurrency")
        assert answered(question, both)


def test_a_field_that_names_is_the_one_that_is_told() -> None:
    base = BASES["serve"]
    assert refusal("serve", {**base, "draft": "nonsense"}).startswith("draft: ")
    taught = {"model": base["model"], "on": "h100-sxm", "batch": 8, "tokens": 64, "layout": "tp=1"}
    for name in ("nonsense", "/etc/hostname", "./config.json"):
        assert refusal("train", {**taught, "teacher": name}).startswith("teacher: ")
    assert refusal("serve", {**base, "prefill_on": "nonsense", "prefill_layout": "tp=1"}).startswith("prefill_on: ")
    seeing = {**base, **SEEING, "images": 1, "image_size": "64x64", "encoders": 1}
    for name in ("nonsense", "/etc/hostname", "like=h100-sxm,bw=4.8T"):
        assert refusal("serve", {**seeing, "encoder_on": name}).startswith(("encoder_on: ", "chip: ")), name
    assert "at most 64" in refusal("serve", {**base, "concurrency": [1] * 65})


def test_bodies_have_names_of_their_own() -> None:
    names = [question.body.__name__ for question in QUESTIONS.values()]
    assert len(names) - len(set(names)) == len([n for n in names if n == "ModelAsked"]) - 1


def test_search_is_by_the_law_and_of_the_layout_that_are_asked_for() -> None:
    load = {"input": 64, "output": 28, "concurrency": 4}
    body = {**PLACE, "on": "2xh100-sxm", **load, "tpot": 0.01}
    times = {}
    for law in ("calibrated", "ideal", "fixed(0.5,0.8)"):
        given = answered("search", {**body, "layout": "tp=2", "law": law})
        own = rl.search(
            MODEL, rl.Demand(64, 28, concurrency=4), rl.Limits(tpot=0.01), on="2xh100-sxm", layouts=["tp=2"], law=law
        )
        assert json.dumps(given) == json.dumps(own.to_dict())
        assert {plan["layout"] for plan in given["plans"]} == {"tp=2"}
        assert law.startswith(given["law"])
        where = {"on": "2xh100-sxm", "layout": "tp=2", "law": law}
        alone = rl.serve(MODEL, input=64, output=28, concurrency=4, **where)  # type: ignore[arg-type]
        assert given["plans"][0]["tpot"]["expected"] == pytest.approx(float(alone.tpot.expected), rel=1e-9)
        times[law] = given["plans"][0]["tpot"]["expected"]
    assert len(set(times.values())) == 3
    for wrong in ({"law": "nonsense"}, {"layout": "nonsense"}, {"layout": "tp=8,sp"}, {"layout": "tp=3"}):
        refusal("search", {**body, **wrong})


def test_a_launcher_is_honoured() -> None:
    launchers = ("vllm", "sglang")
    assert len({str(answered("launch", {**BASES["launch"], "launcher": name})) for name in launchers}) == 2
    frameworks = ("megatron", "torchtitan")
    assert len({str(answered("recipe", {**BASES["recipe"], "framework": name})) for name in frameworks}) == 2


def test_one_model_in_every_format_takes_no_part_of_the_catalog() -> None:
    for field in ("start", "count"):
        assert refusal("runs", {"on": "l4", "model": MODEL, field: 1}).startswith(f"{field}: ")


def test_a_host_is_beside_one_model_and_what_is_of_it_beside_a_host() -> None:
    assert refusal("runs", {"on": "l4", "host": "ryzen-9-7950x"}).startswith("host: expected a model as well")
    assert refusal("runs", {"on": "l4", "model": MODEL, "ram": "8GB"}).startswith("ram: expected `host` as well")


def test_a_report_is_a_page_or_its_figures() -> None:
    whole = rl.report(MODEL, on=PLACE["on"], batch=4)
    assert answered("report", {**PLACE, "batch": 4, "form": "json"}) == whole.to_dict()
    assert answered("report", {**PLACE, "batch": 4}).decode() == html(whole)


@pytest.mark.parametrize("tool", [name for name in TOOLS if name in QUESTIONS])
def test_tools_take_what_the_api_takes(tool: str) -> None:
    """And refuse in the same line what it refuses, before anything is worked out."""
    own = set(fields(QUESTIONS[tool].body))
    for field in {"law", "layout", "flash"} - own:
        with pytest.raises(InputError, match=f"^{field}: expected a field that this question takes"):
            anyio.run(tool_answer, tool, {**BASES[tool], field: OTHERS.get(field, True)}, Workers(), None)
