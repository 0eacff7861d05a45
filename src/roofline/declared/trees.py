"""The types of what files of JSON and TOML hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
else:

    class JsonValue:
        """A value of JSON."""


JsonObject: TypeAlias = Mapping[str, JsonValue]
"""An object of JSON: its members by name."""
TomlTable: TypeAlias = Mapping[str, Any]
"""A table of a TOML file, as Python's own reader types it: whoever reads one that a user wrote checks its values."""
