"""Disaggregated serving: some replicas only prefill, others only decode, and the KV cache is sent between them.

Prompts wait for a prefill replica, run in batches of at most the engine's chunk, and wait for a place in a decode
replica. `disaggregated_queue.py` models both queues, `transfer.py` the transfer. The first decode step yields the first
token, as in vLLM, where the decode replica computes a prompt's last token once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np

from roofline.declared.checks import count
from roofline.declared.errors import InputError
from roofline.declared.groups import EncoderReplicas, Load, PoolSizes, PrefillReplicas, Where
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, least, most, where
from roofline.declared.question import group_settings
from roofline.declared.result import Flag, Units, Word
from roofline.engines.engine import Engine
from roofline.hardware.cluster import MOST, cluster_named
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.cost import Spending, Spent
from roofline.inference.deployment import Deployment, Machine, is_several
from roofline.inference.generate import Speculation
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import Setup, broadcast, question, setup
from roofline.inference.span import Span, exactly, shaped
from roofline.inference.step import check_context
from roofline.model.load import Source, decoder_of
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.serving.closed_forms.disaggregated_queue import NEARLY
from roofline.serving.drafting import MOST_IN_FLIGHT, memory_with, sequences_held
from roofline.serving.encoders import EncoderPool, encoders_of
from roofline.serving.energy import PhasePool, SteadyLoad, pools_spending, rounded
from roofline.serving.first_token import scattered
from roofline.serving.pool_sizing import Pair, Replicas, Settled, settled_pools
from roofline.serving.requests import LoadAnswer, ServedLoad, requests_of
from roofline.serving.server import LOADS, Server, known_server
from roofline.serving.transfer import moved_bytes, networks
from roofline.work.step import prefill

POOL_NUMBERS = tuple(name for name in group_settings(PoolSizes) if name not in group_settings(PrefillReplicas))
"""Settings that determine the number of replicas of each kind."""


@dataclass(frozen=True, repr=False)
class Pools(Spent, LoadAnswer):
    """`prefills` replicas of one layout and `decodes` of another, in steady state. Spans and waits are in seconds.

    `in_flight`: mean number of requests that wait, prefill or decode, over both pools. `prompts`: of a full prefill
    batch. `running`: sequences of a decode replica that share steps with a request. `cache`: bytes of a prompt's cache.
    `transfer`: seconds for which it occupies the busiest link. `prefill_wait`: for a prefill replica and the link.
    `decode_wait`: for a place in a decode replica and for its first step. `ttft`: host, these waits, prefill of the
    batch, the part of the layer-wise transfer that prefill does not hide, and the first decode step. `tpot`: a decode
    step, `step`; with drafts, the time of the steps after the first over the tokens after the first. `speculation`,
    `images`, `encoder`: as in `Serving`. `prefill_rate`, `decode_rate`: requests per second that one replica of either
    kind can take. `transfer_requests_per_second`: requests per second whose caches the links between the pools can
    carry.
    """

    SCHEMA: ClassVar[str] = "roofline.pools/4"
    FIGURES: ClassVar[Units] = {
        "model": "", "prefill": "", "decode": "", "prefill_engine": "", "engine": "", "formats": "",
        "assumed_popularity": "",
        **dict.fromkeys(POOL_NUMBERS, ""), **LoadAnswer.LENGTHS, "in_flight": "", "prompts": "",
        "running": "", "cache": "B", "transfer": "s", "prefill_wait": "s", "decode_wait": "s", "ttft": "s", "tpot": "s",
        "latency": "s", "prefill_requests_per_second": "requests/s", "transfer_requests_per_second": "requests/s",
        "decode_requests_per_second": "requests/s", "requests_per_second": "requests/s",
        "prefill_utilisation": "share", "transfer_utilisation": "share", "decode_utilisation": "share",
        "tokens_per_second": "tokens/s", "tokens_per_second_per_chip": "tokens/s", **Spent.BILLED, "bottleneck": "",
        "prefill_memory": "B", "memory": "B", **LoadAnswer.TRAITS, "encoder": "",
    }  # fmt: skip

    asked: Setup
    first: Setup
    requests: ServedLoad
    in_flight: Count
    prefills: Count
    decodes: Count
    prompts: Count
    running: Count
    cache: Count
    transfer: Span
    prefill_wait: Count
    decode_wait: Count
    ttft: Span
    tpot: Span
    requests_per_second: Count
    prefill_rate: Count
    decode_rate: Count
    transfer_requests_per_second: Count
    step: Span
    encoder: EncoderPool | None = None

    @property
    def prefill(self) -> Deployment:
        """The deployment of a prefill replica."""
        return self.first.deployment

    @property
    def decode(self) -> Deployment:
        """The deployment of a decode replica."""
        return self.asked.deployment

    @property
    def prefill_engine(self) -> Engine:
        """The engine of prefill replicas: kernels, host time and memory rule."""
        return self.first.engine

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of all settings."""
        return np.shape(self.ttft.expected)

    @property
    def latency(self) -> Span:
        """End-to-end latency of one request."""
        return self.ttft + self.tpot.times(self.output - 1)

    def after(self, pool: EncoderPool, load: Load) -> Pools:
        """The answer with an encoder pool before both, under a load of all three."""
        requests = replace(self.requests, load=load, images=pool.front.images)
        return replace(
            self, requests=requests, requests_per_second=pool.rate, ttft=self.ttft + pool.seconds, encoder=pool
        )

    @property
    def chips(self) -> Count:
        """Chips of all pools."""
        both = self.prefills * self.prefill.layout.chips + self.decodes * self.decode.layout.chips
        return both if self.encoder is None else both + self.encoder.chips

    @property
    def prefill_requests_per_second(self) -> Count:
        """Requests per second that all prefill replicas can take, in full batches."""
        return self.prefills * self.prefill_rate

    @property
    def decode_requests_per_second(self) -> Count:
        """Requests per second that all decode replicas can take, with every place taken."""
        return self.decodes * self.decode_rate

    @property
    def prefill_utilisation(self) -> Count:
        """Requests per second over those that the prefill replicas can take."""
        return self.requests_per_second / self.prefill_requests_per_second

    @property
    def transfer_utilisation(self) -> Count:
        """Requests per second over those that the links can carry."""
        return self.requests_per_second / self.transfer_requests_per_second

    @property
    def decode_utilisation(self) -> Count:
        """Requests per second over those that the decode replicas can take."""
        return self.requests_per_second / self.decode_requests_per_second

    @property
    def tokens_per_second(self) -> Count:
        """Generated tokens per second, of all users."""
        return self.requests_per_second * self.output

    @property
    def tokens_per_second_per_chip(self) -> Count:
        """Generated tokens per second of all users, divided by the chips of all pools."""
        return self.tokens_per_second / self.chips

    @cached_property
    def spending(self) -> Spending:
        """Money and energy that all pools spend per second."""
        running = rounded(most(1, self.running / (self.asked.layout.dp * self.asked.layout.pp)))
        load = SteadyLoad(self.requests_per_second, self.input, self.output, self.requests.context, self.cached_prefix)
        places = self.decodes * self.asked.layout.dp * self.asked.layout.pp
        steps = self.output if self.drafting is None else self.drafting.steps(self.output)
        awake = least(1.0, self.requests_per_second * steps * self.step.expected / places)
        first = PhasePool(self.first, self.prefills, self.prompts, least(1.0, self.prefill_utilisation))
        spent = pools_spending(first, PhasePool(self.asked, self.decodes, running, awake), load, self.drafting)
        return spent if self.encoder is None else replace(spent, encoding=self.encoder.cost)

    @property
    def bottleneck(self) -> Word:
        """What can take the fewest requests per second: a pool, or the transfer between them."""
        shares = [self.prefill_utilisation, self.transfer_utilisation, self.decode_utilisation]
        if self.encoder is not None:
            shares.append(self.encoder.utilisation)
        names = np.array(["prefill", "transfer", "decode", "encoder"])
        word = names[np.argmax(np.stack(np.broadcast_arrays(*shares)), axis=0)]
        return word if self.shape else str(word)

    @cached_property
    def memory(self) -> Memory:
        """Memory of the fullest rank of a decode replica, its requests (as many as fit) at their last token."""
        each_holds, tokens = self.deployment.share(self.running), self.input + self.output
        whole = sequences_held(self.asked, self.drafting, tokens, MOST_IN_FLIGHT)
        each_holds = where(whole < 1, each_holds, least(each_holds, whole))
        return memory_with(self.asked, self.drafting, each_holds, tokens).shaped(self.shape)

    @cached_property
    def prefill_memory(self) -> Memory:
        """Memory of the fullest rank of a prefill replica, with full batches."""
        together = self.prompts * self.first.layout.pp
        return self.first.holding.memory(((together, self.input),)).shaped(self.shape)

    @property
    def limiting(self) -> tuple[Setup, Memory]:
        """The replica that does not fit, and its memory: the prefill replica if it alone does not, else the other."""
        alone = np.all(self.memory.fits) and not np.all(self.prefill_memory.fits)
        return (self.first, self.prefill_memory) if alone else (self.asked, self.memory)

    @property
    def fits(self) -> Flag:
        """Whether all kinds of replica have the memory they need."""
        both = self.memory.fits & self.prefill_memory.fits
        return both if self.encoder is None else both & self.encoder.memory.fits


def pools_serving(
    model: Model, where: Where, load: Load, pools: PoolSizes, speculation: Speculation | None = None,
    images: Images | None = None, bill: Bill | None = None, settled: Settled | None = None,
) -> Pools:  # fmt: skip
    """Replicas that prefill and replicas that decode, in steady state; times in seconds, rates per second.

    `where` gives the layout, machine and engine of the decode replicas. The requests are those of all replicas
    together, which take turns. Prefill replicas have the prefix cache; the cached part of a prompt is sent to the
    decode replica too. Given a number of chips, the split is chosen that serves most at a concurrency, or answers
    soonest at a rate. `speculation`: decode steps verify drafts. `settled`: what requests go through in these pools,
    where that is known already.
    Raises InputError for settings that are not understood, too few chips for a replica of each kind, lengths beyond the
    model's context, and a rate beyond what both pools can take. Where memory holds not even one request, `fits` is
    false and times ignore the memory limit.
    """
    requests = requests_of(model, load, speculation, images)
    broadcast(**requests.sizes, **load.given, **{name: getattr(pools, name) for name in POOL_NUMBERS})
    check_context(model, prefill(1, requests.input + requests.output - 1))
    pair = _pair(model, requests, where, pools, bill)
    broadcast(**load.given, **pair.sizes)
    return _answer(pair, load, settled_pools(pair, load) if settled is None else settled)


@question
def pools(
    model: Model | Source, where: Where, load: Load, pools: PoolSizes, *, speculation: Speculation | None = None,
    images: Images | None = None, encoders: EncoderReplicas | None = None, bill: Bill | None = None,
) -> Pools:  # fmt: skip
    """Predict disaggregated serving: `serve` with replicas that do one phase each."""
    load = load.needed()
    built, front = encoders_of(decoder_of(model, images), where, images, encoders, bill)

    def served(load: Load) -> Pools:
        return pools_serving(built, where, load, pools, speculation, images, bill)

    return served(load) if front is None else front.before(served, load)


def _pair(model: Model, requests: ServedLoad, where: Where, pools: PoolSizes, bill: Bill | None) -> Pair:
    """Both kinds of replica, with their settings resolved; without a layout a replica is one rank."""
    then_at = replace(where, layout=where.layout or "tp=1")
    first_at = replace(
        where, on=where.on if pools.prefill_on is None else pools.prefill_on, layout=pools.prefill_layout or "tp=1",
        engine=where.engine if pools.prefill_engine is None else pools.prefill_engine,
    )  # fmt: skip
    first, then = replace(setup(model, first_at, bill), seen=requests.images), setup(model, then_at, bill)
    broadcast(prefill_layout=first.layout, decode_layout=then.layout, input=requests.input, chips=pools.chips)
    machines = (first_at.on, then_at.on)
    given = (pools.prefills, pools.decodes)
    replicas = _replicas(pools.chips, given, (first.layout.chips, then.layout.chips), machines)
    size = moved_bytes(first, then, requests.input)
    times = (network.seconds(size) for network in networks(machines[1], machines[0], replicas.most_chips))
    return Pair(first, then, requests, replicas, reduce(Span.most, times))


def _replicas(
    chips: Any, given: Sequence[Any], each: tuple[Count, Count], machines: tuple[Machine, Machine]
) -> Replicas:
    """The numbers of replicas, or the chips to split. Raises InputError for more than the machines have."""
    rooms = [cluster_named(on).chips if is_several(on) else MOST for on in machines]
    apart = machines[0] != machines[1]
    numbered = [n is not None for n in given]
    if chips is None and all(numbered):
        prefills, decodes = (count(name, n, 1) for name, n in zip(("prefills", "decodes"), given, strict=True))
        broadcast(prefills=prefills, decodes=decodes)
        total = prefills * each[0] + decodes * each[1]
        parts = ((prefills * each[0], rooms[0]), (decodes * each[1], rooms[1])) if apart else ((total, rooms[1]),)
        for needed, room in parts:
            if np.any(needed > room):
                raise InputError("prefills and decodes", np.max(needed).item(), f"replicas on at most {room} chips")
        return Replicas(None, prefills, decodes, total, (rooms[0], rooms[1]))
    if chips is None or any(numbered):
        raise InputError("chips", chips, "chips to share out, or both prefills and decodes")
    many = count("chips", chips, 1)
    smallest, room = each[0] + each[1], sum(rooms) if apart else rooms[1]
    if np.any(many < smallest):
        raise InputError("chips", chips, f"at least {np.max(smallest)}, a replica of each kind")
    if np.any(many > room):
        raise InputError("chips", chips, f"at most the {room} that there are")
    return Replicas(many, None, None, many, (rooms[0], rooms[1]))


def _prefill_server(pair: Pair, load: Load) -> Server:
    """A prefill replica as a server of answers of one token."""
    alone = replace(load, output_tokens=1, rate=None, concurrency=None)
    requests = replace(pair.requests, load=alone, speculation=None)
    return known_server(pair.first, requests, len(pair.shape(load)), None)


def _rate_with_users(
    pair: Pair, load: Load, prefills: Count, rate: Count, most_rate: Count, after: Count, follows: bool
) -> Count:
    """Requests per second of a closed loop, bounded by what the prefill pool takes with the users that are in it.

    In the mean the pool has all users but rate · `after`, where `after` is the seconds from the end of the prefill to
    the last token. Their number varies, and the throughput of a server is concave in its users, so by Jensen's
    inequality the throughput at the mean number is an upper bound. The rate at which both agree is found by the secant
    method. The bound holds for prompts that share no step with another; where they do share steps, a few users get more
    than the server's formula says. For a pool that is followed and holds most users, the bound is the rate itself, as
    for a flow-equivalent server (Chandy, Herzog and Woo 1975). `rate`: the rate without this bound. `most_rate`: what a
    replica takes with any number of users.
    """
    server, users = _prefill_server(pair, load), np.asarray(load.concurrency)
    if follows:
        there = (users - rate * after) / prefills
        most_users = np.asarray(there > most(server.groups, users / (2 * np.asarray(prefills))))
        followed = server.is_followed_with(there) & most_users
        if followed.all():
            return _followed_rate(server, users, prefills, rate, after)
    several = (users > prefills * server.groups) & (np.asarray(pair.prompts) < 2)
    if not several.any():
        return rate
    each = prefills * most(1.0, most_rate / server.fastest)

    def taken(rate: Count) -> Array:
        return np.asarray(each * server.with_users_in_no_order(most(users - rate * after, 1e-9) / prefills))

    less = where(several, least(rate, taken(rate)), rate)
    if np.all(np.asarray(less >= rate)):
        return rate
    too_much, too_little = rate - less, most(taken(less) - less, 0.0)
    return where(less < rate, less + (rate - less) * too_little / most(too_little + too_much, 1e-300), rate)


def _followed_rate(server: Server, users: Array, prefills: Count, rate: Count, after: Count) -> Count:
    """The rate at which a followed prefill replica, with its share of the users, has that throughput: secant method."""

    def taken(rate: Count) -> Count:
        return prefills * server.followed_rate(most(users - rate * after, 1e-9) / prefills)

    fewest = 1e-9 * rate
    second = most(least(taken(rate), users / most(after, 1e-12)), fewest)
    first_excess, second_excess = taken(rate) - rate, taken(second) - second
    apart = first_excess - second_excess
    part = where(np.abs(apart) > fewest, first_excess / where(np.abs(apart) > fewest, apart, 1.0), 0.0)
    return most(rate + (second - rate) * np.clip(part, 0.0, 1.0), fewest)


def _followed_wait(pair: Pair, load: Load, prefills: Count, wait: Count, prefill: Count) -> Count:
    """Seconds until a prompt's batch starts, at a rate.

    The prefill pool is a server whose answers have one token. It is followed up to the highest of `LOADS`; beyond it,
    and for a pool that is not followed, `wait`, by the formula, applies. `prefill`: seconds of a prompt in the steps of
    its batch.
    """
    server = _prefill_server(pair, load)
    rate = np.minimum(np.asarray(load.rate) / prefills, np.asarray(server.fastest) * NEARLY)
    followed, first = server.first_token(rate, prefills)
    waits, beyond = most(first - prefill, 0.0), rate > LOADS[-1] * np.asarray(server.fastest)
    return where(followed, where(beyond, most(waits, wait), waits), wait)


def _answer(pair: Pair, load: Load, s: Settled) -> Pools:
    """The figures, in the shape of the settings; waits are as uncertain as the steps that they wait for."""
    shape, t, p = pair.shape(load), s.tandem, s.passage

    def back(value: Array) -> Array:
        whole = np.broadcast_to(value, s.prefills.shape).reshape(shape)
        return whole if shape else whole.item()

    queued: Count = back(p.prefill_wait)
    rate: Count = back(p.rate)
    fastest = back(t.prefills * t.batches.fastest / s.prefills)
    if load.rate is not None and s.follows:
        queued = _followed_wait(pair, load, back(s.prefills), queued, back(p.prefill))
    elif load.concurrency is not None:
        after = back(t.latency(p) - t.before - p.prefill_wait - p.prefill)
        bounded = _rate_with_users(pair, load, back(s.prefills), rate, fastest, after, s.follows)
        queued, rate = queued + load.concurrency / bounded - load.concurrency / rate, bounded
    prompt = pair.prefilled(back(np.rint(p.prompts).astype(np.int64)))
    step = pair.decoded(back(np.rint(p.running).astype(np.int64)))
    before, seconds, step_floor = back(t.before), back(p.step), back(s.step_floor)
    each_step = step.times(seconds / step.expected).resting_on(step_floor)
    tpot = each_step.times(pair.share)
    moved = pair.transfer.times(back(p.shown) / pair.transfer.expected)
    law = (
        exactly(before)
        + prompt.times((queued + back(p.prefill)) / prompt.expected)
        + moved
        + step.times((back(p.decode_wait) + seconds) / step.expected)
    )
    floor = pair.prefilled(1).floor + moved.floor + step_floor
    ttft = scattered(law, pair.first, before, queued + back(p.decode_wait)).resting_on(floor)
    longer = queued - back(p.prefill_wait)
    flight = load.concurrency if load.rate is None else rate * (back(t.latency(p)) + longer)
    cache = pair.first.model.kv_bytes(pair.input, pair.first.formats) + pair.first.model.state_bytes(pair.first.formats)
    groups = pair.then.layout.dp * pair.then.layout.pp
    return Pools(
        pair.then, pair.first, pair.requests, flight, back(s.prefills), back(s.decodes),
        pair.prompts, back(np.ceil(p.running - 1e-9).astype(np.int64)) * groups, shaped(cache, shape),
        pair.transfer.shaped(shape), shaped(queued, shape), back(p.decode_wait), ttft.shaped(shape), tpot.shaped(shape),
        shaped(rate, shape), fastest,
        back(t.decodes * t.running.fastest / s.decodes), back(t.links / t.transfer), each_step.shaped(shape),
    )  # fmt: skip
