"""A setting added to `serve`, in one place, is on the page: its control, address, body, command and Python lines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from browser import needs_chromium
from test_addition import PACKAGE, SETTING, changed

pytestmark = needs_chromium
TESTS = Path(__file__).parents[2]
PROBE = """
import json
from browser import watched
from roofline.doors.web.server import dispatcher
from served_page import Page, page_server

ASKS = '''async () => {
  const page = await import("/static/state.js");
  return page.asks.serve(page.now());
}'''

if __name__ == "__main__":  # workers of the server load this file too
    dispatcher.QUICK_S = 60  # not of speed
    with page_server() as address, watched() as seen:
        page = Page(seen, seen.tab)
        page.answers(lambda: seen.tab.goto(address))
        page.tab.click("#all summary")
        page.set_to("patience", "3")
        page.open("away")
        link = page.sees("location.href")
        told = {
            "label": page.tab.inner_text("label[for=patience]"),
            "hint": page.tab.inner_text("#hint-patience"),
            "usual": page.tab.get_attribute("#patience", "placeholder"),
            "body": page.sees(ASKS)["patience"],
            "lines": [page.tab.inner_text(f"#view pre >> nth={i}") for i in (0, 1)],
        }
        page.fresh(link)
        told["address"] = page.tab.input_value("#patience")
        print(json.dumps(told))
"""


def test_it_is_on_the_page(tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="playwright, of the test extra, is not installed")
    shutil.copytree(PACKAGE, tmp_path / "roofline")
    changed(tmp_path, SETTING)
    (tmp_path / "probe.py").write_text(PROBE)
    paths = os.pathsep.join([str(tmp_path), str(TESTS)])
    run = subprocess.run(
        [sys.executable, tmp_path / "probe.py"], env={**os.environ, "PYTHONPATH": paths}, cwd=tmp_path,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    told = json.loads(run.stdout.splitlines()[-1])
    command, python = told.pop("lines")
    assert told == {
        "label": "Patience", "hint": "Requests that a user sends before a rest. (requests, from 1)", "usual": "7",
        "body": 3, "address": "3",
    }  # fmt: skip
    assert "--patience 3" in command.splitlines()[0]
    assert "--patience" not in "".join(command.splitlines()[1:])
    assert "rl.serve(" in python.splitlines()[3]
    assert "patience=3" in python.splitlines()[3]
