"""ZoeDepth: relative depth by DPT, then distances from bins that each map refines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at_one
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import MapStep, chain, conv, resized
from roofline.model.families.blocks.images.sight import Map, head_of, image_model, not_used, over, sees_all, stage_sizes
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import backbone_of, shown
from roofline.model.families.vision.detection.detr import heads_of
from roofline.model.families.vision.maps.dpt import DEPTH, fused, reassembled
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Linear, Modules


def _bins(c: Config) -> list[int]:
    """Number of bins of each set of images that a model was trained for."""
    value = c.value("bin_configurations", None)[1]
    if value is None:
        return [64]
    entries = value if isinstance(value, (list, tuple)) else []
    counts = [e.get("n_bins") if isinstance(e, Mapping) else None for e in entries]
    if not counts or any(type(n) is not int or not 1 <= n <= 2**16 for n in counts):
        raise c.error("bin_configurations", "a list of entries with n_bins")
    return [n for n in counts if isinstance(n, int)]


def _two(name: str, middle: int, outputs: int) -> tuple[MapStep, ...]:
    """Two products of every position."""
    return (
        conv(f"{name}1", middle, 1, bias=True, norm=None, act="relu"),
        conv(f"{name}2", outputs, 1, bias=True, norm=None),
    )


def _refined(c: Config, x: Map, maps: Sequence[Map], last: Map, count: int, narrow: bool) -> tuple[Modules, Modules]:
    """Bins of the smallest map, moved by each larger one; what all sets of images share, and what each has alone.

    `narrow`: a model with several sets has narrower networks, and 16 pulls at each map.
    """
    size, pulls = c.size("bin_embedding_dim", 128), stage_sizes(c, "num_attractors")
    half, pulls = (size // 2, [16] * len(pulls)) if narrow else (128, pulls)
    normed = c.text("bin_centers_type", "softplus", ("normed", "softplus")) == "normed"
    shared, _ = chain(x, conv("bottleneck", x.channels, 1, bias=True, norm=None))
    shared += chain(x, *_two("seed_projector", half, size))[0]
    own, _ = chain(x, *_two("seed", size // 2 if narrow else 256, count))
    for i, (y, pull) in enumerate(zip(maps, pulls, strict=True)):
        shared += chain(y, *_two(f"projector{i}", half, size))[0]
        own += chain(Map(size, y.rows, y.columns), *_two(f"attractor{i}", size, 2 * pull if normed else pull))[0]
    inputs = last.channels + size + (0 if narrow else 1)
    own += chain(Map(inputs, last.rows, last.columns), *_two("binomial", inputs // (4 if narrow else 2), 4))[0]
    return shared, own


def _chooses(c: Config, x: Map) -> list[Block]:
    """A transformer over the smallest map that says of which set an image is."""
    width, heads = c.size("patch_transformer_hidden_size", 128), c.size("patch_transformer_num_attention_heads", 4)
    n, layers = x.positions + 1, c.size("num_patch_transformer_layers", 4)
    ffn = mlp(width, c.size("patch_transformer_intermediate_size", 1024), "relu", gated=False, bias=True)
    d = Dims(layers, width, heads, heads, width // heads)
    block = over(n, layer("patches", width, sees_all(d), ffn, norm=layer_norm, before=False, after=True))
    first, _ = chain(x, conv("patch_proj", width, 1, bias=True, norm=None))
    return [Block("patch front", first), *[block] * layers, Block("set", at_one(heads_of("set", 128, 128, 2)))]


@complete("zoedepth")
def zoedepth(c: Config) -> Model:
    """ZoeDepth (arXiv:2302.12288) for one set of images, or for several, of which an image is of one."""
    head_of(c, DEPTH)
    c = shown(c, 384, 384)
    sight, maps = backbone_of(c)
    act, counts = activation(c, default="gelu"), _bins(c)
    if len(maps) > 1 and len({(m.rows, m.columns) for m in maps}) > 1:
        raise c.error("backbone_config", "a transformer of one resolution")
    x = Map(sight.width, sight.rows, sight.columns)
    read: Modules = (
        Linear(name="read_proj", inputs=2 * x.channels, outputs=x.channels, bias=True, part="other"),
        Activation(name="read_act", width=x.channels, function=act, gated=False),
    ) if c.text("readout_type", "project", ("project", "add", "ignore")) == "project" else ()  # fmt: skip
    built, levels = reassembled(c, x, read)
    norm, given = c.flag("use_batch_norm_in_fusion_residual"), c.get("use_bias_in_fusion_residual")
    fuse, y = fused(c, levels, doubled=True, bias=given if isinstance(given, bool) else not norm, norm=norm)
    wide, features = y.channels, c.size("num_relative_features", 32)
    extra = (conv("projection", 256, bias=True, norm=None, act="relu"),) if c.flag("add_projection") else ()
    relative, last = chain(
        y, *extra, conv("relative1", wide // 2, bias=True, norm=None), resized(2 * y.rows, 2 * y.columns),
        conv("relative2", features, bias=True, norm=None, act="relu"),
    )  # fmt: skip
    depth, _ = chain(last, conv("relative3", 1, 1, bias=True, norm=None, act="relu"))
    smallest = Map(c.size("bottleneck_features", 256), levels[-1].rows, levels[-1].columns)
    grown = [Map(wide, smallest.rows * 2 ** (i + 1), smallest.columns * 2 ** (i + 1)) for i in range(len(levels))]
    several = len(counts) > 1
    blocks = [Block("reassemble", built), Block("fuse", fuse), Block("relative", (*relative, *depth))]
    blocks += _chooses(c, smallest) if several else []
    for i, count in enumerate(counts):
        shared, own = _refined(c, smallest, grown, last, count, several)
        blocks.append(Block("bins", (*shared, *own) if i == 0 else not_used(own)))
    c.mark_read("attractor_alpha", "attractor_gamma", "attractor_kind", "max_temp", "min_temp", "head_in_index")
    c.mark_read(
        "backbone_hidden_size",
        "batch_norm_eps",
        *(key for key in c.raw if key.startswith(("patch_transformer", "num_patch_"))),
    )
    return image_model(c, replace(sight, blocks=(*sight.blocks, *blocks)))
