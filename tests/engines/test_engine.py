"""How engines run formats that a chip lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

import roofline as rl
from roofline.engines.engine import Engine, engine_named
from roofline.hardware.named_chip import chip_named


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


def test_a_fitted_latency_of_collectives_is_as_wide_as_the_whole_models_it_was_fitted_on() -> None:
    """On Max 1550 a collective has 106 times its latency; four fifths of whole times are within e^0.4."""
    bare = replace(engine_named("vllm-2024"), slower={})
    steps = [
        rl.estimate("meta-llama/Llama-2-7b-hf", rl.decode(1, 128), on="2xmax-1550", layout="tp=2", engine=engine)
        for engine in (bare, replace(bare, slower={"xe-hpc": {"latency": 106.0, "within": 0.4}}))
    ]
    expected = steps[1].time - steps[0].time
    assert expected > 0
    low, high = (steps[1].interval[i] - steps[0].interval[i] for i in (0, 1))
    assert low < expected < high
    exact = replace(bare, slower={"xe-hpc": {"latency": 106.0}})
    narrow = rl.estimate("meta-llama/Llama-2-7b-hf", rl.decode(1, 128), on="2xmax-1550", layout="tp=2", engine=exact)
    assert narrow.time == steps[1].time
    assert steps[1].interval[0] < narrow.interval[0]
    assert narrow.interval[1] < steps[1].interval[1]


def test_slower_arithmetic_leaves_bytes_alone_and_a_generation_has_its_own_host() -> None:
    """A product of one row waits for its weights, one of 8,192 for its arithmetic."""
    plain = replace(engine_named("vllm-2024"), slower={}, generations={})
    slow = replace(plain, slower={"cdna3": {"arithmetic": 3.0, "within": 0.1}})
    host = replace(plain, generations={"cdna3": {"step_s": plain.step_s + 0.01, "rereads": 1.0}})

    def products(engine: Engine, batch: int) -> float:
        step = rl.decode(batch, 64) if batch == 1 else rl.prefill(1, batch)
        e = rl.estimate("meta-llama/Llama-3.1-8B", step, on="mi300x", engine=engine, precision="fp16")
        return sum(float(op.expected) for op in e.ops if op.kind == "matmul")

    assert products(slow, 1) == pytest.approx(products(plain, 1), rel=0.1)
    assert products(slow, 8192) == pytest.approx(3 * products(plain, 8192), rel=0.1)
    assert (slow.grade("cdna3", "wide"), slow.within("cdna3", "experts"), slow.within("cdna3", "attention")) == (
        "B",
        0.1,
        None,
    )
    mi300x, h100 = chip_named("mi300x"), chip_named("h100-sxm")
    assert (host.on(mi300x).step_s, host.on(mi300x).rereads) == (pytest.approx(plain.step_s + 0.01), 1.0)
    assert (host.on(h100).step_s, host.on(h100).rereads) == (plain.step_s, plain.rereads)
