"""Views of an analysis: table, CSV, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.show.tables import Column, Table
from roofline.show.units import share, si, whole
from roofline.work.analysis import Analysis, OpCost
from roofline.work.step import Step
from roofline.work.traffic import Moved

SCHEMA = "roofline.analyze/1"
CSV_HEADER = (
    "step", "op", "kind", "block", "layers", "flops", "weight_bytes", "vector_bytes", "input_bytes", "output_bytes",
    "cache_read_bytes", "cache_write_bytes", "scratch_bytes", "bytes", "intensity",
)  # fmt: skip


@dataclass(frozen=True)
class Named:
    """An analysis and what to call its step."""

    name: str
    analysis: Analysis


def headline(model: Model) -> str:
    """Name, parameters, stored size and cache, in a line."""
    parts = [model.name, model.model_type, f"{whole(model.parameters)} parameters"]
    if model.active_parameters != model.parameters:
        parts.append(f"{whole(model.active_parameters)} active")
    parts.append(f"weights {si(model.weight_bytes(), 'B')} ({precision_text(model.precision)})")
    if model.kv_bytes(1):
        parts.append(f"KV cache {si(model.kv_bytes(1), 'B')} per token")
    if model.state_bytes():
        parts.append(f"state {si(model.state_bytes(), 'B')} per sequence")
    return " · ".join(parts)


def precision_text(precision: Precision) -> str:
    """The formats in use: one name, or each role that differs from the activations."""
    base = precision.activations.name
    groups: dict[str, list[str]] = {}
    for field in fields(precision):
        name = getattr(precision, field.name).name
        if name != base:
            groups.setdefault(name, []).append(field.name)
    return ", ".join([base, *(f"{'/'.join(roles)} {name}" for name, roles in groups.items())])


def step_text(step: Step) -> str:
    """The queries in words."""
    return " + ".join(f"{q.count} × ({q.cached} cached, {q.new} new)" for q in step.queries)


def op_table(named: Named) -> Table:
    """One line for each op of each distinct block, over all the layers it stands in."""
    a = named.analysis
    columns = (
        Column("Op", False), Column("Block", False), Column("Layers"), Column("FLOPs"), Column("Share"),
        Column("Weights"),
        Column("Activations"), Column("Cache"), Column("Bytes"), Column("Share"), Column("FLOP/B"),
    )  # fmt: skip
    rows = tuple((c.name, c.block, str(c.layers), *_cells(c.flops, c.moved, a)) for c in a.ops)
    total = (("Total", "", "", *_cells(a.flops, a.moved, a)),)
    title = f"{named.name}: {step_text(a.step)} · counting {a.counting.name} · traffic {a.traffic.name}"
    if a.precision != a.model.precision:
        title += f" · precision {precision_text(a.precision)}"
    return Table(columns, rows, total, title)


def _cells(flops: Any, moved: Moved, a: Analysis) -> tuple[str, ...]:
    return (
        si(flops, "FLOP"), share(flops, a.flops), si(moved.weights, "B"), si(moved.activations, "B"),
        si(moved.cache, "B"), si(moved.total, "B"), share(moved.total, a.bytes),
        f"{flops / moved.total:.4g}" if moved.total else "–",
    )  # fmt: skip


def csv_rows(analyses: Sequence[Named]) -> list[tuple[object, ...]]:
    """The rows under CSV_HEADER."""
    return [
        (n.name, c.name, c.kind, c.block, c.layers, c.flops, *_roles(c.moved).values(), c.bytes, c.intensity)
        for n in analyses
        for c in n.analysis.ops
    ]


def _roles(moved: Moved) -> dict[str, Any]:
    return {f.name: getattr(moved, f.name) for f in fields(moved)}


def as_json(model: Model, analyses: Sequence[Named]) -> dict[str, Any]:
    """The documented schema (docs/json.md)."""
    return {
        "schema": SCHEMA,
        "model": model_json(model),
        "steps": [_step_json(n) for n in analyses],
        "warnings": list(model.warnings),
        "not_counted": list(model.not_counted),
    }


def model_json(model: Model) -> dict[str, Any]:
    """The model's own figures."""
    return {
        "name": model.name,
        "model_type": model.model_type,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "layers": len(model.layers),
        "hidden": model.hidden,
        "vocab": model.vocab,
        "context": model.context,
        "weight_bytes": model.weight_bytes(),
        "kv_bytes_per_token": model.kv_bytes(1),
        "state_bytes": model.state_bytes(),
        "precision": precision_json(model.precision),
    }


def precision_json(precision: Precision) -> dict[str, Any]:
    """Format and stored bits of each role."""
    formats = {f.name: getattr(precision, f.name) for f in fields(precision)}
    return {role: {"format": f.name, "bits": float(f.stored_bits)} for role, f in formats.items()}


def _step_json(named: Named) -> dict[str, Any]:
    a = named.analysis
    return {
        "name": named.name,
        "queries": [{"cached": q.cached, "new": q.new, "count": q.count} for q in a.step.queries],
        "logits": a.step.logits,
        "counting": a.counting.name,
        "traffic": a.traffic.name,
        "precision": precision_json(a.precision),
        "flops": a.flops,
        "bytes": a.bytes,
        "bytes_by_role": _roles(a.moved),
        "intensity": a.intensity,
        "ops": [_op_json(c) for c in a.ops],
    }


def _op_json(c: OpCost) -> dict[str, Any]:
    return {
        "name": c.name,
        "kind": c.kind,
        "block": c.block,
        "layers": c.layers,
        "flops": c.flops,
        "flops_per_layer": c.each_flops,
        "bytes": c.bytes,
        "bytes_by_role": _roles(c.moved),
        "intensity": c.intensity if c.bytes else None,
    }
