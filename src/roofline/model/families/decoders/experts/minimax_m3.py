"""MiniMax-M3 (model card MiniMaxAI/MiniMax-M3): grouped queries attend to blocks that an indexer selects."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import causal_lm, stack, with_before
from roofline.model.families.blocks.norms import per_head
from roofline.model.families.blocks.projections import replicated_product
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Attention, Indexer, Modules, Rope

SPARSE, FULL = "minimax_m3_sparse", "full_attention"


@family("minimax_m3_vl_text")
def minimax_m3(c: Config) -> Model:
    """MiniMax-M3's language model: q/k norms, partial RoPE, experts, one shared; its activation counts as a SiLU."""
    c = c.with_values(hidden_act="silu")
    d, act, top_k = dims(c, head_dim=128), activation(c), c.size("num_experts_per_tok")
    rope = c.size("rotary_dim", None, most=d.head_dim) or rotary(c, d.head_dim)
    full = attention(d, rotary=rope, qk_norm=per_head)
    kinds, inner, shared = _layer_types(c, d.layers), c.size("intermediate_size"), c.size("shared_intermediate_size")
    picked = _picked(c, d, full, rope) if SPARSE in kinds else ()
    experts = moe(c, d.width, c.size("num_local_experts|num_experts"), top_k, inner, act=act, shared=shared)
    dense, mixers = (
        mlp(d.width, c.size("dense_intermediate_size", 12288), act),
        {FULL: ("", full), SPARSE: ("picked", picked)},
    )
    c.mark_read("sparse_attention_config", "n_shared_experts", "rope_parameters")
    c.mark_read("index_n_heads", "index_head_dim", "index_block_size", "index_topk_blocks", "index_local_blocks")
    return causal_lm(
        c, d.width, stack(d.width, [mixers[k] for k in kinds], dense, experts=experts, sparse=_sparse(c, d.layers))
    )


def _indexing(c: Config, key: str, older: str, default: int) -> int:
    """A size of the indexer; the key in `sparse_attention_config` takes precedence over the flat one."""
    inside = c.section("sparse_attention_config")
    return inside.size(older) if inside.has(older) else c.size(key, default)


def _picked(c: Config, d: Dims, full: Modules, rope: int) -> Modules:
    """Attention to selected blocks; each small head of the indexer selects for its group of heads."""
    heads, dim = (
        _indexing(c, "index_n_heads", "sparse_num_index_heads", 4),
        _indexing(c, "index_head_dim", "sparse_index_dim", 128),
    )
    block, select = (
        _indexing(c, "index_block_size", "sparse_block_size", 128),
        _indexing(c, "index_topk_blocks", "sparse_topk_blocks", 16),
    )
    _indexing(c, "index_local_blocks", "sparse_local_block", 1)
    indexer = (
        replicated_product("index_q_proj", d.width, heads * dim),
        replicated_product("index_k_proj", d.width, dim),
        per_head("index_q_norm", heads, dim),
        per_head("index_k_norm", 1, dim),
        Rope(name="index_rope", heads=heads + 1, dims=min(rope, dim)),
        Indexer(name="indexer", heads=heads, head_dim=dim, summed=False),
    )
    sparse = (replace(m, block=block, select=select) if isinstance(m, Attention) else m for m in full)
    return with_before(sparse, "attention", *indexer)


def _layer_types(c: Config, layers: int) -> list[str]:
    """Attention type of each layer: by `layer_types`, or by 0 and 1 in `sparse_attention_config`."""
    inside, default = c.section("sparse_attention_config"), [FULL] * layers
    if inside.has("sparse_attention_freq"):
        default = [SPARSE if n else FULL for n in inside.per_layer("sparse_attention_freq", layers, (0, 1))]
    return c.per_layer("layer_types", layers, (SPARSE, FULL), default)


def _sparse(c: Config, layers: int) -> list[bool]:
    """Whether each layer has experts: by `mlp_layer_types`, by 0 and 1 in `moe_layer_freq`, else all."""
    listed = c.per_layer("moe_layer_freq", layers, (0, 1), [1] * layers)
    given = mlp_layer_types(c, layers, 0)
    return given if c.has("mlp_layer_types") else [n == 1 for n in listed]
