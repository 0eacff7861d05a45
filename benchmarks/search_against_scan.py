"""`search` against a scan of `serve` over degrees and users, of drawn models, machines, lengths and limits.

    python benchmarks/search_against_scan.py [CASES]

A case is one machine of a few chips and a few tensor-parallel degrees. Without a load the scan asks `serve` for every
number of users up to `USERS` under every degree, and keeps the most tokens a second of a chip within the limits. With a
concurrency it asks for every number of replicas, and keeps the fewest chips. Every plan that is listed is then asked
again by `serve`. Prints a line for each case; exits with 1 where a search is more than `WITHIN` below its scan, or a
plan has other figures than `serve`.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import roofline as rl

USERS, WITHIN, SAME = 399, 0.01, 1e-9
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

    def plans(self) -> tuple[Any, ...]:
        """What `search` lists."""
        layouts = [f"tp={tp}" for tp in DEGREES if tp <= self.chips]
        answer = rl.search(
            self.model, **self.where, **self.load, **self.slo, chips=self.chips, layout=layouts, kind="aggregated"
        )
        return tuple(answer.plans)

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
                times = {"ttft": s.ttft, "tpot": s.tpot}
                kept = s.fits & (s.in_flight_per_replica <= s.capacity // replicas)
                for name, limit in self.slo.items():
                    kept = kept & (times[name].expected <= limit)
                value = 1 / (tp * replicas) if "concurrency" in self.load else s.tokens_per_second_per_chip
                best = max(best, float(np.max(np.where(kept, value, 0.0))))
        return best


def drawn(seed: int) -> Case:
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
    return Case(draw.choice(MODELS), where, load, slo, draw.choice((1, 2, 4, 8)))


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


def compared(seed: int) -> tuple[Case, float, float, float]:
    """A case, the best of its search and of its scan, and how far its plans are from `serve`."""
    case = drawn(seed)
    plans = case.plans()
    found = 0.0
    if plans:
        found = 1 / plans[0].chips if "concurrency" in case.load else float(plans[0].tokens_per_second_per_chip)
    return case, found, case.scanned(), max((asked_again(case, plan) for plan in plans), default=0.0)


def main(words: list[str]) -> int:
    """Prints the cases, and says whether all are within."""
    bad = 0
    for seed in range(int(words[0]) if words else 40):
        case, found, best, apart = compared(seed)
        missed = found < (1 - WITHIN) * best or apart > SAME
        bad += missed
        share = f"{found / best:.4f}" if best else f"{found:.3g} of nothing"
        load = ", ".join(f"{name}={value}" for name, value in case.load.items())
        print(
            f"{seed:3} {case.model} on {case.chips} {case.where['on']} ({case.where['engine']}), {load}, "
            f"{ {n: round(v, 4) for n, v in case.slo.items()} }: search / scan {share}; asked again within {apart:.1e}"
            f"{'  MISSED' if missed else ''}",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
