"""Disaggregated serving: some replicas only prefill, others only decode, and the KV cache travels between them.

Per chip the two pools serve 1/(g_p/R_p + g_d/R_d) requests a second, R the rate of a replica and g its chips, where
their numbers are as R_d : R_p; whole replicas come as near to that as the chips allow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Unpack

import numpy as np

from roofline.estimates.deployment import Deployment, deploy
from roofline.estimates.generate import changed_step, launched
from roofline.estimates.memory import Memory
from roofline.estimates.settings import LISTED, Deployed, Settings, Setup, broadcast, each, setup
from roofline.estimates.span import Span, shaped
from roofline.estimates.step import check_context
from roofline.machine.collectives import collective
from roofline.machine.fabric import Cluster
from roofline.model.checks import count
from roofline.model.errors import InputError
from roofline.model.load import model_of
from roofline.model.maths import Count, ceil_div, is_array, least, most, where
from roofline.result import Flag, Units, Word
from roofline.work.step import decode, prefill


@dataclass(frozen=True, repr=False)
class Pools(Deployed):
    """`prefills` replicas of one layout and `decodes` of another, in steady state.

    `concurrency`: requests that a decode replica holds. `ttft`: a prompt's prefill, what the layer-wise transfer of its
    cache does not hide, and the first decode step; queueing apart. `tpot`: a decode step. `transfer`: seconds that one
    prompt's `cache` bytes travel. `prefill_rate`, `decode_rate`: requests per second of one replica of either kind.
    """

    SCHEMA: ClassVar[str] = "roofline.pools/2"
    FIGURES: ClassVar[Units] = {
        "model": "", "prefill": "", "decode": "", "engine": "", "formats": "", "chips": "", "prefills": "",
        "decodes": "", "input": "", "output": "", "concurrency": "", "cache": "B", "transfer": "s", "ttft": "s",
        "tpot": "s", "latency": "s", "prefill_requests_per_second": "requests/s",
        "decode_requests_per_second": "requests/s", "requests_per_second": "requests/s",
        "tokens_per_second": "tokens/s", "tokens_per_second_per_chip": "tokens/s", "bottleneck": "", "memory": "B",
    }  # fmt: skip

    asked: Setup
    prefill: Deployment
    input: Count
    output: Count
    concurrency: Count
    prefills: Count
    decodes: Count
    cache: Count
    transfer: Span
    ttft: Span
    tpot: Span
    prefill_rate: Count
    decode_rate: Count

    @property
    def decode(self) -> Deployment:
        """Where a replica that decodes runs."""
        return self.asked.deployment

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of everything asked."""
        return np.shape(self.ttft.expected)

    @property
    def latency(self) -> Span:
        """End to end, for one request; queueing apart."""
        return self.ttft + self.tpot.times(self.output - 1)

    @property
    def chips(self) -> Count:
        """Chips of both pools."""
        return self.prefills * self.prefill.layout.chips + self.decodes * self.decode.layout.chips

    @property
    def prefill_requests_per_second(self) -> Count:
        """Requests per second that the replicas which prefill let through together."""
        return self.prefills * self.prefill_rate

    @property
    def decode_requests_per_second(self) -> Count:
        """Requests per second that the replicas which decode let through together."""
        return self.decodes * self.decode_rate

    @property
    def requests_per_second(self) -> Count:
        """What the slower pool lets through."""
        return least(self.prefill_requests_per_second, self.decode_requests_per_second)

    @property
    def tokens_per_second(self) -> Count:
        """Generated tokens of all users per second."""
        return self.requests_per_second * self.output

    @property
    def tokens_per_second_per_chip(self) -> Count:
        """Generated tokens of all users per second, over the chips of both pools."""
        return self.tokens_per_second / self.chips

    @property
    def bottleneck(self) -> Word:
        """The pool that has no time left."""
        slower = self.prefill_requests_per_second < self.decode_requests_per_second
        if is_array(slower):
            return np.where(slower, "prefill", "decode")
        return "prefill" if slower else "decode"

    @cached_property
    def memory(self) -> Memory:
        """What the fullest rank of a decode replica needs, every request at its last token."""
        each_holds = self.deployment.share(self.concurrency)
        return self.asked.holding.memory(((each_holds, self.input + self.output),)).shaped(self.shape)

    @property
    def fits(self) -> Flag:
        """Whether that is there."""
        return self.memory.fits


def pools(
    model: Any, *, chips: int, prefill_layout: Any, decode_layout: Any, input: Count, output: Count,
    concurrency: Count, **settings: Unpack[Settings],
) -> Any:  # fmt: skip
    """The numbers of replicas that serve most requests on so many chips, and the seconds a request then takes: `Pools`.

    `prefill_layout`, `decode_layout`: of a replica of either kind. `input` and `output`: tokens of each prompt and
    answer. `concurrency`: requests in flight on one decode replica. `model`: a Model, its name, path or config; the
    settings are those of `Settings` but for the layout; of lists a `Grid`. Numbers may be arrays, which broadcast.
    Raises InputError for what is not understood, for chips too few for a replica of either kind, and for lengths beyond
    the model's context. Where the memory does not hold the requests, `fits` says so.
    """

    def one(
        model: Any, chips: Any, prefill_layout: Any, decode_layout: Any, input: Count, output: Count,
        concurrency: Count, on: Any, **where: Any,
    ) -> Pools:  # fmt: skip
        many = count("chips", chips, 1)
        new, out, kept = count("input", input, 1), count("output", output, 1), count("concurrency", concurrency, 1)
        broadcast(chips=many, input=new, output=out, concurrency=kept)
        built = model_of(model)
        check_context(built, prefill(1, new + out - 1))
        first = setup(built, on=on, layout=prefill_layout or "tp=1", **where)
        then = setup(built, on=on, layout=decode_layout or "tp=1", **where)
        broadcast(chips=many, prefill_layout=first.layout, decode_layout=then.layout)
        smallest = first.layout.chips + then.layout.chips
        if np.any(many < smallest):
            raise InputError("chips", chips, f"at least {np.max(smallest)}, a replica of each kind")
        return _pools(first, then, on, many, new, out, kept)

    options = {"model": model, "chips": chips, "prefill_layout": prefill_layout, "decode_layout": decode_layout}
    options |= {"input": input, "output": output, "concurrency": concurrency}
    return each(one, {**options, **settings}, (*LISTED, "prefill_layout", "decode_layout"))


def _pools(first: Setup, then: Setup, on: Any, chips: Count, new: Count, out: Count, concurrency: Count) -> Pools:
    engine, one = first.engine, prefill(1, 1)
    chunks = ceil_div(new, engine.chunk) * engine.host(1, least(new, engine.chunk))
    prompt = launched(first.plan, changed_step(one, 0, new, 1), engine.prefill_s + chunks)
    group = ceil_div(concurrency, then.layout.dp * then.layout.pp)
    step = launched(then.plan, changed_step(decode(1, 1), new + out // 2, 1, group), engine.host(group))
    prefill_rate = first.layout.dp * first.layout.pp / prompt.expected
    decode_rate = concurrency / (most(1, out - 1) * step.expected)
    prefills, decodes = _replicas(first.layout.chips, then.layout.chips, prefill_rate, decode_rate, chips)
    model, formats = first.model, first.formats
    cache = model.kv_bytes(new, formats) + model.state_bytes(formats)
    joined = replace(first.deployment, cluster=_joined(on, int(np.max(np.asarray(chips))), first.deployment))
    moved = _travel(cache, joined, chips, least(_parts(first), _parts(then)))
    ttft = prompt + moved.times(1 / max(1, len(model.layers))) + step
    shape = np.broadcast_shapes(*map(np.shape, (ttft.expected, prefills, decode_rate)))
    return Pools(
        then, first.deployment, new, out, concurrency, prefills, decodes, shaped(cache, shape), moved.shaped(shape),
        ttft.shaped(shape), step.shaped(shape), prefill_rate, decode_rate,
    )  # fmt: skip


def _joined(on: Any, chips: int, deployment: Deployment) -> Cluster:
    """The cluster that all the chips stand in."""
    return deploy(on, {"dp": chips}).cluster if chips > 1 else deployment.cluster


def _replicas(g_p: Count, g_d: Count, r_p: Count, r_d: Count, chips: Count) -> tuple[Count, Count]:
    """Replicas of either pool on at most so many chips that let most requests through; of equals the fewest chips."""
    shape = np.broadcast_shapes(*map(np.shape, (g_p, g_d, r_p, r_d, chips)))
    prefills = np.arange(1, np.max((chips - g_d) // g_p) + 1).reshape(-1, *(1 for _ in shape))
    left = (chips - prefills * g_p) // g_d
    decodes = np.minimum(left, np.maximum(1, np.ceil(prefills * r_p / r_d).astype(np.int64)))
    through = np.where(left < 1, -1.0, np.minimum(prefills * r_p, decodes * r_d))
    used = prefills * g_p + decodes * g_d
    best = through == through.max(axis=0)
    chosen = np.where(best, used, used.max() + 1).argmin(axis=0)[np.newaxis]
    numbers = [np.take_along_axis(np.broadcast_to(v, best.shape), chosen, axis=0)[0] for v in (prefills, decodes)]
    return (numbers[0], numbers[1]) if shape else (int(numbers[0]), int(numbers[1]))


def _parts(asked: Setup) -> Count:
    """Ranks of a replica that hold distinct parts of one sequence's cache: latent ones, and heads beyond those that a
    tensor-parallel group divides, are copies; replicas of a data-parallel group hold sequences of their own."""
    whole, mine = (model.kv_bytes(1, asked.formats) for model in (asked.model, asked.deployment.rank(asked.model)))
    return asked.layout.pp * where(mine > 0, most(1, whole / most(mine, 1e-9)), 1)


def _travel(size: Count, deployment: Deployment, chips: Count, ranks: Count) -> Span:
    """Seconds of a cache between two replicas, its parts by the links of as many chips as the smaller has."""
    t = collective("p2p", size / ranks, chips, deployment.cluster)
    return Span(t.floor, t.expected, t.low, t.high)
