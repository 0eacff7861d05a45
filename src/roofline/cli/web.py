"""`roofline web`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cyclopts import Parameter

from roofline.cli.common import Needed, Several, Switch, Wholes, say
from roofline.declared.errors import InputError
from roofline.extras import install_line


@Parameter(name="*")
@dataclass(frozen=True)
class ExportChoices:
    """A folder that shows the page without a server: what is computed for it."""

    export: Path | None = None
    "Write the page into this folder instead, with the answers on a grid: a browser opens its index.html as it is."
    model: str = "meta-llama/Llama-3.1-8B"
    "With --export: a model of the catalog, a config.json or a GGUF file."
    on: Several = None
    "With --export: machines that can be chosen (h100-sxm); the first is shown."
    input: Wholes = field(default_factory=lambda: [256, 1024, 4096, 16384])
    "With --export: prompt tokens that can be chosen."
    concurrency: Wholes = field(default_factory=lambda: [1, 4, 16, 32, 64, 128])
    "With --export: requests in flight that can be chosen."
    output: Needed = 256
    "With --export: tokens of an answer."
    layout: str = ""
    "With --export: degrees such as `tp=8`."
    precision: str = ""
    "With --export: formats such as `fp8`."
    engine: str = ""
    "With --export: whose kernels and memory rule."
    force: Switch = False
    "With --export: write into a folder with files in it."


def web(
    *,
    port: int = 8600,
    host: str = "127.0.0.1",
    hub: Switch = False,
    token: str | None = None,
    browser: bool = True,
    exported: ExportChoices | None = None,
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
    if exported is not None and exported.export is not None:
        _export(exported, exported.export)
        return
    from roofline.web.run_page import run_page

    if not 1 <= port <= 65535:
        raise InputError("--port", port, "a port from 1 to 65535")
    run_page(host, port, hub, token, browser)


def _model_of_page(name: str) -> str | dict[str, Any]:
    """A name of the catalog, or what a file says: a config, or the header of a GGUF file."""
    path = Path(name)
    if not path.exists():
        return name
    from roofline.model.load import config_of
    from roofline.model.origin import is_gguf

    if not is_gguf(name):
        return config_of(name)[1]
    from roofline.web.gguf_model import LONGEST_HEAD, small_header

    with path.open("rb") as file:
        return small_header(file.read(LONGEST_HEAD), path.stat().st_size)


def _export(given: ExportChoices, folder: Path) -> None:
    try:
        from roofline.web.export import export_grid, export_page
    except ImportError as error:
        raise InputError("web", f"no {error.name}", install_line("web")) from error
    from roofline.web.scenario import Scenario

    model = _model_of_page(given.model)
    scenario = Scenario(
        model=model, output=given.output, layout=given.layout, precision=given.precision, engine=given.engine
    )
    grid = export_grid(scenario, given.on or ["h100-sxm"], given.input or [1024], given.concurrency or [32])
    answers = export_page(folder, grid, given.force)
    say(f"{folder / 'index.html'}: {answers} answers, for a browser without a server")
