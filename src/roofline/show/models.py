"""Views of the catalog and of a model's modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from roofline.explore.anatomy import sizes
from roofline.model.load import CatalogEntry
from roofline.model.model import Model
from roofline.model.modules import Module
from roofline.result import Figured, Result, Units
from roofline.show.analysis import OfModel, headline
from roofline.show.tables import Column, Table
from roofline.units import share


@dataclass(frozen=True, repr=False)
class Catalog(Result):
    """The answer of `models`: published models that come along. `scope`: what of a model is counted."""

    SCHEMA: ClassVar[str] = "roofline.models/2"
    FIGURES: ClassVar[Units] = {"models": ""}

    models: tuple[CatalogEntry, ...]


@dataclass(frozen=True, repr=False)
class ModelTypes(Result):
    """The answer of `models --types`: the families that are understood, as configs name them."""

    SCHEMA: ClassVar[str] = "roofline.model_types/2"
    FIGURES: ClassVar[Units] = {"model_types": ""}

    model_types: tuple[str, ...]


@dataclass(frozen=True)
class ModuleFacts(Figured):
    """A module of a block: its kind and sizes, in how many layers it stands, and the parameters of one."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("name", "kind", "block", "layers", "parameters", "sizes"), "")

    of: Module
    block: str
    layers: int

    @property
    def name(self) -> str:
        """What it is called."""
        return self.of.name

    @property
    def kind(self) -> str:
        """What kind of module it is."""
        return type(self.of).__name__

    @property
    def parameters(self) -> int:
        """Of one of them."""
        return self.of.parameters

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Its sizes by name."""
        return {f.name: getattr(self.of, f.name) for f in fields(self.of) if f.name != "name"}


@dataclass(frozen=True, repr=False)
class ModelAnswer(OfModel):
    """The answer of `models NAME`: a model's figures and its modules."""

    SCHEMA: ClassVar[str] = "roofline.model/2"
    FIGURES: ClassVar[Units] = dict.fromkeys(("model", "modules", "warnings", "not_counted"), "")

    model: Model

    @property
    def modules(self) -> tuple[ModuleFacts, ...]:
        """Every module of every distinct block."""
        return tuple(ModuleFacts(module, block, layers) for block, module, layers in self.model.placed())


def catalog_table(c: Catalog) -> Table:
    """One line for each published model."""
    columns = (
        Column("Model"), Column("Parameters", "count"), Column("Published", "plain", drop=2),
        Column("Active", "plain"), Column("Scope", drop=1),
    )  # fmt: skip
    return Table(columns, tuple((e.id, e.parameters, e.published, e.active or None, e.scope) for e in c.models))


def types_table(t: ModelTypes) -> Table:
    """The model_types."""
    return Table((Column("model_type"),), tuple((name,) for name in t.model_types))


def module_table(answer: ModelAnswer) -> Table:
    """Every module of every distinct block, with its sizes and parameters."""
    model = answer.model
    columns = (
        Column("Module"), Column("Kind", drop=2), Column("Block"), Column("Layers", "count"),
        Column("Parameters each", "count", drop=3), Column("Parameters", "count"), Column("Share", "share", drop=1),
        Column("Sizes", wrap=True),
    )  # fmt: skip
    rows = tuple(
        (
            m.name, m.kind, m.block, m.layers, m.parameters, m.layers * m.parameters,
            share(m.layers * m.parameters, model.parameters), sizes(m.of),
        )
        for m in answer.modules
    )  # fmt: skip
    total = (("Total", "", "", len(model.layers), None, model.parameters, None, ""),)
    return Table(columns, rows, total, headline(model))
