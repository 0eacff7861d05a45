"""What training frameworks do, rule by rule: every number by a formula worked out by hand, with its source."""

from __future__ import annotations

import pytest

import roofline as rl
from roofline.estimates.schedule import StageTimes, length
from roofline.layout.layout import Layout
from roofline.machine.fabric import cluster_named

LLAMA, LARGE = rl.load("meta-llama/Llama-3.1-8B"), rl.load("meta-llama/Llama-3.1-70B")
HUGE, MIXTURE, DEEP = (
    rl.load(name) for name in ("meta-llama/Llama-3.1-405B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3")
)


# -- layouts -------------------------------------------------------------------------------------------------------
def test_a_degree_that_would_do_nothing_is_refused() -> None:
    for model, layout, field in ((LLAMA, "dp=8,ep=8", "layout.ep"), (LLAMA, "dp=8,shard=4", "layout.shard")):
        with pytest.raises(rl.InputError) as caught:
            rl.train(model, batch=8, tokens=1024, on="dgx-h100", layout=layout)
        assert caught.value.field == field
    assert rl.shard(MIXTURE, Layout(dp=8, ep=8)).parameters < MIXTURE.parameters
    assert Layout(dp=8, shard=4, zero=3).sharers == 4


def test_chunks_without_stages_are_refused() -> None:
    with pytest.raises(rl.InputError) as caught:
        rl.train(LLAMA, batch=8, tokens=1024, on="dgx-h100", layout="tp=8,sp,vp=2")
    assert caught.value.field == "layout.vp"


def test_embedding_and_loss_count_as_layers_of_interleaved_stages() -> None:
    """Llama-3 405B has 126 layers for 128 of them (arXiv:2407.21783 §3.3.2): 16 stages of 8 chunks of one layer each.

    The first chunk has the embedding alone and the last the loss.
    """
    stages = Layout(pp=16, vp=8).layers_of(126)
    assert [len(s) for s in stages] == [7, *[8] * 14, 7]
    assert sorted(i for s in stages for i in s) == list(range(126))
    assert stages[0] == tuple(range(15, 126, 16))  # of chunks 0, 16, 32, …: all but the first
    e = rl.train(
        HUGE, batch=128, tokens=8192, on="1024xh100-sxm", layout="tp=8,pp=16,vp=8,dp=8,zero=1",
        schedule="interleaved",
    )  # fmt: skip
    assert sum(s.layers for s in e.stages) == 126
    with pytest.raises(rl.InputError, match="at most 16 stages"):
        Layout(pp=17, vp=8).layers_of(126)
    with pytest.raises(rl.InputError, match="at most 126 stages"):
        Layout(pp=127).layers_of(126)


@pytest.mark.parametrize(
    ("chips", "racks", "each"), [(256, 4, 64), (512, 8, 64), (2048, 32, 64), (144, 2, 72), (5120, 80, 64), (100, 2, 50)]
)
def test_racks_are_used_in_part(chips: int, racks: int, each: int) -> None:
    """18 trays of 4 GPUs a rack: as few racks as have equal parts of whole trays."""
    if each % 4:
        with pytest.raises(rl.InputError, match="cluster"):
            cluster_named(f"{chips}xgb200")
        return
    cluster = cluster_named(f"{chips}xgb200")
    assert cluster.chips == chips
    assert [level.size for level in cluster.levels] == [each, racks]


# -- schedules -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("schedule", "units"), [("1f1b", 117), ("zb-h1", 103), ("zb-h2", 96), ("gpipe", 117)])
def test_zero_bubble_schedules_take_what_their_formulas_say(schedule: str, units: int) -> None:
    """8 stages, 32 micro-batches, F = B = W = 1: 96 of work; 21 of bubble, ZB-H1 a third, ZB-H2 none.

    (p − 1)(F + B + W), (p − 1)(F + B − W), (p − 1)(F + B − 2W): arXiv:2401.10241, table 2.
    """
    assert length(schedule, [StageTimes(1.0, 1.0, 1.0)] * 8, 32) == units
