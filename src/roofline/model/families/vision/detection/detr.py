"""Detectors of objects: DETR and its kin, YOLOS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import chain, conv
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    TokensBeside,
    both_sides,
    head_of,
    image_model,
    indices,
    looks_at,
    not_used,
    over,
    patched,
    plain_mlp,
    pooler,
    read_part,
    sees_all,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.layers import again, layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.projections import column_product, row_product
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.image_text.clip import clip_sight, clip_words, contrastive_model, shared_projection
from roofline.model.families.registry import complete
from roofline.model.families.vision.backbones import backbone_of, frozen_norms, shown
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Activation, Add, Attention, Embedding, Learned, Linear, Modules, Norm

DETECTS = "ForObjectDetection"
USUAL = (800, 1066)
"""Height and width of an image of 480 × 640 pixels whose shorter side becomes 800, as detectors read it."""


def heads_of(name: str, *widths: int, act: str = "relu") -> Modules:
    """Products of these widths with an activation between them."""
    parts: Modules = ()
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        parts += (Linear(name=f"{name}{i + 1}", inputs=inputs, outputs=outputs, bias=True, part="other"),)
        if i + 2 < len(widths):
            parts += (Activation(name=f"{name}_act{i + 1}", width=outputs, function=act, gated=False),)
    return parts


def detector_dims(c: Config, side: str) -> Dims:
    """Sizes of the encoder or the decoder of a detector."""
    width, heads = c.size("d_model|hidden_size"), c.size(f"{side}_attention_heads")
    return Dims(c.size(f"{side}_layers", least=0, most=MOST_LAYERS), width, heads, heads, width // heads)


def mark_costs(c: Config) -> None:
    """Mark the weights of the loss, which a step does not have."""
    c.mark_read(*(key for key in c.raw if key.endswith(("_cost", "_coefficient", "_loss", "_alpha", "_gamma"))))
    c.mark_read("encoder_layerdrop", "decoder_layerdrop", "init_xavier_std", "num_channels", "backbone_config")
    c.mark_read("initializer_bias_prior_prob", "disable_custom_kernels", "is_encoder_decoder", "tie_word_embeddings")


# -- DETR ----------------------------------------------------------------------------------------------------------
def _detr_front(c: Config, width: int) -> tuple[Sight, list[Block], Map]:
    """A backbone and the product that makes its last map as wide as the transformer."""
    sight, maps = backbone_of(shown(c, *USUAL))
    last = maps[-1]
    product, _ = chain(last, conv("input_proj", width, 1, bias=True, norm=None))
    table = () if c.text("position_embedding_type", "sine") == "sine" else (
        Learned(name="position_embedding", width=width // 2, rows=100, applied=False),
    )  # fmt: skip
    return frozen_norms(sight), [Block("input", (*product, *at(last.positions, table)))], last


def _detected(c: Config, task: str, sight: Sight, layers: Sequence[Block], head: Modules, queries: int) -> Model:
    """The model: a backbone, layers, and what finds boxes and classes of each query."""
    model = image_model(c, replace(sight, blocks=(*sight.blocks, *layers)), at(queries, head) if task else ())
    mark_costs(c)
    return model


@complete("detr", "table-transformer")
def detr(c: Config) -> Model:
    """DETR (arXiv:2005.12872), and Table Transformer with norms before sublayers (arXiv:2110.00061)."""
    task, act, before = head_of(c, DETECTS), activation(c, "activation_function", "relu"), c.kind != "detr"
    e, d, queries = detector_dims(c, "encoder"), detector_dims(c, "decoder"), c.size("num_queries", 100)
    sight, front, last = _detr_front(c, e.width)
    n = last.positions
    looks = looks_at(d, n)
    ffn = mlp(e.width, c.size("encoder_ffn_dim"), act, gated=False, bias=True)
    other = mlp(d.width, c.size("decoder_ffn_dim"), act, gated=False, bias=True)
    encodes = layer("encoder", e.width, sees_all(e), ffn, norm=layer_norm, before=before, after=not before)
    finds = queries_see(d, looks, other, before=before)
    table = Learned(name="queries", width=d.width, rows=queries, applied=False)
    ends = [Block("encoder norm", at(n, (layer_norm("encoder_norm", e.width),)))] if before else []
    blocks = [
        *front, *[over(n, encodes)] * e.layers, *ends, *[over(queries, finds)] * d.layers,
        Block("queries", at(queries, (table, layer_norm("decoder_norm", d.width)))),
    ]  # fmt: skip
    head = (*_class(d.width, label_count(c) + 1), *heads_of("box", d.width, d.width, d.width, 4))
    return _detected(c, task, sight, blocks, head, queries)


def _class(width: int, labels: int) -> Modules:
    return (Linear(name="class", inputs=width, outputs=labels, bias=True, part="other"),)


def queries_see(d: Dims, looks: Modules, ffn: Modules, *, before: bool = False, mixer: Modules | None = None) -> Block:
    """A layer of queries: they see one another, then the image."""
    own = layer(
        "decoder", d.width, sees_all(d) if mixer is None else mixer, norm=layer_norm, before=before, after=not before
    )
    cross = (*looks, Add(name="cross_residual", width=d.width))
    norm = (layer_norm("cross_norm", d.width),)
    rest = layer("decoder", d.width, (), ffn, norm=layer_norm, before=before, after=not before)
    return Block("decoder", (*own.modules, *(norm if before else ()), *cross, *(() if before else norm), *rest.modules))


@complete("conditional_detr")
def conditional_detr(c: Config) -> Model:
    """Conditional DETR (arXiv:2108.06152): content and place are projected apart."""
    task, act = head_of(c, DETECTS), activation(c, "activation_function", "relu")
    e, d, queries = detector_dims(c, "encoder"), detector_dims(c, "decoder"), c.size("num_queries", 300)
    sight, front, last = _detr_front(c, e.width)
    n, width = last.positions, d.width
    ffn = mlp(e.width, c.size("encoder_ffn_dim"), act, gated=False, bias=True)
    other = mlp(width, c.size("decoder_ffn_dim"), act, gated=False, bias=True)
    encodes = layer("encoder", e.width, sees_all(e), ffn, norm=layer_norm, before=False, after=True)

    scale = heads_of("query_scale", width, width, width)

    def looks(i: int) -> Modules:
        transform = () if i == 0 else scale if i == 1 else again(scale)
        return (*transform, *_content_and_place(d, n, first=i == 0))

    mixer = _five_products(d)
    finds = [over(queries, queries_see(d, looks(i), other, mixer=mixer)) for i in range(d.layers)]
    places = (
        Learned(name="queries", width=width, rows=queries, applied=False),
        *heads_of("reference", width, width, 2),
    )
    if d.layers == 1:
        places += tuple(replace(m, idle=True) for m in scale)
    blocks = [
        *front, *[over(n, encodes)] * e.layers, Block("queries", at(queries, places)), *finds,
        Block("decoder norm", at(queries, (layer_norm("decoder_norm", width),))),
    ]  # fmt: skip
    head = (*_class(width, label_count(c)), *heads_of("box", width, width, width, 4))
    return _detected(c, task, sight, blocks, head, queries)


@complete("dab-detr")
def dab_detr(c: Config) -> Model:
    """DAB-DETR (arXiv:2201.12329): Conditional DETR whose queries are boxes, which each layer refines."""
    task, act = head_of(c, DETECTS), activation(c, "activation_function", "prelu")
    e, d, learned = detector_dims(c, "encoder"), detector_dims(c, "decoder"), int(act == "prelu")
    own, patterns, dims = c.size("num_queries", 300), c.size("num_patterns", 0, least=0), c.size("query_dim", 4)
    queries, width = own * max(1, patterns), d.width
    sight, front, last = _detr_front(c, e.width)
    n, kept = last.positions, c.flag("keep_query_pos")
    ffn = mlp(width, c.size("encoder_ffn_dim"), act, gated=False, bias=True, learned=learned)
    other = mlp(width, c.size("decoder_ffn_dim"), act, gated=False, bias=True, learned=learned)
    encodes = layer("encoder", width, sees_all(e), ffn, norm=layer_norm, before=False, after=True)
    scale, boxes = heads_of("scale", width, width, width), heads_of("box", width, width, width, 4)
    place = heads_of("place", dims // 2 * width, width, width)
    anchor = heads_of("anchor", width, width, 2)
    blocks = [*front]
    for i in range(e.layers):
        scaled = _named(scale if i == 0 else again(scale), "encoder_")
        blocks.append(over(n, Block("encoder", (*scaled, *encodes.modules))))
    if c.flag("normalize_before"):
        blocks.append(Block("encoder norm", at(n, (layer_norm("encoder_norm", width),))))
    tables = (
        Learned(name="queries", width=dims, rows=own, applied=False),
        *((Learned(name="patterns", width=width, rows=patterns, applied=False),) if patterns else ()),
    )
    blocks.append(Block("queries", at(queries, (*tables, *(not_used(scale) if d.layers == 1 else ())))))
    for i in range(d.layers):
        moved = () if i == 0 else scale if i == 1 else again(scale)
        looks = (*moved, *_content_and_place(d, n, first=i == 0 or kept))
        block = queries_see(d, looks, other, mixer=_five_products(d))
        before = (*place, *anchor) if i == 0 else again((*place, *anchor))
        refines = (boxes if i == 0 else again(boxes)) if task else ()
        blocks.append(over(queries, Block("decoder", (
            *before, *block.modules, *refines, *(_named(again(boxes), "last_") if task else ()),
        ))))  # fmt: skip
    blocks.append(Block("decoder norm", at(queries, (layer_norm("decoder_norm", width),))))
    c.mark_read("temperature_height", "temperature_width", "sine_position_embedding_scale", "random_refpoints_xy")
    c.mark_read("init_std", "focal_alpha", "auxiliary_loss")
    return _detected(c, task, sight, blocks, _class(width, label_count(c)), queries)


def _five_products(d: Dims) -> Modules:
    """Attention of queries to one another, whose content and place are projected apart (arXiv:2108.06152)."""
    names = ("q_content_proj", "q_place_proj", "k_content_proj", "k_place_proj", "v_proj")
    return (
        *(column_product(name, d.width, d.width, True) for name in names),
        Attention(
            name="attention", heads=d.heads, kv_heads=d.heads, head_dim=d.head_dim, v_head_dim=d.head_dim, causal=False
        ),
        row_product("o_proj", d.width, d.width, True),
    )


def _content_and_place(d: Dims, n: int, *, first: bool) -> Modules:
    """Attention of queries to `n` positions of the image, whose heads are content beside place."""

    def product(name: str) -> Linear:
        return column_product(name, d.width, d.width, True)

    return (
        product("cross_q_content_proj"), *((product("cross_q_place_proj"),) if first else ()),
        product("cross_q_sine_proj"),
        *at(n, map(product, ("cross_k_content_proj", "cross_k_place_proj", "cross_v_proj"))),
        Attention(
            name="cross_attention", heads=d.heads, kv_heads=d.heads, head_dim=2 * d.head_dim, v_head_dim=d.head_dim,
            causal=False, keys=n,
        ),
        row_product("cross_o_proj", d.width, d.width, True),
    )  # fmt: skip


# -- deformable attention ------------------------------------------------------------------------------------------
def samples(width: int, heads: int, points: int, keys: int, prefix: str = "", inner: int | None = None) -> Modules:
    """Deformable attention (arXiv:2010.04159): each head reads `points` positions of `keys`, where a product says."""
    wide = inner or width
    return (
        *at(keys, (column_product(f"{prefix}v_proj", width, wide, True, kv=wide, kv_groups=heads),)),
        column_product(f"{prefix}offsets", width, 2 * heads * points, True, beside=True),
        column_product(f"{prefix}weights", width, heads * points, True, beside=True),
        Add(name=f"{prefix}samples", width=wide * points),
        row_product(f"{prefix}o_proj", wide, width, True),
    )  # fmt: skip


def levels_of(
    c: Config, maps: Sequence[Map], width: int, count: int, *, bias: bool, name: str = "level"
) -> tuple[Modules, list[Map]]:
    """Maps of one width: a product of each, and convolutions that halve the last for more levels."""
    modules: Modules = ()
    levels: list[Map] = []
    x = maps[-1]
    for i, given in enumerate(maps):
        step, y = chain(given, conv(f"{name}{i}", width, 1, bias=bias))
        modules, levels = (*modules, *step), [*levels, y]
    for i in range(len(maps), count):
        step, x = chain(x, conv(f"{name}{i}", width, 3, 2, bias=bias))
        modules, levels = (*modules, *step), [*levels, x]
    return modules, levels


@complete("deformable_detr")
def deformable_detr(c: Config) -> Model:
    """Deformable DETR (arXiv:2010.04159)."""
    task, act = head_of(c, DETECTS), activation(c, "activation_function", "relu")
    e, d, queries = detector_dims(c, "encoder"), detector_dims(c, "decoder"), c.size("num_queries", 300)
    count, twice, refined = c.size("num_feature_levels", 4), c.flag("two_stage"), c.flag("with_box_refine")
    sight, maps = backbone_of(shown(c, *USUAL))
    sight = frozen_norms(sight)
    width = d.width
    levels, every = levels_of(c, maps if count > 1 else maps[-1:], width, count, bias=True)
    n = sum(x.positions for x in every)
    c.mark_read("max_position_embeddings", "return_intermediate", "two_stage_num_proposals")
    table = () if c.text("position_embedding_type", "sine") == "sine" else (
        Learned(name="position_embedding", width=width // 2, rows=100, applied=False),
    )  # fmt: skip
    ffn = mlp(width, c.size("encoder_ffn_dim"), act, gated=False, bias=True)
    other = mlp(width, c.size("decoder_ffn_dim"), act, gated=False, bias=True)
    sampled = samples(width, e.heads, count * c.size("encoder_n_points", 4), n)
    encodes = layer("encoder", width, sampled, ffn, norm=layer_norm, before=False, after=True)
    looks = samples(width, d.heads, count * c.size("decoder_n_points", 4), n, "cross_")
    labels, boxes = label_count(c), heads_of("box", width, width, width, 4)
    proposals = c.size("two_stage_num_proposals", 300)
    asked = proposals if twice else queries
    if twice:
        places: Modules = (
            *at(
                n, (Linear(name="proposal", inputs=width, outputs=width, bias=True), layer_norm("proposal_norm", width))
            ),
            *at(
                proposals,
                (
                    Linear(name="place", inputs=2 * width, outputs=2 * width, bias=True),
                    layer_norm("place_norm", 2 * width),
                ),
            ),
        )
        if task:
            places += at(n, (*_named(_class(width, labels), "first_"), *_named(boxes, "first_")))
    else:
        places = (
            *at(queries, (Learned(name="queries", width=2 * width, rows=queries, applied=False),)),
            *at(queries, (Linear(name="reference", inputs=width, outputs=2, bias=True),)),
        )
    front = Block("levels", (*levels, Learned(name="level_embedding", width=width, rows=count, applied=False), *table))
    finds = over(asked, queries_see(d, looks, other))
    blocks = [front, *[over(n, encodes)] * e.layers, Block("queries", places)]
    for i in range(d.layers):
        heads: Modules = ()
        if task:
            found_boxes = (*boxes, *(_named(again(boxes), "refined_") if refined else ()))
            heads = (*_class(width, labels), *found_boxes)
            heads = heads if i == 0 or refined else again(heads)
        blocks.append(Block("decoder", (*finds.modules, *at(asked, heads))))
    return _detected(c, "", sight, blocks, (), asked)


def _named(modules: Modules, prefix: str) -> Modules:
    return tuple(replace(m, name=prefix + m.name) for m in modules)


# -- RT-DETR -------------------------------------------------------------------------------------------------------
def _rep_layer(c: Config, x: Map, width: int, act: str, name: str) -> Modules:
    """A CSP layer of RepVGG blocks (arXiv:2304.08069): two products, one through three blocks of two convolutions."""
    inner = int(width * c.number("hidden_expansion", 1.0))
    first, y = chain(x, conv(f"{name}_conv1", inner, 1, act=act))
    parts: Modules = first
    for i in range(3):
        beside, _ = chain(y, conv(f"{name}_rep{i}_3x3", inner))
        narrow, _ = chain(y, conv(f"{name}_rep{i}_1x1", inner, 1))
        ends = (
            Add(name=f"{name}_rep{i}_sum", width=inner),
            Activation(name=f"{name}_rep{i}_act", width=inner, function=act, gated=False),
        )
        parts += (*beside, *narrow, *at(y.positions, ends))
    second, _ = chain(x, conv(f"{name}_conv2", inner, 1, act=act))
    last = chain(y, conv(f"{name}_conv3", width, 1, act=act))[0] if inner != width else ()
    return (*parts, *second, *at(y.positions, (Add(name=f"{name}_sum", width=inner),)), *last)


@complete("rt_detr", "rt_detr_v2")
def rt_detr(c: Config) -> Model:
    """RT-DETR (arXiv:2304.08069) and v2 (arXiv:2407.17140): attention on the smallest map, then a pyramid."""
    c = shown(c, 640, 640)
    task, act = head_of(c, DETECTS), activation(c, "activation_function", "silu")
    width, queries = c.size("d_model|hidden_size", 256), c.size("num_queries", 300)
    sight, maps = backbone_of(c)
    sight = frozen_norms(sight) if c.flag("freeze_backbone_batch_norms", True) else sight
    count, wide = c.size("num_feature_levels", 3), c.size("encoder_hidden_dim", 256)
    blocks, levels = smallest_attends(c, maps)
    blocks += pyramid(c, levels, wide, act)
    mixed, every = levels_of(c, levels, width, count, bias=False, name="decoder_input")
    n = sum(x.positions for x in every)
    labels = label_count(c)
    boxes = heads_of("box", width, width, width, 4)
    first = proposes(c, n, labels, boxes, denoised=labels + 1)
    blocks.append(Block("queries", (*mixed, *first)))
    attends = c.size("decoder_attention_heads", 8)
    d = Dims(c.size("decoder_layers", 6), width, attends, attends, width // attends)
    points = c.size("decoder_n_levels|num_feature_levels", count) * c.size("decoder_n_points", 4)
    looks = samples(width, attends, points, n, "cross_")
    other = mlp(
        width,
        c.size("decoder_ffn_dim", 1024),
        activation(c, "decoder_activation_function", "relu"),
        gated=False,
        bias=True,
    )
    place = heads_of("place", 4, 2 * width, width)
    for i in range(d.layers):
        own = queries_see(d, looks, other)
        end = (*_class(width, labels), *boxes) if task else ()
        blocks.append(over(queries, Block("decoder", (*(place if i == 0 else again(place)), *own.modules, *end))))
    model = _detected(c, "", sight, blocks, (), queries)
    mark_detector(c)
    return model


def mark_detector(c: Config) -> None:
    """Mark keys of RT-DETR and its kin that cannot change the work."""
    mark_costs(c)
    c.mark_read("feat_strides", "encoder_in_channels", "decoder_in_channels", "positional_encoding_temperature")
    c.mark_read("eval_size", "anchor_image_size", "label_noise_ratio", "box_noise_scale", "with_box_refine")
    c.mark_read(
        "head_dim",
        "layer_types",
        "batch_norm_eps",
        "decoder_offset_scale",
        "decoder_method",
        "use_focal_loss",
        "normalize_before",
    )
    c.mark_read(*(key for key in c.raw if key.startswith(("weight_loss_", "matcher_"))))


def smallest_attends(c: Config, maps: Sequence[Map], *, projects: bool = True) -> tuple[list[Block], list[Map]]:
    """Maps of one width, some of which attend to themselves: the smallest alone in published models."""
    wide, heads = c.size("encoder_hidden_dim", 256), c.size("encoder_attention_heads", 8)
    act, before = activation(c, "encoder_activation_function", "gelu"), c.flag("normalize_before")
    e = Dims(c.size("encoder_layers", 1, least=0), wide, heads, heads, wide // heads)
    inputs: Modules = ()
    for i, x in enumerate(maps if projects else ()):
        inputs += chain(x, conv(f"input{i}", wide, 1))[0]
    blocks = [Block("inputs", inputs)] if inputs else []
    ffn = mlp(wide, c.size("encoder_ffn_dim", 1024), act, gated=False, bias=True)
    encodes = layer("encoder", wide, sees_all(e), ffn, norm=layer_norm, before=before, after=not before)
    levels = [Map(wide, x.rows, x.columns) for x in maps]
    for i in indices(c, "encode_proj_layers"):
        if i >= len(levels):
            raise c.error("encode_proj_layers", f"indices of maps, below {len(levels)}")
        blocks += [over(levels[i].positions, encodes)] * e.layers
    return blocks, levels


def proposes(c: Config, n: int, labels: int, boxes: Modules, *, denoised: int) -> Modules:
    """Class and box of each of `n` positions, the best of which become queries; vectors of training alone."""
    width, queries = c.size("d_model|hidden_size", 256), c.size("num_queries", 300)
    noise = (
        (Embedding(name="denoising", rows=denoised, width=width, idle=True),)
        if c.size("num_denoising", 100, least=0)
        else ()
    )
    learned = c.flag("learn_initial_query")
    first = (Learned(name="queries", width=width, rows=queries, applied=False),) if learned else ()
    return (*noise, *first, *at(n, (
        Linear(name="proposal", inputs=width, outputs=width, bias=True), layer_norm("proposal_norm", width),
        *_named(_class(width, labels), "first_"), *_named(boxes, "first_"),
    )))  # fmt: skip


def pyramid(c: Config, levels: list[Map], wide: int, act: str) -> list[Block]:
    """From the smallest map to the largest, and back."""
    blocks = []
    for i in range(len(levels) - 1, 0, -1):
        lateral, _ = chain(levels[i], conv("lateral", wide, 1, act=act))
        below = levels[i - 1]
        both = Map(2 * wide, below.rows, below.columns)
        blocks.append(Block("pyramid", (*lateral, *_rep_layer(c, both, wide, act, "fpn"))))
    for i in range(len(levels) - 1):
        down, y = chain(levels[i], conv("down", wide, 3, 2, act=act))
        blocks.append(Block("back", (*down, *_rep_layer(c, Map(2 * wide, y.rows, y.columns), wide, act, "pan"))))
    return blocks


# -- YOLOS and OWL -------------------------------------------------------------------------------------------------
@complete("yolos")
def yolos(c: Config) -> Model:
    """YOLOS (arXiv:2106.00666): a vision transformer with tokens that become boxes."""
    task, act = head_of(c, DETECTS), activation(c, default="gelu")
    c = shown(c, 512, 864)
    d, bias, count = vision_dims(c), c.flag("qkv_bias", True), c.size("num_detection_tokens", 100)
    (height, width), patch = both_sides(c, "image_size"), both_sides(c, "patch_size")
    places = (height // patch[0]) * (width // patch[1]) + 1 + count
    between = (
        (Learned(name="layer_positions", width=d.width, rows=places),)
        if c.flag("use_mid_position_embeddings", True)
        else ()
    )
    block = vision_layer(d.width, sees_all(d, (bias, bias, bias)), plain_mlp(c, d.width, act))
    moved = Block(block.name, (*block.modules, *between))
    stack = [moved] * (d.layers - 1) + [block]
    last = (layer_norm("final_norm", d.width),)
    sight = patched(c, d, stack, TokensBeside(registers=count, table=1 + count), after=last)
    mark_costs(c)
    if not task:
        return image_model(c, sight, pooler(d.width))
    classes = heads_of("class", d.width, d.width, d.width, label_count(c) + 1)
    return image_model(c, sight, at(count, (*classes, *heads_of("box", d.width, d.width, d.width, 4))))


@complete("owlvit", "owlv2")
def owl(c: Config) -> Model:
    """OWL-ViT (arXiv:2205.06230) and OWLv2 (arXiv:2306.09683): CLIP whose patches are compared with words."""
    text, vision = read_part(c, "text_config"), read_part(shown(c, 768, 768), "vision_config")
    words, sight, size = clip_words(text), clip_sight(vision), c.size("projection_dim", 512)
    task, width, n = head_of(c, DETECTS), sight.width, sight.patches
    model = contrastive_model(
        c, words, sight, text=(shared_projection("text_projection", words.width, size),),
        image=(shared_projection("visual_projection", width, size),),
    )  # fmt: skip
    if not task:
        return model
    finds = at(n, (
        layer_norm("find_norm", width),
        Linear(name="class_proj", inputs=width, outputs=words.width, bias=True, part="other"),
        Linear(name="shift_scale", inputs=width, outputs=2, bias=True, part="other"),
        *heads_of("box", width, width, width, 4, act="gelu"),
        *(heads_of("object", width, width, width, 1, act="gelu") if c.kind == "owlv2" else ()),
    ))  # fmt: skip
    every = at(sight.positions, (layer_norm("every_norm", width),))
    every = tuple(replace(m, tied=True) if isinstance(m, Norm) else m for m in every)
    product = replace(Linear(name="compared", inputs=words.width, outputs=1, tied=True, part="other"), positions=n)
    seeing = model.towers[0]
    block = Block("find", tuple(replace(m, stream="images") for m in (*every, *finds, product)))
    return replace(model, towers=(replace(seeing, layers=(*seeing.layers, block)),))


def frozen_parts(c: Config, sight: Sight) -> Sight:
    """The backbone of a detector, whose BatchNorms are fixed; norms of transformers are not. Marks keys of the loss."""
    mark_costs(c)
    kind = str(read_part(c, "backbone_config").kind) if c.raw.get("backbone_config") else "timm_backbone"
    return frozen_norms(sight) if kind in ("resnet", "rt_detr_resnet", "timm_backbone") else sight
