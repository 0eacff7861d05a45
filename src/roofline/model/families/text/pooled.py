"""Encoders whose middle layers have fewer positions than the text: CANINE, Funnel Transformer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at_one, encoder, paced, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import again
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.sound import size_list
from roofline.model.families.blocks.text_heads import acted, dense, text_head, tied_words, vocabulary_product
from roofline.model.families.registry import complete
from roofline.model.families.text.bert import bert_layer
from roofline.model.model import Block, Model
from roofline.model.modules import (
    DISTANCES,
    Activation,
    Attention,
    Convolution,
    Embedding,
    Learned,
    Linear,
    Module,
    Modules,
    Pace,
)


@complete("canine")
def canine(c: Config) -> Model:
    """CANINE (arXiv:2103.06874): hashed characters, a local layer, BERT over every fourth position, a last layer."""
    c.mark_read("max_position_embeddings")
    d, act, rate = dims(c, kv_key=HEADS), activation(c, default="gelu"), c.size("downsampling_rate", 4)
    hashes, rows = c.size("num_hash_functions", 8), c.size("num_hash_buckets", 16_384)
    tables = [Embedding(name=f"hash{i}_embedding", rows=rows, width=d.width // hashes) for i in range(hashes)]
    tables += [
        Embedding(name="position_embedding", rows=rows, width=d.width),
        Embedding(name="type_embedding", rows=c.size("type_vocab_size", 16), width=d.width),
    ]
    block, fewer, chunk = bert_layer(c, d), Pace(every=rate, down=True), c.size("local_transformer_stride", 128)
    local = Block("local", tuple(replace(m, chunk=chunk) if isinstance(m, Attention) else m for m in block.modules))
    conv = Convolution(name="conv", inputs=d.width, outputs=d.width, kernel=rate, stride=rate, bias=True)
    gate = Activation(name="conv_act", width=d.width, function=act, gated=False)
    norm, taps = layer_norm("conv_norm", d.width), c.size("upsampling_kernel_size", 4)
    down = Block("down", paced((conv, gate, norm), fewer))
    up = Block("up", (replace(conv, inputs=2 * d.width, kernel=taps, stride=1), gate, norm))
    deep = Block("deep", paced(block.modules, fewer))
    blocks = [local, down, *[deep] * d.layers, up, Block("last", block.modules)]
    name, pooler = c.architecture, at_one(acted("pooler", d.width, d.width))
    tasks = name.endswith(("ForTokenClassification", "ForQuestionAnswering"))
    head = text_head(c, d.width, ())
    return encoder(
        c, d.width, blocks, embedding=(*tables, layer_norm("embedding_norm", d.width)),
        head=(*pooler, *head) if tasks else head,
    )  # fmt: skip


# -- Funnel Transformer --------------------------------------------------------------------------------------------
@complete("funnel")
def funnel(c: Config) -> Model:
    """Funnel Transformer (arXiv:2006.03236): each block halves the positions, and a decoder has all of them again.

    Where `truncate_seq` is false, the published code keeps one position more than counted in each block.
    """
    c.mark_read("initializer_std", "pooling_type", "separate_cls", "truncate_seq", "num_decoder_layers", "num_blocks")
    c.mark_read("num_hidden_layers", "n_layer", "max_position_embeddings", "rel_attn_type", "type_vocab_size")
    width, heads, head = c.size("d_model", 768), c.size("n_head", 12), c.size("d_head", 64)
    d, act = Dims(1, width, heads, heads, head), activation(c, default="gelu_new")
    sizes = size_list(c, "block_sizes", None, [4, 4, 4])
    repeats = size_list(c, "block_repeats", len(sizes), [1] * len(sizes))
    narrow = c.flag("pool_q_only", True)
    ffn = mlp(width, c.size("d_inner", 3072), act, gated=False, bias=True)
    blocks: list[Block] = []
    for i, (size, times) in enumerate(zip(sizes, repeats, strict=True)):
        for j in range(size):
            keys = 2 ** (i - 1) if i and not j and narrow else 2**i
            blocks.append(_funnel_layer(c, d, ffn, 2**i, keys))
            repeated = _funnel_layer(c, d, ffn, 2**i, 2**i)
            blocks += [Block("again", _repeated(repeated.modules))] * (times - 1)
    base = c.architecture.endswith(("BaseModel", "ForSequenceClassification", "ForMultipleChoice"))
    if not base:
        blocks += [_funnel_layer(c, d, ffn, 1, 1)] * c.size("num_decoder_layers", 2)
    vocab, words = word_embeddings(c, width, shared=tied_words(c), types=False)
    return encoder(
        c, width, blocks, embedding=(*words, layer_norm("embedding_norm", width)), head=_funnel_head(c, width, act),
        vocab=vocab,
    )  # fmt: skip


def _funnel_head(c: Config, width: int, act: str) -> Modules:
    """The head of the class in `architectures`."""
    if c.architecture.endswith("ForPreTraining"):
        return (*acted("discriminator", width, width, act), dense("original", width, 1))
    read = at_one(acted("classes", width, width))
    return text_head(c, width, (vocabulary_product(c, width),), pooler=(), classes=read)


def _funnel_layer(c: Config, d: Dims, ffn: Modules, queries: int, keys: int) -> Block:
    """A layer with one query of `queries` positions and one key of `keys`, and scores of distances and segments."""
    inner, fewer, seen = d.heads * d.head_dim, Pace(every=queries), Pace(every=keys)
    first, core, out = attention(d, rotary=0, bias=True, causal=False)
    assert isinstance(first, Linear)
    assert isinstance(core, Attention)
    score = replace(core, v_head_dim=0, pace=fewer, spaced=seen)
    biases = tuple(Learned(name=f"{name}_bias", width=inner, applied=False) for name in ("word", "distance", "segment"))
    parts: Modules = (
        replace(first, name="q_proj", outputs=inner, bias=False, kv=0, pace=fewer),
        replace(first, name="kv_proj", outputs=2 * inner, beside=True, pace=seen),
        *biases, Learned(name="segments", width=inner, rows=2, applied=False),
        replace(score, name="segment_scores", spaced=None, keys=2),
        *_distances(c, d, score, fewer, seen), replace(core, pace=fewer, spaced=seen), out,
    )  # fmt: skip
    block = sublayers("dense", d.width, (("attn", parts), ("ffn", ffn)), norm=layer_norm, before=False)
    placed = (m if m.pace or m.stream else replace(m, pace=fewer) for m in block.modules)
    return Block("dense" if queries == keys else "pooling", tuple(placed))


def _distances(c: Config, d: Dims, score: Attention, queries: Pace, keys: Pace) -> Modules:
    """Scores of distances: a product of queries with twice as many vectors as keys, or the factors of appendix A.2."""
    inner = d.heads * d.head_dim
    if c.text("attention_type", "relative_shift", ("relative_shift", "factorized")) == "factorized":
        wide = Linear(
            name="distance_proj",
            inputs=inner,
            outputs=d.heads * d.width,
            groups=d.heads,
            part="attention",
            pace=queries,
        )
        return (wide, *(replace(score, name=f"{name}_scores", head_dim=d.width) for name in ("sine", "cosine")))
    table = Linear(
        name="distance_proj",
        inputs=d.width,
        outputs=inner,
        part="attention",
        stream=DISTANCES,
        pace=Pace(every=2 * keys.every, times=2),
    )
    return table, replace(score, name="distance_scores", spaced=Pace(every=keys.every, times=2))


def _repeated(modules: Iterable[Module]) -> Modules:
    """A layer run again with the same weights."""
    return tuple(m for m in again(tuple(modules)) if not isinstance(m, Learned))
