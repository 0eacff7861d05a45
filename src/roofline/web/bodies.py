"""What the API is asked: one body for each question, every field bounded, nothing that is not known accepted.

Counts are whole numbers of sequences, tokens or requests; texts are as the commands take them, but for paths.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Text: TypeAlias = Annotated[str, Field(max_length=200)]
SequencesAsked: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Tokens: TypeAlias = Annotated[int, Field(ge=1, le=10_000_000)]
Rate: TypeAlias = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
SecondsAsked: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class ModelAsked(BaseModel):
    """A model: its catalog name, its Hub id where the server looks there, or its config."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: Text | dict[str, Any] = Field(description="A catalog name, a Hub id under --hub, or a config.json's object.")


class BillAsked(BaseModel):
    """What chips and electricity cost, as `Bill` has it; nothing is what the catalog says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    price: Text | None = Field(None, description="USD an hour of a chip, or own(USD,rest=…,years=…,electricity=…).")
    utilisation: Annotated[float, Field(gt=0, le=1)] | None = None
    pue: Annotated[float, Field(ge=1, le=10)] | None = None
    grid: Text | None = Field(None, description="A country's code, or kg of CO₂ equivalent a kWh.")


class PlaceAsked(ModelAsked):
    """A model on a machine: the settings that every estimate takes."""

    on: Text = Field(description="A chip, COUNTxCHIP, a cluster of the catalog, or figures: peak=…,bw=…,mem=….")
    layout: Text | None = None
    precision: Text | None = None
    engine: Text | None = None
    law: Text = "calibrated"
    bill: BillAsked | None = None


class StepAsked(ModelAsked):
    """A forward pass: `batch` sequences with `context` cached tokens each; of a prefill the new ones."""

    phase: Literal["prefill", "decode"] = "decode"
    batch: SequencesAsked = 1
    context: Tokens = 1024
    precision: Text | None = None
    counting: Literal["standard", "torch", "original"] = "standard"
    traffic: Literal["fused", "unfused", "floor"] = "fused"


class ExplainAsked(StepAsked):
    """An op of a forward pass."""

    op: Text


class EstimateAsked(PlaceAsked):
    """A forward pass on a machine."""

    phase: Literal["prefill", "decode"] = "decode"
    batch: SequencesAsked = 1
    context: Tokens = 1024


class GenerateAsked(PlaceAsked):
    """A static batch, from its prompts to its last token."""

    batch: SequencesAsked = 1
    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256


class ServeAsked(PlaceAsked):
    """A server in its steady state, at one concurrency, at several, or at a rate."""

    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256
    concurrency: SequencesAsked | Annotated[list[SequencesAsked], Field(min_length=1, max_length=64)] | None = None
    rate: Rate | None = None
    prefix: Share = 0.0


class FitAsked(PlaceAsked):
    """SequencesAsked in memory."""

    batch: SequencesAsked = 1
    context: Tokens = 1024


class SideAsked(ModelAsked):
    """One of two that are compared step by step: `batch` sequences, each with a prompt, then with cached tokens."""

    on: Text
    layout: Text | None = None
    precision: Text | None = None
    engine: Text | None = None
    batch: SequencesAsked = 1
    context: Tokens = 1024
    prompt: Tokens = 1024


class DiffAsked(BaseModel):
    """Two sides: what changes from `a` to `b`, and what the change comes from."""

    model_config = ConfigDict(extra="forbid", strict=True)

    a: SideAsked
    b: SideAsked


class TrainAsked(PlaceAsked):
    """An optimizer step."""

    batch: SequencesAsked = 64
    tokens: Tokens = 4096
    recompute: Text = "none"
    micro_batch: SequencesAsked = 1


class SweepAsked(PlaceAsked):
    """A decode or a prefill at every batch and length of two lists."""

    phase: Literal["prefill", "decode"] = "decode"
    batch: Annotated[list[SequencesAsked], Field(min_length=1, max_length=64)]
    context: Annotated[list[Tokens], Field(min_length=1, max_length=64)]
    only: Annotated[list[Text], Field(max_length=20)] | None = Field(None, description="Figures that are wanted.")


class SimulateAsked(PlaceAsked):
    """A server under traffic; what is drawn depends on the seed alone."""

    input: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    output: Annotated[int, Field(ge=1, le=8192)] = 256
    rate: Rate | None = None
    concurrency: Annotated[int, Field(ge=1, le=4096)] | None = None
    requests: Annotated[int, Field(ge=1, le=2000)] = 300
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class LaunchAsked(PlaceAsked):
    """The commands that start the best server of a load; where a layout is given, of that layout."""

    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = 32
    launcher: Text = "vllm"


class RecipeAsked(TrainAsked):
    """The config of a training framework for an optimizer step."""

    framework: Text = "megatron"


class LayoutsAsked(ModelAsked):
    """Layouts of a training step on a machine."""

    on: Text
    batch: Annotated[int, Field(ge=1, le=65_536)] = 64
    tokens: Tokens = 4096
    objective: Literal["time", "cost", "chips"] = "time"
    top: Annotated[int, Field(ge=1, le=20)] = 10


class RunsAsked(BaseModel):
    """What runs on a machine: so many models of the catalog from one on, or one model in every format."""

    model_config = ConfigDict(extra="forbid", strict=True)

    on: Text
    context: Annotated[int, Field(ge=2, le=10_000_000)] = 4096
    model: Text | dict[str, Any] | None = None
    start: Annotated[int, Field(ge=0, le=100_000)] = 0
    count: Annotated[int, Field(ge=1, le=60)] = 40


class GgufAsked(BaseModel):
    """The first bytes of a GGUF file, in base64, and how many it has in all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    head: Annotated[str, Field(max_length=24 * 2**20)]
    size: Annotated[int, Field(ge=1, le=2**50)]


class TableAsked(BaseModel):
    """An answer as a table: the name of its route, its body, and the form of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(max_length=20)]
    body: dict[str, Any]
    form: Literal["csv", "parquet"] = "parquet"


class SearchAsked(PlaceAsked):
    """What a server is asked, and the most seconds it may take."""

    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = 32
    ttft: SecondsAsked | None = None
    tpot: SecondsAsked | None = None
    objective: Literal["chips", "throughput", "cost", "time", "energy"] = "chips"
    top: Annotated[int, Field(ge=1, le=20)] = 10


class PlotAsked(PlaceAsked):
    """The data of a picture."""

    kind: Literal["roofline", "memory", "parameters", "diagram"] = "roofline"
    batch: SequencesAsked = 1
    context: Tokens = 1024
    phase: Literal["prefill", "decode"] = "decode"


class Refusal(BaseModel):
    """What was passed wrongly, in one line and in parts."""

    message: str
    field: str
    expected: str
    nearest: list[str] = []


class QuestionAsked(BaseModel):
    """A question of several: the name of its route, and the body that the route takes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(max_length=20)]
    body: dict[str, Any]


class BatchAsked(BaseModel):
    """Several quick questions, answered together."""

    model_config = ConfigDict(extra="forbid", strict=True)

    questions: Annotated[list[QuestionAsked], Field(min_length=1, max_length=12)]
