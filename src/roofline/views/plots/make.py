"""`rl.plot`: a picture of a model on chips as data, optionally written to a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from roofline.declared.checks import count
from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import DEGREES, CountingText, TrafficText, Where
from roofline.declared.kinds import MachineName, Switch, Whole
from roofline.declared.question import Settings, group, group_settings, question
from roofline.inference.deployment import Machine, listed_machines
from roofline.inference.settings import setup
from roofline.inference.step import Estimate
from roofline.layout.layout import layout_named
from roofline.layout.shard import shard
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.programs.estimate import estimate
from roofline.views.plots import build
from roofline.views.plots import data as d
from roofline.views.plots.style import LegendPlace, Style, ThemeName
from roofline.views.plots.write import check_output, write
from roofline.whatif.markers import By
from roofline.whatif.search.memory import memory_over_context
from roofline.whatif.sensitivity.tornado import OperatingPoint, answers
from roofline.whatif.sweep.crossovers import AXES, Swept, longest_context, map_decode, sweep_steps
from roofline.work.analysis import analyze
from roofline.work.step import PHASES, Phase, Step, decode, prefill
from roofline.work.training import Training

PictureKind: TypeAlias = Literal[
    "roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram", "energy"
]
MOST_DRAWN_MACHINES, MOST_DRAWN_STEPS = 32, 32
"""Largest numbers of machines and steps in a picture."""
TOKENS = 1024
"""Default prompt and context length, if the model's context allows it."""


@dataclass(frozen=True)
class Wanted:
    """Arguments of `plot`."""

    model: Model
    steps: tuple[tuple[str, Step], ...]
    where: Where
    on: tuple[Machine, ...]
    points: By
    links: bool
    over: Swept
    phase: Phase
    batch: int
    context: int
    most_batch: int | None
    most_context: int | None
    work: Settings

    @property
    def settings(self) -> Settings:
        """Settings of an inference step, without the machine."""
        return {name: getattr(self.where, name) for name in group_settings(Where) if name not in ("on", *DEGREES)}

    @property
    def timed(self) -> Settings:
        """Options of `estimate` for an inference step."""
        return {**self.work, **self.settings}

    def trained(self, machine: Machine) -> Where:
        """Place of a training step; its formats come from the recipe, and its engine is the one for training."""
        return replace(self.where, on=machine, precision=None, engine=None)

    def machines(self, most: int | None = None) -> tuple[Machine, ...]:
        """The chips or clusters, from one to `most`."""
        if not self.on or (most is not None and len(self.on) > most):
            raise InputError("on", list(self.on), "one chip" if most == 1 else "at least one chip")
        return self.on


@group
@dataclass(frozen=True, kw_only=True)
class PlotOptions:
    """Options of a picture besides its kind and sizes: marks, extent, style.

    `points`, `links`: for a roofline. `over`, `phase`: for a sweep. `broken`, `legend`: as in `Style`.
    """

    points: Annotated[By, "What a point of the roofline is."] = "ops"
    links: Annotated[Switch, "Draw the bandwidth of links beside that of memory."] = False
    over: Annotated[Swept, "The axis of a sweep."] = "batch"
    phase: Annotated[Phase, "What a sweep is of."] = "decode"
    most_batch: Annotated[Whole | None, "The last batch of a sweep or map (1024)."] = None
    most_context: Annotated[
        Whole | None, "The last context of a sweep, map or memory (the model's, at most 131072)."
    ] = None
    theme: Annotated[ThemeName, "Ink on white, or light on dark."] = "light"
    legend: Annotated[LegendPlace, "Where the legend is: `beside` the picture, in a `file` of its own, or `none`."] = (
        "beside"
    )
    broken: Annotated[Switch, "A broken x axis, the empty middle left out."] = False
    dpi: Annotated[Whole, "Pixels per inch of a PNG."] = 150


@group
@dataclass(frozen=True, kw_only=True)
class DrawnOn(Where):
    """Machine and layout of a picture; pictures of the model alone need none."""

    on: Annotated[MachineName | None, "A chip or several chips, as elsewhere; one or a list."] = None


ANYWHERE, USUAL_PLOT = DrawnOn(), PlotOptions()


@question()
def plot(
    model: Model | Source,
    steps: Mapping[str, Step] | None = None,
    where: DrawnOn = ANYWHERE,
    *,
    kind: PictureKind = "roofline",
    batch: int = 1,
    context: int | None = None,
    counting: CountingText = "standard",
    traffic: TrafficText = "fused",
    how: PlotOptions = USUAL_PLOT,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
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
      energy      `points` of named `steps` under the energy roofline of the chips: FLOP per joule over FLOP/B
    `model`: a Model, its name, path or config. `steps` without a value: a prefill and a decode of `context` tokens
    (1024) at `batch`, which is that of all replicas. With a layout work and bytes are those of one rank.
    Raises InputError for what is not understood, and for a file that cannot be written.
    """
    o, on = how, listed_machines(() if where.on is None else where.on)
    for name, value, known in (("kind", kind, KINDS), ("over", o.over, AXES), ("phase", o.phase, PHASES)):
        if value not in known:
            raise not_one_of(name, value, known)
    if len(on) > MOST_DRAWN_MACHINES or len(steps or ()) > MOST_DRAWN_STEPS:
        asked = f"{len(on)} machines and {len(steps or ())} steps"
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
        built, tuple(default.items()), where, on, o.points, o.links, o.over, o.phase, batch, tokens, o.most_batch,
        o.most_context, {"counting": counting, "traffic": traffic},
    )  # fmt: skip
    picture = KINDS[kind](request)
    several = where.layout is not None and not layout_named(where.layout).alone
    if several and kind not in ("parameters", "diagram"):
        note = f"{picture.note} · {layout_named(where.layout).text()}: work of one rank, batch of all replicas"
        picture = replace(picture, note=note)
    if output is not None:
        write(picture, output, style, force)
    return picture


def _timed(r: Wanted) -> list[build.NamedEstimate]:
    """Each step on each machine; of a training step one micro-batch on the first stage."""
    timed: list[build.NamedEstimate] = []
    for machine in r.on:
        for name, step in r.steps:
            if isinstance(step, Training):
                e = estimate(r.model, step, r.trained(machine))
            else:
                e = estimate(r.model, step, replace(r.where, on=machine), **r.work)
            one: Estimate = e.micro(e.stages[0]) if isinstance(step, Training) else e
            timed.append(build.NamedEstimate(name, one, bool(e.fits)))
    return timed


def _roofline(r: Wanted) -> d.Plot:
    r.machines()
    return build.roofline_plot(_timed(r), r.points, r.links)


def _energy(r: Wanted) -> d.Plot:
    r.machines()
    return build.energy_plot(_timed(r), r.points)


def _shares(r: Wanted) -> d.Plot:
    timed = _timed(r)
    if timed:
        first = [(t.name, t.estimate.analysis) for t in timed[: len(r.steps)]]
        return build.shares_plot(first, timed)
    layout = layout_named(r.where.layout)
    rank = shard(r.model, layout)
    steps = ((name, s if isinstance(s, Training) else s.of_replica(layout.dp)) for name, s in r.steps)
    how = {**r.work, "precision": r.where.precision}
    return build.shares_plot([(name, analyze(rank, step, **how)) for name, step in steps])


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
    place = {name: value for name, value in r.settings.items() if name != "law"}
    curve = memory_over_context(r.model, on=r.on, batch=r.batch, most=r.most_context, **place)
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
    "diagram": lambda r: build.diagram_plot(r.model), "energy": _energy,
}  # fmt: skip
