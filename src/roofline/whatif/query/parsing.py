"""Parse the settings and numbers of a query, and the settings of the other side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import PlaceSettings, Where
from roofline.declared.numbers.maths import Count
from roofline.declared.question import OLD_NAMES, Setting, Settings, group_settings, question_settings
from roofline.engines.engine import trainer_named
from roofline.inference.deployment import deploy, is_several
from roofline.inference.settings import Setup, setup
from roofline.kernels.target import mode_named
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import decoder_of
from roofline.model.model import Model
from roofline.serving.serve import serve
from roofline.whatif.query.knobs import HARDWARE
from roofline.whatif.query.query import ALL_SIZES, NUMBERS, SERVED, OpenQuestion, subject_of
from roofline.work.training import TrainingOptions

MONEY = ("price", "utilisation")
"""Unknowns of a cost comparison. Owning against renting needs no numbers of a step."""
SIDES = tuple(name for name, setting in group_settings(Where).items() if setting.kind.varies)
"""Settings in which the other side of a comparison may differ."""


def question_of(model: Model, find: str, strict: bool, settings: Settings) -> OpenQuestion:
    """Parse settings and numbers into an `OpenQuestion`.

    Raises InputError for a setting that is unknown, missing or incompatible with another.
    """
    renamed = {OLD_NAMES.get(name, name): value for name, value in settings.items() if value is not None}
    given = PlaceSettings.fully(renamed)
    numbers = {name: _number(name, given.pop(name)) for name in ALL_SIZES if name in given}
    subject = subject_of(numbers, find) if numbers or find not in MONEY else "decode"
    more = {name: given.pop(name) for name in SERVED if name in given}
    if subject != "serve" and more:
        raise InputError(*next(iter(more.items())), f"nothing: it is of a server, not of {subject}")
    others = given
    if others.get("on") is None:
        raise InputError("on", None, "a chip or a cluster")
    if subject != "train":
        unknown = next((name for name in others if name not in SIDES), None)
        if unknown is not None and unknown in TRAINED:
            raise InputError(unknown, others[unknown], "`tokens` as well: it is of training")
        if unknown is not None:
            raise not_one_of("setting", unknown, (*SIDES, *ALL_SIZES, *SERVED))
        asked = setup(model if subject == "prefill" else decoder_of(model), **others)
        return OpenQuestion(subject, asked, numbers, machine=others["on"], strict=strict, others=others, more=more)
    on, layout = others.pop("on"), others.pop("layout", None)
    if layout is None and is_several(on):
        raise InputError("layout", None, "degrees such as `tp=2,dp=4,zero=1`: of training they are not chosen")
    engine, law = trainer_named(others.pop("engine", None)), mode_named(others.pop("law", "calibrated"))
    built, formats = formats_of(model, others.get("precision"))
    del built
    deployment = deploy(on, layout)
    if find in HARDWARE and deploy(deployment.chip, layout).cluster.levels != deployment.cluster.levels:
        raise InputError("on", deployment.cluster.name, "a chip and a layout")
    asked = Setup(model, deployment, formats, engine, law)
    return OpenQuestion(subject, asked, numbers, machine=on, strict=strict, others=others)


def _number(name: str, value: Count) -> float:
    """One number, checked by its kind. Raises InputError for several numbers."""
    number: float = NUMBERS[name].check(name, value)
    if np.shape(number):
        raise InputError(name, np.asarray(number).tolist(), "one number")
    return number


ABOUT = MappingProxyType({
    "batch": "Sequences of all replicas (1).", "context": "Cached tokens: of a decode step.",
    "input": "Prompt tokens; without a context or an answer, those of a prefill.",
    "output_tokens": "Generated tokens: of a static batch, or with a load of a server.",
    "tokens": "Tokens of a training sequence: of a step of training.",
})  # fmt: skip
"""Help for the sizes where giving them selects the estimate."""


def _open(setting: Setting) -> Setting:
    """The setting made optional."""
    return replace(setting, default=None, help=ABOUT.get(setting.name, setting.help), parameter="")


ASKED: Mapping[str, Setting] = MappingProxyType({
    **group_settings(Where),
    **{name: _open(question_settings(serve).get(name) or Setting(name, NUMBERS[name], "", None, int))
       for name in (*ALL_SIZES, *SERVED)},
})  # fmt: skip
"""The settings of a query with an unknown or with knobs: those of all estimates of inference."""


TRAINED: Mapping[str, Setting] = MappingProxyType({
    name: replace(setting, default=None, help=f"With --tokens: {setting.help}", parameter="")
    for name, setting in group_settings(TrainingOptions).items()
})  # fmt: skip
"""The options of a training step. None of them applies unless it is given."""


def other_side(q: OpenQuestion, against: object) -> OpenQuestion:
    """The query with the settings of the other side. Raises InputError for a query of training."""
    changes = side_named(against)
    if q.subject == "train":
        raise InputError("against", against, "nothing: it is of inference")
    return q.under(setup(q.model, **{**q.others, **changes}))


def side_named(against: object) -> Settings:
    """Parse the settings of the other side. Raises InputError for settings that are not in `SIDES`.

    >>> side_named("on=b200,layout=tp=2,pp=2,precision=fp8")
    {'on': 'b200', 'layout': 'tp=2,pp=2', 'precision': 'fp8'}
    """
    if isinstance(against, Mapping):
        sides = dict(against)
    elif isinstance(against, str) and len(against) < 1000:
        sides = {}
        last = ""
        for part in against.split(","):
            key, equals, value = part.partition("=")
            if equals and key.strip() in SIDES:
                last = key.strip()
                if last in sides:
                    raise InputError("against", last, "each setting once")
                sides[last] = value.strip()
            elif last:
                sides[last] += f",{part.strip()}"
            else:
                raise InputError("against", part, f"settings among {', '.join(SIDES)}, as in `on=b200,precision=fp8`")
    else:
        raise InputError("against", against, "the settings to compare with, as in `on=b200,precision=fp8`")
    for name in sides:
        if name not in SIDES:
            raise not_one_of("against", name, SIDES)
    return sides


def side_text(against: object) -> str:
    """The settings of the other side as text; empty where there is no other side."""
    if against is None or isinstance(against, str):
        return against or ""
    items = against.items() if isinstance(against, Mapping) else ()
    return ",".join(f"{name}={value}" for name, value in items) or str(against)
