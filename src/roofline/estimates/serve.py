"""A server in steady state: continuous batching, at a concurrency or at a request rate.

Mean field (exact for fluid arrivals): B requests are in flight and each decodes one token a step, at a mean context of
input + output/2. In every step B/output of them finish and as many prompts come in, whose prefill shares the step with
the decodes. So a token takes the decode step plus the prompts' share; a request's own prompt does not slow its tokens:

    TPOT = t(B decodes) + (B − 1)/output · Δ,   Δ = t(B − 1 decodes and a prompt) − t(B − 1 decodes)

A request costs the server Δ + (output − 1)·t(B)/B, so its throughput never exceeds the inverse of that.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from roofline.estimates.generate import NOTHING, Span, concurrent, span
from roofline.estimates.latency import Estimate, check_context, held_bytes, time_of
from roofline.estimates.place import Place, Placed, placed
from roofline.machine.chip import Chip
from roofline.machine.engine import Engine, engine_named
from roofline.machine.timing import Mode
from roofline.model.checks import count
from roofline.model.errors import InputError
from roofline.model.maths import ceil_div
from roofline.model.model import Model
from roofline.work.step import Step, decode, prefill


@dataclass(frozen=True)
class Serving:
    """Steady state. Spans are in seconds.

    ttft: from arrival to the first token: the wait for the step under way, queueing behind other prompts (M/G/1) or
    for a place, and the own prefill. tpot: mean time between a request's tokens after the first. latency:
    ttft + (output − 1)·tpot.
    `in_flight`: requests decoding or prefilling; `held`: how many the memory allows at once. `prefill_share`: the part
    of the server's work that is prompts.
    """

    where: Placed
    engine: Engine
    input: int
    output: int
    cached_prefix: int
    in_flight: int
    held: int
    decode: Estimate
    ttft: Span
    tpot: Span
    prefill_share: float

    @property
    def chip(self) -> Chip:
        """The chip it runs on, or many of."""
        return self.where.chip

    @property
    def memory(self) -> float:
        """Bytes of weights, KV cache and state of the fullest rank while every request decodes."""
        a, depth = self.decode.analysis, int(self.where.layout.pp)
        (query,) = a.step.queries
        return float(held_bytes(a.model, a.precision, decode(depth * int(query.count), query.cached)))

    @property
    def latency(self) -> Span:
        """End to end, for one request."""
        return self.ttft + self.tpot.times(self.output - 1)

    @property
    def requests_per_second(self) -> float:
        """Requests in flight over the time each takes (Little's law)."""
        return self.in_flight / self.latency.expected

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens of all users per second, on this chip."""
        return self.requests_per_second * self.output

    @property
    def tokens_per_second_per_user(self) -> float:
        """1 / TPOT."""
        return 1 / self.tpot.expected


def serve(
    model: Model,
    *,
    on: Place,
    layout: object = None,
    input: int,
    output: int,
    concurrency: int | None = None,
    rate: float | None = None,
    engine: str | Engine | None = "vllm",
    prefix: float = 0.0,
    precision: object = None,
    law: str | Mode = "calibrated",
) -> Serving:
    """A server in steady state; times in seconds, rates per second.

    It always has `concurrency` requests, or receives `rate` requests a second, at random. Each has a prompt of `input`
    tokens and generates `output` tokens.
    `on`: a chip or a cluster; `layout`: how the model is spread over its chips (`tp=8`). `engine`: `vllm`, `trtllm`,
    `sglang`, or None for kernels alone. `prefix`: share of a prompt found in the prefix cache, which is attended to
    but not computed again. `precision`: changes to the checkpoint's formats. `law`: as in `estimate`. Requests beyond
    what memory holds wait in the queue.
    Raises InputError for what is not understood, lengths beyond the model's context, a format that the chip lacks, a
    degree that does not divide, memory that holds not one request, a rate beyond what the server can take, or both or
    neither of concurrency and rate.
    """
    if (concurrency is None) == (rate is None):
        raise InputError("concurrency", concurrency, "either a concurrency or a rate")
    if not 0 <= prefix < 1:
        raise InputError("prefix", prefix, "a share from 0 up to, but not including, 1")
    where, how, formats = placed(on, layout), engine_named(engine), model.precision.merged(precision)
    new, out = count("input", input, 1), count("output", output, 1)
    check_context(model, prefill(1, new + out - 1))
    cached = int(new * prefix)
    held = concurrent(model, formats, where, how, 4096, new + out, new) * where.layout.dp
    at = partial(time_of, where=where, law=law, precision=formats, engine=how)
    rank = where.rank(model)

    def state(b: int) -> Serving:
        return _steady(rank, where, how, new, out, cached, b, held, at)

    if concurrency is not None:
        return state(count("concurrency", concurrency, 1))
    if not isinstance(rate, (int, float)) or not math.isfinite(rate) or rate <= 0:
        raise InputError("rate", rate, "requests a second, more than 0")
    return _at_rate(state, float(rate), held)


def _at_rate(state: Callable[[int], Serving], rate: float, held: int) -> Serving:
    """The smallest number in flight that serves `rate`."""
    best = state(held)
    if best.requests_per_second < rate:
        most = best.requests_per_second
        raise InputError(
            "rate", rate, f"at most {most:.3g} requests a second, what this chip serves with {held} in flight"
        )
    fewest = bisect_left(range(held), rate, lo=1, hi=held, key=lambda n: state(n).requests_per_second)
    return state(fewest)


def _steady(
    model: Model, where: Placed, engine: Engine, new: int, out: int, cached: int, everyone: int, places: int,
    at: Callable[[Model, Step], Estimate],
) -> Serving:  # fmt: skip
    """One group of requests: replicas share them out, and pipeline stages take as many groups in turn."""
    groups = where.layout.dp * where.layout.pp
    asked, held = ceil_div(everyone, groups), max(1, places // groups)
    running = min(asked, held)
    context, fresh = new + out // 2, new - cached
    steps = at(model, decode(running, context))
    alone = span(steps, engine.host(running))
    prompts = min(max(1, round(running / out)), max(1, engine.chunk // fresh))
    others = round((running - 1) * (out - 1) / out)  # of the other requests, those past their first token
    company = span(at(model, decode(others, context)), engine.host(others)) if others else NOTHING
    queries = [(cached, fresh, prompts), *([(context, 1, others)] if others else [])]
    mixed = at(model, Step(queries))
    both = span(mixed, engine.host(others + prompts, prompts * fresh))
    extra = both.minus(company).times(1 / prompts)
    tpot = alone + extra.times((running - 1) / out)
    busy = min(0.99, extra.expected * (running - 1) / out / tpot.expected)
    wait = extra.times(busy / (2 * (1 - busy))) + (alone.times(0.5) if running > 1 else NOTHING)
    decoding = tpot.times(out - 1)
    begun = wait + both
    # No server does more than one thing at a time, or multiplies faster than its peak: a request costs it its prompt
    # and its share of out − 1 steps. Who finds no place waits: latency ≥ asked · work.
    least = float(mixed.compute_time) / prompts + (out - 1 - others / prompts) * float(steps.compute_time) / running
    work = (extra + alone.times((out - 1) / running)).most(Span(least, least, least, least))
    turn = (begun + decoding).times(asked / running)
    latency = turn.most(work.times(asked))
    return Serving(
        where, engine, new, out, cached, everyone, places, steps, begun.most(latency.minus(decoding)), tpot,
        min(1.0, extra.expected / work.expected),
    )  # fmt: skip
