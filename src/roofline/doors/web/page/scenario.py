"""A scenario of the page and the requests of its views. `static/state.js` uses the same tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from pydantic import BaseModel

from roofline.declared.groups import DEGREES, PartsSettings
from roofline.declared.question import Setting, group_settings, question_settings
from roofline.declared.trees import JsonValue
from roofline.doors.web.allow_list import chosen_model
from roofline.doors.web.questions import QUESTIONS
from roofline.serving.serve import serve
from roofline.serving.simulate.simulate import simulate

SettingValue: TypeAlias = str | float | bool | None
"""Value of a control: a text in command-line syntax, a number or a boolean; None stands for the default."""

SWEPT = (512, 2048, 8192, 32768)
"""Context lengths (tokens) of the sweep view; those not below the model's maximum are left out."""
LEAST_SWEPT = 256
"""Smallest upper end of a sweep over concurrency."""
INSTEAD: Mapping[str, str] = MappingProxyType({"concurrency": "rate"})
"""Setting → setting that replaces it when given."""
SETTINGS: Mapping[str, Setting] = MappingProxyType({
    **{name: replace(setting, parameter="model") for name, setting in group_settings(PartsSettings).items()},
    **question_settings(serve), **{n: s for n, s in question_settings(simulate).items() if s.parameter == "slo"}
})  # fmt: skip
"""Settings of a scenario: which parts of the model, those of `serve`, and the SLO of `simulate`."""


@dataclass(frozen=True)
class Ask:
    """Request of a view: a question, the scenario settings passed to it, and fields derived from the scenario.

    `groups`: groups of settings to pass beside the model's, None for all; `without`: settings and groups to leave out.
    `more`: field → control of the page or derived number of the scenario. `fixed`: field → constant value.
    """

    question: str
    groups: tuple[str, ...] | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, JsonValue] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def fields(self) -> Mapping[str, str]:
        """Request field → the setting, control or derived number that supplies it, in the order of the body model."""
        return {name: source for name in asked_body(self.question).model_fields if (source := self._source(name))}

    def _source(self, name: str) -> str:
        if name in self.more:
            return self.more[name]
        setting = SETTINGS.get(name)
        if setting is None or {name, setting.parameter} & {*self.without}:
            return name if name == "model" else ""
        return name if self.groups is None or setting.parameter in ("model", *self.groups) else ""


PLACE, BILLED, LOADED = ("where",), ("where", "bill"), ("where", "load")
STEP = MappingProxyType({"phase": "phase", "batch": "in_flight", "context": "middle"})
WHOLE = MappingProxyType({
    "batch": "encodeBatch", "rate": "encodeArrivals", "input": "encodeInput", "passes": "encodePasses",
})  # fmt: skip
"""Of inputs that a model reads as a whole: how many, how many a second, of what length, how often they are denoised."""
TRAINING = MappingProxyType({
    "batch": "trainBatch", "tokens": "trainTokens", "lora": "trainRank", "dora": "trainMagnitudes",
    "lengths": "trainPacked", "stragglers": "trainSlow", "optimizer": "trainBy", "teacher": "trainFrom",
    "reference": "trainBeside", "context_length": "trainLongest",
})  # fmt: skip
"""Of a training step: its sequences and what is packed into each, what learns, by which optimizer and from what second
model, and which chips are slower."""
RUN = MappingProxyType({
    "objective": "trainAim", "run_tokens": "trainRunTokens", "seconds": "searchSeconds", "spare_nodes": "trainSpares",
    "repair_hours": "trainRepairs", "rampup_batch_size": "trainRampUp",
})  # fmt: skip
"""Of a search for layouts: what is best, the tokens of the whole run, how its batch grows, its spare nodes, and the
time to look."""
DEMAND = MappingProxyType({
    "users": "demandUsers", "requests_a_day": "demandADay", "work": "work", "reading_speed": "reading",
    "tpot": "demandTpot",
})  # fmt: skip
"""Of people who ask: how many at once or a day, for what, and how fast they read, which replaces a limit on TPOT."""
SEARCHED = MappingProxyType({"seconds": "searchSeconds", "power": "siteWatts"})
ITS_RECIPE = ("precision", "engine")
"""Server settings that training requests leave out, as the training recipe determines them."""
ASKS: Mapping[str, Ask] = MappingProxyType({
    "limits": Ask("limits", ()),
    "serve": Ask("serve"),
    "front": Ask("serve", more={"concurrency": "powers"}, without=("rate",)),
    "estimate": Ask("estimate", (*BILLED, "images"), STEP),
    "plot": Ask("plot", PLACE, STEP, {"kind": "roofline"}),
    "energy": Ask("plot", PLACE, STEP, {"kind": "energy"}),
    "diagram": Ask("plot", (), fixed={"kind": "diagram"}),
    "analyze": Ask("analyze", (*PLACE, "images"), STEP),
    "explain": Ask("explain", PLACE, STEP),
    "fit": Ask("fit", (*PLACE, "images"), {"batch": "in_flight", "context": "full"}),
    "sweep": Ask("sweep", BILLED, {**STEP, "batch": "powers", "context": "swept"}, {"only": ["time", "memory"]}),
    "side": Ask("side", PLACE, {**STEP, "context": "halfway", "prompt": "prompt"}),
    "encode": Ask("encode", BILLED, WHOLE),
    "train": Ask("train", BILLED, TRAINING, without=ITS_RECIPE),
    "timeline": Ask("timeline", PLACE, TRAINING, without=ITS_RECIPE),
    "remedies": Ask("remedies", PLACE, TRAINING, without=ITS_RECIPE),
    "layouts": Ask("layouts", BILLED, {**TRAINING, **RUN, "site_power": "siteWatts"}, without=(*ITS_RECIPE, "layout")),
    "recipe": Ask("recipe", PLACE, {**TRAINING, "framework": "framework"}, without=ITS_RECIPE),
    "runs": Ask("runs", PLACE, {"context": "runsContext"}),
    "launch": Ask("launch", LOADED, {"launcher": "launcher"}),
    "report": Ask("report", LOADED, {"batch": "in_flight"}),
    "simulate": Ask("simulate", more={"requests": "simulated", "seed": "seed"}, without=("pools", "slo")),
    "search": Ask("search", more=SEARCHED, without=("pools", "layout", *DEGREES)),
    "advice": Ask("advice", LOADED, {"batch": "in_flight"}),
    "answer": Ask("answer", ("where", "load", "slo", "images", "bill")),
    "machines": Ask("machines", ("where", "slo", "images", "bill"), DEMAND, without=("on",)),
})  # fmt: skip
"""Answer name → request, for all views."""
FIRST_VIEW = ("limits", "serve", "fit", "estimate")
"""Requests of the overview, the first view that is shown."""


def asked_body(question: str) -> type[BaseModel]:
    """The body model of a question; `side` is one side of `diff`."""
    if question == "side":
        side = QUESTIONS["diff"].body.model_fields["a"].annotation
        assert isinstance(side, type)
        assert issubclass(side, BaseModel)
        return side
    return QUESTIONS[question].body


@cache
def usual() -> Mapping[str, SettingValue]:
    """Initial values of the required settings: the defaults of the API's body models, and one machine."""
    assumed = asked_body("serve").model_fields
    needed = {name: assumed[name].default for name, setting in SETTINGS.items() if setting.needed and name != "on"}
    return {"on": "h100-sxm", **needed, "concurrency": asked_body("search").model_fields["concurrency"].default}


@dataclass(frozen=True)
class Scenario:
    """The selections in the page's form: a model, values of settings, and the phase of the step shown."""

    model: str | dict[str, JsonValue] = "meta-llama/Llama-3.1-8B"
    settings: Mapping[str, SettingValue] = field(default_factory=usual)
    phase: str = "decode"

    def given(self, name: str) -> SettingValue:
        """The value of a setting; None if it has its default or is replaced by another setting."""
        value = self.settings.get(name)
        if value in (None, "") or value == SETTINGS[name].default:
            return None
        if name in INSTEAD and self.given(INSTEAD[name]) is not None:
            return None
        return int(value) if isinstance(value, float) and value.is_integer() else value  # as browsers serialize it

    @property
    def numbers(self) -> Mapping[str, JsonValue]:
        """Derived numbers, for request fields that are not settings."""
        prompt, answer, batch = (self._whole(name) for name in ("input", "output_tokens", "concurrency"))
        halfway = prompt + answer // 2
        return {
            "model": self.model, "phase": self.phase, "prompt": prompt, "in_flight": batch, "powers": _powers(batch),
            "halfway": halfway, "middle": prompt if self.phase == "prefill" else halfway, "full": prompt + answer,
        }  # fmt: skip

    def _whole(self, name: str) -> int:
        value = self.settings[name]
        assert isinstance(value, int), name
        return value

    @property
    def swept(self) -> list[int]:
        """Context lengths (tokens) of this model's sweep."""
        longest = chosen_model(self.model).context
        return [tokens for tokens in SWEPT if longest is None or tokens < longest]

    def body(self, view: str) -> tuple[str, dict[str, JsonValue]]:
        """Question and request body of an entry of `ASKS`; settings at their defaults are omitted."""
        ask, numbers = ASKS[view], self.numbers
        body: dict[str, JsonValue] = {}
        for name, source in ask.fields.items():
            value = self.swept if source == "swept" else numbers[source] if source in numbers else self.given(source)
            if value is not None:
                body[name] = value
        return ask.question, body | dict(ask.fixed)


def scenario_of(
    model: str | dict[str, JsonValue] = Scenario.model, phase: str = Scenario.phase, **settings: SettingValue
) -> Scenario:
    """Create a scenario from some settings; the others have the page's initial values.

    >>> scenario_of(on="h200").body("fit")[1]["on"]
    'h200'
    """
    return Scenario(model, {**usual(), **settings}, phase)


def _powers(last: int) -> list[int]:
    end = max(LEAST_SWEPT, 2 * last)
    return sorted({last, *(1 << i for i in range(end.bit_length()) if 1 << i <= end)})
