"""A static batch: prompts together, then one token after another, the context growing at every step."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from roofline.estimates.latency import Estimate, check_context, estimate_step
from roofline.estimates.memory import activation_bytes, cache_bytes
from roofline.machine.chip import Chip, chip_named
from roofline.machine.engine import Engine, engine_named
from roofline.machine.timing import Mode
from roofline.model.checks import count
from roofline.model.errors import InputError
from roofline.model.maths import ceil_div
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.work.step import decode, prefill


@dataclass(frozen=True)
class Span:
    """Seconds: speed of light, expected, and the 80 % interval."""

    floor: float
    expected: float
    low: float
    high: float

    def __add__(self, other: Span) -> Span:
        pairs = zip(self._all(), other._all(), strict=True)
        return Span(*(a + b for a, b in pairs))

    def times(self, factor: float) -> Span:
        """The span of `factor` times the work."""
        return Span(*(factor * v for v in self._all()))

    def minus(self, other: Span) -> Span:
        """What is beyond the other, nothing where it is more."""
        return Span(*(max(0.0, a - b) for a, b in zip(self._all(), other._all(), strict=True)))

    def most(self, other: Span) -> Span:
        """The greater of both, field by field."""
        return Span(*(max(a, b) for a, b in zip(self._all(), other._all(), strict=True)))

    def _all(self) -> tuple[float, float, float, float]:
        return self.floor, self.expected, self.low, self.high


NOTHING = Span(0.0, 0.0, 0.0, 0.0)


def span(e: Estimate, host: Any = 0.0) -> Span:
    """The sum over an estimate's elements, with host seconds for each."""
    import numpy

    def total(value: Any) -> float:
        return float(numpy.sum(value))

    low, high = e.interval
    return Span(total(e.serial_floor), total(e.time + host), total(low + host), total(high + host))


@dataclass(frozen=True)
class Speculation:
    """Drafted decoding (arXiv:2211.17192): `length` tokens proposed a step, each right with probability `acceptance`.

    `draft`: the model that proposes them, None where proposing is free (n-grams). Raises InputError out of range.
    """

    acceptance: float
    length: int
    draft: Model | None = None

    def __post_init__(self) -> None:
        number = isinstance(self.acceptance, (int, float)) and not isinstance(self.acceptance, bool)
        if not number or not 0 <= self.acceptance <= 1:
            raise InputError("acceptance", self.acceptance, "a probability from 0 to 1")
        if not isinstance(self.length, int) or isinstance(self.length, bool) or not 1 <= self.length <= 64:
            raise InputError("draft length", self.length, "a whole number from 1 to 64")

    @property
    def tokens_per_step(self) -> float:
        """Expected tokens a verification yields: (1 − a^(γ+1)) / (1 − a), at most γ + 1."""
        a, n = self.acceptance, self.length + 1
        return float(n) if a == 1 else (1 - a**n) / (1 - a)


@dataclass(frozen=True)
class Wave:
    """The sequences of the batch that run together, because no more fit: their prompt and their decode steps."""

    sequences: int
    prefill: Estimate
    decode: Estimate | None
    first: Span
    rest: Span


@dataclass(frozen=True)
class Generation:
    """A static batch of `batch` prompts of `input` tokens that each generate `output` tokens.

    ttft: until the first token of the first wave, prefill and host. tpot: (latency − ttft) / (output − 1) of a wave,
    the time between tokens. latency: until the last token of the last wave. All spans of seconds.
    """

    chip: Chip
    engine: Engine
    batch: int
    input: int
    output: int
    waves: tuple[Wave, ...]
    speculation: Speculation | None = None

    @cached_property
    def ttft(self) -> Span:
        """Time to first token."""
        return self.waves[0].first

    @cached_property
    def tpot(self) -> Span:
        """Time per output token after the first; nothing where only one is asked for."""
        return self.waves[0].rest.times(1 / max(1, self.output - 1))

    @cached_property
    def latency(self) -> Span:
        """End to end."""
        total = NOTHING
        for wave in self.waves:
            total = total + wave.first + wave.rest
        return total

    @property
    def memory(self) -> float:
        """Bytes of weights, KV cache and state of the largest wave at its last step; a draft's not among them."""
        import numpy

        return float(numpy.max((self.waves[0].decode or self.waves[0].prefill).memory))

    @property
    def grade(self) -> str:
        """The worse of the two phases' grades."""
        return max(e.grade for e in (self.waves[0].prefill, self.waves[0].decode) if e is not None)

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens of all sequences per expected second."""
        return self.batch * self.output / self.latency.expected

    @property
    def tokens_per_second_per_user(self) -> float:
        """Tokens a sequence receives per second while it decodes: 1 / TPOT."""
        return 1 / self.tpot.expected if self.tpot.expected else 0.0


def concurrent(
    model: Model, formats: Precision, chip: Chip, engine: Engine, batch: int, tokens: int, prompt: int
) -> int:
    """How many of `batch` sequences of `tokens` tokens, `prompt` of them given, the engine holds at once.

    Raises InputError where not even one fits.
    """
    if engine.id == "none":
        return batch
    step = min(engine.chunk, batch * prompt)
    acts = activation_bytes(model, formats, step, min(batch, step))
    budget = engine.cache_budget(chip.capacity, model.weight_bytes(formats), acts)
    per = float(cache_bytes(model, formats, engine, 1, tokens))
    limit = batch if per == 0 else int(max(0.0, float(budget)) // per)
    if limit < 1:
        need = model.weight_bytes(formats) + acts + per
        raise InputError(
            "memory", f"{need / 1e9:.1f} GB", f"at most what {chip.name} leaves a sequence; see `roofline fit`"
        )
    return min(batch, limit)


def generate(
    model: Model,
    *,
    on: str | os.PathLike[str] | Chip,
    batch: int = 1,
    input: int,
    output: int,
    engine: str | Engine | None = None,
    precision: object = None,
    law: str | Mode = "calibrated",
    speculation: Speculation | None = None,
) -> Generation:
    """How long a static batch takes: every step by itself, evaluated as one array over the growing context.

    `engine` adds its host's time and its memory rule: sequences beyond what fits run in a further wave. The prefill
    makes the first token, output − 1 decode steps the others; with `speculation` fewer steps that verify drafts.
    Raises InputError for lengths beyond the model's context.
    """
    import numpy

    chip, how, formats = chip_named(on), engine_named(engine), model.precision.merged(precision)
    sequences, new, out = count("batch", batch, 1), count("input", input, 1), count("output", output, 1)
    check_context(model, prefill(1, new + out - 1))
    held = concurrent(model, formats, chip, how, sequences, new + out, new)
    sizes = [held] * (sequences // held) + ([sequences % held] if sequences % held else [])
    made: dict[int, Wave] = {}
    at = partial(estimate_step, on=chip, law=law, engine=how)
    for size in set(sizes):
        first = at(model, prefill(size, new), precision=formats)
        chunks = ceil_div(size * new, how.chunk)
        begun = span(first, how.prefill_s + chunks * how.host(size, min(size * new, how.chunk)))
        rest, steps = NOTHING, None
        if out > 1:
            yields, verified = 1.0, 1
            if speculation is not None:
                yields, verified = speculation.tokens_per_step, speculation.length + 1
            contexts = numpy.arange(new, new + out - 1, yields).astype(numpy.int64)
            steps = at(model, decode(size, contexts, new=verified), precision=formats, within=False)
            rest = span(steps, how.host(size))
            if speculation is not None and speculation.draft is not None:
                drafted = at(speculation.draft, decode(size, contexts), within=False)
                rest = rest + span(drafted, how.host(size)).times(speculation.length)
        made[size] = Wave(size, first, steps, begun, rest)
    return Generation(chip, how, sequences, new, out, tuple(made[s] for s in sizes), speculation)
