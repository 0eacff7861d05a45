"""Tables in windows of every width, and what a terminal sees of a command."""

from __future__ import annotations

import re
import sys
from itertools import pairwise

import pytest

from folded import by_day, folded
from roofline.doors.cli.main import main
from roofline.views.text.tables import Column, FittedTable, Table, broken, markdown, missing_text, plain_text
from terminal import escaped, seen

TABLE = Table(
    (Column("Op"), Column("Layers", drop=1), Column("FLOPs"), Column("Weights", drop=2)),
    (("gate_up_proj", "32", "7.52 GFLOP", "7.52 GB"), ("act", "32", "2.29 MFLOP", "0 B")),
    (("Total", "", "15.55 GFLOP", "15.01 GB"),),
)


def names(fitted: FittedTable) -> list[str]:
    """The columns shown."""
    return [fitted.table.columns[i].name for i in fitted.shown]


def test_columns_go_in_their_order() -> None:
    shown = [names(TABLE.fitted(width)) for width in range(60, 0, -1)]
    assert shown[0] == ["Op", "Layers", "FLOPs", "Weights"]
    assert ["Op", "Layers", "FLOPs"] in shown
    assert ["Op", "FLOPs"] in shown
    assert shown[-1] == ["Op"]
    assert all(set(after) <= set(before) for before, after in pairwise(shown))


def test_a_table_that_fits_is_whole() -> None:
    widest = max(map(len, plain_text(TABLE).splitlines()))
    assert missing_text(TABLE.fitted(widest), widest) == ""
    fitted = TABLE.fitted(widest - 1)
    assert len(fitted.shown) == 3
    assert missing_text(fitted, widest - 1) == f"not shown at {widest - 1} columns: Weights; --wide shows all"


def test_long_text_is_cut_and_what_lacks_least_is_whole_first() -> None:
    long = Table((Column("a"), Column("b", long=4), Column("c", drop=1, long=4)), (("x", "b" * 9, "c" * 20),))
    assert [line for line, _ in long.fitted(34).lines][2] == f"x  {9 * 'b'}  {20 * 'c'}"
    assert [line for line, _ in long.fitted(22).lines][2] == f"x  {9 * 'b'}  {7 * 'c'}…"
    assert missing_text(long.fitted(22), 22) == "cut at 22 columns: c; --wide shows all"
    assert missing_text(long.fitted(10), 10) == "not shown at 10 columns: c; cut: b; --wide shows all"


def test_a_long_fact_runs_over_several_lines() -> None:
    facts = Table((Column("l4"), Column("", long=9)), (("source", "the data sheet of 2023"),), facts=True)
    assert [line for line, _ in facts.fitted(20).lines][2:] == ["source  the data", "        sheet of", "        2023"]
    assert missing_text(facts.fitted(20), 20) == ""


def test_forms_have_every_column() -> None:
    assert plain_text(TABLE).splitlines()[0].split() == ["Op", "Layers", "FLOPs", "Weights"]
    assert markdown(TABLE).splitlines()[0] == "| Op | Layers | FLOPs | Weights |"


def test_lines_break_between_words_and_hang_behind_their_name() -> None:
    line = "TTFT     33.9 ms (28.7 ms to 41.4 ms; speed of light 21.3 ms)"
    first, second = broken(line, 50)
    assert len(first) <= 50
    assert second.startswith(9 * " ")
    assert broken(line, 100) == [line]


@folded("width", [80, 120, 200][: by_day(1, every=3)])
@folded(
    "command",
    [
        "analyze meta-llama/Llama-3.1-8B", "analyze meta-llama/Llama-3.1-8B --on h100-sxm --precision fp8",
        "models openai/gpt-oss-120b", "chips", "chips l4", "explain meta-llama/Llama-3.1-8B attention",
        "serve meta-llama/Llama-3.1-8B --on l4 --input 99 --output-tokens 29 --rate 1",
    ],
)  # fmt: skip
def test_no_line_is_wider_than_the_window(
    width: int, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(command.split())
    lines = escaped(capsys.readouterr().out)
    assert max(map(len, lines)) <= width
    if command.startswith("analyze"):
        total = next(line for line in lines if line.startswith("Total"))
        assert re.search(r"\d (GB|ms|s)\b", total)
    if command == "chips":
        assert sum("TFLOP/s" in line or "PFLOP/s" in line for line in lines) >= 90


def test_a_terminal_is_told_what_has_no_room() -> None:
    lines = seen(80, "analyze", "meta-llama/Llama-3.1-8B", "--context", "9")
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "not shown at 80 columns: Layers, Weights, Activations, Cache; --wide shows all"
