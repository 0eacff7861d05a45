"""Vision towers whose projectors resample: Q-Former, perceivers, pooled windows; SAM's encoder; Llama's towers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    TowerStages,
    Vit,
    by_itself,
    chosen_layers,
    patch_grid,
    patches,
    position_rows,
    projection,
    section_of,
    sees,
    sides,
    streamed,
    vit,
)
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete, towers
from roofline.model.families.towers.fixed_resolution import backbone, clip_vision, square_vision
from roofline.model.media.images import IMAGES
from roofline.model.model import DEEPSTACK, Block, Model, Tower
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    Convolution,
    Learned,
    Linear,
    Module,
    Modules,
    RelativeBias,
)


def resampled(
    name: str, d: Dims, queries: int, keys: int, *, source: int | None = None, bias: bool = False, runs: int = 1,
    same: bool = False,
) -> Modules:  # fmt: skip
    """Attention of `queries` learned positions to `keys` others, `source` wide, in each of `runs` pieces.

    `same`: the queries are still the same for all pieces.
    """
    wide, kv = d.heads * d.head_dim, 2 * d.kv_heads * d.head_dim
    q = Linear(name=f"{name}_q_proj", inputs=d.width, outputs=wide, bias=bias, part="attention")
    keys_values = Linear(name=f"{name}_kv_proj", inputs=source or d.width, outputs=kv, bias=bias, part="attention")
    attends = Attention(
        name=f"{name}_attention", heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=d.head_dim,
        keys=keys, causal=False,
    )  # fmt: skip
    out = Linear(name=f"{name}_o_proj", inputs=wide, outputs=d.width, bias=bias, part="attention")
    return (
        *at(queries, (q,), 1 if same else runs),
        *at(keys, (keys_values,), runs),
        *at(queries, (attends, out), runs),
    )


def unapplied(name: str, width: int, rows: int = 1) -> Learned:
    """Learned vectors that stand among the positions."""
    return Learned(name=name, width=width, rows=rows, applied=False)


# -- perceivers ----------------------------------------------------------------------------------------------------
@towers("idefics2")
def idefics2(outer: Config, text: Model) -> Iterator[Tower]:
    """Idefics 2 (arXiv:2405.02246): a gated projection of each patch, then a perceiver of 64 latents."""
    part, p, t = backbone(outer), section_of(outer, "perceiver_config"), section_of(outer, "text_config")
    count, width, act = part.positions or 1, text.hidden, activation(t)
    project = (
        Linear(name="gate_up_proj", inputs=part.width, outputs=2 * t.size("intermediate_size"), gated=True),
        Activation(name="act", width=t.size("intermediate_size"), function=act),
        Linear(name="down_proj", inputs=t.size("intermediate_size"), outputs=width),
    )
    queries, depth, own = p.size("resampler_n_latents", 64), p.size("resampler_depth", 3), p.size("hidden_size", 4096)
    d = Dims(
        depth, own, p.size("resampler_n_heads", 16), p.size("num_key_value_heads", 4), p.size("resampler_head_dim", 96)
    )
    perceiver = Block("perceiver", (
        *at(queries, (rms("latents_norm", own),)), *at(count, (rms("context_norm", own),)),
        *resampled("perceiver", d, queries, count + queries),
        *at(queries, (
            Add(name="attn_residual", width=own), rms("ffn_norm", own), *mlp(own, 4 * own, activation(p)),
            Add(name="ffn_residual", width=own),
        )),
    ))  # fmt: skip
    last = Block("norm", (unapplied("latents", own, queries), *at(queries, (rms("final_norm", own),))))
    yield from streamed((
        part, TowerStage("projector", width, (Block("projector", at(count, project)), *[perceiver] * depth, last)),
    ), IMAGES)  # fmt: skip


@towers("aria")
def aria_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Aria (arXiv:2410.05993): 128 or 256 queries attend to the patches, projected twice."""
    part, c = backbone(outer), section_of(outer, "vision_config")
    width, count, heads = part.width, part.positions or 1, c.size("num_attention_heads")
    chosen = outer.value("projector_patch_to_query_dict", None)[1]
    numbers = {int(k): v for k, v in (chosen if isinstance(chosen, dict) else {1225: 128, 4900: 256}).items()}
    rows = outer.size("max_value_projector_patch_to_query_dict", None) or max(
        v for v in numbers.values() if isinstance(v, int)
    )
    own = numbers.get(count, rows)
    queries = own if isinstance(own, int) else rows
    d = Dims(1, width, heads, heads, width // heads)
    modules = (
        unapplied("query", width, rows),
        *at(queries, (layer_norm("query_norm", width), Linear(name="query_proj", inputs=width, outputs=width))),
        *at(count, (layer_norm("kv_norm", width), Linear(name="key_value_proj", inputs=width, outputs=2 * width))),
        *resampled("cross", replace(d, kv_heads=heads), queries, count, bias=True),
    )
    wide, out = text.hidden, text.hidden
    rest = at(queries, (
        Linear(name="linear", inputs=width, outputs=width, bias=True), layer_norm("out_norm", width),
        Linear(name="up_proj", inputs=width, outputs=wide),
        Activation(name="act", width=wide, function="gelu_new", gated=False),
        Linear(name="down_proj", inputs=wide, outputs=out),
    ))  # fmt: skip
    yield from streamed((part, TowerStage("projector", out, (Block("projector", (*modules, *rest)),))), IMAGES)


# -- Q-Former ------------------------------------------------------------------------------------------------------
def eva(c: Config) -> TowerStage:
    """EVA-CLIP's vision tower (arXiv:2211.07636), as BLIP-2 has it."""
    v = replace(vit(c), bias=c.flag("qkv_bias", True))
    return square_vision(c, v, token=True, last=(layer_norm("final_norm", v.width),))


def qformer(
    q: Config, queries: int, keys: int, *, text: bool = False, tables: bool = False, runs: int = 1
) -> tuple[Block, ...]:
    """Q-Former (arXiv:2301.12597): queries attend to one another, and in every second layer to the image.

    `text`: it has weights for text beside the queries as well; `tables`: and embeddings of it. Only the queries run, in
    each of `runs` pieces of the input.
    """
    width, heads, layers = q.size("hidden_size"), q.size("num_attention_heads"), q.size("num_hidden_layers")
    d, act, inner = (
        Dims(layers, width, heads, heads, width // heads),
        activation(q, default="gelu"),
        q.size("intermediate_size"),
    )
    every, source = q.size("cross_attention_frequency", 2), q.size("encoder_hidden_size", 1408)
    ffn = (*mlp(width, inner, act, gated=False, bias=True), layer_norm("ffn_norm", width))
    idle = tuple(replace(m, name=f"text_{m.name}", idle=True) for m in ffn) if text else ()

    def block(cross: bool, first: bool) -> Block:
        own = (
            *attention(d, rotary=0, bias=True, causal=False),
            Add(name="attn_residual", width=width),
            layer_norm("attn_norm", width),
        )
        seen: Modules = ()
        if cross:
            seen = (
                *resampled("cross", d, queries, keys, source=source, bias=True, runs=runs, same=first),
                *at(queries, (Add(name="cross_residual", width=width), layer_norm("cross_norm", width)), runs),
            )
        return Block(
            "cross" if cross else "dense",
            (*at(queries, own, 1 if first else runs), *seen, *idle, *at(queries, ffn, runs)),
        )

    front: tuple[Module, ...] = (
        unapplied("queries", width, queries),
        *at(queries, (layer_norm("query_norm", width),), runs),
    )
    if tables:
        rows = q.size("vocab_size") + q.size("max_position_embeddings", 512)
        front = (*front, unapplied("text_embeddings", width, rows))
    return (Block("queries", front), *(block(i % every == 0, i == 0) for i in range(layers)))


@towers("blip-2", "instructblip", "instructblipvideo")
def blip_2(outer: Config, text: Model) -> Iterator[Tower]:
    """BLIP-2 (arXiv:2301.12597), InstructBLIP (arXiv:2305.06500): an EVA tower and a Q-Former of 32 queries."""
    if outer.architecture.endswith("ForImageTextRetrieval"):
        raise outer.error("architectures", "a class that writes text: one that compares has another text part")
    part, q = eva(section_of(outer, "vision_config")), section_of(outer, "qformer_config")
    queries, instructed = outer.size("num_query_tokens", 32), outer.raw.get("model_type") != "blip-2"
    also_text = instructed or q.flag("use_qformer_text_input")
    blocks = qformer(q, queries, part.positions or 1, text=also_text, tables=instructed)
    width = q.size("hidden_size")
    last = Block("projector", at(queries, (Linear(name="projector", inputs=width, outputs=text.hidden, bias=True),)))
    yield from streamed((part, TowerStage("projector", width, (*blocks, last))), IMAGES)


# -- Kosmos, GIT ---------------------------------------------------------------------------------------------------
def _latent_projector(text: Config, hidden: int, inputs: int, count: int, queries: int) -> TowerStage:
    """Kosmos's projector: queries attend to the image and to themselves."""
    heads = text.size("attention_heads")
    d = Dims(1, hidden, heads, heads, hidden // heads)
    modules = (
        *at(count, (Linear(name="projector", inputs=inputs, outputs=hidden, bias=True),)),
        unapplied("queries", hidden, queries),
        *resampled("latent", d, queries, count + queries, bias=True),
    )
    return TowerStage("projector", hidden, (Block("projector", modules),))


@towers("kosmos-2")
def kosmos_2(outer: Config, text: Model) -> Iterator[Tower]:
    """Kosmos-2 (arXiv:2306.14824): CLIP, and 64 queries that attend to its output."""
    (part,), t = clip_vision(section_of(outer, "vision_config")), section_of(outer, "text_config")
    queries = outer.size("latent_query_num", 64)
    projector = _latent_projector(t, text.hidden, part.width, part.positions or 1, queries)
    yield from streamed((part, projector), IMAGES)


@towers("kosmos-2.5")
def kosmos_2_5(outer: Config, text: Model) -> Iterator[Tower]:
    """Kosmos-2.5 (arXiv:2309.11419): Pix2Struct's tower over patches with rows and columns, and 2048 queries."""
    c, t = section_of(outer, "vision_config"), section_of(outer, "text_config")
    part = pix2struct_vision(c)
    projector = _latent_projector(t, text.hidden, part.width, part.positions or 1, outer.size("latent_query_num", 2048))
    yield from streamed((part, projector), IMAGES)


def pix2struct_vision(c: Config) -> TowerStage:
    """Pix2Struct's tower (arXiv:2210.03347): RMSNorm, gated GELU, tables of rows and of columns."""
    width, heads, rows = c.size("hidden_size"), c.size("num_attention_heads"), c.size("max_num_patches|seq_len", 4096)
    inner, act = c.size("intermediate_size|d_ff"), activation(c, "dense_act_fn", "gelu_new")
    v = Vit(
        c.size("num_hidden_layers"), width, heads, inner, act, head_dim=c.size("head_dim|d_kv", 64), norm=rms,
        bias=False, out_bias=False, gated=True, mlp_bias=False,
    )  # fmt: skip
    front = (
        Linear(
            name="patch_embedding", inputs=c.size("patch_embed_hidden_size"), outputs=width, bias=True, part="other"
        ),
        position_rows(width, 2 * rows),
    )
    last = Block("norm", (rms("final_norm", width),))
    return TowerStage("vision", width, (Block("patches", front), *v.blocks, last), c.inputs.patches or rows)


for _name in ("kosmos_2_5_vision_model", "pix2struct_vision_model"):
    complete(_name)(lambda c: by_itself(c, (pix2struct_vision(c),)))


@towers("git")
def git_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """GIT (arXiv:2205.14100): CLIP, and a projection with a norm behind it."""
    c = section_of(outer, "vision_config")
    v = vit(c, default_act="quick_gelu")
    part = square_vision(c, v, bias=False, before=layer_norm, token=True, last=(layer_norm("final_norm", v.width),))
    frames = outer.size("num_image_with_embedding", 0, least=0)
    modules = (
        Linear(name="projector", inputs=v.width, outputs=text.hidden, bias=True),
        layer_norm("projector_norm", text.hidden),
        *((unapplied("frame_embedding", v.width, frames),) if frames else ()),
    )
    yield from streamed((part, TowerStage("projector", text.hidden, (Block("projector", modules),))), IMAGES)


# -- Llama ---------------------------------------------------------------------------------------------------------
@sees(alone=("llama4_vision_model",))
def llama4_vision(c: Config) -> TowerStages:
    """Llama 4's tower (Meta, 2025): a class token last, rotary positions; pixels are shuffled into an adapter."""
    v = replace(vit(c), rotary=True)
    part = square_vision(c, v, bias=False, before=layer_norm, token=True, last=(layer_norm("final_norm", v.width),))
    yield part
    four = round(1 / c.number("pixel_shuffle_ratio", 0.5) ** 2)
    sizes = (c.size("intermediate_size"), c.size("projector_input_dim", 4096), c.size("projector_output_dim", 4096))
    block = projection("adapter", sizes, bias=False)
    yield TowerStage(
        "projector", sizes[-1], (Block("adapter", at(((part.positions or 1) - 1) // four, block.modules)),)
    )


@towers("llama4")
def llama4_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Llama 4 (Meta, 2025): one product behind the adapter."""
    c = section_of(outer, "vision_config")
    vision, adapter = llama4_vision(c)
    inputs = c.size("vision_output_dim", 4096)
    project = at(
        adapter.blocks[0].modules[0].positions or 1, (Linear(name="projector", inputs=inputs, outputs=text.hidden),)
    )
    blocks = (*adapter.blocks, Block("projector", project))
    yield from streamed((vision, replace(adapter, blocks=blocks)), IMAGES)


@sees(alone=("mllama_vision_model",))
def mllama_vision(c: Config) -> TowerStages:
    """Llama 3.2's tower (arXiv:2407.21783 §7): up to four tiles in one row, gated layers behind the others."""
    v = replace(vit(c), bias=False, out_bias=False, norm=layer_norm)
    (rows, columns), (p, q), tiles = sides(c, "image_size"), sides(c, "patch_size"), c.size("max_num_tiles", 4)
    each, width = (rows // p) * (columns // q) + 1, v.width
    shapes = c.value("supported_aspect_ratios", None)[1]
    ratios = (len(shapes) if isinstance(shapes, list) else 8) + 1
    padded = tiles * 8 * ceil_div(each, 8)
    front = (
        *at(tiles * (each - 1), patches(c, width, bias=False).modules),
        unapplied("class_token", width), unapplied("gates", 1, 3),
        Learned(name="position_embedding", width=width, rows=each),
        unapplied("tile_positions", width, ratios * tiles * each), unapplied("tiles", width, 2 * ratios * tiles),
        layer_norm("embedding_norm", width),
    )  # fmt: skip
    gated = Block("gated", (*v.layer().modules, unapplied("layer_gates", 1, 2)))
    blocks = (Block("patches", front), *v.blocks, Block("norm", (layer_norm("final_norm", width),)))
    c.value("intermediate_layers_indices", None)
    # The mask of tiles that are empty is a product of a column and a row.
    mask = at(padded, (Linear(name="mask", inputs=1, outputs=padded, tied=True),))
    every = (*blocks, *[gated] * c.size("num_global_layers", 8), Block("mask", mask))
    yield TowerStage("vision", width, every, padded)


@towers("mllama")
def mllama_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Llama 3.2 Vision: features of several layers side by side go through one product."""
    c = section_of(outer, "vision_config")
    (part,) = mllama_vision(c)
    (rows, columns), (p, q), tiles = sides(c, "image_size"), sides(c, "patch_size"), c.size("max_num_tiles", 4)
    project = Linear(name="projector", inputs=c.size("vision_output_dim", 7680), outputs=text.hidden, bias=True)
    count = tiles * ((rows // p) * (columns // q) + 1)
    yield from streamed(
        (part, TowerStage("projector", text.hidden, (Block("projector", at(count, (project,))),))), IMAGES
    )


# -- Ovis, Granite Docling, Molmo ----------------------------------------------------------------------------------
@sees(alone=("ovis2_vision",))
def ovis2_vision(c: Config) -> TowerStages:
    """Ovis 2's tower (arXiv:2405.20797): AIMv2, then the probability of each visual word."""
    v, bias = vit(c, default_act="silu"), c.flag("qkv_bias")
    v = replace(v, norm=rms, gated=True, bias=bias, out_bias=bias, mlp_bias=c.flag("mlp_bias"))
    part = square_vision(c, v, before=rms, last=(rms("final_norm", v.width),))
    yield replace(part, blocks=(_norm_first(part.blocks[0]), *part.blocks[1:]))
    stride = c.size("hidden_stride", 1)
    words = c.size("vocab_size") - c.size("num_visual_indicator_tokens", 5)
    head = (
        Linear(name="word_proj", inputs=v.width * stride * stride, outputs=words),
        layer_norm("word_norm", words),
    )
    yield TowerStage("projector", words, (Block("words", at(_strided(c, stride), head)),))


def _norm_first(front: Block) -> Block:
    """The patches with their norm before the positions are added."""
    return Block(front.name, (*front.modules[:-2], front.modules[-1], front.modules[-2]))


def _strided(c: Config, stride: int) -> int:
    down, across = patch_grid(c)
    return ceil_div(down, stride) * ceil_div(across, stride)


@towers("ovis2")
def ovis2(outer: Config, text: Model) -> Iterator[Tower]:
    """Ovis 2: probabilities times a table of visual embeddings."""
    c = section_of(outer, "vision_config")
    hidden = outer.size("hidden_size", text.hidden)
    embed = Linear(name="visual_embeddings", inputs=c.size("vocab_size"), outputs=hidden, part="other")
    count = _strided(c, c.size("hidden_stride", 1))
    vision, head = ovis2_vision(c)
    blocks = (*head.blocks, Block("embeddings", at(count, (embed,))))
    yield from streamed((vision, replace(head, blocks=blocks)), IMAGES)


@sees("granite_docling", alone=("granite_docling_vision",))
def granite_docling_vision(c: Config) -> TowerStages:
    """Granite Docling 2 (IBM, 2026): SigLIP, and a coarse and a fine connector, of which an image takes the first."""
    v, out = vit(c, default_act="gelu_pytorch_tanh"), c.size("out_hidden_size", 1024)
    part = square_vision(c, v)
    factor, deep = c.size("scale_factor", 4), len(chosen_layers(c, "deepstack_visual_indexes", (3, 6, 9)))
    count = part.positions or 1
    yield part
    coarse = _connector(v.width, out, factor, count, deep)
    fine = _connector(v.width, out, factor // 2, count, deep) if c.flag("use_fine_route", True) else ()
    idle = tuple(Block(f"fine {b.name}", tuple(replace(m, idle=True) for m in b.modules)) for b in fine)
    left = count // factor**2
    last = (
        layer_norm("mid_norm", out), Activation(name="mid_act", width=out, function="gelu", gated=False),
        Linear(name="mid_proj", inputs=out, outputs=out), layer_norm("out_norm", out),
    )  # fmt: skip
    first = Block("norm", (layer_norm("in_norm", v.width),))
    yield TowerStage("projector", out, (first, *coarse, *idle, Block("last", at(left, last))))


def _connector(width: int, out: int, factor: int, count: int, deep: int) -> Sequence[Block]:
    wide, left = width * factor**2, count // factor**2
    merger = projection(DEEPSTACK, (wide, out, out), norm=layer_norm("deepstack_norm", wide))
    project = at(left, (Linear(name="projector", inputs=wide, outputs=out),))
    return (Block("projector", project), *[Block(DEEPSTACK, at(left, merger.modules))] * deep)


@towers("molmo2")
def molmo2_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Molmo 2 (arXiv:2601.10611): patches of two layers are pooled by attention in squares of four."""
    c, a = section_of(outer, "vision_config"), section_of(outer, "adapter_config")
    v = replace(
        vit(c, default_act="gelu_pytorch_tanh"),
        kv_heads=c.size("num_key_value_heads", 16),
        head_dim=c.size("head_dim", 72),
    )
    bias = c.flag("attention_bias", True)
    v = replace(v, bias=bias, out_bias=bias)
    (rows, columns), (p, q) = sides(c, "image_size", 378), sides(c, "patch_size", 14)
    places = c.size("num_position_embeddings", None) or (rows // p) * (columns // q)
    front = patches(c, v.width, after=(position_rows(v.width, places),))
    vision = TowerStage("vision", v.width, (front, *v.blocks), places)
    heads, kv, dim, width = (
        a.size(k) for k in ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size")
    )
    chosen = a.get("vision_feature_layer")
    d = Dims(1, width, heads, kv, dim)
    wide = width * (len(chosen) if isinstance(chosen, list) else 2)
    pool = pooled_squares(
        d, wide, a.size("intermediate_size"), a.size("text_hidden_size", text.hidden), ceil_div(places, 4),
        activation(a), bias=a.flag("attention_bias", True), mlp_bias=a.flag("mlp_bias"),
    )  # fmt: skip
    yield from streamed((vision, TowerStage("projector", text.hidden, (Block("projector", pool),))), IMAGES)


def pooled_squares(
    d: Dims, wide: int, inner: int, out: int, left: int, act: str, *, bias: bool = True, mlp_bias: bool = False
) -> Modules:
    """Molmo's projector: the mean of four neighbours attends to them, then a gated network; `left` positions stay."""
    own, kv = d.heads * d.head_dim, 2 * d.kv_heads * d.head_dim
    return (
        *at(1, (Linear(name="pool_q_proj", inputs=wide, outputs=own, bias=bias),), left),
        *at(4, (Linear(name="pool_kv_proj", inputs=wide, outputs=kv, bias=bias),), left),
        *at(1, (
            Attention(
                name="pool", heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim, v_head_dim=d.head_dim, keys=4,
                causal=False,
            ),
            Linear(name="pool_o_proj", inputs=own, outputs=d.width, bias=bias),
            Linear(name="gate_up_proj", inputs=d.width, outputs=2 * inner, gated=True, bias=mlp_bias),
            Activation(name="act", width=inner, function=act),
            Linear(name="down_proj", inputs=inner, outputs=out),
        ), left),
    )  # fmt: skip


# -- SAM's encoder -------------------------------------------------------------------------------------------------
def sam_tower(c: Config, *, own: bool = False) -> TowerStage:
    """SAM's image encoder (arXiv:2304.02643): windows with relative positions, some layers see all, then a neck.

    `own`: at the resolution of the config, whatever another tower of the model reads.
    """
    width, heads, layers = c.size("hidden_size"), c.size("num_attention_heads"), c.size("num_hidden_layers")
    (rows, columns), (p, q) = sides(c, "image_size"), sides(c, "patch_size")
    (down, across), (high, wide) = (
        ((rows // p, columns // q),) * 2 if own else (patch_grid(c), (rows // p, columns // q))
    )
    count, window, out = down * across, c.size("window_size", 14, least=0), c.size("output_channels", 256)
    inner = c.size("mlp_dim", None) or int(width * c.number("mlp_ratio", 4))
    d, bias, relative = (
        Dims(layers, width, heads, heads, width // heads),
        c.flag("qkv_bias", True),
        c.flag("use_rel_pos", True),
    )
    seeing_all, act = chosen_layers(c, "global_attn_indexes", ()), activation(c, default="gelu")

    def block(full: bool) -> Block:
        (a, b), runs = (
            ((down, across), 1) if full else ((window, window), ceil_div(down, window) * ceil_div(across, window))
        )
        tables = (high, wide) if full else (window, window)
        mixer = attention(d, rotary=0, bias=bias, out_bias=True, causal=False)
        if relative:
            stored = 2 * sum(tables) - 2
            more = RelativeBias(name="relative", heads=heads, dim=d.head_dim, extent=a + b)
            mixer = (*mixer[:-2], more, unapplied("distances", d.head_dim, stored - a - b), *mixer[-2:])
        block = layer(
            "full" if full else "windowed", width, (), mlp(width, inner, act, gated=False, bias=True), norm=layer_norm
        )
        first = (*at(count, (layer_norm("attn_norm", width),)), *at(a * b, mixer, runs))
        return Block(block.name, (*first, *at(count, (Add(name="attn_residual", width=width), *block.modules))))

    places = (position_rows(width, high * wide),) if c.flag("use_abs_pos", True) else ()
    front = at(count, patches(c, width, after=places).modules)
    full, part = block(True), block(False) if window else block(True)
    blocks = [full if i in seeing_all else part for i in range(layers)]
    return TowerStage(
        "vision", width, (Block("patches", front), *blocks, Block("neck", at(count, neck(width, out)))), count
    )


def neck(width: int, out: int) -> Modules:
    """SAM's neck: two convolutions with norms."""
    return (
        Convolution(name="neck_1", inputs=width, outputs=out, kernel=1), layer_norm("neck_norm_1", out),
        Convolution(name="neck_2", inputs=out, outputs=out, kernel=9), layer_norm("neck_norm_2", out),
    )  # fmt: skip


def halved_sides(down: int, across: int, widths: Sequence[int], runs: int = 1) -> tuple[tuple[Block, ...], int]:
    """Convolutions that halve each side, and the positions that are left."""
    blocks: list[Block] = []
    for i, (inputs, outputs) in enumerate(pairwise(widths)):
        down, across = ceil_div(down, 2), ceil_div(across, 2)
        conv = Convolution(name=f"downsample_{i + 1}", inputs=inputs, outputs=outputs, kernel=9, stride=4)
        blocks.append(Block(f"downsample {i + 1}", at(down * across, (conv,), runs)))
    return tuple(blocks), down * across


@towers("got_ocr2", "pp_chart2table")
def got_ocr2(outer: Config, text: Model) -> Iterator[Tower]:
    """GOT-OCR 2 (arXiv:2409.01704): SAM's encoder, two convolutions and one product."""
    c = section_of(outer, "vision_config")
    out = c.size("output_channels", 256)
    blocks, left = halved_sides(*patch_grid(c), (out, 2 * out, text.hidden))
    project = at(left, (Linear(name="projector", inputs=text.hidden, outputs=text.hidden, bias=True),))
    yield from streamed(
        (sam_tower(c), TowerStage("projector", text.hidden, (*blocks, Block("projector", project)))), IMAGES
    )


@towers("deepseek_vl_hybrid")
def deepseek_vl_hybrid(outer: Config, text: Model) -> Iterator[Tower]:
    """DeepSeek-VL 7B (arXiv:2403.05525): SigLIP at low resolution, SAM's encoder at high resolution beside it."""
    part, high = backbone(outer), section_of(outer, "high_res_vision_config")
    c, sam = section_of(outer, "vision_config"), sam_tower(high, own=True)
    width, out, count = high.size("hidden_size"), high.size("output_channels", 256), part.positions or 1
    side = c.size("image_size") // c.size("patch_size")
    more = Block("second neck", at(sam.positions or 1, neck(width, out)))
    blocks, left = halved_sides(4 * side, 4 * side, (out, 2 * out, 4 * out), runs=2)
    half = text.hidden // 2
    aligner = (
        unapplied("alpha", 1),
        *at(count, (Linear(name="low_proj", inputs=part.width, outputs=half, bias=True),)),
        *at(left, (
            Linear(name="high_proj", inputs=4 * out, outputs=half, bias=True),
            Activation(name="act", width=text.hidden, function="gelu", gated=False),
            Linear(name="projector", inputs=text.hidden, outputs=text.hidden, bias=True),
        )),
    )  # fmt: skip
    yield from streamed((
        part, replace(sam, blocks=(*sam.blocks, more)),
        TowerStage("projector", text.hidden, (*blocks, Block("aligner", aligner))),
    ), IMAGES)  # fmt: skip
