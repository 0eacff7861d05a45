"""Settings and numbers, as they are given, made a question; and the settings of another side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.estimates.deployment import deploy, is_several
from roofline.estimates.settings import Setup, setup
from roofline.explore.open_numbers import HARDWARE
from roofline.explore.open_question import ALL_SIZES, OpenQuestion, Sizing
from roofline.explore.requirements import Requirement
from roofline.machine.engine import trainer_named
from roofline.machine.target import mode_named
from roofline.model.quantization.asked import formats_of

SIDES = ("on", "layout", "precision", "engine", "law")
"""Settings in which the other side of a comparison may differ."""


def question_of(
    model: Any, find: str, requirements: tuple[Requirement, ...], strict: bool, settings: Mapping[str, Any]
) -> OpenQuestion:
    """The question of settings and numbers. Raises InputError for what is unknown, missing or does not go together."""
    sizes = {name: settings[name] for name in (*ALL_SIZES, "prefix", "formula") if settings.get(name) is not None}
    sizing = Sizing(**sizes)
    for name in ALL_SIZES:
        if np.shape(getattr(sizing, name)):
            raise InputError(name, getattr(sizing, name).tolist(), "one number")
    subject = sizing.subject(find) if sizes or find in ALL_SIZES else "decode"
    others = {name: value for name, value in settings.items() if name not in (*sizes, *ALL_SIZES, "prefix", "formula")}
    if others.get("on") is None:
        raise InputError("on", None, "a chip or a cluster")
    if subject != "train":
        unknown = next((name for name in others if name not in SIDES), None)
        if unknown is not None:
            raise not_one_of("setting", unknown, (*SIDES, *ALL_SIZES, "prefix", "formula"))
        asked = setup(model, **others)
        return OpenQuestion(subject, asked, sizing, requirements, others["on"], strict, others)
    on, layout = others.pop("on"), others.pop("layout", None)
    if layout is None and is_several(on):
        raise InputError("layout", None, "degrees such as `tp=2,dp=4,zero=1`: of training they are not chosen")
    engine, law = trainer_named(others.pop("engine", None)), mode_named(others.pop("law", "calibrated"))
    built, formats = formats_of(model, others.get("precision"))
    del built
    deployment = deploy(on, layout)
    if find in HARDWARE and deploy(deployment.chip, layout).cluster.levels != deployment.cluster.levels:
        raise InputError("on", deployment.cluster.name, "a chip and a layout")
    return OpenQuestion(
        subject, Setup(model, deployment, formats, engine, law), sizing, requirements, on, strict, others
    )  # fmt: skip


def other_side(q: OpenQuestion, against: object) -> OpenQuestion:
    """The question of the other side."""
    changes = side_named(against)
    if q.subject == "train":
        raise InputError("against", against, "nothing: it is of inference")
    return q.under(setup(q.model, **{**q.others, **changes}))


def side_named(against: object) -> dict[str, Any]:
    """Settings of the other side. Raises InputError for others than those of `SIDES`.

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
        raise InputError("against", against, "settings of the other side, as in `on=b200,precision=fp8`")
    for name in sides:
        if name not in SIDES:
            raise not_one_of("against", name, SIDES)
    return sides


def side_text(against: object) -> str:
    """The other side in words."""
    if against is None or isinstance(against, str):
        return against or ""
    items = against.items() if isinstance(against, Mapping) else ()
    return ",".join(f"{name}={value}" for name, value in items) or str(against)
