"""Draws curves of `serve` over concurrency and over rate, and prints each place where one falls.

    python benchmarks/serve_curves.py [CURVES] [SEED]

So many curves (150) of either kind. Over concurrency, throughput may fall by 0.1 %; over the rate, up to 0.95 of what
the server takes at most, TTFT by 1 %, of requests that are followed and of the formula.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import numpy as np

import roofline as rl
from machine_description import describe
from serve_against_simulate import ENGINES, PLACES

USERS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377)
LOADS = (0.05, 0.2, 0.4, 0.6, 0.75, 0.85, 0.95)
THROUGHPUT, TTFT = 0.001, 0.01


@dataclass(frozen=True)
class Curve:
    """A curve in words; `falls`: the largest share by which it is below what it was, and `at` where."""

    text: str
    falls: float
    at: float


def curve(rng: random.Random, over_rate: bool, formula: bool) -> Curve | None:
    """One curve; None where the server does not hold such a request."""
    model, chips, layouts = rng.choice(PLACES)
    where = {"on": rng.choice(chips), "engine": rng.choice(ENGINES), "layout": layouts[0]}
    lengths = {"input": round(10 ** rng.uniform(1.7, 4.3)), "output": round(10 ** rng.uniform(0.3, 3.1))}
    full = rl.serve(model, **lengths, concurrency=2**20, formula=True, **where)
    if not full.fits:
        return None
    text = f"{model} {where['on']} {where['engine']} {lengths['input']}/{lengths['output']}"
    if over_rate:
        rates = np.array(LOADS) * float(full.requests_per_second)
        values, points = rl.serve(model, **lengths, rate=rates, formula=formula, **where).ttft.expected, LOADS
    else:
        s = rl.serve(model, **lengths, concurrency=np.array(USERS), formula=formula, **where)
        values, points = s.requests_per_second, USERS
    falls = 1 - values[1:] / np.maximum.accumulate(values)[:-1]
    worst = int(falls.argmax())
    return Curve(text, float(falls[worst]), points[worst + 1])


def main(words: list[str]) -> int:
    """Draws and prints."""
    number, seed = [*map(int, words[:2]), *(150, 0)[len(words[:2]) :]]
    print(describe())
    for name, over_rate, most in (("concurrency: throughput", False, THROUGHPUT), ("rate: TTFT", True, TTFT)):
        for formula in (False, True):
            rng = random.Random(seed)
            curves: list[Curve] = []
            while len(curves) < number:
                drawn = curve(rng, over_rate, formula)
                if drawn is not None:
                    curves.append(drawn)
            bad = sorted((c for c in curves if c.falls > most), key=lambda c: -c.falls)
            how = "formula" if formula else "followed"
            print(f"over {name}, {how}: {len(bad)} of {number} fall by more than {most:.1%}")
            for c in bad[:10]:
                print(f"  {c.falls:6.2%} at {c.at:g}: {c.text}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
