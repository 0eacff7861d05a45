"""Views of the catalog and of a model's modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from roofline.model.load import Entry
from roofline.model.model import Model
from roofline.show import analysis
from roofline.show.modules import sizes
from roofline.show.tables import Column, Table
from roofline.show.units import share, whole

SCHEMA = "roofline.models/1"


def catalog_table(entries: Mapping[str, Entry]) -> Table:
    """One line for each published model."""
    columns = (
        Column("Model", False),
        Column("Parameters"),
        Column("Published", drop=2),
        Column("Active"),
        Column("Scope", False, drop=1),
    )
    rows = tuple((e.id, whole(e.parameters), e.published, str(e.active or ""), e.scope) for e in entries.values())
    return Table(columns, rows)


def catalog_json(entries: Mapping[str, Entry]) -> dict[str, Any]:
    """The catalog."""
    return {"schema": SCHEMA, "models": [e.__dict__ for e in entries.values()]}


def types_table(types: Iterable[str]) -> Table:
    """The model_types."""
    return Table((Column("model_type", False),), tuple((t,) for t in sorted(types)))


def types_json(types: Iterable[str]) -> dict[str, Any]:
    """The model_types."""
    return {"schema": SCHEMA, "model_types": sorted(types)}


def module_table(model: Model) -> Table:
    """Every module of every distinct block, with its sizes and parameters."""
    columns = (
        Column("Module", False), Column("Kind", False, drop=2), Column("Block", False), Column("Layers"),
        Column("Parameters each", drop=3), Column("Parameters"), Column("Share", drop=1),
        Column("Sizes", False, wrap=True),
    )  # fmt: skip
    rows = tuple(
        (
            m.name, type(m).__name__, block, str(n), whole(m.parameters), whole(n * m.parameters),
            share(n * m.parameters, model.parameters), sizes(m),
        )
        for block, m, n in model.placed()
    )  # fmt: skip
    total = (("Total", "", "", str(len(model.layers)), "", whole(model.parameters), "", ""),)
    return Table(columns, rows, total, analysis.headline(model))


def model_json(model: Model) -> dict[str, Any]:
    """The model's figures and modules."""
    return {
        "schema": SCHEMA,
        "model": analysis.model_json(model),
        "modules": [
            {
                "name": m.name,
                "kind": type(m).__name__,
                "block": block,
                "layers": n,
                "parameters": m.parameters,
                "sizes": {f.name: getattr(m, f.name) for f in fields(m) if f.name != "name"},
            }
            for block, m, n in model.placed()
        ],
        "warnings": list(model.warnings),
        "not_counted": list(model.not_counted),
    }
