"""TPUs: few large cores, whose attention and collectives are not those of a GPU's many small units."""

import pytest

import roofline as rl
from roofline.hardware.cluster import cluster_named
from roofline.kernels.collectives import hop


@pytest.mark.parametrize("chip", ["tpu-v5p", "tpu-v6e", "tpu-v7"])
@pytest.mark.parametrize("kv", ["bf16", "fp8"])
def test_a_core_takes_sequence_after_sequence_at_the_bandwidth(chip: str, kv: str) -> None:
    """135 sequences of 1,536 tokens: less than twice the time in which the memory delivers their caches."""
    step = rl.estimate("Qwen/Qwen3-32B", on=chip, precision=f"kv={kv}", batch=135, context=1536)
    attention = next(op for op in step.ops if op.name == "attention")
    assert 1 < attention.expected / attention.floor < 2


def test_an_all_reduce_on_a_torus_is_its_hops_and_its_bytes() -> None:
    """A slice of 2 x 4: 1 + 3 hops of 1 us there and as many back, and 7/4 of the bytes over the links of two axes."""
    (part,) = cluster_named("8xtpu-v6e").span(8)
    size = 2**20
    by_hand = 2 * 4 * 1e-6 + 2 * 7 / 8 * size / (0.75 * 200e9)
    assert hop("all_reduce", 1.0, part, "tpu-v6e").timed(size).expected == pytest.approx(by_hand)
