"""What no kernel's constants may turn round, over every sparse model of the catalog, chips and engines.

    python benchmarks/monotone.py [--seed N] [--draws N]

Prints each break: throughput of decoding that falls with the batch, a rank whose own work takes longer with more ranks,
fp8 slower than bf16, int8 faster than fp8.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

import roofline as rl
from roofline.hardware.named_chip import chip_named
from roofline.model.modules import Experts

CHIPS = (
    "h100-sxm", "h200-sxm", "h20", "b200", "b300", "gb200", "a100-sxm-80gb", "l40s", "rtx-pro-6000-server",
    "rtx-4090", "rtx-3090", "mi300x", "mi355x", "arc-b60", "m2-ultra", "tpu-v5p",
)  # fmt: skip
ENGINES = (None, "vllm", "trtllm", "sglang")
DOUBLED, NEXT, UNTILED = 0.01, 0.05, 0.02
"""Shares by which throughput may fall: from a batch to its double, to the next, and to the next where no tile fills."""
FASTER = 0.1
"""Share by which int8 may be faster than fp8: they were fitted apart."""
TILES = 8
"""Rows of which the smallest tile of a dense product has a multiple."""


@dataclass(frozen=True)
class Draw:
    """A model on a chip under an engine, some tokens cached."""

    model: str
    chip: str
    engine: str | None
    context: int

    def seconds(self, batch: object, *, launches: bool = True, **given: object) -> np.ndarray:
        """Expected seconds of decoding, with launches or without."""
        e = rl.estimate(self.model, rl.decode(batch, self.context), engine=self.engine, **{"on": self.chip, **given})
        return np.asarray(e.time if launches else e.time - e.total.fixed, dtype=float)


def sparse() -> list[str]:
    """The models of the catalog that have experts."""
    return [name for name in rl.catalog() if any(isinstance(m, Experts) for m, _ in rl.load(name).modules())]


def formats_of(chip: str) -> tuple[str | None, ...]:
    """What a model is run in on a chip: 16 bits, and weights in fp8 where it multiplies them, else in 4 bits."""
    peaks = chip_named(chip).peaks
    wide = "bf16" if "bf16" in peaks else "fp16"
    return (wide, "weights=fp8-block" if "fp8" in peaks else f"weights=int4,activations={wide}")


def falls(draw: Draw, precision: str | None) -> Iterator[str]:
    """Where throughput falls with the batch."""
    batch = np.unique([*range(1, 300), *(2**i for i in range(13)), *(2**i + 1 for i in range(4, 12))])
    rate = batch / draw.seconds(batch, precision=precision)
    at = {int(b): float(r) for b, r in zip(batch, rate, strict=True)}
    for b, r in at.items():
        if 2 * b in at and b & (b - 1) == 0 and at[2 * b] < (1 - DOUBLED) * r:
            yield f"from {b} to {2 * b} by {1 - at[2 * b] / r:.1%}"
        if b + 1 in at and at[b + 1] < (1 - (UNTILED if b % TILES else NEXT)) * r:
            yield f"from {b} to {b + 1} by {1 - at[b + 1] / r:.1%}"


def narrower(draw: Draw) -> Iterator[str]:
    """Where fp8 is slower than 16 bits, launches apart, or int8 faster than fp8, at decoding.

    A quantise pass is a launch more, and an engine's experts were not timed in every format: with little to read, fp8
    takes longer in all.
    """
    peaks, batch = chip_named(draw.chip).peaks, np.array([1, 8, 64, 256])
    if "fp8" not in peaks:
        return
    wide, fp8 = (draw.seconds(batch, launches=False, precision=p) for p in ("bf16", "weights=fp8"))
    for b, slower in zip(batch, fp8 / wide, strict=True):
        if slower > 1.001:
            yield f"fp8 takes {slower:.3f} of bf16's time at {b}"
    if peaks.get("int8") == peaks["fp8"]:
        fp8, int8 = (draw.seconds(batch, precision=f"weights={p}") for p in ("fp8", "int8"))
        for b, faster in zip(batch, int8 / fp8, strict=True):
            if faster < 1 - FASTER:
                yield f"int8 takes {faster:.3f} of fp8's time at {b}"


def own_work(draw: Draw, precision: str | None, batch: int) -> Iterator[str]:
    """Where a rank's own work, all but what the network takes, takes longer with twice as many ranks."""
    before = np.inf
    for ranks in (1, 2, 4, 8):
        try:
            e = rl.estimate(
                draw.model, rl.decode(batch, draw.context), on=f"8x{draw.chip}", layout=f"tp={ranks}",
                engine=draw.engine, precision=precision,
            )  # fmt: skip
        except rl.InputError:
            return
        own = float(e.time) - sum(float(np.max(t.expected)) for t in e.ops if float(np.max(t.each.network)) > 0)
        if own > 1.001 * before:
            yield f"batch {batch}, {ranks} ranks: own work {own / before:.3f} of that of half as many"
        before = own


def breaks(draw: Draw, *, ranks: bool = True) -> Iterator[str]:
    """Every break of a draw, in words."""
    where = f"{draw.model} on {draw.chip} ({draw.engine}, context {draw.context})"
    for precision in formats_of(draw.chip):
        yield from (f"{where} {precision}: throughput falls {text}" for text in falls(draw, precision))
        if ranks:
            for batch in (1, 64):
                yield from (f"{where} {precision}: {text}" for text in own_work(draw, precision, batch))
    yield from (f"{where}: {text}" for text in narrower(draw))


def draws(seed: int, number: int) -> list[Draw]:
    """So many of all draws, in an order that the seed decides."""
    every = list(product(sparse(), CHIPS, ENGINES))
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(every))[:number]
    return [Draw(*every[i], int(rng.integers(1, 4000))) for i in chosen]


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args(list(argv))
    number = 0
    for draw in draws(options.seed, options.draws):
        for text in breaks(draw):
            number += 1
            print(text, flush=True)
    print(f"{number} breaks in {options.draws} draws")


if __name__ == "__main__":
    main(sys.argv[1:])
