"""Collect the output of system tools on this machine, or recorded in files on another."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

from roofline.declared.errors import InputError, nearest
from roofline.declared.kinds import Given
from roofline.hardware.detect.devices import LARGEST_OUTPUT, bounded_output
from roofline.model.sources.untrusted import read_text

PATIENCE_S = 8.0
"""Timeout of a tool in seconds; nvidia-smi takes 3 s to wake eight cards."""
MEASURE_S = 0.1
_TRIES = 5
_READ = 2**28
"""Total bytes of the arrays in the bandwidth measurement: 256 MiB, more than most last-level caches."""
_LEAST_ARRAY = 2**25
"""Minimum bytes of each array."""
_MOST_THREADS = 32


@dataclass(frozen=True)
class Outputs:
    """Outputs of tools, "" if a tool is missing. `cpus`, `memory_limit`: CPUs and bytes of memory available to a
    container, None for all. `bandwidth`: measured bytes/s of this machine's memory."""

    nvidia_smi: str = ""
    rocm_smi: str = ""
    system_profiler: str = ""
    sysctl: str = ""
    lscpu: str = ""
    cpuinfo: str = ""
    meminfo: str = ""
    dmidecode: str = ""
    cpus: int | None = None
    memory_limit: float | None = None
    bandwidth: float | None = None


_COMMANDS = {
    "nvidia_smi": ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv"],
    "rocm_smi": ["rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json"],
    "system_profiler": ["system_profiler", "SPHardwareDataType", "SPDisplaysDataType"],
    "sysctl": ["sysctl", "machdep.cpu", "hw"],
    "lscpu": ["lscpu"],
    "dmidecode": ["dmidecode", "-t", "memory"],
}
_FILES = {"cpuinfo": "/proc/cpuinfo", "meminfo": "/proc/meminfo"}
_TEXTS = tuple(f.name for f in fields(Outputs) if f.type == "str")


@cache
def outputs_of_this_machine() -> Outputs:
    """Run the installed tools, once per process. A tool that fails yields an empty text."""
    texts: dict[str, Given] = {name: _run(command) for name, command in _COMMANDS.items() if shutil.which(command[0])}
    texts |= {name: _file(path) for name, path in _FILES.items()}
    return replace(Outputs(**texts), cpus=_cpus(), memory_limit=_memory_limit())


def recorded_outputs(folder: Path) -> Outputs:
    """Read outputs from a folder; files are named after tools: nvidia-smi.txt, lscpu.txt or .json, meminfo.txt…

    Raises InputError if there is none, or for a file that is too large or not text.
    """
    if not folder.is_dir():
        raise InputError("--from", str(folder), "a folder with nvidia-smi.txt, lscpu.txt or others of the kind")
    names = {p.name: p for p in sorted(folder.iterdir())[:1000]}
    texts: dict[str, Given] = {}
    for field in _TEXTS:
        tool = field.replace("_", "-")
        path = next((names[n] for n in (f"{tool}.txt", f"{tool}.json", f"{tool}.csv", tool) if n in names), None)
        if path is not None:
            texts[field] = bounded_output(tool, read_text(path, LARGEST_OUTPUT, path.name))
    if not texts:
        known = [f"{f.replace('_', '-')}.txt" for f in _TEXTS]
        raise InputError(
            "--from", str(folder), f"a folder with one of {', '.join(known)}", nearest(next(iter(names), ""), known)
        )
    return Outputs(**texts)


def with_bandwidth(outputs: Outputs, threads: int) -> Outputs:
    """Add this machine's memory bandwidth: the best of several measurements, as other processes may interfere."""
    workers = min(threads, _MOST_THREADS)
    arrays = [np.ones(max(_READ // workers, _LEAST_ARRAY) // 4, dtype=np.float32) for _ in range(workers)]
    return replace(outputs, bandwidth=max(read_bandwidth(arrays) for _ in range(_TRIES)))


def read_bandwidth(arrays: Sequence[np.ndarray], seconds: float = MEASURE_S) -> float:
    """Total bytes/s read by one thread per array, with dot products of arrays larger than every cache."""

    def read(array: np.ndarray) -> int:
        rounds, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            float(np.dot(array, array))
            rounds += 1
        return rounds * array.nbytes

    with ThreadPoolExecutor(len(arrays)) as pool:
        start = time.perf_counter()
        moved = sum(pool.map(read, arrays))
        return moved / (time.perf_counter() - start)


def _run(command: list[str]) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=PATIENCE_S, env=environment, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (
        bounded_output(command[0], done.stdout[:LARGEST_OUTPUT].decode(errors="replace")) if not done.returncode else ""
    )


def _file(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as lines:
            return bounded_output(path, lines.read(LARGEST_OUTPUT))
    except OSError:
        return ""


def _cpus() -> int | None:
    """Number of CPUs available to this process, from its affinity and the cgroup v2 quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = _file("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit() and int(quota[1]):
        return min(affinity or 1, max(1, int(quota[0]) // int(quota[1])))
    return affinity


def _memory_limit() -> float | None:
    """Memory limit of the container in bytes, from cgroup v2 or v1; None without a limit."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = _file(path).strip()
        if text.isdigit() and int(text) < 2**60:
            return float(text)
    return None
