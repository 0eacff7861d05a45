"""A whole training run: days, failures, checkpoints, stalls, evaluation, cost, energy and carbon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.kinds import AboveZero, FromZero, PackText, Switch, Text, TokensOfRun, Whole, WholeOrNone
from roofline.declared.numbers.maths import Count, ceil_div, most
from roofline.declared.question import group, question
from roofline.declared.result import Result, Units
from roofline.inference.cost.bill import BY_ENERGY, Bill, MeanPower
from roofline.inference.cost.cost import Cost, Tariff, tariff
from roofline.inference.deployment import node_size
from roofline.inference.span import Span
from roofline.training.estimate import TrainingEstimate
from roofline.training.runs.failures import FailureRecord, best_interval, kept_share, record_named, share_short
from roofline.training.runs.ramp import RampedBatch, ramp_of, within
from roofline.training.runs.run_checkpoints import Saving, saving

RESTART_SECONDS = 600.0
"""Seconds from a failure until training resumes: an assumption (MegaScale, arXiv:2402.15627 §4.4: faults are found and
repaired within ten minutes)."""


USUAL_FAILURES = "llama-3"


@group
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a whole run, with their defaults. Raises InputError for settings out of range."""

    failures: Annotated[
        Text | None, "A published record of failures: `llama-3` (the default), `rsc-1`, `rsc-2`, `opt`, `bloom`."
    ] = None
    mtbf_hours: Annotated[AboveZero | None, "Instead: mean hours between failures of one chip."] = None
    save_seconds: Annotated[
        FromZero | None,
        "That a checkpoint holds the run up (10: copied to the hosts' memory, and written from there beside the run).",
    ] = None
    storage: Annotated[
        AboveZero | None,
        "Instead: bytes/s of the storage, all ranks together (2e12); the run waits while a checkpoint is written.",
    ] = None
    asynchronous: Annotated[Switch, "With `storage`: it waits only for the copy to the hosts' memory."] = False
    save_every: Annotated[
        AboveZero | None, "Seconds of work between checkpoints (default: the interval that loses least)."
    ] = None
    restart_seconds: Annotated[FromZero, "From a failure until the run goes on."] = RESTART_SECONDS
    spare_nodes: Annotated[
        WholeOrNone | None,
        "Nodes that stand ready to replace failed ones, paid for as the others, with `repair_hours` (default: one is "
        "always ready and is not counted).",
    ] = None
    repair_hours: Annotated[
        FromZero | None,
        "That a failed node is away, the mean over all failures, with `spare_nodes`: the run waits where none is left.",
    ] = None
    stall_seconds: Annotated[FromZero, "That a step waits for its data."] = 0.0
    evaluation_tokens: Annotated[FromZero, "Tokens of an evaluation, with `evaluation_every`."] = 0.0
    evaluation_every: Annotated[Whole | None, "Steps from one evaluation to the next."] = None
    dataset_tokens: Annotated[AboveZero | None, "Tokens of one epoch."] = None
    rampup_batch_size: Annotated[
        PackText | None,
        "Start, increment and samples of a batch that grows to its size, as Megatron-LM's: `192,16,9765625`.",
    ] = None

    def __post_init__(self) -> None:
        if self.failures is not None and self.mtbf_hours is not None:
            raise InputError("failures", self.failures, "failures or mtbf_hours, not both")
        if (self.evaluation_every is None) != (self.evaluation_tokens == 0):
            expected = "evaluation_tokens as well, and the other way round"
            raise InputError("evaluation_every", self.evaluation_every, expected)
        if (self.spare_nodes is None) != (self.repair_hours is None):
            raise InputError("spare_nodes", self.spare_nodes, "repair_hours as well, and the other way round")


@dataclass(frozen=True, repr=False)
class Run(Result):
    """A whole run of `tokens` tokens: numbers, or arrays as the estimate has them.

    Its time is that of steps, waiting for data and evaluations, divided by the share of the time that is useful work.
    With failures every M = mtbf / chips seconds, checkpoints that take δ every τ = √(2·δ·M), and R to restart and to
    finish writing a checkpoint, that share is τ / (M·e^{R/M}·(e^{(τ+δ)/M} − 1)) (Young 1974, Daly 2006). It is that of
    the time in which there are nodes enough: with `spare_nodes` the run waits in the rest (`short`).
    """

    SCHEMA: ClassVar[str] = "roofline.run/4"
    FIGURES: ClassVar[Units] = {
        "run_tokens": "", "steps": "", "ramp": "", "epochs": "", "time": "s", "chip_hours": "", "cost": "USD",
        "energy": "J", "carbon": "", "failures_apart": "s", "failures": "", "failures_by": "",
        "checkpoint_interval": "s", "saving": "", "short": "share", "progress": "share", "parts": "s",
        "tariff": "", "assumptions": "",
    }  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {"run_tokens": "tokens", "time": "span"}

    estimate: TrainingEstimate
    tokens: Count
    options: RunOptions
    record: FailureRecord | None
    saving: Saving
    tariff: Tariff
    ramp: tuple[RampedBatch, ...] = ()

    # -- how much --------------------------------------------------------------------------------------------------
    @property
    def steps(self) -> Count:
        """Optimizer steps: of a batch that grows, and of the whole batch."""
        return self._ramped + self._whole

    @property
    def _ramped(self) -> int:
        return sum(x.steps for x in self.ramp)

    @property
    def _whole(self) -> Count:
        """Steps of the whole batch."""
        consumed = sum(x.steps * x.batch for x in self.ramp) * self.estimate.tokens_each
        return ceil_div(most(self.tokens - consumed, 0), self.estimate.tokens)

    @property
    def epochs(self) -> Count | None:
        """Passes through the data; None where its size is not given."""
        known = self.options.dataset_tokens
        return None if known is None else self.tokens / known

    # -- failures --------------------------------------------------------------------------------------------------
    @property
    def mtbf_hours(self) -> float:
        """Mean hours between failures of one chip."""
        given = self.options.mtbf_hours
        if given is not None:
            return given
        assert self.record is not None
        return self.record.mtbf_hours

    @property
    def failures_apart(self) -> Count:
        """Mean seconds between failures of any chip."""
        return 3600 * self.mtbf_hours / self.estimate.chips

    @property
    def checkpoint_interval(self) -> Count:
        """Seconds of work between checkpoints: as given, else the optimum, but at least the time to write one."""
        given = self.options.save_every
        return given if given is not None else most(best_interval(self.saving.blocking, self.failures_apart),
                                                    self.saving.writing)  # fmt: skip

    @property
    def lasting(self) -> Count:
        """Share of the time without checkpoints, restarts, repeated work and waiting for nodes; 0 where the run makes
        no progress."""
        again = self.options.restart_seconds + self.saving.writing
        kept = kept_share(self.checkpoint_interval, self.saving.blocking, again, self.failures_apart)
        return (1 - self.short) * kept

    @property
    def short(self) -> Count:
        """Share of the time that the run waits for a node to be repaired; 0 where spare nodes are not said."""
        o = self.options
        if o.spare_nodes is None or o.repair_hours is None:
            return 0.0
        return share_short(o.spare_nodes, 3600 * o.repair_hours, self.failures_apart)

    @property
    def chips(self) -> Count:
        """Chips of the step and of the spare nodes."""
        e = self.estimate
        return e.chips + (self.options.spare_nodes or 0) * node_size(e.deployment.cluster)

    @property
    def failures(self) -> Count:
        """Expected failures in the whole run."""
        return (1 - self.short) * self.seconds / self.failures_apart

    @property
    def failures_by(self) -> Mapping[str, Count]:
        """Expected failures by cause, in the shares of the record; empty where the record gives no causes."""
        if self.record is None or not self.record.components:
            return {}
        total = sum(self.record.components.values())
        return {name: self.failures * number / total for name, number in self.record.components.items()}

    # -- time ------------------------------------------------------------------------------------------------------
    @property
    def evaluations(self) -> Count:
        """Number of evaluations."""
        every = self.options.evaluation_every
        return 0 if every is None else self.steps // every

    @property
    def working(self) -> Count:
        """Seconds without failures and checkpoints: steps, waiting for data, evaluations."""
        stalls = self.steps * self.options.stall_seconds
        return self.ideal_seconds + stalls + self._evaluating

    @property
    def _evaluating(self) -> Count:
        if self.options.evaluation_every is None:
            return 0.0
        batches = self.options.evaluation_tokens / self.estimate.tokens
        return self.evaluations * batches * forward_seconds(self.estimate)

    @property
    def progress(self) -> Count:
        """Goodput: share of the time that is steps which are not lost; 0 where the run makes no progress."""
        return self.lasting * self.ideal_seconds / self.working

    @property
    def span(self) -> Span:
        """Seconds of the run, with the step's relative uncertainty; infinite where the run makes no progress."""
        progress = self.progress
        times = (self.ideal_seconds / self.estimate.time) / np.where(np.asarray(progress) > 0, progress, math.nan)
        times = np.where(np.isnan(times), math.inf, times)
        return self.estimate.span.times(times).shaped(np.shape(self.estimate.time))

    @property
    def ideal_seconds(self) -> Count:
        """Seconds of the steps alone."""
        return self._whole * self.estimate.time + sum(x.steps * x.step_s for x in self.ramp)

    @property
    def seconds(self) -> Count:
        """Expected seconds of the run."""
        return self.span.expected

    @property
    def interval(self) -> tuple[Count, Count]:
        """Interval, in seconds, that holds 80 % of runs, from the step's own interval."""
        return self.span.interval

    @property
    def parts(self) -> Mapping[str, Count]:
        """Seconds by use: steps, data, evaluation, checkpoints, repairs (waiting for a node), failures (restarts and
        repeated work)."""
        saved = self.working * self.saving.blocking / most(self.checkpoint_interval, 1e-9)
        short = self.short * self.seconds
        return {
            "steps": self.ideal_seconds, "data": self.steps * self.options.stall_seconds,
            "evaluation": self._evaluating, "checkpoints": saved, "repairs": short,
            "failures": self.seconds - self.working - saved - short,
        }  # fmt: skip

    # -- money and energy ------------------------------------------------------------------------------------------
    @property
    def bill(self) -> Cost:
        """Cost of the chips, spare ones included: busy in steps, evaluations and repeated work, idle the rest of the
        time."""
        e, parts = self.estimate, self.parts
        again = most(0.0, parts["failures"] - self.failures * self.options.restart_seconds)
        working = self.ideal_seconds + self._evaluating + again
        at_work = (1 - e.bubble * e.passes.expected / e.time) * (1 - self.short) * e.chips / self.chips
        return Cost(self.chips, self.seconds, self.tariff, 1 - at_work, e.busy.times(working / e.time))

    @property
    def chip_hours(self) -> Count:
        """Chips times hours."""
        return self.bill.chip_hours

    @property
    def cost(self) -> Count | None:
        """USD at the given price, else the catalog's; None where there is none."""
        return self.bill.usd

    @property
    def energy(self) -> Count | None:
        """Joules, of the whole site where a PUE is given; None where power is not known."""
        return self.bill.joules

    @property
    def carbon(self) -> Count | None:
        """Kilograms of CO₂ equivalent, where a grid is given."""
        return self.bill.carbon

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions behind the figures, each with the setting that changes it."""
        o, t = self.options, self.tariff
        failing = f"one of a chip every {self.mtbf_hours:,.0f} h"
        source = "as given" if self.record is None else f"{self.record.what} ({self.record.source})"
        said = [
            f"failures: {failing}: {source} [failures, mtbf_hours]",
            f"checkpoints: {self.saving.how} [save_seconds, storage, asynchronous, save_every]",
            f"restart: {o.restart_seconds:g} s after a failure [restart_seconds]",
            "spare nodes: one is always ready, and not paid for [spare_nodes, repair_hours]"
            if o.repair_hours is None
            else f"spare nodes: {o.spare_nodes}; a failed node is away for {o.repair_hours:g} h "
            "[spare_nodes, repair_hours]",
            f"data: a step waits {o.stall_seconds:g} s for it [stall_seconds]",
        ]
        every = o.evaluation_every
        said.append(
            "evaluation: none [evaluation_tokens, evaluation_every]" if every is None
            else f"evaluation: forward passes of {o.evaluation_tokens:,.0f} tokens every {every:,} steps "
            "[evaluation_tokens, evaluation_every]"
        )  # fmt: skip
        if self.ramp:
            said.append(f"batch: {self._ramped:,} steps of less than {self.estimate.batch:,} [rampup_batch_size]")
        return (*said, *t.assumptions)


def forward_seconds(e: TrainingEstimate) -> Count:
    """Seconds of a step's forward passes alone, including the weights that ZeRO-3 gathers for them.

    m equal micro-batches through stages one after another: Σ Fᵢ + Σ sends + (m − 1)·max Fᵢ.
    """
    forwards = [stage.passes.forward.expected for stage in e.stages]
    sends: Count = sum(stage.passes.send.expected for stage in e.stages[:-1])
    gathered = e.gathering.expected if e.asked.layout.zero == 3 else 0.0
    return sum(forwards) + sends + (e.micro_batches - 1) * reduce(most, forwards) + gathered


@question(former={"tokens": "run_tokens"})
def run(
    estimate: TrainingEstimate,
    run_tokens: Annotated[TokensOfRun, "Tokens of the whole run, for its days, cost and energy: 15T, 400G or 15e12."],
    how: RunOptions = RunOptions(),
    *,
    bill: Bill | None = None,
    drawn: MeanPower = BY_ENERGY,
) -> Run:
    """A whole training run of `run_tokens` tokens. `bill`: the step's own where None.

    Raises InputError for values that are not positive, unknown options, options that exclude each other, and a
    ramp that does not lead to the batch or that replicas cannot divide.
    """
    known = estimate.asked.bill if bill is None else bill.over(estimate.asked.bill)
    billed = tariff(estimate.deployment.chip, drawn.billed(known) or known)
    record = None if how.mtbf_hours is not None else record_named(how.failures or USUAL_FAILURES)
    saved = saving(estimate, how.save_seconds, how.storage, how.asynchronous)
    steps = ramp_of(estimate, how.rampup_batch_size)
    ramp = within(steps, float(run_tokens), estimate) if steps else ()
    return Run(estimate, run_tokens, how, record, saved, billed, ramp)
