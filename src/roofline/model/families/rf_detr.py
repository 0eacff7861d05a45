"""RF-DETR: DINOv2 in windows, one map, and queries that the map proposes."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.config import MOST_LAYERS, Config
from roofline.model.families.backbones import shown
from roofline.model.families.blocks.convolutions import chain, conv, everywhere
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sight import (
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
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.detection import DETECTS, heads_of, mark_costs, samples
from roofline.model.families.registry import complete
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
    task, act = head_of(c, DETECTS), activation(c, "activation_function", "silu")
    sight, count = windowed_dinov2(read_part(shown(c, 560, 560), "backbone_config"))
    if c.size("num_feature_levels", 1) != 1:
        raise c.error("num_feature_levels", "1, as maps of other sizes are not covered")
    width, queries, groups = c.size("d_model", 256), c.size("num_queries", 300), c.size("group_detr", 13)
    inner, blocks_of = int(width * c.number("hidden_expansion", 0.5)), c.size("c2f_num_blocks", 3)
    x = Map(count * sight.width, sight.rows, sight.columns)
    first, y = chain(x, conv("project1", 2 * inner, 1, act=act))
    y = Map(inner, y.rows, y.columns)
    for i in range(blocks_of):
        built, _ = chain(y, conv(f"rep{i}a", inner, act=act), conv(f"rep{i}b", inner, act=act))
        first += built
    gathered = Map((2 + blocks_of) * inner, y.rows, y.columns)
    last, y = chain(gathered, conv("project2", width, 1, act=act), everywhere(layer_norm("project_norm", width)))
    n, labels = y.positions, label_count(c)
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
    sampled = samples(width, c.size("decoder_cross_attention_heads", 16), c.size("decoder_n_points", 4), n, "cross_")
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
        Block("projector", (*first, *last)),
        Block("queries", (*tables, *at(n, (*proposes, *others)), *at(queries, place))),
        *[finds] * d.layers,
        Block("decoder norm", at(queries, (layer_norm("decoder_norm", width),))),
    ]
    again = Linear(name="first_class", inputs=width, outputs=labels, tied=True, part="other")
    head = (Linear(name="class", inputs=width, outputs=labels, bias=True, part="other"), *boxes, again)
    mark_costs(c)
    c.mark_read(
        "mask_downsample_ratio", "mask_point_sample_ratio", "intermediate_size", "segmentation_head_activation_function"
    )
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)), at(queries, head) if task else ())
