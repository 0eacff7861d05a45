"""An encoder and a decoder of two configs, joined: what reads text or speech, and a decoder of BERT's kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from roofline.model.checkpoints.quantization.methods import stored_precision
from roofline.model.configs.config import Config
from roofline.model.families.blocks.attention import cross_attention
from roofline.model.families.blocks.encoders import tower
from roofline.model.families.blocks.norms import layer_norm
from roofline.model.families.blocks.sizes import HEADS, dims
from roofline.model.families.blocks.text_heads import dense
from roofline.model.families.decoders.dense.gpt import gptj
from roofline.model.families.registry import WHOLES, complete
from roofline.model.model import Block, Model
from roofline.model.modules import Add, Attention, Module, Modules

DECODERS = ("bert", "roberta", "xlm-roberta", "camembert", "ernie", "bert-generation")
"""Decoders that attend to an encoder's output: those whose layers are BERT's."""


@complete("speech-encoder-decoder", "encoder-decoder")
def encoder_and_decoder(c: Config) -> Model:
    """An encoder and a decoder of two configs (arXiv:1907.12461)."""
    c.mark_read("model_type", "is_encoder_decoder", "tie_word_embeddings", "decoder_start_token_id")
    source, target = (_part(c, side) for side in ("encoder", "decoder"))
    if target.kind not in DECODERS:
        raise target.error("model_type", "a decoder of BERT's kind", DECODERS)
    attends = target.flag("add_cross_attention", False)
    read = WHOLES[source.kind](source)
    names = {"architectures": ["BertGenerationDecoder" if target.kind == "bert-generation" else "BertLMHeadModel"]}
    written = WHOLES[target.kind](target.with_values(**names, add_cross_attention=False))
    blocks = [Block("front", read.embedding), *read.layers, *([Block("end", read.head)] if read.head else ())]
    joint: Modules = ()
    if read.hidden != written.hidden:
        joint = (replace(dense("joint_proj", read.hidden, written.hidden), stream="source"),)
    d = dims(target, kv_key=HEADS)
    cross = (
        *cross_attention(d, bias=True, fixed=read.positions), layer_norm("cross_post_norm", d.width),
        Add(name="cross_residual", width=d.width),
    )  # fmt: skip
    layers = tuple(_attending(block, cross if attends else ()) for block in written.layers)
    encoder = tower("encoder", "source", read.hidden, blocks, read.positions, quantised=True)
    c.note(*source.leftovers(), *target.leftovers())
    steps = ("encode", "prefill", "decode")
    embedding, kind = (*joint, *written.embedding), c.text("model_type")
    return replace(written, model_type=kind, embedding=embedding, layers=layers, towers=(encoder,), steps=steps)


@complete("codet5p")
def codet5p(c: Config) -> Model:
    """CodeT5+ of 2B, 6B and 16B (arXiv:2305.07922): CodeGen reads, a larger one writes; its last layer attends."""
    c.mark_read("model_type", "is_encoder_decoder", "decoder_start_token_id", "pad_token_id")
    source, target = (replace(c.section(side), kind="codegen").of_kind("codegen") for side in ("encoder", "decoder"))
    read, written = gptj(source), gptj(target)
    end = tuple(m for m in read.head if m.name != "lm_head")
    blocks = [Block("front", read.embedding), *read.layers, Block("end", end)]
    encoder = tower("encoder", "source", read.hidden, _seeing_all(blocks), quantised=True)
    joint: Modules = ()
    if read.hidden != written.hidden:
        joint = (replace(dense("joint_proj", read.hidden, written.hidden), stream="source"),)
    d = dims(target, kv_key="n_head|num_attention_heads")
    cross = (
        layer_norm("cross_norm", d.width), *cross_attention(d, bias=False), Add(name="cross_residual", width=d.width)
    )  # fmt: skip
    *layers, last = written.layers
    attending = Block(last.name, (*last.modules, *cross)) if target.flag("add_cross_attention", True) else last
    c.note(*source.leftovers(), *target.leftovers())
    return replace(
        written, model_type="codet5p", embedding=(*joint, *written.embedding), layers=(*layers, attending),
        towers=(encoder,), steps=("encode", "prefill", "decode"), precision=stored_precision(c),
    )  # fmt: skip


def _seeing_all(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks of an encoder, whose attention has no mask."""
    for block in blocks:
        seen = (replace(m, causal=False) if isinstance(m, Attention) else m for m in block.modules)
        yield Block(block.name, tuple(seen))


def _part(c: Config, name: str) -> Config:
    """The config of a side, as its type reads it."""
    part = c.section(name)
    kind = part.text("model_type")
    if kind not in WHOLES:
        raise part.error("model_type", "an encoder or a decoder that is known", tuple(WHOLES))
    return part.of_kind(kind)


def _attending(block: Block, cross: Modules) -> Block:
    """A layer with attention to the encoder's output behind its own."""
    modules: list[Module] = []
    for module in block.modules:
        modules += [module, *(cross if module.name == "attn_residual" else ())]
    return Block(block.name, tuple(modules))
