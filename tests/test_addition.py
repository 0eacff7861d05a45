"""A setting added to `serve` and a figure added to its answer, in one place each, arrive at every door."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import roofline

PACKAGE = Path(roofline.__file__).parent
SETTING = (
    "serving/serve.py",
    "    speculation: Speculation | None = None,\n    images",
    '    patience: Annotated[Requests, "Requests that a user sends before a rest."] = 7,\n'
    "    speculation: Speculation | None = None,\n    images",
)
"""File, what stands there, and the same with a setting before it."""
OF_TRAINING = (
    "training/train.py",
    "    bill: Bill | None = None,\n    drawn",
    '    warmup_steps: Annotated[Sequences, "Steps until the learning rate is whole."] = 5,\n'
    "    bill: Bill | None = None,\n    drawn",
)
FIGURE = (
    "serving/server.py",
    '"rounds": "",\n    }  # fmt: skip\n',
    '"rounds": "", "gap": "s",\n    }  # fmt: skip\n\n'
    "    @property\n    def gap(self) -> Span:\n"
    '        """Twice the TPOT."""\n        return self.tpot.times(2)\n',
)
PROBE = """
import contextlib, io, json, warnings
warnings.simplefilter("ignore")
import roofline as rl
from roofline.measured.accuracy.csvs import COLUMNS
from roofline.doors.cli.defaults import settable
from roofline.doors.cli.main import main
from roofline.declared.question import question_settings
from roofline.schema import schemas
from roofline.views.reference.settings import settings_page
from roofline.doors.mcp import tools
from roofline.doors.web.questions import QUESTIONS, answered

MODEL = "meta-llama/Llama-3.1-8B"
GIVEN = {"on": "h100-sxm", "input": 100, "output_tokens": 100, "concurrency": 4}

def printed(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words])
    return out.getvalue()

options = [w for name, v in GIVEN.items() for w in (f"--{name.replace('_', '-')}", str(v))]
one = rl.serve(MODEL, patience=3, **GIVEN)
tool = next(t for t in tools() if t.name == "serve")
swept = rl.sweep(MODEL, phase="serve", columns="gap", **GIVEN).to_frame()
open = {name: value for name, value in GIVEN.items() if name != "concurrency"}
solved = rl.solve(MODEL, find="concurrency", where="gap <= 40ms", **open)
trained = next(t for t in tools() if t.name == "train")
learning = {"on": "8xh100-sxm", "batch": 16, "tokens": 512}
told = {
    "train: library": rl.train(MODEL, warmup_steps=3, **learning).fits is not None,
    "train: help": "--warmup-steps" in printed("train", "--help"),
    "train: command": "mfu" in json.loads(printed(
        "train", MODEL, "--on", "8xh100-sxm", "--batch", "16", "--tokens", "512", "--warmup-steps", "2", "--json")),
    "train: api": "mfu" in answered("train", {"model": MODEL, "warmup_steps": 2, **learning}),
    "train: tool": "warmup_steps" in trained.input_schema["properties"],
    "train: reference":
        "| `warmup_steps` | sequences | `5` | Steps until the learning rate is whole. |" in settings_page(),
    "train: defaults": "warmup-steps" in settable(),
    "library": one.to_dict()["gap"]["expected"] == 2 * one.tpot.expected,
    "signature": question_settings(rl.serve)["patience"].default == 7,
    "help": "--patience" in printed("serve", "--help") and "before a rest" in printed("serve", "--help"),
    "command": "gap" in json.loads(printed("serve", MODEL, *options, "--patience", "2", "--json")),
    "body": QUESTIONS["serve"].body.model_json_schema()["properties"]["patience"]["description"][:8] == "Requests",
    "api": "gap" in answered("serve", {"model": MODEL, "patience": 2, **GIVEN}),
    "tool": "patience" in tool.input_schema["properties"] and "gap" in json.dumps(tool.output_schema),
    "schema": "gap" in json.dumps(schemas()["serve"]),
    "reference": "| `patience` | requests | `7` | Requests that a user sends before a rest. |" in settings_page(),
    "sweep": swept["gap"][0] == one.gap.expected,
    "defaults": "patience" in settable(),
    "columns": "patience" in COLUMNS,
    "solve": solved.value > 4,
}
print(json.dumps(told))
"""


def changed(folder: Path, place: tuple[str, str, str]) -> None:
    """Puts one place of a copy in its new form."""
    name, before, after = place
    path = folder / "roofline" / name
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, place
    path.write_text(text.replace(before, after), encoding="utf-8")


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Any:
    for needed in ("pydantic", "mcp"):
        pytest.importorskip(needed, reason=f"{needed}, of the web and mcp extras, is not installed")
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(PACKAGE, folder / "roofline")
    for place in (SETTING, OF_TRAINING, FIGURE):
        changed(folder, place)
    run = subprocess.run(
        [sys.executable, "-c", PROBE], env={**os.environ, "PYTHONPATH": str(folder)}, cwd=folder, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "door",
    [
        "library",
        "signature",
        "help",
        "command",
        "body",
        "api",
        "tool",
        "schema",
        "reference",
        "sweep",
        "solve",
        "defaults",
        "columns",
        *(f"train: {door}" for door in ("library", "help", "command", "api", "tool", "reference", "defaults")),
    ],
)
def test_it_is_there(doors: Any, door: str) -> None:
    assert doors[door]
