"""Points per second of one array evaluation of a model's whole op list, beside a bare NumPy pass over its formulas.

    python benchmarks/sweep.py [MODEL]

The floor is what NumPy needs to multiply and add as many arrays as there are figures (FLOPs and bytes of each op), with
nothing else around it.
"""

from __future__ import annotations

import resource
import sys
import time
from functools import partial

import numpy as np

import roofline as rl
from machine_description import alternating, describe

POINTS = 1_000_000


def sweep(model: rl.Model, batch: np.ndarray, context: np.ndarray) -> float:
    """Seconds for FLOPs, bytes and intensity of every point."""
    start = time.perf_counter()
    analysis = rl.analyze(model, rl.decode(batch=batch, context=context))
    assert analysis.flops.shape == analysis.bytes.shape == analysis.intensity.shape == (POINTS,)
    return time.perf_counter() - start


def floor(figures: int, batch: np.ndarray, context: np.ndarray) -> float:
    """Seconds of one multiply and one add a figure."""
    start = time.perf_counter()
    total = np.zeros(POINTS, dtype=np.int64)
    for i in range(figures):
        total += (i + 1) * (batch if i % 2 else context)
    return time.perf_counter() - start


def main(name: str = "meta-llama/Llama-3.1-8B", rounds: int = 7) -> None:
    """Prints rates, the ratio and the peak memory."""
    random = np.random.default_rng(0)
    batch, context = random.integers(1, 256, POINTS), random.integers(1, 131_072, POINTS)
    model = rl.load(name)
    ops = len(rl.analyze(model, rl.decode(batch=1, context=1)).ops)
    ours, bare = alternating(partial(sweep, model, batch, context), partial(floor, 2 * ops, batch, context), rounds)
    print(describe())
    print(f"{name}: {ops} ops, {POINTS:,} points in {ours:.2f} s: {POINTS / ours:,.0f} points/s (target ≥ 300,000)")
    print(f"bare NumPy, {2 * ops} figures: {bare:.2f} s; ratio {ours / bare:.1f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(f"peak memory {peak:.2f} GB (target < 2)")


if __name__ == "__main__":
    main(*sys.argv[1:2])
