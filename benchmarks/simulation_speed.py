"""How fast a server is simulated, and how much memory a million requests take beside ten thousand.

    python benchmarks/simulation_speed.py

Requests of 1,024 tokens and answers of 256 to Llama-3.1-70B. Exits with 1 where a target is missed.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import roofline as rl
from machine_description import describe, peak_megabytes

MODEL = "meta-llama/Llama-3.1-70B"
LENGTHS = ("--input", "uniform(512,1536)", "--output-tokens", "uniform(128,384)")
LARGE, SMALL, MOST_GROWTH = 1_000_000, 10_000, 2.0
"""Requests whose memory is compared, and the most that the large run's may be in the small one's."""


@dataclass(frozen=True)
class Load:
    """A rate on a machine that holds it: targets in seconds simulated a second, and in requests a second (0: none)."""

    rate: float
    on: str
    layout: str
    requests: int
    real_time: float
    requests_per_second: float


LOADS = (
    Load(20, "4xb200", "tp=2,dp=2", 20_000, 150, 3_000),
    Load(1, "8xh100-sxm", "tp=8", 5_000, 1_000, 0),
)


def main() -> int:
    """Prints rates, memory and whether targets are met."""
    print(describe())
    met = True
    for load in LOADS:
        options: dict[str, Any] = {
            "on": load.on,
            "layout": load.layout,
            "input": LENGTHS[1],
            "output": LENGTHS[3],
            "rate": load.rate,
        }
        rl.simulate(MODEL, **options, extent=rl.Extent(requests=100))  # tables and imports apart
        start = perf_counter()
        result = rl.simulate(MODEL, **options, extent=rl.Extent(requests=load.requests))
        wall = perf_counter() - start
        each, real = (result.requests + result.warmup) / wall, result.timeline.seconds[-1] / wall
        print(
            f"{load.rate:g} requests/s on {load.on} ({load.layout}): {each:,.0f} requests/s (target ≥ "
            f"{load.requests_per_second:,.0f}), {real:,.0f} × real time (target ≥ {load.real_time:,.0f})"
            f"{', overloaded' if result.overloaded else ''}"
        )
        met = met and each >= load.requests_per_second and real >= load.real_time and not result.overloaded
    with tempfile.TemporaryDirectory() as folder:
        small, large = (memory(requests, Path(folder)) for requests in (SMALL, LARGE))
    print(f"peak memory: {small:.0f} MB of {SMALL:,} requests, {large:.0f} MB of {LARGE:,}, all written to Parquet")
    return 0 if met and large <= MOST_GROWTH * small else 1


def memory(requests: int, folder: Path) -> float:
    """Peak memory of a command that writes so many requests to a file, MB."""
    load = LOADS[0]
    where = ("--on", load.on, "--layout", load.layout, "--rate", f"{load.rate:g}")
    command = (
        "simulate",
        MODEL,
        *where,
        *LENGTHS,
        "--requests",
        str(requests),
        "--out",
        str(folder / f"{requests}.parquet"),
    )
    return peak_megabytes([sys.executable, "-m", "roofline.doors.cli.main", *command])


if __name__ == "__main__":
    sys.exit(main())
