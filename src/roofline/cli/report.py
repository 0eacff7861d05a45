"""`roofline report`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from roofline.cli.common import (
    Headers,
    ModelArgument,
    Needed,
    OutFile,
    Revision,
    Switch,
    Whole,
    progress_bar,
    refuse,
    warn,
)
from roofline.cli.derived import with_settings
from roofline.declared.errors import InputError
from roofline.declared.groups import PlaceSettings
from roofline.declared.question import group_settings


@with_settings(group_settings(PlaceSettings), several=("on",))
def report(
    model: ModelArgument,
    /,
    *,
    out: OutFile = None,
    tables: Path | None = None,
    tables_form: Literal["csv", "parquet"] = "csv",
    batch: Needed = 16,
    input: Whole = None,
    output_tokens: Whole = None,
    revision: Revision = None,
    headers: Headers = False,
    train: Switch = False,
    json: Switch = False,
    force: Switch = False,
    **place: Any,
) -> None:
    """The whole story of a model on a machine: one HTML page, or Markdown with pictures and tables beside it.

    The report is of the first machine; more are compared with it. Exits with 1 where it does not fit.

    Example: `roofline report meta-llama/Llama-3.1-8B --on h100-sxm --out report.html`

    Parameters
    ----------
    out:
        The file: `.html` is one self-contained page, `.md` has a folder `…_files` of pictures and
        tables beside it, `.json` is what `--json` prints.
    tables:
        A folder for every table as a file, the grid of sensitivities among them.
    tables_form:
        What they are written as.
    batch:
        Sequences together, those of all replicas.
    input:
        Prompt tokens of each (1024, or what the model's context leaves).
    output_tokens:
        Generated tokens of each (256, at most a quarter of the model's context).
    train:
        An optimizer step of the same batch and prompts too, and what would help it: options of `roofline train`.
    json:
        JSON to stdout, as docs/json.md has it.
    force:
        Overwrite files.
    """
    from roofline.model.load import load
    from roofline.show.estimate import misfit
    from roofline.show.report.make import report as run

    if out is None and tables is None and not json:
        raise InputError("--out", "nothing", "a file that ends in .html, .md or .json, or --tables, or --json")
    built = load(model, revision=revision, headers=headers)
    with progress_bar("report") if sys.stderr.isatty() else nullcontext() as progress:
        result = run(
            built, output=out, tables=tables, tables_form=tables_form, force=force, progress=progress, batch=batch,
            input=input, output_tokens=output_tokens, train=train, **PlaceSettings.fully(place),
        )  # fmt: skip
    if json:
        from roofline.show.tables import print_json

        print_json(result.to_dict())
    else:
        sys.stdout.writelines(f"{path}\n" for path in (out, tables) if path is not None)
    warn(built)
    refuse(result.fits, misfit(result.of.fit.memory))
