"""`roofline accuracy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from roofline.doors.cli.common import Form
from roofline.doors.cli.derived import with_tables


@with_tables
def accuracy(
    file: Annotated[
        Path | None, Parameter(help="A CSV file with a measurement in each row, as docs/accuracy.md has it.")
    ] = None,
    /,
    *,
    json: Form = False,
    md: Form = False,
) -> None:
    """Score predictions on your own measurements: errors, bias and coverage of the 80 % interval, beside the roofline.

    Every row is scored, or counted under the reason why it is not. Without FILE, a sample of the format with made-up
    times is scored.

    Example: `roofline accuracy`

    Parameters
    ----------
    json:
        JSON, as docs/json.md has it.
    md:
        Markdown.
    """
    from roofline.measured.accuracy.accuracy import SAMPLE
    from roofline.measured.accuracy.accuracy import accuracy as run
    from roofline.views.text.measured.accuracy import accuracy_remarks, accuracy_text, score_table
    from roofline.views.text.tables import markdown, print_json, print_line, print_tables, print_text

    result = run(SAMPLE if file is None else file)
    if json:
        print_json(result.to_dict())
    elif md:
        print_line(markdown(score_table(result.scores)))
    else:
        print_text(accuracy_text(result))
        if result.scores:
            print_line("")
            print_tables((score_table(result.scores), "errors and shares in percent"))
        if remarks := accuracy_remarks(result):
            print_text(remarks)
