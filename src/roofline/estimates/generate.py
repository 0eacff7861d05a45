"""A static batch: prompts together, then one token after another, the context growing at every step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from roofline.estimates.latency import Estimate, check_context, held_bytes, time_of
from roofline.estimates.memory import activation_bytes, cache_bytes
from roofline.estimates.place import Place, Placed, placed
from roofline.layout.shard import distinct, stages
from roofline.machine.chip import Chip
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
    """The sum over an estimate's elements, with host seconds for each; launching its kernels takes a while too."""
    import numpy

    def total(value: Any) -> float:
        return float(numpy.sum(value))

    low, high = e.interval
    least = e.launches * e.target.engine.launch_s
    waits = numpy.maximum(0.0, least - e.time) + host
    return Span(total(e.serial_floor), total(e.time + waits), total(low + waits), total(high + waits))


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

    where: Placed
    engine: Engine
    batch: int
    input: int
    output: int
    waves: tuple[Wave, ...]
    speculation: Speculation | None = None

    @property
    def chip(self) -> Chip:
        """The chip it runs on, or many of."""
        return self.where.chip

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
        """Bytes of weights, KV cache and state of the largest wave at its last step, of the fullest rank.

        A draft's are not among them.
        """
        first = self.waves[0].prefill.analysis
        last = decode(self.waves[0].sequences, self.input + self.output - 2)
        return float(held_bytes(first.model, first.precision, last))

    @property
    def grade(self) -> str:
        """The worse of the two phases' grades."""
        return max(e.grade for e in (self.waves[0].prefill, self.waves[0].decode) if e is not None)

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens of all sequences per expected second."""
        return self.batch * self.output / self.latency.expected

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Generated tokens of all sequences per expected second, over the chips of the layout."""
        return self.tokens_per_second / self.where.chips

    @property
    def usd_per_million_tokens(self) -> float | None:
        """USD per 10⁶ generated tokens: chips · price of a second / tokens per second · 10⁶; None without a price."""
        price = self.chip.price
        if price is None:
            return None
        return self.where.chips * price.usd_per_hour / 3600 / self.tokens_per_second * 1e6

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Tokens a sequence receives per second while it decodes: 1 / TPOT; None where it gets one token alone."""
        return 1 / self.tpot.expected if self.output > 1 else None


def concurrent(
    model: Model, formats: Precision, where: Placed, engine: Engine, batch: int, tokens: int, prompt: int
) -> int:
    """How many of `batch` sequences of `tokens` tokens, `prompt` of them given, one replica holds at once.

    Raises InputError where not even one fits.
    """
    if engine.id == "none":
        return batch
    step = min(engine.chunk, batch * prompt)
    limit = batch
    for rank in distinct(stages(model, where.layout)):
        weights, acts = rank.weight_bytes(formats), activation_bytes(rank, formats, step, min(batch, step))
        budget = engine.cache_budget(where.chip.capacity, weights, acts)
        per = float(cache_bytes(rank, formats, engine, 1, tokens))
        limit = limit if per == 0 else min(limit, int(max(0.0, float(budget)) // per))
        if limit < 1:
            need = f"{(weights + acts + per) / 1e9:.1f} GB"
            raise InputError("memory", need, f"at most what {where.chip.name} leaves a sequence; see `roofline fit`")
    return limit


def generate(
    model: Model,
    *,
    on: Place,
    layout: object = None,
    batch: int = 1,
    input: int,
    output: int,
    engine: str | Engine | None = None,
    precision: object = None,
    law: str | Mode = "calibrated",
    speculation: Speculation | None = None,
) -> Generation:
    """How long a static batch takes, in seconds: every step by itself, as one array over the growing context.

    `batch` prompts of `input` tokens each generate `output` tokens: the prefill makes the first, output − 1 decode
    steps the others; with `speculation` fewer steps that verify drafts.
    `on`: a chip or a cluster; `layout`: how the model is spread over its chips (`tp=8`). Replicas (dp) share out the
    batch; with pipeline stages it runs in as many groups, one behind the other. `engine` (`vllm`, `trtllm`, `sglang`,
    None for kernels alone) adds its host's time and its memory rule: sequences beyond what fits run in a further wave.
    `precision`: changes to the checkpoint's formats. `law`: as in `estimate`.
    Raises InputError for what is not understood, lengths beyond the model's context, a format that the chip lacks, a
    degree that does not divide, and where an engine's memory holds not even one sequence.
    """
    import numpy

    where, how, formats = placed(on, layout), engine_named(engine), model.precision.merged(precision)
    rank = where.rank(model)
    sequences, new, out = count("batch", batch, 1), count("input", input, 1), count("output", output, 1)
    check_context(model, prefill(1, new + out - 1))
    mine, depth = ceil_div(sequences, where.layout.dp), where.layout.pp
    held = concurrent(model, formats, where, how, mine, new + out, new)
    sizes = [held] * (mine // held) + ([mine % held] if mine % held else [])
    made: dict[int, Wave] = {}
    at = partial(time_of, where=where, law=law, engine=how)
    for size in set(sizes):
        groups = min(depth, size)
        group = ceil_div(size, groups)
        first = at(rank, prefill(group, new), precision=formats)
        chunks = ceil_div(size * new, how.chunk)
        host = how.prefill_s + chunks * how.host(size, min(size * new, how.chunk))
        begun = span(first).times((depth + groups - 1) / depth) + Span(0.0, host, host, host)
        rest, steps = NOTHING, None
        if out > 1:
            yields, verified = 1.0, 1
            if speculation is not None:
                yields, verified = speculation.tokens_per_step, speculation.length + 1
            contexts = numpy.arange(new, new + out - 1, yields).astype(numpy.int64)
            steps = at(rank, decode(group, contexts, new=verified), precision=formats)
            rest = span(steps, how.host(size))
            if speculation is not None and speculation.draft is not None:
                drafted = time_of(speculation.draft, decode(size, contexts), placed(where.chip), law, engine=how)
                rest = rest + span(drafted, how.host(size)).times(speculation.length)
        made[size] = Wave(size, first, steps, begun, rest)
    return Generation(where, how, sequences, new, out, tuple(made[s] for s in sizes), speculation)
