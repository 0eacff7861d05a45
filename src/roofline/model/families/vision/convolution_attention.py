"""Pyramids between convolution and attention: FocalNet, CvT, SwiftFormer; TextNet, which is of convolutions alone."""

from __future__ import annotations

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import chain, conv, in_groups
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    both_sides,
    classifier,
    head_of,
    image_model,
    inner_width,
    layer_scaled,
    over,
    same_length,
    stage_sizes,
)
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.registry import complete
from roofline.model.families.vision.convnets import BACKBONE, CLASSIFIES, image_map, network
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Gate, Learned, Linear, Modules

MASKED = "ForMaskedImageModeling"


# -- FocalNet ------------------------------------------------------------------------------------------------------
def _patches(c: Config, x: Map, width: int, patch: tuple[int, int], stem: bool) -> tuple[Modules, Map]:
    """Patches of a map, which is padded to whole ones, or convolutions that overlap; and a norm."""
    if c.flag("use_conv_embed"):
        step = conv("patches", width, 7 if stem else 3, 4 if stem else 2, bias=True, padding=2 if stem else 1)
        return chain(x, step)
    whole = Map(x.channels, -(-x.rows // patch[0]) * patch[0], -(-x.columns // patch[1]) * patch[1])
    return chain(whole, conv("patches", width, patch, patch, bias=True, padding="valid"))


def _modulates(c: Config, x: Map, window: int, levels: int) -> Modules:
    """Focal modulation: each position is multiplied by what convolutions of growing kernels gather around it."""
    width = x.channels
    mixed: Modules = at(x.positions, (Linear(name="in_proj", inputs=width, outputs=2 * width + levels + 1, bias=True),))
    for k in range(levels):
        mixed += chain(x, in_groups(conv(f"focal{k}", width, 2 * k + window, norm=None, act="gelu")))[0]
    mixed += chain(x, conv("context", width, 1, bias=True, norm=None))[0]
    norm = (layer_norm("modulator_norm", width),) if c.flag("use_post_layernorm_in_modulation") else ()
    return (*mixed, *at(x.positions, (
        Gate(name="modulator", width=width, gates=width, sigmoid=False), *norm,
        Linear(name="o_proj", inputs=width, outputs=width, bias=True),
    )))  # fmt: skip


def focalnet_sight(c: Config, masks: int = 0) -> Sight:
    """FocalNet (arXiv:2203.11926): a pyramid of focal modulation."""
    act, width, scale = activation(c, default="gelu"), c.size("embed_dim", 96), c.flag("use_layerscale")
    depths, levels, windows = (stage_sizes(c, key) for key in ("depths", "focal_levels", "focal_windows"))
    same_length(c, "depths", depths, levels, windows)
    front, x = _patches(c, image_map(c), width, both_sides(c, "patch_size", 4), True)
    token = (Learned(name="mask_token", width=width, applied=False, idle=True),) if masks else ()
    blocks, maps, after = [], [x], c.flag("use_post_layernorm")
    for i, (depth, level, window) in enumerate(zip(depths, levels, windows, strict=True)):
        ffn = mlp(x.channels, inner_width(c, x.channels), act, gated=False, bias=True)
        mixer = layer_scaled("attn_scale", _modulates(c, x, window, level), x.channels, scale)
        fed = layer_scaled("ffn_scale", ffn, x.channels, scale)
        block = layer("focal", x.channels, mixer, fed, norm=layer_norm, before=not after, after=after)
        blocks += [over(x.positions, block)] * depth
        if i + 1 < len(depths):
            modules, x = _patches(c, x, 2 * x.channels, (2, 2), False)
            blocks.append(Block("down", modules))
        maps.append(x)
    blocks.append(Block("norm", at(x.positions, (layer_norm("final_norm", x.channels),))))
    c.mark_read("hidden_sizes", "normalize_modulator", "layerscale_value", "encoder_stride", "drop_path_rate")
    return network((*front, *at(x.positions, token)), blocks, maps)


@complete("focalnet")
def focalnet(c: Config) -> Model:
    """FocalNet (arXiv:2203.11926)."""
    task = head_of(c, CLASSIFIES, MASKED, BACKBONE)
    sight = focalnet_sight(c, int(task == MASKED))
    c.mark_read("out_features", "out_indices", "stage_names")
    if task == MASKED:
        pixels_of = c.size("encoder_stride", 32) ** 2 * c.size("num_channels", 3)
        step = conv("decoder", pixels_of, 1, bias=True, norm=None)
        return image_model(c, sight, chain(sight.maps[-1], step)[0])
    return image_model(c, sight, classifier(c, sight.width) if task == CLASSIFIES else ())


# -- CvT -----------------------------------------------------------------------------------------------------------
@complete("cvt")
def cvt(c: Config) -> Model:
    """CvT (arXiv:2103.15808): convolutions in front of queries, keys and values, and between stages."""
    task = head_of(c, CLASSIFIES)
    keys = (
        "embed_dim", "depth", "num_heads", "patch_sizes", "patch_stride", "kernel_qkv", "stride_q", "stride_kv",
    )  # fmt: skip
    lists = [stage_sizes(c, key) for key in keys]
    pads = [stage_sizes(c, key, 0) for key in ("patch_padding", "padding_q", "padding_kv")]
    same_length(c, "embed_dim", *lists, *pads)
    ratios, biases, tokens = (c.value(key)[1] for key in ("mlp_ratio", "qkv_bias", "cls_token"))
    lists_of = (list, tuple)
    if not (isinstance(ratios, lists_of) and isinstance(biases, lists_of) and isinstance(tokens, lists_of)):
        raise c.error("mlp_ratio", "a list with one number for each stage, as qkv_bias and cls_token")
    x, blocks, extra = image_map(c), list[Block](), 0
    for i, (width, depth, heads, patch, step, kernel, down_q, down_kv) in enumerate(zip(*lists, strict=True)):
        first, x = chain(x, conv("patches", width, patch, step, bias=True, padding=pads[0][i]))
        extra, bias, ratio = int(bool(tokens[i])), bool(biases[i]), ratios[i]
        token = (Learned(name="class_token", width=lists[0][-1], applied=False),) if extra else ()
        blocks.append(Block("patches", (*first, *at(1, token))))
        n = x.positions + extra

        def before(name: str, stride: int, padding: int, x: Map = x, kernel: int = kernel) -> tuple[Modules, int]:
            built, y = chain(x, in_groups(conv(f"{name}_conv", x.channels, kernel, stride, padding=padding)))
            return built, y.positions

        (q, nq), (k, nk) = before("q", down_q, pads[1][i]), before("k", down_kv, pads[2][i])
        v, _ = before("v", down_kv, pads[2][i])
        mixer = (
            *q, *k, *v, *at(nq + extra, (column_product("q_proj", width, width, bias),)),
            *at(nk + extra, (
                column_product("k_proj", width, width, bias, kv=width, kv_groups=heads),
                column_product("v_proj", width, width, bias, kv=width, kv_groups=heads),
            )),
            *at(nq + extra, (
                Attention(
                    name="attention", heads=heads, kv_heads=heads, head_dim=width // heads,
                    v_head_dim=width // heads, causal=False, keys=nk + extra,
                ),
                row_product("o_proj", width, width, True),
            )),
        )  # fmt: skip
        inner = int(width * ratio) if isinstance(ratio, (int, float)) else 4 * width
        ffn = mlp(width, inner, "gelu", gated=False, bias=True)
        blocks += [over(n, layer("dense", width, mixer, ffn, norm=layer_norm))] * depth
    sight = network((), blocks, [x])
    c.mark_read("drop_rate", "drop_path_rate", "attention_drop_rate", "qkv_projection_method")
    norm = at(1 if extra else x.positions, (layer_norm("final_norm", x.channels),))
    return image_model(c, sight, (*norm, *classifier(c, x.channels)) if task else ())


# -- TextNet -------------------------------------------------------------------------------------------------------
def _beside(x: Map, width: int, kernel: tuple[int, int], stride: int) -> tuple[Modules, Map]:
    """Convolutions of a kernel, of its height and of its width side by side, and a norm of the input."""
    modules, y = chain(x, conv("main", width, kernel, stride))
    if kernel[1] != 1:
        modules += chain(x, conv("vertical", width, (kernel[0], 1), stride))[0]
    if kernel[0] != 1:
        modules += chain(x, conv("horizontal", width, (1, kernel[1]), stride))[0]
    if width == x.channels and stride == 1:
        modules += at(x.positions, (layer_norm("identity", width),))
    act = Activation(name="act", width=width, function="relu", gated=False)
    return (*modules, *at(y.positions, (Add(name="sum", width=width), act))), y


@complete("textnet")
def textnet(c: Config) -> Model:
    """TextNet (arXiv:2111.02394): long and flat kernels, which can be merged."""
    task, act = head_of(c, CLASSIFIES, BACKBONE), activation(c, "stem_act_func", "relu")
    kernels, strides = c.value("conv_layer_kernel_sizes")[1], c.value("conv_layer_strides")[1]
    widths = stage_sizes(c, "hidden_sizes")
    if not isinstance(kernels, (list, tuple)) or not isinstance(strides, (list, tuple)):
        raise c.error("conv_layer_kernel_sizes", "a list of kernels for each stage, with one of strides")
    side = c.size("stem_kernel_size", 3)
    image = image_map(c, 640)
    start = Map(c.size("stem_num_channels", 3), image.rows, image.columns)
    front, x = chain(start, conv("stem", c.size("stem_out_channels", 64), side, c.size("stem_stride", 2), act=act))
    blocks, maps = list[Block](), [x]
    for i, (several, steps) in enumerate(zip(kernels, strides, strict=True)):
        if not isinstance(several, (list, tuple)) or not isinstance(steps, (list, tuple)):
            raise c.error("conv_layer_kernel_sizes", "a list of kernels for each stage, with one of strides")
        for kernel, stride in zip(several, steps, strict=True):
            both = tuple(kernel) if isinstance(kernel, (list, tuple)) else (kernel, kernel)
            if len(both) != 2 or not isinstance(stride, int) or any(type(v) is not int or v < 1 for v in both):
                raise c.error("conv_layer_kernel_sizes", "kernels of two sides")
            modules, x = _beside(x, widths[i + 1], (both[0], both[1]), stride)
            blocks.append(Block(f"stage{i + 1}", modules))
        maps.append(x)
    c.mark_read("depths", "out_features", "out_indices", "stage_names", "batch_norm_eps", "image_size", "num_channels")
    return image_model(c, network(front, blocks, maps), classifier(c, x.channels) if task == CLASSIFIES else ())


# -- SwiftFormer ---------------------------------------------------------------------------------------------------
def _convolves(x: Map, inner: int, name: str) -> Modules:
    """A convolution of each channel and two products, added to the input after a scale."""
    built, _ = chain(
        x, in_groups(conv(f"{name}_depthwise", x.channels, bias=True)),
        conv(f"{name}1", inner, 1, bias=True, norm=None, act="gelu"),
        conv(f"{name}2", x.channels, 1, bias=True, norm=None),
    )  # fmt: skip
    scale = Learned(name=f"{name}_scale", width=x.channels)
    return (*built, *at(x.positions, (scale, Add(name=f"{name}_sum", width=x.channels))))


@complete("swiftformer")
def swiftformer(c: Config) -> Model:
    """SwiftFormer (arXiv:2303.15446): attention by one query for all positions, in the last layer of each stage."""
    task, act = head_of(c, CLASSIFIES), activation(c, default="gelu")
    widths, depths = stage_sizes(c, "embed_dims"), stage_sizes(c, "depths")
    same_length(c, "embed_dims", widths, depths)
    scaled, downs = c.flag("use_layer_scale", True), c.value("downsamples", [True] * len(depths))[1]
    kernel, stride, pad = c.size("down_patch_size", 3), c.size("down_stride", 2), c.size("down_pad", 1, least=0)
    first = conv("stem1", widths[0] // 2, 3, 2, bias=True, act="relu")
    front, x = chain(image_map(c), first, conv("stem2", widths[0], 3, 2, bias=True, act="relu"))
    blocks: list[Block] = []
    for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        inner = inner_width(c, width)
        blocks += [Block("convolution", _convolves(x, inner, "conv"))] * (depth - 1)
        sees = (
            Linear(name="q_proj", inputs=width, outputs=width, bias=True, part="attention"),
            Linear(name="k_proj", inputs=width, outputs=width, bias=True, part="attention"),
            Linear(name="query_weight", inputs=width, outputs=1, part="attention"),
            Gate(name="global", width=width, gates=width, sigmoid=False),
            Linear(name="proj", inputs=width, outputs=width, bias=True, part="attention"),
            Linear(name="o_proj", inputs=width, outputs=width, bias=True, part="attention"),
        )
        ffn = (layer_norm("ffn_norm", width), *mlp(width, inner, act, gated=False, bias=True))
        mixed = layer_scaled("attn_scale", (*sees, Add(name="attn_residual", width=width)), width, scaled)
        fed = layer_scaled("ffn_scale", (*ffn, Add(name="ffn_residual", width=width)), width, scaled)
        blocks.append(Block("attention", (*_convolves(x, width, "local"), *at(x.positions, (*mixed, *fed)))))
        if i + 1 < len(widths):
            asked = downs[i] if isinstance(downs, (list, tuple)) and i < len(downs) else True
            if asked or widths[i + 1] != width:
                modules, x = chain(x, conv("down", widths[i + 1], kernel, stride, bias=True, padding=pad))
                blocks.append(Block("down", modules))
    c.mark_read("drop_conv_encoder_rate", "drop_mlp_rate", "drop_path_rate", "layer_scale_init_value", "image_size")
    c.mark_read("batch_norm_eps")
    norm = at(x.positions, (layer_norm("final_norm", x.channels),))
    ends = (*classifier(c, x.channels), *classifier(c, x.channels, "distillation_classifier"))
    return image_model(c, network(front, blocks, [x]), (*norm, *ends) if task else ())
