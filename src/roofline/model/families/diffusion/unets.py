"""U-Nets: residual convolutions at falling and rising resolutions, by the classes of diffusers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.images.denoisers import (
    feed_forward,
    function,
    latents,
    product,
    prompt,
    two_products,
)
from roofline.model.families.blocks.images.resnets import (
    Residual,
    Sides,
    Transformer,
    convolution,
    group_norm,
    plain_attention,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.diffusion.mm_dit import denoiser
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Embedding, Learned, Module, Modules

UNREAD = (
    "center_input_sample",
    "flip_sin_to_cos",
    "freq_shift",
    "downsample_padding",
    "mid_block_scale_factor",
    "attn_norm_num_groups",
    "num_train_timesteps",
    "upcast_attention",
    "resnet_skip_time_act",
    "resnet_out_scale_factor",
    "addition_time_embed_dim",
    "timestep_post_act",
    "addition_embed_type_num_heads",
    "time_embedding_act_fn",
    "controlnet_conditioning_channel_order",
    "global_pool_conditions",
    "num_attention_heads",
    "conv_in_kernel",
    "conv_out_kernel",
    "upsample_type",
    "downsample_type",
)
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
class UnetLevels:
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

    def step(self, i: int, kind: str, inputs: int, sides: Sides) -> Modules:
        """A residual block of stage `i`, and what attends after it."""
        part = self.residual.block("residual", inputs, self.channels[i], sides.positions)
        return (*part, *self.attends("text", kind, i, sides.positions))

    def falling(self, sides: Sides) -> tuple[list[Block], list[tuple[int, Sides]]]:
        """Blocks of falling resolution, and channels and sides of what each leaves for the rise."""
        blocks, kept = [], [(self.channels[0], sides)]
        width = self.channels[0]
        for i, kind in enumerate(self.down):
            for _ in range(self.layers[i]):
                blocks.append(Block(f"down {i}", self.step(i, kind, width, sides)))
                width = self.channels[i]
                kept.append((width, sides))
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
        width, positions = self.channels[-1], sides.positions
        kind = "AttnDownBlock2D" if self.middle == "UNetMidBlock2D" else self.middle
        part = self.attends("text", kind, len(self.channels) - 1, positions) if attention else ()
        first, last = (self.residual.block(name, width, width, positions) for name in ("first", "last"))
        return [Block("middle", (*first, *part, *last))]

    def rising(self, kept: list[tuple[int, Sides]]) -> list[Block]:
        """Blocks of rising resolution, each of which reads what the fall left."""
        blocks, left, width = [], list(kept), self.channels[-1]
        last = len(self.up) - 1
        for place, kind in enumerate(self.up):
            i = last - place
            for _ in range(self.layers[i] + 1):
                beside, sides = left.pop()
                blocks.append(Block(f"up {i}", self.step(i, kind, width + beside, sides)))
                width = self.channels[i]
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


def unet_levels(
    c: Config, own: tuple[list[str], list[str]], channels: list[int], text: int
) -> tuple[UnetLevels, Modules, int]:
    """Stages of a config, what embeds their time step, and its width; `own`: kinds of the class's own."""
    down = kinds_of(c, "down_block_types", DOWN, own[0])
    widths = c.per_layer_size("block_out_channels", len(down), 1) if c.has("block_out_channels") else channels
    c.mark_read("block_out_channels", *UNREAD)
    embedded, time = time_embedding(c, widths[0])
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
    if c.flag("class_embeddings_concat"):
        raise c.error("class_embeddings_concat", "false (a class beside the time step is not covered yet)")
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
    levels = UnetLevels(
        channels=widths, layers=per_stage(c, "layers_per_block", count, 2), down=down, up=up, middle=middle,
        heads=heads, blocks=per_stage(c, "transformer_layers_per_block", count, 1),
        read=per_stage(c, "cross_attention_dim", count, 1280), only=alone, text=text,
        residual=Residual(time=time, shifts=1 if scale == "default" else 2),
    )  # fmt: skip
    return levels, embedded, time


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
    s, embedded, time = unet_levels(c, own, [224, 448, 672, 896], 0)
    first = s.channels[0]
    falls, kept = s.falling(sides)
    before, after = ends(c, first, sides)
    blocks = [*falls, *s.between(kept[-1][1], c.flag("add_attention", True)), *s.rising(kept)]
    embedding = (*before, *embedded, *class_embedding(c, time, first))
    return _model(c, first, blocks, embedding, after, sides)


def _model(c: Config, width: int, blocks: list[Block], embedding: Modules, after: Modules, sides: Sides) -> Model:
    return replace(
        denoiser(c, width, blocks, embedding, (), positions=sides.positions), head=at(sides.positions, after)
    )


WITH_PROMPT = ([*["CrossAttnDownBlock2D"] * 3, "DownBlock2D"], ["UpBlock2D", *["CrossAttnUpBlock2D"] * 3])
"""Kinds of the stages of a U-Net with a prompt, where a config names none."""


@complete("UNet2DConditionModel")
def unet_with_prompt(c: Config) -> Model:
    """The U-Net of Stable Diffusion 1, 2 and XL (arXiv:2112.10752, 2307.01952)."""
    sides, text = sides_of_sample(c, 64), prompt(c, 77)
    s, embedded, time = unet_levels(c, WITH_PROMPT, [320, 640, 1280, 1280], text)
    first = s.channels[0]
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
    """ControlNet (arXiv:2302.05543): the falling half of a U-Net, a condition, and a product for each skip."""
    sides, text = sides_of_sample(c, 64), prompt(c, 77)
    s, embedded, time = unet_levels(c, WITH_PROMPT, [320, 640, 1280, 1280], text)
    first = s.channels[0]
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
    for i, (narrow, wide) in enumerate(pairwise(widths)):
        modules += at(pixels.positions, (convolution(f"seen_{i}", narrow, narrow),))
        pixels = pixels.halved()
        modules += at(pixels.positions, (convolution(f"seen_{i}_down", narrow, wide, stride=4),))
    return (*modules, *at(pixels.positions, (convolution("seen_out", widths[-1], first),)))


# -- video ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class FilmLevels(UnetLevels):
    """The stages of a U-Net over a video: frames by themselves, then every place over all frames.

    `way`: how frames are joined: by convolutions and attention (`3D`), by attention alone (`Motion`), or by residual
    convolutions and attention that are mixed in with a learned weight (`SpatioTemporal`). `moving`, `deep`: heads and
    blocks of a motion module; `again`: it attends twice.
    """

    way: str
    moving: int = 8
    deep: int = 1
    again: bool = True

    def step(self, i: int, kind: str, inputs: int, sides: Sides) -> Modules:
        """A residual block of stage `i` over frames and places, and what attends after it."""
        crossed = kind.startswith("CrossAttn")
        return (
            *self.convolved("residual", inputs, self.channels[i], sides), *(self.attended(i, sides) if crossed else ()),
            *(self.moved(i, sides) if self.way == "Motion" else ()),
        )  # fmt: skip

    def convolved(self, name: str, inputs: int, outputs: int, sides: Sides) -> Modules:
        """Residual convolutions of every frame, and over frames."""
        frame = self.residual.block(name, inputs, outputs, sides.positions)
        if self.way == "Motion":
            return frame
        if self.way == "SpatioTemporal":
            over = replace(self.residual, taps=3).block(f"{name}_frames", outputs, outputs, sides.positions)
            return (
                *_each_frame(frame, sides),
                *_each_frame(over, sides),
                Learned(name=f"{name}_mix", width=1, applied=False),
            )
        over = tuple(
            m for j in range(4) for m in at(sides.positions, (
                group_norm(f"{name}_time_{j}_norm", outputs), function(f"{name}_time_{j}_act", outputs),
                convolution(f"{name}_time_{j}", outputs, outputs, 3),
            ))
        )  # fmt: skip
        return (*_each_frame(frame, sides), *over)

    def attended(self, i: int, sides: Sides) -> Modules:
        """Attention of each frame to itself and the prompt, and of each place over frames."""
        width, place, frames = self.channels[i], sides.height * sides.width, sides.frames
        still = Transformer(heads=self.heads[i], blocks=self.blocks[i], text=self.text, read=self.read[i])
        if self.way == "Motion":
            return still.over("text", width, place, runs=frames)
        if self.way == "3D":
            return (
                *still.over("text", width, place, runs=frames),
                *replace(still, twice=True, read=None).over("time", width, frames, runs=place),
            )  # fmt: skip
        return self._mixed(still, i, sides)

    def _mixed(self, still: Transformer, i: int, sides: Sides) -> Modules:
        width, place, frames = self.channels[i], sides.height * sides.width, sides.frames
        moving: list[Module] = []
        for j in range(self.blocks[i]):
            block = replace(still, blocks=1).over(f"time_{j}", width, frames, runs=place)[2:-2]
            first = (
                layer_norm("norm_in", width),
                *feed_forward("in", width, 4 * width, "geglu"),
                Add(name="in", width=width),
            )
            moving += [*(replace(m, name=f"time_{j}_{m.name}") for m in at(frames, first, place)), *block]
        return (
            *still.over("text", width, place, runs=frames),
            *moving,
            *at(1, two_products("frame", width, 4 * width, width), frames),
            Learned(name="time_mix", width=1, applied=False),
        )

    def moved(self, i: int, sides: Sides) -> Modules:
        """A motion module: attention of each place over frames (arXiv:2307.04725)."""
        place, width = sides.height * sides.width, self.channels[i]
        return Transformer(heads=self.moving, blocks=self.deep, text=0, read=None, twice=self.again).over(
            "motion", width, sides.frames, runs=place
        )

    def between(self, sides: Sides, attention: bool = True) -> list[Block]:
        """The blocks of the lowest resolution."""
        i, width = len(self.channels) - 1, self.channels[-1]
        first, last = (self.convolved(name, width, width, sides) for name in ("first", "last"))
        moved = self.moved(i, sides) if self.way == "Motion" and attention else ()
        return [Block("middle", (*first, *self.attended(i, sides), *moved, *last))]


def _each_frame(modules: Modules, sides: Sides) -> Modules:
    """The modules with a time step for every frame."""
    return tuple(replace(m, runs=sides.frames) if m.positions == 1 else m for m in modules)


FILMS = {
    "UNet3DConditionModel": "3D", "I2VGenXLUNet": "3D", "UNetMotionModel": "Motion",
    "UNetSpatioTemporalConditionModel": "SpatioTemporal",
}  # fmt: skip


@complete(*FILMS)
def unet_of_video(c: Config) -> Model:
    """U-Nets over videos: ModelScope's, I2VGen-XL, AnimateDiff, Stable Video Diffusion."""
    way = FILMS[c.kind]
    down = [*[f"CrossAttnDownBlock{way}"] * 3, f"DownBlock{way}"]
    kinds = kinds_of(c, "down_block_types", (down[0], down[-1]), down)
    up = [f"UpBlock{way}", *[f"CrossAttnUpBlock{way}"] * 3]
    ups = kinds_of(c, "up_block_types", (up[0], up[-1]), up)
    widths = (
        c.per_layer_size("block_out_channels", len(kinds), 1)
        if "block_out_channels" in c.raw
        else [320, 640, 1280, 1280]
    )
    frames, text, count, first = c.size("num_frames", 16), prompt(c, 77), len(kinds), widths[0]
    side = c.size("sample_size", 32)
    sides = Sides(*latents(c, side=side, frames=frames))
    time = 4 * first
    key = "attention_head_dim" if way == "3D" else "num_attention_heads"
    default = {"3D": 64, "Motion": 8}.get(way)
    heads = per_stage(c, key, count, default) if default else [5, 10, 20, 20]
    if way == "SpatioTemporal" and c.has(key):
        heads = per_stage(c, key, count, 8)
    for name in (
        "time_cond_proj_dim", "encoder_hid_dim", "reverse_transformer_layers_per_block", "addition_embed_type",
        "reverse_temporal_transformer_layers_per_block", "transformer_layers_per_mid_block",
    ):  # fmt: skip
        if c.has(name):
            raise c.error(name, "null (others are not covered yet)")
    deep = c.size("temporal_transformer_layers_per_block", 1)
    if c.size("temporal_transformer_layers_per_mid_block", 1) != deep or c.size("mid_block_layers", 1) != 1:
        raise c.error("mid_block_layers", "1, and as many temporal layers as in other blocks")
    c.mark_read(
        *UNREAD, "act_fn", "num_frames", "motion_max_seq_length", "use_linear_projection", "time_cond_proj_dim",
        "encoder_hid_dim", "encoder_hid_dim_type", "reverse_transformer_layers_per_block", "addition_embed_type",
        "reverse_temporal_transformer_layers_per_block", "temporal_transformer_layers_per_block",
        "transformer_layers_per_mid_block", "temporal_transformer_layers_per_mid_block", "mid_block_layers",
        "reverse_motion_num_attention_heads", "num_attention_heads",
    )  # fmt: skip
    s = FilmLevels(
        channels=widths,
        layers=per_stage(c, "layers_per_block", count, 2),
        down=kinds,
        up=ups,
        middle="",
        heads=heads,
        blocks=per_stage(c, "transformer_layers_per_block", count, 1),
        read=per_stage(c, "cross_attention_dim", count, 1280 if way == "Motion" else 1024),
        only=[False] * count,
        text=text,
        residual=Residual(time=time),
        way=way,
        moving=c.size("motion_num_attention_heads", 8),
        deep=deep,
    )
    falls, kept = s.falling(sides)
    channels = c.size("in_channels", 8 if way == "SpatioTemporal" else 4)
    pair = c.kind == "I2VGenXLUNet"
    before = (
        *at(sides.positions, (convolution("conv_in", channels * (2 if pair else 1), first),)),
        *at_one(two_products("time", first, time, time)),
    )  # fmt: skip
    if way == "3D":
        head = heads[0]
        s8 = replace(Transformer(heads=8, blocks=1, text=0, read=None, twice=True).stream(8 * head), head=head)
        own = (
            layer_norm("in_norm1", 8 * head),
            product("in_qkv_proj", 8 * head, 24 * head, False),
            *s8.attention("in_"),
            *s8.output("in_", gated=False),
        )
        again = tuple(replace(m, name=f"again_{m.name}") for m in own)
        before += at(sides.frames, (
            group_norm("in_norm", first), product("in_proj", first, 8 * head), *own, *again,
            *(replace(m, name=f"in_{m.name}") for m in s8.fed(gated=False)), product("in_out", 8 * head, first),
        ), sides.height * sides.width)  # fmt: skip
    if way == "SpatioTemporal":
        before += at_one(two_products("added", c.size("projection_class_embeddings_input_dim", 768), time, time))
    if pair:
        before += _seen_image(c, channels, s.read[0], first, time, sides)
    moved = c.flag("use_motion_mid_block", True)
    blocks = [*falls, *s.between(kept[-1][1], moved), *s.rising(kept)]
    after = (
        function("final_act", first),
        group_norm("final_norm", first),
        convolution("conv_out", first, c.size("out_channels", 4)),
    )
    return _model(c, first, blocks, before, after, sides)


def _seen_image(c: Config, channels: int, read: int, first: int, time: int, sides: Sides) -> Modules:
    """What I2VGen-XL makes of the image that it begins with."""
    wide, place = 4 * channels, sides.height * sides.width
    small = 2 * channels
    c.mark_read("num_attention_heads")
    return (
        *at(
            sides.positions,
            (
                convolution("seen_1", channels, wide),
                convolution("seen_2", wide, wide),
                convolution("seen_3", wide, channels),
            ),
        ),
        *at(
            sides.frames,
            (
                layer_norm("seen_norm", channels),
                product("seen_qkv_proj", channels, 3 * small, False),
                Attention(
                    name="seen_attention", heads=2, kv_heads=2, head_dim=channels, v_head_dim=channels, causal=False
                ),
                product("seen_o_proj", small, channels),
                *feed_forward("seen_ffn", channels, 4 * channels, "gelu"),
            ),
            place,
        ),
        *at(place, (convolution("view_1", channels, 8 * channels),)),
        *at(32 * 32, (convolution("view_2", 8 * channels, 16 * channels),)),
        *at(16 * 16, (convolution("view_3", 16 * channels, read),)),
        *at_one((*two_products("context", read, time, 4 * read), *two_products("rate", first, time, time))),
    )


@complete("SparseControlNetModel")
def sparse_control_net(c: Config) -> Model:
    """SparseCtrl (arXiv:2311.16933): the falling half of AnimateDiff's U-Net, with a few frames as condition."""
    down = [*["CrossAttnDownBlockMotion"] * 3, "DownBlockMotion"]
    kinds = kinds_of(c, "down_block_types", (down[0], down[-1]), down)
    own = [320, 640, 1280, 1280]
    widths = c.per_layer_size("block_out_channels", len(kinds), 1) if "block_out_channels" in c.raw else own
    count, text, first = len(kinds), prompt(c, 77), widths[0]
    sides = Sides(*latents(c, side=64, frames=16))
    time = 4 * first
    if not c.flag("use_simplified_condition_embedding", True) or c.has("transformer_layers_per_mid_block"):
        raise c.error("use_simplified_condition_embedding", "true, without transformer_layers_per_mid_block")
    c.text("resnet_time_scale_shift", "default", ["default"])
    c.mark_read(
        *UNREAD, "act_fn", "motion_max_seq_length", "use_linear_projection", "transformer_layers_per_mid_block",
        "conditioning_embedding_out_channels", "only_cross_attention", "block_out_channels",
    )  # fmt: skip
    s = FilmLevels(
        channels=widths,
        layers=per_stage(c, "layers_per_block", count, 2),
        down=kinds,
        up=[],
        middle="",
        heads=per_stage(c, "attention_head_dim", count, 8),
        blocks=per_stage(c, "transformer_layers_per_block", count, 1),
        read=per_stage(c, "cross_attention_dim", count, 768),
        only=[False] * count,
        text=text,
        residual=Residual(time=time),
        way="Motion",
        again=False,
        moving=c.size("motion_num_attention_heads", 8),
        deep=c.size("temporal_transformer_layers_per_block", 1),
    )
    falls, kept = s.falling(sides)
    seen = c.size("conditioning_channels", 4) + c.flag("concat_conditioning_mask", True)
    embedding = (
        *at(sides.positions, (
            convolution("conv_in", c.size("in_channels", 4), first), convolution("seen", seen, first),
        )),
        *at_one(two_products("time", first, time, time)),
    )  # fmt: skip
    outputs: list[Module] = []
    for i, (width, where) in enumerate((*kept, (widths[-1], kept[-1][1]))):
        outputs += at(where.positions, (convolution(f"left_{i}", width, width, 1),))
    model = _model(c, first, [*falls, *s.between(kept[-1][1], False)], embedding, (), sides)
    return replace(model, head=tuple(outputs))
