"""Description of the model, and the report's assumptions."""

from __future__ import annotations

from roofline.declared.errors import InputError
from roofline.declared.numbers.units import whole
from roofline.model.model import Model
from roofline.model.summary import fingerprint, in_words
from roofline.views.plots import build
from roofline.views.report.parts.section import Section
from roofline.views.report.parts.subject import Report
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.estimate import GRADES, routing_lines
from roofline.views.text.tables import Column, Table


def about_model(r: Report) -> Section:
    """Fingerprint, architecture, and parameters by part and by module."""
    picture = ("Architecture", build.diagram_plot(r.model))
    properties = Table((Column("Property"), Column("Value")), fingerprint(r.model), name="fingerprint")
    tables = (properties, _parts(r.model), _modules(r.model))
    return Section("Model", (headline(r.now.asked.model, r.now.asked.formats),), tables, (picture,))


def _parts(model: Model) -> Table:
    rows = tuple((part, n, n / model.parameters) for part, n in model.parameters_by_part().items() if n)
    fields = (Column("Part"), Column("Parameters", "count"), Column("Share", "share"))
    return Table(fields, rows, (("all", model.parameters, 1.0),), name="parameters")


def _modules(model: Model) -> Table:
    rows = [
        (place, x.name, in_words(x), n, x.parameters, n * x.parameters, n * x.parameters / model.parameters)
        for place, x, n in model.placed()
        if x.parameters
    ]
    fields = (
        Column("Block"), Column("Module"), Column("Sizes"), Column("Layers", "count"), Column("Each", "count"),
        Column("Parameters", "count"), Column("Share", "share"),
    )  # fmt: skip
    rows.sort(key=lambda row: -row[5])
    return Table(fields, tuple(rows), name="modules")


def _of_stages(r: Report) -> str:
    return "" if r.layout.pp == 1 else f" of each of the {r.layout.pp} stages"


def assumptions(r: Report) -> Section:
    """Formats, conventions, layout, and parts that are not counted."""
    e = r.estimates[0][1]
    grades = sorted({x.grade for _, x in r.estimates})
    how = e.analysis
    t = r.training
    trained = []
    if isinstance(t, InputError):
        trained.append(f"No training step: {t}.")
    elif t is not None:
        size = f"{r.now.batch} × {whole(r.now.input)} tokens a step"
        trained.append(f"Training: {size}, recipe {t.recipe}, {t.optimizer}, recompute {t.recompute}.")
    return Section(
        "Assumptions",
        (
            f"Formats: {r.now.asked.formats.text()}. Counting {how.counting.name}: {how.counting.about}. Traffic "
            f"{how.traffic.name}: {how.traffic.about}.",
            f"Layout: {r.layout.text()}. Engine: {e.target.engine.plain()}. FLOPs, bytes and times of a step are of "
            f"one rank{_of_stages(r)}. The busiest replica has {whole(r.batch)} of the batch.",
            f"Prefill: {whole(r.now.input)} tokens. Decode is evaluated mid-answer, at {whole(r.middle)}.",
            *(f"Assumed: {line}." for line in routing_lines(e.assumed_popularity)),
            *trained,
            *(f"Grade {g}: {GRADES[g]}." for g in grades),
            *r.model.warnings,
            *(f"Not counted: {x}." for x in r.model.not_counted),
        ),
    )
