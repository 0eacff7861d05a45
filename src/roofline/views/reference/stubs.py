"""The library's type stub: every question with its groups, and with their settings as keyword arguments.

`python -m roofline.views.reference.stubs` prints src/roofline/__init__.pyi. A required group is an argument in one
overload and flattened in another; if lists of settings make a grid, further overloads take lists. Other names are
imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import isfinite
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import roofline
from roofline.declared import kinds
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, Symbol
from roofline.declared.question import (
    NEEDED,
    Declaration,
    Function,
    Hint,
    Setting,
    declaration_of,
    group_settings,
    makes_grids,
)
from roofline.views.reference.settings import questions

HEAD = '''"""Roofline's library. Generated: `python -m roofline.views.reference.stubs > src/roofline/__init__.pyi`."""

# fmt: off
# ruff: noqa: I001, RUF022
from os import PathLike
from typing import Any, Literal, TypeAlias, overload
'''
WIDEST = 120
KINDS = {id(note): name for name, hint in vars(kinds).items() for note in getattr(hint, "__metadata__", ())}
"""Aliases of kinds of values, by identity."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a stub; `alone`: keyword-only."""

    name: str
    type: str
    default: str | None
    alone: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


@dataclass(frozen=True)
class Stub:
    """State of the writer: imported names by module, and aliases for kinds of values."""

    imports: dict[str, set[str]] = field(default_factory=lambda: {"collections.abc": {"Mapping", "Sequence"}})
    aliases: dict[str, str] = field(default_factory=dict)

    def name(self, module: str, name: str) -> str:
        """Import a name of a module."""
        if name not in roofline.__all__ and module != "typing":
            self.imports.setdefault(module, set()).add(name)
        return name

    def type(self, hint: Hint) -> str:
        """A type hint as text."""
        origin: Hint = get_origin(hint)
        arguments = get_args(hint)
        if hint in (None, NoneType, Ellipsis):
            return "..." if hint is Ellipsis else "None"
        if isinstance(hint, list):
            return f"[{', '.join(map(self.type, hint))}]"
        if origin in (UnionType, Union):
            return " | ".join(map(self.type, arguments))
        if origin is not None:
            inner = map(repr if origin is Literal else self.type, arguments)
            return f"{self.type(origin)}[{', '.join(inner)}]"
        return str(hint.__name__) if hint.__module__ == "builtins" else self.name(hint.__module__, hint.__name__)

    def kind(self, setting: Setting) -> str:
        """The type of a setting, by the alias of its kind."""
        name, written = KINDS.get(id(setting.kind)), self._values(setting)
        if name is None or bool in setting.kind.json:
            return written
        self.aliases[f"_{name}"] = written
        return f"_{name}"

    def _values(self, setting: Setting) -> str:
        """Types that the library accepts: literals, one number or several, an object of a class."""
        kind = setting.kind
        if setting.hint is Count:
            number = kind.json[0].__name__
            return f"{number} | {self.type(Array)} | {self.type(Symbol)} | Sequence[{number}]"
        plain = [f"Literal[{', '.join(map(repr, kind.words))}]"] if kind.words else [t.__name__ for t in kind.json]
        for name in kind.classes:
            module, dot, own = name.rpartition(".")
            plain.append(self.name(module, own) if dot else name)
        return " | ".join(plain)

    # -- questions -------------------------------------------------------------------------------------------------
    def question(self, name: str, function: Function) -> Iterator[str]:
        """A question's overloads: each required group flattened or as an argument; then the same with lists."""
        declared = declaration_of(function)
        needed = [_needs(declared, p) for p in declared.groups]
        choices = [("flat", "whole") if any(needed[i:]) else ("either",) for i in range(len(needed))]
        grids = makes_grids(function)
        answer = self.type(get_type_hints(declared.function)["return"])
        every = list(product((False, True) if grids else (True,), product(*choices)))
        for lists, choice in every:
            ways = dict(zip(declared.groups, choice, strict=True))
            parameters = list(self._parameters(declared, ways, lists, models=grids and lists))
            yield from ["@overload"] * (len(every) > 1)
            yield from _signature(name, parameters, "Grid | Any" if grids and lists else answer)

    def _parameters(
        self, declared: Declaration, ways: dict[str, str], lists: bool, models: bool
    ) -> Iterator[Parameter]:
        """Parameters of one overload: those of the function with its group arguments, then flattened settings."""
        hints, alone = get_type_hints(declared.function, include_extras=True), False
        named = declared.parameters
        for name, parameter in named.items():
            alone = alone or parameter.kind is parameter.KEYWORD_ONLY or ways.get(name) == "flat"
            default = None if parameter.default is NEEDED else _default(parameter.default)
            if name in declared.groups:
                if ways[name] == "whole":
                    yield Parameter(name, self.type(declared.groups[name]), None, alone)
                elif ways[name] == "either":
                    optional = [] if parameter.default is NEEDED else [_optional(parameter.default)]
                    own = [self.kind(declared.settings[name])] if name in declared.settings else []
                    written = " | ".join([self.type(declared.groups[name]), *own, *filter(None, optional)])
                    yield Parameter(name, written, default or "...", alone)
            elif name == "model":
                several = " | Sequence[Model | Source]" if models else ""
                yield Parameter(name, f"Model | {self.name('roofline.model.load', 'Source')}{several}", default, alone)
            elif name in declared.settings:
                yield self._setting(declared.settings[name], default, lists, alone)
            else:
                yield Parameter(name, self.type(hints[name]), default, alone)
        for setting in declared.settings.values():
            if setting.name not in named:
                whole = ways.get(setting.parameter) == "whole"
                if not (whole and setting.needed):
                    yield self._setting(setting, None if setting.needed else _default(setting.default), lists, True)

    def _setting(self, setting: Setting, default: str | None, lists: bool, alone: bool) -> Parameter:
        """A setting as a parameter; with `lists`, settings that may vary accept lists."""
        types = [self.kind(setting)]
        if lists and setting.kind.varies:
            types.append(f"Sequence[{types[0]}]")
        if setting.default is None:
            types.append("None")
        return Parameter(setting.name, " | ".join(types), default, alone)


def _needs(declared: Declaration, parameter: str) -> bool:
    """Whether a group is required because one of its settings is."""
    given = declared.parameters[parameter].default is NEEDED
    return given and any(setting.needed for setting in group_settings(declared.groups[parameter]).values())


def _default(value: object) -> str:
    """A default as text; `...` for values that are not plain."""
    plain = value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and isfinite(value))
    return repr(value) if plain else "..."


def _optional(default: object) -> str:
    return "None" if default is None else ""


def _signature(name: str, parameters: Iterable[Parameter], answer: str) -> Iterator[str]:
    """Lines of a function signature; required keyword-only parameters come first."""
    ordered = list(parameters)
    placed = [p for p in ordered if not p.alone]
    named = sorted((p for p in ordered if p.alone), key=lambda p: p.default is not None)
    yield f"def {name}("
    yield from _lines([*map(str, placed), *(["*"] if named else []), *map(str, named)])
    yield f") -> {answer}: ..."


def _lines(words: Iterable[str]) -> Iterator[str]:
    """Words separated by commas, as many per line as fit."""
    line = ""
    for word in words:
        if line and len(line) + len(word) + 6 > WIDEST:
            yield f"    {line}"
            line = ""
        line += f"{' ' if line else ''}{word},"
    yield f"    {line}"


def stub() -> str:
    """The stub."""
    written, asked = Stub(), dict(questions())
    functions = [line for name, function in asked.items() for line in (*written.question(name, function), "")]
    lent = [(module, name) for name, module in vars(roofline)["_WHERE"].items() if name not in asked]
    imported = [
        *(f"from roofline.{module} import {name} as {name}" for module, name in lent),
        *(f"from {module} import {', '.join(sorted(names))}" for module, names in written.imports.items()),
        "from roofline.version import __version__ as __version__",
    ]
    aliases = [f"{name}: TypeAlias = {type}" for name, type in sorted(written.aliases.items())]
    names = ["__all__ = [", *_lines(f'"{name}"' for name in roofline.__all__), "]"]
    parts = (sorted(imported), aliases, functions, names)
    return HEAD + "\n".join(line for part in parts for line in (*part, ""))


if __name__ == "__main__":
    print(stub(), end="")
