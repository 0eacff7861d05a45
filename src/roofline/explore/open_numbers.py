"""The numbers that can be looked for: over which values, how a question is asked at one, and whether most or least."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from roofline.declared.checks import RAREST
from roofline.declared.errors import InputError
from roofline.explore.open_question import ALL_SIZES, LARGEST_BATCH, LONGEST_UNLIMITED, OpenQuestion
from roofline.frozen import frozen

WIDER, NARROWER = 2.0**12, 2.0**-12
"""How far from the chip's own figures others are looked at."""
LONGEST_ANSWER = 2**18
"""Tokens of an answer that are looked at: each of them is a step."""
SLOWEST = 2.0**-10
"""The lowest rate that is looked at, of what the server takes."""


@dataclass(frozen=True)
class OpenNumber:
    """A number of a question. `low` and `high`: what is looked at; `at`: the question with another number.

    `whole`: of whole numbers, of which arrays are asked at once. `ends`: why there is no more than `high`, nothing
    where that is only as far as is looked. `step`: whole numbers are multiples of it. `tolerance`: of real ones.
    """

    name: str
    unit: str
    low: float
    high: float
    at: Callable[[Any], OpenQuestion]
    whole: bool = False
    ends: str = ""
    step: int = 1
    tolerance: float = 1e-9


WORK = ALL_SIZES
"""Numbers of the work, of which the greatest is looked for where limits are upper ones."""
HARDWARE = ("bandwidth", "peak", "memory", "link")
"""Figures of a chip like the one given, of which the least is looked for."""


def number_named(name: str, q: OpenQuestion) -> OpenNumber:
    """The number of that name, of a question. Raises InputError where the question has none."""
    return _of_work(name, q) if name in WORK else _of_chip(name, q)


def _of_work(name: str, q: OpenQuestion) -> OpenNumber:
    longest = LONGEST_UNLIMITED if q.model.context is None else q.model.context
    model = "" if q.model.context is None else "the context of the model"
    match name:
        case "batch" if q.subject == "train":
            each = int(q.asked.layout.dp) * int(q.others.get("micro_batch") or 1)
            return OpenNumber(name, "sequences", 1, LARGEST_BATCH, lambda n: q.sized(batch=n * each), True, step=each)
        case "batch":
            return OpenNumber(name, "sequences", 1, LARGEST_BATCH, lambda n: q.sized(batch=n), True)
        case "concurrency":
            return OpenNumber(name, "requests", 1, LARGEST_BATCH, lambda n: q.sized(concurrency=n), True)
        case "rate":
            most = float(q.sized(rate=1.0).server.fastest)
            ends = "what the server takes"
            return OpenNumber(
                name, "requests/s", max(most * SLOWEST, RAREST), most * (1 - 1e-6), lambda r: q.sized(rate=r),
                ends=ends, tolerance=1e-4,
            )  # fmt: skip
        case "context":
            return OpenNumber(name, "tokens", 1, longest - 1, lambda n: q.sized(context=n), True, model)
        case "tokens":
            each = int(q.asked.layout.cp) * 2 if int(q.asked.layout.cp) > 1 else 1
            return OpenNumber(name, "tokens", 1, longest // each, lambda n: q.sized(tokens=n * each), True, model, each)
        case "input":
            last = longest - q.numbers.get("output_tokens", 1) + 1
            return OpenNumber(name, "tokens", 1, max(1, last), lambda n: q.sized(input=n), True, model)
        case _:
            last = longest - q.numbers["input"] + 1
            ends = model if last <= LONGEST_ANSWER else ""
            return OpenNumber(
                "output", "tokens", 1, max(1, min(last, LONGEST_ANSWER)), lambda n: q.sized(output_tokens=n), True, ends
            )


def _of_chip(name: str, q: OpenQuestion) -> OpenNumber:
    chip, cluster = q.asked.deployment.chip, q.asked.deployment.cluster

    def peaked(value: float) -> OpenQuestion:
        factor = value / chip.peak(chip.main_format)
        return q.on(replace(chip, peaks=frozen({f: factor * v for f, v in chip.peaks.items()})))

    def linked(value: float) -> OpenQuestion:
        first, *others = cluster.levels
        return q.joined(replace(cluster, levels=(replace(first, bandwidth=value), *others)))

    def held_by(value: float) -> OpenQuestion:
        return q.on(replace(chip, capacity=value, nominal_capacity=None))

    if name == "link" and q.asked.deployment.chips == 1:
        raise InputError("find", name, "a layout of several chips")
    now, unit, at = {
        "bandwidth": (chip.bandwidth, "B/s", lambda v: q.on(replace(chip, bandwidth=v))),
        "peak": (chip.peak(chip.main_format), "FLOP/s", peaked),
        "memory": (chip.capacity, "B", held_by),
        "link": (cluster.levels[0].bandwidth, "B/s", linked),
    }[name]
    return OpenNumber(name, unit, now * NARROWER, now * WIDER, at)


SAYS: Mapping[str, str] = MappingProxyType({
    "bandwidth": "of memory", "peak": "dense, in the chip's main format; the others in proportion",
    "memory": "that programs can use", "link": "in one direction, of a chip to those beside it",
})  # fmt: skip
"""What figures of a chip are."""
