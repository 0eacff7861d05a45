"""Draws servers, and lists where TTFT or TPOT of the formula falls with the rate or the users, and how far it is off.

    python benchmarks/load_curves.py [SERVERS] [SEED]

So many servers (100) of the default spread of lengths: models × chips × engines × lengths, one in eight with answers of
one token. Over 50 rates from 0.01 to 0.98 of what the server takes at most, and over users up to 512, every fall by
more than 0.5 % is listed, beside the same fall of the course of equally long requests, which tells a scheduler's own
from one of the formula. Where all places are taken, n requests decode whatever the rate, so that their TPOT falls with
it, n/(rate·steps) by Little's law: such falls are counted apart. At four loads TTFT and TPOT of equally long requests
are compared with those that are followed, and of one server in four at a concurrency with a simulation. Prints the
shares within 15 % of TTFT, 5 % of TPOT and 3 % of throughput.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import roofline as rl
from machine_description import describe
from roofline.serving.simulate.simulate import Extent, simulate
from serve_against_simulate import ENGINES, PLACES

RATES = np.linspace(0.01, 0.98, 50)
LOADS = np.array([0.1, 0.4, 0.7, 0.9])
USERS = np.unique(np.geomspace(1, 512, 60).round().astype(int))
FEW = (2, 16, 128)
FALL, TAKEN = 0.005, 0.9
"""Share by which a curve may fall, and of the places that decode where all count as taken."""
EQUAL = {"input_cv": 0.0, "output_cv": 0.0}


@dataclass(frozen=True)
class Place:
    """A server and what it is asked."""

    model: str
    given: dict[str, Any]

    @property
    def text(self) -> str:
        """In words."""
        g = self.given
        return f"{self.model} {g['on']} {g['engine']} {g['input']}/{g['output_tokens']}"

    def serve(self, **load: Any) -> rl.Serving:
        """By `serve`."""
        return rl.serve(self.model, **self.given, **load)


def drawn(rng: random.Random) -> Place:
    """A server that holds such a request."""
    while True:
        model, chips, layouts = rng.choice(PLACES)
        given = {"on": rng.choice(chips), "engine": rng.choice((*ENGINES, "none")), "layout": rng.choice(layouts)}
        out = 1 if rng.random() < 1 / 8 else round(10 ** rng.uniform(0.3, 3.1))
        given |= {"input": round(10 ** rng.uniform(1.7, 4.3)), "output_tokens": out}
        place = Place(model, given)
        if place.serve(concurrency=1).fits:
            return place


def fall(values: Any) -> tuple[float, int]:
    """The largest share by which a curve is below what it was, and where."""
    values = np.asarray(values, dtype=float)
    falls = 1 - values[1:] / np.maximum.accumulate(values)[:-1]
    return float(falls.max()), int(falls.argmax()) + 1


def named(serving: rl.Serving, out: int) -> dict[str, Any]:
    """TTFT and, where there is one, TPOT."""
    return {"TTFT": serving.ttft.expected, **({"TPOT": serving.tpot.expected} if out > 1 else {})}


def taken(serving: rl.Serving, at: int) -> bool:
    """Whether requests decode in all places, at a point of a curve over the rate."""
    decoding = serving.requests_per_second * (serving.output - 1) * serving.tpot.expected * serving.longer
    return bool(np.asarray(decoding)[at] >= TAKEN * np.max(np.asarray(serving.places)))


def main(words: list[str]) -> int:
    """Draws and prints."""
    number, seed = [*map(int, words[:2]), *(100, 0)[len(words[:2]) :]]
    rng = random.Random(seed)
    print(describe())
    at_rate: dict[str, list[np.ndarray]] = {"TTFT": [], "TPOT": []}
    with_users: dict[str, list[float]] = {"TTFT": [], "TPOT": [], "throughput": []}
    falls = {"rate": 0, "users": 0, "places": 0}
    for i in range(number):
        place = drawn(rng)
        out = place.given["output_tokens"]
        most = place.serve(concurrency=2**20).requests_per_second
        same = place.serve(concurrency=2**20, **EQUAL).requests_per_second
        followed = named(place.serve(rate=LOADS * same, formula=False), out)
        curves = {"rate": place.serve(rate=RATES * most), "users": place.serve(concurrency=USERS)}
        for over, curve in curves.items():
            for name, values in named(curve, out).items():
                share, at = fall(values)
                if share > FALL:
                    full = over == "rate" and name == "TPOT" and taken(curve, at)
                    falls["places" if full else over] += 1
                    where = f"{RATES[at]:.2f} of the highest" if over == "rate" else f"{USERS[at]}"
                    own = f", of requests that are followed by {fall(followed[name])[0]:.1%}" if over == "rate" else ""
                    own = ", as all places are taken" if full else own
                    print(f"{name} falls by {share:.1%} at {over} {where}{own}: {place.text}", flush=True)
        formula = named(place.serve(rate=LOADS * same, **EQUAL), out)
        for name, values in formula.items():
            at_rate[name].append(np.asarray(values) / followed[name] - 1)
        if i % 4:
            continue
        for users in FEW:
            extent = Extent(requests=max(2000, 20 * users), warmup=5 * users, seed=1)
            s = simulate(place.model, **place.given, concurrency=users, extent=extent)
            p = place.serve(concurrency=users)
            with_users["throughput"].append(p.requests_per_second / s.requests_per_second - 1)
            with_users["TTFT"].append(p.ttft.expected / s.ttft.mean - 1)
            if out > 1:
                with_users["TPOT"].append(p.tpot.expected / s.tpot.mean - 1)
    allowed = {"TTFT": 0.15, "TPOT": 0.05, "throughput": 0.03}
    print(
        f"{number} servers: falls above {FALL:.1%} over the rate {falls['rate']}, {falls['places']} more where all "
        f"places are taken; over users {falls['users']}"
    )
    for name, values in at_rate.items():
        each = np.abs(np.array(values)) <= allowed[name]
        shares = ", ".join(f"{share:.0%} at {load:g}" for load, share in zip(LOADS, each.mean(axis=0), strict=True))
        print(f"at a rate, against requests that are followed, {name} within {allowed[name]:.0%}: {shares}")
    for name, values in with_users.items():
        share = np.mean(np.abs(values) <= allowed[name])
        print(f"with users, against simulations, {name} within {allowed[name]:.0%}: {share:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
