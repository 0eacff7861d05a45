"""A seeded sample of `benchmarks/fuzz.py`: a file that somebody changed is read or refused in one line, in bounds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from folded import by_day

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz


def test_no_changed_file_is_a_fault() -> None:
    trials = list(fuzz.trials(by_day(372, every=744), 12))
    assert [t for t in trials if t.outcome not in ("read", "refused")] == []
    assert {t.reader.split(" ", 1)[0] for t in trials if t.outcome == "refused"} == {
        "config", "index", "header", "chip", "cluster", "accuracy", "trace", "lengths", "table", "words",
        "resumed", "condition", "requirements", "figures",
        "profile", "results", "gguf", "axis", "layouts", "price", "grid", "time", "traffic", "side",
    }  # fmt: skip
    assert sum(t.outcome == "read" for t in trials) > by_day(15, every=30)


@pytest.mark.parametrize(
    ("reader", "old", "new"),
    [
        ("chip", b"3350", b"1" + 400 * b"0"), ("chip", b"3350", 5000 * b"9"), ("cluster", b"50,", 5000 * b"9" + b","),
        ("words 4", b"20+", 5000 * b"9" + b"+"), ("words 1", b"141G", 400 * b"x"), ("chip", b"989.4", b"1e300"),
        ("words 1", b"1000T", b"1e-300"),
    ],
)  # fmt: skip
def test_what_it_has_come_upon_is_refused(tmp_path: Path, reader: str, old: bytes, new: bytes) -> None:
    trial = fuzz.tried(reader, tmp_path, lambda content: content.replace(old, new))
    assert trial.outcome == "refused"


def test_numbers_beyond_those_of_a_machine_word_in_measurements(tmp_path: Path) -> None:
    trial = fuzz.tried("accuracy", tmp_path, lambda content: content.replace(b",1,", b"," + 30 * b"9" + b","))
    assert trial.outcome in ("read", "refused")
