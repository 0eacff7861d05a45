"""Questions and their answers: a body in, a result out. Each is the library's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

import roofline as rl
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.result import plain
from roofline.estimates.bill import Bill, price_named
from roofline.explore.guidance import advice as tried
from roofline.explore.guidance import best_first, served
from roofline.show.plots.make import plot
from roofline.web import bodies as b
from roofline.web.choices import Allowed, chosen_machine, chosen_model

MOST_CHANGES_LISTED = 8
"""Changes that advice lists."""
MOST_EVENTS = 400_000
"""Tokens that one simulation generates at most."""


def given_fields(asked: b.Body, allowed: Allowed) -> dict[str, Any]:
    """Every field of a body by its name, as the library takes it: the model, the machine and the bill understood.

    What need not be given, and is null or an empty text, is left to the library's own default. Nothing else is left
    out, so that a field which the question's function does not take is an error there.
    """
    given: dict[str, Any] = {}
    for name, field in type(asked).model_fields.items():
        value = getattr(asked, name)
        if field.is_required() or value not in (None, ""):
            given[name] = _READ[name](value, allowed) if name in _READ else value
    return given


def given_step(given: dict[str, Any]) -> rl.Step:
    """The forward pass of the fields `phase`, `batch` and `context`, which are taken out; a decode of one token after
    1024 where they are not given.
    """
    maker: Callable[..., rl.Step] = rl.prefill if given.pop("phase", "decode") == "prefill" else rl.decode
    return maker(given.pop("batch", 1), given.pop("context", 1024))


def _bill(asked: b.BillAsked, _: Allowed) -> Bill:
    given = {name: getattr(asked, name) for name in type(asked).model_fields}
    read: dict[str, Callable[[Any], Any]] = {"price": price_named, "grid": _number_or_word}
    return Bill(**{name: read.get(name, float)(value) for name, value in given.items() if value not in (None, "")})


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


_READ: Mapping[str, Callable[[Any, Allowed], Any]] = MappingProxyType(
    {"model": chosen_model, "on": chosen_machine, "bill": _bill}
)
"""Fields that are more than their own value → what they mean, by what is allowed."""


def analyze_answer(asked: b.StepAsked, allowed: Allowed) -> Any:
    """`roofline.analysis`: FLOPs and bytes, op by op."""
    given = given_fields(asked, allowed)
    return rl.analyze(step=given_step(given), **given)


def explain_answer(asked: b.ExplainAsked, allowed: Allowed) -> Any:
    """`roofline.explanation`: the formulas of an op, with its numbers and sources."""
    given = given_fields(asked, allowed)
    return rl.explain(step=given_step(given), **given)


def estimate_answer(asked: b.EstimateAsked, allowed: Allowed) -> Any:
    """`roofline.estimate`: the time of a step, op by op."""
    given = given_fields(asked, allowed)
    return rl.estimate(step=given_step(given), **given)


def generate_answer(asked: b.GenerateAsked, allowed: Allowed) -> Any:
    """`roofline.generate`: a static batch."""
    return rl.generate(**given_fields(asked, allowed))


def serve_answer(asked: b.ServeAsked, allowed: Allowed) -> Any:
    """`roofline.serve`: a server in its steady state."""
    _check_load(asked.concurrency, asked.rate)
    given = given_fields(asked, allowed)
    if isinstance(asked.concurrency, list):
        given["concurrency"] = np.array(asked.concurrency)
    return rl.serve(**given)


def _check_load(concurrency: object, rate: float | None) -> None:
    """Raises InputError for both, and for neither."""
    if (concurrency is None) == (rate is None):
        got = "neither" if rate is None else "both"
        raise InputError("concurrency and rate", got, "one of them: requests in flight, or requests a second")


def fit_answer(asked: b.FitAsked, allowed: Allowed) -> Any:
    """`roofline.fit`: whether sequences fit, and how many would."""
    return rl.fit(**given_fields(asked, allowed))


def train_answer(asked: b.TrainAsked | b.TimelineAsked, allowed: Allowed) -> Any:
    """`roofline.training`: an optimizer step."""
    return rl.train(**given_fields(asked, allowed))


def sweep_answer(asked: b.SweepAsked, allowed: Allowed) -> Any:
    """`roofline.estimate` of arrays: batches down, contexts across; with `only` no more than those figures."""
    given = given_fields(asked, allowed)
    given |= {"batch": np.array(asked.batch)[:, None], "context": np.array(asked.context)[None, :]}
    only = given.pop("only", None)
    estimate = rl.estimate(step=given_step(given), **given)
    if only is None:
        return estimate
    unknown = next((name for name in only if name not in estimate.FIGURES), None)
    if unknown is not None:
        raise not_one_of("only", unknown, estimate.FIGURES)
    return {"schema": estimate.SCHEMA, **{name: plain(estimate.figure(name)) for name in only}}


SHOWN: Mapping[str, frozenset[str]] = MappingProxyType({
    "roofline": frozenset({"on", "layout", "precision", "engine", "law", "batch", "context", "phase"}),
    "memory": frozenset({"on", "layout", "precision", "engine", "batch"}),
    "parameters": frozenset(),
    "diagram": frozenset(),
})  # fmt: skip
"""Kind of picture → the fields of a body that it shows, beside the model."""


def plot_answer(asked: b.PlotAsked, allowed: Allowed) -> Any:
    """`roofline.plot`: what a picture shows."""
    given = given_fields(asked, allowed)
    unseen = next((name for name in given if name not in SHOWN[asked.kind] | {"model", "kind"}), None)
    if unseen is not None:
        raise InputError(unseen, getattr(asked, unseen), f"nothing, as a picture of kind {asked.kind} does not show it")
    if "on" in SHOWN[asked.kind] and "on" not in given:
        raise InputError("on", None, "a chip or a cluster")
    if asked.kind == "roofline":
        phase = asked.phase or "decode"
        return plot(steps={phase: given_step(given)}, **given)
    return plot(**given)


def simulate_answer(asked: b.SimulateAsked, allowed: Allowed) -> Any:
    """`roofline.simulate`: request by request."""
    if asked.requests * asked.output > MOST_EVENTS:
        raise InputError("requests", asked.requests, f"at most {MOST_EVENTS} generated tokens: requests × output")
    _check_load(asked.concurrency, asked.rate)
    given = given_fields(asked, allowed)
    extent = rl.Extent(requests=given.pop("requests"), seed=given.pop("seed"))
    return rl.simulate(extent=extent, **given)


def given_search(given: dict[str, Any]) -> rl.Search:
    """`rl.search` of the fields of a body: the load and the limits are taken out, a layout is the only one."""
    demand = rl.Demand(**{name: given.pop(name) for name in ("input", "output", "concurrency")})
    limits = rl.Limits(**{name: given.pop(name) for name in ("ttft", "tpot") if name in given})
    layouts = [given.pop("layout")] if "layout" in given else None
    return rl.search(given.pop("model"), demand, limits, layouts=layouts, **given)


def search_answer(asked: b.SearchAsked, allowed: Allowed) -> Any:
    """`roofline.search`: ways to serve, the best first."""
    return given_search(given_fields(asked, allowed))


def advice_answer(asked: b.AdviceAsked, allowed: Allowed) -> Any:
    """Changes, the best of each lever first; each figure is a factor over that without it.

    `option`: that of `command`, `roofline serve`, whose requests in flight are the batch.
    """
    now = served(**given_fields(asked, allowed), command="serve")
    best = best_first(tried(now))[:MOST_CHANGES_LISTED]
    names = ("lever", "what", "option", "per_chip", "prefill", "decode", "tpot", "ttft")
    changes = [
        {**{n: getattr(a, n) for n in names}, "memory": float(a.memory), "grade": a.generation.grade} for a in best
    ]
    return {"schema": "roofline.advice/1", "command": now.command, "changes": changes}
