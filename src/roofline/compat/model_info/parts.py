"""What the rules count of a layer: its attention, its dense products, its experts."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from roofline.compat.model_info.rules import Rules
from roofline.model import modules as m
from roofline.model.checks import count
from roofline.model.errors import InputError
from roofline.model.maths import ceil_div, distinct
from roofline.model.model import Block, Model, chosen, kept

Mixer: TypeAlias = m.Attention | m.LatentAttention


def whole_number(field: str, value: Any) -> int:
    """A single whole number of at least 1. Raises InputError naming `field`."""
    if type(value) is not int:
        raise InputError(field, value, "a whole number from 1")
    return count(field, value, 1)  # type: ignore[no-any-return]


def checked_ranks(model: Model, ep: Any, field: str = "ep") -> int:
    """Ranks of expert parallelism: at most as many as experts, and 1 where there are none."""
    ranks, most = whole_number(field, ep), min((e.experts for e in every_experts(model)), default=1)
    if ranks > most:
        what = "1, as the model has no experts" if most == 1 else f"at most {most}, the experts of a layer"
        raise InputError(field, ep, what, [str(most)])
    return ranks


def mixer(block: Block) -> Mixer:
    """The attention of a layer. Raises InputError for a layer that mixes tokens otherwise."""
    found = [x for x in block.modules if isinstance(x, (m.Attention, m.LatentAttention))]
    if len(found) != 1:
        raise InputError("block", block.name, "a layer with one attention of keys and values or of latents")
    return found[0]


def product(x: m.Module) -> int:
    """Multiply-adds of a module for one token: the elements of its matrix, its own or shared with another."""
    return x.inputs * x.outputs // x.groups if isinstance(x, m.Linear) else x.matrix


def matrices(block: Block) -> int:
    """Elements of a layer's projections of attention, those that latents pass among them."""
    inside = [x for x in block.modules if getattr(x, "part", "") == "attention" or x is mixer(block)]
    return sum(product(x) for x in inside)


def dense(block: Block) -> list[m.Linear]:
    """The products of a feed-forward that is no expert; beside experts those of the shared ones."""
    return [x for x in block.modules if isinstance(x, m.Linear) and x.part == "ffn"]


def router(block: Block) -> int:
    """Elements of a layer's router."""
    return sum(x.matrix for x in block.modules if isinstance(x, m.Router))


def experts(block: Block) -> m.Experts | None:
    """The experts of a layer."""
    return next((x for x in block.modules if isinstance(x, m.Experts)), None)


def every_experts(model: Model) -> list[m.Experts]:
    """The distinct kinds of experts of a model."""
    found = (x for x, _ in model.modules() if isinstance(x, m.Experts))
    return list(dict.fromkeys(found))


def one_expert(e: m.Experts) -> int:
    """Elements of one expert's matrices."""
    return e.hidden * e.inner * (3 if e.gated else 2)


def held(e: m.Experts, ep: int) -> int:
    """Experts of the rank that has most of them: ⌈E / ep⌉."""
    return int(ceil_div(e.experts, ep))


def touched(e: m.Experts, rules: Rules, tokens: float, ep: int = 1) -> float:
    """Distinct experts of a rank that `tokens` tokens of each of `ep` ranks visit, E_r = ⌈E / ep⌉ of them held.

    Poisson: E_r·(1 − e^−λ), λ = T·k / E_r; exactly: E_r·(1 − (1 − k/E)^(T·ep)).
    """
    own = held(e, ep)
    if rules.poisson:
        return own * (1 - math.exp(-tokens * chosen(e) / own))
    return own * float(distinct(e.experts, chosen(e), tokens * ep)) / e.experts


# -- attention -----------------------------------------------------------------------------------------------------
def widths(a: Mixer) -> tuple[int, int]:
    """Key and value of a head as the rules multiply them, latents never absorbed."""
    return (a.nope + a.rope, a.v) if isinstance(a, m.LatentAttention) else (a.head_dim, a.v_head_dim)


def seen(a: Mixer, length: int) -> int:
    """Tokens that a query sees, and that the cache holds, of a sequence of `length`: its window or chunk at most."""
    return int(kept(a, length))


def scores(a: Mixer, length: int) -> int:
    """FLOPs of one query over what it sees: scores 2·dq, softmax 1, values 2·dv, of each head."""
    key, value = widths(a)
    return a.heads * seen(a, length) * (2 * key + 1 + 2 * value)


def cached(a: Mixer, length: int, *, decoding: bool, scale: float = 1.0) -> int:
    """Elements of a sequence's cache that move: a prefill writes those kept, a decode reads them and adds its own.

    `scale`: times the width of a token.
    """
    own = round(scale * a.cache_width)
    if not decoding:
        return own * seen(a, length)
    read = own if isinstance(a, m.LatentAttention) else round(scale * a.kv_width)
    return read * seen(a, length) + own
