"""Qwen 2 to 3.5 (arXiv:2407.10671, 2412.15115, 2505.09388)."""

from __future__ import annotations

from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, stack
from roofline.model.families.blocks.norms import per_head
from roofline.model.families.blocks.recurrent import gated_delta_net
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.registry import family
from roofline.model.model import Model
from roofline.model.modules import Modules

LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")


def _windows(c: Config, layers: int, *, every_other: bool = False) -> list[int | None]:
    """Window of each layer: where `use_sliding_window` is set, layers from `max_window_layers` on slide.

    `every_other`: instead, every other layer before `max_window_layers` slides.
    """
    if not c.flag("use_sliding_window", False):
        c.unused_sizes("max_window_layers", "sliding_window", least=0)
        c.per_layer("layer_types", layers, LAYER_TYPES, ["full_attention"] * layers)
        return [None] * layers
    first = c.size("max_window_layers", layers, least=0)
    return layer_windows(c, layers, lambda i: i % 2 == 0 and i < first if every_other else i >= first)


@family("qwen2")
def qwen2(c: Config) -> Model:
    """Qwen2: Llama with biased q, k, v."""
    d, inner, act = dims(c), c.size("intermediate_size"), activation(c)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=True, out_bias=False)
    windows, ffn = _windows(c, d.layers), mlp(d.width, inner, act)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn))


@family("qwen3")
def qwen3(c: Config) -> Model:
    """Qwen3: q/k norms on each head, no biases."""
    d, bias = dims(c, head_dim=128), c.flag("attention_bias")
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias, qk_norm=per_head)
    windows, ffn = _windows(c, d.layers), mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), ffn))


def _dense(c: Config, d: Dims) -> tuple[Modules, list[bool]]:
    """The dense network, and whether each layer has experts, by `mlp_only_layers` and `decoder_sparse_step`."""
    only, step = c.layer_set("mlp_only_layers", d.layers), c.size("decoder_sparse_step", 1)
    sparse = [i not in (only or ()) and (i + 1) % step == 0 for i in range(d.layers)]
    inner = c.size("intermediate_size") if not all(sparse) else c.size("intermediate_size", None)
    return mlp(d.width, inner, activation(c)) if inner else (), sparse


@family("qwen2_moe")
def qwen2_moe(c: Config) -> Model:
    """Qwen1.5/2 MoE: a gated shared expert beside the routed ones."""
    d, bias, top_k = dims(c), c.flag("qkv_bias", True), c.size("num_experts_per_tok")
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias, out_bias=False)
    windows, inner = _windows(c, d.layers, every_other=True), c.size("moe_intermediate_size")
    shared = c.size("shared_expert_intermediate_size")
    experts = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared, shared_gate=True)
    dense, sparse = _dense(c, d)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), dense, experts=experts, sparse=sparse))


@family("qwen3_moe")
def qwen3_moe(c: Config) -> Model:
    """Qwen3 MoE: no shared expert."""
    d, bias, top_k = dims(c), c.flag("attention_bias"), c.size("num_experts_per_tok")
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias, qk_norm=per_head)
    windows, inner = _windows(c, d.layers), c.size("moe_intermediate_size")
    experts = moe(c, d.width, c.size("num_experts|num_local_experts"), top_k, inner)
    dense, sparse = _dense(c, d)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), dense, experts=experts, sparse=sparse))


def _mixers(c: Config, d: Dims) -> list[tuple[str, Modules]]:
    """Mixers of Qwen3-Next: Gated DeltaNet in most layers, gated full attention in every fourth."""
    every = c.size("full_attention_interval", 4)
    default = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("linear_attention", "full_attention"), default)
    rope = rotary(c, d.head_dim, 0.25)
    full = attention(d, rotary=rope, bias=c.flag("attention_bias"), qk_norm=per_head, gate=True)
    keys, values = c.size("linear_num_key_heads"), c.size("linear_num_value_heads")
    if values % keys:
        raise c.error("linear_num_value_heads", f"a multiple of linear_num_key_heads = {keys}")
    sizes = c.size("linear_key_head_dim"), c.size("linear_value_head_dim"), c.size("linear_conv_kernel_dim")
    linear = gated_delta_net(d.width, keys, values, *sizes)
    return [("linear", linear) if k == "linear_attention" else ("", full) for k in kinds]


@family("qwen3_next")
def qwen3_next(c: Config) -> Model:
    """Qwen3-Next: hybrid attention, many small experts."""
    d = dims(c, head_dim=256)
    experts, mixers, (dense, sparse) = shared_moe(c, d.width), _mixers(c, d), _dense(c, d)
    return causal_lm(c, d.width, stack(d.width, mixers, dense, experts=experts, sparse=sparse))


@family("qwen3_5_text")
def qwen3_5(c: Config) -> Model:
    """Qwen3.5, dense: the mixers of Qwen3-Next."""
    d = dims(c, head_dim=256)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    return causal_lm(c, d.width, stack(d.width, _mixers(c, d), ffn))


@family("qwen3_5_moe_text")
def qwen3_5_moe(c: Config) -> Model:
    """Qwen3.5 with experts on every layer."""
    d = dims(c, head_dim=256)
    experts = shared_moe(c, d.width)
    return causal_lm(c, d.width, stack(d.width, _mixers(c, d), experts=experts))


def shared_moe(c: Config, width: int) -> Modules:
    """Experts with a gated shared expert."""
    top_k, inner = c.size("num_experts_per_tok"), c.size("moe_intermediate_size")
    shared = c.size("shared_expert_intermediate_size")
    return moe(c, width, c.size("num_experts"), top_k, inner, shared=shared, shared_gate=True)
