"""Time each planned case by the wall clock, a thread's CPU time, or a GPU's events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from roofline.declared.errors import InputError, nearest
from roofline.measured.calibrate.benches import NumpyBench, TorchBench
from roofline.measured.calibrate.cases import Device, Measurement, Measurements, Progress, Runner, planned_cases
from roofline.measured.calibrate.host import describe

FASTEST_CALL = 2e-4
"""Calls shorter than this many seconds are timed in groups."""


@dataclass(frozen=True)
class Clock:
    """Timer of calls. `now`: host clock in seconds; `torch`: the module, if a CUDA device is timed by its events.

    `budget`: seconds to spend on one case; at least `least` and at most `most` samples are taken.
    """

    now: Callable[[], float] = time.perf_counter
    torch: ModuleType | None = None
    budget: float = 0.25
    least: int = 3
    most: int = 40

    def __call__(self, run: Runner) -> tuple[float, int]:
        """Median seconds per call, and the number of samples."""
        first = self._sample(run, 1)
        if first < self.budget / 3:
            first = self._sample(run, 1)
        inner = max(1, int(FASTEST_CALL / max(first, 1e-7)))
        samples = [self._sample(run, inner)]
        while len(samples) < self.least or (sum(samples) * inner < self.budget and len(samples) < self.most):
            samples.append(self._sample(run, inner))
        return float(np.median(samples)), len(samples)

    def _sample(self, run: Runner, inner: int) -> float:
        if self.torch is None:
            start = self.now()
            for _ in range(inner):
                run()
            return (self.now() - start) / inner
        cuda = self.torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.synchronize()
        begin.record()
        for _ in range(inner):
            run()
        end.record()
        cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / inner


def clock_for(device: Device = "cpu", quick: bool = False, cpu_clock: bool = False) -> Clock:
    """Create the clock of a device; `cpu_clock`: measure CPU time of this thread instead of wall time."""
    torch = import_module("torch") if device == "cuda" else None
    return Clock(time.thread_time if cpu_clock else time.perf_counter, torch, budget=0.06 if quick else 0.25)


def measure(
    device: Device = "cpu",
    dtypes: Sequence[str] | None = None,
    quick: bool = False,
    cpu_clock: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Measurements:
    """Time all planned cases; takes about 90 s on a CPU, a fifth of that with `quick`.

    `threads`: CPU threads (default: PyTorch's). `cpu_clock`: run one thread and measure its CPU time instead of wall
    time, for a machine that is busy with other work. `progress`: called with the number of cases done, their total and
    the name of the next. Raises InputError if the device is not available.
    """
    torch = import_module("torch") if find_spec("torch") else None
    if device == "cuda" and (torch is None or not torch.cuda.is_available()):
        raise InputError(
            "--device", device, "a CUDA device that PyTorch can use" if torch else "PyTorch, which is not installed"
        )
    if device not in ("cpu", "cuda"):
        raise InputError("--device", device, "cpu or cuda", nearest(device, ("cpu", "cuda")))
    if cpu_clock and device == "cuda":
        raise InputError("--cpu-clock", True, "--device cpu")
    cases, clock = planned_cases(device, dtypes, quick, torch is not None), clock_for(device, quick, cpu_clock)
    before = torch.get_num_threads() if torch else None
    wanted = 1 if cpu_clock else threads
    if torch and wanted:
        torch.set_num_threads(wanted)
    try:
        machine = replace(describe(device, torch), clock="cpu" if cpu_clock else "wall")
        bench = TorchBench(torch, device, machine.cache) if torch else NumpyBench(machine.cache)
        rows = []
        for i, case in enumerate(cases):
            if progress:
                progress(i, len(cases), f"{case.kind} {case.dtype}")
            with bench.quiet():
                seconds, repeats = clock(bench.runner(case))
            rows.append(Measurement(case, seconds, repeats))
        if progress:
            progress(len(cases), len(cases), "fit")
    finally:
        if torch and wanted:
            torch.set_num_threads(before)
    return Measurements(machine, tuple(rows))
