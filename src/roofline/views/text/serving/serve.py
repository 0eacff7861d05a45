"""Text of a server in steady state, and of disaggregated pools."""

from __future__ import annotations

import numpy as np

from roofline.declared.groups import LengthSpread
from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import counted, seconds, si
from roofline.serving.encoders import EncoderPool
from roofline.serving.pools import Pools
from roofline.serving.server import Serving
from roofline.views.text.inference.cost import cost_lines
from roofline.views.text.inference.estimate import (
    GRADES,
    chips_text,
    deployment_text,
    memory_text,
    routing_lines,
    share_text,
    shares_text,
    span_text,
)
from roofline.views.text.inference.generate import drafts_text


def serving_text(s: Serving) -> str:
    """The figures with their definitions."""
    prefix = f", {s.cached_prefix} of them from the prefix cache" if s.cached_prefix else ""
    replicas = share_text(s.in_flight, s.in_flight_per_replica, s.idle_replicas, s.deployment, "request")
    lines = [
        f"{s.input} in{prefix}, {s.output} out: {_places(s)}",
        "; ".join([f"assumed: {_assumed(s)}", *routing_lines(s.assumed_popularity)]),
        *([replicas] if replicas else []),
        *([drafts_text(s.speculation)] if s.speculation else []),
        *([f"{s.images.tokens} of the input are {s.images.text}"] if s.images else []),
        "",
        f"TTFT     {span_text(s.ttft)}",
        "         arrival to first token: HTTP and tokeniser, the step under way, prompts before it, its own prefill",
        *([f"         all users begin at once and send {s.rounds} requests each"] if s.rounds else []),
        f"TPOT     {span_text(s.tpot)}",
        "         mean time between tokens after the first, other requests' prefill included",
        f"latency  {span_text(s.latency)}",
        "         TTFT + (output − 1) · TPOT",
        *_tails(s),
        f"rate     {s.requests_per_second:,.3g} requests/s, {s.tokens_per_second:,.1f} tokens/s on "
        f"{chips_text(s.deployment)}, {s.tokens_per_second_per_user:,.1f} tokens/s per user",
        "         in flight over latency (Little's law); that times output; 1 / TPOT",
        f"kernels  decode: {shares_text(s.decode)}; prompts take {100 * s.prefill_share:.0f} % of the time",
        *encoder_lines(s.encoder, 9),
        f"memory   {memory_text(s.memory)}",
        f"grade    {s.grade}: {GRADES[s.grade]}",
        *cost_lines(s),
    ]
    return "\n".join(lines)


def _assumed(s: Serving) -> str:
    """Arrivals of requests and variation of lengths, which determine TTFT."""
    load = s.requests.load
    who = "unsynchronised requests" if load.rate is None else "requests at random times"
    if s.percentiles.approximate:
        return f"{who}, {spread_text(load)} (approximate means; a formula)"
    if load.rate is None:
        return "requests all equally long, that began together and stay in step"
    return f"{who}, all equally long (followed step by step)"


def spread_text(load: LengthSpread) -> str:
    """Variation of the lengths of requests."""
    if not np.any(load.input_cv) and not np.any(load.output_cv):
        return "all equally long"
    first, then = (f"{100 * cv:.0f} %" if np.ndim(cv) == 0 else "some" for cv in (load.input_cv, load.output_cv))
    return f"lengths ± {first} in, ± {then} out"


def _tails(s: Serving) -> list[str]:
    """Percentiles, the last with its interval, and whether they are approximate."""
    p = s.percentiles
    lines = []
    for key, name in _TAILED.items():
        tail, low, high = (getattr(tails, key) for tails in (p, p.low, p.high))
        each = ", ".join(f"{part} {seconds(getattr(tail, part))}" for part in tail.FIGURES)
        lines.append(f"{name:<8} {each} ({seconds(low.p99)} to {seconds(high.p99)})")
    return [*lines, *(["         approximate, by the variance of what depends on chance"] if p.approximate else [])]


_TAILED = {"ttft": "TTFT", "tpot": "TPOT", "latency": "latency"}


def _places(s: Serving) -> str:
    """Number of requests, and the limit by memory or, if lower, by the engine."""
    if not s.capacity:
        return f"{s.in_flight} in flight; memory holds 0"
    scheduled = s.places >= s.engine.most_running * s.asked.layout.dp
    whole = f", {s.capacity} to their last token" if s.capacity < s.places else ""
    if s.in_flight <= s.places:
        which = f"{s.engine.name} runs at once" if scheduled else "fit"
        return f"{s.in_flight} in flight of {s.places} that {which}{whole if s.in_flight > s.capacity else ''}"
    most = f"{s.engine.name} runs {s.places}" if scheduled else f"memory holds {s.places}{whole}"
    return f"{s.in_flight} in flight; {most}; {s.in_flight - s.places} wait"


def pools_text(p: Pools) -> str:
    """Two pools: replicas of each, latencies of a request, and utilization."""
    prefix = f", {p.cached_prefix} of them from the prefix cache" if p.cached_prefix else ""
    engines = p.prefill_engine.titled, p.engine.titled
    first, then = ("", "") if engines[0] == engines[1] else (f" by {name}" for name in engines)
    lines = [
        f"{p.input} in{prefix}, {p.output} out ({spread_text(p.requests.load)}), {p.in_flight:,.4g} in flight",
        f"{p.prefills} × prefill on {deployment_text(p.prefill)}{first}, "
        f"{p.decodes} × decode on {deployment_text(p.decode)}{then}: {p.chips} chips",
        *(f"assumed: {line}" for line in routing_lines(p.assumed_popularity)),
        *([drafts_text(p.speculation)] if p.speculation else []),
        *([f"{p.images.tokens} of the input are {p.images.text}"] if p.images else []),
        "",
        f"TTFT      {span_text(p.ttft)}",
        f"          host, {seconds(p.prefill_wait)} for a replica that prefills, its batch, what is not hidden of the",
        f"          transfer, {seconds(p.decode_wait)} for a place and the step under way, first decode step",
        f"TPOT      {span_text(p.tpot)}",
        f"          {_steps(p)}, {p.running} requests a replica; no prompt interferes",
        f"latency   {span_text(p.latency)}",
        "          TTFT + (output − 1) · TPOT",
        f"transfer  {span_text(p.transfer)}",
        f"          {si(p.cache, 'B')} of cache for each prompt, layer by layer beside the prefill",
        f"rate      {p.requests_per_second:,.3g} requests/s, {p.tokens_per_second:,.1f} tokens/s, "
        f"{p.tokens_per_second_per_chip:,.1f} per chip; {p.bottleneck} is the bottleneck",
        *encoder_lines(p.encoder, 10),
        f"prefill   {_used(p.prefill_utilisation, p.prefill_requests_per_second)}, {_batches(p)}",
        f"transfer  {_used(p.transfer_utilisation, p.transfer_requests_per_second)}",
        f"decode    {_used(p.decode_utilisation, p.decode_requests_per_second)}, every place taken",
        f"memory    {memory_text(p.memory)} of a chip that decodes,",
        f"          {memory_text(p.prefill_memory)} of one that prefills",
        *cost_lines(p, 10),
    ]
    return "\n".join(lines)


def _steps(p: Pools) -> str:
    """What happens between two tokens."""
    if p.speculation is None:
        return "one decode step"
    return f"decode steps of {seconds(p.step.expected)} over the tokens that they yield"


def encoder_lines(e: EncoderPool | None, column: int) -> list[str]:
    """The encoder pool: what a request takes there, and how much of the pool is used."""
    if e is None:
        return []
    before = " " * column
    return [
        f"{'encoder':<{column}}{counted(e.replicas, 'replica')} on {deployment_text(e.deployment)}: "
        f"{seconds(e.wait)} of waiting, {span_text(e.encode)},",
        f"{before}{si(e.embeddings, 'B')} of embeddings sent in {seconds(e.transfer.expected)}, all part of TTFT",
        f"{before}{_used(e.utilisation, e.requests_per_second)}; {e.in_flight:,.3g} in flight there",
    ]


def _used(share: Count, most: Count) -> str:
    return f"{100 * share:.0f} % of the {most:,.3g} requests/s that it holds"


def _batches(p: Pools) -> str:
    return "one prompt at a time" if p.prompts == 1 else f"in batches of up to {p.prompts} prompts"
