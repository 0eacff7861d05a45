"""The page's form as data, built from the declarations of settings plus the presentation choices in this module."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import inf
from types import MappingProxyType

from roofline.declared.checks import LARGEST
from roofline.declared.groups import DEGREES
from roofline.declared.question import OLD_NAMES, Setting
from roofline.declared.trees import JsonValue
from roofline.doors.web.answers import MOST_EVENTS
from roofline.doors.web.page.scenario import ASKS, INSTEAD, LEAST_SWEPT, SETTINGS, SWEPT, Scenario, usual
from roofline.engines.engine import engines
from roofline.engines.releases import releases
from roofline.version import __version__
from roofline.whatif.machine_choice import WORK

PARTS: Mapping[str, str] = MappingProxyType({"where": "machine", "load": "workload", "slo": "workload", "bill": "cost"})
"""Settings group → form section that shows it; all other groups are in the section "more"."""
SLIDERS: Mapping[str, tuple[int, int]] = MappingProxyType({
    "input": (16, 131072), "output_tokens": (1, 16384), "concurrency": (1, 4096)
})  # fmt: skip
"""Setting → minimum and maximum of its slider."""
WIDE = ("on", "price")
"""Settings with wide text fields."""
SUGGESTED: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "engine": (*engines(), *(f"{id}@{name}" for id, known in releases().items() for name in known.months)),
    "law": ("calibrated", "ideal", "fixed(0.5,0.7)"),
    "format": ("fp8", "weights=int4", "weights=fp8,kv=fp8", "kv=fp8"),
})  # fmt: skip
"""Kind of name in a text field → suggestions; suggestions of models and machines come from the catalogs."""


def page_form(start: Scenario | None = None) -> dict[str, JsonValue]:
    """Data of the form: its sections, the settings, the requests of each view, and the initial scenario."""
    return {
        "parts": [{"part": part, "group": group, "settings": names} for part, group, names in _parts()],
        "settings": {name: _control(setting) for name, setting in SETTINGS.items()},
        "asks": {
            name: {"question": ask.question, "fields": dict(ask.fields), "fixed": dict(ask.fixed)}
            for name, ask in ASKS.items()
        },
        "usual": dict(usual()), "start": started(start or Scenario()),
        "instead": dict(INSTEAD), "former": dict(OLD_NAMES),
        "suggested": {name: list(words) for name, words in SUGGESTED.items()},
        "swept": list(SWEPT), "leastSwept": LEAST_SWEPT, "mostEvents": MOST_EVENTS,
        "titles": {name: engine.titled for name, engine in engines().items()}, "version": __version__,
        "work": list(WORK),
    }  # fmt: skip


def started(start: Scenario) -> dict[str, JsonValue]:
    """Convert a scenario to the page's state."""
    named = isinstance(start.model, str)
    model: dict[str, JsonValue] = {"model": start.model} if named else {"model": "", "config": start.model}
    return {**model, "phase": start.phase, **start.settings}


def form_text(start: Scenario | None = None) -> str:
    """The form as JSON that is safe to embed in HTML."""
    text = json.dumps(page_form(start), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _parts() -> Iterator[tuple[str, str, list[str]]]:
    """Yield (section, group, settings); settings with sliders first, then their alternatives, then the others."""
    parts: dict[tuple[str, str], list[str]] = {}
    for name, setting in SETTINGS.items():
        part = "more" if name in DEGREES else PARTS.get(setting.parameter, "more")
        parts.setdefault((part, setting.parameter), []).append(name)
    for (part, group), names in parts.items():
        yield part, group, sorted(names, key=lambda n: 0 if n in SLIDERS else 1 if n in INSTEAD.values() else 2)


def _control(setting: Setting) -> dict[str, JsonValue]:
    kind = setting.kind
    fixed = setting.default if isinstance(setting.default, (bool, int, float, str)) and setting.default != inf else None
    control: dict[str, JsonValue] = {
        "group": setting.parameter, "help": setting.help, "unit": kind.unit, "range": _range(setting),
        "default": fixed, "type": _type(setting), "words": list(kind.words), "names": kind.names,
        "least": kind.least, "most": kind.most if kind.most != LARGEST else None, "whole": int in kind.json,
        "numeric": bool({int, float} & {*kind.json}), "example": _example(setting), "wide": setting.name in WIDE,
        "slider": list(SLIDERS[setting.name]) if setting.name in SLIDERS else None,
    }  # fmt: skip
    return {name: value for name, value in control.items() if value is not None and value not in ("", [])}


def _type(setting: Setting) -> str:
    kind = setting.kind
    if bool in kind.json:
        return "switch"
    return "choice" if kind.words else "text" if str in kind.json else "number"


def _range(setting: Setting) -> str:
    """The valid range of a setting, in words.

    >>> _range(SETTINGS["prefix"]), _range(SETTINGS["rate"]), _range(SETTINGS["rounds"])
    ('from 0, below 1', 'above 0, at most 1e+09', 'from 1')
    """
    kind = setting.kind
    parts = [] if kind.least is None else [f"{'above' if kind.above else 'from'} {kind.least:g}"]
    if kind.most is not None and kind.most != LARGEST:
        parts.append(f"{'below' if kind.below else 'at most'} {kind.most:g}")
    return ", ".join(parts)


def _example(setting: Setting) -> str:
    """The first example in the help text of a free-text setting, else ""."""
    if str not in setting.kind.json or setting.kind.names:
        return ""
    example = re.search(r"`([^`]+)`", setting.help)
    return example[1] if example else ""
