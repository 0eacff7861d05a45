"""Releases of engines: what changed between them, and which one a name means.

`vllm@0.11`, `vllm@0.11.2`, `vllm@2025-06` (the newest of that month or before), or nothing for the newest known one.
That is the release whose kernels and servers were measured, which `engines.toml` describes. `releases.toml` holds what
differs in others, row by row, each with a date and a source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.trees import TomlTable
from roofline.hardware.chip_files import Tables

FILE = Path(__file__).with_name("releases.toml")
Version: TypeAlias = tuple[int, ...]
_VERSION = re.compile(r"v?(\d{1,5}(?:\.\d{1,5}){0,3})(?:\.?(?:a|b|rc|post|dev)\d*)*")
_DATE = re.compile(r"(20\d\d)-(\d\d)(?:-\d\d)?")


@dataclass(frozen=True)
class ReleaseChange:
    """What changed with a release: fields of the engine `before` it, or `since` it.

    whole: before it, all fields that are not named have the defaults of `Engine`.
    """

    release: str
    date: str
    source: str
    before: TomlTable = field(default_factory=dict)
    since: TomlTable = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True)
class Releases:
    """The releases of an engine. newest: the one that `engines.toml` describes. months: of each, oldest first.

    former: names that a release had as an engine of its own.
    """

    newest: str
    months: Mapping[str, str]
    former: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[ReleaseChange, ...] = ()


def _releases(_: str, table: TomlTable) -> Releases:
    rows = tuple(ReleaseChange(**row) for row in table.get("changes", ()))
    return Releases(**{**table, "changes": rows})


@cache
def releases() -> Mapping[str, Releases]:
    """Engine → its releases."""
    return Tables(_releases, FILE)


@cache
def former_names() -> Mapping[str, tuple[str, str]]:
    """Name that a release had as an engine of its own → engine and release."""
    return {old: (id, release) for id, known in releases().items() for old, release in known.former.items()}


def version(text: str) -> Version:
    """The numbers of a version, without what marks a candidate or a build; empty for anything else.

    >>> version("0.11.2rc1"), version("v1.2.0rc2.post2"), version("nightly")
    ((0, 11, 2), (1, 2, 0), ())
    """
    match = _VERSION.fullmatch(text.strip().lower())
    return tuple(map(int, match[1].split("."))) if match else ()


def release_of(id: str, text: str) -> str:
    """The release of an engine that a version or a date means: `0.11`, `0.11.2`, `2025-06`.

    Raises InputError, with the nearest known ones, for a release that is not known.
    """
    known = releases().get(id)
    asked = text.strip()
    if known is None:
        raise InputError("engine", f"{id}@{text}", f"{id} without a release: none of its releases is known apart")
    names = tuple(known.months)
    first, last = names[0], names[-1]
    if match := _DATE.fullmatch(asked):
        month = f"{match[1]}-{match[2]}"
        by_then = [name for name, since in known.months.items() if since <= month]
        if by_then and "01" <= match[2] <= "12":
            return by_then[-1]
        raise InputError("engine", f"{id}@{text}", f"a month from {known.months[first]} on", [f"{id}@{first}"])
    numbers = version(asked)
    if numbers and any(numbers[: len(v)] == v for v in map(version, known.months)):
        return next((name for name in names if version(name) == numbers), ".".join(map(str, numbers)))
    expected = f"a release of {id} from {first} to {last}, or a date such as {id}@2025-12"
    raise InputError("engine", f"{id}@{text}", expected, [f"{id}@{name}" for name in _nearest(numbers, known)])


def _nearest(numbers: Version, known: Releases) -> list[str]:
    """The known releases on both sides of a version; the newest for what is no version."""
    if not numbers:
        return [known.newest]
    names = list(known.months)
    older = [name for name in names if version(name) <= numbers]
    newer = [name for name in names if version(name) > numbers]
    return [*newer[:1], *older[-1:]]


def nearest_release(id: str, text: str) -> str | None:
    """The release that measured rows name, as in `v0.11.0`, `1.2.0rc2.post2` or `2025-10`; None if it is not known."""
    try:
        return release_of(id, ".".join(map(str, version(text))) or text)
    except InputError:
        return None


def changed_fields(id: str, release: str) -> tuple[dict[str, Given], bool]:
    """Fields of an engine that differ in a release, and whether all others have the defaults of `Engine`."""
    numbers = version(release)
    rows = sorted(releases()[id].changes, key=lambda row: version(row.release))
    fields: dict[str, Given] = {}
    for row in rows:
        if numbers >= version(row.release):
            fields.update(row.since)
    whole = False
    for row in reversed(rows):
        if numbers < version(row.release):
            fields = dict(row.before) if row.whole else {**fields, **row.before}
            whole = whole or row.whole
    return fields, whole
