"""Text in windows of every width: lines that fit, a line for each row, and the name of every column left out."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import documented
from roofline.doors.cli.main import main
from roofline.doors.cli.table import COMMANDS
from roofline.views.text import tables
from roofline.views.text.tables import FittedTable, Table, broken, missing_text

WIDTHS = (60, 80, 120, 200)
TESTS = Path(__file__).parents[2]
SERVED = {"completed": 10, "total_input_tokens": 10240, "total_output_tokens": 1280, "max_concurrency": 4,
          "mean_ttft_ms": 160.0, "mean_tpot_ms": 21.0, "mean_e2el_ms": 2830.0, "output_throughput": 180.0}  # fmt: skip
LLAMA_BENCH = [{"n_prompt": 512, "n_gen": 0, "avg_ts": 3850.2}, {"n_prompt": 0, "n_gen": 128, "avg_ts": 142.6}]
MODEL = "meta-llama/Llama-3.1-8B"
OF_EVERY_COMMAND = {
    "answer": f"answer {MODEL} --on h100-sxm l4",
    "machines": "machines Qwen/Qwen3-8B --users 20 --on h100-sxm l4",
    "analyze": f"analyze {MODEL} --on h100-sxm",
    "explain": f"explain {MODEL} attention",
    "fit": f"fit {MODEL} --on rtx-4090",
    "generate": f"generate {MODEL} --on h100-sxm --input 64 --output-tokens 64",
    "encode": "encode BAAI/bge-m3 --on l4 --batch 64 --input 512",
    "offload": "offload openai/gpt-oss-120b --on rtx-4090 --host ryzen-9-7950x",
    "train": f"train {MODEL} --on dgx-h100 --batch 64 --tokens 8192 --layout tp=2,pp=2,dp=2,zero=1 --breakdown ops "
    "--timeline --run-tokens 1T",
    "serve": f"serve {MODEL} --on h100-sxm --input 1024 --output-tokens 256 --concurrency 32",
    "simulate": f"simulate {MODEL} --on h100-sxm --input 64 --output-tokens 64 --rate 4 --requests 200 --ttft 1s",
    "search": f"search {MODEL} --on h100-sxm l4 --chips 2 --input 1024 --output-tokens 256 --ttft 1s --tpot 30ms",
    "solve": f"solve {MODEL} --find batch --where fits --on h100-sxm --input 64 --output-tokens 64",
    "sensitivity": f"sensitivity {MODEL} --on h100-sxm --context 1024 --map",
    "codesign": f"codesign {MODEL} --on h100-sxm --batch 8 --context 512 --generations 1",
    "sweep": f"sweep {MODEL} --on h100-sxm l4 --batch 1,2 --context 1Ki,2Ki",
    "report": f"report {MODEL} --on h100-sxm --out report.md",
    "compare": f"compare {MODEL} --measured served.json --on a100-sxm-80gb",
    "diff": f"diff {MODEL}@a100-sxm-80gb meta-llama/Llama-3.1-70B@8xh100-sxm:precision=fp8",
    "plot": f"plot {MODEL} --on h100-sxm --out roofline.svg",
    "models": "models --on l4 --size 8B --find llama",
    "chips": "chips",
    "here": f"here --from {TESTS / 'hardware' / 'recorded' / 'two-4090'}",
    "calibrate": "calibrate --llama-bench bench.json --model Qwen/Qwen3-4B --precision q4_k_m --on rtx-3090",
    "accuracy": "accuracy",
}
OTHERS = [
    "analyze deepseek-ai/DeepSeek-V3 --input 64", "chips h100-sxm", "chips superpod-h100", "chips --clusters",
    "models", "models openai/gpt-oss-120b", "models --types", f"models --check {TESTS / 'model'}",
    f"compare {TESTS / 'measured' / 'compare' / 'recorded' / 'config.json'} --on xeon-8480 --measured "
    f"{TESTS / 'measured' / 'compare' / 'recorded' / 'decode.json.gz'}",
    f"search {MODEL} --on 4xh100-sxm --train --batch 8 --tokens 1024",
    f"search {MODEL} --on l4 --input 4000 --output-tokens 500 --ttft 1ms --tpot 1ms",
    f"fit {MODEL} --on l4 --context 131072", "train meta-llama/Llama-3.1-70B --on h100-sxm --batch 8 --tokens 1024",
]  # fmt: skip
NO_TEXT = {"web", "mcp"}
"""Commands that serve until they are stopped."""
FOR_PROGRAMS = {"--json", "--md", "--csv", "--emit"}
"""Options whose output is no text for people: as wide as it is."""


def told() -> list[str]:
    """Every command of the README and of the pages, without those of older tools."""
    pages = (documented.README, *documented.PAGES)
    texts = dict.fromkeys(f"{page.name}: {t.text}" for page in pages for t in documented.commands(page))
    return [text for text in texts if text.partition(": ")[2].startswith("roofline ")]


class Printed:
    """What a command printed with 60 columns, and the tables and the lines of text in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
        self.tables: list[Table] = []
        self.lines: list[str] = []
        fitted = Table.fitted

        def seen_table(table: Table, width: int) -> FittedTable:
            self.tables.append(table)
            return fitted(table, width)

        def seen_line(line: str, width: int) -> list[str]:
            self.lines.append(line)
            return broken(line, width)

        with monkeypatch.context() as patched:
            patched.setenv("COLUMNS", "60")
            patched.setattr(Table, "fitted", seen_table)
            patched.setattr(tables, "broken", seen_line)
            code = 0
            try:
                main(words)
            except SystemExit as stop:
                code = int(stop.code or 0)
        assert code in (0, 1)
        self.out = capsys.readouterr().out


def check_table(table: Table, width: int) -> None:
    """Lines of at most so many characters, a line a row, and all columns shown or named."""
    fitted = table.fitted(width)
    lines = [line for line, _ in fitted.lines]
    assert max(map(len, lines)) <= width
    if not table.facts:
        assert len(lines) == 2 + len(table.rows) + (1 + len(table.total) if table.total else 0)
    names = [c.name for c in table.columns]
    shown = [names[i] for i in fitted.shown]
    assert sorted([*shown, *fitted.dropped]) == sorted(names)
    said = missing_text(fitted, width)
    assert bool(said) == bool(fitted.dropped or fitted.cut)
    assert all(name and name in said for name in (*fitted.dropped, *fitted.cut))
    if said:
        assert said.endswith("; --wide shows all")
        assert len(shown) >= 2
    cut = [line for line in lines if "…" in line]
    assert not cut or fitted.cut or any("…" in cell for row in (names, *table.cells) for cell in row)
    whole = table.fitted(sys.maxsize)
    assert whole.dropped == whole.cut == ()
    heading = next(line for line, _ in whole.lines)
    assert all(name in heading for name in names)


def check_printed(printed: Printed) -> None:
    """At every width, and as it was printed in 60 columns."""
    for width in (min(w, tables.WIDEST) for w in WIDTHS):
        for table in printed.tables:
            check_table(table, width)
        for line in printed.lines:
            assert max(map(len, broken(line, width)), default=0) <= width, line
    assert max(map(len, printed.out.splitlines()), default=0) <= WIDTHS[0]
    for table in printed.tables:
        assert "\n".join(line for line, _ in table.fitted(WIDTHS[0]).lines) in printed.out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with what the commands read."""
    (tmp_path / "served.json").write_text(json.dumps(SERVED))
    (tmp_path / "bench.json").write_text(json.dumps(LLAMA_BENCH))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_has_a_line_here() -> None:
    assert set(OF_EVERY_COMMAND) == set(COMMANDS) - NO_TEXT


@pytest.mark.drawn(14)
@pytest.mark.parametrize("words", [*OF_EVERY_COMMAND.values(), *OTHERS])
def test_every_command_keeps_to_the_width(
    words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if words.startswith("codesign"):
        pytest.importorskip("pymoo", reason="pymoo, of the codesign extra, is not installed")
    printed = Printed(monkeypatch, capsys, words.split())
    assert printed.out
    assert printed.tables or printed.lines or words.split()[0] in ("plot", "report")
    check_printed(printed)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("text", told())
def test_commands_of_the_documents_keep_to_the_width(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, _, command = text.partition(": ")
    for name, content in documented.files(documented.ROOT / "docs" / page).items() if page != "README.md" else ():
        Path(name).write_text(content, encoding="utf-8")
    if command.startswith("roofline codesign"):
        pytest.importorskip("pymoo", reason="pymoo, of the codesign extra, is not installed")
    if "plot ops.csv" in command:  # what the command before it on the page wrote
        main(["analyze", MODEL, "--out", "ops.csv"])
    printed = Printed(monkeypatch, capsys, shlex.split(command)[1:])
    if not FOR_PROGRAMS & set(shlex.split(command)):
        check_printed(printed)


def once(question: Callable[..., Any]) -> Callable[..., Any]:
    """A question that is worked out the first time alone: what is looked at is how its answer is printed."""
    answers: list[Any] = []

    @wraps(question)
    def answer(*given: object, **named: object) -> Any:
        if not answers:
            answers.append(question(*given, **named))
        return answers[0]

    return answer


@pytest.mark.parametrize(
    "command", ["analyze", "machines", "train", "search", "sweep", "diff", "models", "chips", "offload", "accuracy"]
)
def test_a_table_is_as_wide_as_its_window_and_wide_shows_all(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    """The command at every width, by day at the ends: what no width shows stands under `--wide`, a line a row."""
    words = OF_EVERY_COMMAND[command].split()
    if command in ("machines", "search"):
        module = import_module(f"roofline.doors.cli.commands.explore.{command}")
        monkeypatch.setattr(module, "question", once(module.question))
    wide: set[int] = set()
    for width in WIDTHS if whole else (WIDTHS[0], WIDTHS[-1]):
        monkeypatch.setenv("COLUMNS", str(width))
        main(words)
        narrow = capsys.readouterr().out
        assert max(map(len, narrow.splitlines())) <= min(width, tables.WIDEST)
        assert (f"{min(width, tables.WIDEST)} columns" in narrow) == ("--wide shows all" in " ".join(narrow.split()))
        main([*words, "--wide"])
        out = capsys.readouterr().out
        assert "--wide shows all" not in " ".join(out.split())
        wide.add(max(map(len, out.splitlines())))
        recorded = Printed(monkeypatch, capsys, words)
        for table in recorded.tables:
            assert "\n".join(line for line, _ in table.fitted(sys.maxsize).lines) in out
    assert max(wide) > WIDTHS[0]


def test_a_pipe_is_as_wide_as_a_line_may_be(folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [sys.executable, "-m", "roofline", "chips"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert tables.WIDEST - 20 < max(map(len, lines)) <= tables.WIDEST
    assert lines[-1] == "not shown at 120 columns: Name; --wide shows all"


def test_json_is_the_same_at_every_width(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = set()
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        for more in ([], ["--wide"]):
            main(["analyze", MODEL, "--on", "h100-sxm", "--json", *more])
            outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1


@pytest.mark.parametrize("words", ["--help", "search --help", "models --help"])
def test_help_is_no_wider_than_other_text(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        main(words.split())
        assert max(map(len, capsys.readouterr().out.splitlines())) == min(width, tables.WIDEST)
