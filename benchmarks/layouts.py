"""How many layouts × batches a second: a grid of both, and points drawn one by one, beside single calls.

    python benchmarks/layouts.py

Every point gets step time, memory of the fullest rank and whether it fits, of Llama-3.1-70B in training.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from statistics import median
from time import perf_counter

import numpy as np

import roofline as rl
from machine_description import describe

CLUSTER = "65536xh100-sxm"
TP, PP, DP = (1, 2, 4, 8), (1, 2, 4, 5, 8, 10, 16, 20), (1, 2, 4, 8, 16, 32)
MODEL = rl.load("meta-llama/Llama-3.1-70B")


def evaluated(tp: np.ndarray, pp: np.ndarray, dp: np.ndarray, batch: np.ndarray) -> int:
    """Points of one evaluation."""
    layout = rl.Layout(tp=tp, pp=pp, dp=dp, sp=True, zero=1)
    sweep = rl.estimate(MODEL, rl.train(batch=batch, tokens=4096), on=CLUSTER, layout=layout)
    figures = np.broadcast_arrays(sweep.time, sweep.memory, sweep.fits)
    return int(figures[0].size)


def rate(run: Callable[[], int], rounds: int = 5) -> float:
    """Points a second, the median of some rounds."""
    rates = []
    for _ in range(rounds):
        start = perf_counter()
        points = run()
        rates.append(points / (perf_counter() - start))
    return median(rates)


def single(count: int = 20) -> float:
    """Layouts a second, one call for each."""
    start = perf_counter()
    for tp, pp, dp in list(product(TP, PP, DP))[:: len(TP) * len(PP) * len(DP) // count][:count]:
        layout = rl.Layout(tp=tp, pp=pp, dp=dp, sp=True, zero=1)
        rl.estimate(MODEL, rl.train(batch=8 * dp, tokens=4096), on=CLUSTER, layout=layout)
    return count / (perf_counter() - start)


def main() -> None:
    degrees = np.array(list(product(TP, PP, DP))).T[:, :, None]
    batches = 32 * np.arange(1, 1001)[None, :]
    draw = np.random.default_rng(0)
    points = [draw.choice(d, 50_000) for d in (TP, PP, DP)]
    drawn = points[2] * draw.integers(1, 64, 50_000)
    grid = rate(lambda: evaluated(*degrees, batches))
    loose = rate(lambda: evaluated(*points, drawn))
    alone = single()
    print(describe())
    print(f"{degrees.shape[1]} layouts × {batches.size} batches: {grid:,.0f} a second (target ≥ 200,000)")
    print(f"50,000 points drawn one by one: {loose:,.0f} a second")
    print(f"one call for each: {alone:,.0f} a second; ratios {grid / alone:,.0f} and {loose / alone:,.0f}")


if __name__ == "__main__":
    main()
