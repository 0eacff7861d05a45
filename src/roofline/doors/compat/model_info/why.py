"""How physical FLOPs and bytes differ from those by dump_model_info's rules, by category and by cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from roofline.declared.numbers.units import si, whole
from roofline.declared.result import Units
from roofline.doors.compat.model_info.account import Account
from roofline.doors.compat.model_info.conventions import Convention, square
from roofline.doors.compat.model_info.floor import Beyond, beyond_floor
from roofline.doors.compat.model_info.outline import every_experts
from roofline.doors.compat.model_info.physical import Physical
from roofline.doors.compat.model_info.request import ReportRequest
from roofline.doors.compat.model_info.rules import CATEGORIES, PHASES, ReportPhase, Rules
from roofline.model import modules as m
from roofline.views.text.tables import Column, Table, markdown
from roofline.work import ops as o
from roofline.work.analysis import Analysis, OpCost

Cells: TypeAlias = tuple[object, ...]


def why_table(rows: Iterable[Cells], units: Units, total: Sequence[Cells] = ()) -> str:
    """A Markdown table; `rows` hold values by column, and `units` the unit of each column."""
    columns = tuple(Column(name, unit) for name, unit in units.items())
    return markdown(Table(columns, tuple(rows), tuple(total)))


def category(cost: OpCost, sparse: bool) -> str:
    """Category in which the rules count an op, or `other`; `sparse`: its layer has experts."""
    op = cost.op.origin
    feed = "experts" if sparse else "ffn"
    match op:
        case o.Normalise() | o.Communicate():
            return "other"
        case _ if cost.block in ("embedding", "head"):
            return cost.block
        case o.Attend() | o.Score() | o.Rotate() | o.MatMul(part="attention"):
            return "attention"
        case o.ExpertMatMul() | o.MatMul(part="router") | o.Choose() | o.Sum(weighted=True):
            return "experts"
        case o.MatMul(part="ffn") | o.Activate():
            return feed
        case _:
            return "other"


def by_category(p: Physical) -> dict[str, tuple[float, float]]:
    """FLOPs and bytes of each category that has any."""
    sparse = {b.name for b, _ in p.analysis.model.blocks if any(isinstance(x, m.Experts) for x in b.modules)}
    sums: dict[str, tuple[float, float]] = {}
    for cost in p.analysis.ops:
        name = category(cost, cost.block in sparse)
        flops, moved = sums.get(name, (0.0, 0.0))
        sums[name] = flops + float(cost.flops), moved + float(cost.bytes)
    return sums


def differences(a: ReportRequest) -> str:
    """FLOPs and bytes of every phase and category, by the rules and physical."""
    rows = []
    for phase in a.physical:
        first, second = a.accounts[phase]
        real = by_category(a.physical[phase])
        for name in (*CATEGORIES, "other"):
            one, other, (flops, moved) = first.term(name), second.term(name), real.get(name, (0.0, 0.0))
            if one.bytes or moved or flops:
                rows.append((phase, name, one.flops, flops, one.bytes, other.bytes, moved))
    return why_table(rows, {
        "Phase": "", "Category": "", "FLOPs by the rules": "FLOP", "FLOPs physical": "FLOP",
        **{f"Bytes {r.name}": "B" for r in a.rules}, "Bytes physical": "B",
    })  # fmt: skip


# -- sentences -----------------------------------------------------------------------------------------------------
def causes(a: ReportRequest) -> list[str]:
    """Causes of the differences of every phase, each with its numbers if it applies."""
    lines = []
    for phase, p in a.physical.items():
        said = chain(_pairs(a, phase, p), _logits(p), _latents(a, phase, p), _table(a, p), _drawn(a, phase))
        more = chain(_scores(a, phase), _divided(a, phase), _formats(a, p), _backward(a, phase, p))
        lines += [f"- {phase}: {line}." for line in chain(said, more)]
    return lines


def _attends(analysis: Analysis) -> list[tuple[int, o.Attend]]:
    return [(c.layers, c.op) for c in analysis.ops if isinstance(c.op, o.Attend) and c.op.phase == "forward"]


def _pairs(a: ReportRequest, phase: ReportPhase, p: Physical) -> Iterator[str]:
    """Pairs that remain under the mask, windows and chunks."""
    real = sum(n * int(op.pairs) for n, op in _attends(p.analysis))
    counted = sum(n * int(square(op)) for n, op in _attends(a.accounts[phase][0].work) if op.heads)
    if real < counted:
        share = f"{100 * real / counted:.1f} %"
        yield f"masks leave {whole(real)} of the {whole(counted)} query-key pairs that the rules count, {share}"


def _logits(p: Physical) -> Iterator[str]:
    logits, tokens = int(p.analysis.step.logit_tokens), int(p.analysis.step.tokens)
    if logits < tokens:
        yield f"the head runs for {whole(logits)} of {whole(tokens)} positions, by the rules for all"


def _latents(a: ReportRequest, phase: ReportPhase, p: Physical) -> Iterator[str]:
    """The form in which latents were multiplied."""
    ruled = {op.name: (op.qk_dim, op.v_dim) for _, op in _attends(a.accounts[phase][0].work)}
    forms = {(op.name, op.form): op for _, op in _attends(p.analysis) if op.form != "plain"}
    for (name, form), op in forms.items():
        key, value = ruled[name.removesuffix("_absorbed")]
        line = f"latents are {form}: scores over {op.qk_dim} and values of {op.v_dim} elements a head"
        if form == "absorbed":
            yield f"{line}, by the rules {key} and {value}"
            continue
        tokens, new = int(op.kv_tokens), int(op.tokens)
        more = f"; keys and values are made of {whole(tokens)} tokens, by the rules of {whole(new)}"
        yield f"{line}, as by the rules{more if tokens > new else ''}"


def _table(a: ReportRequest, p: Physical) -> Iterator[str]:
    for cost in p.analysis.ops:
        if isinstance(cost.op, o.Lookup) and cost.op.phase == "forward":
            rows = int(cost.op.weight) // int(cost.op.width)
            if cost.op.name == "embedding" and rows < a.model.vocab:
                yield f"the embedding looks up {whole(rows)} of {whole(a.model.vocab)} rows, by the rules all are read"


def drawn(c: Convention, work: Analysis) -> Iterator[str]:
    """Distinct experts of a rank, by Poisson and exactly, if they differ."""
    exactly = replace(c, rules=replace(c.rules, poisson=False))
    sizes = {
        (c.touched(x.op), exactly.touched(x.op), c.largest_share(x.op)): None
        for x in work.ops
        if isinstance(x.op, o.ExpertMatMul)
    }
    for poisson, exact, own in sizes:
        if c.rules.poisson and f"{poisson:.2f}" != f"{exact:.2f}":
            yield f"{poisson:.2f} of {own} experts by Poisson, exactly {exact:.2f}"


def _drawn(a: ReportRequest, phase: ReportPhase) -> Iterator[str]:
    for one in a.accounts[phase][: 1 if a.rules[0].poisson == a.rules[1].poisson else 2]:
        yield from (f"tokens visit {words}" for words in drawn(one.convention, one.work))


def _scores(a: ReportRequest, phase: ReportPhase) -> Iterator[str]:
    for one in a.accounts[phase]:
        moved = one.sum("temporary")
        if not one.rules.flash and moved:
            yield f"{one.rules.name} moves scores and probabilities, {si(moved, 'B')}; physical they stay on the chip"


def residency(rules: Rules) -> str:
    """The divisors of weights: attention/dense/experts."""
    return "/".join(f"{v:g}" for v in rules.residency)


def _divided(a: ReportRequest, phase: ReportPhase) -> Iterator[str]:
    for one in a.accounts[phase]:
        if any(r != 1 for r in one.rules.residency):
            yield (
                f"{one.rules.name} divides weights by {residency(one.rules)} (attention/dense/experts), "
                f"{si(one.sum('weights'), 'B')} are left"
            )


def _formats(a: ReportRequest, p: Physical) -> Iterator[str]:
    """Roles whose element width differs from that of the rules."""
    r, precision = a.rules[0], p.analysis.precision
    ruled = {"activations": r.activation_bytes, "kv": r.cache_bytes}
    roles: dict[tuple[float, float], list[str]] = {}
    for role in (*a.model.parameters_by_part(), *ruled):
        real, width = float(getattr(precision, role).stored_bytes), ruled.get(role, r.weight_bytes)
        if real != width:
            roles.setdefault((real, width), []).append(role)
    for (real, width), names in roles.items():
        yield f"{', '.join(names)} are of {real:g} bytes an element, by the rules of {width:g}"


def _backward(a: ReportRequest, phase: ReportPhase, p: Physical) -> Iterator[str]:
    if phase != "training":
        return
    r = a.rules[0]
    kept = sum(float(c.bytes) for c in p.analysis.ops if c.op.phase != "forward")
    gradients = sum(float(c.moved.cache) for c in p.analysis.ops if c.op.store == "gradients")
    yield (
        f"{r.training_flops:g} times the FLOPs and {r.training_bytes:g} times the bytes of a prefill by the rules; "
        f"physical the backward pass moves {si(kept, 'B')}, {si(gradients, 'B')} of them gradients of weights"
    )


# -- the floor -----------------------------------------------------------------------------------------------------
def beyond(a: ReportRequest) -> list[str]:
    """Where the rules count less than the least memory traffic, and why; empty if the experts do not divide."""
    if not a.divides:
        return []
    lines = []
    for phase in PHASES:
        for one in a.accounts[phase]:
            below = beyond_floor(a.model, one, batch=a.batch, length=a.length, ep=a.ep)
            if below is not None:
                lines.append(
                    f"- {phase}, {one.rules.name}: {si(below.bytes, 'B')} is {100 * below.share:.1f} % of the "
                    f"{si(below.floor, 'B')} that must cross memory when each weight touched is read once: "
                    f"{', '.join(_less(below, one))}."
                )
    return lines


def _less(below: Beyond, one: Account) -> Iterator[str]:
    """What an account leaves out, in bytes."""
    if below.residency > 0:
        yield f"weights divided by {residency(one.rules)}, {si(below.residency, 'B')} less"
    experts = "; ".join(drawn(one.convention, one.work))
    if below.poisson > 0 and experts:
        yield f"{experts}, {si(below.poisson, 'B')} less"
    if below.rest > 0:
        yield f"{si(below.rest, 'B')} that the rules do not count"


def unknown(a: ReportRequest) -> list[str]:
    """Why physical rows or their times are missing."""
    if not a.physical:
        kinds = ", ".join(str(e.experts) for e in every_experts(a.model))
        return [f"- No physical rows: {a.ep} ranks do not share {kinds} experts evenly."]
    return [f"- {phase}: no time, {p.reason}." for phase, p in a.physical.items() if p.reason]


def formats_row(a: ReportRequest) -> list[str]:
    """Formats of the physical rows, and the format whose peak their MFU refers to."""
    lines = []
    for phase, p in a.physical.items():
        peak = f", MFU of {si(p.peak, 'FLOP/s')} in {p.fmt}" if p.time is not None else ""
        lines.append(f"- {phase}: {p.analysis.precision.text()}{peak}.")
    return lines
