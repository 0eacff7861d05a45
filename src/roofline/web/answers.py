"""Questions and their answers: a body in, a result out. Each is the library's own function."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

import roofline as rl
from roofline.estimates.bill import Bill, price_named
from roofline.explore.guidance import advice as tried
from roofline.explore.guidance import served
from roofline.model.errors import InputError, not_one_of
from roofline.result import plain
from roofline.show.plots.make import plot
from roofline.web import bodies as b
from roofline.web.choices import Allowed, chosen_machine, chosen_model

MOST_CHANGES_LISTED = 8
"""Changes that advice lists."""
MOST_EVENTS = 400_000
"""Tokens that one simulation generates at most."""


def settings_of_place(asked: b.PlaceAsked, allowed: Allowed) -> dict[str, Any]:
    """The settings of an estimate, those that were given."""
    given: dict[str, Any] = {"layout": asked.layout, "precision": asked.precision, "engine": asked.engine}
    if asked.bill is not None:
        given["bill"] = _bill(asked.bill)
    return {"on": chosen_machine(asked.on, allowed), "law": asked.law, **{k: v for k, v in given.items() if v}}


def _bill(asked: b.BillAsked) -> Bill:
    given: dict[str, Any] = {"price": price_named(asked.price or None), "grid": _number_or_word(asked.grid or None)}
    shares = {"utilisation": asked.utilisation, "pue": asked.pue}
    return Bill(**given, **{name: value for name, value in shares.items() if value is not None})


def _number_or_word(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _step(phase: str, batch: int, context: int) -> rl.Step:
    return rl.prefill(batch, context) if phase == "prefill" else rl.decode(batch, context)


def analyze_answer(asked: b.StepAsked, allowed: Allowed) -> Any:
    """`roofline.analysis`: FLOPs and bytes, op by op."""
    step = _step(asked.phase, asked.batch, asked.context)
    conventions: dict[str, Any] = {"counting": asked.counting, "traffic": asked.traffic, "precision": asked.precision}
    return rl.analyze(chosen_model(asked.model, allowed), step, **conventions)


def explain_answer(asked: b.ExplainAsked, allowed: Allowed) -> Any:
    """`roofline.explanation`: the formulas of an op, with its numbers and sources."""
    step = _step(asked.phase, asked.batch, asked.context)
    conventions: dict[str, Any] = {"counting": asked.counting, "traffic": asked.traffic, "precision": asked.precision}
    return rl.explain(chosen_model(asked.model, allowed), asked.op, step, **conventions)


def estimate_answer(asked: b.EstimateAsked, allowed: Allowed) -> Any:
    """`roofline.estimate`: the time of a step, op by op."""
    step = _step(asked.phase, asked.batch, asked.context)
    return rl.estimate(chosen_model(asked.model, allowed), step, **settings_of_place(asked, allowed))


def generate_answer(asked: b.GenerateAsked, allowed: Allowed) -> Any:
    """`roofline.generate`: a static batch."""
    sizes: dict[str, Any] = {"batch": asked.batch, "input": asked.input, "output": asked.output}
    return rl.generate(chosen_model(asked.model, allowed), **sizes, **settings_of_place(asked, allowed))


def serve_answer(asked: b.ServeAsked, allowed: Allowed) -> Any:
    """`roofline.serve`: a server in its steady state."""
    if (asked.concurrency is None) == (asked.rate is None):
        got = "neither" if asked.rate is None else "both"
        raise InputError("concurrency and rate", got, "one of them: requests in flight, or requests a second")
    several = asked.concurrency
    load: Any = np.array(several) if isinstance(several, list) else several
    sizes: dict[str, Any] = {"input": asked.input, "output": asked.output, "prefix": asked.prefix}
    model = chosen_model(asked.model, allowed)
    return rl.serve(model, concurrency=load, rate=asked.rate, **sizes, **settings_of_place(asked, allowed))


def fit_answer(asked: b.FitAsked, allowed: Allowed) -> Any:
    """`roofline.fit`: whether sequences fit, and how many would."""
    settings = {k: v for k, v in settings_of_place(asked, allowed).items() if k not in ("law", "bill")}
    return rl.fit(chosen_model(asked.model, allowed), batch=asked.batch, context=asked.context, **settings)


def train_answer(asked: b.TrainAsked, allowed: Allowed) -> Any:
    """`roofline.training`: an optimizer step."""
    options: dict[str, Any] = {"recompute": asked.recompute, "micro_batch": asked.micro_batch}
    model = chosen_model(asked.model, allowed)
    return rl.train(model, batch=asked.batch, tokens=asked.tokens, **options, **settings_of_place(asked, allowed))


def sweep_answer(asked: b.SweepAsked, allowed: Allowed) -> Any:
    """`roofline.estimate` of arrays: batches down, contexts across; with `only` no more than those figures."""
    batch, context = np.array(asked.batch)[:, None], np.array(asked.context)[None, :]
    maker: Callable[..., rl.Step] = rl.prefill if asked.phase == "prefill" else rl.decode
    estimate = rl.estimate(
        chosen_model(asked.model, allowed), maker(batch, context), **settings_of_place(asked, allowed)
    )
    if asked.only is None:
        return estimate
    unknown = next((name for name in asked.only if name not in estimate.FIGURES), None)
    if unknown is not None:
        raise not_one_of("only", unknown, estimate.FIGURES)
    return {"schema": estimate.SCHEMA, **{name: plain(estimate.figure(name)) for name in asked.only}}


def plot_answer(asked: b.PlotAsked, allowed: Allowed) -> Any:
    """`roofline.plot`: what a picture shows."""
    model = chosen_model(asked.model, allowed)
    if asked.kind in ("diagram", "parameters"):
        return plot(model, kind=asked.kind)
    settings = {k: v for k, v in settings_of_place(asked, allowed).items() if k != "bill"}
    if asked.kind == "memory":
        return plot(model, kind="memory", batch=asked.batch, context=asked.context, **settings)
    return plot(model, {asked.phase: _step(asked.phase, asked.batch, asked.context)}, **settings)


def simulate_answer(asked: b.SimulateAsked, allowed: Allowed) -> Any:
    """`roofline.simulate`: request by request."""
    if asked.requests * asked.output > MOST_EVENTS:
        raise InputError("requests", asked.requests, f"at most {MOST_EVENTS} generated tokens: requests × output")
    if (asked.concurrency is None) == (asked.rate is None):
        raise InputError("concurrency and rate", "neither or both", "one of them")
    load: dict[str, Any] = {"rate": asked.rate} if asked.rate else {"concurrency": asked.concurrency}
    sizes: dict[str, Any] = {"input": asked.input, "output": asked.output}
    extent = rl.Extent(requests=asked.requests, seed=asked.seed)
    model = chosen_model(asked.model, allowed)
    return rl.simulate(model, extent=extent, **sizes, **load, **settings_of_place(asked, allowed))


def search_answer(asked: b.SearchAsked, allowed: Allowed) -> Any:
    """`roofline.search`: ways to serve, the best first."""
    settings = {k: v for k, v in settings_of_place(asked, allowed).items() if k not in ("law", "layout")}
    demand = rl.Demand(input=asked.input, output=asked.output, concurrency=asked.concurrency)
    limits = rl.Limits(ttft=asked.ttft or inf, tpot=asked.tpot or inf)
    model = chosen_model(asked.model, allowed)
    return rl.search(model, demand, limits, objective=asked.objective, top=asked.top, **settings)


def advice_answer(asked: b.GenerateAsked, allowed: Allowed) -> Any:
    """Changes, the one that gains most tokens/s per chip first; each figure is a factor over that without it."""
    model = chosen_model(asked.model, allowed)
    now = served(model, batch=asked.batch, input=asked.input, output=asked.output, **settings_of_place(asked, allowed))
    best = tried(now)[:MOST_CHANGES_LISTED]
    names = ("lever", "what", "option", "per_chip", "prefill", "decode", "tpot", "ttft")
    changes = [{**{n: getattr(a, n) for n in names}, "memory": float(a.memory)} for a in best]
    return {"schema": "roofline.advice/1", "changes": changes}
