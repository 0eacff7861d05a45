"""Prefill and decode replicas: tables of their step times, and the best split of chips between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from roofline.declared.caching import remembered
from roofline.declared.errors import InputError
from roofline.declared.groups import Load
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, ceil_div, least, most, where
from roofline.inference.generate import changed_step, decode_of, launched
from roofline.inference.settings import Setup
from roofline.inference.span import NOTHING, Span
from roofline.layout.layout import Layout
from roofline.serving.closed_forms.disaggregated_queue import Batches, Passage, Places, Tandem, dealt
from roofline.serving.closed_forms.interpolation import interpolated
from roofline.serving.closed_forms.mixed_batches import chunked, mixed_seconds, pieces_of
from roofline.serving.drafting import MOST_IN_FLIGHT, Drafting, places_of, sequences_held
from roofline.serving.requests import ServedLoad, encoding
from roofline.work.step import prefill

SIZES, RUNNING = 10, 24
"""Numbers of prompts and of sequences at which steps are timed; between them times are nearly linear."""
LOOKED_AT = 2**22
"""Most splits that the search for the best one evaluates at once."""


def passage(load: Load, tandem: Tandem, number: Array) -> Passage:
    """What a request goes through with `number` requests in flight, or at that many per second."""
    return tandem.at(number) if load.concurrency is None else tandem.always(number)


@dataclass(frozen=True)
class Replicas:
    """Numbers of replicas: as many as fit on `chips` where those are given, else `prefills` and `decodes`.

    `most_chips`: chips of all replicas. `rooms`: chips of the machines for prefill and for decode.
    """

    chips: Count
    prefills: Count
    decodes: Count
    most_chips: Count
    rooms: tuple[int, int]


UNKNOWN_REPLICAS = Replicas(None, None, None, 0, (0, 0))
"""Placeholder for numbers of replicas, which step times do not depend on."""


@dataclass(frozen=True)
class Pair:
    """A prefill replica, a decode replica, the requests they answer, and the number of each kind of replica.

    The draft's cache of the prompts is assumed to cost nothing.
    """

    first: Setup
    then: Setup
    requests: ServedLoad
    replicas: Replicas
    transfer: Span

    @property
    def input(self) -> Count:
        """Tokens of a prompt."""
        return self.requests.input

    @property
    def output(self) -> Count:
        """Tokens of an answer."""
        return self.requests.output

    @property
    def cached(self) -> Count:
        """Tokens of a prompt that are found in the prefix cache."""
        return self.requests.cached

    @cached_property
    def drafting(self) -> Drafting | None:
        """What drafts tokens for the decode replicas, None without drafts."""
        return self.requests.drafting(self.then)

    @property
    def steps(self) -> Count:
        """Mean number of decode steps of a request; they yield all tokens of its answer, the first included."""
        return self.output if self.drafting is None else self.drafting.steps(self.output)

    @property
    def share(self) -> Count:
        """Decode steps after the first over tokens after the first; those of a second token where there is one."""
        if self.drafting is None:
            return 1.0
        alone = 1 / self.drafting.speculation.tokens_per_step
        return where(self.output > 1, (self.steps - 1) / most(1, self.output - 1), alone)

    @cached_property
    def prompts(self) -> Count:
        """Prompts of a full batch: as many as fill the chunk with new tokens and fit in memory, at least one."""
        first = self.first
        wanted = most(1, least(first.engine.chunk // (self.input - self.cached), first.engine.most_running))
        return most(1, least(wanted, first.holding.most_sequences(self.input, MOST_IN_FLIGHT) // first.layout.pp))

    @cached_property
    def places(self) -> Count:
        """Most sequences of a decode group, of which there is one for each data-parallel rank and pipeline stage."""
        return places_of(self.then, self.drafting, self.requests.kept_by(self.then.engine), self.whole)

    @cached_property
    def whole(self) -> Count:
        """Sequences that a data-parallel rank of a decode replica holds in memory to their last token."""
        return sequences_held(self.then, self.drafting, self.input + self.output, MOST_IN_FLIGHT)

    def prefilled(self, prompts: Count) -> Span:
        """Seconds of a prefill batch of `prompts` prompts on a group of ranks, through all pipeline stages."""
        engine, fresh = self.first.engine, self.input - self.cached
        tokens = prompts * fresh
        host = engine.prefill_s + ceil_div(tokens, engine.chunk) * engine.host(prompts, least(tokens, engine.chunk))
        encoded = encoding(self.first.plan, self.requests.images).times(prompts)
        return launched(self.first.plan, changed_step(prefill(1, 1), self.cached, fresh, prompts), host) + encoded

    @property
    def width(self) -> int:
        """Tokens that a decode step computes for each sequence."""
        return 1 if self.drafting is None else self.drafting.width

    def decoded(self, sequences: Count) -> Span:
        """Seconds of a decode step of a group with `sequences` sequences at the mean context, drafting included."""
        context, host = self.requests.context, self.then.engine.host(sequences, sequences * self.width)
        step = launched(self.then.plan, decode_of(sequences, context, self.width), host)
        return step if self.drafting is None else step + self.drafting.proposed(sequences, context)

    @property
    def of_prefills(self) -> Pair:
        """The part of the pair that determines the times of prefill batches."""
        return self._timed(self.first)

    @property
    def of_decodes(self) -> Pair:
        """The part of the pair that determines the times of decode steps."""
        return self._timed(self.then)

    def _timed(self, asked: Setup) -> Pair:
        load = replace(self.requests.load, concurrency=None, rate=None)
        return Pair(asked, asked, replace(self.requests, load=load), UNKNOWN_REPLICAS, NOTHING)

    @property
    def sizes(self) -> dict[str, Count | Layout]:
        """All quantities that may be arrays, by name."""
        layouts = {"prefill_layout": self.first.layout, "decode_layout": self.then.layout}
        return {**self.requests.sizes, "chips": self.replicas.most_chips, **layouts}

    def shape(self, load: Load) -> tuple[int, ...]:
        """The broadcast shape of all settings."""
        return np.broadcast_shapes(np.shape(load.number), *(np.shape(v) for v in self.sizes.values()))


@dataclass(frozen=True)
class Timings:
    """Seconds of the batches of prefill replicas and of the steps of decode replicas, in the shape of the settings.

    The first axis holds the numbers of prompts, or of sequences, that are timed.
    """

    pair: Pair
    shape: tuple[int, ...]

    @cached_property
    def batches(self) -> tuple[Array, Array]:
        """Numbers of prompts of a batch and its seconds, as in the steps of a server (`mixed_batches.py`)."""
        pair, first = self.pair, self.pair.first
        fresh = np.broadcast_to(np.asarray(pair.input - pair.cached, dtype=float), self.shape)
        varied = np.broadcast_to(pair.requests.prompts_vary, (1, *self.shape))
        chunks, chunk = chunked(fresh, pair.cached, first.engine.chunk, pair.input + 1, varied)
        fills = chunks * first.engine.chunk / fresh  # a prompt that is cut fills what is left of a step
        cut = first.engine.splits & (fills > 1) & (np.floor(fills) <= pair.prompts)
        room = np.where(cut, fills, pair.prompts)
        sizes = np.minimum(_spaced(np.ceil(room), self.shape, SIZES), room)
        seconds = chunks * mixed_seconds(first.plan, chunk, sizes, 1, 0)
        ranks = np.broadcast_to(np.asarray(first.layout.in_step, dtype=float), self.shape)
        if np.any(in_step := (ranks > 1) & (chunks > 1)):  # each step lasts as long as the slowest chunk
            longest = pair.requests.longest or np.inf
            pieces = pieces_of(
                lambda each: mixed_seconds(first.plan, each, 1, 1, 0),
                fresh, pair.cached, first.engine.chunk, longest, varied, first.engine.splits,
            )  # fmt: skip
            sizes, seconds = (
                np.where(in_step, 1.0, sizes),
                np.where(in_step, pieces.each * pieces.slowest(ranks), seconds),
            )
        return sizes, seconds + sizes * np.asarray(encoding(first.plan, pair.requests.images).expected)

    @cached_property
    def decoded(self) -> tuple[Array, Span]:
        """Numbers of sequences of a decode step and its seconds."""
        sequences = _spaced(self.pair.places, self.shape, RUNNING)
        return sequences, self.pair.decoded(sequences)


known_timings = remembered(64)(Timings)
"""Step times, cached: those of a kind of replica serve any number of them, under any load, beside any other pool."""


@dataclass(frozen=True)
class Settled:
    """The numbers of replicas and what a request goes through; arrays with one axis, that of all settings.

    `step_floor`: speed of light of a decode step with the number of sequences that run, interpolated linearly.
    `follows`: whether the prefill pool is followed; else its waits and its rate come from the formula.
    """

    prefills: Array
    decodes: Array
    tandem: Tandem
    passage: Passage
    step_floor: Array
    follows: bool = True


def settled_pools(pair: Pair, load: Load) -> Settled:
    """The replicas that serve most at a concurrency (among equals on the fewest chips) or answer soonest at a rate.

    Raises InputError for a rate beyond what they can take.
    """
    columns = Columns(pair, load, pair.shape(load))
    prefills, decodes = columns.given() if pair.replicas.chips is None else columns.best()
    return columns.settled(slice(None), columns.tandem(slice(None), prefills, decodes), (prefills, decodes), load)


def _refuse(rate: Array, tandem: Tandem, prefills: Array, decodes: Array) -> None:
    """Raise an InputError with what the pools can take, for the element whose rate is furthest beyond it."""
    i = int(np.argmax(rate / tandem.capacity))
    first, then = tandem.prefills * tandem.batches.fastest, tandem.decodes * tandem.running.fastest
    between = tandem.links / tandem.transfer
    limit = f"{prefills[i]} × prefill hold {first[i]:.3g} and {decodes[i]} × decode {then[i]:.3g}"
    links = f", the links {between[i]:.3g}" if between[i] < min(first[i], then[i]) else ""
    raise InputError("rate", rate[i].item(), f"less than {tandem.capacity[i]:.3g} requests a second: {limit}{links}")


@dataclass(frozen=True)
class Columns:
    """Step times and sizes of all elements of the settings, along one axis.

    `timed`: step times of either kind of replica, where they are known.
    """

    pair: Pair
    load: Load
    shape: tuple[int, ...]
    timed: tuple[Timings, Timings] | None = None

    def flat(self, value: Count) -> Array:
        """The value of each element, along one axis."""
        return np.broadcast_to(np.asarray(value), self.shape).reshape(-1)

    def _table(self, nodes: Array, seconds: Count) -> tuple[Array, Array]:
        whole, axes = (len(nodes), *self.shape), (-1, *(1 for _ in self.shape))
        each = (np.reshape(v, axes) if np.ndim(v) == 1 else v for v in (nodes, seconds))
        return tuple(np.broadcast_to(v, whole).reshape(len(nodes), -1) for v in each)  # type: ignore[return-value]

    @cached_property
    def _batches(self) -> tuple[Array, Array]:
        """Numbers of prompts of a batch and its seconds."""
        return self._table(*self._timings[0].batches)

    @cached_property
    def _decoded(self) -> tuple[Array, Span]:
        return self._timings[1].decoded

    @cached_property
    def _timings(self) -> tuple[Timings, Timings]:
        """Step times of either kind of replica: of one element where only the load or their numbers are arrays."""

        def timings(pair: Pair) -> Timings:
            return known_timings(pair, self.shape if any(np.shape(v) for v in pair.sizes.values()) else ())

        return self.timed or (timings(self.pair.of_prefills), timings(self.pair.of_decodes))

    @cached_property
    def _steps(self) -> tuple[Array, Array]:
        sequences, span = self._decoded
        return self._table(sequences, span.expected)

    def settled(self, part: slice | Array, tandem: Tandem, replicas: tuple[Array, Array], load: Load) -> Settled:
        """What a request goes through under a load, in these pools of some elements, with these numbers of replicas.

        Raises InputError for a rate beyond what they can take.
        """
        shape = self.shape if isinstance(part, slice) else replicas[0].shape
        number = np.broadcast_to(np.asarray(load.number), shape).reshape(-1)
        if load.concurrency is None and np.any(number >= tandem.capacity):
            _refuse(number, tandem, *replicas)
        passed = passage(load, tandem, number)
        sequences, span = self._decoded
        nodes, floors = (v[:, part] for v in self._table(sequences, span.floor))
        return Settled(*replicas, tandem, passed, interpolated(nodes, floors, passed.running))

    def tandem(self, part: slice, prefills: Array, decodes: Array) -> Tandem:
        """Pools of these numbers of replicas for a slice of the elements; the numbers may have a leading axis."""
        return self._gathered(part, (slice(None), *(np.newaxis for _ in prefills.shape[1:])), prefills, decodes)

    def _gathered(self, part: slice | Array, before: tuple[Any, ...], prefills: Array, decodes: Array) -> Tandem:
        pair, flat = self.pair, self.flat
        axes = (*before, part)
        first, then = pair.first.layout, pair.then.layout
        ranks, others = (flat(layout.in_step)[part] for layout in (first, then))
        batches, sequences = (
            dealt(nodes[axes], seconds[axes], each, vary)
            for (nodes, seconds), each, vary in (
                (self._batches, ranks, 0.0),
                (self._steps, others, flat(pair.requests.answers_vary)[part]),
            )
        )
        return Tandem(
            Batches(*batches, flat(first.pp)[part], ranks),
            Places(*sequences, flat(pair.steps)[part], float(pair.then.engine.ahead), others),
            prefills * (flat(first.dp)[part] // ranks),
            decodes * (flat(then.dp * then.pp)[part] // others),
            np.minimum(prefills * flat(first.dp)[part], decodes * flat(then.dp)[part]),
            flat(pair.transfer.expected)[part],
            max(1, len(pair.first.model.layers)),
            flat(pair.first.engine.before(pair.input))[part],
            flat(pair.requests.prompts_vary)[part],
            flat(pair.requests.answers_vary)[part],
        )  # fmt: skip

    def of(self, places: Array, prefills: Array, decodes: Array) -> Tandem:
        """Pools of these numbers of replicas, each for the element at one of the places."""
        return self._gathered(places, (slice(None),), prefills, decodes)

    def given(self) -> tuple[Array, Array]:
        """The numbers of replicas that were asked for."""
        r = self.pair.replicas
        return self.flat(r.prefills), self.flat(r.decodes)

    def best(self) -> tuple[Array, Array]:
        """The best of all splits of the chips, searched in pieces that bound memory."""
        pair, r = self.pair, self.pair.replicas
        first, then = (self.flat(asked.layout.chips) for asked in (pair.first, pair.then))
        chips = self.flat(r.chips)
        most_prefills = np.minimum((chips - then) // first, r.rooms[0] // first)
        most_decodes = np.maximum(1, r.rooms[1] // then)
        if self.load.concurrency is not None:  # more replicas than users need would idle
            users = self.flat(self.load.concurrency)
            groups = (self.flat(asked.layout.dp * asked.layout.pp) for asked in (pair.first, pair.then))
            alone, apart = (ceil_div(users, each) for each in groups)
            most_prefills, most_decodes = np.minimum(most_prefills, alone), np.minimum(most_decodes, apart)
        most_prefills = np.maximum(1, most_prefills)
        width = max(1, LOOKED_AT // (int(most_prefills.max()) * 256))
        parts = [slice(i, i + width) for i in range(0, len(chips), width)]
        chosen = [self._best(p, chips[p], (first[p], then[p]), (most_prefills[p], most_decodes[p])) for p in parts]
        prefills, decodes = (np.concatenate([c[i] for c in chosen]) for i in (0, 1))
        return prefills, decodes

    def _best(
        self, part: slice, chips: Array, each: tuple[Array, Array], limits: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        prefills = np.arange(1, limits[0].max() + 1).reshape(-1, 1) + 0 * chips
        decodes = np.minimum((chips - prefills * each[0]) // each[1], limits[1])
        possible = (prefills <= limits[0]) & (decodes >= 1)
        decodes = np.maximum(decodes, 1)
        tandem = self.tandem(part, prefills, decodes)
        number = self.flat(self.load.number)[part]
        if self.load.concurrency is None:
            enough = number < tandem.capacity
            passage = tandem.at(np.minimum(number, tandem.capacity * 0.999))
            score = np.where(enough, -tandem.latency(passage), -1e30 * (1 + 1 / tandem.capacity))
        else:
            score = tandem.always(number).rate
        score = np.where(possible, score, -np.inf)
        best = score.max(axis=0)
        equal = score >= best - 1e-9 * np.abs(best)
        used = prefills * each[0] + decodes * each[1]
        chosen = np.where(equal, used, used.max() + 1).argmin(axis=0)[np.newaxis]
        return np.take_along_axis(prefills, chosen, axis=0)[0], np.take_along_axis(decodes, chosen, axis=0)[0]


@dataclass(frozen=True)
class TimedPools:
    """Pools whose step times are known: the element at `place` of a table."""

    columns: Columns
    place: int

    def settled(self, load: Load, prefills: int, decodes: int) -> Settled:
        """What requests go through under a load, or under an array of them, with these numbers of replicas."""
        several = np.ones(np.size(load.number), dtype=np.int64)
        places, replicas = self.place * several, (prefills * several, decodes * several)
        return self.columns.settled(places, self.columns.of(places, *replicas), replicas, load)


def _spaced(highest: Count, shape: tuple[int, ...], number: int) -> Array:
    """Whole numbers from 1 to the highest in about geometric progression, along a new first axis."""
    powers = np.linspace(0, 1, number).reshape(-1, *(1 for _ in shape))
    return np.rint(np.broadcast_to(np.asarray(highest, dtype=float), shape) ** powers)
