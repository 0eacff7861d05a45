"""The estimates of the snapshot: models × machines × layouts × commands, as plain data that any version can read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

LLAMA, BIG, GEMMA = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "google/gemma-2-9b"
MIXTURE, LATENT, FP8 = "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "fp8"
OSS, SCAN, SMALL = "openai/gpt-oss-20b", "state-spaces/mamba-2.8b-hf", "Qwen/Qwen2.5-0.5B"
FLASH = "deepseek-ai/DeepSeek-V4-Flash"


@dataclass(frozen=True)
class Case:
    """One estimate: the command, the model, the machine, and the options that both versions take by the same name."""

    command: str
    model: str
    on: str
    layout: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Everything, in one line."""
        options = " ".join(f"{k}={v}" for k, v in self.options.items())
        return " ".join(x for x in (self.command, self.model, self.on, self.layout or "", options) if x)


def steps() -> Iterator[Case]:
    """One step: prefill, decode, chunks; formats and engines."""
    for model in (LLAMA, MIXTURE, GEMMA, OSS, SMALL, SCAN):
        for on in ("h100-sxm", "a100-sxm-80gb", "mi300x", "l40s"):
            for engine in ("none", "vllm"):
                for phase, batch, tokens in (("decode", 1, 1024), ("decode", 64, 4000), ("prefill", 2, 2048)):
                    if model != SCAN or tokens <= 2048:
                        yield Case(
                            "step",
                            model,
                            on,
                            None,
                            {"phase": phase, "batch": batch, "tokens": tokens, "engine": engine},
                        )
    for model, layout in ((BIG, "tp=8"), (BIG, "tp=4,pp=2"), (LATENT, "tp=8"), (LATENT, "tp=8,ep=8"), (FLASH, "tp=8")):
        for on in ("dgx-h100", "8xh200-sxm", "8xb200"):
            for phase, batch, tokens in (("decode", 16, 3000), ("decode", 128, 8000), ("prefill", 1, 4096)):
                yield Case(
                    "step", model, on, layout, {"phase": phase, "batch": batch, "tokens": tokens, "engine": "none"}
                )
    for precision in (FP8, "weights=int4", "weights=fp8,kv=fp8"):
        for model in (LLAMA, MIXTURE):
            yield Case(
                "step",
                model,
                "h100-sxm",
                None,
                {"phase": "decode", "batch": 8, "tokens": 4096, "precision": precision, "engine": "none"},
            )
    for batch in (16, 64):
        yield Case(
            "step",
            LLAMA,
            "dgx-h100",
            "tp=2,dp=4",
            {"phase": "decode", "batch": batch, "tokens": 2048, "engine": "none"},
        )


def generations() -> Iterator[Case]:
    """A static batch."""
    for model in (LLAMA, MIXTURE, GEMMA, OSS, SMALL):
        for on in ("h100-sxm", "a100-sxm-80gb", "b200", "mi300x"):
            for engine in ("none", "vllm", "trtllm"):
                if engine == "trtllm" and on == "mi300x":
                    continue
                for batch, new, out in ((1, 512, 128), (24, 1000, 300)):
                    yield Case(
                        "generate", model, on, None, {"batch": batch, "input": new, "output": out, "engine": engine}
                    )
    for model, layout in ((BIG, "tp=8"), (BIG, "tp=4,pp=2"), (LATENT, "tp=8"), (LATENT, "tp=8,ep=8")):
        for on in ("8xh200-sxm", "8xb200"):
            for batch in (1, 40):
                yield Case(
                    "generate", model, on, layout, {"batch": batch, "input": 1024, "output": 200, "engine": "vllm"}
                )


def servers() -> Iterator[Case]:
    """Steady states at a concurrency and at a rate."""
    for model in (LLAMA, MIXTURE, GEMMA, OSS, SMALL):
        for on in ("h100-sxm", "a100-sxm-80gb", "b200"):
            for concurrency in (1, 16, 100):
                for prefix in (0.0, 0.5):
                    yield Case(
                        "serve",
                        model,
                        on,
                        None,
                        {"input": 1500, "output": 250, "concurrency": concurrency, "prefix": prefix},
                    )
            yield Case("serve", model, on, None, {"input": 700, "output": 150, "rate": 1.5})
    for model, layout in ((BIG, "tp=8"), (BIG, "tp=4,pp=2"), (LATENT, "tp=8"), (BIG, "tp=4,dp=2")):
        for concurrency in (8, 64):
            yield Case("serve", model, "8xh200-sxm", layout, {"input": 2048, "output": 256, "concurrency": concurrency})


def fits() -> Iterator[Case]:
    """Memory."""
    for model in (LLAMA, MIXTURE, GEMMA, OSS, SMALL, BIG):
        for on in ("h100-sxm", "l4", "b200", "mi300x"):
            for batch, context in ((1, 2048), (32, 8000)):
                yield Case("fit", model, on, None, {"batch": batch, "context": context})
    for model, layout in ((BIG, "tp=8"), (BIG, "tp=4,pp=2"), (LATENT, "tp=8"), (LATENT, "tp=8,ep=8")):
        yield Case("fit", model, "8xh200-sxm", layout, {"batch": 16, "context": 8192})


def pairs() -> Iterator[Case]:
    """Pools that prefill and pools that decode."""
    for model, prefill, decode in ((LLAMA, "tp=1", "tp=2"), (BIG, "tp=4", "tp=8"), (MIXTURE, "tp=1", "tp=1")):
        for chips in (16, 32):
            for concurrency in (8, 48):
                sizes = {"input": 3000, "output": 400, "concurrency": concurrency}
                yield Case(
                    "pools",
                    model,
                    "4xdgx-h100",
                    None,
                    {"chips": chips, "prefill_layout": prefill, "decode_layout": decode, **sizes},
                )


def trainings() -> Iterator[Case]:
    """Steps of training."""
    for model in (LLAMA, MIXTURE, SMALL):
        for layout in (
            "dp=8,zero=1",
            "tp=2,dp=4,zero=1",
            "tp=2,sp,dp=4,zero=3",
            "tp=2,pp=2,dp=2,zero=1",
            "dp=4,cp=2,zero=2",
        ):
            for recompute in ("none", "selective", "full"):
                for on in ("dgx-h100", "8xb200"):
                    sizes = {"batch": 64, "tokens": 4096, "micro_batch": 2}
                    yield Case("train", model, on, layout, {**sizes, "recompute": recompute})
    for layout, schedule in (
        ("pp=4,dp=2", "gpipe"), ("pp=4,dp=2", "1f1b"), ("pp=4,dp=2,vp=2", "interleaved"), ("pp=4,dp=2", "zb-h1"),
        ("pp=4,dp=2", "zb-h2"), ("pp=4,dp=2", "dualpipe"),
    ):  # fmt: skip
        for micro in (1, 2):
            yield Case(
                "train",
                LLAMA,
                "dgx-h100",
                layout,
                {"batch": 32, "tokens": 4096, "micro_batch": micro, "schedule": schedule},
            )
    for choice in ({"recipe": "fp8"}, {"optimizer": "muon"}):
        yield Case("train", LLAMA, "dgx-h100", "dp=8,zero=1", {"batch": 64, "tokens": 2048, **choice})
    for model, layout in (
        (BIG, "tp=8,pp=4,dp=2,sp,zero=1"),
        (MIXTURE, "ep=8,dp=8,zero=1"),
        (LATENT, "tp=2,pp=8,ep=4,dp=4,zero=1"),
    ):
        for batch in (128, 256):
            yield Case("train", model, "8xdgx-h100", layout, {"batch": batch, "tokens": 4096, "recompute": "full"})
    for optimizer in ("adamw", "adamw-bf16", "sgd", "adafactor", "muon"):
        yield Case("train", SMALL, "dgx-h100", "dp=8,zero=1", {"batch": 64, "tokens": 2048, "optimizer": optimizer})
    for offload in (["optimizer"], ["activations"]):
        yield Case("train", LLAMA, "dgx-h100", "dp=8,zero=1", {"batch": 64, "tokens": 2048, "offload": offload})


def cases() -> list[Case]:
    """All of them, each once."""
    every = [*steps(), *generations(), *servers(), *fits(), *pairs(), *trainings()]
    return list({case.key: case for case in every}.values())
