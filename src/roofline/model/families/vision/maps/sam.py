"""Masks from prompts: SAM, SAM-HQ, SAM 2."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one, patch_embedding
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import chain, conv, everywhere, transposed
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    both_sides,
    head_of,
    image_model,
    indices,
    inner_width,
    looks_at,
    not_used,
    over,
    pixels,
    read_part,
    refused_head,
    sees_all,
    stage_sizes,
    vision_dims,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import shown
from roofline.model.families.vision.detection.detr import heads_of
from roofline.model.families.vision.vit import windowed_layer
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Learned, Linear, Modules


# -- images --------------------------------------------------------------------------------------------------------
def sam_sight(c: Config) -> Sight:
    """SAM's images (arXiv:2304.02643): windows in all but a few layers, a neck of two convolutions."""
    d, act = vision_dims(c), activation(c, default="gelu")
    (height, width), patch, own = pixels(c), c.size("patch_size", 16), both_sides(c, "image_size")
    grid, kept = (height // patch, width // patch), (own[0] // patch, own[1] // patch)
    full, window = set(indices(c, "global_attn_indexes")), c.size("window_size", 14, least=0)
    relative, n = c.flag("use_rel_pos", True), grid[0] * grid[1]
    inner: int | None = c.size("mlp_dim", None)
    ffn = mlp(d.width, inner or inner_width(c, d.width), act, gated=False, bias=True)
    c.mark_read("mlp_ratio", "num_pos_feats", "scale", "qkv_bias")
    stack = [
        windowed_layer(c, d, grid, 0 if i in full else window, ffn, own=kept, relative=relative)
        for i in range(d.layers)
    ]
    table = (
        (Learned(name="position_embedding", width=d.width, rows=kept[0] * kept[1]),)
        if c.flag("use_abs_pos", True)
        else ()
    )
    front = at(n, (patch_embedding("patch_embedding", c.size("num_channels", 3), patch * patch, d.width), *table))
    out = c.size("output_channels", 256)
    neck, x = chain(Map(d.width, *grid), conv("neck1", out, 1), conv("neck2", out, 3))
    return Sight(front, (*stack, Block("neck", neck)), out, *grid, maps=(Map(d.width, *grid), x))


@complete("sam_vision_model", "sam_hq_vision_model")
def sam_vision(c: Config) -> Model:
    """The images of SAM and SAM-HQ."""
    return image_model(c, sam_sight(c))


def hiera_sight(c: Config) -> Sight:
    """SAM 2's Hiera (arXiv:2306.00989, 2408.00714): windows, and queries pooled where a stage begins."""
    (height, width), kernel, stride = pixels(c), both_sides(c, "patch_kernel_size"), both_sides(c, "patch_stride")
    padding, pool = both_sides(c, "patch_padding"), both_sides(c, "query_stride")
    wide, act = c.size("hidden_size", 96), activation(c, default="gelu")
    ground = both_sides(c, "window_positional_embedding_background_size")
    lists = [
        stage_sizes(c, f"{key}_per_stage") for key in ("blocks", "embed_dim", "num_attention_heads", "window_size")
    ]
    full, pools = set(indices(c, "global_attention_blocks")), c.size("num_query_pool_stages", 3, least=0)
    c.mark_read("num_attention_heads")
    rows = (height + 2 * padding[0] - kernel[0]) // stride[0] + 1
    columns = (width + 2 * padding[1] - kernel[1]) // stride[1] + 1
    x = Map(wide, rows, columns)
    front = at(x.positions, (
        patch_embedding("patch_embedding", c.size("num_channels", 3), kernel[0] * kernel[1], wide),
        Learned(name="position_embedding", width=wide, rows=ground[0] * ground[1]),
        Learned(name="window_embedding", width=wide, rows=lists[3][0] ** 2),
    ))  # fmt: skip
    blocks: list[Block] = []
    maps: list[Map] = []
    for i, (depth, out, heads, window) in enumerate(zip(*lists, strict=True)):
        for j in range(depth):
            side = lists[3][i - 1] if i and j == 0 else window
            pooling = pool if 0 < i <= pools and j == 0 else None
            block, x = _pooled_layer(c, x, out, heads, 0 if len(blocks) in full else side, pooling, act)
            blocks.append(block)
        maps.append(x)
    return Sight(front, tuple(blocks), x.channels, x.rows, x.columns, maps=tuple(maps))


def _pooled_layer(
    c: Config, x: Map, out: int, heads: int, window: int, pool: tuple[int, int] | None, act: str
) -> tuple[Block, Map]:
    """A layer in windows of `window` positions a side, whose queries are pooled where a stage begins.

    The published code also multiplies the heads of each position with one another, without using the result.
    """
    y = Map(out, x.rows // pool[0], x.columns // pool[1]) if pool else Map(out, x.rows, x.columns)
    sides, runs = (x.rows, x.columns), 1
    if window:
        sides, runs = (window, window), -(-x.rows // window) * -(-x.columns // window)
    keys = sides[0] * sides[1]
    queries = (sides[0] // pool[0]) * (sides[1] // pool[1]) if pool else keys
    head = out // heads
    mixer = (
        *at(
            keys,
            (
                Linear(
                    name="qkv_proj",
                    inputs=x.channels,
                    outputs=3 * out,
                    bias=True,
                    part="attention",
                    cut="columns",
                    kv=2 * out,
                    kv_groups=heads,
                ),
                Linear(name="head_products", inputs=out, outputs=heads, tied=True, part="other"),
            ),
            runs,
        ),
        *at(
            queries,
            (
                Attention(
                    name="attention",
                    heads=heads,
                    kv_heads=heads,
                    head_dim=head,
                    v_head_dim=head,
                    causal=False,
                    keys=keys,
                ),
                Linear(name="o_proj", inputs=out, outputs=out, bias=True, part="attention", cut="rows"),
            ),
            runs,
        ),
    )
    shortcut = (
        at(x.positions, (Linear(name="shortcut", inputs=x.channels, outputs=out, bias=True),))
        if x.channels != out
        else ()
    )
    ffn = mlp(out, inner_width(c, out), act, gated=False, bias=True)
    return Block(
        "pooled" if pool else "windowed" if window else "full",
        (
            *at(x.positions, (layer_norm("attn_norm", x.channels),)),
            *shortcut,
            *mixer,
            *at(
                y.positions,
                (
                    Add(name="attn_residual", width=out),
                    layer_norm("ffn_norm", out),
                    *ffn,
                    Add(name="ffn_residual", width=out),
                ),
            ),
        ),
    ), y


def sam2_sight(c: Config) -> Sight:
    """SAM 2's images: Hiera and a product of each of its maps."""
    inside = hiera_sight(read_part(c, "backbone_config"))
    wide, kernel = c.size("fpn_hidden_size", 256), c.size("fpn_kernel_size", 1)
    stride, padding = c.size("fpn_stride", 1), c.size("fpn_padding", 0, least=0)
    count = c.size("num_feature_levels", 3)
    neck: Modules = ()
    maps: list[Map] = []
    for i, x in enumerate(inside.maps):
        step, y = chain(x, conv(f"neck{i}", wide, kernel, stride, bias=True, norm=None, padding=padding))
        neck, maps = (*neck, *step), [*maps, y]
    c.mark_read("backbone_channel_list", "backbone_feature_sizes", "fpn_top_down_levels", "hidden_act")
    last = maps[count - 1]
    return Sight(inside.front, (*inside.blocks, Block("neck", neck)), wide, last.rows, last.columns, maps=tuple(maps))


@complete("sam2_hiera_det_model")
def sam2_hiera(c: Config) -> Model:
    """The Hiera of SAM 2."""
    return image_model(c, hiera_sight(c))


@complete("sam2_vision_model")
def sam2_vision(c: Config) -> Model:
    """The images of SAM 2."""
    return image_model(c, sam2_sight(c))


# -- masks ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Masks:
    """Sizes of a decoder of masks: its stream, its tokens in all, and masks of them."""

    width: int
    tokens: int
    masks: int


def prompts(c: Config, count: int, table: bool) -> Modules:
    """Embeddings of points, boxes and a mask, of which a step without a prompt uses none."""
    width, inner = c.size("hidden_size", 256), c.size("mask_input_channels", 16)
    learned = c.size("num_point_embeddings", 4) + 2
    c.mark_read("image_embedding_size", "image_size", "patch_size", "hidden_act", "num_point_embeddings")
    places = (Learned(name="places", width=width // 2, rows=2, applied=False),) if table else ()
    mask, _ = chain(
        Map(1, 256, 256),
        conv("mask1", inner // 4, 2, 2, bias=True, padding=0),
        conv("mask2", inner, 2, 2, bias=True, padding=0),
        conv("mask3", width, 1, bias=True, norm=None),
    )
    point = (
        at(count, (Linear(name="point_places", inputs=2, outputs=width // 2, tied=True, part="other"),))
        if count
        else ()
    )
    return (*places, Learned(name="prompts", width=width, rows=learned, applied=False), *point, *not_used(mask))


def two_ways(c: Config, x: Map, tokens: int) -> list[Block]:
    """TokensBeside and image attend to each other (arXiv:2304.02643, appendix A)."""
    width, heads, act = c.size("hidden_size", 256), c.size("num_attention_heads", 8), activation(c, default="relu")
    layers, n = c.size("num_hidden_layers", 2), x.positions
    half = width // c.size("attention_downsample_rate", 2)
    d = Dims(layers, width, heads, heads, width // heads)
    ffn = mlp(width, c.size("mlp_dim", 2048), act, gated=False, bias=True)
    block = Block("two ways", (
        *at(tokens, (*sees_all(d), Add(name="residual", width=width), layer_norm("norm1", width))),
        *over(tokens, Block("", (
            *looks_at(d, n, inner=half), Add(name="cross_residual", width=width), layer_norm("norm2", width), *ffn,
            Add(name="ffn_residual", width=width), layer_norm("norm3", width),
        ))).modules,
        *over(n, Block("", (
            *looks_at(d, tokens, inner=half, prefix="image_"), Add(name="image_residual", width=width),
            layer_norm("norm4", width),
        ))).modules,
    ))  # fmt: skip
    last = over(tokens, Block("last", (
        *looks_at(d, n, inner=half), Add(name="cross_residual", width=width), layer_norm("last_norm", width),
    )))  # fmt: skip
    return [*[block] * layers, last]


def mask_head(c: Config, x: Map, masks: int, hypers: int) -> Modules:
    """Masks of four times the resolution: products of each token's vector with the enlarged image."""
    width, depth, wide = x.channels, c.size("iou_head_depth", 3), c.size("iou_head_hidden_dim", 256)
    up, y = chain(
        x,
        transposed("up1", width // 4, 2, 2),
        everywhere(layer_norm("up_norm", width // 4)),
        transposed("up2", width // 8, 2, 2),
    )
    vectors = tuple(m for i in range(hypers) for m in heads_of(f"mask{i}_", width, width, width, width // 8))
    quality = heads_of("quality", width, *[wide] * (depth - 1), masks)
    product = Linear(name="masks", inputs=width // 8, outputs=y.positions, tied=True, part="other")
    return (*up, *at_one((*vectors, *quality)), *at(hypers, (product,)))


def _image_places(x: Map) -> Modules:
    """Places of the image's positions, by random frequencies."""
    return at(x.positions, (Linear(name="image_places", inputs=2, outputs=x.channels // 2, tied=True, part="other"),))


def _tokens(width: int, rows: int) -> Learned:
    return Learned(name="tokens", width=width, rows=rows, applied=False)


@complete("sam", "sam_hq")
def sam(c: Config) -> Model:
    """SAM (arXiv:2304.02643) and SAM-HQ (arXiv:2306.01567), for an image without a prompt."""
    head_of(c)
    vision, decoder = read_part(shown(c, 1024, 1024), "vision_config"), read_part(c, "mask_decoder_config")
    sight, better = sam_sight(vision), c.kind == "sam_hq"
    x = Map(sight.width, sight.rows, sight.columns)
    count = decoder.size("num_multimask_outputs", 3) + 1
    tokens = 1 + count + better
    prompt = prompts(read_part(c, "prompt_encoder_config"), 0, table=True)
    width = x.channels
    more: Modules = ()
    if better:
        early, up = replace(x, channels=decoder.size("vit_dim", 768)), Map(width // 8, 4 * x.rows, 4 * x.columns)
        more = (
            *chain(
                x,
                transposed("encoder1", width // 4, 2, 2),
                everywhere(layer_norm("encoder_norm", width // 4)),
                transposed("encoder2", width // 8, 2, 2),
            )[0],
            *chain(
                early,
                transposed("early1", width, 2, 2),
                everywhere(layer_norm("early_norm", width)),
                transposed("early2", width // 8, 2, 2),
            )[0],
            *chain(up, conv("fine1", width // 4, 3, bias=True), conv("fine2", width // 8, 3, bias=True, norm=None))[0],
        )
    blocks = [
        Block("prompts", (*prompt, *_image_places(x), _tokens(width, tokens))),
        *two_ways(decoder, x, tokens),
        Block("masks", (*more, *mask_head(decoder, x, count, count + better))),
    ]
    c.mark_read("tie_word_embeddings")
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))


@complete("sam2", "sam2_video")
def sam2(c: Config) -> Model:
    """SAM 2 (arXiv:2408.00714), for an image without a prompt, which has an empty point."""
    if c.kind == "sam2_video":
        if c.architecture != "Sam2Model":
            raise refused_head(c, "Sam2Model, for the memory of earlier frames is not covered")
        c.mark_read(*c.raw)
    return masks_of(c, sam2_sight(read_part(shown(c, 1024, 1024), "vision_config")))


def masks_of(c: Config, sight: Sight) -> Model:
    """Masks of an image without a prompt, from maps of three sizes."""
    decoder = read_part(c, "mask_decoder_config")
    x = Map(sight.width, sight.rows, sight.columns)
    count, width = decoder.size("num_multimask_outputs", 3) + 1, x.channels
    own, points = 2 + count, 2
    prompt = prompts(read_part(c, "prompt_encoder_config"), points, table=False)
    fine = (
        *chain(sight.maps[0], conv("fine0", width // 8, 1, bias=True, norm=None))[0],
        *chain(sight.maps[1], conv("fine1", width // 4, 1, bias=True, norm=None))[0],
    )
    score = at_one(heads_of("object", width, width, width, 1))
    blocks = [
        Block("fine", (*fine, Learned(name="no_memory", width=width, applied=False))),
        Block("prompts", (*prompt, *_image_places(x), _tokens(width, own))), *two_ways(decoder, x, own + points),
        Block("masks", (*mask_head(decoder, x, count, count), *score)),
    ]  # fmt: skip
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))
