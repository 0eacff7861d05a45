"""An encoder pool before a server: images and sound are encoded on chips of their own, and the embeddings are sent on.

Separate encoder, prefill and decode replicas are called EPD (arXiv:2501.05460); vLLM and SGLang support it, SGLang with
`--encoder-only` and `--language-only`. Requests are dealt out to the replicas in turn. A replica encodes one request at
a time, all its images together, and sends the embeddings when they are complete. The server behind the pool has no
towers; it sees a request when its embeddings have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np

from roofline.declared.checks import count
from roofline.declared.errors import InputError
from roofline.declared.groups import EncoderReplicas, Load, Where
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, most
from roofline.declared.result import Figured, Leaf, Units, leaves_of
from roofline.engines.engine import Engine
from roofline.inference.cost.bill import Bill
from roofline.inference.cost.busy import busy_of, ranks_of
from roofline.inference.cost.cost import Cost, tariff
from roofline.inference.deployment import Deployment
from roofline.inference.generate import launched
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import Setup, setup
from roofline.inference.span import Span, exactly
from roofline.model.media.images import Images, ImageTokens
from roofline.model.model import Model
from roofline.serving.closed_forms.disaggregated_queue import NEARLY, regularity
from roofline.serving.closed_forms.percentiles import DEVIATIONS, SHARES, Percentiles, Tail
from roofline.serving.transfer import outside
from roofline.work.step import Step, decode, images_beside
from roofline.work.step import replace as changed

HALVINGS = 48
"""Bisection steps that reach the last digit of a double."""


class Behind(Protocol):
    """The answer of a server that may be behind an encoder pool."""

    @property
    def requests_per_second(self) -> Count:
        """Requests answered per second."""

    def after(self, pool: EncoderPool, load: Load) -> Self:
        """This answer with an encoder pool before the server, under the load of both."""


Answer = TypeVar("Answer", bound=Behind)


@dataclass(frozen=True)
class EncoderPool(Figured):
    """The encoder pool of an answer. Spans and `wait` are in seconds, and part of the TTFT.

    `replicas`: that only encode. `encode`: the images and sound of one request. `wait`: until a replica begins, mean.
    `embeddings`: bytes of a request's. `transfer`: seconds for which they occupy a link; they are sent when complete.
    `requests_per_second`: that the pool and its links can take. `utilisation`: share of these that come. `in_flight`:
    mean number of requests in the pool, beyond those that the answer has in flight behind it.
    """

    FIGURES: ClassVar[Units] = {
        "deployment": "", "engine": "", "replicas": "", "encode": "s", "wait": "s", "embeddings": "B", "transfer": "s",
        "requests_per_second": "requests/s", "utilisation": "share", "in_flight": "", "memory": "B",
    }  # fmt: skip

    front: Encoders
    wait: Count
    rate: Count
    behind: Count = inf
    """Requests of a closed loop that are behind the pool; the others are in it, so its queue varies as they do."""

    def leaves(self, name: str, unit: str) -> Iterator[Leaf]:
        """The pool's figures as columns, such as `encoder_wait`."""
        for part, own in self.FIGURES.items():
            if part not in ("deployment", "engine", "memory"):
                yield from leaves_of(f"{name}_{part}", self.figure(part), own)

    @property
    def deployment(self) -> Deployment:
        """The deployment of an encoder replica."""
        return self.front.asked.deployment

    @property
    def engine(self) -> Engine:
        """The engine of encoder replicas."""
        return self.front.asked.engine

    @property
    def replicas(self) -> Count:
        """Replicas that only encode."""
        return self.front.number

    @property
    def encode(self) -> Span:
        """Seconds to encode the images and sound of one request on a replica."""
        return self.front.seconds

    @property
    def embeddings(self) -> Count:
        """Bytes of the embeddings of a request."""
        return self.front.embeddings

    @property
    def transfer(self) -> Span:
        """Seconds to send the embeddings of a request."""
        return self.front.transfer

    @property
    def requests_per_second(self) -> Count:
        """Most requests per second of the pool."""
        return self.front.fastest

    @property
    def utilisation(self) -> Count:
        """Requests per second as a share of those that the pool can take."""
        return self.rate / self.front.fastest

    @property
    def seconds(self) -> Span:
        """Seconds from a request's arrival at the pool to the arrival of its embeddings at the server."""
        return self.encode.times(1 + self.wait / self.encode.expected) + self.transfer

    @property
    def in_flight(self) -> Count:
        """Mean number of requests that wait, are being encoded or are being sent."""
        return self.rate * self.seconds.expected

    @property
    def chips(self) -> Count:
        """Chips of the pool."""
        return self.front.number * self.front.asked.layout.chips

    @cached_property
    def memory(self) -> Memory:
        """Memory of the fullest rank of a replica."""
        return self.front.asked.holding.memory(())

    @property
    def cost(self) -> Cost:
        """Cost of one second of the pool."""
        asked = self.front.asked
        work = busy_of(asked.plan.total(self.front.step)).times(self.rate * ranks_of(asked))
        return Cost(self.chips, 1.0, tariff(asked.deployment.chip, asked.bill), busy=work)

    def delayed(self, behind: Percentiles) -> Percentiles:
        """The percentiles of TTFT and latency with this pool before the server.

        The times in the pool and behind it are taken to be independent: squares of deviations from the means add up.
        """
        first, whole = (self._tail(tail) for tail in (behind.ttft, behind.latency))
        low, high = (
            None if ends is None else replace(ends, ttft=self._tail(ends.ttft), latency=self._tail(ends.latency))
            for ends in (behind.low, behind.high)
        )
        return replace(behind, ttft=first, latency=whole, low=low, high=high)

    def _tail(self, behind: Tail) -> Tail:
        """P(wait > t) = ρ·exp(−ρ·t / mean wait), which has the mean and the share of requests that wait."""
        load = np.clip(self.utilisation, 1e-12, NEARLY)
        fixed = self.seconds.expected - self.wait
        waits = (self.wait / load * np.maximum(np.log(load / (1 - share)), 0.0) for share in SHARES)
        middle = behind.p50
        parts = []
        step = np.sqrt(self.behind) * self.front.slowest / self.front.groups
        for name, late, normal in zip(Tail.FIGURES, waits, DEVIATIONS, strict=True):
            apart, beyond = (
                getattr(behind, name) - middle,
                np.clip(late - self.wait, -step, normal * step if normal else 0.0),
            )
            square = np.sign(apart) * apart**2 + np.sign(beyond) * beyond**2
            both = middle + fixed + self.wait + np.sign(square) * np.sqrt(np.abs(square))
            parts.append(most(both, fixed + getattr(behind, name)))
        return Tail(*(part if np.ndim(part) else float(part) for part in parts))


@dataclass(frozen=True)
class Encoders:
    """`number` replicas of one layout that encode the images and sound of every request.

    `transfer`: seconds to send the embeddings of a request, `embeddings` bytes, to the server.
    """

    asked: Setup
    number: Count
    images: ImageTokens
    embeddings: Count
    transfer: Span

    @cached_property
    def step(self) -> Step:
        """The step that encodes the images and sound of one request."""
        return changed(decode(1, 1), beside=images_beside(self.images, 1))

    @cached_property
    def seconds(self) -> Span:
        """Seconds of that step, host time included."""
        return launched(self.asked.plan, self.step, self.asked.engine.host(1))

    @property
    def groups(self) -> Count:
        """Number of groups that encode independently of each other."""
        return self.number * self.asked.layout.dp

    @property
    def slowest(self) -> Count:
        """Least seconds between two requests of a group: to encode one, or to send its embeddings."""
        return most(self.seconds.expected, self.transfer.expected)

    @property
    def fastest(self) -> Count:
        """Most requests per second of all replicas."""
        return self.groups / self.slowest

    def at(self, rate: Count, others: Count = 1.0) -> EncoderPool:
        """The pool at a rate of requests, where a request meets a share `others` of the average load.

        The wait is that of a queue with constant service, ρ·s/(2(1 − ρ)), corrected for the more even gaps of requests
        that are dealt out in turn. Two such queues in a row wait as long as the slower one alone (Friedman 1965).
        """
        load = np.minimum(rate * others / self.fastest, NEARLY)
        wait = regularity(load, 1 / np.asarray(self.groups)) * load * self.slowest / (2 * (1 - load))
        return EncoderPool(self, _plain(wait), rate)

    def before(self, served: Callable[[Load], Answer], load: Load) -> Answer:
        """The answer of a server behind this pool; `served` is that of the server alone.

        Raises InputError for a rate beyond what the pool can take.
        """
        if load.rate is not None:
            if np.any(np.asarray(load.rate) >= self.fastest):
                expected = f"less than {np.min(self.fastest):.3g} requests a second, what the encoders take"
                raise InputError("rate", np.max(load.rate).item(), expected)
            return served(load).after(self.at(load.rate), load)
        everyone = np.asarray(load.concurrency, dtype=float)
        behind, rate = self._shared(
            lambda number: served(replace(load, concurrency=number)).requests_per_second, everyone
        )
        pool = self.at(rate, (everyone - 1) / everyone)
        left = np.maximum((everyone - behind) / rate - pool.seconds.expected, 0.0)  # where the pool is the bottleneck
        pool = EncoderPool(self, _plain(pool.wait + left), _plain(rate), behind)
        number = np.maximum(1, np.rint(behind)).astype(np.int64)
        return served(replace(load, concurrency=number if number.shape else int(number))).after(pool, load)

    def _shared(self, rate_with: Callable[[Count], Count], everyone: Array) -> tuple[Array, Array]:
        """How many requests of a closed loop are behind the pool, and the rate; `rate_with`: the rate with so many.

        With M of N requests behind, of which the server answers X(M) a second, N = M + X·T(X), where T is the time in
        the pool. X is linear between whole M.
        """

        def rate_of(number: Array) -> Array:
            whole = np.maximum(number, 1)
            return np.where(number > 0, rate_with(whole if whole.shape else int(whole)), 0.0)

        def all_of(number: Array, rate: Array) -> Array:
            within = rate < self.fastest * NEARLY
            there = self.at(np.where(within, rate, 0.0), (everyone - 1) / everyone).seconds.expected
            return np.where(within, number + rate * there, inf)

        low, high = np.zeros(everyone.shape, dtype=np.int64), everyone.astype(np.int64)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            enough = all_of(middle, rate_of(middle)) <= everyone
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        rates = rate_of(low), rate_of(high)
        start, end = np.zeros(rates[0].shape), np.ones(rates[0].shape)
        for _ in range(HALVINGS):
            part = (start + end) / 2
            enough = all_of(low + part * (high - low), rates[0] + part * (rates[1] - rates[0])) <= everyone
            start, end = np.where(enough, part, start), np.where(enough, end, part)
        return low + start * (high - low), rates[0] + start * (rates[1] - rates[0])


def _plain(value: Count) -> Count:
    """An array without axes as a number; anything else as it is."""
    return value if np.ndim(value) else float(value)


def encoders_of(
    model: Model, where: Where, images: Images | None, encoders: EncoderReplicas | None, bill: Bill | None
) -> tuple[Model, Encoders | None]:
    """The part of the model that a server's replicas hold, and the encoder pool before them, None without one.

    Behind a pool the replicas hold the language model alone.

    Raises InputError for a pool without images or sound, for a model without towers, and for unknown networks.
    """
    if encoders is None or not encoders.apart:
        return model, None
    number = count("encoders", encoders.encoders, 1)
    alone = model.encoders()
    seen = alone.seen(images)
    if seen is None or not seen.encoded:
        raise InputError("encoders", encoders.encoders, "images and image_size, or audio, which they encode")
    machine = where.on if encoders.encoder_on is None else encoders.encoder_on
    asked = setup(alone, replace(where, on=machine, layout=encoders.encoder_layout or "tp=1"), bill)
    size = alone.embedded(seen) * float(asked.formats.activations.bits) / 8
    if encoders.encoder_bandwidth is not None:
        transfer = exactly(size / encoders.encoder_bandwidth)
    else:
        sent, taken = (outside(*end).seconds(size) for end in (("encoder_on", machine), ("on", where.on)))
        transfer = sent.most(taken)
    return model.language(), Encoders(replace(asked, seen=seen), number, seen, size, transfer)


@dataclass(eq=False)
class EncoderQueue:
    """The encoder pool of a simulation: when each group is free, and how long its requests waited.

    `free`: seconds at which each group may begin to encode. `sending`: when its link is free. `turn`: requests so far.
    """

    SAVED: ClassVar[tuple[str, ...]] = ("free", "sending", "turn", "waited")

    front: Encoders
    free: list[float] = field(default_factory=list)
    sending: list[float] = field(default_factory=list)
    turn: int = 0
    waited: float = 0.0

    def __post_init__(self) -> None:
        groups = int(self.front.groups)
        self.free, self.sending = self.free or [0.0] * groups, self.sending or [0.0] * groups
        self.encode_s, self.transfer_s = (float(s.expected) for s in (self.front.seconds, self.front.transfer))

    @property
    def behaviour(self) -> tuple[float, ...]:
        """What determines the pool's times, for the digest of a simulation."""
        return len(self.free), self.encode_s, self.transfer_s

    def take(self, time: float) -> float:
        """When the embeddings of a request that arrives at `time` have arrived at the server."""
        group = self.turn % len(self.free)
        self.turn += 1
        encoded = max(self.free[group], time) + self.encode_s
        self.free[group] = encoded
        self.sending[group] = max(self.sending[group], encoded) + self.transfer_s
        self.waited += self.sending[group] - time - self.encode_s - self.transfer_s
        return self.sending[group]

    def answer(self, rate: float) -> EncoderPool:
        """The pool's figures at the rate at which requests were answered."""
        return EncoderPool(self.front, self.waited / max(1, self.turn), rate)
