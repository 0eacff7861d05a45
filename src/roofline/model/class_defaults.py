"""What an architecture takes where a config.json leaves a key out: one table of the classes of transformers 5.23.

The table is generated (`tests/oracle/class_defaults.py`). A configuration saved as its difference from its class leaves
out whatever is as the class has it. The file is read once, where a key is missing, and of it one type's line is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from roofline.declared.trees import JsonObject

FILE = Path(__file__).with_name("families") / "class_defaults.json"


@dataclass(frozen=True)
class PartClass:
    """The class of a section of a config: `type` where the section names none, or whatever it says where `fixed`.

    `values`: what the section holds where it is missing altogether.
    """

    type: str
    fixed: bool
    values: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class ClassDefaults:
    """What the classes of a type say.

    Its keys and their `values`, null where they are worked out from others; other names of keys; the classes of its
    `parts`; the `bases`, its models without a head.
    """

    values: JsonObject = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, PartClass] = field(default_factory=dict)
    bases: tuple[str, ...] = ()

    def knows(self, key: str) -> bool:
        """Whether the class has that key, by any name."""
        return key in self.values or key in self.aliases or key in self.aliases.values() or key in self.parts


@cache
def class_defaults(model_type: str) -> ClassDefaults:
    """The defaults of a type; empty ones for a type that transformers does not have."""
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
