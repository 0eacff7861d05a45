"""A hybrid model's KV cache as vLLM allocates it: groups of equally many layers, in pages of equal size.

Layers that cache every token, a window, a chunk or an encoder's output, and layers with a recurrent state share one
pool of blocks. A block is one page in each of `group` layers; every group of layers has a table of its own, so a
sequence takes whole blocks of each (vllm/v1/core/kv_cache_utils.py: unify_kv_cache_spec_page_size,
_get_kv_cache_groups_uniform_page_size, get_kv_cache_config_from_groups; vllm/v1/kv_cache_interface.py: the bytes of a
page and what a sequence takes at most; vllm/platforms/interface.py, _align_hybrid_block_size: recurrent states).
Models whose layers all cache alike have one group, and no page is wasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from roofline.declared.numbers.maths import Count, ceil_div, least, most, where
from roofline.inference.memory.cache_rows import token_bytes
from roofline.model.model import Model, stored_state
from roofline.model.modules import Attention, CompressedAttention, Compressor
from roofline.model.precision import Precision

FEWER = 1.5
"""If no kind of layers is this many times as numerous as another, groups are as large as the most numerous kind."""


@dataclass(frozen=True)
class CachedLayers:
    """`layers` with the same cache: `token` bytes for each of the last `span` tokens (None: all), or a `state`.

    `chunked`: the span starts at a multiple of itself and does not slide. A state has a fixed size in bytes. `keys`:
    tokens of an encoder's output, whose keys and values are cached instead; their number is fixed.
    """

    layers: Count
    token: Count = 0
    span: int | None = None
    chunked: bool = False
    state: Count = 0
    keys: int | None = None

    @property
    def recurrent(self) -> bool:
        """Whether the layers hold a recurrent state."""
        return not np.any(np.asarray(self.token))

    @property
    def fixed(self) -> bool:
        """Whether what the layers hold does not depend on a sequence's length."""
        return self.recurrent or self.keys is not None

    @property
    def kind(self) -> tuple[object, ...]:
        """The properties shared by layers of one group."""
        size = np.asarray(self.state if self.recurrent else self.token)
        return self.recurrent, self.span, self.chunked, self.keys, size.tobytes()


@dataclass(frozen=True)
class CacheGroup:
    """All groups of one kind of layer: `tables` block tables with blocks of `block` tokens."""

    layers: CachedLayers
    block: Count
    tables: Count

    def blocks(self, tokens: Count) -> Count:
        """Blocks of a sequence of `tokens` tokens between two steps, in all of its tables."""
        return self.tables * self._each(tokens, 0)

    def most_blocks(self, tokens: Count, chunk: int) -> Count:
        """Most blocks that a sequence of `tokens` tokens takes while `chunk` are computed, in all of its tables."""
        return self.tables * self._each(tokens, chunk)

    def _each(self, tokens: Count, chunk: int) -> Count:
        """Blocks in one table. For a window of w tokens: ⌈min(w − 1 + chunk, tokens) / block⌉ + 1, as it starts inside
        a block."""
        span = self.layers.span
        if self.layers.recurrent:
            return 1
        if self.layers.keys is not None:
            return ceil_div(self.layers.keys, self.block)
        whole = ceil_div(tokens, self.block)
        if span is None:
            return whole
        if self.layers.chunked:
            return least(whole, ceil_div(span + chunk, self.block))
        bounded = ceil_div(least(tokens, span - 1 + chunk), self.block) + 1
        return bounded if chunk else least(whole, bounded)


@dataclass(frozen=True)
class CachePages:
    """The block pool: `page` bytes per layer and block, `group` layers per group, and the groups."""

    page: Count
    group: Count
    groups: tuple[CacheGroup, ...]

    @property
    def block_bytes(self) -> Count:
        """Bytes of a block: one page in each layer of a group."""
        return self.page * self.group

    @property
    def tables(self) -> Count:
        """Tables of blocks of one sequence."""
        return sum(g.tables for g in self.groups)

    def bytes(self, batch: Count, tokens: Count, fixed: bool) -> Count:
        """Bytes of `batch` sequences of `tokens` tokens: of layers whose cache has a fixed size, or of all others."""
        return batch * self.block_bytes * sum(g.blocks(tokens) for g in self.groups if g.layers.fixed == fixed)

    def pool(self, budget: Count) -> Count:
        """Blocks that fit in `budget` bytes."""
        return most(0, budget // self.block_bytes)

    def concurrency(self, budget: Count, tokens: Count, chunk: int) -> Count:
        """Most sequences of `tokens` tokens that the pool holds, each at its peak: vLLM's `Maximum concurrency`.

        Multiplied by the tokens it is what vLLM logs as `GPU KV cache size` since 0.21
        (vllm/v1/core/kv_cache_utils.py, get_kv_cache_capacity).
        """
        return self.pool(budget) / sum(g.most_blocks(tokens, chunk) for g in self.groups)

    def smallest_tables(self, budget: Count) -> Count:
        """`GPU KV cache size` as vLLM before 0.21 logs it: blocks per table times the tokens of the smallest block."""
        smallest = reduce(least, (g.block for g in self.groups if not g.layers.fixed))
        return self.pool(budget) // self.tables * smallest


def cached_layers(rank: Model, precision: Precision) -> tuple[CachedLayers, ...] | None:
    """Layers of a rank that cache, by kind; None where vLLM has a special layout (DeepSeek-V4's compressor)."""
    kinds: dict[tuple[object, ...], CachedLayers] = {}
    states: dict[str, CachedLayers] = {}
    for section, module, n in rank.placed():
        if isinstance(module, (Compressor, CompressedAttention)):
            return None
        if isinstance(module, Attention) and module.state:
            _add(kinds, CachedLayers(n, precision.kv.bytes(module.kv_width), keys=module.keys))
        elif np.any(np.asarray(getattr(module, "state", 0))):
            so_far = states.get(section, CachedLayers(n))
            states[section] = replace(so_far, state=so_far.state + stored_state(module, precision))
        elif hasattr(module, "cache_width") and not module.idle and np.any(np.asarray(module.cache_width)):
            window, chunk = getattr(module, "window", None), getattr(module, "chunk", None)
            _add(kinds, CachedLayers(n, token_bytes(module, precision), window or chunk, not window and bool(chunk)))
    for layers in states.values():
        _add(kinds, layers)
    return tuple(kinds.values())


def _add(kinds: dict[tuple[object, ...], CachedLayers], more: CachedLayers) -> None:
    known = kinds.get(more.kind)
    kinds[more.kind] = more if known is None else replace(more, layers=known.layers + more.layers)


def cache_pages(kinds: Sequence[CachedLayers], block: int) -> CachePages | None:
    """The pages of layers that cache, at an engine's block size `block`; None where no layer caches.

    If all layers cache every token, or all use the same window, they form one group and their pages may differ in size.
    Otherwise all pages have the size of the largest: smaller entries put more tokens in a page, and where there are
    states, attention blocks grow by whole blocks until a page holds one state. A group has as many layers as the rarest
    kind, or as the most common kind where that is less than 1.5 times as common. The last group of a kind may lack
    layers and wastes their pages.
    """
    if not kinds:
        return None
    first = kinds[0]
    if all(k.kind[:-1] == first.kind[:-1] for k in kinds):
        page = sum(k.layers * (k.state if k.recurrent else block * k.token) for k in kinds)
        return CachePages(page, 1, (CacheGroup(replace(first, layers=sum(k.layers for k in kinds)), block, 1),))
    attending = [k for k in kinds if not k.recurrent]
    nothing: Count = 0
    widest = reduce(most, (k.token for k in attending), nothing)
    state = reduce(most, (k.state for k in kinds), nothing)
    grown = block if not attending else block * most(1, ceil_div(state, block * widest))
    page = grown * widest if attending else state
    fewest, most_layers = reduce(least, (k.layers for k in kinds)), reduce(most, (k.layers for k in kinds))
    group = where(most_layers < FEWER * fewest, most_layers, fewest)
    groups = tuple(
        CacheGroup(k, grown if k.recurrent else grown * (page // (grown * k.token)), ceil_div(k.layers, group))
        for k in kinds
    )
    return CachePages(page, group, groups)
