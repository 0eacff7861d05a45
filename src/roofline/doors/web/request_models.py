"""Pydantic models of request bodies: one per question, every field bounded, unknown fields rejected.

Counts are integers (sequences, tokens or requests). Texts have the syntax of the command line, but cannot be paths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from roofline.declared.groups import PartsSettings, Where
from roofline.declared.kinds import Given
from roofline.declared.numbers.maths import Count
from roofline.declared.question import (
    OLD_NAMES,
    Function,
    Hint,
    Setting,
    Settings,
    declaration_of,
    group_settings,
    question_settings,
)
from roofline.declared.trees import JsonValue
from roofline.inference.cost.bill import Bill, MeanPower
from roofline.inference.encode import encode
from roofline.inference.fit import fit
from roofline.inference.generate import generate
from roofline.inference.offload import offload
from roofline.programs.estimate import estimate
from roofline.serving.serve import serve
from roofline.serving.simulate.simulate import simulate
from roofline.training.train import train
from roofline.views.report.make import report
from roofline.whatif.answer import answer
from roofline.whatif.diff import SidePlace, SideStep, diff
from roofline.whatif.machine_choice import machines
from roofline.whatif.search.recommendations import served
from roofline.whatif.search.search import search
from roofline.whatif.search.training_search import search_training
from roofline.whatif.search.what_fits import formats_that_run
from roofline.whatif.solve.solve import solve
from roofline.work.analysis import analyze
from roofline.work.explain import explain
from roofline.work.step import Step

Text: TypeAlias = Annotated[str, Field(max_length=200)]
Tokens: TypeAlias = Annotated[int, Field(ge=1, le=10_000_000)]

PlainObject: TypeAlias = dict[str, Any]
"""A JSON object that is validated when it is used: a config, or the body of another question."""


class Body(BaseModel):
    """Base class of request bodies; unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)
    declared: ClassVar[Mapping[str, Setting]] = MappingProxyType({})
    """Fields that are settings of a question, by name."""

    if TYPE_CHECKING:  # fields are created from declarations

        def __getattr__(self, name: str) -> Given: ...

    @model_validator(mode="before")
    @classmethod
    def of_former_names(cls, given: JsonValue) -> JsonValue:
        """Accept deprecated names for one release: `output`, and a `bill` object of what are now separate fields.

        Optional fields that are null count as not given.
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
    """A model: its catalog name, its Hub id if the server has Hub access, or its config."""

    model: Text | PlainObject = Field(description="A catalog name, a Hub id under --hub, or a config.json's object.")
    text_only: bool = Field(False, description=group_settings(PartsSettings)["text_only"].help)


LARGEST: Mapping[str, float] = MappingProxyType({
    "tokens": 10_000_000, "sequences": 1_000_000, "requests": 1_000_000, "replicas": 1_000_000, "chips": 1_000_000,
    "ranks": 1_000_000, "requests/s": 100_000, "s": 1_000_000, "": 1_000_000, "B/s": 1e15, "share": 1,
})  # fmt: skip
"""Unit of a setting → largest value that the API accepts."""
SEARCHED_S = 20.0
"""Longest time of a search in seconds, which is also the default; less than a worker's."""
MOST_VALUES = 64
"""Maximum number of values of one setting in a request."""


def body_of(
    question: Function | Mapping[str, Setting], about: str, *, base: type[Body] = ModelAsked,
    without: Collection[str] = (), usual: Settings = MappingProxyType({}),
    largest: Mapping[str, float] = MappingProxyType({}), name: str = "", one: bool = False,
) -> type[Body]:  # fmt: skip
    """Create a body model with a field per setting of a question (or of a mapping); file settings are left out.

    `base`: model with further fields. `without`: settings to leave out. `usual`: defaults of required settings.
    `largest`: upper limits, above which the question takes too long. `one`: accept only single numbers, not lists.
    """
    fields: dict[str, Given] = {}
    settings = question if isinstance(question, Mapping) else question_settings(question)
    for field, setting in settings.items():
        if field in without or setting.kind.names == "file":
            continue
        hint = _json_type(setting, largest.get(field, LARGEST.get(setting.kind.unit, inf)), one)
        default = usual.get(field, ... if setting.needed else None if setting.default == inf else setting.default)
        fields[field] = (hint if default is not None else hint | None, Field(default, description=setting.help))
    own = name or (declaration_of(question).name.title() + "Asked" if callable(question) else "")
    body = create_model(own, __base__=base, **fields)
    body.__doc__ = about
    body.declared = {**base.declared, **{name: settings[name] for name in fields}}
    return body


def _json_type(setting: Setting, largest: float, one: bool) -> Hint:
    """JSON type of a setting: a number within its range, a text or a boolean; also a list if the setting accepts
    several values, or if it is a count and `one` is false.
    """
    kind = setting.kind
    if kind.words:
        return Literal[kind.words]
    number: Hint = None
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
    if number is not None and (kind.several or (setting.hint == Count and not one)):
        number |= Annotated[list[number], Field(min_length=1, max_length=MOST_VALUES)]
    texts: Hint = Text if str in kind.json else None
    if texts is not None and kind.several:
        texts |= Annotated[list[Text], Field(max_length=MOST_VALUES)]
    if bool in kind.json:
        return bool
    return texts if number is None else number if texts is None else number | texts


AnswerAsked = body_of(
    answer,
    "Whether a model fits on a machine, how fast it serves, what limits it, its cost, what would help.",
    one=True,
)
MachinesAsked = body_of(machines, "Which machine to serve a demand with, one row a machine.", one=True)
AnalyzeAsked = body_of(analyze, "A forward pass, its work alone.")
ExplainAsked = body_of(explain, "An op of a forward pass.", one=True)
EstimateAsked = body_of(estimate, "A forward pass on a machine.")


GenerateAsked = body_of(
    generate, "A static batch on a machine, from its prompts to its last token.",
    usual={"input": 1024, "output_tokens": 256}, largest={"output_tokens": 100_000},
)  # fmt: skip


EncodeAsked = body_of(
    encode,
    "A batch of inputs that a model reads as a whole, on a machine.",
    largest={"passes": 10_000, "frames": 10_000},
)


BATCH: Mapping[str, int] = MappingProxyType({"batch": 1, "input": 1024, "output_tokens": 256})
"""Defaults of a static batch."""
AdviceAsked = body_of(
    served, "A static batch on a machine, and what changes would make of its figures, as factors.", usual=BATCH,
    largest={"output_tokens": 100_000}, name="AdviceAsked", one=True,
)  # fmt: skip


class FormAsked(ModelAsked):
    """The form of a report."""

    form: Literal["html", "json"] = Field("html", description="A page, or its figures.")


ReportAsked = body_of(
    report, "A static batch on a machine, and its report.", base=FormAsked, usual=BATCH,
    largest={"output_tokens": 100_000}, one=True,
)  # fmt: skip


OffloadAsked = body_of(
    offload, "A static batch over cards and their host.", largest={"output_tokens": 100_000}, one=True
)


ServeAsked = body_of(
    serve, "A server in its steady state, at one concurrency, at several, or at a rate.",
    usual={"input": 1024, "output_tokens": 256}, largest={"output_tokens": 100_000},
)  # fmt: skip


FitAsked = body_of(fit, "Sequences in memory; without `context` the longest that fits beside the weights.")


SideAsked = body_of(
    {**group_settings(SidePlace), **group_settings(SideStep)}, "One side of a comparison of two steps.",
    name="SideAsked", one=True,
)  # fmt: skip


class SidesAsked(Body):
    """The two sides of a comparison."""

    a: SideAsked  # type: ignore[valid-type]
    b: SideAsked  # type: ignore[valid-type]


DiffAsked = body_of(diff, "Two sides: what changes from `a` to `b`, and what the change comes from.", base=SidesAsked)


LEARNING: Mapping[str, int] = MappingProxyType({"batch": 64, "tokens": 4096})
"""Defaults of an optimizer step."""
PAID = (*group_settings(Bill), *group_settings(MeanPower))

TrainAsked = body_of(train, "An optimizer step on a machine, and its cost.", usual=LEARNING)
TimelineAsked = body_of(
    train, "An optimizer step on a machine.", usual=LEARNING, without=PAID, name="TimelineAsked", one=True
)
RemediesAsked = body_of(
    train, "An optimizer step on a machine, and what would make it fit.", usual=LEARNING, without=PAID,
    name="RemediesAsked", one=True,
)  # fmt: skip


class FrameworkAsked(ModelAsked):
    """The training framework whose config is written."""

    framework: Text = "megatron"


RecipeAsked = body_of(
    train, "The config of a training framework for an optimizer step.", base=FrameworkAsked, usual=LEARNING,
    without=(*PAID, "law"), name="RecipeAsked", one=True,
)  # fmt: skip


class GridAsked(ModelAsked):
    """Every combination of two lists, of batches and of lengths, and the figures to return."""

    phase: Literal["prefill", "decode"] = "decode"
    batch: Annotated[list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=1, max_length=64)]
    context: Annotated[list[Tokens], Field(min_length=1, max_length=64)]
    only: Annotated[list[Text], Field(max_length=20)] | None = Field(None, description="Figures that are wanted.")


SweepAsked = body_of(
    estimate, "A decode or prefill step at each combination of batch and length.", base=GridAsked, name="SweepAsked",
    without=group_settings(Step),
)  # fmt: skip


SimulateAsked = body_of(
    simulate, "A simulated server under random traffic; the same seed gives the same requests.",
    usual={"input": 1024, "output_tokens": 256, "requests": 300},
    largest={"requests": 2000, "warmup": 2000, "concurrency": 4096, "seed": 2**31, "output_tokens": 100_000},
)  # fmt: skip


class LauncherAsked(ModelAsked):
    """The launcher whose files are written."""

    launcher: Text = "vllm"


LaunchAsked = body_of(
    search, "Launch commands of the best server for a load, or of the given layout.",
    name="LaunchAsked", base=LauncherAsked,
    usual={"input": 1024, "output_tokens": 256, "concurrency": 32, "seconds": SEARCHED_S},
    without=("confirm", "top", "kind", "objective"),
    largest={"output_tokens": 100_000, "concurrency": 100_000, "seconds": SEARCHED_S},
)  # fmt: skip


LayoutsAsked = body_of(
    search_training, "Layouts of a training step on a machine.", usual={**LEARNING, "seconds": SEARCHED_S},
    name="LayoutsAsked", one=True,
    largest={
        "batch": 65_536, "top": 20, "seconds": SEARCHED_S, "run_tokens": 1e15, "dataset_tokens": 1e15,
        "evaluation_tokens": 1e12, "storage": 1e15,
    },
)  # fmt: skip


class PartAsked(Body):
    """`count` catalog models from index `start`, or one model in every format."""

    model: Text | PlainObject | None = None
    start: Annotated[int, Field(ge=0, le=100_000)] | None = Field(None, description="Without a model; 0 if not given.")
    count: Annotated[int, Field(ge=1, le=60)] | None = Field(None, description="Without a model; 40 if not given.")


RunsAsked = body_of(formats_that_run, "What runs on a machine.", base=PartAsked, name="RunsAsked")


class GgufAsked(Body):
    """The first bytes of a GGUF file in base64, and the size of the whole file in bytes."""

    head: Annotated[str, Field(max_length=24 * 2**20)]
    size: Annotated[int, Field(ge=1, le=2**50)]


class TableAsked(Body):
    """Request for an answer as a table: the route's name, its body, and the file format."""

    name: Annotated[str, Field(max_length=20)]
    body: PlainObject
    form: Literal["csv", "parquet"] = "parquet"


SearchAsked = body_of(
    search, "A load, the limits on its latencies, and the machine and settings to choose from.",
    usual={"input": 1024, "output_tokens": 256, "concurrency": 32, "objective": "chips", "seconds": SEARCHED_S},
    without=("confirm",),
    largest={"output_tokens": 100_000, "concurrency": 100_000, "top": 20, "seconds": SEARCHED_S},
)  # fmt: skip


SolveAsked = body_of(
    solve, "The unknown, the condition, and the settings of a step, a batch, a server or a training step.",
    largest={"output_tokens": 100_000, "concurrency": 100_000, "most_chips": 4096}, one=True,
)  # fmt: skip


class PictureAsked(ModelAsked):
    """The kind of picture. Settings that it does not use are rejected."""

    kind: Literal["roofline", "energy", "memory", "parameters", "diagram"] = "roofline"


PlotAsked = body_of(
    {name: replace(s, default=None) for name, s in {**group_settings(Step), **group_settings(Where)}.items()},
    "The data of a picture.", base=PictureAsked, name="PlotAsked", one=True,
)  # fmt: skip


class Refusal(BaseModel):
    """An error response: a one-line message, and its parts."""

    message: str
    field: str
    expected: str
    nearest: list[str] = []


class QuestionAsked(Body):
    """One question of a batch: the name of its route and the route's request body."""

    name: Annotated[str, Field(max_length=20)]
    body: PlainObject


class BatchAsked(Body):
    """Several quick questions in one request."""

    questions: Annotated[list[QuestionAsked], Field(min_length=1, max_length=12)]
