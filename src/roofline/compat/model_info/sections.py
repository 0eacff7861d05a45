"""The sections of a report, as Markdown; every sentence is made of the report's own numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from roofline.compat.model_info import parts, why
from roofline.compat.model_info.asked import Asked
from roofline.compat.model_info.knobs import CACHE_LENGTHS, Point, ranking
from roofline.compat.model_info.reach import LARGEST_BATCH, Frontier, crossing, frontier
from roofline.compat.model_info.rules import PHASES, Phase, Rules
from roofline.estimates.training_memory import held
from roofline.model import modules as m
from roofline.model.model import Model
from roofline.show.plots import build
from roofline.show.report.mermaid import mermaid
from roofline.show.report.model_part import fingerprint
from roofline.show.tables import Column, Table, markdown
from roofline.units import ratio, seconds, share, si, whole
from roofline.work.analysis import Analysis, analyze
from roofline.work.explain import explain
from roofline.work.step import decode, prefill

DEGREES = (1, 2, 4, 8, 16, 32, 64)
FRONTIER = (2048, 4096, 8192, 16384)
HEAVIEST = 3
MODULES = 20
TERMS = (("weights", "weights"), ("activations", "activations"), ("KV cache", "cache"), ("temporary", "temporary"))


def sections(a: Asked, points: Sequence[Point]) -> Iterator[str]:
    """Headings, tables and sentences, in order."""
    yield f"# {a.model.name}"
    yield from _summary(a)
    yield "## Fingerprint"
    yield markdown(_pairs(_fingerprint(a.model)))
    if a.diagrams:
        yield "## Diagrams"
        yield "Arrows are the order in which modules run, not what each reads."
        yield f"```mermaid\n{mermaid(build.diagram(a.model))}\n```"
    yield "## Parameters by module"
    yield markdown(_parameters(a.model))
    yield "## Assumptions"
    yield from _assumptions(a)
    yield "## Formulas"
    yield markdown(_formulas(a))
    yield "## Bytes by term"
    yield markdown(_decomposition(a))
    yield "## Chips"
    yield markdown(_chips(a))
    yield "## Regimes"
    yield markdown(_regimes(a))
    yield from _lines(why.formats(a))
    yield from _lines([*why.unknown(a), *why.beyond(a)])
    if a.physical:
        yield "## Why they differ"
        yield markdown(why.differences(a))
        yield from _lines(why.causes(a))
    yield "## Categories"
    yield markdown(_categories(a))
    yield "## Decode over batch"
    yield markdown(_sweep(a, "decode", "batch", a.batches))
    yield _critical(a)
    if parts.every_experts(a.model):
        yield "## Decode, compute bound"
        yield from _frontier(a)
    yield "## Prefill over length"
    yield markdown(_sweep(a, "prefill", "length", a.lengths))
    if a.left_out:
        yield f"Beyond the context of {whole(a.model.context or 0)}, left out: {', '.join(map(whole, a.left_out))}."
    yield "## Memory"
    yield markdown(_pairs(_memory(a)))
    yield "## Communication"
    yield markdown(_communication(a))
    if points:
        yield "## Sensitivity"
        yield from _ranking(a, points)


def _lines(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield "\n".join(lines)


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    return Table((Column("Property", False), Column("Value", False)), tuple(rows))


# -- the model -----------------------------------------------------------------------------------------------------
def _summary(a: Asked) -> Iterator[str]:
    """What the figures below come to, in sentences made of them."""
    limits = []
    for phase, (one, other) in a.accounts.items():
        limits.append(
            f"- {phase}: {one.intensity:.2f} FLOP/B {one.rules.name}, {other.intensity:.2f} {other.rules.name}; "
            f"{one.regime} and {other.regime} bound, {seconds(one.time)} and {seconds(other.time)}"
        )
    where = f"on {a.chip.name}" if a.ep == 1 else f"on each of {a.ep} ranks, {a.chip.name}"
    yield (
        f"{a.batch} × {a.length} tokens {where}, peak {si(a.on.peak, 'FLOP/s')} in {a.fmt}, "
        f"knee {a.on.knee:.2f} FLOP/B:"
    )
    yield "\n".join(limits)
    decoding = a.accounts["decode"][0]
    moved = {t.category: t.bytes for t in decoding.terms}
    heaviest = max(moved, key=lambda k: moved[k])
    weights, cache = (sum(getattr(t, f) for t in decoding.terms) for f in ("weights", "cache"))
    yield (
        f"In decode, {decoding.rules.name}: {heaviest} {share(moved[heaviest], decoding.bytes)} of the bytes; weights "
        f"{share(weights, decoding.bytes)}, the cache {share(cache, decoding.bytes)}."
    )


def _fingerprint(model: Model) -> list[tuple[str, str]]:
    """The report's own fingerprint, and what experts hold of the parameters, with and without the shared ones."""
    rows = [(str(name), str(value)) for name, value in fingerprint(model).rows]
    if parts.every_experts(model):
        routed = held(model.modules()).experts
        beside = sum(n * x.parameters for x, n in model.modules() if x.name.startswith("shared_"))
        rows += [
            ("routed experts' share of the parameters", share(routed, model.parameters)),
            ("routed and shared experts' share", share(routed + beside, model.parameters)),
        ]
    return rows


def _parameters(model: Model) -> Table:
    places = (
        ("embedding", model.embedding, 1), *((b.name, b.modules, n) for b, n in model.blocks), ("head", model.head, 1),
    )  # fmt: skip
    found = [(f"{place}.{x.name}", n, x.parameters) for place, modules, n in places for x in modules if x.parameters]
    found.sort(key=lambda row: -row[1] * row[2])
    rows = [
        (name, str(n), whole(each), whole(n * each), share(n * each, model.parameters))
        for name, n, each in found[:MODULES]
    ]
    columns = (Column("Module", False), Column("Instances"), Column("Each"), Column("Total"), Column("Share"))
    return Table(columns, tuple(rows), (("All", "", "", whole(model.parameters), "100.0 %"),))


# -- the rules -----------------------------------------------------------------------------------------------------
def _assumptions(a: Asked) -> Iterator[str]:
    rows = [
        (
            r.name, why.residency(r), f"{r.fusion:g}", f"{r.elementwise:g}", "flash" if r.flash else "scores",
            "at peak" if r.all_at_peak else f"{r.saturation:g}", f"{r.scalar:g}", "Poisson" if r.poisson else "exact",
            "yes" if r.network else "no",
        )
        for r in a.rules
    ]  # fmt: skip
    columns = (
        Column("Rules", False), Column("Weight residency (attention/dense/experts)"), Column("Fusion"),
        Column("Elementwise"), Column("Attention", False), Column("Saturation, rows"), Column("Scalar efficiency"),
        Column("Experts", False), Column("Network", False),
    )  # fmt: skip
    yield markdown(Table(columns, tuple(rows)))
    r = a.rules[0]
    yield (
        f"Bytes of an element: {r.weight_bytes:g} of weights, {r.activation_bytes:g} of activations, "
        f"{r.cache_bytes:g} of the cache. Training: {r.training_flops:g} times the FLOPs and {r.training_bytes:g} "
        f"times the bytes of a prefill. Peak: {si(a.on.peak, 'FLOP/s')}, that of {a.fmt}."
    )


def _analyses(a: Asked) -> list[tuple[str, Analysis]]:
    """Prefill and decode of a rank, of the whole model where the experts do not divide."""
    if a.physical:
        return [(phase, a.physical[phase].analysis) for phase in PHASES if phase != "training"]
    steps = (("prefill", prefill(a.batch, a.length)), ("decode", decode(a.batch, a.length)))
    return [(name, analyze(a.model, step)) for name, step in steps]


def _formulas(a: Asked) -> Table:
    """The library's own formulas of the heaviest ops, each once, with the numbers of the first layer that has it."""
    rows = []
    for name, analysis in _analyses(a):
        ordered = sorted(analysis.ops, key=lambda c: -c.flops)
        for op in list(dict.fromkeys(c.name for c in ordered))[:HEAVIEST]:
            found = explain(analysis, op)
            figure = found.figures[0]
            where = found.cost.block
            rows.append((name, op, where, str(figure.formula), figure.filled, whole(int(figure.value))))
    names = ("Phase", "Op", "Layer", "FLOPs of a layer", "With numbers", "FLOPs")
    return Table(tuple(Column(n, n == "FLOPs") for n in names), tuple(rows))


def _decomposition(a: Asked) -> Table:
    rows = []
    for phase, pair in a.accounts.items():
        for one in pair:
            sums = [sum(getattr(t, field) for t in one.terms) for _, field in TERMS]
            shares = [f"{si(v, 'B')} ({share(v, one.bytes)})" for v in sums]
            rows.append((phase, one.rules.name, *shares, si(one.bytes, "B")))
    columns = (Column("Phase", False), Column("Rules", False), *(Column(n) for n, _ in TERMS), Column("All"))
    return Table(columns, tuple(rows))


def _chips(a: Asked) -> Table:
    """Peaks, bandwidths and knees of the chip and its targets, in the report's format or the nearest they have."""
    rows = [(c.name, fmt, si(p.peak, "FLOP/s"), si(p.bandwidth, "B/s"), f"{p.knee:.2f}") for c, fmt, p in a.chips]
    columns = (
        Column("Chip", False), Column("Format", False), Column("Peak"), Column("Bandwidth"), Column("Knee, FLOP/B"),
    )  # fmt: skip
    return Table(columns, tuple(rows))


# -- the steps -----------------------------------------------------------------------------------------------------
def _regimes(a: Asked) -> Table:
    rows: list[tuple[str, ...]] = []
    for phase, pair in a.accounts.items():
        rows += [
            (
                phase, one.rules.name, si(one.flops, "FLOP"), si(one.bytes, "B"), f"{one.intensity:.2f}",
                seconds(one.time), f"{100 * one.mfu:.1f} %", f"{one.tokens_per_second:,.1f}", one.regime,
            )
            for one in pair
        ]  # fmt: skip
        if phase in a.physical:
            rows.append((phase, "physical", *_real(a, phase)))
    columns = (
        Column("Phase", False), Column("Rules", False), Column("FLOPs"), Column("Bytes"), Column("FLOP/B"),
        Column("Time"), Column("MFU"), Column("Tokens/s"), Column("Bound", False),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _real(a: Asked, phase: Phase) -> tuple[str, ...]:
    p, tokens = a.physical[phase], a.accounts[phase][0].tokens
    work = (si(p.flops, "FLOP"), si(p.bytes, "B"), ratio(p.flops / p.bytes))
    if p.time is None or p.mfu is None:
        return (*work, "", "", "", "")
    return (*work, seconds(p.time), f"{100 * p.mfu:.1f} %", f"{tokens / p.time:,.1f}", p.bound)


def _categories(a: Asked) -> Table:
    rows = []
    for phase, (one, two) in a.accounts.items():
        for term in one.terms:
            other = two.term(term.category)
            first, second = term.flops / term.bytes, other.flops / other.bytes
            rows.append((
                phase, term.category, f"{first:.4g}", f"{second:.4g}", f"{100 * (second / first - 1):+.1f} %",
                si(term.bytes, "B"), si(other.bytes, "B"), share(term.flops, one.flops), share(term.bytes, one.bytes),
            ))  # fmt: skip
    first_name, second_name = (r.name for r in a.rules)
    columns = (
        Column("Phase", False), Column("Category", False), Column(f"FLOP/B {first_name}"),
        Column(f"FLOP/B {second_name}"), Column("Change"), Column(f"Bytes {first_name}"),
        Column(f"Bytes {second_name}"), Column(f"FLOPs share {first_name}"), Column(f"Bytes share {first_name}"),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _sweep(a: Asked, phase: Phase, name: str, values: Sequence[int]) -> Table:
    rows = []
    for value in values:
        pair = [a.account(phase, r, **{name: value}) for r in a.rules]
        rows.append((whole(value), *(t for p in pair for t in (f"{p.intensity:.2f}", seconds(p.time), p.regime))))
    kinds = [f"{what} {r.name}" for r in a.rules for what in ("FLOP/B", "time", "bound")]
    return Table((Column(name), *(Column(k) for k in kinds)), tuple(rows))


def _critical(a: Asked) -> str:
    said = [f"{rules.name}: {_crossed(a, rules)}" for rules in a.rules]
    return f"Batch from which on decode's intensity is at the knee, {a.on.knee:.2f} FLOP/B, {'; '.join(said)}."


def _crossed(a: Asked, rules: Rules) -> str:
    found = crossing(a.batches, lambda b: a.account("decode", rules, batch=b).intensity, a.on.knee)
    if found is None:
        return f"none up to {whole(max(a.batches))}"
    return f"{found.batch:.0f} already, the smallest asked for" if found.already else f"{found.batch:.3f}"


def _frontier(a: Asked) -> Iterator[str]:
    """From which batch of a rank on arithmetic keeps up, over expert parallelism and length."""
    shared = [e.experts for e in parts.every_experts(a.model)]
    degrees = sorted({a.ep, *(d for d in DEGREES if all(n % d == 0 for n in shared))})
    lengths = sorted({a.length, *(n for n in FRONTIER if a.model.context is None or n <= a.model.context)})
    rows = []
    for ep in degrees:
        for n in lengths:
            f = frontier(a.model, ep=ep, length=n, on=a.on, rules=a.rules[0])
            rows.append((str(ep), whole(n), f"{f.memory:.1f}", ratio(f.network), _kept_up(f)))
    names = ("EP", "Length", "FLOP/B of cache, batch → ∞", "FLOP/B of dispatch", "Smallest batch of a rank")
    yield markdown(Table(tuple(Column(n) for n in names), tuple(rows)))
    if a.on.link is None:
        yield f"The link of {a.chip.name} is not known: no batch is limited by the network."


def _kept_up(f: Frontier) -> str:
    if f.batch is not None:
        return whole(f.batch)
    return f"none: {f.limiter}" + (f", up to {whole(LARGEST_BATCH)}" if f.limiter in ("either", "memory") else "")


def _memory(a: Asked) -> list[tuple[str, str]]:
    """One rank's, as that report adds it up: inference, and training with gradients, state and saved activations."""
    rules, dense = a.rules[0], held(a.model.modules()).dense
    found = [(x, n) for x, n in a.model.modules() if isinstance(x, m.Experts)]
    routed = sum(n * parts.held(e, a.ep) * e.each for e, n in found)
    cache = rules.cache_bytes * a.batch * a.model.kv_elements(a.length)
    saved = 10 * a.batch * a.length * a.model.hidden * len(a.model.layers) * rules.activation_bytes
    weights = rules.weight_bytes * (dense + routed)
    state = a.state * (dense + routed)
    inference, training = weights + cache, 2 * weights + state + saved
    return [
        ("parameters but routed experts", si(rules.weight_bytes * dense, "B")),
        ("routed experts of a rank", si(rules.weight_bytes * routed, "B")),
        ("KV cache", si(cache, "B")), ("gradients", si(weights, "B")),
        ("optimizer state and master copy", si(state, "B")), ("saved activations", si(saved, "B")),
        ("inference", si(inference, "B")), ("training", si(training, "B")),
        ("memory of the chip", si(a.capacity, "B")), ("inference fits", "yes" if inference <= a.capacity else "no"),
        ("training fits", "yes" if training <= a.capacity else "no"),
    ]  # fmt: skip


def _communication(a: Asked) -> Table:
    rows = []
    for phase, (one, _) in a.accounts.items():
        rows.append((phase, si(one.dispatch_bytes, "B"), si(one.network_bytes, "B"), seconds(one.network)))
    names = ("Phase", "Dispatched and combined", "To other chips", "Time")
    return Table(tuple(Column(n, n != "Phase") for n in names), tuple(rows))


def _ranking(a: Asked, points: Sequence[Point]) -> Iterator[str]:
    rows = [(knob, f"{100 * effect:.1f} %") for knob, effect in ranking(points)]
    heading = f"Effect on the median decode time, {a.rules[1].name}"
    yield markdown(Table((Column("Knob", False), Column(heading)), tuple(rows)))
    beyond = [n for n in CACHE_LENGTHS if a.model.context is not None and n > a.model.context]
    if beyond:
        yield f"Of the lengths of the cache {', '.join(map(whole, beyond))} are beyond the context, {a.model.context}."
