"""Checkpoints of a training run: their bytes, the seconds that one holds the run up, and until one is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.maths import Count
from roofline.declared.result import Figured, Units
from roofline.estimates.training_estimate import TrainingEstimate
from roofline.estimates.training_host import HOST_SHARE
from roofline.estimates.training_memory import trained
from roofline.estimates.training_working import stored

SAVE_SECONDS = 10.0
"""Seconds that a checkpoint holds the run up where nothing says more: an assumption, of one that is copied to the
hosts' memory in seconds and written from there beside the run (MegaScale, arXiv:2402.15627 §4.4)."""


@dataclass(frozen=True)
class Saving(Figured):
    """One checkpoint: `size` bytes in storage, `blocking` seconds of the run, `writing` seconds until it is there.

    `writing` is beside the run: what is done meanwhile is lost too where the run fails before.
    """

    FIGURES: ClassVar[Units] = {"size": "B", "rank_size": "B", "blocking": "s", "writing": "s", "how": ""}

    size: Count
    rank_size: Count
    blocking: Count
    writing: Count
    how: str


def checkpoint_bytes(e: TrainingEstimate) -> Count:
    """Bytes of the weights and the optimizer's state of the whole model, each parameter once.

    Whoever writes: with ZeRO every rank its share, without it one of the ranks that hold the same.
    """
    layout = e.asked.layout
    weights: Count = sum(p.bytes(fmt, layout, False) for fmt, p in stored(e.model.modules(), e.step).items())
    return weights + trained(e.model).bytes(e.step.precision.optimizer, layout, False)


def rank_bytes(e: TrainingEstimate) -> Count:
    """Bytes of them on the fullest rank: weights and its share of the optimizer's state, by the stage of ZeRO."""
    return e.fullest.weights + e.fullest.optimizer


def saving(
    e: TrainingEstimate, seconds: float | None = None, storage: float | None = None, asynchronous: bool = False
) -> Saving:
    """A checkpoint of a training run.

    `seconds`: that it holds the run up, as given. `storage`: bytes/s of the storage, all ranks together: it is then
    written while the run waits, size / storage; `asynchronous`: the run waits only until every rank has copied what it
    holds over its link to the host's memory, and it is written beside the run.
    Raises InputError for both of seconds and storage, and where the link to the host is not known.
    """
    size, of_rank = checkpoint_bytes(e), rank_bytes(e)
    if seconds is not None and storage is not None:
        raise InputError("save_seconds", seconds, "save_seconds or storage, not both")
    if asynchronous and storage is None:
        raise InputError("asynchronous", True, "storage beside it, its bytes/s")
    if storage is None:
        assumed = f"{SAVE_SECONDS:g} s each, as where they are copied to the hosts' memory and written beside the run"
        how = assumed if seconds is None else f"{seconds:g} s each, as given"
        return Saving(size, of_rank, SAVE_SECONDS if seconds is None else seconds, 0.0, how)
    written = size / storage
    if not asynchronous:
        return Saving(size, of_rank, written, 0.0, "blocking: written while the run waits")
    if e.chip.host is None:
        raise InputError("asynchronous", True, f"a chip whose link to the host is known, unlike {e.chip.id}")
    copied = of_rank / (e.chip.host * HOST_SHARE)
    return Saving(size, of_rank, copied, written, "asynchronous: copied to the hosts' memory, written beside the run")
