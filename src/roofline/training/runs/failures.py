"""Published failure rates of large clusters, and the share of a checkpointed run's time that is useful work.

Each record gives how many failures stopped jobs on how many chips in how many days. Chip hours over failures is the
mean time between failures of one chip; a run on n chips fails n times as often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from roofline.declared.errors import not_one_of
from roofline.declared.numbers.maths import Count, is_array, root


@dataclass(frozen=True)
class FailureRecord:
    """Failures counted on `chips` chips over `days` days; `components`: failures by the component that caused them.

    >>> round(RECORDS["llama-3"].mtbf_hours)
    50677
    """

    name: str
    what: str
    chips: int
    days: float
    failures: float
    source: str
    components: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def mtbf_hours(self) -> float:
        """Mean hours between failures of one chip."""
        return 24 * self.days * self.chips / self.failures


LLAMA = MappingProxyType({
    "GPU": 148, "GPU memory (HBM3)": 72, "software": 54, "network switch or cable": 35, "host maintenance": 32,
    "GPU SRAM": 19, "GPU system processor": 17, "NIC": 7, "NCCL watchdog": 7, "silent data corruption": 6,
    "GPU thermal interface or sensor": 6, "SSD": 3, "power supply": 3, "server chassis": 2, "I/O expansion board": 2,
    "dependency": 2, "CPU": 2, "system memory": 2,
})  # fmt: skip
"""Unexpected interruptions by root cause (arXiv:2407.21783, table 5): 419 of 466; the 47 others were planned."""

RECORDS: Mapping[str, FailureRecord] = MappingProxyType({
    r.name: r
    for r in (
        FailureRecord(
            "llama-3", "419 unexpected of 466 interruptions in 54 days of 16,384 H100", 16_384, 54, 419,
            "Llama 3, arXiv:2407.21783 §3.3.4, table 5", LLAMA,
        ),
        FailureRecord(
            "rsc-1", "6.50 failures in 1,000 days of a node of 8 A100", 8, 1000, 6.50,
            "RSC-1, arXiv:2410.21680",
        ),
        FailureRecord(
            "rsc-2", "2.34 failures in 1,000 days of a node of 8 A100", 8, 1000, 2.34,
            "RSC-2, arXiv:2410.21680",
        ),
        FailureRecord(
            "opt", "35 manual and about 70 automatic restarts in two months of 992 A100", 992, 60, 105,
            "OPT-175B, arXiv:2205.01068 §2.5",
        ),
        FailureRecord(
            "bloom", "1 to 2 failures of a GPU a week of 384 A100", 384, 7, 1.5, "BLOOM, arXiv:2211.05100 §3.4.1",
        ),
    )
})  # fmt: skip
"""Published counts of failures, by name."""


def record_named(name: str) -> FailureRecord:
    """The record of that name, or an InputError with the nearest."""
    if name not in RECORDS:
        raise not_one_of("failures", name, RECORDS)
    return RECORDS[name]


def best_interval(save: Count, apart: Count) -> Count:
    """Seconds of work between two checkpoints that minimise lost time: √(2·δ·M) (Young 1974, CACM 17(9)).

    >>> best_interval(50.0, 10_000.0)
    1000.0
    """
    return root(2 * save * apart)


def kept_share(interval: Count, save: Count, restart: Count, apart: Count) -> Count:
    """Share of the time that is useful work, with a checkpoint of `save` seconds δ after every `interval` seconds τ of
    work.

    Failures are random with a mean of `apart` seconds M between them, and also strike during checkpoints and restarts.
    Each loses the work since the last checkpoint and `restart` seconds R: τ / (M · e^{R/M} · (e^{(τ+δ)/M} − 1)) (Daly
    2006, FGCS 22(3), eq. 13). The share is 0 where e^{…} overflows a float. To first order it is 1 − δ/τ − τ/2M − R/M.

    >>> round(kept_share(1000.0, 50.0, 0.0, 1e9), 5)
    0.95238
    >>> kept_share(0.0, 0.0, 0.0, 1e9)
    1.0
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        segment = np.expm1(np.asarray((interval + save) / apart, dtype=float))
        share = np.asarray(interval / apart) * np.exp(-np.asarray(restart / apart, dtype=float)) / segment
    at_once = np.exp(-np.asarray(restart / apart, dtype=float))  # no checkpoint or interval: no work is repeated
    share = np.where(segment > 0, share, at_once)
    return share if is_array(interval + save + restart + apart) else float(share)


def share_short(spares: int, away: Count, apart: Count) -> Count:
    """Share of the time that a run is short of a node, with `spares` spare nodes.

    A failure every `apart` seconds takes a node away for `away` seconds on average. A spare takes its place; once all
    spares are away too, the run waits until a node is back, and nothing fails meanwhile. So spares + 1 nodes at most
    are away, and the share is Erlang's loss formula, which holds for repairs of any distribution (Kleinrock, Queueing
    Systems, vol. 1, §3.6): a^c/c! over Σ aᵏ/k! for k ≤ c, with c = spares + 1 and a = away / apart.

    >>> share_short(0, 3600.0, 3600.0), share_short(1, 3600.0, 3600.0)
    (0.5, 0.2)
    """
    load: Count = away / apart
    share: Count = 1.0
    for c in range(1, spares + 2):
        share = load * share / (c + load * share)
    return share
