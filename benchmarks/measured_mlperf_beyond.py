"""MLPerf beyond decoders: `python benchmarks/measured_mlperf_beyond.py DIR` with the folder of measured tables.

Nothing is fitted on these rows. What is assumed, one thing for each data set:

- Wan 2.2 T2V A14B: 81 frames of 1280x720, 20 steps, guidance (mlcommons/inference, text_to_video,
  inference_config.yaml). Each of its two experts is Wan 2.1's transformer of 14B, and one runs in every step.
  SingleStream shares a video over all GPUs by Ulysses, Offline has one on each. In fp8, except for forms that say bf16.
- BERT-large: 256 tokens a sample. Half of phase 2's 512 are padding (arXiv:2107.02027, table 1), which is not computed.
  Data-parallel, in one micro-batch, in fp8.
- Flux.1: images of 256x256, 256 patches behind 256 tokens of text, whose encodings are part of the data set
  (mlcommons/training, text_to_image). Weights sharded over all GPUs (zero=3), in one micro-batch, in bf16.

What lies beyond 25 %: MI355X and NVIDIA's round 6.1 take Wan's attention in 8 bits, and MI355X products in 4 (their
forms say "bf16, fp8, fp4" and "fp8"), where attention is predicted in bf16. BERT's head is computed for the 76 masked
tokens of a sample and is predicted for all 256, so that small batches a GPU are too slow. Flux.1 on 1,152 GPUs has two
samples a GPU, and replicas within which weights are sharded. 72 GPUs share a video with guidance in halves.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import roofline as rl
from measured_serving import LeftOutError, chip_of_row
from roofline.model.configs.config import Inputs
from roofline.model.load import catalog_config

INFERENCE = ("e2e_mlperf_nondecoder_v60.csv", "e2e_mlperf_nondecoder_v61.csv")
TRAINING = "training_mlperf_nondecoder.csv"
BERT, FLUX, WAN = "google-bert/bert-large-uncased", "black-forest-labs/FLUX.1-dev", "Wan-AI/Wan2.1-T2V-14B-Diffusers"
TOKENS = 256
"""Tokens of a mean sample of BERT's."""


@dataclass(frozen=True)
class Row:
    """A measured row: seconds of a step or a video, or samples per second (`rate`), measured and predicted."""

    benchmark: str
    submitter: str
    machine: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Share of what was measured, of a time or a rate."""
        return self.predicted / self.measured - 1


def chip(name: str) -> str:
    """The chip of a row, whose names have vendors, sizes of memory and words around them."""
    bracketed = re.search(r"\((GB\d+)\)", name)
    plain = bracketed[1] if bracketed else re.sub(r"^NVIDIA (?=G?[BH]\d)|^AMD Instinct | \d+GB.*|-\d+GB$", "", name)
    return chip_of_row(plain.replace("SXM5", "SXM"))


def videos(row: dict[str, str]) -> Row:
    """A row of Wan: seconds of a video that all GPUs share, or videos per second of all GPUs."""
    number, bf16 = int(row["num_accelerators"]) * int(row["nodes"] if row["nodes"] == "1" else 1), row["weight_dtype"]
    shared = row["scenario"] == "SingleStream"
    pipeline = {
        "_class_name": "Pipeline",
        "transformer": catalog_config(WAN),
        "vae": {"_class_name": "AutoencoderKLWan"},
    }
    answer = rl.encode(
        pipeline, on=f"{number if shared else 1}x{chip(row['accelerator'])}", engine="trtllm",
        layout=f"cp={number},exchange=ulysses" if shared else None, size="1280x720", frames=81, passes=20,
        guidance=True, precision=None if bf16 == "bfloat16" else "fp8",
    )  # fmt: skip
    seconds = float(answer.latency.expected)
    told = float(row.get("latency_mean_s") or row.get("latency_s") or 0) if shared else float(row["samples_per_s"])
    return Row(f"Wan {row['scenario']}", row["submitter"], f"{number} {row['accelerator'][:28]}", told,
               seconds if shared else number / seconds)  # fmt: skip


def steps(row: dict[str, str]) -> Row:
    """A row of training: samples per second."""
    number, batch = int(row["num_chips"]), int(row["global_batch"])
    flux = row["benchmark"].startswith("flux")
    model = rl.load(FLUX, inputs=Inputs(width=256, height=256, tokens=256)) if flux else rl.load(BERT)
    step = rl.train(
        model, on=f"{number}x{chip(row['chip'])}", batch=batch, micro_batch=batch // number,
        tokens=model.positions or TOKENS, layout=f"dp={number}" + (",zero=3" if flux else ""),
        recipe="bf16" if flux else "fp8",
    )  # fmt: skip
    name = "Flux.1 training" if flux else "BERT training"
    return Row(name, row["submitter"], f"{number} {row['chip'][:28]}", float(row["samples_per_s"]), batch / step.time)


def rows(folder: Path) -> Iterator[Row | str]:
    """Every row with its prediction, or why it has none."""
    for table in (*INFERENCE, TRAINING):
        for row in csv.DictReader((folder / table).open(encoding="utf-8")):
            name = row.get("model") or row["benchmark"]
            ask = videos if name.startswith("wan") else steps if name.startswith(("BERT", "flux")) else None
            if ask is None or (ask is steps and not row["samples_per_s"]):
                continue
            try:
                yield ask(row)
            except (LeftOutError, rl.InputError) as error:
                yield f"{name[:20]} {row['submitter']}: left out: {error}"


def main(folder: str) -> None:
    """One line for each row, and a median for each benchmark."""
    known: dict[str, list[float]] = {}
    for row in rows(Path(folder)):
        if isinstance(row, str):
            print(row)
            continue
        known.setdefault(row.benchmark, []).append(row.error)
        print(
            f"{row.benchmark:16} {row.submitter[:12]:12} {row.machine:34} measured {row.measured:10.4g} "
            f"predicted {row.predicted:10.4g} {100 * row.error:+6.1f} %"
        )
    for name, errors in known.items():
        inside = sum(abs(e) <= 0.25 for e in errors)
        print(f"{name:16} {len(errors):3} rows: median {100 * median(map(abs, errors)):5.1f} %, {inside} within 25 %")


if __name__ == "__main__":
    main(*sys.argv[1:])
