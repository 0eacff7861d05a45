"""A model as dump_model_info sees it: a layer is attention and a feed-forward, each a block of its own.

Sizes are those of our modules. What the tool does not see has no place in it: biases, norms of the stream, RoPE,
activations, residual sums. What it sees in its own way has a module that does that:

- the embedding is a product with the whole table;
- latents are multiplied out for the new tokens alone, and never absorbed;
- the cache of a layer is a module beside the core of its attention; a chunk is a window;
- attention passes the stream through memory 5 times in a prefill and 7 times in a decode;
- shared experts are matrices of one expert's size, as many as they make.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.doors.compat.numbers import whole_number
from roofline.model import modules as m
from roofline.model.model import Block, Model, chosen

Mixer: TypeAlias = m.Attention | m.LatentAttention


def every_experts(model: Model) -> list[m.Experts]:
    """The distinct kinds of experts in a model."""
    return list(dict.fromkeys(x for x, _ in model.modules() if isinstance(x, m.Experts)))


def checked_ranks(model: Model, ep: Given, field: str = "ep") -> int:
    """Expert-parallel ranks: at most the number of experts, and 1 without experts."""
    ranks, most = whole_number(field, ep), min((e.experts for e in every_experts(model)), default=1)
    if ranks > most:
        what = "1, as the model has no experts" if most == 1 else f"at most {most}, the experts of a layer"
        raise InputError(field, ep, what, [str(most)])
    return ranks


@lru_cache(maxsize=256)
def outline(model: Model, *, decoding: bool, ranks: int = 1, latent: float = 1.0) -> Model:
    """The outline of a model for a decode or another step; blocks have the names of the report's categories.

    `ranks`: degree of expert parallelism. `latent`: factor on the width of a token's cache. Raises InputError for
    layers without exactly one attention, over keys and values or over latents.
    """
    h, v = model.hidden, model.vocab
    halves = {b: (_attention(b, h, decoding, latent), _feed_forward(b, ranks)) for b, _ in model.blocks}
    return replace(
        model,
        embedding=(m.Linear(name="embedding", part="embedding", inputs=v, outputs=h),),
        layers=tuple(half for block in model.layers for half in halves[block] if half.modules),
        head=(m.Linear(name="head", part="head", inputs=h, outputs=v),),
        drafts=(),
    )  # fmt: skip


def mixer(block: Block) -> Mixer:
    """The attention of a layer. Raises InputError for a layer that mixes tokens in another way."""
    mixers = [x for x in block.modules if isinstance(x, (m.Attention, m.LatentAttention))]
    if len(mixers) != 1:
        raise InputError("block", block.name, "a layer with one attention of keys and values or of latents")
    return mixers[0]


def _attention(block: Block, hidden: int, decoding: bool, latent: float) -> Block:
    """Projections with their norms, the core with its cache, and the residual stream."""
    inside = [replace(x, bias=False) for x in block.modules if isinstance(x, m.Linear) and x.part == "attention"]
    norms = [x for x in block.modules if isinstance(x, m.Norm) and x.width != hidden and not x.tied]
    stream = m.Add(name="stream", width=(7 if decoding else 5) * hidden)
    return Block("attention", (*inside, *norms, *_core(mixer(block), latent), stream))


def _core(a: Mixer, latent: float) -> Iterator[m.Module]:
    if isinstance(a, m.LatentAttention):
        up = a.heads * (a.nope + a.v)
        yield m.Linear(name=f"{a.name}_kv_b", part="attention", inputs=a.rank, outputs=up)
        core = m.Attention(name=a.name, heads=a.heads, kv_heads=0, head_dim=a.nope + a.rope, v_head_dim=a.v)
        width = a.cache_width
    else:
        window = a.window or a.chunk
        core, width = replace(a, kv_heads=0, window=window, chunk=None, sinks=False), a.kv_width
    yield core
    yield replace(core, name="cache", heads=0, kv_heads=1, head_dim=round(latent * width), v_head_dim=0)


def _feed_forward(block: Block, ranks: int) -> Block:
    dense = [replace(x, bias=False) for x in block.modules if isinstance(x, m.Linear) and x.part == "ffn"]
    e = next((x for x in block.modules if isinstance(x, m.Experts)), None)
    if e is None:
        return Block("ffn", tuple(dense))
    routers = (replace(x, bias=False) for x in block.modules if isinstance(x, m.Router))
    shared = (part for x in dense for part in _matrices(x, e))
    sent = {"width": e.hidden * chosen(e), "ranks": ranks, "axis": "ep", "top_k": chosen(e), "experts": e.experts}
    there, back = (m.Collective(name=op, op=op, **sent) for op in ("dispatch", "combine"))  # type: ignore[arg-type]
    return Block("experts", (*routers, there, replace(e, bias=False), back, *shared))


def _matrices(x: m.Linear, e: m.Experts) -> Iterator[m.Linear]:
    """Shared experts as that many products of one expert's size, or one product if the sizes do not match."""
    count, rest = divmod(x.inputs * x.outputs // x.groups, e.hidden * e.inner)
    if rest:
        yield replace(x, part="experts")
        return
    for i in range(count):
        yield m.Linear(name=f"{x.name}_{i}", part="experts", inputs=e.hidden, outputs=e.inner)
