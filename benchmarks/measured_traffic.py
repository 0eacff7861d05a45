"""Servers under real traffic, simulated: how far `simulate` is from what was measured.

    python benchmarks/measured_traffic.py DIR [--json FILE] [--all] [--part vllm|ttft|mlperf|gpustack|tpu]

1. vllm: runs of vLLM at constant rates on H100. Overloaded ones are to be called overloaded; of the others TTFT, TPOT
   and time from end to end.
2. ttft: TTFT of servers at a concurrency, series by series (those that differ in concurrency alone); all users begin at
   once and send ten requests each. Calm rows are those below three times the mean TTFT of the lowest concurrency of
   their series; in the others bursts wait for each other. Without --all, a third of the series, with a fixed seed.
3. mlperf: Offline, Server and Interactive of MLPerf Inference, requests a second (see `measured_mlperf.py`).
4. gpustack: servers that are sent all requests at once, or that many at a time: requests a second and mean TPOT. The
   file says the mean lengths of ShareGPT's requests; their spread is SHAREGPT's where vLLM's client chose them, else
   that of `simulate` by default.
5. tpu: vLLM on TPU v6e and v7 by Google's recipes: generated tokens a second, and mean TPOT. Lengths are drawn from
   [0.8·L, L], and a command's `max_num_seqs` and `max_num_batched_tokens` are told.

Errors are predicted / measured − 1, in percent. Rows that are left out are counted by reason, and the parts add up.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import measured_mlperf
from measured_serving import (
    RATES,
    REQUESTS,
    SERVING,
    TPU,
    LeftOutError,
    chip_of_row,
    degree,
    known_model,
    model_of_row,
    of_release,
    servers,
    several,
    tpu_servers,
)
from roofline.declared.errors import InputError
from roofline.engines.engine import engine_named
from roofline.measured.accuracy.csvs import CellError, TableRow, cells
from roofline.measured.accuracy.measurements import MeasuredRun
from roofline.serving.simulate.load.arrivals import AtOnce
from roofline.serving.simulate.load.lengths import Empirical
from roofline.serving.simulate.load.workload import Prefixes, Workload
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.simulation import Simulation
from roofline.views.text.tables import Column, Table, plain_text

CALM = 3.0
"""Mean TTFT over that of the lowest concurrency of a series, below which a row is calm."""
OVERLOADED_MS = 10e3
"""Mean TTFT from which a run at a constant rate was overloaded."""
ROUNDS, FEWEST, MOST = 10, 100, 4000
"""Requests of each user, and of all of them at least and at most."""
SHARE, SEED = 1 / 3, 14
"""Of the series, how many are drawn, and the seed."""
DISTINCT = 70
"""Prompts that the runs of vLLM send again and again: between 40 and 100."""
MISLABELLED = "the weights do not fit the chips of its label"


@dataclass(frozen=True)
class Scored:
    """A figure of a row: what it is called, and seconds or requests a second."""

    group: str
    label: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted / measured − 1."""
        return self.predicted / self.measured - 1


@dataclass
class Part:
    """What became of the rows of a file."""

    name: str
    rows: int = 0
    scored: list[Scored] = field(default_factory=list)
    used: int = 0
    left: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def leave(self, error: InputError) -> None:
        """A row is left out."""
        self.left[why(error)] += 1


def why(error: InputError) -> str:
    """The reason, as it is counted."""
    if isinstance(error, LeftOutError):
        return error.why
    if isinstance(error, CellError):
        return f"{error.field} cannot be read"
    if error.field == "on" and "memory" in str(error.expected):
        return MISLABELLED
    return f"cannot be simulated: {error.field}: {error.expected}"


# -- 1. vLLM at constant rates -----------------------------------------------------------------------------------------
def at_rate(r: TableRow) -> Simulation:
    """A run of vLLM, from its cold start on; whole prompts come from the prefix cache once they were sent."""
    chip, tp, prompt = chip_of_row(r.text("gpu")), r.whole("tp"), round(r.number("input_len_mean"))
    chunk, running = r.whole("max_num_batched_tokens"), r.whole("max_num_seqs")
    released = of_release("vllm", date=f"{r.text('date')[:4]}-{r.text('date')[4:6]}")
    return simulate(  # type: ignore[no-any-return]
        model_of_row(r.text("model")), on=several(chip, tp), layout=f"tp={tp}",
        engine=f"{released}(max_num_seqs={running},max_num_batched_tokens={chunk})", input=prompt,
        output=r.whole("tokens_generated_each"), rate=r.number("requested_rate"), arrivals="constant",
        prefixes=Prefixes(DISTINCT, prompt), extent=Extent(requests=r.whole("sent"), warmup=0),
    )  # fmt: skip


def vllm(folder: Path, _: bool) -> Part:
    """Runs at constant rates."""
    part, agree = Part("vLLM at constant rates: s"), Counter[str]()
    for r in cells(folder / RATES):
        part.rows += 1
        try:
            s = at_rate(r)
        except InputError as error:
            part.leave(error)
            continue
        overloaded = r.text("failed") not in ("", "0") or r.number("ttft_mean_ms") > OVERLOADED_MS
        agree["agreed" if overloaded == s.overloaded else "did not agree"] += 1
        if overloaded:
            part.left["overloaded: its queue grew for as long as requests came"] += 1
            continue
        part.used += 1
        label = f"{r.text('run')} {r.text('requested_rate')}/s"
        part.scored += [
            Scored("TTFT", label, r.number("ttft_mean_ms") / 1e3, s.ttft.mean),
            Scored("TTFT p99", label, r.number("ttft_p99_ms") / 1e3, s.ttft.p99),
            Scored("TPOT", label, r.number("tpot_mean_ms") / 1e3, s.tpot.mean),
            Scored("end to end", label, r.number("e2e_mean_s"), s.latency.mean),
            Scored("end to end p99", label, r.number("e2e_p99_s"), s.latency.p99),
        ]
    part.notes.append(f"overloaded or not: {agree['agreed']} agreed, {agree['did not agree']} did not")
    return part


# -- 2. TTFT at a concurrency ------------------------------------------------------------------------------------------
SERIES = (
    "origin", "source", "measured", "image", "model", "system", "backend", "backend_version", "precision", "isl", "osl",
    "tp_size", "attention_dp_size", "moe_ep_size", "moe_tp_size",
)  # fmt: skip


def at_concurrency(r: TableRow) -> tuple[float, Simulation]:
    """Measured TTFT, and the row simulated: all users begin at once.

    `inferencex` draws lengths from [0.8·L, L]. The other rows state one length; their answers are taken to vary by a
    fifth to either side: if none did, those who began together would end together for ever, and every prompt would meet
    all others.
    """
    run = next((m for m in servers(r) if m.quantity == "served-ttft"), None)
    if run is None:
        raise LeftOutError("no TTFT")
    drawn, users = r.text("origin") == "inferencex", run.settings["concurrency"]
    new, out = (r.whole(name) for name in ("isl", "osl"))
    most = out if drawn else 6 * out // 5
    prompts, answers = f"uniform({-(-4 * new // 5)},{new})" if drawn else new, f"uniform({-(-4 * out // 5)},{most})"
    requests = min(max(ROUNDS * users, FEWEST), MOST)
    settings = {name: value for name, value in run.others.items() if name != "rounds"}
    if drawn and settings["engine"] == "trtllm":
        settings["engine"] = f"trtllm(max_num_tokens={step_tokens(r.text('model'), new, users)})"
    s = simulate(
        run.model, input=prompts, output=answers, concurrency=users,
        extent=Extent(requests=requests, warmup=0), **settings,
    )  # fmt: skip
    return run.seconds, s


def step_tokens(model: str, prompt: int, concurrency: int) -> int:
    """`max_num_tokens` of InferenceMAX's servers of TensorRT-LLM: a prompt beside all decodes.

    Of gpt-oss 20,000, else prompt + concurrency + 64 in whole 64s, at least the default (InferenceMAX/InferenceMAX,
    benchmarks/gptoss_fp4_b200_trt_slurm.sh, dsr1_fp8_h200_trt_slurm.sh). With the default, 8,192, no prompt of 8,192
    would begin before all decodes have ended.
    """
    return 20_000 if "gpt-oss" in model else max(8192, (prompt + concurrency + 127) // 64 * 64)


def ttft(folder: Path, everything: bool) -> Part:
    """Servers at a concurrency."""
    part, series = Part("TTFT of servers at a concurrency: s"), defaultdict[tuple[str, ...], list[TableRow]](list)
    for r in cells(folder / SERVING):
        part.rows += 1
        try:
            readable = [m for m in servers(r) if m.quantity == "served-ttft"]
        except InputError as error:
            part.leave(error)
            continue
        if readable:
            series[tuple(r.text(name) for name in SERIES)].append(r)
        else:
            part.left["no TTFT"] += 1
    drawn = set(series if everything else random.Random(SEED).sample(sorted(series), round(SHARE * len(series))))
    for key, rows in series.items():
        if key not in drawn:
            part.left["a series that was not drawn"] += len(rows)
            continue
        lowest = min(rows, key=lambda r: r.number("concurrency")).number("ttft_ms")
        for r in rows:
            try:
                measured, s = at_concurrency(r)
            except InputError as error:
                part.leave(error)
                continue
            part.used += 1
            calm = r.number("ttft_ms") < CALM * lowest
            label = " ".join(r.text(k) for k in ("model", "system", "backend", "isl", "osl", "tp_size", "concurrency"))
            part.scored.append(Scored("calm" if calm else "bursts", label, measured, s.ttft.mean))
            if calm:
                name = f"calm: {r.text('model').rpartition('/')[2]}, {r.text('system')}, {r.text('backend')}"
                part.scored.append(Scored(name, label, measured, s.ttft.mean))
    return part


# -- 3. MLPerf Inference -----------------------------------------------------------------------------------------------
def mlperf(folder: Path, _: bool) -> Part:
    """The highest rates within limits, and Offline."""
    part, every = Part("MLPerf Inference: requests/s"), list(cells(folder / measured_mlperf.FILE))
    part.rows = len(every)
    contests, left = measured_mlperf.contests(every)
    for error in left.values():
        part.leave(error)
    for i, (contest, rows) in enumerate(contests.items()):
        print(f"\r{i + 1} of {len(contests)} contests", end="", file=sys.stderr, flush=True)
        answer = measured_mlperf.predicted(contest)
        if answer.choice is None:
            part.left[MISLABELLED] += len(rows)
            continue
        part.used += len(rows)
        label = f"{contest.text()} [{answer.choice.text(contest)}]"
        limited = "Offline" if contest.scenario == "Offline" else "Server and Interactive"
        middle = median(r.number("samples_per_s") for r in rows)
        part.scored.append(Scored(f"{limited}, each system once", label, middle, answer.rate))
        for r in rows:
            each = Scored(limited, f"{label} {r.text('submitter')}", r.number("samples_per_s"), answer.rate)
            names = (limited, contest.scenario, f"{contest.scenario}: {contest.model}, {contest.chip}")
            part.scored += [Scored(n, each.label, each.measured, each.predicted) for n in dict.fromkeys(names)]
    print(file=sys.stderr)
    return part


# -- 4. All at once ----------------------------------------------------------------------------------------------------
GPUSTACK = "serving_gpustack.csv"
CHECKPOINTS = {"fp8": "fp8-block", "awq": "int4"}
"""Ending of a checkpoint's name → its format, where the catalog has the model in another one."""
PCIE_PAGES: Mapping[str, str] = {
    "docs/performance-lab/qwen3-32b/h100.md": "h100-pcie",
    "docs/performance-lab/glm-4.x/h100.md": "h100-pcie",
}
"""Page that said H100 and not which when it was first published → the card that it can be of.

Qwen3-32B: a step of one sequence reads 65.5 GB of weights in 43 ms (median ITL after prompts of 32,000 tokens), 1.5
TB/s, under three engines alike: an SXM module has 3.35 TB/s, the card 2.0. GLM-4.6 on eight, "SXM" in later editions:
SGLang has read the same prompts after 33 s (p99 of TTFT), on eight H200 after 10 s, whose arithmetic is that of an H100
SXM. Two all-reduces a layer of 214,465 tokens are 0.7 TB for each rank: 25 s at the 28 GB/s of a PCIe link, 2 s over
NVLink."""
SAID_OTHERWISE: Mapping[tuple[str, str], str] = {
    ("docs/performance-lab/qwen3-32b/a100.md", "6"): "trtllm-serve Qwen/Qwen3-32B --max_num_tokens=16384",
    ("docs/performance-lab/qwen3-32b/a100.md", "7"): "trtllm-serve Qwen/Qwen3-32B --max_num_tokens=32768",
}
"""Page and block → the command that it can be of. The one above the two names Qwen3-14B on the page of Qwen3-32B, and
one number of tokens where each block has its own: their median ITL of 53.6 and 49.7 ms is the 54.8 of Qwen3-32B before
them, where an A100 reads Qwen3-14B's 29.5 GB in 15 ms; and fewer requests fit, and are served, beside larger steps."""
PERCENT = (0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 100)
SHAREGPT: Mapping[str, tuple[int, ...]] = {
    "input": (8, 9, 11, 17, 25, 49, 99, 232, 334, 438, 574, 751, 895, 973, 1009),
    "output_tokens": (4, 6, 11, 19, 46, 99, 137, 208, 252, 349, 466, 626, 974, 1110, 1837),
}
"""Tokens of first prompts and answers of ShareGPT_V3 that PERCENT of them do not exceed, of 181 of 200 conversations.

They are those of SemSched (Romyull-Islam/SemSched, trace_workload/sharegpt_lens.json, MIT) that vLLM's client keeps
(vllm/benchmarks/datasets.py, is_valid_sequence): 4 tokens and more each, prompts of at most 1,024, 2,048 with the
answer. Their means, 227 and 214, are within 5 and 9 % of the lab's. One answer in ten has fewer than 12 tokens, so that
its TPOT is largely that of the steps it began among; hardly any of the log-normal lengths of served conversations is so
short."""
FROM_WHEELS = ("0.10", "0.11")
"""Releases of vLLM that its images have from the wheel (gpustack/runner, pack/cuda/Dockerfile), which does not bring
the packages triton_kernels and deep_gemm along: Hopper runs mxfp4 by Marlin then, and experts of fp8 blocks by Triton.
Later images begin from vLLM's own."""
ASKED = {"fp8": "fp8", "int4": "int4"}
"""First word of the format that a command asks for → the format."""


def at_once(r: TableRow) -> Simulation:
    """A server of GPUStack's performance lab."""
    if r.text("speculative"):
        raise LeftOutError("its drafts are not told")
    if "requests completed" in r.text("anomaly"):
        raise LeftOutError("not all of its requests were answered")
    told = SAID_OTHERWISE.get((r.text("source"), r.text("block_in_file")), r.text("serve_command"))
    name = r.text("model") if told == r.text("serve_command") else told.split()[1]
    model, precision = name, ASKED.get(r.text("quantization").partition(" ")[0])
    ending = name.rpartition("-")[2].lower()
    if known_model(model) is None and ending in CHECKPOINTS:
        model, precision = name.rpartition("-")[0], CHECKPOINTS[ending]
    elif "FP8" in name:
        precision = None
    tp, pp, dp = (degree(r, column) for column in ("tp", "pp", "dp"))
    attention = r.text("dp_attention") == "yes" and dp > 1
    if attention:  # SGLang's --dp splits the ranks of --tp among copies of attention; without it there is one
        tp //= dp
    ranks = tp * pp * dp
    ep = ranks // pp if r.text("ep") not in ("", "1") or attention else 1
    layout = ",".join(f"{axis}={n}" for axis, n in (("tp", tp), ("pp", pp), ("dp", dp), ("ep", ep)) if n > 1) or "tp=1"
    if precision is not None and r.text("kv_dtype"):
        precision = f"{precision},kv=fp8"
    elif r.text("kv_dtype"):
        precision = "kv=fp8"
    requests = round(r.number("num_requests"))
    users = round(r.number("max_concurrency")) if r.text("max_concurrency") else requests
    new, out = (r.number(f"{name}_len_mean") for name in ("input", "output"))
    lengths: dict[str, Any] = {"input": max(1, round(new)), "output_tokens": max(1, round(out))}
    if r.text("dataset") != "ShareGPT":
        lengths |= {"input_cv": 0.0, "output_cv": 0.0}
    elif r.text("client") == "vllm bench serve":
        lengths = sharegpt(requests, new, out)
    sent: dict[str, Any] = (
        {"arrivals": "at-once"} if users >= requests else {"concurrency": users, "warmup": 0, "ramp": 0.0}
    )
    if r.text("request_rate") not in ("", "inf"):
        sent = {"rate": r.number("request_rate"), "arrivals": "constant", "warmup": 0}
    chip = PCIE_PAGES.get(r.text("source")) or chip_of_row(r.text("chip"))
    engine = {"vLLM": "vllm", "SGLang": "sglang", "TensorRT-LLM": "trtllm"}.get(r.text("engine"))
    if engine is None:
        raise LeftOutError("no such engine in the catalog")
    release = r.text("engine_version").removeprefix("v")
    wheel = engine == "vllm" and release.rpartition(".")[0] in FROM_WHEELS
    command = f"{told}{' --mxfp4-use-marlin=1 --use-deep-gemm=0' * wheel}"
    return simulate(  # type: ignore[no-any-return]
        model_of_row(model), on=several(chip, ranks), layout=layout, precision=precision,
        engine=with_flags(of_release(engine, release), command),
        requests=requests, **lengths, **sent,
    )  # fmt: skip


def sharegpt(requests: int, new: float, out: float) -> dict[str, list[int]]:
    """Lengths of SHAREGPT, by which the requests that `simulate` draws of them have these means."""
    places = (np.arange(requests) + 0.5) * 100 / requests
    prompts, answers = (np.rint(np.interp(places, PERCENT, SHAREGPT[name])).astype(int) for name in SHAREGPT)
    drawn = next(Workload(Empirical(prompts), Empirical(answers), AtOnce()).blocks(requests, Extent().seed))

    def scaled(lengths: NDArray[np.int64], scale: float) -> list[int]:
        return [max(1, round(each * scale)) for each in lengths.tolist()]

    return {
        "input": scaled(prompts, new / drawn.input.mean()), "output_tokens": scaled(answers, out / drawn.output.mean()),
    }  # fmt: skip


def with_flags(engine: str, command: str) -> str:
    """An engine with those settings of a command that it has words for; a flag without a value turns one on.

    >>> with_flags("vllm@0.11", "vllm serve a/b -tp 2 --async-scheduling --max-num-batched-tokens=16384")
    'vllm@0.11(async_scheduling=1,max_num_batched_tokens=16384)'
    """
    words = engine_named(engine).words
    flags = re.finditer(r"--([\w-]+)(?:[= ]([^\s-]\S*))?", command)
    given = {flag[1].replace("-", "_"): flag[2] or "1" for flag in flags}
    settings = ",".join(f"{word}={value}" for word, value in given.items() if word in words)
    return f"{engine}({settings})" if settings else engine


def tells_tpot(r: TableRow) -> bool:
    """Whether a row's TPOT is that of its tokens.

    A hidden part of the answer comes in one piece, and guidellm counts TTFT into TPOT.
    """
    told = r.text("tpot_mean_ms") and r.number("output_len_mean") > SHORT and r.text("client") == "vllm bench serve"
    return bool(told) and "hidden reasoning" not in r.text("anomaly")


def at_once_figures(r: TableRow, s: Simulation) -> dict[str, tuple[float, float]]:
    """What is scored of a row of GPUStack's: seconds simulated and measured; at a rate, how long requests take."""
    if r.text("request_rate") not in ("", "inf"):
        return {"latency": (s.latency.mean, r.number("e2e_mean_ms") / 1e3)}
    told = {"requests/s": (1 / s.requests_per_second, 1 / r.number("requests_per_s"))}
    return told | ({"tpot": (s.tpot.mean, r.number("tpot_mean_ms") / 1e3)} if tells_tpot(r) else {})


BESIDE = 8192
"""Tokens that a step has for answers beside a prompt that is as long as TensorRT-LLM's largest step or longer. Steps of
trtllm-bench are larger than the engine's own (tensorrt_llm/bench/build/tuning.py, up to 32,768)."""


def queued(r: TableRow, run: MeasuredRun) -> Simulation:
    """A run of TensorRT-LLM's pages: all its requests queued at once, to the last answer."""
    tokens, settings = r.whole("in_len"), run.settings
    engine = str(run.where.engine)
    return simulate(  # type: ignore[no-any-return]
        run.model, on=run.where.on, layout=run.where.layout, precision=run.where.precision,
        engine=f"{engine}(max_num_tokens={tokens + BESIDE})" if tokens >= BESIDE else engine,
        requests=REQUESTS[tokens, r.whole("out_len")], input=settings["input"], warmup=0,
        output_tokens=settings["output_tokens"], arrivals="at-once", input_cv=0.0, output_cv=0.0,
    )  # fmt: skip


def simulated(part: Part, file: Path, of: Callable[[TableRow], Simulation]) -> Iterator[tuple[TableRow, Simulation]]:
    """Each row of a table with its simulation; rows without one are left out of the part."""
    for r in cells(file):
        part.rows += 1
        try:
            s = of(r)
        except InputError as error:
            part.leave(error)
            continue
        part.used += 1
        yield r, s


def gpustack(folder: Path, _: bool) -> Part:
    """Servers that are sent all requests at once, or so many at a time."""
    part = Part("GPUStack's performance lab: requests/s, TPOT s")
    for r, s in simulated(part, folder / GPUSTACK, at_once):
        label = f"{r.text('model').rpartition('/')[2]} {r.text('chip')} tp={r.text('tp')} {r.text('dataset')} " + (
            f"{r.text('input_len_asked')}/{r.text('output_len_asked')} {r.text('max_concurrency')}"
        )
        groups = ("", f", {r.text('engine')}", f", {r.text('engine')} on {r.text('chip')}")
        for group in groups:
            for what, (ours, theirs) in at_once_figures(r, s).items():
                pair = (1 / theirs, 1 / ours) if what == "requests/s" else (theirs, ours)
                part.scored.append(Scored(f"{what}{group}", label, *pair))
    return part


def on_tpu(r: TableRow, run: MeasuredRun) -> Simulation:
    """A server of a recipe, with all requests of its run."""
    users, requests = (round(r.number(name)) for name in ("max_concurrency", "num_requests"))
    varied = {name: run.settings[name] for name in ("input", "output_tokens", "input_cv", "output_cv")}
    return simulate(  # type: ignore[no-any-return]
        run.model, on=run.where.on, layout=run.where.layout, precision=run.where.precision, engine=run.where.engine,
        requests=requests, **varied,
        **({"arrivals": "at-once"} if users >= requests else {"concurrency": users, "warmup": 0, "ramp": 0.0}),
    )  # fmt: skip


def tpu(folder: Path, _: bool) -> Part:
    """vLLM on TPUs."""
    part = Part("Google's recipes of vLLM on TPUs: tokens/s, TPOT s")

    def served(r: TableRow) -> Simulation:
        if r.text("kind") != "serving":
            raise LeftOutError("a training run, which `measured_training.py` reads")
        return on_tpu(r, *tpu_servers(r))

    for r, s in simulated(part, folder / TPU, served):
        named = f"{r.text('model')} {r.text('num_chips')} {r.text('chip')}"
        label = f"{named} {r.text('input_len')}/{r.text('output_len')} {r.text('max_concurrency')}"
        chips = r.number("num_chips") if "per chip" in r.text("note") else 1
        rate = r.number("output_tokens_per_s") * chips
        for group in ("tokens/s", f"tokens/s, {r.text('chip')}"):
            part.scored.append(Scored(group, label, rate, s.tokens_per_second))
        if r.text("tpot_mean_ms"):
            part.scored.append(Scored("TPOT", label, r.number("tpot_mean_ms") / 1e3, s.tpot.mean))
    return part


SHORT = 8
"""Tokens of answers whose TPOT is not scored: it hangs on how prompts meet them."""
PARTS: dict[str, Callable[[Path, bool], Part]] = {
    "vllm": vllm, "ttft": ttft, "mlperf": mlperf, "gpustack": gpustack, "tpu": tpu,
}  # fmt: skip


# -- tables ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Summary:
    """The errors of a group in percent: mean and median of their absolute values, their median, the largest."""

    group: str
    n: int
    mean: float
    median: float
    bias: float
    worst: float


def summaries(scored: Sequence[Scored]) -> list[Summary]:
    """Of all groups, the largest median error first."""
    groups = defaultdict[str, list[float]](list)
    for s in scored:
        groups[s.group].append(100 * s.error)
    each = [
        Summary(g, len(e), fmean(map(abs, e)), median(map(abs, e)), median(e), max(e, key=abs))
        for g, e in groups.items()
    ]
    return sorted(each, key=lambda s: -s.median)


def worst(scored: Sequence[Scored], most: int) -> Iterator[Scored]:
    """The rows that are furthest off, each figure once."""
    once = {(s.label, s.measured): s for s in scored}
    yield from sorted(once.values(), key=lambda s: -abs(s.error))[:most]


def columns(*names: str) -> tuple[Column, ...]:
    """Headings without units."""
    return tuple(map(Column, names))


def tables(part: Part, most: int = 12) -> str:
    """A part, as text."""
    left = part.left.total()
    if part.used + left != part.rows:
        raise ValueError(f"{part.name}: {part.rows} rows, of which {part.used} were scored and {left} left out")
    percent = [
        (s.group, s.n, *(f"{v:.1f}" for v in (s.mean, s.median, s.bias, s.worst))) for s in summaries(part.scored)
    ]
    far = [
        (s.label, s.group, f"{s.measured:.4g}", f"{s.predicted:.4g}", f"{100 * s.error:+.1f}")
        for s in worst(part.scored, most)
    ]
    return "\n\n".join([
        f"{part.name}: {part.rows} rows = {part.used} scored + {left} left out", *part.notes,
        plain_text(Table(columns("what", "n", "mean", "median", "bias", "worst"), tuple(percent))),
        plain_text(Table(columns("row", "what", "measured", "predicted", "%"), tuple(far))),
        "\n".join(f"{n:6} {text}" for text, n in part.left.most_common()),
    ])  # fmt: skip


def as_json(part: Part) -> dict[str, object]:
    """A part, its rows and its summaries."""
    scored, groups = [asdict(s) for s in part.scored], [asdict(s) for s in summaries(part.scored)]
    counts = {"name": part.name, "rows": part.rows, "used": part.used, "left": dict(part.left), "notes": part.notes}
    return {**counts, "scored": scored, "summaries": groups}


def main(argv: list[str]) -> None:
    """Prints the parts, and writes the JSON where asked."""
    parser = argparse.ArgumentParser(description="Simulated servers against measured ones.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, help="write the rows and summaries here")
    parser.add_argument("--all", action="store_true", help="all series of TTFT instead of a third")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part alone; may be repeated")
    options = parser.parse_args(argv)
    if not options.folder.is_dir():
        parser.error(f"{options.folder}: not a folder")
    done = []
    for name in options.part or PARTS:
        done.append(PARTS[name](options.folder, options.all))
        print(tables(done[-1]), end="\n\n\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps([as_json(p) for p in done], indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
