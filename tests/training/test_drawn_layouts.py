"""A seeded sample of `benchmarks/drawn_layouts.py`: each option changes what it should and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from drawn_layouts import CHANGES, Change, outcomes

LAYOUTS = 120


def test_each_option_changes_what_it_should_and_nothing_else() -> None:
    seen = list(outcomes(LAYOUTS, 5))
    assert [(one.change.name, one.wrong, one.call) for one in seen if one.wrong] == []
    moved = {(one.change.name, one.change.value) for one in seen if one.moved}
    assert moved == {(change.name, change.value) for change in CHANGES}


def test_a_figure_that_should_not_move_is_found() -> None:
    change = Change("optimizer", "sgd", less=("optimizer",))
    before = {"optimizer": 8.0, "weights": 2.0}
    assert list(change.wrong(before, {"optimizer": 4.0, "weights": 2.0})) == []
    assert list(change.wrong(before, {"optimizer": 9.0, "weights": 2.1})) == ["optimizer: 8 → 9", "weights: 2 → 2.1"]
