"""One registry of knobs behind solve, sensitivity, tornado and codesign; one condition language for all of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.inference.settings import setup
from roofline.whatif.codesign import Design, Process, drawing_board, worked_out
from roofline.whatif.query.knobs import KNOBS, RATES
from roofline.whatif.query.parsing import question_of
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.sensitivity.tornado import OperatingPoint, answers

DENSE, MIXTURE = rl.load("meta-llama/Llama-3.1-8B"), rl.load("deepseek-ai/DeepSeek-V3")
QUESTIONS: dict[str, tuple[rl.Model, dict[str, Any]]] = {
    "decode": (DENSE, {"on": "h100-sxm", "batch": 16, "context": 1024, "layout": "tp=2"}),
    "prefill": (DENSE, {"on": "h100-sxm", "batch": 2, "input": 512}),
    "generate": (MIXTURE, {"on": "2xdgx-h100", "batch": 8, "input": 512, "output_tokens": 32, "layout": "tp=16"}),
    "serve": (DENSE, {"on": "h100-sxm", "concurrency": 8, "input": 256, "output_tokens": 32}),
    "rate": (DENSE, {"on": "h100-sxm", "rate": 1.0, "input": 256, "output_tokens": 32}),
    "train": (DENSE, {"on": "8xh100-sxm", "layout": "dp=8,zero=1", "batch": 16, "tokens": 1024}),
}


@cache
def asked(name: str) -> OpenQuestion:
    model, settings = QUESTIONS[name]
    return question_of(model, "", False, settings).knowing()


@folded("name", list(QUESTIONS), drawn=3)
def test_a_knob_that_is_set_to_what_it_is_changes_nothing(name: str) -> None:
    q = asked(name)
    usual = float(np.asarray(q.figure(q.question.usual)))
    known = {knob.name: now for knob in KNOBS.values() if (now := knob.get(q))}
    assert {"bandwidth", "peak", "memory", "layers", "width"} <= {*known}
    for knob, now in known.items():
        again = KNOBS[knob].set(q, now)
        assert KNOBS[knob].get(again) == pytest.approx(now, rel=1e-15), knob
        assert float(np.asarray(again.figure(q.question.usual))) == pytest.approx(usual, rel=1e-12), knob


@folded("name", list(QUESTIONS))
def test_a_knob_is_what_it_is_set_to(name: str) -> None:
    q = asked(name)
    for knob in KNOBS.values():
        now, grain = knob.get(q), knob.grain(q)
        if not now:
            continue
        value = now - grain if grain and now > grain else now if grain else 0.75 * now
        assert knob.get(knob.set(q, value)) == pytest.approx(value, rel=1e-15), knob.name


def test_every_kind_of_knob_is_there() -> None:
    known = {knob.name for name in QUESTIONS for knob in KNOBS.values() if knob.get(asked(name))}
    assert known == {*KNOBS}
    assert {KNOBS[name].side for name in RATES} == {"hardware"}


def test_sensitivity_is_the_tornados() -> None:
    """The same elasticity of a step's time to every knob that both have, and of both phases."""
    place: dict[str, Any] = {"on": "8xh100-sxm", "layout": "tp=8"}
    point = OperatingPoint(setup(DENSE, **place), 8, 2048, prompt=512)
    decode = rl.sensitivity(DENSE, batch=8, context=2048, **place)
    prefill = rl.sensitivity(DENSE, batch=8, input=512, **place)
    every = {(a.phase, a.knob): a.elasticity for a in answers(point) if a.elasticity is not None}
    for phase, s in (("decode", decode), ("prefill", prefill)):
        ours = {e.knob: e.value for e in s.elasticities if e.method != "homogeneous"}
        assert ours == pytest.approx({knob: e for (p, knob), e in every.items() if p == phase}, rel=1e-12)
        assert {"bandwidth", "peak", "link", "batch", "layers"} <= {*ours}


def test_a_knob_between_nodes_is_its_own() -> None:
    s = rl.sensitivity(MIXTURE, on="2xdgx-h100", batch=16, context=1024, layout="tp=8,dp=2,ep=16")
    assert s.to("link") < 0
    assert s.to("network") < 0
    fixed = s.to("fixed seconds")
    assert sum(e.value for e in s.elasticities if e.knob in RATES) == pytest.approx(fixed - 1, abs=1e-12)


CONDITIONS = [
    "tpot <= 10ms", "fits", "not fits", "tpot < 8ms or ttft < 100ms", "1ms < tpot < 9ms and fits",
    "memory < 40GB", "memory_total < 40GB", "usd_per_million_tokens < $0.5", "tokens_per_second >= 2000",
    "not (tpot > 8ms and ttft > 50ms)", "latency < 32 * tpot + ttft", "joules_per_token < 0.2J or waves > 1",
]  # fmt: skip


@folded("where", CONDITIONS, drawn=6)
def test_a_condition_is_the_same_in_sweep_solve_and_codesign(where: str) -> None:
    load: dict[str, Any] = {"on": "h100-sxm", "input": 512, "output_tokens": 32}
    sizes = [1, 7, 64, 300, 3000]
    kept = rl.sweep(DENSE, phase="generate", batch=sizes, where=where, **load).to_frame()["batch"].to_list()
    for size in sizes:
        q, of = drawing_board(DENSE, None, "usd", {**load, "batch": size}, where)
        chip = q.asked.deployment.chip
        stack = Process(stack_bytes=chip.capacity / 5, stack_bandwidth=chip.bandwidth / 5)
        same = Design(chip.peak("bf16"), 5, chip.cache or 1.0, 450e9, stack)
        assert bool(q.use <= 1) == (size in kept), (where, size)
        if "fits" not in where and size < 300:
            assert np.isfinite(worked_out(q, of, same).value) == (size in kept), (where, size)


def test_what_solve_finds_is_the_last_row_that_a_sweep_keeps() -> None:
    load: dict[str, Any] = {"on": "h100-sxm", "input": 512, "output_tokens": 32}
    for where in ("tpot < 7ms or ttft < 100ms", "not (tpot >= 7ms)", "fits and latency < 40 * tpot"):
        kept = rl.sweep(DENSE, phase="generate", batch="1..600", where=where, **load).to_frame()["batch"].to_list()
        s = rl.solve(DENSE, find="batch", where=where, **load)
        assert s.value == max(kept) or (s.value is None and len(kept) == 600), where


def test_every_door_says_the_same_of_what_is_wrong() -> None:
    load: dict[str, Any] = {"on": "h100-sxm", "input": 512, "output_tokens": 32}
    for where in ("tpott < 1ms", "tpot < 30", "memory < 80", "tpot < 1ms and", "fits == 1", "(fits"):
        lines = set()
        for door in (
            lambda: rl.sweep(DENSE, phase="generate", batch=1, where=where, **load),  # noqa: B023
            lambda: rl.solve(DENSE, find="batch", where=where, **load),  # noqa: B023
            lambda: drawing_board(DENSE, None, "usd", {**load, "batch": 1}, where),  # noqa: B023
        ):
            with pytest.raises(rl.InputError) as error:
                door()
            lines.add(str(error.value))
        assert len(lines) == 1, lines
