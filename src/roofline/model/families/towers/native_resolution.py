"""More vision towers: those of MiniCPM-V, Muse, Step, ERNIE and others, most at the resolution of the image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from roofline.declared.numbers.maths import ceil_div
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp, moe
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    TowerStages,
    Vit,
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
from roofline.model.families.blocks.norms import layer_norm, per_head, plain_per_head, rms
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import towers
from roofline.model.families.towers.fixed_resolution import published_siglip
from roofline.model.families.towers.qwen_vl import glm_tower, glm_vit, qwen2_5_vl
from roofline.model.media.images import IMAGES
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Convolution, Gate, Learned, Linear, Modules, Router


def _norm(width: int) -> Block:
    return Block("norm", (layer_norm("final_norm", width),))


def _merged(sizes: tuple[int, ...], four: int, act: str = "gelu", bias: bool = True) -> TowerStage:
    """A projector of `four` neighbours, with LayerNorm before they are joined."""
    norm = layer_norm("projector_norm", sizes[0] // four)
    block = projection("projector", sizes, act=act, bias=bias, norm=norm, split=four)
    return TowerStage("projector", sizes[0], (block,))


# -- SigLIP's layers at the resolution of the image ----------------------------------------------------------------
@sees(alone=("cosmos3_edge_vision",))
def cosmos3_edge_vision(c: Config) -> TowerStages:
    """Cosmos 3 Edge's tower (model card nvidia/Cosmos3-Edge): SigLIP 2's layers."""
    v = vit(c, default_act="gelu_pytorch_tanh")
    front = patches(c, v.width, after=(position_rows(v.width, c.size("num_patches", 256)),))
    yield TowerStage("vision", v.width, (front, *v.blocks, _norm(v.width)))


@towers("cosmos3_edge")
def cosmos3_edge_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Cosmos 3 Edge: a projector of four neighbours."""
    c = section_of(outer, "vision_config")
    four = c.size("spatial_merge_size", 2) ** 2
    sizes = (c.size("hidden_size") * four, outer.size("projector_hidden_size", 11520), text.hidden)
    yield from streamed((*cosmos3_edge_vision(c), _merged(sizes, four)), IMAGES)


@sees(alone=("paddleocr_vl_vision",))
def paddleocr_vl_vision(c: Config) -> TowerStages:
    """PaddleOCR-VL's tower (arXiv:2510.14528): NaViT with learned and rotary positions."""
    v = replace(vit(c, default_act="gelu_pytorch_tanh"), rotary=True)
    front = patches(
        c, v.width, after=(position_rows(v.width, (c.size("image_size", 384) // c.size("patch_size", 14)) ** 2),)
    )
    yield TowerStage("vision", v.width, (front, *v.blocks, _norm(v.width)))


@towers("paddleocr_vl")
def paddleocr_vl_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """PaddleOCR-VL: a projector of four neighbours."""
    c = section_of(outer, "vision_config")
    four = c.size("spatial_merge_size", 2) ** 2
    wide = c.size("hidden_size") * four
    (part,) = paddleocr_vl_vision(c)
    if not outer.has("text_config"):  # under the keys of its own code, whose files hold more
        part = published_siglip(c, part)
    yield from streamed((part, _merged((wide, wide, text.hidden), four)), IMAGES)


@sees(alone=("video_llama_3_vision",))
def video_llama_3_vision(c: Config) -> TowerStages:
    """VideoLLaMA 3's tower (arXiv:2501.13106): SigLIP's layers with rotary positions."""
    v = replace(vit(c, default_act="gelu_pytorch_tanh"), rotary=True)
    yield TowerStage("vision", v.width, (patches(c, v.width), *v.blocks, _norm(v.width)))


@towers("video_llama_3", "videollama3_qwen2")
def video_llama_3(outer: Config, text: Model) -> Iterator[Tower]:
    """VideoLLaMA 3: two products for every patch of an image; those of videos are averaged first."""
    outer.mark_read("vision_encoder", "mm_projector_type", "use_token_compression")
    c = section_of(outer, "vision_encoder_config" if outer.has("vision_encoder_config") else "vision_config")
    block = projection("projector", (c.size("hidden_size"), text.hidden, text.hidden))
    yield from streamed((*video_llama_3_vision(c), TowerStage("projector", text.hidden, (block,))), IMAGES)


@sees("hunyuan_vl", alone=("hunyuan_vl_vision",))
def hunyuan_vl_vision(c: Config) -> TowerStages:
    """HunyuanOCR's tower (arXiv:2511.19575): convolutions merge four neighbours, and markers go around them."""
    v, merge = vit(c), c.size("spatial_merge_size", 2)
    four, wide, out = merge * merge, 4 * v.width, c.size("text_hidden_size", 3072)
    rows = (c.size("max_image_size", 2048) // c.size("patch_size", 16)) ** 2 + 1
    act = activation(c, default="gelu")
    merger = (
        rms("before_norm", v.width),
        Convolution(
            name="merger_conv", inputs=v.width, outputs=2 * v.width, kernel=four, stride=four, bias=True, split=four
        ),
        Activation(name="merger_act", width=2 * v.width, function=act, gated=False, split=four),
        Linear(name="merger_out", inputs=2 * v.width, outputs=wide, bias=True, split=four),
        Linear(name="merger_proj", inputs=wide, outputs=out, bias=True, split=four),
        Learned(name="newline", width=wide, applied=False),
        Learned(name="markers", width=out, rows=3, applied=False),
        replace(rms("after_norm", out), split=four),
    )
    front = patches(c, v.width, after=(position_rows(v.width, rows),))
    yield TowerStage("vision", v.width, (front, *v.blocks))
    yield TowerStage("projector", out, (Block("merger", merger),))


@sees(alone=("minimax_m3_vl_vision",))
def minimax_m3_vision(c: Config) -> TowerStages:
    """MiniMax-M3's tower: rotary layers after a norm."""
    v = replace(vit(c), rotary=True)
    front = patches(
        c, v.width, bias=False, frames=c.size("temporal_patch_size", 2), after=(layer_norm("embedding_norm", v.width),)
    )
    yield TowerStage("vision", v.width, (front, *v.blocks))


@towers("minimax_m3_vl")
def minimax_m3_vl(outer: Config, text: Model) -> Iterator[Tower]:
    """MiniMax-M3: two products for each patch, then two for four neighbours at once."""
    c = section_of(outer, "vision_config")
    four, wide = c.size("spatial_merge_size", 2) ** 2, outer.size("projector_hidden_size", 6144)
    merged = outer.size("merged_hidden_size", None) or text.hidden * four
    first = projection("projector", (c.size("hidden_size"), wide, text.hidden))
    second = projection("merger", (merged, wide, text.hidden), split=four)
    yield from streamed((*minimax_m3_vision(c), TowerStage("projector", wide, (first, second))), IMAGES)


@towers("ernie4_5_vl_moe", "ernie4_5_moe_vl")
def ernie4_5_vl(outer: Config, text: Model) -> Iterator[Tower]:
    """ERNIE 4.5 VL (Baidu, 2025): neighbours are joined in space, then in time; an image stands twice."""
    c = section_of(outer, "vision_config")
    if "mlp_ratio" in c.raw:
        c = c.with_values(intermediate_size=int(c.size("hidden_size") * c.number("mlp_ratio")))
    v, four = replace(vit(c, default_act="quick_gelu"), rotary=True), c.size("spatial_merge_size", 2) ** 2
    frames, space = c.size("temporal_merge_size", 2), v.width * four
    yield from streamed((
        TowerStage("vision", v.width, (patches(c, v.width, bias=False), *v.blocks, _norm(v.width))),
        TowerStage("projector", space, (
            projection("space", (space, space, space), split=four),
            Block("space_norm", (replace(layer_norm("space_norm", space), split=four),)),
            projection("time", (frames * space, space, space), split=four),
            Block("time_norm", (replace(layer_norm("time_norm", space), split=four),)),
            Block("projector", (
                Linear(name="projector", inputs=space, outputs=text.hidden, bias=True, split=four),
                replace(rms("projector_norm", text.hidden), split=four),
            )),
        )),
    ), IMAGES)  # fmt: skip


@towers("hyperclovax_vision_v2")
def hyperclovax_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """HyperCLOVA X SEED Think (arXiv:2601.03286): the tower of Qwen2.5-VL, and one product."""
    c = section_of(outer, "vision_config")
    inputs = c.size("out_hidden_size", 3584)
    project = Linear(
        name="projector", inputs=inputs, outputs=text.hidden, bias=True, split=c.size("spatial_merge_size", 2) ** 2
    )
    yield from streamed((*qwen2_5_vl(c), TowerStage("projector", inputs, (Block("projector", (project,)),))), IMAGES)


@sees("glm5_next", alone=("glm5_next_vision",))
def glm5_next_vision(c: Config) -> TowerStages:
    """GLM-5V (Z.ai, 2026): GLM-OCR's tower, with a merger as wide as its config says."""
    bias = c.flag("attention_bias", True)
    v = replace(
        glm_vit(c), inner=c.size("intermediate_size"), qk_norm=per_head, bias=bias, out_bias=bias, mlp_bias=bias
    )
    front = patches(c, v.width, frames=c.size("temporal_patch_size", 2))
    yield from glm_tower(c, v, front, c.size("projection_intermediate_size", 10240))


# -- MiniCPM-V -----------------------------------------------------------------------------------------------------
@sees(alone=("minicpmv4_6_vision", "minicpmv4_7_vision", "minicpm_ocr_vision"))
def minicpm_vision(c: Config) -> TowerStages:
    """MiniCPM-V 4.6's tower (OpenBMB, 2026): after some layers a window of four becomes one position."""
    yield _minicpm(c, True)


def _minicpm(c: Config, merges: bool) -> TowerStage:
    v = vit(c, default_act="gelu_pytorch_tanh")
    (down, across), (rows, columns), (p, q) = patch_grid(c), sides(c, "image_size"), sides(c, "patch_size")
    count, (high, wide) = down * across, sides(c, "window_kernel_size", 2)
    four, after = high * wide, c.size("insert_layer_id", 6, least=-1)
    merges = merges and after >= 0
    rest = count // four if merges else count
    window = layer(
        "window", v.width, attention(v.sizes, rotary=0, bias=True, causal=False, chunk=four), norm=layer_norm
    )
    joined = projection(
        "join", (four * v.width, four * v.inner, v.width), act="gelu_pytorch_tanh",
        norm=layer_norm("join_norm", four * v.width),
    )  # fmt: skip
    merger = [Block("window", at(count, window.modules)), Block("join", at(count // four, joined.modules))]
    if not merges:
        merger = [Block(b.name, tuple(replace(m, idle=True) for m in b.modules)) for b in merger]
    one = v.layer()
    layers = [Block("dense", at(count if i <= after else rest, one.modules)) for i in range(v.layers)]
    split = min(max(after + 1, 0), v.layers)
    front = patches(c, v.width, after=(position_rows(v.width, (rows // p) * (columns // q)),))
    blocks = (front, *layers[:split], *merger, *layers[split:], Block("norm", at(rest, _norm(v.width).modules)))
    return TowerStage("vision", v.width, blocks, count)


@towers("minicpmv4_6", "minicpmv4_7", "minicpm_ocr")
def minicpm_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """MiniCPM-V 4.6 (OpenBMB, 2026): neighbours are joined once or more before the language model."""
    c = section_of(outer, "vision_config")
    merges = outer.text("downsample_mode", "16x") != "4x"
    part, (high, wide) = _minicpm(c, merges), sides(outer, "merge_kernel_size", 2)
    count, four, width = part.positions or 1, high * wide, part.width
    times = outer.size("merger_times", 1)
    blocks, left = [], count // 4 if merges and c.size("insert_layer_id", 6, least=-1) >= 0 else count
    for i in range(times):
        left, out = left // four, text.hidden if i == times - 1 else width
        norm = layer_norm("join_norm", four * width)
        blocks.append(Block("join", at(left, projection("join", (four * width, four * width, out), norm=norm).modules)))
    yield from streamed((part, TowerStage("projector", width, tuple(blocks))), IMAGES)


# -- Muse, Inkling, Step, LFM3, RADIO ------------------------------------------------------------------------------
@sees(alone=("muse_glimmer_vision", "muse_spark_vision"))
def muse_vision(c: Config) -> TowerStages:
    """Muse's tower (model card meta-models/Muse-Glimmer-30B): three layers in windows to one that sees all."""
    v = replace(vit(c), rotary=True)
    high, wide = c.size("pos_emb_height", 32), c.size("pos_emb_width", 32)
    default = [
        "full_attention" if (i + 1) % 4 == 0 or i == v.layers - 1 else "window_attention" for i in range(v.layers)
    ]
    kinds = c.per_layer("layer_types", v.layers, ("full_attention", "window_attention"), default)
    full, windowed = v.layer("full"), v.layer("windowed", high * high)
    front = patches(
        c, v.width, bias=False, frames=c.size("patch_temporal", 2),
        after=(position_rows(v.width, high * wide), layer_norm("embedding_norm", v.width)),
    )  # fmt: skip
    layers = [full if kind == "full_attention" else windowed for kind in kinds]
    yield TowerStage("vision", v.width, (front, *layers, _norm(v.width)))


def muse_projector(outer: Config, text: Model) -> TowerStage:
    """Muse's adapter of four neighbours, and one product to the language model."""
    c = section_of(outer, "vision_config")
    four, wide = c.size("merge_size", 2) ** 2, outer.size("projector_hidden_size", 4096)
    act = activation(outer, "projector_hidden_act", "gelu")
    sizes = (outer.size("out_hidden_size", 6144), wide, wide, text.hidden)
    block = projection("projector", sizes, act=act, bias=False, split=four)
    return TowerStage("projector", wide, (block,))


@towers("muse_glimmer")
def muse_glimmer_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Muse Glimmer (model card meta-models/Muse-Glimmer-30B): images and videos."""
    c = section_of(outer, "vision_config")
    yield from streamed((*muse_vision(c), muse_projector(outer, text)), IMAGES)


@sees("inkling2", alone=("inkling2_vision",))
def inkling2_vision(c: Config) -> TowerStages:
    """Inkling 2's tower: a class token for each image, rotary positions, learned scales."""
    width, heads = c.size("hidden_size"), c.size("num_attention_heads")
    inner = c.size("intermediate_size", None) or int(width * c.number("mlp_ratio", 4))
    v = Vit(c.size("num_hidden_layers"), width, heads, inner, activation(c, default="gelu"), rotary=True, scaled=True)
    four, bias = c.size("spatial_merge_size", 2) ** 2, c.flag("projector_bias")
    front = patches(c, width, bias=False, after=(
        position_rows(width, c.size("posemb_grid_size", 32) ** 2),
        Learned(name="class_token", width=width, rows=2, applied=False), layer_norm("embedding_norm", width),
    ))  # fmt: skip
    sizes = (four * width, c.size("projection_hidden_dim", 4096), c.size("text_hidden_size", 4608))
    yield TowerStage("vision", width, (front, *v.blocks))
    yield TowerStage("projector", width, (projection("projector", sizes, act=v.act, bias=bias, split=four),))


@towers("step3p7")
def step3p7(outer: Config, text: Model) -> Iterator[Tower]:
    """Step-3.7 (StepFun, 2026): rotary layers with learned scales, then two convolutions that halve each side."""
    c = section_of(outer, "vision_config")
    v = replace(vit(c, default_act="quick_gelu"), rotary=True, scaled=True)
    if c.has("mlp_ratio"):
        v = replace(v, inner=int(v.width * c.number("mlp_ratio")))
    (down, across), (rows, columns), (p, q) = patch_grid(c), sides(c, "image_size"), sides(c, "patch_size")
    front = patches(c, v.width, bias=False, after=(
        position_rows(v.width, (rows // p) * (columns // q)), layer_norm("embedding_norm", v.width)
    ))  # fmt: skip
    halves: list[Block] = []
    width = v.width
    for i in (1, 2):
        down, across = ceil_div(down, 2), ceil_div(across, 2)
        conv = Convolution(name=f"downsample_{i}", inputs=width, outputs=2 * width, kernel=9, stride=4, bias=True)
        halves.append(Block(f"downsample {i}", at(down * across, (conv,))))
        width *= 2
    bias = outer.flag("projector_bias")
    project = at(down * across, (Linear(name="projector", inputs=width, outputs=text.hidden, bias=bias),))
    total = patch_grid(c)[0] * patch_grid(c)[1]
    vision = TowerStage("vision", v.width, (front, *v.blocks, *halves), total)
    yield from streamed((vision, TowerStage("projector", width, (Block("projector", project),))), IMAGES)


@sees(alone=("lfm3_vl_vision",))
def lfm3_vision(c: Config) -> TowerStages:
    """LFM3-VL's tower (Liquid AI, 2026): short convolutions over the image, and grouped queries in some layers."""
    width, layers, kernel = c.size("hidden_size"), c.size("num_hidden_layers"), c.size("conv_kernel_size", 3)
    heads, kv = c.size("num_attention_heads"), c.size("num_key_value_heads", 8)
    v = Vit(
        layers, width, heads, c.size("intermediate_size"), "silu", kv_heads=kv, norm=rms, bias=False, out_bias=False,
        gated=True, mlp_bias=False, rotary=True, qk_norm=per_head,
    )  # fmt: skip
    short: Modules = (
        Linear(name="in_proj", inputs=width, outputs=3 * width),
        Gate(name="in_gate", width=width, gates=width, sigmoid=False),
        Convolution(name="conv", inputs=width, outputs=width, kernel=kernel * kernel, groups=width),
        Gate(name="out_gate", width=width, gates=width, sigmoid=False),
        Linear(name="out_proj", inputs=width, outputs=width),
    )
    conv, attends = layer("conv", width, short, mlp(width, v.inner, "silu")), v.layer("full")
    default = ["conv" if i < 2 or i % 2 else "full_attention" for i in range(layers)]
    kinds = c.per_layer("layer_types", layers, ("conv", "full_attention"), default)
    front = patches(
        c, width, bias=False, frames=c.size("temporal_patch_size", 2), after=(rms("embedding_norm", width),)
    )
    yield TowerStage("vision", width, (front, *(conv if kind == "conv" else attends for kind in kinds)))


@towers("lfm3_vl")
def lfm3_vl(outer: Config, text: Model) -> Iterator[Tower]:
    """LFM3-VL: a projector of four neighbours."""
    c = section_of(outer, "vision_config")
    four, act = c.size("spatial_merge_size", 2) ** 2, activation(outer, "projector_hidden_act", "gelu")
    sizes = (c.size("hidden_size") * four, outer.size("projector_hidden_size", 4096), text.hidden)
    merger = _merged(sizes, four, act=act, bias=outer.flag("projector_bias", True))
    yield from streamed((*lfm3_vision(c), merger), IMAGES)


def dots_vision(c: Config, text: Model) -> TowerStages:
    """dots.note (rednote, 2026): RMSNorm, gated layers, experts in the later ones."""
    v = replace(vit(c, default_act="silu"), norm=rms, gated=True, rotary=True, qk_norm=per_head)
    bias = c.flag("attention_bias")
    v = replace(v, bias=bias, out_bias=bias, mlp_bias=c.flag("mlp_bias"))
    kinds = c.per_layer("mlp_layer_types", v.layers, ("dense", "sparse"), ["dense"] * v.layers)
    mixer = attention(v.sizes, rotary=v.sizes.head_dim, bias=bias, qk_norm=per_head, causal=False)
    experts = _dots_experts(c, v)
    blocks = [
        layer("moe", v.width, mixer, experts[i], norm=rms) if kind == "sparse" else v.layer()
        for i, kind in enumerate(kinds)
    ]
    wide, out = c.size("adapter_in_dim", v.width), c.size("adapter_out_dim", text.hidden)
    four = c.size("adapter_merge_size", 2) ** 2
    merger = projection("merger", (four * wide, four * wide, out), norm=layer_norm("merger_norm", wide), split=four)
    front = patches(c, v.width, after=(rms("embedding_norm", v.width),))
    last = Block("norm", (rms("final_norm", v.width),))
    yield TowerStage("vision", v.width, (front, *blocks, last))
    yield TowerStage("projector", out, (merger,))


def _dots_experts(c: Config, v: Vit) -> list[Modules]:
    """Experts of every layer, as `per_layer_config` changes them."""
    own = c.value("per_layer_config", None)[1]
    numbered = {str(i): x for i, x in enumerate(own)} if isinstance(own, list) else own
    by_layer = numbered if isinstance(numbered, Mapping) else {}
    sections = [by_layer.get(str(i)) for i in range(v.layers)]
    every: list[Modules] = []
    for one in sections:
        x = c.with_values(**one) if isinstance(one, Mapping) else c
        count, inner = x.size("num_local_experts", 4), x.size("moe_intermediate_size", 2112)
        every.append(moe(c, v.width, count, x.size("num_experts_per_tok", 1), inner))
    return every


def radio(c: Config) -> TowerStage:
    """C-RADIO (arXiv:2412.07679): class tokens and registers before the patches, learned scales, no last norm."""
    width, heads = c.size("hidden_size"), c.size("num_attention_heads")
    v = Vit(
        c.size("num_hidden_layers"), width, heads, int(width * c.number("mlp_ratio", 4)), activation(c, default="gelu")
    )
    v = replace(v, bias=c.flag("qkv_bias", True), scaled=True)
    p, more = c.size("patch_size", 16), c.size("num_cls_tokens", 3) + c.size("num_registers", 7, least=0)
    channels, frames = c.size("num_channels", 3), c.size("video_temporal_patch_size", None)
    down, across = patch_grid(c)
    front = (
        *at(down * across, patches(c, width, bias=False, channels=channels).modules),
        *(() if frames is None else (
            Linear(name="video_embedding", inputs=channels * frames * p * p, outputs=width, part="other", idle=True),
        )),
        position_rows(width, (c.size("max_img_size", 2048) // p) ** 2),
        Learned(name="registers", width=width, rows=more, applied=False),
    )  # fmt: skip
    return TowerStage("vision", width, (Block("patches", front), *v.blocks), down * across + more)


@towers("nemotron_h_omni")
def nemotron_h_omni(outer: Config, text: Model) -> Iterator[Tower]:
    """Nemotron 3 Nano Omni (NVIDIA, 2026): C-RADIO, pixels unshuffled, RMSNorm and two products."""
    part, c = radio(section_of(outer, "vision_config")), section_of(outer, "vision_config")
    four = round(1 / outer.number("downsample_ratio", 0.5)) ** 2
    (down, across), wide = patch_grid(c), part.width * four
    sizes = (wide, outer.size("projector_hidden_size", 4096), text.hidden)
    block = projection("projector", sizes, act="relu2", bias=False, norm=rms("projector_norm", wide))
    projector = Block("projector", at(down * across // four, block.modules))
    yield from streamed((part, TowerStage("projector", wide, (projector,))), IMAGES)


# -- Gemma 4 -------------------------------------------------------------------------------------------------------
@sees(alone=("gemma4_vision",))
def gemma4_vision(c: Config) -> TowerStages:
    """Gemma 4's tower (Google, 2026): norms around sublayers; squares of patches are averaged by a product."""
    heads, kv, dim = c.size("num_attention_heads"), c.size("num_key_value_heads"), c.size("head_dim", 64)
    width, layers, act = (
        c.size("hidden_size"),
        c.size("num_hidden_layers"),
        activation(c, "hidden_activation|hidden_act", "gelu_pytorch_tanh"),
    )
    d, square = Dims(layers, width, heads, kv, dim), c.size("pooling_kernel_size", 3) ** 2
    count = c.inputs.patches or square * c.size("default_output_length", 280)
    first, *rest = attention(
        d, rotary=dim, bias=c.flag("attention_bias"), out_bias=False, qk_norm=per_head, causal=False
    )
    mixer = (first, *rest[:2], plain_per_head("v_norm", kv, dim), *rest[2:])
    block = layer("dense", width, mixer, mlp(width, c.size("intermediate_size"), act), norm=rms, after=True)
    front = patches(c, width, bias=False, after=(position_rows(width, 2 * c.size("position_embedding_size", 10240)),))
    # The average of each square is a product with a matrix of as many rows as patches.
    pool = at(count // square, (Linear(name="pool", inputs=count, outputs=width, tied=True),))
    c.flag("standardize")
    yield TowerStage("vision", width, (front, *[block] * layers, Block("pool", pool)), count)


@sees(alone=("deepseek_v41_vision",))
def deepseek_v41_vision(c: Config) -> TowerStages:
    """DeepSeek-V4.1's tower (SGLang's deepseek_v41_vit.py): rotary layers with RMSNorm and gated SiLU."""
    c.mark_read("rope_theta", "downsample_ratio", "max_image_tokens", "min_pixels", "max_wh_ratio")
    v = replace(vit(c, default_act="silu"), norm=rms, gated=True, mlp_bias=False, rotary=True)
    yield TowerStage("vision", v.width, (patches(c, v.width), *v.blocks, Block("norm", (rms("final_norm", v.width),))))


@towers("deepseek_v41")
def deepseek_v41_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """DeepSeek-V4.1: two products of nine neighbours; markers of images, and the router's biases for them."""
    c = section_of(outer, "vision_config")
    (part,), near = deepseek_v41_vision(c), c.size("downsample_ratio", 3) ** 2
    aligner = projection("projector", (near * part.width, text.hidden, text.hidden), split=near)
    routers = [m for block, n in text.blocks for m in block.modules * n if isinstance(m, Router)]
    beside = Block("markers", (
        Learned(name="markers", width=text.hidden, rows=3, applied=False),
        *(Learned(name=f"router_bias_{i}", width=m.experts, applied=False) for i, m in enumerate(routers)),
    ))  # fmt: skip
    yield from streamed((part, TowerStage("projector", text.hidden, (aligner, beside))), IMAGES)
