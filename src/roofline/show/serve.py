"""Views of a server in steady state, and of pools that prefill and decode apart."""

from __future__ import annotations

from typing import Any

from roofline.estimates.pools import Pools
from roofline.estimates.serve import Serving
from roofline.model.model import Model
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
from roofline.show.units import si


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
        **setting_json(s.decode),
        **spread_json(s.where),
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
