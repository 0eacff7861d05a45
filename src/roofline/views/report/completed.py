"""A report with its computed sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from roofline.declared.result import Units
from roofline.declared.sanitize import inert_line
from roofline.engines.engine import Engine
from roofline.inference.deployment import Deployment
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.views.report.parts.section import Section
from roofline.views.report.parts.sections import MAKERS, report_sections
from roofline.views.report.parts.subject import Report
from roofline.views.text.inference.analysis import OfModel
from roofline.views.text.inference.estimate import deployment_text

OnSection: TypeAlias = Callable[[int, int, str], None]
"""Callback with a section's number, the number of sections, and the section's title."""


@dataclass(frozen=True, repr=False)
class Finished(OfModel):
    """A report with its computed sections."""

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
        """Title of the report."""
        return inert_line(f"{self.model.name} on {deployment_text(self.deployment)}")

    @property
    def model(self) -> Model:  # type: ignore[override]
        """The whole model."""
        return self.of.model

    @property
    def deployment(self) -> Deployment:
        """Chips and layout."""
        return self.of.deployment

    @property
    def engine(self) -> Engine:
        """Engine whose kernels, host time and memory rule apply."""
        return self.of.now.asked.engine

    @property
    def formats(self) -> Precision:
        """The format of every role."""
        return self.of.now.asked.formats

    @property
    def batch(self) -> int:
        """Sequences over all replicas."""
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
        """Whether it fits in memory."""
        return bool(self.of.fit.fits)


def finished(r: Report, progress: OnSection | None = None) -> Finished:
    """Compute every section."""
    done = []
    for number, section in enumerate(report_sections(r), start=1):
        done.append(section)
        if progress is not None:
            progress(number, len(MAKERS), section.title)
    return Finished(r, tuple(done))
