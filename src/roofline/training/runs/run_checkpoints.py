"""Checkpoints of a training run: their bytes, the seconds for which they block the run, and the seconds to write
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count
from roofline.declared.result import Figured, Units
from roofline.training.estimate import TrainingEstimate
from roofline.training.host import HOST_SHARE
from roofline.training.memory.matrices import state_bytes
from roofline.training.memory.workspace import stored

SAVE_SECONDS = 10.0
"""Seconds for which a checkpoint blocks the run by default: an assumption, for one that is copied to host memory in
seconds and written from there while the run goes on (MegaScale, arXiv:2402.15627 §4.4)."""


@dataclass(frozen=True)
class Saving(Figured):
    """One checkpoint: `size` bytes in storage, `blocking` seconds of the run, `writing` seconds until it is complete.

    `writing` overlaps with training: a failure before it is complete also loses the work done meanwhile.
    """

    FIGURES: ClassVar[Units] = {"size": "B", "rank_size": "B", "blocking": "s", "writing": "s", "how": ""}

    size: Count
    rank_size: Count
    blocking: Count
    writing: Count
    how: str


def checkpoint_bytes(e: TrainingEstimate) -> Count:
    """Bytes of the weights and the optimizer state of the whole model, each parameter once.

    With ZeRO every rank writes its share; without it one of the ranks with equal copies writes.
    """
    layout = e.asked.layout
    weights: Count = sum(p.bytes(fmt, layout, False) for fmt, p in stored(e.model.modules(), e.step).items())
    return weights + state_bytes(e.model.modules(), e.step, layout, False)


def rank_bytes(e: TrainingEstimate) -> Count:
    """Bytes of a checkpoint on the fullest rank: weights and its share of the optimizer state, by the ZeRO stage."""
    return e.fullest.weights + e.fullest.optimizer


def saving(
    e: TrainingEstimate, seconds: float | None = None, storage: float | None = None, asynchronous: bool = False
) -> Saving:
    """A checkpoint of a training run.

    `seconds`: seconds for which it blocks the run, as given. `storage`: bytes/s of the storage over all ranks; the run
    then waits for size / storage seconds. With `asynchronous` the run waits only until every rank has copied its part
    over the host link, and the checkpoint is written in the background. Raises InputError for both `seconds` and
    `storage`, and where the bandwidth of the host link is not known.
    """
    size, of_rank = checkpoint_bytes(e), rank_bytes(e)
    if seconds is not None and storage is not None:
        raise InputError("save_seconds", seconds, "save_seconds or storage, not both")
    if asynchronous and storage is None:
        raise InputError("asynchronous", True, "storage as well, its bytes/s")
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
