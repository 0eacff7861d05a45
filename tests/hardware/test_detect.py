"""Machines by what their tools say: recorded outputs of eighteen, this one, and texts that no tool wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folded import folded
from roofline.declared.errors import InputError
from roofline.hardware.chip import chips
from roofline.hardware.cluster import cluster_named, is_cluster
from roofline.hardware.detect.devices import LARGEST_OUTPUT, Gpu, bounded_output
from roofline.hardware.detect.names import chip_of_gpu, chip_of_processor
from roofline.hardware.detect.outputs import (
    dimms_of_dmidecode,
    gpus_of_nvidia_smi,
    gpus_of_rocm_smi,
    gpus_of_system_profiler,
    processor_of_cpuinfo,
    processor_of_lscpu,
    processor_of_sysctl,
)
from roofline.hardware.detect.probe import Outputs, recorded_outputs
from roofline.hardware.detect.recognise import machine_of, metal_working_set, this_machine

RECORDED = Path(__file__).with_name("recorded")
GIB, MIB = 2**30, 2**20


@folded(
    ("folder", "on"),
    [
        ("v100-cut", "2xv100-sxm2-32gb"), ("two-4090", "2xrtx-4090"), ("eight-h100", "8xh100-sxm"),
        ("a100-listed", "4xa100-sxm-40gb"), ("laptop", "rtx-4060-laptop"), ("mi300x", "2xmi300x"),
        ("radeon", "rx-7900-xtx"), ("mac-m2-max", "m2-max"), ("mac-m1", "m1-7c"), ("spark", "gb10"),
    ],
)  # fmt: skip
def test_gpus_by_their_drivers(folder: str, on: str) -> None:
    assert machine_of(recorded_outputs(RECORDED / folder)).on == on


def test_memory_is_the_machines_where_it_is_not_the_catalogs() -> None:
    mac = machine_of(recorded_outputs(RECORDED / "mac-m4-pro"))
    assert (mac.chip.like, mac.chip.capacity, mac.chip.bandwidth) == ("m4-pro", 36 * GIB, 273e9)
    apu = machine_of(recorded_outputs(RECORDED / "strix-halo"))
    assert (apu.chip.like, apu.chip.capacity) == ("ryzen-ai-max-395", 96 * GIB)
    assert apu.memory == 129123456 * 1024
    assert machine_of(recorded_outputs(RECORDED / "mac-m2-max")).chip is chips()["m2-max"]


@pytest.mark.parametrize(
    ("folder", "name", "cores", "bandwidth", "gigaflops"),
    [
        # sockets × channels × MT/s × 8 bytes; cores × FLOP a clock × the catalog's boost clock
        ("epyc-genoa", "AMD EPYC 9654 96-Core Processor", 192, 2 * 12 * 4800e6 * 8, 192 * 32 * 3.7),
        ("ryzen", "AMD Ryzen 9 7950X 16-Core Processor", 16, 2 * 4800e6 * 8, 16 * 32 * 5.7),
        ("intel-mac", "Intel(R) Core(TM) i9-9900K CPU @ 3.60GHz", 8, 2 * 2666e6 * 8, 8 * 32 * 5.0),
        # not in the catalog: rates by instruction sets, at the clock that is told
        ("pi", "Cortex-A76", 4, 4 * 64e9, 4 * 16 * 2.4),
        ("graviton", "Neoverse-V1", 64, 64 * 64e9, 64 * 32 * 1.05),
    ],
)  # fmt: skip
def test_cpus_by_cores_channels_and_clock(
    folder: str, name: str, cores: int, bandwidth: float, gigaflops: float
) -> None:
    chip = machine_of(recorded_outputs(RECORDED / folder)).chip
    assert (chip.name, chip.units, chip.kind) == (name, cores, "cpu")
    assert chip.bandwidth == pytest.approx(bandwidth, rel=1e-3)
    assert chip.peak("fp32") / 1e9 == pytest.approx(gigaflops, rel=1e-3)


def test_a_container_has_the_cores_and_the_memory_that_it_is_given() -> None:
    texts = recorded_outputs(RECORDED / "epyc-genoa")
    cut = machine_of(
        Outputs(lscpu=texts.lscpu, meminfo=texts.meminfo, cpus=12, memory_limit=32.0 * GIB, bandwidth=2e11)
    )
    assert (cut.chip.units, cut.chip.capacity, cut.chip.bandwidth) == (12, 32 * GIB, 2e11)
    assert cut.chip.peak("fp32") == pytest.approx(12 * 32 * 3.7e9)
    assert "measured" in cut.notes[-1]


def test_this_machine_is_told_and_is_a_chip_like_any() -> None:
    machine = this_machine()
    assert machine.chip.capacity > GIB
    assert machine.chip.bandwidth > 1e9
    assert cluster_named("here").chips == machine.count
    assert is_cluster("here") == (machine.count > 1)


def test_gpus_that_the_catalog_lacks_are_named_and_the_cpu_serves() -> None:
    texts = recorded_outputs(RECORDED / "ryzen")
    smi = "name, memory.total [MiB]\nNVIDIA GeForce GT 710, 2048 MiB\n"
    machine = machine_of(Outputs(nvidia_smi=smi, lscpu=texts.lscpu, meminfo=texts.meminfo))
    assert machine.chip.kind == "cpu"
    assert machine.notes[0].startswith("NVIDIA GeForce GT 710: not in the catalog")


@folded(
    ("name", "mib", "chip"),
    [
        ("NVIDIA GeForce RTX 3060", 12288, "rtx-3060"), ("NVIDIA GeForce RTX 3060", 8192, "rtx-3060-8gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 16380, "rtx-4060-ti-16gb"), ("NVIDIA A100 80GB PCIe", 81920, "a100-pcie-80gb"),
        ("NVIDIA GH200 480GB", 97871, "gh200"), ("NVIDIA H100 NVL", 95830, "h100-nvl"), ("Tesla T4", 15360, "t4"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "rtx-6000-ada"), ("NVIDIA RTX A6000", 49140, "rtx-a6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887, "rtx-pro-6000-max-q"),
        ("NVIDIA GeForce RTX 2070 with Max-Q Design", 8192, "rtx-2070-laptop"), ("NVIDIA L20", 46068, "l20"),
        ("AMD Instinct MI250X / MI250", 131072, "mi250x"), ("NVIDIA GeForce GT 710", 2048, None),
        ("NVIDIA GeForce RTX 4090", 49140, None), ("", 8192, None), ("Graphics", 8192, None),
    ],
)  # fmt: skip
def test_names_of_drivers(name: str, mib: int, chip: str | None) -> None:
    known = chip_of_gpu(Gpu(name, mib * MIB))
    assert (known.id if known else None) == chip


def test_every_chip_is_known_by_its_own_name() -> None:
    for chip in chips().values():
        if chip.kind == "cpu":
            known = chip_of_processor(chip.name)
        else:
            units = chip.units if chip.vendor == "apple" else None
            known = chip_of_gpu(Gpu(chip.name, chip.nominal_capacity or chip.capacity, units))
        if known is not None and known.id != chip.id:  # sold under one name: the same figures but for links
            assert known.bandwidth == pytest.approx(chip.bandwidth, rel=0.25), (chip.id, known.id)


@folded(("gib", "mib"), [(8, 5461), (16, 10922), (24, 16384), (36, 27648), (64, 49152), (192, 147456)])
def test_what_metal_lets_a_gpu_take(gib: int, mib: int) -> None:
    assert int(metal_working_set(gib * GIB) / MIB) == mib


def test_the_catalog_has_what_metal_lets_a_gpu_take() -> None:
    for chip in chips().values():
        if chip.vendor == "apple" and chip.nominal_capacity:
            assert int(metal_working_set(chip.nominal_capacity) / MIB) == chip.capacity / MIB, chip.id


READERS = (
    gpus_of_nvidia_smi, gpus_of_rocm_smi, gpus_of_system_profiler, processor_of_lscpu, processor_of_sysctl,
    processor_of_cpuinfo, dimms_of_dmidecode,
)  # fmt: skip
TEXTS = tuple(p.read_text() for p in sorted(RECORDED.glob("*/*")))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 4000), st.text(max_size=30), st.integers(0, 200))
def test_cut_and_changed_outputs_name_nothing_or_something_but_never_fail(
    text: str, place: int, more: str, cut: int
) -> None:
    changed = text[:place] + more + text[place + cut :]
    for read in READERS:
        read(bounded_output("a tool", changed))
        read(bounded_output("a tool", text[:place]))


@folded(
    "text",
    [
        "[" * 100_000, '{"card0": ' * 2000, '{"lscpu": 7}', '{"lscpu": [{"field": null}]}', "\0" * 1000,
        "| 0 " * 100_000, "{" + '"a":{' * 5000, "a, 1\n" * 1000, "GPU[0]: a: b\n" * 10_000,
    ],
)  # fmt: skip
def test_hostile_outputs_name_nothing(text: str) -> None:
    assert not any(read(bounded_output("a tool", text)) for read in READERS)


def test_too_long_an_output_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        bounded_output("lscpu", "x" * (LARGEST_OUTPUT + 1))
    with pytest.raises(InputError, match="nvidia-smi"):
        recorded_outputs(tmp_path)
    with pytest.raises(InputError, match="from"):
        recorded_outputs(tmp_path / "none")
    with pytest.raises(InputError, match="a GPU or a CPU"):
        machine_of(Outputs())
    with pytest.raises(InputError, match="the memory"):
        machine_of(Outputs(lscpu=recorded_outputs(RECORDED / "ryzen").lscpu))


def test_modules_of_memory() -> None:
    dimms = dimms_of_dmidecode(recorded_outputs(RECORDED / "ryzen").dmidecode)
    assert dimms is not None
    assert (dimms.channels, dimms.transfers, dimms.memory) == (2, 4.8e9, 64 * GIB)
    assert np.isclose(dimms.bandwidth, 76.8e9)
