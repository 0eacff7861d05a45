"""Peak memory of training, measured and ours: `training_memory.py DIR`, where DIR has the measured tables.

SimuMax's runs of Megatron-LM and torchtune report what the allocator handed out, SimuMax as a whole and on the fullest
rank; torchtitan and prime-rl what it reserved (`torch.cuda.memory_stats`, reserved_bytes.all.peak). MLPerf's logs give
a figure without its unit and its rank: it is read as what is allocated, in GB, on the last stage, which fits them best.
Runs that ran out of memory have no peak: the last lines say of each whether it fits by our rule.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import roofline as rl
from measured_serving import LeftOutError
from measured_training import MLPERF, PRIME, SIMUMAX, mlperf, prime_run, sliced
from roofline.measured.accuracy.csvs import CellError, TableRow, cells
from roofline.model.load import catalog_config

TITAN = "training_torchtitan_h100.csv"
NAMES = {"Llama-3.1-8B": "meta-llama/Llama-3.1-8B", "Llama-3.1-70B": "meta-llama/Llama-3.1-70B"}


@dataclass(frozen=True)
class Peak:
    """A measured peak and ours, in bytes."""

    group: str
    case: str
    measured: float
    ours: float

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


def prime_rl(directory: Path, ran: bool) -> Iterator[Peak]:
    """prime-rl's trainer: reserved by those that ran; the chip's memory for those that ran out of it."""
    for r in cells(directory / PRIME):
        if (r.text("success") == "yes") != ran:
            continue
        run = prime_run(r, r.number("step_time_mean_s") if ran else 0.0)
        where = {"on": run.where.on, "engine": run.where.engine, "layout": run.where.layout}
        e = rl.train(run.model, batch=run.settings["batch"], tokens=run.settings["input"], **where, **dict(run.options))
        case = f"{r.text('model').split('/')[1]} {r.text('kind')} {r.text('full_or_lora')} {r.text('seq_len_tokens')}"
        text = f"{case} {run.where.on} {r.text('activation_checkpointing')}"
        if ran:
            yield Peak("prime-rl", text, r.number("peak_memory_gib") * 2**30, float(e.fullest.reserved))
        else:
            yield Peak("out of memory", text, float(e.memory.capacity), float(e.fullest.total))


def logged(directory: Path) -> Iterator[Peak]:
    """What runs of MLPerf Training logged, each figure once; those whose layout is not known are left out."""
    known: set[tuple[str, float]] = set()
    for r in cells(directory / MLPERF):
        try:
            figure = r.number("max_memory_logged") if r.text("max_memory_logged") else 0.0
            runs = [run for run in mlperf(r) if figure and run.quantity == "training"]
        except (LeftOutError, CellError):
            continue
        for run in runs:
            on, layout = run.where.on, run.where.layout
            case = f"{r.text('benchmark')} {on} tp {layout.tp} pp {layout.pp} cp {layout.cp}"
            if (case, figure) in known:
                continue
            known.add((case, figure))
            e = rl.train(run.model, batch=run.settings["batch"], tokens=run.settings["input"], **run.others)
            last = float(e.stages[-1].memory.allocated)
            yield Peak("MLPerf, stages" if layout.pp > 1 else "MLPerf", case, figure * 1e9, last)


def published() -> Iterator[Peak]:
    """Figures of projects' own pages that are not among the tables, under the settings that they name."""
    yield from titan_h200()
    yield from tune_flags()
    yield from tune_models()


def titan_h200() -> Iterator[Peak]:
    """torchtitan, benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md: 4 and 8 nodes, compiled, gathered in fp8."""
    for nodes, figure in ((4, 47.96), (8, 46.97)):
        e = rl.train(
            loaded("meta-llama/Llama-3.1-8B"), batch=16 * nodes, tokens=8192, micro_batch=2, on=f"{nodes}xdgx-h200",
            layout=rl.Layout(dp=8 * nodes, zero=3), engine="fsdp", recipe="fp8-mixed", recompute="op",
            loss="compiled", gather_format="fp8",
        )  # fmt: skip
        yield Peak("torchtitan", f"8B FSDP{8 * nodes} H200", figure * 2**30, float(e.fullest.reserved))


TUNED = "qlora(gradients=bf16,master=none)"
"""torchtune's QLoRA: adapters in bf16, as `dtype` says, which the optimizer updates themselves."""
FLAGS = (
    ("packed", 60.0, {}), ("compiled", 51.0, {}), ("chunked loss", 42.9, {"loss": "chunked"}),
    ("checkpointing", 24.9, {"recompute": "full"}), ("optimizer in backward", 23.1, {"optimizer_in_backward": True}),
    ("offloading", 21.8, {"offload": "activations"}), ("8-bit AdamW", 17.6, {"optimizer": "adam8bit"}),
    ("LoRA", 8.5, {"optimizer": "adamw-bf16", "optimizer_in_backward": False, "lora": 64}),
    ("QLoRA", 4.6, {"recipe": TUNED}),
)  # fmt: skip
"""torchtune's README, "Optimization flags": Llama-3.2-3B, 2 packs of 4,096, bf16, one A100; each beside the former."""


def tune_flags() -> Iterator[Peak]:
    """torchtune's flags one after another: peak active bytes, which are those that the allocator has handed out."""
    options: dict[str, Any] = {}
    for name, figure, more in FLAGS:
        options |= more
        e = rl.train(
            loaded("meta-llama/Llama-3.2-3B"), on="a100-sxm-80gb",
            **{**TUNE, "tokens": 4096, "batch": 2, "optimizer": "adamw-bf16", **options},
        )  # fmt: skip
        yield Peak("torchtune", f"3B {name}", figure * 2**30, float(e.fullest.allocated))


TUNE: Mapping[str, Any] = {"tokens": 2048, "micro_batch": 2, "engine": "fsdp", "recipe": "bf16-pure"}


def tune_models() -> Iterator[Peak]:
    """torchtune's README, "Memory and training speed": 2 packs of 2,048 tokens, compiled, configs of release 0.3.

    Whether activations were offloaded is not said.
    """
    llama, large = loaded("meta-llama/Llama-3.1-8B"), loaded("meta-llama/Llama-3.1-70B")
    given = {**TUNE, "loss": "chunked", "recompute": "full"}
    whole = rl.train(
        llama, batch=2, on="rtx-4090", optimizer="paged-adam8bit", optimizer_in_backward=True, **given
    )  # fmt: skip
    memory = whole.fullest  # paged state is none of the framework's allocator
    yield Peak("torchtune", "8B full, one 4090", 18.9 * 2**30, float(memory.allocated - memory.optimizer))
    adapters: dict[str, Any] = {"optimizer": "adamw-bf16", **given}
    lora = rl.train(large, batch=16, on="dgx-a100", layout="dp=8,zero=3", lora=16, **adapters)
    yield Peak("torchtune", "70B LoRA, 8 A100", 27.6 * 2**30, float(lora.fullest.allocated))
    small = rl.train(llama, batch=2, on="rtx-4090", lora=8, **adapters)
    yield Peak("torchtune", "8B LoRA, one 4090", 16.2 * 2**30, float(small.fullest.allocated))
    packed = rl.train(llama, batch=2, on="rtx-4090", lora=8, **{**adapters, "recipe": TUNED})
    yield Peak("torchtune", "8B QLoRA, one 4090", 7.4 * 2**30, float(packed.fullest.allocated))


def main(directory: Path) -> None:
    """Prints each peak, and the median of every group."""
    peaks = [*simumax(directory), *titan(directory), *prime_rl(directory, True), *logged(directory), *published()]
    print(f"| {'group':21} | {'run':52} | {'measured':>8} | {'ours':>6} | {'error':>6} |")
    print("|---|---|---|---|---|")
    for p in peaks:
        sizes = f"{p.measured / 2**30:8.2f} | {p.ours / 2**30:6.2f}"
        print(f"| {p.group:21} | {p.case[:52]:52} | {sizes} | {100 * p.error:+5.1f}% |")
    print("\n| group | runs | median of absolute errors | largest |\n|---|---|---|---|")
    for group in dict.fromkeys(p.group for p in peaks):
        errors = [abs(p.error) for p in peaks if p.group == group]
        print(f"| {group} | {len(errors)} | {100 * median(errors):.1f} % | {100 * max(errors):.1f} % |")
    print()
    for p in prime_rl(directory, False):
        fits = "fits" if p.ours <= p.measured else "does not fit"
        print(f"ran out of memory: {p.case}: {p.ours / 2**30:.0f} of {p.measured / 2**30:.0f} GiB, {fits}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
