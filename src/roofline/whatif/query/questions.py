"""The questions of a sweep: a decode step, a prefill, a static batch, a server or a training step at each point.

A question has numeric axes, which may vary within a plan, in a fixed order. Its answer is a `Result` whose figures
become columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from roofline.declared.errors import not_one_of
from roofline.declared.groups import Load, StaticBatch
from roofline.declared.numbers.maths import Count, where
from roofline.declared.question import (
    OLD_NAMES,
    Settings,
    arguments_of,
    declaration_of,
    group_settings,
    question_settings,
)
from roofline.declared.result import FigureValue, Result
from roofline.inference.generate import (
    Generation,
    Prefill,
    changed_step,
    of_total,
    pipeline_group,
    prefill_of,
    prompts_span,
)
from roofline.inference.settings import Setup
from roofline.inference.span import Span
from roofline.inference.step import Estimate, step_estimate
from roofline.model.model import Model
from roofline.serving.serve import serve, server_of, serving
from roofline.training.train import train
from roofline.work.step import decode, prefill

AXIS_NAMES: Mapping[str, str] = {"output_tokens": "output"}
"""Settings whose axis and column have another name."""
Coordinates: TypeAlias = Mapping[str, Count]
"""Numeric axis → its value, or arrays that broadcast."""


@dataclass(frozen=True)
class Compiled:
    """A compiled plan: the model, its settings, and `asked`, the settings resolved; None for training."""

    model: Model
    settings: Settings
    asked: Setup | None = None


@dataclass(frozen=True)
class Question:
    """A question of a sweep. `axes`: its numbers. `given`: defaults of optional numbers; None leaves the axis out.

    `usual`: the default figure; `columns`: the default columns. `longest`: tokens of the longest sequence at a point.
    `answer`: the result of a plan at a point; `allowed`: whether the plan has an answer there. `more`: figures in
    addition to those of the result. `options`: settings of its own that may be axes. `together`: whether the degrees of
    a layout may be arrays.
    """

    name: str
    axes: tuple[str, ...]
    given: Mapping[str, float | None]
    usual: str
    columns: tuple[str, ...]
    longest: Callable[[Coordinates], Count]
    answer: Callable[[Compiled, Coordinates], Result]
    allowed: Callable[[Compiled, Coordinates], ArrayLike] = lambda plan, point: np.True_
    more: Mapping[str, tuple[str, Callable[..., FigureValue]]] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    together: bool = True


# -- steps ---------------------------------------------------------------------------------------------------------
def _setup(plan: Compiled) -> Setup:
    assert plan.asked is not None
    return plan.asked


def _decode(plan: Compiled, point: Coordinates) -> Estimate:
    step = changed_step(decode(1, 1), point["context"], 1, point["batch"])
    return step_estimate(_setup(plan), step, within=False)


def _prefill(plan: Compiled, point: Coordinates) -> Estimate:
    step = changed_step(prefill(1, 1), 0, point["input"], point["batch"])
    return step_estimate(_setup(plan), step, within=False)


def step_tpot(e: Estimate) -> Span:
    """Time per output token of a decode step as a server runs it, with host time and pipeline groups.

    It equals the TPOT of `generate` whose second token comes from this step.
    """
    size, layout, (query,) = e.batch_per_replica, e.deployment.layout, e.step.queries
    total = e.total
    if layout.pp > 1:
        total = e.plan.total(changed_step(decode(1, 1), query.cached, 1, pipeline_group(size, layout.pp)))
    return of_total(total, e.plan, e.engine.host(size)).wider(e.plan.unexplained).shaped(e.shape)


def step_ttft(e: Estimate) -> Span:
    """Time to first token of prompts that arrive together: the TTFT of `generate` where all of them run at once."""
    size, layout, (query,) = e.batch_per_replica, e.deployment.layout, e.step.queries
    group = Prefill(e.total)
    if layout.pp > 1 or e.engine.parts:
        group = prefill_of(e.asked, changed_step(prefill(1, 1), 0, query.new, pipeline_group(size, layout.pp)))
    return prompts_span(e.asked, size, query.new, group).shaped(e.shape)


def _per_chip(e: Estimate) -> Count:
    return e.tokens_per_second / e.deployment.layout.chips


def all_in_memory(answer: Any) -> Any:
    """Whether everything requested fits in memory at once: one wave, and no request waits for a place."""
    fits = np.asarray(answer.fits)
    if hasattr(answer, "waves"):
        return fits & (np.asarray(answer.waves) == 1)
    return fits & (np.asarray(answer.in_flight) <= answer.capacity) if hasattr(answer, "capacity") else fits


# -- requests ------------------------------------------------------------------------------------------------------
def _generate(plan: Compiled, point: Coordinates) -> Generation:
    return Generation(_setup(plan), StaticBatch(point["input"], point["output"], point["batch"]))


def _serve_settings(plan: Compiled, point: Coordinates) -> Settings:
    """The arguments of `serve` at a point, in groups: the numbers of the point and the settings of the plan."""
    own = {name: value for name, value in plan.settings.items() if name in SERVED}
    numbers = {OLD_NAMES.get(name, name): value for name, value in point.items()}
    groups = arguments_of(declaration_of(serve), {"on": "", **own, **numbers})
    return {name: value for name, value in groups.items() if name != "where"}


def _serve(plan: Compiled, point: Coordinates) -> Result:
    asked = _serve_settings(plan, point)
    if "rate" not in point:
        return serving(_setup(plan), **asked)
    fastest, rate = server_of(_setup(plan), **asked).fastest, point["rate"]
    taken = where(rate <= fastest, rate, fastest / 2)
    return serving(_setup(plan), **{**asked, "load": replace(asked["load"], rate=taken)})


def _served(plan: Compiled, point: Coordinates) -> ArrayLike:
    """Whether the rate is at most the server's maximum."""
    if "rate" not in point:
        return np.True_
    return point["rate"] <= np.asarray(server_of(_setup(plan), **_serve_settings(plan, point)).fastest)


SERVED = tuple(name for name, s in question_settings(serve).items() if s.parameter in ("how", "speculation", "images"))
"""Settings of a server other than its place and its load."""


def _train(plan: Compiled, point: Coordinates) -> Result:
    options: Settings = {**plan.settings, **point}
    result: Result = train(plan.model, **options)
    return result


_STEP = ("time", "time_floor", "time_low", "time_high")
_RATES = ("bound", "tokens_per_second", "tokens_per_second_per_chip", "memory_total", "fits")
_CHIPS = {"tokens_per_second_per_chip": ("tokens/s", _per_chip)}
_AT_ONCE = {"all_in_memory": ("", all_in_memory)}
QUESTIONS: Mapping[str, Question] = {
    q.name: q
    for q in (
        Question(
            "decode", ("batch", "context"), {"batch": 1}, "time", (*_STEP, "tpot", *_RATES), lambda p: p["context"] + 1,
            _decode, more={"tpot": ("s", step_tpot), **_CHIPS},
        ),
        Question(
            "prefill", ("batch", "input"), {"batch": 1}, "time", (*_STEP, "ttft", *_RATES), lambda p: p["input"],
            _prefill, more={"ttft": ("s", step_ttft), **_CHIPS},
        ),
        Question(
            "generate", ("batch", "input", "output"), {"batch": 1}, "latency",
            ("ttft", "tpot", "latency", "waves", *_RATES[1:]), lambda p: p["input"] + p["output"] - 1, _generate,
            more=_AT_ONCE,
        ),
        Question(
            "serve", tuple(AXIS_NAMES.get(name, name) for name in group_settings(Load)),
            {name: s.default for name, s in group_settings(Load).items() if not s.needed}, "tpot",
            ("ttft", "tpot", "latency", "requests_per_second", "in_flight", "capacity", *_RATES[1:]),
            lambda p: p["input"] + p["output"] - 1, _serve, _served, more=_AT_ONCE, options=SERVED,
        ),
        Question(
            "train", ("batch", "tokens", "micro_batch"), {"micro_batch": None}, "time",
            (*_STEP, "tokens_per_second", "tokens_per_second_per_chip", "mfu", "bubble", "memory_total", "fits"),
            lambda p: p["tokens"], _train, options=("recompute", "recipe", "optimizer", "schedule", "loss"),
            together=False,
        ),
    )
}  # fmt: skip
"""Name → question."""


def question_named(name: str) -> Question:
    """A question by name. Raises InputError for an unknown name."""
    if name not in QUESTIONS:
        raise not_one_of("phase", name, QUESTIONS)
    return QUESTIONS[name]
