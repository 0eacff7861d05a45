"""Encoder-decoders of text: layers with attention to a source, and the model of an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import at, tower
from roofline.model.families.blocks.layers import causal_lm
from roofline.model.families.blocks.norms import MakeNorm
from roofline.model.families.blocks.sizes import Dims
from roofline.model.families.blocks.text_heads import acted, dense
from roofline.model.heads import label_count
from roofline.model.model import SOURCE, Block, Model
from roofline.model.modules import Add, Embedding, Module, Modules


def half_sizes(c: Config, name: str, width: int) -> Dims:
    """Sizes of the `encoder` or the `decoder`."""
    heads = c.size(f"{name}_attention_heads")
    layers = c.size(f"{name}_layers", most=MOST_LAYERS)
    if width % heads:
        raise c.error(f"{name}_attention_heads", f"a divisor of the width, {width}")
    return Dims(layers, width, heads, heads, width // heads)


def sublayers(
    name: str, width: int, parts: Iterable[tuple[str, Modules]], *, norm: MakeNorm, before: bool = True
) -> Block:
    """A layer of residual parts, each with its label and a norm before or after it."""
    modules: list[Module] = []
    for label, inside in parts:
        modules += [norm(f"{label}_norm", width)] if before else []
        modules += inside
        modules.append(Add(name=f"{label}_residual", width=width))
        modules += [] if before else [norm(f"{label}_norm", width)]
    return Block(name, tuple(modules))


def encoder_decoder(
    c: Config, width: int, encoder: Iterable[Block], decoder: Iterable[Block], *, before: Modules = (),
    norm: MakeNorm | None = None, tied: bool = True, source: Embedding | None = None,
) -> Model:  # fmt: skip
    """A model that reads with `encoder` and writes with `decoder`, with the head that `architectures` names.

    `before`: what follows the decoder's table of words. `norm`: the decoder's last. `source`: the encoder's table of
    words, where it is not the decoder's. A class of the encoder alone gives only that.
    """
    c.mark_read("is_encoder_decoder")
    model = causal_lm(c, width, decoder, norm=norm, tied=tied, before=before)
    read = tower("encoder", "source", width, encoder, quantised=True)
    name = c.architecture
    words = model.embedding[0]
    assert isinstance(words, Embedding)
    if name.endswith("EncoderModel"):
        blocks = tuple(Block(b.name, tuple(replace(m, stream="") for m in b.modules)) for b in read.layers)
        table = source or replace(words, shared=False)
        return replace(model, embedding=(table,), layers=blocks, head=(), steps=("encode",))
    kept = tuple(m for m in model.head if m.name != "lm_head")
    lone = replace(words, shared=False)
    if name.endswith("ForSequenceClassification"):
        head = at(1, (*acted("classes", width, width), dense("classifier", width, label_count(c))))
        model = replace(model, embedding=(lone, *model.embedding[1:]), head=(*kept, *head))
    elif name.endswith("ForQuestionAnswering"):
        answers = (dense("answers", width, 2),)
        model = replace(model, embedding=(lone, *model.embedding[1:]), head=(*kept, *answers))
    elif name.endswith("Model") and not name.endswith("MTModel"):
        model = replace(model, embedding=(lone, *model.embedding[1:]), head=kept)
    if source is not None:
        front = Block("words", (replace(source, stream="source"),))
        read = replace(read, layers=(front, *read.layers))
    return replace(model, towers=(read,), steps=("encode", "prefill", "decode"))


def written_alone(model: Model) -> Model:
    """The decoder alone: its attention to an encoder's output has weights, and without an encoder no work."""

    def alone(m: Module) -> Module:
        crosses = m.name.startswith("cross_") or SOURCE in (m.stream, getattr(m, "reads", ""))
        return replace(m, idle=True, stream="") if crosses else m

    layers = tuple(Block(block.name, tuple(map(alone, block.modules))) for block in model.layers)
    return replace(model, layers=layers, towers=(), steps=("prefill", "decode"))
