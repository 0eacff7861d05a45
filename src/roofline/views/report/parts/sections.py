"""The sections of a report in order. Every sentence is built from the report's own figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from roofline.views.report.parts.first_page import chips_section, guidance, summary_section
from roofline.views.report.parts.model_part import about_model, assumptions
from roofline.views.report.parts.section import Section
from roofline.views.report.parts.sensitivity_part import sensitivity_section
from roofline.views.report.parts.subject import Report
from roofline.views.report.parts.work_part import (
    communication,
    critical_section,
    formulas,
    heaviest,
    memory_section,
    regimes,
    terms,
)

MAKERS: tuple[Callable[[Report], Section | None], ...] = (
    summary_section, guidance, chips_section, about_model, assumptions, memory_section, terms, regimes,
    critical_section, communication, heaviest, formulas, sensitivity_section,
)  # fmt: skip
"""The sections in their order."""


def report_sections(r: Report) -> Iterator[Section]:
    """All sections, the first page first; each is computed when requested."""
    for make in MAKERS:
        section = make(r)
        if section is not None:
            yield section
