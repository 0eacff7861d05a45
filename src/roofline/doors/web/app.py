"""The web application: routes of the REST API, the page and its static files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from roofline.declared.errors import InputError, error_line, not_one_of
from roofline.declared.trees import JsonValue
from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.page.files import add_files
from roofline.doors.web.page.page_form import form_text
from roofline.doors.web.page.scenario import FIRST_VIEW, Scenario
from roofline.doors.web.questions import (
    JSON,
    QUESTIONS,
    Answered,
    ApiQuestion,
    AskedOfPage,
    as_json,
    first_fault,
    invalid_body,
)
from roofline.doors.web.request_models import BatchAsked, Body, Refusal
from roofline.doors.web.server.dispatcher import Desk
from roofline.doors.web.server.fair_queue import Asker, BusyError
from roofline.doors.web.server.middleware import AsgiApp, Guard
from roofline.engines.engine import engines
from roofline.hardware.chip import chips
from roofline.hardware.cluster import clusters
from roofline.model.sources.choice import chosen_models
from roofline.version import __version__
from roofline.views.text.catalogs.chips import ChipFacts, Chips, ClusterFacts, Clusters
from roofline.views.text.catalogs.models import Catalog

API = "/api/v1"
QUICK = tuple(name for name, question in QUESTIONS.items() if not question.heavy)
"""Questions that may be sent in one request to the `batch` route."""
TOO_MUCH = (ArithmeticError, RecursionError, MemoryError)
WORTH_PACKING = 8192
"""Minimum size in bytes of a response that is compressed."""
PROBLEMS: dict[int | str, dict[str, type[Refusal] | str]] = {
    400: {"model": Refusal, "description": "The body is no valid JSON"},
    401: {"model": Refusal, "description": "A token is needed"},
    413: {"model": Refusal, "description": "The body is larger than the server accepts"},
    422: {
        "model": Refusal,
        "description": "Invalid settings: one line with the field, the value and what was expected",
    },
    429: {"model": Refusal, "description": "Too many requests of this client wait; `Retry-After` says how long"},
    503: {"model": Refusal, "description": "Too many requests wait; `Retry-After` says how long"},
}
LONGEST_SESSION = 64
"""Maximum number of characters of a session's name."""


def page_app(
    allowed: Allowed = NOTHING_MORE,
    token: str | None = None,
    hosts: frozenset[str] | None = None,
    start: Scenario | None = None,
) -> AsgiApp:
    """Create the ASGI application. `allowed`: names accepted beyond the catalogs; `token`, `hosts`: see `Guard`.

    `start`: the scenario that the page shows first.
    """
    desk = Desk(allowed)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        first = [(name, _checked(name, body)) for name, body in map((start or Scenario()).body, FIRST_VIEW)]
        desk.quick.first = first
        warming = asyncio.create_task(desk.quick.prepare())
        yield
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        desk.close()

    app = FastAPI(title="Roofline", version=__version__, docs_url=None, redoc_url=None,
                  openapi_url=f"{API}/openapi.json", lifespan=life)  # fmt: skip
    for name, question in QUESTIONS.items():
        app.post(f"{API}/{name}", responses=PROBLEMS, name=name, description=question.answer.__doc__)(
            _route(name, question, desk)
        )
    _together(app, desk)
    _queue(app, desk)
    _catalogs(app)
    add_files(app, form_text(start))
    app.exception_handler(InputError)(_wrong)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_missing)
    app.exception_handler(BusyError)(_busy)
    for kind in TOO_MUCH:
        app.exception_handler(kind)(_wrong)
    app.add_middleware(GZipMiddleware, minimum_size=WORTH_PACKING, compresslevel=1)
    return Guard(app, token, hosts)


def _route(name: str, question: ApiQuestion, desk: Desk) -> Callable[[Body, Request], Awaitable[Response]]:
    body_type = question.body

    async def answer(body: Body, request: Request) -> Response:
        (given,) = await desk.ask([(name, _sorted(body))], request.is_disconnected, _asker(request))
        if isinstance(given, Exception):
            raise given
        return Response(given, media_type=JSON if getattr(body, "form", "") == "json" else question.media)

    answer.__annotations__ = {"body": body_type, "request": Request, "return": Response}
    return answer


def _sorted(body: BaseModel) -> str:
    """What was given, without defaults: what replaces a default can then be told from what contradicts it."""
    return json.dumps(body.model_dump(exclude_unset=True), sort_keys=True, separators=(",", ":"))


def _checked(name: str, body: Mapping[str, JsonValue]) -> str:
    """Validate a request body and return it as JSON with sorted keys. Raises InputError."""
    if name not in QUICK:
        raise not_one_of("name", name, QUICK)
    try:
        return _sorted(QUESTIONS[name].body.model_validate(body))
    except ValidationError as error:
        raise invalid_body(error, QUESTIONS[name].body) from error


def _together(app: FastAPI, desk: Desk) -> None:
    @app.post(f"{API}/batch", responses=PROBLEMS, name="batch")
    async def batch(body: BatchAsked, request: Request) -> Response:
        """Several quick questions in one request. Each has a `status`, and an `answer` (200) or a `problem`."""
        asked: list[AskedOfPage | InputError] = []
        for each in body.questions:
            try:
                asked.append((each.name, _checked(each.name, each.body)))
            except InputError as error:
                asked.append(error)
        sound = [each for each in asked if isinstance(each, tuple)]
        answers = iter(await desk.ask(sound, request.is_disconnected, _asker(request))) if sound else iter(())
        parts = [_part(next(answers) if isinstance(each, tuple) else each) for each in asked]
        return Response(b'{"answers":[' + b",".join(parts) + b"]}", media_type="application/json")


def _queue(app: FastAPI, desk: Desk) -> None:
    @app.get(f"{API}/queue", responses=PROBLEMS, name="queue")
    async def queue(request: Request) -> dict[str, list[int]]:
        """Places in the queue of this client's long questions, 1 for the next. A client is an address, and the session
        that its header `X-Session` names.
        """
        return {"places": desk.places(_asker(request))}


def _asker(request: Request) -> Asker:
    address = "" if request.client is None else request.client.host
    return Asker(address, request.headers.get("x-session", "")[:LONGEST_SESSION])


def _part(answer: Answered) -> bytes:
    if isinstance(answer, bytes):
        return b'{"status":200,"answer":' + answer + b"}"
    problem = _refusal_of(answer)
    if problem is None:
        raise answer
    return as_json({"status": 422, "problem": problem.model_dump()})


def _catalogs(app: FastAPI) -> None:
    """Add the routes that list models, chips, clusters and engines."""

    @cache
    def models(find: str) -> bytes:
        return as_json(Catalog(chosen_models(text=find or None)).to_dict())

    @app.get(f"{API}/models", responses=PROBLEMS, description="`roofline.models`: the catalog, or what has a text.")
    def _models(find: str = "") -> Response:
        if len(find) > 80:
            raise InputError("find", find, "at most 80 characters")
        return Response(models("") if not find else models.__wrapped__(find), media_type="application/json")

    @app.get(f"{API}/chips", responses=PROBLEMS, description="`roofline.chips`: every chip.")
    def _chips() -> Response:
        return Response(
            as_json(Chips(tuple(map(ChipFacts, chips().values()))).to_dict()), media_type="application/json"
        )

    @app.get(f"{API}/clusters", responses=PROBLEMS, description="`roofline.clusters`: every cluster.")
    def _clusters() -> Response:
        every = Clusters(tuple(map(ClusterFacts, clusters().values())))
        return Response(as_json(every.to_dict()), media_type="application/json")

    @app.get(f"{API}/engines", responses=PROBLEMS, description="The names of engines.")
    def _engines() -> list[str]:
        return list(engines())


def _said(status: int, problem: Refusal, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(problem.model_dump(), status, headers)


def _refusal_of(error: Exception) -> Refusal | None:
    """Error response for a question that cannot be answered; None if the error is a bug of this program."""
    if isinstance(error, InputError):
        near = [str(word) for word in error.nearest]
        return Refusal(message=error_line(error), field=error.field[:200], expected=error.expected, nearest=near)
    if isinstance(error, TOO_MUCH):
        message = "sizes: expected work that fits in numbers and memory, got more"
        return Refusal(message=message, field="sizes", expected=type(error).__name__)
    return None


def _wrong(_: Request, error: Exception) -> JSONResponse:
    problem = _refusal_of(error)
    assert problem is not None
    return _said(422, problem)


def _busy(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BusyError)
    problem = Refusal(message=str(error), field="queue", expected=error.expected)
    return _said(429 if error.of_client else 503, problem, {"retry-after": str(error.retry)})


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if error.errors()[0]["type"].startswith("json"):
        field, expected = first_fault(error)
        return _said(400, Refusal(message=f"{field}: expected {expected}", field=field, expected=expected))
    name = request.url.path.rpartition("/")[2]
    return _wrong(request, invalid_body(error, QUESTIONS[name].body if name in QUESTIONS else BatchAsked))


def _missing(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    message = str(error.detail)
    problem = Refusal(message=message, field="request", expected="a route of the API")
    return _said(error.status_code, problem, error.headers)
