"""How fast a sweep is: a grid of decode steps beside a NumPy pass of the same run, to a file, and over many plans.

    python benchmarks/sweep_speed.py [POINTS]

POINTS (10⁸ where not given) of Llama-3.1-8B go to Parquet. Exits with 1 where a target is missed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from machine_description import describe, peak_megabytes, wall
from roofline.whatif.query.axes import space_of
from roofline.whatif.query.evaluate import Sweeper, sweeper_of

MODEL, DENSE = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B"
POINTS_A_SECOND, MOST_MEGABYTES = 1e6, 2000.0
ROUNDS = 5
PLANS: dict[str, Any] = {
    "on": "1024xh200-sxm", "layout": "tp=1,2,4,8,pp=1,2,4,8,dp=1..128,cp=1,2",
    "precision": [None, "fp8", "weights=fp8"], "batch": [1, 4, 16, 64], "context": 4250,
}  # fmt: skip


def swept(sweeper: Sweeper) -> tuple[int, float]:
    """Rows of all pieces, and the seconds that they take."""
    start = perf_counter()
    rows = sum(sweeper.piece(number).size for number in range(sweeper.space.pieces))
    return rows, perf_counter() - start


def numpy_pass(points: int) -> float:
    """Seconds of a pass of NumPy over as many points as a piece has, for all of them: (a·b + c)/(a + b)."""
    a, b = np.random.default_rng(0).random((2, 2**17)) + 1
    start = perf_counter()
    for _ in range(points // 2**17):
        (a * b + 3.0) / (a + b)
    return perf_counter() - start


def main() -> int:
    """Prints rates, memory and whether targets are met."""
    print(describe())
    grid = sweeper_of(
        space_of(MODEL, "decode", {"on": "h100-sxm", "batch": "1..1024", "context": "1..4Ki"}), None, "fits"
    )
    grid.piece(0)
    points = grid.space.points
    seconds, bare = min(swept(grid)[1] for _ in range(ROUNDS)), min(numpy_pass(points) for _ in range(ROUNDS))
    rate = points / seconds
    print(
        f"{points:,} points, {len(grid.columns)} columns: {rate / 1e6:.2f} M points/s on a core (target ≥ 1), "
        f"{seconds / bare:.0f} × the time of (a·b + c)/(a + b) over as many"
    )
    plans = sweeper_of(space_of(DENSE, "decode", PLANS), ["tpot", "tokens_per_second_per_chip", "fits"], "")
    rows, once = swept(plans)
    again = min(swept(plans)[1] for _ in range(ROUNDS))
    legal = rows // plans.space.each
    print(f"{plans.space.plans:,} plans, {legal:,} legal: {once:.2f} s at first, {again:.2f} s in a warm process")
    most = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        axes = ["--batch", f"1..{max(1, most // 10**5)}", "--context", "1..100k"]
        command = [sys.executable, "-m", "roofline.doors.cli.main", "sweep", MODEL, "--on", "h100-sxm", *axes]
        file = [*command, "--columns", "time", "tpot", "fits", "-o", str(path), "--force"]
        took, peak = wall(file), peak_megabytes(file)
    print(
        f"{most:,} points to Parquet: {took:.0f} s, {most / took / 1e6:.2f} M points/s, {peak:.0f} MB of memory "
        f"(target < {MOST_MEGABYTES:.0f})"
    )
    return 0 if rate >= POINTS_A_SECOND and peak < MOST_MEGABYTES else 1


if __name__ == "__main__":
    sys.exit(main())
