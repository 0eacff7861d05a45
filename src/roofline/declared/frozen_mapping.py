"""Read-only mappings that can be pickled."""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from roofline.declared.trees import TomlTable

Key = TypeVar("Key")
Entry = TypeVar("Entry")


def frozen(values: Mapping[Key, Entry]) -> Mapping[Key, Entry]:
    """A read-only copy of a mapping. Unlike Python's own read-only view, it can be pickled and copied.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(frozen({"a": 1})))["a"]
    1
    """
    return MappingProxyType(dict(values))


def frozen_tree(values: TomlTable) -> TomlTable:
    """A read-only copy of nested mappings."""
    return frozen({k: frozen_tree(v) if isinstance(v, Mapping) else v for k, v in values.items()})


def _parts(view: MappingProxyType[Any, Any]) -> tuple[Any, ...]:
    return frozen, (dict(view),)


copyreg.pickle(MappingProxyType, _parts)
