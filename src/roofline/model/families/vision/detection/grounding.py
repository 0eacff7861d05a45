"""Detectors that find what words name: Grounding DINO."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at, encoder, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.sight import head_of, over, read_part, sees_all
from roofline.model.families.blocks.layers import again, layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.image_text.clip import bert_words
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import backbone_of, shown
from roofline.model.families.vision.detection.detr import (
    DETECTS,
    detector_dims,
    frozen_parts,
    heads_of,
    levels_of,
    samples,
)
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Learned, Linear, Module, Modules


def _seen(positions: int, modules: Iterable[Module], prefix: str = "") -> Modules:
    """The modules over positions of the image."""
    return tuple(replace(m, stream="images", name=prefix + m.name) for m in at(positions, modules))


def _words_and(keys: int, heads: int, head: int, values: int, name: str) -> Attention:
    """Products of every word with every one of `keys` positions of the image, whichever of them attend."""
    return Attention(
        name=name, heads=heads, kv_heads=heads, head_dim=head, v_head_dim=values, causal=False, keys=keys
    )  # fmt: skip


@complete("grounding-dino", "mm-grounding-dino")
def grounding_dino(c: Config) -> Model:
    """Grounding DINO (arXiv:2303.05499): words and image attend to each other, in the encoder and for each query."""
    task, act = head_of(c, DETECTS), activation(c, "activation_function", "relu")
    e, d, queries = detector_dims(c, "encoder"), detector_dims(c, "decoder"), c.size("num_queries", 900)
    width, count, points = d.width, c.size("num_feature_levels", 4), c.size("encoder_n_points", 4)
    if not c.flag("two_stage", True):
        raise c.error("two_stage", "true, as queries come from the encoder")
    words = bert_words(read_part(c, "text_config"))
    sight, maps = backbone_of(shown(c, 800, 1066))
    sight = frozen_parts(c, sight)
    levels, every = levels_of(c, maps, width, count, bias=True)
    n = sum(x.positions for x in every)
    half, inner, ffn = e.heads // 2, c.size("encoder_ffn_dim") // 2, c.size("encoder_ffn_dim")
    t = Dims(1, width, half, half, width // half)
    own = layer(
        "text",
        width,
        sees_all(t),
        mlp(width, inner, act, gated=False, bias=True),
        norm=layer_norm,
        before=False,
        after=True,
    )
    fused = (
        layer_norm("fuse_norm", width),
        column_product("fuse_proj", width, 2 * inner, True),
        *_seen(n, (layer_norm("fuse_norm", width), column_product("fuse_proj", width, 2 * inner, True)), "image_"),
        _words_and(n, half, inner // half, 2 * inner // half, "fusion"),
        row_product("fuse_o_proj", inner, width, True),
        Learned(name="fuse_scale", width=width),
        Add(name="fuse_residual", width=width),
        *_seen(
            n,
            (
                row_product("fuse_o_proj", inner, width, True),
                Learned(name="fuse_scale", width=width),
                Add(name="fuse_residual", width=width),
            ),
            "image_",
        ),
    )
    sampled = samples(width, e.heads, count * points, n)
    looks = layer(
        "image", width, sampled, mlp(width, ffn, act, gated=False, bias=True), norm=layer_norm, before=False, after=True
    )
    image = tuple(replace(m, stream="images", name=f"image_{m.name}") for m in over(n, looks).modules)
    fuses = Block("fusion", (*fused, *own.modules, *image))
    bias, learned = (2 if task else 1) if c.kind == "mm-grounding-dino" else 0, c.flag("embedding_init_target", True)
    boxes = heads_of("box", width, width, width, 4)
    shared = c.flag("two_stage_bbox_embed_share")
    first = _seen(n, (
        Linear(name="proposal", inputs=width, outputs=width, bias=True), layer_norm("proposal_norm", width),
        *(again(boxes) if shared else boxes),
    ), "first_")  # fmt: skip
    proposes = Block("queries", (
        *first, Linear(name="first_class", inputs=width, outputs=n, tied=True, part="other"),
        Linear(name="chosen_class", inputs=width, outputs=queries, tied=True, part="other"),
        *((Learned(name="queries", width=width, rows=queries, applied=False),) if learned else ()),
        *((Learned(name="class_bias", width=bias, applied=False),) if bias else ()),
    ))  # fmt: skip
    finds, scores = _finds(c, d, n, queries, act), c.flag("decoder_bbox_embed_share", True)
    place = heads_of("place", c.size("query_dim", 4) // 2 * width, width, width)
    blocks = [
        *words.layers,
        Block("projection", (Linear(name="text_proj", inputs=words.width, outputs=width, bias=True),)),
    ]
    blocks += [*[fuses] * e.layers, proposes]
    for i in range(d.layers):
        placed = place if i == 0 else again(place)
        end: Modules = ()
        if task:
            predicted = boxes if i == 0 or not scores else again(boxes)
            end = (
                *_seen(queries, (*predicted, *_named(again(boxes), "last_"))),
                Linear(name="class", inputs=width, outputs=queries, tied=True, part="other"),
            )
        blocks.append(Block("decoder", (*_seen(queries, placed), *finds, *end)))
    norm = Block("decoder norm", _seen(queries, (layer_norm("decoder_norm", width),)))
    front = Block("levels", (*levels, Learned(name="level_embedding", width=width, rows=count, applied=False)))
    seeing = tower("vision", "images", sight.width, [*sight.every, front], n, quantised=True)
    model = encoder(c, words.width, [*blocks, norm], embedding=words.tables, vocab=words.vocab)
    c.mark_read("decoder_n_points", "max_text_len", "positional_embedding_temperature", "decoder_cls_embed_share")
    c.mark_read(
        "position_embedding_type", "text_enhancer_dropout", "fusion_droppath", "fusion_dropout", "backbone_config"
    )
    return replace(model, towers=(seeing,), context=words.context)


def _named(modules: Modules, prefix: str) -> Modules:
    return tuple(replace(m, name=prefix + m.name) for m in modules)


def _finds(c: Config, d: Dims, n: int, queries: int, act: str) -> Modules:
    """A layer of queries: they see one another, the words, then the image."""
    width = d.width

    def asked(*modules: Module, prefix: str = "") -> Modules:
        return _seen(queries, modules, prefix)

    return (
        *asked(*sees_all(d), Add(name="residual", width=width), layer_norm("norm", width)),
        *asked(column_product("word_q_proj", width, width, True)),
        column_product("word_kv_proj", width, 2 * width, True, kv=2 * width, kv_groups=d.heads),
        _words_and(queries, d.heads, d.head_dim, d.head_dim, "word_attention"),
        *asked(
            row_product("word_o_proj", width, width, True),
            Add(name="word_residual", width=width),
            layer_norm("word_norm", width),
        ),
        *(
            replace(m, stream="images", positions=m.positions or queries)
            for m in samples(
                width, d.heads, c.size("num_feature_levels", 4) * c.size("decoder_n_points", 4), n, "image_"
            )
        ),
        *asked(Add(name="image_residual", width=width), layer_norm("image_norm", width)),
        *asked(
            *mlp(width, c.size("decoder_ffn_dim"), act, gated=False, bias=True),
            Add(name="ffn_residual", width=width),
            layer_norm("ffn_norm", width),
        ),
    )
