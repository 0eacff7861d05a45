"""How sure a simulation is of a mean, in comparisons with it."""

from __future__ import annotations

from roofline.serving.simulate.simulation import Distribution


def width(times: Distribution) -> float:
    """Half of the confidence interval of the mean, nothing where none is told."""
    return 0.0 if times.half_width != times.half_width else times.half_width
