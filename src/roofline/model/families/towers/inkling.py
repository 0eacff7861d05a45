"""Inkling's towers: products that fold pixels into depth, and a table for each band of a spectrogram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, inf, log, prod

from roofline.model.configs.config import MOST_LAYERS, Config
from roofline.model.families.blocks.encoders import paced
from roofline.model.families.blocks.images.vision import TowerStage, TowerStages, section_of, sees, streamed
from roofline.model.families.blocks.norms import rms
from roofline.model.families.registry import towers
from roofline.model.families.towers.resampled import unapplied
from roofline.model.media.images import IMAGES
from roofline.model.media.sound import SOUND
from roofline.model.model import Block, Model, Tower
from roofline.model.modules import Activation, Linear, Module, Pace

Fold = tuple[int, int, int]
"""Frames and pixels of a side that a cell holds, and its channels."""


def scales(frames: int, side: int, layers: int, channels: int) -> list[Fold]:
    """The cells between the layers, from a pixel to a whole patch of `frames` × `side`², as its code plans them.

    They grow prime factor by prime factor, the largest first, sides before frames. With fewer layers than cells some
    are left out, so that the sizes are closest to even steps of their logarithm; with more, layers keep the cell.
    """
    known: list[Fold] = [(1, 1, channels)]
    known += [(1, h, ceil(h * h * channels / 64) * 64) for h in _grown(side)]
    known += [(t, side, side * side * channels * t * 64) for t in _grown(frames)]
    end = log(side * side * frames * channels)

    def cost(i: int, j: int) -> float:
        t, h, _ = known[j]
        return abs(end * i / layers - log(t * h * h))

    if layers >= len(known):
        chosen = [min((cost(i, j), j) for j in range(len(known)))[1] for i in range(layers + 1)]
    else:
        chosen = _closest([[cost(i, j) for j in range(len(known))] for i in range(layers + 1)])
    return [known[j] for j in (0, *chosen[1:-1], len(known) - 1)]


def _closest(costs: Sequence[Sequence[float]]) -> list[int]:
    """The rising choice of a column for each row whose costs sum to the least."""
    best: list[tuple[float, tuple[int, ...]]] = [(cost, (j,)) for j, cost in enumerate(costs[0])]
    for row in costs[1:]:
        before: tuple[float, tuple[int, ...]] = (inf, ())
        now = []
        for j, cost in enumerate(row):
            now.append((before[0] + cost, (*before[1], j)))
            before = min(before, best[j])
        best = now
    return list(min(best)[1])


def _grown(number: int) -> list[int]:
    """Products of the prime factors of a number, the largest first."""
    factors, rest, p = list[int](), number, 2
    while rest > 1:
        if rest % p:
            p += 1
        else:
            factors.append(p)
            rest //= p
    return [prod(factors[::-1][: i + 1]) for i in range(len(factors))]


@sees(alone=("inkling_vision",))
def inkling_vision(c: Config) -> TowerStages:
    """Inkling's tower (Thinking Machines, 2026): each layer folds neighbours into channels and multiplies them."""
    frames, side = c.size("temporal_patch_size", 2), c.size("patch_size", 40)
    layers, out = c.size("num_hidden_layers|n_layers", 24, most=MOST_LAYERS), c.size("text_hidden_size", 6144)
    c.mark_read("hidden_size", "num_attention_heads")
    blocks: list[Block] = []
    for i, (a, b) in enumerate(pairwise(scales(frames, side, layers, c.size("num_channels", 3)))):
        last = i == layers - 1
        folded, outputs = (b[0] // a[0]) * (b[1] // a[1]) ** 2, out if last else b[2]
        modules: list[Module] = [Linear(name="projection", inputs=a[2] * folded, outputs=outputs)]
        if not last:
            modules += [rms("norm", outputs), Activation(name="act", width=outputs, function="gelu", gated=False)]
        cells = (frames // b[0]) * (side // b[1]) ** 2
        blocks.append(Block(f"fold {i}", paced(modules, Pace(times=cells))))
    yield TowerStage("vision", out, (*blocks, Block("norm", (rms("final_norm", out),))))


@sees(alone=("inkling_audio",))
def inkling_audio(c: Config) -> TowerStages:
    """What Inkling hears with: the words of each band of a spectrogram are looked up and added."""
    width, rows = c.size("text_hidden_size|hidden_size", 6144), c.size("n_mel_bins|num_codebooks", 80)
    table = unapplied("embedding", width, rows * c.size("mel_vocab_size|codebook_size", 256))
    yield TowerStage("audio", width, (Block("bands", (table, rms("norm", width))),), c.inputs.spectra)


@towers("inkling_mm_model")
def inkling_towers(outer: Config, text: Model) -> Iterator[Tower]:
    """Inkling (Thinking Machines, 2026): patches of pixels, and words of sound."""
    if outer.get("vision_config") is not None:
        yield from streamed(inkling_vision(section_of(outer, "vision_config")), IMAGES)
    if outer.get("audio_config") is not None:
        yield from streamed(inkling_audio(section_of(outer, "audio_config")), SOUND)
