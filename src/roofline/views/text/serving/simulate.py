"""Text of a simulated server."""

from __future__ import annotations

from math import nan

from roofline.declared.numbers.units import counted, percent, percent_known, seconds, whole
from roofline.serving.simulate.simulation import Distribution, Simulation
from roofline.views.text.inference.cost import cost_lines
from roofline.views.text.inference.estimate import chips_text, deployment_text, routing_lines
from roofline.views.text.inference.generate import drafts_text
from roofline.views.text.serving.serve import encoder_lines
from roofline.views.text.tables import Column, Table

OVERLOADED = (
    "overloaded: requests come faster than they are answered, the queue grows for as long as they do, and so does "
    "every time below"
)
NOTHING_COUNTED = "no request counts: none was sent, or all of them came before those that count"
SURE = "±               half of the 95 % confidence interval of the mean, from the means of parts of the run"
DEFINITIONS = {
    "TTFT": "arrival to first token",
    "TPOT (request)": "(latency − TTFT) / (output − 1), each request alike",
    "TPOT (tokens)": "from a token to the next one of its request, all tokens alike",
    "latency": "arrival to last token",
    "queue": "from when the scheduler sees a request until its first step begins; a part of TTFT",
}


def simulation_first(s: Simulation) -> str:
    """Deployment and engine and, if so, that the server is overloaded."""
    where = f"{deployment_text(s.deployment)} · {s.engine.titled}"
    if not s.requests:
        return f"{where}: {NOTHING_COUNTED}"
    return f"{where}: {OVERLOADED}" if s.overloaded else where


def times_table(s: Simulation) -> Table:
    """A line for each time: mean, half-width of its 95 % confidence interval, and percentiles."""
    columns = (
        Column(""), Column("mean", "s"), Column("±", "s", drop=2), Column("p50", "s"), Column("p90", "s", drop=1),
        Column("p95", "s", drop=3), Column("p99", "s"),
    )  # fmt: skip
    rows = tuple((name, *_row(d)) for name, d in zip(DEFINITIONS, _times(s), strict=True))
    if _sure(s):
        return Table(columns, rows)
    return Table((*columns[:2], *columns[3:]), tuple((*row[:2], *row[3:]) for row in rows))


def _times(s: Simulation) -> tuple[Distribution, ...]:
    return s.ttft, s.tpot, s.inter_token, s.latency, s.queue


def _sure(s: Simulation) -> bool:
    """Whether any mean has a confidence interval."""
    return any(_row(d)[1] is not None for d in _times(s))


def _row(d: Distribution) -> tuple[float | None, ...]:
    """Numbers of a distribution, None for missing ones; a half-width below the digits of the mean is left out."""
    shown = seconds(d.mean - d.half_width) != seconds(d.mean + d.half_width)
    values = (d.mean, d.half_width if shown else nan, d.p50, d.p90, d.p95, d.p99)
    return tuple(None if value != value else value for value in values)


def simulation_head(s: Simulation) -> str:
    """The traffic and its duration."""
    warmup = f" after {whole(s.warmup)} to warm up" if s.warmup else ""
    router = f", {s.router} over {s.deployment.layout.dp} replicas" if s.deployment.layout.dp > 1 else ""
    requests = counted(s.requests, "request")
    head = f"{s.traffic}{router}: {requests}{warmup} in {seconds(s.seconds)} simulated, seed {s.seed}"
    drafts = [] if s.speculation is None else [drafts_text(s.speculation)]
    adapter = [] if s.lora is None else [f"every request uses an adapter of rank {s.lora} (LoRA)"]
    images = [] if s.images is None else [f"every request has {s.images.text}"]
    routing = (f"assumed: {line}" for line in routing_lines(s.assumed_popularity))
    return "\n".join((head, *drafts, *adapter, *images, *routing))


def simulation_text(s: Simulation) -> str:
    """Definitions of the times, and figures of the server."""
    offered = "" if s.offered is None else f"; {s.offered:,.3g} requests/s arrive"
    left = [f"left out {whole(number)} requests: {why}" for why, number in s.left_out.items()]
    return "\n".join([
        "",
        *(f"{name:<14}  {text}" for name, text in DEFINITIONS.items()),
        *([SURE] if _sure(s) else []),
        "",
        f"rate     {s.requests_per_second:,.3g} requests/s, {s.tokens_per_second:,.1f} tokens/s on "
        f"{chips_text(s.deployment)}{offered}",
        f"         requests done, and tokens of these, {_between(s)}",
        *_unsettled(s),
        *_goodput(s),
        f"busy     {percent(s.utilization)} of the time, with {s.running:,.1f} requests in a busy replica",
        *_prefill(s),
        *encoder_lines(s.encoder, 9),
        f"cache    {percent(s.cached_share)} of prompt tokens from the prefix cache; "
        f"{counted(s.preemptions, 'preemption')}",
        *left,
        *cost_lines(s),
    ])  # fmt: skip


def _between(s: Simulation) -> str:
    return "until the last answer" if s.at_once else "between the arrivals of the first and the last that count"


def _prefill(s: Simulation) -> list[str]:
    pool = s.prefill
    if pool is None:
        return []
    return [
        f"prefill  on {chips_text(pool.deployment)}, {counted(pool.replicas, 'replica')}, busy "
        f"{percent(pool.utilization)} of the time; after it the cache travels {seconds(pool.transfer.mean)},",
        f"         {seconds(pool.transfer.p99)} at p99, and waits {seconds(pool.queue.mean)} for a replica, "
        f"{seconds(pool.queue.p99)} at p99",
    ]


def _unsettled(s: Simulation) -> list[str]:
    if s.settled or s.overloaded or not s.requests:
        return []
    present = max(1, round(s.requests_per_second * s.latency.mean))
    return [f"         too short to tell: {whole(s.requests)} requests count, and about {whole(present)} are in flight"]


def _goodput(s: Simulation) -> list[str]:
    if not s.objective or not s.requests:
        return []
    wanted = ", ".join(f"{_name(name)} {seconds(most)}" for name, most in s.objective.items())
    within = percent_known(s.attained, s.attained_half_width)
    return [
        f"goodput  {s.goodput:,.3g} requests/s: {within} of requests within {wanted}",
        f"         {kept_text(s)}; TPOT is that of each request",
    ]


def kept_text(s: Simulation) -> str:
    """Whether the limits are kept, and by which share of requests."""
    asked = "means" if s.attainment is None else f"{100 * s.attainment:g} % of requests"
    return f"the limits are {'kept' if s.keeps else 'missed'}, which {asked} are to keep"


def _name(objective: str) -> str:
    return objective if objective == "latency" else objective.upper()
