"""`roofline analyze`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from roofline.declared.errors import InputError
from roofline.declared.groups import Where
from roofline.declared.kinds import Given
from roofline.declared.question import Settings, group_settings, question_settings
from roofline.doors.cli.common import (
    Form,
    Headers,
    ModelArgument,
    OutFile,
    Revision,
    Switch,
    TextOnly,
    deliver,
    form_of,
    keep,
    refuse,
    steps_asked,
    warn,
    warn_below,
    warn_beyond,
)
from roofline.doors.cli.defaults import is_default
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.work.analysis import analyze as question

if TYPE_CHECKING:
    from roofline.declared.trees import JsonValue
    from roofline.inference.step import Estimate
    from roofline.model.model import Model
    from roofline.views.text.inference.analysis import NamedStep, Steps
    from roofline.views.text.tables import Table
    from roofline.work.step import Step


@with_tables
@with_settings({**group_settings(Where), **question_settings(question)}, optional=("on",))
def analyze(
    model: ModelArgument,
    /,
    *,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    traced: Switch = False,
    shape: str | None = None,
    json: Form = False,
    csv: Form = False,
    md: Form = False,
    out: OutFile = None,
    force: Switch = False,
    **given: Given,
) -> None:
    """Work of a step op by op: FLOPs, bytes and arithmetic intensity; on a chip, times and what limits them.

    Without a step, shows a prefill and a decode of 1024 tokens. Without --on there are no times. Exits with 1 if it
    does not fit on the chip.

    Example: `roofline analyze meta-llama/Llama-3.1-8B --on h100-sxm --context 4096 --batch 32`

    Parameters
    ----------
    traced:
        Count the matrix products and attention of the model's code in transformers, run on shapes only: for model types
        that Roofline does not know. Needs torch and transformers. Code from a checkpoint is never run.
    shape:
        With --traced, the shape of each argument of the model's forward function, for one input:
        `input_ids=1x128,pixel_values=1x3x224x224`. `past=128` puts tokens in the cache before it, and
        `cross.input_ids=1x64` is what an encoder read. Without it, a decoder is traced for any step, and other models
        for an input of the config's sizes.
    json:
        JSON, as docs/json.md has it.
    csv:
        CSV, one row per op, with plain numbers.
    md:
        Markdown.
    out:
        Write to this file instead of stdout: JSON, CSV, Markdown or (with Polars) Parquet, by its extension.
    force:
        Overwrite the file.
    """
    from roofline.model.load import load
    from roofline.views.text.inference import analysis as views

    options = Where.fully(given)
    for name in ("law", "engine"):
        if "on" not in options and name in options and not is_default(name):
            raise InputError(name, options[name], "--on CHIP as well: without a chip there are no times")
    form = form_of(out, {"json": json, "csv": csv, "md": md})
    if shape is not None and not traced:
        raise InputError("--shape", shape, "--traced as well")
    built = (
        _traced(model, revision, shape)
        if traced
        else load(model, revision=revision, headers=headers, text_only=text_only)
    )
    asked, precision = steps_asked(options, built), options.get("precision")
    steps = _timed(built, asked, options) if "on" in options else _counted(built, asked, options)
    result = views.Steps(built, steps)
    if form == "json":
        from roofline.views.text.tables import json_text

        deliver(json_text(result.to_dict()) + "\n", out, force)
    elif form in ("csv", "parquet"):
        from roofline.views.text.tables import csv_text, parquet

        header, rows = _rows(steps)
        if form == "parquet" and out is not None:
            keep(parquet(header, rows), out, force)
        else:
            deliver(csv_text(header, rows), out, force)
    else:
        head, tables = _page(result, precision)
        if form == "md":
            from roofline.views.text.tables import markdown

            parts = [*head, *(text for table, note in tables for text in (markdown(table), note) if text)]
            deliver("\n\n".join(parts) + "\n", out, force)
        else:
            from roofline.views.text.tables import print_line, print_tables, print_text

            print_text("\n".join(head))
            print_line("")
            print_tables(*tables)
    warn(built)
    warn_beyond(built, asked)
    warn_below((s.name, s.analysis) for s in steps)
    refuse(result.fits is not False, "" if form == "" else _misfit(steps))


def _traced(name: str, revision: str | None, shape: str | None) -> Model:
    """Trace a model's code in transformers or diffusers. Raises InputError for text that names no shapes."""
    from roofline.model.trace.make import trace

    return trace(name, revision=revision, shapes=None if shape is None else dict(_shapes(shape)))


def _shapes(text: str) -> Iterator[tuple[str, JsonValue]]:
    """Shapes written as `input_ids=1x128,past=64`; those of what an encoder read begin with `cross.`."""
    cross: dict[str, tuple[int, ...]] = {}
    for part in text.split(","):
        key, _, sides = part.partition("=")
        numbers, name = sides.lower().split("x"), key.strip()
        inner = name.removeprefix("cross.")
        if not inner.isidentifier() or not all(number.strip().isdecimal() for number in numbers):
            raise InputError("--shape", part, "an argument and its shape, such as input_ids=1x128")
        shape = tuple(map(int, numbers))
        if inner != name:
            cross[inner] = shape
        else:
            yield name, shape[0] if name == "past" else shape
    if cross:
        yield "cross", cross


def _counted(model: Model, steps: list[tuple[str, Step]], options: Settings) -> tuple[NamedStep, ...]:
    """Analyses of the steps, for one rank of the layout."""
    from roofline.views.text.inference.analysis import NamedStep

    options = {name: value for name, value in options.items() if name not in ("law", "engine")}
    layout = options.pop("layout", None)
    if layout is None:
        return tuple(NamedStep(name, question(model, s, **options)) for name, s in steps)
    from roofline.layout.layout import layout_named
    from roofline.layout.shard import shard
    from roofline.model.checkpoints.quantization.asked import formats_of

    spread = layout_named(layout)
    whole, formats = formats_of(model, options.get("precision"))  # of whole rows, before sharding
    rank, options = shard(whole, spread), {**options, "precision": formats}
    return tuple(NamedStep(name, question(rank, s.of_replica(spread.dp), **options)) for name, s in steps)


def _timed(model: Model, steps: list[tuple[str, Step]], options: Settings) -> tuple[NamedStep, ...]:
    """Estimates of the steps, with their analyses."""
    from roofline.programs.estimate import estimate
    from roofline.views.text.inference.analysis import NamedStep

    estimates = [(name, estimate(model, s, **options)) for name, s in steps]
    return tuple(NamedStep(name, e.analysis, e) for name, e in estimates)


def _rows(steps: Sequence[NamedStep]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Columns and rows of the file: the ops of all steps, with times if there is a chip."""
    if steps[0].estimate is not None:
        from roofline.views.text.inference.estimate import TIMED_CSV_HEADER, timed_csv_rows

        return TIMED_CSV_HEADER, timed_csv_rows(steps)
    from roofline.views.text.inference.analysis import CSV_HEADER, csv_rows

    return CSV_HEADER, csv_rows(steps)


def _page(result: Steps, precision: object) -> tuple[list[str], list[tuple[Table, str]]]:
    """The heading lines, and for each step a table and the note below it."""
    from roofline.model.checkpoints.quantization.asked import formats_of
    from roofline.views.text.inference.analysis import headline, op_table

    steps, (whole, formats) = result.steps, formats_of(result.model, precision)
    head = [headline(whole, formats)]
    if steps[0].estimate is None:
        return head, [(op_table(s), "") for s in steps]
    from roofline.views.text.inference.estimate import first_line, summary, time_table

    fullest = _fullest(steps)
    lines = [first_line(fullest, fullest.memory), *head]
    return lines, [(time_table(s.name, s.estimate), summary(s.estimate)) for s in steps if s.estimate is not None]


def _fullest(steps: Sequence[NamedStep]) -> Estimate:
    """Estimate of the step that leaves the least free memory."""
    return min((s.estimate for s in steps if s.estimate is not None), key=lambda e: float(e.memory.room))


def _misfit(steps: Sequence[NamedStep]) -> str:
    if steps[0].estimate is None:
        return ""
    from roofline.views.text.inference.estimate import misfit

    return misfit(_fullest(steps).memory)
