"""`roofline analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter, validators

from roofline.cli.common import CountingName, ModelArgument, StepOptions, TrafficName, deliver, warn, warn_beyond

if TYPE_CHECKING:
    from roofline.estimates.latency import Estimate
    from roofline.model.model import Model
    from roofline.work.step import Step

_FORM = Group("Output", validator=validators.mutually_exclusive)


def analyze(
    model: ModelArgument,
    /,
    *,
    step: StepOptions = StepOptions(),  # noqa: B008
    on: str | None = None,
    law: str = "calibrated",
    counting: CountingName = "standard",
    traffic: TrafficName = "fused",
    precision: str | None = None,
    revision: str | None = None,
    json: Annotated[bool, Parameter(group=_FORM, negative="")] = False,
    csv: Annotated[bool, Parameter(group=_FORM, negative="")] = False,
    md: Annotated[bool, Parameter(group=_FORM, negative="")] = False,
    output: Path | None = None,
    force: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Op by op: FLOPs, bytes and arithmetic intensity of a step.

    Example: `roofline analyze meta-llama/Llama-3.1-8B --decode 4096 --batch 32`

    Parameters
    ----------
    on:
        Also how long it takes: on a chip of the catalog, a chip file, or figures such as `peak=1000T,bw=4.8T,mem=141G`.
    law:
        Times `calibrated`, `ideal` (speed of light), or `fixed(mfu,mbu)`.
    counting:
        How FLOPs are counted: `standard` (multiply-add = 2, unmasked pairs), `torch` (as
        torch.utils.flop_counter), `original` (as transformer-roofline-analyzer).
    traffic:
        What crosses memory: `fused`, `unfused`, `floor`, `original`.
    precision:
        Formats instead of the checkpoint's: `fp8`, or by role `weights=int4,kv=fp8`.
    revision:
        A branch, tag or commit on the Hub.
    json:
        Print the documented JSON schema.
    csv:
        Print one row for each op.
    md:
        Print Markdown.
    output:
        Write to this file instead of stdout.
    force:
        Overwrite the file.
    """
    from roofline.model.load import load
    from roofline.show import analysis as views
    from roofline.work.analysis import analyze as run

    built = load(model, revision=revision)
    options = {"counting": counting, "traffic": traffic, "precision": precision}
    steps = step.steps()
    named = [views.Named(name, run(built, s, **options)) for name, s in steps]  # type: ignore[arg-type]
    timed = _timed(built, steps, on, law, options)
    warn_beyond(built, steps)
    if json:
        from json import dumps

        data = views.as_json(built, named)
        for entry, (_, e) in zip(data["steps"], timed, strict=False):
            from roofline.show.estimate import estimate_json

            entry["estimate"] = estimate_json(e)
        deliver(dumps(data, indent=2, allow_nan=False) + "\n", output, force)
        warn(built)
        return
    if csv:
        from roofline.show.tables import csv_text

        deliver(csv_text(views.CSV_HEADER, views.csv_rows(named)), output, force)
        warn(built)
        return
    tables, notes = [views.op_table(n) for n in named], [""] * len(named)
    if timed:
        from roofline.show import estimate as times

        tables, notes = [times.time_table(n, e) for n, e in timed], [times.summary(e) for _, e in timed]
    if md or output:
        from roofline.show.tables import markdown

        parts = [views.headline(built)]
        for table, note in zip(tables, notes, strict=True):
            parts += [markdown(table), *([note] if note else [])]
        deliver("\n\n".join(parts) + "\n", output, force)
        warn(built)
        return
    from roofline.show.tables import print_line, print_table

    warn(built)
    print_line(views.headline(built))
    for table, note in zip(tables, notes, strict=True):
        print_line("")
        print_table(table)
        if note:
            print_line(note)


def _timed(
    model: Model, steps: list[tuple[str, Step]], on: str | None, law: str, options: dict[str, Any]
) -> list[tuple[str, Estimate]]:
    """The steps' estimates where a chip is given."""
    if on is None:
        return []
    from roofline.estimates.latency import estimate

    return [(name, estimate(model, s, on=on, law=law, **options)) for name, s in steps]
