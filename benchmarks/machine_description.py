"""What the benchmarks ran on, and the helpers they share."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def describe() -> str:
    """Processor, cores, Python and NumPy, in a line."""
    import numpy

    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {numpy.__version__}"


def wall(command: Sequence[str]) -> float:
    """Seconds a process takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def alternating(first: Callable[[], float], second: Callable[[], float], rounds: int) -> tuple[float, float]:
    """Medians of two timings taken in turn, so that the machine's moods fall on both."""
    pairs = [(first(), second()) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def peak_megabytes(command: Sequence[str]) -> float:
    """Largest resident memory of a process, MB (10⁶)."""
    program = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", program, *command], check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024 / 1e6


def peak_bytes() -> int:
    """The most bytes that this process had in memory, without those of the one that started it.

    `ru_maxrss` begins at what the process that forks had in memory.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
