"""Static files of the page and Plotly, compressed once. Only existing file names are served."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from roofline.declared.errors import InputError
from roofline.extras import install_line
from roofline.version import __version__

STATIC = Path(__file__).parents[1] / "static"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json",
         ".svg": "image/svg+xml"}  # fmt: skip
FOR_EVER = "public, max-age=31536000, immutable"
"""`Cache-Control` of a file whose name changes with its content."""


def plotly_file() -> Path:
    """Path of the JavaScript bundled with the Plotly Python package. Raises InputError if it is not installed."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise InputError("plotly", "not installed", install_line("web", "plotly"))
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


@cache
def plotly_name() -> str:
    """File name with the Plotly version, so that browsers can cache the file indefinitely."""
    from importlib.metadata import version

    return f"plotly-{version('plotly')}.js"


FORM = "<!-- form -->"
"""Placeholder in `index.html` for the form's JSON."""


def page_text(form: str) -> str:
    """The page with its form and a preload link for each module, so that browsers load the modules in parallel."""
    modules = "".join(
        f'<link rel="modulepreload" href="/static/{file.name}">\n'
        for file in sorted(STATIC.glob("*.js"))
        if file.name != "theme.js"
    )
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    return text.replace("<!-- modules -->\n", modules).replace("PLOTLY", f"/static/{plotly_name()}").replace(FORM, form)


def add_files(app: FastAPI, form: str) -> None:
    """Add the routes of the page and its static files; `form` is the form's JSON."""
    files = {file.name: file for file in STATIC.iterdir() if file.suffix in TYPES}
    page = page_text(form)

    @cache
    def content(name: str, packed: bool) -> bytes:
        if name == "index.html":
            plain = page.encode()
        else:
            plain = (plotly_file() if name == plotly_name() else files[name]).read_bytes()
        return gzip.compress(plain, 6, mtime=0) if packed else plain

    async def sent(name: str, kind: str, request: Request) -> Response:
        changed = (plotly_file() if name == plotly_name() else files[name]).stat().st_mtime_ns
        tag = f'"{__version__}-{crc32(page.encode()) if name == "index.html" else changed:x}"'
        headers = {"etag": tag, "vary": "accept-encoding"}
        if name == plotly_name():
            headers["cache-control"] = FOR_EVER
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if packed := "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
        return Response(await run_in_threadpool(content, name, packed), headers=headers, media_type=kind)

    @app.get("/", include_in_schema=False)
    async def _page(request: Request) -> Response:
        return await sent("index.html", "text/html", request)

    @app.get("/static/{name}", include_in_schema=False)
    async def _static(name: str, request: Request) -> Response:
        if name == plotly_name():
            return await sent(name, "text/javascript", request)
        if name not in files:
            raise HTTPException(404)
        return await sent(name, TYPES[files[name].suffix], request)
