"""Memory tiers inside one chip: descriptions and names, time and energy by hand, what fits, and every door."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import roofline as rl
from folded import folded
from roofline.doors.web.allow_list import chosen_machine
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.hardware.tiers import CACHE, ROLES, WEIGHTS
from roofline.kernels.power import draw_of
from roofline.model.modules import PARTS

LLAMA, MIXTRAL = "meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"
FAST = "peak=1000T,bw=100TB/s,mem=20GB"
SPLIT = f"{FAST},tier=dram:256GB:400GB/s:weights"
CORSAIR = "d-matrix-corsair"
FILE = """
[two]
[two.peak]
bf16 = 1000
[two.memory]
capacity_gb = 20
bandwidth_gbs = 100_000
[two.tiers.dram]
kind = "LPDDR5X"
capacity_gb = 256
bandwidth_gbs = 400
pj_per_bit = 4
holds = ["weights"]
"""


def file_of(folder: Path, text: str) -> Chip:
    path = folder / "two.toml"
    path.write_text(text)
    return chip_named(path)


def test_the_parts_are_those_of_a_model() -> None:
    assert (WEIGHTS, *PARTS, CACHE) == ROLES


# -- descriptions --------------------------------------------------------------------------------------------------
def test_a_file_and_figures_describe_the_same_tier(tmp_path: Path) -> None:
    written, told = file_of(tmp_path, FILE), chip_named(SPLIT)
    one, other = written.tiers[0], told.tiers[0]
    assert (
        (one.name, one.capacity, one.bandwidth)
        == (other.name, other.capacity, other.bandwidth)
        == ("dram", 256e9, 4e11)
    )
    assert (one.energy, one.kind) == (pytest.approx(4e-12), "LPDDR5X")
    assert dict(written.placement) == dict(told.placement) == {"weights": "dram"}
    assert (written.capacity, written.whole_capacity) == (20e9, 276e9)


def test_a_part_has_its_own_place_whatever_holds_the_rest() -> None:
    chip = chip_named(f"{FAST},tier=a:1TB:1TB/s:weights,tier=b:2TB:2TB/s:experts+cache")
    places = {role: chip.tier_of(role) for role in ROLES}
    names = {role: None if tier is None else tier.name for role, tier in places.items()}
    assert names == {**dict.fromkeys(ROLES, "a"), "experts": "b", "cache": "b"}


def test_a_name_says_what_is_kept_where() -> None:
    moved = chip_named("Corsair@weights=lpddr5x")
    assert (moved.id, dict(moved.placement)) == (f"{CORSAIR}@weights=lpddr5x", {"weights": "lpddr5x"})
    back = chip_named("corsair@weights=lpddr5x@attention=main@cache=lpddr5x")
    assert dict(back.placement) == {"weights": "lpddr5x", "attention": "main", "cache": "lpddr5x"}
    assert back.tier_of("attention") is None
    assert dict(chip_named("corsair@attention=lpddr5x@weights=main").placement) == {"weights": "main"}
    half = chip_named("corsair@1/2")
    assert (half.tiers[0].capacity, half.tiers[0].bandwidth) == (128e9, 2e11)


WRONG = (
    ("corsair@weights=hbm", "a memory of this chip (main, lpddr5x)"),
    ("corsair@weight=lpddr5x", "nearest: weights"),
    ("h100-sxm@weights=lpddr5x", "a chip with memory tiers"),
    (f"{FAST},tier=dram:256GB", "NAME:CAPACITY:BANDWIDTH"),
    (f"{FAST},tier=main:256GB:1TB/s", "other than main"),
    (f"{FAST},tier=a:256:1TB/s", "a number with its unit"),
    (f"{FAST},tier=a:1TB:1TB/s,tier=a:1TB:1TB/s", "each tier once"),
    (f"{FAST},tier=a:1TB:1TB/s:cache,tier=b:1TB:1TB/s:cache", "one memory keeps"),
    (f"{FAST}," + ",".join(f"tier=t{i}:1TB:1TB/s" for i in range(9)), "at most 8 memories"),
)


@folded("name,said", WRONG)
def test_what_cannot_be_is_said_in_a_line(name: str, said: str) -> None:
    with pytest.raises(rl.InputError) as error:
        chip_named(name)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


WRONG_FILES = (
    ("pj_per_bit = 4", "pj_per_bits = 4", "nearest: pj_per_bit"),
    ("bandwidth_gbs = 400", "", "bandwidth_gbs"),
    ("capacity_gb = 256", "capacity_gb = -1", "a positive number"),
    ('holds = ["weights"]', 'holds = "weights"', "a list"),
    ("pj_per_bit = 4", "inside_gbs = 4", "both figures"),
    ("pj_per_bit = 4", "capacity_gib = 4", "one figure for capacity"),
)


@folded("old,new,said", WRONG_FILES)
def test_a_wrong_key_of_a_file_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    head, tail = FILE.split("[two.tiers.dram]")
    with pytest.raises(rl.InputError, match=r"two\.tiers\.dram") as error:
        file_of(tmp_path, f"{head}[two.tiers.dram]{tail.replace(old, new)}")
    assert said in str(error.value)


# -- time ----------------------------------------------------------------------------------------------------------
def test_a_decode_step_by_hand() -> None:
    """Weights at 400 GB/s, but the rows of the embedding that are not read; keys and values at 100 TB/s."""
    layer = 4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336 + 2 * 4096
    weights = 2 * (32 * layer + 4096 + 4096 * 128256 + 4096)
    cache, logits = 2 * 2 * 8 * 128 * 32 * 1025, 2 * 128256
    e = rl.estimate(LLAMA, rl.decode(batch=1, context=1024), on=SPLIT, law="ideal", precision="bf16")
    assert e.memory_time == pytest.approx(weights / 400e9 + cache / 100e12, rel=1e-6)
    read = {c.name: c.bytes for c in e.memory_traffic}
    assert read["dram"] == weights
    assert cache + logits < read["main"] < 2 * (cache + logits)
    assert e.memory_traffic[1].seconds == pytest.approx(weights / 400e9)


@folded("step", [rl.decode(batch=1, context=1024), rl.decode(batch=64, context=4096), rl.prefill(2, 2048)])
def test_a_tier_as_fast_as_main_memory_changes_nothing(step: rl.Step) -> None:
    one, two = (
        rl.estimate(MIXTRAL, step, on=f"like=h200-sxm{tier}") for tier in ("", ",tier=x:1TB:4.8TB/s:weights+cache")
    )
    assert two.time == pytest.approx(one.time, rel=1e-12)
    assert two.interval == pytest.approx(one.interval, rel=1e-12)
    assert two.joules_per_token == pytest.approx(one.joules_per_token, rel=1e-12)


def test_reading_from_a_slow_tier_takes_as_long_as_from_a_slow_memory() -> None:
    step = rl.decode(batch=1, context=1024)
    slow = rl.estimate(LLAMA, step, on="like=h200-sxm,bw=480GB/s,mem=1TB")
    tier = rl.estimate(LLAMA, step, on="like=h200-sxm,tier=x:1TB:480GB/s:weights+cache")
    assert tier.time == pytest.approx(slow.time, rel=0.01)
    assert tier.bound == "memory"


def test_arithmetic_hides_a_tier_that_is_fast_enough() -> None:
    """8,192 new tokens: products take longer than their weights at a tenth of the bandwidth, activations stay fast."""
    step = rl.prefill(1, 8192)
    fast = rl.estimate(LLAMA, step, on="like=h200-sxm")
    tier = rl.estimate(LLAMA, step, on="like=h200-sxm,tier=x:1TB:480GB/s:weights")
    slow = rl.estimate(LLAMA, step, on="like=h200-sxm,bw=480GB/s,mem=1TB")
    assert fast.time < tier.time < 1.02 * fast.time
    assert slow.time > 1.3 * fast.time


def test_arrays_of_steps_take_as_long_as_each() -> None:
    batches = np.array([1, 8, 300])
    many = rl.estimate(MIXTRAL, rl.decode(batch=batches, context=512), on=SPLIT)
    each = [rl.estimate(MIXTRAL, rl.decode(batch=int(b), context=512), on=SPLIT).time for b in batches]
    assert many.time == pytest.approx(each)
    rows = rl.fit(MIXTRAL, on=SPLIT, batch=batches, context=512).memory.tiers
    assert [np.shape(tier.cache) for tier in rows] == [(3,), (3,)]


def test_experts_alone_in_flash() -> None:
    e = rl.estimate(MIXTRAL, rl.decode(batch=4, context=512), on=f"{FAST},tier=flash:1TB:1TB/s:experts", law="ideal")
    of_experts = {op.name for op in e.ops if op.floor > 1e-4}
    assert of_experts == {"experts_gate_up_proj", "experts_down_proj"}


INSIDE = FILE.replace("pj_per_bit = 4", "inside_gbs = 4000\ninside_tflops = 4").replace('"weights"', '"cache"')


def test_arithmetic_in_a_memory_serves_where_it_is_faster(tmp_path: Path) -> None:
    """Decoding reads the cache at the banks, ten times as fast; a prompt's attention has 64 times the FLOPs a byte."""
    plain = file_of(tmp_path, INSIDE.replace("inside_gbs = 4000\ninside_tflops = 4", ""))
    near = file_of(tmp_path, INSIDE)

    def attention(step: rl.Step, on: Chip) -> float:
        e = rl.estimate(LLAMA, step, on=on, law="ideal", precision="bf16")
        return next(float(op.floor) for op in e.ops if op.kind == "attention")

    decode, cache = rl.decode(batch=1, context=4096), 2 * 2 * 8 * 128 * 32 * 4097
    assert attention(decode, plain) == pytest.approx(cache / 400e9, rel=1e-3)
    flops = 4 * 32 * 128 * 4097 * 32
    assert attention(decode, near) == pytest.approx(max(cache / 4000e9, flops / 4e12), rel=1e-2)
    assert attention(rl.prefill(1, 4096), near) == attention(rl.prefill(1, 4096), plain)


# -- energy --------------------------------------------------------------------------------------------------------
def test_bits_of_a_tier_have_its_joules(tmp_path: Path) -> None:
    """Two chips that differ in 4 and 12 pJ a bit: their joules differ by 8 pJ for each bit of weights read."""
    powered = FILE + "[two.power]\ntdp_w = 100000\nidle_w = 10\n"
    low, high = (file_of(tmp_path, powered.replace("pj_per_bit = 4", f"pj_per_bit = {pj}")) for pj in (4, 12))
    assert draw_of(low) is not None
    one, two = (rl.estimate(LLAMA, rl.decode(batch=1, context=1024), on=chip, law="ideal") for chip in (low, high))
    read = next(c.bytes for c in one.memory_traffic if c.name == "dram")
    assert two.chip_joules - one.chip_joules == pytest.approx(8 * read * 8e-12, rel=1e-6)


# -- memory --------------------------------------------------------------------------------------------------------
def test_each_memory_has_what_it_keeps() -> None:
    f = rl.fit(LLAMA, on=SPLIT, batch=4, context=4096, precision="bf16")
    main, dram = f.memory.tiers
    assert (dram.weights, dram.cache, dram.rest) == (f.model.weight_bytes(f.formats), 0, 0)
    assert (main.weights, main.cache, main.rest) == (0, f.memory.cache, f.memory.activations + f.memory.overhead)
    assert (f.memory.total, f.memory.capacity) == (main.total + dram.total, 276e9)
    room = 20e9 - main.rest
    assert f.largest_batch == room // (f.memory.cache / 4)
    assert f.fits
    assert not rl.fit(LLAMA, on=FAST, batch=40, context=4096, precision="bf16").fits


def test_what_does_not_fit_says_which_memory_would_hold_it() -> None:
    f = rl.fit(LLAMA, on="corsair", batch=1, context=1024, precision="weights=int8")
    assert not f.fits
    assert (f.weights_alone, f.largest_batch) == (True, 0)
    ways = [change.detail for change in f.changes]
    assert ways[:2] == ["weights in lpddr5x", "weights and cache in lpddr5x"]
    moved = rl.fit(LLAMA, on="corsair@weights=lpddr5x", batch=1, context=1024, precision="weights=int8")
    assert moved.fits
    assert {tier.name: tier.fits for tier in moved.memory.tiers} == {"main": True, "lpddr5x": True}


def test_a_full_tier_leaves_the_cache_nothing() -> None:
    f = rl.fit(LLAMA, on=f"{FAST},tier=small:8GB:400GB/s:weights", batch=1, context=1024, precision="bf16")
    assert not f.fits
    assert f.largest_batch == 0 > f.memory.room


def test_a_cache_in_a_tier_has_its_capacity() -> None:
    f = rl.fit(
        LLAMA, on="peak=1000T,bw=10TB/s,mem=40GB,tier=far:100GB:1TB/s:cache", batch=1, context=8192, engine="vllm"
    )
    assert f.memory.budget == 100e9
    assert f.largest_batch == 100e9 // f.memory.cache


def test_a_draft_model_is_kept_as_the_model_is() -> None:
    drafts = rl.Speculation(0.7, 3, draft=rl.load("meta-llama/Llama-3.2-1B"))
    asked = {"input": 512, "output_tokens": 128, "concurrency": 1, "precision": "bf16"}
    for size, places in (("17.4GB", False), ("18.6GB", True)):
        on = f"{FAST},tier=dram:{size}:400GB/s:weights"
        assert rl.serve(LLAMA, on=on, **asked).capacity > 0
        assert (rl.serve(LLAMA, on=on, **asked, speculation=drafts).capacity > 0) is places


# -- doors ---------------------------------------------------------------------------------------------------------
def test_a_server_and_a_search_take_a_chip_with_tiers() -> None:
    slow, fast = (
        rl.serve(
            LLAMA,
            on=f"8x{CORSAIR}{tier}",
            layout="tp=8",
            precision="weights=int8",
            input=128,
            output_tokens=64,
            concurrency=4,
        )
        for tier in ("@weights=lpddr5x", "")
    )
    assert slow.tpot.expected > fast.tpot.expected
    assert slow.capacity > fast.capacity
    found = rl.search(
        LLAMA, on=f"2x{CORSAIR}@weights=lpddr5x", precision="weights=int8", input=128, output_tokens=64, rate=0.1
    )
    assert found.best


@folded("name", ["corsair@weights=lpddr5x", SPLIT])
def test_clients_of_a_server_name_tiers(name: str) -> None:
    machine = chosen_machine(name)
    chip = machine if isinstance(machine, Chip) else chip_named(machine)  # type: ignore[arg-type]
    assert chip.placement["weights"] == chip.tiers[0].name


def test_training_and_offloading_know_no_tiers() -> None:
    with pytest.raises(rl.InputError, match="training knows no tiers"):
        rl.train("Qwen/Qwen2.5-0.5B", batch=1, tokens=128, on=SPLIT)
    with pytest.raises(rl.InputError, match="offloading knows no tiers"):
        rl.offload(LLAMA, on=SPLIT, host=rl.Host("epyc-9654"), input=128, output_tokens=32, batch=1)
    assert rl.train("Qwen/Qwen2.5-0.5B", batch=1, tokens=128, on=f"{FAST},tier=dram:256GB:400GB/s").time > 0


def test_a_grid_of_machines_leaves_tiers_to_its_results() -> None:
    grid = rl.fit(LLAMA, on=[FAST, SPLIT], batch=1, context=1024, precision="bf16")
    assert grid.memory.tiers == ()
    assert [len(each.memory.tiers) for each in grid.results] == [0, 2]
    assert grid.memory.capacity.tolist() == [20e9, 276e9]
