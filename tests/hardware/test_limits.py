"""Boards under a cap of watts or at a lower clock: names, the law of frequency and voltage, published measurements."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.hardware.chip import profiles
from roofline.hardware.cluster import cluster_named
from roofline.hardware.named_chip import chip_named
from roofline.kernels.power import Busy, device_watts, draw_of, under_cap

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from power_caps import ROWS, TARGET, Capped, ours

LLAMA = "meta-llama/Llama-3.1-8B"
H100 = rl.chips()["h100-sxm"]


@folded("row", ROWS)
def test_published_caps_of_60_to_72_percent(row: Capped) -> None:
    """Time, and energy where it is known, within 15 %, but for the energy of cards whose free draw is too low."""
    time, energy = ours(row)
    assert time == pytest.approx(row.time, rel=TARGET)
    if row.energy is not None:
        assert (energy == pytest.approx(row.energy, rel=TARGET)) is not bool(row.why)


def test_six_published_caps_have_their_energy() -> None:
    assert sum(row.energy is not None and not row.why for row in ROWS) == 6


def test_a_limit_is_a_part_of_the_name() -> None:
    assert (chip_named("H100-SXM@490W").cap, chip_named("h100-sxm@70%").cap) == (pytest.approx(490), pytest.approx(490))
    assert (chip_named("h100-sxm@490W").tdp, chip_named("h100-sxm@490W").limit, H100.limit) == (700, 490, 700)
    slow = chip_named("h100-sxm@915MHz")
    assert (slow.locked, slow.peak("bf16")) == (0.5, H100.peak("bf16") / 2)
    both = chip_named("h100-sxm@915MHz@300W")
    assert (both.locked, both.cap, both.bandwidth) == (0.5, 300, H100.bandwidth)


def test_a_machine_of_limited_boards_has_the_links_of_the_others() -> None:
    for name, whole in (("8xh100-sxm@490W", "8xh100-sxm"), ("2xdgx-h100@490W", "2xdgx-h100")):
        cluster = cluster_named(name)
        assert (chip_named(cluster.chip).cap, cluster.levels) == (490, cluster_named(whole).levels)
    step = rl.decode(batch=8, context=512)
    free, capped = (
        rl.estimate(LLAMA, step, on=on, layout="tp=8", precision="bf16") for on in ("h100-sxm", "h100-sxm@90%")
    )
    assert capped.total.network == free.total.network > 0


@folded("name", ["h100-sxm@900W", "h100-sxm@60W", "h100-sxm@120%", "h100-sxm@3GHz", "h100-sxm@1MHz", "h100-sxm@490"])
def test_a_limit_that_cannot_be(name: str) -> None:
    with pytest.raises(rl.InputError, match=r"cap|clock|limit"):
        rl.estimate(LLAMA, rl.decode(1, 10), on=name)


def test_a_product_at_full_power_by_hand() -> None:
    """A second at 60 % of peak draws 181 + 504 W; 490 W leave 420/615 of what is not idle, a clock of its cube root."""
    chip, share = chip_named("h100-sxm@490W"), 420 / (0.258 * 700 + 0.6 * 1.2 * 700 - 70)
    assert under_cap(chip, 1.0, Busy(1.0, compute=0.6)) == pytest.approx(share ** (-1 / 3))
    assert under_cap(chip, 1.0, Busy(1.0, memory=0.5)) == 1.0  # 181 + 191 W are below the cap
    assert under_cap(H100, 1.0, Busy(1.0, compute=0.6)) == 1.0
    busy = Busy(1.0, np.array([0.6, 0.0]), np.array([0.0, 0.5]))
    assert under_cap(chip, np.ones(2), busy) == pytest.approx([share ** (-1 / 3), 1.0])


def test_what_memory_draws_alone_waits_for_its_watts() -> None:
    """At full bandwidth HBM draws 161 W at 6 pJ a bit and the board 70 W idle: 200 W take 1.17 times as long."""
    seconds = under_cap(chip_named("h100-sxm@200W"), 1.0, Busy(1.0, memory=1.0))
    devices = 8 * 3.35e12 * 6e-12
    on_chip = 0.258 * 700 - 70 + 0.546 * 700 - devices
    assert seconds == pytest.approx((70 + devices + on_chip * 0.2**3) / 200)
    assert device_watts(H100, 100.0) == 100.0  # never more than all that memory draws


def test_a_lower_clock_saves_by_its_cube_what_the_cores_draw() -> None:
    d, slow = draw_of(H100), draw_of(chip_named("h100-sxm@915MHz"))
    assert d is not None
    assert slow is not None
    assert (slow.compute, slow.awake, slow.memory, slow.most) == (
        pytest.approx(d.compute / 8), pytest.approx(d.awake / 8), d.memory, d.most,
    )  # fmt: skip


def test_time_and_watts_move_together() -> None:
    """Prompts slow down and save energy under a cap; a single sequence that decodes draws less than it allows."""
    prompts = [rl.estimate(LLAMA, rl.prefill(4, 4096), on=f"h100-sxm@{w}W", precision="bf16") for w in (700, 490, 300)]
    assert prompts[0].time == pytest.approx(rl.estimate(LLAMA, rl.prefill(4, 4096), on=H100, precision="bf16").time)
    assert prompts[0].time < prompts[1].time < prompts[2].time
    assert prompts[0].joules_per_token > prompts[1].joules_per_token > prompts[2].joules_per_token
    assert [p.power for p in prompts] == [pytest.approx(w, rel=0.02) for w in (700, 490, 300)]
    one = [rl.estimate(LLAMA, rl.decode(1, 512), on=f"h100-sxm{w}", precision="fp8") for w in ("", "@600W")]
    assert one[0].time == pytest.approx(one[1].time, rel=0.01)


def test_a_search_counts_boards_by_their_limits() -> None:
    """2,000 W feed two boards of 700 W, or four of 490 W."""
    load, limits = rl.Load(512, 64), rl.Limits(tpot=0.1)
    two, four = (
        max(p.chips for p in rl.search(LLAMA, load, limits, on=on, power=2000).plans)
        for on in ("8xh100-sxm", "8xh100-sxm@490W")
    )
    assert (two, four) == (2, 4)


@folded(
    ("name", "cores", "gibibytes", "gigabytes_s", "cache"),
    [
        ("h100-sxm@1g.10gb", 16, 10, 3350 / 8, 6.25), ("h100-sxm@1g.20gb", 26, 20, 3350 / 4, 6.25),
        ("h100-sxm@3g.40gb", 60, 40, 3350 / 2, 25), ("h200-sxm@1g.18gb", 16, 141 / 8, 4800 / 8, 6.25),
        ("a100-sxm-40gb@2g.10gb", 28, 10, 1555 / 4, 10), ("a100-sxm-80gb@7g.80gb", 98, 80, 2039, 40),
        ("a30@2g.12gb", 28, 12, 933 / 2, 12), ("h100-nvl@1g.12gb", 16, 94 / 8, 3900 / 8, 6.25),
        ("rtx-pro-6000-server@1g.24gb", 47, 24, 1597 / 4, 32), ("gh200@3g.48gb", 60, 48, 4000 / 2, 25),
    ],
)  # fmt: skip
def test_a_mig_instance_is_a_part_of_the_name(
    name: str, cores: int, gibibytes: float, gigabytes_s: float, cache: float
) -> None:
    """Cores of nvidia-smi's list, slices of memory, bandwidth and L2 of NVIDIA's guide."""
    chip, whole = chip_named(name), chip_named(name.partition("@")[0])
    assert whole.units is not None
    assert (chip.units, chip.peak("bf16")) == (cores, pytest.approx(whole.peak("bf16") * cores / whole.units))
    assert (chip.nominal_capacity or chip.capacity, chip.bandwidth, chip.cache) == (
        pytest.approx(gibibytes * 2**30), pytest.approx(gigabytes_s * 1e9, rel=0.005), pytest.approx(cache * 2**20),
    )  # fmt: skip
    assert (chip.link, chip.price, chip.like) == (None, None, whole.id)


def test_a_fraction_of_a_chip_has_that_of_everything() -> None:
    half, whole = chip_named("h100-sxm@1/2"), H100
    assert (2 * half.peak("fp8"), 2 * half.bandwidth, 2 * half.capacity, half.units, half.tdp) == (
        whole.peak("fp8"), whole.bandwidth, whole.capacity, 66, 350,
    )  # fmt: skip
    assert chip_named("h100-sxm@490W@1/2").cap == 245
    long = rl.decode(64, 8192)
    times = [float(rl.estimate(LLAMA, long, on=on, precision="fp8").time) for on in ("h100-sxm", "h100-sxm@1/2")]
    assert 1.9 < times[1] / times[0] < 2.05


@folded(
    ("name", "says"),
    [
        ("h100-sxm@1g.11gb", "1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"),
        ("mi300x@1g.10gb", "MIG profiles"),
        ("h100-sxm@5/4", "below 1"), ("h100-sxm@1/0", "below 1"), ("8xh100-sxm@1g.10gb", "links to others"),
        ("1xdgx-h100@1g.10gb", "links to others"),
    ],
)  # fmt: skip
def test_a_part_that_cannot_be(name: str, says: str) -> None:
    with pytest.raises(rl.InputError, match=says):
        rl.estimate(LLAMA, rl.decode(1, 10), on=name)


def test_slices_name_chips_of_the_catalog_and_never_more_than_the_whole() -> None:
    for id in rl.chips():
        for name, (row, parts) in profiles(id).items():
            part = chip_named(f"{id}@{name}")
            assert row["memory"] <= parts
            assert part.units == row["cores"] <= (rl.chips()[id].units or 0)
