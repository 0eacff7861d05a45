"""Draws servers, and prints each place where TTFT or TPOT falls with more users or with a higher rate.

    python benchmarks/serve_curves.py [SERVERS] [SEED] [LAST] [--formula]

So many servers (600), each with users and at a rate up to 0.95 of what it takes at most, with the default spread of
lengths. Neither time may be more than `FALLS` below what it was with fewer users or at a lower rate. Beside a fall
stands by how much a decode step alone falls there, which a change of kernel does, and whether all places are taken at
both ends. An engine that starts prompts first takes them all well below its highest rate, and then TPOT falls with it:
by Little's law, as many decode while answers leave faster. A run goes up to the server `LAST`,
so that several share the draws; each server is the same in all. With `--formula` no server of short answers is run, of
which each takes some seconds: it is followed at every load.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import roofline as rl
from machine_description import describe
from roofline.engines.engine import engine_named
from roofline.inference.settings import setup
from roofline.kernels.target import CALIBRATED
from roofline.layout.layout import layout_named
from roofline.serving.serve import server_of
from roofline.serving.server import Server, answers_are_followed
from serve_against_simulate import ENGINES, PLACES

USERS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)
LOADS = (0.05, 0.2, 0.4, 0.6, 0.75, 0.85, 0.95)
FALLS = 0.005
SERVERS = 600
NAMES = ("ttft over users", "tpot over users", "ttft over rate", "tpot over rate")


@dataclass(frozen=True)
class Fall:
    """A figure over an axis that falls by a `share` of what it was `before`, at a point of the axis.

    `step`: share by which a decode step of as many requests as run there is shorter than one of fewer. `full`: whether
    every place is taken at both ends.
    """

    figure: str
    axis: str
    share: float
    before: float
    at: float
    step: float
    full: bool


def server(seed: int, number: int) -> dict[str, Any] | None:
    """A drawn server; None where it does not hold such a request or has no such layout."""
    rng = random.Random(seed * 100_003 + number)
    model, chips, layouts = rng.choice(PLACES)
    where = {"model": model, "on": rng.choice(chips), "engine": rng.choice(ENGINES), "layout": rng.choice(layouts)}
    lengths = {"input": round(10 ** rng.uniform(1.7, 4.3)), "output_tokens": round(10 ** rng.uniform(0, 3.1))}
    given = {**where, **lengths}
    try:
        return given if int(asked(given).capacity) else None
    except rl.InputError:
        return None


def asked(given: dict[str, Any]) -> Server:
    """The server of settings."""
    where = rl.Where(on=given["on"], engine=given["engine"], layout=given["layout"])
    load = rl.Load(given["input"], given["output_tokens"], concurrency=1)
    return server_of(setup(rl.load(given["model"]), where), load)


def is_followed(given: dict[str, Any]) -> bool:
    """Whether requests of a server are followed at a rate."""
    load, layout = rl.Load(given["input"], given["output_tokens"]), layout_named(given["layout"])
    mixes = engine_named(given["engine"]).mixes
    return bool(
        answers_are_followed(load.output_tokens, layout.in_step, load, False, drafts=False, law=CALIBRATED, mixes=mixes)
    )


def falls(given: dict[str, Any]) -> Iterator[Fall]:
    """Where the curves of a server fall."""
    most = float(asked(given).fastest)
    for axis, points in (("users", np.array(USERS)), ("rate", most * np.array(LOADS))):
        s = rl.serve(**given, **{"concurrency" if axis == "users" else "rate": points})
        steps = np.broadcast_to(np.asarray(s.decode.time, dtype=float), points.shape)
        full = np.broadcast_to(np.asarray(s.in_flight >= s.places), points.shape)
        for figure in ("ttft", "tpot"):
            if figure == "tpot" and given["output_tokens"] == 1:
                continue
            values = np.asarray(getattr(s, figure).expected)
            shares = 1 - values[1:] / np.maximum.accumulate(values)[:-1]
            for i in np.flatnonzero(shares > FALLS):
                peak = int(values[: i + 1].argmax())
                step = max(0.0, 1 - steps[i + 1] / steps[: i + 1].max())
                ends = float(points[peak]), float(points[i + 1])
                yield Fall(figure, axis, float(shares[i]), *ends, float(step), bool(full[peak] and full[i + 1]))


def main(words: list[str]) -> int:
    """Draws and prints."""
    numbers = [int(word) for word in words if not word.startswith("--")]
    number, seed, last = [*numbers, *(SERVERS, 0, 0)[len(numbers) :]]
    print(describe())
    counts, places = Counter[str](), (last or number) - number
    for i in range(places, places + number):
        given = server(seed, i)
        if given is None:
            counts["none"] += 1
            continue
        if "--formula" in words and is_followed(given):
            counts["left out"] += 1
            continue
        counts["servers"] += 1
        bad = list(falls(given))
        counts.update({f"{fall.figure} over {fall.axis}" for fall in bad})
        for fall in bad:
            words_of = " ".join(str(value) for value in given.values())
            print(
                f"{i:4} {fall.share:6.2%} {fall.figure} over {fall.axis}, {fall.before:.4g} to {fall.at:.4g}; a decode "
                f"step {fall.step:.2%}{', all places are taken' if fall.full else ''}: {words_of}",
                flush=True,
            )
    print(
        f"{counts['servers']} servers, {counts['none']} draws without one, {counts['left out']} that are followed and "
        f"left out; fall by more than {FALLS:.1%}:"
    )
    for name in NAMES:
        print(f"  {name}: {counts[name]}")
    return 1 if any(counts[name] for name in NAMES) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
