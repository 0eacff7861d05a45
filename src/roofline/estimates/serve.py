"""A server in steady state: continuous batching, at a concurrency or at a request rate.

Mean field (exact for fluid arrivals): B requests are in flight and each decodes one token a step, at a mean context of
input + output/2. In every step B/output of them finish and as many prompts come in, whose prefill shares the step with
the decodes. So a token takes the decode step plus the prompts' share; a request's own prompt does not slow its tokens:

    TPOT = t(B decodes) + (B − 1)/output · Δ,   Δ = t(B − 1 decodes and a prompt) − t(B − 1 decodes)

A request costs the server Δ + (output − 1)·t(B)/B, so its throughput never exceeds the inverse of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Unpack

import numpy as np

from roofline.estimates.generate import changed_step, launched
from roofline.estimates.memory import Memory
from roofline.estimates.settings import Deployed, Settings, Setup, broadcast, each, setup
from roofline.estimates.span import NOTHING, Span, exactly, shaped
from roofline.estimates.step import Estimate, check_context, step_estimate
from roofline.model.checks import count, numbers
from roofline.model.errors import InputError
from roofline.model.load import model_of
from roofline.model.maths import Count, ceil_div, is_array, least, most, root, where
from roofline.result import Flag, Units, Word
from roofline.work.step import Queries, decode, prefill
from roofline.work.step import replace as changed

MOST_IN_FLIGHT = 2**20
"""No server is looked at with more requests of a replica in its memory."""


@dataclass(frozen=True, repr=False)
class Serving(Deployed):
    """Steady state. Spans are in seconds; numbers or arrays.

    ttft: from arrival to the first token: the wait for the step under way, for the prompts of the others in flight or
    for a place, and the own prefill. tpot: mean time between a request's tokens after the first. latency:
    ttft + (output − 1)·tpot.
    `in_flight`: requests decoding or prefilling; `capacity`: how many the memory of all replicas holds at once.
    `prefill_share`: the part of the server's work that is prompts.
    """

    SCHEMA: ClassVar[str] = "roofline.serve/2"
    FIGURES: ClassVar[Units] = {
        "model": "", "deployment": "", "engine": "", "law": "", "formats": "", "input": "", "output": "",
        "cached_prefix": "", "in_flight": "", "in_flight_per_replica": "", "capacity": "", "idle_replicas": "",
        "ttft": "s", "tpot": "s", "latency": "s", "requests_per_second": "requests/s", "tokens_per_second": "tokens/s",
        "tokens_per_second_per_user": "tokens/s", "tokens_per_second_per_chip": "tokens/s", "prefill_share": "share",
        "decode_shares": "share", "memory": "B", "grade": "",
    }  # fmt: skip

    asked: Setup
    input: Count
    output: Count
    cached_prefix: Count
    in_flight: Count
    capacity: Count
    ttft: Span
    tpot: Span
    prefill_share: Count

    # -- what and where --------------------------------------------------------------------------------------------
    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of everything asked."""
        return np.shape(self.ttft.expected)

    @property
    def in_flight_per_replica(self) -> Count:
        """Requests of the busiest replica."""
        return self.deployment.share(self.in_flight)

    @property
    def decode_shares(self) -> Mapping[str, float]:
        """Kind of op → share of the expected time of a decode step, largest first."""
        return dict(self.decode.shares)

    @property
    def idle_replicas(self) -> Count:
        """Replicas that have fewer requests than the busiest."""
        return self.deployment.idle(self.in_flight)

    # -- figures ---------------------------------------------------------------------------------------------------
    @cached_property
    def running(self) -> Count:
        """Requests of the busiest replica that its memory holds; all of them where it holds not one."""
        share = self.deployment.share(self.in_flight)
        return where(self.capacity < 1, share, least(share, self.capacity // self.asked.layout.dp))

    @cached_property
    def decode(self) -> Estimate:
        """The decode step of one group of requests, at the mean context."""
        group = ceil_div(self.running, self.asked.layout.pp) * self.asked.layout.dp
        step = changed_step(decode(1, 1), self.input + self.output // 2, 1, group)
        return step_estimate(self.asked, step, within=False)

    @cached_property
    def memory(self) -> Memory:
        """What the fullest rank needs where every request in its memory is at its last token, by the engine's rule."""
        return self.asked.holding.memory(((self.running, self.input + self.output),)).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether that is there."""
        return self.memory.fits

    @property
    def latency(self) -> Span:
        """End to end, for one request."""
        return self.ttft + self.tpot.times(self.output - 1)

    @property
    def requests_per_second(self) -> Count:
        """Requests in flight over the time each takes (Little's law)."""
        return self.in_flight / self.latency.expected

    @property
    def tokens_per_second(self) -> Count:
        """Generated tokens of all users per second, on all chips."""
        return self.requests_per_second * self.output

    @property
    def tokens_per_second_per_chip(self) -> Count:
        """Generated tokens of all users per second, over the chips of the layout."""
        return self.tokens_per_second / self.asked.layout.chips

    @property
    def tokens_per_second_per_user(self) -> Count:
        """1 / TPOT."""
        return 1 / self.tpot.expected

    @property
    def grade(self) -> Word:
        """The grade of the decode step."""
        return self.decode.grade


def serve(
    model: Any, *, input: Count, output: Count, concurrency: Count = None, rate: Count = None, prefix: Count = 0.0,
    **settings: Unpack[Settings],
) -> Any:  # fmt: skip
    """A server in steady state; times in seconds, rates per second: a `Serving`, of lists of settings a `Grid`.

    It always has `concurrency` requests, or receives `rate` requests a second, at random; those of all replicas
    together. Each has a prompt of `input` tokens and generates `output` tokens. `prefix`: share of a prompt found in
    the prefix cache, which is attended to but not computed again. Requests beyond what memory holds wait in the queue.
    `model`: a Model, its name, path or config; the settings are those of `Settings`. Numbers may be arrays,
    which broadcast.
    Raises InputError for what is not understood, lengths beyond the model's context, a format that the chip lacks, a
    degree that does not divide, a rate beyond what the server can take, or both or neither of concurrency and rate.
    Where memory holds not one request, `fits` says so, and the times are those of chips with more.
    """

    def one(model: Any, input: Count, output: Count, concurrency: Any, rate: Any, prefix: Any, **where: Any) -> Serving:
        if (concurrency is None) == (rate is None):
            raise InputError("concurrency", concurrency, "either a concurrency or a rate")
        asked = setup(model_of(model), **where)
        new, out = count("input", input, 1), count("output", output, 1)
        shared = numbers("prefix", prefix, 0.0, 1.0, "a share from 0 up to, but not including, 1")
        check_context(asked.model, prefill(1, new + out - 1))
        server = Server(asked, new, out, rounded_down(new * shared))
        if concurrency is not None:
            requests = count("concurrency", concurrency, 1)
            broadcast(input=new, output=out, prefix=shared, concurrency=requests, layout=asked.layout)
            return server.at(requests)
        arriving = numbers("rate", rate, 0.0, np.inf, "requests a second, more than 0", above=True)
        broadcast(input=new, output=out, prefix=shared, rate=arriving, layout=asked.layout)
        return server.at_rate(arriving)

    options = {"input": input, "output": output, "concurrency": concurrency, "rate": rate, "prefix": prefix}
    return each(one, {"model": model, **options, **settings})


def rounded_down(value: Count) -> Count:
    """A number rounded down."""
    return np.floor(value).astype(np.int64) if is_array(value) else int(value)


@dataclass(frozen=True)
class Server:
    """A deployment that answers requests of `input` tokens, `cached` of them known, with `output` tokens."""

    asked: Setup
    input: Count
    output: Count
    cached: Count

    @cached_property
    def capacity(self) -> Count:
        """Requests that all replicas hold in memory and run at once, 0 where not one; kernels alone have no rule."""
        if self.asked.engine.id == "none":
            return MOST_IN_FLIGHT * self.asked.layout.dp
        return self.asked.holding.most_sequences(self.input + self.output, MOST_IN_FLIGHT) * self.asked.layout.dp

    @cached_property
    def places(self) -> Count:
        """Requests that run at once: those that memory holds, or as on chips with more where it holds not one."""
        return where(self.capacity < 1, MOST_IN_FLIGHT * self.asked.layout.dp, self.capacity)

    def at_rate(self, rate: Count) -> Serving:
        """The fewest requests in flight that serve a rate."""
        most = self.at(self.places)
        if np.any(np.asarray(most.requests_per_second < rate)):
            best, asked = np.min(np.asarray(most.requests_per_second)), np.max(np.asarray(rate))
            flight = np.max(np.asarray(self.places))
            expected = f"at most {best:.3g} requests a second, what this server takes with {flight} in flight"
            raise InputError("rate", asked.item(), expected)
        return self.at(fewest(lambda n: self.at(n).requests_per_second >= rate, self.places))

    def at(self, everyone: Count) -> Serving:
        """One group of requests: replicas share them out, and pipeline stages take as many groups in turn."""
        asked, engine, out = self.asked, self.asked.engine, self.output
        plan, groups = asked.plan, asked.layout.dp * asked.layout.pp
        mine, places = ceil_div(everyone, groups), most(1, self.places // groups)
        running = least(mine, places)
        context, fresh = self.input + out // 2, self.input - self.cached
        one = decode(1, 1)
        alone = launched(plan, changed_step(one, context, 1, running), engine.host(running))
        prompts = least(most(1, rounded(running / out)), most(1, engine.chunk // fresh))
        others = rounded((running - 1) * (out - 1) / out)  # of the other requests, those past their first token
        company = launched(plan, changed_step(one, context, 1, others), engine.host(others)).where(others > 0, NOTHING)
        mixed = changed(one, (Queries(self.cached, fresh, prompts), Queries(context, 1, others)))
        both = launched(plan, mixed, engine.host(others + prompts, prompts * fresh))
        extra = both.minus(company).times(1 / prompts)
        tpot = alone + extra.times((running - 1) / out)
        decoding = tpot.times(out - 1)
        behind = closed_wait(running, extra.expected, decoding.expected)
        wait = extra.times(behind / most(extra.expected, 1e-12)) + alone.times(0.5).where(running > 1, NOTHING)
        begun = wait + both
        # No server does more than one thing at a time, or multiplies faster than its peak: a request costs it its
        # prompt and its share of out − 1 steps. Who finds no place waits: latency ≥ everyone · work.
        steps, both_steps = plan.total(changed_step(one, context, 1, running)), plan.total(mixed)
        floor = both_steps.compute / prompts + (out - 1 - others / prompts) * steps.compute / running
        work = (extra + alone.times((out - 1) / running)).most(exactly(floor))
        turn = (begun + decoding).times(mine / running)
        latency = turn.most(work.times(mine))
        shape = np.broadcast_shapes(np.shape(latency.expected), np.shape(everyone))
        return Serving(
            asked, self.input, out, self.cached, everyone, self.capacity,
            begun.most(latency.minus(decoding)).shaped(shape), tpot.shaped(shape),
            shaped(least(1.0, extra.expected / work.expected), shape),
        )  # fmt: skip


def closed_wait(requests: Count, service: Count, away: Count) -> Count:
    """Seconds that a prompt waits for others, of `requests` that each take `service` of the server, then are `away`.

    Mean value analysis of a closed queue (Reiser and Lavenberg 1980; Schweitzer's step from n to n − 1) with service
    that does not vary, of which half is left of the one under way:
    R = S + S·(n − 1)·(R − S/2)/(R + Z), so R² + (Z − n·S)·R − S·Z + (n − 1)·S²/2 = 0. It is never more than n·S.
    """
    slack = requests * service - away
    rest = 4 * service * away - 2 * (requests - 1) * service * service
    return most(0.5 * (slack + root(slack * slack + rest)) - service, 0.0)


def rounded(value: Count) -> Count:
    """The nearest whole number, an even one where two are as near."""
    return np.rint(value).astype(np.int64) if is_array(value) else round(value)


def fewest(enough: Callable[[Count], Any], most: Count) -> Count:
    """The least number from 1 to `most` that is enough, for every element, by bisection; `most` is."""
    if not is_array(most) and not is_array(enough(1)):
        low: Count = 0
        high: Count = most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high
    shape = np.broadcast_shapes(np.shape(most), np.shape(enough(1)))
    lows, highs = np.zeros(shape, dtype=np.int64), np.broadcast_to(most, shape).astype(np.int64)
    while (highs - lows > 1).any():
        middles = np.maximum((lows + highs) // 2, 1)
        passed = enough(middles)
        lows, highs = np.where(passed, lows, middles), np.where(passed, middles, highs)
    return highs
