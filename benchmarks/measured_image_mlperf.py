"""MLPerf Inference's Qwen3-VL, Offline: requests a second of a server that is always full, beside the prediction.

    python benchmarks/measured_image_mlperf.py FILE...
    python benchmarks/measured_image_mlperf.py --sizes FILE...   # the median error by size of picture and words

Each FILE has rows of `model`, `scenario`, `accelerator`, `num_accelerators` and `samples_per_s`. The task is Shopify's
product catalogue (mlcommons.org/2026/02/vlm-inference-shopify): a picture of a product and its words become a record.
Neither the size of the pictures nor the length of the words is published. One assumption stands for both, `TASK`: a
picture as Shopify recommends it for products, 2,048 pixels square (help.shopify.com, "Product media types"), and a page
of words. Nothing is fitted. A submission is the best of replicas of 1 to 8 chips, and of data-parallel attention with
experts spread over all chips.

`--sizes` shows the error for other sizes. The picture is the largest term: its tower and tokens grow with its area.
At 2,048 pixels and 512 words the median is 47 %, too slow. It is within 25 % at 1,536 to 1,792 pixels with 256 words,
at 1,408 to 1,664 with 512, and at 1,280 to 1,536 with 1,024 (14 to 23 %).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

import roofline as rl

MODEL = "Qwen/Qwen3-VL-235B-A22B-Instruct"
CHIPS = {
    "NVIDIA GB200": "gb200", "NVIDIA B200-SXM-180GB": "b200", "NVIDIA B300-SXM-270GB": "b300",
    "NVIDIA H200-SXM-141GB": "h200-sxm",
}  # fmt: skip
FULL = 1024
"""Requests in flight of a replica, the `max_num_seqs` of the submissions."""


@dataclass(frozen=True)
class Task:
    """A request: a picture of so many pixels on a side, words, and the mean answer of the rows of v6.0."""

    side: int = 2048
    words: int = 512
    answer: int = 80


TASK = Task()


def layouts(chips: int) -> Iterator[str]:
    """Ways to spread the model that are tried."""
    for tp in (1, 2, 4, 8):
        if chips % tp == 0:
            yield f"tp={tp},dp={chips // tp}"
    yield f"dp={chips},ep={chips}"


def predicted(chip: str, chips: int, formats: str, task: Task = TASK, among: tuple[str, ...] = ()) -> tuple[float, str]:
    """Requests a second of the best layout, and the layout."""
    best = (0.0, "none fits")
    for layout in among or layouts(chips):
        replicas = int(layout.rpartition("dp=")[2].partition(",")[0]) if "ep" not in layout else chips
        try:
            served = rl.serve(
                rl.load(MODEL), on=f"{chips}x{chip}", layout=layout, precision=formats, engine="vllm", input=task.words,
                output_tokens=task.answer, concurrency=FULL * replicas, images=1, image_size=f"{task.side}x{task.side}",
            )  # fmt: skip
            best = max(best, (float(served.requests_per_second), layout))
        except rl.InputError:  # a layout that does not fit
            continue
    return best


Row: TypeAlias = dict[str, str]


def rows_of(files: tuple[str, ...]) -> Iterator[tuple[Row, tuple[str, int, str]]]:
    """Rows of the task without mixed chips, each with its chip, number of chips and formats."""
    for path in files:
        with open(path, encoding="utf-8") as text:
            for row in csv.DictReader(text):
                mixed = row.get("mixed_accelerators") == "1"
                if "Qwen3-VL" not in row["model"] or row["scenario"] != "Offline" or mixed:
                    continue
                chip, chips = CHIPS[row["accelerator"]], int(row["num_accelerators"])
                yield row, (chip, chips, "fp8" if chip.startswith("h") else "nvfp4")


def main(*files: str) -> None:
    """Print a line for each row, and the median error."""
    errors = []
    known: dict[tuple[str, int, str], tuple[float, str]] = {}
    for row, asked in rows_of(files):
        if asked not in known:
            known[asked] = predicted(*asked)
        (rate, layout), real = known[asked], float(row["samples_per_s"])
        errors.append(abs(rate / real - 1))
        chip, chips, _ = asked
        print(f"{row['submitter']:8} {chips}x{chip:9} {real:6.1f} {rate:6.1f} {rate / real - 1:+6.0%}  {layout}")
    print(f"{len(errors)} rows, median error {median(errors):.0%}")


def sizes(*files: str) -> None:
    """Print the median error, and the range of errors, for each size of picture and number of words."""
    rows = list(rows_of(files))
    best = {asked: predicted(*asked)[1] for asked in {asked for _, asked in rows}}
    for words in (256, 512, 1024):
        for side in (1024, 1152, 1280, 1408, 1536, 1664, 1792, 2048):
            task = Task(side, words)
            rates = {asked: predicted(*asked, task, (layout,))[0] for asked, layout in best.items()}
            off = [rates[asked] / float(row["samples_per_s"]) - 1 for row, asked in rows]
            middle = median(map(abs, off))
            inside = "within 25 %" if middle <= 0.25 else ""
            print(f"{side:4} {words:4} median {middle:4.0%}, {min(off):+.0%} to {max(off):+.0%}  {inside}", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    sizes(*given[1:]) if given[:1] == ["--sizes"] else main(*given)
