"""More towers of models whose code comes with the checkpoint: CogVLM, Ovis, Janus, XComposer 2, Keye, Ultravox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from roofline.declared.trees import JsonValue
from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.denoisers import product
from roofline.model.families.blocks.images.resnets import Sides
from roofline.model.families.blocks.images.vision import (
    TowerStage,
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
from roofline.model.families.registry import towers
from roofline.model.families.speech.whisper import attention_of_whisper
from roofline.model.families.towers.audio import ear, halving
from roofline.model.families.towers.fixed_resolution import (
    beside,
    fixed,
    published_siglip,
    siglip_vision,
    square_vision,
    with_idle_pool,
)
from roofline.model.families.towers.phi4 import phi4_audio
from roofline.model.families.towers.quantized import CodeBook, book_decoder, book_encoder, idle_blocks, quantizer
from roofline.model.families.towers.qwen_vl import kimi_k25_vision
from roofline.model.families.towers.remote import CLIP_L, SIGLIP, eva_clip, gated_words
from roofline.model.families.towers.resampled import unapplied
from roofline.model.media.images import IMAGES
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Convolution, Linear, Modules


# -- CogVLM --------------------------------------------------------------------------------------------------------
@towers("cogvlm")
def cogvlm_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """CogVLM (arXiv:2311.03079): EVA-02-CLIP-E and a gated network; CogVLM 2 halves both sides before it."""
    c, width, inner = section_of(outer, "vision_config"), text.hidden, outer.size("intermediate_size")
    count, vision = c.size("num_positions"), eva_clip(c)
    c.mark_read("dropout_prob", "image_size", "num_positions")
    again = outer.has("num_multi_query_heads")
    left = (count - 1) // 4 if again else count - 1
    halves = (
        (Convolution(name="downsample", inputs=vision.width, outputs=vision.width, kernel=4, stride=4, bias=True),)
        if again else ()
    )  # fmt: skip
    project: Modules = (*halves, *gated_words(vision.width, width, inner))
    projector = Block("projector", (*at(left, project), unapplied("ends", width, 2)))
    yield from beside((vision, fixed(projector, left)))


# -- Ovis ----------------------------------------------------------------------------------------------------------
@towers("ovis")
def ovis_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Ovis 1 and 2 (arXiv:2405.20797): SigLIP or AIMv2, the probability of each visual word, and a table of them."""
    t = section_of(outer, "visual_tokenizer_config")
    c, words = section_of(t, "backbone_config"), t.size("vocab_size", 16384)
    t.mark_read("backbone_kwargs", "tau", "depths", "drop_cls_token", "tokenize_function", "use_indicators")
    outer.mark_read("conversation_formatter_class", "multimodal_max_length", "llm_attn_implementation", "hidden_size")
    if c.kind == "siglip_vision_model":
        (part,) = siglip_vision(c)
    elif c.kind in ("aimv2", "aimv2_vision_model"):
        v = replace(vit(c, default_act="silu"), norm=rms, gated=True, bias=False, out_bias=False, mlp_bias=False)
        c.mark_read("qkv_bias", "use_bias", "rms_norm_eps", "projection_dropout")
        part = square_vision(c, v, before=rms, last=(rms("final_norm", v.width),))
    else:
        raise c.error("model_type", "siglip_vision_model or aimv2")
    four = t.size("hidden_stride", 1) ** 2
    head: Modules = (
        Linear(name="word_proj", inputs=part.width * four, outputs=words - INDICATORS),
        layer_norm("word_norm", words - INDICATORS),
        Linear(name="visual_embeddings", inputs=words, outputs=text.hidden, part="other"),
    )
    yield from beside((part, fixed(Block("words", head), -(-(part.positions or 1) // four))))


INDICATORS = 5
"""Visual words of Ovis that mark an image, a row, and their ends."""


# -- Janus ---------------------------------------------------------------------------------------------------------
@towers("multi_modality")
def janus_published(outer: Config, text: Model) -> Iterator[Tower]:
    """Janus and Janus-Pro as published (arXiv:2410.13848, 2501.17811): SigLIP-L sees, LlamaGen's VQ-16 can draw."""
    v, a = section_of(outer, "vision_config").section("params"), section_of(outer, "aligner_config").section("params")
    named = v.text("model_name", "siglip_large_patch16_384")
    if named != "siglip_large_patch16_384":
        raise v.error("model_name", "siglip_large_patch16_384")
    c = Config(_SIGLIP_LARGE, v.path, v)
    part = with_idle_pool(c, square_vision(c, vit(c, default_act="gelu_pytorch_tanh")))
    out, deep = a.size("n_embed", text.hidden), a.size("depth", 2)
    block = projection("projector", (a.size("input_dim", part.width), *[out] * deep))
    yield from beside((part, fixed(block, part.positions or 1)))
    g, h, q = (section_of(outer, f"gen_{name}_config").section("params") for name in ("aligner", "head", "vision"))
    k = CodeBook((128, 128, 256, 256, 512), 2, 256, 3, q.size("image_token_size", 16384), q.size("n_embed", 8))
    latents, last = Sides(1, 24, 24), frozenset({4})
    seen, _ = book_encoder(k, latents.doubled(16), last)
    wide, own = g.size("n_embed", text.hidden), h.size("image_token_embed", text.hidden)
    drawn = (
        *seen, quantizer(k, 1), *book_decoder(k, latents, last, 3),
        Block("words", (unapplied("generation_embeddings", k.width, k.words),)),
        projection("aligner", (k.width, *[wide] * g.size("depth", 2))),
        Block("head", (product("generation_head", h.size("n_embed"), own), product("words_head", own, k.words))),
    )  # fmt: skip
    yield from streamed((TowerStage("image_writer", wide, tuple(idle_blocks(drawn))),), IMAGES)


_SIGLIP_LARGE: Mapping[str, JsonValue] = {
    "hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24, "intermediate_size": 4096,
    "patch_size": 16, "image_size": 384, "model_type": "siglip_vision_model",
}  # fmt: skip


# -- XComposer 2, Phi-4-multimodal, Keye ------------------------------------------------------------------------------
@towers("internlmxcomposer2")
def xcomposer2_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """InternLM-XComposer 2-4KHD and 2.5 (arXiv:2404.06512): CLIP-L over tiles, four neighbours in two products."""
    c = Config(CLIP_L, "vit", outer)
    part = square_vision(c, vit(c, default_act="quick_gelu"), bias=False, before=layer_norm, token=True, last=())
    block = projection("projector", (4 * part.width, text.hidden, text.hidden))
    left = ((part.positions or 1) - 1) // 4
    marks = unapplied("separators", 4 * part.width, 2)
    yield from beside((part, fixed(Block("projector", (*at(left, block.modules), marks)), left)))


@towers("locateanything")
def locate_anything(outer: Config, text: Model) -> Iterator[Tower]:
    """LocateAnything (NVIDIA, 2026): MoonViT, and two products over four neighbours."""
    c = section_of(outer, "vision_config")
    high, across = sides(c, "merge_kernel_size", 2)
    (vision,), four = kimi_k25_vision(c), high * across
    if outer.size("mlp_connector_layers", 2) != 2:
        raise outer.error("mlp_connector_layers", "2")
    outer.mark_read("mlp_checkpoint", "use_backbone_lora", "use_llm_lora")
    wide = four * vision.width
    norm = layer_norm("projector_norm", wide)
    block = projection("projector", (wide, text.hidden, text.hidden), norm=norm, split=four)
    yield from streamed((vision, TowerStage("projector", wide, (block,))), IMAGES)


@towers("phi4mm")
def phi4mm_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Phi-4-multimodal as published (arXiv:2503.01743): its towers under the keys of its own code."""
    outer.mark_read("embd_layer", "img_processor")
    size = outer.section("embd_layer").section("image_embd_layer").size("crop_size", 448)
    c = Config({**SIGLIP, "image_size": size}, "img_processor", outer)
    (part,), width = siglip_vision(c), 1152
    block = projection("projector", (width, text.hidden, text.hidden))
    projector = Block("projector", (unapplied("separators", width, 2), *at((part.positions or 4) // 4, block.modules)))
    yield from beside((part, TowerStage("projector", width, (projector,))))
    a = outer.section("audio_processor").section("config")
    bias = a.section("relative_attention_bias_args").size("t5_bias_max_distance", 500)
    named = {
        "hidden_size": a.size("attention_dim", 1024), "num_attention_heads": a.size("attention_heads", 16),
        "intermediate_size": a.size("linear_units", 1536), "num_blocks": a.size("num_blocks", 24),
        "input_size": a.size("input_size", 80), "bias_max_distance": bias,
        "time_reduction": a.size("time_reduction", 8),
        "kernel_size": a.size("kernel_size", 3), "ext_pw_out_channel": a.size("ext_pw_out_channel", 1024),
        "nemo_conv_channels": a.section("nemo_conv_settings").size("conv_channels", 1024),
    }  # fmt: skip
    (heard,) = phi4_audio(Config(named, "audio_processor", outer))
    stored = Block("statistics", (unapplied("statistics", 80, 2),))
    sizes = (heard.width, text.hidden, text.hidden)
    own = at(heard.positions or 1, projection("projector", sizes).modules)
    other = tuple(replace(m, idle=True) for m in projection("beside_images", sizes).modules)
    last = TowerStage("projector", text.hidden, (Block("projector", (*own, *other)),))
    yield from streamed((replace(heard, blocks=(stored, *heard.blocks)), last), SOUND)


@towers("Keye", "KeyeVL1_5")
def keye_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Keye-VL (arXiv:2507.01949): SigLIP's layers, rotary, at any resolution, and a projector of neighbours."""
    c = section_of(outer, "vision_config")
    v, four = replace(vit(c, default_act="gelu_pytorch_tanh"), rotary=True), c.size("spatial_merge_size", 2) ** 2
    rows = (c.size("image_size", 384) // c.size("patch_size", 14)) ** 2
    front = patches(c, v.width, after=(position_rows(v.width, rows),))
    vision = TowerStage("vision", v.width, (front, *v.blocks, Block("norm", (layer_norm("final_norm", v.width),))))
    wide = four * v.width
    norm = layer_norm("projector_norm", v.width)
    block = projection("projector", (wide, wide, text.hidden), norm=norm, split=four)
    yield from streamed((published_siglip(c, vision), TowerStage("projector", wide, (block,))), IMAGES)


# -- Ultravox ------------------------------------------------------------------------------------------------------
@towers("ultravox")
def ultravox_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Ultravox (Fixie, 2024): Whisper's encoder, positions side by side, and a gated network between norms."""
    c, stack = section_of(outer, "audio_config"), outer.size("stack_factor", 8)
    c = c.with_values(model_type="whisper")
    e = ear(c)
    places = Block("positions", (position_rows(e.d.width, c.size("max_source_positions", 1500)),))
    ffn = mlp(e.d.width, e.inner, e.act, gated=False, bias=True)
    block = layer("dense", e.d.width, attention_of_whisper(e.d, causal=False), ffn, norm=layer_norm)
    part = TowerStage("audio", e.d.width, (
        halving(e), places, *[block] * e.d.layers, Block("norm", (layer_norm("final_norm", e.d.width),)),
    ), e.positions)  # fmt: skip
    wide, middle = stack * part.width, outer.size("hidden_size", 4096)
    act, gated = outer.text("projector_act", "swiglu"), outer.text("projector_act", "swiglu") == "swiglu"
    half = middle // 2 if gated else middle
    early = outer.flag("projector_ln_mid", False)
    modules: Modules = (
        rms("projector_norm", wide), Linear(name="linear_1", inputs=wide, outputs=middle, gated=gated),
        Activation(name="act", width=half, function="silu" if gated else act, gated=gated),
        *((rms("mid_norm", half),) if early else ()),
        Linear(name="linear_2", inputs=half, outputs=text.hidden), *(() if early else (rms("post_norm", text.hidden),)),
    )  # fmt: skip
    outer.mark_read("audio_model_id", "text_model_id", "norm_init", "audio_latency_block_size", "ignore_index")
    count = -(-(part.positions or 1) // stack)
    activation(c, "activation_function", "gelu")
    yield from streamed((part, fixed(Block("projector", modules), count)), SOUND)
