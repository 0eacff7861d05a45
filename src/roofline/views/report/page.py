"""A report as one self-contained HTML page: first screen, contents, and all sections."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from roofline.declared.sanitize import inert_line
from roofline.views.report.completed import Finished, OnSection
from roofline.views.report.parts.section import Section, anchor
from roofline.views.report.parts.summary import CHANGES_TABLE, cards, limits, verdict_lines
from roofline.views.report.picture import InlinePicture, inline_picture, theme_styles
from roofline.views.text.tables import Table

TEMPLATE, STYLES = (Path(__file__).with_name(name) for name in ("report.html.j2", "report.css"))
BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[kMGTP]?B\b|[mµn]?s\b)")
LONG = 24
"""Number of rows from which a table is collapsed."""


def html(f: Finished, progress: OnSection | None = None) -> str:
    """The page. `progress` is called as pictures are drawn."""
    from jinja2 import Environment

    many = sum(len(part.pictures) for part in f.sections)
    drawn: list[list[InlinePicture]] = []
    for i, part in enumerate(f.sections):
        drawn.append([])
        for j, (name, plot) in enumerate(part.pictures):
            drawn[-1].append(inline_picture(name, plot, f"p{i}-{j}"))
            if progress is not None:
                progress(sum(map(len, drawn)), many, f"picture of {name}")
    shown = [_shown(part, pictures) for part, pictures in zip(f.sections, drawn, strict=True)]
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"anchor": anchor, "kept": with_units}
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    r = f.of
    return template.render(
        title=f.title, asked=_asked(f), verdict=[*map(inert_line, verdict_lines(r))], cards=cards(r), limits=limits(r),
        best=f.sections[0].table(CHANGES_TABLE), first=shown[0], sections=shown[1:], long=LONG,
        styles=theme_styles() + STYLES.read_text(encoding="utf-8"),
    )  # fmt: skip


def _asked(f: Finished) -> str:
    """The report's settings in one line."""
    g = f.of.generation
    return inert_line(
        f"{f.batch} × ({f.input:,} tokens in, {f.output:,} out) · {f.engine.titled} · {f.formats.text()} · "
        f"grade {g.grade}"
    )


def _shown(
    part: Section, pictures: list[InlinePicture]
) -> Mapping[str, str | Sequence[str | InlinePicture | tuple[Table, str]]]:
    tables = [(table, _data(table)) for table in part.tables]
    return {"title": part.title, "text": part.text, "tables": tables, "pictures": pictures}


def with_units(text: str) -> str:
    """A text in which no line ends between a number and its unit.

    >>> with_units("77 % in 3.5 ms").count("\u00a0")
    2
    """
    return BEFORE_UNIT.sub("\u00a0", text)


def _data(table: Table) -> str:
    """A table's CSV as a data URL."""
    return f"data:text/csv;base64,{base64.b64encode(table.csv().encode()).decode('ascii')}"
