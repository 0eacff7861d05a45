"""Export the page to a folder that needs no server, with a scenario's answers on a grid of settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path

from roofline.declared.errors import InputError, error_line
from roofline.declared.trees import JsonValue
from roofline.doors.web.allow_list import Allowed
from roofline.doors.web.page.bundle import bundled
from roofline.doors.web.page.files import FORM, STATIC, plotly_file
from roofline.doors.web.page.page_form import form_text
from roofline.doors.web.page.scenario import INSTEAD, Scenario, SettingValue
from roofline.doors.web.questions import answered
from roofline.views.files.atomic import check_folder, whole_folder

VIEWS = ("overview", "roofline", "memory", "serving", "sweep", "structure", "compare", "away")
"""Views of an exported page: those whose questions are computed for every grid point."""
ASKED = ("limits", "serve", "front", "estimate", "plot", "diagram", "analyze", "fit", "sweep")
MOST_POINTS = 1000
AT_HOME = Allowed(files=True)
"""A local user writes the folder, so machine files are allowed."""
POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; "
    "img-src 'self' file: data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'"
)
"""Content security policy as on the server, plus `file:`, as some browsers do not match `file:` URLs to `'self'`."""


@dataclass(frozen=True)
class ExportGrid:
    """Settings that can be changed on the exported page, with their values; the first of each is shown initially."""

    scenario: Scenario
    axes: Mapping[str, tuple[SettingValue, ...]]

    def points(self) -> Iterator[Scenario]:
        """Yield every scenario of the grid in both phases. Raises InputError for too many points or a rate."""
        size = prod(map(len, self.axes.values()))
        if size > MOST_POINTS:
            raise InputError("--export", f"{size} points", f"at most {MOST_POINTS}: machines × inputs × concurrencies")
        for name, other in INSTEAD.items():
            if name in self.axes and self.scenario.given(other) is not None:
                raise InputError(other, self.scenario.given(other), f"no {other} with --export, which moves {name}")
        for phase in ("decode", "prefill"):
            for point in product(*self.axes.values()):
                settings = {**self.scenario.settings, **dict(zip(self.axes, point, strict=True))}
                yield replace(self.scenario, settings=settings, phase=phase)


def export_page(folder: Path, grid: ExportGrid, force: bool = False) -> int:
    """Write the folder, whose `index.html` opens in a browser without a server, and return the number of answers.

    Raises InputError if the folder is not empty and `force` is false, or if the scenario cannot be served.
    """
    check_folder(folder, force)
    data = _data(grid)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    scripts = '<script src="data.js" defer></script>\n<script src="page.js" defer></script>'
    for old, new in (
        ('<script type="module" src="/static/app.js"></script>', scripts),
        ('<link rel="preload" href="/static/messages.json" as="fetch" crossorigin>\n', ""),
        ("<!-- modules -->\n", f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'),
        ("PLOTLY", "plotly.js"),
        (FORM, form_text(next(grid.points()))),
        ("/static/", ""),
    ):
        page = page.replace(old, new)
    texts = {
        "index.html": page,
        "page.js": bundled(STATIC, "app"),
        "data.js": f"globalThis.ROOFLINE_EXPORT = {data};\n",
    }

    def fill(beside: Path) -> None:
        for name, text in texts.items():
            (beside / name).write_text(text, encoding="utf-8")
        for name in ("style.css", "icon.svg", "theme.js"):
            shutil.copyfile(STATIC / name, beside / name)
        shutil.copyfile(plotly_file(), beside / "plotly.js")

    whole_folder(folder, fill, force)
    return data.count('"schema":')


def _data(grid: ExportGrid) -> str:
    """JSON with the grid's answers by question, keyed as `static/api.js` looks them up, and the selectable values."""
    answers: dict[str, str] = {}
    problems: dict[str, str] = {}
    for scenario in grid.points():
        for view in ASKED:
            name, body = scenario.body(view)
            key = name + _text({**body, "model": 0})
            if key in answers or key in problems:
                continue
            try:
                answers[key] = _text(answered(name, body, AT_HOME))
            except InputError as error:
                problems[key] = error_line(error)
    if not any(key.startswith("serve") for key in answers):
        raise InputError("--export", "a grid", f"a scenario that can be served: {next(iter(problems.values()))}")
    known: dict[str, JsonValue] = {
        "views": VIEWS,
        "axes": {name: _in_order(values) for name, values in grid.axes.items()},
        "lists": {name: {name: []} for name in ("models", "chips", "clusters")},
        "messages": json.loads((STATIC / "messages.json").read_text(encoding="utf-8")), "problems": problems,
    }  # fmt: skip
    pairs = ",".join(f"{_text(key)}:{value}" for key, value in answers.items())
    return f'{_text(known)[:-1]},"answers":{{{pairs}}}}}'


def _text(value: JsonValue) -> str:
    """Serialize as `JSON.stringify` does in a browser."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _in_order(values: Sequence[SettingValue]) -> list[SettingValue]:
    """Sort numbers in ascending order for a slider; leave texts in their order."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    return [*sorted(numbers)] if len(numbers) == len(values) else list(values)


def export_grid(scenario: Scenario, axes: Mapping[str, Sequence[SettingValue]]) -> ExportGrid:
    """Create a grid with duplicate axis values removed."""
    return ExportGrid(scenario, {name: tuple(dict.fromkeys(values)) for name, values in axes.items()})
