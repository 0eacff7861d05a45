"""`roofline report`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.doors.cli.common import (
    Headers,
    Json,
    ModelArgument,
    OutFile,
    Revision,
    Switch,
    TextOnly,
    progress_bar,
    refuse,
    warn,
)
from roofline.doors.cli.derived import with_settings
from roofline.views.report.completed import Finished
from roofline.views.report.make import report as question


@with_settings(question, several=("on",))
def report(
    model: ModelArgument,
    /,
    *,
    out: OutFile = None,
    tables: Path | None = None,
    tables_form: Literal["csv", "parquet"] = "csv",
    revision: Revision = None,
    headers: Headers = False,
    text_only: TextOnly = False,
    json: Json = False,
    force: Switch = False,
    **asked: Given,
) -> None:
    """Report on a model on a machine: one HTML page, or Markdown with pictures and tables beside it.

    The report covers the first machine; others are compared with it. Exits with 1 if the model does not fit.

    Example: `roofline report meta-llama/Llama-3.1-8B --on h100-sxm --out report.html`

    Parameters
    ----------
    out:
        The file: `.html` is one self-contained page, `.md` comes with a folder `…_files` of pictures and
        tables, `.json` is the output of `--json`.
    tables:
        A folder to write every table to, including the grid of sensitivities.
    tables_form:
        The format of these tables; Parquet needs Polars.
    force:
        Overwrite files.
    """
    from roofline.model.load import load
    from roofline.views.text.inference.estimate import misfit

    if out is None and tables is None and not json:
        raise InputError("--out", "nothing", "a file that ends in .html, .md or .json, or --tables, or --json")
    built = load(model, revision=revision, headers=headers, text_only=text_only)
    with progress_bar("report") if sys.stderr.isatty() else nullcontext() as progress:
        result: Finished = question(
            built, output=out, tables=tables, tables_form=tables_form, force=force, progress=progress, **asked
        )
    if json:
        from roofline.views.text.tables import print_json

        print_json(result.to_dict())
    else:
        sys.stdout.writelines(f"{path}\n" for path in (out, tables) if path is not None)
    warn(built)
    refuse(result.fits, misfit(result.of.fit.memory))
