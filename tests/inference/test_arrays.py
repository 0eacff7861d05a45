"""Arrays are the scalars one by one, whatever is asked: `benchmarks/arrays.py` draws as many as one likes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofline as rl
from drawn import KINDS, cases, check
from folded import by_day, folded
from roofline.declared.numbers.unique_rows import everyone

DRAWS = 10
LLAMA = "meta-llama/Llama-3.2-1B"
SETTINGS: dict[str, list[Any]] = {
    "model": [LLAMA, "Qwen/Qwen1.5-MoE-A2.7B"], "on": ["h100-sxm", "dgx-h100"], "precision": [None, "fp8"],
}  # fmt: skip


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_the_scalars_one_by_one(kind: str) -> None:
    """To 1e-12: numbers, words, memory, stages; few of the draws are settings that cannot be."""
    compared = [check(case) for case in cases(11, DRAWS, [kind])]
    assert sum(points > 0 for points in compared) >= 0.6 * DRAWS
    assert sum(compared) >= 2 * DRAWS


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("name", "options", "lists"),
    [
        ("estimate", {"step": rl.decode(8, np.array([100, 2000]))}, {"engine": [None, "vllm"]}),
        ("generate", {"batch": np.array([1, 64]), "input": 300, "output": 5}, {"law": ["ideal", "calibrated"]}),
        ("serve", {"concurrency": np.array([1, 64]), "input": 300, "output": 25}, {"engine": ["sglang", "vllm"]}),
        ("fit", {"batch": np.array([1, 64]), "context": 300}, {"engine": ["sglang", "trtllm"]}),
        ("train", {"batch": np.array([8, 64]), "tokens": 256}, {"recompute": ["none", "full", ["attention"]]}),
    ],
)
def test_lists_are_the_settings_one_by_one(name: str, options: dict[str, Any], lists: dict[str, Any]) -> None:
    """Every list an axis, the last one fastest; the numbers are equal to the last digit."""
    run, lists = getattr(rl, name), {**SETTINGS, **lists}
    grid = run(**options, **lists)
    names = [axis.name for axis in grid.axes]
    assert sorted(names) == sorted(lists)
    for place in list(np.ndindex(*(len(lists[name]) for name in names)))[:: by_day(3, 1)]:
        one = run(**options, **{name: lists[name][i] for name, i in zip(names, place, strict=True)})
        at = grid.at(**{a.name: a.labels[i] for a, i in zip(grid.axes, place, strict=True)})
        assert at.to_dict() == one.to_dict()
        assert np.array_equal(grid.memory.total[place], one.memory.total)
        assert np.array_equal(grid.fits[place], one.fits)


def test_stages_and_their_like_are_lists_of_a_layout() -> None:
    layout = {"tp": np.array([1, 2]), "pp": [1, 2], "zero": [0, 3], "dp": 2}
    grid = rl.train(LLAMA, batch=8, tokens=256, on="8xh100-sxm", layout=layout)
    assert [(axis.name, axis.labels) for axis in grid.axes] == [("pp", ("1", "2")), ("zero", ("0", "3"))]
    assert grid.time.shape == (2, 2, 2)
    for i, pp in enumerate((1, 2)):
        for j, zero in enumerate((0, 3)):
            for k, tp in enumerate((1, 2)):
                alone = rl.Layout(tp=tp, pp=pp, dp=2, zero=zero)
                one = rl.train(LLAMA, batch=8, tokens=256, on="8xh100-sxm", layout=alone)
                assert grid.time[i, j, k] == pytest.approx(one.time, rel=1e-12)
                assert grid.memory.total[i, j, k] == pytest.approx(one.memory.total, rel=1e-12)


@folded(
    ("call", "field"),
    [
        (lambda: rl.generate(LLAMA, on="l4", batch=np.array([1, 2]), input=np.array([1, 2, 3]), output=2), "arrays"),
        (lambda: rl.serve(LLAMA, on="l4", concurrency=np.array([1, 2]), input=8, output=np.array([1, 2, 3])), "arrays"),
        (lambda: rl.fit(LLAMA, on="l4", batch=np.array([1, 2]), context=np.array([1, 2, 3])), "arrays"),
        (lambda: rl.fit(LLAMA, on="l4", batch=[[1, 2], [3]], context=8), "batch"),
        (lambda: rl.fit(LLAMA, on="l4", batch=[], context=8), "batch"),
        (lambda: rl.fit(LLAMA, on=[], context=8), "on"),
        (lambda: rl.train(LLAMA, on="dgx-h100", batch=np.array([8, 16]), tokens=np.array([1, 2, 3])), "arrays"),
        (lambda: rl.Layout(pp=[1, 2]), "layout.pp"),  # type: ignore[arg-type]
        (lambda: rl.Layout(zero=np.array([1, 2])), "layout.zero"),  # type: ignore[arg-type]
        (lambda: rl.Layout(tp=[[1, 2], [4]]), "layout.tp"),
        (lambda: rl.training(8, 128, schedule=["1f1b", "gpipe"]), "schedule"),  # type: ignore[arg-type]
        (lambda: rl.estimate(LLAMA, rl.decode(np.array([1, 2]), 8), on="dgx-h100",
                             layout=rl.Layout(tp=np.array([1, 2, 4]))), "arrays"),
        (lambda: rl.generate(LLAMA, batch=np.array([1, 2]), input=8, output=2, on="dgx-h100",
                             layout=rl.Layout(tp=np.array([1, 2, 4]))), "arrays"),
        (lambda: rl.serve(LLAMA, concurrency=np.array([1, 2]), input=8, output=2, on="dgx-h100",
                          layout=rl.Layout(tp=np.array([1, 2, 4]))), "arrays"),
        (lambda: rl.fit(LLAMA, batch=np.array([1, 2]), context=8, on="dgx-h100",
                        layout=rl.Layout(tp=np.array([1, 2, 4]))), "arrays"),
    ],
)  # fmt: skip
def test_what_no_array_or_list_can_be_is_an_input_error(call: Any, field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        call()
    assert error.value.field == field


def test_an_array_without_axes_has_one_element() -> None:
    one = everyone(())
    assert one.take(np.array(7)).tolist() == [7]
    assert one.within((3,)).tolist() == [0, 0, 0]
