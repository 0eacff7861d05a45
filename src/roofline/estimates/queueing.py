"""A replica under traffic, in closed form: steps of k decodes and the prompts that came since the last one.

Every request takes `more` = output − 1 decode steps after its prompt. Arrays: the first axis is that of the nodes, the
numbers of decodes that a table of step times stands at, and the others are those of what was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roofline.distinct import Array

NEARLY = 0.9999
"""Load at which a queue that grows without end is cut off."""
EXACT, SPACED = 32, 96
"""Numbers in the system that are summed one by one, and points that stand for those beyond."""

TOGETHER = 2**12
"""Numbers between neighbouring points that are worked out together."""


def interpolated(grid: Array, values: Array, at: Array) -> Array:
    """The values at places between the points of a grid, both along the first axis, linear between, flat beyond."""
    result = values[0]
    axes = max(at.ndim, grid.ndim - 1, values.ndim - 1)
    grid, values = (x.reshape(len(x), *(1,) * (axes + 1 - x.ndim), *x.shape[1:]) for x in (grid, values))
    for left, right in neighbours(len(grid), max(grid[0].size, values[0].size, at.size)):
        start, width = grid[left], grid[right] - grid[left]
        part = np.minimum(np.maximum((at - start) / np.where(width > 0, width, 1.0), 0.0), 1.0)
        result = result + ((values[right] - values[left]) * part).sum(axis=0)
    return np.asarray(result)


def neighbours(points: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Where neighbouring points begin and end, as many of them together as stay in a processor's cache."""
    step = max(1, TOGETHER // max(1, size))
    for i in range(0, points - 1, step):
        end = min(i + step, points - 1)
        yield slice(i, end), slice(i + 1, end + 1)


@dataclass(frozen=True)
class ReplicaTimes:
    """Step times of a replica.

    `decodes`: the nodes k, of which the first is 0, to the most that run at once. `alone`: seconds of a step of k
    decodes, 0 of none. `prompts`: numbers b of prompts from 1, to those that fill a step beside no decode.
    `mixed[b]`: seconds of a step with b prompts' chunks at each k; without the decodes where the engine does not `mix`
    them. `room`: most prompts of a step at each k, 1 where a prompt takes several `chunks`.
    `per_step`: prompts that the tokens of a step are worth, less than 1 where a prompt takes several.
    `partly`: as `mixed`, of parts of one prompt, or of a step full of one. `ahead`: a step is put together while the
    one before runs. `again`: the part of its prompt that a request computes again where all places are always taken.
    """

    decodes: Array
    alone: Array
    prompts: Array
    mixed: Array
    room: Array
    per_step: Array
    chunks: Array
    partly: Array
    mixes: bool
    ahead: bool = False
    again: Array | float = 0.0

    @cached_property
    def base(self) -> Array:
        """Seconds of a step that may take prompts and has none."""
        return self.alone if self.mixes else np.zeros_like(self.alone)

    def step(self, prompts: Array) -> Array:
        """Seconds of a step of so many prompts at each node."""
        grid = np.concatenate([np.zeros_like(self.prompts[:1]), self.prompts])[:, np.newaxis]
        return interpolated(grid, np.concatenate([self.base[np.newaxis], self.mixed]), np.minimum(prompts, self.room))

    def with_prompts(self, prompts: Array, decodes: Array) -> Array:
        """Seconds of a step of so many prompts, one at least, and decodes, 0 of them allowed."""
        values = interpolated(self.prompts[:, np.newaxis], self.mixed, prompts)
        return interpolated(self.decodes, values, decodes)

    def at(self, values: Array, decodes: Array) -> Array:
        """What is known at the nodes from k = 1 on, at another number of decodes."""
        return interpolated(self.decodes[1:], values[1:], decodes)


# -- users who begin together ----------------------------------------------------------------------------------------
def opening(table: ReplicaTimes, users: Array, rounds: Array) -> Array:
    """Mean seconds that TTFT is longer where all users of a replica begin at once and send so many `rounds`.

    Their n first prompts, of S seconds each, end in steps of b, after (n + b)/2·S in the mean and not S; later ones
    come as far apart as the first were answered, and wait for none of them.
    """
    room = np.where(table.chunks > 1, 1.0, table.at(table.room, users / 2))
    batch = np.clip(users, 1.0, room)
    beside = (users - batch) / 2 if table.mixes else np.zeros_like(users)
    each = table.chunks * table.with_prompts(batch, beside) / batch
    return np.asarray(((users + batch) / 2 - 1) * each / rounds)


# -- at random ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Open:
    """A replica that requests reach at random, `rate` of them a second, of which at most the last node's number run.

    `uneven`: squared variation of the gaps between requests: 1 at random, 1/R where R replicas take turns, whose gaps
    are sums of R at random. Waits shrink with it (Kingman). `fastest`: the most that it takes a second.

    The time of a decode is the step and its share of the prompts that came meanwhile, X(k) = s(k)/(1 − λΔ): a queue
    whose speed hangs on the number k in it, symmetric but for those that wait for a place, so that the number's
    distribution hangs on the mean length alone: π(n) ∝ Π λ·more·X(j)/j (Kelly, Reversibility and Stochastic Networks,
    §3.3). A request then meets the step under way, whose mean rest is E[X²]/2E[X], and shares its own with all that
    came in the same one. Prompts that do not fit into a step queue (M/G/1 with vacations; Doshi 1986).
    """

    table: ReplicaTimes
    rate: Array
    more: Array
    uneven: Array
    fastest: Array

    @property
    def others(self) -> Array:
        """Requests that come while one waits for seconds t: λ·t less these, since gaps between them are more even."""
        return np.asarray(1 - self.uneven)

    # -- prompts, at each node
    @cached_property
    def interval(self) -> Array:
        """Mean seconds X from one decode step's end to the next one's, prompts included."""
        t, rate = self.table, self.rate
        plain, full = t.alone, t.step(t.room)
        if t.mixes:
            chunked = np.minimum(full, plain / np.maximum(1 - rate * t.chunks * (full - plain), 1e-9))
            low, high = plain, np.maximum(full, plain)
            for _ in range(24):
                middle = (low + high) / 2
                longer = self._mean_step(rate * middle) > middle
                low, high = np.where(longer, middle, low), np.where(longer, high, middle)
            return np.where(t.chunks > 1, chunked, (low + high) / 2)
        return np.asarray(plain / (1 - self.busy_prompts))

    def _mean_step(self, mean: Array) -> Array:
        """Mean seconds of a step with a Poisson number of prompts of that mean."""
        some = -np.expm1(-mean)
        return np.asarray((1 - some) * self.table.alone + some * self.table.step(mean / np.maximum(some, 1e-12)))

    @cached_property
    def batch(self) -> tuple[Array, Array]:
        """Prompts of a step that has prompts alone, and its seconds.

        f such steps follow a decode step, f = (1 − e^(−λs))·e^(λY), which take all that came: b = λ·(s/f + Y).
        """
        t, rate = self.table, self.rate
        batch, seconds = np.ones_like(t.alone), t.step(np.ones_like(t.alone))
        for _ in range(40):
            each = np.clip(-np.expm1(-rate * t.alone) * np.exp(np.minimum(rate * seconds, 50.0)), 1e-9, 1e9)
            batch = np.clip(rate * (t.alone / each + seconds), 1.0, t.room)
            seconds = (seconds + t.step(batch)) / 2
        return batch, seconds

    @cached_property
    def busy_prompts(self) -> Array:
        """Share of the time that prompts take which run apart."""
        batch, seconds = self.batch
        return np.asarray(np.minimum(self.rate * self.table.chunks * seconds / batch, NEARLY))

    @cached_property
    def met_prompts(self) -> Array:
        """Share of the time that a request finds prompts under way which run apart.

        Where every place is taken, as many requests end as come: most/more in a decode step and the prompts before it,
        so that these leave 1 − λ·more·s/most of the time to prompts, which then wait for places in larger batches.
        """
        t = self.table
        left = 1 - self.rate * self.more * t.alone[-1:] / t.decodes[-1:]
        last = np.minimum(self.busy_prompts[-1:], np.maximum(left, 0.0))
        return np.concatenate([self.busy_prompts[:-1], last])

    @cached_property
    def spread(self) -> Array:
        """What one prompt more adds to a step of an ordinary number of them: dm/db over a deviation to either side."""
        t = self.table
        mean = np.minimum(self.rate * self.interval if t.mixes else self.batch[0], t.room)
        width = np.maximum(0.7 * np.sqrt(mean), 0.5)
        low, high = np.maximum(mean - width, 0.0 if t.mixes else 0.5), np.minimum(mean + width, t.room)
        return np.asarray((t.step(high) - t.step(low)) / np.maximum(high - low, 1e-9))

    @cached_property
    def under_way(self) -> Array:
        """E[X²]/E[X]: seconds of the step that a request meets, of which half is left; of prompts alone if apart."""
        mean = self.interval if self.table.mixes else self.batch[1]
        grown = np.minimum(self.rate * self.spread, 0.97) if self.table.mixes else 0.0
        return np.asarray(mean + self.spread**2 * self.rate * self.uneven / (1 - grown * grown))

    @cached_property
    def queue(self) -> Array:
        """Seconds that prompts wait beyond the step under way, because they do not fit into the next."""
        t = self.table
        full = t.step(t.room)
        rate = np.minimum(self.rate * full / t.room, NEARLY)
        several = rate ** np.sqrt(2 * (t.room + 1)) / (2 * (t.room / full) * (1 - rate))
        load = np.minimum(self.rate * self.serial, NEARLY)
        return np.asarray(np.where(t.chunks > 1, load * self.serial / (2 * (1 - load)), several) * self.uneven)

    @cached_property
    def serial(self) -> Array:
        """Seconds of the server that a prompt of several chunks keeps from the next one."""
        t = self.table
        full = t.step(np.ones_like(t.alone))
        return np.asarray(t.chunks * (full - t.base) + t.base / np.maximum(t.per_step, 1e-9))

    @cached_property
    def own(self) -> Array:
        """Seconds of the steps that compute a request's own prompt, beside those that came while it waited."""
        t, rate = self.table, self.rate
        several = t.chunks * t.step(np.ones_like(t.alone))
        if t.mixes:
            return np.where(t.chunks > 1, several, t.step(1 + np.maximum(rate * self.under_way - self.others, 0.0)))
        share = self.met_prompts
        first, after = t.step(1 + rate * t.alone), t.step(1 + np.maximum(rate * self.under_way - self.others, 0.0))
        return np.where(t.chunks > 1, several, (1 - share) * first + share * after)

    @cached_property
    def first(self) -> Array:
        """TTFT of a request that finds k decodes."""
        t = self.table
        rest = self.under_way / 2
        if not t.mixes:
            share = self.met_prompts
            rest = (1 - share) * t.alone / 2 + share * rest
        return np.asarray(np.where(t.chunks > 1, t.alone / 2, rest) + self.own + self.queue + self.next_step)

    @cached_property
    def next_step(self) -> Array:
        """Seconds of the step that a request misses, because it is put together already; where others wait before it,
        their steps come anyway."""
        t = self.table
        if not t.ahead:
            return np.zeros_like(t.alone)
        calm = 1 - np.minimum(self.rate * self.serial, 1.0)
        if not t.mixes:
            return np.asarray((1 - self.met_prompts) * t.alone)
        return np.asarray(np.where(t.chunks > 1, calm * t.alone, self.interval))

    @cached_property
    def behind(self) -> Array:
        """Seconds that those who came behind a request add to its decode steps, beyond what others add to any."""
        return self._behind(self.own + self.queue)

    def _behind(self, own: Array) -> Array:
        t, rate, more = self.table, self.rate, self.more
        if not t.mixes:
            full = rate * t.chunks * t.step(t.room) / t.room  # where many wait, steps are full and take less each
            share = np.minimum(self.busy_prompts, np.clip(full, 0.8, NEARLY))
            return np.asarray(own * share / (1 - share))
        grown = np.minimum(rate * self.spread, 0.97)
        turns = np.floor(more / 2) if t.ahead else more  # who comes in a step is in the next one, or the one after it
        several = np.maximum(own - self.interval, 0) * grown * (1 - grown**turns) / (1 - grown)
        several = np.minimum(several, more * np.maximum(t.step(t.room) - self.interval, 0))
        load = np.minimum(rate * self.serial, NEARLY)
        some, steps = -np.expm1(-rate * own), rate * own * t.chunks / (1 - load)
        slowed = steps * -np.expm1(-more * some / np.maximum(steps, 1e-12))  # of its steps, where they are exponential
        return np.asarray(
            np.where(t.chunks > 1, np.maximum(t.step(np.ones_like(t.alone)) - self.interval, 0) * slowed, several)
        )

    # -- the server
    @cached_property
    def cold(self) -> Array:
        """TTFT of a request that finds nobody."""
        return np.asarray((self.table.chunks * self.table.step(np.ones_like(self.table.alone)))[0])

    @cached_property
    def idle(self) -> Array:
        """Share of the time that nobody is there: 1 over the prompts of a busy period.

        It ends where nobody comes during a prompt's own step and all its decodes.
        """
        t, rate = self.table, self.rate
        step = t.alone[1]
        calm = np.exp(-rate * step * self.more)
        together = np.maximum(1.0, rate * step / np.maximum(-np.expm1(-rate * step), 1e-12))
        apart = calm * np.maximum(1 - (rate * self.serial[1] if t.mixes else self.busy_prompts[1]), 0.0) / together
        if not t.mixes:
            return np.asarray(apart)
        mean = np.where(self.more > 0, rate * self.interval[1], rate * self.cold)
        batch = mean / np.maximum(-np.expm1(-mean), 1e-12)
        last = calm * np.exp(-rate * t.step(batch + np.zeros_like(t.alone))[1])
        return np.asarray(np.where(t.chunks > 1, apart, last / (last + (1 - last) * batch)))

    @cached_property
    def numbers(self) -> tuple[Array, Array]:
        """Numbers of requests that decode or wait for a place, whole up to EXACT, and how many each stands for."""
        most = self.table.decodes[-1]
        steps = np.arange(1, EXACT + SPACED + 1, dtype=float).reshape(-1, *(1 for _ in most.shape))
        beyond = np.sqrt(EXACT) + (np.sqrt(np.maximum(most, EXACT)) - np.sqrt(EXACT)) * (steps - EXACT) / SPACED
        points = np.minimum(np.where(steps <= EXACT, steps, np.rint(beyond**2)), most)
        ends = np.concatenate([points[:1] - 1, points])
        return points, np.diff(ends, axis=0)

    def answer(self) -> tuple[Array, Array]:
        """Mean TTFT and TPOT."""
        t, rate, more = self.table, self.rate, self.more
        points, widths = self.numbers
        ratios = np.log(np.maximum(rate * more, 1e-300)) + np.log(t.at(self.interval, points) / points)
        before = np.concatenate([ratios[:1], ratios[:-1]])
        logs = np.cumsum(widths * (ratios + before) / 2 + np.minimum(widths, 1) * (ratios - before) / 2, axis=0)
        top = np.maximum(logs.max(axis=0), 0.0)
        shares, nobody = widths * np.exp(logs - top), np.exp(-top)
        last = np.exp(logs - top)[-1]
        ratio = np.minimum(rate / self.fastest, NEARLY)
        waiting = last * ratio / (1 - ratio)
        everything = nobody + shares.sum(axis=0) + waiting
        decoding = ((shares * points).sum(axis=0) + waiting * t.decodes[-1]) / everything
        present = (shares.sum(axis=0) + waiting) / everything
        idle = self.idle
        cold = np.minimum(idle * rate * self.cold, 1 - idle)
        busy = 1 - idle - cold
        seen = (shares * t.at(self.first, points)).sum(axis=0) + waiting * self.first[-1]
        seen = np.where(present > 0, seen / np.maximum(everything * present, 1e-300), self.first[1])
        late = 0.5 * self.uneven * last * ratio / (1 - ratio) ** 2 / everything / rate
        met = np.where(t.chunks > 1, t.alone[1] / 2, self.under_way[1] / 2) + self.next_step[1]
        again = np.maximum(self.first[1] - met, 0) + (t.alone[1] if t.ahead else 0.0)
        ttft = idle * self.cold + cold * (self.cold / 2 + again) + busy * seen + late
        after = self._behind(self.cold + np.zeros_like(t.alone))[1]
        mine = (shares * t.at(self.behind, points)).sum(axis=0) + waiting * self.behind[-1]
        mine = np.where(present > 0, mine / np.maximum(everything * present, 1e-300), self.behind[1])
        steps = np.maximum(more, 1)
        tpot = decoding / (rate * steps) + ((idle + cold) * after + busy * mine) / steps
        return ttft, np.where(more > 0, tpot, t.alone[1])
