"""Watts of servers' boards: ML.ENERGY 2.0 and 3.0, and SGLang on eight H200, beside the energy roofline.

    python benchmarks/measured_power.py DIR [WORD]

Two errors of each row: of the watts alone, where the rate and the time of a step are those measured; and of a call that
knows machine, layout, lengths and users, with its joules per token. A table by chip and model, and one by chip and
users, where a trend would show; with a word of a model's name also each of its rows. Rows that the tables flag are left
out, and models that are in no catalog.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from measured_diffusion import predicted
from measured_serving import ENERGY, ENERGY_CHIPS, NEBIUS, READERS
from roofline.declared.errors import InputError
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.inference.cost.cost import Cost
from roofline.kernels.power import Busy, Draw
from roofline.measured.accuracy.csvs import TableRow, cells
from roofline.serving.energy import SteadyLoad, server_spending
from roofline.serving.serve import serve

DIFFUSION = "diffusion_mlenergy.csv"
NEAR = 0.1
"""Error of a latency up to which the work behind it is taken to be understood."""
USERS = (8, 32, 128, 512)
"""Ends of the bands of users in which a trend is looked for."""


@dataclass(frozen=True)
class Powered:
    """A row: `watts` of all boards and `joules` a token or image, measured and as a call predicts.

    `alone`: what the boards do at the measured rate, by phase. `users`: requests in flight, or inputs of a batch.
    """

    model: str
    chip: Chip
    source: str
    users: int
    watts: float
    joules: float
    called_watts: float
    called_joules: float
    alone: tuple[Cost, ...]

    def drawn(self, draw: Draw | None = None) -> float:
        """Watts of all boards at the measured rate. draw: the board's, if not the chip's own."""
        seconds = sum(float(cost.seconds) for cost in self.alone)
        if draw is None:
            return sum(float(cost.working_joules or 0) for cost in self.alone) / seconds
        each = (draw.joules(cost.chips * cost.seconds, cost.busy or Busy()) for cost in self.alone)
        return sum(map(float, each)) / seconds


def powered(file: str, r: TableRow) -> Powered | None:
    """A row with its predictions, with the settings that times are predicted with; None where it is flagged, or its
    model is in no catalog.
    """
    theirs = file == ENERGY
    try:
        run = next(iter(READERS[file](r)))
    except InputError:
        return None
    called = serve(run.model, **run.others, **run.sizes)
    output, rate = r.number("output_len_mean"), r.number("output_tokens_per_s")
    users, prompt, answer = int(run.sizes["concurrency"]), int(called.input), int(called.output)
    if theirs:
        batch = r.number("avg_batch") if r.text("avg_batch") else users
        long = r.number("output_len_effective") if r.text("output_len_effective") else output
    else:
        batch, long = rate / output * r.number("e2e_mean_ms") / 1e3, output
    load = SteadyLoad(rate / output, prompt, answer, int(prompt + long / 2), int(called.cached_prefix))
    alone = server_spending(called.asked, load, batch / rate)
    watts = r.number("watts_all_gpus" if theirs else "watts_used_gpus")
    source = r.text("benchmark") if theirs else "SGLang"
    return Powered(
        r.text("model"), called.asked.deployment.chip, source, users, watts, watts / rate,
        float(called.power or 0), float(called.joules_per_token or 0), (alone.prompts, alone.answers),
    )  # fmt: skip


def denoised(folder: Path) -> Iterator[Powered]:
    """Pipelines of images and videos on one board, with a prediction of latency within `NEAR` of what was measured.

    Where it is not, the step's work or its kernels are others than those predicted.
    """
    with (folder / DIFFUSION).open(newline="") as lines:
        for r in csv.DictReader(lines):
            if r["num_gpus"] != "1" or r["anomaly"] or (found := predicted(r)) is None:
                continue
            measured, expected = found.seconds
            if abs(expected / measured - 1) > NEAR:
                continue
            cost = found.cost
            busy = replace(cost.busy or Busy(), running=measured)
            joules = found.joules[0]
            yield Powered(
                r["model"], chip_of(found.chip), "diffusion", found.batch, joules * found.batch / measured, joules,
                float(cost.mean_power or 0), found.joules[1], (replace(cost, seconds=measured, busy=busy),),
            )  # fmt: skip


def chip_of(name: str) -> Chip:
    """The chip of a table's name."""
    return chip_named(ENERGY_CHIPS[name])


def rows(folder: Path) -> Iterator[Powered]:
    """Every row of servers that is scored."""
    for file in (ENERGY, NEBIUS):
        yield from filter(None, (powered(file, row) for row in cells(folder / file)))


def band(row: Powered) -> str:
    """The band of a row's users."""
    return next((f"to {end}" for end in USERS if row.users <= end), f"above {USERS[-1]}")


def table(scored: Iterable[Powered], key: Callable[[Powered], tuple[str, ...]]) -> Iterator[str]:
    """Lines of medians of absolute errors, and of errors, by a key."""
    groups: dict[tuple[str, ...], list[Powered]] = defaultdict(list)
    for row in scored:
        groups[key(row)].append(row)
    for name, members in groups.items():
        errors = (
            [r.drawn() / r.watts - 1 for r in members], [r.called_watts / r.watts - 1 for r in members],
            [r.called_joules / r.joules - 1 for r in members],
        )  # fmt: skip
        cells = " ".join(f"{median(map(abs, e)):6.1%} ({median(e):+5.0%})" for e in errors)
        yield f"{' '.join(name):66} {len(members):4} {cells}"


def main(folder: str, *words: str) -> None:
    """Print the errors."""
    scored = [*rows(Path(folder)), *denoised(Path(folder))]
    for row in scored:
        if any(word in row.model for word in words):
            told = f"measured {row.watts:.0f} W, {row.joules:.3g} J; {row.drawn():.0f} W at this rate"
            print(f"{row.model} {row.chip.id} {row.users}: {told}; {row.called_watts:.0f} W, {row.called_joules:.3g} J")
    print(f"{'':66} rows  watts at the rate   watts of a call   joules a token")
    for key in (
        lambda r: (r.source, r.chip.id), lambda r: (r.source, r.chip.id, band(r)),
        lambda r: (r.source, r.chip.id, r.model.rpartition("/")[2]),
    ):  # fmt: skip
        print(*table(scored, key), "", sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
