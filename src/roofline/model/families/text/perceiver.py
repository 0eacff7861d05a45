"""Encoders that do not attend from every token to every other: Perceiver, Reformer."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at, at_one, encoder, paced
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import again
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.seq2seq import sublayers
from roofline.model.families.blocks.sizes import Dims, depth
from roofline.model.families.blocks.sound import size_list
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.families.registry import complete
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Embedding, Learned, Linear, Module, Modules, Pace


# -- Perceiver -----------------------------------------------------------------------------------------------------
@complete("perceiver")
def perceiver(c: Config) -> Model:
    """Perceiver IO (arXiv:2107.14795) for masked words: latents read the text, and a query for each position them."""
    if not c.architecture.endswith("ForMaskedLM"):
        raise c.error("architectures", "PerceiverForMaskedLM: what other classes read is not in the config")
    c.mark_read(*_OTHER_INPUTS)
    width, latent, count = c.size("d_model", 768), c.size("d_latents", 1280), c.size("num_latents", 256)
    rows, vocab, act = c.size("max_position_embeddings", 2048), c.size("vocab_size", 262), activation(c, default="gelu")
    residual, given, values = (
        c.flag("use_query_residual", True),
        c.size("qk_channels", None),
        c.size("v_channels", None),
    )
    crossing = c.text("cross_attention_shape_for_attention", "kv", ("kv", "q"))
    qk = given or (width if crossing == "kv" else latent)
    reads = _layer(
        "cross", (latent, qk, values or qk), c.size("num_cross_attention_heads", 8), act,
        c.size("cross_attention_widening_factor", 1), source=width, residual=residual,
    )  # fmt: skip
    own = _layer(
        "self", (latent, given or latent, values or given or latent), c.size("num_self_attention_heads", 8), act,
        c.size("self_attention_widening_factor", 1), residual=True,
    )  # fmt: skip
    asks = _layer("query", (width, 256, width), 8, act, 1, source=latent, residual=False)
    repeats, layers = c.size("num_blocks", 1), c.size("num_self_attends_per_block", 26, most=MOST_LAYERS)
    seen = {"kv_norm": None, "k_proj": None, "v_proj": None}
    first = tuple(m if m.name in seen else replace(m, positions=count) for m in reads)
    first = tuple(replace(m, spaced=Pace()) if isinstance(m, Attention) else m for m in first)
    last = tuple(replace(m, positions=count if m.name in seen else rows) for m in asks)
    last = tuple(replace(m, keys=count) if isinstance(m, Attention) else m for m in last)
    block = Block("self", at(count, own))
    repeated = Block("again", again(block.modules))
    table = Embedding(name="embedding", rows=vocab, width=width, shared=True)
    places = Embedding(name="position_embedding", rows=rows, width=width)
    latents = Learned(name="latents", width=latent, rows=count, applied=False)
    queries = Learned(name="queries", width=width, rows=rows, applied=False)
    words = Linear(name="lm_head", inputs=width, outputs=vocab, bias=True, part="other", tied=True)
    blocks = [Block("cross", first), *[block] * layers, *[repeated] * (layers * (repeats - 1)), Block("query", last)]
    return encoder(
        c, latent, blocks, embedding=(table, places, latents), head=(queries, *at(rows, (words,))), vocab=vocab
    )


def _layer(
    name: str, sizes: tuple[int, int, int], heads: int, act: str, factor: int, *, source: int | None = None,
    residual: bool,
) -> Modules:  # fmt: skip
    """A layer of Perceiver: attention to `source` values of every input, or to its own, and a feed-forward network.

    `sizes`: width, and those of all queries and of all values.
    """
    width, qk, values = sizes
    norms = [layer_norm("attn_norm", width), *([layer_norm("kv_norm", source)] if source else [])]
    core = Attention(
        name="attention", heads=heads, kv_heads=heads, head_dim=qk // heads, v_head_dim=values // heads, causal=False
    )
    add = (Add(name=f"{name}_residual", width=width),) if residual else ()
    products = (
        dense("q_proj", width, qk),
        dense("k_proj", source or width, qk),
        dense("v_proj", source or width, values),
    )
    mixer = (*products, core, dense("o_proj", values, width), *add)
    ffn = mlp(width, factor * width, act, gated=False, bias=True)
    return (*norms, *mixer, layer_norm("ffn_norm", width), *ffn, Add(name="ffn_residual", width=width))


_OTHER_INPUTS = """
    image_size train_size num_frames audio_samples_per_frame samples_per_patch output_shape output_num_channels
    _label_trainable_num_channels attention_probs_dropout_prob
""".split()


# -- Reformer ------------------------------------------------------------------------------------------------------
@complete("reformer")
def reformer(c: Config) -> Model:
    """Reformer (arXiv:2001.04451): two streams, attention to neighbouring chunks and to those with the same hash.

    The published code pads a text of more than a chunk to whole chunks. Its steps read a text as a whole.
    """
    c.mark_read(*_STEERING)
    width, heads, head = (
        c.size("hidden_size", 256),
        c.size("num_attention_heads", 12),
        c.size("attention_head_size", 64),
    )
    kinds, inner = c.value("attn_layers", ["local"])[1], c.size("feed_forward_size", 512)
    layers = depth(c) if c.has("num_hidden_layers") else 0
    if not isinstance(kinds, list) or any(kind not in ("local", "lsh") for kind in kinds):
        raise c.error("attn_layers", "a list of local and lsh")
    d, act = Dims(layers, width, heads, heads, head), activation(c, default="relu")
    lengths = {kind: c.size(f"{kind}_attn_chunk_length", 64) for kind in dict.fromkeys(map(str, kinds))}
    whole, ffn = Pace(multiple=lcm(*lengths.values())), mlp(width, inner, act, gated=False, bias=True)
    blocks = []
    for kind in map(str, kinds):
        mixer = _chunked(c, d, kind, lengths[kind], whole)
        block = sublayers(kind, width, (("attn", mixer), ("ffn", ffn)), norm=layer_norm)
        blocks.append(Block(kind, tuple(m if m.pace else replace(m, pace=whole) for m in block.modules)))
    vocab, rows = c.size("vocab_size", 320), c.size("max_position_embeddings", 4096)
    places: Module = Embedding(name="position_embedding", rows=rows, width=width)
    if c.flag("axial_pos_embds", True):
        pairs = zip(size_list(c, "axial_pos_shape"), size_list(c, "axial_pos_embds_dim"), strict=True)
        places = Learned(name="position_embedding", width=1, rows=sum(a * b for a, b in pairs), applied=False)
    norm = paced((layer_norm("final_norm", 2 * width),), whole)
    tied = c.flag("tie_word_embeddings", False)
    table = Embedding(name="embedding", rows=vocab, width=width)
    scores = _reformer_head(c, width, vocab, tied=tied)
    return encoder(c, width, blocks, embedding=(table, places), head=(*norm, *scores), vocab=vocab)


def _chunked(c: Config, d: Dims, kind: str, length: int, whole: Pace) -> Modules:
    """Attention of a chunk to itself and its neighbours; `lsh`: of chunks of one hash, `num_hashes` times."""
    near = 1 + c.size(f"{kind}_num_chunks_before", 1, least=0) + c.size(f"{kind}_num_chunks_after", 0, least=0)
    first, core, out = attention(d, rotary=0, causal=False)
    assert isinstance(first, Linear)
    assert isinstance(core, Attention)
    seen = replace(whole, most=near * length)
    if kind == "local":
        return (first, replace(core, pace=whole, spaced=seen), out)
    times, buckets = c.size("num_hashes", 1), c.value("num_buckets", None)[1]
    shared = replace(first, name="qk_v_proj", outputs=2 * d.heads * d.head_dim, kv=0)
    every = Pace(every=2 * length, times=2, down=True)
    hashes = replace(core, name="hashes", heads=times * d.heads, v_head_dim=0, pace=whole, spaced=every)
    if buckets is not None:
        fixed = sum(int(str(b)) for b in buckets) if isinstance(buckets, list) else int(str(buckets))
        hashes = replace(hashes, spaced=None, keys=fixed // 2)
    return (shared, hashes, replace(core, pace=replace(whole, times=times), spaced=seen), out)


def _reformer_head(c: Config, width: int, vocab: int, *, tied: bool) -> Modules:
    """The head of the class in `architectures`, which reads both streams."""
    name = c.architecture
    if name.endswith(("ForMaskedLM", "LMHead")):
        return (Linear(name="lm_head", inputs=2 * width, outputs=vocab, bias=True, part="other", tied=tied),)
    if name.endswith("ForSequenceClassification"):
        return at_one((*acted("classes", 2 * width, width), dense("classifier", width, label_count(c))))
    if name.endswith("ForQuestionAnswering"):
        return (dense("answers", 2 * width, label_count(c)),)
    return ()


_STEERING = """
    hash_seed axial_norm_std chunk_size_lm_head local_attention_probs_dropout_prob lsh_attention_probs_dropout_prob
    is_decoder classifier_dropout num_hashes num_buckets local_attn_chunk_length local_num_chunks_before
    local_num_chunks_after lsh_attn_chunk_length lsh_num_chunks_before lsh_num_chunks_after axial_pos_shape
    axial_pos_embds_dim max_position_embeddings num_hidden_layers chunk_size_feed_forward num_chunks_after
    num_chunks_before sinusoidal_pos_embds
""".split()
