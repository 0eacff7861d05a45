"""A walk by the clock: the questions of the first hour, each answered by its one command on the first screen."""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import documented
from documented import Told

PAGE = documented.ROOT / "docs" / "first-hour.md"
LINES, WIDTH = 24, 80
"""The first screen of a small terminal."""
SECONDS = 15.0
"""CPU seconds that an answer may take on a slow machine; on an idle one they take one to three."""
ANSWERS = {
    "Does it fit on my GPU?": r"^fits +yes, in .+: [\d.]+ GB of [\d.]+ GB",
    "How many tokens a second?": r"^one user +\d+ tokens/s, TTFT",
    "What does a million tokens cost?": r"^cost +\$[\d.]+ per million prompt tokens, \$[\d.]+ generated",
    "Which GPU should I rent?": r"^1  [\w-]+ +\d+ × [\w=-]+.* +\d+\.\d\d ",
    "Which layout should I train with?": r"^1 +dp=8, zero=2 .* [\d.]+ s +[\d.]+ GB$",
    "Why is decode slow?": r"^Total .* memory$",
    "How do I read a roofline?": r"^left of the ridge, memory bandwidth limits an op; right of it, compute",
}
"""Question → what a line of the first screen says."""


def walk() -> list[tuple[str, Told]]:
    """The questions of the page with their commands."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    told = iter(documented.commands(PAGE))
    assert [section.count("\n$ ") for section in sections] == [1] * len(sections)
    return [(section.splitlines()[0], next(told)) for section in sections]


def test_the_page_asks_every_question_once() -> None:
    assert [question for question, _ in walk()] == list(ANSWERS)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("question", "told"), walk(), ids=lambda v: v if isinstance(v, str) else "")
def test_the_first_screen_has_the_answer(question: str, told: Told, tmp_path: Path) -> None:
    words = [sys.executable, "-m", *shlex.split(told.text)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120,
        env={**os.environ, "COLUMNS": str(WIDTH)},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    screen = done.stdout.splitlines()[:LINES]
    assert max(map(len, done.stdout.splitlines())) <= WIDTH
    assert re.search(ANSWERS[question], "\n".join(screen), re.MULTILINE), "\n".join(screen)
    assert after.ru_utime - before.ru_utime < SECONDS
