"""Denoisers with streams of image and text that attend to both together (MM-DiT), by the classes of diffusers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at, at_one, encoder
from roofline.model.families.blocks.images.denoisers import (
    StreamSizes,
    act_of,
    double,
    embedded,
    final,
    function,
    latents,
    modulation,
    parallel,
    placed_at,
    product,
    prompt,
    sequence,
    two_products,
)
from roofline.model.families.blocks.norms import layer_norm, plain_layer_norm, plain_rms, rms
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Attention, Learned, Linear, Module, Modules

SAMPLED = (
    "sample_size", "sample_height", "sample_width", "sample_frames", "patch_size", "patch_size_t", "dropout",
    "norm_num_groups", "num_embeds_ada_norm", "interpolation_scale", "norm_eps", "eps", "axes_dims_rope",
    "rope_axes_dim", "rope_theta", "pos_embed_max_size", "axes_dims", "axes_lens", "time_theta", "time_factor",
)  # fmt: skip
"""Keys that change positions, dropout and precision of a denoiser, but no product."""


def denoiser(
    c: Config, width: int, blocks: Iterable[Block], embedding: Modules, head: Modules, *, positions: int
) -> Model:
    """A denoiser: what embeds latents, prompt and time, the blocks, and the product to the latents."""
    c.mark_read(*SAMPLED)
    head = (*head[:-2], *placed_at(positions, head[-2:]))
    return encoder(
        bare(c), width, blocks, embedding=embedding, head=head, positions=positions, steps=("denoise",)
    )  # fmt: skip


def bare(c: Config) -> Config:
    """The config with bf16 where it names no format, as those of diffusers do not."""
    c.mark_read("_class_name", "_diffusers_version", "_name_or_path", "dtype", "torch_dtype")
    return c if c.has("torch_dtype") or c.has("dtype") else c.with_values(torch_dtype="bfloat16")


def layers(c: Config, key: str, default: int, least: int = 0) -> int:
    """Number of blocks of a kind."""
    return c.size(key, default, least=least, most=MOST_LAYERS)


def doubles(c: Config, block: Modules, key: str, default: int) -> list[Block]:
    """Blocks with streams of image and text."""
    return [Block("double", block)] * layers(c, key, default)


def singles(
    c: Config, s: StreamSizes, positions: int, *, key: str = "num_single_layers", default: int = 38
) -> list[Block]:
    """Blocks of both streams together, attention and feed-forward network side by side."""
    return [Block("single", _both(s, positions))] * layers(c, key, default)


def _both(s: StreamSizes, positions: int, vectors: int = 3) -> Modules:
    return tuple(
        m if m.positions is not None else replace(m, positions=positions) for m in parallel(s, vectors=vectors)
    )


def head_sizes(c: Config, heads: int, head: int) -> tuple[int, int, int]:
    """Heads, their size, and the width of both together."""
    heads, head = c.size("num_attention_heads", heads), c.size("attention_head_dim", head)
    return heads, head, heads * head


# -- FLUX.1 and its kin --------------------------------------------------------------------------------------------
def _flux_sizes(c: Config, text: int = 512, act: str = "gelu-approximate") -> tuple[StreamSizes, int, int]:
    """The stream of FLUX.1, and the positions of image and text."""
    heads, head, width = head_sizes(c, 24, 128)
    rows, columns = latents(c, side=128)[1:]
    image = sequence(c, (rows // 2) * (columns // 2))
    return StreamSizes(width=width, heads=heads, head=head, inner=4 * width, act=act), image, prompt(c, text)


def _flux(c: Config, s: StreamSizes, image: int, text: int, embedding: Modules, counts: tuple[int, int]) -> Model:
    """FLUX.1 with what embeds its conditions."""
    channels = c.size("in_channels", 64)
    blocks = [
        *doubles(c, double(s, s, image, text), "num_layers", counts[0]),
        *singles(c, s, image + text, default=counts[1]),
    ]
    embedding = (*embedding, *at(image, (product("image_proj", channels, s.width),)))
    head = final(s.width, c.size("patch_size", 1) ** 2 * c.size("out_channels", channels))
    return denoiser(c, s.width, blocks, embedding, head, positions=image)


def text_embedding(width: int, inputs: int, text: int) -> Modules:
    """The prompt's vectors at the width of the blocks."""
    return at(text, (product("text_proj", inputs, width),))


@complete("FluxTransformer2DModel")
def flux(c: Config) -> Model:
    """FLUX.1 (Black Forest Labs, 2024): blocks with streams of image and text, then blocks of both together."""
    s, image, text = _flux_sizes(c)
    guided = embedded("guidance", 256, s.width) if c.flag("guidance_embeds") else ()
    pooled = embedded("pooled_text", c.size("pooled_projection_dim", 768), s.width)
    embedding = (
        *embedded("time", 256, s.width), *guided, *pooled,
        *text_embedding(s.width, c.size("joint_attention_dim", 4096), text),
    )  # fmt: skip
    return _flux(c, s, image, text, embedding, (19, 38))


@complete("BriaTransformer2DModel", "BriaFiboTransformer2DModel")
def bria(c: Config) -> Model:
    """Bria 3.2 and FIBO: FLUX.1 without pooled text; FIBO gives every block the layers of its text encoder."""
    s, image, text = _flux_sizes(c)
    guided = embedded("guidance", 256, s.width) if c.flag("guidance_embeds") else ()
    c.mark_read("pooled_projection_dim")
    embedding = (
        *embedded("time", 256, s.width), *guided,
        *text_embedding(s.width, c.size("joint_attention_dim", 4096), text),
    )  # fmt: skip
    model = _flux(c, s, image, text, embedding, (19, 38))
    if c.kind != "BriaFiboTransformer2DModel":
        return model
    captions = product("caption_proj", c.size("text_encoder_dim", 2048), s.width // 2, False)
    each = replace(captions, positions=text)
    return replace(model, layers=tuple(Block(b.name, (each, *b.modules)) for b in model.layers))


@complete("ChromaTransformer2DModel")
def chroma(c: Config) -> Model:
    """Chroma: FLUX.1 whose modulations all come from one small network, over as many positions as vectors."""
    s, image, text = _flux_sizes(c)
    s = replace(s, vectors=0)
    inner, doubled, single = c.size("approximator_hidden_dim", 5120), layers(c, "num_layers", 19), layers(
        c, "num_single_layers", 38
    )  # fmt: skip
    vectors = 3 * single + 12 * doubled + 2
    deep: list[Module] = [product("modulation_in", c.size("approximator_num_channels", 64), inner)]
    for i in range(layers(c, "approximator_layers", 5)):
        deep += [rms(f"modulation_{i}_norm", inner), *two_products(f"modulation_{i}", inner, inner, inner)]
    embedding = (
        *at(vectors, (*deep, product("modulation_out", inner, s.width))),
        *text_embedding(s.width, c.size("joint_attention_dim", 4096), text),
        *at(image, (product("image_proj", c.size("in_channels", 64), s.width),)),
    )  # fmt: skip
    blocks = [
        *([Block("double", double(s, s, image, text))] * doubled),
        *([Block("single", _both(s, image + text, 0))] * single),
    ]
    head = final(s.width, c.size("patch_size", 1) ** 2 * c.size("out_channels", c.size("in_channels", 64)), vectors=0)
    return denoiser(c, s.width, blocks, embedding, head, positions=image)


@complete("OvisImageTransformer2DModel")
def ovis(c: Config) -> Model:
    """Ovis-Image: FLUX.1 with gated feed-forward networks and a norm of the prompt."""
    s, image, text = _flux_sizes(c, 256, "swiglu")
    wide = c.size("joint_attention_dim", 2048)
    embedding = (
        *embedded("time", 256, s.width), *at(text, (rms("text_norm", wide),)), *text_embedding(s.width, wide, text)
    )  # fmt: skip
    return _flux(c.with_values(out_channels=c.size("out_channels", 64)), s, image, text, embedding, (6, 27))


@complete("LongCatImageTransformer2DModel")
def longcat_image(c: Config) -> Model:
    """LongCat-Image: FLUX.1 without pooled text."""
    s, image, text = _flux_sizes(c)
    c.mark_read("pooled_projection_dim")
    embedding = (
        *embedded("time", 256, s.width), *text_embedding(s.width, c.size("joint_attention_dim", 3584), text)
    )  # fmt: skip
    return _flux(c, s, image, text, embedding, (19, 38))


@complete("Flux2Transformer2DModel")
def flux2(c: Config) -> Model:
    """FLUX.2: one modulation for all blocks of a kind, gated feed-forward networks, no biases."""
    heads, head, width = head_sizes(c, 48, 128)
    inner = int(width * c.number("mlp_ratio", 3.0))
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=inner, act="swiglu", vectors=0, biases=(False, False, False)
    )  # fmt: skip
    rows, columns = latents(c, side=128)[1:]
    image, text = sequence(c, (rows // 2) * (columns // 2)), prompt(c)
    channels, time = c.size("in_channels", 128), c.size("timestep_guidance_channels", 256)
    guided = embedded("guidance", time, width, bias=False) if c.flag("guidance_embeds", True) else ()
    embedding = (
        *embedded("time", time, width, bias=False), *guided,
        *(m for name, vectors in (("image", 6), ("text", 6), ("single", 3))
          for m in modulation(f"{name}_modulation", width, vectors, bias=False)),
        *at(text, (product("text_proj", c.size("joint_attention_dim", 15360), width, False),)),
        *at(image, (product("image_proj", channels, width, False),)),
    )  # fmt: skip
    single = tuple(replace(m, positions=image + text) for m in parallel(s, vectors=0, out_bias=False))
    blocks = [
        *doubles(c, double(s, s, image, text), "num_layers", 8),
        *([Block("single", single)] * layers(c, "num_single_layers", 48)),
    ]
    head_modules = final(width, c.size("patch_size", 1) ** 2 * c.size("out_channels", channels), bias=False)
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


# -- Stable Diffusion 3, Qwen-Image, AuraFlow ----------------------------------------------------------------------
@complete("SD3Transformer2DModel")
def stable_diffusion_3(c: Config) -> Model:
    """Stable Diffusion 3 and 3.5 (arXiv:2403.03206); some layers of 3.5 have a second attention of the image alone."""
    heads, head, width = head_sizes(c, 18, 64)
    patch, channels = c.size("patch_size", 2), c.size("in_channels", 16)
    _, rows, columns = latents(c, side=c.size("sample_size", 128))
    image, text = (rows // patch) * (columns // patch), prompt(c, 333)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, qk="heads" if c.has("qk_norm") else "", rotated=False
    )  # fmt: skip
    c.mark_read("qk_norm")
    count = layers(c, "num_layers", 18)
    twice = c.layer_set("dual_attention_layers", count) or []

    def block(i: int) -> Block:
        last = i == count - 1
        if i not in twice:
            return Block("double", double(s, s, image, text, last=last))
        more = (
            plain_layer_norm("own_norm", width), product("own_qkv_proj", width, 3 * width), *s.head_norms("own_"),
            *s.attention("own_"), *s.output("own_"),
        )  # fmt: skip
        return Block("double", double(replace(s, vectors=9), s, image, text, last=last, more=more))

    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)), *embedded("time", 256, width),
        *embedded("pooled_text", c.size("pooled_projection_dim", 2048), width),
        *at(text, (product("text_proj", c.size("joint_attention_dim", 4096), c.size("caption_projection_dim", 1152)),)),
    )  # fmt: skip
    head_modules = final(width, patch * patch * c.size("out_channels", 16))
    return denoiser(c, width, [block(i) for i in range(count)], embedding, head_modules, positions=image)


@complete("QwenImageTransformer2DModel")
def qwen_image(c: Config) -> Model:
    """Qwen-Image (arXiv:2508.02324): streams of image and text in every block."""
    heads, head, width = head_sizes(c, 24, 128)
    s = StreamSizes(width=width, heads=heads, head=head, inner=4 * width)
    rows, columns = latents(c, side=128)[1:]
    image, text, wide = sequence(c, (rows // 2) * (columns // 2)), prompt(c), c.size("joint_attention_dim", 3584)
    c.mark_read("guidance_embeds", "zero_cond_t", "use_layer3d_rope")
    kinds = (Learned(name="kind_embedding", width=width, rows=2, applied=False),)
    embedding = (
        *embedded("time", 256, width), *(kinds if c.flag("use_additional_t_cond") else ()),
        *at(text, (rms("text_norm", wide), product("text_proj", wide, width))),
        *at(image, (product("image_proj", c.size("in_channels", 64), width),)),
    )  # fmt: skip
    blocks = doubles(c, double(s, s, image, text), "num_layers", 60)
    head_modules = final(width, c.size("patch_size", 2) ** 2 * c.size("out_channels", 16))
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("AuraFlowTransformer2DModel")
def aura_flow(c: Config) -> Model:
    """AuraFlow: a few blocks with two streams, then blocks of both; eight registers beside the prompt, no biases."""
    heads, head, width = head_sizes(c, 12, 256)
    inner = -(-(2 * 4 * width // 3) // 256) * 256
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=inner, act="swiglu", qk="plain", rotated=False,
        biases=(False, False, False),
    )  # fmt: skip
    patch, channels = c.size("patch_size", 2), c.size("in_channels", 4)
    _, rows, columns = latents(c, side=c.size("sample_size", 64))
    image, text = (rows // patch) * (columns // patch), prompt(c, 256) + 8
    embedding = (
        Learned(name="registers", width=width, rows=8, applied=False),
        *at(image, (
            product("image_proj", channels * patch * patch, width),
            Learned(name="position_embedding", width=width, rows=c.size("pos_embed_max_size", 1024)),
        )),
        *embedded("time", 256, width),
        *at(text - 8, (
            product("text_proj", c.size("joint_attention_dim", 2048), c.size("caption_projection_dim", 3072), False),
        )),
    )  # fmt: skip
    single = _sequential(s, image + text)
    blocks = [
        *doubles(c, _unbiased(double(s, s, image, text)), "num_mmdit_layers", 4),
        *([Block("single", _unbiased(single))] * layers(c, "num_single_dit_layers", 32)),
    ]
    head_modules = _unbiased(final(width, patch * patch * c.size("out_channels", channels)))
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


def _unbiased(modules: Modules) -> Modules:
    return tuple(replace(m, bias=False) if isinstance(m, Linear) else m for m in modules)


def _sequential(s: StreamSizes, positions: int) -> Modules:
    """A block of one stream: modulated attention, then its feed-forward network."""
    return (*s.modulated(), *at(positions, (*s.projected(), *s.attention(), *s.output(), *s.fed())))


# -- video ---------------------------------------------------------------------------------------------------------
def video_patches(c: Config, own: tuple[int, int, int], patch: tuple[int, int, int], *, space: int = 8) -> int:
    """Patches of a video's latents: `own` frames, height and width, where the caller gives none."""
    sides = latents(c, side=own[1:], frames=own[0], space=space)
    return prod(side // size for side, size in zip(sides, patch, strict=True))


def refiner(c: Config, s: StreamSizes, inputs: int, text: int, *, default: int = 2) -> list[Block]:
    """Blocks of full attention that refine a prompt, gated by its mean and the time step (HunyuanVideo)."""
    own = replace(s, inner=4 * s.width, act="linear-silu", qk="", norm=layer_norm, rotated=False, vectors=2)
    first = Block("refiner_in", (
        *embedded("refiner_time", 256, s.width), *embedded("refiner_text", inputs, s.width),
        *at(text, (product("refiner_proj", inputs, s.width),)),
    ))  # fmt: skip
    block = Block("refiner", _sequential(own, text))
    return [first, *[block] * layers(c, "num_refiner_layers", default)]


@complete("HunyuanVideoTransformer3DModel", "HunyuanVideoFramepackTransformer3DModel")
def hunyuan_video(c: Config) -> Model:
    """HunyuanVideo (arXiv:2412.03603): FLUX.1's blocks over a video, and a prompt that two blocks refine."""
    heads, head, width = head_sizes(c, 24, 128)
    patch = (c.size("patch_size_t", 1), c.size("patch_size", 2), c.size("patch_size", 2))
    image, text = video_patches(c, (33, 90, 160), patch), prompt(c, 256)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 4.0)),
        qk="heads" if c.text("qk_norm", "rms_norm") else "",
    )  # fmt: skip
    wide = c.size("text_embed_dim", 4096)
    again = c.text("image_condition_type", "") == "token_replace"
    guided = embedded("guidance", 256, width) if c.flag("guidance_embeds", True) else ()
    embedding = (
        *at(image, (product("image_proj", c.size("in_channels", 16) * prod(patch), width),)),
        *embedded("time", 256, width), *embedded("pooled_text", c.size("pooled_projection_dim", 768), width), *guided,
    )  # fmt: skip
    blocks = [
        *refiner(c, s, wide, text), *doubles(c, double(s, s, image, text), "num_layers", 20),
        *singles(c, s, image + text, default=40),
    ]  # fmt: skip
    if again:
        raise c.error("image_condition_type", "null or latent_concat (token_replace is not covered yet)")
    framed: Modules = ()
    if c.flag("has_image_proj"):
        framed = tuple(
            replace(m, idle=True)
            for m in two_products(
                "image_embedding", c.size("image_proj_dim", 1152), 3 * c.size("image_proj_dim", 1152), width
            )
        )
    if c.flag("has_clean_x_embedder"):
        sides = {"clean": prod(patch), "clean_2x": 8 * prod(patch), "clean_4x": 64 * prod(patch)}
        framed += tuple(
            replace(product(f"{name}_proj", c.size("in_channels", 16) * taps, width), idle=True)
            for name, taps in sides.items()
        )
    c.mark_read("image_proj_dim")
    head_modules = final(width, prod(patch) * c.size("out_channels", 16))
    return denoiser(c, width, blocks, (*embedding, *framed), head_modules, positions=image)


@complete("HunyuanVideo15Transformer3DModel")
def hunyuan_video_15(c: Config) -> Model:
    """HunyuanVideo 1.5: two streams in every block; the prompt in words, in letters, and an image's patches."""
    heads, head, width = head_sizes(c, 16, 128)
    patch = (c.size("patch_size_t", 1), c.size("patch_size", 1), c.size("patch_size", 1))
    words, letters, seen = prompt(c, 1000), 256, 729
    image, text = video_patches(c, (31, 30, 53), patch, space=16), words + letters + seen
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 4.0)),
        qk="heads" if c.text("qk_norm", "rms_norm") else "",
    )  # fmt: skip
    wide, second, picture = c.size("text_embed_dim", 3584), c.size("text_embed_2_dim", 1472), c.size(
        "image_embed_dim", 1152
    )  # fmt: skip
    again = embedded("other_time", 256, width) if c.flag("use_meanflow") else ()
    c.mark_read("target_size", "task_type")
    embedding = (
        *at(image, (product("image_proj", c.size("in_channels", 65) * prod(patch), width),)),
        *embedded("time", 256, width), *again,
        *at(seen, (
            layer_norm("picture_norm", picture), *two_products("picture", picture, picture, width, "gelu"),
            layer_norm("picture_out_norm", width),
        )),
        *at(letters, (
            layer_norm("letters_norm", second), *two_products("letters", second, 2048, 2048, "gelu"),
            function("letters_last_act", 2048, "gelu"), product("letters_last", 2048, width),
        )),
        Learned(name="kind_embedding", width=width, rows=3, applied=False),
    )  # fmt: skip
    blocks = [*refiner(c, s, wide, words), *doubles(c, double(s, s, image, text), "num_layers", 54)]
    head_modules = final(width, prod(patch) * c.size("out_channels", 32))
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("HunyuanImageTransformer2DModel")
def hunyuan_image(c: Config) -> Model:
    """HunyuanImage 2.1: HunyuanVideo's blocks over an image."""
    heads, head, width = head_sizes(c, 28, 128)
    given = c.value("patch_size", [1, 1])[1]
    patch = prod(given) if isinstance(given, list) and all(isinstance(n, int) for n in given) else int(str(given)) ** 2
    sides = latents(c, side=64, space=32)
    letters = c.size("text_embed_2_dim", None)
    beside = 0 if letters is None else 128
    image, words = prod(sides) // patch, prompt(c, 1000)
    s = StreamSizes(width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 4.0)))
    c.mark_read("qk_norm")
    guided = embedded("guidance", 256, width) if c.flag("guidance_embeds") else ()
    again = embedded("other_time", 256, width) if c.flag("use_meanflow") else ()
    spelt: Modules = () if letters is None else at(beside, (
        layer_norm("letters_norm", letters), *two_products("letters", letters, 2048, 2048, "gelu"),
        function("letters_last_act", 2048, "gelu"), product("letters_last", 2048, width),
    ))  # fmt: skip
    embedding = (
        *at(image, (product("image_proj", c.size("in_channels", 64) * patch, width),)),
        *embedded("time", 256, width), *guided, *again, *spelt,
    )  # fmt: skip
    blocks = [
        *refiner(c, s, c.size("text_embed_dim", 3584), words),
        *doubles(c, double(s, s, image, words + beside), "num_layers", 20),
        *singles(c, s, image + words + beside, default=40),
    ]  # fmt: skip
    head_modules = final(width, patch * c.size("out_channels", 64))
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("MotifVideoTransformer3DModel")
def motif_video(c: Config) -> Model:
    """Motif-Video: FLUX.1's blocks over a video, the prompt passes through two linear layers."""
    heads, head, width = head_sizes(c, 24, 128)
    patch = (c.size("patch_size_t", 1), c.size("patch_size", 2), c.size("patch_size", 2))
    image, text = video_patches(c, (31, 90, 160), patch), prompt(c)
    if (
        c.has("image_embed_dim")
        or c.flag("enable_text_cross_attention_dual")
        or c.size("num_decoder_layers", 0, least=0)
    ):
        raise c.error("image_embed_dim", "null, with no decoder layers (others are not covered yet)")
    if c.flag("enable_text_cross_attention_single"):
        raise c.error("enable_text_cross_attention_single", "false (true is not covered yet)")
    s = StreamSizes(width=width, heads=heads, head=head, inner=int(width * c.number("mlp_ratio", 4.0)))
    c.mark_read("qk_norm", "norm_type", "image_embed_dim")
    embedding = (
        *at(image, (product("image_proj", c.size("in_channels", 33) * prod(patch), width),)),
        *embedded("time", 256, width),
        *at(text, two_products("text", c.size("text_embed_dim", 4096), width, width, "gelu_pytorch_tanh")),
    )  # fmt: skip
    blocks = [
        *doubles(c, double(s, s, image, text), "num_layers", 20), *singles(c, s, image + text, default=40)
    ]  # fmt: skip
    return denoiser(
        c, width, blocks, embedding, final(width, prod(patch) * c.size("out_channels", 16)), positions=image
    )  # fmt: skip


@complete("JoyImageEditTransformer3DModel", "JoyImageEditPlusTransformer3DModel")
def joy_image(c: Config) -> Model:
    """JoyImage-Edit: two streams in every block, whose modulation is a table beside that of the time step."""
    width, heads = c.size("hidden_size", 3072), c.size("num_attention_heads", 24)
    patch = tuple(c.per_layer_size("patch_size", 3, 2)) if c.has("patch_size") else (1, 2, 2)
    image, text = video_patches(c, (1, 128, 128), patch), prompt(c)  # type: ignore[arg-type]
    s = StreamSizes(
        width=width, heads=heads, head=width // heads, inner=int(width * c.number("mlp_width_ratio", 4.0)), vectors=0
    )  # fmt: skip
    channels = c.size("in_channels", 16)
    c.mark_read("rope_dim_list", "rope_type", "theta", "patch_size")
    tables = tuple(at_one((Learned(name=f"{name}_modulation", width=width, rows=6),))[0] for name in ("image", "text"))
    embedding = (
        *at(image, (product("image_proj", channels * prod(patch), width),)), *embedded("time", 256, width),
        *modulation("time", width, 6),
        *at(text, two_products("text", c.size("text_dim", 4096), width, width, "gelu_pytorch_tanh")),
    )  # fmt: skip
    embedding = tuple(replace(m, name="time_modulation" if m.name == "time_proj" else m.name) for m in embedding)
    embedding = tuple(
        replace(m, name="time_vectors_act") if i == _second(embedding) else m for i, m in enumerate(embedding)
    )
    blocks = doubles(c, (*tables, *double(s, s, image, text)), "num_layers", 20)
    head_modules = final(width, prod(patch) * c.size("out_channels", channels), vectors=0)
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


def _second(modules: Modules) -> int:
    """Place of the second module of the first name that occurs twice."""
    names = [m.name for m in modules]
    return next((i for i, name in enumerate(names) if name in names[:i]), -1)


@complete("MochiTransformer3DModel")
def mochi(c: Config) -> Model:
    """Mochi 1: two streams of different widths; the prompt is pooled by an attention of one query."""
    heads, head, width = head_sizes(c, 24, 128)
    narrow, wide, patch = c.size("pooled_projection_dim", 1536), c.size("text_embed_dim", 4096), c.size("patch_size", 2)
    image, text = video_patches(c, (28, 60, 106), (1, patch, patch)), prompt(c, c.size("max_sequence_length", 256))
    biases, act = (False, True, False), act_of(c, "swiglu")
    c.mark_read("qk_norm")

    def stream(size: int) -> StreamSizes:
        return StreamSizes(
            width=size, heads=heads, head=head, inner=(8 * size) // 3, act=act, vectors=4, time=width, biases=biases,
            norm=plain_rms,
        )  # fmt: skip

    seen, read = stream(width), stream(narrow)
    count, channels = layers(c, "num_layers", 48), c.size("in_channels", 12)
    table = Learned(name="position_frequencies", width=heads * head // 2, rows=3, applied=False)
    pooler = (
        *at(text + 1, (product("pool_kv_proj", wide, 2 * wide),)),
        *at_one((
            product("pool_q_proj", wide, wide),
            Attention(
                name="pool_attention", heads=8, kv_heads=8, head_dim=wide // 8, v_head_dim=wide // 8, causal=False,
                keys=text + 1,
            ),
            product("pool_o_proj", wide, width),
        )),
    )  # fmt: skip
    embedding = (
        table, *at(image, (product("image_proj", channels * patch * patch, width),)),
        *embedded("time", c.size("time_embed_dim", 256), width), *pooler,
        *at(text, (product("text_proj", wide, narrow),)),
    )  # fmt: skip
    block, last = double(seen, read, image, text), double(seen, replace(read, vectors=1), image, text, last=True)
    last = tuple(
        replace(m, outputs=narrow) if isinstance(m, Linear) and m.name == "text_modulation_proj" else m for m in last
    )
    blocks = [*[Block("double", block)] * (count - 1), Block("double", last)]
    head_modules = final(width, patch * patch * c.size("out_channels", channels))
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("CogVideoXTransformer3DModel", "ConsisIDTransformer3DModel")
def cogvideox(c: Config) -> Model:
    """CogVideoX (arXiv:2408.06072): one stream of text and video, with modulations of each before both sublayers."""
    heads, head, width = head_sizes(c, 30, 64)
    if c.flag("is_train_face"):
        raise c.error("is_train_face", "false (what reads a face is not covered yet)")
    c.mark_read(*(key for key in c.raw if key.startswith(("LFE_", "cross_attn_"))), "is_kps", "local_face_scale")
    time, thick = c.size("time_embed_dim", 512), c.size("patch_size_t", 1)
    patch, channels, shrinks = (
        c.size("patch_size", 2),
        c.size("in_channels", 16),
        c.size("temporal_compression_ratio", 4),
    )
    frames = (c.size("sample_frames", 49) - 1) // shrinks + 1
    own = (-(-frames // thick) * thick, c.size("sample_height", 60), c.size("sample_width", 90))
    image, text = video_patches(c, own, (thick, patch, patch)), prompt(c, c.size("max_text_seq_length", 226))
    weights = c.flag("norm_elementwise_affine", True)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, act=act_of(c), qk="layer", vectors=6, time=time,
        biases=(c.flag("attention_bias", True), True, True), norm=layer_norm if weights else plain_layer_norm,
        rotated=c.flag("use_rotary_positional_embeddings"),
    )  # fmt: skip
    both = image + text
    block = Block("dense", (
        *s.modulated("modulation"), *at(both, (*s.projected(), *s.attention(), *s.output())),
        *s.modulated("ffn_modulation"), *at(both, s.fed()),
    ))  # fmt: skip
    c.mark_read(
        "flip_sin_to_cos", "freq_shift", "timestep_activation_fn", "spatial_interpolation_scale",
        "temporal_interpolation_scale", "use_learned_positional_embeddings",
    )  # fmt: skip
    offset = c.size("ofs_embed_dim", None)
    ofs = () if offset is None else at_one(two_products("offset", offset, offset, offset))
    c.mark_read("patch_bias")
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch * thick, width, c.flag("patch_bias", True)),)),
        *at(text, (product("text_proj", c.size("text_embed_dim", 4096), width),)),
        *at_one(two_products("time", width, time, time)), *ofs,
    )  # fmt: skip
    rest = (layer_norm("last_norm", width) if weights else plain_layer_norm("last_norm", width),)
    head_modules = (
        *at(both, rest), *modulation("final_modulation", width, 2, of=time),
        (layer_norm if weights else plain_layer_norm)("final_norm", width),
        product("out_proj", width, patch * patch * thick * c.size("out_channels", 16)),
    )  # fmt: skip
    blocks = [block] * layers(c, "num_layers", 30)
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)


@complete("CogView3PlusTransformer2DModel", "CogView4Transformer2DModel")
def cogview(c: Config) -> Model:
    """CogView3-Plus and CogView4: one stream of text and image, with a modulation of each."""
    heads, head, width = head_sizes(c, 64, 40)
    time, patch, channels = c.size("time_embed_dim", 512), c.size("patch_size", 2), c.size("in_channels", 16)
    _, rows, columns = latents(c, side=c.size("sample_size", 128))
    image, text = (rows // patch) * (columns // patch), prompt(c, 224)
    s = StreamSizes(
        width=width, heads=heads, head=head, inner=4 * width, qk="plain", vectors=12, time=time,
        rotated=c.kind == "CogView4Transformer2DModel",
    )  # fmt: skip
    block = Block("dense", (
        *s.modulated(), *at(image + text, (*s.projected(), *s.attention(), *s.output(), *s.fed())),
    ))  # fmt: skip
    embedding = (
        *at(image, (product("image_proj", channels * patch * patch, width),)),
        *at(text, (product("text_proj", c.size("text_embed_dim", 4096), width),)),
        *at_one((
            *two_products("time", width, time, time),
            *two_products("sizes", 6 * c.size("condition_dim", 256), time, time),
        )),
    )  # fmt: skip
    head_modules = final(width, patch * patch * c.size("out_channels", 16), of=time)
    blocks = [block] * layers(c, "num_layers", 30)
    return denoiser(c, width, blocks, embedding, head_modules, positions=image)
