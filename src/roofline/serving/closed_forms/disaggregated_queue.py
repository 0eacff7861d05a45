"""Disaggregated pools as two queues in a row, in closed form: batches of prompts, then decode steps.

Rates are requests per second, times are seconds, and everything is an array. The first axis of a table is that of its
nodes, numbers of prompts or sequences, between which times are linear; the other axes are those of the settings.
`uneven` is the squared coefficient of variation of the gaps between the requests of one group: 1/c where Poisson
arrivals are dealt out to c groups in turn, whose gaps are then Erlang.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.bracketing import halved
from roofline.declared.numbers.maths import is_array
from roofline.serving.closed_forms.batches import normal_share
from roofline.serving.closed_forms.interpolation import both_ends, interpolated

NEARLY = 1 - 1e-6
"""Load at which a queue that would grow without bound is cut off."""
HALVINGS = 48
"""Halvings of a closed loop's range of rates."""
SINGLE, FARTHER = 32, 160
"""Number of sequences up to which probabilities are summed one by one; number of sample points beyond it."""


def balance(nodes: Array, excess: Array) -> Array:
    """The point where `excess`, linear between nodes, first reaches 0 from below; else the first or last node."""
    reached = ~(excess < 0)
    reached[-1] = True
    left = np.maximum(reached.argmax(axis=0), 1) - 1
    (start, end), (low, high) = both_ends(nodes, left), both_ends(excess, left)
    part = np.where(high > low, -low / np.where(high > low, high - low, 1.0), 1.0 * (low < 0))
    return np.asarray(start + (end - start) * np.minimum(np.maximum(part, 0.0), 1.0))


def regularity(load: Array, uneven: Array, varied: Array | float = 0.0) -> Array:
    """Factor on the wait of a queue with random arrivals for gaps that vary less, c² = `uneven`.

    (c² + v)/(1 + v) times the factor of Kraemer and Langenbach-Belz (1976), exp(−2(1 − ρ)(1 − c²)²/(3ρ(c² + v))), where
    v is the squared coefficient of variation of service times.
    """
    both = uneven + varied
    shrunk = np.exp(-2 * (1 - load) * (1 - uneven) ** 2 / (3 * np.maximum(load, 1e-12) * both))
    return np.asarray(both / (1 + varied) * shrunk)


def fullest_rank(number: Array, ranks: Array | float, answers: Array | float) -> Array:
    """Mean number of requests on the fullest of `ranks` that are dealt requests in turn, with `number` on average.

    With equally long answers that is ⌈N/R⌉ of N, n + (R − 1)/2R on average, and N where that is less than one. Of those
    whose lengths have the squared variation v = `answers`, a rank's number varies as that of a queue without waits
    whose gaps have c² = 1/R, by n·(1 − (1 − 1/R)·w), with w of `overlap_of` (Whitt 1982). All ranks
    together have a Poisson number, whose share n/R is common to them.
    The largest of R normal numbers is (3/4)·ln(R)^0.78 deviations above the mean. Both excesses add by their squares.
    """
    rounded = np.minimum((1 - 1 / ranks) / 2, number * (ranks - 1))
    return np.asarray(number + np.sqrt(rounded**2 + _spread(ranks, answers) ** 2 * number))


def _spread(ranks: Array | float, answers: Array | float) -> Array:
    """By how many roots of a rank's mean number the fullest one has more."""
    apart = (1 - 1 / ranks) * (1 - overlap_of(answers))
    return np.asarray(0.75 * np.log(ranks) ** 0.78 * np.sqrt(np.maximum(apart, 0.0)))


def overlap_of(answers: Array | float) -> Array:
    """w = E min(T, T′)/E T of two lognormal answers, whose squared variation is `answers`: 2·Φ(−√(ln(1 + v)/2))."""
    return np.asarray(2 * normal_share(-np.sqrt(np.log1p(answers) / 2)))


def dealt(numbers: Array, seconds: Array, in_step: Array, answers: Array | float = 0.0) -> tuple[Array, Array]:
    """The table of `in_step` ranks in lock step by the total over all of them, from the table of one rank.

    Requests are dealt out in turn: the fullest rank has ⌈N/ranks⌉ of N, on average (N + (ranks − 1)/2)/ranks, and as in
    `fullest_rank` where the lengths of `answers` vary.
    """
    first = np.ones_like(numbers[:1] * in_step)
    spread = _spread(in_step, answers)
    rounded = (1 - 1 / in_step) / 2
    mean = numbers + spread**2 / 2 - np.sqrt(spread**2 * numbers + spread**4 / 4 + rounded**2)
    every = np.concatenate([first, np.maximum(mean * in_step, 1.0), numbers[-1:] * in_step])
    return every, np.concatenate([seconds[:1], seconds, seconds[-1:]]) + np.zeros_like(every)


def of_rank(number: Array, every: Array, in_step: Array | float) -> Array:
    """Share of the fullest of `in_step` ranks in `number`: at least one, at most its share of the last node."""
    fullest = np.maximum((number + (in_step - 1) / 2) / in_step, np.minimum(number, 1.0))
    return np.asarray(np.minimum(fullest, every[-1] / in_step))


@dataclass(frozen=True)
class Batches:
    """A group of the prefill pool: when it is free, all waiting prompts start together, at most `sizes[-1]` of them.

    `seconds`: of a batch of each size, from start to end. `depth`: pipeline stages, which is the number of batches
    under way. `in_step`: ranks of the group that run every step in lock step.
    """

    sizes: Array
    seconds: Array
    depth: Array
    in_step: Array | float = 1.0

    @cached_property
    def occupied(self) -> Array:
        """Seconds from the start of one batch to that of the next."""
        return np.asarray(self.seconds / self.depth)

    @cached_property
    def fastest(self) -> Array:
        """Prompts per second in full batches."""
        return np.asarray(self.sizes[-1] / self.occupied[-1])

    def wait(self, rate: Array, uneven: Array, varied: Array | float = 0.0) -> tuple[Array, Array]:
        """Seconds until a prompt's batch starts, and prompts of that batch, at a request rate of the group.

        A batch of n prompts takes s(n) = s(0) + n·Δ, during which x = rate·s(n) prompts arrive on average, and none
        with probability p, so that n = x + p on average. Let q prompts not fit. Balancing the squares of n + q between
        batches gives E[q]·2b(1 − ρ) = (u − v)(1 − (rate·Δ)²), exact for random arrivals. Here u is the variance of n in
        unlimited batches and v the actual one. A prompt waits (s(b)·E[q] + rate·E[s²]/2)/E[n]. For v, u is combined as
        if in parallel with (b − n)(n − 1), the largest variance of a number from 1 to b with this mean. `varied`:
        squared coefficient of variation c² of a prompt's seconds; for n prompts it is c²/n. For b = 1 the wait is that
        of the M/G/1 queue, ρs(1 + c²)/(2(1 − ρ)).
        """
        largest, whole = self.sizes[-1], self.occupied[-1]
        coming = rate * self.occupied
        none = uneven * np.exp(-coming) + (1 - uneven) * np.maximum(0.0, 1 - coming)
        mean = balance(self.sizes, self.sizes - coming - none)
        step = interpolated(self.sizes, self.occupied, mean)
        slope = (whole - self.occupied[0]) / np.where(largest > 1, largest - 1, 1.0)
        x = rate * step
        none, growth = np.maximum(mean - x, 0.0), 1 - np.minimum(rate * slope, 0.99) ** 2
        free = np.maximum(x + none - 2 * x * none - none**2, 0.0) / growth
        bound = (largest - mean) * (mean - 1)
        spread = free * bound / np.maximum(free + bound, 1e-300)
        load = np.minimum(rate * whole / largest, NEARLY)
        random = regularity(load, uneven, varied)
        behind = random * whole * (free - spread) * growth / (2 * largest * (1 - load)) / mean
        within = random + (1 - random) * np.maximum(0.0, 1 - 1 / np.maximum(x, 1e-12))
        spread = uneven * spread
        rest = within * rate * (step**2 + spread * slope**2) / 2 / mean
        longer = 1 + varied / mean
        return np.asarray((rest + behind) * longer), np.asarray(np.minimum(mean + spread / mean, largest))

    def leaving(self, rate: Array, prompts: Array, varied: Array | float = 0.0) -> Array:
        """Squared coefficient of variation of the gaps between prompts that leave a group, one by one, at a rate.

        1 − ρ² + ρ²·c², for random arrivals (Marshall 1968); with several `prompts` in a batch taken as 1.
        """
        load = np.minimum(rate / self.fastest, 1.0)
        return np.asarray(1 + np.clip(2 - prompts, 0.0, 1.0) * load**2 * (varied - 1))


@dataclass(frozen=True)
class Places:
    """A group of the decode pool: at most `sequences[-1]` sequences run together, the others wait for a place.

    `seconds`: of a step by its number of sequences. `steps`: decode steps of a request. `ahead`: 1 with asynchronous
    scheduling, where a request that arrives during a step waits for another whole one, else 0. `in_step`: as for
    `Batches`.
    """

    sequences: Array
    seconds: Array
    steps: Array
    ahead: float
    in_step: Array | float = 1.0

    @cached_property
    def fastest(self) -> Array:
        """Requests per second with every place taken."""
        return np.asarray(self.sequences[-1] / (self.seconds[-1] * self.steps))

    def running(self, rate: Array, uneven: Array) -> Array:
        """Sequences in a step of a request, itself included, at a request rate of the group.

        By Little's law k = rate·steps·t(k) sequences run on average. With random arrivals a request meets as many, so
        that it runs among k + 1. Exact for times linear in k, by the product form of such a queue.
        """
        return balance(self.sequences, self.sequences - uneven - rate * self.steps * self.seconds)

    def joining(self, running: Array, others: Array) -> Array:
        """Seconds until the first step of a request starts: the rest of the step under way, if another decodes.

        `others`: how many other requests there are for the group.
        """
        busy = 1 - np.exp(others * np.log1p(-np.minimum((running - 1) / others, 1 - 1e-9)))
        return np.asarray(busy * (0.5 + self.ahead) * interpolated(self.sequences, self.seconds, running))

    @cached_property
    def _counts(self) -> tuple[Array, Array]:
        """Numbers of sequences from 1 to the most, and the logarithm of a step's seconds per sequence at each."""
        most = self.sequences[-1]
        powers = np.linspace(0, 1, FARTHER).reshape(-1, *(1 for _ in most.shape))
        single = np.minimum(np.arange(1.0, SINGLE + 1).reshape(-1, *(1 for _ in most.shape)), most)
        first = np.minimum(float(SINGLE), most)
        counts = np.concatenate([single, np.rint(first * (most / first) ** powers)])
        return counts, np.log(interpolated(self.sequences, self.seconds, counts) / counts)

    def place(self, rate: Array, uneven: Array) -> Array:
        """Seconds that a request waits for a place, at a request rate of the group below its fastest.

        π(k) ∝ (rate·steps)^k·Π t(j)/j, j ≤ k: the product form of a queue whose speed depends on the number it serves,
        with service shared equally, for any distribution of lengths (Kelly 1979). Beyond the last place the queue is
        served in order; as lengths do not vary, the wait is half of that with exponential ones.
        """
        counts, log = self._counts
        each = np.log(np.maximum(rate * self.steps, 1e-300)) + log
        gaps = np.diff(counts, axis=0)
        rise = (gaps * (each[1:] + each[:-1]) + np.diff(each, axis=0)) / 2 * (gaps > 0)
        logs = np.concatenate([each[:1], each[:1] + np.cumsum(rise, axis=0)])
        top = np.maximum(logs.max(axis=0), 0.0)
        odds = np.exp(logs - top)
        slope = rise / np.maximum(gaps, 1)
        flat = np.abs(slope) < 1e-9
        steep = np.where(flat, 1.0, np.abs(slope))
        largest = np.where(slope > 0, odds[1:], odds[:-1] * np.exp(np.minimum(slope, 0.0)))
        sums = largest * np.where(flat, gaps, np.expm1(-gaps * steep) / np.expm1(-steep))
        load = np.minimum(rate / self.fastest, NEARLY)
        last = odds[-1] / (1 - load)
        taken = last / (np.exp(-top) + odds[0] + sums.sum(axis=0) - odds[-1] + last)
        return np.asarray(taken * regularity(load, uneven) / 2 / (self.fastest * (1 - load)))


@dataclass(frozen=True)
class Passage:
    """What a request goes through at a rate; times in seconds.

    `prompts`: of its rank's batch. `prefill`: that batch. `shown`: the part of the transfer that prefill does not hide.
    `running`: sequences of its rank's steps. `prefill_wait`: for a prefill replica and the links. `decode_wait`: for a
    place in a decode replica and for its first step.
    """

    rate: Array
    prefill_wait: Array
    prompts: Array
    prefill: Array
    shown: Array
    decode_wait: Array
    running: Array
    step: Array


@dataclass(frozen=True)
class Tandem:
    """`prefills` groups that compute prompts, `decodes` groups that decode, and `links` between them.

    `transfer`: seconds for which the cache of a prompt occupies a link; it is sent layer by layer, in `layers` parts.
    `before`: seconds until the scheduler sees a request. `varied`, `answers`: squared coefficients of variation of the
    lengths of prompts and of answers.
    """

    batches: Batches
    running: Places
    prefills: Array
    decodes: Array
    links: Array
    transfer: Array
    layers: int
    before: Array
    varied: Array | float = 0.0
    answers: Array | float = 0.0

    @cached_property
    def capacity(self) -> Array:
        """Most requests per second that both pools and the links can take."""
        pools = np.minimum(self.prefills * self.batches.fastest, self.decodes * self.running.fastest)
        return np.asarray(np.minimum(pools, self.links / self.transfer))

    def first_token(self, p: Passage) -> Array:
        """Seconds from a request's arrival to its first token, which the first decode step yields."""
        return np.asarray(self.before + p.prefill_wait + p.prefill + p.shown + p.decode_wait + p.step)

    def latency(self, p: Passage) -> Array:
        """Seconds from a request's arrival to its last token."""
        return np.asarray(self.first_token(p) + (self.running.steps - 1) * p.step)

    def at(self, rate: Array) -> Passage:
        """An open loop: requests arrive at random, `rate` per second."""
        return self._passage(rate, np.ones(()), self.running.place(rate / self.decodes, 1 / self.decodes))

    def always(self, population: Array) -> Passage:
        """A closed loop of `population` requests, each sent when another is answered.

        Mean value analysis of a closed network: an arriving request sees the average load of the others, one
        fewer, taken as proportional to their number (Schweitzer 1979); throughput = population / latency. It never
        exceeds the capacity: requests left over then wait at the pool that limits it.
        """
        least, several = np.zeros(np.broadcast_shapes(np.shape(population), self.capacity.shape)), self._several
        _, high = halved(
            lambda rate: rate * several.latency(several._closed(rate, population)) < population,
            least, self.capacity, HALVINGS,
        )  # fmt: skip
        p = self._closed(high, population)
        left = np.maximum(0.0, population / high - self.latency(p))
        decode = self.decodes * self.running.fastest <= self.capacity * (1 + 1e-9)
        return Passage(
            high, p.prefill_wait + np.where(decode, 0.0, left), p.prompts, p.prefill, p.shown,
            p.decode_wait + np.where(decode, left, 0.0), p.running, p.step,
        )  # fmt: skip

    def always_at(self, rate: Array) -> tuple[Array, Passage]:
        """The population of a closed loop with this throughput, and what its requests go through.

        The inverse of `always`: n = rate · latency, by iteration, since latency depends slightly on n.
        """
        number = np.full(np.broadcast_shapes(np.shape(rate), self.capacity.shape), np.inf)
        for _ in range(3):
            others = np.where(np.isinf(number), 1.0, 1 - 1 / np.maximum(number, 1.0))
            p = self._passage(rate, others, np.zeros(()))
            number = np.maximum(rate * self.latency(p), 1.0)
        return number, p

    def where(self, kept: Array) -> Tandem:
        """The pools at some elements of the last axis, selected by a mask or by indices."""
        elements = self.capacity.shape[-1]

        def some(value: Any) -> Any:
            if isinstance(value, (Batches, Places)):
                return replace(value, **{f.name: some(getattr(value, f.name)) for f in fields(value)})
            return value[..., kept] if is_array(value) and value.shape[-1:] == (elements,) else value

        return replace(self, **{f.name: some(getattr(self, f.name)) for f in fields(self)})

    @cached_property
    def _several(self) -> Tandem:
        """These pools with a new first axis, along which several rates are asked."""

        def wider(nodes: Array) -> Array:
            return nodes[:, np.newaxis]

        b, r = self.batches, self.running
        batches = replace(b, sizes=wider(b.sizes), seconds=wider(b.seconds))
        return replace(
            self, batches=batches, running=replace(r, sequences=wider(r.sequences), seconds=wider(r.seconds))
        )

    def _closed(self, rate: Array, population: Array) -> Passage:
        return self._passage(rate, (population - 1) / population, np.zeros(()))

    def _passage(self, rate: Array, others: Array, place: Array) -> Passage:
        """What a request goes through at a rate, where it meets a share `others` of the average load; lengths may vary.

        The share is (N − 1)/N for a population of N, whose requests also arrive less unevenly if N is small.
        """
        met, varied = rate * others, self.varied
        wait, prompts = self.batches.wait(met / self.prefills, np.maximum(others, 1e-9) / self.prefills, varied)
        leaving = self.batches.leaving(met / self.prefills, prompts, varied)
        prefill = interpolated(self.batches.sizes, self.batches.seconds, prompts)
        of_a_rank = of_rank(prompts, self.batches.sizes, self.batches.in_step)
        moved = of_a_rank * self.transfer
        shown = np.maximum(moved / self.layers, moved - prefill * (self.layers - 1) / self.layers)
        load = np.minimum(met * self.transfer / self.links, NEARLY)
        links = regularity(load, 1 / self.links, varied) * (1 + varied)
        wait = wait + links * load * self.transfer / (2 * (1 - load))
        running = self.running.running(met / self.decodes, leaving / self.decodes)
        running = np.maximum(running, np.minimum(self._batch(running, prompts), self.running.sequences[-1]))
        joining = self.running.joining(running, np.maximum(others, 1e-9) / np.maximum(1 - others, 1e-9) / self.decodes)
        step = interpolated(self.running.sequences, self.running.seconds, running)
        running = of_rank(running, self.running.sequences, self.running.in_step)
        return Passage(rate, wait, of_a_rank, prefill, shown, joining + place, running, step)

    def _batch(self, running: Array, prompts: Array) -> Array:
        """Sequences of a decode group that a request runs with because they were in its batch, itself included.

        Requests of a batch leave the prefill pool together, and are dealt out to the decode groups. Over a link their
        caches arrive one after another, so that of D seconds in which each decodes two share 1 − x/3 for S = x·D
        seconds between the first and the last, and (1 − 1/3x)/x where x exceeds 1. Of answers whose lengths vary two
        share a part w, that of `overlap_of`.
        """
        answering = self.running.steps * interpolated(self.running.sequences, self.running.seconds, running)
        apart = np.maximum(prompts * self.transfer / answering, 1e-9)
        shared = np.where(apart < 1, 1 - apart / 3, (1 - 1 / (3 * apart)) / apart)
        return np.asarray(1 + (prompts - 1) / self.decodes * shared * overlap_of(self.answers))
