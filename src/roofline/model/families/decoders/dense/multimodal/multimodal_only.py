"""Language models that exist only in multimodal models: Compass, Cosmos 3 Edge, Muse."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary
from roofline.model.families.blocks.feed_forward import activation, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import causal_lm, kind, layer, parallel_layer, stack, untied, with_before
from roofline.model.families.blocks.norms import layer_norm_no_bias, plain_per_head, plain_rms, rms
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Linear, Module, Modules, Norm

ACT = "hidden_activation|hidden_act"


@family("cohere_compass_text")
def cohere_compass(c: Config) -> Model:
    """North Micro Vision (model card CohereLabs/North-Micro-Vision-Instruct): Command's layers, RoPE where given."""
    d, bias, ropes = dims(c.with_values(head_dim=None)), c.flag("attention_bias"), c.raw.get("rope_parameters")
    ffn, windows = mlp(d.width, c.size("intermediate_size"), activation(c)), layer_windows(c, d.layers, lambda i: False)
    bare = [name for name, rope in ropes.items() if rope is None] if isinstance(ropes, dict) else []

    def mixer(window: int | None) -> Modules:
        name = "full_attention" if window is None else "sliding_attention"
        return attention(d, rotary=0 if name in bare else rotary(c, d.head_dim, 1.0, name), bias=bias, window=window)

    c.mark_read("pooling", "logit_scale", "head_dim")
    blocks = [
        parallel_layer(kind(False, "sliding" if w else ""), d.width, mixer(w), ffn, norm=layer_norm_no_bias)
        for w in windows
    ]
    return causal_lm(c, d.width, blocks, norm=layer_norm_no_bias, tied=True)


@family("cosmos3_edge_text")
def cosmos3_edge(c: Config) -> Model:
    """Cosmos 3 Edge (model card nvidia/Cosmos3-Edge): grouped queries, a feed-forward of squared ReLU without gate."""
    c = untied(c)
    d, act = dims(c, head_dim=128), activation(c, default="relu2")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("muse_glimmer_text")
def muse_glimmer(c: Config) -> Model:
    """Muse Glimmer (model card meta-models/Muse-Glimmer-30B): gated attention, three sliding layers to one full."""
    d, ffn = dims(c, head_dim=128), mlp(c.size("hidden_size"), c.size("intermediate_size"), activation(c, ACT))
    c.mark_read("qk_scale_factor", "output_multiplier", "post_norm_eps")
    blocks = stack(d.width, _muse_mixers(c, d), ffn, after=True)
    return causal_lm(c, d.width, blocks, before=(plain_rms("embedding_norm", d.width),))


@family("muse_spark_text")
def muse_spark(c: Config) -> Model:
    """Muse Spark (model card meta-models/Muse-Spark-Open-816B-A42B): Muse with experts and weighed residuals."""
    d = dims(c, head_dim=64)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), mlp_layer_types(c, d.layers, 0)
    c.mark_read("qk_scale_factor", "output_multiplier", "post_norm_eps", "residual_gate_temperature")
    out_norm = plain_per_head("o_norm", d.heads, d.head_dim)
    mixers = [(name, with_before(m, "attention_gate_proj", out_norm)) for name, m in _muse_mixers(c, d)]
    layers = stack(d.width, mixers, dense, experts=_latent_experts(c, d.width), sparse=sparse, after=True)
    before = (plain_rms("embedding_norm", d.width),)
    return causal_lm(c, d.width, [_weighed(block) for block in layers], before=before)


def _muse_mixers(c: Config, d: Dims) -> list[tuple[str, Modules]]:
    """Mixers of Muse: gated attention with weightless q/k norms; layers whose RoPE base is 0 have no RoPE."""
    full = [(d.layers - 1 - i) % 4 == 0 for i in range(d.layers)]
    windows = layer_windows(c, d.layers, lambda i: not full[i], assumed=2048)
    bases = c.per_layer_number("layer_rope_theta", d.layers, [0.0 if f else 1.0 for f in full], most=1e12)
    rope, gates = rotary(c, d.head_dim), d.heads * d.head_dim
    mixer = partial(attention, d, bias=c.flag("attention_bias"), qk_norm=plain_per_head, gates=gates)
    pairs = zip(windows, bases, strict=True)
    return [("sliding" if w else "", mixer(rotary=rope if base else 0, window=w)) for w, base in pairs]


def _latent_experts(c: Config, width: int) -> Modules:
    """Experts on a narrower hidden state, all with the same norm after them; the router reads the wide one."""
    narrow, inner, top_k = c.size("moe_hidden_size"), c.size("moe_intermediate_size"), c.size("num_experts_per_tok")
    router, _ = moe(c, width, c.size("num_local_experts|num_experts"), top_k, inner)
    _, experts = moe(c, narrow, c.size("num_local_experts|num_experts"), top_k, inner)
    return (
        router,
        Linear(name="experts_in_proj", inputs=width, outputs=narrow),
        rms("experts_norm", narrow),
        experts,
        Norm(name="experts_post_norm", width=narrow, repeats=top_k),
        Linear(name="experts_out_proj", inputs=narrow, outputs=width),
    )


def _weighed(block: Block) -> Block:
    """The layer with learned weights for residual sums, and without weights in the norm after attention."""

    def weighed(m: Module) -> Module:
        if isinstance(m, Norm) and m.name == "attn_post_norm":
            return plain_rms(m.name, m.width)
        return replace(m, weighed=True) if isinstance(m, Add) else m

    return Block(block.name, tuple(weighed(m) for m in block.modules))
