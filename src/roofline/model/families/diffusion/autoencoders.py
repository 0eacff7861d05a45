"""Autoencoders of images and videos, by the classes of diffusers: an encoder and a decoder, each run alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, encoder, tower
from roofline.model.families.blocks.images.denoisers import function, product
from roofline.model.families.blocks.images.resnets import Residual, Sides, convolution, group_norm, plain_attention
from roofline.model.families.blocks.norms import plain_rms, rms
from roofline.model.families.diffusion.cross_attention import linear_attention
from roofline.model.families.diffusion.mm_dit import bare
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Convolution, Learned, Module, Modules, Norm

PIXELS, LATENTS = "images", "latents"
"""What the two towers of an autoencoder read."""
UNREAD = (
    "act_fn", "norm_num_groups", "sample_size", "scaling_factor", "shift_factor", "latents_mean", "latents_std",
    "force_upcast", "use_slicing", "use_tiling",
)  # fmt: skip
"""Keys that change values, not work."""


def autoencoder(
    c: Config, seen: tuple[Iterable[Block], Sides], shown: tuple[Iterable[Block], Sides], width: int
) -> Model:
    """An autoencoder: blocks and input sides of its encoder, and of its decoder."""
    c.mark_read(*UNREAD)
    towers = tuple(
        tower(name, stream, width, blocks, sides.positions, quantised=True)
        for name, stream, (blocks, sides) in (("encoder", PIXELS, seen), ("decoder", LATENTS, shown))
    )
    return replace(encoder(bare(c), width, (), embedding=(), positions=seen[1].positions), towers=towers)


def pixels_of(c: Config, default: int, *, frames: int = 1, space: int = 8, time: int = 4) -> tuple[Sides, Sides]:
    """Sides of the pixels that the encoder reads, and of the latents that the decoder reads."""
    sizes = c.inputs
    height = sizes.height or sizes.width or default
    pixels = Sides(sizes.frames or frames, height, sizes.width or height)
    if sizes.latents is not None:
        latents = Sides(*(1, *sizes.latents)[-3:])
        if sizes.height is None and sizes.frames is None:
            pixels = Sides((latents.frames - 1) * time + 1, latents.height * space, latents.width * space)
        return pixels, latents
    return pixels, Sides((pixels.frames - 1) // time + 1, -(-pixels.height // space), -(-pixels.width // space))


def middle(r: Residual, width: int, sides: Sides, attention: bool, *, framed: bool = False) -> Block:
    """Two residual convolutions with an attention of one head between them, of each frame alone where `framed`."""
    first, last = (r.block(name, width, width, sides.positions) for name in ("first", "last"))
    size, runs = (sides.height * sides.width, sides.frames) if framed else (sides.positions, 1)
    part = plain_attention("attend", width, 1, size, runs=runs, norm=r.norm) if attention else ()
    return Block("middle", (*first, *part, *last))


def last_modules(width: int, outputs: int, sides: Sides, *more: Modules, r: Residual | None = None) -> Block:
    """The last norm and convolution."""
    r = r or Residual()
    return Block("out", (*at(sides.positions, (
        *r.normed("final_norm", width), function("final_act", width), convolution("conv_out", width, outputs, r.taps),
    )), *(m for part in more for m in part)))  # fmt: skip


Rescale = Callable[[int, int, Sides], tuple[Modules, Sides]]
"""(stage, channels, sides) → what changes the resolution after it, and the sides then."""


def falling(
    r: Residual, widths: list[int], layers: int, sides: Sides, change: Rescale, *, first: int | None = None
) -> tuple[list[Block], Sides]:
    """Residual blocks of one resolution after another; `first`: channels before them, where they are others."""
    blocks, width = [], first or widths[0]
    for i, wide in enumerate(widths):
        for _ in range(layers):
            blocks.append(Block(f"down {i}", r.block("residual", width, wide, sides.positions)))
            width = wide
        modules, sides = change(i, width, sides)
        if modules:
            blocks.append(Block(f"down {i} to {i + 1}", modules))
    return blocks, sides


def widths_of(c: Config, key: str, own: list[int]) -> list[int]:
    """A list of sizes, as long as it is."""
    given = c.raw.get(key)
    c.mark_read(key)
    return c.per_layer_size(key, len(given), 1) if isinstance(given, list) and given else own


def later(frames: int) -> int:
    """Frames after the time is doubled, the first frame apart."""
    return 2 * frames - 1 if frames % 2 else 2 * frames


def earlier(frames: int) -> int:
    """Frames after the time is halved, the first frame apart."""
    return (frames - 1) // 2 + 1 if frames % 2 else frames // 2


@complete("AutoencoderKLHunyuanVideo")
def hunyuan_video_vae(c: Config) -> Model:
    """HunyuanVideo's autoencoder (arXiv:2412.03603 §4.1): causal convolutions over time and space."""
    widths, layers = widths_of(c, "block_out_channels", [128, 256, 512, 512]), c.size("layers_per_block", 2)
    channels, attention, r = c.size("latent_channels", 16), c.flag("mid_block_add_attention", True), Residual(taps=27)
    space, time = c.size("spatial_compression_ratio", 8), c.size("temporal_compression_ratio", 4)
    if time != 4:
        raise c.error("temporal_compression_ratio", "4")
    c.mark_read("down_block_types", "up_block_types")
    pixels, latents = pixels_of(c, 512, frames=33, space=space, time=time)
    last = len(widths) - 1

    def down(i: int, width: int, sides: Sides) -> tuple[Modules, Sides]:
        shrinks, slows = i < space.bit_length() - 1, last - 2 <= i < last
        sides = replace(sides.halved(up=True) if shrinks else sides, frames=(sides.frames - 1) // (1 + slows) + 1)
        modules = at(sides.positions, (convolution("downsample", width, width, 27, stride=4 * (1 + slows)),))
        return (modules if shrinks or slows else ()), sides

    quant = convolution("quant", 2 * channels, 2 * channels, 1)
    falls, sides = falling(r, widths, layers, pixels, down)
    first = Block("in", at(pixels.positions, (convolution("conv_in", c.size("in_channels", 3), widths[0], 27),)))
    seen = [
        first, *falls, middle(r, widths[-1], sides, attention),
        last_modules(widths[-1], 2 * channels, sides, at(sides.positions, (quant,)), r=r),
    ]  # fmt: skip

    def up(i: int, width: int, sides: Sides) -> tuple[Modules, Sides]:
        grows, quickens = i < space.bit_length() - 1, last - 2 <= i < last
        sides = replace(sides.doubled() if grows else sides, frames=sides.frames * (1 + quickens) - quickens)
        return (at(sides.positions, (convolution("upsample", width, width, 27),)) if grows or quickens else ()), sides

    shown = [
        Block("in", at(latents.positions, (
            convolution("post_quant", channels, channels, 1), convolution("conv_in", channels, widths[-1], 27),
        ))), middle(r, widths[-1], latents, attention),
    ]  # fmt: skip
    rises, sides = falling(r, widths[::-1], layers + 1, latents, up)
    shown += [*rises, last_modules(widths[0], c.size("out_channels", 3), sides, r=r)]
    return autoencoder(c, (seen, pixels), (shown, latents), widths[0])


@complete("AutoencoderKLHunyuanVideo15", "AutoencoderKLHunyuanImageRefiner")
def hunyuan_video_15_vae(c: Config) -> Model:
    """HunyuanVideo 1.5's autoencoder: positions are folded into channels instead of being skipped.

    HunyuanImage's refiner keeps all frames.
    """
    still = c.kind == "AutoencoderKLHunyuanImageRefiner"
    widths, layers = widths_of(c, "block_out_channels", [128, 256, 512, 1024, 1024]), c.size("layers_per_block", 2)
    channels, r = c.size("latent_channels", 32), Residual(taps=27, norm=rms)
    space, time = c.size("spatial_compression_ratio", 16), c.size("temporal_compression_ratio", 4)
    matched, spread = c.flag("downsample_match_channel", True), c.flag("upsample_match_channel", True)
    pixels, latents = pixels_of(c, 512, frames=33, space=space, time=1 if still else time)
    falls, slow = space.bit_length() - 1, (space // time).bit_length() - 1
    seen = [Block("in", at(pixels.positions, (convolution("conv_in", c.size("in_channels", 3), widths[0], 27),)))]
    sides, width = pixels, widths[0]
    for i, wide in enumerate(widths):
        for _ in range(layers):
            seen.append(Block(f"down {i}", r.block("residual", width, wide, sides.positions)))
            width = wide
        if i < falls:
            to = widths[i + 1] if matched else wide
            folded = 8 if i >= slow else 4
            conv = at(sides.positions, (convolution("downsample", width, to // folded, 27),))
            sides, width = sides.halved(), to
            sides = replace(sides, frames=(sides.frames - 1) // 2 + 1) if i >= slow and not still else sides
            seen.append(Block(f"down {i} to {i + 1}", conv))
    seen += [middle(r, width, sides, True), last_modules(width, 2 * channels, sides, r=r)]
    rising = widths[::-1]
    shown = [
        Block("in", at(latents.positions, (convolution("conv_in", channels, rising[0], 27),))),
        middle(r, rising[0], latents, True),
    ]  # fmt: skip
    sides, width = latents, rising[0]
    for i, outputs in enumerate(rising):
        for _ in range(layers + 1):
            shown.append(Block(f"up {i}", r.block("residual", width, outputs, sides.positions)))
            width = outputs
        if i < falls:
            quick = i < time.bit_length() - 1
            to = rising[i + 1] if spread else outputs
            conv = at(sides.positions, (convolution("upsample", width, to * (8 if quick else 4), 27),))
            sides, width = sides.doubled(), to
            sides = replace(sides, frames=2 * sides.frames - 1) if quick and not still else sides
            shown.append(Block(f"up {i} to {i + 1}", conv))
    shown.append(last_modules(width, c.size("out_channels", 3), sides, r=r))
    return autoencoder(c, (seen, pixels), (shown, latents), widths[0])


@complete("AutoencoderKLTemporalDecoder")
def temporal_decoder(c: Config) -> Model:
    """Stable Video Diffusion's autoencoder (arXiv:2311.15127): decoding a frame reads the other frames."""
    widths, layers = widths_of(c, "block_out_channels", [64]), c.size("layers_per_block", 1)
    channels, space = c.size("latent_channels", 4), 2 ** (len(widths) - 1)
    c.mark_read("down_block_types")
    pixels, latents = pixels_of(c, c.size("sample_size", 512), space=space, time=1)
    r, over = Residual(), Residual(taps=3)
    last = len(widths) - 1

    def down(i: int, width: int, sides: Sides) -> tuple[Modules, Sides]:
        if i == last:
            return (), sides
        sides = sides.halved()
        return at(sides.positions, (convolution("downsample", width, width, stride=4),)), sides

    falls, sides = falling(r, widths, layers, pixels, down)
    quant = (convolution("quant", 2 * channels, 2 * channels, 1),)
    seen = [
        Block("in", at(pixels.positions, (convolution("conv_in", c.size("in_channels", 3), widths[0]),))), *falls,
        middle(r, widths[-1], sides, True), last_modules(widths[-1], 2 * channels, sides, at(sides.positions, quant)),
    ]  # fmt: skip

    def both(name: str, width: int, wide: int, sides: Sides) -> Modules:
        """A residual convolution of each frame, one over frames, and their mean with a learned weight."""
        return (
            *r.block(f"{name}", width, wide, sides.positions),
            *over.block(f"{name}_frames", wide, wide, sides.positions),
            Learned(name=f"{name}_mix", width=1, applied=False),
        )

    width, sides = widths[-1], latents
    size, runs = sides.height * sides.width, sides.frames
    between: list[Module] = [*both("first", width, width, sides)]
    for i in range(layers):
        if i == 0:
            between += plain_attention("attend", width, 1, size, runs=runs)
        if i:
            between += both(f"next_{i}", width, width, sides)
    shown = [
        Block("in", at(sides.positions, (convolution("conv_in", channels, width),))),
        Block("middle", tuple(between)),
    ]
    for i, wide in enumerate(widths[::-1]):
        for _ in range(layers + 1):
            shown.append(Block(f"up {i}", both("residual", width, wide, sides)))
            width = wide
        if i < last:
            sides = sides.doubled()
            shown.append(Block(f"up {i} to {i + 1}", at(sides.positions, (convolution("upsample", width, width),))))
    colours = c.size("out_channels", 3)
    frames = at(sides.positions, (convolution("time_conv_out", colours, colours, 3),))
    shown.append(last_modules(width, colours, sides, frames))
    return autoencoder(c, (seen, pixels), (shown, latents), widths[0])


@complete("AutoencoderKLCogVideoX")
def cogvideox_vae(c: Config) -> Model:
    """CogVideoX's autoencoder (arXiv:2408.06072 §2.1): norms of the decoder are conditioned on the latents."""
    widths, layers = widths_of(c, "block_out_channels", [128, 256, 256, 512]), c.size("layers_per_block", 3)
    colours = c.size("out_channels", 3)
    channels, time = c.size("latent_channels", 16), c.size("temporal_compression_ratio", 4)
    c.mark_read(
        "down_block_types", "up_block_types", "norm_eps", "sample_height", "sample_width", "invert_scale_latents"
    )
    space, last, levels = 2 ** (len(widths) - 1), len(widths) - 1, time.bit_length() - 1
    pixels, latents = pixels_of(c, 512, frames=49, space=space, time=time)
    r, r2 = Residual(taps=27), Residual(taps=27, conditioned=channels)

    def down(i: int, width: int, sides: Sides) -> tuple[Modules, Sides]:
        if i == last:
            return (), sides
        sides = sides.halved()
        sides = replace(sides, frames=earlier(sides.frames) if i < levels else sides.frames)
        return at(sides.positions, (convolution("downsample", width, width, stride=4),)), sides

    def up(i: int, width: int, sides: Sides) -> tuple[Modules, Sides]:
        if i == last:
            return (), sides
        sides = sides.doubled()
        sides = replace(sides, frames=later(sides.frames) if i < levels and sides.frames > 1 else sides.frames)
        return at(sides.positions, (convolution("upsample", width, width),)), sides

    falls, sides = falling(r, widths, layers, pixels, down)
    quant = (convolution("quant", 2 * colours, 2 * colours, 1),) if c.flag("use_quant_conv") else ()
    seen = [
        Block("in", at(pixels.positions, (convolution("conv_in", c.size("in_channels", 3), widths[0], 27),))), *falls,
        middle(r, widths[-1], sides, False),
        last_modules(widths[-1], 2 * channels, sides, at(sides.positions, quant), r=r),
    ]  # fmt: skip
    rises, sides = falling(r2, widths[::-1], layers + 1, latents, up)
    post = (convolution("post_quant", colours, colours, 1),) if c.flag("use_post_quant_conv") else ()
    shown = [
        Block("in", at(latents.positions, (*post, convolution("conv_in", channels, widths[-1], 27)))),
        middle(r2, widths[-1], latents, False), *rises, last_modules(widths[0], colours, sides, r=r2),
    ]  # fmt: skip
    return autoencoder(c, (seen, pixels), (shown, latents), widths[0])


@complete("AutoencoderKLWan", "AutoencoderKLQwenImage", "AutoencoderKLQwenImage21")
def wan_vae(c: Config) -> Model:
    """Wan's autoencoder (arXiv:2503.20314 §4.1), which Qwen-Image shares: one group of four frames after another.

    Qwen-Image 2.1 convolves each frame by itself.
    """
    flat = c.kind == "AutoencoderKLQwenImage21"
    base, channels = c.size("base_dim", 96), c.size("z_dim", 64 if flat else 16)
    mult, layers = widths_of(c, "dim_mult", [1, 2, 4, 8, 8] if flat else [1, 2, 4, 4]), c.size("num_res_blocks", 2)
    given = c.value("temperal_downsample", [False, *[True] * (len(mult) - 2)])[1]
    slows = [bool(v) for v in given] if isinstance(given, list) else [False, *[True] * (len(mult) - 2)]
    patch, residual, taps, colours = (
        c.size("patch_size", 1),
        c.flag("is_residual", flat),
        9 if flat else 27,
        4 if flat else 3,
    )
    if c.value("attn_scales", [])[1]:
        raise c.error("attn_scales", "an empty list (attention at other scales is not covered yet)")
    c.mark_read("scale_factor_temporal", "scale_factor_spatial", "input_channels")
    widths, last = [base * m for m in mult], len(mult) - 1
    space, time = 2**last * patch, 2 ** sum(slows)
    pixels, latents = pixels_of(c, 480, frames=1 if flat else 81, space=space, time=time)
    inner = replace(pixels, height=pixels.height // patch, width=pixels.width // patch)
    r, over = Residual(taps=taps, norm=rms), 1 if flat else 3

    def down(i: int, width: int, sides: Sides) -> tuple[Modules, Sides]:
        if i == last:
            return (), sides
        sides = sides.halved()
        conv = at(sides.positions, (convolution("downsample", width, width, stride=4),))
        if not slows[i]:
            return conv, sides
        sides = replace(sides, frames=(sides.frames - 1) // 2 + 1)
        # The first frame is not convolved over time.
        rest = replace(sides, frames=sides.frames - 1)
        more = at(rest.positions, (convolution("slow", width, width, over, stride=2),))
        return (*conv, *more), sides

    falls, sides = falling(r, widths, layers, inner, down, first=base)
    quant = at(sides.positions, (convolution("quant", 2 * channels, 2 * channels, 1),))
    seen = [
        Block(
            "in",
            at(inner.positions, (convolution("conv_in", c.size("in_channels|input_channels", colours), base, taps),)),
        ),
        *falls,
        middle(r, widths[-1], sides, True, framed=True),
        last_modules(widths[-1], 2 * channels, sides, quant, r=r),
    ]
    wide = [(c.size("decoder_base_dim", 144 if flat else None) or base) * m for m in mult][::-1]
    quickens = slows[::-1]
    shown = [
        Block("in", at(latents.positions, (
            convolution("post_quant", channels, channels, 1), convolution("conv_in", channels, wide[0], taps),
        ))), middle(r, wide[0], latents, True, framed=True),
    ]  # fmt: skip
    sides, width = latents, wide[0]
    for i, outputs in enumerate(wide):
        for _ in range(layers + 1):
            shown.append(Block(f"up {i}", r.block("residual", width, outputs, sides.positions)))
            width = outputs
        if i < last:
            more: Modules = ()
            if quickens[i]:
                rest = replace(sides, frames=sides.frames - 1)
                more = at(rest.positions, (convolution("quick", width, 2 * width, over),))
                sides = replace(sides, frames=2 * sides.frames - 1)
            sides, narrow = sides.doubled(), width if residual else width // 2
            conv = at(sides.positions, (convolution("upsample", width, narrow),))
            shown.append(Block(f"up {i} to {i + 1}", (*more, *conv)))
            width = narrow
    shown.append(last_modules(width, c.size("out_channels|input_channels", colours), sides, r=r))
    return autoencoder(c, (seen, pixels), (shown, latents), base)


@complete("AutoencoderKLLTXVideo")
def ltx_video_vae(c: Config) -> Model:
    """LTX-Video's autoencoder (arXiv:2501.00103 §2.1): patches of 4² pixels, norms without weights."""
    falls = widths_of(c, "block_out_channels", [128, 256, 512, 512])
    rises = widths_of(c, "decoder_block_out_channels", [128, 256, 512, 512])[::-1]
    down, up = (widths_of(c, f"{side}layers_per_block", [4, 3, 3, 3, 4]) for side in ("", "decoder_"))
    patch, channels = c.size("patch_size", 4), c.size("latent_channels", 128)
    kinds = c.value("down_block_types", ["LTXVideoDownBlock3D"])[1]
    noise = c.value("decoder_inject_noise", [])[1]
    if c.flag("timestep_conditioning") or (isinstance(noise, list) and any(noise)) or c.size("patch_size_t", 1) != 1:
        raise c.error("timestep_conditioning", "false, without noise (a decoder that denoises is not covered yet)")
    if isinstance(kinds, list) and any(kind != "LTXVideoDownBlock3D" for kind in kinds):
        raise c.error("down_block_types", "a list of LTXVideoDownBlock3D (others are not covered yet)")

    def flags(key: str) -> list[bool]:
        given = c.value(key, [True, True, True, False])[1]
        return [bool(v) for v in given] if isinstance(given, list) else [True, True, True, False]

    shrinks, grows = flags("spatio_temporal_scaling"), flags("decoder_spatio_temporal_scaling")[::-1]
    factors = widths_of(c, "upsample_factor", [1] * len(rises))[::-1]
    c.mark_read(
        "downsample_type", "upsample_residual", "resnet_norm_eps", "encoder_causal", "decoder_causal",
        "spatial_compression_ratio", "temporal_compression_ratio",
    )  # fmt: skip
    steps = sum(shrinks)
    pixels, latents = pixels_of(c, 512, frames=161, space=patch * 2**steps, time=2**steps)
    r = Residual(taps=27, norm=plain_rms, shortcut_norm=True)
    sides = replace(pixels, height=pixels.height // patch, width=pixels.width // patch)
    inputs = c.size("in_channels", 3) * patch * patch
    seen = [Block("in", at(sides.positions, (convolution("conv_in", inputs, falls[0], 27),)))]
    for i, width in enumerate(falls):
        seen += [Block(f"down {i}", r.block("residual", width, width, sides.positions))] * down[i]
        if shrinks[i]:
            half = sides.halved(up=True)
            sides = replace(half, frames=(sides.frames - 1) // 2 + 1)
            conv = convolution("downsample", width, width, 27, stride=8)
            seen.append(Block(f"down {i} to {i + 1}", at(sides.positions, (conv,))))
        if i + 1 < len(falls) and falls[i + 1] != width:
            seen.append(Block(f"wider {i}", r.block("residual", width, falls[i + 1], sides.positions)))
    seen += [Block("middle", r.block("residual", falls[-1], falls[-1], sides.positions))] * down[-1]
    seen.append(last_modules(falls[-1], channels + 1, sides, r=r))
    shown = [Block("in", at(latents.positions, (convolution("conv_in", channels, rises[0], 27),)))]
    shown += [Block("middle", r.block("residual", rises[0], rises[0], latents.positions))] * up[-1]
    sides, width = latents, rises[0]
    for i, (full, factor) in enumerate(zip(rises, factors, strict=True)):
        before, width = width // factor, full // factor
        if before != width:
            shown.append(Block(f"narrower {i}", r.block("residual", before, width, sides.positions)))
        if grows[i]:
            conv = convolution("upsample", width * factor, 8 * width, 27)
            shown.append(Block(f"up {i}", at(sides.positions, (conv,))))
            sides = replace(sides.doubled(), frames=2 * sides.frames - 1)
        shown += [Block(f"up {i}", r.block("residual", width, width, sides.positions))] * up[-2 - i]
    shown.append(last_modules(width, c.size("out_channels", 3) * patch * patch, sides, r=r))
    return autoencoder(c, (seen, pixels), (shown, latents), falls[0])


@complete("AutoencoderVidTok")
def vid_tok(c: Config) -> Model:
    """VidTok (arXiv:2412.13061): convolutions over space and over time take turns."""
    base, mult, count = c.size("ch", 128), widths_of(c, "ch_mult", [1, 2, 4, 4]), c.size("num_res_blocks", 2)
    channels = c.size("z_channels", 4)
    c.text("regularizer", "kl", ["kl"])
    for key in ("spatial_ds", "spatial_us", "tempo_ds", "tempo_us"):
        if c.has(key):
            raise c.error(key, "null (others are not covered yet)")
        c.mark_read(key)
    if not c.flag("is_causal", True):
        raise c.error("is_causal", "true (false is not covered yet)")
    c.mark_read("codebook_size")
    last, widths = len(mult) - 1, [base * n for n in mult]
    pixels, latents = pixels_of(c, 256, frames=17, space=2**last, time=4)
    flat, over, whole = Residual(), Residual(taps=3), Residual(taps=27)

    def both(width: int, wide: int, sides: Sides) -> Modules:
        return (
            *flat.block("residual", width, wide, sides.positions), *over.block("frames", wide, wide, sides.positions)
        )  # fmt: skip

    def between(sides: Sides) -> Block:
        return middle(whole, widths[-1], sides, True, framed=True)

    sides = pixels
    seen = [Block("in", at(sides.positions, (convolution("conv_in", c.size("in_channels", 3), base, 27),)))]
    width = base
    for i, wide in enumerate(widths):
        for _ in range(count):
            seen.append(Block(f"down {i}", both(width, wide, sides)))
            width = wide
        if i < last:
            sides = sides.halved()
            modules: Modules = at(sides.positions, (convolution("downsample", width, width, stride=4),))
            if i in (last - 1, last - 2):
                sides = replace(sides, frames=sides.frames // 2)
                slow = convolution("slow", width, width, 27, stride=2)
                modules += (*at(sides.positions, (slow,)), Learned(name="mix", width=1, applied=False))
            seen.append(Block(f"down {i} to {i + 1}", modules))
    outputs = channels * (2 if c.flag("double_z", True) else 1)
    seen += [between(sides), last_modules(width, outputs, sides, r=whole)]
    sides = latents
    shown = [Block("in", at(sides.positions, (convolution("conv_in", channels, width, 27),))), between(sides)]
    for i in reversed(range(len(widths))):
        for _ in range(count + 1):
            shown.append(Block(f"up {i}", both(width, widths[i], sides)))
            width = widths[i]
        if i:
            sides = sides.doubled()
            modules = at(sides.positions, (convolution("upsample", width, width),))
            if i in (1, 2):
                sides = replace(sides, frames=2 * sides.frames)
                modules += (
                    *at(sides.positions, (convolution("quick", width, width, 27),)),
                    Learned(name="mix", width=1, applied=False),
                )  # fmt: skip
            shown.append(Block(f"up {i} to {i - 1}", modules))
    shown.append(last_modules(width, c.size("out_channels", 3), sides, r=whole))
    return autoencoder(c, (seen, pixels), (shown, latents), base)


@complete("AutoencoderTiny")
def tiny_autoencoder(c: Config) -> Model:
    """TAESD: blocks of three convolutions without norms."""
    own, channels = [64] * 4, c.size("latent_channels", 4)
    falls, rises = widths_of(c, "encoder_block_out_channels", own), widths_of(c, "decoder_block_out_channels", own)
    down, up = widths_of(c, "num_encoder_blocks", [1, 3, 3, 3]), widths_of(c, "num_decoder_blocks", [3, 3, 3, 1])
    pixels, latents = pixels_of(c, 512, space=2 ** (len(falls) - 1), time=1)
    c.mark_read(
        "upsample_fn", "upsampling_scaling_factor", "latent_magnitude", "latent_shift", "block_out_channels", "act_fn"
    )  # fmt: skip

    def block(width: int, sides: Sides) -> Block:
        return Block("block", at(sides.positions, (
            *(m for i in range(3) for m in (convolution(f"conv{i}", width, width), function(f"act{i}", width, "relu"))),
            Add(name="residual", width=width),
        )))  # fmt: skip

    seen, sides = (
        [Block("in", at(pixels.positions, (convolution("conv_in", c.size("in_channels", 3), falls[0]),)))],
        pixels,
    )
    for i, (width, count) in enumerate(zip(falls, down, strict=True)):
        if i:
            sides = sides.halved(up=True)
            conv = convolution("downsample", falls[i - 1], width, stride=4, bias=False)
            seen.append(Block(f"down {i}", at(sides.positions, (conv,))))
        seen += [block(width, sides)] * count
    seen.append(Block("out", at(sides.positions, (convolution("conv_out", falls[-1], channels),))))
    shown, sides = [Block("in", at(latents.positions, (convolution("conv_in", channels, rises[0]),)))], latents
    for i, (width, count) in enumerate(zip(rises, up, strict=True)):
        shown += [block(width, sides)] * count
        if i < len(rises) - 1:
            sides = sides.doubled()
            conv = convolution("upsample", width, rises[i + 1], bias=False)
            shown.append(Block(f"up {i}", at(sides.positions, (conv,))))
    shown.append(Block("out", at(sides.positions, (convolution("conv_out", rises[-1], c.size("out_channels", 3)),))))
    return autoencoder(c, (seen, pixels), (shown, latents), falls[0])


@complete("AutoencoderKLMochi")
def mochi_vae(c: Config) -> Model:
    """Mochi 1's autoencoder: positions are folded into channels; the encoder attends over the frames of each place."""
    falls, rises = (
        widths_of(c, f"{side}_block_out_channels", own)
        for side, own in (("encoder", [64, 128, 256, 384]), ("decoder", [128, 256, 512, 768]))
    )
    layers, channels = widths_of(c, "layers_per_block", [3, 3, 4, 6, 3]), c.size("latent_channels", 12)
    times, spaces = widths_of(c, "temporal_expansions", [1, 2, 3]), widths_of(c, "spatial_expansions", [2, 2, 2])
    given = c.value("add_attention_block", [False, True, True, True, True])[1]
    attends = [bool(v) for v in given] if isinstance(given, list) else [True] * len(layers)
    time, space = prod(times), prod(spaces)
    pixels, latents = pixels_of(c, 480, frames=79, space=space, time=time)
    latents = latents if c.inputs.latents is not None else replace(latents, frames=-(-pixels.frames // time))
    r = Residual(taps=27)

    def over_frames(width: int, sides: Sides) -> Modules:
        heads = width // 32
        return at(sides.frames, (
            group_norm("frame_norm", width), product("qkv_proj", width, 3 * width, False),
            Attention(name="attention", heads=heads, kv_heads=heads, head_dim=32, v_head_dim=32, causal=False),
            product("o_proj", width, width), Add(name="frame_residual", width=width),
        ), sides.height * sides.width)  # fmt: skip

    def several(name: str, count: int, width: int, sides: Sides, *, attention: bool = False) -> list[Block]:
        part = over_frames(width, sides) if attention else ()
        return [Block(name, (*r.block("residual", width, width, sides.positions), *part))] * count

    seen = [Block("in", at(pixels.positions, (product("proj_in", c.size("in_channels", 15), falls[0]),)))]
    seen += several("first", layers[0], falls[0], pixels, attention=attends[0])
    sides = pixels
    for i, (width, slow, shrink) in enumerate(zip(falls[1:], times, spaces, strict=True)):
        sides = Sides(-(-sides.frames // slow), sides.height // shrink, sides.width // shrink)
        taps = slow * shrink * shrink
        seen.append(
            Block(f"down {i}", at(sides.positions, (convolution("downsample", falls[i], width, taps, stride=taps),)))
        )
        seen += several(f"down {i}", layers[i + 1], width, sides, attention=attends[i + 1])
    seen += several("last", layers[-1], falls[-1], sides, attention=attends[-1])
    seen.append(Block("out", at(sides.positions, (
        group_norm("final_norm", falls[-1]), product("proj_out", falls[-1], 2 * channels, False),
    ))))  # fmt: skip
    shown = [Block("in", at(latents.positions, (convolution("conv_in", channels, rises[-1], 1),)))]
    shown += several("first", layers[-1], rises[-1], latents)
    sides = latents
    for i in range(len(rises) - 1):
        width, to, quick, grow = rises[-i - 1], rises[-i - 2], times[-i - 1], spaces[-i - 1]
        shown += several(f"up {i}", layers[-i - 2], width, sides)
        shown.append(Block(f"up {i}", at(sides.positions, (product("upsample", width, to * quick * grow * grow),))))
        sides = sides.doubled(grow, quick)
    shown += several("last", layers[0], rises[0], sides)
    shown.append(Block("out", at(sides.positions, (product("proj_out", rises[0], c.size("out_channels", 3)),))))
    return autoencoder(c, (seen, pixels), (shown, latents), falls[0])


# -- deep compression ----------------------------------------------------------------------------------------------
def _deep_block(kind: str, width: int, head: int, scales: list[int], positions: int) -> Modules:
    """A residual block of two convolutions, or linear attention at several scales with a gated convolution."""
    norm = Norm(name="norm", width=width, bias=True)
    if kind == "ResBlock":
        return at(positions, (
            convolution("conv1", width, width), function("act", width),
            convolution("conv2", width, width, bias=False), norm, Add(name="residual", width=width),
        ))  # fmt: skip
    heads, wide = width // head, 3 * width
    seen: list[Module] = [product("qkv_proj", width, wide, False)]
    for i, side in enumerate(scales):
        seen += [
            Convolution(name=f"scale_{i}", inputs=wide, outputs=wide, kernel=side * side, groups=wide),
            Convolution(name=f"scale_{i}_proj", inputs=wide, outputs=wide, kernel=1, groups=3 * heads),
        ]
    many = 1 + len(scales)
    inner = 4 * width
    return at(positions, (
        *seen, *linear_attention(many * heads, head), product("o_proj", many * width, width, False), norm,
        Add(name="residual", width=width), product("up_proj", width, 2 * inner), function("up_act", 2 * inner),
        Convolution(name="ffn_conv", inputs=2 * inner, outputs=2 * inner, kernel=9, groups=2 * inner, bias=True),
        function("ffn_act", inner, gated=True), product("down_proj", inner, width, False),
        Norm(name="ffn_norm", width=width, bias=True), Add(name="ffn_residual", width=width),
    ))  # fmt: skip


@complete("AutoencoderDC")
def deep_autoencoder(c: Config) -> Model:
    """DC-AE (arXiv:2410.10733), Sana's autoencoder: a latent for 32² pixels."""
    own = [128, 256, 512, 512, 1024, 1024]
    channels, head, colours = c.size("latent_channels", 32), c.size("attention_head_dim", 32), c.size("in_channels", 3)
    c.mark_read(
        "encoder_out_shortcut", "decoder_in_shortcut", "decoder_conv_act_fn", "decoder_act_fns", "decoder_norm_types"
    )  # fmt: skip
    falls, rises = widths_of(c, "encoder_block_out_channels", own), widths_of(c, "decoder_block_out_channels", own)
    pixels, latents = pixels_of(c, 1024, space=2 ** (len(falls) - 1), time=1)
    folded = (
        c.text("downsample_block_type", "pixel_unshuffle", ["pixel_unshuffle", "conv", "Conv"]) == "pixel_unshuffle"
    )
    spread = c.text("upsample_block_type", "pixel_shuffle", ["pixel_shuffle", "interpolate"]) == "pixel_shuffle"

    def part(side: str, widths: list[int], layers: list[int]) -> list[tuple[int, str, int, list[int]]]:
        kinds = c.value(f"{side}_block_types", "ResBlock")[1]
        names = [str(k) for k in kinds] if isinstance(kinds, list) else [str(kinds)] * len(widths)
        scales = c.value(f"{side}_qkv_multiscales", [[]] * len(widths))[1]
        sizes = (
            [[int(str(n)) for n in s] if isinstance(s, list) else [] for s in scales]
            if isinstance(scales, list)
            else []
        )
        counts = (
            c.per_layer_size(f"{side}_layers_per_block", len(widths), 1)
            if c.has(f"{side}_layers_per_block")
            else layers
        )
        return list(zip(widths, names, counts, sizes or [[]] * len(widths), strict=True))

    def shrinks(inputs: int, outputs: int, sides: Sides) -> tuple[Modules, Sides]:
        half = sides.halved(up=not folded)
        if folded:
            return at(sides.positions, (convolution("downsample", inputs, outputs // 4),)), half
        return at(half.positions, (convolution("downsample", inputs, outputs, stride=4),)), half

    seen, sides = [Block("in", at(pixels.positions, (convolution("conv_in", colours, falls[0]),)))], pixels
    stages = part("encoder", falls, [2, 2, 2, 3, 3, 3])
    for i, (width, kind, count, scales) in enumerate(stages):
        seen += [Block(f"down {i}", _deep_block(kind, width, head, scales, sides.positions))] * count
        if i < len(stages) - 1:
            modules, sides = shrinks(width, falls[i + 1], sides)
            seen.append(Block(f"down {i} to {i + 1}", modules))
    seen.append(Block("out", at(sides.positions, (convolution("conv_out", falls[-1], channels),))))
    shown, sides = [Block("in", at(latents.positions, (convolution("conv_in", channels, rises[-1]),)))], latents
    for i, (width, kind, count, scales) in reversed(list(enumerate(part("decoder", rises, [3] * 6)))):
        if i < len(rises) - 1:
            positions = sides.positions
            sides = sides.doubled()
            conv = convolution("upsample", rises[i + 1], width * (4 if spread else 1))
            shown.append(Block(f"up {i + 1} to {i}", at(positions if spread else sides.positions, (conv,))))
        shown += [Block(f"up {i}", _deep_block(kind, width, head, scales, sides.positions))] * count
    shown.append(Block("out", at(sides.positions, (
        Norm(name="final_norm", width=rises[0], bias=True), function("final_act", rises[0], "relu"),
        convolution("conv_out", rises[0], colours),
    ))))  # fmt: skip
    return autoencoder(c, (seen, pixels), (shown, latents), falls[0])


@complete("AutoencoderKL", "AutoencoderKLFlux2")
def autoencoder_kl(c: Config) -> Model:
    """The autoencoder of latent diffusion (arXiv:2112.10752 §3.1)."""
    two = c.kind == "AutoencoderKLFlux2"
    own = [128, 256, 512, 512] if two else [64]
    given = c.value("block_out_channels", own)[1]
    widths = (
        c.per_layer_size("block_out_channels", len(given), 1)
        if isinstance(given, list) and "block_out_channels" in c.raw
        else own
    )
    layers, channels = c.size("layers_per_block", 2 if two else 1), c.size("latent_channels", 32 if two else 4)
    attention, r = c.flag("mid_block_add_attention", True), Residual()
    for key, kind in (("down_block_types", "DownEncoderBlock2D"), ("up_block_types", "UpDecoderBlock2D")):
        types = c.value(key, [kind])[1]
        if not isinstance(types, list) or any(t != kind for t in types):
            raise c.error(key, f"a list of {kind} (others are not covered yet)")
    c.mark_read("batch_norm_eps", "batch_norm_momentum", "patch_size")
    pixels, latents = pixels_of(c, c.size("sample_size", 512), space=2 ** (len(widths) - 1), time=1)
    one = (1,)
    seen: list[Block] = [
        Block("in", at(pixels.positions, (convolution("conv_in", c.size("in_channels", 3), widths[0]),)))
    ]
    sides, width = pixels, widths[0]
    for i, wide in enumerate(widths):
        for _ in range(layers):
            seen.append(Block(f"down {i}", r.block("residual", width, wide, sides.positions)))
            width = wide
        if i < len(widths) - 1:
            sides = sides.halved()
            seen.append(
                Block(f"down {i} to {i + 1}", at(sides.positions, (convolution("downsample", width, width, stride=4),)))
            )
    quant = (
        at(sides.positions, (convolution("quant", 2 * channels, 2 * channels, one),))
        if c.flag("use_quant_conv", True)
        else ()
    )
    seen += [middle(r, width, sides, attention), last_modules(width, 2 * channels, sides, quant)]
    decoded = c.value("decoder_block_out_channels", None)[1]
    if decoded is not None:
        widths = c.per_layer_size("decoder_block_out_channels", len(widths), 1)
    sides, width = latents, widths[-1]
    post = (convolution("post_quant", channels, channels, one),) if c.flag("use_post_quant_conv", True) else ()
    shown = [
        Block("in", at(sides.positions, (*post, convolution("conv_in", channels, width)))),
        middle(r, width, sides, attention),
    ]  # fmt: skip
    for i in reversed(range(len(widths))):
        for _ in range(layers + 1):
            shown.append(Block(f"up {i}", r.block("residual", width, widths[i], sides.positions)))
            width = widths[i]
        if i:
            sides = sides.doubled()
            shown.append(Block(f"up {i} to {i - 1}", at(sides.positions, (convolution("upsample", width, width),))))
    shown.append(last_modules(width, c.size("out_channels", 3), sides))
    return autoencoder(c, (seen, pixels), (shown, latents), widths[0])
