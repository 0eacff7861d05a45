"""A scenario of the page, and the body that each of its views asks: `static/state.js` reads the same tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from pydantic import BaseModel

from roofline.declared.groups import DEGREES
from roofline.declared.question import Setting, question_settings
from roofline.declared.trees import JsonValue
from roofline.doors.web.allow_list import chosen_model
from roofline.doors.web.questions import QUESTIONS
from roofline.serving.serve import serve
from roofline.serving.simulate.simulate import simulate

SettingValue: TypeAlias = str | float | bool | None
"""What a control holds: a text as commands take it, a number, yes or no; None where the default holds."""

SWEPT = (512, 2048, 8192, 32768)
"""Tokens of context that the sweep draws, of a model that takes so many and one more."""
LEAST_SWEPT = 256
"""Requests in flight that a sweep reaches at least."""
INSTEAD: Mapping[str, str] = MappingProxyType({"concurrency": "rate"})
"""Setting → the one that takes its place where it is given."""
SETTINGS: Mapping[str, Setting] = MappingProxyType({
    **question_settings(serve), **{n: s for n, s in question_settings(simulate).items() if s.parameter == "slo"}
})  # fmt: skip
"""What a scenario sets: the settings of a server, and the SLO that it is held to."""


@dataclass(frozen=True)
class Ask:
    """What a view asks: the settings of a scenario that a question takes, and fields that follow from the scenario.

    `groups`: those whose settings are passed on, all if None; `without`: settings and groups that are not.
    `more`: field → a control of the page's own, or a number of the scenario. `fixed`: field → its value.
    """

    question: str
    groups: tuple[str, ...] | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, JsonValue] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def fields(self) -> Mapping[str, str]:
        """Field of the body → the setting, control or number that it comes from, in the order of the body."""
        return {name: source for name in asked_body(self.question).model_fields if (source := self._source(name))}

    def _source(self, name: str) -> str:
        if name in self.more:
            return self.more[name]
        setting = SETTINGS.get(name)
        if setting is None or {name, setting.parameter} & {*self.without}:
            return name if name == "model" else ""
        return name if self.groups is None or setting.parameter in self.groups else ""


PLACE, BILLED, LOADED = ("where",), ("where", "bill"), ("where", "load")
STEP = MappingProxyType({"phase": "phase", "batch": "in_flight", "context": "middle"})
TRAINING = MappingProxyType({"batch": "trainBatch", "tokens": "trainTokens"})
ITS_RECIPE = ("precision", "engine")
"""Settings of a server that a training step, whose recipe says them, does not have."""
ASKS: Mapping[str, Ask] = MappingProxyType({
    "limits": Ask("limits", ()),
    "serve": Ask("serve"),
    "front": Ask("serve", more={"concurrency": "powers"}, without=("rate",)),
    "estimate": Ask("estimate", BILLED, STEP),
    "plot": Ask("plot", PLACE, STEP, {"kind": "roofline"}),
    "diagram": Ask("plot", (), fixed={"kind": "diagram"}),
    "analyze": Ask("analyze", PLACE, STEP),
    "explain": Ask("explain", PLACE, STEP),
    "fit": Ask("fit", PLACE, {"batch": "in_flight", "context": "full"}),
    "sweep": Ask("sweep", BILLED, {**STEP, "batch": "powers", "context": "swept"}, {"only": ["time", "memory"]}),
    "side": Ask("side", PLACE, {**STEP, "context": "halfway", "prompt": "prompt"}),
    "train": Ask("train", BILLED, TRAINING, without=ITS_RECIPE),
    "timeline": Ask("timeline", PLACE, TRAINING, without=ITS_RECIPE),
    "remedies": Ask("remedies", PLACE, TRAINING, without=ITS_RECIPE),
    "layouts": Ask("layouts", PLACE, TRAINING, without=(*ITS_RECIPE, "layout")),
    "recipe": Ask("recipe", PLACE, {**TRAINING, "framework": "framework"}, without=ITS_RECIPE),
    "runs": Ask("runs", PLACE, {"context": "runsContext"}),
    "launch": Ask("launch", LOADED, {"launcher": "launcher"}),
    "report": Ask("report", LOADED, {"batch": "in_flight"}),
    "simulate": Ask("simulate", more={"requests": "simulated", "seed": "seed"}, without=("pools", "slo")),
    "search": Ask("search", without=("pools", "layout", *DEGREES)),
    "advice": Ask("advice", LOADED, {"batch": "in_flight"}),
})  # fmt: skip
"""What the views ask, by the name of the answer."""
FIRST_VIEW = ("limits", "serve", "fit", "estimate")
"""What the overview asks."""


def asked_body(question: str) -> type[BaseModel]:
    """The body of a question; `side` is one side of `diff`."""
    if question == "side":
        side = QUESTIONS["diff"].body.model_fields["a"].annotation
        assert isinstance(side, type)
        assert issubclass(side, BaseModel)
        return side
    return QUESTIONS[question].body


@cache
def usual() -> Mapping[str, SettingValue]:
    """What a fresh page shows of the settings that have to be given: those that the API's bodies assume."""
    assumed = asked_body("serve").model_fields
    needed = {name: assumed[name].default for name, setting in SETTINGS.items() if setting.needed and name != "on"}
    return {"on": "h100-sxm", **needed, "concurrency": asked_body("search").model_fields["concurrency"].default}


@dataclass(frozen=True)
class Scenario:
    """What is chosen at the left of the page: a model, the values of settings, and the phase of the steps shown."""

    model: str | dict[str, JsonValue] = "meta-llama/Llama-3.1-8B"
    settings: Mapping[str, SettingValue] = field(default_factory=usual)
    phase: str = "decode"

    def given(self, name: str) -> SettingValue:
        """The value of a setting; None for its default, and where another takes its place."""
        value = self.settings.get(name)
        if value in (None, "") or value == SETTINGS[name].default:
            return None
        if name in INSTEAD and self.given(INSTEAD[name]) is not None:
            return None
        return int(value) if isinstance(value, float) and value.is_integer() else value  # as a browser writes it

    @property
    def numbers(self) -> Mapping[str, JsonValue]:
        """What fields of bodies are that are no settings."""
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
        """Tokens of context that the sweep of this model draws."""
        longest = chosen_model(self.model).context
        return [tokens for tokens in SWEPT if longest is None or tokens < longest]

    def body(self, view: str) -> tuple[str, dict[str, JsonValue]]:
        """The question, and its body, of one of `ASKS`: what holds by default is left out."""
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
    """A scenario with some settings, the others as a fresh page has them.

    >>> scenario_of(on="h200").body("fit")[1]["on"]
    'h200'
    """
    return Scenario(model, {**usual(), **settings}, phase)


def _powers(last: int) -> list[int]:
    end = max(LEAST_SWEPT, 2 * last)
    return sorted({last, *(1 << i for i in range(end.bit_length()) if 1 << i <= end)})
