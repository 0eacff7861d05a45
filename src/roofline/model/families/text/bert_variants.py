"""Encoders that change a part of BERT: its attention, its products, its tables of words."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention, in_bands
from roofline.model.families.blocks.encoders import at, at_one, encoder, paced, patch_embedding, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import layer, position_table, with_before
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.sound import size_list
from roofline.model.families.blocks.text_heads import (
    acted,
    dense,
    masked_words,
    text_head,
    tied_words,
    unused,
    vocabulary_product,
)
from roofline.model.families.registry import complete
from roofline.model.families.text.bert import bert_layer, bert_like, roberta_head
from roofline.model.heads import label_count
from roofline.model.model import Block, Model
from roofline.model.modules import (
    Activation,
    Add,
    Attention,
    Convolution,
    Embedding,
    Learned,
    Linear,
    Module,
    Modules,
    Pace,
)

MARKS = ("ForTokenClassification", "ForQuestionAnswering")
"""Classes that mark each token."""


def post_norm(c: Config, d: Dims, mixer: Modules, ffn: Modules | None = None) -> Block:
    """A layer of BERT with another mixer or feed-forward network."""
    plain = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    return layer("dense", d.width, mixer, plain if ffn is None else ffn, norm=layer_norm, before=False, after=True)


@complete("ibert")
def ibert(c: Config) -> Model:
    """I-BERT (arXiv:2101.01321): RoBERTa whose integer arithmetic leaves the products as they are."""
    c.mark_read("quant_mode", "force_dequant")
    return bert_like(c, roberta_head(c, c.size("hidden_size")))


@complete("yoso")
def yoso(c: Config) -> Model:
    """YOSO (arXiv:2111.09714) as its expectation, which multiplies all queries and keys; two spare positions."""
    c.mark_read("hash_code_len", "lsh_backward", "num_hash", "use_fast_hash", "use_expectation")
    d, window = dims(c, kv_key=HEADS), c.size("conv_window", None)
    if not c.flag("use_expectation", True):
        raise c.error("use_expectation", "true: sums by hashing depend on the values")
    mixer = attention(d, rotary=0, bias=True, causal=False)
    if window:
        taps = Learned(name="value_taps", width=d.heads, rows=window, applied=False)
        conv = Linear(
            name="value_conv", inputs=d.width * window, outputs=d.width, groups=d.width, tied=True, part="attention"
        )
        mixer = with_before(mixer, "attention", taps, conv)
    head = text_head(
        c, d.width, masked_words(c, d.width), pooler=(), classes=at_one(acted("classes", d.width, d.width))
    )
    return bert_like(_more_positions(c, 2), head, block=post_norm(c, d, mixer))


def _more_positions(c: Config, rows: int) -> Config:
    """The config with `rows` positions that a text does not use."""
    return c.with_values(max_position_embeddings=c.size("max_position_embeddings", 512) + rows)


@complete("mra")
def mra(c: Config) -> Model:
    """MRA (arXiv:2207.10284): a query sees `block_per_row` blocks of 32 tokens exactly, and means of the others."""
    c.mark_read("approx_mode", "initial_prior_first_n_blocks", "initial_prior_diagonal_n_blocks")
    d = dims(c, kv_key=HEADS)
    mixer = attention(d, rotary=0, bias=True, causal=False, window=32 * c.size("block_per_row", 4))
    head = text_head(
        c, d.width, masked_words(c, d.width), pooler=(), classes=at_one(acted("classes", d.width, d.width))
    )
    return bert_like(_more_positions(c, 2), head, block=post_norm(c, d, mixer))


@complete("nystromformer")
def nystromformer(c: Config) -> Model:
    """Nyströmformer (arXiv:2102.03902) with as many landmarks as tokens, where it multiplies all pairs."""
    d, taps = dims(c, kv_key=HEADS), c.size("conv_kernel_size", None)
    c.mark_read("inv_coeff_init_option", "segment_means_seq_len", "num_landmarks", "inv_init_coeff_option")
    if c.size("segment_means_seq_len", 64) != c.size("num_landmarks", 64):
        raise c.error("num_landmarks", "segment_means_seq_len: means of segments are not covered")
    mixer = attention(d, rotary=0, bias=True, causal=False)
    if taps:
        conv = (
            Learned(name="value_taps", width=d.heads, rows=taps, applied=False),
            Linear(
                name="value_conv", inputs=d.width * taps, outputs=d.width, groups=d.width, tied=True, part="attention"
            ),
        )
        mixer = with_before(mixer, "attention", *conv)
    head = text_head(
        c, d.width, masked_words(c, d.width), pooler=(), classes=at_one(acted("classes", d.width, d.width, "relu"))
    )
    return bert_like(_more_positions(c, 2), head, block=post_norm(c, d, mixer))


@complete("big_bird")
def big_bird(c: Config) -> Model:
    """BigBird (arXiv:2007.14062): a query sees two global blocks, three around it and some at random.

    A text of fewer blocks than those sees all of itself.
    """
    c.mark_read("rescale_embeddings")
    d, sparse = dims(c, kv_key=HEADS), c.text("attention_type", "block_sparse", ("block_sparse", "original_full"))
    seen = c.size("block_size", 64) * (5 + c.size("num_random_blocks", 3))
    first, *rest = attention(d, rotary=0, bias=True, causal=False, window=seen if sparse == "block_sparse" else None)
    assert isinstance(first, Linear)
    mixer = (replace(first, bias=c.flag("use_bias", True)), *rest)
    act = activation(c, default="gelu")
    answers = (
        *mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True),
        layer_norm("answer_norm", d.width),
    )
    asked = c.architecture.endswith("ForQuestionAnswering")
    head = text_head(
        c, d.width, masked_words(c, d.width), always=not asked, read=answers if asked else (),
        classes=at_one((*acted("pooler", d.width, d.width), *acted("classes", d.width, d.width, act))),
    )  # fmt: skip
    return bert_like(c, head, block=post_norm(c, d, mixer))


@complete("fnet")
def fnet(c: Config) -> Model:
    """FNet (arXiv:2105.03824): Fourier transforms over words and channels instead of attention.

    A transform is a pass over the stream: its 5·log₂ operations a value are few beside the products.
    """
    c.mark_read("use_tpu_fourier_optimizations", "tpu_short_seq_length")
    width = c.size("hidden_size")
    mixer = tuple(
        Activation(name=f"{name}_transform", width=width, function="linear", gated=False)
        for name in ("channel", "word")
    )
    d = dims(c.with_values(num_attention_heads=1), kv_key=HEADS)
    tables = (dense("embedding_proj", width, width),)
    model = bert_like(c.with_values(num_attention_heads=1), block=post_norm(c, d, mixer))
    *before, norm = model.embedding
    head = text_head(c, width, masked_words(c, width), always=True)
    return replace(model, embedding=(*before, norm, *tables), head=head)


@complete("convbert")
def convbert(c: Config) -> Model:
    """ConvBERT (arXiv:2008.02496): half of the heads are convolutions whose taps come from the words around them."""
    d, ratio, taps = dims(c, kv_key=HEADS), c.size("head_ratio", 2), c.size("conv_kernel_size", 9)
    embed, groups, act = c.size("embedding_size", d.width), c.size("num_groups", 1), activation(c, default="gelu")
    heads = max(d.heads // ratio, 1)
    size = d.width // heads // 2
    inner = heads * size
    qkv, *rest = attention(replace(d, heads=heads, kv_heads=heads, head_dim=size), rotary=0, bias=True, causal=False)
    conv = (
        Convolution(name="word_conv", inputs=d.width, outputs=d.width, kernel=taps, groups=d.width),
        Linear(name="word_proj", inputs=d.width, outputs=inner, bias=True, part="attention"),
        Linear(name="taps_proj", inputs=inner, outputs=heads * taps, bias=True, part="attention"),
        Linear(name="conv_proj", inputs=d.width, outputs=inner, bias=True, part="attention"),
        Linear(name="conv", inputs=inner * taps, outputs=inner, groups=inner, tied=True, part="attention"),
    )
    out = Linear(name="o_proj", inputs=2 * inner, outputs=d.width, bias=True, part="attention", cut="rows")
    mixer = (qkv, *conv, rest[0], out)
    ffn = _grouped(mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True), groups, groups)
    vocab, words = word_embeddings(c, embed, shared=tied_words(c))
    wider = (dense("embedding_proj", embed, d.width),) if embed != d.width else ()
    classes = at_one(acted("classes", d.width, d.width, act))
    head = text_head(
        c, d.width, masked_words(c, d.width, embed, act="gelu", twice=False), pooler=(), classes=classes, choices=()
    )
    embedding = (*words, position_table(c, embed), layer_norm("embedding_norm", embed), *wider)
    return encoder(c, d.width, [post_norm(c, d, mixer, ffn)] * d.layers, embedding=embedding, head=head, vocab=vocab)


def _grouped(ffn: Modules, up: int, down: int) -> Modules:
    """The feed-forward network with block-diagonal products."""
    first, *middle, last = ffn
    assert isinstance(first, Linear)
    assert isinstance(last, Linear)
    return (
        replace(first, groups=up, cut="none" if up > 1 else first.cut), *middle,
        replace(last, groups=down, cut="none" if down > 1 else last.cut),
    )  # fmt: skip


@complete("squeezebert")
def squeezebert(c: Config) -> Model:
    """SqueezeBERT (arXiv:2006.11316): BERT with products in groups."""
    d, act = dims(c, kv_key=HEADS), activation(c, default="gelu")
    groups = [c.size(f"{name}_groups", 4) for name in ("q", "k", "v")]
    qkv = tuple(
        Linear(
            name=f"{name}_proj",
            inputs=d.width,
            outputs=d.width,
            bias=True,
            groups=n,
            part="attention",
            beside=name != "q",
        )
        for name, n in zip("qkv", groups, strict=True)
    )
    mixed, out = attention(d, rotary=0, bias=True, causal=False)[-2:]
    assert isinstance(out, Linear)
    mixer = (*qkv, mixed, replace(out, groups=c.size("post_attention_groups", 1)))
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True)
    ffn = _grouped(ffn, c.size("intermediate_groups", 4), c.size("output_groups", 4))
    embed = c.size("embedding_size", d.width)
    if embed != d.width:
        raise c.error("embedding_size", "hidden_size, as the published code demands")
    head = text_head(c, d.width, masked_words(c, d.width), always=True)
    return bert_like(c, head, block=post_norm(c, d, mixer, ffn))


@complete("mobilebert")
def mobilebert(c: Config) -> Model:
    """MobileBERT (arXiv:2004.02984): layers between a product that narrows the stream and one that widens it."""
    width, heads, act = c.size("hidden_size"), c.size("num_attention_heads"), activation(c, default="relu")
    narrow, within = c.flag("use_bottleneck", True), c.size("intra_bottleneck_size", 128)
    c.mark_read("true_hidden_size", "normalization_type", "classifier_activation")
    inner, layers = within if narrow else width, c.size("num_hidden_layers")
    shared, own = c.flag("key_query_shared_bottleneck", True), c.flag("use_bottleneck_attention", False)
    embed, networks = c.size("embedding_size", 128), c.size("num_feedforward_networks", 4)
    centred = c.text("normalization_type", "no_norm", ("no_norm", "layer_norm")) == "layer_norm"

    def norm(name: str, size: int) -> Module:
        return layer_norm(name, size) if centred else Learned(name=name, width=size, rows=2)

    values = inner if own or not narrow else width
    d = Dims(layers, inner, heads, heads, inner // heads)
    mixed, out = attention(d, rotary=0, bias=True, causal=False)[-2:]
    parts: list[Module] = []
    if narrow:
        parts += [dense("input_bottleneck", width, inner), norm("input_norm", inner)]
        second = (dense("attention_bottleneck", width, inner), norm("shared_norm", inner)) if shared else ()
        parts += unused(second) if own else second
    parts += [
        Linear(name=f"{name}_proj", inputs=size, outputs=inner, bias=True, part="attention")
        for name, size in (("q", inner), ("k", inner), ("v", values))
    ]
    parts += [mixed, out, Add(name="attn_residual", width=inner), norm("attn_norm", inner)]
    for i in range(networks):
        prefix = f"ffn{i}_"
        parts += mlp(inner, c.size("intermediate_size"), act, gated=False, bias=True, prefix=prefix)
        parts += [Add(name=f"{prefix}residual", width=inner), norm(f"{prefix}norm", inner)]
    if narrow:
        parts += [
            dense("output_bottleneck", inner, width),
            Add(name="output_residual", width=width),
            norm("output_norm", width),
        ]
    vocab, words = word_embeddings(c, embed, shared=tied_words(c), types=False)
    wide = embed * (3 if c.flag("trigram_input", True) else 1)
    embedding = (
        *words, Embedding(name="type_embedding", rows=c.size("type_vocab_size", 2), width=width),
        position_table(c, width), *_run_if(wide != embed or embed != width, dense("embedding_proj", wide, width)),
        norm("embedding_norm", width),
    )  # fmt: skip
    pooler = at_one(acted("pooler", width, width)) if c.flag("classifier_activation", False) else ()
    tied = c.flag("tie_word_embeddings", True)
    rest = Learned(name="rest_of_words", width=vocab, rows=width - embed, applied=False)
    product, acts, last = masked_words(c, width, act=act)[:3]
    table = replace(vocabulary_product(c, width), tied=True, bias=False)
    own_table = (
        ()
        if tied
        else (
            Learned(name="own_words", width=vocab, rows=embed, applied=False),
            Learned(name="unused_bias", width=1, rows=vocab, applied=False),
        )
    )
    bias = Learned(name="word_bias", width=1, rows=vocab, applied=False)
    head = text_head(c, width, (product, acts, last, table, rest, bias, *own_table), pooler=pooler)
    return encoder(c, width, [Block("bottleneck", tuple(parts))] * layers, embedding=embedding, head=head, vocab=vocab)


def _run_if(runs: bool, module: Module) -> Modules:
    """A module that exists in any case, and runs where `runs` says so."""
    return (module,) if runs else unused((module,))


@complete("xmod")
def xmod(c: Config) -> Model:
    """X-MOD (arXiv:2205.06266): XLM-R with an adapter for each language in every layer, of which one runs."""
    c.mark_read("default_language", "adapter_reuse_layer_norm", "ln_before_adapter", "languages")
    d, before = dims(c, kv_key=HEADS), c.flag("pre_norm", False)
    languages = c.value("languages", ["en_XX"])[1]
    if not isinstance(languages, (list, tuple)) or not languages:
        raise c.error("languages", "a list of languages")
    inner = d.width // c.size("adapter_reduction_factor", 2)
    adapter = (
        *acted("adapter_in", d.width, inner, activation(c, default="gelu")),
        dense("adapter_out", inner, d.width),
    )
    others = sum(m.parameters for m in adapter) * (len(languages) - 1)
    own = (layer_norm("adapter_norm", d.width),) if c.flag("adapter_layer_norm", False) else ()
    block = bert_layer(c, d, before=before)
    idle = (Learned(name="other_adapters", width=others, applied=False, idle=True),) if others else ()
    *modules, last = block.modules
    end = (last,) if before else (modules.pop(), last)
    names = Block("adapted", (*modules, *own, *adapter, *idle, *end))
    after = (layer_norm("final_norm", d.width),) if before else ()
    return bert_like(c, roberta_head(c, d.width), block=names, after=after)


@complete("lilt")
def lilt(c: Config) -> Model:
    """LiLT (arXiv:2202.13669): RoBERTa beside a narrower stream of boxes, whose scores each adds to the other's."""
    d, shrink = dims(c, kv_key=HEADS), c.size("channel_shrink_ratio", 4)
    width, sixth, rows = d.width // shrink, d.width // 6, c.size("max_2d_position_embeddings", 1024)
    narrow = replace(d, width=width, head_dim=d.head_dim // shrink)
    boxes = attention(narrow, rotary=0, bias=True, causal=False)
    act, inner = activation(c, default="gelu"), c.size("intermediate_size")
    layout = layer(
        "layout",
        width,
        boxes,
        mlp(width, inner // shrink, act, gated=False, bias=True),
        norm=layer_norm,
        before=False,
        after=True,
    )
    block = bert_layer(c, d)
    renamed = tuple(replace(m, name=f"layout_{m.name}") for m in layout.modules)
    tables = (
        *(Embedding(name=f"{side}_embedding", rows=rows, width=sixth) for side in ("x", "y", "height", "width")),
        Embedding(name="box_embedding", rows=c.size("max_position_embeddings"), width=width),
        dense("box_proj", 6 * sixth, width), layer_norm("box_norm", width),
    )  # fmt: skip
    head = text_head(c, d.width, (), classes=at_one(acted("classes", d.width, d.width)))
    return bert_like(c, head, block=Block("both", (*block.modules, *renamed)), tables=tables)


@complete("roc_bert")
def roc_bert(c: Config) -> Model:
    """RoCBert (arXiv:2203.15317): tables of characters, their pronunciations and shapes, joined by a product."""
    width, wide, tables = c.size("hidden_size"), c.size("hidden_size"), list[Module]()
    for name in ("pronunciation", "shape"):
        size = c.size(f"{name}_embed_dim", 768)
        tables.append(Embedding(name=f"{name}_embedding", rows=c.size(f"{name}_vocab_size", 910), width=size))
        wide += size if c.flag(f"enable_{name}", True) else 0
    joined = c.flag("concat_input", True)
    if joined:
        tables.append(dense("joined_proj", wide, width))
    model = bert_like(c, tables=tuple(tables))
    return replace(model, head=tuple(m for m in model.head if m.name != "pair_classifier"))


@complete("roformer")
def roformer(c: Config) -> Model:
    """RoFormer (arXiv:2104.09864): BERT with rotary positions, whose sines are a table that is not trained."""
    c.mark_read("rotary_value")
    d, embed = dims(c, kv_key=HEADS), c.size("embedding_size", c.size("hidden_size"))
    mixer = attention(d, rotary=d.head_dim, bias=True, causal=c.flag("is_decoder"))
    vocab, words = word_embeddings(c, embed, shared=tied_words(c))
    wider = (dense("embedding_proj", embed, d.width),) if embed != d.width else ()
    sines = Learned(
        name="sines", width=d.head_dim, rows=c.size("max_position_embeddings", 1536), applied=False, frozen=True
    )
    classes = at_one(acted("classes", d.width, d.width, activation(c, default="gelu")))
    head = text_head(c, d.width, masked_words(c, d.width, embed), pooler=(), classes=classes, choices=())
    embedding = (*words, layer_norm("embedding_norm", embed), *wider, sines)
    return encoder(c, d.width, [post_norm(c, d, mixer)] * d.layers, embedding=embedding, head=head, vocab=vocab)


@complete("tapas")
def tapas(c: Config) -> Model:
    """TAPAS (arXiv:2004.02349): BERT with a table for each property of a cell."""
    if c.architecture.endswith("ForQuestionAnswering"):
        raise c.error("architectures", "another class: the head of cells depends on the tables in the text")
    width, sizes = c.size("hidden_size"), size_list(c, "type_vocab_sizes", None, [3, 256, 256, 2, 256, 256, 10])
    tables = tuple(Embedding(name=f"type{i}_embedding", rows=rows, width=width) for i, rows in enumerate(sizes))
    c.mark_read(*_TABLES)
    return bert_like(c.with_values(type_vocab_size=0), tables=tables)


_TABLES = """
    positive_label_weight num_aggregation_labels aggregation_loss_weight use_answer_as_supervision
    answer_loss_importance use_normalized_answer_loss huber_loss_delta temperature aggregation_temperature
    use_gumbel_for_cells use_gumbel_for_aggregation average_approximation_function cell_selection_preference
    answer_loss_cutoff max_num_rows max_num_columns average_logits_per_cell select_one_column
    allow_empty_column_selection init_cell_selection_weights_to_zero reset_position_index_per_cell
    disable_per_token_loss aggregation_labels no_aggregation_label_index
""".split()


@complete("markuplm")
def markuplm(c: Config) -> Model:
    """MarkupLM (arXiv:2110.08518): BERT with tables of the tags above a word, joined by two products."""
    width, depth, unit = c.size("hidden_size"), c.size("max_depth", 50), c.size("xpath_unit_hidden_size", 32)
    c.mark_read("tag_pad_id", "subs_pad_id")
    tags = Embedding(name="tag_embedding", rows=depth * c.size("max_xpath_tag_unit_embeddings", 256), width=unit)
    places = Embedding(name="place_embedding", rows=depth * c.size("max_xpath_subs_unit_embeddings", 1024), width=unit)
    spare = unused((dense("unused_path_proj", depth * unit, width),))
    paths = (*acted("path_in", depth * unit, 4 * width, "relu"), dense("path_out", 4 * width, width))
    return bert_like(c, tables=(tags, places, *spare, *paths))


@complete("bert-generation")
def bert_generation(c: Config) -> Model:
    """BERT for generation (arXiv:1907.12461): BERT without segments and pooler."""
    width = c.size("hidden_size")
    words = (vocabulary_product(c, width),) if c.architecture.endswith("Decoder") else ()
    head = words or text_head(c, width, (), pooler=())
    model = bert_like(c.with_values(type_vocab_size=0), head)
    tables = tuple(
        replace(m, shared=bool(words)) if isinstance(m, Embedding) and m.name == "embedding" else m
        for m in model.embedding
    )
    return replace(model, embedding=tables)


@complete("xlm", "flaubert")
def xlm(c: Config) -> Model:
    """XLM (arXiv:1901.07291) and FlauBERT (arXiv:1912.05372): BERT with networks four times as wide."""
    c = c.with_values(
        hidden_size=c.size("emb_dim|hidden_size", 2048), num_hidden_layers=c.size("n_layers|num_hidden_layers", 12),
        num_attention_heads=c.size("n_heads|num_attention_heads", 16), vocab_size=c.size("n_words|vocab_size"),
        intermediate_size=4 * c.size("emb_dim|hidden_size", 2048), type_vocab_size=0,
        hidden_act="gelu" if c.flag("gelu_activation", True) else "relu",
    )  # fmt: skip
    c.mark_read(
        "asm", "n_langs", "use_lang_emb", "lang_id", "mask_index", "unk_index", "start_n_top", "end_n_top", "end_n_top"
    )
    c.mark_read(
        "bos_index", "eos_index", "pad_index", "is_encoder", "sinusoidal_embeddings", "embed_init_std", "lang2id"
    )
    c.mark_read("summary_use_proj", "summary_type", "summary_proj_to_labels", "id2lang", "mask_token_id", "hidden_act")
    if c.flag("asm", False):
        raise c.error("asm", "false: an adaptive softmax runs for the words in the text")
    width, languages = c.size("hidden_size"), c.size("n_langs", 1)
    many = languages > 1 and c.flag("use_lang_emb", True)
    tables = (Embedding(name="language_embedding", rows=languages, width=width),) if many else ()
    words = (vocabulary_product(c, width),) if c.architecture.endswith("LMHeadModel") else ()
    choices = at_one((dense("summary", width, label_count(c)),))
    head = words or text_head(c, width, (), pooler=(), classes=(), choices=choices)
    if c.flag("pre_norm", False):
        raise c.error("pre_norm", "false: norms that the residual bypasses are not covered")
    return bert_like(c.with_values(is_decoder=c.flag("causal", False)), head, tables=tables)


@complete("tipsv2_text_model")
def tipsv2_text(c: Config) -> Model:
    """TIPS v2's encoder of text (arXiv:2410.16512): norms before sublayers, sines for positions."""
    c.mark_read("scale_sqrt_depth", "pooling_epsilon")
    d, act = dims(c, kv_key=HEADS), activation(c, default="relu")
    ffn = mlp(d.width, c.size("intermediate_size"), act, gated=False, bias=True)
    block = layer("dense", d.width, attention(d, rotary=0, bias=True, causal=False), ffn, norm=layer_norm)
    vocab, words = word_embeddings(c, d.width, types=False)
    head = (layer_norm("final_norm", d.width),)
    return encoder(c, d.width, [block] * d.layers, embedding=tuple(words), head=head, vocab=vocab)


@complete("luke")
def luke(c: Config) -> Model:
    """LUKE (arXiv:2010.01057) for words alone: RoBERTa; entities have tables and queries of their own."""
    c.mark_read("use_entity_aware_attention")
    d, rows, embed = dims(c, kv_key=HEADS), c.size("entity_vocab_size", 500_000), c.size("entity_emb_size", 256)
    types = c.size("type_vocab_size", 2)
    entities = unused((
        Embedding(name="entity_embedding", rows=rows, width=embed), dense("entity_proj", embed, d.width, bias=False),
        Embedding(name="entity_position", rows=c.size("max_position_embeddings"), width=d.width),
        Embedding(name="entity_type", rows=types, width=d.width), layer_norm("entity_norm", d.width),
    ))  # fmt: skip
    mixer = attention(d, rotary=0, bias=True, causal=False)
    if c.flag("use_entity_aware_attention", True):
        kinds = ("word_entity", "entity_word", "entity_entity")
        queries = unused(tuple(dense(f"{kind}_query", d.width, d.width) for kind in kinds))
        mixer = with_before(mixer, "attention", *queries)
    tied = c.flag("tie_word_embeddings", True)
    c = c.with_values(tie_word_embeddings=False)  # the published class ties the table of entities alone
    words: Modules = masked_words(c, d.width, act="gelu", twice=not tied)
    if c.architecture.endswith("ForMaskedLM"):
        spare = (
            *acted("entity_head", d.width, embed, activation(c, default="gelu")), layer_norm("entity_head_norm", embed),
            Learned(name="entity_bias", width=1, rows=rows, applied=False),
        )  # fmt: skip
        words = (*words, *unused(spare if tied else (*spare, dense("entity_words", embed, rows, bias=False))))
    head = text_head(c, d.width, words, always=not c.architecture.endswith(MARKS))
    return bert_like(c, head, block=post_norm(c, d, mixer), tables=entities)


@complete("layoutlmv3")
def layoutlmv3(c: Config) -> Model:
    """LayoutLMv3 (arXiv:2204.08387): words and the patches of their page, where its size is given, in one sequence."""
    c.mark_read("max_rel_pos", "max_rel_2d_pos", "text_embed", "second_input_size")
    c.mark_read("input_size", "patch_size", "num_channels", "rel_pos_bins", "rel_2d_pos_bins")
    d, rows, types = dims(c, kv_key=HEADS), c.size("max_2d_position_embeddings", 1024), list[Module]()
    for side, size in (("x", "coordinate"), ("y", "coordinate"), ("height", "shape"), ("width", "shape")):
        types.append(Embedding(name=f"{side}_embedding", rows=rows, width=c.size(f"{size}_size", 128)))
    if c.flag("visual_embed", True):
        patch, side_of = c.size("patch_size", 16), c.size("input_size", 224)
        patches, channels = (side_of // patch) ** 2, c.size("num_channels", 3)
        seen = at(patches, (patch_embedding("patch_embedding", channels, patch * patch, d.width),))
        types += seen if c.inputs.height else unused(seen)
        types.append(Learned(name="patch_position", width=d.width, rows=patches + 2, applied=False))
        types += [layer_norm("patch_norm", d.width), layer_norm("joint_norm", d.width)]
    for name, key, flag in (("distance", "rel_pos_bins", "has_relative"), ("place", "rel_2d_pos_bins", "has_spatial")):
        if c.flag(f"{flag}_attention_bias", True):
            width = d.heads * (1 if name == "distance" else 2)
            types.append(Learned(name=f"{name}_bias", width=width, rows=c.size(key, 32), applied=False))
    read = acted("classes", d.width, d.width)
    few = c.architecture.endswith("ForTokenClassification") and label_count(c) < 10
    head = text_head(c, d.width, (), pooler=(), classes=at_one(read), read=() if few else read)
    model = bert_like(c, head, tables=tuple(types))
    if not (c.inputs.height and c.flag("visual_embed", True)):
        return model
    both = Pace(extra=patches + 1)  # words, patches and a class token
    if c.architecture.endswith("ForQuestionAnswering"):
        model = replace(model, head=paced(model.head, both))
    return replace(model, layers=tuple(Block(b.name, paced(b.modules, both)) for b in model.layers))


@complete("longformer")
def longformer(c: Config) -> Model:
    """Longformer (arXiv:2004.05150): RoBERTa in windows; global tokens have projections of their own.

    The published code pads the text to whole windows.
    """
    c.mark_read("onnx_export")
    d = dims(c, kv_key=HEADS)
    windows = c.per_layer_size("attention_window", d.layers, 512)
    spare = unused(tuple(dense(f"global_{name}_proj", d.width, d.width) for name in "qkv"))
    blocks, whole = [], Pace(multiple=max(windows))
    for window in windows:
        mixer = in_bands(attention(d, rotary=0, bias=True, causal=False), window, max(windows))
        block = post_norm(c, d, with_before(mixer, "attention", *spare))
        blocks.append(Block(block.name, tuple(m if m.pace else replace(m, pace=whole) for m in block.modules)))
    model = bert_like(c, roberta_head(c, d.width), block=blocks[0])
    embedding = tuple(replace(m, pace=whole) for m in model.embedding)
    return replace(model, embedding=embedding, layers=tuple(blocks))


@complete("bros")
def bros(c: Config) -> Model:
    """BROS (arXiv:2108.04539): BERT with scores of every pair of boxes, and heads that join words."""
    c.mark_read("dim_bbox", "bbox_scale", "n_relations", "dim_bbox_sinusoid_emb_1d", "is_decoder")
    c.mark_read("dim_bbox_sinusoid_emb_2d", "dim_bbox_projection", "classifier_dropout_prob")
    d = dims(c, kv_key=HEADS)
    places, out = c.size("dim_bbox_sinusoid_emb_2d", d.width // 4), c.size("dim_bbox_projection", d.head_dim)
    mixer = attention(d, rotary=0, bias=True, causal=False)
    core = next(m for m in mixer if isinstance(m, Attention))
    scores = replace(core, name="box_scores", v_head_dim=0)
    pairs = replace(scores, name="boxes", heads=out, kv_heads=out, head_dim=places)
    front = (Learned(name="box_proj", width=places, rows=out, applied=False), pairs)
    model = bert_like(c, _bros_head(c, d.width), block=post_norm(c, d, with_before(mixer, "attention", scores)))
    return replace(model, embedding=(*model.embedding, *front))


def _bros_head(c: Config, width: int) -> Modules:
    """The pooler, and products of every pair of words where the class joins them."""
    name, pooler = c.architecture, at_one(acted("pooler", width, width))
    if "Spade" not in name:
        return text_head(c, width, (), pooler=pooler, always=True)
    count = c.size("n_relations", 1)
    relations = Attention(
        name="relations", heads=count, kv_heads=count, head_dim=width, v_head_dim=0, causal=False, spaced=Pace(extra=1)
    )
    keys = replace(dense("relation_k", width, count * width), pace=Pace(extra=1))
    joins: Modules = (
        dense("relation_q", width, count * width), keys,
        Learned(name="no_word", width=width, applied=False), relations,
    )  # fmt: skip
    if "SpadeEL" in name:
        return (*pooler, *joins)
    return (*pooler, dense("first_in", width, width), dense("first_out", width, label_count(c)), *joins)
