"""U-Nets: residual convolutions at falling and rising resolutions, by the classes of diffusers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.model.config import Config
from roofline.model.families.blocks.denoisers import function, latents, product, prompt, two_products
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.resnets import (
    Residual,
    Sides,
    Transformer,
    convolution,
    group_norm,
    plain_attention,
)
from roofline.model.families.diffusion import denoiser
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Embedding, Learned, Module, Modules

UNREAD = (
    "center_input_sample", "flip_sin_to_cos", "freq_shift", "downsample_padding", "mid_block_scale_factor",
    "attn_norm_num_groups", "num_train_timesteps", "upcast_attention", "resnet_skip_time_act",
    "resnet_out_scale_factor", "addition_time_embed_dim", "timestep_post_act", "addition_embed_type_num_heads",
    "time_embedding_act_fn", "class_embeddings_concat", "controlnet_conditioning_channel_order", "global_pool_conditions",
    "num_attention_heads", "conv_in_kernel", "conv_out_kernel", "upsample_type", "downsample_type",
)  # fmt: skip
"""Keys that change neither weights nor products, or are checked elsewhere."""
CROSSED = ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D", "UNetMidBlock2DCrossAttn")
PLAIN = ("AttnDownBlock2D", "AttnUpBlock2D")
DOWN, UP = (
    ("DownBlock2D", "AttnDownBlock2D", "CrossAttnDownBlock2D"),
    ("UpBlock2D", "AttnUpBlock2D", "CrossAttnUpBlock2D"),
)
MIDDLE = ("UNetMidBlock2D", "UNetMidBlock2DCrossAttn")


def per_stage(c: Config, key: str, stages: int, default: int | None) -> list[int]:
    """One size for each resolution, or one for all."""
    value = c.value(key, default)[1]
    if isinstance(value, list):
        return c.per_layer_size(key, stages, 1)
    return [c.size(key, default) or 0] * stages


def kinds_of(c: Config, key: str, known: tuple[str, ...], default: list[str]) -> list[str]:
    """Kinds of the stages."""
    value = c.value(key, list(default))[1]
    if not isinstance(value, (list, tuple)) or not value or any(v not in known for v in value):
        raise c.error(key, f"a list of {', '.join(known)}")
    return [str(v) for v in value]


@dataclass(frozen=True, kw_only=True)
class Stages:
    """The stages of a U-Net: channels, residual blocks, and attention of each resolution."""

    channels: list[int]
    layers: list[int]
    down: list[str]
    up: list[str]
    middle: str
    heads: list[int]
    blocks: list[int]
    read: list[int]
    only: list[bool]
    text: int
    residual: Residual

    def attends(self, name: str, kind: str, i: int, positions: int) -> Modules:
        """What attends after a residual block of stage `i`."""
        width = self.channels[i]
        if kind in CROSSED:
            some = Transformer(
                heads=self.heads[i], blocks=self.blocks[i], text=self.text, read=self.read[i], alone=self.only[i]
            )  # fmt: skip
            return some.over(name, width, positions)
        return plain_attention(name, width, self.heads[i], positions) if kind in PLAIN else ()

    def falling(self, sides: Sides) -> tuple[list[Block], list[tuple[int, Sides]]]:
        """Blocks of falling resolution, and channels and sides of what each leaves for the rise."""
        blocks, kept = [], [(self.channels[0], sides)]
        width = self.channels[0]
        for i, kind in enumerate(self.down):
            for j in range(self.layers[i]):
                part = self.residual.block("residual", width, self.channels[i], sides.positions)
                width = self.channels[i]
                blocks.append(Block(f"down {i}", (*part, *self.attends("text", kind, i, sides.positions))))
                kept.append((width, sides))
                del j
            if i < len(self.down) - 1:
                sides = sides.halved(up=True)
                conv = convolution("downsample", width, width, stride=4)
                blocks.append(Block(f"down {i} to {i + 1}", at(sides.positions, (conv,))))
                kept.append((width, sides))
        return blocks, kept

    def between(self, sides: Sides, attention: bool = True) -> list[Block]:
        """The blocks of the lowest resolution."""
        if not self.middle:
            return []
        width, here = self.channels[-1], sides.positions
        kind = "AttnDownBlock2D" if self.middle == "UNetMidBlock2D" else self.middle
        part = self.attends("text", kind, len(self.channels) - 1, here) if attention else ()
        first, last = (self.residual.block(name, width, width, here) for name in ("first", "last"))
        return [Block("middle", (*first, *part, *last))]

    def rising(self, kept: list[tuple[int, Sides]]) -> list[Block]:
        """Blocks of rising resolution, each of which reads what the fall left."""
        blocks, left, width = [], list(kept), self.channels[-1]
        last = len(self.up) - 1
        for place, kind in enumerate(self.up):
            i = last - place
            for _ in range(self.layers[i] + 1):
                beside, sides = left.pop()
                part = self.residual.block("residual", width + beside, self.channels[i], sides.positions)
                width = self.channels[i]
                blocks.append(Block(f"up {i}", (*part, *self.attends("text", kind, i, sides.positions))))
            if i:
                sides = left[-1][1]
                blocks.append(
                    Block(f"up {i} to {i - 1}", at(sides.positions, (convolution("upsample", width, width),)))
                )
        return blocks


def time_embedding(c: Config, first: int) -> tuple[Modules, int]:
    """What embeds the time step, and its width."""
    kind = c.text("time_embedding_type", "positional", ["positional", "fourier", "learned"])
    width = c.size("time_embedding_dim", None) or 4 * first
    if kind == "learned":
        table = at_one((Embedding(name="time_table", rows=c.size("num_train_timesteps"), width=first),))
        return (*table, *at_one(two_products("time", first, width, width))), width
    fourier = (Learned(name="time_frequencies", width=first, applied=False),) if kind == "fourier" else ()
    return (*fourier, *at_one(two_products("time", (2 if fourier else 1) * first, width, width))), width


def class_embedding(c: Config, time: int, first: int) -> Modules:
    """What embeds a class beside the time step."""
    kind, classes = c.text("class_embed_type", ""), c.size("num_class_embeds", None)
    known = c.size("projection_class_embeddings_input_dim", None)
    if not kind and classes is not None:
        return at_one((Embedding(name="class_embedding", rows=classes, width=time),))
    if kind == "timestep":
        return at_one(two_products("class", first, time, time))
    if kind in ("projection", "simple_projection") and known is not None:
        return at_one(
            two_products("class", known, time, time) if kind == "projection" else (product("class", known, time),)
        )
    if kind not in ("", "identity"):
        raise c.error("class_embed_type", "timestep, identity, projection or null")
    return ()


def stages_of(c: Config, own: tuple[list[str], list[str]], channels: list[int], text: int, time: int) -> Stages:
    """The stages that a config describes; `own`: kinds of the class's own."""
    down = kinds_of(c, "down_block_types", DOWN, own[0])
    widths = c.per_layer_size("block_out_channels", len(down), 1) if c.has("block_out_channels") else channels
    c.mark_read("block_out_channels", *UNREAD)
    count = len(down)
    crossed = any(kind in CROSSED for kind in down) or own[0][0] in CROSSED
    up = kinds_of(c, "up_block_types", UP, own[1])
    heads = per_stage(c, "attention_head_dim", count, 8)
    if not crossed:
        heads = [width // head if head else 1 for width, head in zip(widths, heads, strict=True)]
    elif c.has("num_attention_heads"):
        heads = per_stage(c, "num_attention_heads", count, 8)
    only = c.value("only_cross_attention", False)[1]
    alone = [bool(v) for v in only] if isinstance(only, list) else [bool(only)] * count
    if c.flag("dual_cross_attention"):
        raise c.error("dual_cross_attention", "false (two attentions to the prompt are not covered yet)")
    for key in ("reverse_transformer_layers_per_block", "cross_attention_norm", "time_cond_proj_dim"):
        if c.has(key):
            raise c.error(key, "null (others are not covered yet)")
    c.text("attention_type", "default", ["default"])
    c.mark_read(
        "use_linear_projection", "mid_block_only_cross_attention", "reverse_transformer_layers_per_block",
        "cross_attention_norm", "time_cond_proj_dim",
    )  # fmt: skip
    scale = c.text("resnet_time_scale_shift", "default", ["default", "scale_shift"])
    middle = "UNetMidBlock2DCrossAttn" if crossed else "UNetMidBlock2D"
    if "mid_block_type" in c.raw and c.raw["mid_block_type"] is None:
        c.mark_read("mid_block_type")
        middle = ""
    else:
        middle = c.text("mid_block_type", middle, MIDDLE)
    c.mark_read("act_fn")
    return Stages(
        channels=widths, layers=per_stage(c, "layers_per_block", count, 2), down=down, up=up, middle=middle,
        heads=heads, blocks=per_stage(c, "transformer_layers_per_block", count, 1),
        read=per_stage(c, "cross_attention_dim", count, 1280), only=alone, text=text,
        residual=Residual(time=time, shifts=1 if scale == "default" else 2),
    )  # fmt: skip


def sides_of_sample(c: Config, default: int) -> Sides:
    """Sides of the latents, or of the image where the U-Net reads pixels."""
    side = c.value("sample_size", default)[1]
    if isinstance(side, list):
        height, width = c.per_layer_size("sample_size", 2, 1)
        return Sides(*latents(c, side=(height, width)))
    return Sides(*latents(c, side=c.size("sample_size", default)))


def ends(c: Config, first: int, sides: Sides) -> tuple[Modules, Modules]:
    """The first convolution, and the last with its norm."""
    taps, last = c.size("conv_in_kernel", 3), c.size("conv_out_kernel", 3)
    return at(sides.positions, (convolution("conv_in", c.size("in_channels", 4), first, taps * taps),)), (
        function("final_act", first), group_norm("final_norm", first),
        convolution("conv_out", first, c.size("out_channels", 4), last * last),
    )  # fmt: skip


@complete("UNet2DModel")
def unet(c: Config) -> Model:
    """The U-Net of DDPM (arXiv:2006.11239): an image without a prompt."""
    c = c.with_values(in_channels=c.size("in_channels", 3), out_channels=c.size("out_channels", 3))
    sizes = c.inputs
    sides = sides_of_sample(c, 32)
    if sizes.latents is None and sizes.height is not None:
        sides = Sides(1, sizes.height, sizes.width or sizes.height)
    own = (["DownBlock2D", *["AttnDownBlock2D"] * 3], [*["AttnUpBlock2D"] * 3, "UpBlock2D"])
    given = c.value("block_out_channels", [224, 448, 672, 896])[1]
    first = given[0] if isinstance(given, list) and isinstance(given[0], int) else 224
    embedded, time = time_embedding(c, first)
    s = stages_of(c, own, [224, 448, 672, 896], 0, time)
    falls, kept = s.falling(sides)
    before, after = ends(c, first, sides)
    blocks = [*falls, *s.between(kept[-1][1], c.flag("add_attention", True)), *s.rising(kept)]
    embedding = (*before, *embedded, *class_embedding(c, time, first))
    return _model(c, first, blocks, embedding, after, sides)


def _model(c: Config, width: int, blocks: list[Block], embedding: Modules, after: Modules, sides: Sides) -> Model:
    return replace(
        denoiser(c, width, blocks, embedding, (), positions=sides.positions), head=at(sides.positions, after)
    )


@complete("UNet2DConditionModel")
def unet_with_prompt(c: Config) -> Model:
    """The U-Net of Stable Diffusion 1, 2 and XL (arXiv:2112.10752, 2307.01952)."""
    sides, text = sides_of_sample(c, 64), prompt(c, 77)
    own = ([*["CrossAttnDownBlock2D"] * 3, "DownBlock2D"], ["UpBlock2D", *["CrossAttnUpBlock2D"] * 3])
    given = c.value("block_out_channels", [320, 640, 1280, 1280])[1]
    first = given[0] if isinstance(given, list) and isinstance(given[0], int) else 320
    embedded, time = time_embedding(c, first)
    s = stages_of(c, own, [320, 640, 1280, 1280], text, time)
    falls, kept = s.falling(sides)
    before, after = ends(c, first, sides)
    blocks = [*falls, *s.between(kept[-1][1]), *s.rising(kept)]
    embedding = (*before, *embedded, *class_embedding(c, time, first), *added(c, time), *projected(c, s.read[0], text))
    return _model(c, first, blocks, embedding, after, sides)


def added(c: Config, time: int) -> Modules:
    """Pooled text and sizes of the image beside the time step (SDXL)."""
    if not c.text("addition_embed_type", ""):
        return ()
    c.text("addition_embed_type", choices=["text_time"])
    return at_one(two_products("added", c.size("projection_class_embeddings_input_dim"), time, time))


def projected(c: Config, width: int, text: int) -> Modules:
    """The prompt at the width of the cross-attentions, where it has another."""
    given = c.size("encoder_hid_dim", None)
    if given is None:
        c.mark_read("encoder_hid_dim_type")
        return ()
    c.text("encoder_hid_dim_type", "text_proj", ["text_proj"])
    return at(text, (product("text_proj", given, width),))


@complete("ControlNetModel")
def control_net(c: Config) -> Model:
    """ControlNet (arXiv:2302.05543): the falling half of a U-Net, an image as condition, and a product for each skip."""
    sides, text = sides_of_sample(c, 64), prompt(c, 77)
    own = ([*["CrossAttnDownBlock2D"] * 3, "DownBlock2D"], ["UpBlock2D", *["CrossAttnUpBlock2D"] * 3])
    given = c.value("block_out_channels", [320, 640, 1280, 1280])[1]
    first = given[0] if isinstance(given, list) and isinstance(given[0], int) else 320
    embedded, time = time_embedding(c, first)
    s = stages_of(c, own, [320, 640, 1280, 1280], text, time)
    falls, kept = s.falling(sides)
    before, _ = ends(c, first, sides)
    outputs: list[Module] = []
    for i, (width, where) in enumerate((*kept, (s.channels[-1], kept[-1][1]))):
        outputs += at(where.positions, (convolution(f"left_{i}", width, width, 1),))
    seen = condition(c, first, sides)
    embedding = (
        *before, *embedded, *class_embedding(c, time, first), *seen, *added(c, time), *projected(c, s.read[0], text)
    )  # fmt: skip
    model = _model(c, first, [*falls, *s.between(kept[-1][1])], embedding, (), sides)
    return replace(model, head=tuple(outputs))


def condition(c: Config, first: int, sides: Sides) -> Modules:
    """What reads the image that a ControlNet follows: convolutions down to the latents."""
    given = c.value("conditioning_embedding_out_channels", [16, 32, 96, 256])[1]
    if not isinstance(given, (list, tuple)) or not all(type(n) is int for n in given):
        raise c.error("conditioning_embedding_out_channels", "a list of sizes")
    widths = [int(str(n)) for n in given]
    scale = 2 ** (len(widths) - 1)
    pixels = sides.doubled(scale)
    modules = [*at(pixels.positions, (convolution("seen_in", c.size("conditioning_channels", 3), widths[0]),))]
    for i, (narrow, wide) in enumerate(zip(widths, widths[1:], strict=False)):
        modules += at(pixels.positions, (convolution(f"seen_{i}", narrow, narrow),))
        pixels = pixels.halved()
        modules += at(pixels.positions, (convolution(f"seen_{i}_down", narrow, wide, stride=4),))
    return (*modules, *at(pixels.positions, (convolution("seen_out", widths[-1], first),)))
