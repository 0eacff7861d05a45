"""Views of a server in steady state, and of pools that prefill and decode apart."""

from __future__ import annotations

from roofline.estimates.pools import Pools
from roofline.estimates.serve import Serving
from roofline.show.estimate import GRADES, chips_text, deployment_text, memory_text, share_text, shares_text, span_text
from roofline.units import si


def serving_text(s: Serving) -> str:
    """The figures, each with its definition."""
    prefix = f", {s.cached_prefix} of them from the prefix cache" if s.cached_prefix else ""
    replicas = share_text(s.in_flight, s.in_flight_per_replica, s.idle_replicas, s.deployment, "request")
    lines = [
        f"{s.input} in{prefix}, {s.output} out: {_places(s)}",
        *([replicas] if replicas else []),
        "",
        f"TTFT     {span_text(s.ttft)}",
        "         arrival to first token: the step under way, prompts of others in flight (closed queue), own prefill",
        f"TPOT     {span_text(s.tpot)}",
        "         mean time between tokens after the first, other requests' prefill included",
        f"latency  {span_text(s.latency)}",
        "         TTFT + (output − 1) · TPOT",
        f"rate     {s.requests_per_second:,.3g} requests/s, {s.tokens_per_second:,.1f} tokens/s on "
        f"{chips_text(s.deployment)}, {s.tokens_per_second_per_user:,.1f} tokens/s per user",
        "         in flight over latency (Little's law); that times output; 1 / TPOT",
        f"kernels  decode: {shares_text(s.decode)}; prompts take {100 * s.prefill_share:.0f} % of the time",
        f"memory   {memory_text(s.memory)}",
        f"grade    {s.grade}: {GRADES[s.grade]}",
    ]
    return "\n".join(lines)


def _places(s: Serving) -> str:
    """How many requests there are, and how many of them memory holds, or the engine runs where those are fewer."""
    scheduled = s.capacity == s.engine.most_running * s.asked.layout.dp
    if s.in_flight <= s.capacity:
        which = f"{s.engine.name} runs at once" if scheduled else "fit"
        return f"{s.in_flight} in flight of {s.capacity} that {which}"
    most = f"{s.engine.name} runs {s.capacity}" if scheduled else f"memory holds {s.capacity}"
    waiting = f", {s.in_flight - s.capacity} wait" if s.capacity else ""
    return f"{s.in_flight} in flight; {most}{waiting}"


def pools_text(p: Pools) -> str:
    """Two pools: how many replicas of each, and what a request sees."""
    lines = [
        f"{p.input} in, {p.output} out, {p.engine.titled}: {p.prefills} × prefill on {deployment_text(p.prefill)}, "
        f"{p.decodes} × decode on {deployment_text(p.decode)}: {p.chips} chips",
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
        f"memory    {memory_text(p.memory)} of a chip that decodes",
    ]
    return "\n".join(lines)
