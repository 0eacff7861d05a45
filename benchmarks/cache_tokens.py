"""Scores the cache that vLLM says it has at its start against what `fit` says, on logs that people published.

    python benchmarks/cache_tokens.py [--json FILE]

A row is a model, a machine, the engine's settings and what was logged: `GPU KV cache size` in tokens, `Maximum
concurrency for … tokens per request`, or `Available KV cache memory` in GiB. Settings that a log does not name are
vLLM's defaults on the chip. Logs of 2025 have PyTorch's sampler, and CUDA graphs outside of the share
(`sampled=38.4B,graphs=0B`, see engines/engines.toml). vLLM before 0.8 tries out a step of `max_model_len` tokens where
that is at most 32,768, and of at most 256 sequences (V0: vllm/config.py, SchedulerConfig). `beside` is what a log's
engine holds and a model's own memory does not: a vision tower, which `fit` names as not counted, and tables of angles
(vllm/model_executor/layers/rotary_embedding/base.py, cos_sin_cache); a second line has the figure less that. No
constant is fitted on tokens; the bytes of sampling and the non-torch memory come from the first six rows' own lines
about these terms, which is said in the column. Two logs do not name their GPU (gemma-3-27b on ROCm, DeepSeek-R1): it
is the one whose memory their lines add up to.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import roofline as rl
from roofline.inference.memory.hybrid_blocks import CachePages

LLMD = "github.com/llm-d/llm-d-benchmark, config_explorer/empirical-vllm-memory-results.md"
OF_2025 = "sampled=38.4B,graphs=0B"


@dataclass(frozen=True)
class Logged:
    """One log: what ran where, and what it said. `terms`: its lines on sampling and overhead set the constants.

    `old_tokens`: logged before 0.21, where a hybrid's tokens are those of one table of blocks.
    """

    model: str
    on: str
    settings: str
    context: int
    version: str
    source: str
    layout: str | None = None
    precision: str | None = None
    tokens: int | None = None
    old_tokens: int | None = None
    concurrency: float | None = None
    gib: float | None = None
    terms: bool = False
    beside: float = 0.0
    why: str = ""


ANGLES_OF_GEMMA_4 = 262144 * (256 + 512) * 2 / 2**30
"""GiB of cosines and sines in bf16, of its context: heads of 256 in layers with a window, of 512 in the others."""
TOWER_OF_GEMMA_4 = (
    (27 * (4 * 1152**2 + 3 * 1152 * 4304) + 2 * 10240 * 1152 + 3 * 16**2 * 1152 + 1152 * 2816) * 2 / 2**30
)
"""GiB of the vision tower of its 26B in bf16, by its `vision_config`: layers, positions, patches, projection."""
V0 = f"max_num_seqs=256,{OF_2025}"

ROWS = (
    Logged("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm", OF_2025, 16000, "0.11", LLMD, gib=51.38, terms=True),
    Logged("Qwen/Qwen3-0.6B", "h100-sxm", OF_2025, 16000, "0.11", LLMD, gib=64.45, terms=True),
    Logged("Qwen/Qwen3-32B", "h100-sxm", OF_2025, 16000, "0.11", LLMD, gib=4.45, terms=True),
    Logged("openai/gpt-oss-20b", "h100-sxm", OF_2025, 16000, "0.11", LLMD, gib=50.28, terms=True),
    Logged(
        "openai/gpt-oss-120b", "h100-sxm", f"gpu_memory_utilization=0.95,{OF_2025}", 16000, "0.11", LLMD, gib=3.33,
        terms=True,
    ),
    Logged(
        "meta-llama/Llama-3.3-70B-Instruct", "2xh100-sxm", OF_2025, 16000, "0.11", LLMD, layout="tp=2",
        precision="fp8", gib=32.0, terms=True,
    ),
    Logged(
        "Qwen/Qwen3-235B-A22B-FP8", "4xh100-sxm", OF_2025, 40960, "0.9", "github.com/vllm-project/vllm/issues/21348",
        layout="tp=4", tokens=178_880, gib=8.11,
        why="a KV connector beside it; 1.50 GiB are 1.9 % of a GPU, non-torch memory of several is 0.55 to 1.74 GiB",
    ),
    Logged(
        "google/gemma-4-31B", "h200", "", 262144, "0.19.1", "github.com/vllm-project/vllm/issues/39734",
        concurrency=2.39,
    ),
    Logged(
        "openai/gpt-oss-20b", "a100-sxm-80gb", "gpu_memory_utilization=0.65", 131072, "0.19.0",
        "myoceane.fr/index.php/ai-vllm-a100-gemma-4", gib=36.56,
    ),
    Logged(
        "Qwen/Qwen2.5-0.5B", "a100-sxm-40gb", "gpu_memory_utilization=0.92,enforce_eager=1", 32768, "2026-08",
        "github.com/ovg-project/kvcached/pull/448", gib=34.70,
    ),
    Logged(
        "Qwen/Qwen3-8B", "a100-sxm-40gb", OF_2025, 40960, "0.9.2", "startup log of 06-10 10:58, 8,505 blocks",
        tokens=136_080, concurrency=3.32, gib=18.69,
    ),
    Logged(
        "google/gemma-3-27b-it", "mi300x", OF_2025, 4096, "0.11.0rc2", "startup log of 09-25 13:40, 89,994 blocks",
        old_tokens=205_696, concurrency=50.05, gib=109.86,
    ),
    Logged(
        "Qwen/Qwen3-Next-80B-A3B-Instruct", "2xh200", OF_2025, 262144, "0.10.2", "startup log of 10-23 15:14",
        layout="tp=2", old_tokens=973_760, concurrency=14.77, gib=44.59,
    ),
    Logged(
        "deepseek-ai/DeepSeek-R1", "8xh200", OF_2025, 8192, "0.11", "startup log of 12-03 17:37",
        layout="tp=8", tokens=635_648, concurrency=77.59, gib=41.60,
    ),
    Logged(
        "openai/gpt-oss-120b", "h100-sxm",
        f"gpu_memory_utilization=0.95,max_num_batched_tokens=1024,mxfp4_use_marlin=1,{OF_2025}", 131072, "0.11",
        "github.com/vllm-project/vllm/issues/27508", gib=1.71,
        why="a wheel, so Marlin; 0.33 GiB are 0.4 % of the GPU, 0.07 of them weights (65.97 GiB load, issue 23278)",
    ),
    Logged(
        "google/gemma-4-26B-A4B", "a100-sxm-80gb", "gpu_memory_utilization=0.9,enforce_eager=1", 131072, "0.19.1",
        "myoceane.fr/index.php/ai-vllm-a100-gemma-4", gib=21.5, beside=TOWER_OF_GEMMA_4 + ANGLES_OF_GEMMA_4,
        why="48.5 GiB load, 47.0 of them the language model",
    ),
    Logged(
        "meta-llama/Llama-3.1-8B-Instruct", "rtx-3090", f"max_num_batched_tokens=20000,{V0}", 20000, "0.6.4",
        "github.com/vllm-project/vllm/issues/10517", gib=3.81,
        why="V0 runs op by op: a third stream beside the widest op, 2.07 GiB logged",
    ),
    Logged(
        "meta-llama/Llama-3.1-8B-Instruct", "rtx-3090", f"max_num_batched_tokens=29000,{V0}", 29000, "0.6.4",
        "github.com/vllm-project/vllm/issues/10517", gib=2.89, why="as before, 2.99 GiB logged",
    ),
    Logged(
        "meta-llama/Meta-Llama-3-8B", "h100-sxm", V0, 8192, "0.6.5", "github.com/vllm-project/vllm/pull/10511",
        gib=53.29, why="non-torch memory of 1.79 GiB; activations 1.26 GiB, 1.24 predicted",
    ),
    Logged(
        "MiniMaxAI/MiniMax-M2", "4xrtx-pro-6000-server", OF_2025, 196608, "0.15",
        "launch notes of MiniMax-M2.5 on four RTX PRO 6000; huggingface.co/MiniMaxAI/MiniMax-M2.5 says 400K",
        layout="tp=4", tokens=399_424, concurrency=2.03, gib=23.62,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """A row's figure by name, logged and predicted."""

    model: str
    on: str
    version: str
    figure: str
    logged: float
    predicted: float
    terms: bool
    why: str = ""

    @property
    def error(self) -> float:
        """predicted / logged − 1."""
        return self.predicted / self.logged - 1


def compared(row: Logged) -> Iterator[Compared]:
    """Every figure that a log has."""
    engine = f"vllm({row.settings})" if row.settings else "vllm"
    options: dict[str, Any] = {"layout": row.layout, "precision": row.precision, "engine": engine}
    fit = rl.fit(row.model, on=row.on, context=row.context, **options)
    budget = fit.memory.budget
    figures = {
        "tokens": (row.tokens, fit.gpu_kv_cache_size),
        "tokens of a table": (row.old_tokens, tokens_of_a_table(fit.asked, budget)),
        "concurrency": (row.concurrency, fit.maximum_concurrency),
        "GiB": (row.gib, budget / 2**30),
    }
    for name, (logged, predicted) in figures.items():
        if logged is not None:
            yield Compared(row.model, row.on, row.version, name, logged, float(predicted), row.terms, row.why)
            if row.beside and name == "GiB":
                less = float(predicted) - row.beside
                why = f"less {row.beside:.2f} GiB that the model does not count"
                yield Compared(row.model, row.on, row.version, "GiB, less beside", logged, less, row.terms, why)


def tokens_of_a_table(asked: Any, budget: float) -> float:
    """What vLLM before 0.21 logs as its tokens."""
    pages: CachePages | None = asked.holding.pages(asked.holding.ranks[0])
    return float("nan") if pages is None else float(pages.smallest_tables(budget))


def main() -> None:
    """The table, and what all of it comes to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    every = [c for row in ROWS for c in compared(row)]
    print(f"{'model':<36} {'on':<22} {'vLLM':<16} {'figure':<18} {'logged':>11} {'predicted':>11} {'error':>8}")
    for c in every:
        mark = "  sets terms" if c.terms else f"  {c.why}" if c.why else ""
        print(
            f"{c.model:<36} {c.on:<22} {c.version:<16} {c.figure:<18} {c.logged:>11,.6g} {c.predicted:>11,.6g} "
            f"{c.error:>+8.1%}{mark}"
        )
    for name, chosen in (("all", every), ("rows that set nothing", [c for c in every if not c.terms])):
        errors = [abs(c.error) for c in chosen]
        near = sum(error <= 0.03 for error in errors)
        print(f"{name}: {near} of {len(errors)} within 3 %; median {median(errors):.1%}, mean {mean(errors):.1%}")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(c) | {"error": c.error} for c in every], indent=1))


if __name__ == "__main__":
    main()
