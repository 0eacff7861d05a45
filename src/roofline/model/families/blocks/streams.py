"""Hyper-connections (arXiv:2409.19606): several residual streams, summed before a sublayer and mixed after it."""

from __future__ import annotations

from roofline.model.families.blocks.norms import plain_rms, rms
from roofline.model.model import Block
from roofline.model.modules import Activation, Add, Gate, Linear, Mix, Module, Modules


def stream_layer(name: str, width: int, streams: int, mixer: Modules, ffn: Modules, *, mixed: bool = True) -> Block:
    """Attention, then a feed-forward, each between hyper-connections that sum the streams and spread the output.

    `mixed`: before the output is added, each stream becomes a weighted sum of all (DeepSeek-V4); otherwise streams stay
    separate.
    """
    parts: list[Module] = []
    for label, inside in (("attn", mixer), ("ffn", ffn)):
        gather, spread = _hyper_connection(f"{label}_hc", width, streams, mixed)
        parts += [*gather, rms(f"{label}_norm", width), *inside, *spread]
    return Block(name, tuple(parts))


def _hyper_connection(name: str, width: int, streams: int, mixed: bool) -> tuple[Modules, Modules]:
    """Modules before and after a sublayer: sum the streams; then mix them if `mixed`, and add the output to each."""
    weights, scales = ((2 + streams) * streams, 3) if mixed else (2 * streams, 2)
    spread = (
        *((Mix(name=f"{name}_mix", streams=streams, width=width),) if mixed else ()),
        Gate(name=f"{name}_spread", width=streams * width, gates=streams, sigmoid=False),
        Add(name=f"{name}_residual", width=streams * width),
    )
    return collapse(name, width, streams, weights, scales), spread


def collapse(name: str, width: int, streams: int, outputs: int, scales: int) -> Modules:
    """Compute `outputs` weights from all streams together, some of which sum the streams to one."""
    return (
        plain_rms(f"{name}_norm", streams * width),
        Linear(name=f"{name}_proj", inputs=streams * width, outputs=outputs, bias=True, part="other"),
        Activation(name=f"{name}_scale", width=outputs, function="sigmoid", gated=False, learned=scales),
        Gate(name=f"{name}_gate", width=streams * width, gates=streams, sigmoid=False),
        Add(name=f"{name}_sum", width=(streams - 1) * width),
    )
