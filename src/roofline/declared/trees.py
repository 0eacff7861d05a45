"""The types of values in JSON and TOML files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
else:

    class JsonValue:
        """A JSON value."""


JsonObject: TypeAlias = Mapping[str, JsonValue]
"""A JSON object: its members by name."""
TomlTable: TypeAlias = Mapping[str, Any]
"""A table of a TOML file, as Python's own reader types it. Readers of user files check its values."""
