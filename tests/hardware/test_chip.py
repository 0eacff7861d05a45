"""Chips: the catalog, chip files, figures on the command line, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.hardware.chip import chips
from roofline.hardware.named_chip import chip_named
from roofline.whatif.machine_choice import RENTED
from roofline.whatif.search.recommendations import MACHINES

GOOD = """
[mine]
name = "Mine"
generation = "hopper"
[mine.peak]
bf16 = 1000
fp8 = 2000
[mine.memory]
capacity_gb = 100
bandwidth_gbs = 4000
"""


def test_every_chip_has_source_and_date() -> None:
    assert len(chips()) >= 350
    for chip in chips().values():
        assert chip.source, chip.id
        assert re.match(r"\d{4}", chip.date), chip.id
        assert chip.price is None or chip.price.date, chip.id


def test_names_and_aliases_are_unique_and_case_blind() -> None:
    seen: dict[str, str] = {}
    for chip in chips().values():
        for name in (chip.id, *chip.aliases):
            assert seen.setdefault(name.lower().replace("_", "-"), chip.id) == chip.id
    assert chip_named("H100 SXM").id == chip_named("h100_sxm").id == "h100-sxm"


@folded(
    "name",
    """
    v100 t4 a10 a30 a40 a100-sxm-40gb a100-sxm-80gb a100-pcie-80gb l4 l40 l40s h100-sxm h100-pcie h100-nvl
    h200 h20 h800 gh200 b100 b200 b300 gb200 gb300 rtx-3090 rtx-4090 rtx-5090 rtx-6000-ada rtx-pro-6000 gb10
    jetson-orin jetson-thor mi210 mi250x mi300x mi325x mi355x tpu-v4 tpu-v5e tpu-v5p tpu-v6e tpu-v7 trainium1
    trainium2 inferentia2 gaudi2 gaudi3 b60 max-1550 m1 m1-max m2 m2-ultra m3 m3-ultra m4 m4-max
    snapdragon-8-gen-2 snapdragon-8-gen-3 snapdragon-x-elite ascend-910b ascend-910c groq wse-3 sn40l
    dram-pim nand-pim
    """.split(),
)
def test_the_chips_people_ask_for(name: str) -> None:
    chip = chip_named(name)
    assert chip.bandwidth > 0
    assert chip.capacity > 0
    assert chip.peaks


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    chip = chip_named(path)
    assert (chip.peak("bf16"), chip.bandwidth, chip.capacity) == (1e15, 4e12, 1e11)
    e = rl.estimate(rl.load("meta-llama/Llama-3.1-8B"), rl.decode(batch=1, context=100), on=str(path))
    assert e.grade == "B"  # Hopper's constants


@folded(
    ("name", "usable_mib", "nominal_gib"),
    [
        ("t4", 15360, 16), ("a10", 23028, 24), ("a10g", 23028, 24), ("l4", 23034, 24), ("a40", 46068, 48),
        ("l40", 46068, 48), ("l40s", 46068, 48), ("w7900", 46064, 48), ("b200", 183359, 180), ("gb200", 189471, 186),
        ("tpu-v4", 31488, 32), ("tpu-v5e", 16128, 16), ("tpu-v6e", 31996, 32), ("tpu-v7", 194048, 192),
    ],
)  # fmt: skip
def test_memory_is_what_programs_can_use(name: str, usable_mib: int, nominal_gib: int) -> None:
    chip = chip_named(name)
    assert (chip.capacity, chip.nominal_capacity) == (usable_mib * 2**20, nominal_gib * 2**30)


@folded("name", ["v100-sxm2-16gb", "a100-sxm-80gb", "h100-sxm", "rtx-a6000", "rtx-6000-ada", "rtx-4090"])
def test_memory_of_hbm_and_of_cards_without_ecc_is_the_datasheets(name: str) -> None:
    chip = chip_named(name)
    assert chip.nominal_capacity is None
    assert chip.capacity % 2**30 == 0


def test_what_is_usable_has_source_and_date_and_is_less() -> None:
    less = [c for c in chips().values() if c.nominal_capacity]
    assert len([c for c in less if c.vendor != "apple"]) == 17
    for chip in less:
        assert chip.nominal_capacity
        share = chip.capacity / chip.nominal_capacity
        of_apple = 2 / 3 if chip.nominal_capacity <= 2**35 else 3 / 4
        assert share == pytest.approx(of_apple, rel=1e-3) if chip.vendor == "apple" else 0.9 < share < 0.995, chip.id
        assert chip.usable_source, chip.id
        assert re.fullmatch(r"\d{4}(-\d\d)?", chip.usable_date), chip.id


def test_what_ecc_takes_is_not_there_for_the_cache() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    usable, nominal = (rl.fit(model, on=on, batch=4, context=8192) for on in ("l4", "like=l4,mem=24GiB"))
    assert (usable.memory.capacity, nominal.memory.capacity) == (23034 * 2**20, 24 * 2**30)
    assert usable.largest_batch < nominal.largest_batch


@pytest.mark.parametrize(
    ("line", "usable"), [("usable_gb = 90", 90e9), ("usable_gib = 90", 90 * 2**30), ("usable_mib = 9000", 9000 * 2**20)]
)
def test_a_file_says_what_is_usable(tmp_path: Path, line: str, usable: float) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + line + '\n[mine.sources]\nusable = "a tool"\nusable_date = "2026-01"\n')
    chip = chip_named(path)
    assert (chip.capacity, chip.nominal_capacity) == (usable, 100e9)
    assert (chip.usable_source, chip.usable_date) == ("a tool", "2026-01")


def test_figures_take_the_place_of_what_is_usable() -> None:
    chip = chip_named("like=l4,mem=20GB")
    assert (chip.capacity, chip.nominal_capacity, chip.usable_source) == (20e9, None, "")
    assert chip_named("like=l4,bw=1T").nominal_capacity == 24 * 2**30


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("bandwidth_gbs = 4000", "mine.memory.bandwidth_gbs"),
        ("capacity_gb = 100", "mine.memory.capacity_gb"),
        ("bf16 = 1000\nfp8 = 2000", "mine.peak"),
    ],
)
def test_a_missing_figure(tmp_path: Path, change: str, field: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(change, ""))
    with pytest.raises(InputError) as error:
        chip_named(path)
    assert error.value.field == field


@folded("value", ["-1", "0", '"fast"', "nan", "inf", "true", "[1]"])
@folded("key", ["bandwidth_gbs = 4000", "bf16 = 1000", "capacity_gb = 100"])
def test_an_impossible_figure(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "mine.toml"
    name = key.split()[0]
    path.write_text(GOOD.replace(key, f"{name} = {value}"))
    with pytest.raises(InputError) as error:
        chip_named(path)
    assert error.value.field.endswith(name)
    assert "\n" not in str(error.value)


@folded(
    ("text", "says"),
    [
        (GOOD.replace("bandwidth_gbs", "bandwidth_gb"), "nearest: memory.bandwidth_gbs"),
        (GOOD.replace('"hopper"', '"hopper"\nkind = "gpus"'), "nearest: gpu"),
        (GOOD + "capacity_gib = 10\n", "one figure for capacity"),
        (GOOD + "usable_gb = 100.1\n", "mine.memory.usable_gb: expected at most the capacity, got 100.1"),
        (GOOD + "usable_mib = 0\n", "mine.memory.usable_mib: expected a positive number"),
        (GOOD + "usable_gib = -1\n", "mine.memory.usable_gib: expected a positive number"),
        (GOOD + "usable_gib = 80\nusable_gb = 80\n", "one figure for usable"),
        (GOOD + "usable = 80\n", "nearest: memory.usable_"),
        ("not toml", "a TOML file"),
        (GOOD + GOOD.replace("mine", "other"), "one chip"),
        ("x = 1", "a table"),
    ],
)
def test_a_bad_file(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(says)):
        chip_named(path)


@pytest.mark.parametrize(
    ("peaks", "main"),
    [("fp8=2T,fp16=1T,bf16=1T", "bf16"), ("fp32=1T,fp16=2T", "fp16"), ("int8=4T", "int8"), ("fp8=2T,fp32=1T", "fp32")],
)
def test_the_main_format_is_bf16_else_fp16_else_the_first(peaks: str, main: str) -> None:
    assert chip_named(f"{peaks},bw=1T,mem=1G").main_format == main


def test_what_is_attainable_is_the_peak_or_the_bandwidths_share_of_it() -> None:
    chip = chip_named("bf16=100T,bw=2T,mem=1G")
    assert chip.attainable(300.0, 4.0, "bf16") == pytest.approx(100e12)
    assert chip.attainable(100.0, 4.0, "bf16") == pytest.approx(50e12)
    with pytest.raises(InputError, match="a format it multiplies in"):
        chip.attainable(1.0, 1.0, "fp8")


def test_figures_on_the_command_line() -> None:
    chip = chip_named("peak=1000T,fp8=2P,bw=4.8TB/s,mem=141GiB,l2=50MiB,tdp=700W,link=450GB/s")
    assert chip.peak("bf16") == chip.peak("fp16") == 1e15
    assert chip.peak("fp8") == 2e15
    assert (chip.bandwidth, chip.capacity, chip.cache) == (4.8e12, 141 * 2**30, 50 * 2**20)
    faster = chip_named("like=h100-sxm,bw=6.7T")
    assert faster.bandwidth == 2 * chip_named("h100-sxm").bandwidth
    assert faster.peaks == chip_named("h100-sxm").peaks


@folded(
    ("spec", "field"),
    [
        ("peak=1000T,bw=4.8T", "chip mem"),
        ("bw=4.8T,mem=1G", "chip peak"),
        ("peak=1000T,bw=4.8W,mem=1G", "chip bw"),
        ("peak=1000T,bw=4.8T,mem=1s", "chip mem"),
        ("peak=fast,bw=4.8T,mem=1G", "chip peak"),
        ("peak=-1T,bw=4.8T,mem=1G", "chip peak"),
        ("peak=0,bw=4.8T,mem=1G", "chip peak"),
        ("peek=1T,bw=4.8T,mem=1G", "chip peek"),
        ("peak=1T,peak=2T,bw=4.8T,mem=1G", "chip peak"),
        ("peak=1T,bw,mem=1G", "chip"),
        ("like=h1000,bw=1T", "chip"),
    ],
)
def test_bad_figures(spec: str, field: str) -> None:
    with pytest.raises(InputError) as error:
        chip_named(spec)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("peak=9,bw=4.8TB/s,mem=141GB", "chip peak: expected a number with its unit, such as peak=989TFLOP/s, got '9'"),
        ("peak=1P,bw=4.8,mem=141GB", "chip bw: expected a number with its unit, such as bw=3.35TB/s, got '4.8'"),
        ("peak=1P,bw=4.8T,mem=141", "chip mem: expected a number with its unit, such as mem=80GB, got '141'"),
        ("like=l4,fp8=300", "chip fp8: expected a number with its unit, such as fp8=989TFLOP/s, got '300'"),
        ("like=l4,link=32", "chip link: expected a number with its unit, such as link=3.35TB/s, got '32'"),
    ],
)  # fmt: skip
def test_bare_figures_are_refused(spec: str, wanted: str) -> None:
    with pytest.raises(InputError) as error:
        chip_named(spec)
    assert str(error.value) == wanted


def test_units_of_which_people_use_but_one_may_be_left_out() -> None:
    chip = chip_named("like=l4,tdp=70,price=0.5")
    assert chip.tdp == 70
    assert chip.price is not None
    assert chip.price.usd_per_hour == 0.5


@folded(
    ("chip", "gib"),
    [("t4", 15), ("a10", 22.49), ("a10g", 22.49), ("l4", 22.49), ("a40", 44.99), ("l40", 44.99), ("l40s", 44.99)],
)
def test_memory_under_ecc_is_what_is_left(chip: str, gib: float) -> None:
    """GDDR6 keeps its check bits in its own memory: of 16 / 24 / 48 GiB 15 / 22.5 / 45 are left."""
    assert chip_named(chip).capacity / 2**30 == pytest.approx(gib, abs=0.02)


ANNOUNCED = {"vr200", "mi455x", "ascend-950pr", "ascend-950dt", "tpu-8t", "tpu-8i"}


def test_announced_chips_are_there_and_nothing_chooses_them_unasked() -> None:
    """Nobody rents them yet: `machines` and advice take other chips, and `search` has the one given."""
    assert all(rl.chips()[id].note.startswith("Announced") for id in ANNOUNCED)
    assert not ANNOUNCED & {*RENTED, *MACHINES}
    assert all(rl.chips()[id].price is not None for id in MACHINES)
    assert all(rl.chips()[id].price is None and rl.chips()[id].tdp is None for id in ANNOUNCED)
    assert rl.search("openai/gpt-oss-120b", rl.Load(512, 64), rl.Limits(tpot=0.1), on="vr200").recommended is not None


@pytest.mark.parametrize(
    ("name", "fp8", "gigabytes_s", "gigabytes"),
    [
        ("rubin", 17500, 22000, 288), ("mi450", 20000, 19600, 432), ("950pr", 1000, 1600, 128),
        ("950dt", 1000, 4000, 144), ("tpu-v8t", 6300, 6528, 216), ("tpu-v8i", 5050, 8601, 288),
    ],
)  # fmt: skip
def test_figures_of_announced_chips(name: str, fp8: float, gigabytes_s: float, gigabytes: float) -> None:
    chip = chip_named(name)
    assert (chip.peak("fp8"), chip.bandwidth, chip.capacity) == (fp8 * 1e12, gigabytes_s * 1e9, gigabytes * 1e9)
    assert chip.peak("fp4") == 2 * chip.peak("fp8")


def test_an_arc_pro_b70_has_what_intel_says() -> None:
    chip = chip_named("arc-pro-b70")
    figures = (chip.peak("int8"), chip.vector["fp32"], chip.bandwidth, chip.capacity, chip.tdp)
    assert figures == (pytest.approx(367e12, rel=1e-3), pytest.approx(22.94e12, rel=1e-3), 608e9, 32 * 2**30, 230)
