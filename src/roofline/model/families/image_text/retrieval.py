"""Models that compare text and images by vectors: ColPali and its kin by one of each token, two encoders by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at_one, patch_embedding, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.sight import read_part
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.families.image_text.clip import shared_projection
from roofline.model.families.registry import FAMILIES, WHOLES, complete
from roofline.model.families.speech.musicgen import as_tower
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Embedding, Learned, Linear


def _compares(c: Config, kind: str, text: str, towers: Callable[[Config, Model], list[Tower]]) -> Model:
    """A model of images and text of type `kind`, whose language model is of type `text`, with vectors as its output."""
    c.mark_read("model_type", "vlm_config")
    whole = c.section("vlm_config").of_kind(kind)
    inner = whole.section("text_config").of_kind(text)
    inner.mark_read("num_image_tokens", "use_bidirectional_attention")
    if text in WHOLES:
        model = WHOLES[text](inner.with_values(architectures=["ModernBertModel"]))
    else:
        model = FAMILIES[text](inner)
    words = model.embedding[0]
    assert isinstance(words, Embedding)
    head = tuple(m for m in model.head if m.name != "lm_head")
    c.note(*inner.leftovers())
    return replace(
        model, name=c.text("_name_or_path", "") or c.text("model_type"), model_type=c.text("model_type"),
        embedding=(replace(words, shared=False), *model.embedding[1:]), steps=("encode",),
        head=(*head, dense("vectors", model.hidden, c.size("embedding_dim", 128))), towers=tuple(towers(whole, model)),
    )  # fmt: skip


def _siglip(*, join: int = 1, bias: bool) -> Callable[[Config, Model], list[Tower]]:
    """SigLIP's vision model, and a product of `join` patches at a time to the width of the text."""

    def towers_of(whole: Config, text: Model) -> list[Tower]:
        seen = whole.section("vision_config").of_kind("siglip_vision_model")
        vision = WHOLES["siglip_vision_model"](seen)
        proj = dense("projector", vision.hidden * join, text.hidden, bias=bias)
        places = vision.positions // join if vision.positions else None
        beside = tower("projector", "images", text.hidden, [Block("projector", (replace(proj, positions=places),))])
        return [as_tower("vision", "images", vision), replace(beside, positions=vision.positions)]

    return towers_of


@complete("colpali")
def colpali(c: Config) -> Model:
    """ColPali (arXiv:2407.01449): PaliGemma."""
    return _compares(c, "paligemma", "gemma", _siglip(bias=True))


@complete("colmodernvbert")
def colmodernvbert(c: Config) -> Model:
    """ColModernVBERT (arXiv:2510.01149): ModernBERT and SigLIP, whose patches are joined in squares."""
    side = c.section("vlm_config").size("pixel_shuffle_factor", 4)
    return _compares(c, "modernvbert", "modernbert", _siglip(join=side * side, bias=False))


@complete("colqwen2")
def colqwen2(c: Config) -> Model:
    """ColQwen2 (arXiv:2407.01449): Qwen2-VL."""
    return _compares(c, "qwen2_vl", "qwen2", _qwen2_vl)


def _qwen2_vl(whole: Config, text: Model) -> list[Tower]:
    """Qwen2-VL's vision tower (arXiv:2409.12191): LayerNorm, rotary positions, four patches merged to a token."""
    c = whole.section("vision_config")
    width, heads, layers = c.size("embed_dim", 1280), c.size("num_heads", 16), c.size("depth", 32, most=MOST_LAYERS)
    patch, merge = c.size("patch_size", 14), c.size("spatial_merge_size", 2)
    pixels = c.size("in_channels", 3) * c.size("temporal_patch_size", 2)
    d = Dims(layers, width, heads, heads, width // heads)
    ffn = mlp(
        width, int(width * c.number("mlp_ratio", 4.0)), activation(c, default="quick_gelu"), gated=False, bias=True
    )  # fmt: skip
    mixer = attention(d, rotary=d.head_dim, bias=True, causal=False)
    front = Block("patches", (patch_embedding("patch_embedding", pixels, patch * patch, width, bias=False),))
    four = merge * merge * width
    inside = (*acted("merger_up", four, four, "gelu"), dense("merger_down", four, c.size("hidden_size", text.hidden)))
    merger = Block("merger", (layer_norm("merger_norm", width), *(replace(m, split=merge * merge) for m in inside)))
    blocks = [front, *[layer("full", width, mixer, ffn, norm=layer_norm)] * layers]
    return [tower("vision", "images", width, blocks), tower("projector", "images", width, [merger])]


@complete("vision-text-dual-encoder")
def vision_text_dual_encoder(c: Config) -> Model:
    """An encoder of images and one of text, each with a product to a vector of both (LiT, arXiv:2111.07991)."""
    c.mark_read("logit_scale_init_value")
    parts = [read_part(c, key) for key in ("text_config", "vision_config")]
    for part in parts:
        if part.kind not in WHOLES:
            raise part.error("model_type", "an encoder that is known", tuple(WHOLES))
    words, seen = (
        WHOLES[part.kind](part.with_values(architectures=list(part.defaults.bases) or None)) for part in parts
    )
    c.note(*parts[0].leftovers(), *parts[1].leftovers())
    size = c.size("projection_dim", 512)
    logits = Linear(name="logits", inputs=size, outputs=1, tied=True, part="other", stream="images", positions=1)
    own = at_one((shared_projection("text_projection", words.hidden, size),))
    vision = as_tower("vision", "images", seen)
    image = Block("projection", at_one((shared_projection("visual_projection", seen.hidden, size),)))
    beside = tower("vision", "images", seen.hidden, [*vision.layers, image], seen.positions, quantised=True)
    head = (*words.head, *own, Learned(name="logit_scale", width=1, applied=False), logits)
    return replace(
        words, name=c.text("_name_or_path", "") or c.text("model_type"), model_type=c.text("model_type"), head=head,
        towers=(beside,),
    )  # fmt: skip
