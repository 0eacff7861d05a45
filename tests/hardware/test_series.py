"""Chips as rows of a series: what their units, clock and bus make is what their vendors state."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.hardware import chip as chip_module
from roofline.hardware.chip import Chip, chips
from roofline.hardware.named_chip import chip_named
from roofline.hardware.series import ChipRows, host_gbs

FOLDER = Path(chip_module.__file__).with_name("catalog") / "series"
ROWS = ChipRows(FOLDER)


@folded(
    ("name", "fmt", "tera"),
    [
        # GeForce: appendices of the Turing, GA102, Ada and RTX Blackwell whitepapers, dense, fp32 accumulate
        ("rtx-2080-ti", "fp16", 53.8), ("rtx-2080-ti", "int8", 215.2), ("rtx-2070", "fp16", 29.9),
        ("rtx-3080", "fp16", 59.5), ("rtx-3080", "int8", 238), ("rtx-3070", "fp16", 40.6),
        ("rtx-3060-ti", "fp32", 16.2),
        ("rtx-4080", "bf16", 97.5), ("rtx-4080", "fp8", 194.9), ("rtx-4070-ti", "int8", 320.7),
        ("rtx-4060", "fp32", 15.1),
        ("rtx-5080", "fp4", 900.4), ("rtx-5080", "fp32", 56.3), ("rtx-5070-ti", "fp4", 703), ("rtx-5070", "fp4", 494),
        ("rtx-5060-ti-16gb", "fp4", 379.5), ("rtx-5060", "fp4", 307), ("gtx-1080-ti", "fp32", 11.3),
        # Tesla, Quadro, RTX: datasheets
        ("tesla-p40", "int8", 47), ("tesla-p40", "fp32", 11.76), ("tesla-p100-pcie-16gb", "fp16", 18.7),
        ("tesla-p100-sxm2", "fp16", 21.2), ("quadro-rtx-8000", "fp16", 130.5), ("rtx-a4000", "fp16", 76.7),
        ("rtx-a5000", "fp16", 111.1), ("rtx-a2000", "fp32", 8.0), ("a2", "int8", 36), ("rtx-4000-ada", "fp32", 26.7),
        ("rtx-5000-ada", "fp32", 65.3), ("rtx-5880-ada", "fp32", 69.3), ("rtx-pro-5000", "fp32", 73.7),
        # Radeon, Instinct: product pages
        ("rx-6900-xt", "fp32", 23.04), ("rx-6800", "fp16", 32.33), ("rx-7900-xt", "fp16", 103),
        ("rx-7600", "fp16", 43.5),
        ("rx-9070-xt", "fp16", 195), ("rx-9070-xt", "int8", 389), ("rx-9060-xt", "fp16", 103), ("w7800", "fp16", 90.5),
        ("mi50", "fp16", 26.5), ("mi60", "int8", 58.9), ("mi100", "fp16", 184.6), ("mi100", "bf16", 92.3),
        ("radeon-vii", "fp32", 13.4), ("strix-halo", "fp16", 59.4),
        # Arc: int8 rates of the product pages
        ("arc-a770", "int8", 262), ("arc-a750", "int8", 229), ("arc-a580", "int8", 197), ("arc-a380", "int8", 66),
        ("arc-b580", "int8", 233), ("arc-b570", "int8", 203), ("arc-pro-b50", "int8", 170), ("arc-140v", "int8", 64),
        # Jetson: int8 of the GPU, half of the sparse figure
        ("jetson-orin-nano", "int8", 33.5), ("jetson-orin-nx", "int8", 30), ("jetson-orin-32gb", "int8", 54),
        # Apple: fp32
        ("m1-max-24c", "fp32", 7.96), ("m2-ultra-60c", "fp32", 21.5),
    ],
)  # fmt: skip
def test_peaks_are_those_that_vendors_state(name: str, fmt: str, tera: float) -> None:
    assert chip_named(name).peak(fmt) / 1e12 == pytest.approx(tera, rel=0.02)


@folded(
    ("name", "gigabytes"),
    [
        ("gtx-1060", 192), ("gtx-1080-ti", 484), ("rtx-2080", 448), ("rtx-2080-super", 496), ("rtx-2080-ti", 616),
        ("rtx-3060", 360), ("rtx-3080", 760), ("rtx-3090-ti", 1008), ("rtx-4060", 272), ("rtx-4070-ti", 504),
        ("rtx-4080", 716.8), ("rtx-4080-super", 736), ("rtx-5060-ti", 448), ("rtx-5070", 672), ("rtx-5080", 960),
        ("rtx-a4000", 448), ("rtx-a5000", 768), ("rtx-5000-ada", 576), ("tesla-p40", 345.6), ("rtx-pro-4500", 896),
        ("rx-6700-xt", 384), ("rx-7900-xt", 800), ("rx-9070-xt", 640), ("mi50", 1024), ("mi100", 1228.8),
        ("strix-halo", 256), ("arc-a770", 560), ("arc-b580", 456), ("m3-max-30c", 300), ("m5-max", 614),
        ("epyc-7763", 204.8), ("epyc-9654", 460.8), ("epyc-9755", 576), ("xeon-platinum-8592", 358.4),
        ("ryzen-9-7950x", 83.2), ("ryzen-9-9950x", 89.6), ("core-i9-14900k", 89.6), ("threadripper-pro-7995wx", 332.8),
        ("graviton4", 537.6), ("n150", 38.4), ("raspberry-pi-5", 17.068), ("jetson-orin-nano", 102.4),
    ],
)  # fmt: skip
def test_bandwidth_is_what_vendors_state(name: str, gigabytes: float) -> None:
    assert chip_named(name).bandwidth / 1e9 == pytest.approx(gigabytes, rel=0.005)


def rated(chip: Chip) -> dict[str, float]:
    """FLOP per unit and clock, by format."""
    assert chip.units
    assert chip.clock
    return {fmt: peak / chip.units / chip.clock for fmt, peak in chip.peaks.items()}


@folded(
    ("with_a_table", "row"),
    [
        ("rtx-4090", "rtx-4080"), ("rtx-3090", "rtx-3080"), ("rtx-5090", "rtx-5080"), ("rtx-6000-ada", "rtx-5000-ada"),
        ("rx-7900-xtx", "rx-7900-xt"), ("r9700", "rx-9070-xt"), ("rtx-a6000", "rtx-a5000"), ("arc-b60", "arc-b580"),
        ("m1", "m1-7c"), ("m2-max", "m2-max-30c"), ("m3-ultra", "m3-ultra-60c"), ("m4-pro", "m4-pro-16c"),
        ("xeon-8480", "xeon-platinum-8592"), ("jetson-orin", "jetson-orin-nx"),
    ],
)  # fmt: skip
def test_a_series_is_as_the_chips_with_tables_of_their_own(with_a_table: str, row: str) -> None:
    published, derived = rated(chip_named(with_a_table)), rated(chip_named(row))
    shared = published.keys() & derived.keys()
    assert len(shared) >= 2
    assert {f: derived[f] for f in shared} == pytest.approx({f: published[f] for f in shared}, rel=0.03)


def test_each_figure_of_a_row_is_its_own_once() -> None:
    """No chip stands twice, every row belongs to a series and nothing in it is left unread."""
    ids = [row["id"] for path in FOLDER.glob("*.csv") for row in csv.DictReader(path.open(encoding="utf-8"))]
    assert len(ids) == len(set(ids)) == len(ROWS)
    for path in FOLDER.glob("*.csv"):
        for row in csv.DictReader(path.open(encoding="utf-8")):
            assert bool(row["gbs"]) or (row["bus_bits"] and row["gbits"]), row["id"]


BOUNDS = {
    # generation: ridge of its main format in FLOP/B, watts
    "pascal": ((15, 60), (50, 310)), "turing": ((50, 300), (60, 300)), "turing-gtx": ((10, 60), (70, 130)),
    "ampere-rtx": ((25, 300), (10, 460)), "ada": ((60, 470), (60, 460)), "blackwell-rtx": ((60, 470), (60, 610)),
    "rdna2": ((40, 140), (50, 340)), "rdna3": ((50, 250), (15, 360)), "rdna4": ((190, 330), (140, 310)),
    "xe-hpg": ((100, 300), (70, 230)), "xe2": ((200, 390), (30, 230)), "gcn5": ((20, 35), (290, 310)),
    "apple-m1": ((10, 60), (15, 150)), "apple-m2": ((15, 60), (15, 160)), "apple-m3": ((15, 60), (15, 190)),
    "apple-m4": ((15, 60), (20, 120)), "apple-m5": ((40, 130), (20, 120)),
}  # fmt: skip


def test_ridge_memory_and_power_are_sane_for_the_generation() -> None:
    for chip in chips().values():
        assert 2**29 <= chip.capacity <= 2**43 or chip.kind in ("wafer", "pim", "npu", "tpu"), chip.id
        if chip.generation in BOUNDS:
            (low, high), (least, most) = BOUNDS[chip.generation]
            assert low <= chip.ridge(chip.main_format) <= high, (chip.id, chip.ridge(chip.main_format))
            assert chip.tdp is None or least <= chip.tdp <= most, (chip.id, chip.tdp)
        if chip.kind == "cpu":
            assert 0.2 <= chip.ridge("fp32") <= 120, (chip.id, chip.ridge("fp32"))
            assert chip.bandwidth <= 1e12, chip.id


def test_there_are_chips_of_every_kind_that_people_own() -> None:
    assert len(chips()) >= 350
    for name in "4080 3060 1080-ti 2080 7900-xt 9070-xt strix-halo m5-max p40 mi50 a770 7950x n150 pi-5".split():
        assert chip_named(name).bandwidth > 0


def test_a_row_answers_as_any_chip() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    on = chip_named("RTX 4080 Super")
    step = rl.estimate(model, rl.decode(batch=1, context=1024), on=on)
    assert 8_030_261_248 * 2 / 736e9 < step.time < 2 * 8_030_261_248 * 2 / 736e9


def test_lanes_of_pcie() -> None:
    assert [host_gbs(link) for link in ("PCIe3 x16", "PCIe4 x8", "PCIe5 x4")] == [16.0, 16.0, 16.0]


def test_a_name_nearly_right_is_told() -> None:
    with pytest.raises(InputError, match="rtx-4080-super"):
        chip_named("rtx-4080-supre")
