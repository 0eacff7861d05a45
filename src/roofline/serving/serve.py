"""`serve`: a server in steady state, whose replicas do both prefill and decode or are split into two pools."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import EncoderReplicas, LengthSpread, Load, PoolSizes, Where
from roofline.declared.kinds import Requests, Switch
from roofline.declared.question import group, group_settings
from roofline.inference.cost.bill import Bill
from roofline.inference.generate import Speculation
from roofline.inference.settings import Setup, broadcast, question, setup
from roofline.inference.step import check_context
from roofline.model.load import Source, decoder_of
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.serving.encoders import encoders_of
from roofline.serving.pools import Pools, pools_serving
from roofline.serving.requests import requests_of
from roofline.serving.server import SHORT, Server, Serving, answers_are_followed, known_server
from roofline.work.step import prefill


@group
@dataclass(frozen=True, kw_only=True)
class SteadyState:
    """How the steady state of a server is computed."""

    rounds: Annotated[
        Requests | None,
        "Requests that each user of a benchmark sends, with all users starting at once. TTFT then includes its share "
        "of the opening burst. By default it is that of the steady state.",
    ] = None
    formula: Annotated[
        Switch,
        "Use a formula of means, whose percentiles are approximate. Without it, requests are equally long and followed "
        "step by step; at a concurrency, all start together.",
    ] = True


@question
def serve(
    model: Model | Source,
    where: Where,
    load: Load,
    *,
    how: SteadyState = SteadyState(),
    speculation: Speculation | None = None,
    images: Images | None = None,
    encoders: EncoderReplicas | None = None,
    pools: PoolSizes | None = None,
    bill: Bill | None = None,
) -> Serving | Pools:
    """Predict a server in steady state: TTFT, TPOT, throughput, memory and cost. Times in seconds, rates per second.

    Returns a `Serving`, `Pools` with a `prefill_layout`, or a `Grid` where a setting is a list.
    The server always has `concurrency` requests in flight, or receives `rate` requests per second at random times; both
    count the requests of all replicas together. A request has a prompt of `input` tokens and generates `output_tokens`.
    `prefix`: share of a prompt found in the prefix cache, which is attended to but not computed again. `input_cv`,
    `output_cv`: coefficients of variation of the lengths; the defaults are those of served conversations. Requests
    beyond what memory holds wait in the queue.
    `formula`: use a formula of means, which evaluates many points at once and whose percentiles are approximate;
    servers of short answers are followed step by step, with the spread of their lengths.
    Without it requests are equally long and followed step by step. At a rate, a fixed sample of some thousands takes
    about a tenth of a second for each rate. At a concurrency, all requests start together and stay in lock step. Where
    lengths do not vary (`input_cv=0, output_cv=0`) and prompts go first, as in SGLang, users are in lock step even with
    the formula, as in measured servers; users of other engines start one after another, and are followed as well.
    `speculation`: decode steps verify drafts; the number accepted follows the law that `simulate` draws from.
    `encoders`: images and sound are encoded on chips of their own, before the server. `prefill_layout`: some replicas
    only prefill and the others only decode. `model`: a Model, its name, path or config.
    Numbers may be arrays, which broadcast.
    Raises InputError for settings that are not understood, lengths beyond the model's context, a format that the chip
    lacks, a degree that does not divide, images where the model does not state how they become tokens, a rate beyond
    what the server can take, `rounds` at a rate or without the formula, and unless exactly one of concurrency and rate
    is given. Where memory holds not even one request, `fits` is false and times ignore the memory limit.
    """
    load, apart = load.needed(), pools is not None and pools.apart
    built, front = encoders_of(decoder_of(model, images), where, images, encoders, bill)
    several = "prefill_layout" if apart else "" if front is None else "encoders"
    if several and not how.formula:
        raise InputError("formula", f"false, with {several}", "one pool, or the formula")
    if several and how.rounds is not None:
        raise InputError("rounds", f"with {several}", "one pool")

    def served(load: Load) -> Serving | Pools:
        if pools is not None and apart:
            return pools_serving(built, where, load, pools, speculation, images, bill)
        return serving(setup(built, where, bill), load, how, speculation, images)

    return served(load) if front is None else front.before(served, load)


def serving(
    asked: Setup, load: Load, how: SteadyState = SteadyState(), speculation: Speculation | None = None,
    images: Images | None = None,
) -> Serving:  # fmt: skip
    """`serve` for replicas that do both phases, with the model and its place already resolved."""
    if how.rounds is not None and (load.concurrency is None or not how.formula):
        raise InputError("rounds", how.rounds, "a concurrency as well, by the formula of means")
    server = server_of(asked, load, how, speculation, images)
    _check_balance(server, load, how)
    if load.rate is not None:
        answer = server.at_rate(load.rate, how.formula)
    else:
        answer = server.at(load.concurrency) if how.formula else server.together(load.concurrency)
    whole = replace(server.requests.load, concurrency=load.concurrency, rate=load.rate)
    return replace(answer, requests=replace(server.requests, load=whole))


def _check_balance(server: Server, load: Load, how: SteadyState) -> None:
    """Raise InputError where prompts wait for those of other ranks, which only servers that are followed know."""
    asked, drafts, closed = server.asked, server.drafting is not None, load.rate is None
    if not asked.engine.balanced:
        return
    in_step = np.asarray(asked.layout.in_step)
    mixes, law = asked.engine.mixes, asked.plan.target.mode
    followed = answers_are_followed(server.output, in_step, load, closed, drafts, law, mixes)
    followed = followed & how.formula & (how.rounds is None)
    if np.any((in_step > 1) & ~followed):
        given = f"timeout_iters={asked.engine.balanced}"
        raise InputError("engine", given, f"answers of at most {SHORT} tokens by the formula, or `simulate`")


def _equal(load: Load) -> Load:
    """The load with equally long requests. Raises InputError for a spread that is neither the default nor 0."""
    for name, setting in group_settings(LengthSpread).items():
        value = np.asarray(getattr(load, name))
        if np.any((value != 0) & (value != setting.default)):
            raise InputError(name, float(value.max()), "0: without the formula requests are equally long")
    return replace(load, input_cv=0.0, output_cv=0.0)


def server_of(
    asked: Setup, load: Load, how: SteadyState = SteadyState(), speculation: Speculation | None = None,
    images: Images | None = None,
) -> Server:  # fmt: skip
    """The server that answers a load. Raises InputError for lengths beyond the model's context."""
    load, asked = load if how.formula else _equal(load), asked.seeing(images)
    requests = requests_of(asked.model, replace(load, concurrency=None, rate=None), speculation, images)
    broadcast(**requests.sizes)
    check_context(asked.model, prefill(1, requests.input + requests.output - 1))
    sizes = {**requests.sizes, "rounds": 1 if how.rounds is None else how.rounds, **load.given}
    return known_server(asked, requests, len(broadcast(**sizes, layout=asked.layout)), how.rounds)
