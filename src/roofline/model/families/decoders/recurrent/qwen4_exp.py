"""Qwen4-Exp (model card Qwen/Qwen3.8-Flash-Next): delta nets, query-sparse attention, gated residual streams, n-grams.

Every fourth layer attends to blocks of tokens that an indexer selects by the mean of their keys. Streams are weighed
value by value before a sublayer, and its output is added to each. Some layers add tables of hashed n-grams.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.declared.numbers.arrays import Array, np
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.layers import causal_lm, with_before
from roofline.model.families.blocks.norms import per_head
from roofline.model.families.blocks.projections import replicated_product
from roofline.model.families.blocks.recurrent import gated_delta_net
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.decoders.dense.qwen import shared_moe
from roofline.model.families.registry import family
from roofline.model.formats import FORMATS
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    Compressor,
    Conv,
    Embedding,
    Gate,
    Indexer,
    Linear,
    Modules,
    Norm,
    Rope,
)

MOST_HASHES = 4096
"""Most hash tables of a model."""


@family("qwen4_exp_text")
def qwen4_exp(c: Config) -> Model:
    """Qwen4-Exp: three layers of gated delta nets to one of query-sparse attention, experts on every layer."""
    d, streams, rank = dims(c, head_dim=256), c.size("hc_count", 4), c.size("hc_lowrank", 320)
    kinds, tables, experts = _kinds(c, d.layers), _tables(c, d), shared_moe(c, d.width)
    mixers = {k: _linear(c, d) if k == "linear" else _sparse(c, d) for k in dict.fromkeys(kinds)}
    parts = {k: _between(d.width, streams, rank, mixers[k], experts) for k in mixers}
    ngrams = {i: _ngrams(c, d.width, streams, table) for i, table in tables.items()}
    blocks = [
        Block(f"{k} moe" + " ngrams" * (i in ngrams), (*ngrams.get(i, ()), *parts[k])) for i, k in enumerate(kinds)
    ]
    c.mark_read(
        "index_share_for_mtp_iteration", "number_of_conv_states", "ple_offload_embedding", "ple_offload_backend"
    )
    return causal_lm(c, d.width, blocks, norm=None, after=_gather("hc_head", d.width, streams, rank))


def _kinds(c: Config, layers: int) -> list[str]:
    """Mixer of each layer; all words for attention mean one with an indexer."""
    every = c.size("full_attention_interval", 4)
    default = ["linear_attention" if (i + 1) % every else "indexed_attention" for i in range(layers)]
    known = ("linear_attention", "indexed_attention", "full_attention", "qwen_sparse_attention")
    kinds = c.per_layer("layer_types", layers, known, default)
    return ["linear" if k == "linear_attention" else "sparse" for k in kinds]


def _linear(c: Config, d: Dims) -> Modules:
    """The gated delta net of Qwen3.5."""
    keys, values = c.size("linear_num_key_heads", 16), c.size("linear_num_value_heads", 32)
    if values % keys:
        raise c.error("linear_num_value_heads", f"a multiple of linear_num_key_heads = {keys}")
    c.text("output_gate_type", "silu", ("sigmoid", "silu"))
    sizes = c.size("linear_key_head_dim", 128), c.size("linear_value_head_dim", 128)
    return gated_delta_net(d.width, keys, values, *sizes, c.size("linear_conv_kernel_dim", 4))


def _sparse(c: Config, d: Dims) -> Modules:
    """Gated attention to `indexer_budget` tokens in blocks of `indexer_compress_ratio`, and to the incomplete block."""
    heads, dim = c.size("indexer_n_heads"), c.size("indexer_head_dim")
    pool, rope = c.size("indexer_compress_ratio"), rotary(c, d.head_dim)
    c.size("indexer_kv_heads", 1, most=1)
    full = attention(d, rotary=rope, bias=c.flag("attention_bias"), qk_norm=per_head, gate=True)
    picked = (replace(m, select=c.size("indexer_budget"), pool=pool) if isinstance(m, Attention) else m for m in full)
    return with_before(
        picked, "attention", replicated_product("index_qk_proj", d.width, (heads + 1) * dim),
        per_head("index_q_norm", heads, dim), Rope(name="index_rope", heads=heads, dims=min(rope, dim)),
        Compressor(name="index_compressor", width=dim, rate=pool, rope=min(rope, dim), weighted=False),
        Indexer(name="indexer", heads=heads, head_dim=dim, rate=pool, sum_by_product=False),
    )  # fmt: skip


def _of_streams(name: str, width: int, streams: int) -> Norm:
    """RMSNorm of each stream, with weights of its own."""
    return Norm(name=name, width=width, repeats=streams, per_repeat=True)


def _gather(name: str, width: int, streams: int, rank: int) -> Modules:
    """The mean of the normalised streams, each value weighed by a gate of low rank."""
    every = streams * width
    return (
        _of_streams(f"{name}_norm", width, streams),
        Linear(name=f"{name}_down_proj", inputs=every, outputs=rank, part="other"),
        Activation(name=f"{name}_act", width=rank, function="silu", gated=False),
        Linear(name=f"{name}_up_proj", inputs=rank, outputs=every, part="other"),
        Gate(name=f"{name}_gate", width=every, gates=every),
        Add(name=f"{name}_sum", width=every - width),
    )


def _between(width: int, streams: int, rank: int, mixer: Modules, ffn: Modules) -> Modules:
    """Mixer and experts, each between the gathering of the streams and the addition of its output to each of them."""
    parts: Modules = ()
    for label, inside in (("attn", mixer), ("ffn", ffn)):
        before, every = _gather(f"{label}_hc", width, streams, rank), streams * width
        weights = Linear(name=f"{label}_hc_inject_proj", inputs=every, outputs=streams, part="other", beside=True)
        spread = (
            Gate(name=f"{label}_hc_spread", width=every, gates=streams),
            Add(name=f"{label}_hc_residual", width=every),
        )
        parts = (*parts, *before, weights, *inside, *spread)
    return parts


# -- n-grams -------------------------------------------------------------------------------------------------------
def _tables(c: Config, d: Dims) -> dict[int, Embedding]:
    """The table of each layer that has one, by its index: hashes of 2 to `ngram_size` tokens, several heads of each.

    The number of rows of a head is a prime of its own, and the whole table is padded. It is stored in fp8 where the
    config says so, or the checkpoint is (SGLang's qwen4_exp.py).
    """
    layers = c.value("ple_layer_ids", None)[1] or []
    if not isinstance(layers, list) or any(type(i) is not int or not 1 <= i <= d.layers for i in layers):
        raise c.error("ple_layer_ids", f"numbers of layers from 1 to {d.layers}")
    hashes = (c.size("ngram_size", 3, least=2, most=64) - 1) * c.size("heads_per_ngram", 8, most=64)
    values, base = c.size("ple_embed_dim", d.width), c.size("ngram_vocab_size_base", 20_000_000, most=2**31)
    padding = c.size("make_ngram_vocab_size_divisible_by", 128)
    c.mark_read("seed", "split_ngram_parts")
    quantized = c.section("quantization_config").raw.get("quant_method") == "fp8"
    stored = c.text("ple_embedding_dtype", "checkpoint", ("checkpoint", "bfloat16", "float8_e4m3fn"))
    narrow = FORMATS["fp8"] if stored == "float8_e4m3fn" or quantized else None
    where = sorted({i - 1 for i in layers})
    if len(where) * hashes > MOST_HASHES:
        raise c.error("ple_layer_ids", f"at most {MOST_HASHES // hashes} layers with {hashes} hashes each")
    if where and values % hashes:
        raise c.error("ple_embed_dim", f"a multiple of the {hashes} hashes of a token")
    rows = primes_from(base, len(where) * hashes).reshape(-1, hashes).sum(axis=1)
    width = values // hashes or 1
    padded = [-(-int(n) // padding) * padding for n in rows]
    return {
        i: Embedding(name="ngram_table", rows=n, width=width, lookups=hashes, format=narrow)
        for i, n in zip(where, padded, strict=True)
    }


def _ngrams(c: Config, width: int, streams: int, table: Embedding) -> Modules:
    """What a layer adds of its n-grams: a value that every stream gates by a key, and a convolution of it over time."""
    every, values, kernel = streams * width, table.width * table.lookups, c.size("ple_conv_kernel_size", 4)
    return (
        table,
        Linear(name="ngram_key_proj", inputs=values, outputs=every, part="other"),
        Linear(name="ngram_value_proj", inputs=values, outputs=width, part="other", beside=True),
        _of_streams("ngram_key_norm", width, streams),
        _of_streams("ngram_query_norm", width, streams),
        Gate(name="ngram_match", width=every, gates=every, sigmoid=False),
        Gate(name="ngram_gate", width=every, gates=streams),
        _of_streams("ngram_conv_norm", width, streams),
        Conv(name="ngram_conv", channels=every, kernel=kernel, padding=0, dilation=c.size("ngram_size", 3)),
        Activation(name="ngram_act", width=every, function="silu", gated=False),
        Add(name="ngram_sum", width=every),
        Add(name="ngram_residual", width=every),
    )


def primes_from(start: int, count: int) -> Array:
    """The first `count` primes that are not below `start`, by the sieve of Eratosthenes.

    >>> primes_from(20, 4).tolist()
    [23, 29, 31, 37]
    """
    span = 64 + 4 * count * (start + count).bit_length()  # far more than the mean gap, ln n
    start = max(start, 2)
    end = start + span
    small = np.ones(int(end**0.5) + 2, dtype=bool)
    left = np.ones(span, dtype=bool)
    for p in range(2, len(small)):
        if small[p]:
            small[p * p :: p] = False
            left[max(p * p, -(-start // p) * p) - start :: p] = False
    primes = np.flatnonzero(left)[:count] + start
    assert len(primes) == count
    return primes.astype(np.int64)
