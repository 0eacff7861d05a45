"""`roofline diff`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.declared.kinds import Given
from roofline.doors.cli.common import Switch, refuse, warn
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.whatif.diff import Difference
from roofline.whatif.diff import diff as question

Spec = Annotated[
    str,
    Parameter(
        help="`MODEL` or `MODEL@CHIP`, and settings as `:key=value,…`. Keys: on, layout, precision, engine, batch (1), "
        "context (tokens cached in the decode; 1024), input (prompt tokens of the prefill; 1024), tokens (of a "
        "training sequence), step. A step is `prefill`, `decode` or `training` alone. Values with commas go in "
        "brackets: `:layout=[tp=8,sp],batch=32`."
    ),
]


@with_tables
@with_settings(question)
def diff(a: Spec, b: Spec, /, *, json: Switch = False, **given: Given) -> None:
    """Compare two models, chips, formats, layouts or steps: what changes, and what the change comes from.

    `--engine` applies to sides without an engine of their own. Exits with 1 if a side does not fit.

    Example: `roofline diff meta-llama/Llama-3.1-8B@a100-sxm-80gb meta-llama/Llama-3.1-8B@h100-sxm:precision=fp8`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.views.text.tables import print_json, print_line, print_tables, print_text
    from roofline.views.text.whatif import diff as views

    result: Difference = question(a, b, **given)
    if json:
        print_json(result.to_dict())
    else:
        if not result.fits:
            print_text(f"{views.misfit_text(result)}\n")
        print_text(views.steps_text(result))
        engines = views.phases_engines_text(result)
        if engines:
            print_text(f"{engines}\n")
        if sides := views.sides_text(result):
            print_text(f"{sides}\n")
        print_tables((views.difference_table(result), ""))
        print_line("")
        if result.a.model.name != result.b.model.name:
            print_tables((views.facts_table(result), ""))
            print_line("")
        print_text(views.causes_text(result))
    warn(result.a.model)
    if result.b.model.name != result.a.model.name:
        warn(result.b.model)
    refuse(result.fits, views.misfit_text(result) if json else "")
