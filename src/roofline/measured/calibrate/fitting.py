"""Fit the laws' constants to measurements by least squares of log errors, with cross-validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.frozen_mapping import frozen, frozen_tree
from roofline.hardware.chip import Chip
from roofline.kernels import law
from roofline.kernels.law import RECORDS
from roofline.kernels.target import roof_of
from roofline.measured.calibrate.cases import (
    BYTES,
    Calibration,
    Fitted,
    Floats,
    MeasuredMachine,
    Measurement,
    Measurements,
)

LAYER_LAUNCHES: Mapping[str, int] = frozen({"matmul": 4, "stream": 4, "decode": 1})
"""Kind → launches in one dense layer, with q, k and v merged into one product, and gate and up into another."""
SUMS = 2
"""Residual sums per layer, which are fused with the norms after them."""
FREE: Mapping[str, Mapping[str, tuple[float, float, float]]] = frozen({
    "matmul": {
        "t0": (3e-6, 1e-7, 1e-3), "compute": (0.8, 0.05, 1e3), "memory": (0.7, 0.02, 1.0), "sharp": (1.5, 1.0, 8.0),
        "pack": (1.0, 0.05, 1e3),
    },
    "prefill": {
        "t0": (1e-5, 1e-7, 1e-3), "compute": (0.4, 0.01, 2.0), "memory": (0.5, 0.02, 10.0), "fixed": (0.3, 0.01, 0.95),
        "pad": (30.0, 0.1, 1e3), "l2": (1.5, 0.05, 30.0),
    },
    "decode": {
        "t0": (1e-5, 1e-7, 1e-3), "memory": (0.4, 0.01, 10.0), "sharp": (1.5, 1.0, 8.0), "block": (1e-6, 1e-9, 1e-3),
        "head": (1e-6, 1e-9, 1e-3), "l2": (1.0, 0.01, 10.0), "again": (1.0, 0.01, 10.0),
    },
    "experts": {
        "t0": (5e-5, 1e-6, 1e-2), "compute": (0.8, 0.05, 1e3), "memory": (0.7, 0.02, 1.0), "sharp": (1.5, 1.0, 8.0),
        "passes": (0.3, 0.01, 10.0), "expert": (1e-6, 1e-9, 1e-3),
    },
    "stream": {"t0": (1e-5, 1e-7, 1e-3), "memory": (0.4, 0.01, 10.0), "l2": (2.0, 0.05, 30.0)},
})  # fmt: skip
"""Kind → constant → (start, minimum, maximum) of the fit. Constants that a law does not have are ignored."""
CPU_ONLY = ("pack", "again")
OTHERS = (("compute", 30.0), ("pad", 90.0), ("pad", 250.0))
"""Alternative starting values of some constants, as the error has several local minima."""
CPU_SETTINGS: Mapping[str, Mapping[str, float]] = frozen({
    "matmul": {"split": np.inf, "step": 0.0, "tile": 1.0, "height": 1.0},
    "prefill": {"tail": 0.0, "other": 1.0, "capped": 1.0},
    "decode": {"walk": 0.0, "group": 1.0},
    "experts": {"tile": 1.0},
    "stream": {},
})  # fmt: skip
"""Kind → constants that disable GPU effects on a CPU: split k, the last block of causal attention, split caches, query
heads processed together, tiles. Constants that the law does not have are ignored."""
FORMAT_KEY = "bf16"
"""The dtype under which constants of attention and elementwise ops are looked up, whatever the activations' format."""


def fit_laws(measured: Measurements, folds: int = 4) -> Calibration:
    """Fit a chip's peaks, bandwidth and constants to measurements.

    Peaks: the fastest product of each dtype. Bandwidth: the fastest read, copy or matrix-vector product on data larger
    than the cache. Constants: least squares of log(predicted / measured) for each dtype and kind, where predictions
    include the physical floor. `folds`: number of cross-validation folds. The launch floor of elementwise ops is the
    time of a tiny layer less its products and attention. Raises InputError if no product was timed.
    """
    chip = bare_chip(measured)
    tables: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    fits: list[Fitted] = []
    for dtype in chip.peaks:
        for kind in FREE:
            rows = tuple(r for r in measured.rows if r.case.kind == kind and r.case.dtype == dtype)
            if not rows:
                continue
            fitted = _fit_kind(kind, rows, chip, folds)
            tables.setdefault(dtype, {})[kind] = {"default": dict(fitted.constants)}
            fits.append(fitted)
        _share_launches(dtype, measured, tables.get(dtype, {}))
    if tables and FORMAT_KEY not in tables:
        tables[FORMAT_KEY] = tables["fp32" if "fp32" in tables else next(iter(tables))]
    return Calibration(replace(chip, constants=frozen_tree(tables)), tuple(fits), measured)


def _share_launches(dtype: str, measured: Measurements, kinds: dict[str, dict[str, dict[str, float]]]) -> None:
    """Set the launch floor of elementwise ops to (layer − 4·matmul − decode) / 4, but not below the fitted value."""
    layers = [r.seconds for r in measured.rows if r.case.kind == "layer" and r.case.dtype == dtype]
    if not layers or any(kind not in kinds for kind in LAYER_LAUNCHES):
        return
    others = sum(n * kinds[kind]["default"]["t0"] for kind, n in LAYER_LAUNCHES.items() if kind != "stream")
    stream = kinds["stream"]["default"]
    stream["t0"] = max(stream["t0"], (min(layers) - others) / LAYER_LAUNCHES["stream"])


def bare_chip(measured: Measurements) -> Chip:
    """The chip with peaks and bandwidth only. Raises InputError unless products and uncached reads were timed."""
    machine = measured.machine
    peaks: dict[str, float] = {}
    rates: list[float] = []
    for row in measured.rows:
        case = row.case
        if case.kind == "matmul":
            m, n, k = case.shape
            peaks[case.dtype] = max(peaks.get(case.dtype, 0.0), 2 * m * n * k / row.seconds)
            if m == 1 and n * k * BYTES[case.dtype] > 0.25 * machine.cache:
                rates.append(n * k * BYTES[case.dtype] / row.seconds)
        if case.kind in ("read", "copy") and case.size("bytes") >= 2 * machine.cache:
            rates.append(case.size("bytes") / row.seconds)
    if not peaks or not rates:
        raise InputError("measurements", "nothing of a kind", "products, and reads or copies beyond the cache")
    how = (
        "one thread, CPU clock"
        if machine.clock == "cpu"
        else f"{machine.units} {'SMs' if machine.device == 'cuda' else 'threads'}"
    )
    return Chip(
        id=slug(machine), name=f"{machine.name} ({how})", vendor=machine.vendor, generation=machine.generation,
        kind="gpu" if machine.device == "cuda" else "cpu", peaks=frozen(peaks), bandwidth=max(rates),
        capacity=machine.capacity, cache=machine.cache, units=machine.units,
        source=f"roofline calibrate: {machine.software}, {len(measured.rows)} measurements", date=machine.date,
    )  # fmt: skip


def slug(machine: MeasuredMachine) -> str:
    """Chip id from a machine's name: lower case, with hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", f"{machine.name} {machine.units}".lower())) or "this-machine"


def predicted(kind: str, rows: Sequence[Measurement], chip: Chip, record: Any) -> Floats:
    """Seconds predicted for rows of one kind and dtype, as an estimate would, including the physical floor."""
    dtype = rows[0].case.dtype
    columns = np.array([r.case.shape for r in rows], dtype=float).T
    seconds, floor = _LAWS[kind](columns, float(BYTES[dtype]), roof_of(chip, dtype), record)
    return np.asarray(np.maximum(seconds, floor), dtype=float)


Both: TypeAlias = tuple[Floats | float, Floats | float]


def _matmul_law(c: Floats, width: float, roof: law.Roof, record: law.MatmulLaw) -> Both:
    m, n, k = c
    floor = np.maximum(2 * m * n * k / roof.peak, n * k * width / roof.bandwidth)
    return law.matmul_seconds(m, n, k, width, width, width, roof, record), floor


def _stream_law(c: Floats, width: float, roof: law.Roof, record: law.StreamLaw) -> Both:
    """Two norms, RoPE and an activation; two residual sums fused with them, which add bytes but no launches."""
    tokens, hidden, heads, kv_heads, head, inner = c
    per_token = (2 * hidden, 2 * hidden, 2 * (heads + kv_heads) * head, 3 * inner, 2 * hidden, 2 * hidden)
    return sum(law.stream(n * tokens * width, roof, record) for n in per_token) - SUMS * record.t0, 0.0


def _prefill_law(c: Floats, width: float, roof: law.Roof, record: law.PrefillLaw) -> Both:
    batch, new, heads, kv_heads, head = c
    floor = 4 * batch * heads * head * new * (new + 1) / 2 / roof.peak
    zero = np.zeros_like(new)
    return law.prefill_seconds(batch, new, zero, heads, kv_heads, head, head, 0.0, 2.0, width, roof, record), floor


def _decode_law(c: Floats, width: float, roof: law.Roof, record: law.DecodeLaw) -> Both:
    batch, length, heads, kv_heads, head = c
    floor = 2 * batch * kv_heads * head * length * width / roof.bandwidth
    return law.decode_seconds(batch, length, heads, kv_heads, head, 0.0, width, roof, record), floor


def _experts_law(c: Floats, width: float, roof: law.Roof, record: law.ExpertsLaw) -> Both:
    tokens, top_k, experts, hidden, inner = c
    rows, touched = tokens * top_k, experts * (1 - (1 - top_k / experts) ** tokens)
    floor = np.maximum(6 * rows * hidden * inner / roof.peak, 3 * touched * hidden * inner * width / roof.bandwidth)
    one = np.ones_like(tokens)
    return law.experts_seconds(tokens, rows, touched, hidden, inner, one, width, width, roof, record), floor


_LAWS: Mapping[str, Callable[[Floats, float, law.Roof, Any], Both]] = frozen({
    "matmul": _matmul_law, "stream": _stream_law, "prefill": _prefill_law, "decode": _decode_law,
    "experts": _experts_law,
})  # fmt: skip


def _fit_kind(kind: str, rows: Sequence[Measurement], chip: Chip, folds: int) -> Fitted:
    """Fit the constants to all rows, and compute the error of each fold with a fit to the other folds."""
    seconds = np.array([r.seconds for r in rows])
    record = _solve(kind, rows, chip)
    ratio = predicted(kind, rows, chip, record) / seconds
    errors = np.abs(ratio - 1)
    apart = []
    parts = min(folds, len(rows) // 4)
    for part in range(parts if parts > 1 else 0):
        known = [r for i, r in enumerate(rows) if i % parts != part]
        left = [r for i, r in enumerate(rows) if i % parts == part]
        guess = predicted(kind, left, chip, _solve(kind, known, chip))
        apart += [abs(g / r.seconds - 1) for g, r in zip(guess, left, strict=True)]
    held_out = float(np.mean(apart)) if apart else float(np.mean(errors))
    constants = {f.name: float(getattr(record, f.name)) for f in fields(record)}
    short = predicted(kind, rows, chip, record) < 3 * record.t0
    small, large = _spread(ratio[short], ratio), _spread(ratio[~short], ratio)
    known_error = {"low": large[0], "high": large[1], "low_small": small[0], "high_small": small[1]}
    constants |= {"rows": float(len(rows)), "mape": held_out, "median": float(np.median(errors)), **known_error}
    mape = float(np.mean(errors))
    return Fitted(rows[0].case.dtype, kind, len(rows), float(np.median(errors)), mape, held_out, frozen(constants))


def _spread(ratio: Floats, every: Floats) -> tuple[float, float]:
    """Measured over predicted time, 10 % and 90 % quantiles; of `every` row if `ratio` has fewer than 5."""
    chosen = 1 / (ratio if ratio.size >= 5 else every)
    low, high = np.quantile(chosen, (0.1, 0.9))
    return min(1.0, float(low)), max(1.0, float(high))


def _solve(kind: str, rows: Sequence[Measurement], chip: Chip) -> Any:
    """Constants that minimise Σ log²(predicted / measured), by damped Gauss-Newton on the constants' logarithms."""
    record, names = RECORDS[kind], {f.name for f in fields(RECORDS[kind])}
    base = record() if chip.kind == "gpu" else record(**{k: v for k, v in CPU_SETTINGS[kind].items() if k in names})
    left_out = CPU_ONLY if chip.kind == "gpu" else ()
    free = {name: limits for name, limits in FREE[kind].items() if name in names and name not in left_out}
    target = np.log([r.seconds for r in rows])
    lowest, highest = (np.log([limits[i] for limits in free.values()]) for i in (1, 2))

    def made(point: Floats) -> Any:
        return replace(base, **dict(zip(free, np.exp(point).tolist(), strict=True)))

    def residual(point: Floats) -> Floats:
        return np.asarray(np.log(predicted(kind, rows, chip, made(point))) - target)

    first = np.log([limits[0] for limits in free.values()])
    starts = [
        first,
        *(np.where([n == name for n in free], np.log(other), first) for name, other in OTHERS if name in free),
    ]
    best = min(
        (_least_squares(residual, s, lowest, highest) for s in starts), key=lambda p: float(np.sum(residual(p) ** 2))
    )
    return made(best)


def _least_squares(
    residual: Callable[[Floats], Floats], start: Floats, lowest: Floats, highest: Floats, steps: int = 60
) -> Floats:
    """Levenberg–Marquardt with finite differences and bounds."""
    point, damping, nudge = np.clip(start, lowest, highest), 1e-2, 1e-3
    residuals = residual(point)
    for _ in range(steps):
        signs = np.where(point + nudge > highest, -nudge, nudge)
        jacobian = np.stack(
            [(residual(point + s * e) - residuals) / s for s, e in zip(signs, np.eye(point.size), strict=True)], axis=1
        )
        square = jacobian.T @ jacobian
        for _ in range(8):
            step = np.linalg.solve(
                square + damping * (np.diag(np.diag(square)) + 1e-9 * np.eye(point.size)), jacobian.T @ residuals
            )
            tried = np.clip(point - step, lowest, highest)
            there = residual(tried)
            if np.sum(there**2) < np.sum(residuals**2):
                break
            damping *= 4
        else:
            return point
        gained = float(np.sum(residuals**2) - np.sum(there**2))
        point, residuals, damping = tried, there, max(damping / 4, 1e-9)
        if gained < 1e-9 * max(1e-9, float(np.sum(residuals**2))):
            return point
    return point
