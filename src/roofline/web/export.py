"""The page in a folder that needs no server: a scenario on a grid of machines, prompts and requests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from roofline.declared.errors import InputError, error_line
from roofline.machine.engine import engines
from roofline.show.files import check_folder
from roofline.web.bundle import bundled
from roofline.web.choices import Allowed
from roofline.web.files import STATIC, plotly_file
from roofline.web.questions import answered
from roofline.web.scenario import Scenario

VIEWS = ("overview", "roofline", "memory", "serving", "sweep", "structure", "compare", "away")
"""Views that a folder can show: those whose questions are computed for every point of the grid."""
ASKED = ("limits", "serve", "front", "estimate", "plot", "diagram", "analyze", "fit", "sweep")
MOST_POINTS = 1000
AT_HOME = Allowed(files=True)
"""A folder is written by a person at this machine, who may name files."""
POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; "
    "img-src 'self' file: data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'"
)
"""As the server's; of a file, `'self'` is no origin in every browser."""


@dataclass(frozen=True)
class ExportGrid:
    """What can be moved in the folder: machines, tokens of a prompt, requests in flight; the first of each is shown."""

    scenario: Scenario
    on: tuple[str, ...]
    input: tuple[int, ...]
    concurrency: tuple[int, ...]

    def points(self) -> Iterator[Scenario]:
        """Every scenario of the grid, in both phases. Raises InputError for too many."""
        axes = (self.on, self.input, self.concurrency, ("decode", "prefill"))
        size = len(self.on) * len(self.input) * len(self.concurrency)
        if size > MOST_POINTS:
            raise InputError("--export", f"{size} points", f"at most {MOST_POINTS}: machines × inputs × concurrencies")
        for on, tokens, requests, phase in product(*axes):
            yield replace(self.scenario, on=on, input=tokens, concurrency=requests, phase=phase)


def export_page(folder: Path, grid: ExportGrid, force: bool = False) -> int:
    """Writes the folder, whose `index.html` a browser opens as it is, and says how many answers are in it.

    Raises InputError for a folder with files in it without `force`, and for a scenario that cannot be.
    """
    check_folder(folder, force)
    data = _data(grid)
    folder.mkdir(exist_ok=True)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    scripts = '<script src="data.js" defer></script>\n<script src="page.js" defer></script>'
    for old, new in (
        ('<script type="module" src="/static/app.js"></script>', scripts),
        ('<link rel="preload" href="/static/messages.json" as="fetch" crossorigin>\n', ""),
        ("<!-- modules -->\n", f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'),
        ("PLOTLY", "plotly.js"),
        ("/static/", ""),
    ):
        page = page.replace(old, new)
    texts = {
        "index.html": page,
        "page.js": bundled(STATIC, "app"),
        "data.js": f"globalThis.ROOFLINE_EXPORT = {data};\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("style.css", "icon.svg", "theme.js"):
        shutil.copyfile(STATIC / name, folder / name)
    shutil.copyfile(plotly_file(), folder / "plotly.js")
    return data.count('"schema":')


def _data(grid: ExportGrid) -> str:
    """The grid's answers by their questions, as `static/api.js` looks them up, and what can be chosen."""
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
    start = grid.scenario
    fields = {**start.timed, "layout": start.layout, "precision": start.precision, "engine": start.engine}
    fields |= {"on": grid.on[0], "input": grid.input[0], "output": start.output, "concurrency": grid.concurrency[0]}
    if not isinstance(start.model, str):
        fields |= {"model": "", "config": start.model}
    known: dict[str, Any] = {
        "scenario": fields, "views": VIEWS,
        "axes": {"on": grid.on, "input": sorted(grid.input), "concurrency": sorted(grid.concurrency)},
        "lists": {"models": {"models": []}, "chips": {"chips": []}, "clusters": {"clusters": []},
                  "engines": list(engines())},
        "messages": json.loads((STATIC / "messages.json").read_text(encoding="utf-8")), "problems": problems,
    }  # fmt: skip
    told = ",".join(f"{_text(key)}:{value}" for key, value in answers.items())
    return f'{_text(known)[:-1]},"answers":{{{told}}}}}'


def _text(value: Any) -> str:
    """As a browser's own JSON has it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def export_grid(scenario: Scenario, on: Sequence[str], input: Sequence[int], concurrency: Sequence[int]) -> ExportGrid:
    """A grid in which nothing stands twice."""
    once = dict.fromkeys
    return ExportGrid(scenario, tuple(once(on)), tuple(once(input)), tuple(once(concurrency)))
