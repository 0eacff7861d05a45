"""`rl.report`: the report of a model on a machine, computed, and in a file where one is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roofline.estimates.place import Place
from roofline.machine.chip import Chip
from roofline.machine.fabric import Cluster
from roofline.model.model import Model
from roofline.show.files import check_ending, check_file, check_folder, whole_file
from roofline.show.report.subject import report_on
from roofline.show.report.write import (
    ENDINGS,
    Finished,
    Progress,
    SheetForm,
    as_json,
    as_markdown,
    finished,
    html,
    write_sheets,
)


def report(
    model: Model,
    *,
    on: Place | Sequence[Place],
    output: str | os.PathLike[str] | None = None,
    tables: str | os.PathLike[str] | None = None,
    tables_form: SheetForm = "csv",
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Finished:
    """The report of a model on the first place of `on`, compared with the others.

    `output`: a file that ends in .html (one page), .md (with a folder `…_files` beside it) or .json. `tables`: a
    folder for every table as a file. `options`: layout, batch, input, output_tokens, precision, engine. `progress` is
    called as sections are done. Raises InputError for what is not understood and for what cannot be written.
    """
    page = None if output is None else Path(output)
    if page is not None:
        check_ending(page, ENDINGS)
        check_file(page, force)
    if tables is not None:
        check_folder(Path(tables), force)
    places = (on,) if isinstance(on, (str, os.PathLike, Chip, Cluster)) else tuple(on)
    if "output_tokens" in options:
        options["output"] = options.pop("output_tokens")
    subject = report_on(model, places, **options)
    files = None if page is None or page.suffix.lower() != ".md" else page.with_name(f"{page.stem}_files")
    if files is not None:
        check_folder(files, force)
    done = finished(subject, progress)
    if tables is not None:
        write_sheets(done.sections, Path(tables), tables_form, force=True)
    if page is not None:
        if files is not None:
            write_sheets(done.sections, files, "csv", force=True)
            text = as_markdown(done, files)
        elif page.suffix.lower() == ".json":
            from roofline.show.tables import json_text

            text = json_text(as_json(done)) + "\n"
        else:
            text = html(done)
        whole_file(page, lambda beside: beside.write_text(text, encoding="utf-8"))
    return done
