"""Views of estimates: op by op on a chip, generation, serving, memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from roofline.estimates.generate import Generation, Span
from roofline.estimates.latency import Estimate, OpTime
from roofline.estimates.memory import Fit
from roofline.estimates.serve import Serving
from roofline.machine.chip import Chip
from roofline.show.analysis import precision_text, step_text
from roofline.show.tables import Column, Table
from roofline.show.units import seconds, share, si

GRADES = {
    "A": "fitted on this chip",
    "B": "inherited from its generation",
    "C": "from other chips",
    "-": "no constants",
}


def time_table(name: str, e: Estimate) -> Table:
    """One line for each op: work, time, speed of light, and what limits it."""
    a = e.analysis
    columns = (
        Column("Op", False), Column("Block", False), Column("Layers"), Column("FLOPs"), Column("Bytes"),
        Column("FLOP/B"), Column("Floor"), Column("Expected"), Column("Share"), Column("Bound", False),
        Column("", False),
    )  # fmt: skip
    rows = tuple(_op_cells(op, e) for op in e.ops)
    total = (
        (
            "Total", "", "", si(a.flops, "FLOP"), si(a.bytes, "B"), f"{a.intensity:.4g}", seconds(e.serial_floor),
            seconds(e.time), "100.0 %", e.bound, e.grade,
        ),
    )  # fmt: skip
    fmt = a.precision.activations.compute or "bf16"
    ridge = f"ridge {e.chip.ridge(fmt):.0f} FLOP/B in {fmt}" if fmt in e.chip.peaks else ""
    title = f"{name}: {step_text(a.step)} · {e.chip.name} · {precision_text(a.precision)} · {ridge}"
    return Table(columns, rows, total, title)


def _op_cells(op: OpTime, e: Estimate) -> tuple[str, ...]:
    cost, pass_ = op.cost, op.kind == "quantise"
    work = ("", "", "") if pass_ else (si(cost.flops, "FLOP"), si(cost.bytes, "B"), f"{cost.intensity:.4g}")
    times = seconds(op.floor), seconds(op.expected), share(op.expected, e.time)
    return (op.name, cost.block, str(cost.layers), *work, *times, op.bound, op.each.grade)


def summary(e: Estimate) -> str:
    """The step in two lines."""
    low, high = e.interval
    return (
        f"expected {seconds(e.time)} (80 % of measurements within {seconds(low)} to {seconds(high)}), {e.bound} bound; "
        f"speed of light {seconds(e.serial_floor)} one op after another, {seconds(e.floor)} overlapped\n"
        f"memory needed {si(e.memory, 'B')} of {si(e.chip.capacity, 'B')}; constants {e.grade}: {GRADES[e.grade]}"
    )


def span_text(s: Span) -> str:
    """Expected, interval, floor."""
    return f"{seconds(s.expected)} ({seconds(s.low)} to {seconds(s.high)}; speed of light {seconds(s.floor)})"


def span_json(s: Span) -> dict[str, float]:
    """Seconds."""
    return {"floor": s.floor, "expected": s.expected, "low": s.low, "high": s.high}


def estimate_json(e: Estimate) -> dict[str, Any]:
    """The estimate's part of `roofline.analyze/1`."""
    low, high = e.interval
    return {
        "chip": e.chip.id,
        "law": e.target.mode.name,
        "seconds": {"floor": e.floor, "serial_floor": e.serial_floor, "expected": e.time, "low": low, "high": high},
        "bound": e.bound,
        "grade": e.grade,
        "memory_bytes": e.memory,
        "ops": [
            {
                "name": op.name,
                "kind": op.kind,
                "block": op.cost.block,
                "layers": op.cost.layers,
                "floor": op.floor,
                "expected": op.expected,
                "low": op.interval[0],
                "high": op.interval[1],
                "bound": op.bound,
                "grade": op.each.grade,
            }
            for op in e.ops
        ],
    }


def shares_text(e: Estimate, least: float = 0.02) -> str:
    """The kinds of op that take most of the time."""
    return ", ".join(f"{kind} {100 * part:.0f} %" for kind, part in e.shares if part >= least)


# -- generation and serving ----------------------------------------------------------------------------------------
def generation_text(g: Generation) -> str:
    """The figures, each with its definition."""
    runs = f", in {len(g.waves)} waves of at most {g.waves[0].sequences}: no more fit" if len(g.waves) > 1 else ""
    lines = [
        f"{g.batch} × ({g.input} in, {g.output} out) on {g.chip.name}, {g.engine.name}{runs}",
        "",
        f"TTFT     {span_text(g.ttft)}",
        "         time to first token: the prompts' prefill",
        f"TPOT     {span_text(g.tpot)}",
        "         time per output token after the first: (latency − TTFT) / (output − 1)",
        f"latency  {span_text(g.latency)}",
        "         until the last token of the batch",
        f"rate     {g.tokens_per_second:,.1f} tokens/s on this chip, "
        f"{g.tokens_per_second_per_user:,.1f} tokens/s per user",
        "         generated tokens over latency; 1 / TPOT",
        f"kernels  prefill: {shares_text(g.waves[0].prefill)}",
    ]
    if g.waves[0].decode is not None:
        lines.append(f"         decode: {shares_text(g.waves[0].decode)}")
    return "\n".join(lines) + "\n"


def generation_json(g: Generation) -> dict[str, Any]:
    """`roofline.generate/1`."""
    return {
        "schema": "roofline.generate/1",
        "chip": g.chip.id,
        "engine": g.engine.id,
        "batch": g.batch,
        "input": g.input,
        "output": g.output,
        "waves": [w.sequences for w in g.waves],
        "ttft_seconds": span_json(g.ttft),
        "tpot_seconds": span_json(g.tpot),
        "latency_seconds": span_json(g.latency),
        "tokens_per_second": g.tokens_per_second,
        "tokens_per_second_per_user": g.tokens_per_second_per_user,
        "prefill_shares": dict(g.waves[0].prefill.shares),
        "decode_shares": dict(g.waves[0].decode.shares) if g.waves[0].decode else {},
        "grade": g.waves[0].prefill.grade,
    }


def serving_text(s: Serving) -> str:
    """The figures, each with its definition."""
    prefix = f", {s.cached_prefix} of them from the prefix cache" if s.cached_prefix else ""
    waiting = (
        f"; memory holds {s.held}, {s.in_flight - s.held} wait" if s.in_flight > s.held else f" of {s.held} that fit"
    )
    lines = [
        f"{s.input} in{prefix}, {s.output} out on {s.chip.name}, {s.engine.name}: {s.in_flight} in flight{waiting}",
        "",
        f"TTFT     {span_text(s.ttft)}",
        "         arrival to first token: the step under way, queueing behind other prompts (M/G/1), own prefill",
        f"TPOT     {span_text(s.tpot)}",
        "         mean time between tokens after the first, other requests' prefill included",
        f"latency  {span_text(s.latency)}",
        "         TTFT + (output − 1) · TPOT",
        f"rate     {s.requests_per_second:,.3g} requests/s, {s.tokens_per_second:,.1f} tokens/s on this chip, "
        f"{s.tokens_per_second_per_user:,.1f} tokens/s per user",
        "         in flight over latency (Little's law); that times output; 1 / TPOT",
        f"kernels  decode: {shares_text(s.decode)}; prompts take {100 * s.prefill_share:.0f} % of the time",
    ]
    return "\n".join(lines) + "\n"


def serving_json(s: Serving) -> dict[str, Any]:
    """`roofline.serve/1`."""
    return {
        "schema": "roofline.serve/1",
        "chip": s.chip.id,
        "engine": s.engine.id,
        "input": s.input,
        "output": s.output,
        "cached_prefix": s.cached_prefix,
        "in_flight": s.in_flight,
        "held": s.held,
        "ttft_seconds": span_json(s.ttft),
        "tpot_seconds": span_json(s.tpot),
        "latency_seconds": span_json(s.latency),
        "requests_per_second": s.requests_per_second,
        "tokens_per_second": s.tokens_per_second,
        "tokens_per_second_per_user": s.tokens_per_second_per_user,
        "prefill_share": s.prefill_share,
        "decode_shares": dict(s.decode.shares),
        "grade": s.decode.grade,
    }


# -- memory --------------------------------------------------------------------------------------------------------
def fit_text(f: Fit) -> str:
    """The terms, the answer, and what would make it fit."""
    rows = [
        ("weights", f.weights, precision_text(f.precision)),
        ("KV cache", f.cache, f"{f.batch} × {f.context} tokens in blocks of {f.engine.block}, recurrent state"),
        ("activations", f.activations, f"a step of {f.engine.chunk} tokens, the largest op and the logits"),
        ("overhead", f.overhead, f.engine.source),
    ]
    lines = [f"{f.chip.name}, {si(f.capacity, 'B')}, {f.engine.name}", ""]
    lines += [f"{name:<12} {si(value, 'B'):>10}  {note}" for name, value, note in rows]
    lines += [f"{'sum':<12} {si(f.needed, 'B'):>10}", ""]
    lines.append(f"budget for the cache by the engine's rule: {si(max(0.0, f.budget), 'B')}")
    answer = "fits" if f.fits else "does not fit"
    lines.append(
        f"{answer}; largest batch at {f.context} tokens: {f.largest_batch}; longest context at batch {f.batch}: "
        f"{f.longest_context}; fewest chips: {f.fewest_chips or 'none'}"
    )
    if f.changes:
        lines.append("would fit with: " + "; or ".join(c.detail for c in f.changes))
    return "\n".join(lines) + "\n"


def fit_json(f: Fit) -> dict[str, Any]:
    """`roofline.fit/1`."""
    return {
        "schema": "roofline.fit/1",
        "chip": f.chip.id,
        "engine": f.engine.id,
        "batch": f.batch,
        "context": f.context,
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
        "changes": [{"what": c.what, "detail": c.detail} for c in f.changes],
    }


# -- chips ---------------------------------------------------------------------------------------------------------
def chips_table(chips: dict[str, Chip]) -> Table:
    """One line for each chip of the catalog."""
    columns = (
        Column("Chip", False), Column("Name", False), Column("bf16 or fp16"), Column("fp8"), Column("Memory"),
        Column("Bandwidth"), Column("Ridge"), Column("TDP"), Column("$/h"),
    )  # fmt: skip
    rows = []
    for c in chips.values():
        main = next((f for f in ("bf16", "fp16") if f in c.peaks), next(iter(c.peaks)))
        rows.append((
            c.id, c.name, si(c.peak(main), "FLOP/s"), si(c.peaks["fp8"], "FLOP/s") if "fp8" in c.peaks else "",
            si(c.capacity, "B"), si(c.bandwidth, "B/s"), f"{c.ridge(main):.0f}", f"{c.tdp:.0f} W" if c.tdp else "",
            f"{c.price.usd_per_hour:.2f}" if c.price else "",
        ))  # fmt: skip
    return Table(columns, tuple(rows))


def chip_table(c: Chip) -> Table:
    """Everything known of one chip."""
    rows = [("name", c.name), ("vendor, generation, kind", f"{c.vendor}, {c.generation}, {c.kind}")]
    rows += [(f"peak {f}, dense", f"{si(p, 'FLOP/s')} · ridge {c.ridge(f):.0f} FLOP/B") for f, p in c.peaks.items()]
    rows += [(f"vector {f}", si(p, "FLOP/s")) for f, p in c.vector.items()]
    rows += [("memory", f"{si(c.capacity, 'B')} {c.memory_kind} at {si(c.bandwidth, 'B/s')}")]
    pairs = (
        ("last-level cache", si(c.cache, "B") if c.cache else None), ("cores", str(c.units) if c.units else None),
        ("link, one direction", f"{c.link_kind} {si(c.link, 'B/s')}" if c.link else None),
        ("host link, one direction", f"{c.host_kind} {si(c.host, 'B/s')}" if c.host else None),
        ("power", f"{c.tdp:.0f} W, idle {c.idle or 0:.0f} W" if c.tdp else None),
        ("price", f"{c.price.usd_per_hour:.2f} $/h, assumed {c.price.date} ({c.price.source})" if c.price else None),
        ("also called", ", ".join(c.aliases) or None), ("source", f"{c.source}, {c.date}" if c.source else None),
        ("note", c.note or None),
    )  # fmt: skip
    rows += [(k, v) for k, v in pairs if v]
    return Table((Column(c.id, False), Column("", False)), tuple(rows))


def chip_json(c: Chip) -> dict[str, Any]:
    """One chip in SI units."""
    return {
        "id": c.id, "name": c.name, "vendor": c.vendor, "generation": c.generation, "kind": c.kind,
        "peaks_flops": dict(c.peaks), "vector_flops": dict(c.vector), "bandwidth_bytes_per_second": c.bandwidth,
        "capacity_bytes": c.capacity, "cache_bytes": c.cache, "units": c.units, "link_bytes_per_second": c.link,
        "host_bytes_per_second": c.host, "tdp_watts": c.tdp, "idle_watts": c.idle,
        "price": asdict(c.price) if c.price else None,
        "ridge_flops_per_byte": {f: c.ridge(f) for f in c.peaks}, "source": c.source, "date": c.date, "note": c.note,
    }  # fmt: skip
