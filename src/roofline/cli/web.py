"""`roofline web`."""

from __future__ import annotations

from roofline.cli.common import Switch
from roofline.model.errors import InputError


def web(
    *,
    port: int = 8600,
    host: str = "127.0.0.1",
    hub: Switch = False,
    token: str | None = None,
    browser: bool = True,
) -> None:
    """The page: choose a model, a machine and a load, and see what it takes.

    Example: `roofline web --port 8600`

    Parameters
    ----------
    port:
        Where it listens.
    host:
        The address it listens at; one that others reach needs a --token.
    hub:
        Look up Hub ids that are not in the catalog, without any token of this machine.
    token:
        What a client must show: Authorization: Bearer TOKEN.
    browser:
        Open the page in the browser; --no-browser does not.
    """
    from roofline.web.run_page import run_page

    if not 1 <= port <= 65535:
        raise InputError("--port", port, "a port from 1 to 65535")
    run_page(host, port, hub, token, browser)
