"""What the API is asked: one body for each question, every field bounded, nothing that is not known accepted.

Counts are whole numbers of sequences, tokens or requests; texts are as the commands take them, but for paths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from roofline.declared.groups import Where
from roofline.declared.kinds import Given
from roofline.declared.maths import Count
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
from roofline.inference.bill import Bill, MeanPower
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
"""An object of JSON that is checked where it is read: a config, the body of another question."""


class Body(BaseModel):
    """A body: every field is one that its question is answered by; any other is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)
    declared: ClassVar[Mapping[str, Setting]] = MappingProxyType({})
    """Those of its fields that are settings of a question."""

    if TYPE_CHECKING:  # fields are made of declarations

        def __getattr__(self, name: str) -> Given: ...

    @model_validator(mode="before")
    @classmethod
    def of_former_names(cls, given: JsonValue) -> JsonValue:
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

    model: Text | PlainObject = Field(description="A catalog name, a Hub id under --hub, or a config.json's object.")


LARGEST: Mapping[str, float] = MappingProxyType({
    "tokens": 10_000_000, "sequences": 1_000_000, "requests": 1_000_000, "replicas": 1_000_000, "chips": 1_000_000,
    "ranks": 1_000_000, "requests/s": 100_000, "s": 1_000_000, "": 1_000_000, "B/s": 1e15, "share": 1,
})  # fmt: skip
"""Unit of a setting → the largest number that the API takes."""
MOST_VALUES = 64
"""Values of a setting that are asked for at once."""


def body_of(
    question: Function | Mapping[str, Setting], about: str, *, base: type[Body] = ModelAsked,
    without: Collection[str] = (), usual: Settings = MappingProxyType({}),
    largest: Mapping[str, float] = MappingProxyType({}), name: str = "", one: bool = False,
) -> type[Body]:  # fmt: skip
    """A body whose fields are the settings of a question, or these: every one, but for files, which it does not read.

    `base`: the fields beside them. `without`: settings that are asked for otherwise. `usual`: what those that are
    needed are where a body does not say. `largest`: numbers above which this question takes too long. `one`: whether
    it is asked of one number of each alone.
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
    """What JSON has for a setting: a number within its range, a text, or true; a list where it may be several, and a
    number not `one` alone.
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


BATCH: Mapping[str, int] = MappingProxyType({"batch": 1, "input": 1024, "output_tokens": 256})
"""Of a static batch: what is asked for where a body does not say."""
AdviceAsked = body_of(
    served, "A static batch on a machine, of which changes are told as factors.", usual=BATCH,
    largest={"output_tokens": 100_000}, name="AdviceAsked", one=True,
)  # fmt: skip


class FormAsked(ModelAsked):
    """Which form."""

    form: Literal["html", "json"] = Field("html", description="A page, or its figures.")


ReportAsked = body_of(
    report, "A static batch on a machine, and what the report says of it.", base=FormAsked, usual=BATCH,
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
    {**group_settings(SidePlace), **group_settings(SideStep)}, "One of two that are compared step by step.",
    name="SideAsked", one=True,
)  # fmt: skip


class SidesAsked(Body):
    """Two sides."""

    a: SideAsked  # type: ignore[valid-type]
    b: SideAsked  # type: ignore[valid-type]


DiffAsked = body_of(diff, "Two sides: what changes from `a` to `b`, and what the change comes from.", base=SidesAsked)


LEARNING: Mapping[str, int] = MappingProxyType({"batch": 64, "tokens": 4096})
"""Of an optimizer step: what is asked for where a body does not say."""
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
    """Which training framework."""

    framework: Text = "megatron"


RecipeAsked = body_of(
    train, "The config of a training framework for an optimizer step.", base=FrameworkAsked, usual=LEARNING,
    without=(*PAID, "law"), name="RecipeAsked", one=True,
)  # fmt: skip


class GridAsked(ModelAsked):
    """Every batch and length of two lists, and the figures that are wanted."""

    phase: Literal["prefill", "decode"] = "decode"
    batch: Annotated[list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=1, max_length=64)]
    context: Annotated[list[Tokens], Field(min_length=1, max_length=64)]
    only: Annotated[list[Text], Field(max_length=20)] | None = Field(None, description="Figures that are wanted.")


SweepAsked = body_of(
    estimate, "A decode or a prefill at every batch and length of two lists.", base=GridAsked, name="SweepAsked",
    without=group_settings(Step),
)  # fmt: skip


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


LayoutsAsked = body_of(
    search_training, "Layouts of a training step on a machine.", usual=LEARNING, without=PAID, name="LayoutsAsked",
    largest={"batch": 65_536, "top": 20}, one=True,
)  # fmt: skip


class PartAsked(Body):
    """`count` models of the catalog from the `start`-th on, or one model in every format."""

    model: Text | PlainObject | None = None
    start: Annotated[int, Field(ge=0, le=100_000)] | None = Field(None, description="Without a model; 0 if not given.")
    count: Annotated[int, Field(ge=1, le=60)] | None = Field(None, description="Without a model; 40 if not given.")


RunsAsked = body_of(formats_that_run, "What runs on a machine.", base=PartAsked, name="RunsAsked")


class GgufAsked(Body):
    """The first bytes of a GGUF file, in base64, and how many it has in all."""

    head: Annotated[str, Field(max_length=24 * 2**20)]
    size: Annotated[int, Field(ge=1, le=2**50)]


class TableAsked(Body):
    """An answer as a table: the name of its route, its body, and the form of the file."""

    name: Annotated[str, Field(max_length=20)]
    body: PlainObject
    form: Literal["csv", "parquet"] = "parquet"


SearchAsked = body_of(
    search, "What a server is asked, and the most seconds it may take; one machine, and what may be chosen.",
    usual={"input": 1024, "output_tokens": 256, "concurrency": 32, "objective": "chips"},
    without=("confirm",), largest={"output_tokens": 100_000, "concurrency": 100_000, "top": 20},
)  # fmt: skip


SolveAsked = body_of(
    solve, "What is looked for, what must hold, and the settings of a step, a batch, a server or training.",
    largest={"output_tokens": 100_000, "concurrency": 100_000, "most_chips": 4096}, one=True,
)  # fmt: skip


class PictureAsked(ModelAsked):
    """Which picture. A setting that it does not show is refused."""

    kind: Literal["roofline", "memory", "parameters", "diagram"] = "roofline"


PlotAsked = body_of(
    {name: replace(s, default=None) for name, s in {**group_settings(Step), **group_settings(Where)}.items()},
    "The data of a picture.", base=PictureAsked, name="PlotAsked", one=True,
)  # fmt: skip


class Refusal(BaseModel):
    """What was passed wrongly, in one line and in parts."""

    message: str
    field: str
    expected: str
    nearest: list[str] = []


class QuestionAsked(Body):
    """A question of several: the name of its route, and the body that the route takes."""

    name: Annotated[str, Field(max_length=20)]
    body: PlainObject


class BatchAsked(Body):
    """Several quick questions, answered together."""

    questions: Annotated[list[QuestionAsked], Field(min_length=1, max_length=12)]
