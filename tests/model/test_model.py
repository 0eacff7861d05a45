"""A model's modules, and where each stands."""

from __future__ import annotations

import roofline as rl


def test_every_module_stands_somewhere() -> None:
    model = rl.load("deepseek-ai/DeepSeek-V3")
    found = list(model.placed())
    assert [(m, n) for _, m, n in found] == list(model.modules())
    assert found[0] == ("embedding", model.embedding[0], 1)
    assert found[-1] == ("head", model.head[-1], 1)
    assert {place: n for place, _, n in found} == {"embedding": 1, **{b.name: n for b, n in model.blocks}, "head": 1}
    assert sum(n * m.parameters for _, m, n in found) == model.parameters
