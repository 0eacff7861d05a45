"""Sections about the work: memory, bytes and FLOPs, regimes, critical sizes, communication, time, formulas."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.declared.errors import InputError
from roofline.declared.numbers.units import counted, percent, seconds, share, si, whole
from roofline.kernels.power import draw_of
from roofline.views.report.parts.section import PHASE, Section
from roofline.views.report.parts.subject import Report
from roofline.views.report.parts.summary import critical_batch_text
from roofline.views.report.plots_of import report_plot
from roofline.views.text.inference.fit import activations_text, budget_line, tier_rows
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.markers import work_shares
from roofline.whatif.query.regimes import MOST, dominance
from roofline.whatif.sweep.crossovers import floor_bound
from roofline.work.analysis import Analysis, OpCost, analyze
from roofline.work.explain import explained
from roofline.work.ops import Communicate


def memory_section(r: Report) -> Section:
    """Memory of the fullest chip, by term and over context."""
    f = r.fit
    m = f.memory
    rows = (
        ("weights", m.weights, f.formats.text()),
        ("KV cache", m.cache, f"{r.batch} × {f.context} tokens"),
        *((("state", m.state, f"recurrent state of {r.batch} sequences"),) if m.state else ()),
        ("activations", m.activations, activations_text(f)),
        ("overhead", m.overhead, f.engine.source),
    )
    total = (("sum", m.total, f"of {si(m.capacity, 'B')}"), *tier_rows(f))
    longest = "any" if f.longest_context is None else whole(f.longest_context)
    fewest = "none of those tried" if f.fewest is None else f"{f.fewest_chips} ({f.fewest.text()})"
    text = (
        f"{budget_line(f)}.",
        f"Largest batch at {f.context} tokens: {whole(f.largest_batch)}. Longest context at a batch of {f.batch}: "
        f"{longest}. Fewest chips: {fewest}.",
    )
    curve = report_plot(r, "memory")
    fields = (Column("Term"), Column("Fullest chip", "B"), Column("What"))
    return Section("Memory", text, (Table(fields, rows, total, name="memory"),), (("Memory over context", curve),))


def terms(r: Report) -> Section:
    """Weights, activations, cache and scratch of one rank, unfused and fused, and which of them dominate."""
    rows = []
    for name, step in r.steps:
        for traffic in ("unfused", "fused", "floor"):
            a = r.point.at(step, traffic).analysis
            moved = a.moved
            terms = (moved.weights, moved.input + moved.output, moved.cache, moved.scratch, a.bytes)
            rows.append((name, traffic, a.flops, *map(float, terms), float(a.intensity)))
    fields = (
        PHASE, Column("Traffic"), Column("FLOPs", "FLOP"), Column("Weights", "B"), Column("Activations", "B"),
        Column("KV cache", "B"), Column("Scratch", "B"), Column("All bytes", "B"), Column("Intensity", "FLOP/B"),
    )  # fmt: skip
    tests = tuple(dominance(r.point))
    tested = tuple(
        (
            t.phase, t.term, "unfused" if t.unfused else "fused", t.share, t.threshold,
            "dominates" if t.dominates else "no", t.doubled, t.halved,
        )
        for t in tests
    )  # fmt: skip
    heads = (
        PHASE, Column("Term"), Column("Traffic"), Column("Share of the bytes", "share"), Column("Test: above", "share"),
        Column("Answer"), Column("Share at twice the context", "share"), Column("Bytes if halved", "factor"),
    )  # fmt: skip
    lines = [
        f"{t.phase.capitalize()}, {'unfused' if t.unfused else 'fused'} traffic: {percent(t.share)} of the bytes are "
        f"{t.term}. Halving them would cut total bytes to {percent(t.halved)}."
        for t in tests
        if t.dominates
    ]
    tables = (Table(fields, tuple(rows), name="terms"), Table(heads, tested, name="dominance"))
    picture = ("Shares of FLOPs, bytes and time", report_plot(r, "shares"))
    return Section("Bytes and FLOPs by term", tuple(lines), tables, (picture,))


def regimes(r: Report) -> Section:
    """Prefill, decode and, if requested, training on the roofline."""
    chip, stages = r.deployment.chip, r.layout.pp
    rows: list[tuple[TableCell, ...]] = []
    t = r.training
    if t is not None and not isinstance(t, InputError):
        busy = t.micro(t.stages[0])
        a = busy.analysis
        rows.append((
            "training", t.hardware_flops, float(a.intensity), t.time, t.floor, t.mfu, t.tokens_per_second, busy.bound,
            t.grade,
        ))  # fmt: skip
    for name, e in r.estimates:
        a = e.analysis
        rows.append((
            name, a.flops, float(a.intensity), float(e.time), float(e.serial_floor), float(e.mfu),
            r.tokens_per_second(e), e.bound, e.grade,
        ))  # fmt: skip
    fields = (
        PHASE, Column("FLOPs", "FLOP"), Column("Intensity", "FLOP/B"), Column("Expected", "s"),
        Column("Floor", "s"), Column("MFU", "share"), Column("Tokens/s", "tokens/s"), Column("Bound"),
        Column("Grade"),
    )  # fmt: skip
    ridges = ", ".join(f"{f} {chip.ridge(f):.1f}" for f in chip.peaks)
    lines = [f"Ridge of {chip.name}, FLOP/B: {ridges}."]
    if stages > 1:
        lines.append(
            f"Prefill and decode are one pass of the whole batch through the {stages} stages in turn. In TTFT and TPOT "
            "the stages work on different groups of it at once."
        )
    if t is not None and not isinstance(t, InputError):
        lines.append(
            "FLOPs are of all chips in training, of one rank in prefill and decode. Intensity and bound of training "
            f"are of a micro-batch of {t.micro_batch} on the first stage."
        )
    for name, e in r.estimates:
        lines.append(
            f"{name.capitalize()}: compute takes {seconds(e.compute_time)} at full peak, and memory takes "
            f"{seconds(e.memory_time)} at full bandwidth ({seconds(e.traffic_time)} with fused traffic). The floor is "
            f"set by {floor_bound(e)}; the expected time is {e.time / e.serial_floor:.2f} times the floor."
        )
    table = Table(fields, tuple(rows), name="regimes")
    pictures = [("Roofline, op by op", report_plot(r, "roofline"))]
    if draw_of(chip) is not None:
        pictures.append(("Energy roofline, op by op", report_plot(r, "energy")))
    return Section("Regimes", tuple(lines), (table,), tuple(pictures))


def tokens(n: int) -> str:
    """A number of tokens as text."""
    return counted(n, "token")


def critical_section(r: Report) -> Section:
    """Critical batch size and lengths, with their sweeps."""
    c, sequences = r.critical, counted(r.now.batch, "sequence")
    lines = [
        "A step is compute bound where compute at full peak takes longer than its least traffic at full bandwidth"
        f"{'' if r.deployment.chips == 1 else ', and longer than communication'}.",
        critical_batch_text(r),
    ]
    if c.beyond == 1:
        lines.append(f"No batch up to {whole(MOST)} per replica makes decode compute bound at any context.")
    elif c.beyond is not None:
        lines.append(
            f"From {tokens(c.beyond)} of context on, no batch up to {whole(MOST)} per replica makes it compute bound."
        )
    if c.prompt is None:
        lines.append(f"No prompt of {sequences} up to {whole(c.longest)} tokens is compute bound.")
    else:
        lines.append(f"A prefill of {sequences} becomes compute bound from {tokens(c.prompt)} on.")
    if not r.model.kv_bytes(1):
        lines.append("There is no KV cache that grows with the context.")
    elif c.cache is None:
        lines.append(f"Decode of {sequences} reads more weights than cache up to {tokens(c.longest)}.")
    else:
        lines.append(f"Decode of {sequences} moves more cache than weights from {tokens(c.cache)} on.")
    rows = (
        ("decode batch, compute bound", c.batch), ("context beyond any batch", c.beyond),
        ("prompt, compute bound", c.prompt), ("context, more cache than weights", c.cache),
    )  # fmt: skip
    table = Table((Column("Critical"), Column("From", "count")), rows, name="critical")
    pictures = (
        ("Decode over batch", report_plot(r, "sweep")),
        ("Prefill over the prompt", report_plot(r, "sweep", phase="prefill", over="context")),
        ("Decode over context", report_plot(r, "sweep", over="context")),
    )
    return Section("Critical batch and length", tuple(lines), (table,), pictures)


def communication(r: Report) -> Section | None:
    """Every collective of a step; None if there is none."""
    sent = [(name, e, op, op.cost.op) for name, e in r.estimates for op in e.ops if isinstance(op.cost.op, Communicate)]
    if not sent:
        return None
    rows = tuple(
        (
            name, op.name, work.collective, int(work.ranks), op.cost.layers, float(op.expected), float(op.floor),
            float(e.part(op)),
        )
        for name, e, op, work in sent
    )  # fmt: skip
    fields = (
        PHASE, Column("Op"), Column("Collective"), Column("Ranks", "count"), Column("Times", "count"),
        Column("Expected", "s"), Column("Floor", "s"), Column("Share of the step", "share"),
    )  # fmt: skip
    lines = [
        f"{name.capitalize()}: communication takes {seconds(e.communication_time)} of {seconds(e.time)}, "
        f"{share(e.communication_time, e.time)}."
        for name, e in r.estimates
    ]
    t = r.training
    if t is not None and not isinstance(t, InputError) and t.exposed:
        said = ", ".join(f"{axis.upper()} {seconds(value)}" for axis, value in t.exposed.items())
        lines.append(f"Training: {said} of communication are exposed in a step of {seconds(t.time)}.")
    return Section("Communication", tuple(lines), (Table(fields, rows, name="communication"),))


def heaviest(r: Report) -> Section:
    """Every op of a step, the longest first."""
    rows = tuple(
        (
            name, op.name, op.kind, op.cost.block, float(op.cost.flops), float(op.cost.bytes), float(op.expected),
            float(op.floor), float(e.part(op)), op.bound,
        )
        for name, e in r.estimates
        for op in sorted(e.ops, key=lambda o: -o.expected)
    )  # fmt: skip
    fields = (
        PHASE, Column("Op"), Column("Kind"), Column("Block"), Column("FLOPs", "FLOP"), Column("Bytes", "B"),
        Column("Expected", "s"), Column("Floor", "s"), Column("Share", "share"), Column("Bound"),
    )  # fmt: skip
    shares = {name: work_shares(e.analysis) for name, e in r.estimates}
    lines = [
        f"{name.capitalize()}: most FLOPs are in {_largest(of['FLOPs'])}, most bytes in {_largest(of['bytes'])}."
        for name, of in shares.items()
    ]
    return Section("Where the time goes", tuple(lines), (Table(fields, rows, name="time"),))


def _largest(shares: Mapping[str, float]) -> str:
    name, value = max(shares.items(), key=lambda item: item[1])
    return f"{name} ({percent(value)})"


def _heaviest(a: Analysis) -> list[OpCost]:
    """The three ops with the most FLOPs, each name once."""
    by_name = {c.name: c for c in sorted(a.ops, key=lambda c: c.flops)}
    return sorted(by_name.values(), key=lambda c: -c.flops)[:3]


def formulas(r: Report) -> Section:
    """Formulas of the heaviest ops with numbers filled in."""
    analyses = [(name, analyze(r.model, step, precision=r.now.asked.formats)) for name, step in r.steps]
    rows = tuple(
        (name, cost.name, figure.name, str(figure.formula), figure.filled, figure.value)
        for name, a in analyses
        for cost in _heaviest(a)
        for figure in explained(a, cost.name).figures[:2]
    )
    fields = (
        PHASE, Column("Op"), Column("Figure"), Column("Formula"), Column("With numbers"), Column("Of a layer", "count"),
    )  # fmt: skip
    about = f"The three ops with most FLOPs, in the whole model. `roofline explain {r.model.name} OP` shows any other."
    return Section("Worked formulas", (about,), (Table(fields, rows, name="formulas"),))
