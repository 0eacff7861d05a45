"""Text of an analysis: table of ops, CSV, and the answer of `analyze` with one or several steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from roofline.declared.numbers.units import share, si, whole
from roofline.declared.result import Figured, FigureValue, Result, Units
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.views.text.tables import Column, Table
from roofline.work.analysis import Analysis, OpCost
from roofline.work.step import Step

if TYPE_CHECKING:
    from roofline.inference.step import Estimate

CSV_HEADER = (
    "step", "op", "kind", "block", "layers", "flops", "weight_bytes", "vector_bytes", "input_bytes", "output_bytes",
    "cache_read_bytes", "cache_write_bytes", "scratch_bytes", "bytes", "intensity",
)  # fmt: skip


@dataclass(frozen=True)
class ModelFacts(Figured):
    """Figures of a model: sizes, and bytes in the checkpoint's formats."""

    FIGURES: ClassVar[Units] = {
        "name": "", "model_type": "", "parameters": "", "parts": "", "active_parameters": "", "layers": "",
        "hidden": "", "vocab": "", "context": "", "weight_bytes": "B", "kv_bytes_per_token": "B", "state_bytes": "B",
        "formats": "",
    }  # fmt: skip

    of: Model

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.of.name

    @property
    def model_type(self) -> str:
        """Model family, as in config.json."""
        return self.of.model_type

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.of.parameters

    @property
    def parts(self) -> Mapping[str, int]:
        """Parameters of each tower, projector and decoder by its name; empty for a model of one part."""
        return self.of.parts

    @property
    def active_parameters(self) -> int:
        """Parameters without those of routed experts that a token does not visit."""
        return self.of.active_parameters

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self.of.layers)

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.of.hidden

    @property
    def vocab(self) -> int:
        """Size of the vocabulary."""
        return self.of.vocab

    @property
    def context(self) -> int | None:
        """Maximum tokens of a sequence; null if the config does not say."""
        return self.of.context

    @property
    def weight_bytes(self) -> int:
        """Stored bytes of the weights."""
        return int(self.of.weight_bytes())

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes that a token adds to the KV cache of a short sequence."""
        return int(self.of.kv_bytes(1))

    @property
    def state_bytes(self) -> int:
        """Bytes of a sequence's recurrent state."""
        return int(self.of.state_bytes())

    @property
    def formats(self) -> Precision:
        """Format of every role in the checkpoint."""
        return self.of.precision


class OfModel(Result):
    """An answer with a model's figures, and what its config leaves open."""

    NAMES: ClassVar[Mapping[str, str]] = {"model": "facts"}

    model: Model

    @property
    def facts(self) -> ModelFacts:
        """Figures of the model."""
        return ModelFacts(self.model)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Config keys that were not understood, and defaults that were used."""
        return self.model.warnings

    @property
    def not_counted(self) -> tuple[str, ...]:
        """Parts of the model outside of its language model."""
        return self.model.not_counted


@dataclass(frozen=True)
class NamedStep(Figured):
    """A named step with its work and, on a chip, its time."""

    FIGURES: ClassVar[Units] = {"name": "", **Analysis.FIGURES, "estimate": ""}
    OF: ClassVar[type] = Analysis

    name: str
    analysis: Analysis
    estimate: Estimate | None = None

    def figure(self, name: str) -> FigureValue:
        """Name and estimate of the step; otherwise a figure of the analysis."""
        return getattr(self, name) if name in ("name", "estimate") else self.analysis.figure(name)


@dataclass(frozen=True, repr=False)
class Steps(OfModel):
    """Answer of `analyze`: a model and its steps."""

    SCHEMA: ClassVar[str] = "roofline.analyze/3"
    FIGURES: ClassVar[Units] = dict.fromkeys(("model", "fits", "steps", "warnings", "not_counted"), "")

    model: Model
    steps: tuple[NamedStep, ...]

    @property
    def fits(self) -> bool | None:
        """Whether every step fits in memory; null without a chip."""
        known = [bool(s.estimate.fits) for s in self.steps if s.estimate is not None]
        return all(known) if known else None


def headline(model: Model, formats: Precision | None = None) -> str:
    """Name, parameters, stored size and cache in one line; by default in the checkpoint's formats."""
    chosen = formats or model.precision
    sizes = ", ".join(f"{name} {whole(number)}" for name, number in model.parts.items())
    parts = [model.name, model.model_type, f"{whole(model.parameters)} parameters{f' ({sizes})' if sizes else ''}"]
    if model.active_parameters != model.parameters:
        parts.append(f"{whole(model.active_parameters)} active")
    parts.append(f"weights {si(model.weight_bytes(chosen), 'B')} ({chosen.text()})")
    if model.kv_bytes(1):
        parts.append(f"KV cache {si(model.kv_bytes(1, chosen), 'B')} per token")
    if model.state_bytes():
        parts.append(f"state {si(model.state_bytes(chosen), 'B')} per sequence")
    return " · ".join(parts)


def step_text(step: Step) -> str:
    """The queries in words."""
    return " + ".join(f"{q.count} × ({q.cached} cached, {q.new} new)" for q in step.queries)


def rank_text(a: Analysis) -> str:
    """The rank whose work is shown, if a layout divides the work."""
    return f" · one rank of {a.model.layout_text}" if a.model.layout_text else ""


def op_table(named: NamedStep) -> Table:
    """One line for each op of each distinct block, over all layers that have it."""
    a = named.analysis
    columns = (
        Column("Op"), Column("Block", drop=1), Column("Layers", "count", drop=4), Column("FLOPs", "FLOP"),
        Column("% FLOPs", "share", drop=3), Column("Weights", "B", drop=5), Column("Activations", "B", drop=7),
        Column("Cache", "B", drop=6), Column("Bytes", "B"), Column("% bytes", "share", drop=2),
        Column("FLOP/B", "FLOP/B"),
    )  # fmt: skip
    rows = tuple((c.name, c.block, c.layers, *_cells(c, a)) for c in a.ops)
    total = (("Total", "", None, *_cells(a, a)),)
    title = f"{named.name}: {step_text(a.step)}{rank_text(a)} · counting {a.counting.name} · traffic {a.traffic.name}"
    return Table(columns, rows, total, title)


def _cells(c: OpCost | Analysis, a: Analysis) -> tuple[object, ...]:
    return (
        c.flops, share(c.flops, a.flops), c.moved.weights, c.moved.activations, c.moved.cache, c.bytes,
        share(c.bytes, a.bytes), c.intensity,
    )  # fmt: skip


def csv_rows(steps: Sequence[NamedStep]) -> list[tuple[object, ...]]:
    """Rows under CSV_HEADER."""
    return [csv_row(s.name, c) for s in steps for c in s.analysis.ops]


def csv_row(step: str, c: OpCost) -> tuple[object, ...]:
    """One op; no intensity if no bytes move."""
    moved = (getattr(c.moved, f.name) for f in fields(c.moved))
    return (step, c.name, c.kind, c.block, c.layers, c.flops, *moved, c.bytes, c.intensity if c.bytes else None)
