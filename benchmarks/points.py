"""How many points a second every estimate reaches, beside bare NumPy in the same run.

    python benchmarks/points.py

Bare NumPy multiplies and adds as many arrays of as many elements as the model has distinct ops, with nothing around it.
Rates and ratios are medians, of the processor's seconds: nothing here waits, and what else a machine does is left out.
Exits with 1 where a target is missed.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from statistics import median
from time import process_time
from typing import Any

import numpy as np

import roofline as rl
from machine_description import alternating, describe

LLAMA, DEEPSEEK, TRAINED = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "meta-llama/Llama-3.1-70B"
PLACES: dict[str, dict[str, str]] = {LLAMA: {"on": "h100-sxm"}, DEEPSEEK: {"on": "8xh200-sxm", "layout": "tp=8"}}
ROUNDS = 5
MILLION, MANY, STATES, CALLS = 1_000_000, 100_000, 20_000, 500
MEGABYTES = 300.0


@dataclass(frozen=True)
class Case:
    """Something to time: `run`, of so many `points` and a model of so many `ops`; `target`: points a second."""

    name: str
    points: int
    target: float
    ops: int
    run: Callable[[], object]


def drawn(points: int, seed: int = 0) -> tuple[Any, Any]:
    """Batches and contexts."""
    random = np.random.default_rng(seed)
    return random.integers(1, 257, points), random.integers(1, 131_072, points)


def timed(model: rl.Model, batch: Any, context: Any) -> object:
    """Expected seconds of decode steps."""
    return rl.estimate(model, rl.decode(batch=batch, context=context), **PLACES[model.name]).time


def everything(model: rl.Model, batch: Any, context: Any) -> object:
    """Expected seconds, interval, bound and memory of decode steps."""
    e = rl.estimate(model, rl.decode(batch=batch, context=context), **PLACES[model.name])
    return e.time, e.interval, e.bound, e.memory.total, e.fits


def one_by_one(model: rl.Model, steps: Iterator[tuple[int, int]]) -> None:
    """Decode steps that were not asked for before, a call for each."""
    for batch, context in islice(steps, CALLS):
        timed(model, batch, context)


def new_steps() -> Iterator[tuple[int, int]]:
    """Batches and contexts without end."""
    for seed in count():
        yield from zip(*(numbers.tolist() for numbers in drawn(10 * CALLS, seed)), strict=True)


def requests(points: int) -> dict[str, Any]:
    """Lengths of prompts and answers."""
    random = np.random.default_rng(1)
    return {"input": random.integers(1, 4097, points), "output_tokens": random.integers(2, 1025, points)}


def served(model: rl.Model, lengths: dict[str, Any]) -> object:
    """Servers with drawn requests in flight."""
    flight = np.random.default_rng(2).integers(1, 257, STATES)
    s = rl.serve(model, concurrency=flight, **lengths, **PLACES[model.name])
    return s.ttft, s.tpot, s.latency, s.tokens_per_second, s.fits


def generated(model: rl.Model, lengths: dict[str, Any]) -> object:
    """Static batches of drawn sizes."""
    batch = np.random.default_rng(2).integers(1, 257, STATES)
    g = rl.generate(model, batch=batch, engine="vllm", **lengths, **PLACES[model.name])
    return g.ttft, g.tpot, g.latency, g.tokens_per_second, g.fits


def cases() -> Iterator[Case]:
    """Everything that is timed in this process."""
    for name, loose, grid, single in ((LLAMA, 1e6, 3e6, 4000.0), (DEEPSEEK, 4e5, 1e6, 1000.0)):
        model = rl.load(name)
        ops = len({op.name for op in rl.analyze(model, rl.decode(batch=1, context=1)).ops})
        batch, context = np.arange(1, 1001)[:, np.newaxis], np.arange(128, 128_001, 128)
        yield Case(f"{name}, drawn points", MILLION, loose, ops, partial(timed, model, *drawn(MILLION)))
        yield Case(f"{name}, grid", MILLION, grid, ops, partial(everything, model, batch, context))
        yield Case(f"{name}, one warm call each", CALLS, single, ops, partial(one_by_one, model, new_steps()))
    model = rl.load(LLAMA)
    ops = len(rl.analyze(model, rl.decode(batch=1, context=1)).ops)
    yield Case(f"serve {LLAMA}, drawn states", STATES, 2e4, ops, partial(served, model, requests(STATES)))
    yield Case(f"generate {LLAMA}, drawn batches", STATES, 2e4, ops, partial(generated, model, requests(STATES)))


# -- layouts of training -------------------------------------------------------------------------------------------
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1")
DISCRETE = 64


def layouts(seed: int) -> Iterator[dict[str, Any]]:
    """So many layouts of training steps, in as many calls as discrete settings are drawn."""
    random = np.random.default_rng(seed)
    for points in random.multinomial(MANY, np.full(DISCRETE, 1 / DISCRETE)):
        pp, schedule = int(random.choice((1, 2, 4, 8))), str(random.choice(SCHEDULES))
        vp = 2 if schedule == "interleaved" and pp > 1 else 1
        tp, dp, micro = (random.choice(n, points) for n in ((1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (1, 2, 4)))
        yield {
            "layout": rl.Layout(tp=tp, dp=dp, pp=pp, vp=vp, sp=bool(random.integers(2)), zero=int(random.integers(4))),
            "schedule": schedule,
            "recompute": str(random.choice(("none", "selective", "full"))),
            "micro_batch": micro,
            "batch": dp * micro * 8 * random.integers(1, 33, points),
            "tokens": random.choice((2048, 4096, 8192), points),
        }


def training(seed: int) -> float:
    """Seconds of the drawn layouts in a process that has compiled none."""
    model = rl.load(TRAINED)
    rl.train(model, batch=8, tokens=4096, on="dgx-h100", layout="tp=8").time  # noqa: B018  (loads what is imported late)
    start = process_time()
    for options in layouts(seed):
        e = rl.train(model, on="65536xh100-sxm", **options)
        _ = e.time, e.memory.total, e.fits
    return process_time() - start


def memory() -> float:
    """Megabytes that a million drawn points need at most, beside their batches and contexts."""
    model, points = rl.load(LLAMA), drawn(MILLION)
    timed(model, *drawn(1000))
    tracemalloc.start()
    timed(model, *points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def apart(expression: str) -> float:
    """What an expression of this file gives in a process of its own."""
    program = f"import sys; sys.path.insert(0, {sys.path[0]!r}); import points; print(points.{expression})"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return float(done.stdout)


# -- the table -----------------------------------------------------------------------------------------------------
def seconds(run: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = process_time()
    run()
    return process_time() - start


def bare(points: int, ops: int) -> object:
    """One multiply and one add of arrays for each op."""
    values, total = np.ones(points), np.zeros(points)
    for i in range(ops):
        total += (i + 1.0) * values
    return total


def line(name: str, figure: str, target: str, met: bool) -> bool:
    """Prints a line, and says whether the target is met."""
    print(f"{name}: {figure} (target {target}){'' if met else ' MISSED'}", flush=True)
    return met


def rate(case: Case) -> bool:
    """Times a case in turn with bare NumPy."""
    case.run()
    floor = partial(bare, case.points, case.ops)
    ours, numpy = alternating(partial(seconds, case.run), partial(seconds, floor), ROUNDS)
    reached = case.points / ours
    figure = f"{reached:,.0f} points/s, {ours / numpy:.0f} × bare NumPy"
    if case.points == CALLS:
        figure = f"{1e3 / reached:.3f} ms a point; {figure}"
    return line(case.name, figure, f"≥ {case.target:,.0f}", reached >= case.target)


def main() -> int:
    """Prints every figure."""
    print(describe())
    met = [rate(case) for case in cases()]
    times = [apart(f"training({seed})") for seed in range(3)]
    ops = len(rl.analyze(rl.load(TRAINED), rl.training(batch=1, tokens=4096)).ops)
    numpy = median(seconds(partial(bare, MANY, ops)) for _ in range(ROUNDS))
    reached = MANY / median(times)
    figure = f"{reached:,.0f} points/s, {median(times) / numpy:.0f} × bare NumPy"
    name = f"train {TRAINED}, {MANY:,} drawn layouts of {DISCRETE} discrete settings, compiled"
    met.append(line(name, figure, "≥ 50,000", reached >= 5e4))
    more = memory()
    met.append(line("a million drawn points", f"{more:.0f} MB more", f"≤ {MEGABYTES:.0f}", more <= MEGABYTES))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
