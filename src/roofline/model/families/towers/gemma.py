"""Towers of Gemma 3n and Gemma 4: MobileNet-V5, a ViT or patches alone, and a conformer that hears."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import strided
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    TowerStages,
    listed_sizes,
    section_of,
    sees,
    streamed,
)
from roofline.model.families.blocks.norms import layer_norm, layer_norm_no_bias, plain_rms, rms
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sound import spectra_of
from roofline.model.families.registry import towers
from roofline.model.families.speech.conformers import convolution_module
from roofline.model.families.towers.native_resolution import gemma4_vision
from roofline.model.families.towers.resampled import unapplied
from roofline.model.families.vision.mobilenet_v5 import OUTPUT, mobilenet_v5
from roofline.model.media.images import IMAGES
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Add, Attention, Convolution, Linear, Module, Modules

SIDE = 768
"""Pixels of a side of what Gemma 3n sees, by its `preprocessor_config.json`."""


# -- the conformer -------------------------------------------------------------------------------------------------
def conformer(c: Config, keys: tuple[str, str, str, str], act: str, *, valid: bool) -> TowerStage:
    """Gemma's conformer (Universal Speech Model, arXiv:2303.01037): blocks of queries attend to a little more.

    `keys`: of layers, heads, taps of its convolutions, and the prefix of those of attention. `valid`: its front pads
    columns behind them alone (Gemma 3n).
    """
    layers, heads = c.size(keys[0], most=MOST_LAYERS), c.size(keys[1])
    width, taps = c.size("hidden_size"), c.size(keys[2])
    chunk, left, right = (
        c.size(f"{keys[3]}attention_{key}", least=least)
        for key, least in (("chunk_size", 1), ("context_left", 1), ("context_right", 0))
    )
    c.number(f"{keys[3]}attention_logit_cap", 50.0)
    front, count = _front(c, width, valid=valid)
    blocks, seen, head = ceil_div(count, chunk), chunk + left - 1 + right, width // heads

    def product(name: str, outputs: int = width) -> Linear:
        return Linear(name=name, inputs=width, outputs=outputs)

    def core(name: str, keys: int, values: int) -> Attention:
        return Attention(
            name=name, heads=heads, kv_heads=heads, head_dim=head, v_head_dim=values, causal=False, keys=keys
        )

    mixer: Modules = (
        rms("attn_norm", width),
        column_product("qkv_proj", width, 3 * width, kv=2 * width, kv_groups=heads),
        unapplied("query_scale", head),
        *at(left + right, (product("distance_proj"),)),
        *at(chunk, (core("distances", left + right, 0), core("attention", seen, head)), blocks),
        row_product("o_proj", width, width), rms("attn_post_norm", width), Add(name="attn_residual", width=width),
    )  # fmt: skip
    conv = convolution_module(width, taps, act, rms("channel_norm", width), bias=False)
    block = Block("conformer", (
        *_half("first_", width, act), *mixer,
        rms("conv_norm", width), *conv, Add(name="conv_residual", width=width),
        *_half("second_", width, act), rms("out_norm", width),
    ))  # fmt: skip
    every = (front, *[Block("conformer", tuple(_over(count, block.modules)))] * layers)
    return TowerStage("audio", width, every, count)


def _over(count: int, modules: Modules) -> Iterator[Module]:
    for module in modules:
        yield module if module.positions is not None else at(count, (module,))[0]


def _half(prefix: str, width: int, act: str) -> Modules:
    """A feed-forward network with a norm before and behind, which counts half."""
    ffn = mlp(width, 4 * width, act, gated=False, prefix=prefix)
    return (rms(f"{prefix}norm", width), *ffn, rms(f"{prefix}post_norm", width), Add(name=f"{prefix}sum", width=width))


def _front(c: Config, width: int, *, valid: bool) -> tuple[Block, int]:
    """Two convolutions that halve the spectrogram on both sides, and a product; positions that they leave."""
    if valid:
        channels, rows = listed_sizes(c, "sscp_conv_channel_size", (128, 32)), c.size("input_feat_size", 128)
        kernels, strides = _pairs(c, "sscp_conv_kernel_size", 3), _pairs(c, "sscp_conv_stride_size", 2)
    else:
        channels, rows = listed_sizes(c, "subsampling_conv_channels", (128, 32)), 128
        kernels, strides = [(3, 3)] * 2, [(2, 2)] * 2
    columns, inputs, modules = spectra_of(c), 1, list[Module]()
    for i, (outputs, (long, high), (along, down)) in enumerate(zip(channels, kernels, strides, strict=True)):
        columns, rows = ceil_div(columns, along), strided(rows, high, down, 1)
        conv = Convolution(
            name=f"front{i}", inputs=inputs, outputs=outputs, kernel=long * high, stride=along * down, part="other"
        )
        norm = rms if valid else layer_norm_no_bias
        act = Activation(name=f"front{i}_act", width=outputs, function="relu", gated=False)
        modules += at(rows * columns, (conv, norm(f"front{i}_norm", outputs), act))
        inputs = outputs
    flat = Linear(name="front_proj", inputs=inputs * rows, outputs=width, part="other")
    return Block("front", (*modules, *at(columns, (flat,)))), columns


def _pairs(c: Config, key: str, default: int) -> list[tuple[int, int]]:
    """Two sizes for each of two convolutions."""
    value = c.value(key, [[default, default]] * 2)[1]
    pairs = [tuple(p) for p in value if isinstance(p, (list, tuple))] if isinstance(value, (list, tuple)) else []
    if len(pairs) != 2 or any(len(p) != 2 or any(type(v) is not int or not 0 < v < 64 for v in p) for p in pairs):
        raise c.error(key, "two pairs of small sizes")
    return [(int(str(a)), int(str(b))) for a, b in pairs]


# -- Gemma 3n ------------------------------------------------------------------------------------------------------
@sees(alone=("gemma3n_audio",))
def gemma3n_audio(c: Config) -> TowerStages:
    """Gemma 3n's audio encoder (Google, 2025)."""
    c.mark_read("vocab_size", "vocab_offset", "gradient_clipping", "conf_residual_weight", "sscp_conv_group_norm_eps")
    keys = ("conf_num_hidden_layers", "conf_num_attention_heads", "conf_conv_kernel_size", "conf_")
    yield conformer(c, keys, "silu", valid=True)


@sees(alone=("gemma3n_vision",))
def gemma3n_vision(c: Config) -> TowerStages:
    """Gemma 3n's MobileNet-V5 (Google, 2025), by its name in timm."""
    named, known = c.text("architecture", "mobilenetv5_300m_enc"), "mobilenetv5_300m_enc"
    if named != known:
        raise c.error("architecture", known)
    c.mark_read("do_pooling", "num_classes", "label_names", "model_args", "vocab_size", "vocab_offset", "hidden_size")
    blocks, count = mobilenet_v5(c.inputs.height or SIDE, c.inputs.width or SIDE)
    yield TowerStage("vision", OUTPUT, tuple(blocks), count)


def _embedder(c: Config, width: int, text: Model, count: int) -> TowerStage:
    """What takes a tower's output, or a token of its own vocabulary, into the language model."""
    idle = (unapplied("embedding", width, c.size("vocab_size", 128)), unapplied("hard_norm", width))
    project = (rms("soft_norm", width), Linear(name="projector", inputs=width, outputs=text.hidden))
    blocks = Block("projector", (*idle, *at(count, (*project, plain_rms("post_norm", text.hidden)))))
    return TowerStage("projector", text.hidden, (blocks,))


@towers("gemma3n")
def gemma3n_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Gemma 3n (Google, 2025): 256 positions of an image, and one of four of a recording."""
    if outer.get("vision_config") is not None:
        c = section_of(outer, "vision_config")
        (part,) = gemma3n_vision(c)
        yield from streamed((part, _embedder(c, c.size("hidden_size", OUTPUT), text, part.positions or 1)), IMAGES)
    if outer.get("audio_config") is not None:
        c = section_of(outer, "audio_config")
        (part,) = gemma3n_audio(c)
        left = ceil_div(part.positions or 1, c.size("conf_reduction_factor", 4))
        yield from streamed((part, _embedder(c, part.width, text, left)), SOUND)


# -- Gemma 4 -------------------------------------------------------------------------------------------------------
@sees(alone=("gemma4_audio",))
def gemma4_audio(c: Config) -> TowerStages:
    """Gemma 4's audio encoder (Google, 2026): that of Gemma 3n, with another front, and a product behind it."""
    c.mark_read("use_clipped_linears", "gradient_clipping", "residual_weight", "attention_invalid_logits_value")
    keys = ("num_hidden_layers", "num_attention_heads", "conv_kernel_size", "")
    part = conformer(c, keys, activation(c, default="silu"), valid=False)
    yield part
    out = c.size("output_proj_dims", 1536)
    last = at(part.positions or 1, (Linear(name="out", inputs=part.width, outputs=out, bias=True),))
    yield TowerStage("projector", out, (Block("out", last),))


def _projected(width: int, text: Model, count: int | None) -> TowerStage:
    """A norm without weights, and one product."""
    modules: Modules = (plain_rms("projector_norm", width), Linear(name="projector", inputs=width, outputs=text.hidden))
    return TowerStage("projector", text.hidden, (Block("projector", modules if count is None else at(count, modules)),))


@towers("gemma4")
def gemma4_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Gemma 4 (Google, 2026): images and sound where the config has a tower of them."""
    if outer.get("vision_config") is not None:
        c = section_of(outer, "vision_config")
        (part,) = gemma4_vision(c)
        count = (part.positions or 1) // c.size("pooling_kernel_size", 3) ** 2
        yield from streamed((part, _projected(part.width, text, count)), IMAGES)
    if outer.get("audio_config") is not None:
        audio, last = gemma4_audio(section_of(outer, "audio_config"))
        own = _projected(last.width, text, audio.positions)
        yield from streamed((audio, TowerStage("projector", text.hidden, (*last.blocks, *own.blocks))), SOUND)


@towers("gemma4_unified")
def gemma4_unified_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Gemma 4 without encoders (Google, 2026): patches of 48 × 48 pixels and samples go through a product or two."""
    if outer.get("vision_config") is not None:
        c = section_of(outer, "vision_config")
        side, width = c.size("patch_size", 16) * c.size("pooling_kernel_size", 3), c.size("mm_embed_dim", 3840)
        patch = Block("patches", (
            layer_norm("patch_norm", 3 * side**2),
            Linear(name="patch_embedding", inputs=3 * side**2, outputs=width, bias=True), layer_norm("norm", width),
            unapplied("positions", width, 2 * c.size("mm_posemb_size", 1120)), layer_norm("position_norm", width),
        ))  # fmt: skip
        c.mark_read("output_proj_dims")
        count = c.inputs.patches
        yield from streamed((TowerStage("vision", width, (patch,), count), _projected(width, text, None)), IMAGES)
    if outer.get("audio_config") is not None:
        c = section_of(outer, "audio_config")
        each = c.size("audio_embed_dim", 640)
        c.mark_read("audio_samples_per_token", "hidden_size", "output_proj_dims")
        count = None if c.inputs.samples is None else ceil_div(c.inputs.samples, each)
        yield from streamed((TowerStage("projector", text.hidden, _projected(each, text, None).blocks, count),), SOUND)
