"""LeViT: attention over a grid that shrinks, behind convolutions."""

from __future__ import annotations

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    classifier,
    head_of,
    image_model,
    same_length,
    stage_sizes,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.registry import complete
from roofline.model.families.vision.convnets import image_map
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Learned, Linear, Modules

CLASSIFIES, TEACHER = "ForImageClassification", "ForImageClassificationWithTeacher"


def _attends(x: Map, y: Map, key: int, heads: int, times: int, stride: int) -> Modules:
    """Attention with a bias for each distance; every `stride`-th position of a side asks, and makes `y`."""
    n, m, keys, values = x.positions, y.positions, key * heads, times * key * heads
    distances = len({abs(a * stride - b) for a in range(y.rows) for b in range(x.rows)}) ** 2
    core = Attention(
        name="attention", heads=heads, kv_heads=heads, head_dim=key, v_head_dim=times * key, causal=False, keys=n
    )  # fmt: skip
    return (
        *at(m, (column_product("q_proj", x.channels, keys), layer_norm("q_norm", keys))),
        *at(
            n,
            (
                column_product("kv_proj", x.channels, keys + values, kv=keys + values, kv_groups=heads),
                layer_norm("kv_norm", keys + values),
            ),
        ),
        *at(
            m,
            (
                Learned(name="distances", width=heads, rows=distances, applied=False),
                core,
                Activation(name="attention_act", width=values, function="hardswish", gated=False),
                row_product("o_proj", values, y.channels),
                layer_norm("o_norm", y.channels),
            ),
        ),
    )


def _feeds(x: Map, inner: int) -> Modules:
    wide = x.channels
    return at(x.positions, (
        Linear(name="up_proj", inputs=wide, outputs=inner, cut="columns"), layer_norm("up_norm", inner),
        Activation(name="act", width=inner, function="hardswish", gated=False),
        Linear(name="down_proj", inputs=inner, outputs=wide, cut="rows"), layer_norm("down_norm", wide),
        Add(name="ffn_residual", width=wide),
    ))  # fmt: skip


@complete("levit")
def levit(c: Config) -> Model:
    """LeViT (arXiv:2104.01136): BatchNorm behind every product, narrow keys, wide values."""
    task = head_of(c, TEACHER, CLASSIFIES)
    keys = ("hidden_sizes", "num_attention_heads", "depths", "key_dim", "mlp_ratio", "attention_ratio")
    lists = [stage_sizes(c, key, 0) for key in keys]
    same_length(c, "hidden_sizes", *lists)
    widths, kernel, stride = lists[0], c.size("kernel_size", 3), c.size("stride", 2)
    pad = c.size("padding", 1, least=0)
    c.mark_read("patch_size", "down_ops")
    steps: list[MapStep] = [
        conv(f"stem{i}", widths[0] // part, kernel, stride, padding=pad, act="hardswish" if part > 1 else "")
        for i, part in enumerate((8, 4, 2, 1))
    ]
    front, x = chain(image_map(c), *steps)
    blocks: list[Block] = []
    down = lists[3][0]
    for i, (wide, heads, depth, key, times, ratio) in enumerate(zip(*lists, strict=True)):
        for _ in range(depth):
            mixer = (*_attends(x, x, key, heads, ratio, 1), *at(x.positions, (Add(name="attn_residual", width=wide),)))
            blocks.append(Block(f"stage{i + 1}", (*mixer, *(_feeds(x, wide * times) if times else ()))))
        if i + 1 < len(widths) and i < 2:
            y = Map(widths[i + 1], (x.rows - 1) // 2 + 1, (x.columns - 1) // 2 + 1)
            shrinks = _attends(x, y, down, widths[i] // down, 4, 2)
            blocks.append(Block(f"down{i + 1}", (*shrinks, *_feeds(y, 2 * y.channels))))
            x = y
    sight = Sight(front, tuple(blocks), x.channels, x.rows, x.columns)
    head: Modules = ()
    for name in ("classifier", "distillation_classifier")[: 2 if task == TEACHER else bool(task)]:
        head += (*at_one((layer_norm(f"{name}_norm", x.channels),)), *classifier(c, x.channels, name))
    return image_model(c, sight, head)
