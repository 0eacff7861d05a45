"""The site: every command and snippet of its pages runs as printed, and its pages can be built."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
OWN = {"chip.md", "cluster.md", "plots.md"}
"""Pages with tests of their own, which need a file first or look at the pictures."""
COMMANDS = [
    (page.name, command)
    for page in PAGES
    if page.name not in OWN
    for command in re.findall(r"^\$ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_commands(
    page: str, command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program, *argv = shlex.split(command)
    assert program == "roofline"
    main(argv)
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```python" in p.read_text(encoding="utf-8")], ids=lambda p: p.name
)
def test_snippets(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(snippet, page.name, "exec"), session)


def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    made = {"formulas.md", "accuracy.md", "gallery.md"}
    for page in PAGES:
        assert f"- {page.name}" in nav
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert target in made or (page.parent / target).exists(), (page.name, target)


def test_formulas_are_those_that_count() -> None:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    text = pages.formulas()
    assert "## Counting `standard`" in text
    assert "2·heads·(qk_dim + v_dim)·pairs" in text
    assert pages.accuracy().startswith("# ")


@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="the docs extra (mkdocs-material) is not installed"
)
def test_the_site_builds(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "formulas" / "index.html").exists()
    assert len(list((tmp_path / "site" / "gallery").glob("*.svg"))) == 10
