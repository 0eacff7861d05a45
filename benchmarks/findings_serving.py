"""One load at every door: the cases in which doors once disagreed, asked again as a user asks.

    python benchmarks/findings_serving.py [PART ...] [--requests N]

For each case: the figures of a review of an earlier version (`reviewed`, typed in), and those of today by `serve`, by a
plan of `search` with the same settings, and by a simulation of the same load with N requests a case. Parts: `means`,
`plans`, `rates`, `users`, `ranks`, `spread`, `further`. Ends with the cases in which doors are further apart than
TOLERANCES, beyond the simulation's own interval; exits with 1 where there are any.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np

import roofline as rl

TOLERANCES: Mapping[str, float] = {"ttft": 0.15, "tpot": 0.05, "rate": 0.03, "p99": 0.25}
"""Figure → how far apart doors may be."""
UNITS: Mapping[str, tuple[float, str]] = {
    "ttft": (1e3, "ms"),
    "tpot": (1e3, "ms"),
    "p99": (1e3, "ms"),
    "rate": (1, "/s"),
}
EQUAL: Mapping[str, float] = {"input_cv": 0.0, "output_cv": 0.0}
USERS = 399
LLAMA, QWEN, V3 = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-V3"
REQUESTS, STARTS = 6000, 20
"""Requests of a simulation, and simulations of a load's start."""


@dataclass(frozen=True)
class Asked:
    """A load of a server, the figure that was reviewed, and what was said of it then."""

    name: str
    model: str
    where: Mapping[str, Any]
    load: Mapping[str, Any]
    figure: str
    reviewed: str
    search: bool = True

    def served(self) -> float:
        """By `serve`."""
        return figure_of(rl.serve(self.model, **self.where, **self.load), self.figure)

    def searched(self) -> float:
        """By `search` of this server alone: its layout, on as many chips, under its load."""
        if not self.search or "rounds" in self.load:
            return nan
        served = rl.serve(self.model, **self.where, **self.load)
        replica, dp = served.deployment.layout, int(served.deployment.layout.dp)
        alone = dp == 1 or replica.ep > 1
        layout = f"tp={replica.tp},pp={replica.pp},dp={dp if alone else 1},ep={replica.ep}"
        where = {name: v for name, v in self.where.items() if name != "layout"}
        found = rl.search(
            self.model, **where, **self.load, layout=layout, chips=int(replica.chips), kind="aggregated",
            objective="latency" if "rate" in self.load else "total", attainment="mean",
        )  # fmt: skip
        return figure_of(found.plans[0], self.figure) if found.plans else nan

    def simulation(self, requests: int) -> tuple[float, float]:
        """By `simulate`, and the half width of its interval; not a number where it has none of this figure."""
        load = dict(self.load)
        users, rounds = int(load.get("concurrency", 0)), load.pop("rounds", None)
        if rounds:  # the start counts, of several runs
            runs = [
                rl.simulate(self.model, **self.where, **load, requests=rounds * users, warmup=0, seed=seed)
                for seed in range(STARTS)
            ]
            values = [figure_of(run, self.figure) for run in runs]
            return float(np.mean(values)), float(1.96 * np.std(values) / STARTS**0.5)
        s = rl.simulate(self.model, **self.where, **load, requests=max(requests, 12 * users), seed=1)
        widths = {"ttft": s.ttft.half_width, "tpot": s.tpot.half_width} if hasattr(s.ttft, "half_width") else {}
        return figure_of(s, self.figure), float(np.nan_to_num(widths.get(self.figure) or 0.0))


def figure_of(answer: Any, figure: str) -> float:
    """A figure of an answer of any door, in seconds or requests per second."""
    if figure == "rate":
        return float(answer.requests_per_second)
    if figure == "p99":
        tails = getattr(answer, "percentiles", None)
        return float(tails.ttft.p99 if tails is not None else answer.ttft.p99)
    value = getattr(answer, figure)
    return float(getattr(value, "expected", getattr(value, "mean", value)))


# -- the cases -----------------------------------------------------------------------------------------------------
def means() -> Iterator[Asked]:
    """Mean times at a concurrency, where `search` had lock-stepped requests."""
    for flight, tokens, answer, then in (
        (64, 1024, 256, ("search 583, serve 74, equal 586, varied 77", "13.3, 14.7, 13.2, 15.0")),
        (32, 8192, 128, ("search 1841, serve 499, equal 1856, varied 650", "52.6, 63.0, 53.0, 64.4")),
    ):
        load = {"input": tokens, "output_tokens": answer, "concurrency": flight}
        for figure, said in zip(("ttft", "tpot"), then, strict=True):
            yield Asked(f"8B h100 {flight} × {tokens}/{answer}", LLAMA, {"on": "h100-sxm"}, load, figure, said)
        half = {**load, "input_cv": 0.5, "output_cv": 0.5}
        yield Asked(f"8B h100 {flight} × {tokens}/{answer}, ± 50 %", LLAMA, {"on": "h100-sxm"}, half, "ttft", then[0])


def _loads(model: str, where: Mapping[str, Any], load: Mapping[str, Any], shares: Mapping[float, str], figure: str,
           name: str, search: bool = False) -> Iterator[Asked]:  # fmt: skip
    """A server at shares of the most that it takes."""
    most = float(rl.serve(model, **where, **load, concurrency=4096).requests_per_second)
    for share, said in shares.items():
        yield Asked(f"{name} at {share:g}", model, where, {**load, "rate": share * most}, figure, said, search)


def rates() -> Iterator[Asked]:
    """Servers at a rate, where the closed form fell with the load."""
    yield from _loads(
        "openai/gpt-oss-20b", {"on": "h200-sxm"}, {"input": 2048, "output_tokens": 1},
        {0.01: "formula 59", 0.6: "formula 55, simulate 92", 0.9: "formula 70, simulate 224, followed 220"}, "ttft",
        "gpt-oss-20b h200 2048/1",
    )  # fmt: skip
    yield from _loads(
        V3, {"on": "4xgb200", "layout": "tp=4", "precision": "weights=nvfp4"}, {"input": 100, "output_tokens": 1},
        {0.01: "formula 24", 0.4: "formula 6.3, followed 84", 0.9: "formula 33.7, followed 265"}, "ttft",
        "DeepSeek-V3 4 × gb200 100/1",
    )  # fmt: skip
    yield from _loads(
        LLAMA, {"on": "h100-sxm", "engine": "none"}, {"input": 128, "output_tokens": 128},
        {0.01: "formula 6.5", 0.4: "formula 4.5", 0.6: "formula 25.9", 0.9: "formula 17.3"}, "tpot",
        "8B h100, no engine, 128/128",
    )  # fmt: skip


def users() -> Iterator[Asked]:
    """Servers at a concurrency, where the formula had spikes, and TTFT was half of the simulation's."""
    said = {56: "660", 64: "3250", 72: "780; simulate 700"}
    for flight, then in said.items():
        load = {"input": 512, "output_tokens": 128, "concurrency": flight}
        yield Asked(f"Qwen3-32B h20 512/128 × {flight}", QWEN, {"on": "h20"}, load, "ttft", then)
    for flight, then in ((247, "4730"), (248, "100")):
        load = {"input": 512, "output_tokens": 128, "concurrency": flight}
        yield Asked(f"Qwen2.5-0.5B l40s 512/128 × {flight}", "Qwen/Qwen2.5-0.5B", {"on": "l40s"}, load, "ttft", then)
    load = {"input": 4000, "output_tokens": 500, "concurrency": 42}
    yield Asked(
        "Qwen3-32B 4 × h200 4000/500 × 42",
        QWEN,
        {"on": "h200-sxm", "layout": "tp=4"},
        load,
        "ttft",
        "251; simulate 455",
    )
    load = {"input": 4000, "output_tokens": 200, "concurrency": 58}
    yield Asked(
        "gpt-oss-20b b200 4000/200 × 58", "openai/gpt-oss-20b", {"on": "b200"}, load, "ttft", "92; simulate 163"
    )
    load = {"input": 32768, "output_tokens": 2, "concurrency": 2, **EQUAL}
    yield Asked("8B h100 32768/2 × 2, alike", LLAMA, {"on": "h100-sxm"}, load, "p99", "5550; possible 1970 to 2010")


def ranks() -> Iterator[Asked]:
    """Ranks that wait for each other, which only the simulation knew."""
    where = {"on": "8xb200", "layout": "dp=8,ep=8", "engine": "trtllm"}
    yield from _loads(
        V3, where, {"input": 836, "output_tokens": 77},
        {0.3: "32.8; simulate 68", 0.77: "77.3; simulate 149", 0.9: "137; simulate 291"}, "tpot",
        "DeepSeek-V3 8 × b200 dp=8,ep=8 836/77",
    )  # fmt: skip


def spread() -> Iterator[Asked]:
    """One load on one page."""
    load = {"input": 1024, "output_tokens": 256, "concurrency": 32}
    then = "62.5 serve, 419 simulate, 465 search"
    yield Asked("8B h100 1024/256 × 32", LLAMA, {"on": "h100-sxm"}, load, "ttft", then)
    yield Asked("the same, alike", LLAMA, {"on": "h100-sxm"}, {**load, **EQUAL}, "ttft", then)
    alike = {**load, **EQUAL}
    yield Asked("the same, alike, sglang", LLAMA, {"on": "h100-sxm", "engine": "sglang"}, alike, "ttft", "in step")
    yield Asked("the same, 10 rounds", LLAMA, {"on": "h100-sxm"}, {**load, "rounds": 10}, "ttft", "105", False)
    at_rate = {"input": 1024, "output_tokens": 256, "rate": 11.0}
    yield Asked("8B h100 1024/256 at 11/s", LLAMA, {"on": "h100-sxm"}, at_rate, "ttft", "62.7", False)


def further() -> Iterator[Asked]:
    """Further figures."""
    load = {"input": 1024, "output_tokens": 2000, "rate": 2.5}
    yield Asked("8B h100 1024/2000 at 2.5/s", LLAMA, {"on": "h100-sxm"}, load, "rate", "simulate 1.86", False)
    where = {"on": "2xh200-sxm", "layout": "tp=2", "engine": "trtllm", "precision": "weights=fp8,kv=fp8"}
    load = {"input": 1024, "output_tokens": 8192, "concurrency": 128}
    yield Asked(
        "70B fp8 2 × h200 1024/8192 × 128", "meta-llama/Llama-3.1-70B", where, load, "ttft", "163,000 without kv=fp8"
    )


PARTS: Mapping[str, Callable[[], Iterator[Asked]]] = {
    "means": means, "rates": rates, "users": users, "ranks": ranks, "spread": spread, "further": further,
}  # fmt: skip


def compared(asked: Asked, requests: int) -> bool:
    """Prints a case; whether its doors agree."""
    scale, unit = UNITS[asked.figure]
    served, searched = asked.served(), asked.searched()
    simulated, half = asked.simulation(requests)
    from_search = abs(searched / served - 1) if searched == searched else 0.0
    beyond = max(served / (simulated + half), (simulated - half) / served) - 1  # below 0 within its interval
    agrees = from_search <= 1e-6 and beyond <= TOLERANCES[asked.figure]
    told = (f"{name} {scale * v:,.4g}" for name, v in (("serve", served), ("search", searched)) if v == v)
    other = f", simulate {scale * simulated:,.4g} ± {100 * half / simulated:.0f} %"
    print(f"  {asked.name}, {asked.figure} in {unit}: reviewed {asked.reviewed} | {', '.join(told)}{other}"
          f"{'' if agrees else '  APART'}", flush=True)  # fmt: skip
    return agrees


# -- plans ---------------------------------------------------------------------------------------------------------
FP8 = {"precision": "weights=fp8"}
PLANS = (
    ("Qwen3-32B h200 4000/500", QWEN, "h200-sxm", {}, (4000, 500), (0.6, 0.020), 197.7, 516.0),
    ("Llama-70B h100 2000/300", "meta-llama/Llama-3.1-70B", "h100-sxm", {}, (2000, 300), (0.6, 0.030), 92.4, 251.5),
    ("gpt-oss-20b b200 4000/200", "openai/gpt-oss-20b", "b200", {}, (4000, 200), (0.3, 0.008), 5101, 6911),
    ("Qwen3-32B fp8 h200 4000/500", QWEN, "h200-sxm", FP8, (4000, 500), (0.3, 0.010), 107.3, 344.8),
    ("Llama-8B h100 4000/128", LLAMA, "h100-sxm", {}, (4000, 128), (0.5, 0.008), 601, 499.7),
    ("Qwen3-30B-A3B h100 2000/200", "Qwen/Qwen3-30B-A3B", "h100-sxm", {}, (2000, 200), (0.4, 0.012), 832, 671.6),
)  # fmt: skip
"""Name, model, chip, formats, tokens, mean TTFT and TPOT, tokens/s of a chip as reviewed: by `search`, by a scan."""
CHIPS = 8


def plans() -> int:
    """Prints the best aggregated plans within mean limits, by `search` and a scan of `serve`; how many are apart."""
    bad = 0
    for name, model, on, where, (tokens, answer), (ttft, tpot), search, scan in PLANS:
        load = {"input": tokens, "output_tokens": answer}
        found = rl.search(
            model,
            on=on,
            **where,
            **load,
            ttft=ttft,
            tpot=tpot,
            attainment="mean",
            chips=CHIPS,
            kind="aggregated",
            confirm=1,
        )
        best, at = 0.0, ""
        for tp in (1, 2, 4, 8):
            try:
                s = rl.serve(model, on=on, **where, **load, layout=f"tp={tp}", concurrency=np.arange(1, USERS + 1))
            except rl.InputError:
                continue
            kept = s.fits & (s.in_flight <= s.capacity) & (s.ttft.expected <= ttft) & (s.tpot.expected <= tpot)
            value = np.where(kept, s.tokens_per_second_per_chip, 0.0)
            if value.max() > best:
                best, at = float(value.max()), f"tp={tp} × {int(value.argmax()) + 1}"
        first = found.plans[0] if found.plans else None
        ours = 0.0 if first is None else float(first.tokens_per_second_per_chip)
        chosen, c = found.recommended, None if found.recommended is None else found.recommended.confirmation
        keeps = c is not None and c.keeps
        apart = ours < 0.99 * best or (chosen is not None and not keeps)
        bad += apart
        plan = "none" if first is None else f"{first.layout} × {first.concurrency // first.replicas}"
        print(
            f"  {name} (TTFT {ttft:g} s, TPOT {1e3 * tpot:g} ms): reviewed search {search:g}, scan {scan:g} | "
            f"search {ours:,.1f} ({plan}), scan {best:,.1f} ({at or 'none'}), recommended "
            f"{'none' if chosen is None else f'{chosen.layout} × {chosen.batch}: keeps' if keeps else 'misses'}"
            f"{'  APART' if apart else ''}", flush=True,
        )  # fmt: skip
    return bad


def main(words: list[str]) -> int:
    """Prints the parts, and how many cases are apart."""
    requests = int(words[words.index("--requests") + 1]) if "--requests" in words else REQUESTS
    wanted = [word for word in words if word in (*PARTS, "plans")] or [*PARTS, "plans"]
    bad = 0
    for part in wanted:
        print(f"{part}: {(plans if part == 'plans' else PARTS[part]).__doc__}")
        bad += plans() if part == "plans" else sum(not compared(asked, requests) for asked in PARTS[part]())
    print(f"{bad} cases are apart")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
