"""A section of a report: a heading, paragraphs, sheets and pictures."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.show.plots import data as d
from roofline.show.sheets import Field, Sheet

PHASE = Field("Phase")


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, sheets and named pictures."""

    title: str
    text: tuple[str, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    pictures: tuple[tuple[str, d.Plot], ...] = ()
