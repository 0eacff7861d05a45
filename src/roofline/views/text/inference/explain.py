"""Text of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.declared.numbers.units import ratio, whole
from roofline.declared.result import Figured, FigureValue, Result, Units
from roofline.model.model import Model
from roofline.views.text.inference.analysis import step_text
from roofline.work.explain import ExplainedFigure, Explanation
from roofline.work.step import Step


@dataclass(frozen=True)
class NamedExplanation(Figured):
    """An op explained for a named step."""

    FIGURES: ClassVar[Units] = {"name": "", **Explanation.FIGURES}
    OF: ClassVar[type] = Explanation

    name: str
    explanation: Explanation

    def figure(self, name: str) -> FigureValue:
        """Name of the step; otherwise a figure of the explanation."""
        return self.name if name == "name" else self.explanation.figure(name)


@dataclass(frozen=True, repr=False)
class Explanations(Result):
    """Answer of `explain`: an op of a model in its steps."""

    SCHEMA: ClassVar[str] = "roofline.explain/2"
    FIGURES: ClassVar[Units] = dict.fromkeys(("model", "steps"), "")

    model: Model
    steps: tuple[NamedExplanation, ...]


MEANING = {"B": "queries in the batch", "P": "cached tokens of each", "T": "new tokens of each"}


def explanation_text(name: str, step: Step, e: Explanation) -> str:
    """Formula with numbers filled in, value and source of every figure."""
    cost = e.cost
    many = "once" if cost.layers == 1 else f"in {cost.layers} layers"
    lines = [f"{cost.name} ({cost.kind}), {cost.block}, {many} · {name}: {step_text(step)}", ""]
    lines += [f"  {k} = {v:,}{f'  ({MEANING[k]})' if k in MEANING else ''}" for k, v in e.symbols.items()]
    for figure in e.figures:
        lines += ["", *_figure(figure, cost.layers)]
    if cost.bytes:
        lines += ["", "intensity", f"  = {cost.flops:,} FLOP / {cost.bytes:,} B = {ratio(cost.intensity)} FLOP/B"]
    return "\n".join(lines)


def _figure(f: ExplainedFigure, layers: int) -> list[str]:
    lines = [f"{f.name} of one layer", f"  = {f.formula}"]
    if f.filled != str(f.formula):
        lines.append(f"  = {f.filled}")
    value = whole(f.value) if isinstance(f.value, int) else f"{f.value:,.6g}"
    lines.append(f"  = {value}" + (f", × {layers} layers = {f.value * layers:,}" if layers > 1 else ""))
    return [*lines, f"  {f.source}"]
