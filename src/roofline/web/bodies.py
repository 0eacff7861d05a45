"""What the API is asked: one body for each question, every field bounded, nothing that is not known accepted.

Counts are whole numbers of sequences, tokens or requests; texts are as the commands take them, but for paths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from roofline.declared.maths import Count
from roofline.declared.question import OLD_NAMES, Function, Setting, declaration_of, group_settings, question_settings
from roofline.estimates.bill import Bill
from roofline.estimates.estimate import estimate
from roofline.estimates.fit import fit
from roofline.estimates.generate import generate
from roofline.estimates.serve import serve
from roofline.explore.search import search
from roofline.simulation.simulate import simulate

Text: TypeAlias = Annotated[str, Field(max_length=200)]
SequencesAsked: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000)]
Tokens: TypeAlias = Annotated[int, Field(ge=1, le=10_000_000)]
Rate: TypeAlias = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
SecondsAsked: TypeAlias = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class Body(BaseModel):
    """A body: every field is one that its question is answered by; any other is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def of_former_names(cls, given: Any) -> Any:
        """Fields by their former names, for a release: `output`, and a `bill` whose settings stand alone now.

        A field of null is one that is not given.
        """
        if not isinstance(given, dict):
            return given
        fields = dict(given)
        for old, new in OLD_NAMES.items():
            if old in fields and old not in cls.model_fields and new in cls.model_fields and new not in fields:
                fields[new] = fields.pop(old)
        bill = fields.get("bill")
        if "bill" not in cls.model_fields and "price" in cls.model_fields:
            own = {} if bill is None else bill
            known = isinstance(own, dict) and own.keys() <= group_settings(Bill).keys()
            if known and not any(fields.get(name) is not None for name in own):
                fields.pop("bill", None)
                fields |= own
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in fields.items() if value is not None or name not in optional}


class ModelAsked(Body):
    """A model: its catalog name, its Hub id where the server looks there, or its config."""

    model: Text | dict[str, Any] = Field(description="A catalog name, a Hub id under --hub, or a config.json's object.")


LARGEST: Mapping[str, float] = MappingProxyType({
    "tokens": 10_000_000, "sequences": 1_000_000, "requests": 1_000_000, "replicas": 1_000_000, "chips": 1_000_000,
    "ranks": 1_000_000, "requests/s": 100_000, "s": 1_000_000, "": 1_000_000, "B/s": 1e15, "share": 1,
})  # fmt: skip
"""Unit of a setting → the largest number that the API takes."""
MOST_VALUES = 64
"""Values of a setting that are asked for at once."""


def body_of(
    question: Function, about: str, *, base: type[Body] = ModelAsked, without: Collection[str] = (),
    usual: Mapping[str, Any] = MappingProxyType({}), largest: Mapping[str, float] = MappingProxyType({}),
    name: str = "",
) -> type[Any]:  # fmt: skip
    """A body whose fields are the settings of a question: every one, but for files, which the API does not read.

    `base`: the fields beside them. `without`: settings that are asked for otherwise. `usual`: what those that are
    needed are where a body does not say. `largest`: numbers above which this question takes too long.
    """
    fields: dict[str, Any] = {}
    for field, setting in question_settings(question).items():
        if field in without or setting.kind.names == "file":
            continue
        hint = _json_type(setting, largest.get(field, LARGEST.get(setting.kind.unit, inf)))
        default = usual.get(field, ... if setting.needed else None if setting.default == inf else setting.default)
        fields[field] = (hint if default is not None else hint | None, Field(default, description=setting.help))
    body: Any = create_model(name or declaration_of(question).name.title() + "Asked", __base__=base, **fields)
    body.__doc__ = about
    return body  # type: ignore[no-any-return]


def _json_type(setting: Setting, largest: float) -> Any:
    """What JSON has for a setting: a number within its range, several where it may be an array, a text, or true."""
    kind = setting.kind
    if kind.words:
        return Literal[kind.words]
    number: Any = None
    for plain in kind.json:
        if plain in (int, float):
            most = largest if kind.most is None else min(kind.most, largest)
            low = None if kind.least is None or kind.above else kind.least
            high = None if kind.below else most
            number = Annotated[
                plain,
                Field(ge=low, gt=kind.least if kind.above else None, le=high, lt=most if kind.below else None,
                      allow_inf_nan=False if plain is float else None),
            ]  # fmt: skip
    if number is not None and setting.hint == Count:
        number |= Annotated[list[number], Field(min_length=1, max_length=MOST_VALUES)]
    texts: Any = Text if str in kind.json else None
    if bool in kind.json:
        return bool
    return texts if number is None else number if texts is None else number | texts


class PlaceAsked(ModelAsked):
    """A model on a machine: the settings of every question about memory or time."""

    on: Text = Field(description="A chip, COUNTxCHIP, a cluster of the catalog, or figures: peak=…,bw=…,mem=….")
    layout: Text | None = None
    precision: Text | None = None
    engine: Text | None = None


class TimedAsked(PlaceAsked):
    """The same with the law that times follow: `calibrated`, `ideal`, or `fixed(mfu,mbu)`."""

    law: Text = "calibrated"


if TYPE_CHECKING:

    class BilledAsked(TimedAsked):
        """The same with who pays what."""
else:
    BilledAsked = create_model(
        "BilledAsked",
        __base__=TimedAsked,
        __doc__="The same with who pays what.",
        **{
            name: (_json_type(setting, inf) | None, Field(None, description=setting.help))
            for name, setting in group_settings(Bill).items()
        },
    )


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


class StepPlace(ModelAsked, ShapeAsked):
    """A forward pass of a model."""


class ExplainAsked(StepAsked):
    """An op of a forward pass."""

    op: Text


EstimateAsked = body_of(
    estimate, "A forward pass on a machine.", base=StepPlace, without=("step", "counting", "traffic", "within")
)


class PromptsAsked(Body):
    """A static batch: `batch` prompts of `input` tokens, each of which generates `output` tokens."""

    batch: SequencesAsked = 1
    input: Tokens = 1024
    output_tokens: Annotated[int, Field(ge=1, le=100_000)] = 256


GenerateAsked = body_of(
    generate, "A static batch on a machine, from its prompts to its last token.",
    usual={"input": 1024, "output_tokens": 256}, largest={"output_tokens": 100_000},
)  # fmt: skip


class AdviceAsked(TimedAsked, PromptsAsked):
    """A static batch on a machine, of which changes are told as factors."""


class ReportAsked(PlaceAsked, PromptsAsked):
    """A static batch on a machine, and what the report says of it."""


ServeAsked = body_of(
    serve, "A server in its steady state, at one concurrency, at several, or at a rate.",
    usual={"input": 1024, "output_tokens": 256}, largest={"output_tokens": 100_000},
)  # fmt: skip


FitAsked = body_of(fit, "Sequences in memory; without `context` the longest that fits beside the weights.")


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


SimulateAsked = body_of(
    simulate, "A server under traffic; what is drawn depends on the seed alone.",
    usual={"input": 1024, "output_tokens": 256, "requests": 300},
    largest={"requests": 2000, "warmup": 2000, "concurrency": 4096, "seed": 2**31, "output_tokens": 100_000},
)  # fmt: skip


class LauncherAsked(ModelAsked):
    """Which launcher."""

    launcher: Text = "vllm"


LaunchAsked = body_of(
    search, "The commands that start the best server of a load; where a layout is given, of that layout.",
    name="LaunchAsked", base=LauncherAsked, usual={"input": 1024, "output_tokens": 256, "concurrency": 32},
    without=("confirm", "top", "kind", "objective"), largest={"output_tokens": 100_000, "concurrency": 100_000},
)  # fmt: skip


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


SearchAsked = body_of(
    search, "What a server is asked, and the most seconds it may take; one machine, and what may be chosen.",
    usual={"input": 1024, "output_tokens": 256, "concurrency": 32, "objective": "chips"},
    without=("confirm",), largest={"output_tokens": 100_000, "concurrency": 100_000, "top": 20},
)  # fmt: skip


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
