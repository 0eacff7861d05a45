"""The sections of a report in Markdown; every sentence is built from the report's own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline.declared.numbers.maths import ceil_div
from roofline.declared.numbers.units import ratio, seconds, share, si, whole
from roofline.doors.compat.model_info import why
from roofline.doors.compat.model_info.account import Account
from roofline.doors.compat.model_info.frontier import LARGEST_BATCH, Frontier, frontier, frontier_batch
from roofline.doors.compat.model_info.knobs import CACHE_LENGTHS, KnobPoint, ranking
from roofline.doors.compat.model_info.outline import every_experts
from roofline.doors.compat.model_info.request import ReportRequest
from roofline.doors.compat.model_info.rules import PHASES, ReportPhase, Rules
from roofline.doors.compat.model_info.why import why_table
from roofline.model import modules as m
from roofline.model.model import Model
from roofline.model.summary import fingerprint
from roofline.training.memory.workspace import parameters
from roofline.views.plots.build import diagram_plot
from roofline.views.report.mermaid import mermaid
from roofline.work.analysis import Analysis, analyze
from roofline.work.explain import explained
from roofline.work.step import decode, prefill

DEGREES = (1, 2, 4, 8, 16, 32, 64)
FRONTIER = (2048, 4096, 8192, 16384)
HEAVIEST = 3
MODULES = 20
TERMS = (("weights", "weights"), ("activations", "activations"), ("KV cache", "cache"), ("temporary", "temporary"))


def markdown_sections(a: ReportRequest, points: Sequence[KnobPoint]) -> Iterator[str]:
    """Headings, tables and sentences in order."""
    yield f"# {a.model.name}"
    yield from _summary(a)
    yield "## Fingerprint"
    yield _properties(_fingerprint(a.model))
    if a.diagrams:
        yield "## Diagrams"
        yield "Arrows are the order in which modules run, not what each reads."
        yield f"```mermaid\n{mermaid(diagram_plot(a.model))}\n```"
    yield "## Parameters by module"
    yield _parameters(a.model)
    yield "## Assumptions"
    yield from _assumptions(a)
    yield "## Formulas"
    yield _formulas(a)
    yield "## Bytes by term"
    yield _decomposition(a)
    yield "## Chips"
    yield _chips(a)
    yield "## Regimes"
    yield _regimes(a)
    yield from _lines(why.formats_row(a))
    yield from _lines([*why.unknown(a), *why.beyond(a)])
    if a.physical:
        yield "## Why they differ"
        yield why.differences(a)
        yield from _lines(why.causes(a))
    yield "## Categories"
    yield _categories(a)
    yield "## Decode over batch"
    yield _sweep(a, "decode", "batch", a.batches)
    yield _critical(a)
    if every_experts(a.model):
        yield "## Decode, compute bound"
        yield from _frontier(a)
    yield "## Prefill over length"
    yield _sweep(a, "prefill", "length", a.lengths)
    if a.left_out:
        yield f"Beyond the context of {whole(a.model.context or 0)}, left out: {', '.join(map(whole, a.left_out))}."
    yield "## Memory"
    yield _properties(_memory(a))
    yield "## Communication"
    yield _communication(a)
    if points:
        yield "## Sensitivity"
        yield from _ranking(a, points)


def _lines(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield "\n".join(lines)


def _properties(rows: Sequence[tuple[str, str]]) -> str:
    return why_table(rows, dict.fromkeys(("Property", "Value"), ""))


# -- the model -----------------------------------------------------------------------------------------------------
def _summary(a: ReportRequest) -> Iterator[str]:
    """Summary sentences of the figures that follow."""
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
    yield (
        f"In decode, {decoding.rules.name}: {heaviest} {share(moved[heaviest], decoding.bytes)} of the bytes; weights "
        f"{share(decoding.sum('weights'), decoding.bytes)}, the cache {share(decoding.sum('cache'), decoding.bytes)}."
    )


def _fingerprint(model: Model) -> list[tuple[str, str]]:
    """The report's fingerprint of the model, and the experts' share of parameters with and without shared ones."""
    rows = list(fingerprint(model))
    if every_experts(model):
        routed = int(parameters(model.modules()).experts)
        beside = sum(n * x.parameters for x, n in model.modules() if x.name.startswith("shared_"))
        rows += [
            ("routed experts' share of the parameters", share(routed, model.parameters)),
            ("routed and shared experts' share", share(routed + beside, model.parameters)),
        ]
    return rows


def _parameters(model: Model) -> str:
    rows = [
        (f"{place}.{x.name}", n, x.parameters, n * x.parameters, n * x.parameters / model.parameters)
        for place, x, n in model.placed()
        if x.parameters
    ]
    rows.sort(key=lambda row: -row[3])
    units = {"Module": "", "Instances": "plain", "Each": "count", "Total": "count", "Share": "share"}
    return why_table(rows[:MODULES], units, (("All", "", "", model.parameters, 1.0),))


# -- the rules -----------------------------------------------------------------------------------------------------
def _assumptions(a: ReportRequest) -> Iterator[str]:
    rows = [
        (
            r.name, why.residency(r), r.fusion, r.elementwise, "flash" if r.flash else "scores",
            "at peak" if r.all_at_peak else r.saturation, r.scalar, "Poisson" if r.poisson else "exact",
            "yes" if r.network else "no",
        )
        for r in a.rules
    ]  # fmt: skip
    yield why_table(rows, {
        "Rules": "", "Weight residency (attention/dense/experts)": "plain", "Fusion": "plain", "Elementwise": "plain",
        "Attention": "", "Saturation, rows": "plain", "Scalar efficiency": "plain", "Experts": "", "Network": "",
    })  # fmt: skip
    r = a.rules[0]
    yield (
        f"Bytes of an element: {r.weight_bytes:g} of weights, {r.activation_bytes:g} of activations, "
        f"{r.cache_bytes:g} of the cache. Training: {r.training_flops:g} times the FLOPs and {r.training_bytes:g} "
        f"times the bytes of a prefill. Peak: {si(a.on.peak, 'FLOP/s')}, that of {a.fmt}."
    )


def _analyses(a: ReportRequest) -> list[tuple[str, Analysis]]:
    """Prefill and decode of a rank; of the whole model if the experts do not divide."""
    if a.physical:
        return [(phase, a.physical[phase].analysis) for phase in PHASES if phase != "training"]
    steps = (("prefill", prefill(a.batch, a.length)), ("decode", decode(a.batch, a.length)))
    return [(name, analyze(a.model, step)) for name, step in steps]


def _formulas(a: ReportRequest) -> str:
    """The library's formulas of the heaviest ops, each once, with the numbers of the first layer that has it."""
    rows = []
    for name, analysis in _analyses(a):
        ordered = sorted(analysis.ops, key=lambda c: -c.flops)
        for op in list(dict.fromkeys(c.name for c in ordered))[:HEAVIEST]:
            told = explained(analysis, op)
            figure = told.figures[0]
            rows.append((name, op, told.block, figure.text, figure.filled, figure.value))
    names = ("Phase", "Op", "Layer", "FLOPs of a layer", "With numbers")
    return why_table(rows, {**dict.fromkeys(names, ""), "FLOPs": "count"})


def _decomposition(a: ReportRequest) -> str:
    rows = []
    for phase, one in _each(a):
        sums = [one.sum(field) for _, field in TERMS]
        rows.append((phase, one.rules.name, *(f"{si(v, 'B')} ({share(v, one.bytes)})" for v in sums), one.bytes))
    return why_table(rows, {"Phase": "", "Rules": "", **{name: "plain" for name, _ in TERMS}, "All": "B"})


def _each(a: ReportRequest) -> Iterator[tuple[ReportPhase, Account]]:
    return ((phase, one) for phase, pair in a.accounts.items() for one in pair)


def _chips(a: ReportRequest) -> str:
    """Peaks, bandwidths and ridge points of the chips in the report's format or the nearest supported one."""
    rows = [(c.name, fmt, p.peak, p.bandwidth, f"{p.knee:.2f}") for c, fmt, p in a.chips]
    return why_table(rows, {"Chip": "", "Format": "", "Peak": "FLOP/s", "Bandwidth": "B/s", "Knee, FLOP/B": "plain"})


# -- the steps -----------------------------------------------------------------------------------------------------
def _regimes(a: ReportRequest) -> str:
    rows: list[tuple[object, ...]] = []
    for phase, pair in a.accounts.items():
        for one in pair:
            work = (one.flops, one.bytes, f"{one.intensity:.2f}")
            rate = (one.time, one.mfu, f"{one.tokens_per_second:,.1f}", one.regime)
            rows.append((phase, one.rules.name, *work, *rate))
        if phase in a.physical:
            p = a.physical[phase]
            rate_text = "" if p.time is None else f"{pair[0].tokens / p.time:,.1f}"
            timed = (p.time, p.mfu, rate_text, p.bound)
            rows.append((phase, "physical", p.flops, p.bytes, ratio(p.flops / p.bytes), *timed))
    return why_table(rows, {
        "Phase": "", "Rules": "", "FLOPs": "FLOP", "Bytes": "B", "FLOP/B": "plain", "Time": "s", "MFU": "share",
        "Tokens/s": "plain", "Bound": "",
    })  # fmt: skip


def _categories(a: ReportRequest) -> str:
    rows = []
    for phase, (one, two) in a.accounts.items():
        for term in one.terms:
            other = two.term(term.category)
            first, second = term.flops / term.bytes, other.flops / other.bytes
            rows.append((
                phase, term.category, f"{first:.4g}", f"{second:.4g}", f"{100 * (second / first - 1):+.1f} %",
                term.bytes, other.bytes, term.flops / one.flops, term.bytes / one.bytes,
            ))  # fmt: skip
    names = [r.name for r in a.rules]
    return why_table(rows, {
        "Phase": "", "Category": "", **{f"FLOP/B {name}": "plain" for name in names}, "Change": "plain",
        **{f"Bytes {name}": "B" for name in names}, f"FLOPs share {names[0]}": "share",
        f"Bytes share {names[0]}": "share",
    })  # fmt: skip


def _sweep(a: ReportRequest, phase: ReportPhase, name: str, values: Sequence[int]) -> str:
    rows = []
    for value in values:
        pair = [a.account(phase, r, **{name: value}) for r in a.rules]
        rows.append((value, *(t for p in pair for t in (f"{p.intensity:.2f}", p.time, p.regime))))
    kinds = {"FLOP/B": "plain", "time": "s", "bound": "plain"}
    return why_table(rows, {name: "count"} | {f"{kind} {r.name}": kinds[kind] for r in a.rules for kind in kinds})


def _critical(a: ReportRequest) -> str:
    said = [f"{rules.name}: {_crossed(a, rules)}" for rules in a.rules]
    return f"Batch from which on decode's intensity is at the knee, {a.on.knee:.2f} FLOP/B, {'; '.join(said)}."


def _crossed(a: ReportRequest, rules: Rules) -> str:
    critical = frontier_batch(a.batches, lambda b: a.account("decode", rules, batch=b).intensity, a.on.knee)
    if critical is None:
        return f"none up to {whole(max(a.batches))}"
    return f"{critical.batch:.0f} already, the smallest asked for" if critical.already else f"{critical.batch:.3f}"


def _frontier(a: ReportRequest) -> Iterator[str]:
    """Batch per rank from which decode is compute bound, over expert parallelism and length."""
    shared = [e.experts for e in every_experts(a.model)]
    degrees = sorted({a.ep, *(d for d in DEGREES if all(n % d == 0 for n in shared))})
    lengths = sorted({a.length, *(n for n in FRONTIER if a.model.context is None or n <= a.model.context)})
    rows = []
    for ep in degrees:
        for n in lengths:
            f = frontier(a.model, ep=ep, length=n, on=a.on, rules=a.rules[0])
            rows.append((ep, n, f"{f.memory:.1f}", f.network, _kept_up(f)))
    yield why_table(rows, {
        "EP": "plain", "Length": "count", "FLOP/B of cache, batch → ∞": "plain", "FLOP/B of dispatch": "FLOP/B",
        "Smallest batch of a rank": "plain",
    })  # fmt: skip
    if a.on.link is None:
        yield f"The link of {a.chip.name} is not known: no batch is limited by the network."


def _kept_up(f: Frontier) -> str:
    if f.batch is not None:
        return whole(f.batch)
    return f"none: {f.limiter}" + (f", up to {whole(LARGEST_BATCH)}" if f.limiter in ("either", "memory") else "")


def _memory(a: ReportRequest) -> list[tuple[str, str]]:
    """Memory of one rank by the report's sums: inference, and training with gradients, state and activations."""
    rules, dense = a.rules[0], parameters(a.model.modules()).dense
    experts = [(x, n) for x, n in a.model.modules() if isinstance(x, m.Experts)]
    routed = sum(n * ceil_div(e.experts, a.ep) * e.each for e, n in experts)
    cache = rules.cache_bytes * a.batch * a.model.kv_elements(a.length)
    saved = 10 * a.batch * a.length * a.model.hidden * len(a.model.layers) * rules.activation_bytes
    weights = rules.weight_bytes * (dense + routed)
    state = a.state * (dense + routed)
    inference, training = weights + cache, 2 * weights + state + saved
    sizes = {
        "parameters but routed experts": rules.weight_bytes * dense,
        "routed experts of a rank": rules.weight_bytes * routed, "KV cache": cache, "gradients": weights,
        "optimizer state and master copy": state, "saved activations": saved, "inference": inference,
        "training": training, "memory of the chip": a.capacity,
    }  # fmt: skip
    return [
        *((name, si(float(size), "B")) for name, size in sizes.items()),
        ("inference fits", "yes" if inference <= a.capacity else "no"),
        ("training fits", "yes" if training <= a.capacity else "no"),
    ]


def _communication(a: ReportRequest) -> str:
    rows = [(phase, one.dispatch_bytes, one.network_bytes, one.network) for phase, (one, _) in a.accounts.items()]
    return why_table(rows, {"Phase": "", "Dispatched and combined": "B", "To other chips": "B", "Time": "s"})


def _ranking(a: ReportRequest, points: Sequence[KnobPoint]) -> Iterator[str]:
    yield why_table(ranking(points), {"Knob": "", f"Effect on the median decode time, {a.rules[1].name}": "share"})
    beyond = [n for n in CACHE_LENGTHS if a.model.context is not None and n > a.model.context]
    if beyond:
        yield f"Of the lengths of the cache {', '.join(map(whole, beyond))} are beyond the context, {a.model.context}."
