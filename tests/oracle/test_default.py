"""The default config of every checked type has the parameters and the counted FLOPs of the real code, to the digit.

The real code itself is not needed here; `test_real.py` runs it.
"""

import roofline as rl
from folded import folded
from oracle import defaults

FIGURES = defaults.load()


@folded("model_type", FIGURES)
def test_parameters(model_type: str) -> None:
    figures = FIGURES[model_type]
    assert rl.load(figures["config"], text_only=True).parameters == figures["parameters"]


@folded("shape", defaults.SHAPES)
@folded("model_type", FIGURES)
def test_flops(model_type: str, shape: str) -> None:
    figures = FIGURES[model_type]
    batch, tokens = defaults.SHAPES[shape]
    step = rl.prefill(batch=batch, tokens=tokens)
    assert rl.analyze(rl.load(figures["config"]), step, counting="torch").flops == figures["flops"][shape]
