"""`rl.plot`: a picture of a model on chips, as data, and in a file where one is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from roofline.declared.checks import count
from roofline.declared.errors import InputError, not_one_of
from roofline.estimates.deployment import Machine, machines
from roofline.estimates.estimate import estimate
from roofline.estimates.settings import setup
from roofline.estimates.step import Estimate
from roofline.explore.memory import memory_over_context
from roofline.explore.points import By
from roofline.explore.sensitivity import OperatingPoint, answers
from roofline.explore.sweep import AXES, Swept, longest_context, map_decode, sweep_steps
from roofline.layout.layout import layout_named
from roofline.layout.shard import shard
from roofline.machine.engine import Engine
from roofline.model.load import model_of
from roofline.model.model import Model
from roofline.show.plots import build
from roofline.show.plots import data as d
from roofline.show.plots.style import LegendPlace, Style, ThemeName
from roofline.show.plots.write import check_output, write
from roofline.work.analysis import analyze
from roofline.work.step import PHASES, Phase, Step, decode, prefill
from roofline.work.training import Training

PictureKind: TypeAlias = Literal["roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram"]
MOST_DRAWN_MACHINES, MOST_DRAWN_STEPS = 32, 32
"""What has room in a picture, and its marks on a page."""
TOKENS = 1024
"""Prompt and context length where none is given and the model's context allows it."""


@dataclass(frozen=True)
class Wanted:
    """What to draw: everything `plot` was given."""

    model: Model
    steps: tuple[tuple[str, Step], ...]
    on: tuple[Machine, ...]
    layout: object
    points: By
    links: bool
    over: Swept
    phase: Phase
    batch: int
    context: int
    most_batch: int | None
    most_context: int | None
    engine: str | Engine | None
    precision: object
    work: Mapping[str, Any]
    law: str

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of a step of inference."""
        return {**self.trained, "precision": self.precision, "engine": self.engine}

    @property
    def timed(self) -> dict[str, Any]:
        """Options of `estimate` for a step of inference."""
        return {**self.work, **self.settings}

    @property
    def trained(self) -> dict[str, Any]:
        """Those of a training step, whose formats are its recipe's and whose engine is the one for training."""
        return {"law": self.law, "layout": self.layout}

    def machines(self, most: int | None = None) -> tuple[Machine, ...]:
        """The chips or clusters, at least one and at most so many."""
        if not self.on or (most is not None and len(self.on) > most):
            raise InputError("on", list(self.on), "one chip" if most == 1 else "at least one chip")
        return self.on


@dataclass(frozen=True)
class PlotOptions:
    """What a picture may be told besides its kind and sizes: its marks, how far it goes, its style, its settings.

    `points`, `links`: of a roofline. `over`, `phase`: of a sweep. `broken`, `legend`: as in `Style`. The others are
    those of `estimate`.
    """

    points: By = "ops"
    links: bool = False
    over: Swept = "batch"
    phase: Phase = "decode"
    most_batch: int | None = None
    most_context: int | None = None
    theme: ThemeName = "light"
    legend: LegendPlace = "beside"
    broken: bool = False
    dpi: int = 150
    counting: str = "standard"
    traffic: str = "fused"
    layout: Any = None
    precision: Any = None
    law: str = "calibrated"
    engine: str | Engine | None = None


def plot(
    model: Any,
    steps: Mapping[str, Step] | None = None,
    *,
    on: Machine | Sequence[Machine] = (),
    kind: PictureKind = "roofline",
    batch: int = 1,
    context: int | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    **options: Any,
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
    `model`: a Model, its name, path or config. `steps` without a value: a prefill and a decode of `context` tokens
    (1024) at `batch`, which is that of all replicas. With a layout work and bytes are those of one rank.
    The `options` are those of `PlotOptions`.
    Raises InputError for what is not understood, and for a file that cannot be written.
    """
    o = PlotOptions(**options)
    for name, value, known in (("kind", kind, KINDS), ("over", o.over, AXES), ("phase", o.phase, PHASES)):
        if value not in known:
            raise not_one_of(name, value, known)
    if len(machines(on)) > MOST_DRAWN_MACHINES or len(steps or ()) > MOST_DRAWN_STEPS:
        asked = f"{len(machines(on))} machines and {len(steps or ())} steps"
        raise InputError("on", asked, f"at most {MOST_DRAWN_MACHINES} machines and {MOST_DRAWN_STEPS} steps")
    built, style = model_of(model), Style(o.theme, o.legend, o.broken, o.dpi)
    if output is not None:
        check_output(output, style, kind == "roofline", force)
    tokens = longest_context(built, TOKENS) if context is None else count("context", context)
    default = {"prefill": prefill(batch, max(1, tokens)), "decode": decode(batch, tokens)} if steps is None else steps
    if not default:
        raise InputError("steps", default, "at least one step")
    for name, step in default.items():
        if not isinstance(step, Step) or step.shape:
            raise InputError(
                f"steps[{name!r}]", step, "a prefill, a decode, a training or a mixed step, without arrays"
            )
    request = Wanted(
        built, tuple(default.items()), machines(on), o.layout, o.points, o.links, o.over, o.phase, batch, tokens,
        o.most_batch, o.most_context, o.engine, o.precision, {"counting": o.counting, "traffic": o.traffic}, o.law,
    )  # fmt: skip
    picture = KINDS[kind](request)
    several = o.layout is not None and not layout_named(o.layout).alone
    if several and kind not in ("parameters", "diagram"):
        note = f"{picture.note} · {layout_named(o.layout).text()}: work of one rank, batch of all replicas"
        picture = replace(picture, note=note)
    if output is not None:
        write(picture, output, style, force)
    return picture


def _timed(r: Wanted) -> list[build.NamedEstimate]:
    """Each step on each machine; of a training step one micro-batch on the first stage."""
    timed: list[build.NamedEstimate] = []
    for machine in r.on:
        for name, step in r.steps:
            e = estimate(r.model, step, on=machine, **(r.trained if isinstance(step, Training) else r.timed))
            one: Estimate = e.micro(e.stages[0]) if isinstance(step, Training) else e
            timed.append(build.NamedEstimate(name, one, bool(e.fits)))
    return timed


def _roofline(r: Wanted) -> d.Plot:
    r.machines()
    return build.roofline_plot(_timed(r), r.points, r.links)


def _shares(r: Wanted) -> d.Plot:
    timed = _timed(r)
    if timed:
        first = [(t.name, t.estimate.analysis) for t in timed[: len(r.steps)]]
        return build.shares_plot(first, timed)
    layout = layout_named(r.layout)
    rank = shard(r.model, layout)
    steps = ((name, s if isinstance(s, Training) else s.of_replica(layout.dp)) for name, s in r.steps)
    return build.shares_plot([(name, analyze(rank, step, precision=r.precision, **r.work)) for name, step in steps])


def _sweep(r: Wanted) -> d.Plot:
    most = r.most_batch if r.over == "batch" else r.most_context
    swept = [
        sweep_steps(
            r.model, on=machine, phase=r.phase, over=r.over, batch=r.batch,
            context=max(r.context, int(r.phase == "prefill")), most=most, **r.timed,
        )
        for machine in r.machines()
    ]  # fmt: skip
    return build.sweep_plot(swept)


def _memory(r: Wanted) -> d.Plot:
    curve = memory_over_context(
        r.model, on=r.on, layout=r.layout, batch=r.batch, most=r.most_context, engine=r.engine, precision=r.precision
    )
    return build.memory_plot(r.model, curve)


def _map(r: Wanted) -> d.Plot:
    (machine,) = r.machines(1)
    return build.decode_map_plot(
        map_decode(r.model, on=machine, most_batch=r.most_batch, most_context=r.most_context, **r.timed)
    )


def _tornado(r: Wanted) -> d.Plot:
    (machine,) = r.machines(1)
    first = dict(r.steps).get("prefill")
    prompt = None if first is None else int(first.longest)
    point = OperatingPoint(setup(r.model, on=machine, **r.settings), r.batch, max(1, r.context), prompt)
    return build.tornado_plot(point, answers(point))


KINDS: Mapping[str, Callable[[Wanted], d.Plot]] = {
    "roofline": _roofline, "shares": _shares, "sweep": _sweep, "memory": _memory,
    "parameters": lambda r: build.parameters_plot(r.model), "map": _map, "tornado": _tornado,
    "diagram": lambda r: build.diagram_plot(r.model),
}  # fmt: skip
