"""`rl.plot`: a picture of a model on chips, as data, and in a file where one is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from roofline.estimates.estimate import estimate
from roofline.explore.marks import By
from roofline.explore.memory import memory_over_context
from roofline.explore.sweep import AXES, Axis, longest_context, map_decode, sweep_decode
from roofline.machine.chip import Chip
from roofline.model.checks import count
from roofline.model.errors import InputError, not_one_of
from roofline.model.model import Model
from roofline.show.plots import build
from roofline.show.plots import data as d
from roofline.show.plots.style import LegendPlace, Style, ThemeName
from roofline.show.plots.write import check_output, write
from roofline.work.analysis import analyze
from roofline.work.step import Step, decode, prefill
from roofline.work.training import Training

Kind: TypeAlias = Literal["roofline", "shares", "sweep", "memory", "parameters", "map"]
NamedChip: TypeAlias = str | os.PathLike[str] | Chip
TOKENS = 1024
"""Prompt and context length where none is given and the model's context allows it."""


@dataclass(frozen=True)
class Request:
    """What to draw: everything `plot` was given."""

    model: Model
    steps: tuple[tuple[str, Step], ...]
    on: tuple[NamedChip, ...]
    points: By
    links: bool
    over: Axis
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
        """Options of `estimate`."""
        return {**self.work, "precision": self.precision, "law": self.law, "engine": self.engine}

    def chips(self, most: int | None = None) -> tuple[NamedChip, ...]:
        """The chips, at least one and at most so many."""
        if not self.on or (most is not None and len(self.on) > most):
            raise InputError("on", list(self.on), "one chip" if most == 1 else "at least one chip")
        return self.on


def plot(
    model: Model,
    steps: Mapping[str, Step] | None = None,
    *,
    on: NamedChip | Sequence[NamedChip] = (),
    kind: Kind = "roofline",
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    points: By = "ops",
    links: bool = False,
    over: Axis = "batch",
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
      sweep       decode `over` batch (at `context`) or over context (at `batch`): tokens/s and time per token
      memory      weights, activations and cache of `batch` sequences over context, and the chips' capacities
      parameters  parameters by part
      map         decode over batch × context on one chip
    `steps` without a value: a prefill and a decode of `context` tokens (1024) at `batch`.
    `broken`, `legend`: as in `Style`.
    Raises InputError for what is not understood, and for a file that cannot be written.
    """
    if kind not in KINDS:
        raise not_one_of("kind", kind, KINDS)
    if over not in AXES:
        raise not_one_of("over", over, AXES)
    style = Style(theme, legend, broken, dpi)
    if output is not None:
        check_output(output, style, kind == "roofline", force)
    chips = (on,) if isinstance(on, (str, os.PathLike, Chip)) else tuple(on)
    tokens = longest_context(model, TOKENS) if context is None else count("context", context)
    default = {"prefill": prefill(batch, max(1, tokens)), "decode": decode(batch, tokens)} if steps is None else steps
    if not default:
        raise InputError("steps", default, "at least one step")
    for name, step in default.items():
        if isinstance(step, Training) or not isinstance(step, Step) or step.shape:
            raise InputError(f"steps[{name!r}]", step, "a prefill, a decode or a mixed step, without arrays")
    request = Request(
        model, tuple(default.items()), chips, points, links, over, batch, tokens, most_batch, most_context, engine,
        precision, {"counting": counting, "traffic": traffic}, law,
    )  # fmt: skip
    made = KINDS[kind](request)
    if output is not None:
        write(made, output, style, force)
    return made


def _timed(r: Request) -> list[build.NamedEstimate]:
    return [(name, estimate(r.model, step, on=chip, **r.timed)) for chip in r.on for name, step in r.steps]


def _roofline(r: Request) -> d.Plot:
    r.chips()
    return build.roofline(_timed(r), r.points, r.links)


def _shares(r: Request) -> d.Plot:
    steps = [(name, analyze(r.model, step, precision=r.precision, **r.work)) for name, step in r.steps]
    return build.shares(steps, _timed(r))


def _sweep(r: Request) -> d.Plot:
    most = r.most_batch if r.over == "batch" else r.most_context
    swept = [
        sweep_decode(r.model, on=c, over=r.over, batch=r.batch, context=r.context, most=most, **r.timed)
        for c in r.chips()
    ]
    return build.sweep(swept)


def _memory(r: Request) -> d.Plot:
    curve = memory_over_context(
        r.model, on=r.on, batch=r.batch, most=r.most_context, engine=r.engine, precision=r.precision
    )
    return build.memory(r.model, curve)


def _map(r: Request) -> d.Plot:
    (chip,) = r.chips(1)
    drawn = map_decode(r.model, on=chip, most_batch=r.most_batch, most_context=r.most_context, **r.timed)
    return build.decode_map(drawn)


KINDS: Mapping[str, Callable[[Request], d.Plot]] = {
    "roofline": _roofline, "shares": _shares, "sweep": _sweep, "memory": _memory,
    "parameters": lambda r: build.parameters(r.model), "map": _map,
}  # fmt: skip
