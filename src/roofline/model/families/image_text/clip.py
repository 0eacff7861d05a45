"""Models that compare images with text: CLIP and its kin, SigLIP, ALIGN, AltCLIP, Chinese-CLIP."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at_one, encoder, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.sight import (
    Sight,
    TokensBeside,
    classifier,
    image_model,
    looks_at,
    over,
    patched,
    plain_mlp,
    pooler,
    read_part,
    refused_head,
    sees_all,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.layers import layer, position_table
from roofline.model.families.blocks.norms import layer_norm, rms
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.registry import complete
from roofline.model.families.vision.convnets import efficientnet_sight
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Embedding, Learned, Linear, Modules

CLASSIFIES = "ForImageClassification"


@dataclass(frozen=True)
class TextPart:
    """The text part of a model of images and text: tables, layers, what comes behind them."""

    width: int
    vocab: int
    context: int
    tables: Modules
    layers: tuple[Block, ...]
    last: Modules = ()


# -- text ----------------------------------------------------------------------------------------------------------
def clip_words(c: Config, act: str = "quick_gelu") -> TextPart:
    """CLIP's text (arXiv:2103.00020): a vision transformer's layers over words; SigLIP's behind a product."""
    d, vocab = vision_dims(c), c.size("vocab_size", most=2**28)
    block = vision_layer(d.width, sees_all(d), plain_mlp(c, d.width, activation(c, default=act)))
    tables = (Embedding(name="embedding", rows=vocab, width=d.width), position_table(c, d.width))
    last: Modules = (layer_norm("final_norm", d.width),)
    if c.kind.startswith("siglip"):
        outputs = c.size("projection_size", d.width)
        last += at_one((Linear(name="text_head", inputs=d.width, outputs=outputs, bias=True, part="other"),))
    return TextPart(d.width, vocab, c.size("max_position_embeddings"), tables, (block,) * d.layers, last)


def bert_words(c: Config, types: int = 2) -> TextPart:
    """BERT's layers: norms behind sublayers, segments; the text of ALIGN, AltCLIP and Chinese-CLIP."""
    d, vocab = vision_dims(c), c.size("vocab_size", most=2**28)
    ffn = plain_mlp(c, d.width, activation(c, default="gelu"))
    block = layer("dense", d.width, sees_all(d), ffn, norm=layer_norm, before=False, after=True)
    tables = (
        Embedding(name="embedding", rows=vocab, width=d.width),
        Embedding(name="type_embedding", rows=c.size("type_vocab_size", types), width=d.width),
        position_table(c, d.width),
        layer_norm("embedding_norm", d.width),
    )
    return TextPart(d.width, vocab, c.size("max_position_embeddings"), tables, (block,) * d.layers)


# -- images --------------------------------------------------------------------------------------------------------
def clip_sight(c: Config, act: str = "quick_gelu") -> Sight:
    """CLIP's images: a norm in front of the layers, and one of the class token behind them."""
    d = vision_dims(c)
    block = vision_layer(d.width, sees_all(d), plain_mlp(c, d.width, activation(c, default=act)))
    sight = patched(c, d, block, TokensBeside(bias=False), before=(layer_norm("pre_norm", d.width),))
    return replace(sight, blocks=(*sight.blocks, Block("norm", at_one((layer_norm("post_norm", d.width),)))))


def siglip_sight(c: Config) -> Sight:
    """SigLIP's images (arXiv:2303.15343): no class token; a learned query attends to all patches."""
    d, act = vision_dims(c), activation(c, default="gelu_pytorch_tanh")
    ffn = plain_mlp(c, d.width, act)
    block = vision_layer(d.width, sees_all(d), ffn)
    if c.kind == "siglip2_vision_model":
        sight = _given_patches(c, d, block)
    else:
        sight = patched(c, d, block, TokensBeside(classes=0), after=(layer_norm("final_norm", d.width),))
    if not c.flag("vision_use_head", True):
        return sight
    head = over(1, Block("pooled", (
        Learned(name="query", width=d.width, applied=False), *looks_at(d, sight.patches),
        layer_norm("ffn_norm", d.width), *ffn, Add(name="ffn_residual", width=d.width),
    )))  # fmt: skip
    return replace(sight, blocks=(*sight.blocks, head))


def _given_patches(c: Config, d: Dims, block: Block) -> Sight:
    """SigLIP 2 (arXiv:2502.14786): patches of an image of any shape, with a table of positions to resample."""
    rows, patch = c.size("num_patches", 256), c.size("patch_size", 16)
    n = c.inputs.patches or rows
    front = over(n, Block("front", (
        Linear(
            name="patch_embedding", inputs=c.size("num_channels", 3) * patch * patch, outputs=d.width, bias=True,
            part="other",
        ),
        Learned(name="position_embedding", width=d.width, rows=rows),
    )))  # fmt: skip
    last = Block("norm", (layer_norm("final_norm", d.width),))
    return Sight(front.modules, (*[over(n, block)] * d.layers, over(n, last)), d.width, n, 1)


# -- both ----------------------------------------------------------------------------------------------------------
def contrastive_model(
    c: Config, words: TextPart, sight: Sight, *, text: Modules = (), image: Modules = (), scalars: int = 1
) -> Model:
    """A text model beside a tower of images; `text` and `image` project both to vectors that are compared."""
    width = next((m.outputs for m in reversed(text) if isinstance(m, Linear)), words.width)
    joint = Linear(
        name="logits", inputs=width, outputs=1, tied=True, part="other", stream="images", positions=1
    )  # fmt: skip
    head = (*words.last, *at_one(text), Learned(name="logit_scale", width=scalars, applied=False), joint)
    blocks = [*sight.every, *([Block("projection", at_one(image))] if image else ())]
    model = encoder(c, words.width, words.layers, embedding=words.tables, head=head, vocab=words.vocab)
    seeing = tower("vision", "images", sight.width, blocks, sight.positions, quantised=True)
    return replace(model, towers=(seeing,), context=words.context)


def text_model(c: Config, words: TextPart, head: Modules = ()) -> Model:
    """The text part on its own."""
    model = encoder(c, words.width, words.layers, embedding=words.tables, head=(*words.last, *head), vocab=words.vocab)
    return replace(model, context=words.context)


def shared_projection(name: str, inputs: int, outputs: int, bias: bool = False) -> Linear:
    """A product that puts a vector in the space where images and text are compared."""
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias, part="other")


def _task(c: Config, *others: str) -> str:
    """What the class that `architectures` names does beside comparing: "" for the model itself."""
    name = c.architecture
    task = next((task for task in others if name.endswith(task)), "")
    if not task and name and not name.endswith("Model"):
        raise refused_head(c, *c.defaults.bases, *others)
    return task


@complete("clip", "metaclip_2")
def clip(c: Config) -> Model:
    """CLIP (arXiv:2103.00020) and MetaCLIP 2 (arXiv:2507.22062)."""
    text, vision = read_part(c, "text_config"), read_part(c, "vision_config")
    sight, size = clip_sight(vision), c.size("projection_dim", 512)
    if _task(c, CLASSIFIES):
        return image_model(c, sight, classifier(c, sight.width))
    words = clip_words(text)
    return contrastive_model(
        c, words, sight, text=(shared_projection("text_projection", words.width, size),),
        image=(shared_projection("visual_projection", sight.width, size),),
    )  # fmt: skip


@complete("siglip", "siglip2")
def siglip(c: Config) -> Model:
    """SigLIP (arXiv:2303.15343) and SigLIP 2 (arXiv:2502.14786)."""
    text, vision = read_part(c, "text_config"), read_part(c, "vision_config")
    sight = siglip_sight(vision)
    if _task(c, CLASSIFIES):
        return image_model(c, sight, classifier(c, sight.width))
    return contrastive_model(c, clip_words(text, "gelu_pytorch_tanh"), sight, scalars=2)


@complete("align")
def align(c: Config) -> Model:
    """ALIGN (arXiv:2102.05918): BERT and EfficientNet."""
    words = bert_words(read_part(c, "text_config"))
    words = replace(words, last=pooler(words.width))
    sight = efficientnet_sight(read_part(c, "vision_config"), top=False)
    _task(c)
    c.mark_read("temperature_init_value")
    return contrastive_model(
        c, words, sight, text=(shared_projection("text_projection", words.width, c.size("projection_dim", 640), True),)
    )


@complete("altclip")
def altclip(c: Config) -> Model:
    """AltCLIP (arXiv:2211.06679): XLM-RoBERTa's text."""
    words, size = altclip_words(read_part(c, "text_config")), c.size("projection_dim", 768)
    sight, between = clip_sight(read_part(c, "vision_config")), _outputs(words.last)
    _task(c)
    return contrastive_model(
        c, words, sight, text=(shared_projection("text_projection", between, size),),
        image=(shared_projection("visual_projection", sight.width, size),),
    )  # fmt: skip


def altclip_words(c: Config) -> TextPart:
    """AltCLIP's text: a norm and a product of every position behind the layers."""
    words, between = bert_words(c, 1), c.size("project_dim", 768)
    last = (layer_norm("last_norm", words.width), shared_projection("transformation", words.width, between, True))
    return replace(words, last=last)


def _outputs(modules: Modules) -> int:
    return next(m.outputs for m in reversed(modules) if isinstance(m, Linear))


@complete("chinese_clip")
def chinese_clip(c: Config) -> Model:
    """Chinese CLIP (arXiv:2211.01335): BERT's text."""
    words, size = bert_words(read_part(c, "text_config")), c.size("projection_dim", 512)
    sight = clip_sight(read_part(c, "vision_config"))
    _task(c)
    return contrastive_model(
        c, words, sight, text=(shared_projection("text_projection", words.width, size),),
        image=(shared_projection("visual_projection", sight.width, size),),
    )  # fmt: skip


# -- parts on their own --------------------------------------------------------------------------------------------
@complete(
    "clip_text_model", "metaclip_2_text_model", "siglip_text_model", "siglip2_text_model", "clipseg_text_model",
    "owlvit_text_model", "owlv2_text_model",
)  # fmt: skip
def clip_text_model(c: Config) -> Model:
    """The text of CLIP and SigLIP."""
    words = clip_words(c, "gelu_pytorch_tanh" if c.kind.startswith("siglip") else "quick_gelu")
    projected = (shared_projection("text_projection", words.width, c.size("projection_dim", 512)),)
    return text_model(c, words, at_one(projected) if c.architecture.endswith("WithProjection") else ())


@complete("align_text_model", "altclip_text_model", "chinese_clip_text_model")
def bert_text_model(c: Config) -> Model:
    """The text of ALIGN, AltCLIP and Chinese-CLIP."""
    c.mark_read("project_dim", "pooler_fn", "initializer_factor", "hidden_act")
    words = altclip_words(c) if c.kind == "altclip_text_model" else bert_words(c)
    return text_model(c, words, () if c.kind == "altclip_text_model" else pooler(words.width))


@complete(
    "clip_vision_model", "metaclip_2_vision_model", "altclip_vision_model", "clipseg_vision_model",
    "chinese_clip_vision_model", "owlvit_vision_model", "owlv2_vision_model",
)  # fmt: skip
def clip_vision_model(c: Config) -> Model:
    """The images of CLIP."""
    sight = clip_sight(c)
    projected = (shared_projection("visual_projection", sight.width, c.size("projection_dim", 512)),)
    return image_model(c, sight, at_one(projected) if c.architecture.endswith("WithProjection") else ())


@complete("siglip_vision_model", "siglip2_vision_model")
def siglip_vision_model(c: Config) -> Model:
    """The images of SigLIP."""
    return image_model(c, siglip_sight(c))


@complete("align_vision_model")
def align_vision_model(c: Config) -> Model:
    """The images of ALIGN."""
    return image_model(c, efficientnet_sight(c, top=False))


# -- AIMv2 ---------------------------------------------------------------------------------------------------------
def _aimv2_layer(c: Config) -> tuple[Dims, Block]:
    d, bias = vision_dims(c), c.flag("qkv_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="silu"), bias=c.flag("mlp_bias"))
    return d, vision_layer(d.width, sees_all(d, (bias, bias, bias), out_bias=bias), ffn, norm=rms)


def aimv2_words(c: Config) -> TextPart:
    """AIMv2's text: gated networks and RMSNorm."""
    d, block = _aimv2_layer(c)
    vocab = c.size("vocab_size", most=2**28)
    tables = (Embedding(name="embedding", rows=vocab, width=d.width), position_table(c, d.width))
    last = (rms("final_norm", d.width),)
    return TextPart(d.width, vocab, c.size("max_position_embeddings"), tables, (block,) * d.layers, last)


def aimv2_sight(c: Config) -> Sight:
    """AIMv2's images (arXiv:2411.14402): no class token, yet one that attends to all patches behind the layers."""
    d, block = _aimv2_layer(c)
    table, bias = -1 if c.flag("is_native") else None, c.flag("qkv_bias")
    norm = (rms("patch_norm", d.width),)
    sight = patched(c, d, block, TokensBeside(classes=0, table=table), before=norm, after=(rms("final_norm", d.width),))
    if not c.flag("use_head", True):
        return sight
    asks = looks_at(d, sight.patches, bias=bias)[1:-1]
    out = Linear(name="pooled_proj", inputs=d.width, outputs=d.width, bias=True, part="other")
    token = Learned(name="pooled_token", width=d.width, applied=False)
    return replace(sight, blocks=(*sight.blocks, over(1, Block("pooled", (token, *asks, out)))))


@complete("aimv2")
def aimv2(c: Config) -> Model:
    """AIMv2 (arXiv:2411.14402) with text."""
    _task(c)
    words, sight = aimv2_words(read_part(c, "text_config")), aimv2_sight(read_part(c, "vision_config"))
    size = c.size("projection_dim", 512)
    c.mark_read("max_logit_scale")
    return contrastive_model(
        c, words, sight, text=(shared_projection("text_projection", words.width, size),),
        image=(shared_projection("visual_projection", sight.width, size),),
    )  # fmt: skip


@complete("aimv2_text_model")
def aimv2_text_model(c: Config) -> Model:
    """The text of AIMv2."""
    return text_model(c, aimv2_words(c))


@complete("aimv2_vision_model")
def aimv2_vision_model(c: Config) -> Model:
    """The images of AIMv2."""
    return image_model(c, aimv2_sight(c))
