"""Muse: three gated sliding layers with RoPE to one full layer without; Spark has experts on a narrower stream."""

from __future__ import annotations

from functools import partial

from roofline.model.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rotary
from roofline.model.families.blocks.feed_forward import activation, mlp, mlp_layer_types, moe
from roofline.model.families.blocks.layers import causal_lm, kind, stack
from roofline.model.families.blocks.norms import plain_per_head, plain_rms, rms
from roofline.model.families.blocks.sizes import Dims, dims
from roofline.model.families.convolved import scaled_stream
from roofline.model.families.registry import family
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Linear, Modules, Norm, Router


@family("muse_glimmer_text")
def muse_glimmer(c: Config) -> Model:
    """Muse Glimmer's decoder (Meta, model card of Muse-Glimmer-30B): a dense network, norms on both sides."""
    d = dims(c, head_dim=128)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, "hidden_activation|hidden_act"))
    before = (plain_rms("embedding_norm", d.width),)
    return causal_lm(c, d.width, stack(d.width, _mixers(c, d), ffn, after=True), before=before)


@family("muse_spark_text")
def muse_spark(c: Config) -> Model:
    """Muse Spark's decoder (Meta, model card of Muse-Spark-Open-816B-A42B): experts, gated residual sums."""
    d = dims(c, head_dim=64)
    dense, sparse = mlp(d.width, c.size("intermediate_size"), activation(c)), mlp_layer_types(c, d.layers, 0)
    experts, before = _narrow_experts(c, d.width), (plain_rms("embedding_norm", d.width),)
    layers = zip(sparse, _mixers(c, d, normed=True), strict=True)
    blocks = [_spark_layer(kind(s, name), d.width, mixer, experts if s else dense) for s, (name, mixer) in layers]
    return causal_lm(c, d.width, blocks, before=before)


def _spark_layer(name: str, width: int, mixer: Modules, ffn: Modules) -> Block:
    """Norms on both sides, and both streams of a residual sum times what one learned gate makes."""

    def gated_sum(label: str) -> Modules:
        scales = (scaled_stream(f"{label}_scale", width, width), scaled_stream(f"{label}_residual_scale", width, 0))
        return (*scales, Add(name=f"{label}_residual", width=width))

    attend = (rms("attn_norm", width), *mixer, plain_rms("attn_post_norm", width), *gated_sum("attn"))
    return Block(name, (*attend, rms("ffn_norm", width), *ffn, rms("ffn_post_norm", width), *gated_sum("ffn")))


def _narrow_experts(c: Config, width: int) -> Modules:
    """Experts of a stream of `moe_hidden_size`, each with a norm behind it."""
    narrow, inner = c.size("moe_hidden_size"), c.size("moe_intermediate_size")
    count, top_k = c.size("num_local_experts|num_experts"), c.size("num_experts_per_tok")
    _, experts = moe(c, narrow, count, top_k, inner)
    return (
        Router(name="router", inputs=width, experts=count),
        Linear(name="experts_in_proj", inputs=width, outputs=narrow),
        rms("experts_in_norm", narrow),
        experts,
        Norm(name="experts_norm", width=narrow, repeats=top_k),
        Linear(name="experts_out_proj", inputs=narrow, outputs=width),
    )


def _mixers(c: Config, d: Dims, *, normed: bool = False) -> list[tuple[str, Modules]]:
    """Gated attention; `normed`: each head's output is normed before its gate."""
    bias, gates = c.flag("attention_bias"), d.heads * d.head_dim
    windows = layer_windows(c, d.layers, lambda i: (d.layers - 1 - i) % 4 != 0, assumed=2048)
    plain = partial(attention, d, bias=bias, qk_norm=plain_per_head, gates=gates)

    def mixer(window: int | None, rope: int) -> Modules:
        *inside, gate_proj, gate, out = plain(rotary=rope, window=window)
        norms = (plain_per_head("attention_norm", d.heads, d.head_dim),) if normed else ()
        return (*inside, *norms, gate_proj, gate, out)

    pairs = zip(windows, _ropes(c, d), strict=True)
    return [(_name(window, rope), mixer(window, rope)) for window, rope in pairs]


def _ropes(c: Config, d: Dims) -> list[int]:
    """Rotated dimensions of a head in each layer: none where `layer_rope_theta` is 0, by default on every fourth."""
    default = [float((d.layers - 1 - i) % 4 != 0) for i in range(d.layers)]
    _, bases = c.value("layer_rope_theta", default)
    if not isinstance(bases, list) or len(bases) != d.layers or not all(type(b) in (int, float) for b in bases):
        raise c.error("layer_rope_theta", f"a list of {d.layers} numbers, as num_hidden_layers says")
    turned = rotary(c, d.head_dim)
    return [turned if base else 0 for base in bases]


def _name(window: int | None, rope: int) -> str:
    """A layer's name: sliding ones have RoPE and full ones have none, unless the config says otherwise."""
    if window:
        return "sliding" if rope else "sliding unrotated"
    return "rotated" if rope else ""
