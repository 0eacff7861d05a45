"""The table of questions, and what a process that answers them is given and gives back: plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from roofline.model.errors import InputError
from roofline.web import answers as a
from roofline.web import bodies as b

AskedOfPage: TypeAlias = tuple[str, str]
"""A question's name, and its body as JSON."""
Answered: TypeAlias = bytes | Exception
"""The JSON of an answer, or why there is none."""


@dataclass(frozen=True)
class ApiQuestion:
    """A route: its body, what answers it, and whether it is long, so that quick ones need not wait for it."""

    body: type[b.ModelAsked]
    answer: Callable[[Any, bool], dict[str, Any]]
    heavy: bool = False


QUESTIONS = MappingProxyType({
    "analyze": ApiQuestion(b.StepAsked, a.analyze_answer),
    "estimate": ApiQuestion(b.EstimateAsked, a.estimate_answer),
    "explain": ApiQuestion(b.ExplainAsked, a.explain_answer),
    "generate": ApiQuestion(b.GenerateAsked, a.generate_answer),
    "serve": ApiQuestion(b.ServeAsked, a.serve_answer),
    "fit": ApiQuestion(b.FitAsked, a.fit_answer),
    "train": ApiQuestion(b.TrainAsked, a.train_answer),
    "sweep": ApiQuestion(b.SweepAsked, a.sweep_answer, heavy=True),
    "plot": ApiQuestion(b.PlotAsked, a.plot_answer),
    "simulate": ApiQuestion(b.SimulateAsked, a.simulate_answer, heavy=True),
    "search": ApiQuestion(b.SearchAsked, a.search_answer, heavy=True),
    "advice": ApiQuestion(b.GenerateAsked, a.advice_answer, heavy=True),
})  # fmt: skip
"""Every question of the API."""


def answered(name: str, body: dict[str, Any], hub: bool = False) -> dict[str, Any]:
    """The answer to a question whose body is plain data. Raises InputError."""
    question = QUESTIONS[name]
    return question.answer(question.body.model_validate(body), hub)


def answered_all(asked: Sequence[AskedOfPage], hub: bool) -> list[Answered]:
    """The answers to several questions, each on its own: one that cannot be answered keeps no other from it."""
    return [_tried(name, body, hub) for name, body in asked]


def as_json(answer: Any) -> bytes:
    """The text that a client gets, without a blank too many."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


def _tried(name: str, body: str, hub: bool) -> Answered:
    try:
        return as_json(answered(name, json.loads(body), hub))
    except (InputError, ArithmeticError, RecursionError, MemoryError) as error:
        return error
    except Exception as error:
        return RuntimeError(f"{type(error).__name__}: {error}")
