"""Heads of encoders of text, by the task that `architectures` names: words, classes, answers, a pooled output."""

from __future__ import annotations

from dataclasses import replace

from roofline.model.configs.config import Config
from roofline.model.families.blocks.encoders import at_one
from roofline.model.families.blocks.feed_forward import activation
from roofline.model.families.blocks.norms import MakeNorm, layer_norm
from roofline.model.heads import label_count
from roofline.model.modules import Activation, Learned, Linear, Module, Modules

WORDS = ("ForMaskedLM", "LMHeadModel", "ForCausalLM", "ForPreTraining")
"""Endings of the classes whose head multiplies by the vocabulary."""


def dense(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Linear:
    """A product beside the layers, with a bias."""
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias, part="other")


def acted(name: str, inputs: int, outputs: int, function: str = "tanh", *, bias: bool = True) -> Modules:
    """A product and the activation behind it."""
    return (
        dense(name, inputs, outputs, bias=bias),
        Activation(name=f"{name}_act", width=outputs, function=function, gated=False),
    )


def writes_words(c: Config) -> bool:
    """Whether the head multiplies by the vocabulary."""
    return c.architecture.endswith(WORDS)


def tied_words(c: Config, default: bool = True) -> bool:
    """Whether the head shares the table of words: where there is such a head and the config ties them."""
    shared = c.flag("tie_word_embeddings", default)
    return shared and writes_words(c)


def vocabulary_product(c: Config, width: int, *, bias: bool = True, tied: bool = True) -> Linear:
    """The product with the vocabulary, whose weights are the table of words where the config ties them."""
    vocab, shared = c.size("vocab_size", most=2**28), c.flag("tie_word_embeddings", tied)
    return Linear(name="lm_head", inputs=width, outputs=vocab, bias=bias, part="head", tied=shared, cut="columns")


def masked_words(
    c: Config,
    width: int,
    embed: int | None = None,
    *,
    act: str = "",
    norm: MakeNorm = layer_norm,
    twice: bool = True,
    tied: bool = True,
) -> Modules:
    """BERT's head of masked words: a product to the width of the table, an activation, a norm, the vocabulary.

    `twice`: where the head has a table of its own, the published code has a second bias that is not used.
    """
    table, shared = embed or width, c.flag("tie_word_embeddings", tied)
    words = vocabulary_product(c, table, tied=tied)
    _, acts = acted("head_proj", width, table, act or activation(c, default="gelu"))
    product = Linear(name="head_proj", inputs=width, outputs=table, bias=True, part="head")
    spare = (Learned(name="unused_bias", width=1, rows=words.outputs, applied=False),)
    return (
        product,
        acts,
        norm("head_norm", table),
        words,
        *(() if shared or not twice else spare),
    )


def text_head(
    c: Config, width: int, words: Modules, *, pooler: Modules | None = None, classes: Modules | None = None,
    read: Modules = (), always: bool = False, choices: Modules | None = None,
) -> Modules:  # fmt: skip
    """The head of the class in `architectures`; without one, or for the base class, the pooler.

    `words`: head of masked words. `pooler`: what reads the first token, a product and tanh if not given. `classes`:
    what a classifier has before its last product, the pooler if not given. `read`: the same of
    one that marks tokens or answers. `always`: the published code pools before other heads as well. `choices`: what
    one that chooses among texts has, the pooler or what a classifier has if not given.
    """
    name = c.architecture
    pooler = at_one(acted("pooler", width, width)) if pooler is None else pooler
    classes = pooler if classes is None else classes
    before = pooler if always else ()
    if name.endswith("ForPreTraining"):
        return (*pooler, *at_one((dense("pair_classifier", width, 2),)), *words)
    if name.endswith(WORDS):
        return (*before, *words)
    if name.endswith("ForNextSentencePrediction"):
        return (*pooler, *at_one((dense("pair_classifier", width, 2),)))
    if name.endswith("ForSequenceClassification"):
        return (*classes, *at_one((dense("classifier", _width(classes, width), label_count(c)),)))
    if name.endswith("ForMultipleChoice"):
        chosen = (pooler or classes) if choices is None else choices
        return (*chosen, *at_one((dense("classifier", _width(chosen, width), 1),)))
    if name.endswith("ForTokenClassification"):
        return (*before, *read, dense("classifier", width, label_count(c)))
    if name.endswith(("ForQuestionAnswering", "ForQuestionAnsweringSimple")):
        return (*before, *read, dense("answers", _width(read, width), label_count(c)))
    return pooler


def _width(modules: Modules, width: int) -> int:
    """Width that the modules leave."""
    outputs = [m.outputs for m in modules if isinstance(m, Linear)]
    return outputs[-1] if outputs else width


def unused(modules: tuple[Module, ...]) -> Modules:
    """Modules that a class has and a pass over text does not run."""
    return tuple(replace(m, idle=True) for m in modules)
