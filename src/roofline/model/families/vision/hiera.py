"""Hiera: a pyramid of attention without convolutions."""

from __future__ import annotations

from math import prod

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one, patch_embedding
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.sight import (
    IMAGE,
    Map,
    Sight,
    both_sides,
    classifier,
    head_of,
    image_model,
    inner_width,
    pixels,
    same_length,
    stage_names,
    stage_sizes,
    stages_out,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.registry import complete
from roofline.model.families.vision.convnets import BACKBONE, CLASSIFIES
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Learned, Linear


def hiera_pyramid(c: Config) -> Sight:
    """Hiera (arXiv:2306.00989): stages whose first layer pools queries, early ones within units of a mask."""
    act, width, times = activation(c, default="gelu"), c.size("embed_dim", 96), c.number("embed_dim_multiplier", 2.0)
    depths, heads = stage_sizes(c, "depths"), stage_sizes(c, "num_heads")
    kernel, stride, padding = (
        both_sides(c, "patch_size"),
        both_sides(c, "patch_stride"),
        stage_sizes(c, "patch_padding", 0),
    )
    units = c.value("masked_unit_attention", [True, True, False, False])[1]
    masks = [bool(u) for u in units] if isinstance(units, (list, tuple)) else []
    same_length(c, "depths", depths, heads, masks)
    area, pooled = prod(stage_sizes(c, "masked_unit_size")), prod(stage_sizes(c, "query_stride"))
    own, (high, wide), pools = both_sides(c, IMAGE), pixels(c), c.size("num_query_pool", 3, least=0)
    rows = (high + 2 * padding[0] - kernel[0]) // stride[0] + 1
    columns = (wide + 2 * padding[-1] - kernel[1]) // stride[1] + 1
    n, side = rows * columns, stage_sizes(c, "query_stride")
    front = at(n, (
        patch_embedding("patch_embedding", c.size("num_channels", 3), kernel[0] * kernel[1], width),
        Learned(name="position_embedding", width=width, rows=own[0] // stride[0] * (own[1] // stride[1])),
    ))  # fmt: skip
    blocks: list[Block] = []
    maps, x = [Map(width, rows, columns)], width
    for i, (depth, attends) in enumerate(zip(depths, heads, strict=True)):
        out, window = int(width * times**i), area // pooled**i
        for j in range(depth):
            fewer = pooled if j == 0 and 0 < i <= pools else 1
            inside = masks[i] or (j == 0 and masks[max(i - 1, 0)])
            keys = fewer * window if inside else n
            blocks.append(_layer(c, (x, out), attends, (n, keys, fewer), act))
            if fewer > 1:
                n, rows, columns = n // fewer, rows // side[0], columns // side[-1]
            x = out
        maps.append(Map(x, rows, columns))
    c.mark_read("hidden_size", "mask_ratio", "decoder_depth", "decoder_hidden_size", "decoder_num_heads")
    c.mark_read("normalize_pixel_loss", "layer_norm_init", "drop_path_rate")
    return Sight(front, tuple(blocks), x, rows, columns, maps=tuple(maps))


def _layer(c: Config, widths: tuple[int, int], heads: int, sizes: tuple[int, int, int], act: str) -> Block:
    """A layer over `n` positions in windows of `keys`, each `fewer` of which become one query."""
    (width, out), (n, keys, fewer) = widths, sizes
    runs, head = max(1, n // keys), out // heads
    wider = Linear(name="shortcut", inputs=width, outputs=out, bias=True)
    ffn = mlp(out, inner_width(c, out), act, gated=False, bias=True)
    attention = Attention(
        name="attention", heads=heads, kv_heads=heads, head_dim=head, v_head_dim=head, causal=False, keys=keys
    )
    return Block("pooled" if fewer > 1 else "windowed" if runs > 1 else "full", (
        *at(n, (
            layer_norm("attn_norm", width), *((wider,) if width != out else ()),
            Linear(
                name="qkv_proj", inputs=width, outputs=3 * out, bias=True, part="attention", cut="columns", kv=2 * out,
                kv_groups=heads,
            ),
        )),
        *at(keys // fewer, (attention,), runs),
        *at(n // fewer, (
            Linear(name="o_proj", inputs=out, outputs=out, bias=True, part="attention", cut="rows"),
            Add(name="attn_residual", width=out), layer_norm("ffn_norm", out), *ffn,
            Add(name="ffn_residual", width=out),
        )),
    ))  # fmt: skip


@complete("hiera")
def hiera(c: Config) -> Model:
    """Hiera (arXiv:2306.00989)."""
    task, sight = head_of(c, CLASSIFIES, BACKBONE), hiera_pyramid(c)
    if task == BACKBONE:
        given = stages_out(c, stage_names(range(len(sight.maps) - 1)))
        norms = tuple(
            m for i in given for m in at(sight.maps[i].positions, (layer_norm(f"map{i}_norm", sight.maps[i].channels),))
        )
        return image_model(c, sight, norms)
    c.mark_read("out_features", "out_indices", "stage_names", "_out_features", "_out_indices")
    norm = at_one((layer_norm("pooled_norm", sight.width),))
    return image_model(c, sight, (*norm, *(classifier(c, sight.width) if task else ())))
