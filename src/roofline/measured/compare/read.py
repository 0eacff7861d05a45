"""Compare a measured file with the prediction; the tool is recognised by the file's content."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated

from roofline.declared.errors import InputError
from roofline.declared.groups import PlaceSettings
from roofline.declared.kinds import MeasuredFile, OneSequences, OneTokens, OneTokensOrNone
from roofline.declared.question import group
from roofline.inference.settings import question
from roofline.measured.compare.benchmarks import ComparedResults, compared_results
from roofline.measured.compare.comparison import Comparison, compared, step_of_kernels
from roofline.measured.compare.kernels import LARGEST_PROFILE, ProfiledKernel
from roofline.measured.compare.nsight import compute_kernels, systems_kernels
from roofline.measured.compare.results import LARGEST_RESULTS, Measured, measured_rows
from roofline.measured.compare.torch_trace import torch_kernels
from roofline.model.load import Source, model_of
from roofline.model.model import Model
from roofline.model.sources.pieces import GZIP, file_pieces, inflated, text_pieces
from roofline.model.sources.untrusted import STDIN, check_bytes
from roofline.programs.estimate import estimate
from roofline.work.step import Step, decode, prefill

_SQLITE = b"SQLite format 3\0"


@group
@dataclass(frozen=True, kw_only=True)
class ProfiledStep:
    """Step of a profile whose shapes do not determine it."""

    batch: Annotated[OneSequences | None, "Sequences of the profiled step, where its shapes do not say it."] = None
    input: Annotated[OneTokens | None, "New tokens of each sequence, of a profiled prefill."] = None
    context: Annotated[OneTokensOrNone | None, "Tokens cached, of a profiled decode."] = None


AS_PROFILED = ProfiledStep()


@question
def compare(
    model: Model | Source,
    measured: Annotated[
        MeasuredFile,
        "A trace of torch.profiler, an export of Nsight Systems (.sqlite) or Nsight Compute (.csv), or results of "
        "llama-bench, vllm bench, sglang.bench_serving or genai-perf.",
    ],
    where: PlaceSettings,
    step: ProfiledStep = AS_PROFILED,
) -> Comparison | ComparedResults:
    """Compare a profile, op by op, or benchmark results with the prediction; a `Grid` for lists of settings.

    `model`: a Model, its name, path or config.

    Raises InputError for a file of an unknown tool, a broken file, and a profile whose step is not determined.
    """
    built, path = model_of(model), Path(measured)
    read = _read(path)
    if isinstance(read, Results):
        return compared_results(built, read.rows, where)
    kernels = read
    predicted = estimate(built, _step(kernels, step), where, within=False)
    return compared(predicted, kernels)


@dataclass(frozen=True)
class Results:
    """What a file that is no profile says: measurements of a benchmark."""

    rows: tuple[Measured, ...]


def bench_rows(path: Path) -> tuple[Measured, ...]:
    """Measurements of a benchmark's result file. Raises InputError for anything else."""
    with closing(file_pieces(path, LARGEST_PROFILE, path.name)) as packed:
        return _results(inflated(packed, LARGEST_PROFILE, path.name), path.name)


def profiled_kernels(path: Path) -> tuple[ProfiledKernel, ...]:
    """Kernels of a profile. Raises InputError for anything else."""
    read = _read(path, benchmarks=False)
    if isinstance(read, Results):
        raise InputError(path.name, "no kernels", "a profile of PyTorch or Nsight")
    return read


def _read(path: Path, benchmarks: bool = True) -> tuple[ProfiledKernel, ...] | Results:
    """Kernels of a profile, or the measurements of a file that is none, by its content; it is read piece by piece."""
    name = path.name
    with closing(file_pieces(path, LARGEST_PROFILE, name)) as packed:
        plain = inflated(packed, LARGEST_PROFILE, name)
        first = next(plain, b"")
        if first.startswith(_SQLITE):
            if str(path) == STDIN or next(file_pieces(path, LARGEST_PROFILE, name))[:2] == GZIP:
                raise InputError(name, "SQLite that is packed or piped in", "the file itself")
            return systems_kernels(path)
        tree = first.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")
        mark, begun, read = b'"traceEvents"' if tree else b"Kernel Name", [first], len(first)
        while mark not in b"".join(begun[-2:]):
            piece = next(plain, None)
            if piece is None:
                return Results(_results(iter(begun), name) if benchmarks else ())
            read += len(piece)
            check_bytes(name, read, LARGEST_RESULTS)
            begun.append(piece)
        text = text_pieces(chain(begun, plain), name)
        return torch_kernels(text, name) if tree else compute_kernels(text, name)


def _results(plain: Iterator[bytes], name: str) -> tuple[Measured, ...]:
    """Measurements of a result file, which is read whole."""
    whole, read = list[bytes](), 0
    for piece in plain:
        read += len(piece)
        check_bytes(name, read, LARGEST_RESULTS)
        whole.append(piece)
    return measured_rows("".join(text_pieces(whole, name)), name)


def _step(kernels: tuple[ProfiledKernel, ...], asked: ProfiledStep) -> Step:
    if asked.input is None and asked.context is None:
        if asked.batch is not None:
            raise InputError("batch", asked.batch, "`input` or `context` as well")
        return step_of_kernels(kernels)
    if asked.input is not None:
        return prefill(asked.batch or 1, asked.input, cached=asked.context or 0)
    return decode(asked.batch or 1, asked.context)
