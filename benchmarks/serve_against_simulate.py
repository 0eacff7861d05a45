"""Draws servers and compares what `serve` says with what `simulate` does request by request.

    python benchmarks/serve_against_simulate.py [CASES] [SEED] [LOW HIGH] [users]

Models × chips × engines × layouts (`tp`, `dp`, `dp,ep`, pools) × lengths × spreads × load. Half of the cases have a
rate, LOW to HIGH (0.05 to 0.98) of what `serve` says the server takes at most, and half 1 to 512 users; with `users`
all have, of lengths that vary. One answer in eight is one token. Lengths are equal, or vary with a coefficient of 0.4,
1, or those of the defaults. One server of one pool in ten verifies drafts.

Errors are what lies beyond the simulation's own 95 % confidence, of 99th percentiles by those of 16 consecutive parts
of the run. A simulation goes on until it knows its mean TTFT and latency within 5 %, up to 200,000 requests; where it
does not know its TTFT then, the case is undecided. One that it calls overloaded is wrong. Prints the shares of the
decided cases within 3 % of throughput, 5 % of TPOT, 15 % of TTFT and 25 % of the 99th percentiles of TTFT, TPOT and
latency, by kind, and lists all others.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

import numpy as np

import roofline as rl
from machine_description import describe
from roofline.declared.groups import ANSWERS_VARY, PROMPTS_VARY
from roofline.serving.simulate.recorder import Row
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.simulation import Distribution
from roofline.serving.simulate.statistics import STUDENT

PLACES = (
    ("meta-llama/Llama-3.1-8B", ("h100-sxm", "a100-sxm-80gb", "l40s", "h200-sxm", "b200", "mi300x"), ("tp=1",)),
    ("meta-llama/Llama-3.2-1B", ("l4", "h100-sxm"), ("tp=1",)),
    ("meta-llama/Llama-3.1-70B", ("8xh100-sxm", "8xh200-sxm"), ("tp=8", "tp=4,dp=2")),
    ("Qwen/Qwen3-32B", ("8xh200-sxm", "8xb200"), ("tp=1", "tp=2,dp=4", "dp=8")),
    ("Qwen/Qwen3-30B-A3B", ("8xh100-sxm", "8xh200-sxm", "8xb200"), ("tp=1", "dp=4", "dp=4,ep=4", "dp=8,ep=8")),
    ("openai/gpt-oss-20b", ("8xh100-sxm", "8xb200"), ("tp=1", "dp=4")),
    ("openai/gpt-oss-120b", ("8xb200", "8xh200-sxm"), ("tp=1", "dp=4,ep=4")),
    ("deepseek-ai/DeepSeek-V3", ("16xh200-sxm", "16xb200"), ("tp=8", "dp=8,ep=8", "dp=16,ep=16", "tp=2,dp=4,ep=8")),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", ("4xh200-sxm",), ("tp=4", "tp=2,dp=2")),
)
"""Models, chips and layouts of a replica, or of one of either pool where the chips are enough."""
ENGINES = ("vllm", "sglang", "trtllm")
SPREADS = ((0.0, 0.0), (0.4, 0.4), (1.0, 1.0), (PROMPTS_VARY, ANSWERS_VARY))
REQUESTS, MOST, SURE = 4_000, 200_000, 0.05
"""Requests of a simulation at first and at most, and the share of the mean TTFT within which it is to be known."""
ALLOWED = {"throughput": 0.03, "tpot": 0.05, "ttft": 0.15, "p99": 0.25}
"""Largest error of each figure."""
TAILS = {"ttft": 7, "tpot": 8, "latency": 9}
"""Figures of which percentiles are compared, and their columns in a row of a request."""
PARTS = 16
"""Consecutive parts of a run, whose 99th percentiles say how well that of the whole is known."""


@dataclass(frozen=True)
class Simulated:
    """A simulation, whether it knows its mean TTFT, and half-widths of the 95 % confidence of 99th percentiles."""

    seen: rl.Simulation
    decided: bool
    unsure: dict[str, float]


@dataclass(frozen=True)
class Compared:
    """A case in words, and by how much figures are off beyond what the simulation leaves open; `p99` none of pools.

    `kind`: layout and load, `spread` of lengths, `engine`; `decided`: whether the simulation knows its TTFT.
    """

    text: str
    kind: str
    spread: str
    engine: str
    decided: bool
    throughput: float
    tpot: float
    ttft: float
    p99: float | None

    def worst(self) -> float:
        """The largest error, over what it may be."""
        return max(self._over(name) for name in ALLOWED)

    def within(self, name: str) -> bool:
        """Whether a figure is as near as it is to be."""
        return self._over(name) <= 1

    def _over(self, name: str) -> float:
        return (getattr(self, name) or 0.0) / ALLOWED[name]


@dataclass(frozen=True)
class Drawn:
    """A server, mean lengths, their coefficients of variation, and its load: a share of the most, or users."""

    where: dict[str, Any]
    kind: str
    lengths: dict[str, float]
    spread: tuple[float, float]
    load: float | None
    users: int


def drawn(rng: random.Random, low: float, high: float, only_users: bool) -> Drawn:
    """One of each: place, engine, lengths, spread and load."""
    model, chips, layouts = rng.choice(PLACES)
    on, layout = rng.choice(chips), rng.choice(layouts)
    kind = "dp,ep" if "ep" in layout else "dp" if "dp" in layout else "tp"
    where: dict[str, Any] = {"model": model, "on": on, "engine": rng.choice(ENGINES), "layout": layout}
    if rng.random() < 1 / 4:
        where["prefill_layout"], kind = rng.choice(layouts), f"pools {kind}"
    elif rng.random() < 1 / 10:
        where["speculation"] = rl.Speculation(round(rng.uniform(0.3, 0.95), 2), rng.randint(1, 6))
    out = 1 if rng.random() < 1 / 8 else round(10 ** rng.uniform(0.3, 3.1))
    lengths: dict[str, float] = {"input": round(10 ** rng.uniform(1.7, 4.3)), "output_tokens": out}
    spread = rng.choice(SPREADS[only_users:])
    lengths |= {"input_cv": spread[0], "output_cv": spread[1]}
    load, users = rng.uniform(low, high), max(1, round(10 ** rng.uniform(0, 2.71)))
    return Drawn(where, kind, lengths, spread, None if only_users or rng.random() < 1 / 2 else load, users)


def compared(case: Drawn) -> Compared | None:
    """What both say; None where there are too few chips, or the server does not hold such a request."""
    number = {"prefills": 1, "decodes": 1} if "prefill_layout" in case.where else {}
    try:
        most = rl.serve(**case.where, **number, **case.lengths, concurrency=2**20)
        if not most.fits:
            return None
        load = {"rate": case.load * float(most.requests_per_second)} if case.load else {"concurrency": case.users}
        predicted = rl.serve(**case.where, **number, **case.lengths, **load)
        run = simulated(case, load)
        s, decided = run.seen, run.decided
    except rl.InputError:
        return None
    drafts = case.where.get("speculation")
    text = " ".join((
        *(str(case.where[name]) for name in ("model", "on", "engine", "layout")),
        *([f"prefill {case.where['prefill_layout']}"] if number else []),
        "{input}/{output_tokens}".format(**case.lengths), *([_spread(case.spread)] if any(case.spread) else []),
        f"load {case.load:.2f}" if case.load else f"users {case.users}",
        *([f"{drafts.length} drafts right with {drafts.acceptance}"] if drafts else []),
    ))  # fmt: skip
    said = (case.kind + (" rate" if case.load else " users"), _spread(case.spread), str(case.where["engine"]))
    if s.overloaded and case.load:
        return Compared(f"{text} overloaded", *said, True, inf, inf, inf, inf)
    latency = s.latency
    rate = 0.0 if case.load else _beyond(case.users / predicted.requests_per_second, latency.mean, latency.half_width)
    several = case.lengths["output_tokens"] > 1
    tpot = _beyond(predicted.tpot.expected, s.tpot.mean, s.tpot.half_width) if several else 0.0
    ttft = _beyond(predicted.ttft.expected, s.ttft.mean, s.ttft.half_width)
    return Compared(text, *said, decided, rate, tpot, ttft, None if number else _tails(predicted, run))


def simulated(case: Drawn, load: dict[str, Any]) -> Simulated:
    """What requests saw, and how well it is known."""
    certain = not (case.load or any(case.spread) or case.where.get("speculation"))
    requests = max(2000, 10 * case.users) if certain else max(REQUESTS, 0 if case.load else 20 * case.users)
    while True:
        warmup = {"warmup": 5 * case.users} if certain else {}
        rows, extent = list[Row](), Extent(requests=requests, seed=1, **warmup)
        s = simulate(**case.where, **case.lengths, **load, extent=extent, written=rows.append)
        decided = certain or s.overloaded or _sure(s.ttft)
        if (decided and (certain or s.overloaded or _sure(s.latency))) or requests >= MOST:
            return Simulated(s, decided, {name: 0.0 if certain else _unsure(rows, i) for name, i in TAILS.items()})
        requests = min(MOST, 4 * requests)


def _sure(figure: Distribution) -> bool:
    """Whether a mean is known well enough; what is not known is not a number."""
    return bool(figure.half_width <= SURE * figure.mean)


def _spread(spread: tuple[float, float]) -> str:
    return "cv {:g}, {:g}".format(*spread) if any(spread) else "equal lengths"


def _unsure(rows: list[Row], column: int) -> float:
    """Half-width of the 95 % confidence of the 99th percentile of a figure, from those of consecutive parts."""
    values = [float(v) for row in rows if (v := row[column]) is not None]
    each = [np.quantile(part, 0.99) for part in np.array_split(values, PARTS) if part.size]
    return float(STUDENT[PARTS] * np.std(each, ddof=1) / np.sqrt(PARTS)) if len(each) == PARTS else 0.0


def _tails(predicted: rl.Serving, run: Simulated) -> float:
    """The largest relative error of the 99th percentile of TTFT, TPOT and latency."""
    pairs = (
        (getattr(predicted.percentiles, name).p99, getattr(run.seen, name).p99, run.unsure[name]) for name in TAILS
    )
    return max(_beyond(p, mean, unsure) for p, mean, unsure in pairs if mean > 0)


def _beyond(predicted: float, mean: float, half: float) -> float:
    """The relative error beyond half of the confidence interval."""
    return max(0.0, abs(predicted - mean) - (0.0 if isnan(half) else half)) / mean


def main(words: list[str]) -> int:
    """Draws, compares, prints."""
    only_users = words[-1:] == ["users"]
    words = words[: len(words) - only_users]
    cases, seed = [*map(int, words[:2]), *(300, 0)[len(words[:2]) :]]
    low, high = map(float, words[2:4]) if len(words) > 3 else (0.05, 0.98)
    rng, every = random.Random(seed), list[Compared]()
    while len(every) < cases:
        case = compared(drawn(rng, low, high, only_users))
        if case is not None:
            every.append(case)
    print(describe())
    decided = [c for c in every if c.decided]
    print(f"{cases} cases of seed {seed}, load {low:g} to {high:g}: {cases - len(decided)} are undecided")
    limits = ", ".join(f"{name} {most:.0%}" for name, most in ALLOWED.items())
    print(f"{'within':28}{'cases':>6}" + "".join(f"{n:>11}" for n in (*ALLOWED, "all")) + f"   of {limits}")
    _row("all", decided)
    kinds: tuple[Callable[[Compared], str], ...] = (lambda c: c.kind, lambda c: c.spread, lambda c: c.engine)
    for kind in kinds:
        for name in sorted(set(map(kind, decided))):
            _row(name, [c for c in decided if kind(c) == name])
    for c in sorted(decided, key=lambda c: -c.worst()):
        if c.worst() > 1:
            figures = ((n, getattr(c, n)) for n in ALLOWED)
            print("  ".join(f"{n} {v:7.1%}" if v is not None else f"{n}       –" for n, v in figures) + f"  {c.text}")
    for c in every:
        if not c.decided:
            print(f"undecided  {c.text}")
    return 0


def _row(name: str, group: list[Compared]) -> None:
    """The shares of a group that are within what each figure may be off, and within all of them."""
    shares = []
    for figure in ALLOWED:
        known = [c for c in group if getattr(c, figure) is not None]
        shares.append(f"{sum(c.within(figure) for c in known) / len(known):>11.0%}" if known else f"{'–':>11}")
    print(f"{name:28}{len(group):>6}" + "".join(shares) + f"{sum(c.worst() <= 1 for c in group) / len(group):>11.0%}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
