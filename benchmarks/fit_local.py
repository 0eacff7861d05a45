"""Fits llama.cpp's kernels on machines that people own, by backend, and says how far machines that took no part fall.

    python benchmarks/fit_local.py DIR [--write]

A step's time is Σ over kernels of  t0 + max(arithmetic / c, bytes / m)  with one t0 a backend, the fraction m of the
bandwidth and c of the peak by the width of the weights, and of attention over the cache. Prompts go in parts of 512
tokens (`--ubatch-size`). With --write the constants go to `kernels/constants/SOFTWARE.toml`.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

import roofline as rl
from local_rows import LocalRow, engine_of, load, local_rows, precision_of
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.kernels.constants import FOLDER
from roofline.work import ops as o

UBATCH = 512
CLASSES = ("wide", "int8", "int4", "attention", "stream", "experts", "scan", "experts4")
GENERATIONS = ("ampere", "ampere-rtx", "ada", "blackwell-rtx")
SOFTWARE = {("nvidia", "llama.cpp"): "llama.cpp-cuda", ("apple", "llama.cpp"): "llama.cpp-metal",
            ("amd", "llama.cpp"): "llama.cpp-rocm"}  # fmt: skip
NAMES = (
    "t0",
    *(f"memory_{c}" for c in CLASSES),
    *(f"compute_{c}" for c in CLASSES),
    "clocked",
    *GENERATIONS,
    "integers",
    "other",
)
START = np.array(
    [
        5e-6,
        0.85,
        0.85,
        0.85,
        0.4,
        0.5,
        0.6,
        0.4,
        0.6,
        0.45,
        0.45,
        0.4,
        0.2,
        0.1,
        0.3,
        0.1,
        0.3,
        7.0,
        1.0,
        1.0,
        1.0,
        1.0,
        1.3,
        1.5,
    ]
)
LEAST = np.array([2e-7, *[0.02] * 8, *[0.005] * 8, 2.0, *[0.3] * 4, 0.5, 0.5])
MOST = np.array([8e-5, *[0.97] * 8, *[0.95] * 8, 50.0, *[3.0] * 4, 2.2, 5.0])
SHARP = 4.0
"""How sharply a kernel goes over from the memory's limit to that of its cores."""


@dataclass(frozen=True)
class Work:
    """Kernels of a step by class: how many, and their seconds at full peak and bandwidth.

    `odd`: attention of prompts whose heads are not of 128 elements.
    """

    classes: np.ndarray
    counts: np.ndarray
    compute: np.ndarray
    memory: np.ndarray
    times: float
    wide: float
    clocks: float
    generation: int
    odd: np.ndarray

    def seconds(self, point: np.ndarray) -> float:
        """The law."""
        n = len(CLASSES)
        fractions, compute = point[1 : n + 1][self.classes], point[n + 1 : 2 * n + 1][self.classes]
        memory = (fractions**-SHARP + (self.clocks / point[2 * n + 1]) ** SHARP) ** (-1 / SHARP)
        faster = self.wide ** point[-2] * (point[2 * n + 2 + self.generation] if self.generation >= 0 else 1.0)
        compute = np.minimum(compute * faster, 0.97) / np.where(self.odd, point[-1], 1.0)
        each = point[0] + np.maximum(self.compute / compute, self.memory / memory)
        return float(self.times * np.sum(self.counts * each))


def class_of(op: Any, target: Any) -> int:
    """Whose fractions an op has."""
    cost = op.cost.op
    if isinstance(cost, o.ExpertMatMul):
        return CLASSES.index("experts4" if target.path(cost).weight < 0.75 else "experts")
    if isinstance(cost, o.MatMul):
        dtype = target.path(cost).dtype
        return CLASSES.index({"int8_wo": "int8", "int4_wo": "int4", "w4a16_mxfp4": "int4"}.get(dtype, "wide"))
    if isinstance(cost, o.Attend):
        return CLASSES.index("attention")
    return CLASSES.index("scan" if isinstance(cost, o.ScanOp) else "stream")


def integer_rate(chip: Chip) -> float:
    """Half of the int8 rate over the fp16 rate, where that is more: products of integers, or accumulated in fp16."""
    return max(1.0, chip.peaks.get("int8", 0.0) / 2 / chip.peak("fp16")) if chip.vendor == "nvidia" else 1.0


def clocks(chip: Chip) -> float:
    """Bytes that the memory brings each core in a clock."""
    return chip.bandwidth / ((chip.units or 1) * (chip.clock or 1e9))


@cache
def work_of(row: LocalRow) -> Work:
    """The kernels of a row's step."""
    model = load(row)
    times = 1.0
    if row.prompt:
        part = min(UBATCH, row.prompt)
        times = row.prompt / part
        step = rl.prefill(1, part, cached=row.depth + int((times - 1) * part / 2))
    else:
        step = rl.decode(1, row.context)
    e = rl.estimate(
        model,
        step,
        on=chip_named(row.chip),
        engine=engine_of(row),
        precision=precision_of(row),
        law="ideal",
        within=False,
    )
    kernels = [kernel for op in e.ops if not op.cost.op.rides for kernel in kernels_of(op, e.target, row)]
    classes, counts, compute, memory, odd = (np.array(column) for column in zip(*kernels, strict=True))
    return Work(
        classes, counts, compute, memory, times, integer_rate(e.chip), clocks(e.chip),
        GENERATIONS.index(e.chip.generation) if e.chip.generation in GENERATIONS else -1, odd,
    )  # fmt: skip


def kernels_of(op: Any, target: Any, row: LocalRow) -> Iterator[tuple[int, float, float, float, bool]]:
    """An op's kernels: class, how many, seconds at full peak and bandwidth, and whether attention of odd heads.

    A prompt's attention without flash attention is products over the full square, and passes of its scores.
    """
    cost = op.cost.op
    compute, memory = float(op.each.compute), float(op.each.memory)
    attends = isinstance(cost, o.Attend)
    if attends and row.prompt and not row.flash:
        scores = cost.heads * cost.square
        flops = 2 * (cost.qk_dim + cost.v_dim) * scores
        yield CLASSES.index("wide"), op.layers, flops / target.chip.peak("fp16"), 0.0, False
        moved = 2 * target.engine.score_passes * scores / target.chip.bandwidth
        yield CLASSES.index("stream"), op.layers, 0.0, moved, False
    else:
        odd = attends and bool(row.prompt) and (cost.qk_dim + cost.v_dim) / 2 != 128
        yield class_of(op, target), op.layers, compute, memory, odd


def ratios(rows: list[LocalRow], point: np.ndarray) -> np.ndarray:
    """Expected over measured tokens a second."""
    return np.array([(row.prompt or 1) / work_of(row).seconds(point) / row.rate for row in rows])


def solved(rows: list[LocalRow]) -> np.ndarray:
    """The constants that fit rows best: every chip, model, mix and test weighs the same."""
    many: dict[Any, int] = defaultdict(int)
    for r in rows:
        many[r.chip, r.model, r.mix, r.test] += 1
    weight = np.array([many[r.chip, r.model, r.mix, r.test] ** -0.5 for r in rows])
    started = np.log(START)

    def residual(point: np.ndarray) -> np.ndarray:
        return np.concatenate([weight * np.log(ratios(rows, np.exp(point))), 0.03 * (point - started)])

    bounds = (np.log(LEAST), np.log(MOST))
    return np.exp(least_squares(residual, started, bounds=bounds, loss="soft_l1", f_scale=0.15, max_nfev=60).x)


def said(name: str, values: np.ndarray) -> str:
    error = np.abs(values - 1)
    return (
        f"{name:34}{len(values):5}  median {np.median(error):6.1%}  mean {np.mean(error):6.1%}  "
        f"bias {np.median(values) - 1:+6.1%}  80 % in {np.quantile(1 / values, 0.1):.2f} to "
        f"{np.quantile(1 / values, 0.9):.2f}"
    )


def grouped(rows: list[LocalRow]) -> dict[str, list[LocalRow]]:
    """Rows by the software that runs them."""
    groups: dict[str, list[LocalRow]] = defaultdict(list)
    for row in rows:
        vendor = chip_named(row.chip).vendor
        if row.engine == "llama.cpp-vulkan" and vendor != "amd":
            continue  # not what is run there
        if row.piped:
            continue  # follows from one card's
        software = "llama.cpp-vulkan" if row.engine == "llama.cpp-vulkan" else SOFTWARE.get((vendor, "llama.cpp"))
        if software and row.engine != "ollama":
            groups[software].append(row)
    return groups


def held_out(rows: list[LocalRow]) -> dict[str, list[float]]:
    """Predicted over measured of answers and prompts on machines left out; of one machine: on models left out."""
    of = "chip" if len({r.chip for r in rows}) > 1 else "model"
    out: dict[str, list[float]] = defaultdict(list)
    for name in sorted({getattr(r, of) for r in rows}):
        apart = solved([r for r in rows if getattr(r, of) != name])
        for row in (r for r in rows if getattr(r, of) == name):
            out[row.test] += ratios([row], apart).tolist()
    return out


def fitted(software: str, rows: list[LocalRow]) -> tuple[np.ndarray, dict[str, tuple[float, float, float]]]:
    """The constants of a backend, and of answers and prompts the interval and the error on machines left out."""
    chips = sorted({r.chip for r in rows})
    point, out = solved(rows), held_out(rows)
    print(f"== {software}: {', '.join(chips)}")
    print("   " + "  ".join(f"{n} {v:.3g}" for n, v in zip(NAMES, point, strict=True)))
    ends = {}
    for test in ("answer", "prompt"):
        mine = [r for r in rows if r.test == test]
        print(said(f"  {test}, fitted", ratios(mine, point)))
        held = np.array(out[test])
        print(said(f"  {test}, left out", held))
        ends[test] = (*(float(np.quantile(1 / held, q)) for q in (0.1, 0.9)), float(np.mean(np.abs(held - 1))))
    return point, ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rows", action="store_true", help="every row")
    given = parser.parse_args()
    every = [r for r in local_rows(given.folder) if not isinstance(r, str)]
    for software, rows in grouped(every).items():
        point, ends = fitted(software, rows)
        if given.rows:
            for row, ratio in zip(rows, ratios(rows, point), strict=True):
                length = row.prompt or row.generated
                print(
                    f"  {row.chip:22}{row.model[-28:]:30}{row.mix:12}{row.test:7}{length:6}@{row.depth:<6}{ratio:6.2f}"
                )
        if given.write:
            write(software, rows, point, ends)


def write(software: str, rows: list[LocalRow], point: np.ndarray, ends: dict[str, Any]) -> None:
    """The constants as files: of the backend, and for each generation with a speed of its own."""
    value = dict(zip(NAMES, point.tolist(), strict=True))
    known = {chip_named(r.chip).generation for r in rows}
    for generation in ("", *(g for g in GENERATIONS if g in known)):
        name = f"{software}-{generation}" if generation else software
        faster = value[generation] if generation else 1.0
        lines = [
            "# Written by benchmarks/fit_local.py --write: llama.cpp on",
            f"# {', '.join(sorted({r.chip for r in rows}))}.",
            "# low, high: what 80 % of answers' rows (attention of prompts: of prompts') lie within on a machine that",
            "# took no part (of one machine: a model); mape: answers' mean error there. clocked: bytes that a core",
            "# reads in a clock; integers: power of half the int8 rate over fp16's, by which products are faster.",
            "", "[cores]", f"generations = {sorted(known)!r}".replace("'", '"'), f"clocked = {value['clocked']:.4g}",
            f"integers = {value['integers'] if any(chip_named(r.chip).vendor == 'nvidia' for r in rows) else 0.0:.4g}",
        ]  # fmt: skip
        error = ends["answer"][2]
        for dtype, kind, which, law in ENTRIES:
            lines += ["", f"[{dtype}.{kind}.default]", f"t0 = {value['t0']:.4g}"]
            figures = {**law, "memory": value[f"memory_{which}"]}
            if "compute" in law:
                figures["compute"] = value[f"compute_{which}"] * faster
            if "other" in law:
                figures["other"] = value["other"]
            prompts = kind in ("prefill", "latent_prefill")
            lines += [f"{key} = {number:.4g}" for key, number in figures.items()]
            lines += [
                f"{key} = {number:.4g}" for key, number in ends_of(*ends["prompt" if prompts else "answer"][:2]).items()
            ]
            lines += [f"rows = {len(rows)}", f"mape = {error:.4f}"]
        (FOLDER / f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def ends_of(low: float, high: float) -> dict[str, float]:
    """The ends for short and for long ops."""
    return {"low": low, "high": high, "low_small": low, "high_small": high}


PLAIN = {"compute": 0.0, "sharp": 20.0, "split": float("inf"), "step": 0.0, "l2": 1.0, "height": 1.0, "tile": 1.0}
DECODES = {"sharp": 20.0, "block": 0.0, "walk": 0.0, "reach": 1e7, "l2": 1.0}
PREFILLS = {"compute": 0.0, "fixed": 0.0, "pad": 0.0, "tail": 0.0, "other": 1.0, "l2": 1.0}
ROUTED = {"compute": 0.0, "sharp": 20.0, "passes": 0.5, "expert": 0.0, "l2": 1.0, "height": 1.0, "tile": 1.0}
ENTRIES: tuple[tuple[str, str, str, dict[str, float]], ...] = (
    ("bf16", "matmul", "wide", PLAIN), ("int8_wo", "quantised_matmul", "int8", PLAIN),
    ("int4_wo", "quantised_matmul", "int4", PLAIN), ("w4a16_mxfp4", "quantised_matmul", "int4", PLAIN),
    ("bf16", "stream", "stream", {"l2": 1.0}), ("bf16", "decode", "attention", {**DECODES, "head": 0.0}),
    ("bf16", "prefill", "attention", PREFILLS), ("bf16_kv_bf16", "latent_prefill", "attention", PREFILLS),
    ("bf16_kv_bf16", "latent_decode", "attention", {**DECODES, "compute": 0.0}),
    ("bf16", "experts", "experts", ROUTED), ("int8_wo", "experts", "experts", ROUTED),
    ("int4_wo", "experts", "experts4", ROUTED), ("w4a16_mxfp4", "experts", "experts4", ROUTED),
    ("bf16", "scan", "scan", {"compute": 0.0, "chunk": 0.0}),
)  # fmt: skip
"""Dtype and kind of op, whose fractions it has, and the rest of its law: nothing but t0 and a roofline."""


if __name__ == "__main__":
    main()
