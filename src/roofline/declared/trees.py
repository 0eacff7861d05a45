"""The types of what files of JSON and TOML hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
"""A value of JSON."""
JsonObject: TypeAlias = Mapping[str, JsonValue]
"""An object of JSON: its members by name."""
TomlTable: TypeAlias = Mapping[str, Any]
"""A table of a TOML file, as Python's own reader types it: whoever reads one that a user wrote checks its values."""
