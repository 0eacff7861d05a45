"""Vision towers at a fixed resolution: CLIP, SigLIP and InternViT, and the models that see through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at, at_one
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.vision import (
    TowerStage,
    TowerStages,
    Vit,
    by_itself,
    patch_grid,
    patches,
    position_rows,
    projection,
    section_of,
    sides,
    streamed,
    vit,
)
from roofline.model.families.blocks.norms import across_heads, layer_norm, layer_norm_per_head, rms
from roofline.model.families.registry import complete, towers
from roofline.model.families.vision.fastvit import SIDE, VARIANTS, fastvit
from roofline.model.media.images import IMAGES
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Attention, Learned, Linear, Modules, Norm


# -- encoders of images --------------------------------------------------------------------------------------------
def clip_vision(c: Config) -> TowerStages:
    """CLIP's vision tower (arXiv:2103.00020): a class token first, norms before and after the layers."""
    yield square_vision(c, vit(c, default_act="quick_gelu"), bias=False, before=layer_norm, token=True)


def square_vision(
    c: Config, v: Vit, *, bias: bool = True, before: Callable[[str, int], Norm] | None = None, token: bool = False,
    last: Modules | None = None,
) -> TowerStage:  # fmt: skip
    """A vision transformer over the patches of an image of one size, with learned positions.

    `before`: the norm before the layers. `token`: a class token goes along, which the last norm reads unless `last`.
    """
    (down, across), (rows, columns), (p, q) = patch_grid(c), sides(c, "image_size"), sides(c, "patch_size")
    count = down * across
    front = (
        *at(count, patches(c, v.width, bias=bias).modules),
        *((Learned(name="class_token", width=v.width, applied=False),) if token else ()),
        position_rows(v.width, (rows // p) * (columns // q) + token),
        *(() if before is None else (before("embedding_norm", v.width),)),
    )
    norm = (layer_norm("final_norm", v.width),)
    after = (at_one(norm) if token else norm) if last is None else last
    blocks = [Block("patches", front), *v.blocks, *([Block("norm", after)] if after else [])]
    return TowerStage("vision", v.width, tuple(blocks), count + token)


def siglip_vision(c: Config) -> TowerStages:
    """SigLIP's vision tower (arXiv:2303.15343), and unless left out the head that pools by attention."""
    v = vit(c, default_act="gelu_pytorch_tanh")
    part = square_vision(c, v)
    yield with_pool(c, v, part) if c.flag("vision_use_head", True) else part


def with_pool(c: Config, v: Vit, part: TowerStage) -> TowerStage:
    """The tower with SigLIP's head: a learned query attends to all positions, then a feed-forward."""
    head = (
        Learned(name="probe", width=v.width, applied=False),
        *at_one((Linear(name="pool_q_proj", inputs=v.width, outputs=v.width, bias=True),)),
        Linear(name="pool_kv_proj", inputs=v.width, outputs=2 * v.width, bias=True),
        *at_one((
            Attention(
                name="pool_attention", heads=v.heads, kv_heads=v.heads, head_dim=v.width // v.heads,
                v_head_dim=v.width // v.heads, keys=part.positions, causal=False,
            ),
            Linear(name="pool_o_proj", inputs=v.width, outputs=v.width, bias=True),
            layer_norm("pool_norm", v.width),
            *mlp(v.width, v.inner, v.act, gated=False, bias=True, prefix="pool_"),
        )),
    )  # fmt: skip
    return replace(part, blocks=(*part.blocks, Block("pool", head)))


def published_siglip(c: Config, part: TowerStage) -> TowerStage:
    """A tower as Keye's and PaddleOCR-VL's files hold it: with a head and packed positions, which nothing runs."""
    packed = Learned(name="packed_positions", width=part.width, rows=32_768, applied=False, idle=True)
    whole = with_idle_pool(c, part)
    return replace(whole, blocks=(*whole.blocks, Block("packed", (packed,))))


def with_idle_pool(c: Config, part: TowerStage) -> TowerStage:
    """The tower with SigLIP's head, which nothing runs."""
    pool = with_pool(c, vit(c, default_act="gelu_pytorch_tanh"), replace(part, positions=1)).blocks[-1].modules
    return replace(part, blocks=(*part.blocks, Block("pool", tuple(replace(m, idle=True) for m in pool))))


def seen_by_many(c: Config) -> TowerStages:
    """SigLIP's layers without its head, as Idefics, Aria and others have them."""
    yield square_vision(c, vit(c, default_act="gelu_pytorch_tanh"))


def janus_vision(c: Config) -> TowerStages:
    """Janus's vision tower (arXiv:2501.17811): SigLIP's, with norms of queries and keys in some models."""
    yield square_vision(c, _janus_vit(c))


def _janus_vit(c: Config) -> Vit:
    width, heads = c.size("hidden_size"), c.size("num_attention_heads")
    layers, inner = c.size("num_hidden_layers", most=MOST_LAYERS), int(c.size("hidden_size") * c.number("mlp_ratio", 4))
    norm = layer_norm_per_head if c.flag("use_qk_norm") else None
    v = Vit(layers, width, heads, inner, activation(c, default="gelu"), qk_norm=norm)
    return replace(v, bias=c.flag("attention_bias", True))


def internvl_vision(c: Config) -> TowerStages:
    """InternViT (arXiv:2312.14238): a class token, and learned scales after each sublayer."""
    v = replace(vit(c), bias=c.flag("attention_bias"), scaled=True)
    v = replace(v, norm=rms if c.text("norm_type", "layer_norm") == "rms_norm" else layer_norm)
    v = replace(v, qk_norm=across_heads if c.flag("use_qk_norm") else None)
    last = () if c.flag("use_mean_pooling", True) else (layer_norm("final_norm", v.width),)
    part = square_vision(c, v, token=True, last=last)
    front = part.blocks[0].modules
    if not c.flag("use_absolute_position_embeddings", True):
        front = tuple(m for m in front if m.name != "position_embedding")
    if c.flag("use_mask_token"):
        front = (*front, Learned(name="mask_token", width=v.width, applied=False))
    yield replace(part, blocks=(Block("patches", front), *part.blocks[1:]))


def pixtral_vision(c: Config) -> TowerStages:
    """Pixtral's vision tower (arXiv:2410.07073): RMSNorm, gated SiLU and rotary positions, at any resolution."""
    v = replace(
        vit(c, default_act="silu"), norm=rms, gated=True, rotary=True, bias=False, out_bias=False, mlp_bias=False
    )
    front = patches(c, v.width, bias=False, after=(rms("embedding_norm", v.width),))
    down, across = patch_grid(c)
    yield TowerStage("vision", v.width, (front, *v.blocks), down * across)


def siglip2_vision(c: Config) -> TowerStages:
    """SigLIP 2 at any resolution (arXiv:2502.14786): patches as they come, with a table of positions to resample."""
    v, rows = vit(c, default_act="gelu_pytorch_tanh"), c.size("num_patches", 256)
    count = c.inputs.patches or rows
    front = patches(c, v.width, after=(position_rows(v.width, rows),))
    part = TowerStage("vision", v.width, (front, *v.blocks, Block("norm", (layer_norm("final_norm", v.width),))), count)
    yield with_pool(c, v, part) if c.flag("vision_use_head", True) else part


def intern_vit(c: Config) -> TowerStages:
    """InternViT under the keys of its published code."""
    norm, bias, qk_norm = c.text("norm_type", "rms_norm"), c.flag("qkv_bias"), c.flag("qk_normalization", True)
    yield from internvl_vision(c.with_values(attention_bias=bias, use_qk_norm=qk_norm, norm_type=norm))


BACKBONES: Mapping[str, Callable[[Config], TowerStages]] = MappingProxyType({
    **dict.fromkeys(("clip_vision_model", "kosmos_2_vision_model", "git_vision_model"), clip_vision),
    "chinese_clip_vision_model": clip_vision,
    "siglip_vision_model": siglip_vision,
    "siglip2_vision_model": siglip2_vision,
    **dict.fromkeys(("idefics2_vision", "idefics3_vision", "smolvlm_vision"), seen_by_many),
    "janus_vision_model": janus_vision,
    **dict.fromkeys(("internvl_vision", "qianfan_ocr_vision", "pp_chart2table_vision_model"), internvl_vision),
    "intern_vit_6b": intern_vit,
    "pixtral": pixtral_vision,
})  # fmt: skip
"""Type of a vision config → the parts of its tower."""

for _type in ("idefics2_vision", "idefics3_vision", "smolvlm_vision", "internvl_vision",
              "qianfan_ocr_vision", "pixtral", "git_vision_model", "kosmos_2_vision_model"):  # fmt: skip
    complete(_type)(lambda c: by_itself(c, BACKBONES[c.kind](c)))


def backbone(outer: Config, key: str = "vision_config") -> TowerStage:
    """The tower that a section names. Raises InputError for one that is not known."""
    c = section_of(outer, key)
    build = BACKBONES.get(c.kind)
    if build is None:
        raise c.error("model_type", f"a tower that is counted: {', '.join(BACKBONES)}; text_only leaves it out")
    return next(build(c))


# -- projectors ----------------------------------------------------------------------------------------------------
def fixed(block: Block, positions: int) -> TowerStage:
    """A projector over a fixed number of positions."""
    return TowerStage("projector", 0, (Block(block.name, at(positions, block.modules)),))


def beside(parts: Iterable[TowerStage]) -> Iterator[Tower]:
    """TowerStages as towers of images."""
    return streamed(parts, IMAGES)


def _kept(outer: Config, part: TowerStage, default: str = "default") -> int:
    """Positions that a projector reads: all, or all but the class token."""
    cut = outer.text("vision_feature_select_strategy", default) == "default"
    return (part.positions or 1) - cut


def _features(outer: Config, width: int) -> int:
    """Width of the features that a projector reads: those of one layer, or of several side by side."""
    chosen = outer.get("vision_feature_layer")
    outer.mark_read("vision_feature_layer")
    return width * (len(chosen) if isinstance(chosen, (list, tuple)) else 1)


@towers("llava", "llava_next", "llava_next_video", "llava_onevision", "video_llava", "vipllava")
def llava(outer: Config, text: Model) -> Iterator[Tower]:
    """LLaVA (arXiv:2310.03744, 2408.03326, 2312.00784): two products after the features of a layer, or of several."""
    part = backbone(outer)
    wide, act = _features(outer, part.width), activation(outer, "projector_hidden_act", "gelu")
    bias, kind = outer.flag("multimodal_projector_bias", True), outer.kind
    norm = layer_norm("projector_norm", wide) if outer.raw.get("model_type") == "vipllava" else None
    block = projection("projector", (wide, text.hidden, text.hidden), act=act, bias=bias, norm=norm)
    if part.blocks[0].modules[0].positions is None:  # at the resolution of the image
        projector = TowerStage("projector", text.hidden, (block,))
    else:
        default = "full" if kind == "llava_onevision" else "default"
        projector = fixed(block, _kept(outer, part, default))
    lines = outer.raw.get("model_type") in ("llava_next", "llava_next_video", "llava_onevision")
    newline = Block("newline", (Learned(name="newline", width=text.hidden, applied=False),))
    seen = (part, part) if kind == "video_llava" else (part,)
    yield from beside((*seen, replace(projector, blocks=(*projector.blocks, *([newline] if lines else [])))))


@towers("mistral3", "lighton_ocr", "mistral_large4")
def mistral3(outer: Config, text: Model) -> Iterator[Tower]:
    """Mistral Small 3.1 (Mistral AI, 2025): Pixtral's tower, and a projector of four neighbours."""
    part, four = backbone(outer), outer.size("spatial_merge_size", 2) ** 2
    width, act = part.width, activation(outer, "projector_hidden_act", "gelu")
    bias = outer.flag("multimodal_projector_bias")
    merge = Linear(name="merger", inputs=four * width, outputs=width, split=four)
    sizes = (_features(outer, width), text.hidden, text.hidden)
    block = projection("projector", sizes, act=act, bias=bias, split=four)
    front = Block("merger", (rms("projector_norm", width), merge))
    yield from beside((part, TowerStage("projector", width, (front, block))))


@towers("gemma3", "shieldgemma2")
def gemma3_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Gemma 3 (arXiv:2503.19786): patches are averaged to 256 before one product."""
    part, tokens = backbone(outer), outer.size("mm_tokens_per_image", 256)
    project = Linear(name="projector", inputs=part.width, outputs=text.hidden)
    yield from beside((part, fixed(Block("projector", (rms("projector_norm", part.width), project)), tokens)))


@towers("paligemma")
def paligemma(outer: Config, text: Model) -> Iterator[Tower]:
    """PaliGemma (arXiv:2407.07726): one product."""
    part = backbone(outer)
    outputs = section_of(outer, "vision_config").size("projection_dim", outer.size("projection_dim", 2048))
    project = Linear(name="projector", inputs=part.width, outputs=outputs, bias=True)
    yield from beside((part, fixed(Block("projector", (project,)), part.positions or 1)))


@towers("cohere2_vision", "aya_vision")
def cohere2_vision(outer: Config, text: Model) -> Iterator[Tower]:
    """Command A Vision (arXiv:2504.00698), Aya Vision: neighbours side by side, then a gated network."""
    part, four = backbone(outer), outer.size("downsample_factor", 2) ** 2
    aya = outer.raw.get("model_type") == "aya_vision"
    wide = outer.size("alignment_intermediate_size", text.hidden if aya else 36864)
    norm = layer_norm("projector_norm", four * part.width) if aya else None
    sizes = (four * part.width, wide // 2, text.hidden)
    block = projection("projector", sizes, act="silu", norm=norm, gated=True)
    yield from beside((part, fixed(block, (part.positions or 1) // four)))


@towers("deepseek_vl")
def deepseek_vl(outer: Config, text: Model) -> Iterator[Tower]:
    """DeepSeek-VL (arXiv:2403.05525): two products."""
    part = backbone(outer)
    block = projection("projector", (part.width, text.hidden, text.hidden))
    yield from beside((part, fixed(block, part.positions or 1)))


@towers("internvl", "qianfan_ocr", "internvl_chat", "h2ovl_chat", "skywork_chat")
def internvl(outer: Config, text: Model) -> Iterator[Tower]:
    """InternVL (arXiv:2504.10479): pixels are unshuffled, then a norm and two products."""
    part = backbone(outer)
    four = int(1 / outer.number("downsample_ratio", 0.5)) ** 2
    wide, act = part.width * four, activation(outer, "projector_hidden_act", "gelu")
    block = projection("projector", (wide, text.hidden, text.hidden), act=act, norm=layer_norm("projector_norm", wide))
    yield from beside((part, fixed(block, _kept(outer, part) // four)))


@towers("idefics3", "smolvlm")
def idefics3(outer: Config, text: Model) -> Iterator[Tower]:
    """Idefics 3 (arXiv:2408.12637), SmolVLM: pixels are unshuffled, then one product."""
    part, four = backbone(outer), outer.size("scale_factor", 2) ** 2
    block = Block("projector", (Linear(name="projector", inputs=four * part.width, outputs=text.hidden),))
    yield from beside((part, fixed(block, (part.positions or 1) // four)))


@towers("lfm2_vl")
def lfm2_vl(outer: Config, text: Model) -> Iterator[Tower]:
    """LFM2-VL (Liquid AI, 2025): SigLIP 2, then neighbours side by side in two products."""
    part, four = backbone(outer), outer.size("downsample_factor", 2) ** 2
    wide, act = four * part.width, activation(outer, "projector_hidden_act", "gelu")
    norm = (
        replace(layer_norm("projector_norm", wide), split=four) if outer.flag("projector_use_layernorm", True) else None
    )
    sizes = (wide, outer.size("projector_hidden_size", 2560), text.hidden)
    bias = outer.flag("projector_bias", True)
    yield from beside(
        (
            part,
            TowerStage("projector", wide, (projection("projector", sizes, act=act, bias=bias, norm=norm, split=four),)),
        )
    )


# -- FastVLM -------------------------------------------------------------------------------------------------------
@towers("fast_vlm")
def fast_vlm(outer: Config, text: Model) -> Iterator[Tower]:
    """FastVLM (arXiv:2412.13303): FastViT by its name in timm, every position of its last map, two products."""
    c = section_of(outer, "vision_config")
    named = c.text("architecture", "fastvit_mci3", VARIANTS)
    c.mark_read("do_pooling", "num_classes", "label_names", "pretrained_cfg", "global_pool")
    outer.mark_read("vision_feature_select_strategy", "vision_feature_layer", "image_seq_length")
    merged = c.section("model_args").flag("inference_mode")
    c.mark_read("model_args")
    blocks, x = fastvit(named, c.inputs.height or SIDE, c.inputs.width or SIDE, merged=merged)
    sizes = (c.size("hidden_size", x.channels), text.hidden, text.hidden)
    act, bias = activation(outer, "projector_hidden_act", "gelu"), outer.flag("multimodal_projector_bias", True)
    block = projection("projector", sizes, act=act, bias=bias)
    project = TowerStage("projector", text.hidden, (Block("projector", at(x.positions, block.modules)),))
    yield from streamed((TowerStage("vision", x.channels, tuple(blocks), x.positions), project), IMAGES)
