"""Decoders of text that attend to what an encoder of images made: TrOCR and its kin, PP-FormulaNet, BLIP."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.declared.errors import InputError
from roofline.model.checkpoints.quantization.methods import stored_precision
from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention, cross_attention
from roofline.model.families.blocks.encoders import at, tower
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.images.convolutions import chain, conv
from roofline.model.families.blocks.images.sight import (
    Map,
    Sight,
    image_model,
    over,
    patched,
    plain_mlp,
    read_part,
    refused_head,
    sees_all,
    vision_dims,
    vision_layer,
)
from roofline.model.families.blocks.layers import layer, position_table
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.image_text.clip import bert_words, contrastive_model, shared_projection
from roofline.model.families.registry import WHOLES, complete
from roofline.model.families.vision.maps.sam import sam_sight
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Add, Embedding, Linear, Modules

SEEING = (
    "vit", "deit", "beit", "swin", "swinv2", "donut-swin", "dinov2", "dinov2_with_registers", "convnext", "resnet",
    "clip_vision_model", "siglip_vision_model", "pvt", "segformer", "vit_msn", "ijepa",
)  # fmt: skip
"""Encoders that a decoder may stand behind."""


def writes(
    c: Config, d: Dims, blocks: Iterable[Block], *, tables: Modules, head: Modules, vocab: int, towers: Iterable[Tower],
    context: int | None,
) -> Model:  # fmt: skip
    """A decoder of text beside the towers that it attends to."""
    return Model(
        name=c.text("_name_or_path", "") or c.text("model_type"), model_type=c.text("model_type"), vocab=vocab,
        hidden=d.width, embedding=tables, layers=tuple(blocks), head=head, precision=stored_precision(c),
        context=context, towers=tuple(towers), steps=("encode", "prefill", "decode"),
    )  # fmt: skip


def attends(d: Dims, ffn: Modules, source: int, fixed: int | None, *, stream: str, before: bool = False) -> Block:
    """A decoder's layer: its own tokens, the encoder's output, a feed-forward network."""
    own = layer("decoder", d.width, attention(d, rotary=0, bias=True), norm=layer_norm, before=before, after=not before)
    cross = (
        *cross_attention(d, bias=True, source=source, fixed=fixed, stream=stream),
        Add(name="cross_residual", width=d.width),
    )
    norm = (layer_norm("cross_norm", d.width),)
    looks = (*(norm if before else ()), *cross, *(() if before else norm))
    rest = layer("decoder", d.width, (), ffn, norm=layer_norm, before=before, after=not before)
    return Block("decoder", (*own.modules, *looks, *rest.modules))


def word_head(width: int, vocab: int, act: str, tied: bool) -> Modules:
    """BERT's head of words: a product, a norm, and the embedding with a bias."""
    return (
        Linear(name="head_proj", inputs=width, outputs=width, bias=True, part="head"),
        Activation(name="head_act", width=width, function=act, gated=False),
        layer_norm("head_norm", width),
        Linear(name="lm_head", inputs=width, outputs=vocab, bias=True, part="head", tied=tied, cut="columns"),
    )


@complete("vision-encoder-decoder")
def vision_encoder_decoder(c: Config) -> Model:
    """An encoder of images and a decoder of text: TrOCR (arXiv:2109.10282), Donut (arXiv:2111.15664), captions."""
    e, d = read_part(c, "encoder"), read_part(c, "decoder")
    if e.kind not in SEEING:
        raise InputError(e.field("model_type"), e.kind, f"an encoder of images that is covered: {', '.join(SEEING)}")
    seeing = WHOLES[e.kind](e.with_values(architectures=None))
    positions = seeing.positions or 1
    blocks = [
        Block("front", seeing.embedding),
        *seeing.layers,
        *([Block("pooler", seeing.head)] if seeing.head else ()),
    ]
    make = {"bert": _bert_decoder, "trocr": _trocr_decoder, "mbart": _mbart_decoder}.get(d.kind)
    if make is None:
        raise InputError(d.field("model_type"), d.kind, "a decoder that is covered: bert, trocr, mbart")
    width = d.size("hidden_size|d_model")
    wide = seeing.hidden
    projected = wide != width and d.get("cross_attention_hidden_size") is None
    if projected:
        product = Linear(name="to_decoder", inputs=wide, outputs=width, bias=True, part="other", positions=positions)
        blocks.append(Block("projection", (product,)))
    encoder = tower("encoder", "source", wide, blocks, positions, quantised=True)
    c.mark_read("is_encoder_decoder", "tie_word_embeddings")
    source = d.size("cross_attention_hidden_size", width) if d.get("cross_attention_hidden_size") else width
    return make(c, d, encoder, source)


def _bert_decoder(c: Config, d: Config, encoder: Tower, source: int) -> Model:
    words, sizes = bert_words(d), vision_dims(d)
    act, tied = activation(d, default="gelu"), d.flag("tie_word_embeddings", True)
    block = attends(sizes, plain_mlp(d, sizes.width, act), source, encoder.positions or 1, stream="source")
    table, *rest = words.tables
    assert isinstance(table, Embedding)
    tables = (replace(table, shared=tied), *rest)
    head = word_head(sizes.width, words.vocab, act, tied)
    return writes(
        c,
        sizes,
        [block] * sizes.layers,
        tables=tables,
        head=head,
        vocab=words.vocab,
        towers=[encoder],
        context=words.context,
    )


def _bart_sizes(d: Config) -> Dims:
    width, heads = d.size("d_model|hidden_size"), d.size("decoder_attention_heads")
    return Dims(d.size("decoder_layers", most=MOST_LAYERS), width, heads, heads, width // heads)


def bart_decoder(c: Config, d: Config, encoder: Tower, source: int, *, before: bool, table: bool, norm: bool) -> Model:
    """BART's decoder: two rows of the position table that no position uses."""
    sizes, vocab = _bart_sizes(d), d.size("vocab_size", most=2**28)
    act, tied = activation(d, "activation_function", "gelu"), d.flag("tie_word_embeddings", True)
    ffn = mlp(sizes.width, d.size("decoder_ffn_dim"), act, gated=False, bias=True)
    block = attends(sizes, ffn, source, encoder.positions, stream="source", before=before)
    tables: Modules = (
        Embedding(name="embedding", rows=vocab, width=sizes.width, shared=tied),
        *((position_table(d, sizes.width, 2),) if table else ()),
        *((layer_norm("embedding_norm", sizes.width),) if norm else ()),
    )
    head = (
        *((layer_norm("final_norm", sizes.width),) if before else ()),
        Linear(name="lm_head", inputs=sizes.width, outputs=vocab, part="head", tied=tied, cut="columns"),
    )
    return writes(
        c, sizes, [block] * sizes.layers, tables=tables, head=head, vocab=vocab, towers=[encoder],
        context=d.size("max_position_embeddings"),
    )  # fmt: skip


def _trocr_decoder(c: Config, d: Config, encoder: Tower, source: int) -> Model:
    learned, norm = d.flag("use_learned_position_embeddings", True), d.flag("layernorm_embedding", True)
    return bart_decoder(c, d, encoder, source, before=False, table=learned, norm=norm)


def _mbart_decoder(c: Config, d: Config, encoder: Tower, source: int) -> Model:
    return bart_decoder(c, d, encoder, source, before=True, table=True, norm=True)


@complete("pp_formulanet")
def pp_formulanet(c: Config) -> Model:
    """PP-FormulaNet (arXiv:2503.18382): SAM's images in a quarter of the rows and columns, read by mBART's decoder."""
    seen, said = read_part(c, "vision_config"), read_part(c, "text_config")
    sight, inner = sam_sight(seen), seen.size("post_conv_out_channels", 1024)
    source = seen.size("decoder_hidden_size", 512)
    mid = conv("shrink1", seen.size("post_conv_mid_channels", 512), 3, 2, norm=None)
    shrunk, x = chain(Map(sight.width, sight.rows, sight.columns), mid, conv("shrink2", inner, 3, 2, norm=None))
    last = at(x.positions, (dense("linear1", inner, inner), dense("linear2", inner, source)))
    seen.mark_read("post_conv_in_channels")
    said.mark_read("encoder_layers", "encoder_attention_heads")
    c.mark_read("is_encoder_decoder", "tie_word_embeddings")
    blocks = [*sight.every, Block("projector", (*shrunk, *last))]
    encoder = tower("encoder", "source", source, blocks, x.positions, quantised=True)
    return bart_decoder(c, said, encoder, source, before=True, table=True, norm=True)


# -- BLIP ----------------------------------------------------------------------------------------------------------
def blip_sight(c: Config) -> Sight:
    """BLIP's images: a vision transformer with a norm of all positions, and again of the class token."""
    d = vision_dims(c)
    block = vision_layer(d.width, sees_all(d), plain_mlp(c, d.width, activation(c, default="gelu")))
    return patched(c, d, block, after=(layer_norm("final_norm", d.width),))


@complete("blip")
def blip(c: Config) -> Model:
    """BLIP (arXiv:2201.12086): captions, by BERT's decoder that attends to all patches; or images beside text."""
    text, vision = read_part(c, "text_config"), read_part(c, "vision_config")
    sight, name = blip_sight(vision), c.architecture
    words = bert_words(text.with_values(type_vocab_size=1), 1)
    words = replace(words, tables=tuple(m for m in words.tables if m.name != "type_embedding"))
    c.mark_read("image_text_hidden_size", "label_smoothing", "tie_word_embeddings", "projection_dim")
    d, act = vision_dims(text), activation(text, default="gelu")
    ffn, source = plain_mlp(text, d.width, act), text.size("encoder_hidden_size", sight.width)
    block = attends(d, ffn, source, sight.positions, stream="images")
    if name.endswith("ForConditionalGeneration") or not name:
        seeing = tower("vision", "images", sight.width, sight.every, sight.positions, quantised=True)
        table, *rest = words.tables
        assert isinstance(table, Embedding)
        return writes(
            c, d, [block] * d.layers, tables=(replace(table, shared=True), *rest),
            head=word_head(d.width, words.vocab, act, True), vocab=words.vocab, towers=[seeing], context=words.context,
        )  # fmt: skip
    if not name.endswith("BlipModel"):
        raise refused_head(c, "BlipModel", "ForConditionalGeneration")
    size = c.size("projection_dim", 512)
    idle = tuple(replace(m, idle=True) for m in block.modules if "cross" in m.name)
    plain = tuple(m for m in block.modules if "cross" not in m.name)
    stack = tuple(Block("dense", (*plain, *(replace(m, stream="") for m in idle))) for _ in range(d.layers))
    pool = over(1, Block("", (
        Linear(name="pooler", inputs=d.width, outputs=d.width, bias=True, part="other"),
        Activation(name="pooler_act", width=d.width, function="tanh", gated=False),
    )))  # fmt: skip
    return contrastive_model(
        c,
        replace(words, layers=stack, last=pool.modules),
        sight,
        text=(shared_projection("text_projection", d.width, size),),
        image=(shared_projection("visual_projection", sight.width, size),),
    )


@complete("blip_vision_model")
def blip_vision_model(c: Config) -> Model:
    """The images of BLIP."""
    return image_model(c, blip_sight(c))
