"""A sample of `benchmarks/absurd.py`: numbers that nobody means are answered or refused in one line, in bounds."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import absurd

pytestmark = pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="needs fork and its limits")


def test_no_number_is_a_fault(tmp_path: Path) -> None:
    lines = sorted(absurd.lines())
    assert {line[0] for line in lines} == set(absurd.BASES)
    chosen = [*random.Random(5).sample(lines, 60), *absurd.LONG]
    trials = [absurd.ran(words, tmp_path) for words in chosen]
    assert [(t.words, t.fault, t.said[:500]) for t in trials if t.fault] == []
    assert sum(t.code == 2 for t in trials) > 40


@pytest.mark.parametrize("command", [c for c in absurd.BASES if c not in ("plot", "report", "search")])
def test_each_line_is_meant_without_what_is_absurd(tmp_path: Path, command: str) -> None:
    for base in absurd.BASES[command]:
        trial = absurd.ran((command, *base.split()), tmp_path)
        assert (trial.code in (0, 1), trial.fault) == (True, ""), trial.said


FOUND = [
    "serve openai-community/gpt2 --on h100-sxm --input 64 --output 8 --rate 1e-320",
    "serve openai-community/gpt2 --on h100-sxm --input 64 --output 8 --rate 1e-9",
    "sensitivity openai-community/gpt2 --on h100-sxm --input 64 --output 8 --rate 1e-320",
    "simulate openai-community/gpt2 --on h100-sxm --input 9 --output 9 --rate 1e-12 --requests 20",
    "simulate openai-community/gpt2 --on h100-sxm --input 9 --output 9 --rate 1 --until 1e-320",
    "train openai-community/gpt2 --on dgx-h100 --batch 64 --tokens 512 --layout pp=4,dp=2 --run-tokens 1e-320",
    "search openai-community/gpt2 --on h100-sxm --input 64 --output 8 --concurrency 4 --budget inf",
    "search openai-community/gpt2 --on h100-sxm --input 64 --output 8 --concurrency 4 --power inf",
]


@pytest.mark.parametrize("line", FOUND)
def test_what_it_has_come_upon(tmp_path: Path, line: str) -> None:
    trial = absurd.ran(line.split(), tmp_path)
    assert (trial.code, trial.fault) == (2, ""), trial.said
