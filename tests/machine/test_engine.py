"""How engines run formats that a chip lacks."""

from __future__ import annotations

import pytest

import roofline as rl


def test_a_cpu_widens_halves_that_it_does_not_multiply_in() -> None:
    """Weights stay two bytes, products are fp32's; a GPU that lacks a format refuses it."""
    given = {"on": "epyc-7302", "engine": "none"}
    half, whole = (
        rl.estimate("meta-llama/Llama-3.2-1B", rl.prefill(1, 512), precision=p, **given) for p in ("bf16", "fp32")
    )
    assert (half.formats.activations.name, half.formats.activations.compute) == ("bf16", "fp32")
    assert half.compute_time == whole.compute_time
    assert whole.memory.weights == 2 * half.memory.weights
    with pytest.raises(rl.InputError, match="v100"):
        rl.estimate("meta-llama/Llama-3.2-1B", rl.prefill(1, 512), on="v100-pcie-32gb", engine="none")
