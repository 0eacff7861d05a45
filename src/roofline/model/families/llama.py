"""Llama and those that follow its plan: RMSNorm, RoPE, grouped queries, gated feed-forward."""

from __future__ import annotations

from functools import partial

from roofline.model.config import Config
from roofline.model.families.parts import (
    Modules,
    attention,
    causal_lm,
    dims,
    every_layer_slides,
    function,
    kind,
    layer,
    mlp,
    moe,
    pattern_length,
    per_head,
    plain_per_head,
    rms,
    rotary,
    stack,
    windows,
)
from roofline.model.families.registry import family
from roofline.model.model import Model


@family("llama")
def llama(c: Config) -> Model:
    """Llama 1–3 (arXiv:2302.13971, 2307.09288, 2407.21783)."""
    d, bias, act = dims(c), c.flag("attention_bias"), function(c)
    ffn = mlp(d.width, c.size("intermediate_size"), act, bias=c.flag("mlp_bias"))
    block = layer("dense", d.width, attention(d, rotary=rotary(c, d.head_dim), bias=bias), ffn)
    return causal_lm(c, d.width, [block] * d.layers)


@family("mistral", "ministral3", "ministral")
def mistral(c: Config) -> Model:
    """Mistral 7B (arXiv:2310.06825) and its successors: no biases, a sliding window where set."""
    d, act = dims(c, head_dim=128 if c.raw.get("model_type") == "ministral3" else None), function(c)
    ffn, turn = mlp(d.width, c.size("intermediate_size"), act), rotary(c, d.head_dim)
    slides = every_layer_slides(c, d.layers)
    return causal_lm(c, d.width, stack(d.width, slides, partial(attention, d, rotary=turn), ffn))


@family("mixtral")
def mixtral(c: Config) -> Model:
    """Mixtral of experts (arXiv:2401.04088)."""
    d, inner = dims(c), c.size("intermediate_size")
    experts = moe(c, d.width, c.size("num_local_experts"), c.size("num_experts_per_tok"), inner)
    turn, slides = rotary(c, d.head_dim), every_layer_slides(c, d.layers)
    return causal_lm(c, d.width, stack(d.width, slides, partial(attention, d, rotary=turn), experts=experts))


@family("llama4_text")
def llama4(c: Config) -> Model:
    """Llama 4: chunked attention with RoPE, full attention without; experts on some layers, one shared."""
    d, inner, act = dims(c, head_dim=128), c.size("intermediate_size"), function(c)
    step = c.size("interleave_moe_layer_step", 1)
    listed = c.layer_set("moe_layers", d.layers)
    sparse = set(range(step - 1, d.layers, step) if listed is None else listed)
    dense = mlp(d.width, c.size("intermediate_size_mlp"), act)
    top_k, count = c.size("num_experts_per_tok"), c.size("num_local_experts")
    experts = moe(c, d.width, count, top_k, inner, shared=inner, reference="all")
    attend = _llama4_attention(c)
    blocks = [layer(name, d.width, mixer, experts if i in sparse else dense) for i, (name, mixer) in enumerate(attend)]
    named = [type(b)(f"{b.name} {kind(i in sparse)}", b.modules) for i, b in enumerate(blocks)]
    return causal_lm(c, d.width, named)


def _llama4_attention(c: Config) -> list[tuple[str, Modules]]:
    """Layers with RoPE see their own chunk; every fourth has no RoPE and sees everything."""
    d, bias = dims(c, head_dim=128), c.flag("attention_bias")
    every = c.size("no_rope_layer_interval", 4)
    default = [int((i + 1) % every != 0) for i in range(d.layers)]
    unsaid = c.raw.get("no_rope_layers") == []
    c.read.add("no_rope_layers")
    turns = default if unsaid else c.per_layer("no_rope_layers", d.layers, (0, 1), default)
    kinds = c.per_layer(
        "layer_types", d.layers, ("chunked_attention", "full_attention"),
        ["chunked_attention" if turn else "full_attention" for turn in turns],
    )  # fmt: skip
    chunk = c.size("attention_chunk_size", None)
    plain = plain_per_head if c.flag("use_qk_norm", True) else None
    turned = rotary(c, d.head_dim)
    return [
        (
            "chunked" if k == "chunked_attention" and chunk else "full",
            attention(
                d, rotary=turned if turn else 0, bias=bias, qk_norm=plain if turn else None,
                chunk=chunk if k == "chunked_attention" else None,
            ),
        )
        for turn, k in zip(turns, kinds, strict=True)
    ]  # fmt: skip


@family("smollm3")
def smollm3(c: Config) -> Model:
    """SmolLM3: Llama with no RoPE on every fourth layer."""
    d, bias = dims(c), c.flag("attention_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias"))
    every, turned = c.size("no_rope_layer_interval", 4), rotary(c, d.head_dim)
    turns = c.per_layer("no_rope_layers", d.layers, (0, 1), [int((i + 1) % every != 0) for i in range(d.layers)])
    slides = windows(c, d.layers, lambda i: c.flag("use_sliding_window") and bool(turns[i]))
    mixers = [attention(d, rotary=t * turned, bias=bias, window=w) for t, w in zip(turns, slides, strict=True)]
    blocks = [layer(kind(False, w), d.width, m, ffn) for m, w in zip(mixers, slides, strict=True)]
    return causal_lm(c, d.width, blocks, tied=True)


@family("seed_oss")
def seed_oss(c: Config) -> Model:
    """Seed-OSS: Llama with biased q, k, v."""
    d = dims(c, head_dim=128)
    bias, out = c.flag("attention_bias", True), c.flag("attention_out_bias")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=bias, out_bias=out)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("internlm3")
def internlm3(c: Config) -> Model:
    """InternLM3: Llama under other names for its bias flags."""
    d = dims(c, head_dim=128)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias|qkv_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias|bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("arcee")
def arcee(c: Config) -> Model:
    """Arcee AFM: Llama with a squared-ReLU feed-forward, not gated."""
    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, default="relu2"), gated=False, bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("apertus")
def apertus(c: Config) -> Model:
    """Apertus: q/k norms and xIELU (arXiv:2411.13010), whose two scalars are learned, not gated."""
    d, act = dims(c), function(c, default="xielu")
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), qk_norm=per_head)
    learned = 2 if act == "xielu" else 0
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, learned=learned)
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("helium")
def helium(c: Config) -> Model:
    """Helium: Llama whose output projection has no bias."""
    d = dims(c, head_dim=128)
    mixer = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"), out_bias=False)
    ffn = mlp(d.width, c.size("intermediate_size"), function(c), bias=c.flag("mlp_bias"))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("bitnet")
def bitnet(c: Config) -> Model:
    """BitNet b1.58 2B4T (arXiv:2504.12285): a norm before each output projection, squared ReLU."""
    d, inner = dims(c), c.size("intermediate_size")
    *heads, out = attention(d, rotary=rotary(c, d.head_dim), bias=c.flag("attention_bias"))
    mixer = (*heads, rms("attn_sub_norm", d.heads * d.head_dim), out)
    ffn = mlp(d.width, inner, function(c, default="relu2"), middle=(rms("ffn_sub_norm", inner),))
    return causal_lm(c, d.width, [layer("dense", d.width, mixer, ffn)] * d.layers)


@family("exaone4")
def exaone4(c: Config) -> Model:
    """EXAONE 4.0 (arXiv:2507.11407): norms after, three sliding layers with RoPE to one full without."""
    d, every, some = dims(c), pattern_length(c, 4), c.has("sliding_window")
    ffn, turned = mlp(d.width, c.size("intermediate_size"), function(c)), rotary(c, d.head_dim)
    slides = windows(c, d.layers, lambda i: some and (i + 1) % every != 0)

    def mixer(window: int | None) -> Modules:
        return attention(d, rotary=turned if window or not some else 0, window=window, qk_norm=per_head)

    return causal_lm(c, d.width, stack(d.width, slides, mixer, ffn, before=False, after=True))


@family("nemotron")
def nemotron(c: Config) -> Model:
    """Nemotron-4 (arXiv:2402.16819): LayerNorm1P, half of RoPE, squared ReLU, not gated."""
    from roofline.model.families.parts import layer_norm

    d = dims(c)
    mixer = attention(d, rotary=rotary(c, d.head_dim, 0.5), bias=c.flag("attention_bias"))
    ffn = mlp(d.width, c.size("intermediate_size"), function(c, default="relu2"), gated=False, bias=c.flag("mlp_bias"))
    block = layer("dense", d.width, mixer, ffn, norm=layer_norm)
    return causal_lm(c, d.width, [block] * d.layers, norm=layer_norm)
