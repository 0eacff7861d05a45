"""Text of a generation: a static batch from prompts to last tokens."""

from __future__ import annotations

from roofline.declared.numbers.units import counted
from roofline.inference.generate import Generation, Speculation
from roofline.views.text.inference.cost import cost_lines
from roofline.views.text.inference.estimate import (
    GRADES,
    chips_text,
    memory_text,
    routing_lines,
    share_text,
    shares_text,
    span_text,
)


def tpot_text(g: Generation) -> str:
    """TPOT; a dash if only one token is generated."""
    return span_text(g.tpot) if g.output > 1 else "– (one token)"


def generation_text(g: Generation) -> str:
    """The figures with their definitions."""
    each = g.tokens_per_second_per_user
    user = "" if each is None else f", {each:,.1f} tokens/s per user"
    runs = f", in {g.waves} waves of at most {g.first_wave} a replica: no more fit" if g.waves > 1 else ""
    replicas = share_text(g.batch, g.batch_per_replica, g.idle_replicas, g.deployment)
    lines = [
        f"{g.batch} × ({g.input} in, {g.output} out){runs}",
        *([replicas] if replicas else []),
        *([f"{g.images.tokens} of the input are {g.images.text}"] if g.images else []),
        *([drafts_text(g.speculation)] if g.speculation else []),
        *(f"assumed: {line}" for line in routing_lines(g.assumed_popularity)),
        "",
        f"TTFT     {span_text(g.ttft)}",
        "         time to first token: the prompts' prefill",
        f"TPOT     {tpot_text(g)}",
        "         time per output token after the first: (latency − TTFT) / (output − 1)",
        f"latency  {span_text(g.latency)}",
        "         until the last token of the batch",
        f"rate     {g.tokens_per_second:,.1f} tokens/s on {chips_text(g.deployment)}{user}",
        f"         generated tokens over latency{'; 1 / TPOT' if user else ''}",
        f"kernels  prefill: {shares_text(g.prompts)}",
        *([f"         decode: {shares_text(g.middle)}"] if g.output > 1 else []),
        f"memory   {memory_text(g.memory)}",
        f"grade    {g.grade}: {GRADES[g.grade]}",
        *cost_lines(g),
    ]
    return "\n".join(lines)


def drafts_text(s: Speculation) -> str:
    """What drafts how many tokens, and their acceptance."""
    by = s.draft.name if s.draft else "the model's own draft layer" if s.mtp else "n-grams"
    return f"{counted(s.length, 'token')} a step drafted by {by}, each right with probability {s.acceptance:g}"
