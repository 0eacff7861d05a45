"""How engines lay out one token of a sparse cache: rows that mix formats, as FlashMLA's kernels read them."""

from __future__ import annotations

from roofline.declared.numbers.maths import Count, ceil_div
from roofline.model.model import Model, cached_tokens
from roofline.model.modules import CompressedAttention, Compressor, Indexer, LatentAttention, Module
from roofline.model.precision import Precision

SCALED = 128
"""Values of a sparse latent cache or of an indexer's key that share an fp32 scale."""
SHARED, ROTATED = 64, 64
"""Values of a compressed entry of DeepSeek-V4 that share an 8-bit scale, and those that are rotated and not scaled."""
INDEX = "index_compressor"
"""Name of the compressor that makes the entries of an indexer."""


def token_bytes(module: Module, precision: Precision) -> Count:
    """Bytes of one token, or of one entry, in a layer's cache.

    A sparse latent cache in 8 bits is the latent in fp8, an fp32 scale for every 128 of its values, and the rotary key
    in bf16: 512 + 16 + 128 = 656 of DeepSeek-V3.2; its indexer's key is always in fp8 with such scales: 128 + 4
    (vllm/v1/attention/backends/mla/flashmla_sparse.py and indexer.py; sglang/srt/mem_cache/memory_pool.py). An entry
    of DeepSeek-V4 is 448 values in fp8, 64 in bf16, and seven 8-bit scales with one byte to fill the row: 584
    (flashmla_sparse.py; sglang/srt/mem_cache/deepseek_v4_memory_pool.py). The means of keys that the indexer of
    Qwen4-Exp reads are in bf16 whatever the cache is in (sglang/srt/mem_cache/qsa_kv_pool.py, its default). In 4 bits
    an entry of DeepSeek-V4.1 has an 8-bit scale for 16 values, and its indexer's key one for 32: with the three layers
    of two tokens an entry and the one of one, the 890 bytes a token of its model card. Its window is then in fp8 with
    an 8-bit scale for 32 values.
    """
    match module:
        case Compressor(name=name, width=width, biased=False) if precision.kv.bits == 4:
            return width // 2 + ceil_div(width, 32 if name == INDEX else 16)
        case CompressedAttention(head_dim=width) if precision.kv.bits == 4:
            return width + ceil_div(width, 32)
        case Compressor(width=width, weighted=False):
            return 2 * width
        case Indexer():
            return _scaled(module.cache_width)
        case Compressor(name=name) if name == INDEX:
            return _scaled(module.width)
        case LatentAttention() if module.select is not None and precision.kv.bits == 8:
            return _scaled(module.rank) + 2 * module.rope
        case Compressor(width=width) | CompressedAttention(head_dim=width) if precision.kv.bits == 8:
            inner = width - ROTATED
            return inner + 2 * ROTATED + ceil_div(inner, SHARED) + 1
        case Compressor(width=width):
            return precision.kv.bytes(width)
        case _:
            return precision.kv.bytes(getattr(module, "cache_width", 0))


def _scaled(values: Count) -> Count:
    """Bytes of values in fp8 with an fp32 scale for every 128 of them."""
    return values + 4 * ceil_div(values, SCALED)


def row_bytes(rank: Model, precision: Precision, tokens: Count, shares: Count) -> Count:
    """Bytes by which a sparse cache of `tokens` tokens differs from its elements in the cache's format; 0 for others.

    `shares`: ranks among which the tokens are divided.
    """
    total: Count = 0
    for module, n in rank.modules():
        if module.idle or not _has_rows(module):
            continue
        plain = precision.kv.bytes(getattr(module, "cache_width", 0))
        each = token_bytes(module, precision)
        each = ceil_div(each, module.rate) if isinstance(module, Compressor) else each
        total = total + n * (each - plain) * cached_tokens(module, tokens)
    return ceil_div(total, shares)


def _has_rows(module: Module) -> bool:
    """Whether a module caches rows of a layout of their own."""
    if isinstance(module, LatentAttention):
        return module.select is not None
    return isinstance(module, (Compressor, CompressedAttention)) or (
        isinstance(module, Indexer) and module.rate is None
    )
