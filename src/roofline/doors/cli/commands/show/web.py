"""`roofline web`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError
from roofline.declared.question import Setting, question_settings
from roofline.doors.cli.common import Switch, say
from roofline.doors.cli.derived import option_name, options_given, with_settings
from roofline.extras import install_line
from roofline.serving.serve import serve

if TYPE_CHECKING:
    from roofline.declared.trees import JsonValue
    from roofline.doors.web.page.scenario import SettingValue

AXES = ("on", "input", "concurrency")
"""Settings that can be changed on an exported page."""
GRID: Mapping[str, Sequence[SettingValue]] = MappingProxyType({
    "input": (256, 1024, 4096, 16384), "concurrency": (1, 4, 16, 32, 64, 128)
})  # fmt: skip
"""Default prompt lengths and concurrencies of an exported page."""


def _option(name: str, setting: Setting) -> Setting:
    several = " Several, with --export: the choices of the page." if name in AXES else ""
    return replace(setting, help=setting.help + several)


def _value(name: str, word: str) -> SettingValue:
    value: SettingValue = OPTIONS[name].kind.read(option_name(name), word)
    return value


OPTIONS: Mapping[str, Setting] = {name: _option(name, setting) for name, setting in question_settings(serve).items()}


@with_settings(OPTIONS, several=AXES, optional=tuple(OPTIONS))
def web(
    *,
    port: int = 8600,
    host: str = "127.0.0.1",
    hub: Switch = False,
    token: str | None = None,
    browser: bool = True,
    export: Path | None = None,
    force: Switch = False,
    model: str | None = None,
    **given: object,
) -> None:
    """Serve the web page, where you choose a model, a machine and a load. Settings given here are its initial ones.

    Example: `roofline web --port 8600 --on h200-sxm --input 4096`

    Parameters
    ----------
    port:
        Port to listen on.
    host:
        Address to listen on; a --token is required unless only this machine can reach it.
    hub:
        Look up Hub ids that are not in the catalog, without any token of this machine.
    token:
        Bearer token that clients must send: Authorization: Bearer TOKEN.
    browser:
        Open the page in the browser; disable with --no-browser.
    export:
        Write the page to this folder instead, with answers on a grid; its index.html needs no server.
    force:
        With --export: write into a folder that is not empty.
    model:
        A catalog model, a config.json or a GGUF file (meta-llama/Llama-3.1-8B).
    """
    if not 1 <= port <= 65535:
        raise InputError("--port", port, "a port from 1 to 65535")
    try:
        from roofline.doors.web.page.export import export_grid, export_page
        from roofline.doors.web.page.scenario import Scenario, usual
        from roofline.doors.web.run_page import run_page
    except ImportError as error:
        raise InputError("web", f"no {error.name}", install_line("web")) from error
    settings = options_given(given)
    axes = {name: [_value(name, word) for word in settings.pop(name, ())] for name in AXES}
    first = {name: values[0] for name, values in axes.items() if values}
    start = Scenario(Scenario.model if model is None else _model_of_page(model), {**usual(), **settings, **first})
    if export is None:
        several = next((name for name, values in axes.items() if len(values) > 1), None)
        if several is not None:
            raise InputError(option_name(several), axes[several], "one value, with --export several")
        run_page(host, port, hub, token, browser, start)
        return
    moved = {name: axes[name] or GRID.get(name) or [start.settings[name]] for name in AXES}
    answers = export_page(export, export_grid(start, moved), force)
    say(f"{export / 'index.html'}: {answers} answers, for a browser without a server")


def _model_of_page(name: str) -> str | dict[str, JsonValue]:
    """A catalog name, a parsed config, or the header of a GGUF file."""
    path = Path(name)
    if not path.exists():
        return name
    from roofline.model.load import config_of
    from roofline.model.sources.origin import is_gguf

    if not is_gguf(name):
        return config_of(name)[1]
    from roofline.doors.web.page.gguf_model import LONGEST_HEAD, small_header

    with path.open("rb") as file:
        return small_header(file.read(LONGEST_HEAD), path.stat().st_size)
