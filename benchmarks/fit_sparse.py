"""Constants of attention whose queries pick their own latents (DeepSeek-V3.2, GLM-5), by generation and engine.

After fit_laws.py, which knows no such kernel.

    python benchmarks/fit_sparse.py DIR [--write]

Rows of mla_engines_aic.csv are whole attention blocks in CUDA graphs. What the block's other ops are predicted to take
is left out of the fit's hands; the kernel's share of the peak, its launch and the keys that it pads to are chosen so
that blocks come out best. *left out* is the mean error of each model's blocks by constants fitted on the other's; the
interval holds 80 % of (measured − other ops) / predicted, of blocks that the kernel has half of or more; where there
are few of them, of measured / predicted of blocks. Tiles are those of FlashMLA's kernels: 64 query heads on Hopper, 128
on Blackwell.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import roofline as rl
from fit_older import keep
from measured_blocks import FORMATS, OUTSIDE, TABLES, block_model, by_itself
from measured_ops import column, known, parts, read
from roofline.hardware.named_chip import chip_named
from roofline.kernels import law
from roofline.kernels.constants import FOLDER

FILE = "mla_engines_aic.csv"
TILES = {"hopper": 64.0, "blackwell": 128.0}
ATTENTION = ("attention", "attention_absorbed")
EXPANDING = ("sglang",)
"""Engines that expand the latents of prompts that see no more than they may pick (its dense_mha kernels)."""
FLASHMLA = ("vllm",)
"""Whose kernels stand for those of other engines: FlashMLA's."""
NOTHING = {"t0": 0.0, "compute": 1e12, "heads": 1, "least": 0, "low": 1, "high": 1, "low_small": 1, "high_small": 1}
SHARES, LAUNCHES, LEAST = (
    np.geomspace(0.08, 1.0, 80),
    np.array([10, 20, 40, 80, 120, 160, 200]) * 1e-6,
    (0, 0.25, 0.5, 1),
)
FEWEST = 20


@dataclass(frozen=True)
class SparseRows:
    """Blocks of one generation, engine and cache format: seconds measured, of their other ops, of a dense decode."""

    model: NDArray[np.str_]
    measured: NDArray[np.float64]
    others: NDArray[np.float64]
    dense: NDArray[np.float64]
    tokens: NDArray[np.float64]
    keys: NDArray[np.float64]
    heads: NDArray[np.float64]
    peak: NDArray[np.float64]
    expanded: NDArray[np.float64]

    def take(self, chosen: NDArray[np.bool_]) -> SparseRows:
        """Some of them."""
        return SparseRows(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def kernel(self, c: law.Sparse) -> NDArray[np.float64]:
        """Seconds of the kernel."""
        roof = law.Roof(self.peak, 1.0, 1.0, 1.0)
        own = law.sparse_seconds(self.tokens, self.keys, 2048, self.heads, 1088, roof, c)
        if not c.short:
            own = np.where(self.expanded > 0, self.expanded, own)
        return np.maximum(own, self.dense)

    def errors(self, c: law.Sparse) -> NDArray[np.float64]:
        """Natural logarithms of predicted / measured."""
        return np.log((self.others + self.kernel(c)) / self.measured)


def together(several: Sequence[SparseRows]) -> SparseRows:
    """Rows of several groups as one."""
    return SparseRows(*(np.concatenate([getattr(rows, f.name) for rows in several]) for f in fields(SparseRows)))


def groups(folder: Path) -> Iterator[tuple[tuple[str, str, str], SparseRows]]:
    """(generation, engine, dtype) and its blocks, of each chip and model apart."""
    frame = read(folder, FILE).filter((pl.col("graph") == 1) & (pl.col("latency_ms") > 0))
    frame = frame.filter(pl.col("table").is_in([t for t in TABLES if t.startswith("dsa")]))
    frame = frame.filter(~pl.col("kernel_source").str.contains("skip_indexer"))
    for key, part in parts(frame, ["system", "backend", "table", "model", "kv_cache_dtype", "gemm_type", "num_heads"]):
        system, engine, table, label, cache, gemm, heads = key
        model = block_model(label, table, int(float(heads)))
        if model is None or gemm not in FORMATS or not known(system):
            continue
        chip = chip_named(system)
        cached, new, batch = (column(part, c).astype(int) for c in ("step", "isl", "batch_size"))
        dtype = f"bf16_kv_{'fp8' if cache == 'fp8' else 'bf16'}"
        none = replace(chip, constants={dtype: {"latent_sparse": {"default": NOTHING}}})
        e = rl.estimate(
            model, rl.Step(cached=cached, new=new, batch=batch), on=none, engine=by_itself(engine), within=False,
            precision=f"weights={FORMATS[gemm]},kv={'fp8' if cache == 'fp8' else 'bf16'}",
        )  # fmt: skip
        seconds = {op.name: np.broadcast_to(op.span.expected, (part.height,)) for op in e.ops}
        zero, decode = np.zeros(part.height), table == "dsa_generation_module"
        seen = np.array([np.minimum(np.arange(p, p + n) + 1, 2048).mean() for p, n in zip(cached, new, strict=True)])
        yield (chip.generation, engine, dtype), SparseRows(
            np.full(part.height, model.name), column(part, "latency_ms") / 1e3,
            sum((s for name, s in seconds.items() if not name.startswith(OUTSIDE) and name not in ATTENTION), zero),
            seconds.get("attention_absorbed", zero) if decode else zero,
            (batch * new).astype(float), seen, np.full(part.height, float(heads)),
            np.full(part.height, chip.peak("bf16")), seconds.get("attention", zero),
        )  # fmt: skip


def best(rows: SparseRows, tile: float, short: float) -> law.Sparse:
    """The constants of the least mean absolute logarithm of predicted / measured."""
    tried = (law.Sparse(t0, share, tile, least, short) for t0, share, least in product(LAUNCHES, SHARES, LEAST))
    return min(tried, key=lambda c: float(np.abs(rows.errors(c)).mean()))


def table(rows: SparseRows, software: str, names: str, tile: float, dtype: str) -> tuple[str, str]:
    """A table of a constants file, and a line about it."""
    short = 0.0 if software in EXPANDING else 1.0
    record, left = best(rows, tile, short), []
    for name in np.unique(rows.model):
        out = rows.model == name
        if not out.all():
            left.append(rows.take(out).errors(best(rows.take(~out), tile, short)))
    errors = np.concatenate(left) if left else rows.errors(record)
    own = rows.kernel(record)
    counts = own > 0.5 * rows.measured
    ratio = (rows.measured - rows.others)[counts] / own[counts]
    if len(ratio) < FEWEST // 2:
        ratio = np.exp(-errors)
    low, high = (float(np.quantile(ratio, q)) for q in (0.1, 0.9))
    off = np.abs(np.expm1(errors))
    text = "\n".join([
        f"[{dtype}.latent_sparse.{software}]", f'software = "{names}"',
        *(f"{f.name} = {float(getattr(record, f.name)):.4g}" for f in fields(record)),
        f"rows = {len(off)}", f"mape = {off.mean():.4f}", f"median = {np.median(off):.4f}",
        f"bias = {errors.mean():.4f}", f"low_small = {low:.3f}", f"high_small = {high:.3f}",
        f"low = {low:.3f}", f"high = {high:.3f}",
    ])  # fmt: skip
    line = (
        f"{dtype} {software:8}{len(off):5} rows  {record}  left out: mean {off.mean():.1%} median {np.median(off):.1%}"
    )
    return text, f"{line}  80 % in {low:.2f} to {high:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    every = list(groups(given.folder))
    dtypes = sorted({key[2] for key, _ in every})
    for generation, dtype in product([*TILES, "generic"], dtypes):
        mine = [(k[1], rows) for k, rows in every if k[2] == dtype and generation in (k[0], "generic")]
        softwares = sorted({name for name, _ in mine})
        tile, place = TILES.get(generation, min(TILES.values())), "generic"
        if generation != "generic":
            place = f"generation-{generation}"
        for software in ("default", *(softwares if generation != "generic" else ())):
            rows = together(
                [r for name, r in mine if name == software or (software, name in FLASHMLA) == ("default", True)]
            )
            if len(rows.measured) < FEWEST:
                continue
            text, line = table(rows, software, " ".join(FLASHMLA) if software == "default" else software, tile, dtype)
            print(f"{place:22}{line}")
            if given.write:
                key = (place, dtype, "latent_sparse", software)
                keep(FOLDER / f"{place}.toml", key, text)


if __name__ == "__main__":
    main()
