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


class Body(BaseModel):
    """A body: every field is one that its question is answered by; any other is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ModelAsked(Body):
    """A model: its catalog name, its Hub id where the server looks there, or its config."""

    model: Text | dict[str, Any] = Field(description="A catalog name, a Hub id under --hub, or a config.json's object.")


class BillAsked(Body):
    """What chips and electricity cost, as `Bill` has it; nothing is what the catalog says."""

    price: Text | None = Field(None, description="USD an hour of a chip, or own(USD,rest=…,years=…,electricity=…).")
    utilisation: Annotated[float, Field(gt=0, le=1)] | None = None
    pue: Annotated[float, Field(ge=1, le=10)] | None = None
    grid: Text | None = Field(None, description="A country's code, or kg of CO₂ equivalent a kWh.")


class PlaceAsked(ModelAsked):
    """A model on a machine: the settings of every question about memory or time."""

    on: Text = Field(description="A chip, COUNTxCHIP, a cluster of the catalog, or figures: peak=…,bw=…,mem=….")
    layout: Text | None = None
    precision: Text | None = None
    engine: Text | None = None


class TimedAsked(PlaceAsked):
    """The same with the law that times follow: `calibrated`, `ideal`, or `fixed(mfu,mbu)`."""

    law: Text = "calibrated"


class BilledAsked(TimedAsked):
    """The same with who pays what."""

    bill: BillAsked | None = None


class ShapeAsked(Body):
    """A forward pass: `batch` sequences with `context` cached tokens each; of a prefill the new ones."""

    phase: Literal["prefill", "decode"] = "decode"
    batch: SequencesAsked = 1
    context: Tokens = 1024


class StepAsked(ModelAsked, ShapeAsked):
    """A forward pass, its work alone."""

    precision: Text | None = None
    counting: Literal["standard", "torch", "original"] = "standard"
    traffic: Literal["fused", "unfused", "floor"] = "fused"


class ExplainAsked(StepAsked):
    """An op of a forward pass."""

    op: Text


class EstimateAsked(BilledAsked, ShapeAsked):
    """A forward pass on a machine."""


class PromptsAsked(Body):
    """A static batch: `batch` prompts of `input` tokens, each of which generates `output` tokens."""

    batch: SequencesAsked = 1
    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256


class GenerateAsked(BilledAsked, PromptsAsked):
    """A static batch on a machine, from its prompts to its last token."""


class AdviceAsked(TimedAsked, PromptsAsked):
    """A static batch on a machine, of which changes are told as factors."""


class ReportAsked(PlaceAsked, PromptsAsked):
    """A static batch on a machine, and what the report says of it."""


class ServeAsked(BilledAsked):
    """A server in its steady state, at one concurrency, at several, or at a rate."""

    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256
    concurrency: SequencesAsked | Annotated[list[SequencesAsked], Field(min_length=1, max_length=64)] | None = None
    rate: Rate | None = None
    prefix: Share = 0.0


class FitAsked(PlaceAsked):
    """Sequences in memory; without `context` the longest that fits beside the weights."""

    batch: SequencesAsked = 1
    context: Tokens | None = None


class SideAsked(PlaceAsked):
    """One of two that are compared step by step: `batch` sequences, each with a prompt, then with cached tokens."""

    batch: SequencesAsked = 1
    context: Tokens = 1024
    prompt: Tokens = 1024


class DiffAsked(Body):
    """Two sides: what changes from `a` to `b`, and what the change comes from."""

    a: SideAsked
    b: SideAsked


class LearningAsked(Body):
    """An optimizer step: `batch` sequences of `tokens` tokens, what is run again, and sequences that pass together."""

    batch: SequencesAsked = 64
    tokens: Tokens = 4096
    recompute: Text = "none"
    micro_batch: SequencesAsked = 1


class TimelineAsked(TimedAsked, LearningAsked):
    """An optimizer step on a machine."""


class TrainAsked(BilledAsked, LearningAsked):
    """An optimizer step on a machine, and its cost."""


class RecipeStepAsked(ModelAsked, LearningAsked):
    """An optimizer step whose formats are its recipe's."""

    on: Text
    layout: Text | None = None
    engine: Text | None = None


class RemediesAsked(RecipeStepAsked):
    """An optimizer step on a machine, and what would make it fit."""

    law: Text = "calibrated"


class RecipeAsked(RecipeStepAsked):
    """The config of a training framework for an optimizer step."""

    framework: Text = "megatron"


class SweepAsked(BilledAsked):
    """A decode or a prefill at every batch and length of two lists."""

    phase: Literal["prefill", "decode"] = "decode"
    batch: Annotated[list[SequencesAsked], Field(min_length=1, max_length=64)]
    context: Annotated[list[Tokens], Field(min_length=1, max_length=64)]
    only: Annotated[list[Text], Field(max_length=20)] | None = Field(None, description="Figures that are wanted.")


class SimulateAsked(BilledAsked):
    """A server under traffic; what is drawn depends on the seed alone."""

    input: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256
    rate: Rate | None = None
    concurrency: Annotated[int, Field(ge=1, le=4096)] | None = None
    requests: Annotated[int, Field(ge=1, le=2000)] = 300
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class LoadAsked(Body):
    """What a server is asked: requests of so many tokens, so many of them always in flight."""

    input: Tokens = 1024
    output: Annotated[int, Field(ge=1, le=100_000)] = 256
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = 32


class LaunchAsked(TimedAsked, LoadAsked):
    """The commands that start the best server of a load; where a layout is given, of that layout."""

    launcher: Text = "vllm"


class LayoutsAsked(ModelAsked):
    """Layouts of a training step on a machine."""

    on: Text
    batch: Annotated[int, Field(ge=1, le=65_536)] = 64
    tokens: Tokens = 4096
    objective: Literal["time", "cost", "chips"] = "time"
    top: Annotated[int, Field(ge=1, le=20)] = 10


class RunsAsked(Body):
    """What runs on a machine: `count` models of the catalog from the `start`-th on, or one model in every format."""

    on: Text
    context: Annotated[int, Field(ge=2, le=10_000_000)] = 4096
    model: Text | dict[str, Any] | None = None
    start: Annotated[int, Field(ge=0, le=100_000)] | None = Field(None, description="Without a model; 0 if not given.")
    count: Annotated[int, Field(ge=1, le=60)] | None = Field(None, description="Without a model; 40 if not given.")


class GgufAsked(Body):
    """The first bytes of a GGUF file, in base64, and how many it has in all."""

    head: Annotated[str, Field(max_length=24 * 2**20)]
    size: Annotated[int, Field(ge=1, le=2**50)]


class TableAsked(Body):
    """An answer as a table: the name of its route, its body, and the form of the file."""

    name: Annotated[str, Field(max_length=20)]
    body: dict[str, Any]
    form: Literal["csv", "parquet"] = "parquet"


class SearchAsked(BilledAsked, LoadAsked):
    """What a server is asked, and the most seconds it may take; where a layout is given, replicas of that layout."""

    ttft: SecondsAsked | None = None
    tpot: SecondsAsked | None = None
    objective: Literal["chips", "throughput", "cost", "latency", "energy"] = "chips"
    top: Annotated[int, Field(ge=1, le=20)] = 10


class PlotAsked(ModelAsked):
    """The data of a picture. A field that a kind of picture does not show is refused."""

    kind: Literal["roofline", "memory", "parameters", "diagram"] = "roofline"
    on: Text | None = Field(None, description="Of a roofline and of memory: a machine, as elsewhere.")
    layout: Text | None = None
    precision: Text | None = None
    engine: Text | None = None
    law: Text | None = Field(None, description="Of a roofline; calibrated if not given.")
    batch: SequencesAsked | None = Field(None, description="1 if not given.")
    context: Tokens | None = Field(None, description="Of a roofline; 1024 if not given.")
    phase: Literal["prefill", "decode"] | None = Field(None, description="Of a roofline; decode if not given.")


class Refusal(BaseModel):
    """What was passed wrongly, in one line and in parts."""

    message: str
    field: str
    expected: str
    nearest: list[str] = []


class QuestionAsked(Body):
    """A question of several: the name of its route, and the body that the route takes."""

    name: Annotated[str, Field(max_length=20)]
    body: dict[str, Any]


class BatchAsked(Body):
    """Several quick questions, answered together."""

    questions: Annotated[list[QuestionAsked], Field(min_length=1, max_length=12)]
