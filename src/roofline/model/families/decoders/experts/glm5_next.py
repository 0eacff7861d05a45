"""GLM-5.3-Flash: delta attention, and latent attention to pools of tokens, with hyper-connections."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import latent_attention
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types
from roofline.model.families.blocks.layers import causal_lm, kind, with_before
from roofline.model.families.blocks.projections import replicated_product
from roofline.model.families.blocks.recurrent import kimi_delta
from roofline.model.families.blocks.sizes import depth
from roofline.model.families.blocks.streams import stream_layer
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Add, Compressor, Indexer, LatentAttention, Module, Modules

NAMES = {"linear": "linear", "full": "", "shared": "shared index"}


@family("glm5_next_text")
def glm5_next(c: Config) -> Model:
    """GLM-5.3-Flash (model card zai-org/GLM-5.3-Flash): three layers of Kimi's delta attention to one of latent."""
    width, kinds, streams = c.size("hidden_size"), _kinds(c, depth(c)), c.assumed("hc_mult", 4)
    mixers = {k: _linear(c, width) if k == "linear" else _pooled(c, width, k) for k in dict.fromkeys(kinds)}
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), fine_moe(c, width)
    blocks = [
        stream_layer(kind(s, NAMES[k]), width, streams, mixers[k], experts if s else dense)
        for k, s in zip(kinds, mlp_layer_types(c, len(kinds), 3), strict=True)
    ]
    c.mark_read("hc_eps", "hc_sinkhorn_iters", "linear_lower_bound", "head_dim", "qk_head_dim", "linear_attn_config")
    return causal_lm(c, width, blocks, after=(Add(name="hc_head_sum", width=(streams - 1) * width),))


def _kinds(c: Config, layers: int) -> list[str]:
    """Attention of each layer: linear, or latent with its own indexer (full) or an earlier selection (shared)."""
    default = ["indexed_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)]
    kinds = c.per_layer("layer_types", layers, ("linear_attention", "indexed_attention", "full_attention"), default)
    every, skip = c.size("index_topk_freq", 1), c.size("index_skip_topk_offset", 2, least=0)
    index = ["shared" if max(i - skip + 1, 0) % every else "full" for i in range(layers)]
    if isinstance(c.raw.get("index_topk_pattern"), str):
        index = ["full" if letter == "F" else "shared" for letter in c.text("index_topk_pattern")]
    index = c.per_layer("indexer_types", layers, ("full", "shared"), index)
    return ["linear" if k == "linear_attention" else i for k, i in zip(kinds, index, strict=True)]


def _linear(c: Config, width: int) -> Modules:
    """Kimi Delta Attention from the keys of `linear_attn_config`, or from flat keys."""
    inside = c.section("linear_attn_config")
    heads, dim = (
        inside.size("num_heads", c.size("linear_num_heads", 64)),
        inside.size("head_dim", c.size("linear_head_dim", 128)),
    )
    return kimi_delta(width, heads, dim, inside.size("short_conv_kernel_size", c.size("linear_conv_kernel_dim", 4)))


def _pooled(c: Config, width: int, index: str) -> Modules:
    """Latent attention without RoPE to `index_topk` tokens in pools of `index_kpool`, and to the incomplete pool."""
    pool, dim = c.assumed("index_kpool", 16), c.size("index_head_dim")
    if not c.flag("index_kpool_always_select_tail", True):
        raise c.error("index_kpool_always_select_tail", "true")

    def at_one(m: Module) -> Module:
        if isinstance(m, LatentAttention):
            return replace(m, pool=pool)
        return replace(m, rate=pool) if isinstance(m, Indexer) else m

    latent = latent_attention(c, bias=c.flag("attention_bias"), index=index, rope=False)
    gates = replicated_product("index_compressor_proj", width, dim)
    compressor = Compressor(name="index_compressor", width=dim, rate=pool, rope=0, normed=False)
    return with_before((at_one(m) for m in latent), "index_weights_proj", gates, compressor)
