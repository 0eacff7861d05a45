"""`roofline mcp`."""

from __future__ import annotations

import os

from roofline.declared.errors import InputError
from roofline.doors.cli.common import Switch
from roofline.extras import install_line


def mcp(*, hub: Switch = False) -> None:
    """Serve Model Context Protocol tools over stdin and stdout: analyze, estimate, fit, serve, train, …

    Example: `roofline mcp`

    Parameters
    ----------
    hub:
        Look up Hub ids that are not in the catalog, without any token of this machine.
    """
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
    try:
        from roofline.doors.mcp import run_agent_server
    except ModuleNotFoundError as error:
        raise InputError("mcp", f"no {error.name}", install_line("mcp")) from error
    run_agent_server(hub)
