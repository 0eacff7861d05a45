"""The pictures that the tests draw: one of each kind, on the models that are hardest to label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import roofline as rl
from roofline.views.plots.build import simulation_plot
from roofline.views.plots.data import BarPanel, BarsPlot, Plot, RatioLine, RatiosPlot
from roofline.views.plots.rows import rows_plot

LLAMA, V3, QWEN = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-30B-A3B"
STEPS = {"prefill": rl.prefill(batch=1, tokens=2048), "decode": rl.decode(batch=8, context=2048)}


def bars() -> Plot:
    """Two operations in two phases."""
    flops = BarPanel("FLOPs", "", ((1e12, 2e9), (1e9, None)))
    return BarsPlot(
        "bars", ("xW_Q", "RoPE-Q"), ("Prefill", "Decode"), (flops, BarPanel("Bytes", "B", ((3.0, 4.0),) * 2))
    )


def simulated(rate: float) -> Callable[[], Plot]:
    """A server under bursts of requests, with objectives of which one is beyond all times."""

    def drawn() -> Plot:
        lengths: dict[str, Any] = {"input": "uniform(100,2000)", "output": 256}
        return simulation_plot(
            rl.simulate(
                LLAMA, on="h100-sxm", **lengths, rate=rate, arrivals="gamma(3)", extent=rl.Extent(requests=1500),
                objective=rl.Objective(ttft=9.0, tpot=0.02),
            )
        )  # fmt: skip

    return drawn


def rows() -> Plot:
    """A sweep over two chips, three layouts and a batch, of which some do not fit."""
    swept = rl.sweep(
        LLAMA, on=["h100-sxm", "l40s"], layout="tp=1,2,4", batch="1..256:x2", context=8192, where="fits", columns="tpot"
    )
    return rows_plot(swept)


def made(name: str, **options: object) -> Callable[[], Plot]:
    """A plot of a catalog model."""
    return lambda: rl.plot(rl.load(name), **options)  # type: ignore[arg-type]


PICTURES: Mapping[str, Callable[[], Plot]] = {
    "roofline": made(LLAMA, steps=STEPS, on=["h100-sxm", "a100-sxm-80gb"]),
    "roofline-fp8": made(V3, steps=STEPS, on="h200-sxm"),
    "roofline-experts": made(QWEN, steps=STEPS, on="h100-sxm", links=True),
    "roofline-unfused": made(LLAMA, steps=STEPS, on="h100-sxm", traffic="unfused"),
    "roofline-crowded": made("deepseek-ai/DeepSeek-V3.2", on="8xb200", layout="tp=8"),
    "roofline-scans": made("Qwen/Qwen3-Next-80B-A3B-Instruct", on="4xh20", layout="tp=4", links=True),
    "roofline-one-height": made("state-spaces/mamba-130m-hf", on="m3-max"),
    "roofline-layers": made(QWEN, steps=STEPS, on=["h100-sxm", "l40s", "mi300x"], points="layers"),
    "roofline-phases": made(LLAMA, steps=STEPS, on="h100-sxm", points="phases"),
    "shares": made(QWEN, steps=STEPS, on="h100-sxm", kind="shares"),
    "sweep": made(LLAMA, on=["h100-sxm", "a100-sxm-40gb"], kind="sweep", context=256),
    "sweep-context": made(V3, on="h200-sxm", kind="sweep", over="context", batch=16),
    "sweep-entries": made("deepseek-ai/DeepSeek-V4-Flash", on="8xb200", layout="tp=8", kind="sweep", over="context"),
    "sweep-chunks": made(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct", on="8xb200", layout="tp=8", kind="sweep", over="context"
    ),
    "memory": made(LLAMA, on=["h100-sxm", "a100-sxm-40gb"], kind="memory", batch=8),
    "memory-layout": made(
        "meta-llama/Llama-3.1-70B",
        on=["l40s", "h100-sxm", "a100-sxm-80gb", "h20", "gaudi2"],
        layout="tp=2,pp=4",
        kind="memory",
        batch=64,
    ),
    "parameters": made(V3, kind="parameters"),
    "map": made(QWEN, on="h100-sxm", kind="map"),
    "sweep-prefill": made(V3, on="8xh200-sxm", layout="tp=8", kind="sweep", phase="prefill", over="context", batch=4),
    "tornado": made(QWEN, on="8xh100-sxm", layout="tp=4", kind="tornado", batch=16),
    "diagram": made(V3, kind="diagram"),
    "energy": made(LLAMA, kind="energy", on=("h100-sxm", "b200")),
    "energy-fp8": made(V3, kind="energy", on="8xh200-sxm", layout="tp=8", points="layers"),
    "diagram-mamba": made("ai21labs/Jamba-v0.1", kind="diagram"),
    "bars": bars,
    "rows": rows,
    "ratios": lambda: RatiosPlot(
        "Predicted over measured",
        ("a default call", "all that is told"),
        (
            RatioLine("first token, NVIDIA H100 SXM5 80GB (120 rows)", ((0.4, 0.8, 1.9), (0.7, 0.97, 1.4))),
            RatioLine("token, AMD MI300X (9 rows)", (None, (0.8, 0.9, 1.05))),
            RatioLine("training step, NVIDIA B200 (59 rows)", ((0.9, 1.0, 3.4), (0.92, 1.0, 1.1))),
        ),
        "from the 10th to the 90th percentile of the rows, with a mark at the median",
    ),
    "simulation": simulated(10),
    "simulation-overloaded": simulated(80),
}
