"""What the model is, and what the report assumes."""

from __future__ import annotations

from roofline.model import modules as m
from roofline.model.errors import InputError
from roofline.model.model import Model
from roofline.show.analysis import headline, precision_text
from roofline.show.estimate import GRADES
from roofline.show.modules import in_words, layer_pattern
from roofline.show.plots import build
from roofline.show.report.section import Section
from roofline.show.report.subject import Report
from roofline.show.sheets import Field, Sheet
from roofline.show.units import si, whole


def about_model(r: Report) -> Section:
    """Fingerprint, architecture, parameters by part and by module."""
    picture = ("Architecture", build.diagram(r.model))
    sheets = (fingerprint(r.model), _parts(r.model), _modules(r.model))
    return Section("Model", (headline(r.model, r.now.precision),), sheets, (picture,))


def fingerprint(model: Model) -> Sheet:
    """What kind of model it is, property by property."""
    found = [x for x, _ in model.modules()]

    def every(*kinds: type) -> str:
        return "; ".join(dict.fromkeys(in_words(x) for x in found if isinstance(x, kinds)))

    norms = [x for x in found if isinstance(x, m.Norm)]
    experts = [x for x in found if isinstance(x, m.Experts)]
    head = next((x for x in model.head if isinstance(x, m.Linear)), None)
    attention = "latent attention" if any(isinstance(x, m.LatentAttention) for x in found) else "attention"
    mixers = (m.Attention, m.LatentAttention, m.CompressedAttention)
    scans = (m.SelectiveScan, m.StateSpace, m.DeltaRule, m.LinearAttention, m.GatedRecurrence)
    rows = [
        ("family", model.model_type), ("layers", f"{len(model.layers)}: {', '.join(layer_pattern(model))}"),
        ("width", whole(model.hidden)), ("vocabulary", whole(model.vocab)),
        ("context", "the config does not say" if model.context is None else whole(model.context)),
        (attention, every(*mixers)), ("recurrence", every(*scans)), ("positions", _positions(found)),
        ("norms", " and ".join(sorted({"LayerNorm" if x.center else "RMSNorm" for x in norms}))),
        ("feed-forward", every(m.Activation)), ("experts", every(m.Experts)),
        ("shared experts", "yes" if experts and any(x.name.startswith("shared_") for x in found) else ""),
        ("head", "" if head is None else "tied to the embedding" if head.tied else "weights of its own"),
        ("parameters", whole(model.parameters)), ("active parameters", whole(model.active_parameters)),
        ("weights as published", f"{si(model.weight_bytes(), 'B')}, {precision_text(model.precision)}"),
        ("KV cache per token", si(model.kv_bytes(1), "B")),
        ("state per sequence", si(model.state_bytes(), "B") if model.state_bytes() else ""),
    ]  # fmt: skip
    return Sheet("fingerprint", (Field("Property"), Field("Value")), tuple(row for row in rows if row[1]))


def _positions(found: list[m.Module]) -> str:
    if any(isinstance(x, m.Rope) for x in found):
        return "rotary"
    return "learned" if any(x.name == "position_embedding" for x in found) else ""


def _parts(model: Model) -> Sheet:
    rows = tuple((part, n, n / model.parameters) for part, n in model.parameters_by_part().items() if n)
    fields = (Field("Part"), Field("Parameters", "count"), Field("Share", "share"))
    return Sheet("parameters", fields, rows, (("all", model.parameters, 1.0),))


def _modules(model: Model) -> Sheet:
    rows = [
        (place, x.name, in_words(x), n, x.parameters, n * x.parameters, n * x.parameters / model.parameters)
        for place, x, n in model.placed()
        if x.parameters
    ]
    fields = (
        Field("Block"), Field("Module"), Field("Sizes"), Field("Layers", "count"), Field("Each", "count"),
        Field("Parameters", "count"), Field("Share", "share"),
    )  # fmt: skip
    return Sheet("modules", fields, tuple(sorted(rows, key=lambda row: -row[5])))


def _of_stages(r: Report) -> str:
    return "" if r.now.layout.pp == 1 else f" of each of the {r.now.layout.pp} stages"


def assumptions(r: Report) -> Section:
    """Formats, conventions, layout, and what is not counted."""
    e = r.estimates[0][1]
    grades = sorted({x.grade for _, x in r.estimates})
    how = e.analysis
    t = r.training
    trained = (
        f"Training: none, {t}."
        if isinstance(t, InputError)
        else f"Training: {r.now.batch} × {r.now.input} tokens a step, recipe {t.step.recipe.name}, "
        f"{t.step.optimizer.name}, recompute {t.step.recompute}."
    )
    return Section(
        "Assumptions",
        (
            f"Formats: {precision_text(r.now.precision)}. Counting {how.counting.name}: {how.counting.about}. Traffic "
            f"{how.traffic.name}: {how.traffic.about}.",
            f"Layout: {r.now.layout.text()}. Engine: {e.target.engine.id}. FLOPs, bytes and times of steps are those "
            f"of one rank{_of_stages(r)}, the batch of a step is that of one replica, {r.batch}.",
            f"Prefill is of {r.now.input} tokens; decode stands at {r.middle}, the middle of the answer.",
            trained,
            *(f"Grade {g}: {GRADES[g]}." for g in grades),
            *r.model.warnings,
            *(f"Not counted: {x}." for x in r.model.not_counted),
        ),
    )
