"""DeepSeek-V4: compressed attention, hyper-connections, experts on every layer."""

from __future__ import annotations

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
from roofline.model.model import Model
from roofline.model.modules import (
    CompressedAttention,
    Compressor,
    Indexer,
    Linear,
    Modules,
    Rope,
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
    inner = heads * dim
    entries = () if rate is None else _compressor("kv_compressor", width, dim, rate, rotated, name == SPARSE)
    return (
        replicated_product("q_a_proj", width, rank, stacked=rank + dim),
        rms("q_a_norm", rank),
        column_product("q_b_proj", rank, inner),
        plain_per_head("q_norm", heads, dim),
        replicated_product("kv_proj", width, dim, beside=True, stacked=rank + dim),
        rms("kv_norm", dim),
        Rope(name="rope", heads=heads + 1, dims=rotated),
        *entries,
        *(_indexer(c, width, rank, rate, rotated) if rate and name == SPARSE else ()),
        CompressedAttention(name="attention", heads=heads, head_dim=dim, window=window, rate=rate, select=select),
        Rope(name="out_rope", heads=heads, dims=rotated),
        Linear(name="o_a_proj", inputs=inner, outputs=groups * out_rank, groups=groups, part="attention", cut="groups"),
        row_product("o_b_proj", groups * out_rank, width),
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
