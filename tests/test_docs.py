"""The site: every command and snippet of its pages runs as printed, with what the page says to install, and its pages
can be built.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from documented import COLUMNS, PAGES, ROOT, Told, commands, differences, files, installed, installs, modules, snippets
from roofline.doors.cli.main import main
from roofline.doors.compat import transformer_roofline_analyzer

PROGRAMS = {"roofline": main, "transformer-roofline-analyzer": transformer_roofline_analyzer.main}
OWN = {"plots.md"}
"""A page with tests of its own, which look at the pictures."""


@pytest.mark.drawn(15)
@pytest.mark.parametrize(
    "told", [t for p in PAGES if p.name not in OWN for t in commands(p)], ids=lambda t: f"{t.page}: {t.text}"
)
def test_commands(
    told: Told, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in files(ROOT / "docs" / told.page).items():
        Path(name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    program, *argv = shlex.split(told.text)
    with installed(told.extras):
        PROGRAMS[program](argv)
    printed = capsys.readouterr().out
    assert printed
    assert differences(told.output, printed) == []


@pytest.mark.drawn(1)
@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in OWN and snippets(p)], ids=lambda p: p.name)
def test_snippets(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: dict[str, object] = {}
    for told in snippets(page):
        with installed(told.extras):
            exec(compile(told.text, page.name, "exec"), session)


def test_lines_shown_are_lines_printed_in_their_order() -> None:
    printed = "a  \nb\nc d e\nf\n"
    assert (
        differences([], printed) == differences(["a", "…", "f"], printed) == differences(["b", "c d …"], printed) == []
    )
    assert differences(["b", "a", "c …", "x …"], printed) == ["a", "x …"]


# -- what is installed ---------------------------------------------------------------------------------------------
def test_an_install_line_names_extras_and_those_for_developers_do_not_count() -> None:
    lean = "    python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/roofline chips\n"
    tests = "    .venv/bin/pip install -q -e '.[test]' && .venv/bin/python -m pytest\n"
    assert installs(lean) == installs(lean + tests) == installs("Say `pip install '.[web]'`.") == frozenset()
    assert installs(lean + "```console\n$ pip install '.[web,test]'\n```\n") == {"web"}


def test_what_only_an_extra_brings_is_hidden() -> None:
    assert {"plotly", "playwright"} <= modules(()) - {"roofline", "numpy", "pytest", "packaging"}
    assert "plotly" not in modules(["web"])
    assert "polars" in modules(()) - modules(["frames"])
    assert not {"numpy", "matplotlib", "huggingface_hub", "roofline", "pytest"} & modules(())
    plotly = pytest.importorskip("plotly", reason="plotly, of the web extra, is not installed")
    with installed([]), pytest.raises(ModuleNotFoundError, match="plotly"):
        importlib.import_module("plotly.io")
    with installed(["web"]):
        importlib.import_module("plotly.io")
    assert sys.modules["plotly"] is plotly


def test_a_command_that_needs_an_extra_fails_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["plot", "openai-community/gpt2", "--kind", "parameters", "--out", str(tmp_path / "a.html")]
    with installed([]), pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2
    assert "pip install 'plotly<7,>=6.0'" in capsys.readouterr().err
    with installed(["web"]):
        main(command)


def test_no_module_needs_an_extra_to_be_imported() -> None:
    code = (
        "import importlib, pkgutil, sys\nsys.path.insert(0, sys.argv[1])\nfrom documented import installed\n"
        "with installed([]):\n    import roofline\n"
        "    for module in pkgutil.walk_packages(roofline.__path__, 'roofline.'):\n"
        "        if not module.name.startswith(('roofline.doors.web.', 'roofline.doors.mcp')):  # extras\n"
        "            importlib.import_module(module.name)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(ROOT / "tests")], check=True, capture_output=True)


# -- the site ------------------------------------------------------------------------------------------------------
def test_every_page_is_in_the_navigation_and_every_link_leads_somewhere() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    made = {"formulas.md", "gallery.md"}
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


# -- architecture --------------------------------------------------------------------------------------------------
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_the_new_op_of_the_page_is_the_one_that_is_tested() -> None:
    """Section by section, and nothing left out but the file's docstring and its headings."""
    file = (ROOT / "tests" / "model" / "fourier.py").read_text(encoding="utf-8")
    code = re.sub(r"^# -- .*-+$", "", file.partition('"""\n\n')[2], flags=re.MULTILINE)
    shown = [told.text for told in snippets(ROOT / "docs" / "architecture.md")]
    sections = len(re.findall(r"^# -- ", file, re.MULTILINE))
    lines = [line for text in shown[: sections + 1] for line in text.splitlines() if line]
    assert lines == [line for line in code.splitlines() if line]


def test_what_the_page_quotes_stands_in_the_package() -> None:
    package = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    quotes = re.findall(r"^```py\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert len(quotes) == 5
    for quote in quotes:
        assert any(quote in text for text in package), quote


def test_every_public_name_has_one_meaning_in_the_glossary() -> None:
    import roofline as rl

    glossary = ARCHITECTURE.partition("\n## Words\n")[2]  # a folder may have a function's name
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", glossary, re.MULTILINE)
    named = [name for name in rows if name[0] != "_" and name in rl.__all__]
    assert sorted(named) == sorted(set(rl.__all__) - {"__version__"})


def test_every_folder_of_the_house_is_described() -> None:
    table = re.findall(r"^\| `(\w+)` \|", ARCHITECTURE.partition("## Words")[0], re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / "src" / "roofline").glob("*/*.py")}
    assert sorted(table) == sorted(folders)


@pytest.mark.drawn(0)
@pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="the docs extra (mkdocs-material) is not installed"
)
def test_the_site_builds(tmp_path: Path) -> None:
    """Half a minute, most of it pictures: `.ci/full` installs what it needs and runs it in the step of the site."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "formulas" / "index.html").exists()
    assert len(list((tmp_path / "site" / "gallery").glob("*.svg"))) == 12
    assert (tmp_path / "site" / "gallery" / "report.html").exists()


def test_llms_txt_names_every_page_by_its_title() -> None:
    """https://llmstxt.org: a title, a summary, then lists of links."""
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# Roofline\n\n> ")
    linked = {place: title for title, place in re.findall(r"^- \[(.+?)\]\(([\w./-]+)\): .+$", text, re.MULTILINE)}
    titles = {page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for page in PAGES}
    assert {place: title for place, title in linked.items() if place in titles} == titles
    assert all((ROOT / "docs" / place).exists() for place in linked)
