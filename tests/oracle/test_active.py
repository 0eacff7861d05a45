"""The products of one decoded token follow from the active parameters, routed experts included.

`torch` counting gives a grouped product of experts nothing, so exact `torch` FLOPs do not test those; this does. One
token meets each active weight once, a multiply-add of two FLOPs, but for tables, looked up or met head by head.
"""

import pytest

import roofline as rl
from folded import folded
from oracle import defaults
from roofline.model.modules import Embedding, Experts, RelativeBias
from roofline.work.ops import Convolve, ExpertMatMul, MatMul

FIGURES = defaults.load()


@folded("model_type", FIGURES)
def test_products_of_a_token(model_type: str) -> None:
    model = rl.load(FIGURES[model_type]["config"])
    if not any(isinstance(m, Experts) for m, _ in model.modules()):
        return
    tables = [(m, n) for m, n in model.modules() if isinstance(m, (Embedding, RelativeBias))]
    active = model.active_parameters - sum(n * m.parameters for m, n in tables if not getattr(m, "shared", False))
    apart = {m.name for m, _ in tables}
    costs = [cost for cost in rl.analyze(model, rl.decode(batch=1, context=1)).ops if cost.op.name not in apart]
    weighty = (
        c for c in costs if isinstance(c.op, (ExpertMatMul, Convolve)) or (isinstance(c.op, MatMul) and c.op.weight)
    )
    assert sum(c.flops for c in weighty) / 2 == pytest.approx(active, rel=1e-3)
