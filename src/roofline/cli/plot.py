"""`roofline plot`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from roofline.cli.common import (
    CLUSTER,
    CountingName,
    EngineName,
    Formats,
    Headers,
    LawName,
    ModelArgument,
    OutFile,
    Revision,
    StepOptions,
    Switch,
    TrafficName,
    Whole,
    refuse,
    say,
    warn,
    warn_beyond,
)
from roofline.cli.defaults import is_default
from roofline.cli.layout_options import LayoutOptions
from roofline.declared.errors import InputError

if TYPE_CHECKING:
    from roofline.show.plots.style import Style


def plot(
    model: ModelArgument,
    /,
    *,
    out: OutFile = None,
    on: Annotated[
        list[str] | None, Parameter(help=f"{CLUSTER} One or several.", consume_multiple=True, negative="")
    ] = None,
    spread: LayoutOptions = LayoutOptions(),  # noqa: B008
    kind: Literal["roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram"] = "roofline",
    step: StepOptions = StepOptions(),  # noqa: B008
    train: Whole = None,
    points: Literal["ops", "layers", "phases"] = "ops",
    links: Switch = False,
    over: Literal["batch", "context"] = "batch",
    phase: Literal["decode", "prefill"] = "decode",
    most_batch: Whole = None,
    most_context: Whole = None,
    theme: Literal["light", "dark"] = "light",
    legend: Literal["beside", "separate", "none"] = "beside",
    broken: Switch = False,
    dpi: Whole = None,
    counting: CountingName = "standard",
    traffic: TrafficName = "fused",
    precision: Formats = None,
    law: LawName = "calibrated",
    engine: EngineName = None,
    revision: Revision = None,
    headers: Headers = False,
    json: Switch = False,
    force: Switch = False,
) -> None:
    """A picture: roofline, shares, sweeps, memory, parameters, decode map, tornado or diagram; PNG, SVG, PDF or HTML.

    Without a step: a prefill and a decode of 1024 tokens. --context and --batch also set where sweeps, memory and
    tornado are drawn; a prefill sweep takes --input. With --layout, work and bytes are those of one rank. Instead of a
    model, MODEL may be a table (`.csv`) from `analyze --csv` or LLM-para: it is drawn at the chips' speed of light,
    with the peak of --precision. Step, layout and law options don't apply to tables. Exits with 1 if a timed step does
    not fit.

    Example: `roofline plot meta-llama/Llama-3.1-8B --on h100-sxm a100-sxm-80gb --out roofline.png --force`

    Parameters
    ----------
    out:
        The file: `.png`, `.svg`, `.pdf`, or `.html` to zoom and point at (with the package plotly).
    kind:
        `roofline`: performance over intensity. `shares`: of FLOPs, bytes and time. `sweep`: a phase over batch or
        context. `memory`: over context. `parameters`: by part. `map`: decode over batch × context. `tornado`: what
        each parameter does to the times. `diagram`: the model's modules.
    train:
        Tokens of a sequence: a training step beside the others, or alone.
    points:
        What a point of the roofline is.
    links:
        Draw the bandwidth of links beside that of memory.
    over:
        The axis of a sweep.
    phase:
        What a sweep is of.
    most_batch:
        The last batch of a sweep or map (1024).
    most_context:
        The last context of a sweep, map or memory (the model's, at most 131072).
    theme:
        Ink on white, or light on dark.
    legend:
        Beside the picture, in a file of its own (`…_legend`), or none.
    broken:
        A broken x axis: memory-bound points left, the ridge and compute-bound ones right, the empty middle left out.
    dpi:
        Pixels per inch of a PNG (150).
    json:
        What is drawn as JSON to stdout, as docs/json.md has it; --out is then not needed.
    force:
        Overwrite the file.
    """
    from roofline.model.load import load
    from roofline.show.plots.make import plot as run
    from roofline.show.plots.style import Style
    from roofline.work.training import training

    if out is None and not json:
        raise InputError("--out", "nothing", "a file that ends in .png, .svg, .pdf or .html, or --json")
    table = model.lower().endswith(".csv")
    given = {
        "kind": kind, "layout": spread.text(), "train": train, "points": points, "links": links, "over": over,
        "phase": phase, "most_batch": most_batch, "most_context": most_context, "counting": counting,
        "traffic": traffic, "precision": precision, "law": law, "engine": engine, "revision": revision,
        "headers": headers, "broken": broken, **vars(step),
    }  # fmt: skip
    _refuse_the_rest("a table" if table else f"a {kind}", TABLE if table else TAKES[kind], given)
    if table:
        style = Style(theme, legend, broken, 150 if dpi is None else dpi)
        _table(Path(model), on or (), precision, out, style, force, json)
        return
    if kind in ("roofline", "sweep", "map", "tornado") and not on:
        raise InputError("--on", "nothing", f"a chip, for a {kind}")
    built = load(model, revision=revision, headers=headers)
    size = 1 if step.batch is None else step.batch
    alone = train is not None and step == StepOptions(batch=step.batch)
    steps = dict(() if alone else step.steps(built.context))
    if train is not None:
        steps["training"] = training(size, train)
    if sys.stderr.isatty() and out is not None:
        say(f"drawing {out} …")
    picture = run(
        built, steps, on=on or (), layout=spread.text(), kind=kind, output=out, force=force, points=points, links=links,
        over=over, phase=phase, batch=size, context=step.input if phase == "prefill" else step.context,
        most_batch=most_batch, most_context=most_context, theme=theme, legend=legend, broken=broken,
        dpi=150 if dpi is None else dpi, counting=counting, traffic=traffic, precision=precision, law=law,
        engine=engine,
    )  # fmt: skip
    if json:
        from roofline.show.tables import print_json

        print_json(picture.to_dict())
    else:
        sys.stdout.write(f"{out}\n")
    warn(built)
    if kind in ("roofline", "shares"):
        warn_beyond(built, list(steps.items()))
    refuse(picture.fits, "does not fit; what is timed is as on chips with more memory")


STEPS = frozenset(f.name for f in fields(StepOptions))
TIMES = frozenset({"precision", "law", "engine", "layout"})
WORK = frozenset({"counting", "traffic"})
LIMITS = frozenset({"most_batch", "most_context"})
ALWAYS = frozenset({"kind", "revision", "headers"})
TABLE = frozenset({"precision", "broken"})
TAKES: Mapping[str, frozenset[str]] = {
    "roofline": ALWAYS | STEPS | TIMES | WORK | {"train", "points", "links", "broken"},
    "shares": ALWAYS | STEPS | TIMES | WORK | {"train"},
    "sweep": ALWAYS | {"input", "context", "batch"} | TIMES | WORK | LIMITS | {"over", "phase"},
    "memory": ALWAYS | {"batch", "most_context"} | (TIMES - {"law"}),
    "parameters": ALWAYS,
    "map": ALWAYS | TIMES | WORK | LIMITS,
    "tornado": ALWAYS | {"input", "context", "batch"} | TIMES,
    "diagram": ALWAYS,
}
"""Kind of picture → the options it answers to."""


def _refuse_the_rest(what: str, taken: frozenset[str], given: Mapping[str, object]) -> None:
    """Raises InputError for an option that a picture does not answer to, where it is not at its default."""
    from inspect import signature

    defaults = {name: parameter.default for name, parameter in signature(plot).parameters.items()}
    for name, value in given.items():
        if name not in taken and value != defaults.get(name) and not is_default(name.replace("_", "-")):
            raise InputError(f"--{name.replace('_', '-')}", value, f"no such option with {what}")


def _table(
    table: Path, on: Sequence[str], fmt: str | None, out: Path | None, style: Style, force: bool, json: bool
) -> None:
    """The roofline of a table on chips."""
    from roofline.compat.llm_para import table_roofline
    from roofline.machine.named_chip import chip_named
    from roofline.show.plots.write import check_output, write
    from roofline.show.tables import print_json

    if not on:
        raise InputError("--on", "nothing", "a chip, for a table")
    if out is not None:
        check_output(out, style, True, force)
    picture = table_roofline(table, [chip_named(c) for c in on], fmt)
    if out is not None:
        write(picture, out, style, force)
    if json:
        print_json(picture.to_dict())
    else:
        sys.stdout.write(f"{out}\n")
