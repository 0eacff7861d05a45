"""`roofline solve`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from roofline.declared.kinds import Given
from roofline.declared.question import question_settings
from roofline.doors.cli.common import Headers, Json, ModelArgument, Revision, TextOnly, refuse, warn
from roofline.doors.cli.derived import options_given, with_settings, with_tables
from roofline.model.load import load
from roofline.views.text.tables import print_json, print_tables, print_text
from roofline.views.text.whatif.solve import solution_table, solution_text
from roofline.whatif.solve.solution import Solution
from roofline.whatif.solve.solve import solve as question


@with_tables
@with_settings(question)
def solve(
    model: ModelArgument,
    /,
    *,
    where: Annotated[list[str] | None, Parameter(help=question_settings(question)["where"].help, negative="")] = None,
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    **asked: Given,
) -> None:
    """Find the value of one setting that meets a target: batch, context, rate, bandwidth, chips, break-even price.

    Exits with 1 if there is none: even the smallest value fails, or nothing limits it.

    Example: `roofline solve meta-llama/Llama-3.1-8B --find batch --where "tpot <= 20ms and fits" --on h100-sxm
    --input 1024 --output-tokens 256`
    """
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    result: Solution = question(built, where=where, **options_given(asked))
    if json:
        print_json(result.to_dict())
    else:
        print_text(f"{solution_text(result)}\n")
        print_tables((solution_table(result), ""))
    warn(built)
    refuse(result.value is not None, f"no {asked['find']}: {result.why}" if result.value is None else "")
