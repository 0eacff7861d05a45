"""A server whose model has low-rank adapters: their bytes take memory, and steps read them."""

from __future__ import annotations

import pytest

from alike import EQUAL
from roofline.inference.settings import setup
from roofline.model.adapters import with_lora
from roofline.model.load import model_of
from roofline.serving.simulate.policy import room_of
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.steps import step_times

RANK = 64
PARAMETERS = 32 * RANK * (3 * 4096 + 6144 + 4096 + 4096 + 2 * 4096 + 2 * 14336 + 14336 + 4096)
"""Of Llama-3.1-8B: A and B of q, k and v (4096 → 6144), o, gate and up (4096 → 2·14336) and down in 32 layers."""


def test_an_adapter_takes_the_room_of_its_weights() -> None:
    plain = model_of("meta-llama/Llama-3.1-8B")
    adapted = with_lora(plain, RANK)
    assert adapted.parameters - plain.parameters == PARAMETERS
    rooms = [room_of(setup(m, on="h100-sxm"), 1, 4096) for m in (plain, adapted)]
    budgets = [plain.kv_bytes(1) / room.token for room in rooms]
    assert budgets[0] - budgets[1] == pytest.approx(2 * PARAMETERS, rel=1e-3)


def test_a_step_reads_it() -> None:
    """At a batch of one a step lasts longer by at least its bytes over the memory's bandwidth."""
    plain = model_of("meta-llama/Llama-3.1-8B")
    times = [step_times(setup(m, on="h100-sxm").plan, 64, 8, 4096) for m in (plain, with_lora(plain, RANK))]
    steps = [t.row(1).step(1000.0) for t in times]
    assert steps[1] - steps[0] > 2 * PARAMETERS / 3.35e12
    extent = Extent(requests=5, warmup=1)
    seen = [
        simulate(m, input=500, output=64, concurrency=1, on="h100-sxm", extent=extent, **EQUAL)
        for m in (plain, with_lora(plain, RANK))
    ]
    assert seen[1].tpot.mean - seen[0].tpot.mean == pytest.approx(steps[1] - steps[0], rel=0.02)
