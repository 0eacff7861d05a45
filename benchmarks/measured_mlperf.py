"""MLPerf Inference: which row is which model, chips, engine, formats and lengths, and the rate predicted for it.

Offline is the throughput of a server that is always full; Server and Interactive are the highest Poisson rate of which
99 % of the requests meet the limits of the row on TTFT and on TPOT. Where a table has the submission's config, its
layout, batch, steps and share of memory are taken. Where it has none (rounds 5.1 and 6.1), the layout is the best of
replicas of tp = 1, 2, 4, 8 chips, and with experts of dp = ep = 8, as many as the system has room for, each with steps
of at most 2,048 or 8,192 tokens, in which prompts are split. Nothing is fitted on these rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, TypeAlias

from highest_rate import highest_rate
from measured_serving import LeftOutError, chip_of_row, model_of_row, of_release, several
from roofline.declared.errors import InputError
from roofline.engines.engine import Engine, engine_named
from roofline.inference.span import Span
from roofline.layout.layout import layout_named
from roofline.measured.accuracy.csvs import TableRow
from roofline.model.model import Model
from roofline.serving.serve import serve
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.simulation import Simulation

FILE = "e2e_mlperf_inference.csv"
SIXTH = "e2e_mlperf_inference_v60.csv"
FILES: Mapping[str, str] = {
    FILE: "",
    SIXTH: "2026-02",
    "e2e_mlperf_inference_v61.csv": "2026-07",
}
"""Table of a round → the month its submissions were due, whose releases ran where a row names none; 5.1: the newest."""
WAYS = (1, 2, 4, 8)
"""Chips of a replica that are tried; MLPerf's servers hold eight, and no more are taken for one."""
STEPS = (2048, 8192)
"""Tokens of a step that are tried, TensorRT-LLM's `max_num_tokens`, vLLM's `max_num_batched_tokens`."""
FULL = 4096
"""Requests in flight that keep a replica full; those that memory does not hold wait."""
SECONDS = 600
"""How long a run takes at least, by the rules."""
LEAST, MOST = 1500, 10_000
"""Requests of a simulated replica that count: those of that time, between these."""
FILLING = 2
"""Requests before them, in latencies at the limits: until then the server fills."""


@dataclass(frozen=True)
class DataSet:
    """Tokens of the prompts and answers of a reference data set: means, coefficients of variation, and the longest.

    The mean answer is the row's own; `output` of a row that has none.
    """

    model: str
    input: int
    input_cv: float
    most_input: int
    output_cv: float
    most_output: int
    output: int

    @property
    def spread(self) -> dict[str, float]:
        """How much lengths vary, as `serve` and `simulate` take it."""
        return {"input_cv": self.input_cv, "output_cv": self.output_cv}

    def prompts(self) -> str:
        """As `simulate` takes them."""
        return f"lognormal({self.input},{self.input_cv},max={self.most_input})"

    def answers(self, mean: int) -> str | int:
        """As `simulate` takes them; all alike where they do not vary."""
        return f"lognormal({mean},{self.output_cv},max={self.most_output})" if self.output_cv else mean


# Means of prompts and answers:
#   Llama-2-70B: 24,576 prompts of OpenOrca with 48 to 1,021 tokens, 5,463,976 together, as counted in MLPerf's own file
# (github.com/FlashLab-MBZUAI/HBFSim, validation/calibration/h100-llama2-70b-calibration-protocol.json). The 294 tokens
# of a sample in its README are the reference's answers.
#   Others: mlcommons.org/2025/04/llm-inference-v5 (405B: LongBench, RULER, GovReport; prompts of 9,400),
# mlcommons.org/2025/09/small-llm-inference-5-1 (8B: CNN/DailyMail; prompts of 778) and
# mlcommons.org/2025/09/deepseek-inference-5-1 (prompts of 800, at most 20,000 tokens out). Mean answers: of v6.0's
# rows. Coefficients of variation are assumed.
#   8B: its answers all reach their limit of 128 tokens: tokens/s over samples/s is 129 of every submitter, and 13,368
# reference answers have 8,167,644 characters (github.com/mlcommons/inference, language/llama3.1-8b/README.md), 128
# tokens each at 4.8 a token.
#   Mixtral: 5,000 each of OpenOrca, GSM8K and MBXP (mlcommons.org/2024/08/moe-mlperf-inference-benchmark), GSM8K as a
# conversation with five worked examples (github.com/AdvayMonga/BlameGraph, workloads/mlperf_mixtral_8x7b.py).
# OpenOrca's prompts have 222 tokens, GSM8K's are assumed to have 750 and MBXP's 190: 390 with a deviation of 280.
#   gpt-oss: 6,396 papers of PubMed to be summarised, in prompts of about 8,000 tokens (the same repository,
# workloads/mlperf_gpt_oss_120b.py, which reads their lengths). NVIDIA's file of them has 4 bytes a token, and all
# prompts are as long as the longest (input_ids_padded_perf_eval.npy, 375 MB): at most 14,700. Answers of 1,278 tokens,
# at most 10,240 (github.com/mlcommons/inference, language/gpt-oss-120b/README.md).
DATA_SETS: Mapping[str, DataSet] = {
    "Llama-2-70B-chat": DataSet("meta-llama/Llama-2-70b-chat-hf", 222, 0.8, 1024, 0.8, 1024, 280),
    "Llama-3.1-8B-Instruct": DataSet("meta-llama/Llama-3.1-8B-Instruct", 778, 0.45, 2540, 0.0, 129, 128),
    "Llama-3.1-405B-Instruct": DataSet("meta-llama/Llama-3.1-405B-Instruct", 9400, 0.7, 20000, 0.6, 2000, 650),
    "Mixtral-8x7B-Instruct": DataSet("mistralai/Mixtral-8x7B-Instruct-v0.1", 390, 0.72, 2048, 0.9, 1024, 146),
    "DeepSeek-R1": DataSet("deepseek-ai/DeepSeek-R1", 800, 0.5, 3136, 0.9, 20000, 3800),
    "gpt-oss-120b": DataSet("openai/gpt-oss-120b", 8000, 0.3, 14700, 0.5, 10240, 1300),
}


@dataclass(frozen=True)
class Choice:
    """A way to run it: replicas of `chips` chips each, their layout, and the most tokens of a step.

    batch: most sequences of a rank, and share: of the memory, both 0 where they are the engine's own. chunked: prompts
    are split where a step has no room for all of one.
    """

    chips: int
    layout: str
    tokens: int
    batch: int = 0
    share: float = 0.0
    chunked: bool = False

    @property
    def ranks(self) -> int:
        """Ranks that hold sequences of their own."""
        return int(layout_named(self.layout).dp)

    def text(self, contest: Contest) -> str:
        """In a table."""
        return f"{contest.chips // self.chips} x {self.layout}, {self.tokens}"


@dataclass(frozen=True)
class Contest:
    """What a row asks: rows of the same are predicted once.

    model: a name of DATA_SETS. output: mean tokens of an answer, to two digits. ttft, tpot: limits on the 99th
    percentile in seconds, infinite where there are none. told: how it is run, where the submission's config is known.
    """

    model: str
    chip: str
    chips: int
    engine: str
    formats: str
    scenario: str
    output: int
    ttft: float = inf
    tpot: float = inf
    told: Choice | None = None

    @property
    def data(self) -> DataSet:
        """Its data set."""
        return DATA_SETS[self.model]

    def text(self) -> str:
        """In a table."""
        return f"{self.model} {self.chips}x{self.chip} {self.engine} {self.formats} {self.scenario}"


@dataclass(frozen=True)
class Prediction:
    """The requests a second of the whole system, and how it is run."""

    rate: float
    choice: Choice | None

    def span(self, contest: Contest) -> Span:
        """Seconds of a request of the whole system, 1 / rate; as certain as the time between tokens of a replica."""
        if self.choice is None:
            raise LeftOutError("the weights do not fit the chips of its label")
        served = Trial(contest, self.choice).served(self.rate)
        return served.times(1 / (self.rate * float(served.expected)))  # type: ignore[no-any-return]


Contests: TypeAlias = dict[Contest, list[TableRow]]


def contests(rows: Iterable[TableRow], month: str = "") -> tuple[Contests, dict[int, InputError]]:
    """The rows of each contest, and of each row that is left out why. month: see FILES."""
    known, left = Contests(), dict[int, InputError]()
    for r in rows:
        try:
            known.setdefault(contest(r, month), []).append(r)
        except InputError as error:
            left[r.row] = error
    return known, left


def two_digits(value: float) -> int:
    """A number from 1 rounded to two digits."""
    return int(float(f"{value:.1e}"))


def seconds_of(r: TableRow, contest: Contest) -> float:
    """Measured seconds of a request of the whole system; of a row that counts tokens alone those of a mean answer."""
    return 1 / r.number("samples_per_s") if r.text("samples_per_s") else contest.output / r.number("tokens_per_s")


LIMITS: Mapping[tuple[str, str], tuple[float, float]] = {
    ("Llama-2-70B-chat", "Server"): (2.0, 0.2), ("Llama-2-70B-chat", "Interactive"): (0.45, 0.04),
    ("Llama-3.1-8B-Instruct", "Server"): (2.0, 0.1), ("Llama-3.1-8B-Instruct", "Interactive"): (0.5, 0.03),
    ("DeepSeek-R1", "Server"): (2.0, 0.08), ("gpt-oss-120b", "Server"): (3.0, 0.08),
    ("gpt-oss-120b", "Interactive"): (2.0, 0.015),
}  # fmt: skip
"""Seconds of TTFT and TPOT, as the rows of rounds 5.1 and 6.0 have them; for those of 6.1 that have none."""


def contest(r: TableRow, month: str = "") -> Contest:
    """What a row asks. Raises LeftOutError for one that does not say it clearly."""
    name, scenario = r.text("model"), r.text("scenario")
    if r.text("division") not in ("closed", "") or r.text("edge") == "1":
        raise LeftOutError("ambiguous: the open division, whose rules are the submitter's own")
    if name not in DATA_SETS:
        raise LeftOutError(f"ambiguous: lengths or images of the data set of {name} are not told")
    if r.text("mixed_accelerators") == "1":
        raise LeftOutError("ambiguous: chips of several kinds, how many of each is not given")
    if r.text("disaggregated"):
        raise LeftOutError("ambiguous: workers for prompts and for answers, which rate holds for which is not given")
    if name == "DeepSeek-R1" and scenario == "Interactive":
        raise LeftOutError("ambiguous: drafts are allowed, and nothing says how much is accepted")
    software = r.text("engine") or r.text("software")
    engine = "trtllm" if software.startswith("TensorRT") else "vllm" if software.startswith("vLLM") else None
    if engine is None:
        raise LeftOutError(f"no engine in the catalog for {software.partition(',')[0]}")
    known = re.search(r"vLLM (\d+\.\d+(?:\.\d+)?)", r.text("software")) if month else None
    chip, model = chip_of_row(accelerator(r.text("accelerator"))), model_of_row(DATA_SETS[name].model)
    formats = formats_of(model, r.text("weight_dtype"), r.text("weight_precision_config"))
    limits = (inf, inf) if scenario == "Offline" else limits_of(r)
    each = r.number("tokens_per_s") / r.number("samples_per_s") if r.text("samples_per_s") else DATA_SETS[name].output
    return Contest(
        name, chip, r.whole("num_accelerators") * (1 if month else r.whole("nodes")),
        of_release(engine, known[1] if known else "", month), formats, scenario, two_digits(each), *limits, told(r),
    )  # fmt: skip


def accelerator(text: str) -> str:
    """The chip that a submission's accelerator names: without its memory, and with its cap of power.

    >>> accelerator("NVIDIA B300-SXM-270GB"), accelerator("AMD Instinct MI355X 288GB HBM3e (Power Cap 1000 W)")
    ('B300-SXM', 'AMD Instinct MI355X@1000W')
    """
    name, _, cap = text.replace("(R)", "").partition(" (Power Cap ")
    name = re.sub(r"[- ]\d+GB( HBM\w+)?$", "", name).removeprefix("NVIDIA ")
    return f"{name}@{cap.removesuffix(' W)')}W" if cap else name


def limits_of(r: TableRow) -> tuple[float, float]:
    """Seconds of TTFT and TPOT that 99 % of the requests have to meet."""
    if r.text("ttft_limit_ms"):
        return r.number("ttft_limit_ms") / 1e3, r.number("tpot_limit_ms") / 1e3
    known = LIMITS.get((r.text("model"), r.text("scenario")))
    if known is None:
        raise LeftOutError("ambiguous: its limits are not told")
    return known


def told(r: TableRow) -> Choice | None:
    """How the submission's config runs it; None where the table has none.

    With attention data parallel each GPU has a batch of its own, and tp only names the group. Experts are over as many
    ranks as the config says, "on" being all.
    """
    if not r.text("tp"):
        return None
    ways, stages, experts = r.whole("tp"), r.whole("pp", 1), r.text("moe_ep")
    ranks = ways if experts == "on" else int(experts or 1)
    axes = {"dp" if r.text("attention_dp") == "True" else "tp": ways, "pp": stages, "ep": ranks}
    layout = ",".join(f"{axis}={n}" for axis, n in axes.items() if n > 1) or "tp=1"
    return Choice(
        ways * stages, layout, r.whole("max_num_tokens", 0), r.whole("max_batch_per_rank", 0),
        r.number("kv_memory_fraction") if r.text("kv_memory_fraction") else 0.0, r.text("chunked_prefill") == "True",
    )  # fmt: skip


def formats_of(model: Model, dtype: str, config: str = "") -> str:
    """What a submission's format means: NVIDIA quantises the experts alone in its fp4 mixtures; caches are in fp8.

    config: the format that the submission's config names; AMD's fp4 is mxfp4. gpt-oss keeps the format it comes in.
    """
    experts = model.active_parameters != model.parameters
    if model.precision.weights("experts").name == "mxfp4" and dtype.lower() in ("fp4", "mxfp4", "fp8"):
        return "kv=fp8"
    match (dtype, config):
        case ("fp8", _):
            return "weights=fp8,kv=fp8"
        case ("fp4", "mxfp4"):
            return "weights=mxfp4,kv=fp8"
        case ("fp4", _):
            return "experts=nvfp4,kv=fp8" if experts else "weights=nvfp4,kv=fp8"
    raise LeftOutError("ambiguous: formats that have no name")


def choices(contest: Contest) -> Iterator[Choice]:
    """The ways that are tried: the submission's own where it is told."""
    if contest.told is not None:
        yield contest.told
        return
    model = model_of_row(contest.data.model)
    ways = [Choice(n, f"tp={n}", 0) for n in WAYS if n <= contest.chips]
    if model.active_parameters != model.parameters and contest.chips >= WAYS[-1]:
        ways.append(Choice(WAYS[-1], f"dp={WAYS[-1]},ep={WAYS[-1]}", 0))
    yield from (Choice(way.chips, way.layout, tokens, chunked=True) for way in ways for tokens in STEPS)


WORDS: Mapping[str, tuple[str, ...]] = {
    "trtllm": ("max_num_tokens", "max_batch_size", "free_gpu_memory_fraction", "enable_chunked_prefill"),
    "vllm": ("max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization"),
}
"""Engine → its words for the most tokens of a step, the most sequences of a rank, the share of memory, and, where it is
off by default, that prompts are split."""


POLICY: Mapping[str, str] = {"trtllm": "capacity_scheduler_policy=MAX_UTILIZATION"}
"""Engine → a setting of all submissions: NVIDIA's configs of every benchmark have `batch_scheduler_policy` "max_util"
(closed/NVIDIA/configs of rounds 4.0 to 6.0)."""
BALANCED = 60
"""Assumed `timeout_iters` of TensorRT-LLM's attention data parallelism with `enable_balance`, which no table has: as in
NVIDIA's own page for DeepSeek-R1 (docs/source/developer-guide/perf-overview.md) and in its scripts of InferenceMAX."""


def in_process(engine: Engine) -> Engine:
    """An engine that a harness hands tokens to in its own process: no server takes, parses and tokenises requests.

    Tokenisation is a step before MLPerf's runs of language models, which is not timed (github.com/mlcommons/inference,
    language/gpt-oss-120b/README.md as proposed).
    """
    return replace(engine, request_s=0.0, request_token_s=0.0)


@dataclass(frozen=True)
class Trial:
    """A contest run in one of the ways: one of its replicas, for they do not meet."""

    contest: Contest
    choice: Choice

    @property
    def replicas(self) -> int:
        """How many the system has."""
        return self.contest.chips // self.choice.chips

    def engine(self, balanced: bool = True) -> str:
        """The engine with the settings of the submission; `balanced`: with `timeout_iters`, which `serve` refuses of
        long answers."""
        contest, choice = self.contest, self.choice
        software = contest.engine.partition("@")[0]
        names = WORDS[software]
        values = (choice.tokens, choice.batch, choice.share, int(choice.chunked))
        given: dict[str, float] = {k: v for k, v in zip(names, values, strict=False) if v}
        if balanced and choice.ranks > 1 and contest.engine.startswith("trtllm"):
            given["timeout_iters"] = BALANCED
        settings = [f"{k}={v}" for k, v in given.items()] + ([POLICY[software]] if software in POLICY else [])
        return f"{contest.engine}({','.join(settings)})" if settings else contest.engine

    def settings(self, balanced: bool = True) -> dict[str, Any]:
        """What a replica is run on and how; `balanced` as in `engine`."""
        contest, choice = self.contest, self.choice
        return {
            "on": several(contest.chip, choice.chips), "layout": choice.layout, "precision": contest.formats,
            "engine": in_process(engine_named(self.engine(balanced))),
        }  # fmt: skip

    def simulated(self, requests: int, warmup: int, **traffic: Any) -> Simulation:
        """A replica under traffic."""
        contest, data = self.contest, self.contest.data
        return simulate(  # type: ignore[no-any-return]
            model_of_row(data.model), input=data.prompts(), output_tokens=data.answers(contest.output),
            extent=Extent(requests=requests, warmup=warmup), **data.spread, **self.settings(), **traffic,
        )  # fmt: skip

    def full(self) -> float:
        """Requests a second of the system, so many always in flight (Little's law).

        Raises InputError where memory holds not one.
        """
        flight = self.flight
        s = self.simulated(flight, 2 * flight, concurrency=flight)  # the first ones wait while it fills
        return self.replicas * flight / s.latency.mean

    @property
    def flight(self) -> int:
        """Requests that keep a replica full."""
        return max(FULL, self.choice.batch * self.choice.ranks)

    def served(self, rate: float) -> Span:
        """Time between tokens of a replica at its part of a rate, or always full where the scenario has no limit."""
        contest, data = self.contest, self.contest.data
        traffic: dict[str, float] = (
            {"concurrency": self.flight} if contest.ttft == inf else {"rate": rate / self.replicas}
        )
        return serve(  # type: ignore[no-any-return]
            model_of_row(data.model),
            input=data.input,
            output_tokens=contest.output,
            **data.spread,
            **self.settings(balanced=False),
            **traffic,
        ).tpot

    def meets(self, rate: float) -> bool:
        """Whether 99 % of the requests meet the limits at a rate of the system.

        Replicas take turns: the gaps of one are sums of as many exponential ones, a gamma distribution.
        """
        each, contest = rate / self.replicas, self.contest
        requests = round(min(max(LEAST, SECONDS * each), MOST))
        before = round(FILLING * each * (contest.ttft + contest.output * contest.tpot))
        s = self.simulated(requests, before, rate=each, arrivals=f"gamma({1 / sqrt(self.replicas):.9g})")
        return s.ttft.p99 <= contest.ttft and s.tpot.p99 <= contest.tpot


def predicted(contest: Contest) -> Prediction:
    """The best of the ways. One that is not faster when full is not looked at any further."""
    full: list[tuple[float, Choice]] = []
    for choice in choices(contest):
        try:
            full.append((Trial(contest, choice).full(), choice))
        except InputError:
            continue  # its memory holds not one request, or its degrees do not divide
    full.sort(key=lambda pair: -pair[0])
    if contest.ttft == inf:
        return Prediction(*full[0]) if full else Prediction(0.0, None)
    best = Prediction(0.0, None)
    for most, choice in full:
        if most <= best.rate:
            break
        rate = highest_rate(Trial(contest, choice).meets, 1.02 * best.rate, most)
        if rate > best.rate:
            best = Prediction(rate, choice)
    return best
