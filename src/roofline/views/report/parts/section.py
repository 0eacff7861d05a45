"""A section of a report: a heading, paragraphs, tables and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.result import Figured, Units
from roofline.views.plots import data as d
from roofline.views.text.tables import Column, Table

PHASE = Column("Phase")


@dataclass(frozen=True)
class Section(Figured):
    """A heading, paragraphs, tables and named pictures."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("title", "text", "tables"), "")

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[tuple[str, d.Plot], ...] = ()

    def table(self, name: str) -> Table | None:
        """The table of this name; None if there is none."""
        return next((table for table in self.tables if table.name == name), None)


def anchor(title: str) -> str:
    """A heading as a URL fragment."""
    return title.lower().replace(" ", "-")
