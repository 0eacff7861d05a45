"""The Model: embedding, layers of modules, head; pure data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from roofline.declared.caching import remembered
from roofline.declared.errors import InputError, nearest
from roofline.declared.numbers.maths import Count, ceil_div, least
from roofline.model.media.images import IMAGES, ImageRule, Images, ImageTokens, image_tokens
from roofline.model.media.sound import SOUND, SoundRule
from roofline.model.modules import (
    DISTANCES,
    PARTS,
    Attention,
    Conv,
    Delay,
    ExpertLinear,
    Experts,
    Module,
    Part,
    TokenShift,
)
from roofline.model.precision import Precision, part_of

if TYPE_CHECKING:
    from roofline.model.configs.config import Inputs

SOURCE = "source"
"""The stream of the sequence that an encoder reads for a decoder."""
DEEPSTACK = "deepstack"
"""Name of a tower's blocks that yield an embedding for a layer of the decoder (arXiv:2406.04334)."""
_LAST_INPUTS = (Conv, TokenShift, Delay)
"""Modules whose state is their last few inputs."""


@dataclass(frozen=True)
class Block:
    """Modules of one layer, in the order they run. Equal layers are equal blocks."""

    name: str
    modules: tuple[Module, ...]

    @cached_property
    def parameters(self) -> int:
        return sum(m.parameters for m in self.modules)

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.modules))

    def __hash__(self) -> int:
        return self._hash

    def __post_init__(self) -> None:
        twice = [n for n, c in Counter(m.name for m in self.modules).items() if c > 1]
        if twice:
            raise ValueError(f"block {self.name}: more than one module named {twice[0]}")


@dataclass(frozen=True)
class Tower:
    """A part of a model that reads inputs of its own: images, sound, or the sequence that a decoder attends to.

    `stream`: the name of these inputs in a step; every module of the tower has it. `hidden`: width of its layers.
    `positions`: number of positions of one input, where the config fixes it. `counted`: the blocks that one
    rank holds, each with its number of layers.
    """

    name: str
    stream: str
    hidden: int
    layers: tuple[Block, ...]
    positions: int | None = None
    counted: tuple[tuple[Block, int], ...] = ()

    @cached_property
    def blocks(self) -> tuple[tuple[Block, int], ...]:
        """Distinct blocks in order of first use, each with its number of layers; a rank's shares of them."""
        return self.counted or tuple(Counter(self.layers).items())

    @cached_property
    def parameters(self) -> int:
        return sum(n * block.parameters for block, n in self.blocks)

    @cached_property
    def idle(self) -> bool:
        """Whether no step runs any of it: what makes speech or an image of an answer, beside a model of text."""
        return all(m.idle for block in self.layers for m in block.modules)


@dataclass(frozen=True, repr=False)
class Model:
    """A transformer.

    `layers` holds a block for each layer, first to last. `context`: longest sequence that the config allows, in tokens.
    `warnings`: one for each config key that was not understood. `not_counted`: other parts of the model (a vision
    tower, draft layers). `drafts`: multi-token-prediction layers, which a plain step does not run. `images`: rule for
    the tokens of images, where the config determines it; `sound`: for those of a recording. `towers`: parts that read
    other inputs than tokens, in the order they run. `steps`: the steps that the model has: a decoder's prefill and
    decode, an encoder's encode, a denoiser's denoise; none where its weights alone are known, and why is in
    `not_counted`. `positions`: number of positions of one input of an encoder or denoiser, where it is fixed.
    `rebuilt`: builds the model again from its config, for inputs of other sizes.
    """

    name: str
    model_type: str
    vocab: int
    hidden: int
    embedding: tuple[Module, ...]
    layers: tuple[Block, ...]
    head: tuple[Module, ...]
    precision: Precision
    context: int | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)
    not_counted: tuple[str, ...] = field(default=(), compare=False)
    drafts: tuple[Block, ...] = ()
    images: ImageRule | None = field(default=None, compare=False)
    sound: SoundRule | None = field(default=None, compare=False, repr=False)
    towers: tuple[Tower, ...] = ()
    steps: tuple[str, ...] = ("prefill", "decode")
    positions: int | None = None
    rebuilt: Callable[[Inputs], Model] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", _told_apart(self.layers))

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.model_type, self.vocab, self.hidden, len(self.layers), self.precision))

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        """A one-line summary, since all blocks and modules would fill screens."""
        return (
            f"{type(self).__name__}({self.name!r}, model_type={self.model_type!r}, layers={len(self.layers)}, "
            f"hidden={self.hidden}, vocab={self.vocab}, parameters={self.parameters}, context={self.context})"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        from html import escape  # loaded by notebooks

        facts = {
            "type": self.model_type,
            "parameters": f"{self.parameters:,}",
            "weights": f"{self.weight_bytes():,} B ({self.precision.text()})",
            "KV cache": f"{self.kv_bytes(1):,} B for one token",
            "layers, hidden, vocabulary": f"{len(self.layers):,}, {self.hidden:,}, {self.vocab:,}",
            "context": "not stated" if self.context is None else f"{self.context:,} tokens",
        }
        rows = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
        return f"<table><caption>{escape(self.name)}</caption>{rows}</table>"

    def plain(self) -> str:
        """Name of the model in results."""
        return self.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of sizes that are arrays, for a rank of many layouts at once; () for plain sizes."""
        return ()

    @property
    def layout_text(self) -> str:
        """Description of the layout of which this is one rank; "" for a whole model."""
        return ""

    @property
    def resident(self) -> tuple[Model, ...]:
        """The distinct models that chips hold: this model, or each stage of a pipeline."""
        return (self,)

    @cached_property
    def blocks(self) -> tuple[tuple[Block, int], ...]:
        """Distinct blocks in order of first use, each with its number of layers."""
        return tuple(Counter(self.layers).items())

    def placed(self) -> Iterator[tuple[str, Module, int]]:
        """Place of every module (a tower's or the model's block, embedding, head), the module, its number of layers."""
        for tower in self.towers:
            yield from ((f"{tower.name} {block.name}", m, n) for block, n in tower.blocks for m in block.modules)
        yield from (("embedding", m, 1) for m in self.embedding)
        yield from ((block.name, m, n) for block, n in self.blocks for m in block.modules)
        yield from (("head", m, 1) for m in self.head)

    def modules(self) -> Iterator[tuple[Module, int]]:
        """Every module with the number of times it occurs, embedding first and head last."""
        return ((m, n) for _, m, n in self.placed())

    @cached_property
    def parameters(self) -> int:
        """Number of parameters, counting a tied head once; equals that of the published code exactly."""
        return sum(n * m.parameters for m, n in self.modules())

    @cached_property
    def reads_distances(self) -> bool:
        """Whether modules run over the distances between tokens, once a pass."""
        return any(m.stream == DISTANCES for m, _ in self.modules())

    @cached_property
    def active_parameters(self) -> int:
        """Parameters used for one token of text: all but those of routed experts not chosen, idle modules and towers.

        parameters − Σ (experts − top_k)·(parameters of one expert), where some of the top_k may fall on experts without
        weights. The whole embedding table counts.

        Raises InputError where the config leaves out the experts per token.
        """
        idle = 0
        for module, n in self.modules():
            if module.idle or module.stream not in ("", SOURCE):
                idle += n * module.parameters
            elif isinstance(module, Experts):
                idle += n * (module.experts * module.each - int(module.routed(chosen(module) * module.each)))
            elif isinstance(module, ExpertLinear):
                idle += n * (module.experts - chosen(module)) * module.each
        return self.parameters - idle

    def sized(self, inputs: Inputs) -> Model:
        """The model for inputs of other sizes than those of its config. Raises InputError without a config."""
        if self.rebuilt is None:
            raise InputError("model", self.name, "a model that was loaded from a config, for inputs of other sizes")
        return self.rebuilt(inputs)

    def reads(self, stream: str) -> bool:
        """Whether a tower reads this stream."""
        return any(tower.stream == stream for tower in self.towers)

    def seen(self, images: Images | None) -> ImageTokens | None:
        """Tokens of a request's images and sound, and what towers read of them; None without any.

        Of the model that `hearing` gives. Raises InputError where the model does not state how they become tokens.
        """
        if images is None:
            return None
        heard = self.sound(images.audio) if images.audio and self.sound is not None else None
        positions = [tower.positions for tower in self.towers if tower.stream == SOUND]
        hears = 0 if heard is None or not positions else positions[0] or heard.tokens
        return image_tokens(self.images, self.name, images, self.reads(IMAGES), heard, hears)

    def hearing(self, images: Images | None) -> Model:
        """The model whose audio tower reads recordings as long as those of a request; itself where they have none."""
        if images is None or not images.audio or self.sound is None or not self.reads(SOUND):
            return self
        sizes = self.sound(images.audio).sizes
        return self if sizes == type(sizes)() or self.rebuilt is None else _hearing(self, sizes)

    def language(self) -> Model:
        """The model without its towers of images and sound, which is all that text meets."""
        read = tuple(tower for tower in self.towers if tower.stream == SOURCE)
        return self if read == self.towers else replace(self, towers=read)

    def encoders(self) -> Model:
        """The towers of images and sound alone, which encode what a request has beside its text.

        Raises InputError for a model without such towers.
        """
        read = tuple(tower for tower in self.towers if tower.stream != SOURCE and not tower.idle)
        if not read:
            raise InputError("encoders", self.name, "a model with a tower of images or sound that is counted")
        return replace(self, embedding=(), layers=(), head=(), drafts=(), towers=read)

    def embedded(self, seen: ImageTokens) -> int:
        """Values of the embeddings of what a request has: for each token as many as the decoder is wide.

        Towers with blocks of DeepStack yield as many again for each of these.
        """
        return self.hidden * sum(
            part.number * part.tokens * (1 + sum(
                n for t in self.towers if t.stream == part.stream for b, n in t.blocks if b.name == DEEPSTACK
            ))
            for part in seen.encoded
        )  # fmt: skip

    def alone(self, stream: str) -> Model:
        """The towers of a stream as a model of their own, which encodes what they read: an encoder, a vision tower.

        Raises InputError for a stream that no tower reads.
        """
        read = [tower for tower in self.towers if tower.stream == stream]
        if not read:
            streams = list(dict.fromkeys(tower.stream for tower in self.towers))
            raise InputError("stream", stream, "what a tower of this model reads", nearest(stream, streams) or streams)
        blocks = [
            Block(block.name, tuple(replace(m, stream="") for m in block.modules)) for t in read for block in t.layers
        ]
        return replace(
            self, name=f"{self.name} {read[0].name}", embedding=(), layers=tuple(blocks), head=(), drafts=(), towers=(),
            hidden=read[0].hidden, steps=("encode",), positions=read[0].positions, vocab=0, context=None,
        )  # fmt: skip

    @cached_property
    def served(self) -> Model:
        """The model that servers load: without towers that no answer in text runs, though the checkpoint holds them."""
        kept = tuple(tower for tower in self.towers if not tower.idle)
        return self if len(kept) == len(self.towers) else replace(self, towers=kept)

    def parameters_by_tower(self) -> dict[str, int]:
        """Parameters of each tower by its name, and of the rest under ""; towers of one name are summed."""
        sums: dict[str, int] = {}
        for tower in self.towers:
            sums[tower.name] = sums.get(tower.name, 0) + tower.parameters
        return {**sums, "": self.parameters - sum(sums.values())}

    @cached_property
    def parts(self) -> dict[str, int]:
        """Parameters of each tower by its name, and of what reads the tokens: `text`, or the `decoder` of an encoder.

        Empty for a model without towers.
        """
        beside = "decoder" if any(tower.stream == SOURCE for tower in self.towers) else "text"
        sums = self.parameters_by_tower()
        return {beside: sums.pop(""), **sums} if self.towers else {}

    def parameters_by_part(self) -> dict[Part, int]:
        """Parameters of each part that has any; their sum is `parameters`."""
        sums = dict.fromkeys(PARTS, 0)
        for module, n in self.modules():
            sums[part_of(module)] += n * module.parameters
        return {part: total for part, total in sums.items() if total}

    def kv_elements(self, tokens: Count, ahead: Count = 0, block: int = 1) -> Count:
        """Cached key/value elements of one sequence of `tokens`; windowed layers keep only their window.

        `ahead`, `block`: as in `cached_tokens`.
        """
        total: Count = 0
        for module, n in self.modules():
            width = getattr(module, "cache_width", None)
            if width is None or module.idle:
                continue
            total = total + n * width * cached_tokens(module, tokens, ahead, block)
        return total

    def kv_bytes(self, tokens: Count, precision: Precision | None = None) -> Count:
        """KV cache of one sequence of `tokens` tokens, bytes.

        Σ over layers of kept tokens · elements per token · bytes of the cache format. A sliding or chunked layer keeps
        min(tokens, window). Recurrent state is not part of the KV cache: see `state_bytes`.
        """
        return (precision or self.precision).kv.bytes(self.kv_elements(whole_tokens(tokens)))

    def state_bytes(self, precision: Precision | None = None) -> Count:
        """Recurrent state of one sequence, bytes; independent of its length.

        The state of a scan is in the format `state`, the last inputs of a convolution or token shift in that of
        activations.
        """
        formats = precision or self.precision
        return sum(n * stored_state(m, formats) for m, n in self.modules())

    def weight_bytes(self, precision: Precision | None = None) -> Count:
        """Weights as stored, group scales included, bytes; a tied table counts once."""
        precision = precision or self.precision
        return sum(n * precision.weight_bytes(m) for m, n in self.modules())


@remembered(64)
def _hearing(model: Model, sizes: Inputs) -> Model:
    """The model with the audio towers of another size; all else stays as it is."""
    again = iter([tower for tower in model.sized(sizes).towers if tower.stream == SOUND and not tower.idle])
    heard = (next(again) if tower.stream == SOUND and not tower.idle else tower for tower in model.towers)
    return replace(model, towers=tuple(heard))


def _told_apart(layers: tuple[Block, ...]) -> tuple[Block, ...]:
    """The layers with equal blocks made identical, and different blocks of one name renamed: `dense 2`.

    Code that counts layers can then compare blocks by identity, without comparing their modules.
    """
    known: dict[str, list[tuple[Block, Block]]] = {}
    standing: dict[int, Block] = {}
    for block in {id(b): b for b in layers}.values():
        alike = known.setdefault(block.name, [])
        named = next((named for other, named in alike if other == block), None)
        if named is None:
            named = replace(block, name=f"{block.name} {len(alike) + 1}") if alike else block
            alike.append((block, named))
        standing[id(block)] = named
    return tuple(standing[id(b)] for b in layers)


def stored_state(module: Module, precision: Precision) -> Count:
    """State of one sequence in one module, bytes: recurrent, or keys and values of an encoder's output; 0 without."""
    fmt = precision.activations if isinstance(module, _LAST_INPUTS) else precision.state
    return (precision.kv if isinstance(module, Attention) else fmt).bytes(getattr(module, "state", 0))


def cached_tokens(module: Module, tokens: Count, ahead: Count = 0, block: int = 1) -> Count:
    """Number of tokens that a module caches of a sequence of `tokens`: at most its window or chunk.

    `ahead`: new tokens of a step for which there is room besides the window. `block`: the limit is rounded up to a
    multiple of it.
    """
    limit = getattr(module, "window", None) or getattr(module, "chunk", None)
    return tokens if limit is None else least(tokens, ceil_div(limit + ahead, block) * block)


def chosen(experts: Experts | ExpertLinear) -> int:
    """Experts per token. Raises InputError where the config does not say."""
    if experts.top_k is None:
        raise InputError("num_experts_per_tok", None, "the number of experts per token, for this model's work")
    return experts.top_k


def whole_tokens(tokens: Count) -> Count:
    """`tokens` as an exact int, an integer array or a symbol. Raises InputError for anything else."""
    from roofline.declared.checks import count

    return count("tokens", tokens)


def with_modules(model: Model, turn: Callable[[Module], Module]) -> Model:
    """The model with `turn` applied to every module."""
    embedding, head = tuple(map(turn, model.embedding)), tuple(map(turn, model.head))
    return replace(with_blocks(model, lambda b: map(turn, b.modules)), embedding=embedding, head=head)


def with_blocks(model: Model, turn: Callable[[Block], Iterable[Module]]) -> Model:
    """The model with `turn` applied to every block."""
    blocks = {b: Block(b.name, tuple(turn(b))) for b, _ in model.blocks}
    return replace(model, layers=tuple(blocks[b] for b in model.layers))
