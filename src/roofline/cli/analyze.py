"""`roofline analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from roofline.cli.common import (
    FIGURES,
    CountingName,
    Flag,
    Form,
    Formats,
    LawName,
    LayoutText,
    ModelArgument,
    Revision,
    StepOptions,
    TrafficName,
    deliver,
    form_of,
    keep,
    warn,
    warn_below,
    warn_beyond,
)
from roofline.model.errors import InputError

if TYPE_CHECKING:
    from roofline.estimates.latency import Estimate
    from roofline.model.model import Model
    from roofline.show.analysis import Named
    from roofline.work.step import Step


def analyze(
    model: ModelArgument,
    /,
    *,
    step: StepOptions = StepOptions(),  # noqa: B008
    on: Annotated[str | None, Parameter(help=f"Also how long it takes, on {FIGURES}")] = None,
    layout: LayoutText = None,
    law: LawName = "calibrated",
    counting: CountingName = "standard",
    traffic: TrafficName = "fused",
    precision: Formats = None,
    revision: Revision = None,
    json: Form = False,
    csv: Form = False,
    md: Form = False,
    output: Path | None = None,
    force: Flag = False,
) -> None:
    """Op by op: FLOPs, bytes and arithmetic intensity of a step; on a chip its time and what limits it.

    Without a step: a prefill and a decode of 1024 tokens.

    Example: `roofline analyze meta-llama/Llama-3.1-8B --on h100-sxm --decode 4096 --batch 32`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    csv:
        One row for each op, plain numbers.
    md:
        Markdown.
    output:
        Write to this file instead of stdout: JSON, CSV, Parquet or Markdown by its ending.
    force:
        Overwrite the file.
    """
    from roofline.model.load import load
    from roofline.show import analysis as views

    if on is None and law != "calibrated":
        raise InputError("--law", law, "--on CHIP beside it: without a chip there are no times")
    form = form_of(output, {"json": json, "csv": csv, "md": md})
    built = load(model, revision=revision)
    options = {"counting": counting, "traffic": traffic, "precision": precision}
    steps = step.steps(built.context)
    timed = _timed(built, steps, on, {**options, "law": law, "layout": layout})
    named = [views.Named(name, e.analysis) for name, e in timed] or _counted(built, steps, layout, options)
    if form == "json":
        from roofline.show.tables import json_text

        data = views.as_json(built, named)
        for entry, (_, e) in zip(data["steps"], timed, strict=False):
            from roofline.show.estimate import estimate_json

            entry["estimate"] = estimate_json(e)
        deliver(json_text(data) + "\n", output, force)
    elif form in ("csv", "parquet"):
        header: tuple[str, ...] = views.CSV_HEADER
        rows = views.csv_rows(named)
        if timed:
            from roofline.show.estimate import TIMED_CSV_HEADER, timed_csv_rows

            header, rows = TIMED_CSV_HEADER, timed_csv_rows(timed)
        from roofline.show.tables import csv_text, parquet

        if form == "parquet" and output is not None:
            keep(parquet(header, rows), output, force)
        else:
            deliver(csv_text(header, rows), output, force)
    else:
        tables = [(views.op_table(n), "") for n in named]
        if timed:
            from roofline.show import estimate as times

            tables = [(times.time_table(n, e), times.summary(e)) for n, e in timed]
        head = views.headline(built, named[0].analysis.precision)
        if form == "md":
            from roofline.show.tables import markdown

            parts = [head, *(text for table, note in tables for text in (markdown(table), note) if text)]
            deliver("\n\n".join(parts) + "\n", output, force)
        else:
            from roofline.show.tables import print_line, print_tables, print_text

            print_text(head)
            print_line("")
            print_tables(*tables)
    warn(built)
    warn_beyond(built, steps)
    warn_below((n.name, n.analysis) for n in named)


def _counted(model: Model, steps: list[tuple[str, Step]], layout: str | None, options: dict[str, Any]) -> list[Named]:
    """The steps' analyses, of one rank of the layout."""
    from roofline.show.analysis import Named
    from roofline.work.analysis import analyze as run

    rank = model if layout is None else _rank(model, layout)
    return [Named(name, run(rank, s, **options)) for name, s in steps]


def _rank(model: Model, layout: str) -> Model:
    """What one rank of a layout holds; nothing of layouts is loaded where none is asked for."""
    from roofline.layout.layout import layout_named
    from roofline.layout.shard import shard

    return shard(model, layout_named(layout))


def _timed(
    model: Model, steps: list[tuple[str, Step]], on: str | None, options: dict[str, Any]
) -> list[tuple[str, Estimate]]:
    """The steps' estimates where a chip is given."""
    if on is None:
        return []
    from roofline.estimates.estimate import estimate

    return [(name, estimate(model, s, on=on, **options)) for name, s in steps]
