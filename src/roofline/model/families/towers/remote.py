"""Towers of models whose code comes with the checkpoint: MiniCPM-V, Qwen-VL, DeepSeek-OCR, dots.ocr and others.

Sizes follow the published modeling code; what a config leaves out has the value of that code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from roofline.declared.trees import JsonValue
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    Vit,
    listed_sizes,
    patch_grid,
    patches,
    position_rows,
    projection,
    section_of,
    sides,
    streamed,
    vit,
)
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import towers
from roofline.model.families.towers.audio import whisper_kin
from roofline.model.families.towers.fixed_resolution import (
    backbone,
    beside,
    clip_vision,
    fixed,
    siglip_vision,
    square_vision,
)
from roofline.model.families.towers.qwen_vl import kimi_k25_vision, merger
from roofline.model.families.towers.resampled import halved_sides, pooled_squares, resampled, sam_tower, unapplied
from roofline.model.media.images import IMAGES
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Add, Convolution, Linear, Modules, Norm

CLIP_L: Mapping[str, JsonValue] = MappingProxyType({
    "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24, "intermediate_size": 4096,
    "patch_size": 14, "image_size": 336, "model_type": "clip_vision_model",
})  # fmt: skip
SIGLIP: Mapping[str, JsonValue] = MappingProxyType({
    "hidden_size": 1152, "num_attention_heads": 16, "num_hidden_layers": 27, "intermediate_size": 4304,
    "patch_size": 14, "image_size": 384, "model_type": "siglip_vision_model",
})  # fmt: skip
NAMED: Mapping[str, Mapping[str, JsonValue]] = MappingProxyType({
    "openai/clip-vit-large-patch14": {**CLIP_L, "image_size": 224},
    "openai/clip-vit-large-patch14-336": CLIP_L,
    "google/siglip-so400m-patch14-384": SIGLIP,
    "vit_so400m_patch14_siglip_384.webli": SIGLIP,
    "siglip_so400m_patch14_384": SIGLIP,
})  # fmt: skip
"""Name of a published tower → its config."""


def named_tower(outer: Config, key: str) -> Config:
    """The config of the published tower that a key names. Raises InputError for a name that is not known."""
    return Config(NAMED[outer.text(key, choices=NAMED)], outer.field(key), outer)


def seen_in_patches(c: Config, v: Vit, rows: int) -> TowerStage:
    """A vision transformer over the patches of an image of any size, with a table of `rows` positions."""
    (down, across), front = patch_grid(c), patches(c, v.width, after=(position_rows(v.width, rows),))
    blocks = (front, *v.blocks, Block("norm", (layer_norm("final_norm", v.width),)))
    return TowerStage("vision", v.width, blocks, down * across)


# -- InternViT, MoonViT --------------------------------------------------------------------------------------------
@towers("NVLM_D")
def nvlm_d_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """NVLM (arXiv:2409.11402): InternViT, and a projector as wide as the language model's networks."""
    part, inner = backbone(outer), section_of(outer, "llm_config").size("intermediate_size")
    wide = part.width * int(1 / outer.number("downsample_ratio", 0.5)) ** 2
    norm = layer_norm("projector_norm", wide)
    block = projection("projector", (wide, inner, text.hidden), bias=False, norm=norm)
    yield from beside((part, fixed(block, ((part.positions or 1) - 1) * part.width // wide)))


@towers("kimi_vl")
def kimi_vl_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Kimi-VL (arXiv:2504.07491): MoonViT and a projector of four neighbours."""
    c = section_of(outer, "vision_config")
    high, wide = sides(c, "merge_kernel_size", 2)
    (vision,) = kimi_k25_vision(c)
    yield from streamed(
        (
            vision,
            merger(vision.width, high * wide, text.hidden, layer_norm("projector_norm", vision.width), "projector"),
        ),
        IMAGES,
    )


# -- MiniCPM-V, Qwen-VL: queries that attend to an image --------------------------------------------------------------
def queried(width: int, queries: int, keys: int, source: int, *, stored: bool) -> Block:
    """Qwen-VL's and MiniCPM-V's projector: learned queries attend to all patches, in heads of 128.

    `stored`: the checkpoint holds their positions, which others compute.
    """
    d = Dims(1, width, width // 128, width // 128, 128)
    return Block("resampler", (
        unapplied("queries", width, queries),
        *((unapplied("query_positions", width, queries),) if stored else ()),
        *at(keys, (Linear(name="kv_proj", inputs=source, outputs=width), layer_norm("kv_norm", width))),
        *at(queries, (layer_norm("query_norm", width),)),
        *resampled("resampler", d, queries, keys, bias=True),
        *at(queries, (layer_norm("out_norm", width), Linear(name="projector", inputs=width, outputs=width))),
    ))  # fmt: skip


@towers("minicpmv")
def minicpm_v_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """MiniCPM-V 2 to 4.5 (arXiv:2408.01800): SigLIP over slices of an image."""
    named = not outer.has("vision_config")
    c = named_tower(outer, "vision_encoder") if named else section_of(outer, "vision_config")
    v, rows = vit(c, default_act="gelu_pytorch_tanh"), (c.size("image_size") // c.size("patch_size", 14)) ** 2
    if outer.flag("drop_vision_last_layer", True):
        v = replace(v, layers=v.layers - 1)
    outer.mark_read("slice_mode", "use_image_id", "vision_batch_size", "batch_vision_input", "patch_size", "image_size")
    slices = outer.section("slice_config").size("scale_resolution", 448)
    part = seen_in_patches(c.with_values(image_size=slices), v, rows)
    block = queried(text.hidden, outer.size("query_num", 64), part.positions or 1, v.width, stored=named)
    yield from beside((part, TowerStage("projector", text.hidden, (block,))))
    if outer.flag("use_gene_module", False):
        outer.mark_read("gene_hidden_size", "gene_max_length", "gene_vocab_size", "gene_config")
        yield from streamed(genes(section_of(outer, "gene_config"), text.hidden), "genes")


def genes(c: Config, width: int) -> Iterator[TowerStage]:
    """Scicore-Omics' genes (its gene_qformer_module.py): Nicheformer, 32 queries of BERT's width, two products.

    Nicheformer keeps the layer of which its own are copies (doi:10.1101/2024.04.15.589472).
    """
    own, heads, length = c.size("dim_model"), c.size("nheads"), c.size("context_length")
    c.mark_read(
        "assay", "batch_first", "cls_classes", "learnable_pe", "masking_p", "modality", "specie", "supervised_task"
    )
    d = Dims(c.size("nlayers", most=MOST_LAYERS), own, heads, heads, own // heads)
    ffn = mlp(own, c.size("dim_feedforward"), "relu", gated=False, bias=True)
    each = layer(
        "genes", own, attention(d, rotary=0, bias=True, causal=False), ffn, norm=layer_norm, before=False, after=True
    )
    tables = (unapplied("genes", own, c.size("n_tokens") + 5), unapplied("places", own, length))
    copied = Block("copied", tuple(replace(m, idle=True) for m in each.modules))
    yield TowerStage("genes", own, (Block("front", tables), copied, *[each] * d.layers), length)
    asks, asked = Dims(4, 768, 12, 12, 64), 32
    block = Block("queries", (
        *at(asked, (layer_norm("self_norm", 768), *attention(asks, rotary=0, bias=True, causal=False),
                    Add(name="self_residual", width=768), layer_norm("cross_norm", 768))),
        *resampled("cross", asks, asked, length, bias=True),
        *at(asked, (Add(name="cross_residual", width=768), layer_norm("ffn_norm", 768),
                    *mlp(768, 4 * 768, "gelu", gated=False, bias=True), Add(name="ffn_residual", width=768))),
    ))  # fmt: skip
    keys = at(length, (layer_norm("keys_norm", own), Linear(name="keys_proj", inputs=own, outputs=768, bias=True)))
    front, last = (unapplied("query_tokens", 768, asked), *keys), at(asked, (layer_norm("queries_norm", 768),))
    project = projection("projector", (768, width, width), norm=layer_norm("projector_norm", 768))
    ends = Block("ends", (*last, *at(asked, project.modules), *at(asked, (layer_norm("out_norm", width),))))
    yield TowerStage("gene projector", width, (Block("front", front), *[block] * asks.layers, ends))


@towers("minicpmo")
def minicpm_o_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """MiniCPM-o 2.6 (OpenBMB, 2025): MiniCPM-V, and Whisper's encoder with two products after it."""
    yield from minicpm_v_towers(outer, text)
    outer.mark_read("audio_pool_step", "audio_chunk_length", "init_audio", "init_vision", "init_tts")
    c = section_of(outer, "audio_config")
    part = next(whisper_kin(c, pooled=False))
    block = projection("projector", (c.size("encoder_ffn_dim") // 4, text.hidden, text.hidden), act="relu")
    yield from streamed((part, fixed(block, part.positions or 1)), SOUND)


@towers("qwen")
def qwen_vl_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Qwen-VL (arXiv:2308.12966): OpenCLIP's ViT-bigG, and 256 queries."""
    c = section_of(outer, "visual")
    width, out = c.size("width"), c.size("output_dim")
    v = Vit(c.size("layers"), width, c.size("heads"), int(width * c.number("mlp_ratio")), "gelu")
    count, queries = (c.size("image_size") // c.size("patch_size")) ** 2, c.size("n_queries", 256)
    front = Block("patches", at(count, (
        *patches(c, width, bias=False, after=(position_rows(width, 256), layer_norm("embedding_norm", width))).modules,
    )))  # fmt: skip
    block = queried(out, queries, count, width, stored=True)
    vision = TowerStage("vision", width, (front, *v.blocks), count)
    yield from beside((vision, TowerStage("projector", out, (block,))))


# -- DeepSeek-VL2, DeepSeek-OCR --------------------------------------------------------------------------------------
@towers("DeepseekOCR", "deepseek_vl_v2")
def deepseek_vl_v2(outer: Config, text: Model) -> Iterator[Tower]:
    """DeepSeek-VL2 (arXiv:2412.10302): SigLIP over tiles, four neighbours in a projector; or DeepSeek-OCR."""
    c, p = section_of(outer, "vision_config"), section_of(outer, "projector_config")
    if isinstance(c.raw.get("width"), Mapping):
        yield from deepseek_ocr(c, p, text)
        return
    c.mark_read("layers", "width", "mlp_ratio", "patch_size")
    seen = named_tower(c, "model_name").with_values(image_size=c.size("image_size", 384))
    (part,) = siglip_vision(seen)
    *blocks, pool = part.blocks
    part = replace(part, blocks=(*blocks, Block("pool", tuple(replace(m, idle=True) for m in pool.modules))))
    four, out = p.size("downsample_ratio", 2) ** 2, p.size("n_embed", text.hidden)
    wide = out * p.size("mlp_ratio", 1)
    block = projection("projector", (four * part.width, *[wide] * (p.size("depth", 2) - 1), out))
    lines = unapplied("separators", out, 2)
    projector = Block("projector", (*at((part.positions or 1) // four, block.modules), lines))
    yield from beside((part, TowerStage("projector", out, (projector,))))


def deepseek_ocr(c: Config, p: Config, text: Model) -> Iterator[Tower]:
    """DeepSeek-OCR (arXiv:2510.18234): SAM's encoder and two convolutions make the positions that CLIP's layers see.

    DeepSeek-OCR 2 (arXiv:2601.20552): the layers of Qwen2-0.5B see them, and as many queries behind them.
    """
    sizes = c.section("width")
    again = "qwen2-0-5b" in sizes.raw
    sam = sizes.section("sam_vit_b")
    seen = sam.with_values(
        hidden_size=sam.size("width", 768), num_hidden_layers=sam.size("layers", 12), patch_size=16,
        num_attention_heads=sam.size("heads", 12), image_size=c.size("image_size", 1024),
    )  # fmt: skip
    widths = listed_sizes(sam, "downsample_channels", (512, 1024))
    if again:
        widths = [*widths[:-1], sizes.section("qwen2-0-5b").size("dim", 896)]
    first, (down, across) = sam_tower(seen), patch_grid(seen)
    halves, left = halved_sides(down, across, (256, *widths))
    second = _queries_of_qwen(widths[-1], left) if again else _clip_of_positions(sizes.section("clip-l-14-224"), left)
    out = p.size("n_embed", text.hidden)
    project = Linear(name="projector", inputs=p.size("input_dim", 2048), outputs=out, bias=True)
    block = Block("projector", (*at(left, (project,)), unapplied("separators", out, 1 if again else 2)))
    yield from beside((replace(first, blocks=(*first.blocks, *halves)), second, TowerStage("projector", out, (block,))))


def _clip_of_positions(clip: Config, left: int) -> TowerStage:
    """CLIP's layers over positions that come from elsewhere; its own patches stand unused in the checkpoint."""
    c = clip.with_values(
        hidden_size=clip.size("width", 1024), num_hidden_layers=clip.size("layers", 24), intermediate_size=4096,
        num_attention_heads=clip.size("heads", 16), image_size=clip.size("image_size", 224),
    )  # fmt: skip
    return clip_over(c, left)


def clip_over(c: Config, left: int, *, own: bool = True) -> TowerStage:
    """CLIP's layers over `left` positions that come from elsewhere; `own`: with its own patches, unused."""
    part = square_vision(c, vit(c, default_act="quick_gelu"), bias=False, before=layer_norm, token=True, last=())
    first, *rest = part.blocks[0].modules
    after = at(left + 1, (m for m in rest if isinstance(m, Norm)))
    unused = (replace(first, idle=True),) if own else ()
    front = Block("patches", (*unused, *(m for m in rest if not isinstance(m, Norm)), *after))
    layers = (Block(b.name, at(left + 1, b.modules)) for b in part.blocks[1:])
    return replace(part, blocks=(front, *layers), positions=left + 1)


def _queries_of_qwen(width: int, left: int) -> TowerStage:
    """The layers of Qwen2-0.5B (arXiv:2407.10671), whose sizes the config does not say."""
    return queries_over(Vit(24, width, 14, 4864, "silu", kv_heads=2), left)


def queries_over(v: Vit, left: int) -> TowerStage:
    """Qwen2's layers over `left` positions and as many queries; there are two numbers of these."""
    v = replace(v, norm=rms, out_bias=False, gated=True, mlp_bias=False, rotary=True)
    queries = Block("queries", (unapplied("queries", v.width, 256), unapplied("fewer_queries", v.width, 144)))
    blocks = [Block(b.name, at(2 * left, b.modules)) for b in (*v.blocks, Block("norm", (rms("final_norm", v.width),)))]
    return TowerStage("vision", v.width, (queries, *blocks), 2 * left)


@towers("deepseek_ocr2", "unlimited_ocr")
def ocr_of_transformers(outer: Config, text: Model) -> Iterator[Tower]:
    """DeepSeek-OCR 2 (arXiv:2601.20552) and Unlimited-OCR (Baidu, 2026) under the keys of transformers.

    Unlimited-OCR's CLIP has no patches of its own, and its projector reads SAM's positions beside CLIP's.
    """
    c, again = section_of(outer, "vision_config"), outer.raw.get("model_type") == "deepseek_ocr2"
    sam, e = section_of(c, "sam_config"), section_of(c, "encoder_config")
    width = e.size("hidden_size")
    halves, left = halved_sides(
        *patch_grid(sam), (sam.size("output_channels", 256), *listed_sizes(sam, "downsample_channels", (512, width)))
    )
    first = sam_tower(sam)
    if again:
        e.unused_sizes("vocab_size", "max_window_layers", "sliding_window")
        second = queries_over(replace(vit(e, default_act="silu"), kv_heads=e.size("num_key_value_heads")), left)
    else:
        second = clip_over(e, left, own=False)
    wide = width if again else width + listed_sizes(sam, "downsample_channels")[-1]
    project = at(left, (Linear(name="projector", inputs=wide, outputs=text.hidden, bias=True),))
    block = Block("projector", (*project, unapplied("separators", text.hidden, 1 if again else 2)))
    yield from beside(
        (replace(first, blocks=(*first.blocks, *halves)), second, TowerStage("projector", text.hidden, (block,)))
    )


# -- dots.ocr, Phi-3-vision, LLaVA -----------------------------------------------------------------------------------
@towers("dots_ocr")
def dots_ocr_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """dots.ocr (arXiv:2512.02498): RMSNorm, gated SiLU and rotary positions, at the resolution of the image."""
    c = section_of(outer, "vision_config")
    width, bias = c.size("embed_dim", 1536), c.flag("use_bias")
    v = Vit(
        c.size("num_hidden_layers", 42), width, c.size("num_attention_heads", 12), c.size("intermediate_size", 4224),
        "silu", norm=rms, bias=bias, out_bias=bias, gated=True, mlp_bias=bias, rotary=True,
    )  # fmt: skip
    front = patches(c.with_values(patch_size=c.size("patch_size", 14)), width, after=(rms("embedding_norm", width),))
    last = [Block("norm", (rms("final_norm", width),))] if c.flag("post_norm", True) else []
    four = c.size("spatial_merge_size", 2) ** 2
    vision = TowerStage("vision", width, (front, *v.blocks, *last))
    norm, out = layer_norm("projector_norm", width), c.size("hidden_size", text.hidden)
    yield from streamed((vision, merger(width, four, out, norm, "projector")), IMAGES)


@towers("phi3_v")
def phi3_v_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Phi-3-vision (arXiv:2404.14219): CLIP over tiles, neighbours side by side in two products."""
    outer.mark_read("img_processor", "embd_layer")
    c = Config(CLIP_L, outer.field("img_processor"), outer)
    (part,), wide = clip_vision(c), 4 * c.size("hidden_size")
    block = projection("projector", (wide, text.hidden, text.hidden))
    projector = Block(
        "projector", (*at(((part.positions or 1) - 1) // 4, block.modules), unapplied("separators", wide, 2))
    )
    yield from beside((part, TowerStage("projector", text.hidden, (projector,))))


@towers("llava_llama", "llava_mistral", "llava_qwen", "llava_phi", "llava_mpt")
def llava_published(outer: Config, text: Model) -> Iterator[Tower]:
    """LLaVA as published (arXiv:2310.03744): a tower that the config names, one product or more after it.

    Of SigLIP it leaves out the last layer and the head.
    """
    outer.mark_read(
        *(key for key in outer.raw if key.startswith(("mm_", "unfreeze_mm", "tune_mm", "use_mm", "image_")))
    )
    c = named_tower(outer, "mm_vision_tower")
    is_clip = c.text("model_type") == "clip_vision_model"
    siglip = vit(c, default_act="gelu_pytorch_tanh")
    (part,) = clip_vision(c) if is_clip else (square_vision(c, replace(siglip, layers=siglip.layers - 1)),)
    kind = outer.text("mm_projector_type", "linear")
    deep = 1 if kind == "linear" else int(kind.removeprefix("mlp").removesuffix("x_gelu"))
    count = (part.positions or 1) - is_clip
    block = fixed(projection("projector", (part.width, *[text.hidden] * deep)), count).blocks[0]
    lines = "unpad" in outer.text("mm_patch_merge_type", "flat")
    newline = [Block("newline", (unapplied("newline", text.hidden),))] if lines else []
    yield from beside((part, TowerStage("projector", text.hidden, (block, *newline))))


# -- Molmo, Ovis, GLM-4V ---------------------------------------------------------------------------------------------
@towers("molmo")
def molmo_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Molmo (arXiv:2409.17146): CLIP without its last layer, patches of two layers pooled in squares of four."""
    c = Config(CLIP_L, "vision", outer)
    v, count = vit(c, default_act="quick_gelu"), 576
    v = replace(v, layers=v.layers - 1)
    part = square_vision(c, v, bias=False, before=layer_norm, token=True, last=())
    inner, act = outer.size("intermediate_size") // 2, activation(outer, default="silu")
    pool = pooled_squares(v.sizes, 2 * v.width, inner, text.hidden, count // 4, act)
    padding = unapplied("padding", 2 * v.width, 2)
    yield from beside((part, TowerStage("projector", text.hidden, (Block("projector", (padding, *pool)),))))


@towers("ovis2_5")
def ovis2_5_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Ovis 2.5 (arXiv:2508.11737): SigLIP 2 at the resolution of the image, then probabilities of visual words."""
    c, words = section_of(outer, "vit_config"), outer.size("visual_vocab_size", 65536)
    v = replace(vit(c, default_act="gelu_pytorch_tanh"), rotary=c.flag("use_rope", True))
    side, four = c.size("image_size", 512) // c.size("patch_size", 16), c.size("hidden_stride", 2) ** 2
    rows = position_rows(v.width, side * side)
    front = patches(c, v.width, after=(rows,) if c.flag("preserve_original_pe", True) else ())
    vision = TowerStage("vision", v.width, (front, *v.blocks, Block("norm", (layer_norm("final_norm", v.width),))))
    head = Block("words", (
        Linear(name="word_proj", inputs=four * v.width, outputs=words - 4, split=four),
        replace(layer_norm("word_norm", words - 4), split=four),
        Linear(name="visual_embeddings", inputs=words, outputs=text.hidden, part="other", split=four),
    ))  # fmt: skip
    yield from streamed((vision, TowerStage("projector", words, (head,))), IMAGES)


def eva_clip(c: Config) -> TowerStage:
    """EVA-02-CLIP-E (arXiv:2303.15389): a class token, learned positions, and norms after the sublayers."""
    count, v = c.size("num_positions"), vit(c)
    front = Block("patches", (
        *at(count - 1, patches(c, v.width).modules), unapplied("class_token", v.width), position_rows(v.width, count),
    ))  # fmt: skip
    mixer = attention(v.sizes, rotary=0, bias=True, causal=False)
    block = layer(
        "dense", v.width, mixer, mlp(v.width, v.inner, v.act, gated=False, bias=True), norm=layer_norm, before=False,
        after=True,
    )  # fmt: skip
    return TowerStage("vision", v.width, (front, *[block] * v.layers), count)


def gated_words(inputs: int, width: int, inner: int) -> Modules:
    """From features to the width of words: a product, a norm and a gated network, as GLM-4V and CogVLM have it."""
    return (
        Linear(name="linear_proj", inputs=inputs, outputs=width), layer_norm("projector_norm", width),
        Activation(name="norm_act", width=width, function="gelu", gated=False),
        Linear(name="gate_up_proj", inputs=width, outputs=2 * inner, gated=True),
        Activation(name="act", width=inner, function="silu"),
        Linear(name="down_proj", inputs=inner, outputs=width),
    )  # fmt: skip


@towers("chatglm")
def glm_4v_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """GLM-4V (arXiv:2406.12793): EVA-02-CLIP-E, a convolution over four neighbours, and a gated network."""
    c, width = section_of(outer, "vision_config"), text.hidden
    inner, vision = outer.size("ffn_hidden_size"), eva_clip(c)
    projector = at((c.size("num_positions") - 1) // 4, (
        Convolution(name="downsample", inputs=vision.width, outputs=width, kernel=4, stride=4, bias=True),
        *gated_words(width, width, inner),
    ))  # fmt: skip
    ends = unapplied("ends", width, 2)
    yield from beside((vision, TowerStage("projector", width, (Block("projector", (*projector, ends)),))))
