"""The pictures of a report: its steps on its machine."""

from __future__ import annotations

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.views.plots import data as d
from roofline.views.plots.make import DrawnOn, PictureKind, plot
from roofline.views.report.parts.subject import Report


def report_plot(r: Report, kind: PictureKind, **options: Given) -> d.Plot:
    """A picture of this report's steps on its machine; sweeps and memory include the other machines."""
    compared = kind in ("sweep", "memory")
    others = tuple(machine for machine, other in r.elsewhere if not isinstance(other, InputError))
    now, length = r.now, r.now.input if options.get("phase") == "prefill" else r.middle
    on = (now.where.on, *others) if compared else now.where.on
    where = DrawnOn(**{**vars(now.where), "on": on, "precision": now.asked.formats})
    picture: d.Plot = plot(r.model, dict(r.steps), where, kind=kind, batch=now.batch, context=length, **options)
    return picture
