"""MLPerf Inference, Whisper: `python benchmarks/measured_whisper.py DIR` with the folder of measured tables.

Whisper large-v3 transcribes LibriSpeech's development sets, Offline. Nothing is fitted on these rows. What is assumed:

- A request is 30 s of sound, which the encoder always reads, and a decoder's prompt of 4 tokens.
- An answer has 76 tokens: the mean of the rows of vLLM and PyTorch, which count tokens. NVIDIA's code, which all
  TensorRT rows run, counts the words of the transcript instead (nv_mlpinf/benchmarks/whisper/whisper_models.py,
  `word_counts`: 63.5), and says nothing of tokens. Lengths have a coefficient of variation of 0.3.
- That code does not mix batches: 320 requests go to the engine at once, and the next 320 when all of them have an
  answer, of at most 150 tokens (configs/whisper/*/harness.py; `generate` of whisper_models.py).
- vLLM makes log-mel features on the CPU, one request after another, before its engine sees them: 14 ms with
  `WhisperFeatureExtractor` of transformers, measured on a core of an AMD EPYC. That bounds the rate of an engine.
- One engine on every chip. Figures of v6.1 are tokens per second, whatever their table's unit says (4,809 on five
  chips; v6.0 has 4,513 on the same), and are divided by what a row of the same software counts.

- That code captures no CUDA graphs (`use_graphs`: False), so each kernel of a step is launched by the host, in the
  22 µs a launch that the engines have where nothing else is known. With graphs these rows are 25 to 78 % too fast.

What is left beyond 25 %: a launch of TensorRT's is perhaps shorter than FasterTransformer's, whose 22 µs are (B200 and
B300, 17 to 30 % too slow). Features are made on the GPU before a batch and transcripts written out after it, one by
one in Python; without measurements these are not counted. On Arc B70 most of the predicted time reads the keys and
values of the encoder's output, 246 MB for each token of an answer; no row tells how fast its kernel reads them.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import roofline as rl
from measured_serving import LeftOutError, chip_of_row

TABLES = ("e2e_mlperf_nondecoder_v60.csv", "e2e_mlperf_nondecoder_v61.csv")
MODEL = "openai/whisper-large-v3"
TOKENS, WORDS, VARIED, LONGEST = 76, 63.46, 0.3, 150
"""Tokens and words of a mean answer, the coefficient of variation of tokens, and the most tokens."""
BATCH = 320
"""Requests of a batch of NVIDIA's code."""
FULL = 4096
"""Requests in flight that keep a continuous batch full."""
LATENCY = 9
"""Column of a simulated request that has its latency."""
FEATURES_S = 14e-3
"""Seconds in which one core makes the features of a request."""


@dataclass(frozen=True)
class Row:
    """A measured row: requests per second and chip. `batches`: whether one batch ends before the next begins."""

    place: str
    accelerator: str
    measured: float
    batches: bool


def rows(folder: Path) -> Iterator[Row]:
    """The Offline rows of both tables."""
    for table in TABLES:
        for row in csv.DictReader((folder / table).open(encoding="utf-8")):
            if row["model"] != "whisper" or row["scenario"] != "Offline":
                continue
            tensorrt = "TensorRT" in row["software"]
            rate = float(row["samples_per_s"])
            if row.get("unit"):
                rate /= WORDS if tensorrt else TOKENS
            chips = int(row["num_accelerators"]) * int(row["nodes"])
            yield Row(f"{table[-7:-4]} {row['submitter'][:12]:12}", row["accelerator"], rate / chips, tensorrt)


def in_batches(chip: str, folder: Path) -> float:
    """Requests per second of batches that end before the next begins."""
    normal, width = NormalDist(), np.sqrt(np.log1p(VARIED**2))
    points = np.array([normal.inv_cdf((i + 0.5) / BATCH) for i in range(BATCH)])
    tokens = np.clip(np.rint(TOKENS * np.exp(width * points - width**2 / 2)), 1, LONGEST)
    order = np.random.default_rng(0).permutation(BATCH)
    path = folder / "batch.csv"
    path.write_text("time,input,output\n" + "".join(f"0,4,{tokens[i]:.0f}\n" for i in order), encoding="utf-8")
    ends = list[Any]()
    rl.simulate(
        MODEL, on=chip, engine="trtllm(eager=1)", trace=rl.Trace(path), requests=BATCH, warmup=0,
        written=lambda row: ends.append(row[LATENCY]),
    )  # fmt: skip
    return BATCH / max(ends)


def continuous(chip: str) -> float:
    """Requests per second of vLLM with a full batch, at most what one core makes features for."""
    answer = rl.serve(MODEL, on=chip, engine="vllm", input=4, output_tokens=TOKENS, concurrency=FULL)
    return min(float(answer.requests_per_second), 1 / FEATURES_S)


def main(folder: str) -> None:
    """One line for each row, and the median error."""
    errors: list[float] = []
    known: dict[tuple[str, bool], float] = {}
    with TemporaryDirectory() as room:
        for row in rows(Path(folder)):
            try:
                chip = chip_of_row(re.sub(r"^NVIDIA (?=G?[BH])|-\d+GB$|\(R\)", "", row.accelerator))
                key = chip, row.batches
                if key not in known:
                    known[key] = in_batches(chip, Path(room)) if row.batches else continuous(chip)
            except (LeftOutError, rl.InputError) as error:
                print(f"{row.place} {row.accelerator[:30]:30} left out: {error}")
                continue
            errors.append(known[key] / row.measured - 1)
            how = "batches" if row.batches else "vllm"
            print(
                f"{row.place} {row.accelerator[:30]:30} {how:8} "
                f"{row.measured:7.1f} {known[key]:7.1f} {100 * errors[-1]:+7.1f} %"
            )
    print(f"{len(errors)} rows, median error {100 * median(map(abs, errors)):.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
