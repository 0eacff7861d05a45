"""Write settings as YAML, JSON and Python; values are booleans, numbers, strings and lists of these."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from roofline.declared.question import Settings
from roofline.training.emit.sizes import ConfigEntry, MadeBy, OptionValue


def nested(settings: Iterable[ConfigEntry]) -> Settings:
    """Settings with dotted names as nested tables.

    >>> nested([ConfigEntry("a.b", 1), ConfigEntry("a.c", True), ConfigEntry("d", "e")])
    {'a': {'b': 1, 'c': True}, 'd': 'e'}
    """
    tree: dict[str, Any] = {}
    for name, value in settings:
        *tables, last = name.split(".")
        table = tree
        for part in tables:
            table = table.setdefault(part, {})
        table[last] = value
    return tree


def config_json(settings: Iterable[ConfigEntry]) -> str:
    """Settings as indented JSON."""
    return json.dumps(nested(settings), indent=2) + "\n"


def yaml_text(settings: Iterable[ConfigEntry]) -> str:
    """Settings as YAML: one line per setting, nested tables indented, strings quoted."""
    return _yaml(nested(settings), 0)


def _yaml(table: Settings, depth: int) -> str:
    lines = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines.append(f"{'  ' * depth}{name}:\n{_yaml(value, depth + 1)}")
        else:
            lines.append(f"{'  ' * depth}{name}: {_word(value)}\n")
    return "".join(lines)


def python_text(settings: Iterable[ConfigEntry]) -> str:
    """Settings as a Python function that sets the fields of a config and returns it."""
    every = list(settings)
    made = [value for _, value in every if isinstance(value, MadeBy)]
    imports = (f"    from {x.module} import {x.name.partition('.')[0]}" for x in dict.fromkeys(made))
    lines = (f"    config.{name} = {_literal(value)}" for name, value in every)
    return "\n".join(["def planned(config):", *imports, *lines, "    return config", ""])


def _literal(value: OptionValue) -> str:
    """A value in Python: lists for tuples."""
    if isinstance(value, MadeBy):
        return f"{value.name}()"
    return f"[{', '.join(map(_literal, value))}]" if isinstance(value, tuple) else repr(value)


def _word(value: OptionValue) -> str:
    """A value in the syntax common to YAML and JSON."""
    if isinstance(value, tuple):
        return f"[{', '.join(_word(part) for part in value)}]"
    return json.dumps(value)


def commented(lines: Iterable[str]) -> str:
    """Comment lines for shell, Python and YAML."""
    return "".join(f"# {line}\n" for line in lines)
