"""Measured attention blocks, from the first projection to the last, beside the same ops of a model of one layer.

Like a whole model, a block errs beyond its kernels, by what lies between them. It is called by itself: no norm or
activation before it leaves the values in few bits that its products take, so the pass that quantises them is a part of
it. Its interval is that of a step: common errors of its ops add up, own ones do as the root of their squares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

import roofline as rl
from measured_ops import column, known, parts, read
from roofline.declared.errors import InputError
from roofline.engines.engine import Engine, engine_named
from roofline.hardware.named_chip import chip_named
from roofline.inference.plan import WHOLE
from roofline.inference.span import Span
from roofline.kernels.deviation import EXACT
from roofline.measured.accuracy.scoring import Scored
from roofline.model.load import catalog_config

FILES = ("mla_aic.csv", "mla_engines_aic.csv")
FORMATS = {"bfloat16": "bf16", "fp8_block": "fp8-block", "fp8": "fp8", "nvfp4": "nvfp4"}
# Table → the model whose attention it is, where the row names none.
TABLES = {
    "mla_context_module": "deepseek-ai/DeepSeek-V3", "mla_generation_module": "deepseek-ai/DeepSeek-V3",
    "dsa_context_module": "deepseek-ai/DeepSeek-V3.2", "dsa_generation_module": "deepseek-ai/DeepSeek-V3.2",
}  # fmt: skip
MODELS = {
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3", "DeepSeek-R1": "deepseek-ai/DeepSeek-V3",
    "DeepSeek-V3.2": "deepseek-ai/DeepSeek-V3.2", "GLM-5": "zai-org/GLM-5", "GLM-5-FP8": "zai-org/GLM-5",
}  # fmt: skip
OUTSIDE = ("embedding", "attn_norm", "attn_residual", "ffn", "gate", "act", "down", "final", "lm_head")


@dataclass(frozen=True)
class Blocks:
    """Rows of one file, chip and software, and their predictions."""

    file: str
    system: str
    slices: tuple[str, ...]
    row: NDArray[np.int64]
    scored: Scored


@cache
def one_layer(name: str, heads: int) -> rl.Model:
    """One dense layer of a model, with so many heads."""
    config = {
        **catalog_config(name),
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
    }
    return rl.load({**config, "first_k_dense_replace": 1, "mlp_layer_types": ["dense"]})


def block_model(label: str, table: str, heads: int) -> rl.Model | None:
    """The model of a row's label, of its table where it has none; None where it is not in the catalog."""
    name = MODELS.get(label.rpartition("/")[2]) if label else TABLES[table]
    return None if name is None else one_layer(name, heads)


def by_itself(engine: str) -> Engine:
    """An engine whose block is called by itself: activations are quantised in a pass of its own."""
    return replace(engine_named(engine), fuses=())


def blocks(folder: Path) -> Iterator[Blocks]:
    """Every block of a model of the catalog, in CUDA graphs."""
    for file in FILES:
        frame = read(folder, file)
        if not frame.height:
            continue
        if "software" not in frame.columns:
            frame = frame.filter(pl.col("graph") == 1)
            frame = frame.with_columns(software=pl.col("backend") + " " + pl.col("version"))
        else:
            frame = frame.with_columns(model=pl.lit(""))
        frame = frame.filter(pl.col("table").is_in(list(TABLES)) & (pl.col("latency_ms") > 0))
        sizes = ("num_heads", "batch_size", "isl", "step")
        frame = frame.filter(pl.all_horizontal(pl.col(c).is_not_null() & (pl.col(c) >= 0) for c in sizes))
        keys = ["system", "software", "table", "model", "kv_cache_dtype", "gemm_type", "num_heads"]
        for key, part in parts(frame, keys):
            block = _block(file, key, part)
            if block is not None:
                yield block


def _block(file: str, key: tuple[str, ...], part: pl.DataFrame) -> Blocks | None:
    """Rows that differ in batch and lengths alone; None where they cannot be predicted."""
    system, software, table, label, cache_dtype, gemm, heads = key
    formats, engine = FORMATS.get(gemm), software.partition(" ")[0]
    model = block_model(label, table, int(float(heads)))
    if formats is None or model is None or not known(system):
        return None
    step = rl.Step(
        cached=column(part, "step").astype(int), new=column(part, "isl").astype(int),
        batch=column(part, "batch_size").astype(int),
    )  # fmt: skip
    cached = "fp8" if cache_dtype == "fp8" else "bf16"
    try:
        e = rl.estimate(
            model, step, on=chip_named(system).id, engine=by_itself(engine), within=False,
            precision=f"weights={formats},kv={cached}",
        )  # fmt: skip
    except InputError:
        return None
    ops = [op.each for op in e.ops if not op.name.startswith(OUTSIDE)]
    error = sum((op.error for op in ops), start=EXACT)
    floor, expected = (
        sum(np.broadcast_to(getattr(op, name), (part.height,)) for op in ops) for name in ("floor", "expected")
    )
    span = Span(floor, expected, np.maximum(expected - error.below, floor), expected + error.above).wider(WHOLE)
    low, high = (np.broadcast_to(end, (part.height,)) for end in span.interval)
    seconds = column(part, "latency_ms") / 1e3
    fitted = "in part: the law's constants" if table.startswith("dsa_") else "no"  # fit_sparse.py
    scored = Scored(expected, seconds, floor, low, high, np.zeros(part.height, dtype=bool), "-", fitted)
    slices = (f"blocks,{table}", f"blocks,{table},{engine}", "blocks")
    return Blocks(file, system, slices, part["row"].to_numpy().astype(np.int64), scored)
