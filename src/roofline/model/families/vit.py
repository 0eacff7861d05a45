"""Vision transformers of one resolution: ViT and its kin, DINO, BEiT, and those of videos."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import rotary
from roofline.model.families.blocks.encoders import at, patch_embedding, pooled
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.vision import (
    IMAGE,
    Sight,
    classifier,
    head_of,
    looks_at,
    not_used,
    over,
    patched,
    pixels,
    plain_mlp,
    pooler,
    ratio,
    seen,
    sees_all,
    sides,
    vision_dims,
    vision_layer,
)
from roofline.model.families.registry import whole
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Learned, Linear, Modules

CLASSIFIES, MASKED = "ForImageClassification", "ForMaskedImageModeling"


def _qkv(c: Config) -> tuple[bool, bool, bool]:
    bias = c.flag("qkv_bias", True)
    return bias, bias, bias


def _pixel_decoder(c: Config, sight: Sight) -> Modules:
    """The pixels of every patch from one product (SimMIM, arXiv:2111.09886)."""
    outputs = c.size("encoder_stride", 16) ** 2 * c.size("num_channels", 3)
    return at(sight.patches, (Linear(name="decoder", inputs=sight.width, outputs=outputs, bias=True, part="head"),))


def plain_sight(c: Config, **patches: int) -> Sight:
    """ViT (arXiv:2010.11929): norms before sublayers and a last one, learned positions."""
    d, act = vision_dims(c), activation(c, default="gelu")
    block = vision_layer(d.width, sees_all(d, _qkv(c)), plain_mlp(c, d.width, act))
    return patched(c, d, block, after=(layer_norm("final_norm", d.width),), **patches)


@whole("vit")
def vit(c: Config) -> Model:
    """ViT (arXiv:2010.11929)."""
    task = head_of(c, CLASSIFIES, MASKED)
    sight = plain_sight(c, masks=int(task == MASKED))
    c.mark_read("encoder_stride")
    end = pooler(sight.width, c.size("pooler_output_size", None), c.text("pooler_act", "tanh"))
    return seen(c, sight, {CLASSIFIES: classifier(c, sight.width), MASKED: _pixel_decoder(c, sight)}.get(task, end))


@whole("deit")
def deit(c: Config) -> Model:
    """DeiT (arXiv:2012.12877): a second class token for distillation."""
    task = head_of(c, CLASSIFIES, "ForImageClassificationWithTeacher", MASKED)
    sight = plain_sight(c, classes=2, masks=int(task == MASKED))
    end = pooler(sight.width, c.size("pooler_output_size", None), c.text("pooler_act", "tanh"))
    head = {CLASSIFIES: classifier(c, sight.width), MASKED: _pixel_decoder(c, sight)}.get(task, end)
    if task.endswith("Teacher"):
        head = (*classifier(c, sight.width), *classifier(c, sight.width, "distillation_classifier"))
    return seen(c, sight, head)


@whole("vit_msn")
def vit_msn(c: Config) -> Model:
    """ViT of masked siamese networks (arXiv:2204.07141)."""
    task = head_of(c, CLASSIFIES)
    sight = plain_sight(c, masks=0)
    return seen(c, sight, classifier(c, sight.width) if task else ())


@whole("ijepa")
def ijepa(c: Config) -> Model:
    """I-JEPA (arXiv:2301.08243): no class token."""
    task = head_of(c, CLASSIFIES)
    sight = plain_sight(c, classes=0)
    c.mark_read("pooler_output_size", "pooler_act")
    return seen(c, sight, classifier(c, sight.width) if task else ())


# -- DINO ----------------------------------------------------------------------------------------------------------
def dinov2_sight(c: Config) -> Sight:
    """DINOv2 (arXiv:2304.07193), with registers (arXiv:2309.16588) where its type says so."""
    d, act = vision_dims(c), activation(c, default="gelu")
    inner, registers = ratio(c, d.width), c.size("num_register_tokens", 0, least=0)
    gated = c.flag("use_swiglu_ffn")
    wide = (inner * 2 // 3 + 7) // 8 * 8
    ffn = mlp(d.width, wide, "silu", bias=True) if gated else mlp(d.width, inner, act, gated=False, bias=True)
    block = vision_layer(d.width, sees_all(d, _qkv(c)), ffn, scale=True)
    masks = int(c.flag("use_mask_token", True))
    c.mark_read("layerscale_value", "apply_layernorm", "reshape_hidden_states", "interpolate_antialias")
    return patched(c, d, block, registers=registers, masks=masks, after=(layer_norm("final_norm", d.width),))


@whole("dinov2", "dinov2_with_registers")
def dinov2(c: Config) -> Model:
    """DINOv2: the classifier reads the class token beside the mean of all patches."""
    sight = dinov2_sight(c)
    return seen(c, sight, classifier(c, 2 * sight.width) if head_of(c, CLASSIFIES, "Backbone") == CLASSIFIES else ())


def dinov3_sight(c: Config, norm: bool = True) -> Sight:
    """DINOv3 (arXiv:2508.10104): rotary positions of patches, registers."""
    d, act = vision_dims(c), activation(c, default="gelu")
    biases = (c.flag("query_bias", True), c.flag("key_bias"), c.flag("value_bias", True))
    mixer = sees_all(d, biases, out_bias=c.flag("proj_bias", True), rotary=d.head_dim)
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=c.flag("use_gated_mlp"), bias=c.flag("mlp_bias", True))
    c.mark_read("layerscale_value", "apply_layernorm", "reshape_hidden_states", "rope_theta", "return_class_token")
    c.mark_read("pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale")
    registers = c.size("num_register_tokens", 0, least=0)
    after = (layer_norm("final_norm", d.width),) if norm else ()
    block = vision_layer(d.width, mixer, ffn, scale=True)
    return patched(c, d, block, registers=registers, masks=1, table=-1, after=after)


@whole("dinov3_vit")
def dinov3_vit(c: Config) -> Model:
    """DINOv3's vision transformer."""
    head_of(c, "Backbone")
    return seen(c, dinov3_sight(c))


# -- BEiT ----------------------------------------------------------------------------------------------------------
def beit_sight(c: Config, norm: bool) -> Sight:
    """BEiT (arXiv:2106.08254): keys without a bias, relative positions, each layer's table or one for all."""
    d, act = vision_dims(c), activation(c, default="gelu")
    (high, wide), patch = sides(c, IMAGE), sides(c, "patch_size")
    rows, columns = high // patch[0], wide // patch[1]
    places = (2 * rows - 1) * (2 * columns - 1) + 3
    table = (Learned(name="relative_positions", width=d.heads, rows=places, applied=False),)
    mixer = (*(table if c.flag("use_relative_position_bias") else ()), *sees_all(d, (True, False, True)))
    block = vision_layer(d.width, mixer, plain_mlp(c, d.width, act), scale=c.number("layer_scale_init_value", 0.1) > 0)
    c.mark_read("use_mean_pooling")
    return patched(
        c, d, block, masks=int(c.flag("use_mask_token")),
        table=None if c.flag("use_absolute_position_embeddings") else -1,
        before=table if c.flag("use_shared_relative_position_bias") else (),
        after=(layer_norm("final_norm", d.width),) if norm else (),
    )  # fmt: skip


@whole("beit", "data2vec-vision")
def beit(c: Config) -> Model:
    """BEiT (arXiv:2106.08254) and data2vec's vision model (arXiv:2202.03555)."""
    task = head_of(c, CLASSIFIES, MASKED)
    mean = c.flag("use_mean_pooling", True)
    pools = task == CLASSIFIES or c.kind == "beit" and task != MASKED
    sight = beit_sight(c, norm=pools or not mean)
    c.mark_read("pool_scales", "auxiliary_channels", "auxiliary_concat_input", "auxiliary_loss_weight")
    c.mark_read("auxiliary_num_convs", "use_auxiliary_head", "add_fpn", "reshape_hidden_states", "vocab_size")
    if task == MASKED:
        words = Linear(name="lm_head", inputs=sight.width, outputs=c.size("vocab_size"), bias=True, part="head")
        norm = at(sight.positions, (layer_norm("head_norm", sight.width),))
        return seen(c, sight, (*norm, *at(sight.patches, (words,))))
    return seen(c, sight, classifier(c, sight.width) if task else ())


# -- others of one resolution --------------------------------------------------------------------------------------
@whole("mlcd", "mlcd_vision_model")
def mlcd(c: Config) -> Model:
    """MLCD (arXiv:2407.17331): CLIP's layers with rotary positions in two dimensions."""
    d, act = vision_dims(c), activation(c, default="gelu")
    block = vision_layer(d.width, sees_all(d, rotary=d.head_dim), plain_mlp(c, d.width, act))
    before = (
        layer_norm("pre_norm", d.width),
        Learned(name="class_rotation", width=d.width // d.heads // 2, applied=False),
    )
    sight = patched(c, d, block, table=-1, bias=False, before=before)
    c.mark_read("num_key_value_groups", "spatial_merge_size")
    return seen(c, sight, pooled((layer_norm("post_norm", d.width),)))


@whole("pixio")
def pixio(c: Config) -> Model:
    """Pixio (arXiv:2512.15715): several class tokens."""
    d, act = vision_dims(c), activation(c, default="gelu")
    ffn = mlp(d.width, ratio(c, d.width), act, gated=False, bias=True) if c.has("mlp_ratio") else plain_mlp(c, d.width, act)
    block = vision_layer(d.width, sees_all(d, _qkv(c)), ffn)
    c.mark_read("apply_layernorm", "reshape_hidden_states")
    sight = patched(c, d, block, classes=c.size("n_cls_tokens", 8), after=(layer_norm("final_norm", d.width),))
    maps = at(sight.patches, (layer_norm("map_norm", d.width),)) if head_of(c, "Backbone") else ()
    return seen(c, sight, maps)
