"""Measured servers replayed request by request: `simulate --trace` against the times that an engine logged.

    python benchmarks/replay.py FOLDER

FOLDER holds `requests_llmservingsim.csv` (github.com/casys-kaist/LLMServingSim, MIT): 300 requests of two servers each,
of ShareGPT lengths, with the times at which vLLM 0.19 queued them and sent the first and the last token. Printed are
the medians, simulated over measured, and those of TTFT and latency over that of TPOT, which leaves the scheduler: how
fast steps are on these cards is not what is compared.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import roofline as rl
from measured_serving import of_release
from roofline.engines.engine import engine_named
from roofline.serving.simulate.recorder import Row

FILE = "requests_llmservingsim.csv"
MACHINES = {"1xRTX 4090": "rtx-4090", "2xRTX PRO 6000 (PCIe)": "2xrtx-pro-6000-server"}


Pairs = dict[str, list[tuple[float, float]]]
"""TTFT, TPOT, latency → seconds simulated and measured, request by request."""


def runs(folder: Path) -> dict[str, list[dict[str, str]]]:
    """The requests of each run."""
    every = defaultdict(list)
    with (folder / FILE).open(newline="") as handle:
        for row in csv.DictReader(handle):
            every[row["run"]].append(row)
    return dict(every)


def pairs_of(rows: list[dict[str, str]]) -> Pairs:
    """What a simulation of a run has beside what was measured."""
    first = rows[0]
    settings = "max_num_seqs={max_num_seqs},max_num_batched_tokens={max_num_batched_tokens}".format(**first)
    engine = f"{of_release('vllm', first['engine'].removeprefix('vLLM '))}({settings})"
    before = engine_named(engine).before
    pairs: Pairs = {"TTFT": [], "TPOT": [], "latency": []}
    for row, told in zip(rows, replayed(rows, engine), strict=True):
        queued, begun, done = (float(row[f"{k}_s"]) for k in ("queued", "first_token", "last_token"))
        late, more = float(before(int(row["input_tokens"]))), int(row["output_tokens"]) - 1
        pairs["TTFT"].append((told[7] - late, begun - queued))
        pairs["latency"].append((told[9] - late, done - queued))
        if more and told[8] is not None:
            pairs["TPOT"].append((told[8], (done - begun) / more))
    return pairs


def main() -> None:
    """Prints a line for each run."""
    for name, rows in runs(Path(sys.argv[1])).items():
        pairs = pairs_of(rows)
        ratio = {k: median(a for a, _ in v) / median(b for _, b in v) for k, v in pairs.items()}
        medians = ", ".join(f"{k} {median(a for a, _ in v):.4g} s simulated, {median(b for _, b in v):.4g} measured"
                            for k, v in pairs.items())  # fmt: skip
        print(f"{name}: {medians}")
        print("  simulated over measured: " + ", ".join(f"{k} {r:.3f}" for k, r in ratio.items()))
        print("  over TPOT's: " + ", ".join(f"{k} {ratio[k] / ratio['TPOT']:.3f}" for k in ("TTFT", "latency")))


def replayed(rows: list[dict[str, str]], engine: str) -> list[Row]:
    """What a simulation of the same requests has of each, in their order."""
    seen: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        with trace.open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(["time", "input", "output"])
            writer.writerows([r["arrival_s"], r["input_tokens"], r["output_tokens"]] for r in rows)
        on, layout = MACHINES[rows[0]["chips"]], rows[0]["layout"]
        rl.simulate(rows[0]["model"], on=on, layout=layout, engine=engine, trace=str(trace), written=seen.append)
    return sorted(seen)


if __name__ == "__main__":
    main()
