"""A table from a kind of module or op to what it does there: its lowering, its FLOPs, its gradient, its law.

A kind stands in a table because somebody put it there. There is no default: a kind that a table lacks is an error that
names both, and putting a kind there twice is one too.

>>> words: KindTable[str] = KindTable("words", LookupError, without=(KeyError,))
>>> words.add("beyond the end", IndexError)
>>> words[IndexError]
'beyond the end'
>>> words[KeyError]
Traceback (most recent call last):
roofline.model.kind_table.MissingKindError: KeyError has no entry in the table of words
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

Entry = TypeVar("Entry")
OfKind: TypeAlias = Callable[[Any], Entry]
"""A function in a table, which takes a value of its kind."""


class MissingKindError(LookupError):
    """Raised for a kind that a table has no entry for."""


class KindTable(Generic[Entry]):
    """Mapping of kinds (classes) to entries.

    `name`: what the entries are. `domain`: base class whose kinds the table must contain, except those in `without`.
    `base`: a table whose entries apply to kinds that this one lacks.
    """

    def __init__(
        self, name: str, domain: type, without: tuple[type, ...] = (), base: KindTable[Entry] | None = None
    ) -> None:
        self.name = name
        self.domain = domain
        self.without = without
        self.base = base
        self._entries: dict[type, Entry] = {}

    def add(self, entry: Entry, *kinds: type) -> None:
        """Add an entry for kinds. Raises ValueError for a kind that has one already."""
        for kind in kinds:
            if kind in self._entries:
                raise ValueError(f"{kind.__name__} stands in the table of {self.name} twice")
            self._entries[kind] = entry

    def of(self, *kinds: type) -> Callable[[Entry], Entry]:
        """Decorator that adds the decorated function for these kinds."""

        def register(entry: Entry) -> Entry:
            self.add(entry, *kinds)
            return entry

        return register

    def __getitem__(self, kind: type) -> Entry:
        entry = self._entries.get(kind)
        if entry is not None:
            return entry
        if self.base is not None and kind in self.base:
            return self.base[kind]
        raise MissingKindError(f"{kind.__name__} has no entry in the table of {self.name}")

    def __contains__(self, kind: object) -> bool:
        return kind in self._entries or (self.base is not None and kind in self.base)

    @property
    def missing(self) -> tuple[type, ...]:
        """Kinds of the domain that the table lacks."""
        return tuple(kind for kind in kinds(self.domain) if kind not in self and kind not in self.without)

    def __iter__(self) -> Iterator[type]:
        return iter({**dict.fromkeys(self.base or ()), **self._entries})


def kinds(base: type) -> tuple[type, ...]:
    """All leaf classes below a base: subclasses that have no subclasses."""
    below: list[type] = base.__subclasses__()
    return tuple(kind for sub in below for kind in (kinds(sub) or (sub,)))
