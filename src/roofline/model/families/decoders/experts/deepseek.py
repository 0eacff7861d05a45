"""DeepSeek and Kimi: multi-head latent attention, many small experts with shared ones (arXiv:2405.04434)."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import latent_attention
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types
from roofline.model.families.blocks.layers import causal_lm, layer, stack
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.sizes import depth, split
from roofline.model.families.decoders.experts.deepseek_moe import deepseek_moe
from roofline.model.families.registry import family
from roofline.model.model import Model


def _latent_moe(
    c: Config, first_dense: int, *, mlp_bias: bool = False, every: int = 1, index: Sequence[str] = (),
    expert_norm: bool = False,
) -> Model:  # fmt: skip
    """Latent attention in all layers; dense layers first, then experts with `n_shared_experts` shared ones.

    `index`: indexer of each layer. `expert_norm`: a norm of the experts' sum.
    """
    width, layers, bias = c.size("hidden_size"), depth(c), c.flag("attention_bias")
    indexes = index or ("none",) * layers
    latent = {i: latent_attention(c, bias=bias, index=i) for i in dict.fromkeys(indexes)}
    mixers = [("shared index" if i == "shared" else "", latent[i]) for i in indexes]
    dense = mlp(width, c.size("intermediate_size"), activation(c), bias=mlp_bias)
    experts = (*fine_moe(c, width, shared_bias=mlp_bias), *((rms("experts_norm", width),) if expert_norm else ()))
    sparse = mlp_layer_types(c, layers, first_dense, every)
    return causal_lm(c, width, stack(width, mixers, dense, experts=experts, sparse=sparse))


@family("deepseek_v2")
def deepseek_v2(c: Config) -> Model:
    """DeepSeek-V2; with `use_mla` false, as in the small DeepSeek-VL2, it has no latent attention."""
    if not c.flag("use_mla", True):
        return deepseek_moe(c)
    return _latent_moe(c, c.size("first_k_dense_replace", 0, least=0), mlp_bias=c.flag("mlp_bias"))


@family("deepseek_v3", "joyai_llm_flash", "kimi_k2")
def deepseek_v3(c: Config) -> Model:
    """DeepSeek-V3, R1 and Kimi K2. A plain step does not run the multi-token-prediction layers."""
    return _latent_moe(c, c.size("first_k_dense_replace", 3, least=0))


_INDEXED = ("indexed_attention", "deepseek_sparse_attention")  # one layer under two names


@family("deepseek_v32")
def deepseek_v32(c: Config) -> Model:
    """DeepSeek-V3.2: an indexer selects the tokens that each query attends to."""
    layers = depth(c)
    c.per_layer("layer_types", layers, _INDEXED, ["indexed_attention"] * layers)
    return _latent_moe(c, c.size("first_k_dense_replace", 3, least=0), index=("full",) * layers)


@family("glm_moe_dsa")
def glm_moe_dsa(c: Config) -> Model:
    """GLM-5: DeepSeek-V3.2's sparse attention, where some layers reuse the selection of an earlier indexer."""
    layers, every, skip = depth(c), c.size("index_topk_freq", 1), c.size("index_skip_topk_offset", 2, least=0)
    c.per_layer("layer_types", layers, _INDEXED, ["indexed_attention"] * layers)
    default = ["shared" if max(i - skip + 1, 0) % every else "full" for i in range(layers)]
    if isinstance(c.get("index_topk_pattern"), str):
        default = ["full" if letter == "F" else "shared" for letter in c.text("index_topk_pattern")]
    index = c.per_layer("indexer_types", layers, ("full", "shared"), default)
    return _latent_moe(c, c.size("first_k_dense_replace", 3, least=0), index=index)


@family("mistral4")
def mistral4(c: Config) -> Model:
    """Mistral Small 4: DeepSeek-V3 with experts on every layer."""
    return _latent_moe(c, c.size("first_k_dense_replace", 0, least=0))


@family("axk1")
def axk1(c: Config) -> Model:
    """A.X K1: DeepSeek-V3 with a norm after the experts."""
    first, every = c.size("first_k_dense_replace", 1, least=0), c.size("moe_layer_freq", 1)
    return _latent_moe(c, first, every=every, expert_norm=True)


@family("youtu", "youtu_llm")
def youtu(c: Config) -> Model:
    """Youtu-LLM (arXiv:2512.24618): latent attention, dense."""
    return _latent_dense(c)


@family("minicpm3")
def minicpm3(c: Config) -> Model:
    """MiniCPM3: latent attention, dense, value heads of hidden_size / heads."""
    if not c.has("v_head_dim"):
        width, heads = c.size("hidden_size"), c.size("num_attention_heads")
        c = c.with_values(v_head_dim=split(c, "num_attention_heads", width, heads, "hidden_size"))
    return _latent_dense(c, mlp_bias=c.flag("mlp_bias"))


def _latent_dense(c: Config, *, mlp_bias: bool = False) -> Model:
    """A model with latent attention, a dense feed-forward and a tied embedding."""
    width = c.size("hidden_size")
    ffn = mlp(width, c.size("intermediate_size"), activation(c), bias=mlp_bias)
    block = layer("dense", width, latent_attention(c, bias=c.flag("attention_bias")), ffn)
    return causal_lm(c, width, [block] * depth(c), tied=True)


@family("glm4_moe_lite")
def glm4_moe_lite(c: Config) -> Model:
    """GLM-4.7-Flash: latent attention, one dense layer."""
    c.mark_read("first_k_dense_replace")
    return _latent_moe(c, 1)
