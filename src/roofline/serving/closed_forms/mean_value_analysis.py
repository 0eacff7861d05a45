"""A closed-loop replica in closed form: each user sends the next request when one is answered, in no particular order.

Mean value analysis: an arriving request sees the average load of the others, (P − 1)/P of what P users have (Reiser and
Lavenberg 1980; Schweitzer 1979), so that a single user meets nobody. A user is away for `late` seconds after each
answer, while the host prepares the next request; the rest of the cycle is spent in the engine's steps. Arrays: axes as
in `queueing.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.bracketing import halved
from roofline.declared.numbers.maths import Count
from roofline.serving.closed_forms.batches import normal_share
from roofline.serving.closed_forms.interpolation import interpolated
from roofline.serving.closed_forms.queueing import NEARLY, ReplicaTimes, largest_of

ROUNDS, INNER, BEHIND = 30, 10, 6
"""Halvings in the searches for a load and for the prompts of a step; iterations for those behind a request."""

FULL = 1 - 1e-6
"""Load from which all steps count as full of prompts."""
SOME = 0.99
"""Share of the users below which a load leaves some of them waiting for a place."""


@dataclass(frozen=True)
class Circulation:
    """A closed loop at one load: `rate` in requests per second, and seconds of each request.

    `waits`: until a step that it can join; `inside`: while it holds a place; `step`: for each of its decode steps.
    `load`: prompts over the most that steps can take. `own`: as `step`, averaged over requests, each with the mean of
    its own steps; the prompts right behind a request's own delay it by as much however many these steps are.
    """

    rate: Array
    waits: Array
    inside: Array
    step: Array
    load: Array
    own: Array


def either(first: Array, one: Circulation, other: Circulation) -> Circulation:
    """Select elementwise: `one` where `first` is true, else `other`."""
    pairs = ((getattr(one, f.name), getattr(other, f.name)) for f in fields(Circulation))
    return Circulation(*(np.where(first, a, b) for a, b in pairs))


@dataclass(frozen=True)
class ClosedLoop:
    """A replica with `users` users, whose requests take `more` decode steps after their prompt.

    `late`: seconds that a user is away after each answer. `company`: other ranks with users that run every step in lock
    step with this one. `weight`: of a delay common to all requests in the mean over requests, relative to 1/more; short
    answers weigh most.
    """

    table: ReplicaTimes
    users: Array
    more: Array
    late: Array
    company: Array
    weight: Array

    def answer(self) -> Circulation:
        """The loop at the largest load that needs no more users and no more places than there are.

        A scheduler keeps nobody waiting because a smaller batch would be faster. The rate is at least that of one
        request after another.
        """
        low, high = halved(self._fits, np.zeros_like(self.most), self.most, ROUNDS)
        best = self._between(self._around(low), self._around(high))
        serial = 1 / (self.late / self.users + self._alone)
        return replace(best, rate=np.where(self.company > 0, best.rate, np.maximum(best.rate, serial)))

    # -- loads -----------------------------------------------------------------------------------------------------
    @cached_property
    def places(self) -> Array:
        """Most requests that run at once."""
        return np.asarray(self.table.decodes[-1], dtype=float)

    @cached_property
    def sources(self) -> Array:
        """Users that can be in the steps at once."""
        return np.asarray(np.minimum(self.users, self.places))

    @cached_property
    def rest(self) -> Array:
        """Users beside one, those who wait for a place included; finite where there is no end of them."""
        return np.asarray(np.clip(self.users - 1, 1e-9, 1e9))

    @property
    def dealt(self) -> Array:
        """Whether requests of ranks in lock step start as they were dealt out, in turn.

        That holds where all places are taken and answers are equally long: a request starts where one ends, and those
        that end together started together.
        """
        return np.asarray((self.company > 0) & np.isinf(self.users) & self.table.alike)

    @property
    def others(self) -> Array:
        """Share of all users' work that is others', as one user sees it: (n − 1)/n."""
        return np.asarray((self.sources - 1) / self.sources)

    @cached_property
    def together(self) -> Array:
        """Whether a load is given by the prompts that start in a step: phases mix, or there are no decode steps.

        Where phases do not mix, more prompts arrive between two decode steps than in one step.
        """
        return np.asarray(self.table.mixes | (np.asarray(self.more) == 0))

    @cached_property
    def most(self) -> Array:
        """An upper bound of the load: prompts that start per step, or per second where phases do not mix."""
        t = self.table
        steps = self.sources / (t.chunks + self.more)
        least = self._alone
        seconds = np.minimum(self.users / (self.late + least), self.places / least)
        shape = np.broadcast_shapes(np.shape(steps), np.shape(seconds), t.decodes.shape[1:])
        return np.broadcast_to(np.where(self.together, steps, seconds), shape)

    @property
    def _alone(self) -> Array:
        """Seconds in the engine's steps of a request that runs alone."""
        return np.asarray(self.table.lone + self.more * self.table.alone[1])

    def _fits(self, load: Array) -> Array:
        """Whether there are enough users, places and steps for a load."""
        a = self._around(load)
        return np.asarray((self._needed(a) <= self.users) & self._runs(a))

    def _needed(self, a: Circulation) -> Array:
        """Users that a load takes, by Little's law."""
        return np.asarray(a.rate * (self.late + a.waits + a.inside))

    def _runs(self, a: Circulation) -> Array:
        """Whether there are enough steps and places."""
        return np.asarray((a.load <= 1) & (a.rate * a.inside <= self.places))

    def _between(self, fewer: Circulation, more: Circulation) -> Circulation:
        """Interpolate between neighbouring loads that take fewer and more users than there are.

        Where batches jump to another size, so does the number of users that a load takes; the server then spends part
        of its time at either.
        """
        low, high = self._needed(fewer), self._needed(more)
        part = np.where(self._runs(more) & (high > low), (self.users - low) / np.maximum(high - low, 1e-300), 0.0)
        part = np.clip(np.where(np.isfinite(part), part, 0.0), 0.0, 1.0)
        pairs = ((getattr(fewer, f.name), getattr(more, f.name)) for f in fields(Circulation))
        return Circulation(*(a + part * (b - a) for a, b in pairs))

    def _around(self, load: Array) -> Circulation:
        load = np.maximum(load, 1e-12)
        if self.together.all():
            return self._shared(load)
        if not self.together.any():
            return self._apart(load)
        return either(self.together, self._shared(load), self._apart(load))

    # -- steps of prompts and decodes ------------------------------------------------------------------------------
    def _shared(self, begun: Array) -> Circulation:
        """The loop where `begun` prompts of all users start per step and phases mix.

        The number of others' prompts is binomial. Prompts beyond a step's room wait for their turn, as in an M/D/1
        queue of the other users' prompts, less where a step takes several (Sakasegawa 1977). Without decode steps a
        prompt that finds nobody starts at once, and a share of the steps has no queue before it. Prompts still queued
        when a request finishes its prefill slow down its decode steps, by no more than if all of these were full. Users
        who come back together wait for each other's prompts `earlier`: before their own, instead of while they decode.
        For lognormal answers E[n]·E[1/n] = e^(σ²), which is the weight of short ones.
        """
        t, more = self.table, self.more
        met = begun * self.others
        decodes = np.minimum(met * more, self.places)
        room = np.where(t.chunks > 1, 1.0, t.at(t.room, np.maximum(decodes, 1.0)))
        turns = t.chunks / room
        load = met * turns
        queued = np.minimum(load, 1.0) ** (np.sqrt(2 * (room + 1)) - 2)
        wait = queued * turns * load / 2 / np.maximum(1 - queued * load, 1 - NEARLY)
        wait = wait * np.where(np.asarray(more) > 0, 1.0, np.minimum(load, 1.0))
        comers = self._comers(met, decodes)
        own = t.with_prompts(np.where(t.chunks > 1, 1.0, np.clip(1 + met * (1 + wait), 1.0, room)), decodes)
        beside = np.minimum(1 + decodes, self.places)
        plain = t.at(t.alone, beside)
        source = np.maximum(self.sources - 1, 1e-9)
        some = 1 - np.maximum(1 - np.minimum(met / source, 1.0), 0.0) ** source
        share = np.where(t.chunks > 1, load, np.maximum(some, met / room))
        share = np.clip(np.where(np.asarray(more) > 0, share, 1.0), 0.0, 1.0)
        batch = np.clip(met / np.maximum(np.minimum(share, some), 1e-12), 1.0, room)
        if np.any(self.company > 0):
            begins = np.where(t.chunks > 1, np.minimum(begun * turns, 1.0), -np.expm1(-begun))
            begins = np.clip(np.where(np.asarray(more) > 0, begins, 1.0), 0.0, 1.0)
            share = 1 - (1 - share) * (1 - begins) ** self.company
            most_begun = np.clip(self._slowest(begun, share), 1.0, room)
            batch = np.where(self.dealt, most_begun, np.where(self.company > 0, np.maximum(batch, most_begun), batch))
            alone = np.where(
                t.chunks > 1, 1.0, np.maximum(np.clip(1 + met * (1 + wait), 1.0, room), most_begun * share)
            )
            own = np.where(self.company > 0, t.with_prompts(np.maximum(alone, 1.0), decodes), own)
        full = t.with_prompts(np.where(t.chunks > 1, 1.0, batch), beside if t.mixes else np.zeros_like(beside))
        step = (1 - share) * plain + share * full
        behind = queued * met / 2 * np.minimum(more, turns) ** 2 * np.maximum(full - plain, 0.0)
        behind = np.where(np.asarray(more) > 0, behind, 0.0)
        steps, gap, square = np.maximum(more, 1e-12), np.maximum(full - step, 0.0), np.log(np.maximum(self.weight, 1))
        common = np.maximum(1 - turns / steps, 0.0)  # fewer steps meet fewer
        own_behind = common * lesser(behind * self.weight / steps, gap, square)
        behind = gap * lesser(steps, behind / np.maximum(gap, 1e-300), square)
        own_behind = own_behind + (1 - common) * behind / steps
        after = more * step + behind
        inside = (
            wait * np.where(met > 0, full, 0.0) + t.chunks * own + interpolated(t.decodes, t.lone_more, decodes) + after
        )
        rate = begun * (wait + t.chunks + t.further + more) / inside
        inside = inside + self._fills(comers, met * wait, met * t.chunks) * t.further * np.maximum(full - plain, 0.0)
        uneven = (1 - share) * plain**2 + share * full**2
        waits = self._waits(rate, self._left(step, uneven), step, step)
        back = -self.rest * np.expm1(-comers * turns / self.rest)  # while the prompt that nobody is before runs
        earlier = np.maximum(1 - load, 0.0) * full * back**2 / (1 + back / turns) / 2
        earlier = np.minimum(earlier, np.maximum(after - more * plain, 0.0)) / steps
        following, mine = (
            np.where(np.asarray(more) > 0, each - earlier, t.alone[1]) for each in (after / steps, step + own_behind)
        )
        return Circulation(rate, waits, inside, following, turns * np.maximum(begun, rate * full), mine)

    def _slowest(self, begun: Array, share: Array) -> Array:
        """Prompts on the slowest of ranks in lock step, if any has some; `begun` start on each per step on average."""
        ranks, varied, some = self.company + 1, self.table.lengths, np.maximum(share, 1e-12)
        total = begun * ranks / some
        dealt = np.maximum((total + (ranks - 1) / 2) / ranks, 1.0)
        dealt = dealt * largest_of(np.clip(total, 1.0, ranks), varied / np.maximum(total / ranks, 1.0))
        drawn = slowest_of(np.minimum(begun, self.table.room.max(axis=0)), ranks, varied) / some
        return np.where(self.dealt, dealt, drawn)

    def _comers(self, met: Array, decodes: Array) -> Array:
        """Prompts that come together behind one that nobody is before.

        While its step lasts, users are back whose answers ended in the many short steps before it, up to `late` seconds
        ago. Of ranks in lock step there are few such steps.
        """
        t = self.table
        short = np.maximum(t.at(t.alone, np.maximum(decodes, 1.0)), 1e-12)
        window = np.minimum(self.late, t.with_prompts(np.ones_like(short), decodes)) / short
        behind = np.minimum(met * window, self.rest)
        return np.asarray(np.where((self.more > 0) & (self.company <= 0), behind, 0.0))

    def _fills(self, comers: Array, before: Array, meanwhile: Array) -> Array:
        """Probability that other prompts fill what the last chunk of one leaves of its step.

        Numbers of prompts: `comers` behind one that nobody is before, all but the last of whom have some behind them;
        those that come `before` a prompt begins, and `meanwhile`. With asynchronous scheduling the last step is put
        together before whoever comes during the one before.
        """
        ahead = self.table.ahead
        behind = (comers + np.expm1(-comers) if ahead else comers) / (1 + comers)
        nobody = np.exp(-before if ahead else -before - meanwhile) * (1 - behind)
        return np.asarray(np.where((self.more > 0) & (self.company <= 0), 1 - nobody, 0.0))

    # -- prompts apart ---------------------------------------------------------------------------------------------
    def _apart(self, rate: Array) -> Circulation:
        """The loop at `rate` requests per second where prompts run alone and before any decode step.

        Prompts take a share ρ of the time and decode steps the rest, with k = rate·more·s(k)/(1 − ρ) decodes. A request
        is prefilled with those that arrived during the same step; requests that end in the same decode step come back
        together. After its prompt, all prompts run that arrived meanwhile from users who were away: n of them send n·(1
        − e^(−t/late)) within t seconds. Further prompts run between its decode steps.
        """
        t, more = self.table, self.more
        met, meets = rate * self.others, self._meets(rate)
        room = np.where(t.chunks > 1, 1.0, t.room[0])
        places, none = t.decodes[1:], np.zeros_like(rate)
        slower = np.maximum.accumulate(places / t.alone[1:], axis=0)

        def prompts(number: Array) -> Array:
            return interpolated(t.prompts, t.mixed[:, 0], number)

        low, high = none, np.ones_like(rate)
        share, longer = none, none + 1.0
        for _ in range(INNER):
            part = (low + high) / 2
            batch = np.asarray(room**part)
            largest, any_other = others_begin(batch, room, share, self.company)
            seconds = prompts(largest)
            each = t.chunks * seconds / batch
            busy = np.minimum(met * each, NEARLY)
            work = rate * more / (1 - busy) * longer
            decodes = np.where(work * t.alone[1] <= 1, work * t.alone[1], interpolated(slower, places, work))
            plain = t.at(t.alone, 1 + decodes * self.others)
            slower_by = np.maximum(seconds - plain, 0.0)
            step, any_begin = plain + any_other * slower_by, 1 - (1 - share) * (1 - any_other)
            share = np.minimum(rate * t.chunks / batch * (plain + any_begin * slower_by), 1.0)
            longer = step / plain
            ends = np.maximum(decodes * self.others / np.maximum(more, 1e-12), 1e-12)
            together = np.maximum(
                1 + met * (busy * seconds + np.maximum(meets - busy, 0.0) * step), ends / -np.expm1(-ends)
            )
            more_come = together > batch
            low, high = np.where(more_come, part, low), np.where(more_come, high, part)
        turn = np.where(t.chunks > 1, t.chunks * prompts(np.ones_like(rate)), prompts(room + none) / room)
        load = np.minimum(met * turn, 1.0)
        often, seldom = busy / seconds, np.maximum(meets - busy, 1e-9) / step
        share = often / (often + seldom)
        queued = load ** (np.sqrt(2 * (room + 1)) - 2)
        wait = queued * turn * load / 2 * (1 / np.maximum(1 - queued * load, 1 - NEARLY) - 1)
        mean, uneven = share * seconds + (1 - share) * step, share * seconds**2 + (1 - share) * step**2
        following = (1 - share) * step + share * seconds * (1 - queued)
        own = t.chunks * seconds
        left = self._left(mean, uneven)
        waits = self._waits(rate, left, following, step)
        before = waits - meets * left + wait + own
        away, behind = met * self.late, none
        for _ in range(BEHIND):
            behind = each * away * -np.expm1(-(before + behind) / np.maximum(self.late, 1e-9))
        between = met * step / (1 - busy) * each
        after = more * step + np.maximum(more - 1, 0.0) * between + behind
        once, following = behind - np.minimum(more, 1.0) * between, after / np.maximum(more, 1e-12)
        mine = np.maximum(following + (self.weight - 1) * once / np.maximum(more, 1e-12), 0.0)
        return Circulation(rate, waits, wait + own + t.lone_more[0] + after, following, rate * turn, mine)

    # -- whoever comes ---------------------------------------------------------------------------------------------
    def _waits(self, rate: Array, left: Array, following: Array, last: Array) -> Array:
        """Seconds until a request can join a step: the rest of the step under way, and maybe the one that follows.

        Of the step under way, `left` seconds remain. With asynchronous scheduling the `following` step is put together
        already. It exists where another user is there for it, neither away nor in the `last` step of an answer. A
        request does not meet on arrival those who wait because of the request itself.
        """
        meets = self._meets(rate)
        if not self.table.ahead:
            return np.asarray(meets * left)
        waits = meets * (left + following)
        gone = rate * (self.late + last + waits / np.maximum(self.users - 1, 1.0)) / self.users
        return np.asarray(meets * left + self._any(gone) * following)

    def _meets(self, rate: Array) -> Array:
        """Probability that at least one of the others is not away."""
        return self._any(rate * self.late / self.users)

    def _any(self, gone: Array) -> Array:
        """Probability that one of the others is not gone; a fraction of another user counts in proportion."""
        gone, others = np.minimum(gone, 1.0), np.maximum(self.users - 1, 0.0)
        return np.asarray(np.where(others >= 1, 1 - gone ** np.maximum(others, 1.0), others * (1 - gone)))

    def _left(self, mean: Array, uneven: Array) -> Array:
        """Mean seconds left of the step under way, whose mean and mean square are given. It began with the last answer,
        or at a random time where more than one has passed since. A user who is never away arrives between two steps."""
        return np.where(np.asarray(self.late) > 0, np.maximum(mean - self.late, uneven / mean / 2), 0.0)


def lesser(mean: Array, limit: Array, square: Array) -> Array:
    """Mean of the lesser of a lognormal number of this mean and a limit, where σ² = `square` of its logarithm.

    E min(X, b) = m·Φ(z − σ/2) + b·Φ(−z − σ/2), with z = ln(b/m)/σ.
    """
    deviation = np.sqrt(np.maximum(square, 1e-6))
    z = np.log(np.maximum(limit, 1e-300) / np.maximum(mean, 1e-300)) / deviation
    return np.asarray(mean * normal_share(z - deviation / 2) + limit * normal_share(-z - deviation / 2))


def fullest(mean: Array, ranks: Array) -> Array:
    """Mean of the largest of `ranks` Poisson numbers: Σ 1 − P(N ≤ k)^ranks."""
    chance = np.exp(-mean)
    upto, largest = chance, 1 - chance**ranks
    for k in range(1, int(np.max(mean + 6 * np.sqrt(mean))) + 6):
        chance = chance * mean / k
        upto = np.minimum(upto + chance, 1.0)
        largest = largest + 1 - upto**ranks
    return np.asarray(largest)


def slowest_of(mean: Array, ranks: Array, varied: Array | float) -> Array:
    """Mean of the most tokens on any of `ranks` ranks, each with a Poisson number n of prompts, in mean prompts.

    Where the tokens of a prompt have the squared variation v, those of a rank have a variance of (1 + v)·n.
    """
    mean = np.maximum(mean, 1e-12)
    longer = largest_of(ranks, (1 + varied) / mean) / largest_of(ranks, 1 / mean)
    return np.asarray(fullest(mean, ranks) * longer)


def others_begin(batch: Array, room: Array, share: Array, company: Array) -> tuple[Array, Array]:
    """Other ranks in lock step with this one, each of which spends a `share` of its steps on prompts alone.

    Returns the most prompts on any rank in a step where this one starts a batch, and the probability that others start
    some where it starts none. The largest of r numbers of mean m and variance m exceeds m by √m·(3/4)·ln(r)^0.78, as
    for normal numbers within 7 %, and by no more than their sum.
    """
    if not np.any(company > 0):
        return batch, np.zeros_like(batch)
    more, others = batch - 1, share * company
    above = np.minimum(np.sqrt(more) * 0.75 * np.log1p(others) ** 0.78, more * others)
    return np.minimum(batch + above, room), np.asarray(1 - (1 - share) ** company)


def closed_loop(
    table: ReplicaTimes,
    users: Array,
    more: Array,
    late: Count,
    company: Count = 0,
    weight: Count = 1.0,
    most: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Requests per second of `users` users of a replica, and seconds from one decode step of a request to the next, as
    means over all steps and over requests, each with the mean of its own steps.

    `weight`: of a delay common to all requests in the mean over requests, relative to 1/more; short answers weigh most.
    `company`: other ranks with users that run every step in lock step with this one, since they share experts. `most`:
    `highest_rate`, where it is known. Where all steps or places are full, the rate is the highest one. Where preemption
    lowers that below what the steps allow, these are longer in proportion.
    """
    loop = _loop(table, users, more, late, company, weight)
    around = loop.answer()
    most = highest_rate(table, more, late, company) if most is None else most
    there = around.rate * (loop.late + around.waits + around.inside)
    full = (around.load > FULL) | (loop.users > loop.places) & (there < SOME * loop.users)
    rate = np.where(full, most, np.minimum(around.rate, most))
    slower = np.maximum(1.0, rate / lasting(table, most))
    # by Little's law: the users, less those waiting or prefilling
    before = loop.late + around.waits + around.inside - loop.more * around.step
    most_step = np.maximum(loop.users / rate - before, 0.0) / np.maximum(loop.more, 1e-12)
    step = np.where(loop.more > 0, np.minimum(around.step, most_step), around.step)
    own = step * np.where(loop.more > 0, around.own / np.maximum(around.step, 1e-300), 1.0)
    return rate / slower, step * slower, own * slower


def lasting(table: ReplicaTimes, rate: Array) -> Array:
    """The rate that is left where parts of prompts are recomputed: 1/rate grows by their seconds.

    What one request recomputes is one sequence: as many prompts as it is long share a step, not each one of its own.
    """
    last = table.mixed[:, -1]
    few = np.clip(table.again, 1.0, np.broadcast_to(table.prompts[-1], last[0].shape))
    together = interpolated(table.prompts, last, few)
    return np.asarray(1 / (1 / rate + table.chunks * np.maximum(together - table.base[-1], 0.0) * table.again / few))


def highest_rate(table: ReplicaTimes, more: Array, late: Count, company: Count) -> Array:
    """Highest rate, requests per second, if no prompt were computed twice.

    Where phases do not mix, as many prompts start between two decode steps as answers end in one, n/more of n; fewer
    places are used where that serves more. Ranks in lock step without prompts decode beside those with some.
    """
    shared = _loop(table, np.asarray(np.inf), more, late, company)
    if table.mixes:
        return shared.answer().rate
    steps = np.maximum(np.asarray(more, dtype=float), 1e-12)
    begun = table.chunks * table.decodes[-1] / steps  # steps with prompts for each decode step
    table = table.in_step(1 + np.asarray(company) * begun / (1 + begun))
    places, alone = np.maximum(table.decodes[1:], 1.0), table.alone[1:]
    room = np.where(table.chunks > 1, 1.0, table.room[0])
    ended = places / steps
    batch = np.clip(ended, 1.0, room)
    begun = table.chunks * ended / batch
    seconds = interpolated(table.prompts[:, np.newaxis], table.mixed[:, :1], batch)
    most = ended / (alone + begun * seconds)
    if np.any(np.asarray(company) > 0):
        share, ranks = begun / (1 + begun), 1 + np.asarray(company, dtype=float)
        answered = np.maximum(ranks * (1 - share), 1.0)  # ranks that decoded in the last step
        slowest = slowest_of(np.minimum(ended, room), answered, table.lengths) / -np.expm1(-answered * ended)
        slowest = np.where(table.chunks > 1, 1.0, np.clip(slowest, 1.0, room))
        longest = np.maximum(interpolated(table.prompts[:, np.newaxis], table.mixed[:, :1], slowest), alone)
        some = 1 - (1 - share) ** ranks
        most = np.where(ranks > 1, ended / ((1 + begun) * (some * longest + (1 - some) * alone)), most)
    most = most.max(axis=0)
    return np.where(np.asarray(more) > 0, most, shared.answer().rate if np.any(np.asarray(more) == 0) else most)


def _loop(
    table: ReplicaTimes, users: Array, more: Array, late: Count, company: Count, weight: Count = 1.0
) -> ClosedLoop:
    users, more, late, company, weight = (np.asarray(v, dtype=float) for v in (users, more, late, company, weight))
    if table.pieces is not None:
        prompt = table.chunks * table.mixed[0, 0]
        others = late + more * table.alone[1]
        busy = np.where(np.isinf(users), 1.0, np.minimum(users * prompt / (prompt + others), 1.0))
        table = table.in_step(1 + company * busy)
    return ClosedLoop(table, users, more, late, company, weight)
