"""Batch ramp-up: the steps of a run whose batch grows from a small one to its own.

As Megatron-LM's --rampup-batch-size START INCREMENT SAMPLES (core/num_microbatches_calculator.py,
`RampupBatchsizeNumMicroBatchesCalculator`): the batch rises by INCREMENT sequences at a time from START, each
time after an equal share of SAMPLES sequences is consumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.numbers.maths import Count, ceil_div, is_array
from roofline.declared.result import Figured, Units
from roofline.layout.layout import Layout
from roofline.training.estimate import TrainingEstimate
from roofline.training.layouts.validation import check
from roofline.training.memory.memo import Shared
from roofline.training.steps import estimated
from roofline.work.training import with_batch

RAMP = "START,INCREMENT,SAMPLES as Megatron-LM's --rampup-batch-size, such as 192,16,9765625"


@dataclass(frozen=True)
class RampedBatch(Figured):
    """`steps` steps of `batch` sequences, `step_s` seconds each."""

    FIGURES: ClassVar[Units] = {"batch": "", "steps": "", "step_s": "s"}

    batch: int
    steps: int
    step_s: float


def ramp_steps(batch: int, start: int, increment: int, samples: int) -> tuple[tuple[int, int], ...]:
    """Each smaller batch with its number of steps.

    Raises InputError where the increments do not lead from `start` to `batch`.

    >>> ramp_steps(64, 16, 16, 300)  # 100 sequences at each of three batches
    ((16, 7), (32, 3), (48, 2))
    """
    if start > batch or (batch - start) % increment:
        raise InputError("rampup_batch_size", start, f"a start at most the batch of {batch}, a multiple of {increment} "
                         "below it")  # fmt: skip
    growths = (batch - start) // increment
    rows, consumed = [], 0
    for k in range(growths):
        size = start + k * increment
        number = max(0, ceil_div(ceil_div(samples * (k + 1), growths) - consumed, size))
        rows.append((size, number))
        consumed += number * size
    return tuple((size, number) for size, number in rows if number)


def ramp_of(e: TrainingEstimate, ramp: Given) -> tuple[RampedBatch, ...]:
    """The smaller batches of a run, each with the seconds of its step under the estimate's own layout.

    Raises InputError for what is no ramp, for arrays of layouts, and for a batch that replicas cannot divide.
    """
    if ramp is None:
        return ()
    if e.shape:
        raise InputError("rampup_batch_size", ramp, "one batch and one layout: each has its own steps")
    rows = ramp_steps(int(e.batch), *_numbers(ramp))
    if not rows:
        return ()
    sizes = np.array([size for size, _ in rows])
    layout: Layout = e.asked.layout
    group = int(layout.dp * e.micro_batch)
    for size in sizes:
        if size % group:
            raise InputError("rampup_batch_size", int(size), f"batches that are multiples of dp · micro_batch, {group}")
    step = with_batch(e.step, sizes)
    smaller = estimated(e.asked, step, check(e.asked.model, step, layout), Shared())
    seconds = np.broadcast_to(np.asarray(smaller.time, float), sizes.shape)
    return tuple(RampedBatch(size, n, float(s)) for (size, n), s in zip(rows, seconds, strict=True))


def _numbers(ramp: Given) -> tuple[int, int, int]:
    words = ramp.replace(" ", ",").split(",") if isinstance(ramp, str) else ramp
    if not isinstance(words, (list, tuple)) or len(words) != 3 or not all(str(w).isdigit() for w in words):
        raise InputError("rampup_batch_size", ramp, RAMP)
    start, increment, samples = (int(str(w)) for w in words)
    if not (start and increment and samples):
        raise InputError("rampup_batch_size", ramp, RAMP)
    return start, increment, samples


def within(ramp: tuple[RampedBatch, ...], tokens: Count, e: TrainingEstimate) -> tuple[RampedBatch, ...]:
    """The part of a ramp that a run of so many tokens reaches. Raises InputError for an array of tokens."""
    if ramp and is_array(tokens):
        raise InputError("rampup_batch_size", ramp[0].batch, "one number of tokens: each has its own steps")
    rows: list[RampedBatch] = []
    left = int(tokens) if ramp else 0
    for x in ramp:
        each = x.batch * int(e.tokens_each)
        number = min(x.steps, ceil_div(left, each)) if left > 0 else 0
        rows.append(replace(x, steps=number))
        left -= number * each
    return tuple(x for x in rows if x.steps)
