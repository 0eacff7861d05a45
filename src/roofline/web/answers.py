"""Questions and their answers: a body in, the JSON of `docs/schema` out. Each is the library's own function."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

import roofline as rl
from roofline.explore.guidance import advice as tried
from roofline.explore.guidance import served
from roofline.model.errors import InputError
from roofline.show.plots.make import plot
from roofline.web import bodies as b
from roofline.web.choices import chosen_machine, chosen_model

MOST_CHANGES_LISTED = 8
"""Changes that advice lists."""
MOST_EVENTS = 400_000
"""Tokens that one simulation generates at most."""


def _settings(asked: b.PlaceAsked) -> dict[str, Any]:
    given = {"layout": asked.layout, "precision": asked.precision, "engine": asked.engine}
    return {"on": chosen_machine(asked.on), "law": asked.law, **{k: v for k, v in given.items() if v}}


def _step(phase: str, batch: int, context: int) -> rl.Step:
    return rl.prefill(batch, context) if phase == "prefill" else rl.decode(batch, context)


def analyze_answer(asked: b.StepAsked, hub: bool) -> dict[str, Any]:
    """`roofline.analysis`: FLOPs and bytes, op by op."""
    step = _step(asked.phase, asked.batch, asked.context)
    conventions: dict[str, Any] = {"counting": asked.counting, "traffic": asked.traffic, "precision": asked.precision}
    return rl.analyze(chosen_model(asked.model, hub), step, **conventions).to_dict()


def explain_answer(asked: b.ExplainAsked, hub: bool) -> dict[str, Any]:
    """`roofline.explanation`: the formulas of an op, with its numbers and sources."""
    step = _step(asked.phase, asked.batch, asked.context)
    conventions: dict[str, Any] = {"counting": asked.counting, "traffic": asked.traffic, "precision": asked.precision}
    return rl.explain(chosen_model(asked.model, hub), asked.op, step, **conventions).to_dict()


def estimate_answer(asked: b.EstimateAsked, hub: bool) -> dict[str, Any]:
    """`roofline.estimate`: the time of a step, op by op."""
    step = _step(asked.phase, asked.batch, asked.context)
    return _json(rl.estimate(chosen_model(asked.model, hub), step, **_settings(asked)))


def generate_answer(asked: b.GenerateAsked, hub: bool) -> dict[str, Any]:
    """`roofline.generate`: a static batch."""
    sizes: dict[str, Any] = {"batch": asked.batch, "input": asked.input, "output": asked.output}
    return _json(rl.generate(chosen_model(asked.model, hub), **sizes, **_settings(asked)))


def serve_answer(asked: b.ServeAsked, hub: bool) -> dict[str, Any]:
    """`roofline.serve`: a server in its steady state."""
    if (asked.concurrency is None) == (asked.rate is None):
        got = "neither" if asked.rate is None else "both"
        raise InputError("concurrency and rate", got, "one of them: requests in flight, or requests a second")
    several = asked.concurrency
    load: Any = np.array(several) if isinstance(several, list) else several
    sizes: dict[str, Any] = {"input": asked.input, "output": asked.output, "prefix": asked.prefix}
    model = chosen_model(asked.model, hub)
    return _json(rl.serve(model, concurrency=load, rate=asked.rate, **sizes, **_settings(asked)))


def fit_answer(asked: b.FitAsked, hub: bool) -> dict[str, Any]:
    """`roofline.fit`: whether sequences fit, and how many would."""
    settings = {k: v for k, v in _settings(asked).items() if k != "law"}
    return _json(rl.fit(chosen_model(asked.model, hub), batch=asked.batch, context=asked.context, **settings))


def train_answer(asked: b.TrainAsked, hub: bool) -> dict[str, Any]:
    """`roofline.training`: an optimizer step."""
    options: dict[str, Any] = {"recompute": asked.recompute, "micro_batch": asked.micro_batch}
    model = chosen_model(asked.model, hub)
    return _json(rl.train(model, batch=asked.batch, tokens=asked.tokens, **options, **_settings(asked)))


def sweep_answer(asked: b.SweepAsked, hub: bool) -> dict[str, Any]:
    """`roofline.estimate` of arrays: batches down, contexts across."""
    batch, context = np.array(asked.batch)[:, None], np.array(asked.context)[None, :]
    maker: Callable[..., rl.Step] = rl.prefill if asked.phase == "prefill" else rl.decode
    return _json(rl.estimate(chosen_model(asked.model, hub), maker(batch, context), **_settings(asked)))


def plot_answer(asked: b.PlotAsked, hub: bool) -> dict[str, Any]:
    """`roofline.plot`: what a picture shows."""
    model = chosen_model(asked.model, hub)
    if asked.kind in ("diagram", "parameters"):
        return _json(plot(model, kind=asked.kind))
    settings = _settings(asked)
    if asked.kind == "memory":
        return _json(plot(model, kind="memory", batch=asked.batch, context=asked.context, **settings))
    return _json(plot(model, {asked.phase: _step(asked.phase, asked.batch, asked.context)}, **settings))


def simulate_answer(asked: b.SimulateAsked, hub: bool) -> dict[str, Any]:
    """`roofline.simulate`: request by request."""
    if asked.requests * asked.output > MOST_EVENTS:
        raise InputError("requests", asked.requests, f"at most {MOST_EVENTS} generated tokens: requests × output")
    if (asked.concurrency is None) == (asked.rate is None):
        raise InputError("concurrency and rate", "neither or both", "one of them")
    load: dict[str, Any] = {"rate": asked.rate} if asked.rate else {"concurrency": asked.concurrency}
    sizes: dict[str, Any] = {"input": asked.input, "output": asked.output}
    extent = rl.Extent(requests=asked.requests, seed=asked.seed)
    model = chosen_model(asked.model, hub)
    return _json(rl.simulate(model, extent=extent, **sizes, **load, **_settings(asked)))


def search_answer(asked: b.SearchAsked, hub: bool) -> dict[str, Any]:
    """`roofline.search`: ways to serve, the best first."""
    settings = {k: v for k, v in _settings(asked).items() if k not in ("law", "layout")}
    demand = rl.Demand(input=asked.input, output=asked.output, concurrency=asked.concurrency)
    limits = rl.Limits(ttft=asked.ttft or inf, tpot=asked.tpot or inf)
    model = chosen_model(asked.model, hub)
    return _json(rl.search(model, demand, limits, objective=asked.objective, top=asked.top, **settings))


def advice_answer(asked: b.GenerateAsked, hub: bool) -> dict[str, Any]:
    """Changes, the one that gains most tokens/s per chip first; each figure is a factor over that without it."""
    model = chosen_model(asked.model, hub)
    now = served(model, batch=asked.batch, input=asked.input, output=asked.output, **_settings(asked))
    best = tried(now)[:MOST_CHANGES_LISTED]
    names = ("lever", "what", "option", "per_chip", "prefill", "decode", "tpot", "ttft")
    changes = [{**{n: getattr(a, n) for n in names}, "memory": float(a.memory)} for a in best]
    return {"schema": "roofline.advice/1", "changes": changes}


def _json(result: Any) -> dict[str, Any]:
    answer: dict[str, Any] = result.to_dict()
    return answer
