"""Model variants that differ in a single size of the architecture."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, starmap

from roofline.model import modules as m
from roofline.model.model import Block, Model, with_blocks, with_modules

INSIDE = ("q_norm", "k_norm", "attn_sub_norm")
"""Norms over all heads together: their width is that of the heads, not of the residual stream."""
GRAIN = 128
"""Sizes that are multiples of 128 stay multiples of it, as kernels and layouts prefer."""


def scaled(size: int, factor: float) -> int:
    """A size times a factor, rounded to a whole number.

    >>> scaled(4096, 0.7), scaled(100, 0.5)
    (2816, 50)
    """
    grain = GRAIN if size % GRAIN == 0 and factor * size >= GRAIN else 1
    return max(1, round(factor * size / grain)) * grain


def with_layers(model: Model, count: int) -> Model:
    """The model with only its first `count` layers, as a config with fewer layers has."""
    return replace(model, layers=model.layers[:count])


def with_experts_per_token(model: Model, top_k: int) -> Model:
    """The model with another number of experts per token."""
    return with_modules(model, lambda x: replace(x, top_k=top_k) if isinstance(x, m.Experts) else x)


def with_width(model: Model, factor: float) -> Model:
    """The model with the width of the residual stream scaled by `factor`; heads and inner sizes are unchanged."""
    old, new = model.hidden, scaled(model.hidden, factor)

    def turn(x: m.Module) -> m.Module:
        match x:
            case m.Linear(cut="rows", outputs=width) if width == old:
                return replace(x, outputs=new)
            case m.Linear(inputs=width) if width == old and x.cut != "rows":
                return replace(x, inputs=new)
            case m.Norm(name=name) if name in INSIDE:
                return x
            case m.Norm(repeats=1, width=width) | m.Add(width=width) | m.Mix(width=width) if width == old:
                return replace(x, width=new)
            case m.Gate(width=width) if width == old and x.name.startswith("shared"):
                return replace(x, width=new)
            case m.Embedding(width=width) if width == old:
                return replace(x, width=new)
            case m.Router(inputs=width) if width == old:
                return replace(x, inputs=new)
            case m.Experts(hidden=width) if width == old:
                return replace(x, hidden=new)
            case _:
                return x

    return replace(with_modules(model, turn), hidden=new)


def with_inner(model: Model, factor: float) -> Model:
    """The model with the inner size of all feed-forwards scaled by `factor`: dense, shared, and of every expert."""

    def turn(before: m.Module | None, x: m.Module) -> m.Module:
        match x:
            case m.Linear(part="ffn", cut="columns"):
                return replace(x, outputs=scaled(x.outputs, factor))
            case m.Linear(part="ffn", cut="rows"):
                return replace(x, inputs=scaled(x.inputs, factor))
            case m.Activation() if isinstance(before, m.Linear) and before.part == "ffn":
                return replace(x, width=scaled(x.width, factor))
            case m.Norm(name="ffn_sub_norm"):
                return replace(x, width=scaled(x.width, factor))
            case m.Experts():
                return replace(x, inner=scaled(x.inner, factor))
            case _:
                return x

    return with_blocks(model, lambda b: starmap(turn, pairwise((None, *b.modules))))


def with_kv(model: Model, divisor: int) -> Model | None:
    """The model with KV heads, or the latent rank, divided by `divisor`; None where they do not divide."""
    sizes = [kv_size(b) for b, _ in model.blocks]
    if not any(sizes) or any(size % divisor for size in sizes):
        return None
    return with_blocks(model, lambda b: (_narrower(x, b, divisor) for x in b.modules))


def kv_size(block: Block) -> int:
    """KV heads, or the latent rank, of a layer; 0 where it has neither."""
    for x in block.modules:
        if isinstance(x, m.Attention):
            return x.kv_heads
        if isinstance(x, m.LatentAttention):
            return x.rank
    return 0


def _narrower(x: m.Module, block: Block, divisor: int) -> m.Module:
    """A module of a layer whose KV heads or latent rank are divided."""
    size, latent = kv_size(block), next((y for y in block.modules if isinstance(y, m.LatentAttention)), None)
    left = size - size // divisor
    match x:
        case m.Attention():
            return replace(x, kv_heads=size // divisor)
        case m.LatentAttention():
            return replace(x, rank=size // divisor)
        case m.Linear() if latent is None and x.kv and x.kv_groups == size:
            kv = x.kv // divisor
            return replace(x, outputs=x.outputs - x.kv + kv, kv=kv, kv_groups=size // divisor)
        case m.Linear(part="attention", cut="none") if latent is not None and x.outputs == size + latent.rope:
            return replace(x, outputs=x.outputs - left, stacked=x.stacked and x.stacked - left)
        case m.Linear(stacked=stacked) if latent is not None and stacked:
            return replace(x, stacked=stacked - left)
        case m.Norm(width=width) if latent is not None and width == size:
            return replace(x, width=width - left)
        case m.Norm(name="k_norm", repeats=repeats) if repeats == size:
            return replace(x, repeats=repeats - left)
        case m.Rope(heads=heads) if latent is None and heads > size:
            return replace(x, heads=heads - left)
        case _:
            return x
