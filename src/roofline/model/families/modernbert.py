"""ModernBERT: an encoder of text with rotary positions, gated feed-forward networks and windows."""

from __future__ import annotations

from roofline.model.config import Config
from roofline.model.families.blocks.attention import attention, rope_section
from roofline.model.families.blocks.encoders import encoder, pooled, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer
from roofline.model.families.blocks.norms import layer_norm, layer_norm_no_bias
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.blocks.text_heads import acted, text_head, tied_words, words_of
from roofline.model.families.registry import whole
from roofline.model.model import Block, Model


@whole("modernbert")
def modernbert(c: Config) -> Model:
    """ModernBERT (arXiv:2412.13663): two layers in three see a window of `local_attention` tokens."""
    d, every, window = dims(c, kv_key=HEADS), c.size("global_attn_every_n_layers", 3), c.size("local_attention", 128)
    norm = layer_norm if c.flag("norm_bias") else layer_norm_no_bias
    act, bias = activation(c, "hidden_activation", "gelu"), c.flag("attention_bias")
    ffn = mlp(d.width, c.size("intermediate_size"), act, bias=c.flag("mlp_bias"))
    rope_section(c)
    default = ["sliding_attention" if i % every else "full_attention" for i in range(d.layers)]
    kinds = c.per_layer("layer_types", d.layers, ("full_attention", "sliding_attention"), default)
    seen = [window if kind == "sliding_attention" else None for kind in kinds]
    mixers = [attention(d, rotary=d.head_dim, bias=bias, window=w, causal=False) for w in seen]
    blocks = [layer("sliding" if w else "full", d.width, x, ffn, norm=norm) for w, x in zip(seen, mixers, strict=True)]
    blocks[0] = Block("first", blocks[0].modules[1:])  # its norm is that of the embedding
    vocab, words = word_embeddings(c, d.width, shared=tied_words(c), types=False)
    act = activation(c, "classifier_activation", "gelu")
    read = (*acted("head_proj", d.width, d.width, act, bias=c.flag("classifier_bias")), norm("head_norm", d.width))
    masked = (*read, words_of(c, d.width, bias=c.flag("decoder_bias", True)))
    head = text_head(c, d.width, masked, pooler=(), classes=pooled(read), read=read)
    head = (norm("final_norm", d.width), *head)
    return encoder(c, d.width, blocks, embedding=(*words, norm("embedding_norm", d.width)), head=head, vocab=vocab)
