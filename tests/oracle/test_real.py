"""Parameters and counted FLOPs are those of the real model code, to the digit, whatever a config says."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roofline as rl
from oracle import cases, defaults
from roofline.work.ops import ExpertMatMul

pytestmark = pytest.mark.oracle

each_type = pytest.mark.parametrize("model_type", cases.TYPES)
drawing = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

ODD = (2, 70)  # sequences x tokens that fill no chunk of a scan

# Types whose code does not decode as `torch` counting has it, and why.
UNLIKE_DECODES = {
    "doge": "projects the values of the whole cache again at every step, for its mask",
    "granitemoehybrid": "the base case has no attention, without which its code cannot decode",
    "openai-gpt": "keeps no cache",
    "recurrent_gemma": "adds up the taps of its convolution one by one where it decodes, which is no product",
    "rwkv": "of several sequences it mixes each with the last token of all (one sequence is as counted)",
}
# Sequences and cached tokens where the usual ones do not fit: positions are few, or the router's choices do not spread
# evenly over experts and those that do nothing.
DECODES = {"imagegpt": ((2, 30), (3, 5)), "longcat_flash": ((2, 70), (2, 5))}


@pytest.fixture(scope="session")
def real() -> Any:
    return pytest.importorskip("oracle.real")


def parameters(config: dict[str, Any]) -> int:
    return int(rl.load(config, text_only=True).parameters)


def matmul_flops(config: dict[str, Any], batch: int, tokens: int) -> int:
    return int(rl.analyze(rl.load(config), rl.prefill(batch=batch, tokens=tokens), counting="torch").flops)


@each_type
def test_kept_figures(real: Any, model_type: str) -> None:
    """`default.json`, which `test_default.py` compares with, is what the real code says."""
    kept = defaults.load()[model_type]
    assert kept["config"] == defaults.config(model_type)
    assert kept["parameters"] == real.parameters(kept["config"], text_only=True)
    assert kept["flops"] == {name: real.matmul_flops(kept["config"], *shape) for name, shape in defaults.SHAPES.items()}


@pytest.mark.parametrize("model_type", defaults.LACKING)
def test_lacking(real: Any, model_type: str) -> None:
    """The bare defaults of these types, and by `test_kept_figures` of these alone, cannot be built and counted."""
    with pytest.raises((AttributeError, KeyError, TypeError, RuntimeError)):
        real.matmul_flops(defaults.config(model_type, bare=True), 1, 64)


@each_type
def test_each_value(real: Any, model_type: str) -> None:
    """One key at a time: what fails names the key."""
    for config in cases.one_by_one(model_type):
        assert parameters(config) == real.parameters(config, text_only=True), str(config)
        assert matmul_flops(config, *ODD) == real.matmul_flops(config, *ODD), str(config)


@pytest.mark.parametrize("model_type", [name for name in cases.TYPES if name not in UNLIKE_DECODES])
def test_decode(real: Any, model_type: str) -> None:
    """One token behind a cache that the real code filled: shorter than windows and chunks, and longer."""
    config = cases.base(model_type)
    for batch, cached in DECODES.get(model_type, ((2, 70), (3, 5), (1, 200))):
        step = rl.decode(batch=batch, context=cached)
        counted = rl.analyze(rl.load(config), step, counting="torch").flops
        assert counted == real.decode_flops(config, batch, cached), (batch, cached)


@pytest.mark.parametrize("model_type", UNLIKE_DECODES)
def test_unlike_decode(real: Any, model_type: str) -> None:
    """The types that `test_decode` leaves out are those whose code decodes otherwise, or does not."""
    config = cases.base(model_type)
    try:
        flops = real.decode_flops(config, 2, 70)
    except (AssertionError, ValueError):
        return
    assert rl.analyze(rl.load(config), rl.decode(batch=2, context=70), counting="torch").flops != flops


@each_type
def test_routed_experts(real: Any, model_type: str) -> None:
    """The grouped matmuls that torch has no formula for are those of the model's experts: tokens x top-k rows."""
    config = cases.base(model_type)
    batch, tokens = ODD
    costs = rl.analyze(rl.load(config), rl.prefill(batch=batch, tokens=tokens)).ops
    experts = [(cost.layers, cost.op) for cost in costs if isinstance(cost.op, ExpertMatMul)]
    rows = sum(layers * 2 * op.m * op.k * op.n for layers, op in experts if op.reference == "grouped")
    assert rows == real.matmul_flops(config, *ODD, experts=True) - real.matmul_flops(config, *ODD)


@each_type
@settings(drawing, max_examples=25)
@given(data=st.data())
def test_drawn_parameters(real: Any, model_type: str, data: st.DataObject) -> None:
    config = data.draw(cases.draw(model_type))
    assert parameters(config) == real.parameters(config, text_only=True), str(config)


@each_type
@settings(drawing, max_examples=3)
@given(data=st.data())
def test_drawn_flops(real: Any, model_type: str, data: st.DataObject) -> None:
    config = data.draw(cases.draw(model_type))
    for shape in (*defaults.SHAPES.values(), ODD):
        assert matmul_flops(config, *shape) == real.matmul_flops(config, *shape), str(config)
