"""`roofline analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter, validators

from roofline.cli.common import CountingName, ModelArgument, StepOptions, TrafficName, deliver, warn

_FORM = Group("Output", validator=validators.mutually_exclusive)


def analyze(
    model: ModelArgument,
    /,
    *,
    step: StepOptions = StepOptions(),  # noqa: B008
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
    named = [
        views.Named(name, run(built, s, counting=counting, traffic=traffic, precision=precision))
        for name, s in step.steps()
    ]
    if json:
        from json import dumps

        warn(built)
        deliver(dumps(views.as_json(built, named), indent=2, allow_nan=False) + "\n", output, force)
        return
    warn(built)
    if csv:
        from roofline.show.tables import csv_text

        deliver(csv_text(views.CSV_HEADER, views.csv_rows(named)), output, force)
        return
    tables = [views.op_table(n) for n in named]
    if md or output:
        from roofline.show.tables import markdown

        text = "\n\n".join([views.headline(built), *(markdown(t) for t in tables)]) + "\n"
        deliver(text, output, force)
        return
    from roofline.show.tables import print_line, print_table

    print_line(views.headline(built))
    for table in tables:
        print_line("")
        print_table(table)
