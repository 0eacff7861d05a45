"""Board power under load: published measurements beside the energy roofline.

    python benchmarks/energy.py

Each row is one sequence that decodes, for which a board's mean watts and its tokens per second were published. Time is
that measured, so that what is judged is the power alone; the work of a step is ours, at the mean context. Nothing in
`kernels/power.toml` is fitted on these rows. Exits with 1 where the interval does not hold four fifths of them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import mean

import roofline as rl
from roofline.inference.cost.busy import busy_of
from roofline.kernels.power import Busy, draw_of

LEADERBOARD = "ml-energy/leaderboard data/legacy/{}_chat_benchmark.csv, commit c814c36: energy / latency"
NEWER = "ml-energy/leaderboard data/A100_chat_benchmark.csv, commit 4717739: energy / latency"
CLUB = "noonghunna/club-3090 issue 697, 2026-07-13"
TARGET = 0.15


@dataclass(frozen=True)
class Board:
    """A board under load: mean `watts` at `rate` tokens a second of one sequence at a mean `context`."""

    chip: str
    model: str
    watts: float
    rate: float
    context: int
    source: str
    precision: str | None = "fp16"


ROWS = (
    Board("v100-sxm2-32gb", "meta-llama/Llama-2-7b-hf", 1458.53 / 8.7597, 32.13, 200, LEADERBOARD.format("V100")),
    Board("v100-sxm2-32gb", "meta-llama/Llama-2-13b-hf", 2980.67 / 12.8324, 21.72, 200, LEADERBOARD.format("V100")),
    Board("a40", "meta-llama/Llama-2-7b-hf", 2239.07 / 9.4742, 30.07, 200, LEADERBOARD.format("A40")),
    Board("a40", "meta-llama/Llama-2-13b-hf", 4265.29 / 16.0968, 17.51, 200, LEADERBOARD.format("A40")),
    Board("a40", "meta-llama/Llama-2-7b-hf", 2556.72 / 13.3678, 31.92, 270, LEADERBOARD.format("A40")),
    Board("a40", "meta-llama/Llama-2-13b-hf", 4337.67 / 22.5527, 16.96, 250, LEADERBOARD.format("A40")),
    Board("a100-sxm-40gb", "meta-llama/Llama-2-7b-hf", 1482.91 / 9.4236, 31.03, 200, NEWER),
    Board("a100-sxm-40gb", "meta-llama/Llama-2-13b-hf", 3186.87 / 14.4701, 19.73, 200, NEWER),
    Board("a100-sxm-40gb", "meta-llama/Llama-2-7b-hf", 1828.77 / 9.4421, 44.47, 270, NEWER),
    Board("a100-sxm-40gb", "meta-llama/Llama-2-13b-hf", 3050.13 / 12.9842, 30.01, 250, NEWER),
    Board("rtx-4090", "Qwen/Qwen3-4B", 246.64, 138.32, 500, CLUB, "weights=fp8"),
)


def ours(row: Board) -> tuple[float, float, float]:
    """Watts by the energy roofline, and the ends of its interval."""
    draw = draw_of(rl.chips()[row.chip])
    assert draw is not None
    step = rl.estimate(
        row.model, rl.decode(batch=1, context=row.context), on=row.chip, engine="none", precision=row.precision
    )
    seconds, work = 1 / row.rate, busy_of(step.total)
    busy = Busy(seconds, work.compute, work.memory, work.link)
    watts = float(draw.joules(seconds, busy)) / seconds
    return watts, draw.low * watts, min(draw.high * watts, draw.most)


def main() -> int:
    """Prints a line for each row, and how many are near and within."""
    near, within, errors = 0, 0, []
    print(f"{'chip':16}{'model':28}{'measured W':>11}{'ours W':>8}{'error':>8}  interval")
    for row in ROWS:
        watts, low, high = ours(row)
        error = watts / row.watts - 1
        errors.append(abs(error))
        near += abs(error) <= TARGET
        within += low <= row.watts <= high
        line = f"{row.chip:16}{row.model:28}{row.watts:11.0f}{watts:8.0f}{100 * error:+7.0f} %"
        print(f"{line}  {low:.0f} to {high:.0f}  {row.source}")
    print(
        f"{near} of {len(ROWS)} within 15 %, {within} in the interval, mean absolute error {100 * mean(errors):.0f} %"
    )
    return 0 if within >= 0.8 * len(ROWS) else 1


if __name__ == "__main__":
    sys.exit(main())
