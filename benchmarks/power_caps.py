"""Boards under a cap of about 70 % of their TDP: published measurements beside the law of frequency and voltage.

    python benchmarks/power_caps.py

Each row has the time of the same work under a cap, relative to that without, and its energy where watts were published
or where the cap binds on both sides. Nothing is fitted on these rows. Exits with 1 where one is off by more than 15 %.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import roofline as rl

LLAMA = "meta-llama/Llama-3.1-8B"
TARGET = 0.15
Run = Callable[[str], tuple[float, float]]
"""A machine → seconds and joules of the work."""


def prompts(machine: str) -> tuple[float, float]:
    """A long prompt by llama.cpp."""
    step = rl.estimate(LLAMA, rl.prefill(1, 8192), on=machine, precision="weights=q4_k_m", engine="llama.cpp")
    return float(step.time), float(step.power or 0) * float(step.time)


def answers(machine: str) -> tuple[float, float]:
    """A token of one sequence by llama.cpp."""
    step = rl.estimate(LLAMA, rl.decode(1, 2048), on=machine, precision="weights=q4_k_m", engine="llama.cpp")
    return float(step.time), float(step.power or 0) * float(step.time)


def images(machine: str) -> tuple[float, float]:
    """ViT-B/16 with 160 images, in fp16."""
    batch = rl.encode("google/vit-base-patch16-224", on=machine, batch=160, precision="fp16", engine="none")
    return float(batch.latency.expected), float(batch.cost.working_joules or 0)


def sharded(machine: str) -> tuple[float, float]:
    """A token of 64 sequences on four GPUs, in fp16; Llama 2 70B for LLaMA 65B."""
    step = rl.estimate("meta-llama/Llama-2-70b-hf", rl.decode(64, 512), on=machine, layout="tp=4", precision="fp16")
    return float(step.time), float(step.power or 0) * float(step.time)


def decoded(model: str, batch: int, machine: str) -> tuple[float, float]:
    """A token of `batch` sequences by vLLM, with weights in four bits."""
    step = rl.estimate(model, rl.decode(batch, 512), on=machine, precision="weights=int4", engine="vllm")
    return float(step.time), float(step.power or 0) * float(step.time)


def served(machine: str) -> tuple[float, float]:
    """Eight sequences that decode by vLLM."""
    step = rl.estimate(LLAMA, rl.decode(8, 1024), on=machine, precision="fp8", engine="vllm")
    return float(step.time), float(step.power or 0) * float(step.time)


@dataclass(frozen=True)
class Capped:
    """Time and energy of the work on a `chip` under `cap`, relative to those without; None where unknown."""

    chip: str
    cap: str
    run: Run
    time: float
    energy: float | None
    source: str
    why: str = ""
    """Why its energy is known to be off by more than TARGET."""


DENSE, SPARSE = "Qwen/Qwen3.5-27B", "Qwen/Qwen3-Next-80B-A3B-Instruct"
SWEEP = "github.com/Light-Heart-Labs/MMBT-Messy-Model-Bench-Tests, vllm-power-sweep-2026-04-29"
DRAWS_MORE = "uncapped it draws 483 W with one sequence, ours 350 W, so that the cap does not bind"
ROWS = (
    Capped(
        "rtx-3090", "250W", prompts, 9893 / 8436, 250 / 350 * 9893 / 8436, "llmgarage.ai, MiniMax-M2.5, 198K tokens"
    ),
    Capped("rtx-3090", "250W", answers, 72.6 / 70.7, None, "llmgarage.ai, MiniMax-M2.5, 4K tokens"),
    Capped("rtx-3090", "250W", answers, 103 / 97, None, "jankyai.droidgram.com, one sequence"),
    Capped("rtx-3090", "72%", images, 1 / 0.90, None, "blog.qwertyforce.dev, ViT-B/16 in tf32, 280 of 390 W"),
    Capped(
        "rtx-4090", "70%", prompts, 1 / 0.934, 300 / 390 / 0.934, "thegeniusfactory.net, sustained load, 300 of 390 W"
    ),
    Capped(
        "rtx-pro-6000-workstation", "60%", served, 625.55 / 620.04, None, "ecency.com/@themarkymark, GLM-4.5-Air in fp8"
    ),
    Capped("4xa100-pcie-80gb@250W", "175W", sharded, 1.067, 1 - 0.2321, "arXiv:2310.03003, LLaMA 65B, 175 of 250 W"),
    *(
        Capped(
            "rtx-pro-6000-workstation",
            "400W",
            partial(decoded, model, batch),
            free / capped,
            watts / drawn * free / capped,
            f"{SWEEP}, {batch} users",
            DRAWS_MORE if (model, batch) == (SPARSE, 1) else "",
        )
        for model, batch, free, drawn, capped, watts in (
            (DENSE, 32, 1351.5, 573.0, 1320.2, 398.5),
            (DENSE, 1, 72.1, 511.0, 71.3, 398.1),
            (SPARSE, 32, 2415.6, 549.1, 2370.8, 398.0),
            (SPARSE, 1, 163.3, 482.8, 161.8, 397.7),
        )
    ),
)


def ours(row: Capped) -> tuple[float, float]:
    """Time and energy under the cap, relative to those without."""
    (free, spent), (capped, saved) = row.run(row.chip), row.run(f"{row.chip}@{row.cap}")
    return capped / free, saved / spent


def main() -> int:
    """Prints a line for each row."""
    far = 0
    print(f"{'chip':26}{'cap':6}{'time':>7}{'ours':>7}{'energy':>8}{'ours':>7}")
    for row in ROWS:
        time, energy = ours(row)
        known = f"{row.energy:8.2f}{energy:7.2f}" if row.energy is not None else f"{'':8}{energy:7.2f}"
        far += abs(time / row.time - 1) > TARGET or (row.energy is not None and abs(energy / row.energy - 1) > TARGET)
        print(f"{row.chip:26}{row.cap:6}{row.time:7.2f}{time:7.2f}{known}  {row.source}")
    print(f"{len(ROWS) - far} of {len(ROWS)} within 15 %; {DRAWS_MORE}")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
