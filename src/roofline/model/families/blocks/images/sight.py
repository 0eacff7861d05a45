"""Vision transformers: patches, class and register tokens, position tables, layers over a grid, classifiers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from roofline.declared.errors import InputError
from roofline.model.configs.config import LARGEST_SIZE, MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at, at_one, encoder, patch_embedding
from roofline.model.families.blocks.feed_forward import mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import MakeNorm, layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sizes import Dims
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Attention, Learned, Linear, Module, Modules, Rope

IMAGE = "image_size"


# -- sizes ---------------------------------------------------------------------------------------------------------
def both_sides(c: Config, key: str, default: int | None = None) -> tuple[int, int]:
    """Height and width under a key: one number for both, or a list of two; None counts as `default`."""
    value = c.value(key, default)[1]
    if not isinstance(value, (list, tuple)):
        size: int = c.size(key) if default is None else c.size(key, default)
        return size, size
    two = [v for v in value if type(v) is int and 1 <= v <= LARGEST_SIZE]
    if len(value) != 2 or len(two) != 2:
        raise InputError(c.field(key), value, f"one whole number or two, each from 1 to {LARGEST_SIZE}")
    return two[0], two[1]


def pixels(c: Config, key: str = IMAGE, default: int | None = None) -> tuple[int, int]:
    """Height and width of the image that a model reads: those asked for, else those of its config."""
    own = both_sides(c, key, default) if default is not None or c.has(key) else (224, 224)
    c.mark_read(key)
    return c.inputs.height or own[0], c.inputs.width or own[1]


def stage_sizes(c: Config, key: str, least: int = 1) -> list[int]:
    """A list of sizes, one for each stage."""
    value = c.value(key)[1]
    if not isinstance(value, (list, tuple)) or not value or len(value) > MOST_LAYERS:
        raise InputError(c.field(key), value, "a list with one whole number for each stage")
    for i, entry in enumerate(value):
        if type(entry) is not int or not least <= entry <= LARGEST_SIZE:
            raise InputError(f"{c.field(key)}[{i}]", entry, f"a whole number from {least} to {LARGEST_SIZE}")
    return list(value)


def indices(c: Config, key: str) -> list[int]:
    """A list of indices, which may be empty or missing."""
    c.mark_read(key)
    return stage_sizes(c, key, least=0) if c.get(key) else []


def same_length(c: Config, key: str, *others: Sequence[int | tuple[int, int]]) -> None:
    """Raise an InputError where lists of stages do not have as many entries as the one under `key`."""
    if any(len(other) != len(others[0]) for other in others):
        raise c.error(key, "as many entries in every list of stages")


def read_part(c: Config, key: str, kind: str = "") -> Config:
    """The section under `key`, read as the class of its type: the one it names, else the one that the whole expects."""
    known = c.defaults.parts.get(key)
    inside = c.section(key)
    if not inside.raw and known is not None:
        inside = Config(known.values, c.field(key), c)
    name = str(inside.raw.get("model_type") or (known.type if known else kind))
    return inside.with_values(model_type=name).of_kind(name)


def refused_head(c: Config, *known: str) -> InputError:
    """The error for a class in `architectures` that is not covered."""
    return InputError("architectures", c.architecture, f"a class that is covered: {', '.join(known)}")


def head_of(c: Config, *tasks: str) -> str:
    """The task of the class that `architectures` names, one of `tasks`; "" for the base model or where none is named.

    Raises InputError for the head of another task.
    """
    name = c.architecture
    task = next((task for task in tasks if name.endswith(task)), "")
    if task or not name or name in c.defaults.bases or name.endswith("Model"):
        return task
    raise refused_head(c, *c.defaults.bases, *tasks)


# -- what an image becomes -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Map:
    """A feature map: `channels` at each of `rows` × `columns` positions."""

    channels: int
    rows: int
    columns: int

    @property
    def positions(self) -> int:
        """Positions of the grid."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Sight:
    """A grid of `rows` × `columns` positions that blocks make of an image, with `extra` tokens beside them.

    `front` makes the patches or the first feature map; every module says over how many positions it runs. `maps`:
    the feature map of each stage, the front's first.
    """

    front: Modules
    blocks: tuple[Block, ...]
    width: int
    rows: int
    columns: int
    extra: int = 0
    maps: tuple[Map, ...] = ()

    @property
    def patches(self) -> int:
        """Positions of the grid."""
        return self.rows * self.columns

    @property
    def positions(self) -> int:
        """Positions of the grid and tokens beside it."""
        return self.patches + self.extra

    @property
    def every(self) -> tuple[Block, ...]:
        """The front as a block, and the blocks."""
        return (Block("front", self.front), *self.blocks)


@dataclass(frozen=True)
class Tubes:
    """Patches of a video: `depth` frames of `patch` pixels; the frames of the step, and those of the config."""

    frames: tuple[int, int]
    depth: int
    patch: tuple[int, int]


def tubes_of(c: Config, frames: str = "num_frames") -> Tubes:
    """The tubes of a config: `tubelet_size` frames of `patch_size`, or three sides."""
    own, tube = c.size(frames), c.value("tubelet_size", 2)[1]
    now = c.inputs.frames or own
    if isinstance(tube, (list, tuple)):
        depth, *patch = stage_sizes(c, "tubelet_size")
        if len(patch) != 2:
            raise c.error("tubelet_size", "frames, height and width of a patch")
        return Tubes((now, own), depth, (patch[0], patch[1]))
    return Tubes((now, own), c.size("tubelet_size", 2), both_sides(c, "patch_size"))


def over(positions: int, block: Block, name: str = "") -> Block:
    """The block over a number of positions of each input, where its modules do not say."""
    return Block(
        name or block.name,
        tuple(replace(m, positions=positions) if m.positions is None else m for m in block.modules),
    )


def image_model(c: Config, sight: Sight, head: Modules = ()) -> Model:
    """The model of images whose layers are those of `sight`, with a head."""
    return encoder(
        c, sight.width, sight.blocks, embedding=sight.front, head=head, positions=sight.positions
    )  # fmt: skip


def classifier(c: Config, width: int, name: str = "classifier") -> Modules:
    """A score for each label from a vector of an image; nothing where the config has no labels."""
    labels = label_count(c)
    return at_one((Linear(name=name, inputs=width, outputs=labels, bias=True, part="head"),)) if labels else ()


def pooler(width: int, outputs: int | None = None, act: str = "tanh") -> Modules:
    """BERT's pooler: a product and an activation of the class token."""
    return at_one((
        Linear(name="pooler", inputs=width, outputs=outputs or width, bias=True, part="other"),
        Activation(name="pooler_act", width=outputs or width, function=act, gated=False),
    ))  # fmt: skip


# -- layers --------------------------------------------------------------------------------------------------------
def projections(d: Dims, q: bool = True, k: bool = True, v: bool = True, prefix: str = "") -> Modules:
    """Queries, keys and values of the same input, as one product where all have a bias or none."""
    width = d.heads * d.head_dim
    if q == k == v:
        return (column_product(f"{prefix}qkv_proj", d.width, 3 * width, q, kv=2 * width, kv_groups=d.heads),)
    of = {"q": q, "k": k, "v": v}
    return tuple(
        column_product(f"{prefix}{n}_proj", d.width, width, bias, kv=0 if n == "q" else width, beside=n != "q")
        for n, bias in of.items()
    )


def sees_all(
    d: Dims, biases: tuple[bool, bool, bool] = (True, True, True), *, out_bias: bool = True, rotary: int = 0,
    qk_norm: Modules = (), prefix: str = "",
) -> Modules:  # fmt: skip
    """Multi-head attention of all positions to all; `biases` of queries, keys and values."""
    core = Attention(
        name=f"{prefix}attention", heads=d.heads, kv_heads=d.heads, head_dim=d.head_dim, v_head_dim=d.head_dim,
        causal=False,
    )  # fmt: skip
    rope = (Rope(name=f"{prefix}rope", heads=2 * d.heads, dims=rotary),) if rotary else ()
    out = row_product(f"{prefix}o_proj", d.heads * d.head_dim, d.width, out_bias)
    return (*projections(d, *biases, prefix), *qk_norm, *rope, core, out)


def looks_at(
    d: Dims, keys: int, source: int | None = None, *, bias: bool = True, prefix: str = "cross_", kv_bias: bool = True,
    inner: int | None = None,
) -> Modules:  # fmt: skip
    """Attention of the positions of a module to `keys` others of each input, `source` wide, all in one step.

    `inner`: width of all heads together, where it is not that of the queries' stream.
    """
    wide = inner or d.heads * d.head_dim
    each = wide // d.heads
    return (
        column_product(f"{prefix}q_proj", d.width, wide, bias),
        *at(keys, (
            column_product(f"{prefix}k_proj", source or d.width, wide, bias and kv_bias, kv=wide, kv_groups=d.heads),
            column_product(f"{prefix}v_proj", source or d.width, wide, bias and kv_bias, kv=wide, kv_groups=d.heads),
        )),
        Attention(
            name=f"{prefix}attention", heads=d.heads, kv_heads=d.heads, head_dim=each, v_head_dim=each, causal=False,
            keys=keys,
        ),
        row_product(f"{prefix}o_proj", wide, d.width, bias),
    )  # fmt: skip


def layer_scaled(name: str, modules: Modules, width: int, learned: bool = True) -> Modules:
    """The modules with a learned scale of their outputs (LayerScale, arXiv:2103.17239)."""
    return (*modules, Learned(name=name, width=width)) if learned else modules


def vision_layer(
    width: int, mixer: Modules, ffn: Modules, *, scale: bool = False, norm: MakeNorm = layer_norm, name: str = "dense"
) -> Block:
    """A layer of a vision transformer: norms before attention and feed-forward; `scale`: a LayerScale after each."""
    return layer(
        name,
        width,
        layer_scaled("attn_scale", mixer, width, scale),
        layer_scaled("ffn_scale", ffn, width, scale),
        norm=norm,
    )


def vision_dims(c: Config, layers: str = "num_hidden_layers", width: str = "hidden_size") -> Dims:
    """Layers, width and heads of a vision transformer; the width of a head is rounded down."""
    wide, heads = c.size(width), c.size("num_attention_heads|num_heads")
    return Dims(c.size(layers, most=MOST_LAYERS), wide, heads, heads, max(1, wide // heads))


def inner_width(c: Config, width: int, key: str = "mlp_ratio", default: float = 4.0) -> int:
    """Width of a feed-forward network that is a multiple of the stream's."""
    return int(width * float(c.number(key, default)))


@dataclass(frozen=True)
class TokensBeside:
    """TokensBeside beside the patches of an image, and learned positions.

    `classes`: class tokens; `registers`: others that take part; `masks`: learned vectors for masked patches, which a
    step does not use. `table`: rows of the position table beside those of the patches of the config's own image, as
    many as class tokens unless given; −1 for no table. `bias`: whether the product of patches has one.
    """

    classes: int = 1
    registers: int = 0
    masks: int = 0
    table: int | None = None
    bias: bool = True


ONE_CLASS = TokensBeside()
"""A class token, and a position for it and for each patch."""


def patched(
    c: Config, d: Dims, layers: Block | Sequence[Block], tokens: TokensBeside = ONE_CLASS, *, before: Modules = (),
    after: Modules = (), size: str = IMAGE, tubes: Tubes | None = None,
) -> Sight:  # fmt: skip
    """A vision transformer (arXiv:2010.11929): patches, tokens beside them, layers, one or each of them.

    `before` and `after`: norms in front of the layers and behind them. `size`: key of the size of an image. `tubes`:
    patches of a video that last several frames, below one another in the grid.
    """
    (height, width), (high, wide) = pixels(c, size), tubes.patch if tubes else both_sides(c, "patch_size")
    own = both_sides(c, size) if c.has(size) else (height, width)
    (frames, own_frames), tube = (tubes.frames, tubes.depth) if tubes else ((1, 1), 1)
    rows, columns = frames // tube * (height // high), width // wide
    extra, kept = tokens.classes + tokens.registers, own_frames // tube * (own[0] // high) * (own[1] // wide)
    masks, table, bias = tokens.masks, tokens.table, tokens.bias
    places = kept + (tokens.classes if table is None else table)
    learned = (
        Learned(name="class_token", width=d.width, rows=extra, applied=False),
        Learned(name="mask_token", width=d.width, rows=masks, applied=False, idle=True),
    )
    n = rows * columns + extra
    front = (
        *at(
            rows * columns,
            (
                patch_embedding(
                    "patch_embedding", c.size("num_channels|in_chans", 3), tube * high * wide, d.width, bias=bias
                ),
            ),
        ),
        *at(
            n,
            (
                *(m for m in learned if m.rows),
                *((Learned(name="position_embedding", width=d.width, rows=places),) if table != -1 else ()),
                *before,
            ),
        ),
    )
    stack = [over(n, b) for b in ([layers] * d.layers if isinstance(layers, Block) else layers)]
    end = [Block("norm", at(n, after))] if after else []
    return Sight(front, (*stack, *end), d.width, rows, columns, extra)


def plain_mlp(c: Config, width: int, act: str, inner: int | None = None, bias: bool = True) -> Modules:
    """A feed-forward network of two products."""
    wide: int = c.size("intermediate_size") if inner is None else inner
    return mlp(width, wide, act, gated=False, bias=bias)


def not_used(modules: Iterable[Module]) -> Modules:
    """The modules with weights that a step of the model does not use."""
    return tuple(replace(m, idle=True) for m in modules)


# -- stages of a backbone ------------------------------------------------------------------------------------------
def stages_out(c: Config, names: Sequence[str]) -> list[int]:
    """Indices of the stages that a backbone gives, from `out_features` or `out_indices`; else the last one."""
    named, indices = c.get("out_features") or c.get("_out_features"), c.get("out_indices") or c.get("_out_indices")
    c.mark_read("out_features", "out_indices", "stage_names", "_out_features", "_out_indices")
    if isinstance(named, (list, tuple)):
        for name in named:
            if name not in names:
                raise c.error("out_features", f"names of stages: {', '.join(names)}")
        return [i for i, name in enumerate(names) if name in named]
    if isinstance(indices, (list, tuple)):
        for index in indices:
            if type(index) is not int or not -len(names) <= index < len(names):
                raise c.error("out_indices", f"indices of stages, below {len(names)}")
        return sorted(index % len(names) for index in indices if type(index) is int)
    return [len(names) - 1]


def stage_names(stages: Sequence[int | Map]) -> list[str]:
    """`stem`, `stage1`, …: the names that transformers gives to the stages of a backbone."""
    return ["stem", *(f"stage{i + 1}" for i in range(len(stages)))]
