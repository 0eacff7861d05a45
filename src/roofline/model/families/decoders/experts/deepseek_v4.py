"""DeepSeek-V4 and V4.1: compressed attention, hyper-connections, experts on every layer; V4.1 adds hashed n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import rope_section
from roofline.model.families.blocks.feed_forward import fine_moe
from roofline.model.families.blocks.layers import causal_lm
from roofline.model.families.blocks.norms import plain_per_head, rms
from roofline.model.families.blocks.projections import column_product, replicated_product, row_product
from roofline.model.families.blocks.sizes import depth
from roofline.model.families.blocks.streams import collapse, stream_layer
from roofline.model.families.registry import family
from roofline.model.formats import FORMATS
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Add,
    CompressedAttention,
    Compressor,
    Embedding,
    Gate,
    Indexer,
    Linear,
    Module,
    Modules,
    Norm,
    Pace,
    Rope,
    Router,
)

SPARSE, HEAVY, SLIDING = "compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention"
RATES = {SPARSE: 4, HEAVY: 128}
NAMES = {SPARSE: "sparse", HEAVY: "compressed", SLIDING: "sliding"}


@family("deepseek_v4")
def deepseek_v4(c: Config) -> Model:
    """DeepSeek-V4: attention over a window and compressed entries; residual streams that every sublayer mixes."""
    width, streams = c.size("hidden_size"), c.size("hc_mult", 4)
    layers = _layer_types(c, depth(c))
    c.per_layer("mlp_layer_types", len(layers), ("hash_moe", "moe"), ["moe"] * len(layers))
    experts, mixers = _experts(c, width), {name: _attention(c, width, name) for name in dict.fromkeys(layers)}
    blocks = {
        name: stream_layer(f"{NAMES[name]} moe", width, streams, mixer, experts) for name, mixer in mixers.items()
    }
    c.mark_read("hc_sinkhorn_iters", "hc_eps", "compress_rope_theta", "partial_rotary_factor")
    c.mark_read("index_topk", "index_n_heads", "index_head_dim")
    last = collapse("hc_head", width, streams, streams, 1)
    model = causal_lm(c, width, [blocks[name] for name in layers], after=last)
    stored, q = c.text("expert_dtype", "checkpoint", ("checkpoint", "fp4", "fp8")), c.section("quantization_config").raw
    if stored == "fp4" and q.get("quant_method", "fp8") == "fp8" and q.get("moe_quant_algo") is None:
        return replace(model, precision=model.precision.with_roles(experts="mxfp4"))
    return model


def _experts(c: Config, width: int) -> Modules:
    """Experts with one shared expert: the published code builds one whatever `n_shared_experts` says."""
    if c.size("n_shared_experts", 1, least=0) != 1:
        c.note(f"{c.field('n_shared_experts')} was not used: this architecture has one shared expert")
    return fine_moe(c.with_values(n_shared_experts=1), width, shared_bias=c.flag("mlp_bias"))


def _layer_types(c: Config, layers: int) -> list[str]:
    """Attention type of each layer: by `layer_types`, by the older `compress_ratios`, or alternating."""
    default = [HEAVY if i < 2 or i % 2 == 0 else SPARSE for i in range(layers)]
    if isinstance(ratios := c.value("compress_ratios", None)[1], list):
        names = {0: SLIDING, **{rate: name for name, rate in RATES.items()}}
        if len(ratios) < layers or any(type(r) is not int or r not in names for r in ratios):
            raise c.error("compress_ratios", f"at least {layers} of 0, 4 or 128")
        default = [names[r] for r in ratios[:layers]]
    return c.per_layer("layer_types", layers, (SPARSE, HEAVY, SLIDING), default)


def _attention(c: Config, width: int, name: str) -> Modules:
    """Attention with compressed queries, one head of keys that are also the values, and a grouped two-step output."""
    heads, dim, rank = c.size("num_attention_heads"), c.size("head_dim", 512), c.size("q_lora_rank")
    groups, out_rank, rotated = c.size("o_groups", 8), c.size("o_lora_rank", 1024), c.size("qk_rope_head_dim", dim // 8)
    rates, window = c.section("compress_rates"), c.size("sliding_window", 128)
    c.size("num_key_value_heads", 1, most=1), rope_section(c)
    rate = None if name == SLIDING else rates.size(name, RATES[name])
    select = c.size("index_topk", 512) if name == SPARSE else None
    entries = () if rate is None else _compressor("kv_compressor", width, dim, rate, rotated, name == SPARSE)
    indexer = _indexer(c, width, rank, rate, rotated) if rate and name == SPARSE else ()
    core = CompressedAttention(name="attention", heads=heads, head_dim=dim, window=window, rate=rate, select=select)
    return (
        *_queries(width, rank, heads, dim, plain_per_head("q_norm", heads, dim)),
        Rope(name="rope", heads=heads + 1, dims=rotated),
        *entries,
        *indexer,
        *_grouped_output(core, width, groups, out_rank, rotated),
    )


def _queries(width: int, rank: int, heads: int, dim: int, *norms: Module) -> Modules:
    """Compressed queries, and one head of keys that are also values."""
    return (
        replicated_product("q_a_proj", width, rank, stacked=rank + dim),
        rms("q_a_norm", rank),
        column_product("q_b_proj", rank, heads * dim),
        *norms,
        replicated_product("kv_proj", width, dim, beside=True, stacked=rank + dim),
        rms("kv_norm", dim),
    )


def _grouped_output(core: CompressedAttention, width: int, groups: int, rank: int, rotated: int) -> Modules:
    """Attention whose output is rotated back, and a product in two steps, the first within groups of heads."""
    inner = core.heads * core.head_dim
    return (
        core,
        Rope(name="out_rope", heads=core.heads, dims=rotated),
        Linear(name="o_a_proj", inputs=inner, outputs=groups * rank, groups=groups, part="attention", cut="groups"),
        row_product("o_b_proj", groups * rank, width),
    )


def _compressor(name: str, width: int, dim: int, rate: int, rotated: int, overlap: bool) -> Modules:
    """A compressor and its projection to keys and their gates, twice as wide where the spans of entries overlap."""
    wide = 2 * dim * (2 if overlap else 1)
    return (
        replicated_product(f"{name}_proj", width, wide, beside=True),
        Compressor(name=name, width=dim, rate=rate, rope=rotated, overlap=overlap),
    )


def _indexer(c: Config, width: int, rank: int, rate: int, rotated: int) -> Modules:
    """An indexer over separate compressed entries, which selects the entries that a query sees."""
    heads, dim = c.size("index_n_heads", 64), c.size("index_head_dim", 128)
    return (
        *_compressor("index_compressor", width, dim, rate, rotated, True),
        replicated_product("index_q_proj", rank, heads * dim),
        Rope(name="index_rope", heads=heads, dims=rotated),
        replicated_product("index_weights_proj", width, heads, beside=True),
        Indexer(name="indexer", heads=heads, head_dim=dim, rate=rate, sum_by_product=False),
    )


# -- V4.1 ----------------------------------------------------------------------------------------------------------
@family("deepseek_v41_text")
def deepseek_v41(c: Config) -> Model:
    """DeepSeek-V4.1 (model card deepseek-ai/DeepSeek-V4.1-Flash): a few layers make the entries that all attend to.

    By the code that serves it: mlx-lm's deepseek_v41.py and SGLang's deepseek_v4.py. The weights that sum the streams
    before a sublayer are made by the one before it, so that nothing is learned behind the last layer. From the last
    layer that makes entries on, a prompt's last tokens alone are computed, as many as the window holds.
    """
    width, streams, layers = c.size("hidden_size"), c.size("hc_mult", 4), depth(c)
    rates, grams = _rates(c, layers), _engrams(c, width, streams)
    experts = tuple(replace(m, correction=True) if isinstance(m, Router) else m for m in _experts(c, width))
    makes, picks = _numbers(c, "kv_source_layer_ids", layers), _numbers(c, "index_source_layer_ids", layers)
    blocks = []
    for i in range(layers):
        mixer = _shared_attention(c, width, i, rates[i], makes=i in makes, picks=i in picks)
        name = "sliding" if not rates[i] else "source" if i in makes else "indexed" if i in picks else "sparse"
        layer = stream_layer(f"{name} moe" + " ngrams" * (i in grams), width, streams, mixer, experts)
        modules = (*grams.get(i, ()), *layer.modules)
        if makes and i >= max(makes):
            modules = tuple(_at_the_end(modules, c.size("sliding_window", 128)))
        blocks.append(Block(layer.name, modules))
    c.mark_read(*_V41)
    last = collapse("hc_head", width, streams, streams, 1)
    return causal_lm(c, width, blocks, after=tuple(m for m in last if isinstance(m, (Gate, Add))))


MAKING = ("kv_compressor_proj", "kv_compressor", "index_k_proj", "index_compressor")
"""Modules that make entries of all tokens."""


def _at_the_end(modules: Modules, window: int) -> Iterator[Module]:
    """The modules over the last tokens of a prompt, but for those that make entries."""
    pace = Pace(most=window, last=True)
    yield from (m if m.name in MAKING else replace(m, pace=pace) for m in modules)


_V41 = """
    hc_sinkhorn_iters hc_eps compress_rope_theta engram_vocab_size engram_pad_token_id engram_compressed_vocab_size
    num_nextn_predict_layers dspark_block_size dspark_noise_token_id dspark_target_layer_ids dspark_markov_rank
    dspark_n_routed_experts dspark_num_experts_per_tok candidate_topk_blocks candidate_block_size gate_temp
""".split()


def _numbers(c: Config, key: str, layers: int) -> list[int]:
    """Numbers of layers, from 0."""
    return _listed(c, key, layers, f"numbers of layers from 0 to {layers - 1}")


def _rates(c: Config, layers: int) -> list[int]:
    """Tokens of an entry that each layer attends to; 0 for its window alone."""
    expected = f"at least {layers} numbers of tokens, 0 for none"
    rates = _listed(c, "compress_ratios", 2**16, expected)
    if len(rates) < layers:
        raise c.error("compress_ratios", expected)
    return rates[:layers]


def _listed(c: Config, key: str, below: int, expected: str) -> list[int]:
    """A list of whole numbers from 0, which may be missing."""
    listed = c.value(key, None)[1] or []
    known = [n for n in listed if type(n) is int and 0 <= n < below] if isinstance(listed, list) else []
    if not isinstance(listed, list) or len(known) < len(listed):
        raise c.error(key, expected)
    return known


def _shared_attention(c: Config, width: int, i: int, rate: int, *, makes: bool, picks: bool) -> Modules:
    """Attention to a window and to entries that an earlier layer made (`makes`) and one chose (`picks`).

    What makes entries and their weights stays in 16 bits where the rest is in FP8.
    """
    heads, dim, rank = c.size("num_attention_heads"), c.size("head_dim", 512), c.size("q_lora_rank")
    groups, out_rank, rotated = c.size("o_groups", 8), c.size("o_lora_rank", 1024), c.size("qk_rope_head_dim", 64)
    own, own_heads = c.size("index_head_dim", 128), c.size("index_n_heads", 32)
    c.size("num_key_value_heads", 1, most=1), rope_section(c)
    entries: Modules = ()
    if makes and rate:
        wide = dim * (2 if rate > 1 else 1)
        entries = (
            replace(replicated_product("kv_compressor_proj", width, wide, beside=True), part="other"),
            Compressor(name="kv_compressor", width=dim, rate=rate, rope=rotated, biased=False),
            replace(replicated_product("index_k_proj", dim, own), split=rate, part="other"),
            Compressor(name="index_compressor", width=own, rate=rate, rope=rotated, biased=False),
        )
    if picks and rate:
        first = c.size("candidate_source_layer_id", -1, least=-1)
        blocks, block = c.size("candidate_topk_blocks", 0, least=0), c.size("candidate_block_size", 8)
        entries += (
            replicated_product("index_q_proj", rank, own_heads * own),
            Rope(name="index_rope", heads=own_heads, dims=rotated),
            replace(replicated_product("index_weights_proj", width, own_heads, beside=True), part="other"),
            Indexer(
                name="indexer", heads=own_heads, head_dim=own, rate=rate, sum_by_product=False,
                most=blocks * block if blocks and 0 <= first < i else None,
            ),
        )  # fmt: skip
    core = CompressedAttention(
        name="attention", heads=heads, head_dim=dim, window=c.size("sliding_window", 128), rate=rate or None,
        select=c.size("index_topk", 512) if rate else None,
    )  # fmt: skip
    queries = (*_queries(width, rank, heads, dim), Rope(name="rope", heads=heads + 1, dims=rotated))
    return (*queries, *entries, *_grouped_output(core, width, groups, out_rank, rotated))


def _engrams(c: Config, width: int, streams: int) -> dict[int, Modules]:
    """What layers add of hashed n-grams: rows of a table in FP8, a key for each stream, and a value that it gates."""
    where = _numbers(c, "engram_layer_ids", depth(c))
    expected = f"{len(where)} numbers of rows, one for each of engram_layer_ids"
    rows, dim = _listed(c, "engram_num_embeddings", 2**40, expected), c.size("engram_head_dim", 256)
    hashes = (c.size("engram_max_ngram_size", 4, least=2, most=64) - 1) * c.size("engram_n_heads", 8, most=64)
    if len(rows) != len(where) or 0 in rows:
        raise c.error("engram_num_embeddings", expected)
    every = streams * width
    product = Linear(name="ngram_kv_proj", inputs=hashes * dim, outputs=every + width)
    norms = [Norm(name=f"ngram_{of}_norm", width=width, repeats=streams, per_repeat=True) for of in ("key", "query")]
    gates = (
        Gate(name="ngram_match", width=every, gates=every, sigmoid=False),
        Gate(name="ngram_gate", width=every, gates=streams),
        Add(name="ngram_residual", width=every),
    )
    return {
        i: (
            Embedding(name="ngram_table", rows=n, width=dim, lookups=hashes, format=FORMATS["mxfp8"]),
            product, *norms, *gates,
        )
        for i, n in zip(where, rows, strict=True)
    }  # fmt: skip
