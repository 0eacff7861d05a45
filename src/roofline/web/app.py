"""The server: the routes of the REST API, the page and its files."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from roofline.machine.chip import chips
from roofline.machine.engine import engines
from roofline.machine.fabric import clusters
from roofline.model.choice import chosen_models
from roofline.model.errors import InputError, error_line
from roofline.remember import remembered
from roofline.show.chips import ChipFacts, Chips, ClusterFacts, Clusters
from roofline.show.models import Catalog
from roofline.version import __version__
from roofline.web.answers import QUESTIONS, ApiQuestion, answered
from roofline.web.bodies import Refusal
from roofline.web.guard import AsgiApp, Guard
from roofline.web.workers import Workers

STATIC = Path(__file__).with_name("static")
API = "/api/v1"
GONE = 499
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "What cannot be read"},
    401: {"model": Refusal, "description": "A token is needed"},
    413: {"model": Refusal, "description": "More than the server takes"},
    422: {"model": Refusal, "description": "What cannot be: one line that says why"},
}
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json",
         ".svg": "image/svg+xml"}  # fmt: skip


def page_app(hub: bool = False, token: str | None = None, hosts: frozenset[str] | None = None) -> AsgiApp:
    """The whole application. `hub`: whether Hub ids are looked up; `token`, `hosts`: see `Guard`."""
    workers = Workers()

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        workers.close()

    app = FastAPI(title="Roofline", version=__version__, docs_url=None, redoc_url=None,
                  openapi_url=f"{API}/openapi.json", lifespan=life)  # fmt: skip
    for name, question in QUESTIONS.items():
        app.post(f"{API}/{name}", responses=PROBLEMS, name=name, description=question.answer.__doc__)(
            _route(name, question, workers, hub)
        )
    _catalogs(app)
    _files(app)
    app.exception_handler(InputError)(_wrong)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_missing)
    for kind in (ArithmeticError, RecursionError, MemoryError):
        app.exception_handler(kind)(_too_much)
    return Guard(app, token, hosts)


def _route(name: str, question: ApiQuestion, workers: Workers, hub: bool) -> Any:
    body_type = question.body

    async def answer(body: Any, request: Request) -> Response:
        asked = body.model_dump()
        if question.heavy:
            given = await workers.ask(name, asked, hub, request.is_disconnected)
            return Response(_text(given), media_type="application/json")
        kept = await run_in_threadpool(_kept, name, json.dumps(asked, sort_keys=True), hub)
        return Response(kept, media_type="application/json")

    answer.__annotations__ = {"body": body_type, "request": Request, "return": Response}
    return answer


@remembered(1024)
def _kept(name: str, body: str, hub: bool) -> bytes:
    """The answer's bytes: who moves a slider back and forth asks the same again."""
    return _text(answered(name, json.loads(body), hub))


def _text(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


def _catalogs(app: FastAPI) -> None:
    """What can be chosen."""

    @cache
    def models(find: str) -> bytes:
        return _text(Catalog(chosen_models(text=find or None)).to_dict())

    @app.get(f"{API}/models", responses=PROBLEMS, description="`roofline.models`: the catalog, or what has a text.")
    def _models(find: str = "") -> Response:
        if len(find) > 80:
            raise InputError("find", find, "at most 80 characters")
        return Response(models("") if not find else models.__wrapped__(find), media_type="application/json")

    @app.get(f"{API}/chips", responses=PROBLEMS, description="`roofline.chips`: every chip.")
    def _chips() -> Response:
        return Response(_text(Chips(tuple(map(ChipFacts, chips().values()))).to_dict()), media_type="application/json")

    @app.get(f"{API}/clusters", responses=PROBLEMS, description="`roofline.clusters`: every cluster.")
    def _clusters() -> Response:
        every = Clusters(tuple(map(ClusterFacts, clusters().values())))
        return Response(_text(every.to_dict()), media_type="application/json")

    @app.get(f"{API}/engines", responses=PROBLEMS, description="The names of engines.")
    def _engines() -> list[str]:
        return list(engines())


def _files(app: FastAPI) -> None:
    """The page, its modules, and Plotly's own file; names are looked up among those that there are."""
    files = {f.name: f for f in STATIC.iterdir() if f.suffix in TYPES}

    @app.get("/", include_in_schema=False)
    def _page() -> Response:
        return FileResponse(files["index.html"], media_type="text/html")

    @app.get("/static/{name}", include_in_schema=False)
    def _static(name: str) -> Response:
        if name == "plotly.js":
            return FileResponse(plotly_file(), media_type="text/javascript")
        if name not in files:
            raise HTTPException(404)
        return FileResponse(files[name], media_type=TYPES[files[name].suffix])


def plotly_file() -> Path:
    """The JavaScript that comes with Plotly's Python package."""
    from importlib.util import find_spec

    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise InputError("plotly", "not installed", "the extra: pip install 'roofline[web]'")
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def _said(status: int, message: str, field: str, expected: str, near: tuple[str, ...] = ()) -> JSONResponse:
    problem = Refusal(message=message, field=field, expected=expected, nearest=list(near))
    return JSONResponse(problem.model_dump(), status)


def _wrong(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InputError)
    return _said(422, error_line(error), error.field[:200], error.expected, error.nearest)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"] if part != "body")[:200] or "body"
    expected = first["msg"].removeprefix("Input should be ")
    status = 400 if first["type"].startswith("json") else 422
    return _said(status, f"{field}: expected {expected}", field, expected)


def _missing(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _said(error.status_code, str(error.detail), "request", "a route of the API")


def _too_much(_: Request, error: Exception) -> JSONResponse:
    return _said(422, "sizes: expected work that fits in numbers and memory, got more", "sizes", type(error).__name__)
