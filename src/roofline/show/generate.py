"""Views of a generation: a static batch from prompt to last token."""

from __future__ import annotations

from typing import Any

from roofline.estimates.generate import Generation, Speculation
from roofline.show.estimate import (
    GRADES,
    chips_text,
    held,
    place_text,
    setting_json,
    shares_text,
    span_json,
    span_text,
    spread_json,
)


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
        **setting_json(first),
        **spread_json(g.where),
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


def _speculation_json(s: Speculation) -> dict[str, Any]:
    return {"draft": s.draft.name if s.draft else None, "length": s.length, "acceptance": s.acceptance}
