"""Autoencoders of images and videos, by the classes of diffusers: an encoder and a decoder, each run alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.model.config import Config
from roofline.model.families.blocks.denoisers import function
from roofline.model.families.blocks.encoders import at, encoder, tower
from roofline.model.families.blocks.resnets import Residual, Sides, convolution, group_norm, plain_attention
from roofline.model.families.diffusion import bare
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Modules

PIXELS, LATENTS = "images", "latents"
"""What the two towers of an autoencoder read."""
UNREAD = (
    "act_fn", "norm_num_groups", "sample_size", "scaling_factor", "shift_factor", "latents_mean", "latents_std",
    "force_upcast", "use_slicing", "use_tiling",
)  # fmt: skip
"""Keys that change values, not work."""


def autoencoder(
    c: Config, seen: tuple[Iterable[Block], Sides], made: tuple[Iterable[Block], Sides], width: int
) -> Model:
    """An autoencoder: blocks and input sides of its encoder, and of its decoder."""
    c.mark_read(*UNREAD)
    towers = tuple(
        tower(name, stream, width, blocks, sides.positions, quantised=True)
        for name, stream, (blocks, sides) in (("encoder", PIXELS, seen), ("decoder", LATENTS, made))
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


def middle(r: Residual, width: int, sides: Sides, attention: bool) -> Block:
    """Two residual convolutions with an attention of one head between them."""
    first, last = (r.block(name, width, width, sides.positions) for name in ("first", "last"))
    part = plain_attention("attend", width, 1, sides.positions) if attention else ()
    return Block("middle", (*first, *part, *last))


def last_modules(width: int, outputs: int, sides: Sides, *more: Modules, taps: int = 9) -> Block:
    """The last norm and convolution."""
    return Block("out", (*at(sides.positions, (
        group_norm("final_norm", width), function("final_act", width), convolution("conv_out", width, outputs, taps),
    )), *(m for part in more for m in part)))  # fmt: skip


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
    made = [
        Block("in", at(sides.positions, (*post, convolution("conv_in", channels, width)))),
        middle(r, width, sides, attention),
    ]  # fmt: skip
    for i in reversed(range(len(widths))):
        for _ in range(layers + 1):
            made.append(Block(f"up {i}", r.block("residual", width, widths[i], sides.positions)))
            width = widths[i]
        if i:
            sides = sides.doubled()
            made.append(Block(f"up {i} to {i - 1}", at(sides.positions, (convolution("upsample", width, width),))))
    made.append(last_modules(width, c.size("out_channels", 3), sides))
    return autoencoder(c, (seen, pixels), (made, latents), widths[0])
