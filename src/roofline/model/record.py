"""Frozen dataclasses that share their constructor, comparison and repr.

`dataclass` generates and compiles these functions for every class, which takes longer than loading the rest of a
module, and a frozen instance sets its fields one by one. To readers and type checkers, a `record` is a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.declared.kinds import Given

__all__ = ["Record", "Value", "record"]
Kind = TypeVar("Kind")


class Record:
    """Base class of records. `values`: the fields by name; fields with a default may be omitted."""

    def __init__(self, **values: Given) -> None:
        kind: type = type(self)
        own = self.__dict__
        own.update(_defaults(kind))
        own.update(values)
        if own.keys() != _names(kind).keys():
            _refuse(kind, values)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        kind: type = type(self)
        return f"{kind.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in _names(kind))})"


class Value(Record):
    """A record that equals another of the same class with the same fields."""

    def __eq__(self, other: object) -> bool:
        kind: type = type(self)
        if type(other) is not type(self):
            return NotImplemented
        values = _values(kind)
        return bool(values(self) == values(other))

    def __hash__(self) -> int:
        kind: type = type(self)
        return hash(_values(kind)(self))


@cache
def _names(kind: type) -> Mapping[str, None]:
    return dict.fromkeys(f.name for f in fields(kind))


@cache
def _defaults(kind: type) -> Mapping[str, Any]:
    return {f.name: f.default for f in fields(kind) if f.default is not MISSING}


@cache
def _values(kind: type) -> Callable[[object], Any]:
    return attrgetter(*_names(kind))


def _refuse(kind: type, values: Mapping[str, Any]) -> None:
    missing = [name for name in _names(kind) if name not in _defaults(kind) and name not in values]
    unknown = [name for name in values if name not in _names(kind)]
    raise TypeError(f"{kind.__name__}: missing {missing}, unknown {unknown}")


if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, kw_only: bool, eq: bool) -> Callable[[type[Kind]], type[Kind]]:
        """Like `dataclass`, but generates no methods, since `Record` already has them."""
        return dataclass(kw_only=kw_only, eq=eq, init=False, repr=False)
