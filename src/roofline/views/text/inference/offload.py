"""Text of a model placed over memory tiers."""

from __future__ import annotations

from roofline.declared.numbers.units import seconds, si, whole
from roofline.inference.offload import Offload
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.estimate import span_text
from roofline.views.text.tables import Column, Table


def offload_table(o: Offload) -> Table:
    """One line for each tier."""
    fields = (
        Column("Tier", long=16), Column("Layers", "count", drop=1), Column("Weights", "B", drop=2),
        Column("KV cache", "B", drop=3),
        Column("Buffers", "B", drop=4), Column("Sum", "B"), Column("Of", "B"), Column("Time per token", "s"),
    )  # fmt: skip
    rows = tuple(
        (t.name, t.layers, t.weights, t.cache, t.buffers, t.needed, t.capacity, t.token.expected) for t in o.tiers
    )
    return Table(fields, rows, name="tiers")


def offload_text(o: Offload) -> str:
    """The placement in the engine's options, and the figures."""
    how = "the fastest placement that fits" if o.chosen and o.fits else "placement"
    lines = [
        headline(o.model, o.formats),
        f"{how}: {placement_text(o)}",
        f"{whole(o.batch)} × ({whole(o.input)} in, {whole(o.output)} out)",
        "",
        f"TTFT     {span_text(o.ttft)}",
        f"TPOT     {span_text(o.tpot)}",
        f"speed    {o.tokens_per_second:,.1f} tokens/s",
    ]
    if o.engine.hosts:
        lines.append(f"between  {seconds(o.crossing)} of a token passes between tiers")
    if o.streamed:
        lines.append(f"prompt   copies {si(o.streamed, 'B')} of weights from the host to a card")
    for t in o.tiers:
        if t.missing:
            where = "is read from the drive" if t.fits else "does not fit: --drive says how fast it is read from one"
            lines.append(f"drive    {si(t.missing, 'B')} of weights {where}")
        elif not t.fits:
            lines.append(f"does not fit: {t.name} has {si(t.capacity, 'B')} of {si(t.needed, 'B')}")
    return "\n".join(lines)


def placement_text(o: Offload) -> str:
    """Options of llama.cpp, or what the host holds for a GPU that streams it."""
    if not o.engine.hosts:
        away = sum(tier.weights for tier in o.tiers[1:])
        return f"{si(away, 'B')} of weights on the host, read by the card in every step"
    options = [f"--n-gpu-layers {o.gpu_layers}"] + ([f"--n-cpu-moe {o.cpu_experts}"] if o.cpu_experts else [])
    options += ["--no-kv-offload"] if o.host_cache else []
    return f"{' '.join(options)} ({o.layers + 1} layers with the output layer)"
