"""Denoisers whose latents attend to the prompt by cross-attention, by the classes of diffusers."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.images.denoisers import (
    StreamSizes,
    act_of,
    affine,
    embedded,
    feed_forward,
    final,
    function,
    latents,
    modulation,
    prefixed,
    product,
    prompt,
    sequence,
    two_products,
)
from roofline.model.families.blocks.norms import layer_norm, plain_layer_norm, rms
from roofline.model.families.diffusion.mm_dit import denoiser, head_sizes, layers, video_patches
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    Convolution,
    Embedding,
    Gate,
    Learned,
    Linear,
    Modules,
    Norm,
)


def modulation_table(name: str, width: int, rows: int) -> Modules:
    """Vectors that a block adds to the modulation that all blocks share (arXiv:2310.00426 §2.2)."""
    return at_one((Learned(name=name, width=width, rows=rows),))


def shared_time(width: int, vectors: int = 6, *, inputs: int = 256) -> Modules:
    """The embedded time step, and the modulation that all blocks share."""
    return (*embedded("time", inputs, width), *modulation("shared_modulation", width, vectors))


def shared_final(width: int, outputs: int) -> Modules:
    """The last norm with a table of its own, and the product to the patches."""
    return (
        *modulation_table("final_table", width, 2),
        plain_layer_norm("final_norm", width),
        product("out_proj", width, outputs),
    )


def plane(c: Config, side: int = 128, patch: int = 2, space: int = 8) -> int:
    """Patches of an image's latents."""
    rows, columns = latents(c, side=c.size("sample_size", side), space=space)[1:]
    return (rows // patch) * (columns // patch)


def sides_of(c: Config, default: tuple[int, int, int]) -> tuple[int, int, int]:
    """Sides of a patch over time, height and width."""
    if not isinstance(c.get("patch_size"), list):
        return default
    time, height, width = c.per_layer_size("patch_size", 3, 1)
    return time, height, width


# -- PixArt, Allegro, LTX ------------------------------------------------------------------------------------------
@complete("PixArtTransformer2DModel")
def pixart(c: Config) -> Model:
    """PixArt-α and -Σ (arXiv:2310.00426, 2403.04692): one modulation for all blocks, a table for each."""
    heads, head, width = head_sizes(c, 16, 72)
    patch, side, channels = c.size("patch_size", 2), c.size("sample_size", 128), c.size("in_channels", 4)
    image, text = plane(c, 128, patch), prompt(c, 300)
    sized = c.flag("use_additional_conditions", side == 128)
    weights = c.flag("norm_elementwise_affine")
    c.text("attention_type", "default", ["default"])
    c.mark_read("upcast_attention", "norm_type")
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, act=act_of(c), qk="", rotated=False,
        biases=(c.flag("attention_bias", True), True, True), norm=lambda name, size: affine(name, size, weights),
    )  # fmt: skip
    captions, crossing = c.size("caption_channels", None), c.size("cross_attention_dim", 1152)
    read: Modules = () if captions is None else at(
        text, two_products("text", captions, width, width, "gelu_pytorch_tanh")
    )  # fmt: skip
    sizes: Modules = (
        *at(2, two_products("resolution", 256, width // 3, width // 3)),
        *at_one(two_products("aspect", 256, width // 3, width // 3)),
    )  # fmt: skip
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)), *shared_time(width),
        *(sizes if sized else ()), *read,
    )  # fmt: skip
    block = Block("dense", (
        *modulation_table("modulation_table", width, 6), *s.projected(), *s.attention(), *s.output(),
        *s.crossed(text, crossing, bias=s.biases[0]), *s.fed(),
    ))  # fmt: skip
    head_modules = shared_final(width, patch * patch * c.size("out_channels", 8))
    return denoiser(c, width, [block] * layers(c, "num_layers", 28), embedding, head_modules, positions=image)


@complete("AllegroTransformer3DModel")
def allegro(c: Config) -> Model:
    """Allegro (arXiv:2410.15458): PixArt's blocks over a video, with rotary positions."""
    heads, head, width = head_sizes(c, 24, 96)
    thick, patch, channels = c.size("patch_size_t", 1), c.size("patch_size", 2), c.size("in_channels", 4)
    own = (c.size("sample_frames", 22), c.size("sample_height", 90), c.size("sample_width", 160))
    image, text, weights = video_patches(c, own, (thick, patch, patch)), prompt(c), c.flag("norm_elementwise_affine")
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, act=act_of(c), qk="",
        biases=(c.flag("attention_bias", True), True, True), norm=lambda name, size: affine(name, size, weights),
    )  # fmt: skip
    c.mark_read("interpolation_scale_h", "interpolation_scale_w", "interpolation_scale_t")
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)), *shared_time(width),
        *at(text, two_products("text", c.size("caption_channels", 4096), width, width, "gelu_pytorch_tanh")),
    )  # fmt: skip
    block = Block("dense", (
        *modulation_table("modulation_table", width, 6), *s.projected(), *s.attention(), *s.output(),
        *s.crossed(text, c.size("cross_attention_dim", 2304), bias=s.biases[0]), *s.fed(),
        replace(affine("unused_norm", width, weights), idle=True),
    ))  # fmt: skip
    head_modules = shared_final(width, patch * patch * c.size("out_channels", 4))
    return denoiser(c, width, [block] * layers(c, "num_layers", 32), embedding, head_modules, positions=image)


@complete("LTXVideoTransformer3DModel")
def ltx_video(c: Config) -> Model:
    """LTX-Video (arXiv:2501.00103): PixArt's modulation, norms of queries and keys across all heads."""
    heads, head, width = head_sizes(c, 32, 64)
    sizes = latents(c, side=(16, 22), frames=21, space=32, time=8)
    image, text, weights = sequence(c, prod(sizes)), prompt(c, 128), c.flag("norm_elementwise_affine")
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, act=act_of(c), qk="across",
        biases=(c.flag("attention_bias", True), c.flag("attention_out_bias", True), True),
        norm=lambda name, size: Norm(name=name, width=size, weight=weights),
    )  # fmt: skip
    c.text("qk_norm", "rms_norm_across_heads", ["rms_norm_across_heads"])
    embedding = (
        *at(image, (product("image_proj", c.size("in_channels", 128), width),)), *shared_time(width),
        *at(text, two_products("text", c.size("caption_channels", 4096), width, width, "gelu_pytorch_tanh")),
    )  # fmt: skip
    block = Block("dense", (
        *modulation_table("modulation_table", width, 6), *s.projected(), *s.attention(), *s.output(),
        *s.crossed(text, c.size("cross_attention_dim", 2048), bias=s.biases[0]), *s.fed(),
    ))  # fmt: skip
    head_modules = shared_final(width, c.size("out_channels", 128))
    return denoiser(c, width, [block] * layers(c, "num_layers", 28), embedding, head_modules, positions=image)


@complete("DiTTransformer2DModel")
def dit(c: Config) -> Model:
    """DiT (arXiv:2212.09748): every block embeds the time step and the class itself; no prompt."""
    heads, head, width = head_sizes(c, 16, 72)
    patch, channels, classes = c.size("patch_size", 2), c.size("in_channels", 4), c.size("num_embeds_ada_norm", 1000)
    image = plane(c, 32, patch)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, act=act_of(c), qk="", rotated=False,
        biases=(c.flag("attention_bias", True), True, True), norm=plain_layer_norm,
    )  # fmt: skip
    weights = c.flag("norm_elementwise_affine")
    c.mark_read("upcast_attention", "norm_type")
    known = at_one((Embedding(name="class_embedding", rows=classes + 1, width=width),))
    timed = (*embedded("time", 256, width), *known, *s.modulated())
    fed = replace(s, norm=lambda name, size: affine(name, size, weights)).fed()
    block = Block("dense", (*timed, *s.projected(), *s.attention(), *s.output(), *fed))
    embedding = at(image, (product("image_proj", channels * patch * patch, width),))
    # The first block's embedding of the time step is used once more.
    again = (
        *(replace(m, tied=True) if isinstance(m, Linear) else m for m in embedded("final_time", 256, width)),
        *modulation("final_modulation", width, 2),
    )  # fmt: skip
    again = tuple(replace(m, bias=False) if isinstance(m, Linear) and m.tied else m for m in again)
    outputs = patch * patch * c.size("out_channels", channels)
    head_modules = (*again, plain_layer_norm("final_norm", width), product("out_proj", width, outputs))
    return denoiser(c, width, [block] * layers(c, "num_layers", 28), embedding, head_modules, positions=image)


# -- Sana ----------------------------------------------------------------------------------------------------------
def linear_attention(heads: int, head: int, *, apart: bool = False) -> Modules:
    """Attention without a softmax: the sum of keys and values over all positions, then its product with each query.

    With a row of ones beside the values for the sum of keys (arXiv:2410.10629 §2.2), which has no product where it is
    summed `apart`; no weights of its own.
    """
    summed = Linear(
        name="keys_and_values", inputs=heads * head, outputs=heads * (head + (not apart)), groups=heads, tied=True,
        part="attention",
    )  # fmt: skip
    return (
        Activation(name="feature_act", width=2 * heads * head, function="relu", gated=False), summed,
        replace(summed, name="queries", inputs=heads * (head + 1), outputs=heads * head),
    )  # fmt: skip


SANA = ("SanaTransformer2DModel", "SanaVideoTransformer3DModel", "SanaControlNetModel")


@complete(*SANA)
def sana(c: Config) -> Model:
    """Sana (arXiv:2410.10629): linear attention, and a feed-forward network with a depthwise convolution.

    SANA-Video convolves over time as well; the ControlNet is the first blocks, each with a product of what it leaves.
    """
    film, steers = c.kind == SANA[1], c.kind == SANA[2]
    heads, head, width = head_sizes(c, 20 if film else 70, 112 if film else 32)
    channels = c.size("in_channels", 16 if film else 32)
    if film:
        sides = sides_of(c, (1, 2, 2))
        image, taps = video_patches(c, (21, 60, 104), sides), prod(sides)
    else:
        patch = c.size("patch_size", 1)
        image, taps = plane(c, 32, patch, 32), patch * patch
    text, weights = prompt(c, 300), c.flag("norm_elementwise_affine")
    norms = c.text("qk_norm", "rms_norm_across_heads" if film and "qk_norm" not in c.raw else "")
    qk = "" if not norms else "across" if norms.endswith("across_heads") else "heads"
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=1, qk=qk, rotated=film, biases=(c.flag("attention_bias"), True, True)
    )  # fmt: skip
    crossing = replace(
        s, heads=c.size("num_cross_attention_heads", 20), head=c.size("cross_attention_head_dim", 112)
    )  # fmt: skip
    c.mark_read("guidance_embeds_scale", "timestep_scale", "rope_max_seq_len", "out_channels")
    inner = int(width * c.number("mlp_ratio", 2.5))
    mixed: Modules = (
        product("ffn_up_proj", width, 2 * inner), function("ffn_up_act", 2 * inner),
        Convolution(name="ffn_conv", inputs=2 * inner, outputs=2 * inner, kernel=9, groups=2 * inner, bias=True),
        function("ffn_act", inner, gated=True), product("ffn_down_proj", inner, width, False),
        *((Convolution(name="ffn_time_conv", inputs=width, outputs=width, kernel=3),) if film else ()),
        Gate(name="ffn_gate", width=width, gates=width, sigmoid=False), Add(name="ffn_residual", width=width),
    )  # fmt: skip
    guided = embedded("guidance", 256, width) if c.flag("guidance_embeds") else ()
    embedding = (
        *at(image, (product("image_proj", channels * taps, width),)), *shared_time(width), *guided,
        *at(text, (
            *two_products("text", c.size("caption_channels", 2304), width, width, "gelu_pytorch_tanh"),
            rms("text_norm", width),
        )),
        *(at(image, (
            Linear(name="condition_proj", inputs=channels * taps, outputs=width, tied=True),
            product("condition_in", width, width),
        )) if steers else ()),
    )  # fmt: skip
    mixer = linear_attention(heads, head, apart=film)
    rope = s.attention()[:1] if film else ()
    block = (
        *modulation_table("modulation_table", width, 6), *s.projected(), *rope, *mixer, *s.output(),
        *crossing.crossed(text, c.size("cross_attention_dim", 2240)), affine("ffn_norm", width, weights), *mixed,
    )  # fmt: skip
    if steers:
        blocks = [Block("dense", (*block, product("left", width, width)))] * layers(c, "num_layers", 7)
        return denoiser(c, width, blocks, embedding, (), positions=image)
    head_modules = shared_final(width, taps * c.size("out_channels", channels))
    return denoiser(
        c, width, [Block("dense", block)] * layers(c, "num_layers", 20), embedding, head_modules, positions=image
    )


# -- Wan -----------------------------------------------------------------------------------------------------------
WAN = (
    "WanTransformer3DModel",
    "SkyReelsV2Transformer3DModel",
    "ChronoEditTransformer3DModel",
    "AnyFlowTransformer3DModel",
)
SEEN = 257
"""Positions of CLIP ViT-H/14's view of an image, which Wan attends to beside the prompt."""


def wan_block(c: Config, s: StreamSizes, text: int, *, seen: int = 0) -> Modules:
    """A block of Wan: attention, cross-attention to the prompt and to an image, feed-forward network."""
    width = s.width
    crossing = s.crossed(text, width)
    if seen:
        *asked, out, add = crossing
        looked = (
            *at(
                seen,
                (product("seen_kv_proj", c.size("added_kv_proj_dim", width), 2 * width), rms("seen_k_norm", width)),
            ),
            Attention(
                name="seen_attention",
                heads=s.heads,
                kv_heads=s.heads,
                head_dim=s.head,
                v_head_dim=s.head,
                causal=False,
                keys=seen,
            ),
            Add(name="seen_residual", width=width),
        )
        crossing = (*asked, *looked, out, add)
    weights = c.flag("cross_attn_norm", True)
    normed = (layer_norm("cross_norm", width),) if weights else ()
    return (
        *modulation_table("modulation_table", width, 6),
        *s.projected(),
        *s.attention(),
        *s.output(),
        *normed,
        *crossing,
        *s.fed(),
    )


@complete(*WAN, "WanVACETransformer3DModel")
def wan(c: Config) -> Model:
    """Wan 2.1 and 2.2 (arXiv:2503.20314); VACE adds blocks that read a condition beside some of the layers."""
    small = c.kind == "SkyReelsV2Transformer3DModel"
    heads, head, width = head_sizes(c, 16 if small else 40, 128)
    patch, channels = sides_of(c, (1, 2, 2)), c.size("in_channels", 16)
    image, text = video_patches(c, (21, 60, 104), patch, space=16 if channels == 48 else 8), prompt(c)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=c.size("ffn_dim", 8192 if small else 13824), act="gelu-approximate",
        qk="across",
    )  # fmt: skip
    c.text("qk_norm", "rms_norm_across_heads", ["rms_norm_across_heads"])
    c.mark_read(
        "rope_max_seq_len", "rope_temporal_skip_len", "num_frame_per_block", "gate_value", "deltatime_type",
    )  # fmt: skip
    looks, wide = c.size("image_dim", None), c.size("added_kv_proj_dim", None)
    seen = SEEN * (1 if c.size("pos_embed_seq_len", None) is None else 2)
    viewed: Modules = () if looks is None else at(seen, (
        layer_norm("seen_norm", looks), *feed_forward("seen", looks, looks, "gelu", outputs=width),
        layer_norm("seen_out_norm", width),
    ))  # fmt: skip
    if looks is not None and (rows := c.size("pos_embed_seq_len", None)) is not None:
        viewed = (*at(rows, (Learned(name="seen_positions", width=looks, rows=rows, applied=False),)), *viewed)
    embedding = (
        *at(image, (product("image_proj", channels * prod(patch), width),)),
        *shared_time(width, inputs=c.size("freq_dim", 256)),
        *at(text, two_products("text", c.size("text_dim", 4096), width, width, "gelu_pytorch_tanh")), *viewed,
    )  # fmt: skip
    if c.kind == "AnyFlowTransformer3DModel":
        embedding += embedded("other_time", c.size("freq_dim", 256), width)
    if c.flag("inject_sample_info"):
        embedding += (
            *at_one((Embedding(name="rate_embedding", rows=2, width=width),)),
            *at_one(two_products("rate", width, width, 6 * width)),
        )  # fmt: skip
    block = Block("dense", wan_block(c, s, text, seen=seen if wide is not None else 0))
    blocks = [block] * layers(c, "num_layers", 32 if small else 40)
    if c.kind == "WanVACETransformer3DModel":
        taken, read = c.layer_set("vace_layers", len(blocks)), c.size("vace_in_channels", 96)
        taken = list(range(0, 40, 5)) if taken is None else taken
        embedding += at(image, (product("condition_proj", read * prod(patch), width),))
        for i in taken:
            first = (product("condition_in_proj", width, width),) if i == 0 else ()
            beside = prefixed("condition_", block.modules)
            more = (*first, *beside, product("condition_out_proj", width, width))
            blocks[i] = Block("conditioned", (*more, *block.modules))
    head_modules = shared_final(width, prod(patch) * c.size("out_channels", channels))
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("WanModel")
def wan_original(c: Config) -> Model:
    """Wan under the keys of its own code. Whether `i2v` has Wan 2.1's view of the image is not in its config."""
    heads = c.size("num_heads")
    c.text("model_type", "t2v", ["t2v", "ti2v"])
    c.mark_read("text_len")
    return wan(replace(c, kind="WanTransformer3DModel").with_values(
        num_attention_heads=heads, attention_head_dim=c.size("dim") // heads,
        in_channels=c.size("in_dim"), out_channels=c.size("out_dim"),
    ))  # fmt: skip


# -- HunyuanDiT ----------------------------------------------------------------------------------------------------
@complete("HunyuanDiT2DModel")
def hunyuan_dit(c: Config) -> Model:
    """HunyuanDiT (arXiv:2405.08748): PixArt's shape with skips from the first half of the blocks to the second."""
    heads, head = c.size("num_attention_heads", 16), c.size("attention_head_dim", 88)
    width, patch, channels = heads * head, c.size("patch_size", 2), c.size("in_channels", 4)
    image, count = plane(c, 128, patch), layers(c, "num_layers", 40)
    words, spelt = c.size("text_len", 77), c.size("text_len_t5", 256)
    text, narrow, wide = words + spelt, c.size("cross_attention_dim", 1024), c.size("cross_attention_dim_t5", 2048)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 4.0)),
        act=act_of(c), qk="layer", vectors=1, norm=layer_norm,
    )  # fmt: skip
    pooled, styled = c.size("pooled_projection_dim", 1024), c.flag("use_style_cond_and_image_meta_size", True)
    c.mark_read("hidden_size", "norm_type")
    pooler = (
        Learned(name="pool_positions", width=wide, rows=spelt + 1, applied=False),
        *at(spelt + 1, (product("pool_kv_proj", wide, 2 * wide),)),
        *at_one((
            product("pool_q_proj", wide, wide),
            Attention(
                name="pool_attention", heads=8, kv_heads=8, head_dim=wide // 8, v_head_dim=wide // 8, causal=False,
                keys=spelt + 1,
            ),
            product("pool_o_proj", wide, pooled),
        )),
    )  # fmt: skip
    style = at_one((Embedding(name="style_embedding", rows=1, width=width),)) if styled else ()
    extra = pooled + (256 * 6 + width if styled else 0)
    embedding = (
        Learned(name="text_padding", width=narrow, rows=text, applied=False),
        *at(spelt, two_products("text", wide, 4 * wide, narrow)),
        *at(image, (product("image_proj", channels * patch * patch, width),)), *embedded("time", 256, width), *pooler,
        *style, *at_one(two_products("extra", extra, 4 * width, width)),
    )  # fmt: skip
    block = (
        *s.modulated(), *s.projected(), *s.attention(), *s.output(gated=False), layer_norm("cross_norm", width),
        *s.crossed(text, narrow), *s.fed(gated=False),
    )  # fmt: skip
    skip = (layer_norm("skip_norm", 2 * width), product("skip_proj", 2 * width, width))
    blocks = [
        Block("skipped", (*skip, *block)) if i > count // 2 else Block("dense", block) for i in range(count)
    ]  # fmt: skip
    outputs = patch * patch * channels * (2 if c.flag("learn_sigma", True) else 1)
    return denoiser(c, width, blocks, embedding, final(width, outputs), positions=image)


# -- Cosmos --------------------------------------------------------------------------------------------------------
@complete("CosmosTransformer3DModel")
def cosmos(c: Config) -> Model:
    """Cosmos-Predict (arXiv:2501.03575): modulations of low rank beside one that all blocks share, no biases."""
    heads, head, width = head_sizes(c, 32, 128)
    patch, rank = sides_of(c, (1, 2, 2)), c.size("adaln_lora_dim", 256)
    channels = c.size("in_channels", 16) + c.flag("concat_padding_mask", True)
    image, text = video_patches(c, (16, 88, 160), patch), prompt(c)
    if c.has("img_context_dim_in"):
        raise c.error("img_context_dim_in", "null (an image as context is not covered yet)")
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 4.0)), act="gelu", vectors=0,
        biases=(False, False, False),
    )  # fmt: skip

    def modulated(name: str, vectors: int) -> Modules:
        return at_one((
            function(f"{name}_act", width), product(f"{name}_in", width, rank, False),
            product(f"{name}_out", rank, vectors * width, False),
        ))  # fmt: skip

    wide = c.size("text_embed_dim", 1024)
    sides = c.per_layer_size("max_size", 3, 128) if c.has("max_size") else [128, 240, 240]
    c.mark_read(
        "rope_scale", "controlnet_block_every_n", "img_context_dim_in", "img_context_num_tokens", "img_context_dim_out",
        "max_size", "encoder_hidden_states_channels",
    )  # fmt: skip
    learned = [
        Learned(name=f"positions_{name}", width=width, rows=side // size, applied=False)
        for name, side, size in zip("thw", sides, patch, strict=True)
    ]
    read: Modules = ()
    if c.flag("use_crossattn_projection"):
        channels_in = c.size("crossattn_proj_in_channels", 1024)
        read = at(text, (product("text_proj", channels_in, c.size("encoder_hidden_states_channels", 1024)),))
    c.mark_read("crossattn_proj_in_channels")
    embedding = (
        *at(image, (product("image_proj", channels * prod(patch), width, False),)),
        *(learned if c.text("extra_pos_embed_type", "") else ()),
        *at_one((
            product("time_in", width, width, False), function("time_act", width),
            product("time_out", width, 3 * width, False), rms("time_norm", width),
        )), *read,
    )  # fmt: skip
    block = Block("dense", (
        *modulated("modulation", 3), *s.projected(), *s.attention(), *s.output(),
        *modulated("cross_modulation", 3), plain_layer_norm("cross_norm", width), *s.crossed(text, wide, bias=False),
        *modulated("ffn_modulation", 3), *s.fed(),
    ))  # fmt: skip
    head_modules = (
        *modulated("final_modulation", 2), plain_layer_norm("final_norm", width),
        product("out_proj", width, prod(patch) * c.size("out_channels", 16), False),
    )  # fmt: skip
    return denoiser(c, width, [block] * layers(c, "num_layers", 28), embedding, head_modules, positions=image)


# -- Lumina --------------------------------------------------------------------------------------------------------
def rounded_up(inner: float, multiple: int) -> int:
    """The inner width, rounded up to a multiple."""
    return -(-int(inner) // multiple) * multiple


def _lumina_inner(c: Config, width: int, ratio: float) -> int:
    scale = c.number("ffn_dim_multiplier", None)
    return rounded_up(int(ratio * width) * (1.0 if scale is None else scale), c.size("multiple_of", 256))


@complete("Lumina2Transformer2DModel")
def lumina2(c: Config) -> Model:
    """Lumina-Image 2.0 (arXiv:2503.21758): refiners of text and image, then one stream of both; norms after, too."""
    width, heads = c.size("hidden_size", 2304), c.size("num_attention_heads", 24)
    s = StreamSizes(
        width=width, heads=heads, head=width // heads, kv_heads=c.size("num_kv_heads", 8),
        inner=_lumina_inner(c, width, 4), act="swiglu", vectors=4, time=min(width, 1024), norm=rms,
        biases=(False, False, False),
    )  # fmt: skip
    patch, channels, wide = c.size("patch_size", 2), c.size("in_channels", 16), c.size("cap_feat_dim", 1024)
    image, text = plane(c, 128, patch), prompt(c, 256)
    c.mark_read("scaling_factor", "axes_dim_rope")
    time = min(width, 1024)
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)),
        *at_one(two_products("time", 256, time, time)),
        *at(text, (rms("text_norm", wide), product("text_proj", wide, width))),
    )
    refined = layers(c, "num_refiner_layers", 2)
    blocks = [
        *[Block("image refiner", between_norms(s, image))] * refined,
        *[Block("text refiner", between_norms(replace(s, vectors=0), text))] * refined,
        *[Block("dense", between_norms(s, image + text))] * layers(c, "num_layers", 26),
    ]
    return denoiser(
        c,
        width,
        blocks,
        embedding,
        _low_final(s, patch * patch * c.size("out_channels", channels), image + text),
        positions=image,
    )


def between_norms(s: StreamSizes, positions: int) -> Modules:
    """A block with norms before and after both sublayers."""
    *out, add = s.output(gated=s.vectors > 0)
    *fed, last = s.fed(gated=s.vectors > 0)
    return (
        *s.modulated(),
        *at(
            positions,
            (
                *s.projected(),
                *s.attention(),
                *out,
                rms("after_norm", s.width),
                add,
                *fed,
                rms("ffn_after_norm", s.width),
                last,
            ),
        ),
    )


def _low_final(s: StreamSizes, outputs: int, positions: int) -> Modules:
    """The last modulation of one vector, and the product to the patches, over all positions."""
    assert s.time is not None
    return (
        *at_one((function("final_modulation_act", s.time), product("final_modulation_proj", s.time, s.width))),
        *at(positions, (plain_layer_norm("final_norm", s.width), product("out_proj", s.width, outputs))),
    )  # fmt: skip


@complete("ZImageTransformer2DModel")
def z_image(c: Config) -> Model:
    """Z-Image (arXiv:2511.22699): Lumina 2.0's shape; text and image are padded to 32 positions."""
    width, heads = c.size("dim", 3840), c.size("n_heads", 30)
    time = min(width, 256)
    s = StreamSizes(
        width=width, heads=heads, head=width // heads, inner=int(width / 3 * 8), act="swiglu", vectors=4, time=time,
        norm=rms, qk="heads" if c.flag("qk_norm", True) else "", biases=(False, False, False),
    )  # fmt: skip
    patch, channels, wide = 2, c.size("in_channels", 16), c.size("cap_feat_dim", 2560)
    if c.has("siglip_feat_dim"):
        raise c.error("siglip_feat_dim", "null (an image beside the prompt is not covered yet)")
    if c.value("all_patch_size", [2])[1] != [2] or c.value("all_f_patch_size", [1])[1] != [1]:
        raise c.error("all_patch_size", "[2], with all_f_patch_size [1] (others are not covered yet)")
    c.mark_read("n_kv_heads", "t_scale", "siglip_feat_dim")
    image, text = rounded_up(plane(c, 128, patch), 32), rounded_up(prompt(c), 32)
    embedding = (
        Learned(name="image_padding", width=width, applied=False),
        Learned(name="text_padding", width=width, applied=False),
        *at(image, (product("image_proj", channels * patch * patch, width),)),
        *at_one(two_products("time", 256, 1024, time)),
        *at(text, (rms("text_norm", wide), product("text_proj", wide, width))),
    )
    refined = layers(c, "n_refiner_layers", 2)
    timed = tuple(replace(m, name=m.name) for m in between_norms(s, image) if not m.name.endswith("modulation_act"))
    whole = tuple(m for m in between_norms(s, image + text) if not m.name.endswith("modulation_act"))
    blocks = [
        *[Block("image refiner", timed)] * refined,
        *[Block("text refiner", between_norms(replace(s, vectors=0), text))] * refined,
        *[Block("dense", whole)] * layers(c, "n_layers", 30),
    ]
    return denoiser(c, width, blocks, embedding, _low_final(s, patch * patch * channels, image + text), positions=image)


# -- audio ---------------------------------------------------------------------------------------------------------
@complete("StableAudioDiTModel")
def stable_audio(c: Config) -> Model:
    """Stable Audio Open (arXiv:2407.14358): a global vector before the latents, queries over fewer keys."""
    heads, head, width = head_sizes(c, 24, 64)
    few, channels, wide = c.size("num_key_value_attention_heads", 12), c.size("in_channels", 64), c.size(
        "cross_attention_dim", 768
    )  # fmt: skip
    sound, text = sequence(c, c.size("sample_size", 1024)), prompt(c, 130)
    read = c.size("cross_attention_input_dim", 768)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, act="swiglu", vectors=0, qk="",
        biases=(False, False, True), norm=layer_norm,
    )  # fmt: skip
    crossing = replace(s, kv_heads=few)
    time = c.size("time_proj_dim", 256)
    embedding = (
        *at_one((product("time_frequencies", 1, time // 2, False),)),
        *at_one(two_products("time", time, width, width)),
        *at_one(two_products("global", c.size("global_states_input_dim", 1536), width, width, bias=False)),
        *at(text, two_products("text", read, wide, wide, bias=False)),
        *at(sound, (product("before", channels, channels, False), product("sound_proj", channels, width, False))),
    )  # fmt: skip
    block = Block("dense", at(sound + 1, (
        *s.projected(), *s.attention(), *s.output(gated=False), layer_norm("cross_norm", width),
        *(m for m in crossing.crossed(text, wide, bias=False) if m.positions is None),
    )) + tuple(m for m in crossing.crossed(text, wide, bias=False) if m.positions is not None)
      + at(sound + 1, s.fed(gated=False)))  # fmt: skip
    outputs = c.size("out_channels", 64)
    head_modules = (
        *at(sound + 1, (product("out_proj", width, outputs, False),)),
        product("after", outputs, outputs, False),
    )
    return denoiser(c, width, [block] * layers(c, "num_layers", 24), embedding, head_modules, positions=sound)
