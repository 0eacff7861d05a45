"""Vision transformers: their layers, patches, mergers and projectors, and a tower as an encoder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import encoder, patch_embedding, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import MakeHeadNorm, MakeNorm, layer_norm
from roofline.model.families.blocks.sizes import HEADS, Dims
from roofline.model.families.registry import complete, towers
from roofline.model.media.images import IMAGES
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Learned, Linear, Module, Modules


@dataclass(frozen=True)
class TowerStage:
    """Blocks of a tower in the order they run: `name` is `vision`, `audio` or `projector`."""

    name: str
    width: int
    blocks: tuple[Block, ...]
    positions: int | None = None


TowerStages = Iterator[TowerStage]


def section_of(outer: Config, key: str) -> Config:
    """A section as its class reads it: with the class's names for keys, and its defaults."""
    known = outer.defaults.parts.get(key)
    if key in outer.raw and outer.raw[key] is not None:
        c = outer.section(key)
    else:
        outer.mark_read(key)
        c = Config(known.values if known else {}, outer.field(key), outer)
    said = c.raw.get("model_type")
    kind = known.type if known and (known.fixed or said is None) else str(said)
    return replace(c, kind=kind).of_kind(kind)


def streamed(parts: Iterable[TowerStage], stream: str) -> Iterator[Tower]:
    """The parts as towers beside a language model."""
    for part in parts:
        yield tower(part.name, stream, part.width, part.blocks, part.positions)


def by_itself(c: Config, parts: Iterable[TowerStage]) -> Model:
    """The parts as an encoder: a tower whose config stands alone."""
    every = list(parts)
    c.mark_read("vocab_size", "max_position_embeddings", "rope_parameters")
    blocks = [block for part in every for block in part.blocks]
    model = encoder(c, every[0].width, blocks, embedding=(), positions=every[0].positions or c.inputs.patches)
    return replace(model, context=None)


def sees(
    *model_types: str, alone: Sequence[str] = (), section: str = "vision_config", stream: str = IMAGES
) -> Callable[[Callable[[Config], TowerStages]], Callable[[Config], TowerStages]]:
    """Register a function from a section to the parts of its tower, for wholes and for the section's own types."""

    def register(build: Callable[[Config], TowerStages]) -> Callable[[Config], TowerStages]:
        towers(*model_types)(lambda outer, text: streamed(build(section_of(outer, section)), stream))
        complete(*alone)(lambda c: by_itself(c, build(c)))
        return build

    return register


# -- layers --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Vit:
    """A vision transformer (arXiv:2010.11929): its sizes, and how its layers are made.

    `scaled`: a learned scale of each channel after each sublayer. `rotary`: queries and keys are rotated.
    """

    layers: int
    width: int
    heads: int
    inner: int
    act: str
    kv_heads: int | None = None
    head_dim: int | None = None
    norm: MakeNorm = layer_norm
    bias: bool = True
    out_bias: bool = True
    gated: bool = False
    mlp_bias: bool = True
    rotary: bool = False
    qk_norm: MakeHeadNorm | None = None
    scaled: bool = False

    @property
    def sizes(self) -> Dims:
        """Sizes of its attention."""
        kv, dim = self.kv_heads or self.heads, self.head_dim or self.width // self.heads
        return Dims(self.layers, self.width, self.heads, kv, dim)

    def layer(self, name: str = "dense", chunk: int | None = None) -> Block:
        """One layer, whose attention stays within pieces of `chunk` positions."""
        d = self.sizes
        mixer = attention(
            d, rotary=d.head_dim if self.rotary else 0, bias=self.bias, out_bias=self.out_bias, qk_norm=self.qk_norm,
            causal=False, chunk=chunk,
        )  # fmt: skip
        ffn = mlp(self.width, self.inner, self.act, gated=self.gated, bias=self.mlp_bias)
        if self.scaled:
            mixer, ffn = (
                (*mixer, channel_scale("attn_scale", self.width)),
                (*ffn, channel_scale("ffn_scale", self.width)),
            )
        return layer(name, self.width, mixer, ffn, norm=self.norm)

    @property
    def blocks(self) -> list[Block]:
        """All layers, each like the others."""
        return [self.layer()] * self.layers


def vit(c: Config, *, default_act: str = "gelu") -> Vit:
    """The sizes of a vision transformer under their usual names."""
    width, heads = c.size("hidden_size"), c.size(HEADS)
    layers = c.size("num_hidden_layers|depth|num_layers", most=MOST_LAYERS)
    return Vit(layers, width, heads, c.size("intermediate_size"), activation(c, default=default_act))


def channel_scale(name: str, width: int) -> Learned:
    """A learned scale of each channel (arXiv:2103.17239)."""
    return Learned(name=name, width=width)


# -- patches and what comes after the layers -----------------------------------------------------------------------
def listed_sizes(c: Config, key: str, default: Sequence[int] = ()) -> list[int]:
    """A list of sizes."""
    value = c.value(key, list(default))[1]
    numbers = [v for v in value if type(v) is int and 0 < v < 2**24] if isinstance(value, (list, tuple)) else []
    if not isinstance(value, (list, tuple)) or len(numbers) != len(value):
        raise c.error(key, "a list of sizes")
    return numbers


def chosen_layers(c: Config, key: str, default: Sequence[int]) -> list[int]:
    """Numbers of layers, of which a shallower tower may not have all."""
    value = c.value(key, None)[1]
    if value is None:
        return list(default)
    if not isinstance(value, (list, tuple)) or not all(type(v) is int and 0 <= v < MOST_LAYERS for v in value):
        raise c.error(key, "a list of layers")
    return [v for v in value if type(v) is int]


def sides(c: Config, key: str, default: int | None = None) -> tuple[int, int]:
    """Height and width under a key that holds one number for both, or two."""
    if isinstance(c.get(key), (list, tuple)):
        several = listed_sizes(c, key)
        if len(several) not in (1, 2):
            raise c.error(key, "a number of pixels, or two")
        return several[0], several[-1]
    number = c.size(key) if default is None else c.size(key, default)
    return number, number


def patch_grid(c: Config, image: str = "image_size", patch: str = "patch_size") -> tuple[int, int]:
    """Patches down and across an image of the size that a caller gave, else of the config's own."""
    (down, across), (p, q) = sides(c, image), sides(c, patch)
    return max(1, (c.inputs.height or down) // p), max(1, (c.inputs.width or across) // q)


def patches(
    c: Config, width: int, *, bias: bool = True, frames: int = 1, after: Modules = (), channels: int | None = None
) -> Block:
    """The block that makes positions of patches, over `frames` frames each; `after`: what follows the product."""
    p, q = sides(c, "patch_size")
    colours = c.size("num_channels|in_channels|in_chans", 3) if channels is None else channels
    inputs = colours * frames
    return Block("patches", (patch_embedding("patch_embedding", inputs, p * q, width, bias=bias), *after))


def position_rows(width: int, rows: int, name: str = "position_embedding") -> Learned:
    """A table of learned positions, which are added."""
    return Learned(name=name, width=width, rows=rows)


def projection(
    name: str, sizes: Sequence[int], *, act: str = "gelu", bias: bool = True, norm: Module | None = None,
    split: int = 1, gated: bool = False,
) -> Block:  # fmt: skip
    """Products of `sizes` with an activation between them, over one in `split` positions; `norm` comes first."""
    parts: list[Module] = [] if norm is None else [norm]
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        if i:
            parts.append(
                Activation(name=f"{name}_act_{i}", width=inputs, function=act, gated=gated, split=split)
            )  # fmt: skip
        wide = outputs * (2 if gated and i + 2 < len(sizes) else 1)
        parts.append(
            Linear(
                name=f"{name}_linear_{i + 1}", inputs=inputs, outputs=wide, bias=bias, split=split, gated=wide > outputs
            )
        )
    return Block(name, tuple(parts))
