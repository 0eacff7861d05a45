"""DeepSeek and Kimi: multi-head latent attention, many small experts with shared ones (arXiv:2405.04434)."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.parts import (
    causal_lm,
    depth,
    function,
    kind,
    latent_attention,
    layer,
    mlp,
    mlp_layer_types,
    moe,
)
from roofline.model.families.registry import family
from roofline.model.model import Model


def _latent_moe(c: Config, first_dense: int, *, mlp_bias: bool = False, indexed: bool = False) -> Model:
    """Latent attention throughout; dense layers first, then experts with `n_shared_experts` shared ones."""
    width, layers, inner = c.size("hidden_size"), depth(c), c.size("moe_intermediate_size")
    mixer = latent_attention(c, bias=c.flag("attention_bias"), indexed=indexed)
    dense = mlp(width, c.size("intermediate_size"), function(c), bias=mlp_bias)
    shared, top_k = inner * c.size("n_shared_experts", 0, least=0), c.size("num_experts_per_tok", None)
    experts = moe(c, width, c.size("n_routed_experts"), top_k, inner, shared=shared, shared_bias=mlp_bias)
    sparse = mlp_layer_types(c, layers, first_dense)
    return causal_lm(c, width, [layer(kind(s), width, mixer, experts if s else dense) for s in sparse])


@family("deepseek_v2")
def deepseek_v2(c: Config) -> Model:
    """DeepSeek-V2."""
    return _latent_moe(c, c.size("first_k_dense_replace", 0, least=0), mlp_bias=c.flag("mlp_bias"))


@family("deepseek_v3", "kimi_k2")
def deepseek_v3(c: Config) -> Model:
    """DeepSeek-V3, R1 and Kimi K2. Its multi-token-prediction layers are not part of a plain step."""
    return _latent_moe(c, c.size("first_k_dense_replace", 3, least=0))


@family("deepseek_v32")
def deepseek_v32(c: Config) -> Model:
    """DeepSeek-V3.2: an indexer picks the tokens each query attends to."""
    return _latent_moe(c, c.size("first_k_dense_replace", 3, least=0), indexed=True)


@family("glm4_moe_lite")
def glm4_moe_lite(c: Config) -> Model:
    """GLM-4.7-Flash: latent attention, one dense layer."""
    c.read.add("first_k_dense_replace")
    return _latent_moe(c, 1)
