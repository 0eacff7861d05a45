"""Vision towers at the resolution of the image: Qwen-VL and its kin, GLM-V, Kimi-VL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    TowerStages,
    Vit,
    chosen_layers,
    patches,
    position_rows,
    projection,
    section_of,
    sees,
    sides,
    streamed,
    vit,
)
from roofline.model.families.blocks.norms import layer_norm, per_head, rms
from roofline.model.families.registry import towers
from roofline.model.media.images import IMAGES
from roofline.model.model import DEEPSTACK, Block, Model, Tower
from roofline.model.modules import Activation, Convolution, Linear, Norm


def _frames(c: Config) -> int:
    """Frames of a patch; an image stands in all of them."""
    frames: int = c.size("temporal_patch_size", 2)
    return frames


@sees("qwen2_vl", alone=("qwen2_vl_vision",))
def qwen2_vl(c: Config) -> TowerStages:
    """Qwen2-VL (arXiv:2409.12191): a rotary transformer; four patches become a token."""
    width, four = c.size("embed_dim", 1280), c.size("spatial_merge_size", 2) ** 2
    heads, layers, act = c.size("num_heads", 16), c.size("depth", 32), activation(c, default="quick_gelu")
    v = Vit(layers, width, heads, width * c.size("mlp_ratio", 4), act, rotary=True)
    yield TowerStage("vision", width, (patches(c, width, bias=False, frames=_frames(c)), *v.blocks))
    yield merger(width, four, c.size("hidden_size", 3584), layer_norm("merger_norm", width))


def merger(width: int, four: int, outputs: int, norm: Norm, name: str = "merger") -> TowerStage:
    """A projector of `four` neighbours at once, with the norm before they are joined."""
    sizes = (four * width, four * width, outputs)
    return TowerStage("projector", width, (projection(name, sizes, norm=norm, split=four),))


@sees(
    "qwen2_5_vl", "exaone4_5",
    alone=("qwen2_5_vl_vision", "qwen2_5_omni_vision_encoder", "exaone4_5_vision"),
)  # fmt: skip
def qwen2_5_vl(c: Config) -> TowerStages:
    """Qwen2.5-VL (arXiv:2502.13923): RMSNorm and gated SiLU, windows of 112 pixels except in four layers."""
    v = replace(vit(c, default_act="silu"), norm=rms, gated=True, rotary=True)
    v = replace(v, kv_heads=c.size("num_key_value_heads", v.heads))
    four, patch = c.size("spatial_merge_size", 2) ** 2, c.size("patch_size", 14)
    window, seeing_all = c.size("window_size", 112) // patch, chosen_layers(c, "fullatt_block_indexes", (7, 15, 23, 31))
    windowed, whole = v.layer("windowed", window * window), v.layer("full")
    layers = [whole if i in seeing_all else windowed for i in range(v.layers)]
    yield TowerStage("vision", v.width, (patches(c, v.width, bias=False, frames=_frames(c)), *layers))
    yield merger(v.width, four, c.size("out_hidden_size", 3584), rms("merger_norm", v.width))


@sees(
    "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp", "cosmos3_omni",
    alone=(
        "qwen3_vl_vision", "qwen3_vl_moe_vision", "qwen3_5_vision", "qwen3_5_moe_vision", "qwen4_exp_vision",
        "qwen3_omni_moe_vision_encoder",
    ),
)  # fmt: skip
def qwen3_vl(c: Config) -> TowerStages:
    """Qwen3-VL (arXiv:2511.21631): learned and rotary positions; a merger of its own for each layer of DeepStack."""
    v, four = replace(vit(c, default_act="gelu_pytorch_tanh"), rotary=True), c.size("spatial_merge_size", 2) ** 2
    places = position_rows(v.width, c.size("num_position_embeddings", 2304))
    yield TowerStage("vision", v.width, (patches(c, v.width, frames=_frames(c), after=(places,)), *v.blocks))
    outputs, deep = c.size("out_hidden_size", 3584), chosen_layers(c, "deepstack_visual_indexes", ())
    yield merger(v.width, four, outputs, layer_norm("merger_norm", v.width))
    for _ in deep:
        yield merger(v.width, four, outputs, replace(layer_norm("merger_norm", four * v.width), split=four), DEEPSTACK)


@sees("glm4v", "glm4v_moe", "glm46v", "glmga", alone=("glm4v_vision", "glm4v_moe_vision"))
def glm4v_vision(c: Config) -> TowerStages:
    """GLM-4.1V (arXiv:2507.01006): a norm before the layers, and four patches become one by a convolution."""
    v = glm_vit(c)
    front = (
        rms("post_conv_norm", v.width),
        position_rows(v.width, (c.size("image_size", 336) // c.size("patch_size", 14)) ** 2),
    )
    yield from glm_tower(c, v, patches(c, v.width, frames=_frames(c), after=front), c.size("intermediate_size", 13696))


@sees("glm_ocr", alone=("glm_ocr_vision",))
def glm_ocr_vision(c: Config) -> TowerStages:
    """GLM-OCR (Z.ai, 2026): GLM-4V with norms of queries and keys, biases, and no learned positions."""
    inner, bias = c.size("intermediate_size"), c.flag("attention_bias", True)
    v = replace(glm_vit(c), inner=inner, qk_norm=per_head, bias=bias, out_bias=bias, mlp_bias=bias)
    wide = c.size("out_hidden_size") * c.size("in_channels", 3)
    yield from glm_tower(c, v, patches(c, v.width, frames=_frames(c)), wide)


def glm_vit(c: Config) -> Vit:
    """The layers of GLM-V: RMSNorm, gated, rotary, as wide inside as the merger is outside."""
    v = replace(vit(c, default_act="silu"), norm=rms, gated=True, rotary=True)
    return replace(
        v, inner=c.size("out_hidden_size", 4096), bias=c.flag("attention_bias"), out_bias=False, mlp_bias=False
    )


def glm_tower(c: Config, v: Vit, front: Block, wide: int) -> TowerStages:
    """The layers of GLM-V between `front` and a merger with a gated network `wide` wide."""
    yield TowerStage("vision", v.width, (front, *v.blocks, Block("norm", (rms("post_norm", v.width),))))
    out, four = c.size("out_hidden_size", 4096), c.size("spatial_merge_size", 2) ** 2
    act = activation(c)
    merger = (
        Convolution(name="downsample", inputs=v.width, outputs=out, kernel=four, stride=four, bias=True, split=four),
        Linear(name="merger_proj", inputs=out, outputs=out, split=four),
        replace(layer_norm("merger_norm", out), split=four),
        Activation(name="merger_act", width=out, function="gelu", gated=False, split=four),
        Linear(name="merger_gate_up_proj", inputs=out, outputs=2 * wide, gated=True, split=four),
        Activation(name="merger_ffn_act", width=wide, function=act, split=four),
        Linear(name="merger_down_proj", inputs=wide, outputs=out, split=four),
    )
    yield TowerStage("projector", out, (Block("merger", merger),))


_KIMI = (
    ("hidden_size", "vt_hidden_size"), ("intermediate_size", "vt_intermediate_size"),
    ("num_attention_heads", "vt_num_attention_heads"), ("num_hidden_layers", "vt_num_hidden_layers"),
    ("pos_emb_height", "init_pos_emb_height"), ("pos_emb_width", "init_pos_emb_width"),
)  # fmt: skip
"""Keys of the class in transformers, and those of the published code."""


@sees(alone=("kimi_k25_vision",))
def kimi_k25_vision(c: Config) -> TowerStages:
    """MoonViT (arXiv:2504.07491): learned positions of height, width and time, and rotary ones."""
    c = c.with_values(**{key: c.size(older) for key, older in _KIMI if older in c.raw})
    v = replace(vit(c, default_act="gelu_pytorch_tanh"), rotary=True)
    rows = c.size("pos_emb_height", 64) * c.size("pos_emb_width", 64)
    front = patches(c, v.width, after=(position_rows(v.width, rows),))
    yield TowerStage("vision", v.width, (front, *v.blocks, Block("norm", (layer_norm("final_norm", v.width),))))


@towers("kimi_k25")
def kimi_k25(outer: Config, text: Model) -> Iterator[Tower]:
    """Kimi-K2.5 (Moonshot AI, 2026): MoonViT and a projector of four neighbours."""
    c = section_of(outer, "vision_config")
    down, across = sides(c, "merge_kernel_size", 2)
    vision, four = next(kimi_k25_vision(c)), down * across
    width = vision.width
    norm = layer_norm("merger_norm", outer.size("projection_hidden_size", width))
    yield from streamed((vision, merger(width, four, text.hidden, norm)), IMAGES)


@towers("kimi_k3")
def kimi_k3(outer: Config, text: Model) -> Iterator[Tower]:
    """Kimi-K3 (SGLang's kimi_k3_vl.py): MoonViT with wider heads, RMSNorm and no biases, and two products of four."""
    if not outer.has("vision_config"):
        return
    c = section_of(outer, "vision_config")
    c.mark_read(*_KIMI_K3)
    (down, across), act = sides(c, "merge_kernel_size", 2), activation(c, "activation_func", "gelu_pytorch_tanh")
    width, heads, inner = c.size("vt_hidden_size"), c.size("vt_num_attention_heads"), c.size("vt_intermediate_size")
    v = Vit(
        c.size("vt_num_hidden_layers", most=MOST_LAYERS), width, heads, inner, act, norm=rms, bias=False,
        out_bias=False, mlp_bias=False, rotary=True, head_dim=c.size("qkv_hidden_size", width) // heads,
    )  # fmt: skip
    rows = c.size("init_pos_emb_height", 64) * c.size("init_pos_emb_width", 64)
    front = patches(c, width, bias=c.flag("patch_embed_proj_bias", False), after=(position_rows(width, rows),))
    four = down * across
    sizes = (four * width, four * width, text.hidden)
    project = projection("projector", sizes, act=activation(c, "projector_hidden_act", "gelu"), bias=False, split=four)
    last = replace(rms("projector_norm", text.hidden), split=four)
    yield from streamed((
        TowerStage("vision", width, (front, *v.blocks, Block("norm", (rms("final_norm", width),)))),
        TowerStage("projector", text.hidden, (project, Block("projector norm", (last,)))),
    ), IMAGES)  # fmt: skip


_KIMI_K3 = """
    attn_bias linear_bias merge_type mlp_type mm_hidden_size mm_projector_type norm_type pos_emb_interpolation_mode
    pos_emb_type init_pos_emb_time projector_ln_eps text_hidden_size
""".split()
