"""MLPerf Inference, Whisper: `python benchmarks/measured_whisper.py DIR` with the folder of measured tables.

Whisper large-v3 transcribes LibriSpeech, Offline: a server that is always full, one replica on every chip. A row says
the mean tokens of an answer. The decoder's prompt is taken as 4 tokens, and a request as 30 s of sound, which its
encoder always reads. Nothing is fitted on these rows.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import median

import roofline as rl
from measured_serving import LeftOutError, chip_of_row

TABLES = ("e2e_mlperf_nondecoder_v60.csv", "e2e_mlperf_nondecoder_v61.csv")
MODEL = "openai/whisper-large-v3"
FULL = 4096
"""Requests in flight that keep a replica full."""


def main(folder: str) -> None:
    """One line for each row, and the median error."""
    errors: list[float] = []
    for table in TABLES:
        for row in csv.DictReader((Path(folder) / table).open(encoding="utf-8")):
            if row["model"] != "whisper" or row["scenario"] != "Offline" or not row.get("mean_output_tokens"):
                continue
            try:
                chip = chip_of_row(row["accelerator"])
                engine = "vllm" if "vLLM" in row["software"] and "TensorRT" not in row["software"] else "trtllm"
                answer = rl.serve(
                    MODEL, on=chip, engine=engine, input=4, output_tokens=round(float(row["mean_output_tokens"])),
                    concurrency=FULL,
                )  # fmt: skip
            except (LeftOutError, rl.InputError) as error:
                print(f"{table[-7:-4]} {row['submitter'][:12]:12} {row['accelerator'][:30]:30} left out: {error}")
                continue
            measured = float(row["samples_per_s"]) / int(row["num_accelerators"])
            errors.append(float(answer.requests_per_second) / measured - 1)
            print(
                f"{table[-7:-4]} {row['submitter'][:12]:12} {row['accelerator'][:30]:30} {engine:7} "
                f"{measured:8.1f} {float(answer.requests_per_second):8.1f} {100 * errors[-1]:+7.1f} %"
            )
    print(f"{len(errors)} rows, median error {100 * median(map(abs, errors)):.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
