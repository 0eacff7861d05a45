"""Further forms of a report: Markdown with pictures and tables, and tables as files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from roofline.declared.errors import not_one_of
from roofline.declared.sanitize import inert_markdown
from roofline.views.files.atomic import whole_folder
from roofline.views.plots.data import DiagramPlot
from roofline.views.plots.style import Style
from roofline.views.plots.write import write
from roofline.views.report.completed import Finished
from roofline.views.report.mermaid import mermaid
from roofline.views.report.parts.section import Section, anchor
from roofline.views.text.tables import Table, markdown

ENDINGS = (".html", ".md", ".json")
TableForm: TypeAlias = Literal["csv", "parquet"]
FORMS: tuple[TableForm, ...] = ("csv", "parquet")


# -- Markdown ------------------------------------------------------------------------------------------------------
def as_markdown(f: Finished, folder: Path, name: str) -> str:
    """Markdown with PNG pictures written into a folder; diagrams are Mermaid.

    Links point to pictures and tables (CSV) in a folder of that `name` beside the Markdown file.
    """
    lines = [f"# {inert_markdown(f.title)}"]
    for part in f.sections:
        lines += [f"## {inert_markdown(part.title)}", *map(inert_markdown, part.text)]
        for table in part.tables:
            link = f"[{table.name}.csv]({name}/{table.name}.csv)"
            lines += [link] if table.hidden else [markdown(table), link]
        for caption, plot in part.pictures:
            path = folder / f"{anchor(caption)}.png"
            write(plot, path, Style(dpi=110), force=True)
            if isinstance(plot, DiagramPlot):
                lines.append(f"```mermaid\n{mermaid(plot)}\n```")
            lines.append(f"![{inert_markdown(caption)}]({name}/{path.name})")
    return "\n\n".join(lines) + "\n"


# -- files ---------------------------------------------------------------------------------------------------------
def write_tables(parts: Iterable[Section], folder: Path, form: TableForm = "csv", force: bool = False) -> list[Path]:
    """Write every table as a file into a folder, which is created if needed. Raises InputError if that fails."""
    if form not in FORMS:
        raise not_one_of("tables form", form, FORMS)
    tables = [table for part in parts for table in part.tables]
    whole_folder(folder, lambda beside: fill_tables(tables, beside, form), force, "tables")
    return [folder / f"{table.name}.{form}" for table in tables]


def fill_tables(tables: Iterable[Table], folder: Path, form: TableForm = "csv") -> None:
    """Write every table as a file into an existing folder."""
    for table in tables:
        content = table.csv().encode() if form == "csv" else table.parquet()
        (folder / f"{table.name}.{form}").write_bytes(content)
