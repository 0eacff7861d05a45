"""Two pools in a row, in closed form: prompts in batches, then the decode steps of those that run together.

Rates are requests a second, times seconds, everything arrays. Of tables the first axis is that of the nodes, numbers of
prompts or sequences, between which times are linear; the other axes are those of what was asked. `uneven` is the
squared coefficient of variation of the gaps between the requests of one group: 1/c where Poisson arrivals go round c
groups, whose gaps are Erlang's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roofline.distinct import Array
from roofline.estimates.interpolation import interpolated

NEARLY = 1 - 1e-6
"""Load at which a queue that would grow without end is cut off."""
TOGETHER = 2**12
"""Numbers between neighbouring points that are worked out together."""
SINGLE, FARTHER = 32, 160
"""Numbers of sequences whose probability is summed one by one, and points that stand for those beyond."""


def neighbours(points: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Where neighbouring points begin and end, as many of them together as stay in a processor's cache."""
    step = max(1, TOGETHER // max(1, size))
    for i in range(0, points - 1, step):
        end = min(i + step, points - 1)
        yield slice(i, end), slice(i + 1, end + 1)


def balance(nodes: Array, excess: Array) -> Array:
    """Where an excess that begins below 0 reaches it, linear between the nodes; the first or last one otherwise."""
    result, below = nodes[0] + 0.0 * excess[0], np.ones(1, dtype=bool)
    for left, right in neighbours(len(nodes), result.size):
        low, high = excess[left], excess[right]
        runs = np.logical_and.accumulate(low < 0, axis=0) & below
        part = np.where(high > low, -low / np.where(high > low, high - low, 1.0), 1.0)
        part = np.minimum(np.maximum(part, 0.0), 1.0)
        result = result + np.where(runs, (nodes[right] - nodes[left]) * part, 0.0).sum(axis=0)
        below = runs[-1]
    return np.asarray(result)


def regularity(load: Array, uneven: Array, varied: Array | float = 0.0) -> Array:
    """What is left of a wait where gaps vary less than at random, as a share of that at random.

    (c² + v)/(1 + v) times the factor of Kraemer and Langenbach-Belz (1976), exp(−2(1 − ρ)(1 − c²)²/(3ρ(c² + v))):
    c² is `uneven`, v the squared coefficient of variation of service.
    """
    both = uneven + varied
    shrunk = np.exp(-2 * (1 - load) * (1 - uneven) ** 2 / (3 * np.maximum(load, 1e-12) * both))
    return np.asarray(both / (1 + varied) * shrunk)


def dealt(numbers: Array, seconds: Array, in_step: Array) -> tuple[Array, Array]:
    """The table of so many ranks that run every step together, by what all of them have, from the table of one.

    They have it in turn, so that the fullest has ⌈N/ranks⌉, which is (N + (ranks − 1)/2)/ranks on average.
    """
    first = np.ones_like(numbers[:1] * in_step)
    every = np.concatenate([first, numbers * in_step - (in_step - 1) / 2, numbers[-1:] * in_step])
    return every, np.concatenate([seconds[:1], seconds, seconds[-1:]]) + np.zeros_like(every)


def of_rank(number: Array, every: Array, in_step: Array | float) -> Array:
    """What the fullest of so many ranks has of that many in all, one at least, at most its share of the last node."""
    fullest = np.maximum((number + (in_step - 1) / 2) / in_step, np.minimum(number, 1.0))
    return np.asarray(np.minimum(fullest, every[-1] / in_step))


@dataclass(frozen=True)
class Batches:
    """A group of the pool that prefills: whatever waits when it is free begins together, at most `sizes[-1]` prompts.

    `seconds`: of a batch by its size, from its begin to its end; `depth`: pipeline stages, so many batches under way.
    `in_step`: ranks of the group, which run every step together.
    """

    sizes: Array
    seconds: Array
    depth: Array
    in_step: Array | float = 1.0

    @cached_property
    def occupied(self) -> Array:
        """Seconds from one batch to the next."""
        return np.asarray(self.seconds / self.depth)

    @cached_property
    def fastest(self) -> Array:
        """Prompts a second of full batches."""
        return np.asarray(self.sizes[-1] / self.occupied[-1])

    def wait(self, rate: Array, uneven: Array, varied: Array | float = 0.0) -> tuple[Array, Array]:
        """Seconds until a prompt's batch begins, and the prompts of that batch, at a rate of the group.

        A batch of n prompts takes s(n) = s(0) + n·Δ, in which x = rate·s(n) come on average, and with probability p
        none: n = x + p on average. Where q prompts did not fit, the balance of the squares of n + q from one batch to
        the next gives E[q]·2b(1 − ρ) = (u − v)(1 − (rate·Δ)²), exact for random arrivals: u is the variance of n where
        batches have no limit, v the variance there is. A prompt waits (s(b)·E[q] + rate·E[s²]/2)/E[n]. v is taken to be
        u and (b − n)(n − 1), the most that a mean between 1 and b allows, as in parallel. `varied`: v of a prompt's
        seconds, by which those of n vary by v/n. Of b = 1 this is the M/G/1 queue's ρs(1 + v)/(2(1 − ρ)).
        """
        largest, whole = self.sizes[-1], self.occupied[-1]
        coming = rate * self.occupied
        none = uneven * np.exp(-coming) + (1 - uneven) * np.maximum(0.0, 1 - coming)
        mean = balance(self.sizes, self.sizes - coming - none)
        step = interpolated(self.sizes, self.occupied, mean)
        slope = (whole - self.occupied[0]) / np.maximum(largest - 1, 1)
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


@dataclass(frozen=True)
class Places:
    """A group of the pool that decodes: at most `sequences[-1]` of them run together, the others wait for a place.

    `seconds`: of a step by its sequences. `steps`: those of a request. `ahead`: 1 where a step is put together while
    the one before it runs, so that who comes meanwhile waits for a whole one more, else 0. `in_step`: as of `Batches`.
    """

    sequences: Array
    seconds: Array
    steps: Array
    ahead: float
    in_step: Array | float = 1.0

    @cached_property
    def fastest(self) -> Array:
        """Requests a second where every place is taken."""
        return np.asarray(self.sequences[-1] / (self.seconds[-1] * self.steps))

    def running(self, rate: Array, uneven: Array) -> Array:
        """Sequences of a step that a request is in, itself included, at a rate of the group.

        By Little's law k = rate·steps·t(k) run on average, and those that a request meets are that many where arrivals
        are random: it runs among k + 1. Exact for times that are linear in k, by the product form of such a queue.
        """
        return balance(self.sequences, self.sequences - uneven - rate * self.steps * self.seconds)

    def joining(self, running: Array, others: Array) -> Array:
        """Seconds until the first step of a request begins: what is left of the one under way, if any of the others
        decodes; there are so many of them to a group.
        """
        busy = 1 - np.exp(others * np.log1p(-np.minimum((running - 1) / others, 1 - 1e-9)))
        return np.asarray(busy * (0.5 + self.ahead) * interpolated(self.sequences, self.seconds, running))

    @cached_property
    def _counts(self) -> tuple[Array, Array]:
        """Numbers of sequences, from 1 to the most, and what a step takes with each, in logarithms."""
        most = self.sequences[-1]
        powers = np.linspace(0, 1, FARTHER).reshape(-1, *(1 for _ in most.shape))
        single = np.minimum(np.arange(1.0, SINGLE + 1).reshape(-1, *(1 for _ in most.shape)), most)
        first = np.minimum(float(SINGLE), most)
        counts = np.concatenate([single, np.rint(first * (most / first) ** powers)])
        return counts, np.log(interpolated(self.sequences, self.seconds, counts) / counts)

    def place(self, rate: Array, uneven: Array) -> Array:
        """Seconds that a request waits for a place, at a rate of the group that is below its fastest.

        π(k) ∝ (rate·steps)^k·Π t(j)/j, j ≤ k: the product form of a queue whose speed hangs on how many it serves, with
        service shared out equally, whatever the lengths (Kelly 1979). Beyond the most the queue is served in order; as
        lengths do not vary it is half as long as a random one.
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
    """What a request goes through: seconds of each part, at a rate.

    `prompts`: those of its rank's batch. `prefill`: that batch. `shown`: of the transfer what the prefill does not
    hide. `running`: sequences of its rank's steps. `prefill_wait`: for a replica that prefills and for the links,
    `decode_wait`: for a place in one that decodes and for its first step.
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
    """Pools of `prefills` groups that compute prompts and `decodes` groups that decode, and `links` between them.

    `transfer`: seconds that a prompt's cache keeps a link; it goes layer by layer, of so many `layers`.
    `before`: seconds before a scheduler sees a request. `varied`: squared coefficient of variation of prompts' lengths.
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

    @cached_property
    def capacity(self) -> Array:
        """Requests a second that both pools and the links hold."""
        pools = np.minimum(self.prefills * self.batches.fastest, self.decodes * self.running.fastest)
        return np.asarray(np.minimum(pools, self.links / self.transfer))

    def first_token(self, p: Passage) -> Array:
        """Seconds from a request's arrival to its first token, that of the first decode step."""
        return np.asarray(self.before + p.prefill_wait + p.prefill + p.shown + p.decode_wait + p.step)

    def latency(self, p: Passage) -> Array:
        """Seconds from a request's arrival to its last token."""
        return np.asarray(self.first_token(p) + (self.running.steps - 1) * p.step)

    def at(self, rate: Array) -> Passage:
        """Requests that come at random, so many a second."""
        return self._passage(rate, np.ones(()), self.running.place(rate / self.decodes, 1 / self.decodes))

    def always(self, population: Array) -> Passage:
        """So many requests, each of which comes when another one is done.

        Mean value analysis of a closed network: a request meets what the others, one fewer, leave on average, which is
        taken to be in proportion (Schweitzer 1979); throughput = population / latency. It never exceeds the capacity:
        who is then left waits at the pool that has none.
        """
        low, high = np.zeros(np.broadcast_shapes(np.shape(population), self.capacity.shape)), self.capacity
        for _ in range(48):
            middle = (low + high) / 2
            enough = middle * self.latency(self._closed(middle, population)) >= population
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        p = self._closed(high, population)
        left = np.maximum(0.0, population / high - self.latency(p))
        decode = self.decodes * self.running.fastest <= self.capacity * (1 + 1e-9)
        return Passage(
            high, p.prefill_wait + np.where(decode, 0.0, left), p.prompts, p.prefill, p.shown,
            p.decode_wait + np.where(decode, left, 0.0), p.running, p.step,
        )  # fmt: skip

    def always_at(self, rate: Array) -> tuple[Array, Passage]:
        """How many requests, each of which comes when another one is done, make such a rate, and what they go through.

        Of `always` the inverse: n = rate · latency, which hangs a little on n itself.
        """
        number = np.full(np.broadcast_shapes(np.shape(rate), self.capacity.shape), np.inf)
        for _ in range(3):
            others = np.where(np.isinf(number), 1.0, 1 - 1 / np.maximum(number, 1.0))
            p = self._passage(rate, others, np.zeros(()))
            number = np.maximum(rate * self.latency(p), 1.0)
        return number, p

    def _closed(self, rate: Array, population: Array) -> Passage:
        return self._passage(rate, (population - 1) / population, np.zeros(()))

    def _passage(self, rate: Array, others: Array, place: Array) -> Passage:
        """At a rate, where a request meets that share of what there is on average, and lengths that vary.

        That is (N − 1)/N of a population of N; so few also come less unevenly.
        """
        met, varied = rate * others, self.varied
        wait, prompts = self.batches.wait(met / self.prefills, np.maximum(others, 1e-9) / self.prefills, varied)
        prefill = interpolated(self.batches.sizes, self.batches.seconds, prompts)
        prompts = of_rank(prompts, self.batches.sizes, self.batches.in_step)
        moved = prompts * self.transfer
        shown = np.maximum(moved / self.layers, moved - prefill * (self.layers - 1) / self.layers)
        load = np.minimum(met * self.transfer / self.links, NEARLY)
        links = regularity(load, 1 / self.links, varied) * (1 + varied)
        wait = wait + links * load * self.transfer / (2 * (1 - load))
        running = self.running.running(met / self.decodes, 1 / self.decodes)
        joining = self.running.joining(running, np.maximum(others, 1e-9) / np.maximum(1 - others, 1e-9) / self.decodes)
        step = interpolated(self.running.sequences, self.running.seconds, running)
        running = of_rank(running, self.running.sequences, self.running.in_step)
        return Passage(rate, wait, prompts, prefill, shown, joining + place, running, step)
