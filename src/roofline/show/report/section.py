"""A section of a report: a heading, paragraphs, tables and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.result import Figured, Units
from roofline.show.plots import data as d
from roofline.show.tables import Column, Table

PHASE = Column("Phase")


@dataclass(frozen=True)
class Card(Figured):
    """A figure that is read first: its name, its value, the interval about it, and what else to know of it."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("title", "value", "interval", "note"), "")

    title: str
    value: str
    interval: str = ""
    note: str = ""


@dataclass(frozen=True)
class Section(Figured):
    """A heading, cards, paragraphs, tables and named pictures."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("title", "text", "tables", "cards"), "")

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[tuple[str, d.Plot], ...] = ()
    cards: tuple[Card, ...] = ()
