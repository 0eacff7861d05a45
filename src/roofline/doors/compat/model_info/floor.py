"""Least memory traffic of a step, and how far and why the rules fall below it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.doors.compat.model_info.account import Account, account
from roofline.doors.compat.model_info.conventions import widths
from roofline.doors.compat.model_info.rules import ReportPhase
from roofline.layout.layout import Layout
from roofline.layout.shard import shard
from roofline.model.model import Model
from roofline.work.analysis import analyze
from roofline.work.step import Step, decode, prefill


def rank_layout(ep: int) -> Layout:
    """Data-parallel attention with expert parallelism: every rank keeps its own tokens and a share of the experts."""
    return Layout(dp=ep, ep=ep)


def rank_of(model: Model, ep: int) -> Model:
    """The part of the model on one rank. Raises InputError if the experts do not divide."""
    return model if ep == 1 else shard(model, rank_layout(ep))


def rank_step(phase: ReportPhase, batch: int, length: int) -> Step:
    """A rank's inference step; a training step moves at least as much as its prefill."""
    return decode(batch, length) if phase == "decode" else prefill(batch, length)


@dataclass(frozen=True)
class Beyond:
    """An account below the least memory traffic: bytes counted, bytes required, and their ratio.

    `residency`: bytes removed by dividing weights; `poisson`: further bytes removed by the Poisson draw of experts.
    """

    phase: ReportPhase
    bytes: float
    floor: float
    residency: float
    poisson: float

    @property
    def share(self) -> float:
        """Bytes counted over bytes required."""
        return self.bytes / self.floor

    @property
    def rest(self) -> float:
        """Missing bytes that neither cause explains."""
        return max(0.0, self.floor - self.bytes - self.residency - self.poisson)


def beyond_floor(model: Model, a: Account, *, batch: int, length: int, ep: int = 1) -> Beyond | None:
    """Compare an account with one pass over the weights and the cache in its own widths; None if it is not below.

    The same rank of `ep` ranks. Raises InputError if the experts do not divide over the ranks.
    """
    step = rank_step(a.phase, batch, length)
    floor = float(analyze(rank_of(model, ep), step, traffic="floor", precision=widths(a.rules)).bytes)
    if a.bytes >= floor:
        return None
    whole = replace(a.rules, residency=(1.0, 1.0, 1.0))
    once, exact = (
        account(model, a.phase, r, batch=batch, length=length, ep=ep, on=a.on).bytes
        for r in (whole, replace(whole, poisson=False))
    )
    return Beyond(a.phase, a.bytes, floor, once - a.bytes, exact - once)
