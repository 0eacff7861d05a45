"""The other forms of a report: Markdown with pictures and tables beside it, and tables as files."""

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
from roofline.views.report.section import Section, anchor
from roofline.views.text.tables import Table, markdown

ENDINGS = (".html", ".md", ".json")
TableForm: TypeAlias = Literal["csv", "parquet"]
FORMS: tuple[TableForm, ...] = ("csv", "parquet")


# -- Markdown ------------------------------------------------------------------------------------------------------
def as_markdown(f: Finished, folder: Path, name: str) -> str:
    """Markdown whose pictures (PNG) are written into a folder; diagrams are Mermaid.

    It finds them, and its tables (CSV), in a folder beside it of that `name`.
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
    """Every table as a file of a folder, which is made where it is not there. Raises InputError where it cannot be."""
    if form not in FORMS:
        raise not_one_of("tables form", form, FORMS)
    tables = [table for part in parts for table in part.tables]
    whole_folder(folder, lambda beside: fill_tables(tables, beside, form), force, "tables")
    return [folder / f"{table.name}.{form}" for table in tables]


def fill_tables(tables: Iterable[Table], folder: Path, form: TableForm = "csv") -> None:
    """Every table as a file of a folder that is there."""
    for table in tables:
        content = table.csv().encode() if form == "csv" else table.parquet()
        (folder / f"{table.name}.{form}").write_bytes(content)
