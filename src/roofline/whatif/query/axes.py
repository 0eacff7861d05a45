"""Parse the axes of a sweep into the space that they span."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from types import MappingProxyType

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.groups import LengthSpread, Where
from roofline.declared.kinds import Given, ValueKind, text_kind
from roofline.declared.numbers.arrays import Array
from roofline.declared.question import Setting, Settings, group_settings, question_settings
from roofline.engines.engine import engine_named
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster
from roofline.inference.deployment import machine_chip
from roofline.inference.settings import setting_labels
from roofline.kernels.target import mode_named
from roofline.layout.layout import DEGREES, Layout, layout_named
from roofline.model.checkpoints.quantization.asked import formats_of
from roofline.model.load import Source, decoder_of, model_of
from roofline.model.model import Model
from roofline.model.precision import Precision
from roofline.serving.serve import serve
from roofline.whatif.query.parsing import ASKED, TRAINED
from roofline.whatif.query.query import ALL_SIZES
from roofline.whatif.query.questions import AXIS_NAMES, QUESTIONS, SERVED, Question, question_named
from roofline.whatif.query.ranges import LONGEST_TEXT, layouts_named, values_of
from roofline.whatif.search.space import Choice, Numbers, Space
from roofline.work.training import training

SETTINGS = (*(name for name, s in group_settings(Where).items() if s.kind.varies and name != "on"), "figures")
"""Axes of settings other than the model and the machine."""
AXES: Mapping[str, Setting] = MappingProxyType({
    name: replace(setting, kind=text_kind(), default=None) for name, setting in {**ASKED, **TRAINED}.items()
    if name in ASKED or name in (*QUESTIONS["train"].axes, *QUESTIONS["train"].options) if name != "on"
})  # fmt: skip
"""Axes other than the models and the machines. Their values are written as text."""
NUMBERS = frozenset({*ALL_SIZES, *DEGREES, *QUESTIONS["train"].axes, "prefix"})
"""Numeric axes."""
MOST_FIGURES = 4096
"""Limit on combinations of chip figures. A short text can span very many."""
CHECKPOINT = "checkpoint"
"""Name of the checkpoint's own formats on the axis `precision`."""


def space_of(model: Model | Source | Sequence[Model | Source], phase: str, axes: Settings) -> Space:
    """The space spanned by axes as `sweep` takes them. Raises InputError for an unknown axis or an invalid value."""
    question = question_named(phase)
    known = ("on", *SETTINGS, *DEGREES, *question.axes, *question.options)
    given = {AXIS_NAMES.get(name, name): value for name, value in axes.items() if value is not None}
    for name in given:
        if name not in known:
            raise not_one_of("axis", name, known)
    if "on" not in given:
        raise InputError("on", None, "a chip or a cluster, or a list of them")
    loaded = model_of if phase in ("prefill", "train") else decoder_of
    models = [loaded(m) for m in several(model, (str, os.PathLike, Mapping, Model))]
    settings = [_choice("model", models), _choice("on", several(given["on"], (str, os.PathLike, Chip, Cluster)))]
    for machine in settings[1].settings:
        machine_chip(machine)
    layouts = _layouts(given)
    settings += [] if layouts is None else [Choice("layout", *_named(layouts))]
    for name in (*SETTINGS[1:], *question.options):
        if name in given:
            settings.append(_choice(name, _checked(name, given[name], models)))
    return Space(phase, tuple(settings), _numbers(question, given))


def several(value: Given, one: tuple[type, ...]) -> list[Given]:
    """A value or a list of values, as a list. Raises InputError for an empty list."""
    values = [value] if value is None or isinstance(value, one) else list(value)
    if not values:
        raise InputError("axis", value, "at least one value")
    return values


def _choice(name: str, values: Sequence[Given]) -> Choice:
    names = [CHECKPOINT if name == "precision" and value is None else value for value in values]
    return Choice(name, tuple(values), setting_labels(name, names))


def _checked(name: str, value: Given, models: Sequence[Model]) -> list[Given]:
    """The values of an axis of settings, each checked. Raises InputError for an invalid value."""
    if name == "figures":
        return [text for word in several(value, (str,)) for text in figures_named(word)]
    kinds: Mapping[str, Callable[[Given], object]] = {
        "precision": lambda v: any(_has_formats(m, v, m is models[-1]) for m in models),
        "engine": lambda v: engine_named(v) if v is not None else None, "law": mode_named,
    }  # fmt: skip
    if name in SERVED:
        kind, words = question_settings(serve)[name].kind, several(value, (str, int, float))
        return [kind.check(name, _of_word(name, kind, v) if isinstance(v, str) else v) for v in words]
    check = kinds.get(name, lambda v: training(1, 1, **{name: v}))
    values = several(value, (str, Precision, Mapping))
    for each in values:
        check(each)
    return values


def _of_word(name: str, kind: ValueKind, word: str) -> Given:
    """A value parsed from text; a flag is written `yes` or `no`."""
    if bool not in kind.json:
        return kind.read(name, word)
    if word not in ("yes", "no"):
        raise InputError(name, word, "yes or no")
    return word == "yes"


def _has_formats(model: Model, spec: Given, last: bool) -> bool:
    """Whether a model supports these formats. Raises InputError where `last` is set and it does not."""
    try:
        formats_of(model, spec)
    except InputError:
        if last:
            raise
        return False
    return True


def figures_named(text: str) -> list[str]:
    """Every combination of chip figures: `bw=2T,4T,mem=80G` gives two. A bare number continues the key before it.

    Raises InputError for a word without a key, and for more than 4,096 combinations.

    >>> figures_named("bw=2T,4T,mem=80G")
    ['bw=2T,mem=80G', 'bw=4T,mem=80G']
    """
    if len(text) > LONGEST_TEXT:
        raise InputError("figures", text, f"at most {LONGEST_TEXT} characters")
    keys: list[list[str]] = []
    for word in (part.strip() for part in text.split(",")):
        if "=" in word:
            keys.append([word])
        elif word and keys:
            keys[-1].append(f"{keys[-1][0].partition('=')[0]}={word}")
        else:
            raise InputError("figures", word, "figures such as bw=2T,4T")
    if prod(map(len, keys)) > MOST_FIGURES:
        raise InputError("figures", f"{prod(map(len, keys)):,}", f"at most {MOST_FIGURES:,} combinations")
    return [",".join(words) for words in product(*keys)]


def _layouts(given: Settings) -> list[Layout | InputError | None] | None:
    """Every layout asked for, or its error; None where no layout axis is given."""
    degrees = {name: given[name] for name in DEGREES if name in given}
    if degrees and "layout" in given:
        raise InputError("layout", given["layout"], f"either layouts or {' and '.join(degrees)}")
    if degrees:
        texts = (f"{name}={','.join(map(str, values_of(name, v).tolist()))}" for name, v in degrees.items())
        return list(layouts_named("layout", ",".join(texts)))
    if "layout" not in given:
        return None
    layouts: list[Layout | InputError | None] = []
    for spec in several(given["layout"], (str, Mapping, Layout)):
        if isinstance(spec, str):
            layouts += layouts_named("layout", spec)
        elif isinstance(spec, Mapping):
            names, lists = list(spec), [several(v, (int, str, float, np.integer)) for v in spec.values()]
            layouts += [layout_named(dict(zip(names, chosen, strict=True))) for chosen in product(*lists)]
        else:
            layouts.append(None if spec is None else layout_named(spec))
    for layout in layouts:
        if isinstance(layout, Layout) and layout.shape:
            raise InputError("layout", layout.text(), "one layout, or a list of them")
    return layouts


def _named(
    layouts: Sequence[Layout | InputError | None],
) -> tuple[tuple[Layout | InputError | None, ...], tuple[str, ...]]:
    """Unique layouts and their names. An invalid layout is represented by its error."""
    by_name: dict[str, Layout | InputError | None] = {}
    for layout in layouts:
        text = "whole machine" if layout is None else layout.text() if isinstance(layout, Layout) else str(layout)
        while isinstance(layout, InputError) and text in by_name:
            text += " "  # every invalid layout counts as a layout of its own
        by_name.setdefault(text, layout)
    return tuple(by_name.values()), tuple(by_name)


def _numbers(question: Question, given: Settings) -> tuple[Numbers, ...]:
    """The numeric axes of a question, in the order in which it declares them."""
    if question.name == "serve" and ("concurrency" in given) == ("rate" in given):
        got = "both" if "rate" in given else "neither"
        raise InputError("concurrency", got, "either a concurrency or a rate")
    axes, equal = [], given.get("formula") is False  # without the formula, requests have equal lengths
    for name in question.axes:
        value = given.get(name, question.given.get(name))
        if equal and name in group_settings(LengthSpread) and name not in given:
            value = 0.0
        if value is None:
            if name not in question.given:
                raise InputError(name, None, f"numbers: {question.name} is asked over {', '.join(question.axes)}")
            continue
        axes.append(Numbers(name, _in_range(name, values_of(name, value))))
    return tuple(axes)


def _in_range(name: str, values: Array) -> Array:
    """The numbers of an axis. Raises InputError for numbers outside its range."""
    served = question_settings(serve).get(name)
    if served is not None and float in served.kind.json:
        checked: Array = served.kind.check(name, values)
        return checked
    least = 0 if name == "context" else 1
    if values.dtype.kind == "f" or values.min() < least or values.max() > 2**40:
        raise InputError(name, values.tolist() if values.size < 9 else values.min(), f"whole numbers from {least}")
    return values
