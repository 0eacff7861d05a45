"""Text of `fit`: the terms of memory, the verdict, and what would make it fit."""

from __future__ import annotations

from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import si, whole
from roofline.hardware.tiers import CACHE
from roofline.inference.fit import Fit
from roofline.inference.memory.memory import TierMemory, hashed
from roofline.views.text.inference.estimate import share_text

RULES = {
    "vllm": "{share:g} of the memory, less weights, activations and overhead",
    "trtllm": "{share:g} of what weights, activations and overhead leave of the memory",
    "sglang": "{share:g} of the memory, less weights",
    "all": "what weights, activations and overhead leave of the memory",
}
TERMS = ("weights", "KV cache", "activations", "overhead")
BUFFERS = ("model buffer", "KV buffer", "compute buffer", "context")
"""Terms of memory in the words of llama.cpp's log, which reserves buffers."""
OUTSIDE = "of the driver and its libraries, which no log of buffers names"


def fit_text(f: Fit) -> str:
    """Terms of memory, verdict, and what would make it fit."""
    m = f.memory
    sequences = f"{f.batch_per_replica} × {f.tokens} tokens"
    weights, cache, active, overhead = BUFFERS if f.engine.buffers else TERMS
    beside = OUTSIDE if f.engine.buffers else f.engine.source
    rows = [
        (weights, m.weights, loaded_text(f)),
        (cache, m.cache, f"{sequences} in {blocks_text(f)}"),
        *([("state", m.state, f"recurrent state of {f.batch_per_replica} sequences")] if m.state else []),
        (active, m.activations, activations_text(f)),
        (overhead, m.overhead, beside),
    ]
    replicas = share_text(f.batch, f.batch_per_replica, f.idle_replicas, f.deployment)
    lines = [_verdict(f)]
    if f.images is not None:
        lines.append(f"{f.images.tokens} more tokens of each are {f.images.text}")
    lines += [*([replicas] if replicas else []), ""]
    wide = max(len(name) for name, _, _ in rows) if f.engine.buffers else 12
    lines += [f"{name:<{wide}} {si(value, 'B'):>10}  {note}" for name, value, note in rows]
    lines += [f"{'sum':<{wide}} {si(m.total, 'B'):>10}  of {si(m.capacity, 'B')}"]
    lines += [f"{name:<{wide}} {si(total, 'B'):>10}  {note}" for name, total, note in tier_rows(f)] + [""]
    lines.append(budget_line(f))
    if f.gpu_kv_cache_size is not None and f.maximum_concurrency is not None:
        size, requests = whole(int(f.gpu_kv_cache_size)), f.maximum_concurrency
        lines.append(f"GPU KV cache size: {size} tokens")
        lines.append(f"Maximum concurrency for {whole(f.tokens)} tokens per request: {requests:.2f}x")
    answer = "fits" if f.fits else "does not fit"
    lines.append(
        f"{answer}; largest batch at {f.context} tokens: {f.largest_batch}; longest context at batch {f.batch}: "
        f"{_longest(f)}; fewest chips: {f.fewest_chips or 'none'}"
    )
    if f.fewest is not None and not f.fewest.alone:
        lines[-1] += f" ({f.fewest.text()})"
    if f.bound_by_scheduler:
        lines.append(f"memory holds more: {f.engine.name} runs at most {whole(f.engine.most_running)} at once")
    if f.changes:
        lines.append("would fit with: " + "; or ".join(c.detail for c in f.changes))
    if f.fits and (whole_one := f.whole_context) is not None:
        ways = "; or ".join(c.detail for c in whole_one.changes if c.what != "context")
        needs = f"the model's whole context, {whole(whole_one.context)} tokens, needs {si(whole_one.memory.total, 'B')}"
        lines.append(f"{needs}: it would fit with {ways}" if ways else needs)
    return "\n".join(lines)


def _verdict(f: Fit) -> str:
    """What fits; without a given context, whether the weights fit and the longest context beside them."""
    sequences = f"{f.batch} × {f.context} tokens"
    if not f.context_chosen:
        return f"{sequences}{_whose(f)}"
    if not f.fits:
        alone = f.weights_alone
        said = "the weights alone do not fit; below with" if alone else "the weights fit, but not with"
        return f"{said} {sequences}{_whose(f)}"
    longest = "the longest context that fits" if f.whole_context else "the model's whole context"
    why = longest if f.model.context else "the model states no context"
    return f"the weights fit, and {sequences} beside them ({why}; no --context is given){_whose(f)}"


def loaded_text(f: Fit) -> str:
    """The formats of the weights, and what of them the engine leaves in the memory of the host."""
    tables = any(map(hashed, (m for m, _ in f.model.modules()))) and f.engine.hosted(f.chip)
    return f"{f.formats.text()}{'; tables of n-grams are in the memory of the host' if tables else ''}"


def blocks_text(f: Fit) -> str:
    """How the cache is allocated."""
    if f.tables != 1:
        return f"groups of equal pages, {f.tables} tables of blocks"
    limits = ("window", "chunk")
    cached = (m for m, _ in f.model.modules() if getattr(m, "cache_width", None))
    windows = any(getattr(module, limit, None) for module in cached for limit in limits)
    beside = f", windows with room for {f.engine.chunk} new tokens" if f.engine.buffers and windows else ""
    return f"blocks of {f.engine.block}{beside}"


def activations_text(f: Fit) -> str:
    """What the activations term contains."""
    if f.engine.profiled:
        sampled = whole(min(f.chunk, f.engine.most_running))
        return (
            f"peak of {f.engine.name}'s profiling run ({f.chunk:,} tokens): the largest op, or {sampled} tokens sampled"
        )
    if f.engine.buffers:
        return f"a step of at most {f.chunk} tokens in fp32, every one with its logits"
    return f"a step of at most {f.chunk} tokens: the largest op, or the logits"


def tier_rows(f: Fit) -> list[tuple[str, Count, str]]:
    """Of a chip with several memories, each with its bytes, its capacity and what it keeps."""
    return [(tier.name, tier.total, f"of {si(tier.capacity, 'B')}: {_keeps(tier)}") for tier in f.memory.tiers]


def _keeps(tier: TierMemory) -> str:
    parts = (("weights", tier.weights), ("KV cache", tier.cache), ("activations and overhead", tier.rest))
    return ", ".join(f"{name} {si(amount, 'B')}" for name, amount in parts if amount) or "nothing"


def _longest(f: Fit) -> str:
    """The longest context of a batch, and whether the model rather than memory ends it."""
    if f.longest_context is None:
        return "any"
    whose = " (the model's)" if f.longest_context == f.model.context else ""
    return f"{f.longest_context}{whose}"


def budget_line(f: Fit) -> str:
    """Memory left for the KV cache, and the rule for it: the engine's in main memory, else the tier's capacity."""
    budget = si(max(0.0, 0.0 if f.memory.budget is None else f.memory.budget), "B")
    tier, rule = f.chip.tier_of(CACHE), RULES[f.engine.budget].format(share=f.engine.share)
    name, rule = (f.engine.name, rule) if tier is None else (tier.name, "its capacity, less what else it keeps")
    return f"{name}: {budget} left for the KV cache, {rule}"


def _whose(f: Fit) -> str:
    """The chip whose memory is shown, if there are several."""
    return "" if f.asked.layout.chips == 1 else ": the fullest chip"
