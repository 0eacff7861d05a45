"""Views of an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.model.model import Model
from roofline.show.analysis import step_text
from roofline.show.units import ratio, whole
from roofline.work.explain import Explanation, Figure
from roofline.work.step import Step

SCHEMA = "roofline.explain/1"
MEANING = {"B": "queries in the batch", "P": "cached tokens of each", "T": "new tokens of each"}


def text(name: str, step: Step, e: Explanation) -> str:
    """Formula, numbers, value and source of every figure."""
    cost = e.cost
    many = "once" if cost.layers == 1 else f"in {cost.layers} layers"
    lines = [f"{cost.name} ({cost.kind}), {cost.block}, {many} · {name}: {step_text(step)}", ""]
    lines += [f"  {k} = {v:,}{f'  ({MEANING[k]})' if k in MEANING else ''}" for k, v in e.symbols]
    for figure in e.figures:
        lines += ["", *_figure(figure, cost.layers)]
    if cost.bytes:
        lines += ["", "intensity", f"  = {cost.flops:,} FLOP / {cost.bytes:,} B = {ratio(cost.intensity)} FLOP/B"]
    return "\n".join(lines)


def _figure(f: Figure, layers: int) -> list[str]:
    lines = [f"{f.name} of one layer", f"  = {f.formula}"]
    if f.filled != str(f.formula):
        lines.append(f"  = {f.filled}")
    value = whole(f.value) if isinstance(f.value, int) else f"{f.value:,.6g}"
    lines.append(f"  = {value}" + (f", × {layers} layers = {f.value * layers:,}" if layers > 1 else ""))
    return [*lines, f"  {f.source}"]


def as_json(model: Model, explained: Sequence[tuple[str, Explanation]]) -> dict[str, Any]:
    """The documented schema (docs/json.md)."""
    return {
        "schema": SCHEMA,
        "model": model.name,
        "steps": [
            {
                "name": name,
                "op": e.cost.name,
                "kind": e.cost.kind,
                "block": e.cost.block,
                "layers": e.cost.layers,
                "symbols": dict(e.symbols),
                "figures": [
                    {
                        "name": f.name,
                        "formula": str(f.formula),
                        "filled": f.filled,
                        "per_layer": f.value,
                        "source": f.source,
                    }
                    for f in e.figures
                ],
            }
            for name, e in explained
        ],
    }
