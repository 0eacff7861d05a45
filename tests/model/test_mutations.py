"""A seeded sample of `benchmarks/mutations.py`: what somebody changed gives a sound number or one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import roofline as rl
from hub import CONFIG

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import mutations
from folded import folded


@pytest.mark.parametrize("seed", range(1, 4))
def test_no_change_is_a_fault(seed: int) -> None:
    trials = list(mutations.trials(100, seed))
    assert [t for t in trials if t.outcome == "fault"] == []
    assert {t.outcome for t in trials} == {"loaded", "warned", "refused"}


EVIL = [
    r"re:(\w|.)*!", r"re:(a|aa)+$", "re:" + ".*" * 12 + "x", r"re:\w+\w+\w+\w+\w+!", "re:(", "re:a{99999999999999}",
    "re:" + "(" * 900, "re:" + "a?" * 40 + "a" * 40, "re:[^z]*[^z]*[^z]*[^z]*[^z]*!",
]  # fmt: skip


@folded("pattern", EVIL)
def test_expressions_that_take_for_ever_are_refused(pattern: str) -> None:
    section = {"quant_method": "fp8", "modules_to_not_convert": [pattern]}
    with pytest.raises(rl.InputError, match="expected a regular expression"):
        rl.load(CONFIG | {"quantization_config": section})


@folded(
    "pattern",
    [
        r"re:.*mlp\.(gate|up|gate_up|down)_proj.*", r"re:.*layers\.\d+\.mlp\.experts\.\d+\..*",
        "re:.*self_attn.*|.*lm_head.*|.*shared_experts.*|.*mlp.gate.*|vision_tower.*", r"re:model\.layers\.(0|1)\..*",
        r"re:^(?!.*(?:o|down)_proj).*$", r"re:.*\.(q|k|v|o)_proj$",
    ],
)  # fmt: skip
def test_expressions_as_they_are_published_pass(pattern: str) -> None:
    rl.load(CONFIG | {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": [pattern]}})


@folded("dtype", ["fp16", "bfloat16", "int9", "float32", "8", "", "fp5"])
def test_dtypes_that_quark_lacks_are_refused(dtype: str) -> None:
    section = {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": dtype}}}
    with pytest.raises(rl.InputError, match="dtype"):
        rl.load(CONFIG | {"quantization_config": section})
    with pytest.raises(rl.InputError, match="the format of weights"):
        rl.load(CONFIG | {"quantization_config": {"quant_method": "quark", "global_quant_config": None}})
