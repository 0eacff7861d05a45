"""T5Gemma: an encoder and a decoder of Gemma 2's layers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, cross_attention, layer_windows, rope_section, windowed
from roofline.model.families.blocks.encoders import at_one
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer, stack
from roofline.model.families.blocks.norms import rms
from roofline.model.families.blocks.seq2seq import encoder_decoder
from roofline.model.families.blocks.sizes import dims
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.registry import complete
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Embedding, Modules


@complete("t5gemma")
def t5gemma(c: Config) -> Model:
    """T5Gemma (arXiv:2504.06225): norms before and after sublayers; every second layer sees a window."""
    e, d = (c.section(name).of_kind("t5_gemma_module") for name in ("encoder", "decoder"))
    read, written, rows = (
        dims(e, head_dim=256),
        dims(d, head_dim=256),
        c.size("vocab_size", e.size("vocab_size", 256_000)),
    )
    mixers = [
        windowed(
            _windows(part, sizes.layers),
            partial(attention, sizes, rotary=sizes.head_dim, bias=part.flag("attention_bias"), causal=causal),
        )
        for part, sizes, causal in ((e, read, False), (d, written, True))
    ]
    ffns = [
        mlp(
            part.size("hidden_size"),
            part.size("intermediate_size"),
            activation(part, "hidden_activation", "gelu_pytorch_tanh"),
        )
        for part in (e, d)
    ]
    blocks = stack(read.width, mixers[0], ffns[0], after=True)
    cross = cross_attention(written, bias=d.flag("attention_bias"), source=read.width)
    said = [
        _attending(
            layer(name or "dense", written.width, mixer, after=True),
            cross,
            layer("dense", written.width, (), ffns[1], after=True),
            written.width,
        )
        for name, mixer in mixers[1]
    ]
    words = Embedding(name="source_embedding", rows=rows, width=read.width)
    for part in (e, d):
        rope_section(part)
        part.mark_read(*_UNUSED)
    c.mark_read(*_UNUSED)
    c.note(*e.leftovers(), *d.leftovers())
    c = c.with_values(vocab_size=rows)
    last = Block("last", (rms("final_norm", read.width),))
    return classifying(c, encoder_decoder(c, written.width, [*blocks, last], said, norm=rms, source=words))


def classifying(c: Config, model: Model) -> Model:
    """The model with scores of classes in place of words, where `architectures` names a classifier."""
    if not c.architecture.endswith(("ForSequenceClassification", "ForTokenClassification")):
        return model
    scores = (dense("classifier", model.hidden, label_count(c)),)
    kept = tuple(m for m in model.head if m.name == "final_norm")
    return replace(model, head=(*kept, *(at_one(scores) if "Sequence" in c.architecture else scores)))


def _windows(c: Config, layers: int) -> list[int | None]:
    """The window of each layer, where it has one."""
    return layer_windows(c, layers, lambda i: i % 2 == 0)


def _attending(before: Block, cross: Modules, behind: Block, width: int) -> Block:
    """A layer of the decoder: attention, attention to the encoder's output, a feed-forward network."""
    middle = (rms("cross_norm", width), *cross, rms("cross_post_norm", width), Add(name="cross_residual", width=width))
    return Block(before.name, (*before.modules, *middle, *behind.modules))


_UNUSED = """
    model_type is_encoder_decoder is_decoder vocab_size max_position_embeddings query_pre_attn_scalar dropout_rate
    final_logit_softcapping attn_logit_softcapping classifier_dropout_rate cross_attention_hidden_size use_cache
    tie_word_embeddings hidden_activation classifier_dropout
""".split()
