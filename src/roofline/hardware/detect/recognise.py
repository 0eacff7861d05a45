"""Identify this machine's chip: its GPUs, by the names that drivers report, else its CPU with the host's memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from roofline.declared.errors import InputError
from roofline.declared.frozen_mapping import frozen
from roofline.hardware.chip import CATALOG, Chip
from roofline.hardware.detect.devices import MIB, Dimms, Gpu, Processor
from roofline.hardware.detect.names import chip_of_gpu, chip_of_processor
from roofline.hardware.detect.outputs import (
    dimms_of_dmidecode,
    gpus_of_nvidia_smi,
    gpus_of_rocm_smi,
    gpus_of_system_profiler,
    memory_of_meminfo,
    memory_of_sysctl,
    processor_of_cpuinfo,
    processor_of_lscpu,
    processor_of_sysctl,
)
from roofline.hardware.detect.probe import Outputs, outputs_of_this_machine, with_bandwidth
from roofline.hardware.series import ChipRows

HERE = "here"
"""Name of this machine in commands."""
SMALL_MAC = 32 * 2**30
"""Memory in bytes up to which Metal gives the GPU two thirds of it; above, three quarters."""
NEAR = 0.03
"""Relative difference from the catalog's memory size up to which that size is used."""
PER_CORE = 64e9
"""Assumed upper bound on the bytes/s read by one core."""


@dataclass(frozen=True)
class ThisMachine:
    """The detected machine. `chip`, `count`: the chips that models run on. `gpus`: all GPUs with their catalog chips or
    None. `processor`: the CPU. `memory`: bytes of host memory. `notes`: unknown devices and assumptions."""

    chip: Chip
    count: int
    gpus: tuple[tuple[Gpu, Chip | None], ...]
    processor: Processor | None
    memory: float | None
    notes: tuple[str, ...]

    @property
    def on(self) -> str:
        """The machine as a value of `--on`, such as `2xrtx-3090`."""
        return f"{self.count}x{self.chip.id}" if self.count > 1 else self.chip.id


@cache
def this_machine() -> ThisMachine:
    """Detect this machine, once per process.

    Raises InputError if neither a GPU nor a CPU is recognised.
    """
    outputs = outputs_of_this_machine()
    machine = machine_of(outputs)
    if machine.chip.kind == "cpu" and machine.processor and not outputs.dmidecode:
        return machine_of(with_bandwidth(outputs, outputs.cpus or machine.processor.cores))
    return machine


def machine_of(outputs: Outputs) -> ThisMachine:
    """Identify the machine from tools' output: the kind of GPU with the most memory in total, else the CPU.

    Raises InputError if neither is recognised.
    """
    processor = processor_of_lscpu(outputs.lscpu) or processor_of_cpuinfo(outputs.cpuinfo)
    processor = processor or processor_of_sysctl(outputs.sysctl)
    memory = memory_of_meminfo(outputs.meminfo) or memory_of_sysctl(outputs.sysctl)
    gpus = [
        *gpus_of_nvidia_smi(outputs.nvidia_smi), *gpus_of_rocm_smi(outputs.rocm_smi),
        *gpus_of_system_profiler(outputs.system_profiler),
    ]  # fmt: skip
    memory = memory or next((gpu.memory for gpu in gpus if gpu.shared), None)
    dimms = dimms_of_dmidecode(outputs.dmidecode)
    memory = memory or (dimms.memory if dimms else None)
    if outputs.memory_limit is not None:
        memory = min(memory or outputs.memory_limit, outputs.memory_limit)
    if not gpus and processor is not None:
        gpus = _on_the_processor(processor, memory)
    known = tuple((gpu, _chip_with(gpu)) for gpu in gpus)
    notes = [f"{gpu.name}: not in the catalog; give it as peak=…,bw=…,mem=…" for gpu, chip in known if not chip]
    chips = [chip for _, chip in known if chip is not None]
    if chips:
        best = max(chips, key=lambda c: (chips.count(c) * c.capacity, c.bandwidth))
        return ThisMachine(best, chips.count(best), known, processor, memory, tuple(notes))
    if processor is None:
        raise InputError("here", "nothing", "a GPU or a CPU that nvidia-smi, rocm-smi, lscpu or others name")
    cpu, more = _cpu(processor, memory, dimms, outputs)
    return ThisMachine(cpu, 1, known, processor, memory, (*notes, *more))


def _chip_with(gpu: Gpu) -> Chip | None:
    """Catalog chip of a GPU, with the memory that the driver reports."""
    chip = chip_of_gpu(gpu)
    if chip is None or gpu.memory is None:
        return chip
    usable = metal_working_set(gpu.memory) if chip.vendor == "apple" else gpu.memory
    if any(abs(usable / size - 1) <= NEAR for size in (chip.capacity, chip.nominal_capacity) if size):
        return chip
    size = f"{usable / MIB:.0f}MiB" if usable % MIB == 0 else f"{usable:.0f}B"
    return replace(
        chip, id=f"like={chip.id},mem={size}", aliases=(), like=chip.id, capacity=usable, nominal_capacity=None,
        usable_source="", usable_date="",
    )  # fmt: skip


def metal_working_set(memory: float) -> float:
    """Bytes of a Mac's memory that Metal recommends for the GPU, as logged by llama.cpp."""
    return memory * 2 / 3 if memory <= SMALL_MAC else memory * 3 / 4


def _on_the_processor(processor: Processor, memory: float | None) -> list[Gpu]:
    """Integrated GPU of a processor that the catalog lists as one chip with it, sharing the host's memory."""
    gpu = Gpu(processor.name, memory, shared=True)
    return [gpu] if processor.vendor != "apple" and chip_of_gpu(gpu) is not None else []


_FLAGS = (
    ("amx_tile", "amx"), ("avx512_vp2intersect", "zen5"), ("avx512_bf16", "zen4"), ("avx512_vnni", "avx512"),
    ("avx512f", "avx512"), ("avx_vnni", "avx2-vnni"), ("avx2", "avx2"), ("i8mm", "neoverse-v"), ("sve", "neoverse-v"),
    ("asimd", "neon"),
)  # fmt: skip
"""Instruction set → series, first match: rates of CPUs outside the catalog. AVX-512 with bf16 and without AMX is AMD's;
of these Zen 5 has vp2intersect, which of Intel's CPUs only laptops of 2020 have."""


def _cpu(processor: Processor, memory: float | None, dimms: Dimms | None, outputs: Outputs) -> tuple[Chip, list[str]]:
    """Chip of a CPU with the detected cores, memory and channels, and notes on the assumptions made."""
    if memory is None:
        raise InputError("here", processor.name, "the memory beside the CPU, as in meminfo.txt")
    cores = min(processor.cores, outputs.cpus or processor.cores)
    base = chip_of_processor(processor.name)
    if base is not None and base.units and base.clock:
        clock, notes = base.clock, []
        per_core = [{f: v / base.units for f, v in rates.items()} for rates in (base.peaks, base.vector)]
    else:
        clock = processor.clock or 3e9
        per_core = [{f: v * clock for f, v in rates.items()} for rates in _rates(processor)]
        notes = [f"{processor.name}: not in the catalog; its peak is that of {cores} cores by their instruction sets"]
    peaks, vector = (frozen({f: v * cores for f, v in rates.items()}) for rates in per_core)
    bandwidth, how = _bandwidth(processor, base, cores, dimms, outputs.bandwidth)
    chip = base or Chip(HERE, processor.name, processor.vendor, "", "cpu", peaks, bandwidth, memory)
    return replace(
        chip, id=HERE, name=processor.name, aliases=(), like=base.id if base else None, peaks=peaks, vector=vector,
        bandwidth=bandwidth, capacity=memory, nominal_capacity=None, units=cores, clock=clock,
        cache=processor.cache or chip.cache, note="", source="this machine's own tools", date="",
    ), [*notes, f"bandwidth {bandwidth / 1e9:.1f} GB/s: {how}"]  # fmt: skip


def _rates(processor: Processor) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """FLOP per core and cycle of the matrix units and of vector arithmetic, from a CPU's instruction sets."""
    series = next((s for flag, s in _FLAGS if flag in processor.features), None)
    if series is None:
        raise InputError("here", processor.name, "a CPU of the catalog or one whose instruction sets are known")
    return ChipRows(CATALOG / "series").rates(series)


def _bandwidth(
    processor: Processor, base: Chip | None, cores: int, dimms: Dimms | None, measured: float | None
) -> tuple[float, str]:
    """Bytes/s of the host's memory, and a note on its source: memory modules; a measurement, if only some of the cores
    are available or the CPU is not in the catalog; the catalog; else the number of cores."""
    if dimms is not None:
        return dimms.bandwidth, f"{dimms.channels} channels at {dimms.transfers / 1e6:.0f} MT/s"
    part = base is None or not base.units or cores < base.units * processor.sockets
    if measured is not None and part:
        return measured, "as measured just now"
    if base is not None:
        return base.bandwidth * processor.sockets, f"every channel filled with {base.memory_kind}"
    return cores * PER_CORE, f"at most {PER_CORE / 1e9:.0f} GB/s a core; no tool says it"
