"""Encoders of text: BERT and its kin."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at_one, encoder, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer, position_table
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.registry import complete
from roofline.model.model import Model
from roofline.model.modules import Activation, Linear, Modules


@complete("bert")
def bert(c: Config) -> Model:
    """BERT (arXiv:1810.04805): norms after sublayers, learned positions and segments."""
    c.mark_read("position_embedding_type", "classifier_dropout", "add_cross_attention", "is_decoder")
    d = dims(c, kv_key=HEADS)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    mixer = attention(d, rotary=0, bias=True, causal=False)
    block = layer("dense", d.width, mixer, ffn, norm=layer_norm, before=False, after=True)
    head, tied = bert_head(c, d.width)
    vocab, tables = word_embeddings(c, d.width, shared=tied)
    embedding = (*tables, position_table(c, d.width), layer_norm("embedding_norm", d.width))
    return encoder(c, d.width, [block] * d.layers, embedding=embedding, head=head, vocab=vocab)


def bert_head(c: Config, width: int) -> tuple[Modules, bool]:
    """The head that `architectures` names, and whether it shares the embedding: a pooler, or that of masked words."""
    name = c.architecture
    if name.endswith("ForMaskedLM"):
        vocab, shared = c.size("vocab_size", most=2**28), c.flag("tie_word_embeddings", True)
        act = activation(c, default="gelu")
        return (
            Linear(name="head_proj", inputs=width, outputs=width, bias=True, part="head"),
            Activation(name="head_act", width=width, function=act, gated=False),
            layer_norm("head_norm", width),
            Linear(name="lm_head", inputs=width, outputs=vocab, bias=True, part="head", tied=shared, cut="columns"),
        ), shared
    return at_one((
        Linear(name="pooler", inputs=width, outputs=width, bias=True, part="other"),
        Activation(name="pooler_act", width=width, function="tanh", gated=False),
    )), False  # fmt: skip
