"""The forms of a report: one HTML page, Markdown with pictures and sheets beside it, JSON, sheets as files."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from roofline.model.errors import not_one_of
from roofline.show.analysis import precision_json
from roofline.show.estimate import place_text
from roofline.show.files import check_folder, whole_file
from roofline.show.plots.data import DiagramPlot
from roofline.show.plots.style import Style
from roofline.show.plots.write import write
from roofline.show.report.mermaid import mermaid
from roofline.show.report.section import Section
from roofline.show.report.sections import MAKERS, sections
from roofline.show.report.subject import Report
from roofline.show.sheets import Sheet
from roofline.show.tables import markdown

TEMPLATE = Path(__file__).with_name("report.html.j2")
ENDINGS = (".html", ".md", ".json")
SheetForm: TypeAlias = Literal["csv", "parquet"]
FORMS: tuple[SheetForm, ...] = ("csv", "parquet")
Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with a section's number, how many there are, and its title."""


def title_of(r: Report) -> str:
    """What it is a report of."""
    return f"{r.model.name} on {place_text(r.where)}"


@dataclass(frozen=True)
class Finished:
    """A report and its sections, computed."""

    of: Report
    sections: tuple[Section, ...]


def finished(r: Report, progress: Progress | None = None) -> Finished:
    """Every section, computed."""
    found = []
    for number, section in enumerate(sections(r), start=1):
        found.append(section)
        if progress is not None:
            progress(number, len(MAKERS), section.title)
    return Finished(r, tuple(found))


# -- HTML ----------------------------------------------------------------------------------------------------------
def html(f: Finished) -> str:
    """One page with its pictures and sheets inside; nothing is asked of any other."""
    import tempfile

    from jinja2 import Environment
    from markupsafe import Markup

    with tempfile.TemporaryDirectory() as folder:
        shown = []
        for i, part in enumerate(f.sections):
            pictures = []
            for j, (name, plot) in enumerate(part.pictures):
                path = Path(folder) / f"p{i}-{j}.svg"
                write(plot, path, letters=True)
                pictures.append((name, Markup(_inline(path.read_text(encoding="utf-8"), f"p{i}-{j}"))))
            sheets = [(s, s.table(), _data(s)) for s in part.sheets]
            shown.append({"title": part.title, "text": part.text, "sheets": sheets, "pictures": pictures})
    environment = Environment(autoescape=True)
    environment.filters["anchor"] = anchor
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(title=title_of(f.of), sections=shown)


def anchor(title: str) -> str:
    """A heading as the end of an address."""
    return title.lower().replace(" ", "-")


def _data(sheet: Sheet) -> str:
    """A sheet's CSV as an address that holds it."""
    return f"data:text/csv;base64,{base64.b64encode(sheet.csv().encode()).decode('ascii')}"


def _inline(svg: str, prefix: str) -> str:
    """An SVG without its prologue, its ids its own among several on one page."""
    text = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", text)


# -- Markdown ------------------------------------------------------------------------------------------------------
def as_markdown(f: Finished, folder: Path) -> str:
    """Markdown whose pictures (PNG) and sheets (CSV) are written into a folder beside it; diagrams are Mermaid."""
    lines = [f"# {title_of(f.of)}"]
    for part in f.sections:
        lines += [f"## {part.title}", *part.text]
        for sheet in part.sheets:
            link = f"[{sheet.name}.csv]({folder.name}/{sheet.name}.csv)"
            lines += [link] if sheet.hidden else [markdown(sheet.table()), link]
        for name, plot in part.pictures:
            path = folder / f"{anchor(name)}.png"
            write(plot, path, Style(dpi=110), force=True)
            if isinstance(plot, DiagramPlot):
                lines.append(f"```mermaid\n{mermaid(plot)}\n```")
            lines.append(f"![{name}]({folder.name}/{path.name})")
    return "\n\n".join(lines) + "\n"


# -- data ----------------------------------------------------------------------------------------------------------
def as_json(f: Finished) -> dict[str, Any]:
    """`roofline.report/1`."""
    r = f.of
    return {
        "schema": "roofline.report/1",
        "title": title_of(r),
        "model": r.model.name,
        "chip": r.where.chip.id,
        "chips": r.where.chips,
        "layout": r.now.layout.text(),
        "precision": precision_json(r.now.precision),
        "batch": r.now.batch,
        "input": r.now.input,
        "output": r.now.output,
        "sections": [
            {"title": s.title, "text": list(s.text), "tables": [sheet.json() for sheet in s.sheets]} for s in f.sections
        ],
        "warnings": list(r.model.warnings),
        "not_counted": list(r.model.not_counted),
    }


def write_sheets(parts: Iterable[Section], folder: Path, form: SheetForm = "csv", force: bool = False) -> list[Path]:
    """Every sheet as a file of a folder, which is made where it is not there. Raises InputError where it cannot be."""
    if form not in FORMS:
        raise not_one_of("tables form", form, FORMS)
    check_folder(folder, force)
    folder.mkdir(exist_ok=True)
    found = []
    for sheet in (sheet for part in parts for sheet in part.sheets):
        path = folder / f"{sheet.name}.{form}"
        content = sheet.csv().encode() if form == "csv" else sheet.parquet()
        whole_file(path, lambda beside, content=content: beside.write_bytes(content), "tables")  # type: ignore[misc]
        found.append(path)
    return found
