"""`roofline plot`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from roofline.declared.errors import InputError
from roofline.declared.groups import Where
from roofline.declared.kinds import Given
from roofline.declared.question import group_settings, question_settings
from roofline.doors.cli.common import (
    STEP,
    Headers,
    Json,
    ModelArgument,
    OutFile,
    Revision,
    Switch,
    TextOnly,
    Whole,
    refuse,
    say,
    steps_asked,
    warn,
    warn_beyond,
)
from roofline.doors.cli.defaults import is_default
from roofline.doors.cli.derived import option_name, with_settings
from roofline.work.analysis import analyze

if TYPE_CHECKING:
    from roofline.views.plots.data import Picture
    from roofline.views.plots.style import Style

SETTINGS = {name: replace(setting, default=None) if name == "on" else setting
            for name, setting in {**group_settings(Where), **question_settings(analyze)}.items()}  # fmt: skip
"""Settings of the machine, the step and the counting conventions."""


@with_settings(SETTINGS, several=("on",))
def plot(
    model: ModelArgument,
    /,
    *,
    out: OutFile = None,
    kind: Literal[
        "roofline", "shares", "sweep", "memory", "parameters", "map", "tornado", "diagram", "energy"
    ] = "roofline",
    train: Whole = None,
    points: Literal["ops", "layers", "phases"] = "ops",
    links: Switch = False,
    over: Literal["batch", "context"] = "batch",
    most_batch: Whole = None,
    most_context: Whole = None,
    theme: Literal["light", "dark"] = "light",
    legend: Literal["beside", "separate", "none"] = "beside",
    broken: Switch = False,
    dpi: Whole = None,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    force: Switch = False,
    **asked: Given,
) -> None:
    """Draw a picture of a model, of a roofline or of what a step takes, as PNG, SVG, PDF or HTML.

    Without a step, shows a prefill and a decode of 1024 tokens. --context and --batch also set the point of sweeps,
    memory and tornado; a prefill sweep takes --input. With --layout, work and bytes are those of one rank. Instead of a
    model, MODEL may be a table (`.csv`) from `analyze --csv` or LLM-para: it is drawn at the chips' speed of light,
    with the peak of --precision. Step, layout and law options don't apply to tables. Exits with 1 if a timed step does
    not fit.

    Example: `roofline plot meta-llama/Llama-3.1-8B --on h100-sxm a100-sxm-80gb --out roofline.png --force`

    Parameters
    ----------
    out:
        The file: `.png`, `.svg`, `.pdf`, or interactive `.html` (with the package plotly).
    kind:
        `roofline`: performance over intensity. `shares`: of FLOPs, bytes and time. `sweep`: a phase over batch or
        context. `memory`: over context. `parameters`: by part. `map`: decode over batch × context. `tornado`: effect of
        each parameter on the times. `diagram`: the model's modules. `energy`: work per joule over intensity.
    train:
        Also draw a training step, with sequences of this many tokens.
    points:
        Meaning of a point of the roofline.
    links:
        Draw the bandwidth of links beside that of memory.
    over:
        The axis of a sweep.
    most_batch:
        Largest batch of a sweep or map (1024).
    most_context:
        Largest context of a sweep, map or memory picture (the model's, at most 131072).
    theme:
        Light or dark background.
    legend:
        Where the legend is: `beside` the picture, in a `file` of its own (`…_legend`), or `none`.
    broken:
        Break the x axis: memory-bound points left, the ridge and compute-bound points right, without the empty middle.
    dpi:
        Pixels per inch of a PNG (150).
    force:
        Overwrite the file.
    """
    from roofline.model.load import load
    from roofline.views.plots.make import plot as run
    from roofline.views.plots.style import Style
    from roofline.work.training import training

    if out is None and not json:
        raise InputError("--out", "nothing", "a file that ends in .png, .svg, .pdf or .html, or --json")
    table = model.lower().endswith(".csv")
    own = {
        "train": train, "points": points, "links": links, "over": over, "most_batch": most_batch,
        "most_context": most_context, "broken": broken,
    }  # fmt: skip
    of_models = {"kind": kind, "revision": revision, "headers": headers}
    taken = TABLE if table else TAKES[kind] | of_models.keys()
    _refuse_the_rest("a table" if table else _called(kind), taken, {**of_models, **asked, **own})
    place = Where.fully(asked)
    on = place.pop("on", None) or ()
    if table:
        style = Style(theme, legend, broken, 150 if dpi is None else dpi)
        _table(Path(model), on, place.get("precision"), out, style, force, json)
        return
    if kind in ("roofline", "energy", "sweep", "map", "tornado") and not on:
        raise InputError("--on", "nothing", f"a chip, for {_called(kind)}")
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    given = {name: place.pop(name) for name in STEP if name in place}
    size, phase = given.get("batch", 1), given.get("phase", "decode")
    context = given.get("input" if phase == "prefill" else "context")
    alone = train is not None and given.keys() <= {"batch"}
    drawn = given if kind in OF_STEPS else {n: v for n, v in given.items() if n != "phase"}
    steps = dict(() if alone else steps_asked(dict(drawn), built))
    if train is not None:
        steps["training"] = training(size, train)
    if sys.stderr.isatty() and out is not None:
        say(f"drawing {out} …")
    picture = run(
        built, steps, on=on, kind=kind, output=out, force=force, points=points, links=links, over=over, phase=phase,
        batch=size, context=context, most_batch=most_batch, most_context=most_context, theme=theme, legend=legend,
        broken=broken, dpi=150 if dpi is None else dpi, **place,
    )  # fmt: skip
    if json:
        from roofline.views.text.tables import print_json

        print_json(picture.to_dict())
    else:
        _tell(out, picture)
    warn(built)
    if kind in OF_STEPS:
        warn_beyond(built, list(steps.items()))
    refuse(picture.fits, "does not fit; times ignore the memory limit")


def _called(kind: str) -> str:
    """A kind of picture, in a sentence."""
    return "an energy roofline" if kind == "energy" else f"a {kind}"


def _tell(out: Path | None, picture: Picture) -> None:
    """Print where the picture is, and of a roofline how to read it."""
    from roofline.views.plots.data import EnergyPlot, RooflinePlot
    from roofline.views.text.inference.roofline import energy_text, roofline_text
    from roofline.views.text.tables import print_line, print_text

    print_line(str(out))
    if isinstance(picture, RooflinePlot):
        print_text(roofline_text(picture))
    if isinstance(picture, EnergyPlot):
        print_text(energy_text(picture))


OF_STEPS = ("roofline", "shares", "energy")
"""Kinds of pictures of named steps."""
STEPS = frozenset(STEP)
LISTED = STEPS - {"phase"}
TIMES = frozenset(group_settings(Where))
WORK = frozenset(SETTINGS) - STEPS - TIMES
LIMITS = frozenset({"most_batch", "most_context"})
TABLE = frozenset({"on", "precision", "broken"})
SWEPT = frozenset({"input", "context", "batch"})
TAKES: Mapping[str, frozenset[str]] = {
    "roofline": LISTED | TIMES | WORK | {"train", "points", "links", "broken"},
    "energy": LISTED | TIMES | WORK | {"train", "points"},
    "shares": LISTED | TIMES | WORK | {"train"},
    "sweep": SWEPT | TIMES | WORK | LIMITS | {"over", "phase"},
    "memory": (TIMES - {"law"}) | {"batch", "most_context"},
    "parameters": frozenset({"on"}),
    "map": TIMES | WORK | LIMITS,
    "tornado": SWEPT | TIMES,
    "diagram": frozenset({"on"}),
}
"""Kind of picture → options that apply to it."""


def _refuse_the_rest(what: str, taken: frozenset[str], given: Mapping[str, object]) -> None:
    """Raise InputError for an option that does not apply to the picture, unless it has its default value."""
    usual = {name: setting.default for name, setting in SETTINGS.items()}
    usual |= {"kind": "roofline", "points": "ops", "over": "batch"}
    for name, value in given.items():
        said = value not in (None, False, usual.get(name))
        if name not in taken and said and not is_default(name.replace("_", "-")):
            raise InputError(option_name(name), value, f"no such option with {what}")


def _table(
    table: Path, on: Sequence[str], fmt: str | None, out: Path | None, style: Style, force: bool, json: bool
) -> None:
    """Draw the roofline of a table on chips."""
    from roofline.doors.compat.llm_para import table_roofline
    from roofline.hardware.named_chip import chip_named
    from roofline.views.plots.write import check_output, write
    from roofline.views.text.tables import print_json

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
        _tell(out, picture)
