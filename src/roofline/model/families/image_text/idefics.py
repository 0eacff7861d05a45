"""Llamas that attend to something else between their layers: IDEFICS to images, Evolla to a protein."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, cross_attention, rope_section
from roofline.model.families.blocks.encoders import at, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.vision import TowerStage, Vit, section_of, streamed
from roofline.model.families.blocks.layers import causal_lm, layer, with_before
from roofline.model.families.blocks.norms import layer_norm, per_head, rms
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.registry import complete
from roofline.model.families.towers.fixed_resolution import square_vision
from roofline.model.families.towers.resampled import resampled, unapplied
from roofline.model.media.images import IMAGES
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Embedding, Linear, Modules, Pace

_FROZEN = ("text_layers", "text_module_exceptions", "vision_layers", "vision_module_exceptions")


@complete("idefics")
def idefics(c: Config) -> Model:
    """IDEFICS (arXiv:2306.16527): gated attention to CLIP's output, or to latents of it, before every n-th layer."""
    d, part = dims(c), _clip_of_idefics(section_of(c, "vision_config"))
    p = section_of(c, "perceiver_config")
    latent = p.size("resampler_n_latents", 64) if c.flag("use_resampler") else None
    blocks = (part,) if latent is None else (part, _resampler(p, part, latent))
    act, inner, every = activation(c), c.size("intermediate_size"), c.size("cross_layer_interval", 1)
    plain = layer("dense", d.width, attention(d, rotary=d.head_dim), mlp(d.width, inner, act))
    scales = d.width if c.text("alpha_type", "float") == "vector" else 1
    cross = cross_attention(d, source=part.width, stream=IMAGES, fixed=latent or part.positions)
    if latent is not None:
        cross = (*at(latent, cross[:2]), *cross[2:])
    if c.flag("qk_layer_norms"):
        q, k = per_head("cross_q_norm", d.heads, d.head_dim), per_head("cross_k_norm", d.heads, d.head_dim)
        cross = with_before(cross, "cross_attention", q, replace(k, stream=IMAGES, positions=latent))
    gated: Modules = (
        rms("cross_norm", d.width), *cross, Add(name="cross_residual", width=d.width), unapplied("alphas", scales, 2),
        rms("cross_ffn_norm", d.width), *mlp(d.width, inner, act, prefix="cross_"),
        Add(name="cross_ffn_residual", width=d.width),
    )  # fmt: skip
    seeing = Block("cross dense", (*gated, *plain.modules))
    rows = c.size("vocab_size", most=2**28) + c.size("additional_vocab_size", 0, least=0)
    layers = [plain if i % every else seeing for i in range(d.layers)]
    c.mark_read("rope_parameters", "alpha_initializer", "alphas_initializer_range", "dropout", "freeze_lm_head")
    c.mark_read(*(f"freeze_{part}" for part in _FROZEN))
    model = causal_lm(c.with_values(vocab_size=rows), d.width, layers)
    if c.architecture in c.defaults.bases:
        model = replace(model, head=model.head[:-1])
    return replace(model, towers=tuple(streamed(blocks, IMAGES)))


def _clip_of_idefics(c: Config) -> TowerStage:
    width, heads = c.size("embed_dim", 768), c.size("num_attention_heads", 16)
    layers, inner = c.size("num_hidden_layers", 32, most=MOST_LAYERS), c.size("intermediate_size", 5120)
    v = Vit(layers, width, heads, inner, activation(c, default="gelu"))
    return square_vision(c, v, bias=False, before=layer_norm, token=True)


def _resampler(p: Config, part: TowerStage, queries: int) -> TowerStage:
    """A perceiver (arXiv:2204.14198 §3.1.1): latents attend to the image and to themselves."""
    width, heads, dim = part.width, p.size("resampler_n_heads", 16), p.size("resampler_head_dim", 96)
    depth, count = p.size("resampler_depth", 6), part.positions or 1
    d, norms = Dims(depth, width, heads, heads, dim), p.flag("qk_layer_norms_perceiver")
    normed: Modules = (
        *at(queries, (replace(layer_norm("q_norm", dim), repeats=heads),)),
        *at(count + queries, (replace(layer_norm("k_norm", dim), repeats=heads),)),
    )
    attends = resampled("perceiver", d, queries, count + queries)
    block = Block("perceiver", (
        *at(count, (layer_norm("context_norm", width),)), *at(queries, (layer_norm("latents_norm", width),)),
        *(with_before(attends, "perceiver_attention", *normed) if norms else attends),
        *at(queries, (
            layer_norm("ffn_norm", width), Linear(name="up_proj", inputs=width, outputs=4 * width),
            Activation(name="act", width=4 * width, function="relu", gated=False),
            Linear(name="down_proj", inputs=4 * width, outputs=width), Add(name="residual", width=width),
        )),
    ))  # fmt: skip
    last = Block("norm", (unapplied("latents", width, queries), *at(queries, (layer_norm("final_norm", width),))))
    return TowerStage("projector", width, (*[block] * depth, last))


# -- proteins ------------------------------------------------------------------------------------------------------
RESIDUES = 1024
"""Residues of a protein that Evolla's processor keeps at most (`protein_max_length`)."""


@complete("evolla")
def evolla(c: Config) -> Model:
    """Evolla (bioRxiv 2025.01.05.630192): gated attention to latents of a protein behind every n-th layer of Llama."""
    d, p = dims(c), c.section("protein_encoder_config")
    act, inner, bias = activation(c), c.size("intermediate_size"), c.flag("mlp_bias")
    rope_section(c)
    c.mark_read("aligner_attention_probs_dropout_prob")
    mixer = attention(d, rotary=d.head_dim, bias=c.flag("attention_bias"))
    plain = layer("dense", d.width, mixer, mlp(d.width, inner, act, bias=bias))
    every = max(d.layers // c.size("aligner_num_add_layers", 8), 1)
    latents, mult = c.size("resampler_num_latents", 64), c.size("aligner_ffn_mult", 4)
    own = Dims(d.layers, d.width, d.heads, d.heads, d.width // d.heads)
    *keys, queries, core, out = cross_attention(own, bias=True, fixed=latents)
    assert isinstance(out, Linear)
    ffn = mlp(d.width, mult * d.width, "gelu", gated=False, prefix="cross_")
    gated: Modules = (
        rms("cross_norm", d.width), *at(latents, keys), queries, core,
        replace(out, bias=c.flag("aligner_enable_bias", True)),
        Add(name="cross_residual", width=d.width), unapplied("gates", 1, 2),
        layer_norm("cross_ffn_norm", d.width), *ffn, Add(name="cross_ffn_residual", width=d.width),
    )  # fmt: skip
    seeing = Block("dense cross", (*plain.modules, *gated))
    layers = [seeing if (i + 1) % every == 0 else plain for i in range(d.layers)]
    model = causal_lm(c, d.width, layers)
    protein = tower(
        "protein", "source", d.width, [*_residues(p), *_compressed(c, p.size("hidden_size", 1280), latents)], RESIDUES
    )
    return replace(model, towers=(protein,), steps=("encode", "prefill", "decode"))


def _residues(p: Config) -> Iterator[Block]:
    """SaProt (ICLR 2024): ESM-2 over residues that also say the structure around them."""
    p.text("position_embedding_type", "rotary", ("rotary",))
    p.mark_read("token_dropout", "mask_token_id", "pad_token_id", "max_position_embeddings", "rope_theta")
    p.mark_read("is_decoder", "add_cross_attention")
    width, heads = p.size("hidden_size", 1280), p.size(HEADS, 20)
    d = Dims(p.size("num_hidden_layers", 33, most=MOST_LAYERS), width, heads, heads, width // heads)
    norm = (layer_norm("embedding_norm", width),) if p.flag("emb_layer_norm_before", False) else ()
    yield Block("residues", (Embedding(name="residues", rows=p.size("vocab_size", 446), width=width), *norm))
    ffn = mlp(width, p.size("intermediate_size", 5120), "gelu", gated=False, bias=True)
    mixer = attention(d, rotary=d.head_dim, bias=True, causal=False)
    yield from [layer("dense", width, mixer, ffn, norm=layer_norm)] * d.layers
    yield Block("last", (layer_norm("final_norm", width),))


def _compressed(c: Config, width: int, latents: int) -> Iterator[Block]:
    """A perceiver (arXiv:2204.14198 §3.1.1): latents attend to all residues and to themselves."""
    heads, dim, depth = (c.size(f"resampler_{key}", n) for key, n in (("heads", 8), ("dim_head", 64), ("depth", 6)))
    d, inner, beside = (
        Dims(depth, width, heads, heads, dim),
        c.size("resampler_ff_mult", 4) * width,
        Pace(extra=latents),
    )
    q, kv, core, out = resampled("perceiver", d, latents, 1)
    assert isinstance(core, Attention)
    block = Block("perceiver", (
        layer_norm("context_norm", width), *at(latents, (layer_norm("latents_norm", width),)),
        q, replace(kv, positions=None, pace=beside), replace(core, keys=None, spaced=beside), out,
        *at(latents, (
            Add(name="attn_residual", width=width), layer_norm("ffn_norm", width),
            *mlp(width, inner, "gelu", gated=False), Add(name="ffn_residual", width=width),
        )),
    ))  # fmt: skip
    yield Block("latents", (unapplied("latents", width, latents),))
    yield from [block] * depth
    own = c.size("hidden_size")
    product = Linear(name="projector", inputs=width, outputs=own, bias=True)
    yield Block("projector", at(latents, (product, layer_norm("projector_norm", own))))
