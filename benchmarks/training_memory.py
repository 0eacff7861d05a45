"""Peak memory of training, measured and ours: `training_memory.py DIR`, where DIR has the measured tables.

SimuMax's runs of Megatron-LM report what the allocator handed out, as a whole and on the fullest rank; torchtitan and
torchtune what it reserved (`torch.cuda.memory_stats`, reserved_bytes.all.peak). A figure of which a run's settings are
not all published is shown with those assumed, and is left out of the median.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import roofline as rl
from measured_training import SIMUMAX, sliced
from roofline.accuracy.csvs import TableRow, cells
from roofline.estimates.training_memory import TrainingMemory
from roofline.model.load import catalog_config

TITAN = "training_torchtitan_h100.csv"
NAMES = {"Llama-3.1-8B": "meta-llama/Llama-3.1-8B", "Llama-3.1-70B": "meta-llama/Llama-3.1-70B"}
PUBLISHED = "torchtune 0.3, torchtitan's pages"


@dataclass(frozen=True)
class Peak:
    """A measured peak and ours, in bytes. `assumed`: settings that are not published, or nothing."""

    group: str
    case: str
    measured: float
    ours: float
    assumed: str = ""

    @property
    def error(self) -> float:
        """Ours over measured, less one."""
        return self.ours / self.measured - 1


@cache
def loaded(name: str) -> rl.Model:
    """A model at sequences of any length."""
    return rl.load({**catalog_config(name), "max_position_embeddings": 2**20})


def simumax(directory: Path) -> Iterator[Peak]:
    """Megatron-LM on 8 B200: allocated on the fullest rank, by either column."""
    for r in cells(directory / SIMUMAX):
        degrees = {k: r.whole(k, 1) for k in ("tp", "pp", "cp", "ep", "dp")}
        layout = rl.Layout(**degrees, sp=degrees["tp"] > 1, zero=0 if r.text("zero") == "0" else 1)
        batch = r.whole("micro_batch") * r.whole("num_micro_batches") * degrees["dp"]
        e = rl.train(
            rl.load(sliced(r.text("model"), r.whole("layers"))), batch=batch, tokens=r.whole("seq_len"),
            micro_batch=r.whole("micro_batch"), on="8xb200", layout=layout, overlap=False,
        )  # fmt: skip
        ours = max(float(s.memory.allocated) for s in e.stages)
        yield Peak("SimuMax, whole", r.text("case"), r.number("peak_alloc_gib") * 2**30, ours)
        yield Peak("SimuMax, fullest rank", r.text("case"), r.number("rank_max_alloc_mb") * 2**20, ours)


def titan(directory: Path) -> Iterator[Peak]:
    """torchtitan on H100: FSDP2 with fp32 shards gathered in bf16, eager loss, reserved."""
    for r in cells(directory / TITAN):
        if r.text("model") not in NAMES:
            continue  # micro-batches of its pipelines are not published
        e = _titan(r)
        case = f"{r.text('model')} {r.text('parallelism')} {r.text('technique')} {r.text('seq_len')}"
        yield Peak("torchtitan", case, r.number("memory_gib") * 2**30, float(e.fullest.reserved))


def _titan(r: TableRow) -> Any:
    degrees = {"dp": 1, "tp": 1, "cp": 1}
    for word in r.text("parallelism").split():
        name = word.rstrip("0123456789")
        degrees["dp" if name == "FSDP" else name.lower()] = int(word[len(name) :])
    layout = rl.Layout(**degrees, sp=degrees["tp"] > 1, zero=3)
    micro = r.whole("local_batch")
    return rl.train(
        loaded(NAMES[r.text("model")]), batch=micro * degrees["dp"], tokens=r.whole("seq_len"), micro_batch=micro,
        on=f"{r.whole('num_gpus') // 8}xdgx-h100", layout=layout, engine="fsdp",
        recipe="fp8-mixed" if "fp8" in r.text("technique") else "bf16-mixed",
        recompute="op" if r.text("activation_ckpt") == "selective" else "full",
    )  # fmt: skip


def published() -> Iterator[Peak]:
    """Figures of projects' own pages that are not among the tables, under the settings that they name.

    torchtitan's benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md: 32 and 64 H200, compiled, gathered in fp8.
    torchtune's README of release 0.3: batch 2 of 2,048 packed tokens, compiled, and its configs of that name.
    """
    llama, large = loaded("meta-llama/Llama-3.1-8B"), loaded("meta-llama/Llama-3.1-70B")
    for nodes, figure in ((4, 47.96), (8, 46.97)):
        e = rl.train(
            llama, batch=16 * nodes, tokens=8192, micro_batch=2, on=f"{nodes}xdgx-h200", engine="fsdp",
            layout=rl.Layout(dp=8 * nodes, zero=3), recipe="fp8-mixed", recompute="op", loss="compiled",
            gather_format="fp8",
        )  # fmt: skip
        yield Peak("torchtitan", f"8B FSDP{8 * nodes} H200", figure * 2**30, float(e.fullest.reserved))
    given: dict[str, Any] = {
        "tokens": 2048, "micro_batch": 2, "engine": "fsdp", "recompute": "full", "recipe": "bf16-pure",
        "loss": "compiled",
    }  # fmt: skip
    whole = rl.train(
        llama, batch=2, on="rtx-4090", optimizer="paged-adam8bit", optimizer_in_backward=True, **given
    )  # fmt: skip
    yield Peak("torchtune", "8B full, one 4090", 18.9 * 2**30, _without_pages(whole.fullest))
    lora = rl.train(large, batch=16, on="dgx-a100", layout="dp=8,zero=3", lora=16, **given)
    yield Peak("torchtune", "70B LoRA, 8 A100", 27.6 * 2**30, float(lora.fullest.reserved))
    small = rl.train(llama, batch=2, on="rtx-4090", lora=8, **given)
    yield Peak("torchtune", "8B LoRA, one 4090", 16.2 * 2**30, float(small.fullest.reserved), "checkpointing, rank 8")
    packed = rl.train(llama, batch=2, on="rtx-4090", lora=8, **{**given, "recipe": "qlora"})
    yield Peak("torchtune", "8B QLoRA, one 4090", 7.4 * 2**30, float(packed.fullest.reserved), "fp32 state of adapters")


def _without_pages(memory: TrainingMemory) -> float:
    """Bytes of the framework's allocator, which has no part in paged state."""
    return float(memory.reserved * (memory.allocated - memory.optimizer) / memory.allocated)


def main(directory: Path) -> None:
    """Prints each peak, and the median of every group."""
    peaks = [*simumax(directory), *titan(directory), *published()]
    print(f"| {'group':21} | {'run':52} | {'measured':>8} | {'ours':>6} | {'error':>6} | assumed |")
    print("|---|---|---|---|---|---|")
    for p in peaks:
        sizes = f"{p.measured / 2**30:8.2f} | {p.ours / 2**30:6.2f}"
        print(f"| {p.group:21} | {p.case[:52]:52} | {sizes} | {100 * p.error:+5.1f}% | {p.assumed} |")
    print("\n| group | runs | median of absolute errors | largest |\n|---|---|---|---|")
    for group in dict.fromkeys(p.group for p in peaks):
        errors = [abs(p.error) for p in peaks if p.group == group and not p.assumed]
        print(f"| {group} | {len(errors)} | {100 * median(errors):.1f} % | {100 * max(errors):.1f} % |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
