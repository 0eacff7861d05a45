"""MLPerf Inference: which row is which model, chips, engine, formats and lengths, and the rate predicted for it.

Offline is the throughput of a server that is always full; Server and Interactive are the highest Poisson rate of which
99 % of the requests meet the limits of the row on TTFT and on TPOT. A submission does not say how it spreads the model:
it is the best of replicas of tp = 1, 2, 4, 8 chips, and with experts of dp = ep = 8, as many as the system has room
for, each with steps of at most 2,048 or 8,192 tokens. Nothing is fitted on these rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, TypeAlias

from highest_rate import highest_rate
from measured_serving import LeftOutError, chip_of_row, model_of_row, several
from roofline.declared.errors import InputError
from roofline.inference.span import Span
from roofline.measured.accuracy.csvs import TableRow
from roofline.model.model import Model
from roofline.serving.serve import serve
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.simulation import Simulation

FILE = "e2e_mlperf_inference.csv"
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

    The mean answer is the row's own.
    """

    model: str
    input: int
    input_cv: float
    most_input: int
    output_cv: float
    most_output: int

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


# Means of prompts and answers: mlcommons.org/2024/03/mlperf-llama2-70b (OpenOrca, at most 1,024 tokens each),
# mlcommons.org/2024/08/moe-mlperf-inference-benchmark (OpenOrca, GSM8K, MBXP, 5,000 of each), mlcommons.org/2025/04/
# llm-inference-v5 (405B: LongBench, RULER, GovReport; prompts of 9,400), mlcommons.org/2025/09/small-llm-inference-5-1
# (8B: CNN/DailyMail; prompts of 778) and mlcommons.org/2025/09/deepseek-inference-5-1 (prompts of 800, at most 20,000
# tokens out). Coefficients of variation and the mean prompt of Mixtral's mixture are assumed. 8B's answers all reach
# their limit of 128 tokens: tokens/s over samples/s is 129 of every submitter, and 13,368 reference answers have
# 8,167,644 characters (github.com/mlcommons/inference, language/llama3.1-8b/README.md), 128 tokens each at 4.8 a token.
DATA_SETS: Mapping[str, DataSet] = {
    "Llama-2-70B-chat": DataSet("meta-llama/Llama-2-70b-chat-hf", 294, 0.8, 1024, 0.8, 1024),
    "Llama-3.1-8B-Instruct": DataSet("meta-llama/Llama-3.1-8B-Instruct", 778, 0.45, 2540, 0.0, 129),
    "Llama-3.1-405B-Instruct": DataSet("meta-llama/Llama-3.1-405B-Instruct", 9400, 0.7, 20000, 0.6, 2000),
    "Mixtral-8x7B-Instruct": DataSet("mistralai/Mixtral-8x7B-Instruct-v0.1", 250, 0.8, 2048, 0.9, 1024),
    "DeepSeek-R1": DataSet("deepseek-ai/DeepSeek-R1", 800, 0.5, 3136, 0.9, 20000),
}


@dataclass(frozen=True)
class Contest:
    """What a row asks: rows of the same are predicted once.

    model: a name of DATA_SETS. output: mean tokens of an answer, to two digits. ttft, tpot: limits on the 99th
    percentile in seconds, infinite where there are none.
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

    @property
    def data(self) -> DataSet:
        """Its data set."""
        return DATA_SETS[self.model]

    def text(self) -> str:
        """In a table."""
        return f"{self.model} {self.chips}x{self.chip} {self.engine} {self.formats} {self.scenario}"


@dataclass(frozen=True)
class Choice:
    """A way to run it: replicas of `chips` chips each, their layout, and the most tokens of a step."""

    chips: int
    layout: str
    tokens: int

    def text(self, contest: Contest) -> str:
        """In a table."""
        return f"{contest.chips // self.chips} x {self.layout}, {self.tokens}"


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


def contests(rows: Iterable[TableRow]) -> tuple[Contests, dict[int, InputError]]:
    """The rows of each contest, and of each row that is left out why."""
    known, left = Contests(), dict[int, InputError]()
    for r in rows:
        try:
            known.setdefault(contest(r), []).append(r)
        except InputError as error:
            left[r.row] = error
    return known, left


def two_digits(value: float) -> int:
    """A number from 1 rounded to two digits."""
    return int(float(f"{value:.1e}"))


def contest(r: TableRow) -> Contest:
    """What a row asks. Raises LeftOutError for one that does not say it clearly."""
    name, scenario = r.text("model"), r.text("scenario")
    if r.text("division") != "closed" or name not in DATA_SETS:
        raise LeftOutError("ambiguous: the open division, whose rules are the submitter's own")
    if r.text("mixed_accelerators") == "1":
        raise LeftOutError("ambiguous: chips of several kinds, how many of each is not given")
    software, dtype = r.text("software"), r.text("weight_dtype")
    engine = "trtllm" if software.startswith("TensorRT") else "vllm" if software.startswith("vLLM") else None
    if engine is None:
        raise LeftOutError(f"no engine in the catalog for {software.partition(',')[0]}")
    chip, model = chip_of_row(r.text("accelerator")), model_of_row(DATA_SETS[name].model)
    formats = formats_of(model, dtype)
    limits = (inf, inf) if scenario == "Offline" else tuple(r.number(f"{k}_limit_ms") / 1e3 for k in ("ttft", "tpot"))
    return Contest(
        name, chip, r.whole("num_accelerators") * r.whole("nodes"), engine, formats, scenario,
        two_digits(r.number("tokens_per_s") / r.number("samples_per_s")), *limits,
    )  # fmt: skip


def formats_of(model: Model, dtype: str) -> str:
    """What a submission's format means: NVIDIA quantises the experts alone in its fp4 mixtures; caches are in fp8."""
    experts = model.active_parameters != model.parameters
    match dtype:
        case "fp8":
            return "weights=fp8,kv=fp8"
        case "fp4":
            return "experts=nvfp4,kv=fp8" if experts else "weights=nvfp4,kv=fp8"
    raise LeftOutError("ambiguous: formats that have no name")


def choices(contest: Contest) -> Iterator[Choice]:
    """The ways that are tried."""
    model = model_of_row(contest.data.model)
    ways = [Choice(n, f"tp={n}", 0) for n in WAYS if n <= contest.chips]
    if model.active_parameters != model.parameters and contest.chips >= WAYS[-1]:
        ways.append(Choice(WAYS[-1], f"dp={WAYS[-1]},ep={WAYS[-1]}", 0))
    yield from (Choice(way.chips, way.layout, tokens) for way in ways for tokens in STEPS)


@dataclass(frozen=True)
class Trial:
    """A contest run in one of the ways: one of its replicas, for they do not meet."""

    contest: Contest
    choice: Choice

    @property
    def replicas(self) -> int:
        """How many the system has."""
        return self.contest.chips // self.choice.chips

    def settings(self) -> dict[str, str]:
        """What a replica is run on and how."""
        contest, choice = self.contest, self.choice
        setting = "max_num_tokens" if contest.engine == "trtllm" else "max_num_batched_tokens"
        return {
            "on": several(contest.chip, choice.chips), "layout": choice.layout, "precision": contest.formats,
            "engine": f"{contest.engine}({setting}={choice.tokens})",
        }  # fmt: skip

    def simulated(self, requests: int, warmup: int, **traffic: Any) -> Simulation:
        """A replica under traffic."""
        contest, data = self.contest, self.contest.data
        return simulate(  # type: ignore[no-any-return]
            model_of_row(data.model), input=data.prompts(), output=data.answers(contest.output),
            extent=Extent(requests=requests, warmup=warmup), **data.spread, **self.settings(), **traffic,
        )  # fmt: skip

    def full(self) -> float:
        """Requests a second of the system, so many always in flight (Little's law).

        Raises InputError where memory holds not one.
        """
        s = self.simulated(FULL, 2 * FULL, concurrency=FULL)  # the first FULL wait while it fills
        return self.replicas * FULL / s.latency.mean

    def served(self, rate: float) -> Span:
        """Time between tokens of a replica at its part of a rate, or always full where the scenario has no limit."""
        contest, data = self.contest, self.contest.data
        traffic: dict[str, float] = {"concurrency": FULL} if contest.ttft == inf else {"rate": rate / self.replicas}
        return serve(  # type: ignore[no-any-return]
            model_of_row(data.model),
            input=data.input,
            output=contest.output,
            **data.spread,
            **self.settings(),
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
