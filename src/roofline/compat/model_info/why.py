"""Why physical figures differ from those of the rules: category by category, and what each difference comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from roofline.compat.model_info import parts
from roofline.compat.model_info.asked import Asked
from roofline.compat.model_info.floor import Beyond, beyond_floor
from roofline.compat.model_info.physical import Physical
from roofline.compat.model_info.rules import CATEGORIES, PHASES, Phase, Rules
from roofline.model import modules as m
from roofline.show.analysis import precision_text
from roofline.show.tables import Column, Table
from roofline.units import si, whole
from roofline.work import ops as o
from roofline.work.analysis import OpCost


def category(cost: OpCost, sparse: bool) -> str:
    """Where the rules count an op, or `other` where they do not; `sparse`: its layer has experts."""
    op = cost.op.of if isinstance(cost.op, o.Backward) else cost.op
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
    sparse = {b.name for b, _ in p.analysis.model.blocks if parts.experts(b)}
    found: dict[str, tuple[float, float]] = {}
    for cost in p.analysis.ops:
        name = category(cost, cost.block in sparse)
        flops, moved = found.get(name, (0.0, 0.0))
        found[name] = flops + float(cost.flops), moved + float(cost.bytes)
    return found


def differences(a: Asked) -> Table:
    """FLOPs and bytes of every phase and category, by the rules and physical."""
    rows = []
    for phase in a.physical:
        first, second = a.accounts[phase]
        real = by_category(a.physical[phase])
        for name in (*CATEGORIES, "other"):
            one, other, (flops, moved) = first.term(name), second.term(name), real.get(name, (0.0, 0.0))
            if one.bytes or moved or flops:
                sizes = (si(one.bytes, "B"), si(other.bytes, "B"), si(moved, "B"))
                rows.append((phase, name, si(one.flops, "FLOP"), si(flops, "FLOP"), *sizes))
    names = [f"Bytes {r.name}" for r in a.rules]
    columns = ("FLOPs by the rules", "FLOPs physical", *names, "Bytes physical")
    return Table((Column("Phase", False), Column("Category", False), *(Column(c) for c in columns)), tuple(rows))


# -- sentences -----------------------------------------------------------------------------------------------------
def causes(a: Asked) -> list[str]:
    """What the differences of every phase come from, each with its numbers, where it applies."""
    found = []
    for phase, p in a.physical.items():
        said = chain(_pairs(a, phase, p), _logits(p), _latents(a, phase, p), _table(a, p), _drawn(a, phase))
        lines = [*said, *_scores(a, phase), *_divided(a, phase), *_formats(a, p), *_backward(a, phase, p)]
        found += [f"- {phase}: {line}." for line in lines]
    return found


def _attends(p: Physical) -> list[tuple[int, o.Attend]]:
    return [(c.layers, c.op) for c in p.analysis.ops if isinstance(c.op, o.Attend) and c.op.phase == "forward"]


def _pairs(a: Asked, phase: Phase, p: Physical) -> Iterator[str]:
    """Pairs that the mask, windows and chunks leave."""
    real = sum(n * int(op.pairs) for n, op in _attends(p))
    queries = a.accounts[phase][0].tokens
    counted = sum(n * queries * parts.seen(parts.mixer(b), a.length) for b, n in a.model.blocks)
    if real < counted:
        share = f"{100 * real / counted:.1f} %"
        yield f"masks leave {whole(real)} of the {whole(counted)} query-key pairs that the rules count, {share}"


def _logits(p: Physical) -> Iterator[str]:
    step = p.analysis.step
    if step.logit_tokens < step.tokens:
        yield f"the head runs for {whole(step.logit_tokens)} of {whole(step.tokens)} positions, by the rules for all"


def _latents(a: Asked, phase: Phase, p: Physical) -> Iterator[str]:
    """In which form latents were multiplied."""
    found = {b.name: x for b, _ in a.model.blocks for x in b.modules if isinstance(x, m.LatentAttention)}
    for latent in dict.fromkeys(found.values()):
        key, value = parts.widths(latent)
        for op in {op.form: op for _, op in _attends(p) if op.name.removesuffix("_absorbed") == latent.name}.values():
            made = f"latents are {op.form}: scores over {op.qk_dim} and values of {op.v_dim} elements a head"
            if op.form == "absorbed":
                yield f"{made}, by the rules {key} and {value}"
                continue
            tokens, new = int(op.kv_tokens), int(op.tokens)
            yield f"{made}, as by the rules" + (
                f"; keys and values are made of {whole(tokens)} tokens, by the rules of {whole(new)}"
                if tokens > new
                else ""
            )


def _table(a: Asked, p: Physical) -> Iterator[str]:
    for cost in p.analysis.ops:
        if isinstance(cost.op, o.Lookup) and cost.op.phase == "forward":
            rows = int(cost.op.weight) // int(cost.op.width)
            if cost.op.name == "embedding" and rows < a.model.vocab:
                yield f"the embedding looks up {whole(rows)} of {whole(a.model.vocab)} rows, by the rules all are read"


def drawn(a: Asked, rules: Rules, phase: Phase) -> Iterator[str]:
    """Distinct experts of a rank by Poisson, and exactly, where they differ."""
    tokens = a.batch if phase == "decode" else a.batch * a.length
    for e in parts.every_experts(a.model):
        poisson = parts.touched(e, rules, tokens, a.ep)
        exact = parts.touched(e, replace(rules, poisson=False), tokens, a.ep)
        if rules.poisson and f"{poisson:.2f}" != f"{exact:.2f}":
            own = parts.held(e, a.ep)
            yield f"{poisson:.2f} of {own} experts by Poisson, exactly {exact:.2f}"


def _drawn(a: Asked, phase: Phase) -> Iterator[str]:
    for rules in a.rules[:1] if a.rules[0].poisson == a.rules[1].poisson else a.rules:
        yield from (f"tokens visit {words}" for words in drawn(a, rules, phase))


def _scores(a: Asked, phase: Phase) -> Iterator[str]:
    for one in a.accounts[phase]:
        moved = sum(t.temporary for t in one.terms)
        if not one.rules.flash and moved:
            yield f"{one.rules.name} moves scores and probabilities, {si(moved, 'B')}; physical they stay on the chip"


def residency(rules: Rules) -> str:
    """The divisors of the weights: attention/dense/experts."""
    return "/".join(f"{v:g}" for v in rules.residency)


def _divided(a: Asked, phase: Phase) -> Iterator[str]:
    for one in a.accounts[phase]:
        if any(r != 1 for r in one.rules.residency):
            weights = sum(t.weights for t in one.terms)
            yield (
                f"{one.rules.name} divides weights by {residency(one.rules)} (attention/dense/experts), "
                f"{si(weights, 'B')} are left"
            )


def _formats(a: Asked, p: Physical) -> Iterator[str]:
    """Elements of another width than the rules', role by role."""
    r, precision = a.rules[0], p.analysis.precision
    ruled = {"activations": r.activation_bytes, "kv": r.cache_bytes}
    found: dict[tuple[float, float], list[str]] = {}
    for role in (*a.model.parameters_by_part(), *ruled):
        real, width = float(getattr(precision, role).stored_bytes), ruled.get(role, r.weight_bytes)
        if real != width:
            found.setdefault((real, width), []).append(role)
    for (real, width), roles in found.items():
        yield f"{', '.join(roles)} are of {real:g} bytes an element, by the rules of {width:g}"


def _backward(a: Asked, phase: Phase, p: Physical) -> Iterator[str]:
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
def beyond(a: Asked) -> list[str]:
    """Where the rules say less than memory must carry, and why; nothing where the experts do not divide."""
    if not a.divides:
        return []
    found = []
    for phase in PHASES:
        for one in a.accounts[phase]:
            below = beyond_floor(a.model, one, batch=a.batch, length=a.length, ep=a.ep)
            if below is not None:
                found.append(
                    f"- {phase}, {one.rules.name}: {si(below.bytes, 'B')} is {100 * below.share:.1f} % of the "
                    f"{si(below.floor, 'B')} that must cross memory when each weight touched is read once: "
                    f"{', '.join(_less(a, below, one.rules))}."
                )
    return found


def _less(a: Asked, below: Beyond, rules: Rules) -> Iterator[str]:
    """What an account leaves out, with the bytes."""
    if below.residency > 0:
        yield f"weights divided by {residency(rules)}, {si(below.residency, 'B')} less"
    experts = "; ".join(drawn(a, rules, below.phase))
    if below.poisson > 0 and experts:
        yield f"{experts}, {si(below.poisson, 'B')} less"
    if below.rest > 0:
        yield f"{si(below.rest, 'B')} that the rules do not count"


def unknown(a: Asked) -> list[str]:
    """Why physical rows, or their times, are missing."""
    if not a.physical:
        kinds = ", ".join(str(e.experts) for e in parts.every_experts(a.model))
        return [f"- No physical rows: {a.ep} ranks do not share {kinds} experts evenly."]
    return [f"- {phase}: no time, {p.reason}." for phase, p in a.physical.items() if p.reason]


def formats(a: Asked) -> list[str]:
    """The formats of the physical rows, and whose peak their MFU is a share of."""
    lines = []
    for phase, p in a.physical.items():
        peak = f", MFU of {si(p.peak, 'FLOP/s')} in {p.fmt}" if p.time is not None else ""
        lines.append(f"- {phase}: {precision_text(p.analysis.precision)}{peak}.")
    return lines
