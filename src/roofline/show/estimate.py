"""Views of estimates: op by op on a chip, generation, serving, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from roofline.estimates.generate import Generation, Span, Speculation
from roofline.estimates.latency import Estimate, OpTime
from roofline.estimates.memory import Fit
from roofline.estimates.place import Placed
from roofline.estimates.pools import Pools
from roofline.estimates.serve import Serving
from roofline.machine.chip import Chip
from roofline.machine.fabric import Cluster
from roofline.machine.timing import matrix_format
from roofline.model.model import Model
from roofline.show.analysis import CSV_HEADER, csv_row, precision_json, precision_text, rank_text, step_text
from roofline.show.tables import Column, Table
from roofline.show.units import ratio, seconds, share, si

GRADES = {
    "A": "constants fitted on this chip",
    "B": "constants of its generation",
    "C": "constants from other chips",
    "-": "a law without constants",
}
TIMED_CSV_HEADER = (*CSV_HEADER, "floor", "expected", "low", "high", "bound", "grade")
RULES = {
    "vllm": "{share:g} of the memory, less weights, activations and overhead",
    "trtllm": "{share:g} of what weights, activations and overhead leave of the memory",
    "sglang": "{share:g} of the memory, less weights",
    "all": "what weights, activations and overhead leave of the memory",
}


def time_table(name: str, e: Estimate) -> Table:
    """One line for each op: work, time, speed of light, and what limits it."""
    a = e.analysis
    columns = (
        Column("Op", False), Column("Block", False, drop=1), Column("Layers", drop=4), Column("FLOPs", drop=3),
        Column("Bytes", drop=2), Column("FLOP/B"), Column("Floor"), Column("Expected"), Column("Share"),
        Column("Bound", False), Column("Grade", False, drop=5),
    )  # fmt: skip
    rows = tuple(_op_cells(op, e) for op in e.ops)
    total = (
        (
            "Total", "", "", si(a.flops, "FLOP"), si(a.bytes, "B"), ratio(a.intensity), seconds(e.serial_floor),
            seconds(e.time), "100.0 %", e.bound, e.grade,
        ),
    )  # fmt: skip
    title = f"{name}: {step_text(a.step)}{rank_text(a)} · {e.chip.name} · {precision_text(a.precision)}{_ridges(e)}"
    return Table(columns, rows, total, title)


def _ridges(e: Estimate) -> str:
    """FLOPs per byte from which the formats of the products are compute bound."""
    formats = dict.fromkeys(matrix_format(op.cost.op, e.target) for op in e.ops if op.kind in ("matmul", "experts"))
    return "".join(f" · ridge {e.chip.ridge(f):.0f} FLOP/B in {f}" for f in formats if f in e.chip.peaks)


def _op_cells(op: OpTime, e: Estimate) -> tuple[str, ...]:
    cost, pass_ = op.cost, op.kind == "quantise"
    work = ("", "", "") if pass_ else (si(cost.flops, "FLOP"), si(cost.bytes, "B"), ratio(cost.intensity))
    times = seconds(op.floor), seconds(op.expected), share(op.expected, e.time)
    return (op.name, cost.block, str(cost.layers), *work, *times, op.bound, op.each.grade)


def timed_csv_rows(estimates: Sequence[tuple[str, Estimate]]) -> list[tuple[object, ...]]:
    """The rows under TIMED_CSV_HEADER; a pass that quantises has times alone."""
    rows: list[tuple[object, ...]] = []
    for name, e in estimates:
        for op in e.ops:
            cost = csv_row(name, op.cost)
            if op.kind == "quantise":
                cost = (name, op.name, op.kind, op.cost.block, op.cost.layers, *(None for _ in cost[5:]))
            rows.append((*cost, op.floor, op.expected, *op.interval, op.bound, op.each.grade))
    return rows


def summary(e: Estimate) -> str:
    """The step in two lines."""
    low, high = e.interval
    return (
        f"expected {seconds(e.time)} (80 % of measurements within {seconds(low)} to {seconds(high)}), {e.bound} bound; "
        f"speed of light {seconds(e.serial_floor)} one op after another, {seconds(e.floor)} overlapped\n"
        f"memory needed {held(e.memory, e.chip)}; grade {e.grade}: {GRADES[e.grade]}"
    )


def place_text(where: Placed) -> str:
    """The chip, or how many of them in which layout."""
    return where.chip.name if where.chips == 1 else f"{where.chips} × {where.chip.name} ({where.layout.text()})"


def chips_text(where: Placed) -> str:
    """Whose rate it is."""
    return "this chip" if where.chips == 1 else f"all {where.chips} chips"


def held(memory: float, chip: Chip) -> str:
    """Weights, cache and state beside what the chip has."""
    beyond = "" if memory <= chip.capacity else ": does not fit, the times are those of a chip with more"
    return f"{si(memory, 'B')} of {si(chip.capacity, 'B')}{beyond}"


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
def tpot_text(g: Generation) -> str:
    """The time between tokens; a dash where only one is generated."""
    return span_text(g.tpot) if g.output > 1 else "– (one token)"


def generation_text(g: Generation) -> str:
    """The figures, each with its definition."""
    each = g.tokens_per_second_per_user
    user = "" if each is None else f", {each:,.1f} tokens/s per user"
    runs = f", in {len(g.waves)} waves of at most {g.waves[0].sequences}: no more fit" if len(g.waves) > 1 else ""
    lines = [
        f"{g.batch} × ({g.input} in, {g.output} out) on {place_text(g.where)}, {g.engine.name}{runs}",
        *([_drafts(g.speculation)] if g.speculation else []),
        "",
        f"TTFT     {span_text(g.ttft)}",
        "         time to first token: the prompts' prefill",
        f"TPOT     {tpot_text(g)}",
        "         time per output token after the first: (latency − TTFT) / (output − 1)",
        f"latency  {span_text(g.latency)}",
        "         until the last token of the batch",
        f"rate     {g.tokens_per_second:,.1f} tokens/s on {chips_text(g.where)}{user}",
        f"         generated tokens over latency{'; 1 / TPOT' if user else ''}",
        f"kernels  prefill: {shares_text(g.waves[0].prefill)}",
    ]
    if g.waves[0].decode is not None:
        lines.append(f"         decode: {shares_text(g.waves[0].decode)}")
    lines += [f"memory   {held(g.memory, g.chip)}", f"grade    {g.grade}: {GRADES[g.grade]}"]
    return "\n".join(lines)


def _drafts(s: Speculation) -> str:
    by = s.draft.name if s.draft else "n-grams"
    return f"{s.length} tokens a step drafted by {by}, each right with probability {s.acceptance:g}"


def generation_json(g: Generation) -> dict[str, Any]:
    """`roofline.generate/1`."""
    first = g.waves[0].prefill
    return {
        "schema": "roofline.generate/1",
        **_setting(first),
        **_spread(g.where),
        "engine": g.engine.id,
        "batch": g.batch,
        "input": g.input,
        "output": g.output,
        "waves": [w.sequences for w in g.waves],
        "ttft_seconds": span_json(g.ttft),
        "tpot_seconds": span_json(g.tpot) if g.output > 1 else None,
        "latency_seconds": span_json(g.latency),
        "tokens_per_second": g.tokens_per_second,
        "tokens_per_second_per_user": g.tokens_per_second_per_user,
        "prefill_shares": dict(first.shares),
        "decode_shares": dict(g.waves[0].decode.shares) if g.waves[0].decode else {},
        "memory_bytes": g.memory,
        "grade": g.grade,
        "speculation": _speculation_json(g.speculation) if g.speculation else None,
    }


def _setting(e: Estimate) -> dict[str, Any]:
    """What was asked of what."""
    return {
        "model": e.analysis.model.name,
        "precision": precision_json(e.analysis.precision),
        "chip": e.chip.id,
        "law": e.target.mode.name,
    }


def _spread(where: Placed) -> dict[str, Any]:
    """How many chips, in which layout."""
    return {"chips": where.chips, "layout": where.layout.text()}


def _speculation_json(s: Speculation) -> dict[str, Any]:
    return {"draft": s.draft.name if s.draft else None, "length": s.length, "acceptance": s.acceptance}


def serving_text(s: Serving) -> str:
    """The figures, each with its definition."""
    prefix = f", {s.cached_prefix} of them from the prefix cache" if s.cached_prefix else ""
    waiting = (
        f"; memory holds {s.held}, {s.in_flight - s.held} wait" if s.in_flight > s.held else f" of {s.held} that fit"
    )
    lines = [
        f"{s.input} in{prefix}, {s.output} out on {place_text(s.where)}, {s.engine.name}: {s.in_flight} in flight"
        f"{waiting}",
        "",
        f"TTFT     {span_text(s.ttft)}",
        "         arrival to first token: the step under way, queueing behind other prompts (M/G/1), own prefill",
        f"TPOT     {span_text(s.tpot)}",
        "         mean time between tokens after the first, other requests' prefill included",
        f"latency  {span_text(s.latency)}",
        "         TTFT + (output − 1) · TPOT",
        f"rate     {s.requests_per_second:,.3g} requests/s, {s.tokens_per_second:,.1f} tokens/s on "
        f"{chips_text(s.where)}, {s.tokens_per_second_per_user:,.1f} tokens/s per user",
        "         in flight over latency (Little's law); that times output; 1 / TPOT",
        f"kernels  decode: {shares_text(s.decode)}; prompts take {100 * s.prefill_share:.0f} % of the time",
        f"memory   {held(s.memory, s.chip)}",
        f"grade    {s.decode.grade}: {GRADES[s.decode.grade]}",
    ]
    return "\n".join(lines)


def serving_json(s: Serving) -> dict[str, Any]:
    """`roofline.serve/1`."""
    return {
        "schema": "roofline.serve/1",
        **_setting(s.decode),
        **_spread(s.where),
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


def pools_text(p: Pools) -> str:
    """Two pools: how many replicas of each, and what a request sees."""
    lines = [
        f"{p.input} in, {p.output} out, {p.engine.name}: {p.prefills} × prefill on {place_text(p.prefill)}, "
        f"{p.decodes} × decode on {place_text(p.decode)}: {p.chips} chips",
        "",
        f"TTFT      {span_text(p.ttft)}",
        "          prefill, what the transfer of the cache does not hide, first decode step; queueing apart",
        f"TPOT      {span_text(p.tpot)}",
        f"          one decode step of {p.concurrency} requests a replica; no prompt interferes",
        f"transfer  {span_text(p.transfer)}",
        f"          {si(p.cache, 'B')} of cache for each prompt, layer by layer beside the prefill",
        f"rate      {p.requests_per_second:,.3g} requests/s, {p.tokens_per_second:,.1f} tokens/s, "
        f"{p.tokens_per_second_per_chip:,.1f} per chip; {p.bottleneck} is the bottleneck",
        f"          prefill {p.prefill_requests_per_second:,.3g}, "
        f"decode {p.decode_requests_per_second:,.3g} requests/s",
    ]
    return "\n".join(lines)


def pools_json(model: Model, p: Pools) -> dict[str, Any]:
    """`roofline.serve.pools/1`."""
    return {
        "schema": "roofline.serve.pools/1",
        "model": model.name,
        "chip": p.prefill.chip.id,
        "engine": p.engine.id,
        "chips": p.chips,
        "prefill_layout": p.prefill.layout.text(),
        "decode_layout": p.decode.layout.text(),
        "prefill_replicas": p.prefills,
        "decode_replicas": p.decodes,
        "input": p.input,
        "output": p.output,
        "concurrency": p.concurrency,
        "cache_bytes": p.cache,
        "transfer_seconds": span_json(p.transfer),
        "ttft_seconds": span_json(p.ttft),
        "tpot_seconds": span_json(p.tpot),
        "prefill_requests_per_second": p.prefill_requests_per_second,
        "decode_requests_per_second": p.decode_requests_per_second,
        "requests_per_second": p.requests_per_second,
        "tokens_per_second": p.tokens_per_second,
        "bottleneck": p.bottleneck,
    }


# -- memory --------------------------------------------------------------------------------------------------------
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
    rule = RULES[f.engine.budget].format(share=f.engine.share)
    lines.append(f"{f.engine.name} leaves the KV cache {si(max(0.0, f.budget), 'B')}: {rule}")
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


# -- chips ---------------------------------------------------------------------------------------------------------
def chips_table(chips: dict[str, Chip]) -> Table:
    """One line for each chip of the catalog."""
    columns = (
        Column("Chip", False), Column("Name", False, drop=5), Column("bf16 or fp16"), Column("fp8", drop=3),
        Column("Memory"), Column("Bandwidth"), Column("Ridge", drop=2), Column("TDP", drop=4), Column("$/h", drop=1),
    )  # fmt: skip
    rows = []
    for c in chips.values():
        main = c.main_format
        rows.append((
            c.id, c.name, si(c.peak(main), "FLOP/s"), si(c.peaks["fp8"], "FLOP/s") if "fp8" in c.peaks else "",
            si(c.capacity, "B"), si(c.bandwidth, "B/s"), f"{c.ridge(main):.0f}", f"{c.tdp:.0f} W" if c.tdp else "",
            f"{c.price.usd_per_hour:.2f}" if c.price else "",
        ))  # fmt: skip
    return Table(columns, tuple(rows))


def chip_table(c: Chip) -> Table:
    """Everything known of one chip."""
    rows = [("name", c.name), ("vendor, generation, kind", ", ".join(v for v in (c.vendor, c.generation, c.kind) if v))]
    rows += [(f"peak {f}, dense", f"{si(p, 'FLOP/s')} · ridge {c.ridge(f):.0f} FLOP/B") for f, p in c.peaks.items()]
    rows += [(f"vector {f}", si(p, "FLOP/s")) for f, p in c.vector.items()]
    rows += [("memory", " ".join([si(c.capacity, "B"), *c.memory_kind.split(), "at", si(c.bandwidth, "B/s")]))]
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
    return Table((Column(c.id, False), Column("", False, wrap=True)), tuple(rows))


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


def clusters_table(clusters: Sequence[Cluster]) -> Table:
    """One line for each level of each cluster."""
    columns = (
        Column("Cluster", False), Column("Chip", False), Column("Level", False), Column("Size"), Column("Kind", False),
        Column("Bandwidth, one direction"), Column("Latency", drop=2), Column("Adds in the switch", False, drop=1),
    )  # fmt: skip
    rows = [
        (
            c.name if i == 0 else "", c.chip if i == 0 else "", level.name, str(level.size), level.kind,
            si(level.bandwidth, "B/s"), seconds(level.latency), "yes" if level.in_switch else "",
        )
        for c in clusters
        for i, level in enumerate(c.levels)
    ]  # fmt: skip
    return Table(columns, tuple(rows))


def cluster_json(c: Cluster) -> dict[str, Any]:
    """One cluster in SI units."""
    return {
        "id": c.name, "chip": c.chip, "chips": c.chips, "source": c.source, "date": c.date,
        "levels": [
            {
                "name": level.name, "size": level.size, "kind": level.kind,
                "bandwidth_bytes_per_second": level.bandwidth, "latency_seconds": level.latency,
                "in_switch": level.in_switch, "axes": list(level.axes),
            }
            for level in c.levels
        ],
    }  # fmt: skip
