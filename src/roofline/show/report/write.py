"""The forms of a report: one HTML page, Markdown with pictures and tables beside it, JSON, tables as files."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from roofline.estimates.deployment import Deployment
from roofline.inert import inert_line, inert_markdown
from roofline.machine.engine import Engine
from roofline.model.errors import not_one_of
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.result import Units
from roofline.show.analysis import OfModel
from roofline.show.estimate import deployment_text
from roofline.show.files import whole_folder
from roofline.show.plots.data import DiagramPlot, Plot
from roofline.show.plots.style import DARK, LIGHT, Style, Theme
from roofline.show.plots.write import svg_text, write
from roofline.show.report.mermaid import mermaid
from roofline.show.report.section import Section
from roofline.show.report.sections import MAKERS, report_sections
from roofline.show.report.subject import Report
from roofline.show.tables import Table, markdown

TEMPLATE = Path(__file__).with_name("report.html.j2")
ENDINGS = (".html", ".md", ".json")
TableForm: TypeAlias = Literal["csv", "parquet"]
FORMS: tuple[TableForm, ...] = ("csv", "parquet")
OnSection: TypeAlias = Callable[[int, int, str], None]
"""Called with a section's number, how many there are, and its title."""


@dataclass(frozen=True, repr=False)
class Finished(OfModel):
    """A report and its sections, computed."""

    SCHEMA: ClassVar[str] = "roofline.report/2"
    FIGURES: ClassVar[Units] = dict.fromkeys(
        ("title", "model", "deployment", "engine", "formats", "batch", "input", "output", "fits", "sections",
         "warnings", "not_counted"), "",
    )  # fmt: skip
    NAMES: ClassVar[Mapping[str, str]] = {}

    of: Report
    sections: tuple[Section, ...]

    @property
    def title(self) -> str:
        """What it is a report of."""
        return inert_line(f"{self.model.name} on {deployment_text(self.deployment)}")

    @property
    def model(self) -> Model:  # type: ignore[override]
        """The whole model."""
        return self.of.model

    @property
    def deployment(self) -> Deployment:
        """Where it runs."""
        return self.of.deployment

    @property
    def engine(self) -> Engine:
        """Whose kernels, host time and memory rule."""
        return self.of.now.asked.engine

    @property
    def formats(self) -> Precision:
        """The format of every role."""
        return self.of.now.asked.formats

    @property
    def batch(self) -> int:
        """Sequences of all replicas together."""
        return self.of.now.batch

    @property
    def input(self) -> int:
        """Tokens of each prompt."""
        return self.of.now.input

    @property
    def output(self) -> int:
        """Tokens of each answer."""
        return self.of.now.output

    @property
    def fits(self) -> bool:
        """Whether it has the memory that it needs."""
        return bool(self.of.fit.fits)


def finished(r: Report, progress: OnSection | None = None) -> Finished:
    """Every section, computed."""
    done = []
    for number, section in enumerate(report_sections(r), start=1):
        done.append(section)
        if progress is not None:
            progress(number, len(MAKERS), section.title)
    return Finished(r, tuple(done))


# -- HTML ----------------------------------------------------------------------------------------------------------
def html(f: Finished) -> str:
    """One page with its pictures and tables inside; nothing is asked of any other."""
    from jinja2 import Environment

    shown = [
        {
            "title": part.title, "text": part.text, "cards": part.cards,
            "tables": [(table, _data(table)) for table in part.tables],
            "pictures": [(name, inline_picture(p, f"p{i}-{j}", name)) for j, (name, p) in enumerate(part.pictures)],
        }
        for i, part in enumerate(f.sections)
    ]  # fmt: skip
    environment = Environment(autoescape=True)
    environment.filters["anchor"] = anchor
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(title=f.title, sections=shown, light=_variables(LIGHT), dark=_variables(DARK))


def _variables(theme: Theme) -> Mapping[str, str]:
    """Names of a page's colours and what they are under a theme."""
    named = {"paper": theme.paper, "ink": theme.ink, "muted": theme.muted, "grid": theme.grid}
    return {**{f"c{i}": colour.lower() for i, colour in enumerate(theme.palette)}, **named}


def inline_picture(plot: Plot, prefix: str, about: str) -> Any:
    """The SVG of a plot for a page: ids its own among several, colours those of the page's theme, text for who listens.

    A colour of the light theme becomes the page's variable of that name, so that one picture serves both themes.
    """
    from markupsafe import Markup, escape

    svg = svg_text(plot, letters=True)
    text = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", text)
    names = {colour: name for name, colour in _variables(LIGHT).items()}
    text = re.sub(r"#[0-9a-f]{6}\b", lambda m: f"var(--{names[m[0]]})" if m[0] in names else m[0], text)
    label = escape(f"{about}: {getattr(plot, 'title', '')}")
    return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1))


def anchor(title: str) -> str:
    """A heading as the end of an address."""
    return title.lower().replace(" ", "-")


def _data(table: Table) -> str:
    """A table's CSV as an address that holds it."""
    return f"data:text/csv;base64,{base64.b64encode(table.csv().encode()).decode('ascii')}"


# -- Markdown ------------------------------------------------------------------------------------------------------
def as_markdown(f: Finished, folder: Path, name: str) -> str:
    """Markdown whose pictures (PNG) are written into a folder; diagrams are Mermaid.

    It finds them, and its tables (CSV), in a folder beside it of that `name`.
    """
    lines = [f"# {inert_markdown(f.title)}"]
    for part in f.sections:
        lines += [f"## {inert_markdown(part.title)}", *map(inert_markdown, part.text)]
        lines += ["\n".join(f"- **{c.title}** {c.value} ({c.interval}; {c.note})" for c in part.cards)] * bool(
            part.cards
        )
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
