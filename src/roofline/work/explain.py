"""The formulas of one op: SymPy symbols run through the same functions that count it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar

from roofline.declared.errors import InputError
from roofline.declared.groups import CountingText, PrecisionText, TrafficText
from roofline.declared.kinds import Text
from roofline.declared.numbers.maths import Count, is_symbol
from roofline.declared.question import question
from roofline.declared.result import Figured, Result, Units
from roofline.extras import is_there
from roofline.model.load import Source
from roofline.model.model import Model
from roofline.model.modules import Experts, LatentAttention, Module
from roofline.work.analysis import Analysis, OpCost, analyze
from roofline.work.lower import latent_forms, lower
from roofline.work.ops import Op
from roofline.work.step import Step


@dataclass(frozen=True)
class ExplainedFigure(Figured):
    """A figure of the op for one layer: its formula, the formula with numbers substituted, its value, its source."""

    FIGURES: ClassVar[Units] = dict.fromkeys(("name", "formula", "filled", "per_layer", "source"), "")
    NAMES: ClassVar[Mapping[str, str]] = {"formula": "text", "per_layer": "value"}

    name: str
    formula: Count
    filled: str
    value: Count
    source: str

    @property
    def text(self) -> str:
        """The formula as one line of text."""
        return str(self.formula)


SINGLE = ("groups", "repeats", "split", "copies", "gathered", "ranks", "kv_groups", "top_groups")
"""Sizes that are omitted from a formula where they are 1."""


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """An explained op. `symbols`: the meaning of each symbol."""

    SCHEMA: ClassVar[str] = "roofline.explanation/2"
    FIGURES: ClassVar[Units] = dict.fromkeys(("model", "op", "kind", "block", "layers", "symbols", "figures"), "")

    cost: OpCost = field(compare=False)
    module: Module
    symbols: Mapping[str, int]
    figures: tuple[ExplainedFigure, ...]

    @property
    def model(self) -> Model:
        """The model of the op."""
        return self.cost.analysis.model

    @property
    def op(self) -> str:
        """Name of the op."""
        return self.cost.name

    @property
    def kind(self) -> str:
        """Kind of the op."""
        return self.cost.kind

    @property
    def block(self) -> str:
        """The block that contains the op."""
        return self.cost.block

    @property
    def layers(self) -> int:
        """Number of layers that contain the op."""
        return self.cost.layers

    def lines(self) -> list[tuple[str, str]]:
        """The formulas as lines of text."""
        return [*super().lines(), *((f.name, f"{f.text} = {f.filled} = {f.value:,}") for f in self.figures)]


@question()
def explain(
    model: Model | Source,
    op: Annotated[Text, "An op's name, as `roofline analyze` prints it."],
    step: Step,
    *,
    counting: CountingText = "standard",
    traffic: TrafficText = "fused",
    precision: PrecisionText = None,
) -> Explanation:
    """The formulas of an op of a model at a step; the options are those of `analyze`.

    FLOPs, and bytes for each role that moves anything. The step must be uniform (one kind of query). Raises InputError
    for an op the model does not have. Without SymPy, which the extra `algebra` brings, a formula is its number.
    """
    return explained(analyze(model, step, counting=counting, traffic=traffic, precision=precision), op)


def explained(analysis: Analysis, name: str) -> Explanation:
    """`explain` for an existing analysis."""
    cost = analysis.op(name)
    module = _module(analysis, cost)
    step = analysis.step.of(module.stream) if module.stream else analysis.step
    if len(step.queries) != 1 or analysis.step.shape:
        raise InputError("step", analysis.step, "queries that are all alike, to be explained")
    if isinstance(module, Experts) and module.popularity:
        raise InputError("layout.popularity", module.popularity, "0: formulas are of evenly spread tokens")
    query = step.queries[0]
    values: dict[str, Any] = {"B": query.count, "P": query.cached, "T": query.new}
    sizes = {f.name: getattr(module, f.name) for f in fields(module)}
    values |= {k: v for k, v in sizes.items() if type(v) is int and v and not (v == 1 and k in SINGLE)}
    op = _symbolic(step, module, name, values) if has_algebra() else cost.op
    figures = [_figure("FLOPs", analysis.counting.flops(op), values, cost.each_flops, _source(analysis, cost))]
    moved, numbers = analysis.traffic.bytes(op, analysis.precision), cost.each_moved
    for role in fields(moved):
        formula, value = getattr(moved, role.name), getattr(numbers, role.name)
        if formula != 0:
            label = f"{role.name.replace('_', ' ')} bytes"
            figures.append(_figure(label, formula, values, value, f"traffic: {analysis.traffic.about}"))
    used = {str(s) for f in figures for s in getattr(f.formula, "free_symbols", ())} or values.keys()
    return Explanation(cost, module, {k: v for k, v in values.items() if k in used}, tuple(figures))


def _module(analysis: Analysis, cost: OpCost) -> Module:
    model = analysis.model
    groups: dict[str, tuple[Module, ...]] = {"embedding": model.embedding, "head": model.head}
    groups |= {b.name: b.modules for b, _ in model.blocks}
    groups |= {f"{t.name} {b.name}": b.modules for t in model.towers for b, _ in t.blocks}
    return next(m for m in groups[cost.block] if cost.name in {op.name for op in _ops(m, analysis.step)})


def _ops(module: Module, step: Step) -> Iterator[Op]:
    if isinstance(module, LatentAttention):
        yield from latent_forms(module, step)
    else:
        yield from lower(module, step)


def _symbolic(step: Step, module: Module, name: str, values: dict[str, int]) -> Op:
    import sympy

    letters = {k: sympy.Symbol(k, integer=True, positive=True) for k in values}
    sizes = {f.name: letters[f.name] for f in fields(module) if f.name in letters}
    step = step.with_symbols(letters["P"] if values["P"] else 0, letters["T"], letters["B"])
    return next(op for op in _ops(replace(module, **sizes), step) if op.name == name)


def has_algebra() -> bool:
    """Whether SymPy is installed, which formulas in symbols need."""
    return is_there("sympy")


def _figure(name: str, formula: Count, values: dict[str, int], value: Count, source: str) -> ExplainedFigure:
    if not is_symbol(formula):
        return ExplainedFigure(name, formula, str(formula), value, source)
    filled = re.sub(r"[A-Za-z_]\w*", lambda word: f"{values.get(word[0], word[0])}", str(formula))
    return ExplainedFigure(name, formula, filled, value, source)


def _source(analysis: Analysis, cost: OpCost) -> str:
    text = analysis.counting.formulas[type(cost.op)].__doc__ or ""
    return f"counting {analysis.counting.name}: " + " ".join(text.split())
