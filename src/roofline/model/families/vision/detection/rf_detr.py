"""RF-DETR and LW-DETR: vision transformers in windows, and queries that their maps propose."""

from __future__ import annotations

import math
from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, everywhere, transposed
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    TokensBeside,
    both_sides,
    head_of,
    image_model,
    indices,
    inner_width,
    not_used,
    over,
    patched,
    pixels,
    read_part,
    sees_all,
    stages_out,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import shown
from roofline.model.families.vision.detection.detr import DETECTS, heads_of, mark_costs, samples
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Learned, Linear, Modules


def windowed_dinov2(c: Config) -> tuple[Sight, int]:
    """DINOv2 whose patches and class tokens are in windows, which most layers see alone; and the number of its maps."""
    d, act = vision_dims(c), activation(c, default="gelu")
    (height, width), patch, side = pixels(c), both_sides(c, "patch_size"), c.size("num_windows", 4)
    rows, columns = height // patch[0], width // patch[1]
    alone, registers = set(indices(c, "window_block_indexes")), c.size("num_register_tokens", 0, least=0)
    tokens = (rows // side) * (columns // side) + 1 + registers
    runs = side * side
    n, bias = tokens * runs, c.flag("qkv_bias", True)
    inner, gated = inner_width(c, d.width), c.flag("use_swiglu_ffn")
    wide = (inner * 2 // 3 + 7) // 8 * 8
    ffn = mlp(d.width, wide, "silu", bias=True) if gated else mlp(d.width, inner, act, gated=False, bias=True)

    def block(i: int) -> Block:
        mixer = sees_all(d, (bias, bias, bias))
        inside = at(tokens, mixer, runs) if i in alone else mixer
        return over(n, vision_layer(d.width, inside, ffn, scale=True, name="windowed" if i in alone else "full"))

    sight = patched(
        c,
        d,
        [block(i) for i in range(d.layers)],
        TokensBeside(registers=registers, masks=int(c.flag("use_mask_token", True))),
        after=(layer_norm("final_norm", d.width),),
    )
    names = ["stem", *(f"stage{i + 1}" for i in range(d.layers))]
    return sight, len(stages_out(c, names))


@complete("rf_detr")
def rf_detr(c: Config) -> Model:
    """RF-DETR (arXiv:2511.09554): one group of the queries that training has."""
    task = head_of(c, DETECTS)
    sight, count = windowed_dinov2(read_part(shown(c, 560, 560), "backbone_config"))
    if c.size("num_feature_levels", 1) != 1:
        raise c.error("num_feature_levels", "1, as maps of other sizes are not covered")
    first, y = gathered(c, Map(count * sight.width, sight.rows, sight.columns))
    blocks, head = grouped_queries(c, y.positions, 1)
    c.mark_read(
        "mask_downsample_ratio", "mask_point_sample_ratio", "intermediate_size", "segmentation_head_activation_function"
    )
    return image_model(
        c, replace(sight, blocks=(*sight.blocks, Block("projector", first), *blocks)), head if task else ()
    )


def gathered(c: Config, x: Map, name: str = "") -> tuple[Modules, Map]:
    """A map from several side by side: a product whose halves and convolutions of one of them are gathered (C2f)."""
    act, width = activation(c, "activation_function", "silu"), c.size("d_model|hidden_size", 256)
    inner, blocks_of = int(width * c.number("hidden_expansion", 0.5)), c.size("c2f_num_blocks", 3)
    first, y = chain(x, conv(f"{name}project1", 2 * inner, 1, act=act))
    y = Map(inner, y.rows, y.columns)
    for i in range(blocks_of):
        built, _ = chain(y, conv(f"{name}rep{i}a", inner, act=act), conv(f"{name}rep{i}b", inner, act=act))
        first += built
    every = Map((2 + blocks_of) * inner, y.rows, y.columns)
    norm = everywhere(layer_norm(f"{name}project_norm", width))
    last, y = chain(every, conv(f"{name}project2", width, 1, act=act), norm)
    return (*first, *last), y


def grouped_queries(c: Config, n: int, levels: int) -> tuple[list[Block], Modules]:
    """The decoder of queries over `n` positions of so many maps, one group of those of training; and its heads."""
    width, queries, groups = c.size("d_model|hidden_size", 256), c.size("num_queries", 300), c.size("group_detr", 13)
    labels = label_count(c)
    boxes = heads_of("box", width, width, width, 4)
    proposes: Modules = (
        Linear(name="proposal", inputs=width, outputs=width, bias=True), layer_norm("proposal_norm", width),
        Linear(name="first_class", inputs=width, outputs=labels, bias=True, part="other"),
        *(replace(m, name=f"first_{m.name}") for m in boxes),
    )  # fmt: skip
    others = tuple(replace(m, name=f"group{i}_{m.name}") for i in range(1, groups) for m in not_used(proposes))
    tables = (
        Learned(name="places", width=4, rows=queries * groups, applied=False),
        Learned(name="queries", width=width, rows=queries * groups, applied=False),
    )
    heads, bias = c.size("decoder_self_attention_heads", 8), c.flag("attention_bias", True)
    d = Dims(c.size("decoder_layers", 3, most=MOST_LAYERS), width, heads, heads, width // heads)
    sampled = samples(
        width, c.size("decoder_cross_attention_heads", 16), levels * c.size("decoder_n_points", 4), n, "cross_"
    )
    ffn_act = activation(c, "decoder_activation_function", "relu")
    own = layer(
        "decoder", width, sees_all(d, (bias, bias, bias), out_bias=bias), norm=layer_norm, before=False, after=True
    )
    feeds = layer(
        "decoder",
        width,
        (),
        mlp(width, c.size("decoder_ffn_dim", 2048), ffn_act, gated=False, bias=True),
        norm=layer_norm,
        before=False,
        after=True,
    )
    cross = (*sampled, Add(name="cross_residual", width=width), layer_norm("cross_norm", width))
    finds = over(queries, Block("decoder", (*own.modules, *cross, *feeds.modules)))
    place = heads_of("place", 2 * width, width, width)
    blocks = [
        Block("queries", (*tables, *at(n, (*proposes, *others)), *at(queries, place))),
        *[finds] * d.layers,
        Block("decoder norm", at(queries, (layer_norm("decoder_norm", width),))),
    ]
    again = Linear(name="first_class", inputs=width, outputs=labels, tied=True, part="other")
    head = (Linear(name="class", inputs=width, outputs=labels, bias=True, part="other"), *boxes, again)
    mark_costs(c)
    return blocks, at(queries, head)


# -- LW-DETR -------------------------------------------------------------------------------------------------------
def windowed_vit(c: Config) -> tuple[Sight, int]:
    """A vision transformer in windows without tokens beside its patches; and the number of its maps."""
    d, act, bias = vision_dims(c), activation(c, default="gelu"), c.flag("qkv_bias", True)
    windows, alone = c.size("num_windows", 16), set(indices(c, "window_block_indices"))
    side = c.size("num_windows_side", math.isqrt(windows))
    (height, width), patch = pixels(c), both_sides(c, "patch_size")
    if (height // patch[0]) % side or (width // patch[1]) % side:
        raise c.error("num_windows_side", "a divisor of the rows and columns of patches")
    n = height // patch[0] * (width // patch[1])
    ffn = mlp(d.width, inner_width(c, d.width), act, gated=False, bias=True)

    def block(i: int) -> Block:
        mixer = sees_all(d, (bias, False, bias))
        inside = at(n // windows, mixer, windows) if i in alone else mixer
        return over(n, vision_layer(d.width, inside, ffn, scale=True, name="windowed" if i in alone else "full"))

    table = 1 if c.flag("use_absolute_position_embeddings", True) else -1
    tokens = TokensBeside(classes=0, table=table)
    sight = patched(trained_at(c, "pretrain_image_size", 224), d, [block(i) for i in range(d.layers)], tokens)
    c.mark_read("cae_init_values", "dropout_prob", "image_size", "pretrain_image_size")
    return sight, len(stages_out(c, ["stem", *(f"stage{i + 1}" for i in range(d.layers))]))


def trained_at(c: Config, key: str, default: int) -> Config:
    """The config with the size of an image under another key, and the size of the image that it reads now."""
    height, width = pixels(c)
    return shown(c.with_values(image_size=c.value(key, default)[1]), height, width)


@complete("lw_detr_vit")
def lw_detr_vit(c: Config) -> Model:
    """The vision transformer of LW-DETR."""
    head_of(c, "Backbone")
    return image_model(c, windowed_vit(c)[0])


@complete("lw_detr")
def lw_detr(c: Config) -> Model:
    """LW-DETR (arXiv:2406.03459): a vision transformer in windows whose maps become larger, smaller, or both."""
    task = head_of(c, DETECTS)
    part = read_part(shown(c, 640, 640), "backbone_config")
    sight, count = windowed_vit(part)
    factors = c.value("projector_scale_factors", [])[1]
    if not isinstance(factors, (list, tuple)) or not factors or any(f not in (0.5, 1, 2) for f in factors):
        raise c.error("projector_scale_factors", "a list of 0.5, 1 and 2")
    modules: Modules = ()
    positions: list[int] = []
    for i, factor in enumerate(factors):
        built, y = _scaled(c, Map(sight.width, sight.rows, sight.columns), float(factor), count, f"map{i}_")
        modules, positions = (*modules, *built), [*positions, y.positions]
    blocks, head = grouped_queries(c, sum(positions), len(factors))
    c.mark_read("num_feature_levels", "projector_in_channels", "projector_out_channels", "init_std", "batch_norm_eps")
    return image_model(
        c, replace(sight, blocks=(*sight.blocks, Block("projector", modules), *blocks)), head if task else ()
    )


def _scaled(c: Config, x: Map, factor: float, count: int, name: str) -> tuple[Modules, Map]:
    """A map from `count` maps of the transformer, each twice or half as large, or as it is."""
    modules: Modules = ()
    y = x
    for j in range(count):
        steps: tuple[MapStep, ...] = ()
        if factor == 2:
            shrinks = (conv(f"{name}{j}_half", x.channels // 2, 1, act="relu"),) if x.channels > 512 else ()
            wide = x.channels // 4 if shrinks else x.channels // 2
            steps = (*shrinks, transposed(f"{name}{j}_grow", wide, 2, 2))
        elif factor == 0.5:
            steps = (conv(f"{name}{j}_shrink", x.channels, 3, 2, act="relu"),)
        built, y = chain(x, *steps)
        modules += built
    last, z = gathered(c, Map(count * y.channels, y.rows, y.columns), name)
    return (*modules, *last), z
