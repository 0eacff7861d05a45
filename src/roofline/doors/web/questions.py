"""The table of API questions, and the functions that answer them in worker processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ValidationError

from roofline.declared.errors import InputError, nearest
from roofline.declared.result import Result
from roofline.declared.trees import JsonObject
from roofline.doors.web import answers as a
from roofline.doors.web import exports as more
from roofline.doors.web import request_models as b
from roofline.doors.web.allow_list import NOTHING_MORE, Allowed

if TYPE_CHECKING:
    from fastapi.exceptions import RequestValidationError

AskedOfPage: TypeAlias = tuple[str, str]
"""A question's name and its request body as JSON."""
Answered: TypeAlias = bytes | Exception
"""An answer's JSON or file content, or the exception that prevented it."""


JSON, HTML, PARQUET, CSV = "application/json", "text/html", "application/vnd.apache.parquet", "text/csv"


@dataclass(frozen=True)
class ApiQuestion:
    """A route: body model, handler, whether it is `heavy` (answered by the pool for long questions), media type."""

    body: type[b.Body]
    answer: Callable[[b.Body, Allowed], a.ApiAnswer]
    heavy: bool = False
    media: str = JSON


def table_answer(asked: b.Body, allowed: Allowed) -> bytes:
    """An answer as a CSV or Parquet table with one row per point."""
    more.check_table(asked.name, asked.form)
    question = QUESTIONS[asked.name]
    try:
        body = question.body.model_validate(asked.body)
    except ValidationError as error:
        raise invalid_body(error, question.body) from error
    answer = question.answer(body, allowed)
    assert isinstance(answer, Result)
    return more.table_bytes(answer, asked.form)


QUESTIONS = MappingProxyType({
    "limits": ApiQuestion(b.ModelAsked, more.limits_answer),
    "answer": ApiQuestion(b.AnswerAsked, a.answer_answer, heavy=True),
    "machines": ApiQuestion(b.MachinesAsked, a.machines_answer, heavy=True),
    "analyze": ApiQuestion(b.AnalyzeAsked, a.analyze_answer),
    "estimate": ApiQuestion(b.EstimateAsked, a.estimate_answer),
    "explain": ApiQuestion(b.ExplainAsked, a.explain_answer),
    "generate": ApiQuestion(b.GenerateAsked, a.generate_answer),
    "encode": ApiQuestion(b.EncodeAsked, a.encode_answer),
    "serve": ApiQuestion(b.ServeAsked, a.serve_answer),
    "fit": ApiQuestion(b.FitAsked, a.fit_answer),
    "offload": ApiQuestion(b.OffloadAsked, a.offload_answer, heavy=True),
    "diff": ApiQuestion(b.DiffAsked, more.diff_answer, heavy=True),
    "train": ApiQuestion(b.TrainAsked, a.train_answer),
    "timeline": ApiQuestion(b.TimelineAsked, more.timeline_answer, heavy=True),
    "remedies": ApiQuestion(b.RemediesAsked, more.remedies_answer, heavy=True),
    "layouts": ApiQuestion(b.LayoutsAsked, more.layouts_answer, heavy=True),
    "sweep": ApiQuestion(b.SweepAsked, a.sweep_answer, heavy=True),
    "plot": ApiQuestion(b.PlotAsked, a.plot_answer),
    "simulate": ApiQuestion(b.SimulateAsked, a.simulate_answer, heavy=True),
    "search": ApiQuestion(b.SearchAsked, a.search_answer, heavy=True),
    "solve": ApiQuestion(b.SolveAsked, more.solve_answer, heavy=True),
    "advice": ApiQuestion(b.AdviceAsked, a.advice_answer, heavy=True),
    "runs": ApiQuestion(b.RunsAsked, more.runs_answer, heavy=True),
    "gguf": ApiQuestion(b.GgufAsked, more.gguf_answer, heavy=True),
    "launch": ApiQuestion(b.LaunchAsked, more.launch_answer, heavy=True),
    "recipe": ApiQuestion(b.RecipeAsked, more.recipe_answer, heavy=True),
    "report": ApiQuestion(b.ReportAsked, more.report_answer, heavy=True, media=HTML),
    "table": ApiQuestion(b.TableAsked, table_answer, heavy=True, media="application/octet-stream"),
})  # fmt: skip
"""Route name → question, for every question of the API."""


EXPECTED = MappingProxyType({"extra_forbidden": "a field that this question takes", "missing": "a value"})
"""Pydantic error type → expected input, where Pydantic's own message is unclear."""


NO_THREAD = "can't start new thread"
"""What Python says where the memory of a process does not suffice for a thread."""
_KIND = re.compile(r"constrained-.*|.*\[.*|int|float|str|bool")
"""Type names of union members, which Pydantic appends to the location of an error."""


def first_fault(error: ValidationError | RequestValidationError) -> tuple[str, str]:
    """The first invalid field of a request body and the expected input."""
    first, *others = error.errors()
    if isinstance(first["input"], list):  # a number or a list is allowed: report the fault of the list
        first = next((other for other in others if other["input"] == first["input"]), first)
    parts = (str(part) for part in first["loc"] if part != "body" and not _KIND.fullmatch(str(part)))
    field = ".".join(parts)[:200] or "body"
    return field, EXPECTED.get(first["type"]) or first["msg"].removeprefix("Input should be ")


def invalid_body(error: ValidationError | RequestValidationError, body: type[BaseModel]) -> InputError:
    """Convert a validation error to InputError, with the library's message for an invalid setting and the nearest field
    names for an unknown one.
    """
    field, expected = first_fault(error)
    first, owner = error.errors()[0], body
    *within, last = [str(part) for part in first["loc"] if part != "body"] or [""]
    for part in within:
        inner = owner.model_fields[part].annotation if part in owner.model_fields else None
        owner = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else owner
    if first["type"] == "extra_forbidden":
        return InputError(field, first["input"], expected, nearest(last, owner.model_fields))
    setting = owner.declared.get(field.rpartition(".")[2]) if issubclass(owner, b.Body) else None
    if setting is not None and not isinstance(first["input"], (list, dict)):
        try:
            setting.kind.check(field, first["input"])
        except InputError as wrong:
            return wrong
    return InputError(field, first.get("input"), expected)


def answered(name: str, body: JsonObject, allowed: Allowed = NOTHING_MORE) -> JsonObject | bytes:
    """Answer a question: a parsed JSON body in, a JSON object or the bytes of a file out. Raises InputError."""
    question = QUESTIONS[name]
    answer = question.answer(question.body.model_validate(body), allowed)
    return answer.to_dict() if isinstance(answer, Result) else answer


def answered_all(asked: Sequence[AskedOfPage], allowed: Allowed) -> list[Answered]:
    """Answer several questions independently; the failure of one does not affect the others."""
    return [_tried(name, body, allowed) for name, body in asked]


def as_json(answer: JsonObject) -> bytes:
    """Serialize an answer as compact JSON."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


def _tried(name: str, body: str, allowed: Allowed) -> Answered:
    try:
        answer = answered(name, json.loads(body), allowed)
        return answer if isinstance(answer, bytes) else as_json(answer)
    except (InputError, ArithmeticError, RecursionError, MemoryError) as error:
        return error
    except Exception as error:
        if str(error) == NO_THREAD:
            return MemoryError(NO_THREAD)
        return RuntimeError(f"{type(error).__name__}: {error}")
