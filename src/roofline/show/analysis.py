"""Views of an analysis: table, CSV, JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from roofline.model.model import Model
from roofline.model.precision import WEIGHTS, Precision
from roofline.show.tables import Column, Table
from roofline.show.units import ratio, share, si, whole
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


def headline(model: Model, precision: Precision | None = None) -> str:
    """Name, parameters, stored size and cache, in a line; in the checkpoint's formats where no others are given."""
    formats = precision or model.precision
    parts = [model.name, model.model_type, f"{whole(model.parameters)} parameters"]
    if model.active_parameters != model.parameters:
        parts.append(f"{whole(model.active_parameters)} active")
    parts.append(f"weights {si(model.weight_bytes(formats), 'B')} ({precision_text(formats)})")
    if model.kv_bytes(1):
        parts.append(f"KV cache {si(model.kv_bytes(1, formats), 'B')} per token")
    if model.state_bytes():
        parts.append(f"state {si(model.state_bytes(formats), 'B')} per sequence")
    return " · ".join(parts)


def precision_text(precision: Precision) -> str:
    """The formats in use: one name, or each role that differs from the activations."""
    base = precision.activations.name
    groups: dict[str, list[str]] = {}
    for field in fields(precision):
        name = getattr(precision, field.name).name
        if name != base:
            groups.setdefault(name, []).append(field.name)
    many = len(WEIGHTS)
    groups = {n: ["weights", *r[many:]] if tuple(r[:many]) == WEIGHTS else r for n, r in groups.items()}
    return ", ".join([base, *(f"{'/'.join(roles)} {name}" for name, roles in groups.items())])


def step_text(step: Step) -> str:
    """The queries in words."""
    return " + ".join(f"{q.count} × ({q.cached} cached, {q.new} new)" for q in step.queries)


def rank_text(a: Analysis) -> str:
    """Whose work it is, where a layout shares it out."""
    return f" · one rank of {a.model.layout_text}" if a.model.layout_text else ""


def op_table(named: Named) -> Table:
    """One line for each op of each distinct block, over all the layers it stands in."""
    a = named.analysis
    columns = (
        Column("Op", False), Column("Block", False), Column("Layers", drop=2), Column("FLOPs"),
        Column("% FLOPs", drop=1), Column("Weights", drop=3), Column("Activations", drop=5), Column("Cache", drop=4),
        Column("Bytes"), Column("% bytes"), Column("FLOP/B"),
    )  # fmt: skip
    rows = tuple((c.name, c.block, str(c.layers), *_cells(c, a)) for c in a.ops)
    total = (("Total", "", "", *_cells(a, a)),)
    title = f"{named.name}: {step_text(a.step)}{rank_text(a)} · counting {a.counting.name} · traffic {a.traffic.name}"
    return Table(columns, rows, total, title)


def _cells(c: OpCost | Analysis, a: Analysis) -> tuple[str, ...]:
    return (
        si(c.flops, "FLOP"), share(c.flops, a.flops), si(c.moved.weights, "B"), si(c.moved.activations, "B"),
        si(c.moved.cache, "B"), si(c.bytes, "B"), share(c.bytes, a.bytes), ratio(c.intensity),
    )  # fmt: skip


def csv_rows(analyses: Sequence[Named]) -> list[tuple[object, ...]]:
    """The rows under CSV_HEADER."""
    return [csv_row(n.name, c) for n in analyses for c in n.analysis.ops]


def csv_row(step: str, c: OpCost) -> tuple[object, ...]:
    """One op; no intensity where nothing moves."""
    intensity = c.intensity if c.bytes else None
    return (step, c.name, c.kind, c.block, c.layers, c.flops, *_roles(c.moved).values(), c.bytes, intensity)


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
        "layout": a.model.layout_text or "one chip",
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
