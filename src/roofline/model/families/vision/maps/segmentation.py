"""Segments of images: EoMT, UperNet; timm's networks by name; keypoints of SuperPoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonValue
from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import (
    MapStep,
    chain,
    conv,
    everywhere,
    in_groups,
    pool,
    transposed,
)
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    TokensBeside,
    classifier,
    head_of,
    image_model,
    inner_width,
    looks_at,
    over,
    patched,
    read_part,
    sees_all,
    stage_sizes,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.layers import again, layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import WHOLES, complete
from roofline.model.families.vision.backbones import RESNETS, backbone_of, shown, timm_resnet
from roofline.model.families.vision.convnets import BACKBONE, image_map
from roofline.model.families.vision.detection.detr import heads_of, queries_see, samples
from roofline.model.families.vision.maps.dpt import SEGMENTS
from roofline.model.families.vision.vit import CLASSIFIES, MASKED, beit_sight, dinov3_sight
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Learned, Linear, Modules


# -- EoMT ----------------------------------------------------------------------------------------------------------
def _predicts(c: Config, sight: Sight, act: str, queries: int) -> Modules:
    """Classes and masks of the queries: products of each with the enlarged patches."""
    width, count = sight.width, c.size("num_upscale_blocks", 2, least=0)
    x = Map(width, sight.rows, sight.columns)
    modules: Modules = at(queries, (
        Linear(name="class", inputs=width, outputs=label_count(c) + 1, bias=True, part="other"),
        *heads_of("mask", width, width, width, width, act=act),
    ))  # fmt: skip
    for i in range(count):
        built, x = chain(x, transposed(f"up{i}", width, 2, 2), in_groups(conv(f"up{i}_depthwise", width, 3)))
        modules += built
    return (*modules, *at(queries, (Linear(name="masks", inputs=width, outputs=x.positions, tied=True, part="other"),)))


@complete("eomt", "eomt_dinov3")
def eomt(c: Config) -> Model:
    """EoMT (arXiv:2503.19108): queries join the patches in the last layers of DINOv2 or DINOv3.

    Masks between these layers are for training alone, which lets them fade out.
    """
    head_of(c, "ForUniversalSegmentation")
    act, queries, late = activation(c, default="gelu"), c.size("num_queries", 200), c.size("num_blocks", 4, least=0)
    d = vision_dims(c)
    if c.kind == "eomt_dinov3":
        sight = dinov3_sight(c, norm=False, masks=0)
    else:
        inner, gated = inner_width(c, d.width), c.flag("use_swiglu_ffn")
        wide = (inner * 2 // 3 + 7) // 8 * 8
        ffn = mlp(d.width, wide, "silu", bias=True) if gated else mlp(d.width, inner, act, gated=False, bias=True)
        block = vision_layer(d.width, sees_all(d), ffn, scale=True)
        sight = patched(c, d, block, TokensBeside(registers=c.size("num_register_tokens", 4, least=0), table=0))
    n = sight.positions
    first, last = sight.blocks[: len(sight.blocks) - late], sight.blocks[len(sight.blocks) - late :]
    table = Block("queries", (Learned(name="queries", width=d.width, rows=queries, applied=False),))
    predicts = (*at(n + queries, (layer_norm("final_norm", d.width),)), *_predicts(c, sight, act, queries))
    blocks: list[Block] = [*first, table]
    for block in last:
        wider = tuple(replace(m, positions=n + queries) if m.positions == n else m for m in block.modules)
        blocks.append(Block(f"{block.name} with queries", wider))
    c.mark_read(
        "train_num_points", "oversample_ratio", "importance_sample_ratio", "no_object_weight", "layerscale_value"
    )
    c.mark_read("class_weight", "mask_weight", "dice_weight", "num_queries")
    return image_model(c, replace(sight, blocks=tuple(blocks)), predicts)


# -- UperNet -------------------------------------------------------------------------------------------------------
@complete("upernet")
def upernet(c: Config) -> Model:
    """UperNet (arXiv:1807.10221): pooling at four scales, and a pyramid of the backbone's maps."""
    head_of(c, "ForSemanticSegmentation")
    c = shown(c, 512, 512)
    sight, maps = backbone_of(c)
    third = maps[min(2, len(maps) - 1)]
    given = c.size("auxiliary_in_channels", None) or third.channels
    aside = auxiliary(c, Map(given, third.rows, third.columns))
    c.mark_read("loss_ignore_index", "backbone_config", "hidden_size")
    return image_model(c, sight, (*pooled_pyramid(c, maps, c.size("hidden_size", 512)), *aside))


def pooled_pyramid(c: Config, maps: Sequence[Map], wide: int) -> Modules:
    """UperNet's head: the last map pooled at several scales, then a pyramid of all maps, and labels."""
    last, scales = maps[-1], stage_sizes(c, "pool_scales")
    modules: Modules = ()
    for i, scale in enumerate(scales):
        modules += chain(Map(last.channels, scale, scale), conv(f"pool{i}", wide, 1, act="relu"))[0]
    both = Map(last.channels + len(scales) * wide, last.rows, last.columns)
    modules += chain(both, conv("bottleneck", wide, act="relu"))[0]
    for i, x in enumerate(maps[:-1]):
        modules += chain(x, conv(f"lateral{i}", wide, 1, act="relu"), conv(f"pyramid{i}", wide, act="relu"))[0]
    every = Map(len(maps) * wide, maps[0].rows, maps[0].columns)
    labels = conv("classifier", label_count(c), 1, bias=True, norm=None)
    return (*modules, *chain(every, conv("fuse", wide, act="relu"), labels)[0])


def auxiliary(c: Config, x: Map) -> Modules:
    """A second head of convolutions of one map, where the config has it."""
    if not c.flag("use_auxiliary_head", True):
        return ()
    inner, count = c.size("auxiliary_channels", 256), c.size("auxiliary_num_convs", 1, least=0)
    steps: list[MapStep] = [conv(f"auxiliary{i}", inner, act="relu") for i in range(count)]
    inside, y = chain(x, *steps)
    both = Map(y.channels + x.channels, y.rows, y.columns)
    more = chain(both, conv("auxiliary_cat", inner, act="relu"))[0] if c.flag("auxiliary_concat_input") else ()
    end = Map(inner if count or more else x.channels, y.rows, y.columns)
    labels = conv("auxiliary_classifier", label_count(c), 1, bias=True, norm=None)
    return (*inside, *more, *chain(end, labels)[0])


# -- BEiT ----------------------------------------------------------------------------------------------------------
def _four_sizes(x: Map) -> tuple[Modules, list[Map]]:
    """One map four times and twice as large, as it is, and half as large."""
    act = everywhere(
        layer_norm("grow_norm", x.channels),
        Activation(name="grow_act", width=x.channels, function="gelu", gated=False),
    )
    first, four = chain(x, transposed("grow1", x.channels, 2, 2), act, transposed("grow2", x.channels, 2, 2))
    second, two = chain(x, transposed("grow", x.channels, 2, 2))
    return (*first, *second), [four, two, x, Map(x.channels, x.rows // 2, x.columns // 2)]


@complete("beit", "data2vec-vision")
def beit(c: Config) -> Model:
    """BEiT (arXiv:2106.08254) and data2vec's vision model (arXiv:2202.03555)."""
    task = head_of(c, CLASSIFIES, MASKED, SEGMENTS, BACKBONE)
    mean = c.flag("use_mean_pooling", True)
    pools = task == CLASSIFIES or (c.kind == "beit" and not task)
    sight = beit_sight(c, norm=pools or not mean)
    x = Map(sight.width, sight.rows, sight.columns)
    if task in (SEGMENTS, BACKBONE):
        larger, maps = _four_sizes(x)
        grows = task == SEGMENTS or c.flag("add_fpn")
        sight = replace(sight, blocks=(*sight.blocks, *([Block("sizes", larger)] if grows else [])))
        c.mark_read("out_features", "out_indices", "stage_names", "auxiliary_loss_weight", "add_fpn", "vocab_size")
        c.mark_read("reshape_hidden_states", *(k for k in c.raw if k.startswith(("auxiliary", "pool_", "use_aux"))))
        pyramid = () if task == BACKBONE else (*pooled_pyramid(c, maps, x.channels), *auxiliary(c, x))
        return image_model(c, sight, pyramid)
    c.mark_read("pool_scales", "auxiliary_channels", "auxiliary_concat_input", "auxiliary_loss_weight")
    c.mark_read("auxiliary_num_convs", "use_auxiliary_head", "add_fpn", "reshape_hidden_states", "vocab_size")
    if task == MASKED:
        words = Linear(name="lm_head", inputs=sight.width, outputs=c.size("vocab_size"), bias=True, part="head")
        norm = at(sight.positions, (layer_norm("head_norm", sight.width),))
        return image_model(c, sight, (*norm, *at(sight.patches, (words,))))
    return image_model(c, sight, classifier(c, sight.width) if task else ())


# -- others --------------------------------------------------------------------------------------------------------
VITS = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}
"""timm's vision transformers: width, layers and heads (arXiv:2010.11929, 2012.12877)."""
CONVNEXTS = {
    "tiny": ([3, 3, 9, 3], 96), "small": ([3, 3, 27, 3], 96), "base": ([3, 3, 27, 3], 128),
    "large": ([3, 3, 27, 3], 192), "xlarge": ([3, 3, 27, 3], 256),
}  # fmt: skip
"""timm's ConvNeXts: layers of each stage, and the width of the first (arXiv:2201.03545)."""
SWINS = {
    "tiny": ([2, 2, 6, 2], 96, [3, 6, 12, 24]), "small": ([2, 2, 18, 2], 96, [3, 6, 12, 24]),
    "base": ([2, 2, 18, 2], 128, [4, 8, 16, 32]), "large": ([2, 2, 18, 2], 192, [6, 12, 24, 48]),
}  # fmt: skip
"""timm's Swins: layers of each stage, width of the first, heads (arXiv:2103.14030)."""
NAMED = re.compile(
    r"(?P<kind>vit|deit|convnext|swin)_(?P<size>tiny|small|base|large|xlarge)"
    r"(_patch(?P<patch>\d+)(_window(?P<window>\d+))?_(?P<side>\d+))?"
)


def timm_config(name: str) -> dict[str, JsonValue] | None:
    """The config of the same network in transformers, for a name of timm; None for one that has none here."""
    match = NAMED.fullmatch(name)
    if match is None:
        return None
    kind, size = match["kind"], match["size"]
    if kind in ("vit", "deit") and size in VITS and match["patch"] and not match["window"]:
        width, layers, heads = VITS[size]
        return {
            "model_type": "vit", "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": 4 * width, "patch_size": int(match["patch"]), "image_size": int(match["side"]),
        }  # fmt: skip
    if kind == "convnext" and not match["patch"]:
        depths, first = CONVNEXTS[size]
        return {"model_type": "convnext", "depths": list(depths), "hidden_sizes": [first * 2**i for i in range(4)]}
    if kind == "swin" and size in SWINS and match["window"]:
        depths, first, several = SWINS[size]
        return {
            "model_type": "swin", "embed_dim": first, "depths": list(depths), "num_heads": list(several),
            "window_size": int(match["window"]), "patch_size": int(match["patch"]), "image_size": int(match["side"]),
        }  # fmt: skip
    return None


@complete("timm_wrapper")
def timm_wrapper(c: Config) -> Model:
    """A network of timm by its name: ResNets, vision transformers, ConvNeXts, Swins.

    Raises InputError for a name that is not covered.
    """
    named = c.text("architecture").partition(".")[0]
    task, same = head_of(c, "ForImageClassification"), timm_config(named)
    if c.get("model_args"):
        raise c.error("model_args", "none, as settings of timm are not covered")
    c.mark_read(
        "do_pooling", "label_names", "num_classes", "pretrained_cfg", "num_features", "global_pool", "model_args"
    )
    labels = c.size("num_classes", None, least=0)
    if same is not None:
        kind = str(same["model_type"])
        classes = {"vit": "ViT", "convnext": "ConvNext", "swin": "Swin"}[kind]
        count = (label_count(c) if labels is None else labels) if task else 0
        made_of = {**same, "architectures": [f"{classes}ForImageClassification"], "num_labels": count or 1}
        model = WHOLES[kind](Config(made_of, c.path, c).of_kind(kind))
        kept = model.head if count else tuple(m for m in model.head if not isinstance(m, Linear))
        return replace(model, head=kept, model_type=c.text("model_type", "timm_wrapper"))
    if named not in RESNETS:
        raise InputError(
            c.field("architecture"),
            named,
            f"a network of timm that is covered: {', '.join(RESNETS)}, vit, deit, convnext and swin of usual sizes",
            nearest(named, RESNETS),
        )
    sight = timm_resnet(c, named)
    head = classifier(c, sight.width)
    if labels is not None:
        head = tuple(replace(m, outputs=labels) if isinstance(m, Linear) else m for m in head) if labels else ()
    return image_model(c, sight, head if task else ())


@complete("superpoint")
def superpoint(c: Config) -> Model:
    """SuperPoint (arXiv:1712.07629): places and descriptors of points, from one network."""
    head_of(c, "ForKeypointDetection")
    widths, wide = stage_sizes(c, "encoder_hidden_sizes"), c.size("decoder_hidden_size", 256)
    image = image_map(c, 480)
    x, blocks = Map(1, image.rows, image.columns), []
    for i, width in enumerate(widths):
        pair = tuple(conv(f"conv{j}", width, bias=True, norm=None, act="relu") for j in (1, 2))
        modules, x = chain(x, *pair, *((pool(2, 2, 0),) if i + 1 < len(widths) else ()))
        blocks.append(Block(f"stage{i + 1}", modules))
    heads: Modules = ()
    for name, outputs in (
        ("points", c.size("keypoint_decoder_dim", 65)),
        ("descriptors", c.size("descriptor_decoder_dim", 256)),
    ):
        heads += chain(
            x,
            conv(f"{name}1", wide, bias=True, norm=None, act="relu"),
            conv(f"{name}2", outputs, 1, bias=True, norm=None),
        )[0]
    c.mark_read("keypoint_threshold", "max_keypoints", "nms_radius", "border_removal_distance")
    return image_model(c, Sight((), tuple(blocks), x.channels, x.rows, x.columns, maps=(x,)), heads)


# -- Mask2Former ---------------------------------------------------------------------------------------------------
@complete("mask2former")
def mask2former(c: Config) -> Model:
    """Mask2Former (arXiv:2112.01527): queries look at one map after the other, where their last masks say."""
    task, act = head_of(c, "ForUniversalSegmentation"), activation(c, "activation_function", "relu")
    sight, maps = backbone_of(shown(c, 384, 384))
    if len(maps) != 4:
        raise c.error("backbone_config", "a backbone that gives four maps")
    if c.value("feature_strides", [4, 8, 16, 32])[1] != [4, 8, 16, 32] or c.size("common_stride", 4) != 4:
        raise c.error("feature_strides", "4, 8, 16 and 32, with a common stride of 4")
    wide, deep, width = c.size("feature_size", 256), c.size("mask_feature_size", 256), c.size("hidden_dim", 256)
    heads, queries = c.size("num_attention_heads", 8), c.size("num_queries", 100)
    levels: Modules = ()
    for i, x in enumerate(reversed(maps[1:])):
        levels += chain(x, conv(f"level{i}", wide, 1, bias=True))[0]
    n = sum(x.positions for x in maps[1:])
    feeds = mlp(wide, c.size("encoder_feedforward_dim", 1024), act, gated=False, bias=True)
    encodes = layer("encoder", wide, samples(wide, heads, 12, n), feeds, norm=layer_norm, before=False, after=True)
    fine, _ = chain(
        maps[0],
        conv("adapter", wide, 1),
        everywhere(Add(name="adapter_sum", width=wide)),
        conv("refine", wide, act="relu"),
    )
    masked, y = chain(Map(wide, maps[0].rows, maps[0].columns), conv("mask_proj", deep, 1, bias=True, norm=None))
    places = Learned(name="level_embedding", width=wide, rows=3, applied=False)
    d = Dims(c.size("decoder_layers", 10) - 1, width, heads, heads, width // heads)
    before = c.flag("pre_norm")
    inner = mlp(width, c.size("dim_feedforward", 2048), act, gated=False, bias=True)
    mapped = wide != width or c.flag("enforce_input_projection")
    project = tuple(
        m for i, x in enumerate(reversed(maps[1:])) if mapped
        for m in at(x.positions, (Linear(name=f"map{i}_proj", inputs=wide, outputs=width, bias=True, part="other"),))
    )  # fmt: skip
    predicts = at(queries, (
        layer_norm("predict_norm", width), *heads_of("mask", width, width, width, deep),
        Linear(name="masks", inputs=deep, outputs=y.positions, tied=True, part="other"),
        *((Linear(name="class", inputs=width, outputs=label_count(c) + 1, bias=True, part="other"),) if task else ()),
    ))  # fmt: skip
    tables = (
        Learned(name="queries", width=width, rows=2 * queries, applied=False),
        Learned(name="levels", width=width, rows=3, applied=False),
    )
    decoder: list[Block] = []
    for i in range(d.layers):
        keys = maps[3 - i % 3].positions
        cross = layer("cross", width, looks_at(d, keys), norm=layer_norm, before=before, after=not before)
        named = tuple(
            replace(m, name=m.name if m.name.startswith("cross") else f"cross_{m.name}") for m in cross.modules
        )
        own = layer("decoder", width, sees_all(d), inner, norm=layer_norm, before=before, after=not before)
        decoder.append(over(queries, Block(f"decoder{i % 3}", (*named, *own.modules, *again(predicts)))))
    blocks = [
        Block("levels", (*levels, places)), *[over(n, encodes)] * c.size("encoder_layers", 6, least=0),
        Block("masks", (*fine, *masked)), Block("queries", (*tables, *project, *predicts)), *decoder,
    ]  # fmt: skip
    c.mark_read("backbone_config", "no_object_weight", "class_weight", "mask_weight", "dice_weight", "train_num_points")
    c.mark_read("oversample_ratio", "importance_sample_ratio", "use_auxiliary_loss", "output_auxiliary_logits")
    c.mark_read("ignore_value", "init_xavier_std", "backbone", "use_timm_backbone")
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))


# -- MaskFormer ----------------------------------------------------------------------------------------------------
@complete("maskformer")
def maskformer(c: Config) -> Model:
    """MaskFormer (arXiv:2107.06278): DETR's queries see the smallest map, and are masks of the largest."""
    task = head_of(c, "ForInstanceSegmentation")
    sight, maps = backbone_of(shown(c, 384, 384))
    part = read_part(c, "decoder_config", "detr")
    act, width = activation(part, "activation_function", "relu"), part.size("d_model", 256)
    queries = part.size("num_queries", 100)
    wide, deep = c.size("fpn_feature_size", 256), c.size("mask_feature_size", 256)
    last = maps[-1]
    modules, _ = chain(last, conv("smallest", wide, act="relu"))
    for i, x in enumerate(reversed(maps[:-1])):
        lateral, y = chain(x, conv(f"lateral{i}", wide, 1))
        modules += (*lateral, *chain(y, conv(f"pyramid{i}", wide, act="relu"))[0])
    masked, y = chain(Map(wide, maps[0].rows, maps[0].columns), conv("mask_proj", deep, bias=True, norm=None))
    project = chain(last, conv("input_proj", width, 1, bias=True, norm=None))[0] if last.channels != width else ()
    heads = part.size("decoder_attention_heads", 8)
    d = Dims(part.size("decoder_layers", 6), width, heads, heads, width // heads)
    ffn = mlp(width, part.size("decoder_ffn_dim", 2048), act, gated=False, bias=True)
    finds = over(queries, queries_see(d, looks_at(d, last.positions), ffn))
    ends = (Learned(name="queries", width=width, rows=queries, applied=False), layer_norm("decoder_norm", width))
    blocks = [
        Block("pixels", (*modules, *masked)), Block("input", project), *[finds] * d.layers,
        Block("queries", at(queries, ends)),
    ]  # fmt: skip
    head = (
        Linear(name="class", inputs=width, outputs=label_count(c) + 1, bias=True, part="other"),
        *heads_of("mask", width, width, width, deep),
        Linear(name="masks", inputs=deep, outputs=y.positions, tied=True, part="other"),
    )
    part.mark_read(*part.raw)
    c.mark_read("no_object_weight", "use_auxiliary_loss", "dice_weight", "cross_entropy_weight", "mask_weight")
    c.mark_read("init_xavier_std", "init_std", "output_auxiliary_logits", "num_attention_heads", "num_hidden_layers")
    kept = [b for b in blocks if b.modules]
    return image_model(c, replace(sight, blocks=(*sight.blocks, *kept)), at(queries, head) if task else ())
