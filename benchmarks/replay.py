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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import roofline as rl
from measured_serving import of_release
from roofline.engines.engine import engine_named
from roofline.hardware.cluster import Cluster, cluster_named
from roofline.inference.settings import Setup
from roofline.kernels.links import SHARE
from roofline.serving.simulate.recorder import Row
from roofline.serving.simulate.simulation import Simulation

FILE = "requests_llmservingsim.csv"
PAIR = "2xRTX PRO 6000 (PCIe)"
MACHINES = {"1xRTX 4090": "rtx-4090", PAIR: "2xrtx-pro-6000-server"}
LINKS: Mapping[str, tuple[float, float]] = {PAIR: (16e9, 20e-6)}
"""Chips of a run → B/s that an all-reduce among them reaches, and seconds of a step: `link_bw` and `link_latency` of
the publisher's own config for that run, bench/examples/configs/Qwen3-32B.json at commit 9692a581. What the cards
exchange passed through the host then: without access control services and IOMMU the same pair reaches 36 GB/s, at
6.6 µs (profiler/perf/RTXPRO6000/hardware.yaml at 1b2cc02d)."""
SHARES: Mapping[str, float] = {"1xRTX 4090": 0.88}
"""Chips of a run → share of the memory that holds as many tokens of cache as vLLM said that it held: 41,408."""


Logged = dict[str, str]


@dataclass(frozen=True)
class Replayed:
    """A run, and of each request the seconds simulated and measured of TTFT, latency and, after one token, TPOT.

    running: mean number of requests in a step.
    """

    name: str
    asked: Setup
    running: float
    pairs: dict[str, list[tuple[float, float]]]


def replays(rows: Iterable[Logged], pace: float = 1.0) -> Iterator[Replayed]:
    """Each run of the table, all that the server does taking `pace` times as long."""
    runs = defaultdict(list)
    for row in rows:
        runs[row["run"]].append(row)
    for name, logged in runs.items():
        first = logged[0]
        settings = "max_num_seqs={max_num_seqs},max_num_batched_tokens={max_num_batched_tokens}".format(**first)
        if first["chips"] in SHARES:
            settings += f",gpu_memory_utilization={SHARES[first['chips']]}"
        engine = f"{of_release('vllm', first['engine'].removeprefix('vLLM '))}({settings})"
        told, seen = replayed(logged, engine, pace)
        before = engine_named(engine).before
        pairs: dict[str, list[tuple[float, float]]] = {"TTFT": [], "TPOT": [], "latency": []}
        for row, ours in zip(logged, seen, strict=True):
            queued, begun, done = (float(row[f"{k}_s"]) for k in ("queued", "first_token", "last_token"))
            late, more = float(before(int(row["input_tokens"]))), int(row["output_tokens"]) - 1
            pairs["TTFT"].append((pace * (ours[7] - late), begun - queued))
            pairs["latency"].append((pace * (ours[9] - late), done - queued))
            if more and ours[8] is not None:
                pairs["TPOT"].append((pace * ours[8], (done - begun) / more))
        yield Replayed(name, told.asked, told.running, pairs)


def runs(folder: Path) -> Iterator[Replayed]:
    """Each run of the folder's table."""
    with (folder / FILE).open(newline="") as handle:
        yield from replays(csv.DictReader(handle))


def main() -> None:
    """Prints a line for each run."""
    for run in runs(Path(sys.argv[1])):
        ratio = {k: median(a for a, _ in v) / median(b for _, b in v) for k, v in run.pairs.items()}
        medians = ", ".join(f"{k} {median(a for a, _ in v):.4g} s simulated, {median(b for _, b in v):.4g} measured"
                            for k, v in run.pairs.items())  # fmt: skip
        print(f"{run.name}: {medians}")
        print("  simulated over measured: " + ", ".join(f"{k} {r:.3f}" for k, r in ratio.items()))
        print("  over TPOT's: " + ", ".join(f"{k} {ratio[k] / ratio['TPOT']:.3f}" for k in ("TTFT", "latency")))


def machine(chips: str) -> Cluster:
    """The machine of a run. A link that its publisher tells is one of its own, which nobody measured."""
    cluster = cluster_named(MACHINES[chips])
    if chips not in LINKS:
        return cluster
    reached, latency = LINKS[chips]
    told = replace(cluster.levels[0], kind="mesh", bandwidth=reached / SHARE, latency=latency)
    return replace(cluster, levels=(told,))


def replayed(rows: list[Logged], engine: str, pace: float = 1.0) -> tuple[Simulation, list[Row]]:
    """What the simulation of the same requests answers, and what it has of each, in their order.

    Requests come `pace` times as fast: times that much longer, everything takes that many times as long.
    """
    seen: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        with trace.open("w", newline="") as handle:
            writer = csv.writer(handle)
            writer.writerow(["time", "input", "output"])
            writer.writerows([float(r["arrival_s"]) / pace, r["input_tokens"], r["output_tokens"]] for r in rows)
        on, layout = machine(rows[0]["chips"]), rows[0]["layout"]
        told = rl.simulate(rows[0]["model"], on=on, layout=layout, engine=engine, trace=str(trace), written=seen.append)
    return told, sorted(seen)


if __name__ == "__main__":
    main()
