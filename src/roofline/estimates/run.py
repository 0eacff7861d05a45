"""A whole training run: days, failures, checkpoints, cost and energy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from roofline.estimates.span import Span
from roofline.estimates.train import TrainingEstimate
from roofline.model.checks import numbers
from roofline.model.maths import Count, ceil_div, root, where
from roofline.result import Result, Units

MTBF_HOURS = 50_000.0
"""Hours between failures of one chip: 419 in 54 days of 16,384 H100 (Llama 3, arXiv:2407.21783 §3.3.4)."""
SAVE_SECONDS = 10.0
"""Seconds that a checkpoint holds the run up: an assumption, of one that is copied to the hosts' memory in seconds and
written from there beside the run (MegaScale, arXiv:2402.15627 §4.4). One that is written out first takes minutes."""
RESTART_SECONDS = 600.0
"""Seconds from a failure until the run goes on: an assumption (the same: found and repaired within ten minutes)."""
IDLE_SHARE = 0.12
"""Of a chip's power, where its idle power is not known: an assumption."""


@dataclass(frozen=True, repr=False)
class Run(Result):
    """A whole run of `tokens` tokens: numbers, or arrays as the estimate has them.

    With failures every M = mtbf / chips, saving takes δ and is done every τ = √(2·δ·M); of the time the share
    1 − δ/τ − τ/(2M) − R/M is progress, R the restart (Young 1974, Daly 2006).
    """

    SCHEMA: ClassVar[str] = "roofline.run/2"
    FIGURES: ClassVar[Units] = {
        "run_tokens": "", "steps": "", "time": "s", "chip_hours": "", "cost": "USD", "energy": "J",
        "failures_apart": "s", "checkpoint_interval": "s", "progress": "share",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"run_tokens": "tokens", "time": "span"}

    estimate: TrainingEstimate
    tokens: Count
    mtbf_hours: float
    save_seconds: float
    restart_seconds: float

    @property
    def steps(self) -> Count:
        """Optimizer steps."""
        return ceil_div(self.tokens, self.estimate.tokens)

    @property
    def failures_apart(self) -> Count:
        """Mean seconds between failures of any chip."""
        return 3600 * self.mtbf_hours / self.estimate.chips

    @property
    def checkpoint_interval(self) -> Count:
        """Seconds between checkpoints that lose least."""
        return root(2 * self.save_seconds * self.failures_apart)

    @property
    def progress(self) -> Count:
        """Goodput: share of the time not lost to checkpoints, work done twice and restarts; 0 where none is left."""
        apart, every = self.failures_apart, self.checkpoint_interval
        saving = self.save_seconds / every if self.save_seconds else 0.0
        left = 1 - (saving + every / (2 * apart) + self.restart_seconds / apart)
        return where(left > 0, left, 0.0)

    @property
    def span(self) -> Span:
        """Seconds with failures: as uncertain as the step is; infinite where nothing is left."""
        progress = self.progress
        times = self.steps / np.where(np.asarray(progress) > 0, progress, math.nan)
        times = np.where(np.isnan(times), math.inf, times)
        return self.estimate.span.times(times).shaped(np.shape(self.estimate.time))

    @property
    def ideal_seconds(self) -> Count:
        """Seconds without failures."""
        return self.steps * self.estimate.time

    @property
    def seconds(self) -> Count:
        """Expected seconds."""
        return self.span.expected

    @property
    def interval(self) -> tuple[Count, Count]:
        """Where 80 % of runs fall, as the step does."""
        return self.span.interval

    @property
    def chip_hours(self) -> Count:
        """Chips times hours."""
        return self.estimate.chips * self.seconds / 3600

    @property
    def cost(self) -> Count | None:
        """USD at the catalog's price, None where it has none."""
        price = self.estimate.deployment.chip.price
        return None if price is None else self.chip_hours * price.usd_per_hour

    @property
    def energy(self) -> Count | None:
        """Joules of the chips, at idle power in the bubbles and full power else; None where power is not known."""
        chip = self.estimate.deployment.chip
        if chip.tdp is None:
            return None
        idle = chip.idle if chip.idle is not None else IDLE_SHARE * chip.tdp
        waiting = self.estimate.bubble * self.estimate.passes.expected / self.estimate.time
        return self.estimate.chips * self.seconds * (chip.tdp * (1 - waiting) + idle * waiting)


def run(
    estimate: TrainingEstimate, tokens: Count, mtbf_hours: float = MTBF_HOURS, save_seconds: float = SAVE_SECONDS,
    restart_seconds: float = RESTART_SECONDS,
) -> Run:  # fmt: skip
    """What learning from `tokens` tokens takes, step after step.

    `mtbf_hours`: mean hours between failures of one chip. `save_seconds`: that a checkpoint holds the run up;
    `restart_seconds`: from a failure until it goes on. Raises InputError for what is not positive.
    """
    for field, value in (("tokens", tokens), ("mtbf_hours", mtbf_hours)):
        numbers(field, value, 0.0, math.inf, "a positive number", above=True)
    for field, value in (("save_seconds", save_seconds), ("restart_seconds", restart_seconds)):
        numbers(field, value, 0.0, math.inf, "seconds, zero or more")
    return Run(estimate, tokens, float(mtbf_hours), float(save_seconds), float(restart_seconds))
