"""`search` against a scan of `serve` over degrees and users, of drawn models, machines, lengths and limits.

    python benchmarks/search_against_scan.py [CASES [FIRST]] [--mean] [--confirm]

A case is one machine of a few chips and a few tensor-parallel degrees. Without a load the scan asks `serve` for every
number of users up to `USERS` under every degree, and keeps the most tokens a second of a chip within the limits. With a
concurrency it asks for every number of replicas, and keeps the fewest chips. Every plan that is listed is then asked
again by `serve`. Limits are for 99 % of the requests, with `--mean` for their means. `--confirm` simulates the
recommended plan of each case. FIRST, by default 0, is the seed of the first case. Prints a line for each case; exits
with 1 where a search is more than `WITHIN` below its scan, a plan has other figures than `serve`, or a recommended plan
misses its limits in the simulation.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import roofline as rl
from roofline.declared.groups import KEPT_BY
from roofline.declared.kinds import MEAN
from roofline.whatif.search.confirmation import confirmed

USERS, WITHIN, SAME = 399, 0.01, 1e-9
LOOSER = {"ttft": 4.0, "tpot": 1.5}
"""Times as long limits of 99 % of the requests as of means, so that about as many cases have a plan."""
MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B")
CHIPS = ("h100-sxm", "h200-sxm", "b200", "a100-sxm-80gb", "mi300x")
ENGINES = (None, None, "vllm(max_num_seqs=64)", "sglang", "trtllm", "none")
DEGREES = (1, 2, 4)


@dataclass(frozen=True)
class Case:
    """A search in a small space."""

    model: str
    where: dict[str, Any]
    load: dict[str, Any]
    slo: dict[str, float]
    chips: int
    attainment: float | str

    @property
    def limits(self) -> rl.Limits:
        """What has to be kept."""
        return rl.Limits(**self.slo, attainment=self.attainment)

    def searched(self) -> rl.Search:
        """What `search` says."""
        layouts = [f"tp={tp}" for tp in DEGREES if tp <= self.chips]
        where = {**self.where, **self.load, "chips": self.chips, "layout": layouts, "kind": "aggregated"}
        answer: rl.Search = rl.search(self.model, **where, **self.slo, attainment=self.attainment)
        return answer

    def scanned(self) -> float:
        """The best of the scan, 0 where nothing keeps the limits: tokens/s of a chip, or 1 / chips."""
        best = 0.0
        for tp in (tp for tp in DEGREES if tp <= self.chips):
            for replicas in range(1, self.chips // tp + 1):
                given = dict(self.load)
                if "concurrency" not in given:
                    if replicas > 1:
                        break
                    given["concurrency"] = np.arange(1, USERS + 1)
                elif replicas > given["concurrency"]:
                    break
                try:
                    s = rl.serve(self.model, **self.where, **given, layout=f"tp={tp},dp={replicas}")
                except rl.InputError:  # a degree that does not divide
                    break
                kept = s.fits & (s.in_flight_per_replica <= s.capacity // replicas)
                kept = kept & (self.limits.used((s.ttft, s.tpot, s.latency), s.percentiles) <= 1)
                value = 1 / (tp * replicas) if "concurrency" in self.load else s.tokens_per_second_per_chip
                best = max(best, float(np.max(np.where(kept, value, 0.0))))
        return best


def drawn(seed: int, attainment: float | str = KEPT_BY) -> Case:
    """A case, always the same of a seed."""
    draw = random.Random(seed)
    where = {"on": draw.choice(CHIPS), "engine": draw.choice(ENGINES)}
    load: dict[str, Any] = {"input": draw.choice((128, 1000, 4000, 8000)), "output_tokens": draw.choice((1, 32, 300))}
    if draw.random() < 0.3:
        load["prefix"] = 0.5
    if draw.random() < 0.35:
        load["concurrency"] = draw.choice((3, 20, 64, 150))
    slo = {"ttft": draw.uniform(0.05, 1.5)}
    if draw.random() < 0.8:
        slo["tpot"] = draw.uniform(0.004, 0.04)
    if attainment != MEAN:
        slo = {name: LOOSER[name] * limit for name, limit in slo.items()}
    return Case(draw.choice(MODELS), where, load, slo, draw.choice((1, 2, 4, 8)), attainment)


def asked_again(case: Case, plan: Any) -> float:
    """How far apart the figures of a plan and of `serve` with its settings are, as a share."""
    layout = "" if plan.layout == "one chip" else f"{plan.layout},"
    load = {**case.load, "concurrency": plan.concurrency}
    s = rl.serve(case.model, **case.where, **load, layout=f"{layout}dp={plan.replicas}")
    pairs = (
        (plan.ttft.expected, s.ttft.expected), (plan.tpot.expected, s.tpot.expected), (plan.ttft.high, s.ttft.high),
        (plan.tokens_per_second, s.tokens_per_second),
        (plan.tokens_per_second_per_chip, s.tokens_per_second_per_chip),
    )  # fmt: skip
    return max(abs(ours / theirs - 1) for ours, theirs in pairs)


@dataclass(frozen=True)
class Compared:
    """A case, the best of its search and of its scan, and how far its plans are from `serve`."""

    case: Case
    answer: rl.Search
    ours: float
    scan: float
    apart: float

    @property
    def missed(self) -> bool:
        """Whether the search is worse than the scan, or its figures are not those of `serve`."""
        return self.ours < (1 - WITHIN) * self.scan or self.apart > SAME

    @property
    def confirmed(self) -> Any:
        """The simulation of the recommended plan; None where there is no plan, and of a known prefix."""
        plan = self.answer.recommended
        return None if plan is None or self.case.load.get("prefix") else confirmed(plan).confirmation


def compared(seed: int, attainment: float | str = KEPT_BY) -> Compared:
    """A case and what its search and its scan say."""
    case = drawn(seed, attainment)
    answer, ours = case.searched(), 0.0
    if answer.plans:
        first = answer.plans[0]
        ours = 1 / first.chips if "concurrency" in case.load else float(first.tokens_per_second_per_chip)
    apart = max((asked_again(case, plan) for plan in answer.plans), default=0.0)
    return Compared(case, answer, ours, case.scanned(), apart)


def main(words: list[str]) -> int:
    """Prints the cases, and says whether all are within."""
    numbers = [int(word) for word in words if not word.startswith("--")]
    bad = plans = kept = simulated = 0
    number, first = (*numbers, *(40, 0)[len(numbers) :])[:2]
    for seed in range(first, first + number):
        one = compared(seed, MEAN if "--mean" in words else KEPT_BY)
        case, c = one.case, one.confirmed if "--confirm" in words else None
        bad += one.missed or (c is not None and not c.keeps)
        plans += bool(one.answer.plans)
        share = f"{one.ours / one.scan:.4f}" if one.scan else f"{one.ours:.3g} of nothing"
        load = ", ".join(f"{name}={value}" for name, value in case.load.items())
        told = ""
        if c is not None:
            simulated, kept = simulated + 1, kept + c.keeps
            told = (
                f"; simulated: {100 * c.attained:.1f} ± {100 * c.attained_half_width:.1f} % within, {c.why or 'keeps'}"
            )
        print(
            f"{seed:3} {case.model} on {case.chips} {case.where['on']} ({case.where['engine']}), {load}, "
            f"{ {n: round(v, 4) for n, v in case.slo.items()} }: search / scan {share}; asked again within "
            f"{one.apart:.1e}{told}{'  MISSED' if one.missed else ''}",
            flush=True,
        )
    print(f"{plans} cases with a plan; {kept} of {simulated} recommended plans keep their limits in the simulation")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
