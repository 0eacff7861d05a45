"""Qwen 2 to 3.5 (arXiv:2407.10671, 2412.15115, 2505.09388)."""

from __future__ import annotations

from functools import partial

from roofline.model.config import Config
from roofline.model.families.parts import (
    Dims,
    Modules,
    attention,
    causal_lm,
    dims,
    function,
    gated_delta_net,
    is_sparse,
    kind,
    layer,
    mlp,
    moe,
    per_head,
    qwen_windows,
    rotary,
    stack,
)
from roofline.model.families.registry import family
from roofline.model.model import Model


@family("qwen2")
def qwen2(c: Config) -> Model:
    """Qwen2: Llama with biased q, k, v."""
    d, inner, act, turn = dims(c), c.size("intermediate_size"), function(c), None
    turn, slides = rotary(c, d.head_dim), qwen_windows(c, d.layers)
    ffn = mlp(d.width, inner, act)
    mixer = partial(attention, d, rotary=turn, bias=True, out_bias=False)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, ffn))


@family("qwen3")
def qwen3(c: Config) -> Model:
    """Qwen3: q/k norms on each head, no biases."""
    d, bias, turn = dims(c, head_dim=128), c.flag("attention_bias"), 0
    turn, slides = rotary(c, d.head_dim), qwen_windows(c, d.layers)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c))
    mixer = partial(attention, d, rotary=turn, bias=bias, qk_norm=per_head)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, ffn))


def _dense(c: Config, d: Dims) -> tuple[Modules, list[bool]]:
    """The dense network, and which layers hold experts instead, by `mlp_only_layers` and `decoder_sparse_step`."""
    only, step = c.layer_set("mlp_only_layers", d.layers), c.size("decoder_sparse_step", 1)
    sparse = [is_sparse(c, i, only, step) for i in range(d.layers)]
    needed = c.size("intermediate_size") if not all(sparse) else c.size("intermediate_size", None)
    return mlp(d.width, needed, function(c)) if needed else (), sparse


@family("qwen2_moe")
def qwen2_moe(c: Config) -> Model:
    """Qwen1.5/2 MoE: a gated shared expert beside the routed ones."""
    d, bias, top_k = dims(c), c.flag("qkv_bias", True), c.size("num_experts_per_tok")
    turn, slides, inner = rotary(c, d.head_dim), qwen_windows(c, d.layers), c.size("moe_intermediate_size")
    shared = c.size("shared_expert_intermediate_size")
    experts = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared, shared_gate=True)
    mixer = partial(attention, d, rotary=turn, bias=bias, out_bias=False)
    dense, sparse = _dense(c, d)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, dense, experts=experts, sparse=sparse))


@family("qwen3_moe")
def qwen3_moe(c: Config) -> Model:
    """Qwen3 MoE: no shared expert."""
    d, bias, top_k = dims(c), c.flag("attention_bias"), c.size("num_experts_per_tok")
    turn, slides, inner = rotary(c, d.head_dim), qwen_windows(c, d.layers), c.size("moe_intermediate_size")
    experts = moe(c, d.width, c.size("num_experts|num_local_experts"), top_k, inner)
    mixer = partial(attention, d, rotary=turn, bias=bias, qk_norm=per_head)
    dense, sparse = _dense(c, d)
    return causal_lm(c, d.width, stack(d.width, slides, mixer, dense, experts=experts, sparse=sparse))


def _mixers(c: Config, d: Dims) -> list[tuple[str, Modules]]:
    """Gated DeltaNet on most layers, gated full attention on every fourth."""
    every = c.size("full_attention_interval", 4)
    default = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("linear_attention", "full_attention"), default)
    turn = rotary(c, d.head_dim, 0.25)
    full = attention(d, rotary=turn, bias=c.flag("attention_bias"), qk_norm=per_head, gate=True)
    keys, values = c.size("linear_num_key_heads"), c.size("linear_num_value_heads")
    if values % keys:
        raise c.error("linear_num_value_heads", f"a multiple of linear_num_key_heads = {keys}")
    sizes = c.size("linear_key_head_dim"), c.size("linear_value_head_dim"), c.size("linear_conv_kernel_dim")
    linear = gated_delta_net(d.width, keys, values, *sizes)
    return [("linear", linear) if k == "linear_attention" else ("", full) for k in kinds]


@family("qwen3_next")
def qwen3_next(c: Config) -> Model:
    """Qwen3-Next: hybrid attention, many small experts."""
    d, top_k, inner = dims(c, head_dim=256), c.size("num_experts_per_tok"), c.size("moe_intermediate_size")
    shared = c.size("shared_expert_intermediate_size")
    experts = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared, shared_gate=True)
    mixers, (dense, sparse) = _mixers(c, d), _dense(c, d)
    blocks = [
        layer(kind(s, mixer=name), d.width, mix, experts if s else dense)
        for (name, mix), s in zip(mixers, sparse, strict=True)
    ]
    return causal_lm(c, d.width, blocks)


@family("qwen3_5_text")
def qwen3_5(c: Config) -> Model:
    """Qwen3.5, dense: the mixers of Qwen3-Next."""
    d = dims(c, head_dim=256)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c))
    return causal_lm(c, d.width, [layer(kind(False, mixer=name), d.width, mix, ffn) for name, mix in _mixers(c, d)])


@family("qwen3_5_moe_text")
def qwen3_5_moe(c: Config) -> Model:
    """Qwen3.5 with experts on every layer."""
    d, top_k, inner = dims(c, head_dim=256), c.size("num_experts_per_tok"), c.size("moe_intermediate_size")
    shared = c.size("shared_expert_intermediate_size")
    ffn = moe(c, d.width, c.size("num_experts"), top_k, inner, shared=shared, shared_gate=True)
    return causal_lm(c, d.width, [layer(kind(True, mixer=name), d.width, mix, ffn) for name, mix in _mixers(c, d)])
