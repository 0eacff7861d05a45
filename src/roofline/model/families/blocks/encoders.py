"""Encoders and towers: layers that see all of their input, patches, pooled outputs, and the model around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from roofline.model.checkpoints.quantization.methods import stored_precision
from roofline.model.configs.config import Config
from roofline.model.families.blocks.sizes import context_length
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Convolution, Embedding, Linear, Module, Modules, Pace


def encoder(
    c: Config,
    width: int,
    layers: Iterable[Block],
    *,
    embedding: Modules,
    head: Modules = (),
    vocab: int = 0,
    positions: int | None = None,
    steps: tuple[str, ...] = ("encode",),
) -> Model:
    """A model that reads an input as a whole: `embedding`, the layers, `head`.

    `positions`: number of positions of an input, where the config fixes it (an image, a spectrogram).
    """
    return Model(
        name=c.text("_name_or_path", "") or c.text("model_type", "model"),
        model_type=c.text("model_type", "model"),
        vocab=vocab,
        hidden=width,
        embedding=embedding,
        layers=tuple(layers),
        head=head,
        precision=stored_precision(c),
        context=context_length(c) if positions is None else None,
        steps=steps,
        positions=positions,
    )


def tower(
    name: str,
    stream: str,
    width: int,
    blocks: Iterable[Block],
    positions: int | None = None,
    *,
    quantised: bool = False,
) -> Tower:
    """A tower of blocks, `width` wide, that reads `stream`.

    Its weights stay in the checkpoint's own format, as engines and quantisers leave them in towers, unless `quantised`.
    """
    layers = tuple(blocks)
    streamed = {id(block): _streamed(block, stream, quantised) for block in layers}
    return Tower(name, stream, width, tuple(streamed[id(block)] for block in layers), positions)


def _streamed(block: Block, stream: str, quantised: bool) -> Block:
    def placed(m: Module) -> Module:
        if isinstance(m, (Linear, Convolution)) and not quantised and m.part != "router":
            return replace(m, part="other", stream=stream)
        return replace(m, stream=stream)

    return Block(block.name, tuple(placed(m) for m in block.modules))


def at(positions: int, modules: Iterable[Module], runs: int = 1) -> Modules:
    """The modules over a fixed number of positions of each input, in each of `runs` pieces."""
    return tuple(replace(m, positions=positions, runs=runs) for m in modules)


def paced(modules: Iterable[Module], pace: Pace) -> Modules:
    """The modules over positions that follow from the length of each input."""
    return tuple(replace(m, pace=pace) for m in modules)


def at_one(modules: Iterable[Module]) -> Modules:
    """The modules at one position of each input: what reads a class token or a mean."""
    return at(1, modules)


def patch_embedding(name: str, channels: int, patch: int, width: int, *, bias: bool = True) -> Linear:
    """Patches of `patch` values (the product of their sides) as a product: a convolution whose stride is its kernel."""
    return Linear(name=name, inputs=channels * patch, outputs=width, bias=bias, part="other")


def word_embeddings(c: Config, width: int, *, shared: bool = False, types: bool = True) -> tuple[int, list[Module]]:
    """Vocabulary, and the tables of BERT's kind: words, and types of segments where the config has any."""
    vocab = c.size("vocab_size", most=2**28)
    tables: list[Module] = [Embedding(name="embedding", rows=vocab, width=width, shared=shared)]
    if types and (rows := c.size("type_vocab_size", 2, least=0)):
        tables.append(Embedding(name="type_embedding", rows=rows, width=width))
    return vocab, tables
