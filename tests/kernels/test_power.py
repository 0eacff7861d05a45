"""The energy roofline: by hand, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.hardware.grids import grid_named, grids
from roofline.hardware.named_chip import chip_named
from roofline.kernels.power import UNITS, Busy, Draw, draw_of, energy_balance, work_per_joule

H100 = rl.chips()["h100-sxm"]
LLAMA = "meta-llama/Llama-3.1-8B"
SECONDS = st.floats(0, 1e6)


def test_a_v100_by_hand() -> None:
    """No rows of its generation: 30 % of 300 W awake; products at 0.75 of peak, and reading at 0.8, as a V100 draws."""
    d = draw_of(rl.chips()["v100-sxm2-32gb"])
    assert d is not None
    assert (d.idle + d.awake, d.most, d.padding, d.tiles) == (90, 300, 0, 0)
    assert d.idle + d.awake + 0.75 * d.compute == pytest.approx(300, rel=1e-3)
    assert d.idle + d.awake + 0.80 * d.memory == pytest.approx(0.633 * 300, rel=1e-3)
    assert (d.link, d.grade, d.low < 1 < d.high) == (30, "C", True)


def test_a_workstation_draws_by_the_shares_of_its_architecture() -> None:
    """600 W: 0.404 of them while a step is under way, and 0.748 more for memory at full bandwidth."""
    board = draw_of(rl.chips()["rtx-pro-6000-workstation"])
    assert board is not None
    assert board.idle + board.awake == pytest.approx(0.404 * 600)
    assert board.joules(1.0, Busy(running=1.0, memory=0.7)) == pytest.approx(0.404 * 600 + 0.7 * 0.748 * 600)
    assert (board.grade, board.low, board.high) == ("C", 0.7, 1.6)


def test_ten_seconds_of_an_h100_by_hand() -> None:
    """TDP 700 W, idle 70 W: each unit's watts times its seconds, those of Hopper in `power.toml`."""
    d = draw_of(H100)
    assert d is not None
    units = 1.2 * 1 + 0.546 * 6 + 0.1 * 0.5 + 1.716 * 0.25 + 5.182 * 0.125 + 2.324 * 0.0625
    expected = 70 * 10 + (0.258 * 700 - 70) * 8 + 700 * units
    assert d.joules(10.0, Busy(8.0, 1.0, 6.0, 0.5, 0.25, 0.125, 0.0625)) == pytest.approx(expected)
    assert (d.grade, d.low < 1 < d.high) == ("B", True)


def test_attention_fills_its_tiles_in_part_while_it_decodes() -> None:
    """Llama-3.1-8B has four query heads to a key, so that 60 of 64 rows are padding; GPT-2 has one, and no tiles.

    128 sequences of 1,024 keys: 2·2·32 heads·128·1,025 FLOPs each, in 32 layers, times 16. A prompt fills its tiles.
    """
    decoding = rl.estimate(LLAMA, rl.decode(batch=128, context=1024), on="h100-sxm", precision="bf16").total
    assert decoding.tiles == pytest.approx(16 * 4 * 32 * 128 * 1025 * 128 * 32 / H100.peak("bf16"))
    assert rl.estimate(LLAMA, rl.prefill(1, 1024), on="h100-sxm", precision="bf16").total.tiles == 0
    assert rl.estimate("openai-community/gpt2", rl.decode(8, 512), on="h100-sxm").total.tiles == 0


def test_kernels_of_experts_fill_tiles_for_few_rows() -> None:
    """One token of Qwen3-30B-A3B, eight experts of three 2048 × 768 matrices in 48 layers: one row each of 8 in a tile.

    SGLang's tiles on H100 have at least 8 rows, so seven times the useful rows are padding. A long prompt has hardly
    any, and a dense model none.
    """
    alone, prompt = (
        rl.estimate("Qwen/Qwen3-30B-A3B", step, on="h100-sxm", precision="bf16", engine="sglang").total
        for step in (rl.decode(batch=1, context=700), rl.prefill(1, 32768))
    )
    useful = 2 * 8 * 3 * 2048 * 768 * 48 / H100.peak("bf16")
    assert alone.padding == pytest.approx(7 * useful)
    assert 0 < prompt.padding < 0.02 * 32768 * useful
    assert rl.estimate(LLAMA, rl.decode(8, 64), on="h100-sxm").total.padding == 0


def test_flash_attention_2_computes_longer_on_slower_instructions() -> None:
    """Diffusers' attention takes 1.75 times as long as by Hopper's own instructions, on a B200 2.97 times."""
    for on, factor in (("h100-sxm", 1.75), ("b200", 2.97)):
        batch = rl.encode("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", on=on, engine="diffusers", precision="bf16")
        busy = [op.busy for op in batch.one.ops if op.kind == "attention"]
        assert [b.slower for b in busy] == pytest.approx([(factor - 1) * b.compute for b in busy])
        assert sum(op.busy.slower for op in batch.one.ops) == pytest.approx(sum(b.slower for b in busy))


def test_vllm_of_2025_computes_128_rows_of_every_expert_in_fp8_blocks() -> None:
    """16 experts of three 4096 × 1536 matrices in each of 94 layers of Qwen3-235B on each of eight ranks; none in 0.12.

    ML.ENERGY measured 25.3 and 45.0 ms a token under 0.11.1 with 8 and 128 users.
    """
    step, where = rl.decode(batch=8, context=700), {"on": "8xh100-sxm", "layout": "tp=8,ep=8"}
    then, now = (
        rl.estimate("Qwen/Qwen3-235B-A22B", step, engine=f"vllm@{r}", precision="weights=fp8-block", **where).total
        for r in ("0.11", "0.12")
    )
    rows = 2 * 128 * 16 * 3 * 4096 * 1536 * 94 / H100.peak("fp8")
    assert then.padding - now.padding == pytest.approx(rows)
    assert rows < then.expected - now.expected < 4 * rows
    users = [
        rl.serve(
            "Qwen/Qwen3-235B-A22B", engine="vllm@0.11", precision="weights=fp8-block", input=300, output_tokens=877,
            concurrency=n, **where,
        ).tpot.expected
        for n in (8, 128)
    ]  # fmt: skip
    assert users == pytest.approx([0.0253, 0.0450], rel=0.15)


@given(seconds=SECONDS, shares=st.tuples(*[st.floats(0, 1)] * 7))
def test_never_above_the_tdp_nor_below_idle(seconds: float, shares: tuple[float, ...]) -> None:
    for id in ("h100-sxm", "a100-sxm-80gb", "mi300x", "b200", "rtx-4090", "tpu-v5e"):
        d = draw_of(rl.chips()[id])
        assert d is not None
        joules = d.joules(seconds, Busy(*(s * seconds for s in shares)))
        assert d.idle * seconds * (1 - 1e-12) <= joules <= d.most * seconds * (1 + 1e-12)


def test_every_chip_with_a_tdp_has_watts_that_are_none_below_zero() -> None:
    for id, chip in rl.chips().items():
        d = draw_of(chip)
        assert (d is None) == (chip.tdp is None), id
        if d is not None:
            assert min(d.idle, d.awake, *(getattr(d, unit) for unit in UNITS)) >= 0, id


def test_arrays_are_their_elements() -> None:
    d = draw_of(H100)
    assert d is not None
    busy = Busy(np.array([1.0, 2.0]), np.array([0.5, 2.0]), 0.25)
    assert d.joules(np.array([1.0, 3.0]), busy) == pytest.approx(
        [d.joules(1.0, Busy(1.0, 0.5, 0.25)), d.joules(3.0, Busy(2.0, 2.0, 0.25))]
    )


def test_the_energy_roofline_by_hand() -> None:
    """Choi et al., IPDPS 2013: joules of a FLOP and its bytes, and of the time that both take at least."""
    board = Draw(100.0, 50.0, 200.0, 120.0, 0.0, 0.0, 0.0, 0.0, 1000.0, 1.0, 1.0, "A", "")
    chip = chip_named("peak=100TFLOP/s,bw=1TB/s,mem=16GB")
    # 10 FLOP/B, bound by memory: a FLOP takes 0.1 ps, 150 W of it, and 200 W · 10 fs + 120 W · 0.1 ps.
    assert work_per_joule(board, chip, 100e12, 10.0) == pytest.approx(1 / (150 * 1e-13 + 200 * 1e-14 + 120 * 1e-13))
    # 1,000 FLOP/B, bound by arithmetic: 10 fs.
    assert work_per_joule(board, chip, 100e12, 1e3) == pytest.approx(1 / (150 * 1e-14 + 200 * 1e-14 + 120 * 1e-15))
    assert work_per_joule(board, chip, 100e12, np.inf) == pytest.approx(1 / (350 * 1e-14))
    assert energy_balance(board, chip, 100e12) == pytest.approx(60.0)  # 120 pJ/B over 2 pJ/FLOP
    capped = replace(board, most=300.0)  # 350 W at full arithmetic are 300 W
    assert work_per_joule(capped, chip, 100e12, np.inf) == pytest.approx(1 / (300 * 1e-14))
    many = work_per_joule(board, chip, 100e12, np.array([10.0, 1e3]))
    assert many == pytest.approx([work_per_joule(board, chip, 100e12, i) for i in (10.0, 1e3)])


def test_no_op_is_above_the_energy_roofline() -> None:
    for on in ("h100-sxm", "b200", "mi300x", "m4-max"):
        plot = rl.plot("meta-llama/Llama-3.1-8B", on=on, kind="energy", batch=8)
        (panel,) = plot.panels
        for p in panel.points:
            roof = np.interp(p.intensity, panel.arches[0].intensity, panel.arches[0].work_per_joule)
            assert p.performance <= p.light * (1 + 1e-9), (on, p.label)
            assert p.light <= 1.02 * roof, (on, p.label)


def test_nobody_knows_the_tdp() -> None:
    assert draw_of(chip_named("peak=100T,bw=1T,mem=16G")) is None


def test_grids_by_code_and_by_number() -> None:
    assert (grid_named("FR").kg, grid_named("0.4").kg, grid_named(0).kg) == (0.067, 0.4, 0)
    assert all(0 < grid.kg < 1 for grid in grids().values())


@folded("value", ["xx", 400, -0.1, None, "", float("nan"), True])
def test_no_such_grid(value: object) -> None:
    with pytest.raises(rl.InputError, match="grid"):
        grid_named(value)
