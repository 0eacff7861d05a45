"""A server in steady state: continuous batching, at a concurrency (closed loop) or at a request rate (open loop).

A replica's step times are tabulated once, by the sequences that decode and the prompts that start beside them
(`mixed.py`). Equally long requests are then followed through the steps that the engine's scheduler composes: whether
prompts share a step with decodes, and how many tokens and sequences a step takes (`course.py`). For requests in no
particular order there is a closed form, which evaluates many points at once (`queueing.py`, `closed.py`). Servers of
short answers are followed in many replications at once (`replications.py`). `roofline.simulate` follows every request,
of any length; `benchmarks/serve_against_simulate.py` compares the two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from roofline.declared.caching import remembered
from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, ceil_div, is_array, least, most, where
from roofline.declared.result import Flag, Units, Word
from roofline.inference.cost.cost import Spending, Spent
from roofline.inference.generate import decode_of, launched
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import Setup
from roofline.inference.span import NOTHING, Span, exactly, shaped
from roofline.inference.step import Estimate, step_estimate
from roofline.kernels.target import CALIBRATED, Mode
from roofline.serving.closed_forms.lockstep import Answers, Loop, StepRules, StepTable, at_random
from roofline.serving.closed_forms.mean_value_analysis import closed_loop, highest_rate, lasting
from roofline.serving.closed_forms.mixed_batches import (
    Prompts,
    chunked,
    mean_of,
    mixed_seconds,
    pieces_of,
    prompt_steps,
)
from roofline.serving.closed_forms.percentiles import SHARES, Chances, Percentiles, Steady, Tail
from roofline.serving.closed_forms.queueing import FEW_FULL, PARTS, Open, RateMeans, ReplicaTimes, opening
from roofline.serving.drafting import (  # fmt: skip
    MOST_IN_FLIGHT,
    Drafting,
    memory_with,
    places_of,
    running_at_once,
    sequences_held,
    step_quantiles,
)
from roofline.serving.encoders import EncoderPool
from roofline.serving.energy import SteadyLoad, server_spending
from roofline.serving.first_token import scattered
from roofline.serving.replications import (  # fmt: skip
    FollowedLoad,
    RankGroup,
    RequestTimes,
    StepArrays,
    neighbouring_users,
    step_arrays,
)
from roofline.serving.requests import LoadAnswer, ServedLoad, encoding, rounded_down, source_seconds
from roofline.serving.simulate.policy import Room, policy_of, room_of
from roofline.serving.simulate.replica import LEAST as LEAST_EXPECTED
from roofline.serving.simulate.steps import step_times
from roofline.work.step import Queries, decode
from roofline.work.step import replace as changed

DECODES, BATCHES = 24, 10
"""Numbers of decodes and of prompts at which steps are timed; between them times are nearly linear."""
LEAST, SETTLING = 3000, 4000
"""Sample sizes at a request rate: LEAST / (1 − load) requests are counted, with the load capped at 0.9.

Warm-up: half as many requests (at most SETTLING), plus three times the number in flight.
"""
SHORT, SHORT_APART, SHORT_USERS, CROWD = 100, 40, 16, 2048
"""Tokens of the longest answers, on average, whose server is followed step by step: of ranks in step, of others at a
rate, and of others with users; and the most requests that a rank runs at once. The formula takes a hundredth of the
time, and is right for longer ones more often."""
FIRST_IN_STEP, FIRST_USERS = 400, 60
"""Tokens of the longest answers, on average, that are followed where prompts go first: of ranks in step at a rate,
since prompts of one rank keep all waiting, and of other ranks with users, who come back together after waiting so."""
ALIKE = 0.1
"""Coefficient of variation of lengths up to which users who meet in a step keep doing so, for 1/cv² rounds and more."""
UNSURE = 0.025
"""Sampling error of the rate of a server that is followed with users, as a share: three standard errors and more."""
QUEUED = 2
"""Users for each place, or for each that the formula needs for the highest rate, from which on all others wait that
much longer: no place is ever free, or no step without prompts."""
LOADS = (
    1e-6, 0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.74, 0.77, 0.8, 0.83,
    0.855, 0.88, 0.9, 0.92, 0.935, 0.95, 0.96, 0.97, 0.98, 0.99,
)  # fmt: skip
"""Shares of the highest rate at which servers are followed."""
TURNS = (1, 2, 4, 8, 16)
"""Numbers of deployments that take turns with which servers are followed; arrivals of more are hardly more even."""
LONGEST = 2**20
"""Tokens of the longest request of a model whose context is unknown."""
LIGHTER = 0.05
"""Share by which the request rate is lowered to measure how fast TTFT and TPOT grow with load."""


@dataclass(frozen=True, repr=False)
class Serving(Spent, LoadAnswer):
    """The steady state of a server. Spans are in seconds; figures are numbers or arrays.

    `ttft`: time from arrival to the first token. It includes the wait for the step under way, for earlier prompts or
    for a place, and the request's own prefill. `tpot`: mean time between a request's tokens after the first. `latency`:
    ttft + (output − 1)·tpot. `tpot` is the mean over requests. Short answers have larger values, so that where answers
    vary, `latency` uses the mean over all tokens instead, which is `tpot` times `longer`.
    `in_flight`: requests decoding, prefilling or waiting; at a rate their mean, rounded up. `capacity`: requests whose
    KV cache at the last token fits in the memory of all replicas; an engine that reserves no room for whole answers
    runs more. `prefill_share`: share of the server's time spent on prompts. `percentiles`: of TTFT, TPOT and latency;
    approximate where the formula gives the means. `speculation`: what drafts tokens for decode steps to verify, null
    without drafts. `images`: images of each request, null without any; `input` includes their tokens. `rounds`:
    requests that each user of a benchmark sends, null in the steady state; the opening burst is then part of TTFT,
    latency and their percentiles. `encoder`: the pool that encodes images and sound before the server, whose time is
    part of TTFT; null without one.
    """

    SCHEMA: ClassVar[str] = "roofline.serve/4"
    FIGURES: ClassVar[Units] = {
        **LoadAnswer.PLACE, **LoadAnswer.LENGTHS, "in_flight": "", "in_flight_per_replica": "", "capacity": "",
        "idle_replicas": "", "ttft": "s", "tpot": "s", "latency": "s", "percentiles": "s",
        "requests_per_second": "requests/s", "tokens_per_second": "tokens/s",
        "tokens_per_second_per_user": "tokens/s", "tokens_per_second_per_chip": "tokens/s", "prefill_share": "share",
        "decode_shares": "share", **Spent.BILLED, "memory": "B", "grade": "", **LoadAnswer.TRAITS,
        "encoder": "", "rounds": "",
    }  # fmt: skip

    asked: Setup
    requests: ServedLoad
    in_flight: Count
    capacity: Count
    ttft: Span
    tpot: Span
    prefill_share: Count
    requests_per_second: Count
    percentiles: Percentiles
    rounds: Count | None = None
    longer: Count = 1.0
    encoder: EncoderPool | None = None

    # -- what and where --------------------------------------------------------------------------------------------
    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of all settings."""
        return np.shape(self.ttft.expected)

    @property
    def in_flight_per_replica(self) -> Count:
        """Requests in flight on the busiest replica."""
        return self.deployment.share(self.in_flight)

    @property
    def decode_shares(self) -> Mapping[str, float]:
        """Share of the expected time of a decode step by kind of op, largest first."""
        return dict(self.decode.shares)

    @property
    def idle_replicas(self) -> Count:
        """Replicas with fewer requests than the busiest."""
        return self.deployment.idle(self.in_flight)

    def after(self, pool: EncoderPool, load: Load) -> Serving:
        """The answer with an encoder pool before the server, under a load of both."""
        requests = replace(self.requests, load=load, images=pool.front.images)
        return replace(
            self, requests=requests, requests_per_second=pool.rate, ttft=self.ttft + pool.seconds,
            percentiles=pool.delayed(self.percentiles), encoder=pool,
        )  # fmt: skip

    # -- figures ---------------------------------------------------------------------------------------------------
    @cached_property
    def places(self) -> Count:
        """Most requests that all replicas together run at once."""
        layout = self.asked.layout
        whole = self.capacity // layout.dp
        return (
            places_of(self.asked, self.drafting, self.requests.kept_by(self.asked.engine), whole)
            * layout.pp
            * layout.dp
        )

    @property
    def running(self) -> Count:
        """Requests that the busiest replica runs at once."""
        return least(self.deployment.share(self.in_flight), self.places // self.asked.layout.dp)

    @property
    def held(self) -> Count:
        """Requests of the busiest replica that its memory holds to their last token; all where not even one fits."""
        share = self.deployment.share(self.in_flight)
        return where(self.capacity < 1, share, least(share, self.capacity // self.asked.layout.dp))

    @cached_property
    def decode(self) -> Estimate:
        """The decode step of one group of requests at the mean context; with drafts, the step that verifies them."""
        group = ceil_div(self.running, self.asked.layout.pp) * self.asked.layout.dp
        step = decode_of(group, self.requests.context, 1 if self.drafting is None else self.drafting.width)
        return step_estimate(self.asked, step, within=False)

    @cached_property
    def memory(self) -> Memory:
        """Memory of the fullest rank, by the engine's rule, with every request it holds at its last token."""
        return memory_with(self.asked, self.drafting, self.held, self.input + self.output).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether that memory is available, and that of encoder replicas."""
        return self.memory.fits if self.encoder is None else self.memory.fits & self.encoder.memory.fits

    @property
    def latency(self) -> Span:
        """End-to-end latency of one request."""
        return self.ttft + self.tpot.times((self.output - 1) * self.longer)

    @property
    def tokens_per_second(self) -> Count:
        """Generated tokens per second, of all users on all chips."""
        return self.requests_per_second * self.output

    @property
    def tokens_per_second_per_chip(self) -> Count:
        """Generated tokens per second of all users, divided by the chips of the layout and of encoder replicas."""
        encoding = 0 if self.encoder is None else self.encoder.chips
        return self.tokens_per_second / (self.asked.layout.chips + encoding)

    @property
    def tokens_per_second_per_user(self) -> Count:
        """Tokens per second that one user receives: 1 / TPOT."""
        return 1 / self.tpot.expected

    @cached_property
    def spending(self) -> Spending:
        """Money and energy spent per second."""
        load = SteadyLoad(self.requests_per_second, self.input, self.output, self.requests.context, self.cached_prefix)
        spent = server_spending(self.asked, load, self.tpot.expected * self.longer, drafting=self.drafting)
        return spent if self.encoder is None else replace(spent, encoding=self.encoder.cost)

    @property
    def grade(self) -> Word:
        """The grade of the decode step's constants."""
        return self.decode.grade


@dataclass(frozen=True)
class Circumstances:
    """What requests experience: mean TTFT in seconds from when the scheduler sees a request, mean TPOT in seconds,
    `rate` in requests per second, percentiles, and `step_share`, the decode steps per token after the first. `longer`:
    mean seconds per token over all tokens, divided by the mean TPOT over requests."""

    ttft: Count
    tpot: Count
    rate: Count
    percentiles: Percentiles
    step_share: Count
    longer: Count = 1.0

    def chosen(self, these: Array, others: Circumstances) -> Circumstances:
        """Select elementwise: these values where `these` is true, else those of `others`."""
        percentiles = self.percentiles.chosen(these, others.percentiles)
        names = ("ttft", "tpot", "rate", "step_share", "longer")
        ttft, tpot, rate, *rest = (where(these, getattr(self, name), getattr(others, name)) for name in names)
        return Circumstances(ttft, tpot, rate, percentiles, *rest)


@dataclass(frozen=True)
class Server:
    """A deployment that answers requests.

    `axes`: number of axes of the broadcast shape of all settings, the load included. `rounds`: as in `Serving`.
    `follows`: whether servers of short answers are followed; else the formula answers for all.
    """

    asked: Setup
    requests: ServedLoad
    axes: int
    rounds: Count | None = None
    follows: bool = True

    @cached_property
    def input(self) -> Count:
        """Tokens of a prompt."""
        return self.requests.input

    @property
    def output(self) -> Count:
        """Tokens of an answer."""
        return self.requests.output

    @cached_property
    def cached(self) -> Count:
        """Tokens of a prompt that are found in the prefix cache."""
        return self.requests.cached

    @cached_property
    def drafting(self) -> Drafting | None:
        """What drafts tokens for decode steps to verify, None without drafts."""
        return self.requests.drafting(self.asked)

    @cached_property
    def capacity(self) -> Count:
        """Requests that all replicas hold to their last token, 0 where not even one fits."""
        fitting = sequences_held(self.asked, self.drafting, self.input + self.output, MOST_IN_FLIGHT)
        return fitting * self.asked.layout.dp

    @property
    def groups(self) -> Count:
        """Groups of requests that never share a step: one for each replica and each pipeline stage."""
        return self.asked.layout.dp * self.asked.layout.pp

    @cached_property
    def places(self) -> Count:
        """Most requests of a group that run at once."""
        whole = self.capacity // self.asked.layout.dp
        return places_of(self.asked, self.drafting, self.requests.kept_by(self.asked.engine), whole)

    @cached_property
    def source(self) -> Array:
        """Seconds in which the encoder reads the source of one prompt; 0 for a model without a source."""
        return source_seconds(self.asked.plan, np.asarray(self.input - self.cached, dtype=float))

    def again(self, prompt: Array) -> Array:
        """Prompts that a request computes again after preemption, where requests always wait for memory.

        A finished answer frees its O tokens at once and new requests are admitted in their place. Requests that are
        still growing take half of it back, fewer where several requests finish in each step. Each that gives way frees
        its state, and what it holds of prompt and answer, P + O/2 tokens on average, and computes these again, its
        source included. `prompt`: seconds of a step with one prompt. 0 for an engine that reserves or expects room for
        answers.
        """
        engine = self.asked.engine
        if engine.reserves or engine.expects:
            return np.zeros(())
        few = self.places < running_at_once(engine, self.asked.layout.pp, self.width)
        share = np.minimum(1.0, self.steps / (2 * np.asarray(self.places)))
        one = memory_with(self.asked, self.drafting, 1, self.input + self.output)
        grown = self.output / 2
        present = self.input - self.cached + grown
        freed = one.cache / (self.input + self.output) * present + one.state
        times = share * one.cache / (self.input + self.output) * grown / np.maximum(freed, 1.0)
        source = self.source / prompt
        return np.asarray(np.where(few, times * (source + (1 - source) * present / (self.input - self.cached)), 0.0))

    @cached_property
    def nodes(self) -> Any:
        """Numbers of decodes at which steps are timed, along the first axis: 0, 1, …, the most that run at once."""
        parts = (self.context, self.cached, self.requests.prompts_vary, self.places, self.groups)
        shape = np.broadcast_shapes((1,) * self.axes, self.asked.layout.shape, *map(np.shape, parts))
        highest = np.broadcast_to(np.asarray(self.places, dtype=float), shape)
        return np.concatenate([np.zeros((1, *shape)), _spaced(highest, DECODES)])

    @property
    def width(self) -> int:
        """Tokens that a decode step computes for each sequence: one, or one more than the drafts it verifies."""
        return 1 if self.drafting is None else self.drafting.width

    @cached_property
    def steps(self) -> Array:
        """Mean number of decode steps of a request after its first token."""
        more = self.output - 1
        return np.asarray(more if self.drafting is None else self.drafting.steps(more), dtype=float)

    @property
    def share(self) -> Array:
        """Decode steps per token after the first; for answers of one token, what a further token would take."""
        one = 1 if self.drafting is None else 1 / self.drafting.speculation.tokens_per_step
        return np.where(np.asarray(self.output) > 1, self.steps / np.maximum(self.output - 1, 1), one)

    @property
    def context(self) -> Count:
        """Mean number of tokens in the KV cache of a request that decodes."""
        return self.requests.context

    @cached_property
    def proposed(self) -> Span:
        """Seconds that proposing drafts takes before a step, at the nodes; at node 0 for one sequence."""
        return NOTHING if self.drafting is None else self.drafting.proposed(np.maximum(self.nodes, 1.0), self.context)

    @cached_property
    def alone(self) -> Span:
        """Seconds of decode-only steps at the nodes, drafting included; at node 0 for one sequence."""
        one, width = np.maximum(self.nodes, 1.0), self.width
        step = decode_of(one, self.context, width)
        return launched(self.asked.plan, step, self.asked.engine.host(one, one * width)) + self.proposed

    @cached_property
    def encoded(self) -> Span:
        """Seconds in which the vision tower encodes the images of a prompt, in the steps that compute it."""
        return encoding(self.asked.plan, self.requests.images)

    @cached_property
    def table(self) -> ReplicaTimes:
        """Step times at a few numbers of decodes and prompts, at the mean context."""
        engine, plan = self.asked.engine, self.asked.plan
        nodes = self.nodes
        shape = nodes.shape[1:]
        fresh = np.broadcast_to(np.asarray(self.input - self.cached, dtype=float), shape)
        varied = np.broadcast_to(self.requests.prompts_vary, (1, 1, *shape))
        longest = self.input + self.output
        chunks, chunk = chunked(fresh, self.cached, engine.chunk, longest, varied)
        context, width = self.context, self.width
        left = np.maximum(engine.chunk - (width * nodes if engine.mixes else 0 * nodes), 1.0)
        per_step = left / fresh
        if not engine.splits:
            per_step = np.where(chunks > 1, 1 / chunks, np.floor(per_step))
        room = np.where(chunks > 1, 1.0, np.maximum(per_step, 1.0))
        batches = _spaced(np.ceil(room.max(axis=0)), BATCHES)
        beside = nodes if engine.mixes else np.zeros((1, *shape))
        draft = None if self.drafting is None else self.drafting.plan
        mixed = mixed_seconds(plan, chunk, batches[:, np.newaxis], context, beside[np.newaxis], width, draft)
        before = np.where(beside > 0, self.proposed.expected, 0.0)
        encoded = np.asarray(self.encoded.expected) / chunks
        mixed = np.broadcast_to(mixed + before + encoded * batches[:, np.newaxis], (BATCHES, *nodes.shape))
        parts = np.asarray(PARTS).reshape(-1, *(1 for _ in nodes.shape))
        tokens = np.maximum(np.ceil(np.where(chunks > 1, engine.chunk, fresh) * parts), 1.0)
        later = ((1 + varied[0]) * fresh - tokens) / 2  # tokens before a piece, anywhere in its prompt
        if not engine.splits:
            # without splits a piece is the rest of its prompt; from 3/4 of a chunk on it counts as a full one
            full = (np.floor(fresh / engine.chunk + 1 / 4) - 1) / 2 * engine.chunk
            later = np.where(parts < 1, fresh - tokens, np.maximum(full, 0.0))
        some = Prompts(tokens, self.cached + np.floor(np.where(chunks > 1, later, 0.0)), chunk.longest)
        partly = mixed_seconds(plan, some, 1, context, beside[np.newaxis], width, draft) + before
        partly = partly - np.where(chunks > 1, 0.0, self.source) * (1 - parts)  # whole in `partly`
        partly = np.broadcast_to(partly + encoded * parts, (len(PARTS), *nodes.shape))
        alone, squared = np.where(nodes > 0, self.alone.expected, 0.0), np.zeros(())
        if np.any(varied > 0):  # over varying lengths E[L²] = (1 + v)·m², for a prompt of mean length m²
            longer = np.clip(1 - partly[-1, 0] / mixed[0, 0], 0.0, 1.0)
            squared = np.minimum(longer * (1 + 1 / np.maximum(varied[0, 0], 1e-12)), 1.0)
        if np.any((chunks > 1) & (varied > 0)):
            first = mixed_seconds(plan, replace(some, cached=self.cached), 1, context, 0, width, draft)[-1, 0]
            squared = np.where(chunks > 1, np.clip(1 - first / partly[-1, 0], 0.0, 1.0), squared)
        pieces = None
        if np.any(np.asarray(self.asked.layout.in_step) > 1) and np.any(per_step[0] < FEW_FULL):
            pieces = pieces_of(
                lambda each: mixed_seconds(plan, each, 1, context, 0, width, draft) + encoded,
                fresh, self.cached, engine.chunk, self.requests.longest or np.inf, varied[0], engine.splits,
            )  # fmt: skip
        return ReplicaTimes(
            nodes, alone, batches, mixed, room, per_step, chunks, partly, engine.mixes, engine.ahead,
            self.again(chunks * partly[-1, 0]), squared, self.requests.prompts_vary,
            self.requests.answers_vary, pieces, prompt_steps(fresh, engine.chunk, varied[0, 0]) - chunks,
        )  # fmt: skip

    @cached_property
    def own_prompt(self) -> Array:
        """Seconds of a lone prompt at the speed of light, averaged over the lengths of prompts."""
        varied = np.broadcast_to(self.requests.prompts_vary, self.table.decodes.shape[1:])
        lone = Prompts(self.input - self.cached, self.cached, self.input, varied).drawn(1)
        seconds = np.asarray(self.asked.plan.total(changed(decode(1, 1), (Queries(*lone, 1),))).floor)
        return mean_of(seconds + self.encoded.floor, varied)

    @cached_property
    def fastest(self) -> Count:
        """Highest rate of all replicas together, requests per second: that of replicas with every place taken."""
        return lasting(self.table, self._highest) * self.groups

    @cached_property
    def _highest(self) -> Array:
        """`highest_rate` of a replica whose ranks in lock step all have users."""
        late = self.asked.engine.before(self.input)
        return highest_rate(self.table, self.steps, late, self.asked.layout.in_step - 1)

    def _rules(self, loads: Count) -> tuple[tuple[int, ...], Iterator[tuple[StepRules, StepTable, int, float]]]:
        """The broadcast shape of all settings; for each element the scheduler, step times, groups and load."""
        t, engine = self.table, self.asked.engine
        numbers = (loads, self.groups, self.output, self.input - self.cached, self.places, engine.before(self.input))
        shape = np.broadcast_shapes(t.decodes.shape[1:], *map(np.shape, numbers))

        def elements() -> Iterator[tuple[StepRules, StepTable, int, float]]:
            flat = [np.broadcast_to(np.asarray(n), shape).reshape(-1).tolist() for n in numbers]
            tables = [_columns(values, shape) for values in (t.decodes, t.alone, t.prompts, t.mixed, t.partly)]
            for i, (load, groups, out, new, places, late) in enumerate(zip(*flat, strict=True)):
                decodes, alone, prompts, mixed, partly = (values[..., i].tolist() for values in tables)
                if new > engine.chunk:
                    prompts, mixed = [], []
                table = StepTable(decodes, alone, [*PARTS, *prompts[1:]], [*partly, *mixed[1:]])
                piece = min(new, engine.chunk)
                scheduler = (engine.chunk, int(places), engine.mixes, engine.splits, engine.ahead)
                drawn = None
                if self.drafting is not None and out > 1:
                    drawn = step_quantiles(*self.drafting.chances, int(out) - 1)
                yield StepRules(new, piece, out - 1, late, *scheduler, self.width, drawn), table, int(groups), load

        return shape, elements()

    @property
    def in_step(self) -> Array:
        """Whether users who start together stay in lock step: the engine keeps it and their requests are equally long.

        False where the opening burst is computed separately (`rounds`).
        """
        return np.asarray(self._equally_long & (self.asked.engine.keeps_step and self.rounds is None))

    @property
    def _equally_long(self) -> Array:
        """Whether all requests are."""
        return np.asarray((np.asarray(self.requests.prompts_vary) == 0) & (np.asarray(self.requests.answers_vary) == 0))

    def _in_cohorts(self, everyone: Count) -> Array:
        """Whether equally long requests of so many users are followed although the engine does not keep them in step.

        Those whose prompts share a step stay together for a while. Where a user has a group to himself, ranks share
        steps or drafts are random, other methods answer.
        """
        mine = np.asarray(everyone / self.groups)
        few = (mine > 1) & (np.minimum(mine, self.places) <= CROWD) & (np.asarray(self.asked.layout.in_step) == 1)
        other = self.asked.engine.keeps_step or self.rounds is not None or self.drafting is not None
        return np.asarray(self._equally_long & few & (self.follows and self._calibrated and not other))

    def together(self, everyone: Count) -> Serving:
        """A closed loop of `everyone` equally long requests that all start together."""
        return self._serving(everyone, self._together(everyone))

    def _together(self, everyone: Count, apart: Count = 0.0) -> Circumstances:
        """Follow equally long requests of users whose first ones are so many seconds apart in each group."""
        shape, elements = self._rules(everyone)
        layout = self.asked.layout
        numbers = (layout.in_step, layout.pp, apart)
        together = (np.broadcast_to(v, shape).reshape(-1).tolist() for v in numbers)
        seen = [
            (Loop(rules, table, n, in_step, turns, late).seen(int(users)), rules)
            for (rules, table, n, users), in_step, turns, late in zip(elements, *together, strict=True)
        ]
        rate = _shaped([s.number.sum() for s, _ in seen], shape)
        _, tpot, percentiles, drawn = self._told(seen, shape)
        return Circumstances(self._first(everyone / rate, tpot), tpot, rate, percentiles, drawn)

    def _circulating(self, these: Array, everyone: Count, rate: Count) -> Circumstances:
        """Follow equally long requests of users of `these` servers, who start one after another, within a round at so
        many a second; of others, of no meaning. Where more come than memory holds, parts of prompts are recomputed."""
        everyone = where(these, everyone, self.groups)
        seen = self._together(everyone, self.groups / rate)
        lasts = lasting(self.table, np.asarray(seen.rate / self.groups)) * self.groups
        return self._paced(seen, everyone, where(everyone > self.places * self.groups, lasts, seen.rate))

    def _first(self, latency: Count, tpot: Count) -> Count:
        """TTFT, from when the scheduler sees a request: its latency without the front end and the decode steps."""
        return latency - self.asked.engine.before(self.input) - (self.output - 1) * tpot

    def _told(
        self, seen: Sequence[tuple[Answers, StepRules]], shape: tuple[int, ...]
    ) -> tuple[Count, Count, Percentiles, Count]:
        """Summarize the requests that were followed: mean TTFT from when the scheduler sees a request, mean TPOT,
        percentiles, and decode steps per token after the first."""
        steps = [max(1, rules.more) for _, rules in seen]
        ttft = _shaped([s.mean(s.first) for s, _ in seen], shape)
        tpot = _shaped([s.mean(s.after) / n for (s, _), n in zip(seen, steps, strict=True)], shape)
        parts = (
            [s.quantiles(s.first + rules.late, SHARES) for s, rules in seen],
            [s.quantiles(s.after / n, SHARES) for (s, _), n in zip(seen, steps, strict=True)],
            [s.quantiles(s.first + rules.late + s.after, SHARES) for s, rules in seen],
        )
        first, following, whole = (Tail(*(_shaped(column, shape) for column in np.array(part).T)) for part in parts)
        drawn = _shaped([s.mean(s.steps) / n for (s, _), n in zip(seen, steps, strict=True)], shape)
        step = self.table.alone[1] * self.share  # of answers of one token, which no other follows
        tpot, following = where(self.output > 1, tpot, step), following.each(lambda s: where(self.output > 1, s, step))
        return ttft, tpot, Percentiles(first, following, whole), where(self.output > 1, drawn, self.share)

    def at(self, everyone: Count) -> Serving:
        """A closed loop of `everyone` requests in no particular order, or in lock step where the engine keeps it."""
        together, short = self.in_step, self._short(everyone / self.groups, closed=True)
        if self.drafting is not None:  # some drafts are right, and requests fall out of step
            together = together & ~short
        if together.all():
            return self.together(everyone)
        means = self.in_no_order(everyone)
        if (cohorts := self._in_cohorts(everyone)).any():  # as in a simulation, all start within a round
            means = self._circulating(cohorts, everyone, means.rate).chosen(cohorts, means)
        if (short := short & ~together).any():
            seen = self._followed(short, everyone, 1, closed=True)
            means = self._shrunk(seen, everyone, means.rate).chosen(short, means)
        return self._serving(everyone, self._together(everyone).chosen(together, means) if together.any() else means)

    # -- short answers, followed ---------------------------------------------------------------------------------------
    def _short(self, present: Count, closed: bool = False) -> Array:
        """Whether answers are so short that the scheduler is followed, with about `present` requests in each group, in
        an open or a `closed` loop."""
        in_step, load, drafts = self.asked.layout.in_step, self.requests.load, self.drafting is not None
        mixes, law = self.asked.engine.mixes, self.asked.plan.target.mode
        short = answers_are_followed(self.output, in_step, load, closed, drafts, law, mixes)
        if closed:  # a user who has a group to himself waits for nobody, and lengths of one token do not vary
            varies = (
                (np.asarray(self.requests.prompts_vary) > 0) | (np.asarray(self.requests.answers_vary) > 0) | drafts
            )
            short = short & ((np.asarray(in_step) > 1) | (np.asarray(present) > 1) & varies)
        few = np.minimum(present, self.places) <= CROWD
        return np.asarray(short & few & (self.rounds is None) & self.follows)

    def _followed(self, these: Array, load: Count, turns: Count, closed: bool) -> Circumstances:
        """What requests of `these` servers see at a rate, or with so many users where the loop is `closed`, element by
        element; of others, of no meaning.

        A server is followed at a few loads. Between these, figures are linear in the number of users, and at a rate in
        the load ρ/(1 − ρ).
        """
        shape = np.broadcast_shapes(self.table.decodes.shape[1:], *map(np.shape, (these, self.steps, load, turns)))
        followed, loads, each = (np.broadcast_to(np.asarray(n), shape).reshape(-1) for n in (these, load, turns))
        rows = np.ones((len(followed), 3 + 3 * len(SHARES)))
        places = [int(i) for i in np.flatnonzero(followed)]
        servers = [self.element(i, shape) for i in places]
        taking = [0 if closed else TURNS[int(np.searchsorted(TURNS, each[i], "right")) - 1] for i in places]
        wanted = dict[tuple[Server, int], set[int]]()
        for i, server, taken in zip(places, servers, taking, strict=True):
            near = server.users_near(float(loads[i])) if closed else server.loads_near(float(loads[i]))
            wanted.setdefault((server, taken), set()).update(near[:2])
        for (server, taken), these_loads in wanted.items():
            server.known(taken, these_loads)
        for i, server, taken in zip(places, servers, taking, strict=True):
            rows[i] = server.with_users(float(loads[i])) if closed else server.at_load(float(loads[i]), taken)
        ttft, tpot, longer, *tails = (_shaped(list(c), shape) for c in rows.T)
        first, following, whole = (Tail(*tails[n : n + len(SHARES)]) for n in range(0, len(tails), len(SHARES)))
        rate = load
        if closed:
            rate = load / (self.asked.engine.before(self.input) + ttft + (self.output - 1) * tpot * longer)
        return Circumstances(ttft, tpot, rate, Percentiles(first, following, whole, True), self.share, longer)

    def _shrunk(self, seen: Circumstances, everyone: Count, rate: Count) -> Circumstances:
        """What requests of a closed loop see, where a difference of their rate from the formula's within its sampling
        error is none, and one far beyond it is as it is: d·(1 − (error/d)²) is left of d (the non-negative garrote; Gao
        1998, doi:10.1080/10618600.1998.10474789).

        As many decode as were seen, since their number, rate · (O − 1) · TPOT by Little's law, varies far less than the
        rate itself. By an ideal law steps take exactly the speed of light, and nothing is scaled.
        """
        if not self._calibrated:
            return seen
        apart = seen.rate / rate - 1
        known = rate * (1 + apart * np.maximum(1 - UNSURE**2 / np.maximum(apart**2, 1e-300), 0.0))
        return self._paced(seen, everyone, known)

    def _paced(self, seen: Circumstances, everyone: Count, rate: Count) -> Circumstances:
        """What requests of a closed loop see at another rate, where steps take that much longer and as many decode."""
        slower, before = seen.rate / rate, self.asked.engine.before(self.input)
        tpot = seen.tpot * slower
        ttft = everyone / rate - before - (self.output - 1) * tpot * seen.longer
        later, p = (before + ttft) / (before + seen.ttft), seen.percentiles

        def scaled(tail: Tail, by: Count) -> Tail:
            return tail.each(lambda seconds: seconds * by)

        first, following, whole = scaled(p.ttft, later), scaled(p.tpot, slower), scaled(p.latency, slower)
        return replace(
            seen, ttft=ttft, tpot=tpot, rate=rate, percentiles=Percentiles(first, following, whole, p.approximate)
        )

    def first_token(self, rate: Count, turns: Count) -> tuple[Array, Count]:
        """Whether servers are followed at a rate, and mean seconds from when the scheduler sees a request to its first
        token if they are. `turns`: as in `at_rate`."""
        seen = self.open_loop(rate, turns).answer()
        these = self._short(rate * (seen.ttft + self.steps * seen.following) / self.groups)
        if not these.any():
            return these, seen.ttft
        return these, self._followed(these, rate, turns, closed=False).ttft

    def is_followed_with(self, everyone: Count) -> Array:
        """Whether so many users are followed."""
        return self._short(everyone / self.groups, closed=True)

    def followed_rate(self, everyone: Count) -> Count:
        """Requests per second of so many users of a server that is followed with them."""
        return self._followed(self.is_followed_with(everyone), everyone, 1, closed=True).rate

    def loads_near(self, rate: float) -> tuple[int, int, float]:
        """The places in `LOADS` between which a rate is, and its share of the way, as waits grow."""
        load = min(rate / float(self.fastest), LOADS[-1])
        place = min(max(int(np.searchsorted(LOADS, load, "right")) - 1, 0), len(LOADS) - 2)
        own, before, behind = (share / (1 - share) for share in (load, *LOADS[place : place + 2]))
        return place, place + 1, max((own - before) / (behind - before), 0.0)

    def users_near(self, everyone: float) -> tuple[int, int, float]:
        """The numbers of users of the ranks that run every step together, between which so many of all are, and their
        share of the way."""
        ranks = int(self.asked.layout.in_step)
        mine = max(1.0, everyone / int(self.groups) * ranks)
        low, high = neighbouring_users(mine, ranks, self._certain)
        return low, high, (mine - low) / (high - low) if high > low else 0.0

    def at_load(self, rate: float, turns: int) -> Array:
        """`figures` of a server of one setting that is followed at a rate."""
        low, high, part = self.loads_near(rate)
        known = self.known(turns, (low, high))
        return np.asarray(known[low] + part * (known[high] - known[low]))

    def with_users(self, everyone: float) -> Array:
        """`figures` of a server of one setting that is followed with so many users."""
        low, high, part = self.users_near(everyone)
        self.known(0, (low, high) if part > 0 else (low,))
        figures = self._settled(low)
        if part > 0:
            figures = figures + part * (self._settled(high) - figures)
        return np.asarray(figures)

    def known(self, turns: int, loads: Collection[int]) -> Mapping[int, Array]:
        """`figures` of a server of one setting at places in `LOADS`, or with so many users of the ranks that run every
        step together where `turns` is 0. All that are not known yet are followed at once."""
        known = _known_figures(self, turns)
        wanted = set(loads) if turns else set(map(self._followed_users, loads))
        if left := sorted(wanted - known.keys()):
            group = self.group(max(turns, 1))
            samples = (self._at_place(group, n, turns) if turns else self._of_users(group, n) for n in left)
            for n, seen in zip(left, group.followed(samples), strict=True):
                known[n] = self.figures(seen, 0 if turns else n // min(n, group.ranks))
        return known

    def _at_place(self, group: RankGroup, place: int, turns: int) -> FollowedLoad:
        """Requests of a rank group at one of `LOADS`."""
        rate = LOADS[place] * float(self.fastest)
        means = self.open_loop(rate, turns).answer()
        mine = rate / int(self.groups)
        decoding = mine * float(self.steps * means.following)
        return group.at_rate(rate * turns, LOADS[place], decoding + mine * float(means.ttft), decoding)

    def _of_users(self, group: RankGroup, users: int) -> FollowedLoad:
        """Requests of so many users of a rank group."""
        return group.of_users(users, *self.circulating(users * int(self.groups) / group.ranks))

    def _settled(self, users: int) -> Array:
        """`figures` with so many users of the ranks that run every step together.

        From `QUEUED` users for each place on, every place is taken, and from as many for each that fills all steps with
        prompts on, these are full. More users only wait: the rate stays, and by Little's law waits are that much
        longer.
        """
        most = self._followed_users(users)
        figures = self.known(0, (users,))[most]
        if users <= most:
            return figures
        ttft, tpot, longer, *tails = figures
        round_s = float(self.asked.engine.before(self.input)) + ttft + (self.output - 1) * tpot * longer
        later = (users / most - 1) * round_s
        first, following, whole = np.array(tails).reshape(3, -1)
        return np.array([ttft + later, tpot, longer, *(first + later), *following, *(whole + later)])

    def _followed_users(self, users: int) -> int:
        """Users of the ranks that run every step together who are followed instead of so many: no more than
        `_most_users`, which are more where half of these do not fill all steps."""
        if self.asked.engine.mixes and users < int(self.places) * int(self.asked.layout.in_step):
            few = users // QUEUED
            if not few or not self._fills(few):
                return users
        return min(users, self._most_users)

    @cached_property
    def _most_users(self) -> int:
        """Users of the ranks that run every step together who are followed at most."""
        return neighbouring_users(QUEUED * self._filling, int(self.asked.layout.in_step), self._certain)[1]

    @cached_property
    def _filling(self) -> int:
        """Users of the ranks that run every step together from which on the formula's rate is the highest, within a
        fifth; no more than their places, and as many as these where decodes wait for all prompts."""
        few, many = 1, int(self.places) * int(self.asked.layout.in_step)
        while self.asked.engine.mixes and many > 1.2 * few + 1:
            middle = int(np.sqrt(few * many)) + 1
            few, many = (few, middle) if self._fills(middle) else (middle, many)
        return many

    def _fills(self, users: int) -> bool:
        """Whether the formula's rate is the highest with so many users of the ranks that run every step together."""
        everyone = users * int(self.groups) / int(self.asked.layout.in_step)
        return float(self.with_users_in_no_order(everyone)) >= float(self.fastest) * (1 - 1e-6)

    def circulating(self, everyone: float) -> tuple[float, float]:
        """Seconds of a round of a closed loop, and requests of a rank that decode, by the formula."""
        means = self.in_no_order(max(1, round(everyone)))
        rate = float(means.rate)
        return everyone / rate, rate / int(self.groups) * float((self.output - 1) * means.tpot * means.longer)

    @property
    def _calibrated(self) -> bool:
        return self.asked.plan.target.mode == CALIBRATED

    @property
    def _certain(self) -> bool:
        """Whether nothing is random: all requests are alike."""
        r = self.requests
        varies = np.any(np.asarray(r.prompts_vary)) or np.any(np.asarray(r.answers_vary))
        return self.drafting is None and not varies

    def figures(self, seen: RequestTimes, users: float = 0.0) -> Array:
        """What requests see of a server of one setting: mean TTFT from when the scheduler sees them, mean TPOT,
        `Circumstances.longer`, and percentiles of TTFT, TPOT and latency.

        Means are those of a request alone by the formula, and what company adds to the requests that were followed.
        """
        several, more = seen.output > 1, np.maximum(seen.output - 1, 1)
        alone = self.open_loop(LOADS[0] * float(self.fastest), 1 / int(self.groups)).answer()  # whoever takes turns
        scale = float(alone.ttft) / float(
            seen.first_alone.mean()
        )  # as much longer are the prompts that others wait for
        ttft = float(alone.ttft) + scale * float((seen.first - seen.first_alone).mean())
        tpot, longer = float(alone.tpot * self.share), 1.0
        following = np.full(len(SHARES), tpot)
        if several.any():
            each, added = (seen.after / more)[several], ((seen.after - seen.after_alone) / more)[several]
            tpot, following = tpot + scale * float(added.mean()), np.quantile(each, SHARES)
            added_each = scale * float((seen.after - seen.after_alone).sum() / (seen.output - 1).sum())
            longer = (float(alone.following * self.share) + added_each) / tpot
        first = seen.late + seen.first
        if users and seen.between:  # by Little's law
            added_s = scale * (users * seen.between - seen.lone)
            if several.any():
                after = float(alone.ttft) + (self.output - 1) * float(alone.following * self.share) + added_s - ttft
                longer = float(after / ((self.output - 1) * tpot))
            else:
                ttft = float(alone.ttft) + added_s
        whole = np.quantile(seen.latency, SHARES)
        return np.array([ttft, tpot, longer, *np.quantile(first, SHARES), *following, *whole])

    def element(self, i: int, shape: tuple[int, ...]) -> Server:
        """The server of one of many settings, which broadcast to `shape`, by its place among these."""
        if not shape:
            return self

        def each(settings: Any) -> Any:
            given = {f.name: getattr(settings, f.name) for f in fields(settings)}
            arrays = {name: np.broadcast_to(v, shape).reshape(-1)[i].item() for name, v in given.items() if is_array(v)}
            return replace(settings, **arrays)

        deployment = replace(self.asked.deployment, layout=each(self.asked.layout))
        asked = replace(self.asked, deployment=deployment)
        return known_server(asked, replace(self.requests, load=each(self.requests.load)), 0, None)

    def group(self, turns: int = 1) -> RankGroup:
        """The ranks that run every step together, of a server of one setting, and their place among others."""
        asked, engine, r, groups = self.asked, self.asked.engine, self.requests, int(self.groups)
        bound = (r.longest or LONGEST) if r.load.input_cv or r.load.output_cv else int(self.input + self.output)
        stages, room = int(asked.layout.pp), None
        fits = int(self.capacity) >= groups  # where not one does, times ignore the memory
        if fits and int(self.places) < running_at_once(engine, stages, self.width):
            room = room_of(asked, stages, int(self.input + self.output), self.drafting)
        policy = policy_of(asked, stages, room or Room(0.0, 0.0), self.width)
        policy = replace(policy, running=min(policy.running, CROWD), expects=LEAST_EXPECTED * engine.expects)
        running = policy.running
        vary = (float(r.load.input_cv * r.load.input / r.input), float(r.load.output_cv))  # images are of one size
        times = _step_arrays(asked, self.drafting, running, bound)
        late = (float(engine.before(0)), float(engine.before(1)))
        return RankGroup(
            times, policy, int(self.input), int(self.output), vary, bound,
            late, float(self.cached), float(self.encoded.expected), groups * turns, int(asked.layout.in_step),
            stages, None if self.drafting is None else self.drafting.chances, room, self._certain,
        )  # fmt: skip

    def in_no_order(self, everyone: Count) -> Circumstances:
        mine = np.asarray(most(1.0, everyone / self.groups))
        rate, step, own = self._circulation(everyone)
        tpot, longer = own * self.share, step / own
        latency = mine / rate
        ttft, every = self._first(latency, step * self.share), everyone / latency
        if self.rounds is not None:
            ttft = ttft + opening(self.table, np.minimum(mine, self.table.decodes[-1]), np.asarray(self.rounds))
            ttft = ttft + self._queued_at_host(everyone) / self.rounds
        alone = np.maximum(1 - 1 / np.maximum(everyone / self.groups, 1.0), 0.0)
        percentiles = self._approximate(alone, ttft, tpot, every, latency, longer)
        return Circumstances(ttft, tpot, every, percentiles, self.share, longer)

    def _circulation(self, everyone: Count) -> tuple[Array, Array, Array]:
        """`closed_loop` of each group with so many users of all of them."""
        mine = np.asarray(most(1.0, everyone / self.groups))
        in_step = self.asked.layout.in_step
        company = np.maximum(np.minimum(in_step, everyone / self.groups * in_step) - 1, 0.0)
        before, (*_, weight) = self.asked.engine.before(self.input), self.requests.answered
        highest = self._highest if np.all(company == in_step - 1) else None
        return closed_loop(self.table, mine, self.steps, before, company, weight, highest)

    def with_users_in_no_order(self, everyone: Count) -> Array:
        """Requests per second of a closed loop of so many requests, by the formula."""
        return np.asarray(self._circulation(everyone)[0] * least(self.groups, everyone))

    def _queued_at_host(self, everyone: Count) -> Count:
        """Mean seconds that the first requests of a replica's users queue for its host, when all are sent at once."""
        engine, users = self.asked.engine, np.asarray(self.asked.deployment.share(everyone))
        return engine.before(self.input) * np.maximum(users - 1, 0) / 2 if engine.queues else 0.0

    def at_rate(self, rate: Count, formula: bool = True, turns: Count = 1) -> Serving:
        """An open loop: requests arrive at random, `rate` per second.

        With `formula` the means follow from queueing theory; without it equally long requests are followed step by
        step. `turns`: identical deployments that receive requests in turn; `rate` is the share of this one. Raises
        InputError for a rate beyond what the server can take.
        """
        if np.any(np.asarray(self.fastest < rate)):
            slowest, asked = np.min(np.asarray(self.fastest)), np.max(np.asarray(rate))
            flight = np.max(np.asarray(self.places * self.groups))
            expected = f"at most {slowest:.3g} requests a second, what this server takes with {flight} in flight"
            raise InputError("rate", asked.item(), expected)
        seen, lighter = (self.open_loop(each, turns).answer() for each in (rate, rate * (1 - LIGHTER)))
        steeper = [_steepness(getattr(seen, name), getattr(lighter, name)) for name in ("ttft", "tpot")]
        share: Count = self.share
        ttft: Count = seen.ttft
        tpot: Count = seen.tpot * share
        longer: Count = seen.following / seen.tpot
        if formula:
            apart = np.asarray(self.asked.layout.in_step) == 1  # ranks in step wait for the arrivals of all
            uneven = np.where(apart, 1 / np.asarray(self.groups * turns), 1.0)
            percentiles = self._approximate(1.0, ttft, tpot, rate, np.inf, longer, uneven, seen)
            present = rate * (ttft + (self.output - 1) * tpot * longer) / self.groups
            if (short := self._short(present)).any():
                means = Circumstances(ttft, tpot, rate, percentiles, share, longer)
                means = self._followed(short, rate, turns, closed=False).chosen(short, means)
                ttft, tpot, percentiles, longer = means.ttft, means.tpot, means.percentiles, means.longer
        else:
            longer = 1.0
            ttft, tpot, percentiles, share = self._sampled(rate, rate * (ttft + (self.output - 1) * tpot), turns)
        whole = self.asked.engine.before(self.input) + ttft + (self.output - 1) * tpot * longer
        present = np.ceil(rate * whole - 1e-9).astype(np.int64)
        shape = np.broadcast_shapes(np.shape(ttft), np.shape(rate))
        flight = np.broadcast_to(present, shape) if shape else int(present)
        return self._serving(flight, Circumstances(ttft, tpot, rate, percentiles, share, longer), steeper)

    def open_loop(self, rate: Count, turns: Count) -> Open:
        groups = np.asarray(self.groups)
        uneven, fastest = np.asarray(1 / (groups * turns)), np.asarray(self.fastest / groups)
        varied = np.asarray(self.requests.prompts_vary)
        company = np.asarray(self.asked.layout.in_step - 1)
        several, two, weight = self.requests.answered
        rates = (np.asarray(rate / groups), self.steps, uneven, fastest)
        return Open(self.table, *rates, varied, company, several=several, two=two, weight=weight)

    def _approximate(
        self, others: Count, ttft: Count, tpot: Count, rate: Count, round: Count, longer: Count = 1.0,
        uneven: Count = 1.0, seen: RateMeans | None = None,
    ) -> Percentiles:  # fmt: skip
        """Approximate percentiles around the means of the formula."""
        more = self.output - 1
        varied = 0.0 if self.drafting is None else self.drafting.varied(more)
        vary = (self.requests.prompts_vary, self.requests.answers_vary)
        before = self.asked.engine.before
        step, (*_, weight) = tpot / self.share, self.requests.answered
        means = (others, before(self.input), before(1), ttft, tpot, more)
        spreads: tuple[Count, ...] = (0.0, uneven, 0.0, 0.0, 0.0)
        if seen is not None:
            spread, by_length = seen.spread * self.share**2, seen.spread_by_length * self.share**2
            spreads = (spread, uneven, seen.variance, seen.by_length, by_length)
        numbers = (*means, varied, step, round, *vary, longer, *spreads, self.asked.layout.in_step, weight)
        steady = Steady(np.asarray(rate / self.groups), *(np.asarray(n, dtype=float) for n in numbers))
        shape = np.broadcast_shapes(self.table.decodes.shape[1:], np.shape(ttft), np.shape(rate))
        return Chances(self.table, steady).percentiles.shaped(shape)

    def _sampled(self, rate: Count, present: Count, turns: Count) -> tuple[Count, Count, Percentiles, Count]:
        """Follow a sample of requests and summarize it as `_told` does; `present`: requests expected in flight."""
        shape, elements = self._rules(rate)
        numbers = (present / self.groups, rate / self.fastest, self.asked.layout.in_step)
        present, load, in_step = (np.broadcast_to(v, shape).reshape(-1) for v in numbers)
        seen = []
        for i, (rules, table, groups, arriving) in enumerate(elements):
            counted = int(LEAST / (1 - min(load[i], 0.9)))
            settling = int(min(counted / 2, SETTLING) + 3 * present[i])
            counts = (groups * int(turns), settling, counted, int(in_step[i]))
            seen.append((at_random(rules, table, arriving / groups, *counts), rules))
        return self._told(seen, shape)

    def _serving(self, flight: Count, means: Circumstances, steeper: Sequence[Count] = (1.0, 1.0)) -> Serving:
        """The answer, as uncertain as a decode step and a step with a prompt.

        `steeper`: exponents with which TTFT and TPOT grow with the seconds of a step. In a closed loop users speed up
        with their steps; in an open loop slower steps also raise the load. The speed of light includes neither host nor
        waits: for TTFT it is the prompt alone, for TPOT the decode steps per token.
        """
        asked, engine, t = self.asked, self.asked.engine, self.table
        ttft, tpot, rate, percentiles, longer = means.ttft, means.tpot, means.rate, means.percentiles, means.longer
        shape = np.broadcast_shapes(np.shape(ttft), np.shape(tpot), np.shape(flight), np.shape(rate))
        busy = np.minimum(np.maximum(1.0, rate / self.groups * (self.output - 1) * tpot * longer), t.decodes[-1])
        decodes = rounded_down(busy + 0.5) if np.shape(busy) else int(busy + 0.5)
        steps = Span(*(t.at(np.asarray(end), busy) for end in self.alone.ends()))
        queries = (Queries(self.cached, self.input - self.cached, 1), Queries(self.context, self.width, decodes))
        prompt = launched(asked.plan, changed(decode(1, 1), queries[: 2 if engine.mixes else 1]), engine.host(decodes))
        share = np.clip(rate / self.groups * t.chunks * t.at(t.mixed[0] - t.base, busy), 0.0, 1.0)
        between = steps.times((1 - share) * tpot / steps.expected) + prompt.times(share * tpot / prompt.expected)
        host, alone = engine.before(self.input), t.lone
        alike = self._equally_long & (self.requests.load.rate is None)

        def first_token(whole: Count) -> Span:
            # first tokens that come early are those of short prompts
            own = host * least(whole / (host + ttft), 1.0)
            seconds = whole - own
            span = prompt.times(seconds / prompt.expected).steeper(steeper[0]) + exactly(own)
            return scattered(span, asked, own, most(seconds - alone, 0.0), alike).resting_on(self.own_prompt)

        first = first_token(host + ttft).shaped(shape)
        between = between.steeper(steeper[1]).resting_on(steps.floor * means.step_share).shaped(shape)
        percentiles = percentiles.within(
            first_token, between, first + between.times((self.output - 1) * longer)
        ).shaped(shape)
        return Serving(
            asked, self.requests, flight, self.capacity, first, between, shaped(share, shape), shaped(rate, shape),
            percentiles, self.rounds, shaped(np.asarray(longer), shape),
        )  # fmt: skip


@remembered(256)
def _known_figures(server: Server, turns: int) -> dict[int, Array]:
    """What `Server.known` has followed before."""
    return {}


@remembered(64)
def _step_arrays(asked: Setup, drafting: Drafting | None, running: int, longest: int) -> StepArrays:
    """The step times of a rank as arrays, of requests of up to `longest` tokens."""
    width, draft = (1, None) if drafting is None else (drafting.width, drafting.plan)
    return step_arrays(step_times(asked.plan, asked.engine.chunk, running, longest, width, draft), running)


def answers_are_followed(
    output: Count, in_step: Count, load: Load, closed: bool, drafts: bool, law: Mode, mixes: bool
) -> Array:
    """Whether servers of answers of so many tokens, on average, are followed step by step.

    `in_step`: ranks that run every step together. `mixes`: prompts share steps with decodes. Users of requests that are
    alike meet in the same steps for many rounds, as they began, which those of servers do not: where ranks step by
    themselves, the formula answers. So it does by an ideal law, where its steps are the speed of light.
    """
    alike = np.maximum(load.input_cv, load.output_cv) <= ALIKE
    formula = closed & (np.asarray(in_step) == 1) & (alike & (not drafts) | (law != CALIBRATED))
    if closed:
        several, one = SHORT, SHORT_USERS if mixes else FIRST_USERS
    else:
        several, one = SHORT if mixes else FIRST_IN_STEP, SHORT_APART
    longest = np.where(np.asarray(in_step) > 1, several, one)
    return np.asarray((np.asarray(output) <= longest) & ~formula)


known_server = remembered(64)(Server)
"""Servers, cached: one serves any number of requests of the same lengths, with its step times tabulated once."""


def _steepness(now: Count, then: Count) -> Count:
    """Elasticity d log T / d log s of a time T to the seconds s of a step.

    `now` is T at a rate λ, `then` at (1 − LIGHTER)·λ. Scaling all times gives T(λ, s·x) = x·T(λ·x, s), so that it
    equals 1 + d log T / d log λ.
    """
    ratio = np.asarray(now) / np.maximum(then, 1e-300)
    return np.asarray(1 + np.maximum(np.log(np.maximum(ratio, 1e-300)), 0.0) / -np.log1p(-LIGHTER))


def _shaped(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Numbers in the shape of the settings; a float for shape ()."""
    return np.array(values).reshape(shape) if shape else float(values[0])


def _columns(values: Any, shape: tuple[int, ...]) -> Any:
    """Flatten the last axes of a table, those of `shape`, into one."""
    first = values.shape[: values.ndim - len(shape)]
    return np.broadcast_to(values, (*first, *shape)).reshape(*first, -1)


def _spaced(highest: Count, number: int) -> Any:
    """Whole numbers from 1 to `highest` in about geometric progression, along a new first axis; some may be equal."""
    powers = np.linspace(0, 1, number).reshape(-1, *(1 for _ in np.shape(highest)))
    return np.rint(np.asarray(highest, dtype=float) ** powers)
