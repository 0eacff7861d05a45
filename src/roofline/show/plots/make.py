"""`rl.plot`: a picture of a model on chips, as data, and in a file where one is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from roofline.estimates.estimate import estimate
from roofline.estimates.place import Place, Placed, placed, places
from roofline.explore.marks import By
from roofline.explore.memory import memory_over_context
from roofline.explore.sensitivity import Point, answers
from roofline.explore.sweep import AXES, Axis, longest_context, map_decode, sweep_steps
from roofline.layout.layout import Layout, layout_named
from roofline.layout.shard import shard
from roofline.model.checks import count
from roofline.model.errors import InputError, not_one_of
from roofline.model.model import Model
from roofline.show.plots import build
from roofline.show.plots import data as d
from roofline.show.plots.style import LegendPlace, Style, ThemeName
from roofline.show.plots.write import check_output, write
from roofline.work.analysis import analyze
from roofline.work.step import PHASES, Phase, Step, decode, prefill
from roofline.work.training import Training

Kind: TypeAlias = Literal["roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram"]
TOKENS = 1024
"""Prompt and context length where none is given and the model's context allows it."""


@dataclass(frozen=True)
class Request:
    """What to draw: everything `plot` was given."""

    model: Model
    steps: tuple[tuple[str, Step], ...]
    on: tuple[Place, ...]
    layout: Layout
    points: By
    links: bool
    over: Axis
    phase: Phase
    batch: int
    context: int
    most_batch: int | None
    most_context: int | None
    engine: str | None
    precision: object
    work: Mapping[str, Any]
    law: str

    @property
    def timed(self) -> dict[str, Any]:
        """Options of `estimate` for a step of inference."""
        return {**self.work, **self.trained, "precision": self.precision, "engine": self.engine}

    @property
    def trained(self) -> dict[str, Any]:
        """Those of a training step, whose formats are its recipe's and whose engine is the one for training."""
        return {"law": self.law, "layout": self.layout}

    def places(self, most: int | None = None) -> tuple[Place, ...]:
        """The chips or clusters, at least one and at most so many."""
        if not self.on or (most is not None and len(self.on) > most):
            raise InputError("on", list(self.on), "one chip" if most == 1 else "at least one chip")
        return self.on

    @property
    def placed(self) -> list[Placed]:
        """The layout in each of them."""
        return [placed(place, self.layout) for place in self.on]


def plot(
    model: Model,
    steps: Mapping[str, Step] | None = None,
    *,
    on: Place | Sequence[Place] = (),
    layout: object = None,
    kind: Kind = "roofline",
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    points: By = "ops",
    links: bool = False,
    over: Axis = "batch",
    phase: Phase = "decode",
    batch: int = 1,
    context: int | None = None,
    most_batch: int | None = None,
    most_context: int | None = None,
    theme: ThemeName = "light",
    legend: LegendPlace = "beside",
    broken: bool = False,
    dpi: int = 150,
    counting: str = "standard",
    traffic: str = "fused",
    precision: object = None,
    law: str = "calibrated",
    engine: str | None = None,
) -> d.Plot:
    """What the picture shows, drawn into `output` (PNG, SVG, PDF or HTML) where given.

    `kind`:
      roofline    `points` (ops, layers or phases) of named `steps` under the roofs of the chips
      shares      FLOPs, bytes and, on chips, time of named `steps` by kind of op
      sweep       a `phase` `over` batch (at `context`) or over context (at `batch`): tokens/s and time of a step
      memory      weights, activations and cache of `batch` sequences over context, and the chips' capacities
      parameters  parameters by part
      map         decode over batch × context on one chip
      tornado     what each knob does to a prefill and a decode of `batch` sequences of `context` tokens on one chip
      diagram     the model's modules, from embedding to head
    `steps` without a value: a prefill and a decode of `context` tokens (1024) at `batch`. `layout`: work, bytes and
    times are those of one rank, a step is that of one replica.
    `broken`, `legend`: as in `Style`.
    Raises InputError for what is not understood, and for a file that cannot be written.
    """
    for name, value, known in (("kind", kind, KINDS), ("over", over, AXES), ("phase", phase, PHASES)):
        if value not in known:
            raise not_one_of(name, value, known)
    style = Style(theme, legend, broken, dpi)
    if output is not None:
        check_output(output, style, kind == "roofline", force)
    tokens = longest_context(model, TOKENS) if context is None else count("context", context)
    default = {"prefill": prefill(batch, max(1, tokens)), "decode": decode(batch, tokens)} if steps is None else steps
    if not default:
        raise InputError("steps", default, "at least one step")
    for name, step in default.items():
        if not isinstance(step, Step) or step.shape:
            raise InputError(
                f"steps[{name!r}]", step, "a prefill, a decode, a training or a mixed step, without arrays"
            )
    request = Request(
        model, tuple(default.items()), places(on), layout_named(layout), points, links, over, phase, batch, tokens,
        most_batch, most_context, engine, precision, {"counting": counting, "traffic": traffic}, law,
    )  # fmt: skip
    made = KINDS[kind](request)
    if not request.layout.alone and kind not in ("parameters", "diagram"):
        made = replace(made, note=f"{made.note} · {request.layout.text()}: work of one rank, batch of one replica")
    if output is not None:
        write(made, output, style, force)
    return made


def _timed(r: Request) -> list[build.Timed]:
    """Each step in each place; of a training step one micro-batch on the first stage."""
    found: list[build.Timed] = []
    for place in r.on:
        for name, step in r.steps:
            if isinstance(step, Training):
                e = estimate(r.model, step, on=place, **r.trained).stages[0].passes.estimate
            else:
                e = estimate(r.model, step, on=place, **r.timed)
            found.append(build.Timed(name, placed(place, r.layout), e))
    return found


def _roofline(r: Request) -> d.Plot:
    r.places()
    return build.roofline(_timed(r), r.points, r.links)


def _shares(r: Request) -> d.Plot:
    timed = _timed(r)
    if timed:
        first = [(t.name, t.estimate.analysis) for t in timed[: len(r.steps)]]
        return build.shares(first, timed)
    rank = shard(r.model, r.layout)
    return build.shares([(name, analyze(rank, step, precision=r.precision, **r.work)) for name, step in r.steps])


def _sweep(r: Request) -> d.Plot:
    most = r.most_batch if r.over == "batch" else r.most_context
    swept = [
        sweep_steps(
            r.model, on=c, phase=r.phase, over=r.over, batch=r.batch,
            context=max(r.context, int(r.phase == "prefill")), most=most, **r.timed,
        )
        for c in r.places()
    ]  # fmt: skip
    return build.sweep(swept, r.placed)


def _memory(r: Request) -> d.Plot:
    curve = memory_over_context(
        r.model, on=r.on, layout=r.layout, batch=r.batch, most=r.most_context, engine=r.engine, precision=r.precision
    )
    return build.memory(r.model, curve, r.placed)


def _map(r: Request) -> d.Plot:
    (place,) = r.places(1)
    drawn = map_decode(r.model, on=place, most_batch=r.most_batch, most_context=r.most_context, **r.timed)
    return build.decode_map(drawn, placed(place, r.layout))


def _tornado(r: Request) -> d.Plot:
    (place,) = r.places(1)
    formats = r.model.precision.merged(r.precision)
    first = dict(r.steps).get("prefill")
    prompt = None if first is None else int(first.longest)
    where, context = placed(place, r.layout), max(1, r.context)
    point = Point(r.model, where, formats, r.batch, context, r.engine, prompt, r.law)
    return build.tornado(point, answers(point))


KINDS: Mapping[str, Callable[[Request], d.Plot]] = {
    "roofline": _roofline, "shares": _shares, "sweep": _sweep, "memory": _memory,
    "parameters": lambda r: build.parameters(r.model), "map": _map, "tornado": _tornado,
    "diagram": lambda r: build.diagram(r.model),
}  # fmt: skip
