"""Vision transformers in shifted windows: Swin, Swin v2, and their variants."""

from __future__ import annotations

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, patch_embedding
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
    over,
    pixels,
    same_length,
    sees_all,
    stage_names,
    stage_sizes,
    stages_out,
)
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Learned, Linear, Modules

CLASSIFIES, MASKED = "ForImageClassification", "ForMaskedImageModeling"


def swin_sight(c: Config, *, second: bool = False, clamped: bool = True, masks: int = 0) -> Sight:
    """Swin (arXiv:2103.14030): windows of attention over a grid that halves with every stage.

    `second`: v2 (arXiv:2111.09883), with norms behind sublayers and positions from a small network. `clamped`: a
    window is no larger than the grid; otherwise the grid is padded.
    """
    (height, width), patch, own = pixels(c), both_sides(c, "patch_size"), both_sides(c, IMAGE)
    depths, heads, wide = stage_sizes(c, "depths", least=0), stage_sizes(c, "num_heads"), c.size("embed_dim")
    same_length(c, "num_heads", depths, heads)
    act, bias, window = activation(c, default="gelu"), c.flag("qkv_bias", True), c.size("window_size")
    c.mark_read("pretrained_window_sizes", "encoder_stride", "hidden_size", "num_layers", "path_norm")
    kept = (own[0] // patch[0]) * (own[1] // patch[1]) + (c.kind in ("swinv2", "maskformer-swin"))
    x = Map(wide, -(-height // patch[0]), -(-width // patch[1]))
    front = at(x.positions, (
        patch_embedding("patch_embedding", c.size("num_channels", 3), patch[0] * patch[1], wide),
        layer_norm("patch_norm", wide),
        *((Learned(name="mask_token", width=wide, applied=False, idle=True),) if masks else ()),
        *((Learned(name="position_embedding", width=wide, rows=kept),) if c.flag("use_absolute_embeddings") else ()),
    ))  # fmt: skip
    blocks: list[Block] = []
    maps = [x]
    for i, (depth, head) in enumerate(zip(depths, heads, strict=True)):
        d = Dims(depth, x.channels, head, head, x.channels // head)
        grid = min(own[0] // patch[0] >> i, own[1] // patch[1] >> i) if second else min(x.rows, x.columns)
        side = min(window, grid) if clamped else window
        mixer = _second(d, side, bias) if second else _first(d, window, bias)
        runs = -(-x.rows // side) * -(-x.columns // side)
        inside = at(side * side, (m for m in mixer if m.positions is None), runs)
        ffn = mlp(d.width, inner_width(c, d.width), act, gated=False, bias=True)
        apart = tuple(m for m in mixer if m.positions is not None)
        block = layer(
            f"stage{i + 1}", d.width, (*apart, *inside), ffn, norm=layer_norm, before=not second, after=second
        )
        blocks += [over(x.positions, block)] * depth
        maps.append(x)
        if i + 1 < len(depths):
            y = Map(2 * x.channels, -(-x.rows // 2), -(-x.columns // 2))
            reduce = Linear(name="merge", inputs=4 * x.channels, outputs=y.channels)
            norm = layer_norm("merge_norm", y.channels if second else 4 * x.channels)
            blocks.append(Block(f"merge{i + 1}", at(y.positions, (reduce, norm) if second else (norm, reduce))))
            x = y
    return Sight(front, tuple(blocks), x.channels, x.rows, x.columns, maps=tuple(maps))


def _first(d: Dims, window: int, bias: bool) -> Modules:
    """Attention with a learned bias for each distance in a window."""
    table = Learned(name="relative_positions", width=d.heads, rows=(2 * window - 1) ** 2, applied=False)
    return (table, *sees_all(d, (bias, bias, bias)))


def _second(d: Dims, window: int, bias: bool) -> Modules:
    """Attention of cosines, with a bias for each distance from a small network, computed once a layer."""
    rows = (2 * window - 1) ** 2
    network = at(rows, (
        Linear(name="position_up_proj", inputs=2, outputs=512, bias=True, part="other"),
        Activation(name="position_act", width=512, function="relu", gated=False),
        Linear(name="position_down_proj", inputs=512, outputs=d.heads, part="other"),
    ))  # fmt: skip
    return (*network, Learned(name="logit_scale", width=d.heads, applied=False), *sees_all(d, (bias, False, bias)))


def map_norms(c: Config, sight: Sight, every: bool = False) -> Modules:
    """Norms of the feature maps that a backbone gives, or of `every` stage."""
    names = stage_names(sight.maps[1:])
    given = range(1, len(names)) if every else stages_out(c, names)
    return tuple(
        m for i in given for m in at(sight.maps[i].positions, (layer_norm(f"map_norm{i}", sight.maps[i].channels),))
    )


def swin_last_norm(sight: Sight) -> Modules:
    """The norm of the last map."""
    return at(sight.positions, (layer_norm("final_norm", sight.width),))


@complete("swin", "swinv2", "donut-swin")
def swin(c: Config) -> Model:
    """Swin, Swin v2, and the Swin of Donut."""
    task = head_of(c, CLASSIFIES, MASKED, "Backbone")
    second = c.kind == "swinv2"
    sight = swin_sight(c, second=second, clamped=second or task != "Backbone", masks=int(task == MASKED))
    if task == "Backbone":
        return image_model(c, sight, () if second else (*swin_last_norm(sight), *map_norms(c, sight)))
    norm = () if c.kind == "donut-swin" else swin_last_norm(sight)
    if task == MASKED:
        outputs = c.size("encoder_stride", 32) ** 2 * c.size("num_channels", 3)
        decoder = Linear(name="decoder", inputs=sight.width, outputs=outputs, bias=True, part="head")
        return image_model(c, sight, (*norm, *at(sight.positions, (decoder,))))
    return image_model(c, sight, (*norm, *(classifier(c, sight.width) if task else ())))


@complete("maskformer-swin")
def maskformer_swin(c: Config) -> Model:
    """The Swin of MaskFormer: norms of the maps of all stages."""
    task, sight = head_of(c, "Backbone"), swin_sight(c, clamped=False)
    return image_model(c, sight, (*swin_last_norm(sight), *(map_norms(c, sight, every=True) if task else ())))
