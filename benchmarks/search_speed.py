"""How long the search of a known case takes, in a warm process and as a command.

    python benchmarks/search_speed.py [RUNS]

aiconfigurator's README: Qwen3-32B in fp8 on 32 H200, 4,000 tokens in and 500 out, mean TTFT 300 ms, mean TPOT 10 ms.
No way to serve keeps these for 99 % of requests whose lengths vary, so of those it is 1.2 s and 15 ms. Prints medians
and what they are of the targets; exits with 1 where one is missed.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from time import perf_counter, process_time

import roofline as rl
from machine_description import describe, wall
from roofline.whatif.search.demand import Limits, Load
from roofline.whatif.search.search import Search, search

MODEL, ON, CHIPS = "Qwen/Qwen3-32B", "h200-sxm", 32
WARM, COMMAND, FEWEST = 1.0, 2.0, 10_000
"""Seconds of a search in a warm process and of the command, and legal plans at least."""
CASES: Mapping[str, tuple[float, float]] = {"mean": (0.3, 0.010), "0.99": (1.2, 0.015)}
"""Who keeps the limits → seconds of TTFT and TPOT."""
WORDS = (
    "search", MODEL, "--on", ON, "--chips", str(CHIPS), "--input", "4000", "--output-tokens", "500", "--precision",
    "weights=fp8", "--json",
)  # fmt: skip


def main(words: list[str]) -> int:
    """Prints the times and says whether targets are met."""
    print(describe())
    return max(timed(name, int(words[0]) if words else 7) for name in CASES)


def timed(attainment: str, runs: int) -> int:
    """Prints the times of a case; 1 where they miss a target."""
    model, times, busy, (ttft, tpot) = rl.load(MODEL), list[float](), list[float](), CASES[attainment]
    result: Search | None = None
    limits = Limits(ttft=ttft, tpot=tpot, attainment=attainment)
    for _ in range(runs + 1):
        start, worked = perf_counter(), process_time()
        result = search(model, Load(4000, 500), limits, on=ON, chips=CHIPS, precision="weights=fp8")
        times.append(perf_counter() - start)
        busy.append(process_time() - worked)
    start_line = "from roofline.doors.cli.main import main; main()"
    asked = ("--ttft", f"{ttft}s", "--tpot", f"{tpot}s", "--attainment", attainment)
    commands = [wall([sys.executable, "-c", start_line, *WORDS, *asked]) for _ in range(runs)]
    warm, command = statistics.median(times[1:]), statistics.median(commands)
    considered = result.considered if result else 0
    print(f"limits of {attainment}: {considered:,} legal plans (target ≥ {FEWEST:,})")
    print(
        f"warm process: {warm:.2f} s, {warm / WARM:.2f} of the target; {statistics.median(busy[1:]):.2f} s of processor"
    )
    print(f"command: {command:.2f} s, {command / COMMAND:.2f} of the target; medians of {runs}")
    return 0 if warm <= WARM and command <= COMMAND and considered >= FEWEST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
