"""`rl.report`: the report of a model on a machine, optionally written to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, get_args

from roofline.declared.errors import not_one_of
from roofline.declared.groups import PlaceSettings
from roofline.declared.kinds import Switch
from roofline.declared.question import question
from roofline.extras import check_frames
from roofline.model.load import Source, decoder_of
from roofline.model.media.images import Images
from roofline.model.model import Model
from roofline.views.files.atomic import check_ending, check_file, check_folder, whole_file, whole_folder
from roofline.views.report.completed import Finished, OnSection, finished
from roofline.views.report.parts.subject import report_on
from roofline.views.report.write import ENDINGS, TableForm, as_markdown, fill_tables, write_tables
from roofline.whatif.search.recommendations import USUAL_BATCH, BatchSizes


@question()
def report(
    model: Model | Source,
    place: PlaceSettings,
    sizes: BatchSizes = USUAL_BATCH,
    *,
    train: Annotated[
        Switch,
        "An optimizer step of the same batch and prompts too, and what would help it: options of `roofline train`.",
    ] = False,
    images: Images | None = None,
    output: str | os.PathLike[str] | None = None,
    tables: str | os.PathLike[str] | None = None,
    tables_form: TableForm = "csv",
    force: bool = False,
    progress: OnSection | None = None,
) -> Finished:
    """The report of a model (a Model, its name, path or config) on the first machine of `on`, beside the others.

    `batch` prompts of `input` tokens (1024, or what the context leaves) that each generate `output_tokens` (256), over
    all replicas of `layout`; `precision` and `engine` as in `generate`. `train`: an optimizer step of that batch too.
    `images`: in every prompt, on top of its tokens.
    `output`: a file that ends in .html (one page), .md (with a folder `…_files` beside it) or .json. `tables`: a
    folder for every table as a file, `tables_form` csv, or parquet (with Polars). `progress` is called as sections and
    pictures are done. Raises InputError for what is not understood and for what cannot be written.
    """
    page = None if output is None else Path(output)
    if page is not None:
        check_ending(page, ENDINGS)
        check_file(page, force)
    if tables is not None:
        check_folder(Path(tables), force)
    if tables_form not in get_args(TableForm):
        raise not_one_of("tables_form", tables_form, get_args(TableForm))
    if tables is not None and tables_form == "parquet":
        check_frames("tables_form", tables_form, "csv")
    subject = report_on(decoder_of(model, images), place, sizes, train=train, images=images)
    files = None if page is None or page.suffix.lower() != ".md" else page.with_name(f"{page.stem}_files")
    if files is not None:
        check_folder(files, force)
    done = finished(subject, progress)
    if tables is not None:
        write_tables(done.sections, Path(tables), tables_form, force)
    if page is not None:
        if files is not None:
            text = _with_files(done, files, force)
        elif page.suffix.lower() == ".json":
            from roofline.views.text.tables import json_text

            text = json_text(done.to_dict()) + "\n"
        else:
            from roofline.views.report.page import html

            text = html(done, progress)
        whole_file(page, lambda beside: beside.write_text(text, encoding="utf-8"), force=force)
    return done


def _with_files(done: Finished, folder: Path, force: bool) -> str:
    """Markdown of a report, with its pictures and tables in a folder."""
    texts: list[str] = []

    def fill(beside: Path) -> None:
        fill_tables((table for part in done.sections for table in part.tables), beside)
        texts.append(as_markdown(done, beside, folder.name))

    whole_folder(folder, fill, force)
    return texts[0]
