"""`roofline compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from roofline.declared.groups import PlaceSettings
from roofline.declared.kinds import Given
from roofline.declared.question import group_settings
from roofline.doors.cli.common import Form, ModelArgument, Switch, keep
from roofline.doors.cli.derived import with_settings, with_tables
from roofline.measured.compare.read import compare as question


@with_tables
@with_settings(question)
def compare(
    model: ModelArgument,
    /,
    *,
    rows: Annotated[Path | None, Parameter(help="Writes what was measured as a table for `roofline accuracy`.")] = None,
    force: Switch = False,
    json: Form = False,
    **given: Given,
) -> None:
    """Compare measurements with predictions: a profile op by op, or a benchmark's results.

    Example: `roofline compare meta-llama/Llama-3.1-8B --measured bench.json --on h100-sxm`

    Parameters
    ----------
    force:
        Overwrite the file of `--rows`.
    json:
        JSON, as docs/json.md has it.
    """
    from roofline.measured.compare.comparison import Comparison
    from roofline.measured.compare.rows import accuracy_table
    from roofline.views.files.atomic import check_file
    from roofline.views.text.measured.compare import compared_table, results_table, unmatched_table, verdict
    from roofline.views.text.tables import print_json, print_tables, print_text

    if rows:
        check_file(rows, force, "--rows")
    answer = question(model, **given)
    if rows:
        place = {
            name: value for name, value in PlaceSettings.fully(given).items() if name in group_settings(PlaceSettings)
        }
        table = accuracy_table(answer, {"model": model, **place}, Path(given["measured"]).name)
        keep(table.encode("utf-8"), rows, force)
    if json:
        print_json(answer.to_dict())
    elif isinstance(answer, Comparison):
        more = [(unmatched_table(answer), "")] if answer.unmatched else []
        print_tables((compared_table(answer), ""), *more)
        print_text(verdict(answer))
    else:
        print_tables((results_table(answer), ""))
