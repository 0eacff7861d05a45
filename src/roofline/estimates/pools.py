"""Disaggregated serving: some replicas only prefill, others only decode, and the KV cache travels between them.

Per chip the two pools serve 1/(g_p/R_p + g_d/R_d) requests a second, R the rate of a replica and g its chips, where
their numbers are as R_d : R_p; whole replicas come as near to that as the chips allow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.estimates.generate import Span, concurrent, span
from roofline.estimates.latency import check_context, time_of
from roofline.estimates.place import Place, Placed, placed
from roofline.machine.collectives import collective
from roofline.machine.engine import Engine, engine_named
from roofline.machine.fabric import Cluster
from roofline.machine.timing import Mode
from roofline.model.checks import count
from roofline.model.errors import InputError
from roofline.model.maths import ceil_div
from roofline.model.model import Model
from roofline.work.step import decode, prefill


@dataclass(frozen=True)
class Pools:
    """`prefills` replicas of one layout and `decodes` of another, in steady state.

    `concurrency`: requests that a decode replica holds. `ttft`: a prompt's prefill, what the layer-wise transfer of its
    cache does not hide, and the first decode step; queueing apart. `tpot`: a decode step. `transfer`: seconds that one
    prompt's `cache` bytes travel. `prefill_rate`, `decode_rate`: requests per second of one replica of either kind.
    """

    prefill: Placed
    decode: Placed
    engine: Engine
    prefills: int
    decodes: int
    input: int
    output: int
    concurrency: int
    cache: float
    transfer: Span
    ttft: Span
    tpot: Span
    prefill_rate: float
    decode_rate: float

    @property
    def chips(self) -> int:
        """Chips of both pools."""
        return self.prefills * self.prefill.chips + self.decodes * self.decode.chips

    @property
    def prefill_requests_per_second(self) -> float:
        """Requests per second that the replicas which prefill let through together."""
        return self.prefills * self.prefill_rate

    @property
    def decode_requests_per_second(self) -> float:
        """Requests per second that the replicas which decode let through together."""
        return self.decodes * self.decode_rate

    @property
    def requests_per_second(self) -> float:
        """What the slower pool lets through."""
        return min(self.prefill_requests_per_second, self.decode_requests_per_second)

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens of all users per second."""
        return self.requests_per_second * self.output

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Generated tokens of all users per second, over the chips of both pools."""
        return self.tokens_per_second / self.chips

    @property
    def bottleneck(self) -> str:
        """The pool that has no time left."""
        return "prefill" if self.prefill_requests_per_second < self.decode_requests_per_second else "decode"


def pools(
    model: Model, *, on: Place, chips: int, prefill_layout: object, decode_layout: object, input: int, output: int,
    concurrency: int, engine: str | Engine | None = "vllm", precision: object = None, law: str | Mode = "calibrated",
) -> Pools:  # fmt: skip
    """The numbers of replicas that serve most requests on so many chips, and the seconds a request then takes.

    `prefill_layout`, `decode_layout`: of a replica of either kind. `input` and `output`: tokens of each prompt and
    answer. `concurrency`: requests in flight on one decode replica. `on`, `engine`, `precision`, `law`: as in `serve`.
    Raises InputError for what is not understood, and where the chips do not hold a replica of either kind, the memory
    does not hold the requests, or lengths go beyond the model's context.
    """
    many, how = count("chips", chips, 1), engine_named(engine)
    formats = model.precision.merged(precision)
    new, out, held = count("input", input, 1), count("output", output, 1), count("concurrency", concurrency, 1)
    check_context(model, prefill(1, new + out - 1))
    first, then = placed(on, prefill_layout), placed(on, decode_layout)
    if first.chips + then.chips > many:
        raise InputError("chips", many, f"at least {first.chips + then.chips}, a replica of each kind")
    room = concurrent(model, formats, then, how, held, new + out, new) * int(then.layout.dp)
    if room < held:
        raise InputError("concurrency", held, f"at most {room}, which is what a decode replica holds")
    prompt = span(
        time_of(first.rank(model), prefill(1, new), first, law, formats, how),
        how.prefill_s + ceil_div(new, how.chunk) * how.host(1, min(new, how.chunk)),
    )
    groups = then.layout.dp * then.layout.pp
    each = ceil_div(held, groups)
    step = span(time_of(then.rank(model), decode(each, new + out // 2), then, law, formats, how), how.host(each))
    prefill_rate = first.layout.dp * first.layout.pp / prompt.expected
    decode_rate = held / (max(1, out - 1) * step.expected)
    x, y = _numbers(first.chips, then.chips, prefill_rate, decode_rate, many)
    cache = float(model.kv_bytes(new, formats)) + float(model.state_bytes(formats))
    moved = _travel(cache, replace(first, cluster=_joined(on, many, first)), many, min(first.chips, then.chips))
    return Pools(
        first, then, how, x, y, new, out, held, cache, moved,
        prompt + moved.times(1 / max(1, len(model.layers))) + step, step, prefill_rate, decode_rate,
    )  # fmt: skip


def _joined(on: Place, chips: int, where: Placed) -> Cluster:
    """The cluster that all the chips stand in."""
    return placed(on, {"dp": chips}).cluster if chips > 1 else where.cluster


def _numbers(g_p: int, g_d: int, r_p: float, r_d: float, chips: int) -> tuple[int, int]:
    """Replicas of either pool on at most so many chips that let most requests through; of equals the fewest chips."""
    options = ((x, (chips - x * g_p) // g_d) for x in range(1, (chips - g_d) // g_p + 1))
    trimmed = ((x, min(y, max(1, -int(-x * r_p // r_d)))) for x, y in options)
    return max(trimmed, key=lambda n: (min(n[0] * r_p, n[1] * r_d), -(n[0] * g_p + n[1] * g_d)))


def _travel(size: float, where: Placed, chips: int, ranks: int) -> Span:
    """Seconds of a cache between two replicas, its parts by the links of as many chips as the smaller has."""
    if chips == 1:
        return Span(0.0, 0.0, 0.0, 0.0)
    t = collective("p2p", size / ranks, chips, where.cluster)
    return Span(float(t.floor), float(t.expected), float(t.low), float(t.high))
