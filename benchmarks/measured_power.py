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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from measured_diffusion import predicted
from measured_serving import (
    CHECKPOINTS,
    ENERGY,
    ENERGY_CHIPS,
    ENERGY_RELEASE,
    NEBIUS,
    PROMPTS,
    known_model,
    of_release,
    several,
)
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.inference.cost.cost import Cost
from roofline.kernels.power import Busy, Draw
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


def powered(file: str, r: Mapping[str, str]) -> Powered | None:
    """A row with its predictions; None where it is flagged, or its model is in no catalog."""
    theirs = file == ENERGY
    name, formats = CHECKPOINTS.get(r["model"], (r["model"], None))
    model = known_model(name)
    if r["anomaly"] or model is None:
        return None
    chip = ENERGY_CHIPS[r["gpu"]] if theirs else "h200-sxm"
    boards, replicas = int(r["num_gpus" if theirs else "num_chips_used"]), int(r.get("dp") or 1)
    layout = f"tp={boards // replicas},dp={replicas}" + (f",ep={boards}" if int(r.get("ep") or 1) > 1 else "")
    output, rate = float(r["output_len_mean"]), float(r["output_tokens_per_s"])
    if theirs:
        prompt, users = PROMPTS[r["task"]], int(r["max_num_seqs"])
        batch = float(r["avg_batch"] or users)
        context = prompt + float(r["output_len_effective"] or output) / 2
        engine = of_release("vllm", r["engine_version"] or ENERGY_RELEASE)
    else:
        prompt, users = int(float(r["input_len_mean"])), int(r["max_concurrency"])
        batch, context = rate / output * float(r["e2e_mean_ms"]) / 1e3, prompt + output / 2
        engine = of_release("sglang", "0.5.12")
    called = serve(
        model, on=several(chip, boards), layout=layout, engine=engine, precision=formats, input=prompt,
        output_tokens=max(2, int(output)), concurrency=users,
    )  # fmt: skip
    load = SteadyLoad(rate / output, prompt, max(2, int(output)), int(context))
    alone = server_spending(called.asked, load, batch / rate)
    watts = float(r["watts_all_gpus" if theirs else "watts_used_gpus"])
    return Powered(
        r["model"], chip_named(chip), r["benchmark"] if theirs else "SGLang", users, watts, watts / rate,
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
        with (folder / file).open(newline="") as lines:
            yield from filter(None, (powered(file, row) for row in csv.DictReader(lines)))


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
