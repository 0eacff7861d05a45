"""Encoders of text with rotary positions: NomicBERT, GTE, Jina v3, EuroBERT, ESM."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rope_section, windowed
from roofline.model.families.blocks.encoders import at_one, encoder, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer, position_table, stack
from roofline.model.families.blocks.norms import MakeNorm, across_heads, layer_norm, layer_norm_no_bias, rms
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.text_heads import (
    acted,
    dense,
    masked_words,
    text_head,
    tied_words,
    vocabulary_product,
)
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Linear, Modules


def rotary_layer(c: Config, d: Dims, ffn: Modules, *, bias: bool, norm: MakeNorm = layer_norm) -> Block:
    """A layer of BERT's kind whose queries and keys are rotated."""
    rope_section(c)
    mixer = attention(d, rotary=d.head_dim, bias=bias, causal=False)
    return layer("dense", d.width, mixer, ffn, norm=norm, before=norm is rms, after=norm is not rms)


def rotary_bert(c: Config, d: Dims, block: Block, head: Modules) -> Model:
    """BERT with rotary positions in place of a table of them."""
    vocab, words = word_embeddings(c, d.width, shared=tied_words(c))
    embedding = (*words, layer_norm("embedding_norm", d.width))
    return encoder(c, d.width, [block] * d.layers, embedding=embedding, head=head, vocab=vocab)


def _pools_classes(c: Config, width: int, words: Modules) -> Modules:
    """The head of an encoder whose base class does not pool, and whose classifier does."""
    return text_head(c, width, words, pooler=(), classes=at_one(acted("pooler", width, width)))


@complete("nomic_bert")
def nomic_bert(c: Config) -> Model:
    """NomicBERT (arXiv:2402.01613): BERT with rotary positions, gated SiLU and no biases."""
    for key in ("causal", "prenorm", "parallel_block", "use_rms_norm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"):
        if c.flag(key, False):
            raise c.error(key, "false, as in the published class")
    c.mark_read(*_FUSED)
    d = dims(c, kv_key=HEADS, uneven=True)
    block = rotary_layer(c, d, mlp(d.width, c.size("n_inner|intermediate_size"), activation(c)), bias=False)
    return rotary_bert(c, d, block, _pools_classes(c, d.width, masked_words(c, d.width)))


_FUSED = """
    activation_function dense_seq_output fused_bias_fc fused_dropout_add_ln max_trained_positions
    parallel_block_tied_norm rotary_emb_fraction rotary_emb_interleaved rotary_emb_scale_base rotary_scaling_factor
    use_xentropy
""".split()


@complete("gte")
def gte(c: Config) -> Model:
    """GTE v1.5 (arXiv:2407.19669): BERT with rotary positions and gated GELU."""
    d = dims(c, kv_key=HEADS, uneven=True)
    *up, down = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"))
    assert isinstance(down, Linear)
    block = rotary_layer(c, d, (*up, replace(down, bias=True)), bias=True)
    return rotary_bert(c, d, block, _pools_classes(c, d.width, masked_words(c, d.width, twice=False)))


@complete("jina_embeddings_v3")
def jina_embeddings_v3(c: Config) -> Model:
    """Jina Embeddings v3 (arXiv:2409.10173): XLM-R with rotary positions."""
    d = dims(c, kv_key=HEADS, uneven=True)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    classes = at_one(acted("classes", d.width, d.width))
    head = text_head(c, d.width, masked_words(c, d.width, act="gelu"), classes=classes)
    return rotary_bert(c, d, rotary_layer(c, d, ffn, bias=True), head)


@complete("eurobert")
def eurobert(c: Config) -> Model:
    """EuroBERT (arXiv:2503.05500): Llama without a causal mask."""
    d, bias = dims(c), c.flag("mlp_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=bias)
    block = rotary_layer(c, d, ffn, bias=c.flag("attention_bias"), norm=rms)
    vocab, words = word_embeddings(c, d.width, shared=tied_words(c), types=False)
    late = c.text("classifier_pooling", "late", ("bos", "mean", "late")) == "late"
    read = acted("classes", d.width, d.width, "gelu")
    head = text_head(
        c, d.width, (vocabulary_product(c, d.width, bias=bias),), pooler=(), classes=read if late else at_one(read)
    )
    head = tuple(replace(m, positions=None) if late else m for m in head)
    return encoder(
        c, d.width, [block] * d.layers, embedding=tuple(words), head=(rms("final_norm", d.width), *head), vocab=vocab
    )


@complete("esm")
def esm(c: Config) -> Model:
    """ESM-1b and ESM-2 (doi:10.1126/science.ade2574): norms before sublayers, learned or rotary positions."""
    c.mark_read("token_dropout", "esmfold_config", "vocab_list", "is_folding_model", "layer_norm_eps")
    if c.flag("is_folding_model"):
        raise c.error("is_folding_model", "false: the folding trunk depends on a structure, and is not covered")
    d, kind = dims(c, kv_key=HEADS), c.text("position_embedding_type", "absolute", ("absolute", "rotary"))
    ffn = mlp(d.width, c.size("intermediate_size"), "gelu", gated=False, bias=True)
    mixer = attention(d, rotary=d.head_dim if kind == "rotary" else 0, bias=True, causal=False)
    block = layer("dense", d.width, mixer, ffn, norm=layer_norm)
    vocab, words = word_embeddings(c, d.width, shared=tied_words(c), types=False)
    table = (position_table(c, d.width),) if kind == "absolute" else ()
    norm = (layer_norm("embedding_norm", d.width),) if c.flag("emb_layer_norm_before") else ()
    head = text_head(
        c,
        d.width,
        masked_words(c, d.width, act="gelu", twice=False),
        classes=at_one(acted("classes", d.width, d.width)),
    )
    contacts = replace(dense("contacts", d.layers * d.heads, 1), idle=True)
    return encoder(
        c, d.width, [block] * d.layers, embedding=(*words, *table, *norm), vocab=vocab,
        head=(layer_norm("final_norm", d.width), contacts, *head),
    )  # fmt: skip


@complete("esmc")
def esmc(c: Config) -> Model:
    """ESM Cambrian (EvolutionaryScale, 2024): norms with biases before sublayers, and of queries and keys."""
    d, bias = dims(c), c.flag("mlp_bias")
    rope_section(c)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=bias)
    mixer = attention(d, rotary=d.head_dim, bias=c.flag("attention_bias"), qk_norm=across_heads, causal=False)
    block = layer("dense", d.width, mixer, ffn, norm=layer_norm)
    c.flag("tie_word_embeddings", False)
    head = masked_words(c.with_values(tie_word_embeddings=False), d.width, act="gelu", twice=False)
    vocab, words = word_embeddings(c, d.width, types=False)
    classes = at_one(acted("classes", d.width, d.width))
    head = (layer_norm_no_bias("final_norm", d.width), *text_head(c, d.width, head, pooler=(), classes=classes))
    return encoder(c, d.width, [block] * d.layers, embedding=tuple(words), head=head, vocab=vocab)


@complete("ultrabert")
def ultrabert(c: Config) -> Model:
    """UltraBERT: EuroBERT with windows in two layers of three, and a narrow head."""
    d, window, inner = dims(c), c.size("sliding_window", 128), c.size("prediction_head_size", 768)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c), bias=c.flag("mlp_bias"))
    rope_section(c)
    mixer = partial(attention, d, rotary=d.head_dim, bias=c.flag("attention_bias"), causal=False)
    windows = layer_windows(c.with_values(sliding_window=2 * window), d.layers, lambda i: i % 3 != 2)
    blocks = stack(d.width, windowed(windows, mixer), ffn)
    act = activation(c, "classifier_activation", "silu")
    read = (*acted("head_in", d.width, inner, act, bias=False), dense("head_out", inner, d.width, bias=False))
    words = (*read, vocabulary_product(c, d.width, bias=False, tied=False))
    vocab, tables = word_embeddings(c, d.width, shared=tied_words(c, False), types=False)
    head = (rms("final_norm", d.width), *text_head(c, d.width, words, pooler=(), classes=()))
    return encoder(c, d.width, blocks, embedding=tuple(tables), head=head, vocab=vocab)
