"""Files: PNG, SVG, PDF and HTML; what cannot be written; that only what was asked for is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import roofline as rl
from roofline.declared.errors import InputError
from roofline.views.plots.style import Style
from roofline.views.plots.write import legend_path, write
from show_plots_pictures import PICTURES

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".html": b"<!doctype html>"}


@pytest.mark.parametrize("ending", STARTS)
def test_every_ending_has_its_form(ending: str, tmp_path: Path) -> None:
    rl.plot(LLAMA, on="h100-sxm", output=tmp_path / f"roof{ending}")
    assert [p.name for p in tmp_path.iterdir()] == [f"roof{ending}"]
    assert (tmp_path / f"roof{ending}").read_bytes().startswith(STARTS[ending])


@pytest.mark.drawn(2)
@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf", ".html"])
def test_the_same_picture_is_the_same_file(ending: str, tmp_path: Path) -> None:
    plot = PICTURES["roofline-phases"]()
    for name in ("a", "b"):
        write(plot, tmp_path / f"{name}{ending}", Style(dpi=50))
    a, b = ((tmp_path / f"{name}{ending}").read_text("latin-1") for name in ("a", "b"))
    identity = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # Plotly names its box at random
    assert re.sub(identity, "", a) == re.sub(identity, "", b)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_html_holds_everything_it_needs(name: str, theme: str, tmp_path: Path) -> None:
    """plotly.js is in the page; no element asks for anything from elsewhere."""
    (path,) = write(PICTURES[name](), tmp_path / "page.html", Style(theme=theme))  # type: ignore[arg-type]
    page = path.read_text(encoding="utf-8")
    assert "plotly.js v" in page
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", page.split("plotly.js v")[0])
    assert not re.search(r"<script[^>]+src=", page)
    assert Style(theme=theme).colours.paper in page  # type: ignore[arg-type]


def test_html_says_what_the_picture_says(tmp_path: Path) -> None:
    (path,) = write(PICTURES["roofline"](), tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    said = re.search(r'Plotly\.newPlot\(\s*"[^"]+",\s*(\[.*?\]),\s*\{"template"', page, re.DOTALL)
    assert said
    traces = json.loads(said[1])
    names = {t.get("name") for t in traces}
    assert {"matmul · prefill", "attention · decode", "HBM3 3.35 TB/s"} <= names
    drawn = sum(len(t["x"]) for t in traces if t.get("mode") == "markers")
    plot = PICTURES["roofline"]()
    assert drawn == sum(len(p.points) for p in plot.panels)  # type: ignore[union-attr]


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "roof.png"
    path.write_text("mine")
    with pytest.raises(InputError, match=r"^output: expected a new file, or --force"):
        rl.plot(LLAMA, kind="parameters", output=path)
    assert path.read_text() == "mine"
    rl.plot(LLAMA, kind="parameters", output=path, force=True)
    assert path.read_bytes().startswith(STARTS[".png"])
    other = tmp_path / "other.png"
    legend_path(other).write_text("mine")
    with pytest.raises(InputError, match="other_legend"):
        rl.plot(LLAMA, on="h100-sxm", output=other, legend="separate")
    assert not other.exists()
    (tmp_path / "new.png").mkdir()
    with pytest.raises(InputError, match="not a folder"):
        rl.plot(LLAMA, kind="parameters", output=tmp_path / "new.png")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("roof.gif", "a file that ends in .png, .svg, .pdf, .html"), ("roof", "a file that ends in"),
        ("no/such/folder/roof.png", "a folder that is there"), ("file/roof.png", "a folder that is there"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_written(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as error:
        rl.plot(LLAMA, on="h100-sxm", output=tmp_path / name)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="can be written"):
        rl.plot(LLAMA, on="h100-sxm", output=tmp_path / "roof.png")


def test_without_plotly_a_line_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.io", None)
    with pytest.raises(InputError, match=r"pip install 'plotly<7,>=6\.0'"):
        rl.plot(LLAMA, kind="parameters", output=tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_matplotlib_as_it_was(tmp_path: Path) -> None:
    import matplotlib

    before = {**matplotlib.rcParams, "font.size": 17.0}
    with matplotlib.rc_context({"font.size": 17.0}):
        rl.plot(LLAMA, kind="parameters", output=tmp_path / "p.png")
        assert dict(matplotlib.rcParams) == before


def test_no_window_and_no_plots_for_those_who_do_not_draw() -> None:
    code = (
        "import sys\nfrom roofline.doors.cli.main import main\n"
        "main(['analyze', 'openai-community/gpt2', '--on', 'l4'])\n"
        "assert not {'matplotlib', 'plotly', 'roofline.views.plots.make'} & set(sys.modules)\n"
        "import roofline as rl\nrl.plot(rl.load('openai-community/gpt2'), on='l4')\n"
        "assert not {'matplotlib', 'plotly'} & set(sys.modules)\n"
        "import tempfile\nwith tempfile.TemporaryDirectory() as t:\n"
        "    rl.plot(rl.load('openai-community/gpt2'), on='l4', output=t + '/a.png')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
