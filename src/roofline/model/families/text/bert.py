"""Encoders of text: BERT and its kin."""

from __future__ import annotations

from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import attention
from roofline.model.families.blocks.encoders import at_one, encoder, word_embeddings
from roofline.model.families.blocks.feed_forward import activation, mlp
from roofline.model.families.blocks.layers import again, layer, position_table
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import HEADS, Dims, dims
from roofline.model.families.blocks.text_heads import acted, dense, masked_words, text_head, tied_words
from roofline.model.families.registry import complete
from roofline.model.model import Block, Model
from roofline.model.modules import Embedding, Learned, Modules


def bert_layer(c: Config, d: Dims, *, before: bool = False, decodes: bool = False) -> Block:
    """A layer of BERT: all projections have a bias, and norms follow the sublayers unless they come `before`."""
    ffn = mlp(d.width, c.size("intermediate_size"), activation(c, default="gelu"), gated=False, bias=True)
    mixer = attention(d, rotary=0, bias=True, causal=decodes)
    return layer("dense", d.width, mixer, ffn, norm=layer_norm, before=before, after=not before)


def bert_like(
    c: Config, head: Modules | None = None, *, block: Block | None = None, tables: Modules = (), after: Modules = (),
    before: bool = False, norm: bool = True,
) -> Model:  # fmt: skip
    """An encoder of BERT's layers with learned positions and segments; `tables` are others beside those.

    `head`, `block`: its head and its layer where they are not BERT's. `tables` come before the norm.
    `before`: norms before the sublayers, and `after` the layers. `norm`: a norm follows the embedding.
    """
    c.mark_read("position_embedding_type", "classifier_dropout")
    d, decodes = dims(c, kv_key=HEADS), c.flag("is_decoder")
    if c.flag("add_cross_attention"):
        raise c.error("add_cross_attention", "false: the sequence that it attends to is of another model")
    vocab, words = word_embeddings(c, d.width, shared=tied_words(c))
    norms = (layer_norm("embedding_norm", d.width),) if norm else ()
    head = text_head(c, d.width, masked_words(c, d.width)) if head is None else head
    embedding = (*words, position_table(c, d.width), *tables, *norms)
    steps = ("prefill", "decode") if decodes else ("encode",)
    layers = [block or bert_layer(c, d, before=before, decodes=decodes)] * d.layers
    return encoder(c, d.width, layers, embedding=embedding, head=(*after, *head), vocab=vocab, steps=steps)


@complete("bert")
def bert(c: Config) -> Model:
    """BERT (arXiv:1810.04805): norms after sublayers, learned positions and segments."""
    c.mark_read("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers")
    c.mark_read("pooler_size_per_head", "pooler_type")
    return bert_like(c)


@complete("roberta", "xlm-roberta", "camembert", "data2vec-text")
def roberta(c: Config) -> Model:
    """RoBERTa (arXiv:1907.11692): BERT whose classifiers read the first token through a product of their own."""
    return bert_like(c, roberta_head(c, c.size("hidden_size")))


def roberta_head(c: Config, width: int) -> Modules:
    """Heads of RoBERTa: classifiers have a product and tanh before the classes, and always GELU before words."""
    read = at_one(acted("classes", width, width))
    return text_head(c, width, masked_words(c, width, act="gelu"), classes=read)


@complete("roberta-prelayernorm")
def roberta_prelayernorm(c: Config) -> Model:
    """RoBERTa with norms before sublayers (arXiv:1904.01038)."""
    width = c.size("hidden_size")
    return bert_like(c, roberta_head(c, width), before=True, after=(layer_norm("final_norm", width),))


@complete("xlm-roberta-xl")
def xlm_roberta_xl(c: Config) -> Model:
    """XLM-R XL (arXiv:2105.00572): XLM-R with norms before sublayers and none behind the embedding."""
    width = c.size("hidden_size")
    return bert_like(c, roberta_head(c, width), before=True, after=(layer_norm("final_norm", width),), norm=False)


@complete("megatron-bert")
def megatron_bert(c: Config) -> Model:
    """Megatron-LM's BERT (arXiv:1909.08053): norms before sublayers and none behind the embedding."""
    return bert_like(c, before=True, after=(layer_norm("final_norm", c.size("hidden_size")),), norm=False)


@complete("ernie")
def ernie_2(c: Config) -> Model:
    """ERNIE 2.0 (arXiv:1907.12412): BERT, with a table of tasks where the config uses one."""
    width, rows = c.size("hidden_size"), c.size("task_type_vocab_size", 3)
    table = Embedding(name="task_embedding", rows=rows, width=width)
    return bert_like(c, tables=(table,) if c.flag("use_task_id") else ())


@complete("layoutlm")
def layoutlm(c: Config) -> Model:
    """LayoutLM (arXiv:1912.13318): BERT with tables of the corners, heights and widths of each word's box."""
    width, rows = c.size("hidden_size"), c.size("max_2d_position_embeddings", 1024)
    sides = ("x", "y", "height", "width")
    tables = tuple(Embedding(name=f"{side}_embedding", rows=rows, width=width) for side in sides)
    return bert_like(c, text_head(c, width, masked_words(c, width), always=True), tables=tables)


@complete("rembert")
def rembert(c: Config) -> Model:
    """RemBERT (arXiv:2010.12821): a narrow table of words, and a wider one of the head that is not tied to it."""
    d, embed, out = dims(c, kv_key=HEADS), c.size("input_embedding_size", 256), c.size("output_embedding_size", 1664)
    vocab, words = word_embeddings(c, embed)
    tables = (*words, position_table(c, embed), layer_norm("embedding_norm", embed))
    c.mark_read("tie_word_embeddings")
    untied = masked_words(c.with_values(tie_word_embeddings=False), d.width, out, twice=False)
    head = text_head(c, d.width, untied)
    embedding = (*tables, dense("embedding_proj", embed, d.width))
    return encoder(c, d.width, [bert_layer(c, d)] * d.layers, embedding=embedding, head=head, vocab=vocab)


@complete("dpr")
def dpr(c: Config) -> Model:
    """DPR (arXiv:2004.04906): BERT whose output is the first token, projected where the config says so."""
    width, out = c.size("hidden_size"), c.size("projection_dim", 0, least=0)
    if c.architecture.endswith("Reader"):
        head: Modules = (dense("answers", width, 2), *at_one((dense("relevance", width, 1),)))
    else:
        head = at_one((dense("projection", width, out),)) if out else ()
    return bert_like(c, head)


@complete("splinter")
def splinter(c: Config) -> Model:
    """Splinter (arXiv:2101.00438): BERT without a pooler, whose head compares words with a question's token."""
    width = c.size("hidden_size")
    c.mark_read("question_token_id")
    if c.architecture.endswith(("ForQuestionAnswering", "ForPreTraining")):
        raise c.error("architectures", "the base class: the head's work depends on the questions in the text")
    return bert_like(c, text_head(c, width, (), pooler=()))


@complete("electra")
def electra(c: Config) -> Model:
    """ELECTRA (arXiv:2003.10555): BERT whose tables may be narrower, without a pooler."""
    d, embed = dims(c, kv_key=HEADS), c.size("embedding_size", 128)
    act = activation(c, default="gelu")
    vocab, words = word_embeddings(c, embed, shared=tied_words(c))
    tables = (*words, position_table(c, embed), layer_norm("embedding_norm", embed))
    wider = (dense("embedding_proj", embed, d.width),) if embed != d.width else ()
    if c.architecture.endswith("ForPreTraining"):
        head: Modules = (*acted("discriminator", d.width, d.width, act), dense("original", d.width, 1))
    else:
        read = at_one(acted("classes", d.width, d.width, "gelu"))
        head = text_head(c, d.width, masked_words(c, d.width, embed, act="gelu", twice=False), pooler=(), classes=read)
    return encoder(c, d.width, [bert_layer(c, d)] * d.layers, embedding=(*tables, *wider), head=head, vocab=vocab)


@complete("distilbert")
def distilbert(c: Config) -> Model:
    """DistilBERT (arXiv:1910.01108): BERT without segments and pooler."""
    c = c.with_values(intermediate_size=c.size("hidden_dim", 3072), hidden_size=c.size("dim|hidden_size", 768))
    c.mark_read("sinusoidal_pos_embds", "tie_weights_", "qa_dropout", "seq_classif_dropout")
    d, act = dims(c, kv_key=HEADS), activation(c, "activation", "gelu")
    vocab, words = word_embeddings(c, d.width, shared=tied_words(c), types=False)
    read = at_one(acted("classes", d.width, d.width, "relu"))
    head = text_head(c, d.width, masked_words(c, d.width, act=act, twice=False), pooler=(), classes=read)
    embedding = (*words, position_table(c, d.width), layer_norm("embedding_norm", d.width))
    block = bert_layer(c.with_values(hidden_act=act), d)
    return encoder(c, d.width, [block] * d.layers, embedding=embedding, head=head, vocab=vocab)


@complete("mpnet")
def mpnet(c: Config) -> Model:
    """MPNet (arXiv:2004.09297): RoBERTa without segments; all layers share a table of relative positions."""
    width, heads = c.size("hidden_size"), c.size("num_attention_heads")
    rows = c.size("relative_attention_num_buckets", 32)
    table = Learned(name="relative_positions", width=heads, rows=rows, applied=False)
    return bert_like(c.with_values(type_vocab_size=0), roberta_head(c, width), tables=(table,))


@complete("albert")
def albert(c: Config) -> Model:
    """ALBERT (arXiv:1909.11942): narrow tables, and groups of layers that run again with the same weights."""
    d, embed = dims(c, kv_key=HEADS), c.size("embedding_size", 128)
    groups, inner = c.size("num_hidden_groups", 1), c.size("inner_group_num", 1)
    c.mark_read("classifier_dropout_prob", "down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks")
    vocab, words = word_embeddings(c, embed, shared=tied_words(c))
    wider = (layer_norm("embedding_norm", embed), dense("embedding_proj", embed, d.width))
    block = bert_layer(c, d)
    repeated = Block("again", again(block.modules))
    layers = [_first(i, groups, d.layers) for i in range(d.layers)]
    head = text_head(c, d.width, masked_words(c, d.width, embed))
    blocks = [block if first else repeated for first in layers for _ in range(inner)]
    return encoder(
        c, d.width, blocks, embedding=(*words, position_table(c, embed), *wider), head=head, vocab=vocab
    )  # fmt: skip


def _first(i: int, groups: int, layers: int) -> bool:
    """Whether layer i is the first of its group."""
    return i == 0 or int(i * groups / layers) != int((i - 1) * groups / layers)
