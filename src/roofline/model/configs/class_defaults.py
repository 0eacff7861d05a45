"""Defaults for keys that a config.json leaves out: one table of the configuration classes of transformers 5.23.

The table is generated (`tests/oracle/class_defaults.py`). A configuration that was saved as the difference from its
class leaves out every value that equals the class's default. The file is read once, when a key is first missing, and
only the line of the type is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from roofline.declared.trees import JsonObject

FILE = Path(__file__).with_name("class_defaults.json")


@dataclass(frozen=True)
class PartClass:
    """Class of a section of a config.

    `type`: the section's type where it names none, or always if `fixed`. `values`: content of the section where it is
    missing altogether.
    """

    type: str
    fixed: bool
    values: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class ClassDefaults:
    """Defaults of the configuration class of one model type.

    `values`: default of each key, null where it is computed from other keys. `aliases`: other names of keys. `parts`:
    classes of the sections. `bases`: the type's models without a head.
    """

    values: JsonObject = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, PartClass] = field(default_factory=dict)
    bases: tuple[str, ...] = ()

    def knows(self, key: str) -> bool:
        """Whether the class has the key, under any of its names."""
        return key in self.values or key in self.aliases or key in self.aliases.values() or key in self.parts


@cache
def class_defaults(model_type: str) -> ClassDefaults:
    """Defaults of a model type; empty for a type that transformers does not have."""
    start = _table().find(f"\n{json.dumps(model_type)}: ")
    if start < 0:
        return ClassDefaults()
    line = _table()[start + 1 : _table().index("\n", start + 1)].rstrip(",")
    entry = json.loads(f"{{{line}}}")[model_type]
    parts = {key: PartClass(**part) for key, part in entry.get("parts", {}).items()}
    return ClassDefaults(entry.get("values", {}), entry.get("aliases", {}), parts, tuple(entry.get("bases", ())))


@cache
def _table() -> str:
    return FILE.read_text("utf-8")
