"""A body of every question of the API, on models and machines that are quick to answer for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MODEL, OTHER = "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B"
PLACE = {"model": MODEL, "on": "2xh100-sxm"}
SIDE = {**PLACE, "layout": "tp=2"}
BASES: Mapping[str, dict[str, Any]] = {
    "answer": {**PLACE, "on": "h100-sxm"},
    "machines": {**PLACE, "on": "h100-sxm", "users": 8},
    "analyze": {"model": MODEL, "batch": 2},
    "estimate": PLACE,
    "explain": {"model": MODEL, "op": "qkv_proj"},
    "generate": {**PLACE, "input": 64, "output_tokens": 28},
    "encode": {**PLACE, "batch": 4, "input": 64},
    "serve": {**PLACE, "concurrency": 8, "input": 64, "output_tokens": 28},
    "fit": PLACE,
    "offload": {"model": MODEL, "on": "rtx-4090", "host": "ryzen-9-7950x", "input": 64, "output_tokens": 28},
    "diff": {"a": SIDE, "b": {**SIDE, "batch": 4}},
    "train": {**PLACE, "layout": "dp=2", "tokens": 512},
    "timeline": {**PLACE, "layout": "pp=2", "tokens": 512, "batch": 8},
    "remedies": {**PLACE, "layout": "dp=2", "micro_batch": 64, "batch": 128},
    "limits": {"model": MODEL},
    "layouts": {**PLACE, "batch": 4, "tokens": 512, "top": 2},
    "sweep": {**PLACE, "batch": [1], "context": [64]},
    "plot": PLACE,
    "simulate": {**PLACE, "rate": 50.0, "input": 64, "output_tokens": 28, "requests": 20},
    "search": {
        **PLACE,
        "on": "h100-sxm",
        "layout": "tp=1",
        "concurrency": 4,
        "input": 64,
        "output_tokens": 28,
        "top": 1,
    },
    "solve": {**PLACE, "find": "batch", "where": "tpot <= 20ms and fits", "input": 64, "output_tokens": 28},
    "advice": {**PLACE, "input": 64, "output_tokens": 28},
    "runs": {"on": "rtx-4090", "count": 2},
    "launch": {**PLACE, "layout": "tp=1", "concurrency": 4, "input": 64, "output_tokens": 28},
    "recipe": {**PLACE, "layout": "dp=2", "tokens": 512},
    "report": PLACE,
    "table": {"name": "fit", "body": PLACE, "form": "csv"},
}
"""A body of every question, but for `gguf`, whose is the header of a file."""
