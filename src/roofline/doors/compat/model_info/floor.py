"""What memory must carry in a step at least, and how far rules fall below it, and why."""

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
    """Attention data parallelism beside experts: every rank keeps its own tokens, and a share of the experts."""
    return Layout(dp=ep, ep=ep)


def rank_of(model: Model, ep: int) -> Model:
    """What one rank holds. Raises InputError where the experts do not divide."""
    return model if ep == 1 else shard(model, rank_layout(ep))


def rank_step(phase: ReportPhase, batch: int, length: int) -> Step:
    """A rank's step of inference; training moves no less than its prefill."""
    return decode(batch, length) if phase == "decode" else prefill(batch, length)


@dataclass(frozen=True)
class Beyond:
    """Where an account is below what memory must carry: bytes it says, bytes at least, and their ratio.

    `residency`: bytes that dividing weights takes off; `poisson`: those that drawing experts by Poisson then does.
    """

    phase: ReportPhase
    bytes: float
    floor: float
    residency: float
    poisson: float

    @property
    def share(self) -> float:
        """Bytes it says over those that must move."""
        return self.bytes / self.floor

    @property
    def rest(self) -> float:
        """Bytes it stays below without either."""
        return max(0.0, self.floor - self.bytes - self.residency - self.poisson)


def beyond_floor(model: Model, a: Account, *, batch: int, length: int, ep: int = 1) -> Beyond | None:
    """Each weight touched once, the cache once, in the account's own widths; None where it is not below.

    Of the same rank of `ep`. Raises InputError where the experts do not divide over the ranks.
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
