"""Views of a fit: the terms of memory, the answer, what would make it fit."""

from __future__ import annotations

from typing import Any

from roofline.estimates.memory import Fit
from roofline.model.model import Model
from roofline.show.analysis import precision_json, precision_text
from roofline.show.units import si

RULES = {
    "vllm": "{share:g} of the memory, less weights, activations and overhead",
    "trtllm": "{share:g} of what weights, activations and overhead leave of the memory",
    "sglang": "{share:g} of the memory, less weights",
    "all": "what weights, activations and overhead leave of the memory",
}


def fit_text(f: Fit) -> str:
    """The terms, the answer, and what would make it fit."""
    rows = [
        ("weights", f.weights, precision_text(f.precision)),
        ("KV cache", f.cache, f"{f.batch} × {f.context} tokens in blocks of {f.engine.block}, and any recurrent state"),
        ("activations", f.activations, f"a step of {f.chunk} tokens: the largest op and the logits"),
        ("overhead", f.overhead, f.engine.source),
    ]
    lines = [f"{f.batch} × {f.context} tokens on {fit_place(f)}, {f.engine.name}", ""]
    lines += [f"{name:<12} {si(value, 'B'):>10}  {note}" for name, value, note in rows]
    lines += [f"{'sum':<12} {si(f.needed, 'B'):>10}  of {si(f.capacity, 'B')}", ""]
    lines.append(f"{f.engine.name} leaves the KV cache {budget_text(f, ': ')}")
    answer = "fits" if f.fits else "does not fit"
    lines.append(
        f"{answer}; largest batch at {f.context} tokens: {f.largest_batch}; longest context at batch {f.batch}: "
        f"{'any' if f.longest_context is None else f.longest_context}; fewest chips: {f.fewest_chips or 'none'}"
    )
    if f.fewest is not None and not f.fewest.alone:
        lines[-1] += f" ({f.fewest.text()})"
    if f.changes:
        lines.append("would fit with: " + "; or ".join(c.detail for c in f.changes))
    return "\n".join(lines)


def budget_text(f: Fit, link: str) -> str:
    """What the KV cache may have, and the engine's rule behind it."""
    return f"{si(max(0.0, f.budget), 'B')}{link}{RULES[f.engine.budget].format(share=f.engine.share)}"


def fit_place(f: Fit) -> str:
    """The chip, or the fullest of so many."""
    return f.chip.name if f.layout.alone else f"the fullest of {f.layout.chips} × {f.chip.name} ({f.layout.text()})"


def fit_json(model: Model, f: Fit) -> dict[str, Any]:
    """`roofline.fit/1`."""
    return {
        "schema": "roofline.fit/1",
        "model": model.name,
        "precision": precision_json(f.precision),
        "chip": f.chip.id,
        "engine": f.engine.id,
        "batch": f.batch,
        "context": f.context,
        "chunk": f.chunk,
        "fits": f.fits,
        "capacity_bytes": f.capacity,
        "weight_bytes": f.weights,
        "cache_bytes": f.cache,
        "activation_bytes": f.activations,
        "overhead_bytes": f.overhead,
        "needed_bytes": f.needed,
        "budget_bytes": f.budget,
        "largest_batch": f.largest_batch,
        "longest_context": f.longest_context,
        "fewest_chips": f.fewest_chips,
        "fewest_layout": None if f.fewest is None else f.fewest.text(),
        "layout": f.layout.text(),
        "changes": [{"what": c.what, "detail": c.detail} for c in f.changes],
    }
