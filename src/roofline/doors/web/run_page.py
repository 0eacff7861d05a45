"""Start the web server: address, access token and browser."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError
from roofline.extras import install_line

if TYPE_CHECKING:
    import uvicorn

    from roofline.doors.web.page.scenario import Scenario
    from roofline.doors.web.server.middleware import AsgiApp

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


NOT_STARTED = 3
"""Exit code of a server that could not listen, which is uvicorn's own."""


def is_loopback(host: str) -> bool:
    """Whether a host address is reachable from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run_page(host: str, port: int, hub: bool, token: str | None, browser: bool, start: Scenario | None = None) -> None:
    """Serve until interrupted; `start`: initial scenario. Raises InputError for a public host without a token."""
    local = is_loopback(host)
    if not local and not token:
        raise InputError("--token", "nothing", f"a token, as others reach {host}; 127.0.0.1 needs none")
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and len(token) >= 8):
        raise InputError("--token", "one that is too short or has other signs", "at least 8 plain characters")
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        os.environ.pop(name, None)  # clients must not use the Hub token of the user who started the server
    try:
        import uvicorn

        from roofline.doors.web.allow_list import Allowed
        from roofline.doors.web.app import page_app
    except ModuleNotFoundError as error:
        raise InputError("web", f"no {error.name}", install_line("web")) from error
    app = page_app(Allowed(hub, own_machine=local), token, LOOPBACK if local else None, start)
    address = f"http://{'localhost' if local else host}:{port}/" + (f"#token={token}" if token else "")
    print(f"{address}  (Ctrl+C ends it)", file=sys.stderr)
    if browser and local:
        import webbrowser

        webbrowser.open(address)
    server = uvicorn.Server(page_config(app, host, port))
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(NOT_STARTED)


def page_config(app: AsgiApp, host: str, port: int) -> uvicorn.Config:
    """The settings of a server whose connections are bounded."""
    import uvicorn

    from roofline.doors.web.server.connections import IDLE_S, BoundedConnection

    return uvicorn.Config(
        app, host=host, port=port, log_level="warning", server_header=False, timeout_keep_alive=int(IDLE_S),
        http=BoundedConnection,
    )  # fmt: skip
