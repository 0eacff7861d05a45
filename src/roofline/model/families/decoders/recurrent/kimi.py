"""Kimi Linear (arXiv:2510.26692) and Kimi K3: three layers of delta attention to one of latent attention without RoPE.

What K3 adds is that of mlx-lm 0.32.2 (kimi_k3.py) and SGLang 0.5.23: gates of latent attention, experts on a narrower
hidden state, and sublayers that read a mixture of the sums of earlier blocks of layers (attention residuals).
"""

from __future__ import annotations

from dataclasses import replace

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import latent_attention
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, mlp_layer_types
from roofline.model.families.blocks.layers import causal_lm, kind, stack, untied
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.recurrent import kimi_delta
from roofline.model.families.blocks.sizes import depth
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Add, DepthAttention, Experts, Linear, Modules, Norm


@family("kimi_linear")
def kimi_linear(c: Config) -> Model:
    """Kimi Linear, and with the keys of Kimi K3 that model's text part."""
    c, every = _plain(untied(c)), c.size("attn_res_block_size", None)
    width, layers, inside = c.size("hidden_size"), depth(c), c.section("linear_attn_config")
    gates = c.size("v_head_dim") if c.flag("mla_use_output_gate") else 0
    latent = latent_attention(c, bias=c.flag("attention_bias"), rope=False, gates=gates)
    mixers = {"linear_attention": ("linear", _delta(c, inside, width)), "full_attention": ("", latent)}
    kinds = c.per_layer("layer_types", layers, tuple(mixers), _kinds(inside, layers))
    dense, experts = mlp(width, c.size("intermediate_size"), activation(c)), _experts(c, width)
    first = c.size("first_k_dense_replace", 1, least=0)
    sparse = mlp_layer_types(c, layers, first, c.size("moe_layer_freq", 1))
    if every is None:
        return causal_lm(c, width, stack(width, [mixers[k] for k in kinds], dense, experts=experts, sparse=sparse))
    blocks = [
        _chosen(i, every, width, (kind(s, mixers[k][0]), mixers[k][1], experts if s else dense))
        for i, (k, s) in enumerate(zip(kinds, sparse, strict=True))
    ]
    return causal_lm(c, width, blocks, after=_among("final_input", width, layers, every))


def _plain(c: Config) -> Config:
    """The config with SiLU in the place of SiTU, β·tanh(x/β)·σ(x), which has no parameters either."""
    c.mark_read("activation_situ_beta", "activation_situ_linear_beta", "moe_router_activation_func", "mla_use_nope")
    c.mark_read("use_grouped_topk", "num_expert_group", "topk_group")
    return c.with_values(hidden_act="silu") if c.raw.get("hidden_act") == "situ" else c


def _kinds(inside: Config, layers: int) -> list[str]:
    """Mixer of each layer, by the numbers, from 1, of those with latent attention or of the others."""
    full, linear = (inside.value(key, None)[1] for key in ("full_attn_layers", "kda_layers"))
    inside.mark_read("gate_lower_bound")

    def attends(i: int) -> bool:
        if isinstance(full, list):
            return i + 1 in full
        return i + 1 not in linear if isinstance(linear, list) else i > 0 and i % 4 == 0

    return ["full_attention" if attends(i) else "linear_attention" for i in range(layers)]


def _delta(c: Config, inside: Config, width: int) -> Modules:
    """Kimi Delta Attention from the keys in `linear_attn_config`, or from the flat ones of transformers."""

    def own(key: str, flat: str, default: int) -> int:
        return inside.size(key) if inside.has(key) else c.size(flat, default)

    heads, dim = own("num_heads", "linear_num_heads", 32), own("head_dim", "linear_head_dim", 128)
    kernel = own("short_conv_kernel_size", "linear_conv_kernel_dim", 4)
    return kimi_delta(width, heads, dim, kernel, narrow_gate=not inside.flag("use_full_rank_gate"))


def _experts(c: Config, width: int) -> Modules:
    """Experts with shared ones; the routed ones on a narrower hidden state if `routed_expert_hidden_size` is set.

    The products to and from it stay in 16 bits, though K3's list of what is not quantised leaves them out.
    """
    router, routed, *rest = fine_moe(c, width)
    latent, normed = c.size("routed_expert_hidden_size", None), c.flag("latent_moe_use_norm")
    if latent is None:
        return router, routed, *rest
    assert isinstance(routed, Experts)
    return (
        router,
        Linear(name="experts_in_proj", inputs=width, outputs=latent, part="other"),
        replace(routed, hidden=latent),
        *((rms("experts_norm", latent),) if normed else ()),
        Linear(name="experts_out_proj", inputs=latent, outputs=width, part="other"),
        *rest,
    )


def _among(name: str, width: int, layer: int, every: int) -> Modules:
    """Attention over the sums of the blocks of layers before a layer, and over the sum so far of its own.

    The first layer has the weights, and nothing to attend to.
    """
    states = ceil_div(layer, every) + 1
    norm = Norm(name=f"{name}_mix_norm", width=width, repeats=states, idle=not layer)
    return norm, DepthAttention(name=f"{name}_mix", width=width, states=states, idle=not layer)


def _chosen(i: int, every: int, width: int, parts: tuple[str, Modules, Modules]) -> Block:
    """Layer `i`. Every `every`-th layer starts a block, and its attention adds to no sum before it."""
    name, mixer, ffn = parts
    added = () if i % every == 0 else (Add(name="attn_residual", width=width),)
    return Block(name, (
        *_among("attn_input", width, i, every), rms("attn_norm", width), *mixer, *added,
        *_among("ffn_input", width, i + 1, every), rms("ffn_norm", width), *ffn, Add(name="ffn_residual", width=width),
    ))  # fmt: skip
