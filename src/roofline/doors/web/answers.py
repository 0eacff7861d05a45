"""Route handlers of the main questions: each passes a request body to the library function of the same name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

import roofline as rl
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import PlaceSettings, Where
from roofline.declared.kinds import Given
from roofline.declared.question import group_settings
from roofline.declared.result import Result, plain
from roofline.declared.trees import JsonObject
from roofline.doors.web import request_models as b
from roofline.doors.web.allow_list import Allowed, chosen_chip, chosen_machine, chosen_model
from roofline.views.plots.make import plot
from roofline.whatif.answer import USUAL_MACHINES
from roofline.whatif.search.recommendations import advice as tried
from roofline.whatif.search.recommendations import best_first, served
from roofline.work.step import Step

ApiAnswer: TypeAlias = Result | JsonObject | bytes
"""Type of an API answer: a result, a JSON object or the content of a file."""
MOST_CHANGES_LISTED = 8
"""Maximum number of changes that the advice route lists."""
MOST_EVENTS = 400_000
"""Maximum number of tokens that one simulation generates."""


def given_fields(asked: b.Body, allowed: Allowed) -> dict[str, Given]:
    """Convert a request body to keyword arguments of the library: names resolved to models and machines as `allowed`
    permits, lists of numbers converted to arrays.

    Optional fields that are null or empty are omitted, so that the library's defaults apply. All other fields are
    passed on, so that the library rejects a field it does not know.
    """
    given: dict[str, Given] = {}
    for name, field in type(asked).model_fields.items():
        value = getattr(asked, name)
        if name == "text_only" or (not field.is_required() and value in (None, "")):
            continue
        setting = type(asked).declared.get(name)
        several = isinstance(value, list)
        try:
            if name == "model" or (name == "draft" and value != "none"):
                alone = name == "model" and getattr(asked, "text_only", False) is True
                value = chosen_model(value, allowed, text_only=alone)
            elif setting is not None and setting.kind.names == "machine":
                chosen = chosen_machine if "Cluster" in setting.kind.classes else chosen_chip
                value = [chosen(one, allowed) for one in value] if several else chosen(value, allowed)
        except InputError as error:
            if error.field not in ("model", "on"):  # errors within a config or figures
                raise
            raise InputError(name, error.value, error.expected, error.nearest) from error
        if several and name != "only" and not (setting is not None and setting.kind.several):
            value = np.array(value)
        given[name] = value
    return given


def analyze_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.analysis`: FLOPs and bytes, op by op."""
    return rl.analyze(**given_fields(asked, allowed))


def explain_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.explanation`: the formulas of an op, with its numbers and sources."""
    return rl.explain(**given_fields(asked, allowed))


def estimate_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.estimate`: the time of a step, op by op."""
    step: Result = rl.estimate(**given_fields(asked, allowed))
    return step


def generate_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.generate`: a static batch."""
    return rl.generate(**given_fields(asked, allowed))


def encode_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.encode`: a batch of inputs that are read as a whole."""
    return rl.encode(**given_fields(asked, allowed))


def serve_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.serve`: a server in its steady state."""
    return rl.serve(**given_fields(asked, allowed))


def answer_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.answer`: the first answer; without a machine for three usual ones, never for the server's own."""
    given = given_fields(asked, allowed)
    given.setdefault("on", list(USUAL_MACHINES))
    return rl.answer(**given)


def machines_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.machines`: which machine to serve a demand with."""
    return rl.machines(**given_fields(asked, allowed))


def fit_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.fit`: whether sequences fit, and how many would."""
    return rl.fit(**given_fields(asked, allowed))


def offload_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.offload`: a static batch over cards and their host."""
    return rl.offload(**given_fields(asked, allowed))


def train_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.training`: an optimizer step."""
    return rl.train(**given_fields(asked, allowed))


def sweep_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.estimate` of arrays with batches as rows and contexts as columns; `only` selects figures."""
    given = given_fields(asked, allowed)
    only = given.pop("only", None)
    estimate: Result = rl.estimate(**{**given, "batch": given["batch"][:, None], "context": given["context"][None, :]})
    if only is None:
        return estimate
    unknown = next((name for name in only if name not in estimate.FIGURES), None)
    if unknown is not None:
        raise not_one_of("only", unknown, estimate.FIGURES)
    return {"schema": estimate.SCHEMA, **{name: plain(estimate.figure(name)) for name in only}}


ON_CHIPS = frozenset(group_settings(PlaceSettings))
SHOWN: Mapping[str, frozenset[str]] = MappingProxyType({
    "roofline": frozenset({*group_settings(Where), *group_settings(Step)}),
    "energy": frozenset({*group_settings(Where), *group_settings(Step)}),
    "memory": ON_CHIPS | {"batch"}, "parameters": frozenset(), "diagram": frozenset(),
})  # fmt: skip
"""Kind of picture → request fields that it uses, beside the model."""


def plot_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.plot`: the data of a picture."""
    given = given_fields(asked, allowed)
    unseen = next((name for name in given if name not in SHOWN[asked.kind] | {"model", "kind"}), None)
    if unseen is not None:
        raise InputError(unseen, getattr(asked, unseen), f"nothing, as a picture of kind {asked.kind} does not show it")
    if "on" in SHOWN[asked.kind] and "on" not in given:
        raise InputError("on", None, "a chip or a cluster")
    given = PlaceSettings.fully(given)
    if asked.kind in ("roofline", "energy"):
        own = {name: given.pop(name) for name in group_settings(Step) if name in given}
        phase = own.get("phase", "decode" if "input" not in own else "prefill")
        given["steps"] = {phase: Step.asked(**own)}
    picture: Result = plot(**given)
    return picture


def simulate_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.simulate`: a server under traffic, request by request."""
    tokens = asked.output_tokens
    for name in ("input", "output_tokens"):
        text = getattr(asked, name)
        if isinstance(text, str) and "file" in text:
            raise InputError(name, text, "a number or a distribution, and no file")
    if isinstance(tokens, int) and asked.requests is not None and asked.requests * tokens > MOST_EVENTS:
        raise InputError("requests", asked.requests, f"at most {MOST_EVENTS} generated tokens: requests × output")
    return rl.simulate(**given_fields(asked, allowed))


def given_search(asked: b.Body, given: dict[str, Given]) -> rl.Search:
    """Call `rl.search`. A given rate replaces the default concurrency, but not one set in the request body."""
    if "rate" in given and "concurrency" not in asked.model_fields_set:
        given = {name: value for name, value in given.items() if name != "concurrency"}
    plans: rl.Search = rl.search(**given)
    return plans


def search_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """`roofline.search`: ways to serve, the best first."""
    return given_search(asked, given_fields(asked, allowed))


def advice_answer(asked: b.Body, allowed: Allowed) -> ApiAnswer:
    """Changes that make a batch faster, best of each lever first; figures are factors relative to no change.

    `option`: the option of `command` (`roofline serve`, with the batch as concurrency) that makes the change.
    """
    given = given_fields(asked, allowed)
    now = served(**given, command="serve")
    best = best_first(tried(now))[:MOST_CHANGES_LISTED]
    names = ("lever", "what", "option", "gain", "gain_of", "per_chip", "prefill", "decode", "tpot", "ttft")
    changes = [
        {**{n: getattr(a, n) for n in names}, "memory": float(a.memory), "grade": a.generation.grade} for a in best
    ]
    return {"schema": "roofline.advice/1", "command": now.command, "changes": changes}
