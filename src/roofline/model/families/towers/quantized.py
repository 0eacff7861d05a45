"""Images as words of a code book: the VQ-GANs of Chameleon and Janus (arXiv:2012.09841, 2203.13131)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.images.denoisers import product
from roofline.model.families.blocks.images.resnets import Residual, Sides, convolution, plain_attention
from roofline.model.families.blocks.images.vision import TowerStage, listed_sizes, projection, section_of, streamed
from roofline.model.families.diffusion.autoencoders import last_modules, middle
from roofline.model.families.registry import towers
from roofline.model.families.towers.fixed_resolution import backbone, beside, fixed
from roofline.model.families.towers.resampled import unapplied
from roofline.model.media.images import IMAGES
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Linear


@dataclass(frozen=True)
class CodeBook:
    """Sizes of a VQ-GAN: channels of each resolution and of latents, words and their width."""

    widths: tuple[int, ...]
    layers: int
    latents: int
    pixels: int
    words: int
    width: int

    @property
    def residual(self) -> Residual:
        """Its convolutions."""
        return Residual()


def code_book(c: Config) -> CodeBook:
    """The sizes under their usual names."""
    base, latents = c.size("base_channels", 128), c.size("latent_channels", 256)
    times = listed_sizes(c, "channel_multiplier", (1, 1, 2, 2, 4))
    c.mark_read("dropout", "initializer_range", "out_channels", "num_patches", "resolution")
    return CodeBook(
        tuple(base * t for t in times), c.size("num_res_blocks", 2), latents * (2 if c.flag("double_latent") else 1),
        c.size("in_channels", 3), c.size("num_embeddings", 8192), c.size("embed_dim", 256),
    )  # fmt: skip


def book_encoder(
    k: CodeBook, sides: Sides, attends: frozenset[int], *, between: bool = True
) -> tuple[list[Block], Sides]:
    """Residual convolutions that halve the image level by level; `attends`: levels with attention behind each.

    `between`: attention in the middle.
    """
    r, width = k.residual, k.widths[0]
    blocks = [Block("in", at(sides.positions, (convolution("conv_in", k.pixels, width),)))]
    for i, wide in enumerate(k.widths):
        for _ in range(k.layers):
            modules = r.block("residual", width, wide, sides.positions)
            more = plain_attention("attend", wide, 1, sides.positions) if i in attends else ()
            blocks.append(Block(f"down {i}", (*modules, *more)))
            width = wide
        if i + 1 < len(k.widths):
            sides = sides.halved()
            blocks.append(Block(f"down {i} to {i + 1}", at(sides.positions, (convolution("half", width, width),))))
    last = last_modules(width, k.latents, sides)
    return [*blocks, middle(r, width, sides, between), last], sides


def book_decoder(k: CodeBook, sides: Sides, attends: frozenset[int], outputs: int) -> list[Block]:
    """The way back, with one more residual block in each level."""
    r, width = k.residual, k.widths[-1]
    blocks = [
        Block("in", at(sides.positions, (convolution("conv_in", k.latents, width),))), middle(r, width, sides, True)
    ]  # fmt: skip
    for i, wide in reversed(list(enumerate(k.widths))):
        for _ in range(k.layers + 1):
            modules = r.block("residual", width, wide, sides.positions)
            more = plain_attention("attend", wide, 1, sides.positions) if i in attends else ()
            blocks.append(Block(f"up {i}", (*modules, *more)))
            width = wide
        if i:
            sides = sides.doubled()
            blocks.append(Block(f"up {i} to {i - 1}", at(sides.positions, (convolution("double", width, width),))))
    return [*blocks, last_modules(width, outputs, sides)]


def quantizer(k: CodeBook, count: int) -> Block:
    """The latents of each position against all words; the way back is not run."""
    near = Linear(name="words", inputs=k.width, outputs=k.words, part="other")
    return Block("quantize", (
        *at(count, (convolution("quant", k.latents, k.width, 1), near)),
        replace(convolution("post_quant", k.width, k.latents, 1), idle=True),
    ))  # fmt: skip


def idle_blocks(blocks: Iterable[Block]) -> list[Block]:
    """The blocks as weights alone."""
    return [Block(b.name, tuple(replace(m, idle=True) for m in b.modules)) for b in blocks]


@towers("chameleon")
def chameleon_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Chameleon (arXiv:2405.09818 §2.1): an image becomes 1,024 words, which the language model embeds."""
    c = section_of(outer, "vq_config")
    k, side = code_book(c), c.size("resolution", 512)
    attends, size = set[int](), side
    given = c.get("attn_resolutions")
    c.mark_read("attn_resolutions")
    for i in range(len(k.widths)):
        attends |= {i} if isinstance(given, list) and size in given else set()
        size //= 2
    pixels = Sides(1, c.inputs.height or side, c.inputs.width or side)
    vanilla = c.text("attn_type", "vanilla") == "vanilla"
    blocks, sides = book_encoder(k, pixels, frozenset(attends if vanilla else ()), between=vanilla)
    every = (*blocks, quantizer(k, sides.positions))
    yield from streamed((TowerStage("vision", k.widths[-1], every, sides.positions),), IMAGES)


@towers("janus")
def janus(outer: Config, text: Model) -> Iterator[Tower]:
    """Janus (arXiv:2410.13848): SigLIP sees, a VQ-GAN is there to draw; a prompt runs the first alone."""
    part, c = backbone(outer), section_of(outer, "vision_config")
    outputs, deep = c.size("projection_dim"), c.size("depth", 2)
    block = projection("projector", (part.width, *[outputs] * deep), act=activation(c, default="gelu"))
    yield from beside((part, fixed(block, part.positions or 1)))
    q = section_of(outer, "vq_config")
    k, last, side = code_book(q), frozenset({len(code_book(q).widths) - 1}), q.size("num_patches", 32)
    latents = Sides(1, side, side)
    seen, _ = book_encoder(k, latents.doubled(2 ** (len(k.widths) - 1)), last)
    drawn = [*seen, quantizer(k, 1), *book_decoder(k, latents, last, q.size("out_channels", 3))]
    wide, own = q.size("projection_dim", 2048), q.size("image_token_embed_dim", 2048)
    layers, act = q.size("num_hidden_layers", 2), activation(q, default="gelu")
    written = (
        Block("words", (unapplied("generation_embeddings", k.width, k.words),)),
        projection("aligner", (k.width, *[wide] * layers), act=act),
        Block("head", (product("generation_head", own, wide), product("words_head", wide, k.words))),
    )
    yield from streamed((TowerStage("image_writer", wide, tuple(idle_blocks([*drawn, *written]))),), IMAGES)
