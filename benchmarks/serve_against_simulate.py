"""Draws servers and compares what `serve` says with what `simulate` does request by request.

    python benchmarks/serve_against_simulate.py [CASES] [SEED] [LOW HIGH] [users]

Models × chips × engines × lengths × load: a share LOW to HIGH (0.05 to 0.9) of the rate that `serve` says the server
takes at most, at random, and one case in six a closed loop, whose users all begin at once. One in seven has lognormal
lengths, of which `serve` knows the means; the users of such a loop are in no order, which is `serve`'s formula. One in
six verifies drafts, by a small model or for free; their users are out of step, whom `serve` follows. With `users` every
case is a closed loop of lengths that vary. Errors
are what lies beyond the simulation's own 95 % confidence; a case that the simulation calls overloaded counts as wrong.
Prints the shares within 3 % of throughput, 5 % of TPOT and 15 % of TTFT, of percentiles of all three (TTFT, TPOT,
latency) within 15 % at p90 and 25 % at p99 where lengths are fixed, and the worst cases.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

import roofline as rl
from machine_description import describe
from roofline.simulation.simulate import Extent, simulate

PLACES = (
    ("meta-llama/Llama-3.1-8B", ("h100-sxm", "a100-sxm-80gb", "l40s", "h200-sxm", "b200", "mi300x"), None),
    ("meta-llama/Llama-3.2-1B", ("l4", "h100-sxm"), None),
    ("meta-llama/Llama-3.1-70B", ("8xh100-sxm", "8xh200-sxm"), "tp=8"),
    ("Qwen/Qwen3-32B", ("h200-sxm", "b200"), None),
    ("Qwen/Qwen3-30B-A3B", ("h100-sxm", "h200-sxm", "b200"), None),
    ("openai/gpt-oss-20b", ("h100-sxm", "b200"), None),
    ("openai/gpt-oss-120b", ("b200", "h200-sxm"), None),
    ("deepseek-ai/DeepSeek-V3", ("8xh200-sxm",), "tp=8"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", ("4xh200-sxm",), "tp=4"),
)
ENGINES = ("vllm", "sglang", "trtllm")
REQUESTS, LONG, BUSY = 12_000, 80_000, 0.94
"""Requests of a simulation at random, and from what load so many more: there a wait is forgotten after thousands."""
WORST = 15


@dataclass(frozen=True)
class Compared:
    """A case in words, and by how much throughput, TPOT and TTFT are off beyond what the simulation leaves open.

    `p90`, `p99`: the largest error of those of TTFT, TPOT and latency; none of a formula of means.
    """

    kind: str
    text: str
    throughput: float
    tpot: float
    ttft: float
    p90: float | None = None
    p99: float | None = None

    @property
    def worst(self) -> float:
        """The largest of the three, over what it may be."""
        return max(self.throughput / 0.03, self.tpot / 0.05, self.ttft / 0.15)


def drafts(rng: random.Random) -> rl.Speculation | None:
    """What drafts tokens in one case of six."""
    if rng.random() > 1 / 6:
        return None
    draft = rl.load("meta-llama/Llama-3.2-1B") if rng.random() < 0.5 else None
    return rl.Speculation(round(rng.uniform(0.3, 0.95), 2), rng.randint(1, 6), draft)


def drawn(
    rng: random.Random, low: float, high: float, speculation: rl.Speculation | None, only_users: bool
) -> Compared | None:
    """One case; None where the server does not hold such a request."""
    model, chips, layout = rng.choice(PLACES)
    where = {"on": rng.choice(chips), "engine": rng.choice(ENGINES), **({"layout": layout} if layout else {})}
    new, out = round(10 ** rng.uniform(1.7, 4.3)), round(10 ** rng.uniform(0.3, 3.1))
    load, spread, loop = rng.uniform(low, high), rng.random() < 1 / 7, rng.random() < 1 / 6
    spread, loop = spread or only_users, loop or only_users
    where |= {"speculation": speculation}
    full = rl.serve(model, input=new, output=out, concurrency=2**20, formula=True, **where)
    if not full.fits:
        return None
    most = full.requests_per_second
    lengths = {"input": new, "output": out}
    sent = {name: f"lognormal({n},0.4)" for name, n in lengths.items()} if spread else lengths
    text = f"{model} {where['on']} {where['engine']} {new}/{out}{' lognormal' if spread else ''}"
    if loop:
        users = max(1, round(10 ** rng.uniform(0, 2.5)))
        predicted = rl.serve(model, **lengths, concurrency=users, formula=spread, **where)
        settling = 25 * users if speculation else 3 * users + 50
        extent = Extent(requests=max(2000, 10 * users), warmup=settling, seed=1)
        s = simulate(model, **sent, concurrency=users, extent=extent, **where)
        text += f" concurrency {users}"
    else:
        predicted = rl.serve(model, **lengths, rate=load * most, **where)
        extent = Extent(requests=LONG if load >= BUSY else REQUESTS, seed=1)
        s = simulate(model, **sent, rate=load * most, extent=extent, **where)
        text += f" load {load:.2f}"
    text += f" {speculation.length} drafts right with {speculation.acceptance}" if speculation else ""
    kind = f"{'closed' if loop else 'at random'}, {'varied' if spread else 'equal'}, {where['engine']}"
    kind += ", drafts" if speculation else ""
    if s.overloaded and not loop:
        return Compared(kind, f"{text} overloaded", float("inf"), float("inf"), float("inf"))
    rate = abs(predicted.requests_per_second / s.requests_per_second - 1) if loop else 0.0
    tpot = _beyond(predicted.tpot.expected, s.tpot) if out > 1 else 0.0
    tails = [_tails(predicted, s, part) if predicted.percentiles and not spread else None for part in ("p90", "p99")]
    return Compared(kind, text, rate, tpot, _beyond(predicted.ttft.expected, s.ttft), *tails)


def _tails(predicted: rl.Serving, simulated: rl.Simulation, part: str) -> float:
    """The largest relative error of a percentile of TTFT, TPOT and latency."""
    pairs = [
        (getattr(getattr(predicted.percentiles, name), part), getattr(getattr(simulated, name), part))
        for name in ("ttft", "tpot", "latency")
    ]
    return max(abs(p / seen - 1) for p, seen in pairs if seen > 0)


def _beyond(predicted: float, simulated: object) -> float:
    """The relative error beyond half of the confidence interval."""
    mean, half = simulated.mean, simulated.half_width
    return max(0.0, abs(predicted - mean) - (half if half == half else 0.0)) / mean


def main(words: list[str]) -> int:
    """Draws, compares, prints."""
    only_users = words[-1:] == ["users"]
    words = words[: len(words) - only_users]
    cases, seed = [*map(int, words[:2]), *(300, 0)[len(words[:2]) :]]
    low, high = map(float, words[2:4]) if len(words) > 3 else (0.05, 0.9)
    rng, drafting = random.Random(seed), random.Random(seed + 1)
    compared: list[Compared] = []
    while len(compared) < cases:
        case = drawn(rng, low, high, drafts(drafting), only_users)
        if case is not None:
            compared.append(case)
    print(describe())
    print(f"{'':34} {'cases':>5} {'throughput':>10} {'TPOT':>6} {'TTFT':>6}   within 3, 5, 15 %")
    for kind in ("", *sorted({c.kind for c in compared})):
        group = [c for c in compared if kind in ("", c.kind)]
        within = [sum(getattr(c, n) <= d for c in group) / len(group) for n, d in _ALLOWED]
        print(f"{kind or 'all':34} {len(group):>5} {within[0]:>10.0%} {within[1]:>6.0%} {within[2]:>6.0%}")
    tails = [c for c in compared if c.p90 is not None and c.p99 is not None]
    if tails:
        near = sum(c.p90 <= 0.15 for c in tails) / len(tails), sum(c.p99 <= 0.25 for c in tails) / len(tails)
        print(f"percentiles of {len(tails)} cases: p90 within 15 % in {near[0]:.0%}, p99 within 25 % in {near[1]:.0%}")
    for c in sorted(compared, key=lambda c: -c.worst)[:WORST]:
        print(f"throughput {c.throughput:7.1%}  TPOT {c.tpot:7.1%}  TTFT {c.ttft:7.1%}  {c.text}")
    return 0


_ALLOWED = (("throughput", 0.03), ("tpot", 0.05), ("ttft", 0.15))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
