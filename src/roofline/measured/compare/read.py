"""Compare a measured file with the prediction; the tool is recognised by the file's content."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from roofline.declared.errors import InputError
from roofline.declared.groups import PlaceSettings
from roofline.declared.kinds import MeasuredFile, OneSequences, OneTokens, OneTokensOrNone
from roofline.declared.question import group
from roofline.inference.settings import question
from roofline.measured.compare.benchmarks import ComparedResults, compared_results
from roofline.measured.compare.comparison import Comparison, compared, step_of_kernels
from roofline.measured.compare.kernels import ProfiledKernel
from roofline.measured.compare.nsight import compute_kernels, systems_kernels
from roofline.measured.compare.results import Measured, measured_rows
from roofline.measured.compare.torch_trace import torch_kernels, unpacked
from roofline.model.load import Source, model_of
from roofline.model.model import Model
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
    content = unpacked(path)
    kernels = _kernels(content, path)
    if kernels is None:
        return compared_results(built, measured_rows(_text(content, path.name), path.name), where)
    predicted = estimate(built, _step(kernels, step), where, within=False)
    return compared(predicted, kernels)


def bench_rows(path: Path) -> tuple[Measured, ...]:
    """Measurements of a benchmark's result file. Raises InputError for anything else."""
    return measured_rows(_text(unpacked(path), path.name), path.name)


def profiled_kernels(path: Path) -> tuple[ProfiledKernel, ...]:
    """Kernels of a profile. Raises InputError for anything else."""
    kernels = _kernels(unpacked(path), path)
    if kernels is None:
        raise InputError(path.name, "no kernels", "a profile of PyTorch or Nsight")
    return kernels


def _kernels(content: bytes, path: Path) -> tuple[ProfiledKernel, ...] | None:
    """Kernels of a profile, None if the file is not a profile."""
    if content.startswith(_SQLITE):
        return systems_kernels(path)
    if b'"traceEvents"' in content:
        return torch_kernels(content, path.name)
    if b"Kernel Name" in content and not content.lstrip().startswith((b"{", b"[")):
        return compute_kernels(_text(content, path.name), path.name)
    return None


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(name, "bytes that are no UTF-8", "a result file or a profile") from error


def _step(kernels: tuple[ProfiledKernel, ...], asked: ProfiledStep) -> Step:
    if asked.input is None and asked.context is None:
        if asked.batch is not None:
            raise InputError("batch", asked.batch, "`input` or `context` beside it")
        return step_of_kernels(kernels)
    if asked.input is not None:
        return prefill(asked.batch or 1, asked.input, cached=asked.context or 0)
    return decode(asked.batch or 1, asked.context)
