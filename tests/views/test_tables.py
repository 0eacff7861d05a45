"""Tables in windows of every width, and what a terminal sees of a command."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from itertools import pairwise

import pytest

from folded import by_day, folded
from roofline.doors.cli.main import main
from roofline.views.text.tables import Column, Table, _broken, markdown, plain_text

TABLE = Table(
    (Column("Op", False), Column("Layers", drop=1), Column("FLOPs"), Column("Weights", drop=2)),
    (("gate_up_proj", "32", "7.52 GFLOP", "7.52 GB"), ("act", "32", "2.29 MFLOP", "0 B")),
    (("Total", "", "15.55 GFLOP", "15.01 GB"),),
)


def escaped(text: str) -> list[str]:
    """The lines without what only a terminal reads."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r", "").splitlines()


def seen(width: int, *words: str) -> list[str]:
    """What a real terminal `width` characters wide gets of a command; stderr is on it too."""
    fcntl, termios, pty = (pytest.importorskip(name) for name in ("fcntl", "termios", "pty"))
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm-256color"}
    command = [sys.executable, "-m", "roofline.doors.cli.main", *words]
    with subprocess.Popen(command, stdout=child, stderr=child, stdin=child, env=environment) as process:
        os.close(child)
        chunks = []
        try:
            while chunk := os.read(parent, 2**16):
                chunks.append(chunk)
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(parent)
    assert process.returncode == 0
    return escaped(b"".join(chunks).decode())


def test_columns_go_in_their_order() -> None:
    names = [[c.name for c in TABLE.within(width).columns] for width in range(60, 0, -1)]
    assert names[0] == ["Op", "Layers", "FLOPs", "Weights"]
    assert ["Op", "Layers", "FLOPs"] in names
    assert names[-1] == ["Op", "FLOPs"]
    assert all(set(after) <= set(before) for before, after in pairwise(names))


def test_a_table_that_fits_is_whole() -> None:
    widest = max(map(len, plain_text(TABLE).splitlines()))
    assert TABLE.within(widest) is TABLE
    assert len(TABLE.within(widest - 1).columns) == 3


def test_forms_have_every_column() -> None:
    assert plain_text(TABLE).splitlines()[0].split() == ["Op", "Layers", "FLOPs", "Weights"]
    assert markdown(TABLE).splitlines()[0] == "| Op | Layers | FLOPs | Weights |"


def test_lines_break_between_words_and_hang_behind_their_name() -> None:
    line = "TTFT     33.9 ms (28.7 ms to 41.4 ms; speed of light 21.3 ms)"
    first, second = _broken(line, 50).splitlines()
    assert len(first) <= 50
    assert second.startswith(9 * " ")
    assert _broken(line, 100) == line


@folded("width", [80, 120, 200][: by_day(1, every=3)])
@folded(
    "command",
    [
        "analyze meta-llama/Llama-3.1-8B", "analyze meta-llama/Llama-3.1-8B --on h100-sxm --precision fp8",
        "models openai/gpt-oss-120b", "chips", "chips l4", "explain meta-llama/Llama-3.1-8B attention",
        "serve meta-llama/Llama-3.1-8B --on l4 --input 99 --output-tokens 9 --rate 1",
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
    assert lines[-1] == "too narrow for Layers, Weights, Activations, Cache: a pipe gets all columns"
