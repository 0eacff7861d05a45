"""Inference with a model split over tiers: cards, the host's CPU and memory, and a drive for what does not fit.

A step runs on one tier after another. Its time is the sum over tiers of the time of their modules, by each tier's own
law, plus the transfers between tiers:

    t = Σ_tier t(modules on tier) + crossings·(sync + 4·d·tokens / pcie) + streamed / pcie + missing / drive

llama.cpp (`load_tensors` of src/llama-model.cpp; common/arg.cpp): with n layers, `--n-gpu-layers k` puts the last k − 1
layers and the output on cards, `--n-cpu-moe c` leaves the routed experts of the first c layers on the host. The
embedding stays on the host. Cards take layers in proportion to their memory. From 32 tokens on
(`GGML_OP_OFFLOAD_MIN_BATCH`) products of weights on the host run on a card, to which the weights are copied for each
part of 512 tokens. With `--no-kv-offload` attention and its cache are the host's.

Engines for data centres run nothing on the CPU. In every step the card reads the weights of the first layers from host
memory over its link, as vLLM does under `--cpu-offload-gb` (vllm/config; embedding, output and cache stay on the card).
A kernel then takes at least as long as its weights take over the link:

    t = t(all on the card) − t(modules on the host) + max(t(modules on the host), weights / pcie)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.groups import KernelSettings, LawSettings, MachineSettings, StaticBatch
from roofline.declared.kinds import (
    ChipName,
    EngineName,
    MachineNames,
    OneSequences,
    OneTokens,
    Switch,
    Text,
    WholeOrNone,
)
from roofline.declared.numbers.bracketing import adjacent
from roofline.declared.numbers.maths import ceil_div
from roofline.declared.question import group, question
from roofline.declared.result import Figured, Result, Units
from roofline.engines.engine import Engine, engine_named
from roofline.hardware.chip import Chip, figure_named, only_main
from roofline.hardware.named_chip import chip_named
from roofline.inference.deployment import deploy
from roofline.inference.generate import Generation, generation
from roofline.inference.memory.memory import Memory
from roofline.inference.settings import Setup
from roofline.inference.span import NOTHING, Span, exactly, total
from roofline.kernels.target import Mode, mode_named
from roofline.kernels.timing import HOST_LINK
from roofline.layout.shard import untied_ends
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, decoder_of
from roofline.model.model import Block, Model
from roofline.model.modules import Experts, Module
from roofline.model.precision import Precision

STREAMED_FROM = 32
"""New tokens of a step from which weights on the host are copied to a card."""
SYNC_S = 2e-5
"""Seconds to hand a step from one tier to the next, besides its bytes: a synchronisation and two launches."""
LINK_WORST = 1.25
"""Factor by which a link may be slower than its rate: an assumption, since no measured run states its link."""
HOST = "host"


@group
@dataclass(frozen=True)
class Host:
    """The host of the cards: its CPU and memory, and the bytes/s of the link to the cards and of the drive.

    `cache`: the KV cache of all layers, and attention over it, stay on the host.
    """

    cpu: Chip
    pcie: float = HOST_LINK
    drive: float | None = None
    cache: bool = False

    @classmethod
    def asked(
        cls,
        *,
        host: Annotated[ChipName, "The CPU, a name or figures: `peak=2T,bw=80G,mem=64G`."],
        ram: Annotated[Text | None, "Memory of the host: `64GB` (the most that the CPU takes)."] = None,
        ram_bw: Annotated[
            Text | None,
            "Bandwidth of the host's memory, such as `80GB/s` (default: all of its channels are populated).",
        ] = None,
        pcie: Annotated[Text | None, "Copies between host and card: `12GB/s` (25GB/s, PCIe 4.0 of 16 lanes)."] = None,
        drive: Annotated[Text | None, "Reads of the drive that holds what memory does not: `5GB/s`."] = None,
        no_kv_offload: Annotated[
            Switch, "The KV cache and attention to it stay on the host: llama.cpp's --no-kv-offload."
        ] = False,
    ) -> Host:
        """A host from a CPU's name or figures; figures that are given with their units replace its own.

        Raises InputError for what is not understood.
        """
        chip = chip_named(host)
        if ram is not None:
            chip = replace(chip, capacity=figure_named("ram", ram, ("B",)), nominal_capacity=None)
        if ram_bw is not None:
            chip = replace(chip, bandwidth=figure_named("ram_bw", ram_bw, ("B/s",)))
        given = {"pcie": pcie, "drive": drive}
        rates = {n: figure_named(n, text, ("B/s",)) for n, text in given.items() if text is not None}
        return cls(chip, **rates, cache=no_kv_offload)


@group
@dataclass(frozen=True, kw_only=True)
class CardSettings(LawSettings, KernelSettings, MachineSettings):
    """The cards, number formats, engine and timing law of a run with offloading."""

    on: Annotated[MachineNames, "A card, or several of any kinds, which share the layers by their memory."]
    engine: Annotated[
        EngineName | None, "Whose kernels, host time and memory rule (`llama-cpp`); `vllm` streams the host's weights."
    ] = None


@group
@dataclass(frozen=True)
class OffloadBatch(StaticBatch):
    """A static batch: prompts that are answered together."""

    input: Annotated[OneTokens, "Prompt tokens of each."] = 512
    output_tokens: Annotated[OneTokens, "Generated tokens of each."] = 128
    batch: Annotated[OneSequences, "Sequences together."] = 1


USUAL_BATCH = OffloadBatch()


@dataclass(frozen=True)
class Placement:
    """Which modules are on cards. `gpu_layers`: layers counted from the last, the output first. `cpu_experts`: layers,
    counted from the first, whose routed experts stay on the host."""

    gpu_layers: int
    cpu_experts: int = 0


@dataclass(frozen=True)
class Tier(Figured):
    """One tier: what it holds, and its seconds per token.

    `layers`: layers that have a module there. `weights`, `cache`, `buffers`: bytes there, of `capacity`. `missing`:
    bytes of weights that do not fit and are read from the drive. `token`, `prompt`: seconds of the tier's modules.
    """

    FIGURES: ClassVar[Units] = {
        "name": "", "layers": "", "weights": "B", "cache": "B", "buffers": "B", "needed": "B", "capacity": "B",
        "missing": "B", "fits": "", "prompt": "s", "token": "s",
    }  # fmt: skip

    name: str
    layers: int
    weights: float
    cache: float
    buffers: float
    capacity: float
    missing: float
    fits: bool
    prompt: Span
    token: Span

    @property
    def needed(self) -> float:
        """Bytes needed on this tier: weights, cache and buffers."""
        return self.weights + self.cache + self.buffers


@dataclass(frozen=True, repr=False)
class Offload(Result):
    """A static batch of a model whose modules are split over several tiers.

    `chosen`: the placement was searched for, not given. `crossing`: seconds per token for transfers between tiers.
    `streamed`: bytes that the prompt copies, or the card reads, from the host.
    """

    SCHEMA: ClassVar[str] = "roofline.offload/1"
    FIGURES: ClassVar[Units] = {
        "model": "", "engine": "", "formats": "", "batch": "", "input": "", "output": "", "layers": "",
        "gpu_layers": "", "cpu_experts": "", "host_cache": "", "chosen": "", "ttft": "s", "tpot": "s",
        "tokens_per_second": "tokens/s", "crossing": "s", "streamed": "B", "fits": "", "tiers": "",
    }  # fmt: skip

    model: Model
    engine: Engine
    formats: Precision
    load: OffloadBatch
    layers: int
    gpu_layers: int
    cpu_experts: int
    host_cache: bool
    chosen: bool
    ttft: Span
    tpot: Span
    crossing: float
    streamed: float
    tiers: tuple[Tier, ...]

    @property
    def batch(self) -> int:
        """Sequences in the batch."""
        return self.load.batch

    @property
    def input(self) -> int:
        """Prompt tokens of each."""
        return self.load.input

    @property
    def output(self) -> int:
        """Generated tokens of each."""
        return self.load.output_tokens

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens of all sequences while they are generated: batch / TPOT; batch / TTFT of one token alone."""
        each = self.tpot if self.output > 1 else self.ttft
        return self.batch / float(each.expected)

    @property
    def fits(self) -> bool:
        """Whether every tier, including the drive, holds its modules."""
        return all(tier.fits for tier in self.tiers)


@dataclass(frozen=True)
class _Share:
    """The part of a model on one tier: the chip, its modules, and the number of layers that they belong to."""

    name: str
    chip: Chip
    model: Model
    layers: int


@dataclass(frozen=True)
class _Asked:
    """Validated inputs of `offload`."""

    model: Model
    formats: Precision
    cards: tuple[Chip, ...]
    host: Host
    engine: Engine
    law: Mode
    load: OffloadBatch

    @cached_property
    def layers(self) -> int:
        """Layers of the model."""
        return len(self.model.layers)

    @cached_property
    def sparse(self) -> bool:
        """Whether it has routed experts."""
        return any(isinstance(module, Experts) for module, _ in self.model.modules())

    def setup(self, chip: Chip, model: Model) -> Setup:
        """The setup of a part of the model on a chip."""
        engine = self.engine.on(chip)
        return Setup(model, deploy(chip), engine.running(self.formats, chip), engine, self.law)

    def run(self, chip: Chip, model: Model) -> Generation:
        """Prefill and decode of a part of the model on its chip."""
        return generation(self.setup(chip, model), self.load)

    def on_host(self, placed: Placement, layer: int, module: Module) -> bool:
        """Whether a module's weights, and its cache if it has one, are on the host."""
        cached = getattr(module, "cache_width", 0) > 0
        if cached and not self.engine.hosts:
            return False
        apart = layer < placed.cpu_experts and isinstance(module, Experts)
        return layer <= self.layers - placed.gpu_layers or apart or (self.host.cache and cached)

    def shares(self, placed: Placement) -> Iterator[_Share]:
        """The tiers of a placement: cards in order, then the host."""
        first = self.layers + 1 - placed.gpu_layers

        def on_host(layer: int, module: Module) -> bool:
            return self.on_host(placed, layer, module)

        ends = _cuts([chip.capacity for chip in self.cards], placed.gpu_layers)
        for number, (chip, (start, end)) in enumerate(zip(self.cards, ends, strict=True)):
            mine = range(first + start if self.engine.hosts else 0, min(first + end, self.layers))
            output = end == placed.gpu_layers and start < end

            def keep(layer: int, module: Module, mine: range = mine) -> bool:
                return layer in mine and not on_host(layer, module)

            name = f"card {number + 1}" if len(self.cards) > 1 else "card"
            yield self._share(name, chip, keep, embedding=not self.engine.hosts, head=output or not self.engine.hosts)
        alone = placed.gpu_layers == 0
        yield self._share(HOST, self.host.cpu, on_host, embedding=self.engine.hosts, head=alone and self.engine.hosts)

    def _share(
        self, name: str, chip: Chip, keep: Callable[[int, Module], bool], embedding: bool = False, head: bool = False
    ) -> _Share:
        blocks = (
            Block(block.name, tuple(m for m in block.modules if keep(i, m)))
            for i, block in enumerate(self.model.layers)
        )
        layers = tuple(block for block in blocks if block.modules)
        ends: dict[str, Any] = {
            "embedding": self.model.embedding if embedding else (),
            "head": (self.model.head if embedding else untied_ends(self.model.head)) if head else (),
            "vocab": self.model.vocab if head else 0,
        }
        return _Share(name, chip, replace(self.model, layers=layers, drafts=(), **ends), len(layers))


def _cuts(sizes: Sequence[float], layers: int) -> list[tuple[int, int]]:
    """Split layers in proportion to sizes: the first layer and the end of each part."""
    ends, so_far = [0], 0.0
    for size in sizes:
        so_far += size
        ends.append(round(layers * so_far / sum(sizes)))
    return list(pairwise(ends))


@question()
def offload(
    model: Model | Source,
    where: CardSettings,
    host: Host,
    load: OffloadBatch = USUAL_BATCH,
    *,
    gpu_layers: Annotated[
        WholeOrNone | None,
        "Number of layers on the GPUs: the output layer, then the last layer and those before it (llama.cpp's "
        "--n-gpu-layers).",
    ] = None,
    cpu_experts: Annotated[
        WholeOrNone | None,
        "Layers, counted from the first, whose experts stay on the host: llama.cpp's --n-cpu-moe.",
    ] = None,
) -> Offload:
    """Time and memory of a static batch with a model split over cards and their host.

    `model`: a Model, its name, path or config. `where`: one or several cards of any kinds; the engine defaults to
    llama.cpp. `gpu_layers`, `cpu_experts`: as in `Placement`; where neither is given, the fastest placement that fits
    is searched for.
    Raises InputError for what is not understood, more layers than there are, lengths beyond the model's context, and,
    of an engine that runs nothing on the CPU, for several cards and for a cache on the host.
    """
    cards = tuple(chip_named(each) for each in (where.on if isinstance(where.on, (list, tuple)) else [where.on]))
    for card in cards:
        only_main(card, "offloading")
    engine = engine_named(where.engine or "llama-cpp")
    built, formats = formats_of(decoder_of(model), where.precision)
    place = replace(host, cpu=replace(host.cpu, kind="cpu"))
    asked = _Asked(built, formats, cards, place, engine, mode_named(where.law), load)
    most = asked.layers + 1
    for name, value, limit in (("gpu_layers", gpu_layers, most), ("cpu_experts", cpu_experts, asked.layers)):
        if value is not None and value > limit:
            raise InputError(name, value, f"a whole number from 0 to {limit}")
    if not asked.engine.hosts:
        if len(asked.cards) > 1:
            raise InputError("on", f"{len(asked.cards)} cards", f"one card, whose weights {asked.engine.name} streams")
        if asked.host.cache:
            raise InputError("no_kv_offload", True, "llama.cpp, which computes on the host")
    if gpu_layers is None and cpu_experts is None:
        return _timed(asked, _best(asked), chosen=True)
    return _timed(asked, Placement(most if gpu_layers is None else gpu_layers, cpu_experts or 0), chosen=False)


def _holds(asked: _Asked, placed: Placement) -> bool:
    """Whether every card holds its share. The host is not checked: fewer layers on cards would only add to its load."""
    tokens = asked.load.input + asked.load.output_tokens
    cards = (share for share in asked.shares(placed) if share.name != HOST)
    return all(asked.setup(s.chip, s.model).holding.memory(((asked.load.batch, tokens),)).fits for s in cards)


def _best(asked: _Asked) -> Placement:
    """The fastest placement that fits, of two: as many layers as fit on cards, or all layers on cards except the
    experts of as few layers as necessary. Nothing is on cards where not even the output fits."""

    def held(layers: int, experts: int = 0) -> bool:
        return _holds(asked, Placement(layers, experts))

    most = asked.layers + 1
    ways = [(_largest(most, held), 0)]
    if asked.sparse and ways[0][0] < most:
        covered = _largest(asked.layers, lambda n: held(most, asked.layers - n), start=-1)
        if covered >= 0:
            ways.append((most, asked.layers - covered))
        else:
            ways.append((_largest(most, lambda k: held(k, asked.layers)), asked.layers))
    placed = [Placement(*way) for way in ways]
    seconds = ((way, _timed(asked, way, chosen=True)) for way in placed)
    return min(seconds, key=lambda each: (float(each[1].tpot.expected), float(each[1].ttft.expected)))[0]


def _largest(most: int, allowed: Callable[[int], bool], start: int = 0) -> int:
    """The largest number up to `most` that is allowed, given that all below it are; `start` where no larger one is."""
    return adjacent(start, most + 1, lambda numbers: np.array([allowed(int(n)) for n in numbers]))[0]


def _timed(asked: _Asked, placed: Placement, chosen: bool) -> Offload:
    """Time and memory of a placement."""
    shares = [
        share for share in asked.shares(placed) if share.model.layers or share.model.embedding or share.model.head
    ]
    tiers, streamed = _tiers(asked, shares) if asked.engine.hosts else _streaming(asked, shares)
    passed = _crossings(asked, shares, placed) if asked.engine.hosts else 0
    crossing = passed * (SYNC_S + 4 * asked.model.hidden * asked.load.batch / asked.host.pcie)
    parts = ceil_div(asked.load.batch * asked.load.input, asked.engine.chunk)
    crossed = passed * (parts * SYNC_S + 4 * asked.model.hidden * asked.load.batch * asked.load.input / asked.host.pcie)
    return Offload(
        asked.model, asked.engine, asked.formats, asked.load, asked.layers,
        placed.gpu_layers, placed.cpu_experts, asked.host.cache, chosen,
        total(t.prompt for t in tiers) + exactly(float(crossed)), total(t.token for t in tiers) + exactly(crossing),
        crossing, streamed, tuple(tiers),
    )  # fmt: skip


def _tiers(asked: _Asked, shares: Sequence[_Share]) -> tuple[list[Tier], float]:
    """Every tier timed by its own chip's law, and the bytes that a prompt copies to a card."""
    hosted = shares[-1] if shares[-1].name == HOST else None
    tiers, streamed = [], 0.0
    for share in shares:
        runs = asked.run(share.chip, share.model)
        prompt, token = runs.ttft, runs.tpot
        missing, reading = _beyond(asked, share, runs) if share is hosted else (0.0, (NOTHING, NOTHING))
        if share is hosted and len(shares) > 1 and asked.load.batch * asked.load.input >= STREAMED_FROM:
            copied, prompt = _copied(asked, share, prompt)
            streamed += copied
        tiers.append(_tier(asked, share, runs.memory, missing, prompt + reading[0], token + reading[1]))
    return tiers, streamed


def _tier(asked: _Asked, share: _Share, memory: Memory, missing: float, prompt: Span, token: Span) -> Tier:
    return Tier(
        f"{share.name}: {share.chip.name}", share.layers, float(memory.weights), float(memory.cache + memory.state),
        float(memory.activations + memory.overhead), share.chip.capacity, missing,
        bool(memory.fits) or (missing > 0 and asked.host.drive is not None), prompt, token,
    )  # fmt: skip


def _streaming(asked: _Asked, shares: Sequence[_Share]) -> tuple[list[Tier], float]:
    """The card, which does all the work, with the time that reading the host's weights adds."""
    card, *hosted = shares
    whole = asked.run(card.chip, asked.model)
    if not hosted:
        return [_tier(asked, card, whole.memory, 0.0, whole.ttft, whole.tpot)], 0.0
    share = hosted[0]
    quick = replace(asked.engine, step_s=0.0, sequence_s=0.0, token_s=0.0, prefill_s=0.0, launch_s=0.0)
    away = replace(asked, engine=quick).run(card.chip, share.model)
    parts = ceil_div(asked.load.batch * asked.load.input, asked.engine.chunk)
    prompt, token = (float(r.analysis.moved.weight) for r in (away.prompts, away.middle))
    on_host = Memory(share.chip.capacity, weights=away.memory.weights)
    missing = max(0.0, float(on_host.total - share.chip.capacity))
    link = asked.host.pcie
    if missing and asked.host.drive is not None:
        part = missing / float(on_host.weights)
        link = 1 / ((1 - part) / link + part / asked.host.drive)
    reads = away.ttft.most(_over(prompt * parts, link)), away.tpot.most(_over(token, link))
    memory = asked.run(card.chip, card.model).memory
    tiers = [
        _tier(asked, card, memory, 0.0, whole.ttft.minus(away.ttft), whole.tpot.minus(away.tpot)),
        _tier(asked, share, on_host, missing, *reads),
    ]
    return tiers, prompt * parts


def _crossings(asked: _Asked, shares: Sequence[_Share], placed: Placement) -> int:
    """Transfers of a token between tiers: between the shares, and in layers on cards to and from each run of modules on
    the host."""
    first = asked.layers + 1 - placed.gpu_layers
    runs = 0
    for layer in range(first, asked.layers) if placed.gpu_layers else ():
        places = [asked.on_host(placed, layer, module) for module in asked.model.layers[layer].modules]
        runs += sum(there and not before for before, there in pairwise([False, *places]))
    return len(shares) - 1 + 2 * runs


def _beyond(asked: _Asked, share: _Share, runs: Generation) -> tuple[float, tuple[Span, Span]]:
    """Bytes of weights beyond the host's memory, and the seconds in which a prompt and a token read them from the
    drive.

    The share of touched weights that a step reads from the drive is the share of all weights that is stored there.
    """
    memory = runs.memory
    missing = max(0.0, float(memory.total - share.chip.capacity))
    if not missing or asked.host.drive is None:
        return missing, (NOTHING, NOTHING)
    part = min(1.0, missing / float(memory.weights))
    steps = ceil_div(asked.load.batch * asked.load.input, asked.engine.chunk)
    prompt = float(runs.prompts.analysis.moved.weight) * steps
    token = float(runs.middle.analysis.moved.weight)
    return missing, (exactly(prompt * part / asked.host.drive), exactly(token * part / asked.host.drive))


def _copied(asked: _Asked, share: _Share, prompt: Span) -> tuple[float, Span]:
    """Bytes copied to the first card for a prompt, and the shorter of the times there and on the host."""
    runs = asked.run(asked.cards[0], replace(share.model, embedding=()))
    parts = ceil_div(asked.load.batch * asked.load.input, asked.engine.chunk)
    copied = float(runs.prompts.analysis.moved.weight) * parts
    return copied, runs.ttft + _over(copied, asked.host.pcie)


def _over(size: float, rate: float) -> Span:
    """Seconds to send bytes over a link whose maximum is `rate`."""
    seconds = size / rate
    return Span(seconds, seconds, seconds, LINK_WORST * seconds)
