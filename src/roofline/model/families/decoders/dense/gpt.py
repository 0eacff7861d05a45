"""The GPT line and its contemporaries: LayerNorm, plain feed-forward, learned, rotary or ALiBi positions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.declared.errors import InputError
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary, same_window, windowed
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, layer, parallel_layer, position_table, stack
from roofline.model.families.blocks.norms import (
    layer_norm,
    layer_norm_no_bias,
    layer_norm_of_each_head,
    layer_norm_per_head,
    plain_layer_norm,
)
from roofline.model.families.blocks.sizes import Dims, dims, split
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Linear, Modules


@family("gpt2", "gpt-sw3")
def gpt2(c: Config) -> Model:
    """GPT-2 (Radford et al., 2019) and GPT-SW3."""
    return _gpt2(c, multi_query=False)


@family("gpt_bigcode")
def gpt_bigcode(c: Config) -> Model:
    """StarCoder (arXiv:2305.06161): GPT-2 with multi-query attention."""
    return _gpt2(c, multi_query=c.flag("multi_query", True))


def _gpt2(c: Config, *, multi_query: bool) -> Model:
    d = dims(c, kv_key="n_head|num_attention_heads")
    d = replace(d, kv_heads=1 if multi_query else d.heads)
    c.size("num_key_value_heads", None)
    inner, act = c.size("n_inner", 4 * d.width), activation(c, "activation_function", "gelu_new")
    mixer, ffn = attention(d, rotary=0, bias=True), mlp(d.width, inner, act, gated=False, bias=True)
    block, table = layer("dense", d.width, mixer, ffn, norm=layer_norm), position_table(c, d.width)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True, before=(table,))


@family("gptj", "codegen")
def gptj(c: Config) -> Model:
    """GPT-J and CodeGen: attention and feed-forward in parallel, RoPE on `rotary_dim`."""
    d = dims(c, kv_key="n_head|num_attention_heads")
    mixer = attention(d, rotary=c.size("rotary_dim", d.head_dim, least=0, most=d.head_dim))
    inner, act = c.size("n_inner", 4 * d.width), activation(c, "activation_function", "gelu_new")
    block = parallel_layer("dense", d.width, mixer, mlp(d.width, inner, act, gated=False, bias=True))
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, head_bias=True)


@family("gpt_neox", "gpt_neox_reward_model")
def gpt_neox(c: Config) -> Model:
    """GPT-NeoX and Pythia (arXiv:2204.06745), and reward models of them: two norms a layer, parallel or not."""
    c.mark_read("pooling")
    d, parallel = dims(c), c.flag("use_parallel_residual", True)
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.25), bias=c.flag("attention_bias", True))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    block = _dense(d, mixer, ffn, parallel=parallel, norms=2)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm)


def _dense(d: Dims, mixer: Modules, ffn: Modules, *, parallel: bool, norms: int = 1) -> Block:
    """A layer with LayerNorm whose feed-forward is parallel to the attention, or after it."""
    if parallel:
        return parallel_layer("dense", d.width, mixer, ffn, norms=norms)
    return layer("dense", d.width, mixer, ffn, norm=layer_norm)


@family("opt")
def opt(c: Config) -> Model:
    """OPT (arXiv:2205.01068): two additional rows of positions; the 350M's embedding has a width of its own."""
    d, bias, before = dims(c), c.flag("enable_bias", True), c.flag("do_layer_norm_before", True)
    norm = layer_norm if c.flag("layer_norm_elementwise_affine", True) else plain_layer_norm
    ffn = mlp(d.width, c.size("ffn_dim"), activation(c, "activation_function", "relu"), gated=False, bias=bias)
    block = layer("dense", d.width, attention(d, rotary=0, bias=bias), ffn, norm=norm, before=before, after=not before)
    narrow, last = c.size("word_embed_proj_dim", d.width), not c.flag("_remove_final_layer_norm") and before
    widen, shrink = _opt_projections(narrow, d.width)
    return causal_lm(
        c, d.width, [block] * d.layers, norm=norm if last else None, tied=True, embed=narrow,
        before=(*widen, position_table(c, d.width, 2)), last=shrink,
    )  # fmt: skip


def _opt_projections(narrow: int, width: int) -> tuple[Modules, Modules]:
    """Projections from the embedding's width to the hidden size and back, if they differ."""
    if narrow == width:
        return (), ()
    widen = Linear(name="project_in", inputs=narrow, outputs=width, part="embedding")
    return (widen,), (Linear(name="project_out", inputs=width, outputs=narrow, part="head"),)


@family("bloom")
def bloom(c: Config) -> Model:
    """BLOOM (arXiv:2211.05100): ALiBi, a norm on the embedding, a feed-forward four times as wide."""
    if c.has("n_embed"):
        c = c.with_values(hidden_size=c.size("n_embed"))
    d = dims(c, kv_key="n_head|num_attention_heads")
    ffn = mlp(d.width, 4 * d.width, "gelu", gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=0, bias=True), ffn, norm=layer_norm)
    before = (layer_norm("embedding_norm", d.width),)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True, before=before)


@family("falcon", "RefinedWebModel", "RefinedWeb")
def falcon(c: Config) -> Model:
    """Falcon (arXiv:2311.16867): multi-query or grouped attention in parallel with the feed-forward."""
    grouped = c.raw.get("model_type") == "RefinedWeb"  # Falcon 40B's code has no other architecture
    new, multi = c.flag("new_decoder_architecture", grouped), c.flag("multi_query", True)
    parallel, bias, alibi = c.flag("parallel_attn", True), c.flag("bias"), c.flag("alibi")
    d = _falcon_dims(c, grouped=new, multi_query=multi)
    mixer = attention(d, rotary=0 if alibi else rotary(c, d.head_dim), bias=bias)
    inner, act = c.size("ffn_hidden_size", 4 * d.width), activation(c, "activation", "gelu")
    ffn = mlp(d.width, inner, act, gated=False, bias=bias)
    norms = c.size("num_ln_in_parallel_attn", 2 if new else 1, most=2)
    block = _dense(d, mixer, ffn, parallel=parallel, norms=norms)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, tied=True)


def _falcon_dims(c: Config, *, grouped: bool, multi_query: bool) -> Dims:
    """Sizes with heads of hidden_size / heads; KV heads for each group, one, or one per query head."""
    d = dims(c, kv_key="num_attention_heads|n_head")
    groups = c.size("num_kv_heads|n_head_kv", d.heads)
    kv_heads = groups if grouped else 1 if multi_query else d.heads
    if d.heads % kv_heads:
        raise c.error("num_kv_heads", f"a divisor of num_attention_heads = {d.heads}")
    head_dim = split(c, "num_attention_heads", d.width, d.heads, "hidden_size")
    return replace(d, kv_heads=kv_heads, head_dim=head_dim)


@family("mpt")
def mpt(c: Config) -> Model:
    """MPT (MosaicML, 2023): ALiBi, no biases, feed-forward four times as wide."""
    d = dims(c, kv_key="n_heads")
    _mpt_ignored(c)
    ffn = mlp(d.width, 4 * d.width, "gelu", gated=False)
    block = layer("dense", d.width, attention(d, rotary=0), ffn, norm=layer_norm_no_bias)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm_no_bias, tied=True)


def _mpt_ignored(c: Config) -> None:
    """Mark MPT settings that its published code reads but never uses."""
    inside = c.section("attn_config")
    c.mark_read("no_bias", "learned_pos_emb", "norm_type", "embedding_fraction", "expansion_ratio", "loss_fn")
    if inside.value("attn_type", "multihead_attention")[1] != "multihead_attention":
        raise InputError(inside.field("attn_type"), inside.raw["attn_type"], "multihead_attention")


@family("phi")
def phi(c: Config) -> Model:
    """Phi-1 to Phi-2: biases everywhere, one norm, attention and feed-forward in parallel."""
    d = dims(c)
    norm = layer_norm_per_head if c.flag("qk_layernorm") else None
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=True, qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu_new"), gated=False, bias=True)
    block = parallel_layer("dense", d.width, mixer, ffn)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm, head_bias=True)


@family("phi3")
def phi3(c: Config) -> Model:
    """Phi-3 and Phi-4 (arXiv:2404.14219): Llama with fused projections and a sliding window."""
    d = dims(c)
    ffn, rope = mlp(d.width, c.size("intermediate_size"), activation(c)), rotary(c, d.head_dim)
    mixers = windowed(same_window(c, d.layers), partial(attention, d, rotary=rope))
    return causal_lm(c, d.width, stack(d.width, mixers, ffn))


@family("phimoe")
def phimoe(c: Config) -> Model:
    """Phi-3.5-MoE: LayerNorm, sixteen experts."""
    d, bias = dims(c), c.flag("attention_bias")
    top_k = c.size("num_experts_per_tok")
    ffn = moe(c, d.width, c.size("num_local_experts"), top_k, c.size("intermediate_size"))
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias)
    blocks = stack(d.width, windowed(same_window(c, d.layers), mixer), experts=ffn, norm=layer_norm)
    return causal_lm(c, d.width, blocks, norm=layer_norm, head_bias=c.flag("lm_head_bias"))


@family("stablelm")
def stablelm(c: Config) -> Model:
    """StableLM 2: LayerNorm, RoPE on a quarter of each head, q/k norms with a weight for every head."""
    d, bias, parallel = dims(c), c.flag("use_qkv_bias"), c.flag("use_parallel_residual")
    norm = layer_norm_of_each_head if c.flag("qk_layernorm") else None
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.25), bias=bias, out_bias=False, qk_norm=norm)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c))
    block = _dense(d, mixer, ffn, parallel=parallel)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm)


@family("stablelm_epoch")
def stablelm_epoch(c: Config) -> Model:
    """StableLM under the keys of its first code."""
    c.mark_read("num_heads", "rotary_scaling_factor")
    return stablelm(c.with_values(partial_rotary_factor=c.number("rope_pct", 0.25)))


@family("starcoder2")
def starcoder2(c: Config) -> Model:
    """StarCoder2 (arXiv:2402.19173). Its code does not read `activation_function`."""
    c.mark_read("activation_function")
    d, bias = dims(c), c.flag("use_bias", True)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu_pytorch_tanh"), gated=False, bias=bias)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias)
    blocks = stack(d.width, windowed(same_window(c, d.layers), mixer), ffn, norm=layer_norm)
    return causal_lm(c, d.width, blocks, norm=layer_norm, tied=True)


@family("gpt_oss")
def gpt_oss(c: Config) -> Model:
    """gpt-oss (arXiv:2508.10925): attention sinks, sliding windows in every other layer, biased experts."""
    d, bias = dims(c, head_dim=64), c.flag("attention_bias", True)
    top_k, count = c.size("num_experts_per_tok|experts_per_token"), c.size("num_local_experts|num_experts")
    ffn = moe(c, d.width, count, top_k, c.size("intermediate_size"), router_bias=True, expert_bias=True)
    windows = layer_windows(c, d.layers, lambda i: i % 2 == 0)
    mixer = partial(attention, d, rotary=rotary(c, d.head_dim), bias=bias, sinks=True)
    return causal_lm(c, d.width, stack(d.width, windowed(windows, mixer), experts=ffn))
