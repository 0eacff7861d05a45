"""DeBERTa: scores of attention from contents and from distances, each against the other."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at_one, encoder, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer, position_table, with_before
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.blocks.text_heads import acted, dense, masked_words, text_head, tied_words
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import DISTANCES, Activation, Add, Attention, Convolution, Learned, Linear, Module, Modules


def _pairs(c: Config) -> list[str]:
    """Pairs that score beside content and content: contents and positions (c2p), positions and contents (p2c)."""
    value = c.value("pos_att_type", [])[1]
    names = [name.strip() for name in value.lower().split("|")] if isinstance(value, str) else value
    if not isinstance(names, list) or any(name not in ("c2p", "p2c") for name in names):
        raise c.error("pos_att_type", "a list of c2p and p2c")
    return [str(name) for name in names]


def _deberta(c: Config, blocks: list[Block], width: int, tables: Modules) -> Model:
    """The model around the layers: embeddings, the head of `architectures`."""
    embed = c.size("embedding_size", width)
    vocab, words = word_embeddings(c, embed, shared=tied_words(c), types=True)
    positions = (position_table(c, embed),) if c.flag("position_biased_input", True) else ()
    wider = (dense("embedding_proj", embed, width, bias=False),) if embed != width else ()
    pooler = acted("pooler", c.size("pooler_hidden_size", width), width, activation(c, "pooler_hidden_act", "gelu"))
    c.mark_read("max_relative_positions", "pooler_dropout", "cls_dropout", "legacy")
    own = c if c.flag("legacy", True) else c.with_values(tie_word_embeddings=True)
    masked = masked_words(own, width, embed if c.flag("legacy", True) else None)
    head = text_head(c, width, masked, pooler=(), classes=at_one(pooler))
    embedding = (*words, *positions, *wider, layer_norm("embedding_norm", width), *tables)
    return encoder(c, width, blocks, embedding=embedding, head=head, vocab=vocab)


def _span(c: Config) -> int:
    """The largest distance that has a vector of its own."""
    furthest: int = c.size("max_relative_positions", -1, least=-1)
    return furthest if furthest > 0 else c.size("max_position_embeddings", 512)


@complete("deberta")
def deberta(c: Config) -> Model:
    """DeBERTa (arXiv:2006.03654): vectors of the distances in the text are projected once a pass."""
    d, relative, pairs = dims(c, kv_key=HEADS), c.flag("relative_attention"), _pairs(c)
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    first, *rest = attention(d, rotary=0, causal=False, out_bias=True)
    biases = Learned(name="q_v_bias", width=2 * d.width)
    extra: list[Module] = []
    for name in pairs if relative else ():
        extra += [
            Linear(
                name=f"{name}_proj",
                inputs=d.width,
                outputs=d.width,
                bias=name == "p2c",
                part="attention",
                stream=DISTANCES,
            ),
            Attention(name=name, heads=d.heads, kv_heads=d.heads, head_dim=2 * d.head_dim, v_head_dim=0, causal=False),
        ]
    if c.flag("talking_head"):
        raise c.error("talking_head", "false: heads that mix are not covered")
    block = layer("dense", d.width, (first, biases, *extra, *rest), ffn, norm=layer_norm, before=False, after=True)
    table = Learned(name="distances", width=d.width, rows=2 * _span(c), applied=False)
    return _deberta(c, [block] * d.layers, d.width, (table,) if relative else ())


@complete("deberta-v2")
def deberta_v2(c: Config) -> Model:
    """DeBERTa v2 and v3 (arXiv:2111.09543): distances in buckets, and a convolution beside the first layer."""
    d, (block, tables) = dims(c, kv_key=HEADS), bucketed_layer(c)
    blocks, kernel = [block] * d.layers, c.size("conv_kernel_size", 0, least=0)
    if kernel:
        conv = Convolution(
            name="conv", inputs=d.width, outputs=d.width, kernel=kernel, groups=c.size("conv_groups", 1), bias=True
        )
        act = Activation(name="conv_act", width=d.width, function=activation(c, "conv_act", "tanh"), gated=False)
        after = (conv, act, Add(name="conv_residual", width=d.width), layer_norm("conv_norm", d.width))
        blocks[0] = Block("convolved", (*block.modules, *after))
    return _deberta(c, blocks, d.width, tables)


def bucketed_layer(c: Config) -> tuple[Block, Modules]:
    """A layer of DeBERTa v2, whose projections of keys may read the vectors of distances; and these vectors."""
    d, relative, pairs = dims(c, kv_key=HEADS), c.flag("relative_attention"), _pairs(c)
    d = replace(d, head_dim=c.size("attention_head_size", d.head_dim))
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    mixer, inner = attention(d, rotary=0, bias=True, causal=False), d.heads * d.head_dim
    buckets, shared = c.size("position_buckets", -1, least=-1), c.flag("share_att_key")
    span = buckets if buckets > 0 else _span(c)
    if relative:
        vectors = tuple(
            Linear(
                name=f"{name}_proj", inputs=d.width, outputs=inner, bias=not shared, tied=shared, part="attention",
                stream=DISTANCES, positions=2 * span,
            )
            for name in (("c2p", "p2c") if shared else pairs)
        )  # fmt: skip
        scores = tuple(
            Linear(
                name=name, inputs=inner, outputs=2 * span * d.heads, groups=d.heads, tied=True, part="attention",
                cut="groups",
            )
            for name in pairs
        )  # fmt: skip
        mixer = with_before(mixer, "attention", *vectors, *scores)
    norms = [name.strip() for name in c.text("norm_rel_ebd", "none").lower().split("|")]
    tables: list[Module] = [Learned(name="distances", width=d.width, rows=2 * span, applied=False)] if relative else []
    tables += [replace(layer_norm("distance_norm", d.width), stream=DISTANCES)] if "layer_norm" in norms else []
    return layer("dense", d.width, mixer, ffn, norm=layer_norm, before=False, after=True), tuple(tables)
