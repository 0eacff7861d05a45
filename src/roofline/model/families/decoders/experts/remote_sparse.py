"""Decoders with experts whose code comes with the checkpoint, not with transformers."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, rotary
from roofline.model.families.blocks.feed_forward import activation, fine_moe, mlp, moe
from roofline.model.families.blocks.layers import causal_lm, kind, layer, stack
from roofline.model.families.blocks.norms import per_head, rms
from roofline.model.families.blocks.sizes import depth, dims
from roofline.model.families.decoders.recurrent.hybrid import minimax
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Linear, Module, Modules


@family("minimax_text_01", "minimax_m1")
def minimax_01(c: Config) -> Model:
    """MiniMax-Text-01 and M1 (arXiv:2501.08313, 2506.13585): MiniMax with other key names; 1 is softmax attention."""
    layers = dims(c).layers
    softmax = c.per_layer("attn_type_list", layers, (0, 1), [1 if (i + 1) % 8 == 0 else 0 for i in range(layers)])
    kinds = ["full_attention" if each else "linear_attention" for each in softmax]
    c.mark_read("postnorm", "layernorm_full_attention_alpha", "layernorm_linear_attention_alpha", "layernorm_mlp_alpha")
    return minimax(c if c.has("layer_types") else c.with_values(layer_types=kinds))


@family("bailing_moe")
def bailing_moe(c: Config) -> Model:
    """Ling (arXiv:2503.05139): many small experts with shared ones; q/k norms in Ling 2 (arXiv:2510.22115)."""
    d, bias, first = dims(c), c.flag("use_bias"), c.size("first_k_dense_replace", 0, least=0)
    norm = per_head if c.flag("use_qk_norm") else None
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("use_qkv_bias"), out_bias=bias, qk_norm=norm)
    c.mark_read("norm_head", "norm_softmax", "multi_gate")
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), [i >= first for i in range(d.layers)]
    blocks = stack(d.width, [("", mixer)] * d.layers, dense, experts=fine_moe(c, d.width), sparse=sparse)
    return causal_lm(c, d.width, blocks)


@family("arctic")
def arctic(c: Config) -> Model:
    """Snowflake Arctic (2024): experts read the input of a whole dense layer, through a separate norm."""
    d, inner, every = dims(c), c.size("intermediate_size"), c.size("moe_layer_frequency", 2)
    mixer, act = attention(d, rotary=rotary(c, d.head_dim)), activation(c)
    experts = moe(c, d.width, c.size("num_local_experts"), c.size("num_experts_per_tok"), inner)
    residual, dense = mlp(d.width, d.width, act), layer("dense", d.width, mixer, mlp(d.width, inner, act))
    beside = (rms("experts_norm", d.width), *experts, Add(name="experts_residual", width=d.width))
    both = Block("moe", (*layer("", d.width, mixer, residual).modules, *beside))
    c.mark_read("use_residual", "moe_token_dropping", "moe_min_capacity", "enable_expert_tensor_parallelism")
    c.mark_read("moe_train_capacity_factor", "moe_eval_capacity_factor")
    if not c.flag("parallel_attn_mlp_res"):
        both = layer("moe", d.width, mixer, experts)
    return causal_lm(c, d.width, [both if (i + 1) % every == 0 else dense for i in range(d.layers)])


@family("grok-1")
def grok1(c: Config) -> Model:
    """Grok-1 (xAI, 2024): eight wide experts, norms on both sides of each sublayer."""
    d, act = dims(c), activation(c, default="gelu")
    experts = moe(
        c, d.width, c.size("num_experts"), c.size("num_experts_per_tok"), c.size("intermediate_size"), act=act
    )
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attn_bias|attention_bias"))
    c.mark_read("attn_output_multiplier", "embedding_multiplier_scale", "output_multiplier_scale", "max_attn_value")
    return causal_lm(c, d.width, [layer("moe", d.width, mixer, experts, after=True)] * d.layers, tied=True)


# -- keys and values of an earlier layer (CLA, arXiv:2405.12981) ------------------------------------------------------
@family("hunyuan")
def hunyuan_large(c: Config) -> Model:
    """Hunyuan-Large (arXiv:2411.02265): experts beside shared ones; keys and values serve `cla_share_factor` layers."""
    d, inner = dims(c), c.size("intermediate_size")
    every = c.size("cla_share_factor", 1) if c.flag("use_cla") else 1
    own = attention(
        d,
        rotary=rotary(c, d.head_dim),
        bias=c.flag("attention_bias"),
        qk_norm=per_head if c.flag("use_qk_norm") else None,
    )
    ffn = _hunyuan_experts(c, d.width, inner) if c.size("num_experts", 1) > 1 else mlp(d.width, inner, activation(c))
    sparse, lent = c.size("num_experts", 1) > 1, _borrowing(own)
    blocks = layer(kind(sparse), d.width, own, ffn), layer(f"borrowing {kind(sparse)}", d.width, lent, ffn)
    c.mark_read("cla_share_factor", "norm_type", "capacity_factor", "moe_random_routing_dropped_token")
    return causal_lm(c, d.width, [blocks[i % every != 0] for i in range(d.layers)])


def _hunyuan_experts(c: Config, width: int, inner: int) -> Modules:
    """Experts of width `intermediate_size`, with shared experts if there are any."""
    shared = inner * c.size("num_shared_expert", 1) if c.flag("use_mixed_mlp_moe") else 0
    top_k = c.size("moe_topk", 1)
    return moe(c, width, c.size("num_experts"), top_k, inner, shared=shared, top_k_key="moe_topk")


def _borrowing(mixer: Modules) -> Modules:
    """Attention that projects only queries and borrows an earlier layer's keys, which it norms itself."""

    def lent(m: Module) -> Module:
        match m:
            case Linear(name="qkv_proj"):
                return replace(m, outputs=m.outputs - m.kv, kv=0)
            case Attention():
                return replace(m, borrowed=True)
            case _:
                return m

    return tuple(lent(m) for m in mixer)


@family("smallthinker")
def smallthinker(c: Config) -> Model:
    """SmallThinker (arXiv:2507.20984): experts with ReLU in all layers; most layers with RoPE have a window."""
    d = dims(c)
    inner, act = c.size("moe_ffn_hidden_size"), "relu"
    count, top_k = c.size("moe_num_primary_experts"), c.size("moe_num_active_primary_experts")
    key = "moe_num_active_primary_experts"
    experts = moe(c, d.width, count, top_k, inner, act=act, top_k_key=key)
    sliding = c.per_layer("sliding_window_layout", d.layers, (0, 1), [0] * d.layers)
    turned = c.per_layer("rope_layout", d.layers, (0, 1), [1] * d.layers)
    window = c.size("sliding_window_size", None) if any(sliding) else None
    c.mark_read("sliding_window_size", "model_name", "moe_layer_layout", "moe_enable_early_router")
    c.mark_read("moe_primary_router_apply_softmax", "moe_enable_secondary_experts", "moe_num_secondary_experts")

    def mixer(i: int) -> tuple[str, Modules]:
        limit = window if sliding[i] else None
        rope = rotary(c, d.head_dim) if turned[i] else 0
        return "sliding" if limit else "", attention(d, rotary=rope, window=limit)

    return causal_lm(c, d.width, stack(d.width, [mixer(i) for i in range(d.layers)], experts=experts))


@family("Klear")
def klear(c: Config) -> Model:
    """Klear 46B (Kwai, 2025): Qwen3-MoE with a shared expert, both weighted by a product of two outputs."""
    d, only, step = dims(c), c.layer_set("mlp_only_layers", depth(c)) or [], c.size("decoder_sparse_step", 1)
    sparse = [i not in only and (i + 1) % step == 0 for i in range(d.layers)]
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    weights: Modules = (
        Linear(name="coefficient_proj", inputs=d.width, outputs=2, bias=True, part="other", beside=True),
        Activation(name="coefficient", width=2, function="sigmoid", gated=False),
    )
    experts = (*weights, *fine_moe(c, d.width, correction=True))
    dense = mlp(d.width, c.size("intermediate_size"), activation(c))
    blocks = stack(d.width, [("", mixer)] * d.layers, dense, experts=experts, sparse=sparse)
    return causal_lm(c, d.width, blocks)


@family("PanguProMoE")
def pangu_pro_moe(c: Config) -> Model:
    """Pangu Pro MoE (arXiv:2505.21411): shared experts, and a learned scale for each expert's score."""
    d, bias, count = dims(c), c.flag("attention_bias", True), c.size("num_experts")
    inner, top_k = c.size("moe_intermediate_size"), c.size("num_experts_per_tok")
    shared = c.size("shared_expert_intermediate_size", 0, least=0)
    experts = moe(c, d.width, count, top_k, inner, shared=shared, correction=True)
    c.mark_read("intermediate_size", "num_experts_groups", "num_voted_experts", "router_enable_expert_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias)
    return causal_lm(c, d.width, stack(d.width, [("", mixer)] * d.layers, experts=experts))
