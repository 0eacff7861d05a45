"""Measured rows of operators that no constants were fitted to: other tables, and other rows of the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from measured_ops import (
    BYTES,
    Case,
    Column,
    Done,
    Shapes,
    attention_decode,
    attention_prefill,
    case,
    column,
    family,
    gemm,
    known,
    mla,
    moe,
    parts,
    read,
    shapes,
    stream,
    usable,
    without,
)  # fmt: skip

GROUPED = "grouped_gemm_fp8_infersim.csv"
DEEPGEMM = "gemm_fp8_deepgemm_h800.csv"
QUANTISE = "quantize_engines_aic.csv"
LINEAR = "linear_attention_engines_aic.csv"
ENCODER = "attention_encoder_engines_aic.csv"
WIDE = "moe_wideep_aic.csv"
FP32 = "ops_fp32_neusight.csv"

# The tables do not tell chips of one architecture apart: a row is held against the chip named here.
AITER = {"MI300X/MI325X": "mi300x", "MI350X/MI355X": "mi355x", "MI308X": "mi308x"}


def multiplied(source: tuple[str, str, str], dtype: str, part: pl.DataFrame, seconds: Column) -> Case:
    """Products whose activations arrive quantised."""
    m, n, k = (column(part, c) for c in "mnk")
    x, w, _ = BYTES[dtype]
    one = np.ones_like(m)
    args = {"m": m, "n": n, "k": k, "x": x * one, "w": w * one, "y": 2 * one}
    if dtype != "bf16":
        args["quantise"] = 0 * one
    kind = "matmul" if dtype == "bf16" else "quantised_matmul"
    size = x * m * k + w * n * k + 2 * m * n
    return case(source, dtype, kind, args, seconds, 2 * m * n * k, size, shapes(part, ["n", "k"]), size + 1e12)


def deepgemm(folder: Path) -> Iterator[Case]:
    """DeepGEMM's page: products of one group; fp8 in blocks."""
    frame = read(folder, DEEPGEMM)
    if frame.height:
        part = frame.filter(pl.col("num_groups") == 1).rename({"m_per_group": "m"})
        flops = 2 * column(part, "m") * column(part, "n") * column(part, "k")
        yield multiplied((DEEPGEMM, "h800-sxm", "deepgemm"), "fp8_block", part, flops / column(part, "tflops") / 1e12)


def experts(source: tuple[str, str, str], dtype: str, sizes: dict[str, Column], seconds: Column, shape: Shapes) -> Case:
    """Two or three grouped products; sizes: tokens, rows, touched, hidden, inner, gated."""
    x, w, _ = BYTES[dtype]
    one = np.ones_like(seconds)
    t, rows, touched, hidden, inner = (sizes[n] for n in ("tokens", "rows", "touched", "hidden", "inner"))
    matrices = 2 + sizes["gated"]
    weights = touched * matrices * hidden * inner * w
    args = {"even": 0 * one, **sizes, "x": x * one, "w": w * one, "cycle": weights, "remote": 0 * one}
    return case(
        source, dtype, "experts", args, seconds, 2 * rows * matrices * hidden * inner, weights + 4 * t * hidden, shape
    )


def grouped(folder: Path) -> Iterator[Case]:
    """InferSim: the up and down products of a rank's experts, fp8 in blocks, every expert with as many tokens; each
    product is timed alone, so that nothing is permuted, activated or combined between them."""
    for (gpu,), part in parts(read(folder, GROUPED), ["gpu"]):
        t = column(part, "tokens_per_gpu")
        rows = t * column(part, "topk")
        sizes = {
            "tokens": t, "rows": rows, "touched": np.minimum(column(part, "num_local_experts"), rows),
            "hidden": column(part, "hidden_size"), "inner": column(part, "intermediate_size"), "gated": np.ones_like(t),
            "even": np.ones_like(t), "passed": np.zeros_like(t),
        }  # fmt: skip
        seconds = (column(part, "up_proj_us") + column(part, "down_proj_us")) / 1e6
        shape = shapes(part, ["hidden_size", "intermediate_size"])
        yield experts((GROUPED, gpu, "deepgemm"), "fp8_block", sizes, seconds, shape)


WIDE_TABLES = ("wideep_context_moe", "wideep_generation_moe", "wideep_moe")


def wide(folder: Path) -> Iterator[Case]:
    """Experts behind a dispatch: SGLang's on what DeepEP delivered, TensorRT-LLM's of a wide group; balanced loads."""
    frame = read(folder, WIDE)
    if frame.height:
        frame = frame.filter(pl.col("table").is_in(WIDE_TABLES) & (pl.col("distribution") == "balanced"))
    for (system, backend, name), part in parts(frame, ["system", "backend", "moe_dtype"]):
        dtype = {"bfloat16": "bf16"}.get(name, name)
        if dtype not in BYTES:
            continue
        t, k, e, ep = (column(part, c) for c in ("num_tokens", "topk", "num_experts", "moe_ep_size"))
        sizes = {
            "tokens": t, "rows": np.maximum(1, t * k / ep), "touched": np.minimum(e / ep, np.maximum(1, t * k / ep)),
            "hidden": column(part, "hidden_size"), "inner": column(part, "inter_size") / column(part, "moe_tp_size"),
            "gated": np.ones_like(t),
        }  # fmt: skip
        shape = shapes(part, ["hidden_size", "inter_size", "num_experts", "topk"])
        yield experts((WIDE, system, backend), dtype, sizes, column(part, "latency_ms") / 1e3, shape)


def quantise_engines(folder: Path, done: Done) -> Iterator[Case]:
    """Passes that scale to 8 bits, and that look for the scale."""
    frame = without(read(folder, QUANTISE), done.get(QUANTISE))
    if frame.height:  # a difference of two kernels' times is no op
        frame = frame.filter(~pl.col("kernel_source").str.contains("_minus_"))
    for (system, backend, op), part in parts(frame, ["system", "backend", "op_name"]):
        name = {"computescale": "compute_scale"}.get(op, op)
        size = column(part, "m") * column(part, "k") * (3.0 if name == "scale_matrix" else 2.0)
        yield stream(
            (QUANTISE, system, backend),
            f"{name}_{backend}",
            size,
            column(part, "latency_ms") / 1e3,
            shapes(part, ["m", "k"]),
        )


CHUNKED = ("chunk_gated_delta_rule", "chunk_gated_delta_rule_triton", "chunk_gated_delta_rule_flashinfer", "chunk_kda",
           "chunk_kda_with_fused_gate", "flashkda_fwd")  # fmt: skip


def linear(folder: Path) -> Iterator[Case]:
    """Gated delta nets and Kimi's, kernel by kernel."""
    frame = read(folder, LINEAR)
    if frame.height:
        frame = frame.filter(pl.col("table").is_in(["gdn", "kda"]) & (pl.col("system") != "a100_sxm"))
    for (system, backend, kernel), part in parts(frame, ["system", "backend", "kernel_source"]):
        b, s, qk, dk, hv, dv = (
            column(part, c) for c in ("batch_size", "seq_len", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")
        )
        seconds, shape = column(part, "latency_ms") / 1e3, shapes(part, ["batch_size", "seq_len", "num_v_heads"])
        tokens, width = b * s, 2 * qk * dk + hv * dv
        if kernel in CHUNKED:
            args = {"batch": b, "tokens": s, "key_heads": qk, "value_heads": hv, "key": dk, "value": dv}
            size = 2 * tokens * (2 * qk * dk + 2 * hv * dv)
            yield case((LINEAR, system, backend), "bf16", "scan", args, seconds, 6 * tokens * hv * dk * dv, size, shape)
        else:
            state = 4 * b * width * 3 if "conv1d" in kernel else 8 * b * hv * dk * dv
            op = next((known_op for known_op in RECURRENT if kernel.startswith(known_op)), kernel)
            size = 4 * tokens * width + state
            yield stream((LINEAR, system, backend), f"{op}_{backend}", size, seconds, shape, least=2 * tokens * width)


RECURRENT = ("causal_conv1d_fn", "causal_conv1d_update", "fused_recurrent_gated_delta_rule")


def encoder(folder: Path) -> Iterator[Case]:
    """Attention of every token to every other one."""
    for (system, backend, kernel), part in parts(read(folder, ENCODER), ["system", "backend", "kernel_source"]):
        b, s, h, kv, d, w = (
            column(part, c) for c in ("batch_size", "seq_len", "num_heads", "num_kv_heads", "head_dim", "window_size")
        )
        two = np.full_like(b, 2.0)
        args = {
            "batch": b, "new": s, "cached": 0 * s, "heads": h, "kv_heads": kv, "key": d, "value": d, "window": 0 * w,
            "q": two, "kv": two, "pairs": s * s, "reach": s,
        }  # fmt: skip
        soft = "triton" if "triton" in kernel else family(backend)
        yield case(
            (ENCODER, system, soft), "bf16", "prefill", args, column(part, "latency_ms") / 1e3,
            4 * b * h * d * s * s, 4 * b * s * d * (h + kv), shapes(part, ["batch_size", "seq_len", "num_heads"]),
        )  # fmt: skip


FP32_CHIPS = {"T4": "t4", "L4": "l4", "A100-PCIE-40GB": "a100-pcie-40gb", "A100-PCIE-80GB": "a100-pcie-80gb",
              "V100-PCIE-32GB": "v100-pcie-32gb", "H100-SXM-80GB": "h100-sxm", "MI210": "mi210", "MI100": "mi100",
              "P4": "p4", "P100-PCIE-16GB": "tesla-p100-pcie-16gb"}  # fmt: skip
PASSES = {"add": 3, "mul": 3, "ln": 2, "tanh": 2, "relu": 2, "gelu": 2, "softmax": 2}


CALLED = pl.col("latency_ms") < 3 * pl.when(pl.col("gpu").str.starts_with("MI")).then(0.015).otherwise(0.03)
"""Rows of NeuSight that take less than three calls from the host, of 15 µs on AMD's machines and 30 µs on NVIDIA's."""


def single_precision(folder: Path) -> Iterator[Case]:
    """NeuSight: 32-bit ops called one by one from the host, without TF32, that are long beside a call."""
    frame = read(folder, FP32)
    for (op, gpu), part in parts(frame.filter(~CALLED) if frame.height else frame, ["op", "gpu"]):
        system = FP32_CHIPS.get(gpu, "")
        if not known(system):
            continue
        seconds, b = column(part, "latency_ms") / 1e3, column(part, "batch")
        source = (FP32, system, "host")
        if op == "linear":
            m, n, k = b * np.nan_to_num(column(part, "m"), nan=1.0), column(part, "k_out"), column(part, "n_inner")
            one = np.ones_like(m)
            args = {"m": m, "n": n, "k": k, "x": 4 * one, "w": 4 * one, "y": 4 * one}
            size = 4 * (m * k + n * k + m * n)
            yield case(source, "fp32", "matmul", args, seconds, 2 * m * n * k, size, shapes(part, ["n_inner", "k_out"]))
        elif op in PASSES:
            size = 4 * PASSES[op] * b * column(part, "h")
            yield stream(source, op, size, seconds, shapes(part, ["batch", "h"]))


PASSES_KNOWN = frozenset(("h100-sxm", "a100-pcie-40gb", "a100-pcie-80gb", "l4"))
"""Chips whose element-wise passes have constants by other rows."""


def fits_older(c: Case) -> bool:
    """Whether fit_older.py fits a case of `single_precision`."""
    return c.kind == "matmul" or c.system not in PASSES_KNOWN


def streams(folder: Path, done: Done) -> list[Case]:
    """Passes with constants of their own by engine, and linear attention kernel by kernel."""
    return usable([*quantise_engines(folder, done), *linear(folder)])


def newer(folder: Path, done: Done) -> list[Case]:
    """Rows of the tables by engine, of releases after those of `cases`; `done`: those that are there already."""
    every = [
        *gemm(folder, "gemm_lowprec_aic.csv", "gemm_engines_aic.csv", done),
        *attention_prefill(folder, done),
        *attention_decode(folder, done),
        *moe(folder, done),
        *mla(folder, done),
    ]
    return usable(every)


def others(folder: Path) -> list[Case]:
    """Rows that took no part in any fit."""
    every = [
        *encoder(folder),
        *wide(folder),
        *grouped(folder),
        *deepgemm(folder),
        *(c for c in single_precision(folder) if not fits_older(c)),
    ]
    return usable(every)


def older_chips(folder: Path) -> list[Case]:
    """Rows that fit_older.py fits."""
    return usable([c for c in single_precision(folder) if fits_older(c)])
