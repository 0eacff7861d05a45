"""Text from outside is letters wherever it is shown: no escape, tag, link, formula or line of its own."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import roofline as rl
from roofline.declared.errors import InputError, error_line, nearest
from roofline.declared.sanitize import (
    csv_cell,
    each_text,
    inert_line,
    inert_lines,
    inert_markdown,
    inert_mermaid,
    markdown_cell,
)
from roofline.doors.cli.main import main
from roofline.model.load import catalog_config, load
from roofline.views.plots.data import Box, DiagramPlot, Stack
from roofline.views.plots.plotly import page
from roofline.views.plots.style import Style
from roofline.views.report.mermaid import mermaid
from roofline.views.text.tables import Column, Table, csv_text, json_text, markdown, plain_text

HOSTILE = 'x\x1b[31m\r\n<script>alert(1)</script>![a](http://b/c)"];`|&#60;\u202e=\x00'
LLAMA = "meta-llama/Llama-3.1-8B"


def test_every_target_has_one_line_without_controls() -> None:
    for shown in (inert_line, inert_lines, inert_markdown, markdown_cell, inert_mermaid, lambda t: str(csv_cell(t))):
        text = shown(HOSTILE)
        assert "".join(text.split("\n") if shown is inert_lines else [text]).isprintable()


def test_formulas_of_a_spreadsheet_are_text() -> None:
    cells = ["=1+1", "+1", "-1+cmd", "@sum(a)", "\t=1", "\r=1", "-", "plain", -1.5, None]
    text = csv_text(["=head"], [[c] for c in cells])
    assert text.splitlines() == [
        "'=head", "'=1+1", "'+1", "'-1+cmd", "'@sum(a)", "' =1", "' =1", "-", "plain", "-1.5", '""',
    ]  # fmt: skip


def test_a_table_of_hostile_names() -> None:
    table = Table((Column("Chip"), Column("Time", "s")), ((HOSTILE, 1.0),), title=HOSTILE)
    assert len(plain_text(table).split("\n")) == 4
    assert "\x1b" not in plain_text(table)
    text = markdown(table)
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    row = text.split("\n")[-1]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3


def test_mermaid_has_the_labels_and_no_more() -> None:
    stack = Stack(HOSTILE, (Box(HOSTILE, HOSTILE, "norm"),))
    lines = mermaid(DiagramPlot("t", stack, ())).split("\n")
    assert lines[0] == "flowchart TB"
    assert all(line.count('"') in (0, 2) for line in lines)
    assert not any("<script" in line or "`" in line for line in lines)


def test_pictures_of_a_chip_with_controls_in_its_name(tmp_path: Path) -> None:
    model, chip = load(LLAMA), replace(rl.chips()["h100-sxm"], name=HOSTILE)
    model = replace(model, name=HOSTILE)
    for kind in ("roofline", "memory", "diagram"):
        plot = rl.plot(model, on=chip, kind=kind, output=tmp_path / f"{kind}.svg")
        root = ElementTree.fromstring((tmp_path / f"{kind}.svg").read_text(encoding="utf-8"))
        assert not [e for e in root.iter() if e.tag.endswith("script")]
        html = page(plot, Style())
        assert "<script>alert" not in html
        assert html == page(plot, Style())  # Plotly's own ids are random


def test_terminal_escapes_of_a_chip_file_do_not_reach_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = replace(load(LLAMA), name=HOSTILE)
    from roofline.views.text.inference.analysis import headline
    from roofline.views.text.tables import print_text

    print_text(headline(model, model.precision))
    assert "\x1b" not in capsys.readouterr().out


def test_texts_of_a_plot_are_changed_and_numbers_are_not() -> None:
    column = each_text((Column("a\nb", "s"), (1, 2.5), None), inert_line)
    assert column == (Column("a b", "s"), (1, 2.5), None)


# -- errors --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [1, 50, 200, 10**6])
def test_an_error_is_a_line_of_at_most_160_characters(size: int) -> None:
    error = InputError(size * "f", size * "v", size * "e", ["near", size * "n"])
    line = error_line(error)
    assert len(line) <= 160
    assert line.isprintable()
    assert re.fullmatch(r"(\.\.\.)?f+(\.\.\.)?: expected e+\S*, got 'v+\S*; nearest: near, n+\S*", line)


def test_only_what_is_long_is_cut() -> None:
    error = InputError("chip", 500 * "v", "one of a, b, c", ["a", "b"])
    assert error_line(error).startswith("chip: expected one of a, b, c, got 'vvv")
    assert error_line(error).endswith("...; nearest: a, b")
    assert error_line(InputError("field\n\x1b[31m", 1, "2")) == "field  [31m: expected 2, got 1"


def test_a_long_line_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["analyze", 500 * "x"], ["analyze", LLAMA, "--" + 500 * "x"], [500 * "y"], ["models", 9 * "z/"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert len(err) <= 161


def test_many_and_long_unknown_keys_are_said_in_little_time() -> None:
    config = dict(catalog_config(LLAMA))
    start = time.process_time()
    warnings = load({**config, **{f"key_{i}": i for i in range(60_000)}}).warnings
    assert warnings[0] == "key_0 is not understood and was not counted"
    assert warnings[-1] == "59,936 more keys of the config are not understood and were not counted"
    assert len(warnings) == 65
    (warning,) = load({**config, 10**7 * "k": 1}).warnings
    assert len(warning) < 120
    assert nearest(10**7 * "l", ["llama"]) == []
    assert time.process_time() - start < 10


def test_json_is_ascii_and_whole() -> None:
    text = json_text({"name": HOSTILE})
    assert text.isascii()
    assert json.loads(text)["name"] == HOSTILE
