"""Machine files: TOML files of users, with one machine each, and the package's own, parsed table by table on demand."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import TomlTable
from roofline.model.sources.untrusted import LARGEST_MACHINE, parse_toml, printable, read_text

Entry = TypeVar("Entry")
SMALLEST, LARGEST_FIGURE = 1e-12, 1e24
"""Bounds on every figure of a machine, in the unit of its file, so that products of figures are finite."""
_HEADER = re.compile(r"^\[([\w-]+)", re.MULTILINE)


class Tables(Mapping[str, Entry]):
    """The top-level tables of the package's TOML files by name, in order, each parsed on first use.

    Names are unquoted at the start of a line, as in `[h100-sxm.memory]`. `build`: (name, table) → entry.
    """

    def __init__(self, build: Callable[[str, TomlTable], Entry], *paths: Path) -> None:
        self._build = build
        self._texts: dict[str, str] = {}
        self._entries: dict[str, Entry] = {}
        self._heads: dict[str, TomlTable] = {}
        for text in (path.read_text(encoding="utf-8") for path in paths):
            headers = [(h[1], h.start()) for h in _HEADER.finditer(text)]
            for (name, start), (_, end) in pairwise([*headers, ("", len(text))]):
                self._texts[name] = self._texts.get(name, "") + text[start:end]

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            self._entries[name] = self._build(name, tomllib.loads(self._texts[name])[name])
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def head(self, name: str) -> TomlTable:
        """The direct entries of a table, without nested tables or lists of tables."""
        if name not in self._heads:
            text = "\n" + self._texts[name]
            ends = [at for inner in (f"\n[{name}.", f"\n[[{name}.") if (at := text.find(inner)) >= 0]
            self._heads[name] = tomllib.loads(text[: min(ends, default=None)]).get(name, {})
        return self._heads[name]


def raw(name: str, table: TomlTable) -> TomlTable:
    """A table as it is in its file."""
    return table


def one_table(noun: str, path: Path) -> tuple[str, TomlTable]:
    """The name and the table of the only machine in a file; `noun` describes it in errors.

    Raises InputError for a file that cannot be read, is too large, is not TOML, or holds no machine or several.
    """
    field = printable(str(path))
    tables = parse_toml(read_text(path, LARGEST_MACHINE, field), field)
    if len(tables) != 1:
        raise InputError(noun, str(path), f"one {noun}, not {len(tables)}")
    ((name, table),) = tables.items()
    return name, table


def only_known(where: str, table: TomlTable, known: Iterable[str]) -> None:
    """Raises InputError, with the nearest known key, for an unknown key of the table."""
    known = tuple(known)
    for key in table:
        if key not in known:
            raise InputError(f"{where}.{key}", table[key], "a known key", nearest(str(key), known))


def plain_name(name: str) -> str:
    """Normalise a name for lookup: lower case, with hyphens."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def tables_of(key: str, table: object) -> list[tuple[str, TomlTable]]:
    """The tables of a table, by name. Raises InputError for anything else."""
    if not isinstance(table, Mapping):
        raise InputError(key, table, "a table")
    for name, value in table.items():
        if not isinstance(value, Mapping):
            raise InputError(f"{key}.{name}", value, "a table")
    return list(table.items())


def positive(key: str, value: object, zero: bool = False) -> float:
    """A positive figure of a machine, within its bounds; 0 too where `zero`. Raises InputError for anything else."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf or (value == 0 and not zero):  # type: ignore[operator]
        raise InputError(key, value, "a positive number")
    if value and not SMALLEST <= value <= LARGEST_FIGURE:  # type: ignore[operator]
        raise InputError(key, value, f"a positive number from {SMALLEST:g} to {LARGEST_FIGURE:g}")
    return float(value)  # type: ignore[arg-type]


def word(key: str, value: object) -> str:
    """A text. Raises InputError for anything else."""
    if not isinstance(value, str):
        raise InputError(key, value, "text")
    return value
