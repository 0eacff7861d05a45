"""ModernBERT: an encoder of text with rotary positions, gated feed-forward networks and windows."""

from __future__ import annotations

from functools import partial

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, layer_windows, rope_section, windowed
from roofline.model.families.blocks.encoders import at_one, encoder, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import stack
from roofline.model.families.blocks.norms import MakeNorm, layer_norm, layer_norm_no_bias
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.blocks.text_heads import acted, text_head, tied_words, vocabulary_product
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Modules


@complete("modernbert")
def modernbert(c: Config) -> Model:
    """ModernBERT (arXiv:2412.13663): two layers in three see a window of `local_attention` tokens."""
    d, norm = dims(c, kv_key=HEADS), layer_norm if c.flag("norm_bias") else layer_norm_no_bias
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, "hidden_activation", "gelu"), bias=c.flag("mlp_bias"))
    mixer = partial(attention, d, rotary=d.head_dim, bias=c.flag("attention_bias"), causal=False)
    every, c = c.size("global_attn_every_n_layers", 3), c.with_values(sliding_window=c.size("local_attention", 128))
    windows = layer_windows(c, d.layers, lambda i: i % every != 0)
    first, *blocks = stack(d.width, windowed(windows, mixer), ffn, norm=norm)
    first = Block("first", first.modules[1:])  # its norm is that of the embedding
    vocab, words = word_embeddings(c, d.width, shared=tied_words(c), types=False)
    head = (norm("final_norm", d.width), *modernbert_head(c, d.width, norm))
    return encoder(
        c, d.width, [first, *blocks], embedding=(*words, norm("embedding_norm", d.width)), head=head, vocab=vocab
    )


def modernbert_head(c: Config, width: int, norm: MakeNorm) -> Modules:
    """Every head reads through a product, an activation and a norm."""
    rope_section(c)
    act, bias = activation(c, "classifier_activation", "gelu"), c.flag("classifier_bias")
    read = (*acted("head_proj", width, width, act, bias=bias), norm("head_norm", width))
    words = (*read, vocabulary_product(c, width, bias=c.flag("decoder_bias", True)))
    return text_head(c, width, words, pooler=(), classes=at_one(read), read=read)
