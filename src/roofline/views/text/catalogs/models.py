"""Text of the catalog and of a model's modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

from roofline.declared.numbers.units import share, whole
from roofline.declared.result import Figured, FigureValue, Result, Units
from roofline.model.checkpoints.stored import ModuleBytes, StoredWeights, TensorGroup, as_stored
from roofline.model.load import CatalogEntry
from roofline.model.model import Model
from roofline.model.modules import Module
from roofline.model.sources.survey import CheckedConfig
from roofline.model.summary import sizes
from roofline.views.text.inference.analysis import OfModel, headline
from roofline.views.text.tables import Column, Table
from roofline.whatif.search.what_fits import Running, WhatRuns


@dataclass(frozen=True, repr=False)
class Catalog(Result):
    """Answer of `models`: the published models of the catalog. `scope`: what is counted of a model."""

    SCHEMA: ClassVar[str] = "roofline.models/2"
    FIGURES: ClassVar[Units] = {"models": ""}

    models: tuple[CatalogEntry, ...]


@dataclass(frozen=True, repr=False)
class ModelTypes(Result):
    """Answer of `models --types`: the supported model families by `model_type`."""

    SCHEMA: ClassVar[str] = "roofline.model_types/2"
    FIGURES: ClassVar[Units] = {"model_types": ""}

    model_types: tuple[str, ...]


@dataclass(frozen=True)
class ModuleFacts(Figured):
    """A module of a block: kind, sizes, number of layers, and parameters of one instance."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("name", "kind", "block", "layers", "parameters", "sizes"), "")

    of: Module
    block: str
    layers: int

    @property
    def name(self) -> str:
        """Name of the module."""
        return self.of.name

    @property
    def kind(self) -> str:
        """Kind of the module."""
        return type(self.of).__name__

    @property
    def parameters(self) -> int:
        """Parameters of one instance."""
        return self.of.parameters

    @property
    def sizes(self) -> Mapping[str, FigureValue]:
        """Sizes by name."""
        return {f.name: getattr(self.of, f.name) for f in fields(self.of) if f.name != "name"}


@dataclass(frozen=True, repr=False)
class ModelAnswer(OfModel):
    """Answer of `models NAME`: a model's figures and its modules."""

    SCHEMA: ClassVar[str] = "roofline.model/2"
    FIGURES: ClassVar[Units] = dict.fromkeys(("model", "modules", "warnings", "not_counted"), "")

    model: Model

    @property
    def modules(self) -> tuple[ModuleFacts, ...]:
        """Every module of every distinct block."""
        return tuple(ModuleFacts(module, block, layers) for block, module, layers in self.model.placed())


@dataclass(frozen=True, repr=False)
class StoredTensors(Result):
    """Answer of `models NAME --tensors`: the headers of a checkpoint compared with its config."""

    SCHEMA: ClassVar[str] = "roofline.tensors/1"
    FIGURES: ClassVar[Units] = {
        "name": "", "total": "B", "stored": "B", "promised": "B", "modules": "", "tensors": "", "warnings": "",
    }  # fmt: skip

    of: StoredWeights

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.of.model.name

    @property
    def total(self) -> int:
        """Bytes of all tensors."""
        return self.of.total

    @property
    def stored(self) -> int:
        """Bytes of the language model's tensors."""
        return self.of.bytes

    @property
    def promised(self) -> int:
        """Bytes of the language model according to its config."""
        return int(self.of.model.weight_bytes())

    @property
    def modules(self) -> tuple[ModuleBytes, ...]:
        """Modules of the language model over all layers, largest first."""
        return self.of.modules()

    @property
    def tensors(self) -> tuple[TensorGroup, ...]:
        """Tensors, grouped if their names differ only in numbers."""
        return self.of.groups()

    @cached_property
    def as_stored(self) -> Model:
        """The model in the formats of the files."""
        return as_stored(self.of)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the headers leave open, and where they differ from the config."""
        return self.as_stored.warnings


@dataclass(frozen=True, repr=False)
class ConfigChecks(Result):
    """Answer of `models --check`: the result for every config in a folder."""

    SCHEMA: ClassVar[str] = "roofline.checks/1"
    FIGURES: ClassVar[Units] = dict.fromkeys(("folder", "exact", "warned", "refused", "configs"), "")

    folder: str
    """Folder of the configs."""
    configs: tuple[CheckedConfig, ...]
    """Results by path."""

    @property
    def exact(self) -> int:
        """Configs that were understood completely."""
        return self._number("exact")

    @property
    def warned(self) -> int:
        """Configs that are counted with warnings."""
        return self._number("warned")

    @property
    def refused(self) -> int:
        """Configs that are refused."""
        return self._number("refused")

    def _number(self, outcome: str) -> int:
        return sum(config.outcome == outcome for config in self.configs)


def catalog_table(c: Catalog) -> Table:
    """One line for each published model."""
    columns = (
        Column("Model", long=41), Column("Family", drop=3, long=14), Column("Parameters", "count"),
        Column("Active", "count", drop=1),
        Column("Published", drop=4), Column("Scope", drop=2, long=12),
    )  # fmt: skip
    rows = tuple((e.id, e.model_type, e.parameters, e.active_parameters, _published(e), e.scope) for e in c.models)
    return Table(columns, rows)


def running_table(w: WhatRuns) -> Table:
    """One line for each model, or for each format of the model in the title."""
    of = {r.model for r in w.running}
    one = w.running[0] if len(of) == 1 else None
    columns = (
        Column("Model", long=22), Column("Parameters", "count", drop=8), Column("Format"), Column("Engine", drop=2),
        Column("Weights", "B", drop=7), Column("Memory", "B", drop=3), Column("Fits", drop=1),
        Column("Tokens/s", "plain"),
        Column("TTFT", "s", drop=5), Column("Grade", drop=6),
    )  # fmt: skip
    rows = tuple(
        (
            r.model, r.parameters, r.format, r.engine.name, r.weights, r.memory, _where(r), _speed(r),
            r.ttft.expected if r.ttft else None, r.grade,
        )
        for r in w.running
    )  # fmt: skip
    title = f"{w.on}, one user, {w.context:,} tokens of prompt and answer"
    if one is not None:
        title = f"{one.model}, {whole(one.parameters)} parameters, on {title}"
        return Table(columns[2:], tuple(row[2:] for row in rows), title=title)
    return Table(columns, rows, title=title)


def _where(r: Running) -> str:
    """Whether it fits, or how it is split, in llama.cpp's options."""
    if r.fits or r.gpu_layers is None:
        return "yes" if r.fits else "no"
    return f"-ngl {r.gpu_layers}" + (f" -ncmoe {r.cpu_experts}" if r.cpu_experts else "")


def _speed(r: Running) -> str | None:
    """Tokens/s with the ends of the interval."""
    if r.tpot is None:
        return None
    slow, fast = r.tokens_per_second_low, r.tokens_per_second_high
    return f"{r.tokens_per_second:.3g} ({slow:.3g} to {fast:.3g})"


def _published(entry: CatalogEntry) -> str:
    return entry.published + (f", {entry.active} active" if entry.active else "")


def checks_table(c: ConfigChecks) -> Table:
    """One line for each config, with the reason if it is refused."""
    columns = (
        Column("Config", long=20), Column("Outcome"), Column("model_type", drop=2),
        Column("Parameters", "count", drop=1),
        Column("Weights", "B", drop=3), Column("Reasons", long=20),
    )  # fmt: skip
    rows = tuple(
        (x.path, x.outcome, x.model_type or "", x.parameters, x.weight_bytes, "; ".join(x.reasons)) for x in c.configs
    )
    counts = f"{c.exact} exact, {c.warned} warned, {c.refused} refused"
    return Table(columns, rows, title=f"{c.folder}: {counts}")


def types_table(t: ModelTypes) -> Table:
    """The values of `model_type`."""
    return Table((Column("model_type"),), tuple((name,) for name in t.model_types))


def module_table(answer: ModelAnswer) -> Table:
    """Every module of every distinct block, with its sizes and parameters."""
    model = answer.model
    columns = (
        Column("Module", long=20), Column("Kind", drop=4), Column("Block"), Column("Layers", "count"),
        Column("Parameters each", "count", drop=5), Column("Parameters", "count"), Column("Share", "share", drop=2),
        Column("Sizes", drop=3, long=20),
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


def tensors_table(answer: StoredTensors) -> Table:
    """Tensors by name pattern: their module and bytes."""
    columns = (
        Column("Tensor", long=24), Column("Module", drop=3), Column("Use", drop=4), Column("Dtype"),
        Column("Shape", "plain", drop=2),
        Column("Tensors", "count", drop=1), Column("Bytes", "count"),
    )  # fmt: skip
    rows = tuple(
        (g.name, g.module, g.use, g.dtype, "×".join(map(str, g.shape)), g.tensors, g.bytes) for g in answer.tensors
    )
    total = (("Total", "", "", "", "", sum(g.tensors for g in answer.tensors), answer.total),)
    return Table(columns, rows, total, f"{answer.name}: the tensors of its files")


def stored_table(answer: StoredTensors) -> Table:
    """Bytes of modules in the files and according to the config."""
    columns = (
        Column("Module", long=16), Column("In the files", drop=2, long=12), Column("By the config", drop=1, long=13),
        Column("Bytes in the files", "count"),
        Column("Bytes by the config", "count"),
    )  # fmt: skip
    rows = tuple(
        (m.module or "all other", " ".join(m.dtypes), " ".join(m.formats), m.stored_bytes, m.promised_bytes)
        for m in answer.modules
    )
    total = (("Total", "", "", answer.stored, answer.promised),)
    return Table(columns, rows, total, f"{answer.name}: the language model's weights")
