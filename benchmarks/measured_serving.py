"""Measured generations and servers as calls of `generate` and `serve`: which row is which model, chip, engine, lengths.

Rows on more than one chip are left out here and counted by `skipped`.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import roofline as rl
from roofline.estimates.span import Span
from roofline.layout.layout import Layout
from roofline.machine.chip import chip_named
from roofline.model.errors import InputError

STATIC = "e2e_static_batch_llm_inference_bench.csv"
FASTER = "e2e_static_batch_fastertransformer_a100.csv"
SERVING = "e2e_serving_silicon_aic.csv"

# The chips of LLM-Inference-Bench; its A100 has 40 GB.
CHIPS = {
    "Nvidia A100 GPU": "a100-sxm-40gb",
    "Nvidia H100 GPU": "h100-sxm",
    "Nvidia GH200 GPU": "gh200",
    "AMD MI300X GPU": "mi300x",
    "AMD MI250 GPU": "mi250",
    "Habana Gaudi2": "gaudi2",
    "Intel Max 1550": "max-1550",
    "Intel PVC GPU": "max-1550",
    "SambaNova SN40L": "sn40l",
}
# Engines of 2024 as that benchmark ran them.
ENGINES = {"vLLM": "vllm-2024", "TensorRT-LLM": "trtllm-2024"}
QUANTISED = {"fp8": "fp8", "fp8_block": "fp8-block", "nvfp4": "nvfp4", "int4_wo": "int4"}


@dataclass(frozen=True)
class Row:
    """A measurement beside its prediction, seconds."""

    file: str
    system: str
    slices: tuple[str, ...]
    predicted: Span
    measured: float


os.environ.setdefault("HF_HUB_OFFLINE", "1")


@cache
def known_model(name: str) -> rl.Model | None:
    """A published model, None where neither the catalog nor the Hub's cache has it."""
    try:
        return rl.load(name)
    except InputError:
        return None


def _chip(name: str) -> str | None:
    """The catalog's id for a system, None where it has none."""
    try:
        return chip_named(name).id
    except InputError:
        return None


def rows_of(folder: Path, file: str) -> list[dict[str, str]]:
    path = folder / file
    if not path.exists():
        return []
    with path.open(newline="") as handle:
        return list(csv.DictReader(handle))


def static_batches(folder: Path) -> Iterator[Row]:
    """LLM-Inference-Bench: whole latency of a batch whose prompts and outputs are equally long, fp16, one chip."""
    for r in rows_of(folder, STATIC):
        engine, chip = ENGINES.get(r["framework"]), CHIPS.get(r["hardware"])
        if engine is None or chip is None or r["num_devices"] != "1" or r["consistent"] != "True":
            continue
        model = known_model(r["model"])
        if model is None:
            continue
        try:
            g = rl.generate(
                model,
                on=chip,
                batch=int(r["batch_size"]),
                input=int(r["in_len"]),
                output=int(r["out_len"]),
                engine=engine,
                precision="fp16",
            )
        except InputError:
            continue  # what cannot fit was run with swapping
        yield Row(STATIC, chip, (r["framework"], "all"), g.latency, float(r["latency_s"]))


def faster_transformer(folder: Path) -> Iterator[Row]:
    """FasterTransformer's GPT guide: latency of a batch, fp16, nodes of A100 80 GB."""
    for r in rows_of(folder, FASTER):
        if r["oom"] != "False" or not r["latency_ms"]:
            continue
        tp, pp = int(r["tp"]), int(r["pp"])
        width = int(r["head_num"]) * int(r["size_per_head"])
        config = {
            "model_type": "gpt2",
            "n_embd": width,
            "n_head": int(r["head_num"]),
            "n_layer": int(r["num_layers"]),
            "vocab_size": int(r["vocab_size"]),
            "n_positions": 4096,
            "dtype": "float16",
        }
        try:
            g = rl.generate(
                rl.load(config),
                on="a100-sxm-80gb" if tp * pp <= 8 else f"{-(-tp * pp // 8)}xdgx-a100",
                layout=f"tp={tp},pp={pp}",
                batch=int(r["batch_size"]),
                input=int(r["in_len"]),
                output=int(r["out_len"]),
                engine="fastertransformer",
            )
        except InputError:
            continue  # the memory rule says that it cannot have run so
        spread = "one chip" if tp * pp == 1 else f"tp={tp}" if pp == 1 else f"tp={tp},pp={pp}"
        pooled = "all" if tp * pp == 1 else "many chips"
        slices = (r["model"], pooled) if tp * pp == 1 else (f"{r['model']},{spread}", pooled)
        yield Row(FASTER, "a100-sxm-80gb", slices, g.latency, float(r["latency_ms"]) / 1e3)


def servers(folder: Path) -> Iterator[Row]:
    """Serving: TPOT at a concurrency. Lengths of origin `inferencex` are drawn from [0.8·L, L]."""
    for r in rows_of(folder, SERVING):
        layout = _layout(r)
        share = 0.9 if r["origin"] == "inferencex" else 1.0
        model, chip = known_model(r["model"]), _chip(r["system"])
        if model is None or chip is None:
            continue
        try:
            s = rl.serve(
                model,
                on=chip if layout.alone else f"{_nodes(layout)}x{chip}",
                layout=layout,
                input=max(1, int(share * int(r["isl"]))),
                output=max(2, int(share * int(r["osl"]))),
                concurrency=int(r["concurrency"]),
                engine=r["backend"],
                precision=_precision(model, r["gemm_quant_mode"], r["backend"]),
            )
        except InputError:
            continue
        slices = (f"tpot,{r['model'].split('/')[-1]},{r['backend']},{r['gemm_quant_mode']}",)
        dense = "dense" if model.active_parameters == model.parameters else "moe"
        slices += (f"tpot,{dense}", "tpot") if layout.alone else (f"tpot,{dense},many chips", "tpot,many chips")
        if not layout.alone and dense == "dense":
            slices = (*slices, f"tpot,{dense},tp={layout.tp}")
        yield Row(SERVING, chip, slices, s.tpot, float(r["tpot_ms"]) / 1e3)


def _precision(model: rl.Model, mode: str, backend: str) -> str | None:
    """The formats of a row: the checkpoint's own where it is quantised, else those the row names.

    NVIDIA quantises the experts alone in its fp4 mixtures; its checkpoints for TensorRT-LLM ask for an fp8 cache.
    """
    own = model.precision.weights("experts" if model.active_parameters != model.parameters else "ffn")
    if mode not in QUANTISED or (own.bits < 16 and mode != "nvfp4") or own.name == "mxfp4":
        return None
    role = "experts" if mode == "nvfp4" and model.active_parameters != model.parameters else "weights"
    cache = ",kv=fp8" if backend == "trtllm" and mode in ("fp8", "nvfp4") else ""
    return f"{role}={QUANTISED[mode]}{cache}"


def _layout(r: dict[str, str]) -> Layout:
    """Attention's tensor and data parallelism, and the experts' over the same chips."""
    tp, dp, pp, etp, ep = (
        int(float(r[k] or 1)) for k in ("tp_size", "attention_dp_size", "pp_size", "moe_tp_size", "moe_ep_size")
    )
    if ep * etp == tp * dp:
        return Layout(tp=tp, dp=dp, pp=pp, ep=ep, etp=etp)
    return Layout(tp=tp, dp=dp, pp=pp)


def _nodes(layout: Layout) -> int:
    """Chips in whole nodes of eight, or the few of one node."""
    return layout.chips if layout.chips <= 8 else -(-layout.chips // 8) * 8


def skipped(folder: Path) -> int:
    """Rows on more than one chip whose layout the file does not give."""
    return sum(r["num_devices"] != "1" for r in rows_of(folder, STATIC))
