"""Later denoisers of diffusers: one stream of text and latents, and networks that steer another denoiser."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.images.denoisers import (
    StreamSizes,
    act_of,
    double,
    embedded,
    final,
    function,
    latents,
    modulation,
    placed_at,
    prefixed,
    product,
    prompt,
    sequence,
    two_products,
)
from roofline.model.families.blocks.norms import layer_norm, plain_layer_norm, rms
from roofline.model.families.diffusion.cross_attention import modulation_table, plane, sides_of, wan
from roofline.model.families.diffusion.mm_dit import denoiser, doubles, head_sizes, layers, singles, video_patches
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Add,
    Attention,
    Embedding,
    Experts,
    Gate,
    Learned,
    Module,
    Modules,
    Norm,
    Router,
)

NONE = (False, False, False)


def packed_patches(c: Config, side: int = 64) -> int:
    """Patches of an image that is given as a sequence of patches of two latents' sides."""
    rows, columns = latents(c, side=2 * side)[1:]
    return sequence(c, (rows // 2) * (columns // 2))


def swiglu(s: StreamSizes, prefix: str = "") -> Modules:
    """A gated feed-forward network without biases."""
    return mlp(s.width, s.inner, "silu", prefix=f"{prefix}ffn_")


# -- steering another denoiser -------------------------------------------------------------------------------------
def left(name: str, width: int, positions: int) -> Modules:
    """What a ControlNet leaves for a block of the denoiser: a product that begins with zeros."""
    return at(positions, (product(name, width, width),))


@complete("FluxControlNetModel")
def flux_control_net(c: Config) -> Model:
    """ControlNet of FLUX.1: its blocks, each with a product of what it leaves for the denoiser."""
    heads, head, width = head_sizes(c, 24, 128)
    s = StreamSizes(width=width, heads=heads, head=head, inner=4 * width)
    image, text, channels = packed_patches(c), prompt(c), c.size("in_channels", 64)
    if c.has("conditioning_embedding_channels"):
        raise c.error("conditioning_embedding_channels", "null (convolutions of the condition are not covered yet)")
    c.mark_read("conditioning_embedding_channels")
    modes = c.size("num_mode", None)
    guided = embedded("guidance", 256, width) if c.flag("guidance_embeds") else ()
    kinds = () if modes is None else at_one((Embedding(name="mode_embedding", rows=modes, width=width),))
    text += 0 if modes is None else 1
    embedding = (
        *embedded("time", 256, width), *guided, *embedded("pooled_text", c.size("pooled_projection_dim", 768), width),
        *kinds, *at(text, (product("text_proj", c.size("joint_attention_dim", 4096), width),)),
        *at(image, (product("image_proj", channels, width), product("condition_proj", channels, width))),
    )  # fmt: skip
    pair = (*double(s, s, image, text), *left("left", width, image))
    one = [Block(b.name, (*b.modules, *left("left", width, image))) for b in singles(c, s, image + text)]
    blocks = [*doubles(c, pair, "num_layers", 19), *one]
    return denoiser(c, width, blocks, embedding, (), positions=image)


@complete("QwenImageControlNetModel")
def qwen_image_control_net(c: Config) -> Model:
    """ControlNet of Qwen-Image."""
    heads, head, width = head_sizes(c, 24, 128)
    s = StreamSizes(width=width, heads=heads, head=head, inner=4 * width)
    image, text, wide = packed_patches(c), prompt(c), c.size("joint_attention_dim", 3584)
    channels = c.size("in_channels", 64)
    c.mark_read("out_channels")
    more = c.size("extra_condition_channels", 0, least=0)
    embedding = (
        *embedded("time", 256, width), *at(text, (rms("text_norm", wide), product("text_proj", wide, width))),
        *at(image, (product("image_proj", channels, width), product("condition_proj", channels + more, width))),
    )  # fmt: skip
    blocks = doubles(c, (*double(s, s, image, text), *left("left", width, image)), "num_layers", 60)
    return denoiser(c, width, blocks, embedding, (), positions=image)


@complete("SD3ControlNetModel")
def stable_diffusion_3_control_net(c: Config) -> Model:
    """ControlNet of Stable Diffusion 3: all of its blocks keep both streams."""
    heads, head, width = head_sizes(c, 18, 64)
    patch, channels, text = c.size("patch_size", 2), c.size("in_channels", 16), prompt(c, 333)
    image, wide = plane(c, 128, patch), c.size("joint_attention_dim", 4096)
    if c.value("dual_attention_layers", [])[1] or not c.flag("use_pos_embed", True):
        raise c.error("dual_attention_layers", "an empty list, with use_pos_embed (others are not covered yet)")
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, qk="heads" if c.has("qk_norm") else "", rotated=False
    )  # fmt: skip
    c.mark_read(
        "qk_norm", "pos_embed_type", "force_zeros_for_pooled_projection", "out_channels", "caption_projection_dim"
    )
    more = c.size("extra_conditioning_channels", 0, least=0)
    embedding = (
        *at(image, (
            product("image_proj", channels * patch * patch, width),
            product("condition_proj", (channels + more) * patch * patch, width),
        )),
        *embedded("time", 256, width), *embedded("pooled_text", c.size("pooled_projection_dim", 2048), width),
        *at(text, (product("text_proj", wide, width),)),
    )  # fmt: skip
    blocks = doubles(c, (*double(s, s, image, text), *left("left", width, image)), "num_layers", 18)
    return denoiser(c, width, blocks, embedding, (), positions=image)


# -- one stream ----------------------------------------------------------------------------------------------------
@complete("QwenImage21Transformer2DModel")
def qwen_image_21(c: Config) -> Model:
    """Qwen-Image 2.1: one stream, one modulation for all blocks, no biases."""
    heads, head, width = head_sizes(c, 32, 128)
    wide, inner = c.size("context_in_dim", 4096), int(width * c.number("mlp_ratio", 3))
    s = StreamSizes(width=width, heads=heads, head=head, inner=inner, vectors=0, biases=NONE)
    image, text, channels = packed_patches(c), prompt(c), c.size("in_channels", 64)
    twice = 2 if c.flag("causal_condition", True) else 1
    embedding = (
        *at(twice, (
            *two_products("time", 256, width, width, bias=False), function("modulation_act", width),
            product("modulation_proj", width, 4 * width, False),
        )),
        *at(text, (rms("text_norm", wide), *two_products("text", wide, width, width, bias=False))),
        *at(image, (product("image_proj", c.size("patch_size", 1) ** 2 * channels, width, False),)),
    )  # fmt: skip
    block = at(image + text, (
        *s.projected(), *s.attention(), *s.output(), plain_layer_norm("ffn_norm", width), *swiglu(s),
        Gate(name="ffn_gate", width=width, gates=width, sigmoid=False), Add(name="ffn_residual", width=width),
    ))  # fmt: skip
    head_modules = final(width, c.size("patch_size", 1) ** 2 * c.size("out_channels", 64), vectors=1, bias=False)
    blocks = [Block("dense", block)] * layers(c, "num_layers", 32)
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("Flux3Transformer2DModel")
def flux3(c: Config) -> Model:
    """FLUX.3: blocks of each kind of positions alone, then of all together, both sublayers side by side."""
    heads, head, width = head_sizes(c, 24, 128)
    inner, time = int(width * c.number("mlp_ratio", 3.0)), c.size("timestep_channels", 256)
    s = StreamSizes(width=width, heads=heads, head=head, inner=inner, act="swiglu", vectors=0, biases=NONE)
    image, text, channels = packed_patches(c), prompt(c), c.size("in_channels", 128)
    given = c.size("cond_in_channels", 128)
    if c.flag("flow_map"):
        raise c.error("flow_map", "false (true is not covered yet)")

    def block(positions: int, prefix: str = "", *, idle: bool = False) -> Modules:
        both = (
            *s.projected(), *s.attention(), *s.output(), *swiglu(s),
            Gate(name="ffn_gate", width=width, gates=width, sigmoid=False), Add(name="ffn_residual", width=width),
        )  # fmt: skip
        return tuple(replace(m, idle=idle) for m in prefixed(prefix, at(positions, both)))

    kinds = (("image", image), ("condition", 0), ("text", text))  # time and its vectors are those of each position
    embedding = (
        *at(2, two_products("time", time, width, width, bias=False)),
        *(
            replace(m, positions=max(1, positions), idle=not positions)
            for side in ("early", "single")
            for kind, positions in kinds
            for m in modulation(f"{side}_{kind}_modulation", width, 3, bias=False)
        ),
        *at(image, (product("image_proj", channels, width, False),)),
        replace(product("condition_proj", given, width, False), idle=True),
        *at(text, (product("text_proj", c.size("joint_attention_dim", 20480), width, False),)),
    )  # fmt: skip
    apart = Block("apart", (*block(image, "image_"), *block(1, "condition_", idle=True), *block(text, "text_")))
    blocks = [
        *[apart] * layers(c, "num_layers", 5),
        *[Block("single", block(image + text))] * layers(c, "num_single_layers", 28),
    ]  # fmt: skip
    return denoiser(c, width, blocks, embedding, at(image, final(width, channels, bias=False)), positions=image)


@complete("ErnieImageTransformer2DModel")
def ernie_image(c: Config) -> Model:
    """ERNIE-Image: one stream, one modulation for all blocks."""
    width, heads = c.size("hidden_size", 3072), c.size("num_attention_heads", 24)
    s = StreamSizes(
        width=width, heads=heads, head=width // heads, inner=c.size("ffn_hidden_size", 8192), vectors=0, biases=NONE,
        norm=rms, qk="heads" if c.flag("qk_layernorm", True) else "",
    )  # fmt: skip
    patch, channels, text = c.size("patch_size", 1), c.size("in_channels", 128), prompt(c)
    rows, columns = latents(c, side=64, space=16)[1:]
    image = (rows // patch) * (columns // patch)
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)),
        *at(text, (product("text_proj", c.size("text_in_dim", 2560), width, False),)),
        *at_one(two_products("time", width, width, width)), *modulation("modulation", width, 6),
    )  # fmt: skip
    block = at(image + text, (
        *s.projected(), *s.attention(), *s.output(), rms("ffn_norm", width),
        *mlp(width, s.inner, "gelu", prefix="ffn_"),
        Gate(name="ffn_gate", width=width, gates=width, sigmoid=False), Add(name="ffn_residual", width=width),
    ))  # fmt: skip
    blocks = [Block("dense", block)] * layers(c, "num_layers", 24)
    return denoiser(
        c, width, blocks, embedding, final(width, patch * patch * c.size("out_channels", 128)), positions=image
    )  # fmt: skip


@complete("Krea2Transformer2DModel")
def krea2(c: Config) -> Model:
    """Krea 2: gated attention in one stream; the prompt comes from several layers of its encoder, fused by blocks."""
    heads, head, width = head_sizes(c, 48, 128)
    time, wide, many = c.size("timestep_embed_dim", 256), c.size("text_hidden_dim", 2560), c.size("num_text_layers", 12)
    image, text, channels = packed_patches(c), prompt(c), c.size("in_channels", 64)
    few, own = c.size("text_num_attention_heads", 20), c.size("text_num_key_value_heads", 20)
    s = StreamSizes(
        width=width, heads=heads, head=head, kv_heads=c.size("num_key_value_heads", 12), vectors=0, biases=NONE,
        inner=c.size("intermediate_size", 16384), norm=rms,
    )  # fmt: skip
    t = replace(
        s,
        width=wide,
        heads=few,
        head=wide // few,
        kv_heads=own,
        inner=c.size("text_intermediate_size", 6912),
        rotated=False,
    )

    def block(each: StreamSizes, prefix: str, *, gated: bool) -> Modules:
        gate = (Gate(name="gate", width=each.width, gates=each.width, sigmoid=False),) if gated else ()
        inner = each.heads * each.head
        return prefixed(prefix, (
            *each.projected(), *each.attention(), product("sigmoid_proj", each.width, inner, False),
            Gate(name="sigmoid_gate", width=inner, gates=inner), product("o_proj", inner, each.width, False), *gate,
            Add(name="residual", width=each.width), rms("ffn_norm", each.width), *swiglu(each),
            *(replace(m, name="ffn_gate") for m in gate), Add(name="ffn_residual", width=each.width),
        ))  # fmt: skip

    layerwise = tuple(replace(m, positions=many, runs=text) for m in block(t, "", gated=False))
    blocks = [
        *[Block("text layers", layerwise)] * layers(c, "num_layerwise_text_blocks", 2),
        Block("text fused", at(text, (product("fuse", many, 1, False),), wide)),
        *[Block("text refiner", at(text, block(t, "", gated=False)))] * layers(c, "num_refiner_text_blocks", 2),
        Block(
            "text", at(text, (rms("text_norm", wide), *two_products("text", wide, width, width, "gelu_pytorch_tanh")))
        ),
        *[
            Block(
                "dense", (*modulation_table("modulation_table", width, 6), *at(image + text, block(s, "", gated=True)))
            )
        ]
        * layers(c, "num_layers", 28),
    ]
    embedding = (
        *embedded("time", time, width), *modulation("modulation", width, 6),
        *at(image, (product("image_proj", channels, width),)),
    )  # fmt: skip
    head_modules = (
        *modulation_table("final_table", width, 2),
        rms("final_norm", width),
        product("out_proj", width, channels),
    )
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("Kandinsky5Transformer3DModel")
def kandinsky5(c: Config) -> Model:
    """Kandinsky 5 (arXiv:2511.14993): blocks of the prompt alone, then of the video with cross-attention to it."""
    width, time, inner = c.size("model_dim", 2048), c.size("time_dim", 512), c.size("ff_dim", 5120)
    axes = c.per_layer_size("axes_dims", 3, 16) if c.has("axes_dims") else [16, 24, 24]
    head, patch = sum(axes), sides_of(c, (1, 2, 2))
    channels, text = c.size("in_visual_dim", 4), prompt(c)
    seen = 2 * channels + 1 if c.flag("visual_cond") else channels
    image = video_patches(c, (31, 64, 96), patch)
    c.mark_read(*(key for key in c.raw if key.startswith("attention_")))
    s = StreamSizes(
        width=width, heads=width // head, head=head, inner=inner, act="gelu", vectors=6, time=time,
        biases=(True, True, False),
    )  # fmt: skip
    read = (*s.modulated(), *at(text, (*s.projected(), *s.attention(), *s.output(), *s.fed())))
    v = replace(s, vectors=9)
    shown = (
        *v.modulated(), *v.projected(), *v.attention(), *v.output(), plain_layer_norm("cross_norm", width),
        *v.crossed(text, width), *v.fed(),
    )  # fmt: skip
    pooled = c.size("in_text_dim2", 768)
    embedding = (
        *at_one(two_products("time", width, time, time)),
        *at_one((product("pooled_text", pooled, time), layer_norm("pooled_norm", time))),
        *at(text, (product("text_proj", c.size("in_text_dim", 3584), width), layer_norm("text_norm", width))),
        *at(image, (product("image_proj", seen * prod(patch), width),)),
    )  # fmt: skip
    blocks = [
        *[Block("text", read)] * layers(c, "num_text_blocks", 2),
        *[Block("dense", shown)] * layers(c, "num_visual_blocks", 32),
    ]
    head_modules = final(width, prod(patch) * c.size("out_visual_dim", 4), of=time)
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("LuminaNextDiT2DModel")
def lumina_next(c: Config) -> Model:
    """Lumina-Next (arXiv:2406.18583): attention to the prompt beside that of the image, with a gate for each head."""
    width, heads, few = c.size("hidden_size", 2304), c.size("num_attention_heads", 32), c.size("num_kv_heads", None)
    few = heads if few is None else few
    patch, channels, wide, time = (
        c.size("patch_size", 2),
        c.size("in_channels", 4),
        c.size("cross_attention_dim", 2048),
        min(width, 1024),
    )
    head, image, text, scale = width // heads, plane(c, 128, patch), prompt(c), c.number("ffn_dim_multiplier", None)
    inner = int(int(4 * width * 2 / 3) * (1.0 if scale is None else scale))
    multiple = c.size("multiple_of", 256)
    inner = -(-inner // multiple) * multiple
    normed = c.flag("qk_norm", True)
    c.mark_read("scaling_factor")

    def norms(prefix: str) -> tuple[Modules, Modules]:
        if not normed:
            return (), ()
        return (layer_norm(f"{prefix}q_norm", width),), at(
            image if not prefix else text, (layer_norm(f"{prefix}k_norm", few * head),)
        )  # fmt: skip

    s = StreamSizes(
        width=width,
        heads=heads,
        head=head,
        kv_heads=few,
        inner=inner,
        vectors=4,
        time=time,
        qk="",
        biases=NONE,
        norm=rms,
    )
    cross = Attention(
        name="text_attention", heads=heads, kv_heads=few, head_dim=head, v_head_dim=head, causal=False, keys=text
    )  # fmt: skip
    block = (
        *s.modulated(), *s.projected(), *norms("")[0], *norms("")[1], *s.attention(),
        *at(text, (rms("text_norm", wide), product("text_kv_proj", wide, 2 * few * head, False))), *norms("text_")[1],
        product("text_q_proj", width, heads * head, False), *norms("text_")[0], cross,
        Learned(name="head_gates", width=heads, applied=False), product("o_proj", heads * head, width, False),
        rms("after_norm", width), Add(name="residual", width=width),
        rms("ffn_norm", width), *swiglu(s), rms("ffn_after_norm", width), Add(name="ffn_residual", width=width),
    )  # fmt: skip
    embedding = (
        Learned(name="padding", width=width, applied=False),
        *at(image, (product("image_proj", channels * patch * patch, width),)),
        *at_one(
            (
                *two_products("time", 256, time, time),
                layer_norm("pooled_norm", wide),
                product("pooled_text", wide, time),
            )
        ),
    )
    outputs = patch * patch * channels * (2 if c.flag("learn_sigma", True) else 1)
    head_modules = final(width, outputs, of=time, vectors=1)
    return denoiser(
        c, width, [Block("dense", block)] * layers(c, "num_layers", 24), embedding, head_modules, positions=image
    )


@complete("PRXTransformer2DModel")
def prx(c: Config) -> Model:
    """PRX: queries of the image alone, keys of image and prompt."""
    width, heads = c.size("hidden_size", 1792), c.size("num_heads", 28)
    patch, channels, wide, head = (
        c.size("patch_size", 2),
        c.size("in_channels", 16),
        c.size("context_in_dim", 2304),
        width // heads,
    )
    _, rows, columns = latents(c, side=128)
    image, text = (rows // patch) * (columns // patch), prompt(c, 256)
    if c.has("bottleneck_size") or c.flag("resolution_embeds"):
        raise c.error("bottleneck_size", "null, without resolution_embeds (others are not covered yet)")
    c.mark_read("axes_dim", "theta", "time_max_period", "bottleneck_size")
    s = StreamSizes(width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 3.5)), biases=NONE)
    joint = Attention(
        name="attention", heads=heads, kv_heads=heads, head_dim=head, v_head_dim=head, causal=False, keys=image + text
    )  # fmt: skip
    block = (
        *modulation("modulation", width, 6),
        *s.projected(),
        *at(
            text,
            (product("text_kv_proj", width, 2 * width, False), Norm(name="text_k_norm", width=head, repeats=heads)),
        ),
        s.attention()[0],
        joint,
        *s.output(),
        plain_layer_norm("ffn_norm", width),
        *mlp(width, s.inner, "gelu_pytorch_tanh", prefix="ffn_"),
        Gate(name="ffn_gate", width=width, gates=width, sigmoid=False),
        Add(name="ffn_residual", width=width),
    )
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)), *embedded("time", 256, width),
        *at(text, (product("text_proj", wide, width),)),
    )  # fmt: skip
    blocks = [Block("dense", block)] * layers(c, "depth", 16)
    return denoiser(c, width, blocks, embedding, final(width, patch * patch * channels), positions=image)


@complete("Ideogram4Transformer2DModel")
def ideogram4(c: Config) -> Model:
    """Ideogram 4: one stream of prompt and image, modulations of low rank."""
    heads, head, width = head_sizes(c, 18, 256)
    rank, wide, channels = c.size("adaln_dim", 512), c.size("llm_features_dim", 53248), c.size("in_channels", 128)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=c.size("intermediate_size", 12288), vectors=4, time=rank, norm=rms,
        biases=NONE,
    )  # fmt: skip
    both = sequence(c, 4096 + 512)
    c.mark_read("mrope_section")
    embedding = (
        product("image_proj", channels, width), rms("text_norm", wide), product("text_proj", wide, width),
        *at_one((*two_products("time", width, width, width), product("rank_proj", width, rank))),
        Embedding(name="kind_embedding", rows=2, width=width),
    )  # fmt: skip
    block = (
        *s.modulated(),
        *s.projected(),
        *s.attention(),
        product("o_proj", width, width, False),
        rms("after_norm", width),
        Gate(name="gate", width=width, gates=width, sigmoid=False),
        Add(name="residual", width=width),
        rms("ffn_norm", width),
        *swiglu(s),
        rms("ffn_after_norm", width),
        Gate(name="ffn_gate", width=width, gates=width, sigmoid=False),
        Add(name="ffn_residual", width=width),
    )
    blocks = [Block("dense", block)] * layers(c, "num_layers", 34)
    head_modules = (
        *at_one((product("final_modulation_proj", rank, width),)), plain_layer_norm("final_norm", width),
        product("out_proj", width, channels),
    )  # fmt: skip
    return denoiser(c, width, blocks, embedding, head_modules, positions=both)


@complete("GlmImageTransformer2DModel")
def glm_image(c: Config) -> Model:
    """GLM-Image: CogView4's blocks, with tokens that a language model wrote beside the latents."""
    heads, head, width = head_sizes(c, 64, 40)
    time, patch, channels = c.size("time_embed_dim", 512), c.size("patch_size", 2), c.size("in_channels", 16)
    rows, columns = latents(c, side=128)[1:]
    image, text, known = (rows // patch) * (columns // patch), prompt(c, 224), c.size("condition_dim", 256)
    s = StreamSizes(width=width, heads=heads, head=head, inner=4 * width, qk="plain", vectors=12, time=time)
    block = Block("dense", (
        *modulation("modulation", width, 12, of=time),
        *at(image + text, (*s.projected(), *s.attention(), *s.output(), *s.fed())),
    ))  # fmt: skip
    embedding = (
        *at(image, (
            product("image_proj", channels * patch * patch, width),
            Embedding(name="prior_embedding", rows=c.size("prior_vq_quantizer_codebook_size", 16384), width=width),
            *two_products("prior", width, width, width),
        )),
        *at(text, two_products("glyph", c.size("text_embed_dim", 1472), width, width, "gelu")),
        *at_one((*two_products("time", time, time, time), *two_products("sizes", 4 * known, time, time))),
    )  # fmt: skip
    head_modules = final(width, patch * patch * c.size("out_channels", 16), of=time)
    return denoiser(c, width, [block] * layers(c, "num_layers", 30), embedding, head_modules, positions=image)


@complete("NucleusMoEImageTransformer2DModel")
def nucleus(c: Config) -> Model:
    """Nucleus-Image: experts that choose positions, each `capacity` of them on the mean."""
    heads, head, width = head_sizes(c, 16, 128)
    few = c.size("num_key_value_heads", None) or heads
    image, text, wide = packed_patches(c), prompt(c), c.size("joint_attention_dim", 3584)
    count, experts, inner = (
        layers(c, "num_layers", 24),
        c.size("num_experts", 128),
        c.size("moe_intermediate_dim", 1344),
    )
    given = c.value("capacity_factors", 8.0)[1]
    factors = [float(str(v)) for v in given] if isinstance(given, list) else [float(str(given))] * count
    c.mark_read("use_sigmoid", "route_scale", "use_grouped_mm")
    s = StreamSizes(
        width=width, heads=heads, head=head, kv_heads=few, vectors=0, biases=NONE, act="swiglu",
        inner=int(width * c.number("mlp_ratio", 4.0) * 2 / 3) // 128 * 128,
    )  # fmt: skip
    joint = Attention(
        name="attention", heads=heads, kv_heads=few, head_dim=head, v_head_dim=head, causal=False, keys=image + text
    )  # fmt: skip
    strategy = c.text("dense_moe_strategy", "leave_first_three_and_last_block_dense")
    dense = {
        "leave_first_three_and_last_block_dense": {0, 1, 2, count - 1}, "leave_first_three_blocks_dense": {0, 1, 2},
        "leave_first_block_dense": {0}, "all_moe": set(), "all_dense": set(range(count)),
    }.get(strategy)  # fmt: skip
    if dense is None:
        raise c.error("dense_moe_strategy", "leave_first_three_and_last_block_dense, or another that is known")
    if not c.flag("moe_enabled", True):
        dense = set(range(count))

    def block(i: int) -> Block:
        fed = swiglu(s)
        if i not in dense:
            # Each expert takes capacity · positions / experts of the positions.
            taken = -(-int(factors[i] * image) // experts)
            one = mlp(width, inner, "silu", prefix="shared_")
            many: tuple[Module, ...] = (
                Router(name="router", inputs=2 * width, experts=experts),
                Experts(
                    name="experts", hidden=width, inner=inner, experts=experts, top_k=max(1, taken * experts // image),
                    function="silu", reference="each",
                ),
            )  # fmt: skip
            fed = (*many, *one, Add(name="shared_sum", width=width))
        return Block("dense" if i in dense else "experts", (
            *modulation("modulation", width, 4), *s.projected(),
            *at(text, (
                product("text_in_proj", wide, width), product("text_kv_proj", width, 2 * few * head, False),
                Norm(name="text_k_norm", width=head, repeats=few),
            )),
            replace(Learned(name="text_q_norm", width=head, applied=False), positions=None),
            s.attention()[0], joint, *s.output(), plain_layer_norm("ffn_norm", width), *fed,
            Gate(name="ffn_gate", width=width, gates=width, sigmoid=False), Add(name="ffn_residual", width=width),
        ))  # fmt: skip

    embedding = (
        *at_one((*two_products("time", width, 4 * width, width), rms("time_norm", width))),
        *at(text, (rms("text_norm", wide),)), product("image_proj", c.size("in_channels", 64), width),
    )  # fmt: skip
    outputs = c.size("patch_size", 2) ** 2 * c.size("out_channels", c.size("in_channels", 64))
    head_modules = (
        *modulation("final_modulation", width, 2), plain_layer_norm("final_norm", width),
        product("out_proj", width, outputs, False),
    )  # fmt: skip
    return denoiser(c, width, [block(i) for i in range(count)], embedding, head_modules, positions=image)


@complete("BriaFibo2Transformer2DModel")
def bria_fibo_2(c: Config) -> Model:
    """FIBO 2: a Perceiver makes a gist of the prompt; some blocks read other layers of its encoder, too."""
    width, heads, wide = c.size("dim", 3584), c.size("n_heads", 28), c.size("cap_feat_dim", 7680)
    patch, channels, text = c.size("patch_size", 2), c.size("in_channels", 32), prompt(c)
    rows, columns = latents(c, side=64, space=16)[1:]
    image, count = (rows // patch) * (columns // patch), layers(c, "n_layers", 44)
    fewest, most = c.size("min_num_gist_tokens", 256), c.size("max_num_gist_tokens", 512)
    step, short, long = c.size("gist_step", 64), c.size("gist_min_text_len", 256), c.size("gist_max_text_len", 2048)
    share = min(1.0, max(0.0, (text - short) / (long - short)))
    gist = max(fewest, min(most, ceil((fewest + share * (most - fewest)) / step) * step))
    injected = c.layer_set("injection_layer_ids", count)
    injected = [6, 14, 22, 30, 38] if injected is None else injected
    c.mark_read("t_scale")
    inner = int(width * 8 / 3) // 64 * 64
    s = StreamSizes(
        width=width,
        heads=heads,
        head=width // heads,
        inner=inner,
        vectors=4,
        time=min(width, 256),
        norm=rms,
        biases=NONE,
    )

    def sandwiched(positions: int, *more: Module) -> Modules:
        """A block with norms before and after both sublayers, and the vectors of the noisy and of the clean."""
        vectors = at(2, (product("modulation_proj", 256, 4 * width),))
        *out, add = s.output()
        return (
            *vectors,
            *at(positions, (*s.projected(), *s.attention(), *out, rms("after_norm", width), add)),
            *more,
            *at(
                positions,
                (
                    rms("ffn_norm", width),
                    *swiglu(s),
                    rms("ffn_after_norm", width),
                    Gate(name="ffn_gate", width=width, gates=width, sigmoid=False),
                    Add(name="ffn_residual", width=width),
                ),
            ),
        )

    def reads(prefix: str) -> Modules:
        return s.crossed(text, wide, prefix=prefix, bias=False)

    both = image + gist
    crossed = placed_at(
        both,
        (
            rms("cross_norm", width),
            *reads("cross_"),
            rms("cross_after_norm", width),
            Learned(name="cross_gate", width=1),
        ),
    )
    own = replace(s, rotated=False, vectors=0)
    perceiver = at(gist, (
        *(m for m in own.projected("gist_")), *own.attention("gist_"), *own.output("gist_", gated=False),
        rms("gist_ffn_norm", width), *swiglu(own, "gist_"), Add(name="gist_ffn_residual", width=width),
    ))  # fmt: skip
    reader = (*placed_at(gist, (rms("read_norm", width), *reads("read_"))), *perceiver)
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)),
        *at(2, two_products("time", 256, 1024, 256)),
        Learned(name="gist_queries", width=width, rows=most, applied=False),
    )
    blocks = [
        *[Block("refiner", sandwiched(image))] * layers(c, "n_refiner_layers", 2),
        *[Block("perceiver", reader)] * layers(c, "perceiver_num_layers", 2),
        Block("gist", at(gist, (rms("gist_out_norm", width),))),
        *(Block("injected", sandwiched(both, *crossed)) if i in injected else Block("dense", sandwiched(both))
          for i in range(count)),
    ]  # fmt: skip
    outputs = patch * patch * channels
    head_modules = (
        *at_one((function("final_modulation_act", 256), product("final_modulation_proj", 256, width))),
        plain_layer_norm("final_norm", width), product("out_proj", width, outputs),
    )  # fmt: skip
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


# -- video with sound ----------------------------------------------------------------------------------------------
SOUND = 126
"""Latents of sound beside a video's, where nobody says: five seconds at 25 a second."""


@complete("LTX2VideoTransformer3DModel", "SanaWMLTX2RefinerTransformer3DModel")
def ltx2(c: Config) -> Model:
    """LTX-2 (arXiv:2601.03233): blocks of video and of sound, which attend to each other."""
    v = (c.size("num_attention_heads", 32), c.size("attention_head_dim", 128))
    a = (c.size("audio_num_attention_heads", 32), c.size("audio_attention_head_dim", 64))
    width, narrow = v[0] * v[1], a[0] * a[1]
    image = sequence(c, prod(latents(c, side=(16, 24), frames=16, space=32, time=8)))
    text, act, weights = prompt(c, 1024), act_of(c), c.flag("norm_elementwise_affine")
    for key in (
        "gated_attn",
        "audio_gated_attn",
        "cross_attn_mod",
        "audio_cross_attn_mod",
        "use_keyframes_abs_pos_embedding",
    ):
        if c.flag(key):
            raise c.error(key, "false (true is not covered yet)")
    for key in ("use_prompt_embeddings",):
        if not c.flag(key, True):
            raise c.error(key, "true (false is not covered yet)")
    c.mark_read(*(key for key in c.raw if key.startswith(("audio_", "rope_", "pos_embed", "vae_", "base_"))))
    c.mark_read(
        "qk_norm", "causal_offset", "timestep_scale_multiplier", "cross_attn_timestep_scale_multiplier",
        "perturbed_attn", "use_prompt_adaln_single", "sampling_rate", "hop_length",
    )  # fmt: skip
    biases = (c.flag("attention_bias", True), c.flag("attention_out_bias", True), c.flag("ff_bias", True))

    def stream(size: int, shape: tuple[int, int], ff: bool) -> StreamSizes:
        return StreamSizes(
            width=size, heads=shape[0], head=shape[1], inner=4 * size, act=act, qk="across", vectors=0,
            biases=(biases[0], biases[1], ff), norm=lambda name, n: Norm(name=name, width=n, weight=weights),
        )  # fmt: skip

    seen, heard = stream(width, v, biases[2]), stream(narrow, a, c.flag("audio_ff_bias", True))

    def part(s: StreamSizes, prefix: str, positions: int, crossing: int) -> Modules:
        own = (
            *modulation_table("modulation_table", s.width, 6), *s.projected(), *s.attention(), *s.output(),
            s.norm("cross_norm", s.width), *s.crossed(text, crossing, bias=biases[0]),
            s.norm("between_norm", s.width), *s.fed(),
        )  # fmt: skip
        return placed_at(positions, prefixed(prefix, own))

    between = replace(heard, qk="across")
    to_video = placed_at(
        image,
        (
            *modulation_table("video_table", width, 5),
            *replace(between, width=width).crossed(SOUND, narrow, prefix="heard_", bias=biases[0]),
        ),
    )
    to_sound = placed_at(
        SOUND,
        (*modulation_table("sound_table", narrow, 5), *between.crossed(image, width, prefix="seen_", bias=biases[0])),
    )
    block = (
        *part(seen, "video_", image, c.size("cross_attention_dim", 4096)),
        *part(heard, "sound_", SOUND, c.size("audio_cross_attention_dim", 2048)), *to_video, *to_sound,
    )  # fmt: skip
    captions = c.size("caption_channels", 3840)
    embedding = (
        *at(image, (product("image_proj", c.size("in_channels", 128), width),)),
        *at(SOUND, (product("sound_proj", c.size("audio_in_channels", 128), narrow),)),
        *at(text, two_products("text", captions, width, width, "gelu_pytorch_tanh")),
        *at(text, two_products("sound_text", captions, narrow, narrow, "gelu_pytorch_tanh")),
        *(m for name, size, vectors in (
            ("time", width, 6), ("sound_time", narrow, 6), ("cross_time", width, 4), ("sound_cross_time", narrow, 4),
            ("gate_time", width, 1), ("sound_gate_time", narrow, 1),
        ) for m in (*embedded(name, 256, size), *modulation(f"{name}_modulation", size, vectors))),
    )  # fmt: skip
    head_modules = (
        *modulation_table("final_table", width, 2),
        *modulation_table("sound_final_table", narrow, 2),
        *at(
            SOUND,
            (
                plain_layer_norm("sound_final_norm", narrow),
                product("sound_out", narrow, c.size("audio_out_channels", 128)),
            ),
        ),
        plain_layer_norm("final_norm", width),
        product("out_proj", width, c.size("out_channels", 128)),
    )
    return denoiser(
        c, width, [Block("dense", block)] * layers(c, "num_layers", 48), embedding, head_modules, positions=image
    )


@complete("WanAnimate2Transformer3DModel")
def wan_animate_2(c: Config) -> Model:
    """Wan-Animate 2: Wan's blocks under other names, with an image beside the prompt."""
    width, heads = c.size("dim", 5120), c.size("num_heads", 40)
    given = c.per_layer_size("patch_size", 3, 1) if isinstance(c.get("patch_size"), list) else [1, 2, 2]
    inner = c.with_values(
        num_attention_heads=heads, attention_head_dim=width // heads, in_channels=c.size("in_dim", 36),
        out_channels=c.size("out_dim", 16), added_kv_proj_dim=width, image_dim=1280, patch_size=given,
    )  # fmt: skip
    c.flag("use_img_emb", True)
    c.mark_read("text_len", "refer_offset_t", "refer_offset_h", "refer_offset_w", "refer_stride", "patch_size")
    model = wan(replace(inner, kind="WanTransformer3DModel"))
    return replace(model, model_type="WanAnimate2Transformer3DModel")


@complete("MiniMaxMusic3Transformer1DModel")
def minimax_music(c: Config) -> Model:
    """MiniMax Music 3: one stream of sound with its condition in the same channels."""
    heads, head, width = head_sizes(c, 32, 64)
    channels, known, time = (
        c.size("in_channels", 128),
        c.size("condition_dim", 2048),
        c.size("fourier_embedding_dim", 256),
    )
    wide, sound = 2 * channels + known, sequence(c, 1024)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=c.size("ff_inner_dim", 8192), act="swiglu", qk="", vectors=0,
        biases=(False, False, True), norm=layer_norm,
    )  # fmt: skip
    c.mark_read("rotary_dim")
    block = at(sound + 1, (*s.projected(), *s.attention(), *s.output(gated=False), *s.fed(gated=False)))
    embedding = (
        *at_one((product("time_frequencies", 1, time // 2, False),)),
        *at_one(two_products("time", time, width, width)),
        *at(sound, (product("before", wide, wide, False), product("sound_proj", wide, width, False))),
    )
    head_modules = (product("out_proj", width, channels, False), product("after", channels, channels, False))
    blocks = [Block("dense", block)] * layers(c, "num_layers", 36)
    return denoiser(c, width, blocks, embedding, head_modules, positions=sound)


@complete("PriorTransformer")
def prior(c: Config) -> Model:
    """The prior of unCLIP (arXiv:2204.06125 §2.2): the prompt's words and vector, the time step, the image's vector."""
    heads, head, width = head_sizes(c, 32, 64)
    wide, words, more = c.size("embedding_dim", 768), c.size("num_embeddings", 77), c.size("additional_embeddings", 4)
    time, known, image_width = (
        c.size("time_embed_dim", width),
        c.size("embedding_proj_dim", wide),
        c.size("clip_embed_dim", wide),
    )
    for key in ("norm_in_type", "embedding_proj_norm_type"):
        if c.has(key):
            raise c.error(key, "null (others are not covered yet)")
    c.text("encoder_hid_proj_type", "linear", ["linear"])
    extra = c.text("added_emb_type", "prd", ["prd"])
    c.mark_read("time_embed_act_fn", "norm_in_type", "embedding_proj_norm_type")
    both = words + more
    s = StreamSizes(
        width=width,
        heads=heads,
        head=head,
        inner=4 * width,
        act="gelu",
        qk="",
        rotated=False,
        vectors=0,
        norm=layer_norm,
    )
    block = Block("dense", (*s.projected(), *s.attention(), *s.output(gated=False), *s.fed(gated=False)))
    embedding = (
        *at(both, (Learned(name="position_embedding", width=width, rows=both),)),
        *(
            Learned(name=name, width=n, applied=False)
            for name, n in (("last_position", width), ("mean", image_width), ("deviation", image_width))
            if extra
        ),
        *at_one(
            (
                *two_products("time", width, time, width),
                product("image_proj", wide, width),
                product("pooled_text", known, width),
            )
        ),
        *at(words, (product("text_proj", wide, width),)),
    )
    head_modules = (layer_norm("final_norm", width), product("out_proj", width, image_width))
    model = denoiser(c, width, [block] * layers(c, "num_layers", 20), embedding, head_modules, positions=both)
    return replace(model, head=(replace(model.head[0], positions=both), *at_one(model.head[1:])))


@complete("CosmosControlNetModel")
def cosmos_control_net(c: Config) -> Model:
    """ControlNet of Cosmos-Transfer: blocks of the denoiser's width; it embeds its condition and latents by itself."""
    heads, head, width = head_sizes(c, 32, 128)
    narrow, rank, patch = c.size("model_channels", 2048), c.size("adaln_lora_dim", 256), sides_of(c, (1, 2, 2))
    image, text, wide = video_patches(c, (16, 88, 160), patch), prompt(c), c.size("text_embed_dim", 1024)
    for key in ("img_context_dim_in", "extra_pos_embed_type"):
        if c.has(key):
            raise c.error(key, "null (others are not covered yet)")
    if c.flag("use_crossattn_projection"):
        raise c.error("use_crossattn_projection", "false (true is not covered yet)")
    c.mark_read(
        "max_size", "rope_scale", "img_context_dim_in", "img_context_dim_out", "extra_pos_embed_type",
        "crossattn_proj_in_channels", "encoder_hidden_states_channels",
    )  # fmt: skip
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 4.0)), act="gelu", vectors=0,
        biases=NONE,
    )  # fmt: skip

    def modulated(name: str) -> Modules:
        return at_one((
            function(f"{name}_act", width), product(f"{name}_in", width, rank, False),
            product(f"{name}_out", rank, 3 * width, False),
        ))  # fmt: skip

    embedding = (
        *at(image, (
            product("condition_proj", c.size("in_channels", 130) * prod(patch), narrow, False),
            product("image_proj", c.size("latent_channels", 18) * prod(patch), narrow, False),
        )),
        *at_one((
            product("time_in", narrow, narrow, False), function("time_act", narrow),
            product("time_out", narrow, 3 * narrow, False), rms("time_norm", narrow),
        )),
    )  # fmt: skip
    block = (
        *modulated("modulation"),
        *s.projected(),
        *s.attention(),
        *s.output(),
        *modulated("cross_modulation"),
        plain_layer_norm("cross_norm", width),
        *s.crossed(text, wide, bias=False),
        *modulated("ffn_modulation"),
        *s.fed(),
        product("left", width, width),
    )
    count = layers(c, "n_controlnet_blocks", 4)
    first = Block("first", (product("before", width, width), *block))
    return denoiser(c, width, [first, *[Block("dense", block)] * (count - 1)], embedding, (), positions=image)
