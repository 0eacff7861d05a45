"""What runs on a machine: the widest format of each model that fits, or every format of one model, with its speed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, ClassVar, TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.groups import MachineSettings
from roofline.declared.kinds import EngineName, Given, Names, count_kind
from roofline.declared.question import group, question, question_settings
from roofline.declared.result import Figured, Result, Units
from roofline.engines.engine import Engine, default_engine, engine_named
from roofline.hardware.cluster import cluster_named
from roofline.inference.deployment import Machine, machine_chip
from roofline.inference.fit import fit
from roofline.inference.generate import generate
from roofline.inference.offload import Host, offload
from roofline.inference.span import Span
from roofline.model.checkpoints.gguf.mixes import mix_named
from roofline.model.checkpoints.quantization.named import scheme_named
from roofline.model.formats import format_named
from roofline.model.load import load
from roofline.model.model import Model


@group
@dataclass(frozen=True, kw_only=True)
class SequenceRoom(MachineSettings):
    """A machine, and the length of sequence that must fit."""

    context: Annotated[int, count_kind("tokens", 2), "Tokens of prompt and answer together that must fit."] = 4096


TriedFormats: TypeAlias = Annotated[
    Names | None, "Formats to try, the widest first: the checkpoint's own, then llama.cpp's mixes."
]
TriedEngine: TypeAlias = Annotated[
    EngineName | None,
    "The engine of every format. Default: as `generate` has it, `vllm` on the chips that it supports; `llama.cpp` on "
    "others and for the mixes of GGUF files (`q4_k_m`). Each line names its own.",
]
ANSWER = 128
"""Answer tokens at the end of the context, for which the speed is given."""


@dataclass(frozen=True)
class Running(Figured):
    """A model in one format on a machine, with one sequence at a time.

    `weights`: bytes of the weights; `memory`: bytes held at the full context; `fits`: whether that fits `capacity`.
    `tpot`: seconds per output token of the answer that fills the context; `ttft`: seconds to its first token; None
    where it does not fit. `gpu_layers`, `cpu_experts`: the fastest split where only card and host together hold the
    model; the times are then those of the split.
    """

    FIGURES: ClassVar[Units] = {
        "model": "", "parameters": "", "format": "", "engine": "", "weights": "B", "memory": "B", "capacity": "B",
        "fits": "", "tpot": "s", "ttft": "s", "tokens_per_second": "", "tokens_per_second_low": "",
        "tokens_per_second_high": "",
        "grade": "", "gpu_layers": "", "cpu_experts": "",
    }  # fmt: skip

    model: str
    parameters: int
    format: str
    engine: Engine
    weights: float
    memory: float
    capacity: float
    fits: bool
    tpot: Span | None = None
    ttft: Span | None = None
    grade: str | None = None
    gpu_layers: int | None = None
    cpu_experts: int | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Output tokens/s: 1 / TPOT."""
        return 1 / float(self.tpot.expected) if self.tpot else None

    @property
    def tokens_per_second_low(self) -> float | None:
        """The slow end of the interval."""
        return 1 / float(self.tpot.high) if self.tpot else None

    @property
    def tokens_per_second_high(self) -> float | None:
        """The fast end of the interval."""
        return 1 / float(self.tpot.low) if self.tpot else None


@dataclass(frozen=True, repr=False)
class WhatRuns(Result):
    """The answer of `models --on`: models, or the formats of one model, the best first."""

    SCHEMA: ClassVar[str] = "roofline.running/1"
    FIGURES: ClassVar[Units] = {"on": "", "context": "", "running": ""}

    on: str
    context: int
    running: tuple[Running, ...]


@question()
def what_runs(
    models: Iterable[str], room: SequenceRoom, *, formats: TriedFormats = None, engine: TriedEngine = None
) -> WhatRuns:
    """Each model in the widest format that fits with one sequence of `context` tokens; the largest models first.

    `formats`: the widest first (`LADDER`). `engine`: for every format; by default `usual_engine`. Models with a shorter
    context, and models that fit in no format, are left out. Raises InputError for an unknown machine or format.
    """
    where, tried = _known(room.on, engine), _listed(formats)
    most = cluster_named(room.on).chips * machine_chip(room.on).whole_capacity
    rows = [row for name in models for row in _widest(load(name), room, tried, engine, most)]
    return WhatRuns(where, room.context, tuple(sorted(rows, key=lambda row: -row.parameters)))


def put_together(parts: Sequence[WhatRuns]) -> WhatRuns:
    """One answer of those for parts of the models."""
    rows = [row for part in parts for row in part.running]
    return replace(parts[0], running=tuple(sorted(rows, key=lambda row: -row.parameters)))


@question()
def formats_that_run(
    model: Model, room: SequenceRoom, host: Host | None = None, *, formats: TriedFormats = None,
    engine: TriedEngine = None,
) -> WhatRuns:  # fmt: skip
    """One model in each format: those that fit first, the widest first.

    `engine`: as in `what_runs`. `host`: as in `offload`; a model that does not fit the card is split over card and
    host. Raises InputError for a context longer than the model's.
    """
    if model.context and room.context > model.context:
        raise InputError("context", room.context, f"at most {model.context} tokens, the context of {model.name}")
    where = _known(room.on, engine)
    rows = list(_rows(model, room, _listed(formats), engine, host))
    return WhatRuns(where, room.context, tuple(sorted(rows, key=lambda row: (not row.fits, -row.weights))))


OF_ONE = question_settings(formats_that_run).keys() - question_settings(what_runs).keys()
"""Settings of `formats_that_run` that `what_runs` lacks."""
CHECKPOINT = "checkpoint"
LADDER = (CHECKPOINT, "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k")
"""Default formats, from the checkpoint's own down through llama.cpp's mixes."""
LOCAL = "llama.cpp"
"""Engine of GGUF files, and of chips without a default engine."""


def _listed(formats: str | Sequence[str] | None) -> Sequence[str]:
    """The formats, by default `LADDER`. Raises InputError for an unknown format."""
    names = [name.strip() for name in formats.split(",")] if isinstance(formats, str) else formats or ()
    for value in (part.rpartition("=")[2].strip() for name in names for part in name.split(",")):
        if value != CHECKPOINT and mix_named(value) is None and scheme_named(value) is None:
            format_named(value, "formats")
    return names or LADDER


def usual_engine(on: Machine, format: str) -> Engine:
    """The default engine of a format: that of the chip, as in every other command.

    It is llama.cpp for the mixes of GGUF files (`q4_k_m`), and on chips without a default engine, such as Apple's.

    >>> usual_engine("h100-sxm", "fp8").id, usual_engine("h100-sxm", "q8_0").id, usual_engine("m4-max", "bf16").id
    ('vllm', 'llama-cpp', 'llama-cpp')
    """
    usual = default_engine(machine_chip(on))
    return engine_named(LOCAL) if usual.id == "none" or mix_named(format) is not None else usual


def _rows(
    model: Model, room: SequenceRoom, formats: Sequence[str], engine: str | Engine | None, host: Host | None = None
) -> Iterator[Running]:
    """A row for each format of the model; formats that the engine or the chip lacks are left out."""
    on, context = room.on, room.context
    for name in formats:
        precision = None if name == CHECKPOINT else name
        chosen = usual_engine(on, name) if engine is None else engine_named(engine)
        where: dict[str, Given] = {"on": on, "precision": precision, "engine": chosen}
        try:
            answer = fit(model, batch=1, context=context, **where)
            if not answer.fits and host is not None and engine is None:  # splitting over card and host needs llama.cpp
                where["engine"] = engine_named(LOCAL)
                answer = fit(model, batch=1, context=context, **where)
            row = Running(
                model.name,
                model.parameters,
                name,
                answer.engine,
                answer.memory.weights,
                answer.memory.total,
                answer.memory.capacity,
                answer.fits,
            )
            output = min(ANSWER, context - 1)
            if not answer.fits and host is not None:
                split = offload(model, host=host, input=context - output, output_tokens=output, **where)
                if split.fits:
                    row = replace(row, tpot=split.tpot, ttft=split.ttft)
                    row = replace(row, gpu_layers=split.gpu_layers, cpu_experts=split.cpu_experts)
            if answer.fits:
                spoken = generate(model, input=context - output, output_tokens=output, **where)
                row = replace(row, tpot=spoken.tpot, ttft=spoken.ttft, grade=spoken.grade)
        except InputError as error:
            if error.field == "context":
                raise
            continue
        yield row


def _widest(
    model: Model, room: SequenceRoom, formats: Sequence[str], engine: str | Engine | None, most: float
) -> Iterator[Running]:
    """The row of the widest format that fits; formats of more than `most` bytes are not worked out."""
    if not model.context or model.context >= room.context:
        values = sum(number * x.matrix for x, number in model.modules())
        possible = [name for name in formats if _least_bytes(values, name) <= most]
        yield from islice((row for row in _rows(model, room, possible, engine) if row.fits), 1)


def _least_bytes(values: int, format: str) -> float:
    """Bytes that so many values of matrices have at least in a mix; 0 for other formats, of which it is not known."""
    mix = mix_named(format)
    return 0.0 if mix is None else values * mix.least_bits / 8


def _known(on: Machine, engine: str | Engine | None) -> str:
    """The name of the machine. Raises InputError for an unknown machine or engine."""
    if engine is not None:
        engine_named(engine)
    return cluster_named(on).name.removeprefix("1x")
