"""Mistral Large 4: latent attention to tokens that an indexer selects, without RoPE in every fourth layer."""

from __future__ import annotations

from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import rope_section
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types
from roofline.model.families.blocks.layers import causal_lm, stack
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.projections import column_product, replicated_product, row_product
from roofline.model.families.blocks.sizes import depth
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Activation, Indexer, LatentAttention, Modules, Rope


@family("mistral_large4_text")
def mistral_large4(c: Config) -> Model:
    """Mistral Large 4 (Mistral AI, 2026): DeepSeek-V3.2 with uncompressed queries and RoPE in three of four layers."""
    width, layers, every = c.size("hidden_size"), depth(c), c.size("no_rope_layer_interval", 4)
    default = [int((i + 1) % every != 0) for i in range(layers)]
    ropes = c.per_layer("no_rope_layers", layers, (0, 1), default)
    c.per_layer("layer_types", layers, ("indexed_attention",), ["indexed_attention"] * layers)
    c.per_layer("indexer_types", layers, ("full",), ["full"] * layers)
    if c.value("kv_source_layers", list(range(layers)))[1] != list(range(layers)):
        raise c.error("kv_source_layers", "each layer's own index: layers that share a cache are not covered yet")
    sparse = mlp_layer_types(c, layers, c.size("first_k_dense_replace", 1, least=0))
    mixer = partial(_indexed_attention, c, width, c.size("num_attention_heads"))
    mixers = [("", mixer(True)) if rope else ("without rope", mixer(False)) for rope in ropes]
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), fine_moe(c, width)
    return causal_lm(c, width, stack(width, mixers, dense, experts=experts, sparse=sparse))


def _indexed_attention(c: Config, width: int, heads: int, with_rope: bool) -> Modules:
    """Latent attention with learned query scales; without RoPE, the rotary part is added to the positionless part."""
    rank, head, rotated, v = (c.size(k) for k in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    c.size("num_key_value_heads", heads), c.size("head_dim", None), c.size("qk_head_dim", None), rope_section(c)
    rope, bias, queries = rotated if with_rope else 0, c.flag("attention_bias"), heads * (head + rotated)
    nope = head + rotated - rope
    embedding = (Rope(name="rope", heads=heads + 1, dims=rope),) if rope else ()
    return (
        column_product("q_proj", width, queries),
        replicated_product("kv_a_proj", width, rank + rope, bias, beside=True),
        rms("kv_a_norm", rank),
        *embedding,
        Activation(name="q_scale", width=queries, function="linear", gated=False, learned=2 * heads),
        *_indexer(c, width),
        LatentAttention(
            name="attention", heads=heads, rank=rank, nope=nope, rope=rope, v=v, select=c.size("index_topk")
        ),
        row_product("o_proj", heads * v, width, bias),
    )


def _indexer(c: Config, width: int) -> Modules:
    """The lightning indexer, with queries computed from the hidden state through a separate norm."""
    heads, dim = c.size("index_n_heads"), c.size("index_head_dim")
    return (
        layer_norm("index_q_norm", width),
        replicated_product("index_q_proj", width, heads * dim),
        Activation(name="index_q_scale", width=heads * dim, function="linear", gated=False, learned=2 * heads),
        replicated_product("index_k_proj", width, dim, beside=True),
        layer_norm("index_k_norm", dim),
        replicated_product("index_weights_proj", width, heads, beside=True),
        Indexer(name="indexer", heads=heads, head_dim=dim),
    )
