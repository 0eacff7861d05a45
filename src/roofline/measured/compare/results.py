"""Read result files of benchmarks: llama-bench, vLLM, SGLang and genai-perf.

All give rows of one type; what a file does not contain (a rate, a concurrency) is None.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from itertools import islice

from roofline.declared.checks import FASTEST, LARGEST, RAREST
from roofline.declared.errors import InputError
from roofline.declared.groups import Load, RequestFlow
from roofline.declared.question import ungrouped
from roofline.declared.trees import JsonObject, JsonValue
from roofline.model.sources.pieces import PIECE, rows_of_csv, text_lines
from roofline.model.sources.untrusted import check_tree

MOST_ROWS = 10_000
MOST_LINES = 4 * MOST_ROWS
LARGEST_RESULTS = 64 * 2**20
"""Largest result file of a benchmark, bytes."""


@dataclass(frozen=True)
class Measured:
    """One measurement.

    `quantity`: `prompt` or `answer` (tokens per second of one sequence, llama-bench), `ttft`, `tpot`, `latency` (mean
    seconds of a request) or `throughput` (output tokens per second of all requests). `input`, `output`: mean tokens of
    a request, one of them 0 if only one phase was measured. `depth`: tokens in the cache beforehand. `sent`: the
    server's load: a concurrency, a rate or both.
    """

    quantity: str
    value: float
    input: int
    output: int
    depth: int = 0
    sent: RequestFlow = RequestFlow()  # noqa: RUF009
    name: str = ""

    @property
    def flow(self) -> RequestFlow:
        """Load for the prediction: the concurrency if there are both."""
        return self.sent if self.sent.concurrency is None else replace(self.sent, rate=None)

    @property
    def load(self) -> Load:
        """Lengths and load for the prediction. Raises InputError for an impossible load."""
        return Load(self.input, self.output, **ungrouped(self.flow, RequestFlow)).needed()


def measured_rows(text: str, name: str) -> tuple[Measured, ...]:
    """Measurements of a result file of any supported tool.

    Raises InputError for other files, broken files, and files without measurements.
    """
    rows = tuple(_rows(text, name))
    if not rows or len(rows) > MOST_ROWS:
        raise InputError(name, f"{len(rows)} measurements", f"from 1 to {MOST_ROWS}, of {TOOLS}")
    return rows


TOOLS = "llama-bench, vllm bench, sglang.bench_serving or genai-perf"


def _rows(text: str, name: str) -> Iterator[Measured]:
    if not text.lstrip().startswith(("{", "[")):
        yield from _llama_csv(text, name)
        return
    for tree in _trees(text, name):
        for part in tree if isinstance(tree, list) else [tree]:
            if not isinstance(part, Mapping):
                continue
            if "avg_ts" in part:
                yield from _llama(part)
            elif "time_to_first_token" in part and isinstance(part["time_to_first_token"], Mapping):
                yield from _genai(part)
            elif "mean_ttft_ms" in part or "output_throughput" in part:
                yield from _server(part)


def _trees(text: str, name: str) -> Iterator[JsonValue]:
    """The text as one JSON value, or one per line."""
    check_tree(text.encode(), name)
    try:
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            for line in islice((line for line in StringIO(text) if line.strip()), MOST_ROWS + 1):
                yield json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(name, "broken JSON", f"a result file of {TOOLS}") from error


def _llama(row: JsonObject) -> Iterator[Measured]:
    """A row of `llama-bench -o json`: n_prompt or n_gen tokens after n_depth, avg_ts tokens per second."""
    speed, prompt, answer = (_number(row.get(key)) for key in ("avg_ts", "n_prompt", "n_gen"))
    depth = _whole(row.get("n_depth")) or 0
    if speed and (prompt or answer) and not (prompt and answer):
        quantity = "prompt" if prompt else "answer"
        yield Measured(quantity, speed, int(prompt or 0), int(answer or 0), depth, name=_text(row.get("model_type")))


def _llama_csv(text: str, name: str) -> Iterator[Measured]:
    rows = (row for _, row in rows_of_csv(text_lines(_pieces(text), name, MOST_LINES), name, MOST_ROWS + 2))
    columns = next(rows, [])
    if "avg_ts" not in columns:
        raise InputError(name, "no column avg_ts", f"a result file of {TOOLS}")
    for row in rows:
        yield from _llama(dict(zip(columns, row, strict=False)))


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


_MILLI = {"ttft": "mean_ttft_ms", "tpot": "mean_tpot_ms", "latency": "mean_e2el_ms"}


def _server(row: JsonObject) -> Iterator[Measured]:
    """A result of `vllm bench serve --save-result` or of sglang.bench_serving: means in milliseconds."""
    count = _whole(row.get("completed"))
    tokens = [_number(row.get(key)) for key in ("total_input_tokens", "total_output_tokens")]
    if not count or not all(tokens):
        return
    sizes = [round(total / count) for total in tokens if total]
    sent = _sent(_whole(row.get("max_concurrency")), _number(row.get("request_rate")))
    measured = partial(
        Measured, input=sizes[0], output=sizes[1], sent=sent, name=_text(row.get("model_id") or row.get("model"))
    )
    milli = {**_MILLI, "latency": "mean_e2e_latency_ms"} if "mean_e2e_latency_ms" in row else _MILLI
    for quantity, key in milli.items():
        value = _number(row.get(key))
        if value:
            yield measured(quantity, value / 1e3)
    value = _number(row.get("output_throughput"))
    if value:
        yield measured("throughput", value)


_GENAI = {"ttft": "time_to_first_token", "tpot": "inter_token_latency", "latency": "request_latency"}
_TIMES = {"ms": 1e-3, "s": 1.0, "us": 1e-6, "ns": 1e-9}


def _genai(tree: JsonObject) -> Iterator[Measured]:
    """A profile_export_genai_perf.json: averages with their units; the concurrency in the input's configuration."""
    sizes = [_number(_part(tree, key, "avg")) for key in ("input_sequence_length", "output_sequence_length")]
    if not all(sizes):
        return
    sent = _sent(_concurrency(tree), None)
    measured = partial(Measured, input=round(sizes[0] or 0), output=round(sizes[1] or 0), sent=sent)
    for quantity, key in _GENAI.items():
        value, unit = _number(_part(tree, key, "avg")), _text(_part(tree, key, "unit"))
        if value and unit in _TIMES:
            yield measured(quantity, value * _TIMES[unit])
    value = _number(_part(tree, "output_token_throughput", "avg"))
    if value:
        yield measured("throughput", value)


def _sent(concurrency: int | None, rate: float | None) -> RequestFlow:
    """The load of a server, without numbers outside the possible range."""
    return RequestFlow(
        concurrency if concurrency and concurrency <= LARGEST else None,
        rate if rate and RAREST <= rate < FASTEST else None,
    )


def _concurrency(tree: JsonObject) -> int | None:
    config = tree.get("input_config")
    if not isinstance(config, Mapping):
        return None
    direct = _whole(config.get("concurrency")) or _whole(_part(config, "loadgen", "concurrency"))
    stimulus = _part(config, "perf_analyzer", "stimulus")
    return direct or (_whole(stimulus.get("concurrency")) if isinstance(stimulus, Mapping) else None)


def _part(tree: JsonObject, *keys: str) -> JsonValue:
    for key in keys:
        value = tree.get(key)
        if not isinstance(value, Mapping):
            return value if key == keys[-1] else None
        tree = value
    return tree


def _number(value: JsonValue) -> float | None:
    """A positive, finite number, from a number or text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < 1e15 else None


def _whole(value: JsonValue) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == int(number) else None


def _text(value: JsonValue) -> str:
    return value[:200] if isinstance(value, str) else ""
