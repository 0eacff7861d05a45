"""Describe the machine that is measured."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path
from types import ModuleType

import numpy as np

from roofline.measured.calibrate.cases import Device, MeasuredMachine

FALLBACK_CACHE = 32 * 2**20
_GENERATIONS = {
    (8, 0): "ampere",
    (8, 6): "ampere-rtx",
    (8, 7): "ampere-rtx",
    (8, 9): "ada",
    (9, 0): "hopper",
    (10, 0): "blackwell",
    (10, 3): "blackwell",
}


def describe(device: Device, torch: ModuleType | None = None) -> MeasuredMachine:
    """Name, cores, memory and last-level cache, as reported by the system."""
    software = f"PyTorch {torch.__version__}" if torch else f"NumPy {np.__version__}"
    date = time.strftime("%Y-%m-%d")
    if device == "cuda":
        assert torch is not None
        p = torch.cuda.get_device_properties(0)
        generation = _GENERATIONS.get((p.major, p.minor), "blackwell-rtx" if p.major == 12 else "")
        cache = float(getattr(p, "L2_cache_size", 0) or FALLBACK_CACHE)
        units, memory = p.multi_processor_count, float(p.total_memory)
        return MeasuredMachine("cuda", p.name, "nvidia", units, memory, cache, software, generation, date=date)
    name = _processor()
    vendor = next((v for v in ("amd", "intel", "apple", "arm") if v in name.lower()), "")
    threads = torch.get_num_threads() if torch else os.cpu_count() or 1
    return MeasuredMachine("cpu", name, vendor, threads, _memory(), _last_level(), software, date=date)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    line = re.search(r"model name\s*:\s*(.+)", text)
    return " ".join((line[1] if line else platform.processor() or platform.machine() or "CPU").split())


def _memory() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return 16 * 2.0**30


def _last_level() -> float:
    """Bytes of the largest cache listed in sysfs; 32 MiB if there is none."""
    sizes = [_sized(p.read_text()) for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return float(max(sizes, default=0) or FALLBACK_CACHE)


def _sized(text: str) -> int:
    size = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    return int(size[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[size[2]] if size else 0
