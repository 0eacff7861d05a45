"""Vision transformers of one resolution: ViT and its kin, DINO, BEiT, and those of videos."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import rope_section
from roofline.model.families.blocks.encoders import at, at_one, patch_embedding
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.sight import (
    IMAGE,
    ONE_CLASS,
    Sight,
    TokensBeside,
    both_sides,
    classifier,
    head_of,
    image_model,
    indices,
    inner_width,
    looks_at,
    not_used,
    over,
    patched,
    pixels,
    plain_mlp,
    pooler,
    sees_all,
    tubes_of,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Convolution, Learned, Linear, Modules

CLASSIFIES, MASKED = "ForImageClassification", "ForMaskedImageModeling"


def _qkv(c: Config) -> tuple[bool, bool, bool]:
    bias = c.flag("qkv_bias", True)
    return bias, bias, bias


def _pixel_decoder(c: Config, sight: Sight) -> Modules:
    """The pixels of every patch from one product (SimMIM, arXiv:2111.09886)."""
    outputs = c.size("encoder_stride", 16) ** 2 * c.size("num_channels", 3)
    return at(sight.patches, (Linear(name="decoder", inputs=sight.width, outputs=outputs, bias=True, part="head"),))


def plain_sight(c: Config, tokens: TokensBeside = ONE_CLASS) -> Sight:
    """ViT (arXiv:2010.11929): norms before sublayers and a last one, learned positions."""
    d, act = vision_dims(c), activation(c, default="gelu")
    block = vision_layer(d.width, sees_all(d, _qkv(c)), plain_mlp(c, d.width, act))
    return patched(c, d, block, tokens, after=(layer_norm("final_norm", d.width),))


@complete("vit")
def plain_vit(c: Config) -> Model:
    """ViT (arXiv:2010.11929)."""
    task = head_of(c, CLASSIFIES, MASKED)
    sight = plain_sight(c, TokensBeside(masks=int(task == MASKED)))
    c.mark_read("encoder_stride")
    end = pooler(sight.width, c.size("pooler_output_size", None), c.text("pooler_act", "tanh"))
    return image_model(
        c, sight, {CLASSIFIES: classifier(c, sight.width), MASKED: _pixel_decoder(c, sight)}.get(task, end)
    )


@complete("deit")
def deit(c: Config) -> Model:
    """DeiT (arXiv:2012.12877): a second class token for distillation."""
    task = head_of(c, CLASSIFIES, "ForImageClassificationWithTeacher", MASKED)
    sight = plain_sight(c, TokensBeside(classes=2, masks=int(task == MASKED)))
    end = pooler(sight.width, c.size("pooler_output_size", None), c.text("pooler_act", "tanh"))
    head = {CLASSIFIES: classifier(c, sight.width), MASKED: _pixel_decoder(c, sight)}.get(task, end)
    if task.endswith("Teacher"):
        head = (*classifier(c, sight.width), *classifier(c, sight.width, "distillation_classifier"))
    return image_model(c, sight, head)


@complete("vit_msn")
def vit_msn(c: Config) -> Model:
    """ViT of masked siamese networks (arXiv:2204.07141)."""
    task = head_of(c, CLASSIFIES)
    sight = plain_sight(c)
    return image_model(c, sight, classifier(c, sight.width) if task else ())


@complete("vit_mae")
def vit_mae(c: Config) -> Model:
    """Masked autoencoder (arXiv:2111.06377): its encoder reads the patches that are not masked."""
    head_of(c)
    sight, masked = plain_sight(c), c.number("mask_ratio", 0.75, most=1)
    n, kept = sight.positions, int(sight.patches * (1 - masked)) + 1
    blocks = tuple(
        Block(b.name, tuple(replace(m, positions=kept) if m.positions == n else m for m in b.modules))
        for b in sight.blocks
    )
    c.mark_read("norm_pix_loss", *(key for key in c.raw if key.startswith("decoder_")))
    return image_model(c, replace(sight, blocks=blocks))


@complete("ijepa")
def ijepa(c: Config) -> Model:
    """I-JEPA (arXiv:2301.08243): no class token."""
    task = head_of(c, CLASSIFIES)
    sight = plain_sight(c, TokensBeside(classes=0))
    c.mark_read("pooler_output_size", "pooler_act")
    return image_model(c, sight, classifier(c, sight.width) if task else ())


# -- DINO ----------------------------------------------------------------------------------------------------------
def dinov2_sight(c: Config) -> Sight:
    """DINOv2 (arXiv:2304.07193), with registers (arXiv:2309.16588) where its type says so."""
    d, act = vision_dims(c), activation(c, default="gelu")
    inner, registers = inner_width(c, d.width), c.size("num_register_tokens", 0, least=0)
    gated = c.flag("use_swiglu_ffn")
    wide = (inner * 2 // 3 + 7) // 8 * 8
    ffn = mlp(d.width, wide, "silu", bias=True) if gated else mlp(d.width, inner, act, gated=False, bias=True)
    block = vision_layer(d.width, sees_all(d, _qkv(c)), ffn, scale=True)
    masks = int(c.flag("use_mask_token", True))
    c.mark_read("layerscale_value", "apply_layernorm", "reshape_hidden_states", "interpolate_antialias")
    return patched(
        c, d, block, TokensBeside(registers=registers, masks=masks), after=(layer_norm("final_norm", d.width),)
    )


@complete("dinov2", "dinov2_with_registers", "tipsv2_vision_model")
def dinov2(c: Config) -> Model:
    """DINOv2: the classifier reads the class token beside the mean of all patches."""
    sight = dinov2_sight(c)
    return image_model(
        c, sight, classifier(c, 2 * sight.width) if head_of(c, CLASSIFIES, "Backbone") == CLASSIFIES else ()
    )


def dinov3_sight(c: Config, norm: bool = True, masks: int = 1) -> Sight:
    """DINOv3 (arXiv:2508.10104): rotary positions of patches, registers."""
    rope_section(c)
    d, act = vision_dims(c), activation(c, default="gelu")
    biases = (c.flag("query_bias", True), c.flag("key_bias"), c.flag("value_bias", True))
    mixer = sees_all(d, biases, out_bias=c.flag("proj_bias", True), rotary=d.head_dim)
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=c.flag("use_gated_mlp"), bias=c.flag("mlp_bias", True))
    c.mark_read("layerscale_value", "apply_layernorm", "reshape_hidden_states", "rope_theta", "return_class_token")
    c.mark_read("pos_embed_shift", "pos_embed_jitter", "pos_embed_rescale")
    registers = c.size("num_register_tokens", 0, least=0)
    after = (layer_norm("final_norm", d.width),) if norm else ()
    block = vision_layer(d.width, mixer, ffn, scale=True)
    return patched(c, d, block, TokensBeside(registers=registers, masks=masks, table=-1), after=after)


@complete("dinov3_vit")
def dinov3_vit(c: Config) -> Model:
    """DINOv3's vision transformer."""
    head_of(c, "Backbone")
    return image_model(c, dinov3_sight(c))


# -- BEiT ----------------------------------------------------------------------------------------------------------
def beit_sight(c: Config, norm: bool) -> Sight:
    """BEiT (arXiv:2106.08254): keys without a bias, relative positions, each layer's table or one for all."""
    d, act = vision_dims(c), activation(c, default="gelu")
    (high, wide), patch = both_sides(c, IMAGE), both_sides(c, "patch_size")
    rows, columns = high // patch[0], wide // patch[1]
    places = (2 * rows - 1) * (2 * columns - 1) + 3
    table = (Learned(name="relative_positions", width=d.heads, rows=places, applied=False),)
    mixer = (*(table if c.flag("use_relative_position_bias") else ()), *sees_all(d, (True, False, True)))
    block = vision_layer(d.width, mixer, plain_mlp(c, d.width, act), scale=c.number("layer_scale_init_value", 0.1) > 0)
    c.mark_read("use_mean_pooling")
    absolute = None if c.flag("use_absolute_position_embeddings") else -1
    return patched(
        c,
        d,
        block,
        TokensBeside(masks=int(c.flag("use_mask_token")), table=absolute),
        before=table if c.flag("use_shared_relative_position_bias") else (),
        after=(layer_norm("final_norm", d.width),) if norm else (),
    )


# -- others of one resolution --------------------------------------------------------------------------------------
@complete("mlcd", "mlcd_vision_model")
def mlcd(c: Config) -> Model:
    """MLCD (arXiv:2407.17331): CLIP's layers with rotary positions in two dimensions."""
    rope_section(c)
    d, act = vision_dims(c), activation(c, default="gelu")
    block = vision_layer(d.width, sees_all(d, rotary=d.head_dim), plain_mlp(c, d.width, act))
    before = (
        layer_norm("pre_norm", d.width),
        Learned(name="class_rotation", width=d.width // d.heads // 2, applied=False),
    )
    sight = patched(c, d, block, TokensBeside(table=-1, bias=False), before=before)
    c.mark_read("num_key_value_groups", "spatial_merge_size")
    return image_model(c, sight, at_one((layer_norm("post_norm", d.width),)))


@complete("pixio")
def pixio(c: Config) -> Model:
    """Pixio (arXiv:2512.15715): several class tokens."""
    d, act = vision_dims(c), activation(c, default="gelu")
    ffn = (
        mlp(d.width, inner_width(c, d.width), act, gated=False, bias=True)
        if c.has("mlp_ratio")
        else plain_mlp(c, d.width, act)
    )
    block = vision_layer(d.width, sees_all(d, _qkv(c)), ffn)
    c.mark_read("apply_layernorm", "reshape_hidden_states")
    sight = patched(
        c, d, block, TokensBeside(classes=c.size("n_cls_tokens", 8)), after=(layer_norm("final_norm", d.width),)
    )
    maps = at(sight.patches, (layer_norm("map_norm", d.width),)) if head_of(c, "Backbone") else ()
    return image_model(c, sight, maps)


def vitpose_sight(c: Config) -> Sight:
    """ViTPose (arXiv:2204.12484): no class token, yet its position; experts each make a part of the output."""
    d, act, experts = vision_dims(c), activation(c, default="gelu"), c.size("num_experts", 1)
    inner, part = inner_width(c, d.width), c.size("part_features", 256)
    ffn = mlp(d.width, inner, act, gated=False, bias=True)
    if experts > 1:
        shared = Linear(name="down_proj", inputs=inner, outputs=d.width - part, bias=True)
        parts = (Linear(name=f"expert{i}", inputs=inner, outputs=part, bias=True) for i in range(experts))
        ffn = (*ffn[:-1], shared, *parts)
    block = vision_layer(d.width, sees_all(d, _qkv(c)), ffn)
    c.mark_read("part_features")
    return patched(c, d, block, TokensBeside(classes=0, table=1), after=(layer_norm("final_norm", d.width),))


@complete("vitpose_backbone")
def vitpose_backbone(c: Config) -> Model:
    """The vision transformer of ViTPose."""
    head_of(c, "Backbone")
    return image_model(c, vitpose_sight(c))


@complete("mgp-str")
def mgp_str(c: Config) -> Model:
    """MGP-STR (arXiv:2209.03592): characters, pieces and words that each attend to the patches of a line of text."""
    task, d, width = head_of(c, "ForSceneTextRecognition"), vision_dims(c), c.size("hidden_size")
    block = vision_layer(width, sees_all(d, _qkv(c)), mlp(width, inner_width(c, width), "gelu", gated=False, bias=True))
    sight = patched(c, d, block, TokensBeside(table=2 if c.flag("distilled") else 1))
    n, length = sight.positions, c.size("max_token_length", 27)
    head: Modules = ()
    for name, key in (("char", "num_character_labels"), ("bpe", "num_bpe_labels"), ("word", "num_wordpiece_labels")):
        labels = Linear(name=f"{name}_head", inputs=width, outputs=c.size(key), bias=True, part="head")
        chosen = Linear(name=f"{name}_chosen", inputs=n, outputs=width, tied=True, part="other")
        head += at(n, (
            layer_norm(f"{name}_norm", width),
            Convolution(name=f"{name}_tokens1", inputs=width, outputs=width, kernel=1, groups=8),
            Convolution(name=f"{name}_tokens2", inputs=width, outputs=length, kernel=1),
            Convolution(name=f"{name}_values", inputs=width, outputs=width, kernel=1, groups=8),
        ))  # fmt: skip
        head += at(length, (chosen, layer_norm(f"{name}_last_norm", width), labels))
    c.mark_read("output_a3_attentions", "attn_drop_rate", "drop_rate")
    return image_model(c, sight, head if task else ())


# -- windows of attention ------------------------------------------------------------------------------------------
def windowed_layer(
    c: Config, d: Dims, grid: tuple[int, int], window: int, ffn: Modules, *, own: tuple[int, int], relative: bool
) -> Block:
    """A layer over a grid in windows of `window` positions a side, padded; 0 for all of the grid (arXiv:2203.16527).

    `relative`: logits get a product of the query with a learned vector for each distance in rows and columns; `own`:
    the grid of the config, whose distances the table has.
    """
    rows, columns = grid
    if window:
        runs, side = -(-rows // window) * -(-columns // window), (window, window)
    else:
        runs, side = 1, grid
    table = side if window else own
    distances = at(side[0] * side[1] * d.heads, (
        Linear(name="row_distances", inputs=d.head_dim, outputs=side[0], tied=True, part="other"),
        Linear(name="column_distances", inputs=d.head_dim, outputs=side[1], tied=True, part="other"),
    ), runs) if relative else ()  # fmt: skip
    rows_of = 2 * table[0] - 1 + 2 * table[1] - 1
    places = (Learned(name="distances", width=d.head_dim, rows=rows_of, applied=False),) if relative else ()
    mixer = (*places, *at(side[0] * side[1], sees_all(d, _qkv(c)), runs), *distances)
    return over(rows * columns, vision_layer(d.width, mixer, ffn, name="windowed" if window else "full"))


def vitdet_sight(c: Config) -> Sight:
    """ViTDet (arXiv:2203.16527): windows in most layers, convolutions behind some."""
    d, act = vision_dims(c), activation(c, default="gelu")
    (height, width), patch = pixels(c), both_sides(c, "patch_size")
    own, trained = both_sides(c, IMAGE), both_sides(c, "pretrain_image_size", 224)
    grid = (height // patch[0], width // patch[1])
    windowed, convolved = set(indices(c, "window_block_indices")), set(indices(c, "residual_block_indices"))
    ffn = mlp(d.width, inner_width(c, d.width), act, gated=False, bias=True)
    relative, window = c.flag("use_relative_position_embeddings"), c.size("window_size", 0, least=0)

    def block(i: int) -> Block:
        inner = windowed_layer(
            c, d, grid, window if i in windowed else 0, ffn, own=(own[0] // patch[0], own[1] // patch[1]),
            relative=relative,
        )  # fmt: skip
        half = d.width // 2
        return inner if i not in convolved else Block(f"{inner.name} convolved", (
            *inner.modules,
            *at(grid[0] * grid[1], (
                Convolution(name="conv1", inputs=d.width, outputs=half, kernel=1),
                layer_norm("conv1_norm", half),
                Convolution(name="conv2", inputs=half, outputs=half, kernel=9),
                layer_norm("conv2_norm", half),
                Convolution(name="conv3", inputs=half, outputs=d.width, kernel=1),
                layer_norm("conv3_norm", d.width),
                Add(name="conv_residual", width=d.width),
            )),
        ))  # fmt: skip

    places = (trained[0] // patch[0]) * (trained[1] // patch[1]) + 1
    table = (Learned(name="position_embedding", width=d.width, rows=places),)
    return patched(
        c,
        d,
        [block(i) for i in range(d.layers)],
        TokensBeside(classes=0, table=-1),
        before=table if c.flag("use_absolute_position_embeddings", True) else (),
    )


@complete("vitdet")
def vitdet(c: Config) -> Model:
    """ViTDet (arXiv:2203.16527)."""
    head_of(c, "Backbone")
    return image_model(c, vitdet_sight(c))


# -- videos --------------------------------------------------------------------------------------------------------
@complete("videomae")
def videomae(c: Config) -> Model:
    """VideoMAE (arXiv:2203.12602): tubes of two frames, fixed positions, keys without a bias."""
    d, act, bias = vision_dims(c), activation(c, default="gelu"), c.flag("qv_bias|qkv_bias", True)
    task, mean = head_of(c, "ForVideoClassification"), c.flag("use_mean_pooling", True)
    block = vision_layer(d.width, sees_all(d, (bias, False, bias)), plain_mlp(c, d.width, act))
    c.mark_read("decoder_num_attention_heads", "decoder_hidden_size", "decoder_num_hidden_layers", "norm_pix_loss")
    c.mark_read("decoder_intermediate_size")
    last = (layer_norm("final_norm", d.width),)
    sight = patched(c, d, block, TokensBeside(classes=0, table=-1), tubes=tubes_of(c), after=() if mean else last)
    norm = at_one((layer_norm("pooled_norm", d.width),)) if mean else ()
    return image_model(c, sight, (*norm, *classifier(c, d.width)) if task else ())


@complete("vivit")
def vivit(c: Config) -> Model:
    """ViViT (arXiv:2103.15691) with attention over all of space and time."""
    d, act = vision_dims(c), activation(c, default="gelu_fast")
    block = vision_layer(d.width, sees_all(d, _qkv(c)), plain_mlp(c, d.width, act))
    sight = patched(c, d, block, tubes=tubes_of(c), after=(layer_norm("final_norm", d.width),))
    task = head_of(c, "ForVideoClassification")
    c.mark_read("video_size", "pooler_output_size", "pooler_act")
    return image_model(c, sight, classifier(c, d.width) if task else pooler(d.width))


@complete("vjepa2")
def vjepa2(c: Config) -> Model:
    """V-JEPA 2 (arXiv:2506.09985): an encoder, a predictor of hidden patches, and a pooler for classes."""
    d, act, task = vision_dims(c), activation(c, default="gelu"), head_of(c, "ForVideoClassification")
    c.mark_read("image_size", "num_mask_tokens", "in_chans", "pred_zero_init_mask_tokens")

    def of(d: Dims, inner: int) -> Block:
        turned = 3 * (2 * ((d.head_dim // 3) // 2))
        ffn = mlp(d.width, inner, act, gated=False, bias=True)
        return vision_layer(d.width, sees_all(d, _qkv(c), rotary=turned), ffn)

    tubes = tubes_of(c, "frames_per_clip")
    sight = patched(
        c,
        d,
        of(d, inner_width(c, d.width)),
        TokensBeside(classes=0, table=-1),
        size="crop_size",
        tubes=tubes,
        after=(layer_norm("final_norm", d.width),),
    )
    n, heads = sight.patches, c.size("pred_num_attention_heads")
    width = c.size("pred_hidden_size")
    p = Dims(c.size("pred_num_hidden_layers", most=MOST_LAYERS), width, heads, heads, width // heads)
    predictor = [
        Block("predictor in", at(n, (
            Linear(name="predictor_in", inputs=d.width, outputs=width, bias=True),
            Learned(name="mask_tokens", width=width, rows=c.size("pred_num_mask_tokens", 10), applied=False),
        ))),
        *[over(2 * n, replace(of(p, inner_width(c, width, "pred_mlp_ratio")), name="predictor"))] * p.layers,
        Block("predictor out", (
            *at(2 * n, (layer_norm("predictor_norm", width),)),
            *at(n, (Linear(name="predictor_out", inputs=width, outputs=d.width, bias=True),)),
        )),
    ]  # fmt: skip
    if not task:
        return image_model(c, replace(sight, blocks=(*sight.blocks, *predictor)))
    unused = [replace(b, modules=not_used(b.modules)) for b in predictor]
    ffn = mlp(d.width, 4 * d.width, act, gated=False, bias=True)
    pools = replace(over(n, vision_layer(d.width, sees_all(d), ffn)), name="pooler")
    *looks, _ = looks_at(d, n)
    last = (
        Learned(name="query", width=d.width, applied=False), *at(n, (layer_norm("cross_norm", d.width),)),
        *looks, Add(name="cross_residual", width=d.width),
        layer_norm("ffn_norm", d.width), *ffn, Add(name="ffn_residual", width=d.width),
    )  # fmt: skip
    end = over(1, Block("pooled", last))
    blocks = (*sight.blocks, *unused, *[pools] * c.size("num_pooler_layers", 3, least=0), end)
    return image_model(c, replace(sight, blocks=blocks), classifier(c, d.width))


@complete("timesformer")
def timesformer(c: Config) -> Model:
    """TimeSformer (arXiv:2102.05095): attention over time, then over space."""
    d, act = vision_dims(c), activation(c, default="gelu")
    kind = c.text("attention_type", "divided_space_time", ("divided_space_time", "space_only", "joint_space_time"))
    (height, width), patch, own = pixels(c), both_sides(c, "patch_size"), both_sides(c, IMAGE)
    listed: int = c.size("num_frames", 8)
    frames = c.inputs.frames or listed
    each = (height // patch[0]) * (width // patch[1])
    bias, kept = _qkv(c), (own[0] // patch[0]) * (own[1] // patch[1])
    n, space = frames * each, at(each + 1, sees_all(d, bias), frames)
    time = at(each * frames, (layer_norm("time_norm", d.width),))
    if kind == "divided_space_time":
        inside = at(frames, sees_all(d, bias, prefix="time_"), each)
        more = at(n, (Linear(name="time_proj", inputs=d.width, outputs=d.width, bias=True),))
        mixer = (*time, *inside, *more, *space)
    else:
        mixer = sees_all(d, bias) if kind == "joint_space_time" else space
    joint = kind != "space_only"
    block = vision_layer(d.width, mixer, plain_mlp(c, d.width, act))
    total = n + 1 if joint else frames * (each + 1)
    front = (
        *at(n, (patch_embedding("patch_embedding", c.size("num_channels", 3), patch[0] * patch[1], d.width),)),
        *at(total, (
            Learned(name="class_token", width=d.width, applied=False),
            Learned(name="position_embedding", width=d.width, rows=kept + 1),
            *((Learned(name="time_embedding", width=d.width, rows=c.size("num_frames", 8)),) if joint else ()),
        )),
    )  # fmt: skip
    last = Block("norm", at(total, (layer_norm("final_norm", d.width),)))
    blocks = (*[over(total, block)] * d.layers, last)
    task = head_of(c, "ForVideoClassification")
    sight = Sight(front, blocks, d.width, n, 1, total - n)
    return image_model(c, sight, classifier(c, d.width) if task else ())
