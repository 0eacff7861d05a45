"""A server in steady state: continuous batching, at a concurrency or at a request rate.

A replica's steps are tabled once, by the sequences that decode and the prompts that begin beside them (`mixed.py`).
Then requests are followed through the steps that the engine's scheduler puts together: whether prompts share a step
with decodes, how many tokens and sequences one takes (`course.py`). In closed form there is what becomes of requests
in no order, at many points at once (`queueing.py`). `roofline.simulate` does the same request by request, of any
lengths; `benchmarks/serve_against_simulate.py` compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.maths import Count, ceil_div, least, most, where
from roofline.declared.result import Flag, Units, Word
from roofline.distinct import Array
from roofline.estimates.closed import capacity_of, closed_loop
from roofline.estimates.cost import Spending, Spent
from roofline.estimates.course import Answers, Loop, StepRules, StepTable, at_random
from roofline.estimates.drafting import (
    MOST_IN_FLIGHT,
    Drafting,
    memory_with,
    places_of,
    running_at_once,
    sequences_held,
    step_quantiles,
)  # fmt: skip
from roofline.estimates.first_token import scattered
from roofline.estimates.generate import decode_of, launched
from roofline.estimates.memory import Memory
from roofline.estimates.mixed import Prompts, mean_of, mixed_seconds
from roofline.estimates.queueing import PARTS, Open, ReplicaTimes, opening
from roofline.estimates.requests import LoadAnswer, ServedLoad, rounded_down
from roofline.estimates.settings import Setup
from roofline.estimates.span import NOTHING, Span, exactly, shaped
from roofline.estimates.spending import SteadyLoad, server_spending
from roofline.estimates.step import Estimate, step_estimate
from roofline.estimates.tails import SHARES, Chances, Percentiles, Steady, Tail
from roofline.work.step import Queries, decode
from roofline.work.step import replace as changed

DECODES, BATCHES = 24, 10
"""Numbers of decodes and of prompts at which steps are timed; between them times are nearly linear."""
LEAST, SETTLING = 3000, 4000
"""Requests that are followed at a rate, of a server that is nearly idle; of a busy one as many over the idle share.
Half as many before, up to these, beside thrice those present."""
LIGHTER = 0.05
"""By what share a load is less, beside which it is seen how fast TTFT and TPOT grow with it."""


@dataclass(frozen=True, repr=False)
class Serving(Spent, LoadAnswer):
    """Steady state. Spans are in seconds; numbers or arrays.

    ttft: from arrival to the first token: the wait for the step under way, for prompts that came before or for a place,
    and the own prefill. tpot: mean time between a request's tokens after the first. latency: ttft + (output − 1)·tpot;
    at a rate at which answers vary, tpot is the mean of all requests' own, of which short ones have more, and latency
    has that of all tokens.
    `in_flight`: requests decoding, prefilling or waiting, of a rate their mean, rounded up; `capacity`: how many the
    memory of all replicas holds at their last token; an engine that keeps no room for whole answers runs more.
    `prefill_share`: the part of the server's work that is prompts. `percentiles`: of TTFT, TPOT and latency, of the
    formula by an approximation. `speculation`: what drafts tokens for decode steps to verify, null where nothing does.
    `images`: those of each request, null where it has none; their tokens are in `input`. `rounds`: requests of each
    user of a benchmark, whose opening is in TTFT, latency and their percentiles, null where none begins.
    """

    SCHEMA: ClassVar[str] = "roofline.serve/4"
    FIGURES: ClassVar[Units] = {
        **LoadAnswer.PLACE, **LoadAnswer.LENGTHS, "in_flight": "", "in_flight_per_replica": "", "capacity": "",
        "idle_replicas": "", "ttft": "s", "tpot": "s", "latency": "s", "percentiles": "s",
        "requests_per_second": "requests/s", "tokens_per_second": "tokens/s",
        "tokens_per_second_per_user": "tokens/s", "tokens_per_second_per_chip": "tokens/s", "prefill_share": "share",
        "decode_shares": "share", **Spent.BILLED, "memory": "B", "grade": "", **LoadAnswer.TRAITS,
        "rounds": "",
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
    def places(self) -> Count:
        """Requests of all replicas that run at once."""
        layout = self.asked.layout
        whole = self.capacity // layout.dp
        return places_of(self.asked, self.drafting, self.requests.context, whole) * layout.pp * layout.dp

    @property
    def running(self) -> Count:
        """Requests of the busiest replica that run at once."""
        return least(self.deployment.share(self.in_flight), self.places // self.asked.layout.dp)

    @property
    def held(self) -> Count:
        """Requests of the busiest replica that its memory holds to their last token; all where it holds not one."""
        share = self.deployment.share(self.in_flight)
        return where(self.capacity < 1, share, least(share, self.capacity // self.asked.layout.dp))

    @cached_property
    def decode(self) -> Estimate:
        """The decode step of one group of requests, at the mean context: of the model that verifies, where any does."""
        group = ceil_div(self.running, self.asked.layout.pp) * self.asked.layout.dp
        step = decode_of(group, self.requests.context, 1 if self.drafting is None else self.drafting.width)
        return step_estimate(self.asked, step, within=False)

    @cached_property
    def memory(self) -> Memory:
        """What the fullest rank needs where every request in its memory is at its last token, by the engine's rule."""
        return memory_with(self.asked, self.drafting, self.held, self.input + self.output).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether that is there."""
        return self.memory.fits

    @property
    def latency(self) -> Span:
        """End to end, for one request."""
        return self.ttft + self.tpot.times((self.output - 1) * self.longer)

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

    @cached_property
    def spending(self) -> Spending:
        """What it takes in a second."""
        load = SteadyLoad(self.requests_per_second, self.input, self.output, self.requests.context, self.cached_prefix)
        return server_spending(self.asked, load, self.tpot.expected * self.longer, drafting=self.drafting)

    @property
    def grade(self) -> Word:
        """The grade of the decode step."""
        return self.decode.grade


@dataclass(frozen=True)
class Circumstances:
    """What requests go through: mean seconds of TTFT, from when the scheduler sees one, and of TPOT, `rate` requests a
    second, percentiles, and how many decode steps they take for each token after the first."""

    ttft: Count
    tpot: Count
    rate: Count
    percentiles: Percentiles
    step_share: Count

    def chosen(self, these: Array, others: Circumstances) -> Circumstances:
        """Its own where that is said, elsewhere those of others."""
        percentiles = self.percentiles.chosen(these, others.percentiles)
        ttft, tpot, rate, share = (
            where(these, getattr(self, name), getattr(others, name)) for name in ("ttft", "tpot", "rate", "step_share")
        )
        return Circumstances(ttft, tpot, rate, percentiles, share)


@dataclass(frozen=True)
class Server:
    """A deployment that answers requests. `axes`: of all that was asked, loads included."""

    asked: Setup
    requests: ServedLoad
    axes: int
    rounds: Count | None = None

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
        """Tokens of a prompt that are known."""
        return self.requests.cached

    @cached_property
    def drafting(self) -> Drafting | None:
        """What drafts tokens for decode steps to verify, where something does."""
        return self.requests.drafting(self.asked)

    @cached_property
    def capacity(self) -> Count:
        """Requests that all replicas hold to their last token, 0 where not one."""
        fitting = sequences_held(self.asked, self.drafting, self.input + self.output, MOST_IN_FLIGHT)
        return fitting * self.asked.layout.dp

    @property
    def groups(self) -> Count:
        """Groups of requests that share no step: those of replicas, and those that take turns in a pipeline."""
        return self.asked.layout.dp * self.asked.layout.pp

    @cached_property
    def places(self) -> Count:
        """Requests of a group that run at once."""
        whole = self.capacity // self.asked.layout.dp
        return places_of(self.asked, self.drafting, self.context, whole)

    @cached_property
    def again(self) -> Array:
        """The part of its prompt that a request computes again, where others always wait for its place.

        The O tokens of an answer that is done come free at once, and new requests take their place, of which those that
        grow meanwhile take half again: O/2 tokens of each request, less where several are done in each step.
        """
        engine = self.asked.engine
        if engine.reserves or engine.expects:
            return np.zeros(())
        few = self.places < running_at_once(engine, self.asked.layout.pp, self.width)
        lost = self.output / 2 * np.minimum(1.0, self.steps / (2 * np.asarray(self.places)))
        return np.asarray(np.where(few, lost / (self.input - self.cached), 0.0))

    @cached_property
    def nodes(self) -> Any:
        """Numbers of decodes at which steps are timed: none, one, and on to those that run at once."""
        parts = (self.context, self.cached, self.requests.prompts_vary, self.places, self.groups)
        shape = np.broadcast_shapes((1,) * self.axes, self.asked.layout.shape, *map(np.shape, parts))
        highest = np.broadcast_to(np.asarray(self.places, dtype=float), shape)
        return np.concatenate([np.zeros((1, *shape)), _spaced(highest, DECODES)])

    @property
    def width(self) -> int:
        """Tokens that a decode step brings for each sequence."""
        return 1 if self.drafting is None else self.drafting.width

    @cached_property
    def steps(self) -> Array:
        """The mean number of decode steps of a request after its first token."""
        more = self.output - 1
        return np.asarray(more if self.drafting is None else self.drafting.steps(more), dtype=float)

    @property
    def share(self) -> Array:
        """Decode steps for each token after the first; of one token alone those that another would take."""
        one = 1 if self.drafting is None else 1 / self.drafting.speculation.tokens_per_step
        return np.where(np.asarray(self.output) > 1, self.steps / np.maximum(self.output - 1, 1), one)

    @property
    def context(self) -> Count:
        """Tokens in the cache of a request that decodes, in the mean."""
        return self.requests.context

    @cached_property
    def proposed(self) -> Span:
        """Seconds in which drafts are proposed before a step, at the nodes; where there is none, to one."""
        return NOTHING if self.drafting is None else self.drafting.proposed(np.maximum(self.nodes, 1.0), self.context)

    @cached_property
    def alone(self) -> Span:
        """Steps of decodes alone at the nodes; where there is none, of one."""
        one, width = np.maximum(self.nodes, 1.0), self.width
        step = decode_of(one, self.context, width)
        return launched(self.asked.plan, step, self.asked.engine.host(one, one * width)) + self.proposed

    @cached_property
    def table(self) -> ReplicaTimes:
        """Step times at a few numbers of decodes and prompts, at the mean context."""
        engine, plan = self.asked.engine, self.asked.plan
        nodes = self.nodes
        shape = nodes.shape[1:]
        fresh = np.broadcast_to(np.asarray(self.input - self.cached, dtype=float), shape)
        chunks = np.ceil(fresh / engine.chunk)
        new = np.ceil(fresh / chunks)
        context, width = self.context, self.width
        left = np.maximum(engine.chunk - (width * nodes if engine.mixes else 0 * nodes), 1.0)
        per_step = left / fresh
        if not engine.splits:
            per_step = np.where(chunks > 1, 1 / chunks, np.floor(per_step))
        room = np.where(chunks > 1, 1.0, np.maximum(per_step, 1.0))
        batches = _spaced(np.ceil(room.max(axis=0)), BATCHES)
        longest = np.minimum(engine.chunk, self.input + self.output)
        varied = np.broadcast_to(self.requests.prompts_vary, (1, 1, *shape))
        # a prompt of several chunks: where one of them begins, of which longer prompts have more
        begun = np.floor(np.where(chunks > 1, (1 + varied[0, 0]) * fresh - new, 0.0) / 2)
        chunk = Prompts(new, self.cached + begun, longest, np.where(chunks > 1, 0.0, varied))
        beside = nodes if engine.mixes else np.zeros((1, *shape))
        draft = None if self.drafting is None else self.drafting.plan
        mixed = mixed_seconds(plan, chunk, batches[:, np.newaxis], context, beside[np.newaxis], width, draft)
        before = np.where(beside > 0, self.proposed.expected, 0.0)
        mixed = np.broadcast_to(mixed + before, (BATCHES, *nodes.shape))
        parts = np.asarray(PARTS).reshape(-1, *(1 for _ in nodes.shape))
        tokens = np.maximum(np.ceil(np.where(chunks > 1, engine.chunk, fresh) * parts), 1.0)
        later = ((1 + varied[0]) * fresh - tokens) / 2  # where it stands in its prompt: anywhere, or what is left over
        if not engine.splits:
            full = (np.floor(fresh / engine.chunk + 1 / 4) - 1) / 2 * engine.chunk  # a nearly full rest is one of them
            later = np.where(parts < 1, fresh - tokens, np.maximum(full, 0.0))
        some = Prompts(tokens, self.cached + np.floor(np.where(chunks > 1, later, 0.0)), longest)
        partly = mixed_seconds(plan, some, 1, context, beside[np.newaxis], width, draft) + before
        partly = np.broadcast_to(partly, (len(PARTS), *nodes.shape))
        alone, squared = np.where(nodes > 0, self.alone.expected, 0.0), np.zeros(())
        if np.any(varied > 0):  # of lengths that vary, E[L²] = (1 + v)·m², those of a mean prompt m²
            longer = np.clip(1 - partly[-1, 0] / mixed[0, 0], 0.0, 1.0)
            squared = np.minimum(longer * (1 + 1 / np.maximum(varied[0, 0], 1e-12)), 1.0)
        if np.any((chunks > 1) & (varied > 0)):
            first = mixed_seconds(plan, replace(some, cached=self.cached), 1, context, 0, width, draft)[-1, 0]
            squared = np.where(chunks > 1, np.clip(1 - first / partly[-1, 0], 0.0, 1.0), squared)
        return ReplicaTimes(
            nodes, alone, batches, mixed, room, per_step, chunks, partly, engine.mixes, engine.ahead, self.again,
            squared, self.requests.prompts_vary, np.asarray(self.requests.answers_vary) == 0,
        )  # fmt: skip

    @cached_property
    def own_prompt(self) -> Array:
        """Seconds of a prompt by itself at the speed of light, in the mean over lengths."""
        varied = np.broadcast_to(self.requests.prompts_vary, self.table.decodes.shape[1:])
        lone = Prompts(self.input - self.cached, self.cached, self.input, varied).drawn(1)
        return mean_of(np.asarray(self.asked.plan.total(changed(decode(1, 1), (Queries(*lone, 1),))).floor), varied)

    @cached_property
    def fastest(self) -> Count:
        """Requests a second of all replicas that all have as many as they run: no server takes more."""
        late, company = self.asked.engine.before(self.input), self.asked.layout.in_step - 1
        return capacity_of(self.table, self.steps, late, company) * self.groups

    def _rules(self, loads: Count) -> tuple[tuple[int, ...], Iterator[tuple[StepRules, StepTable, int, float]]]:
        """The shape of everything asked, and for each element the scheduler, its steps, the groups and the load."""
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
        """Whether users who began together stay in step: where their requests are equally long and the engine does it.

        Not where their first rounds are looked at apart.
        """
        equal = (np.asarray(self.requests.prompts_vary) == 0) & (np.asarray(self.requests.answers_vary) == 0)
        return np.asarray(equal & (self.asked.engine.keeps_step and self.rounds is None))

    def together(self, everyone: Count) -> Serving:
        """Always so many requests, which all began together and are equally long."""
        return self._serving(everyone, self._together(everyone))

    def _together(self, everyone: Count) -> Circumstances:
        shape, elements = self._rules(everyone)
        layout = self.asked.layout
        together = (np.broadcast_to(v, shape).reshape(-1).tolist() for v in (layout.in_step, layout.pp))
        seen = [
            (Loop(rules, table, n, in_step, turns).seen(int(users)), rules)
            for (rules, table, n, users), in_step, turns in zip(elements, *together, strict=True)
        ]
        rate = _shaped([s.number.sum() for s, _ in seen], shape)
        _, tpot, percentiles, drawn = self._told(seen, shape)
        return Circumstances(self._first(everyone / rate, tpot), tpot, rate, percentiles, drawn)

    def _first(self, latency: Count, tpot: Count) -> Count:
        """TTFT, from when the scheduler sees a request, of what is left of a request's time."""
        return latency - self.asked.engine.before(self.input) - (self.output - 1) * tpot

    def _told(
        self, seen: Sequence[tuple[Answers, StepRules]], shape: tuple[int, ...]
    ) -> tuple[Count, Count, Percentiles, Count]:
        """Of what was seen in each mean TTFT, from when the scheduler saw a request, mean TPOT, percentiles, and how
        many decode steps those who were seen took for each token after the first."""
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
        tpot = where(self.output > 1, tpot, self.table.alone[1] * self.share)
        return ttft, tpot, Percentiles(first, following, whole), where(self.output > 1, drawn, self.share)

    def at(self, everyone: Count) -> Serving:
        """Always so many requests, in no order but where equally long ones stay in step."""
        together = self.in_step
        if together.all():
            return self.together(everyone)
        means = self._in_no_order(everyone)
        return self._serving(everyone, self._together(everyone).chosen(together, means) if together.any() else means)

    def _in_no_order(self, everyone: Count) -> Circumstances:
        mine = np.asarray(most(1.0, everyone / self.groups))
        in_step = self.asked.layout.in_step
        company = np.maximum(np.minimum(in_step, everyone / self.groups * in_step) - 1, 0.0)
        rate, between = closed_loop(self.table, mine, self.steps, self.asked.engine.before(self.input), company)
        tpot = between * self.share
        latency = mine / rate
        ttft, every = self._first(latency, tpot), everyone / latency
        if self.rounds is not None:
            ttft = ttft + opening(self.table, np.minimum(mine, self.table.decodes[-1]), np.asarray(self.rounds))
            ttft = ttft + self._queued_at_host(everyone) / self.rounds
        alone = np.maximum(1 - 1 / np.maximum(everyone / self.groups, 1.0), 0.0)
        percentiles = self._approximate(alone, ttft, tpot, every, latency)
        return Circumstances(ttft, tpot, every, percentiles, self.share)

    def _queued_at_host(self, everyone: Count) -> Count:
        """Mean seconds that the first requests of users who begin together wait for the host of their replica."""
        engine, users = self.asked.engine, np.asarray(self.asked.deployment.share(everyone))
        return engine.before(self.input) * np.maximum(users - 1, 0) / 2 if engine.queues else 0.0

    def at_rate(self, rate: Count, formula: bool = True, turns: Count = 1) -> Serving:
        """So many requests a second, at random: by the formula of means, or equally long and followed step by step.

        `turns`: deployments like this one that take turns, of whose requests these are its own.
        """
        if np.any(np.asarray(self.fastest < rate)):
            slowest, asked = np.min(np.asarray(self.fastest)), np.max(np.asarray(rate))
            flight = np.max(np.asarray(self.places * self.groups))
            expected = f"at most {slowest:.3g} requests a second, what this server takes with {flight} in flight"
            raise InputError("rate", asked.item(), expected)
        seen, lighter = (self._open(each, turns).answer() for each in (rate, rate * (1 - LIGHTER)))
        steeper = [_steepness(getattr(seen, name), getattr(lighter, name)) for name in ("ttft", "tpot")]
        share: Count = self.share
        ttft: Count = seen.ttft
        tpot: Count = seen.tpot * share
        longer: Count = seen.following / seen.tpot
        if formula:
            percentiles = self._approximate(1.0, ttft, tpot, rate, np.inf, longer, seen.spread * share**2)
        else:
            longer = 1.0
            ttft, tpot, percentiles, share = self._followed(rate, rate * (ttft + (self.output - 1) * tpot), turns)
        whole = self.asked.engine.before(self.input) + ttft + (self.output - 1) * tpot * longer
        present = np.ceil(rate * whole - 1e-9).astype(np.int64)
        shape = np.broadcast_shapes(np.shape(ttft), np.shape(rate))
        flight = np.broadcast_to(present, shape) if shape else int(present)
        return self._serving(flight, Circumstances(ttft, tpot, rate, percentiles, share), steeper, longer)

    def _open(self, rate: Count, turns: Count) -> Open:
        groups = np.asarray(self.groups)
        uneven, fastest = np.asarray(1 / (groups * turns)), np.asarray(self.fastest / groups)
        varied = np.asarray(self.requests.prompts_vary)
        company = np.asarray(self.asked.layout.in_step - 1)
        several, two, weight = self.requests.answered
        rates = (np.asarray(rate / groups), self.steps, uneven, fastest)
        return Open(self.table, *rates, varied, company, several=several, two=two, weight=weight)

    def _approximate(
        self, others: Count, ttft: Count, tpot: Count, rate: Count, round: Count, longer: Count = 1.0,
        spread: Count = 0.0,
    ) -> Percentiles:  # fmt: skip
        """Percentiles about the means of the formula."""
        more = self.output - 1
        varied = 0.0 if self.drafting is None else self.drafting.varied(more)
        vary = (self.requests.prompts_vary, self.requests.answers_vary)
        before = self.asked.engine.before
        step = tpot / self.share
        numbers = (others, before(self.input), before(1), ttft, tpot, more, varied, step, round, *vary, longer, spread)
        steady = Steady(np.asarray(rate / self.groups), *(np.asarray(n, dtype=float) for n in numbers))
        shape = np.broadcast_shapes(self.table.decodes.shape[1:], np.shape(ttft), np.shape(rate))
        return Chances(self.table, steady).percentiles.shaped(shape)

    def _followed(self, rate: Count, present: Count, turns: Count) -> tuple[Count, Count, Percentiles, Count]:
        """What a sample of requests saw, as `_told` has it; about so many are `present`."""
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

    def _serving(
        self, flight: Count, means: Circumstances, steeper: Sequence[Count] = (1.0, 1.0), longer: Count = 1.0
    ) -> Serving:
        """The answer, whose uncertainty is that of a decode step and of one with a prompt.

        `longer`: mean seconds for a token, of all requests' tokens, over the mean of the requests' TPOT.
        `steeper`: the power of the seconds of steps by which TTFT and TPOT grow. Users who wait for answers are faster
        with their steps; where requests come at a rate, slower steps are a higher load too.
        The speed of light has neither host nor waits: of the TTFT it is the prompt alone, of the TPOT the decode steps
        that a token takes.
        """
        asked, engine, t = self.asked, self.asked.engine, self.table
        ttft, tpot, rate, percentiles = means.ttft, means.tpot, means.rate, means.percentiles
        shape = np.broadcast_shapes(np.shape(ttft), np.shape(tpot), np.shape(flight), np.shape(rate))
        busy = np.minimum(np.maximum(1.0, rate / self.groups * (self.output - 1) * tpot * longer), t.decodes[-1])
        decodes = rounded_down(busy + 0.5) if np.shape(busy) else int(busy + 0.5)
        steps = Span(*(t.at(np.asarray(end), busy) for end in self.alone.ends()))
        queries = (Queries(self.cached, self.input - self.cached, 1), Queries(self.context, self.width, decodes))
        prompt = launched(asked.plan, changed(decode(1, 1), queries[: 2 if engine.mixes else 1]), engine.host(decodes))
        share = np.clip(rate / self.groups * t.chunks * t.at(t.mixed[0] - t.base, busy), 0.0, 1.0)
        between = steps.times((1 - share) * tpot / steps.expected) + prompt.times(share * tpot / prompt.expected)
        host, alone = engine.before(self.input), t.chunks * t.mixed[0][0]

        def first_token(whole: Count) -> Span:
            seconds = whole - host
            span = prompt.times(seconds / prompt.expected).steeper(steeper[0]) + exactly(host)
            return scattered(span, asked, host, most(seconds - alone, 0.0)).resting_on(self.own_prompt)

        first = first_token(host + ttft).shaped(shape)
        between = between.steeper(steeper[1]).resting_on(steps.floor * means.step_share).shaped(shape)
        percentiles = percentiles.within(
            first_token, between, first + between.times((self.output - 1) * longer)
        ).shaped(shape)
        return Serving(
            asked, self.requests, flight, self.capacity, first, between, shaped(share, shape), shaped(rate, shape),
            percentiles, self.rounds, shaped(np.asarray(longer), shape),
        )  # fmt: skip


def _steepness(now: Count, then: Count) -> Count:
    """d log T / d log s of seconds T at a rate λ and steps of s, of T now and then, at (1 − LIGHTER)·λ.

    T(λ, s·x) = x·T(λ·x, s), since seconds have no other measure: 1 + d log T / d log λ.
    """
    ratio = np.asarray(now) / np.maximum(then, 1e-300)
    return np.asarray(1 + np.maximum(np.log(np.maximum(ratio, 1e-300)), 0.0) / -np.log1p(-LIGHTER))


def _shaped(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Numbers in the shape of what was asked; one number where that is one."""
    return np.array(values).reshape(shape) if shape else float(values[0])


def _columns(values: Any, shape: tuple[int, ...]) -> Any:
    """A table whose last axes are those of a shape, which are made one axis."""
    first = values.shape[: values.ndim - len(shape)]
    return np.broadcast_to(values, (*first, *shape)).reshape(*first, -1)


def _spaced(highest: Count, number: int) -> Any:
    """Whole numbers from 1 to the highest, nearly of one ratio, along a new first axis; some may be equal."""
    powers = np.linspace(0, 1, number).reshape(-1, *(1 for _ in np.shape(highest)))
    return np.rint(np.asarray(highest, dtype=float) ** powers)
