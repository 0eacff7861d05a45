"""Where a config came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.declared.trees import JsonObject

if TYPE_CHECKING:
    from roofline.model.gguf.header import GgufHeader


@dataclass(frozen=True)
class Origin:
    """A config, its name, and where it was.

    `folder`: that of a config.json, or `repository` and `commit` of the Hub; neither for a dict, the catalog and files
    of other names. `catalogued`: it is a config of the catalog. `notes`: what could not be learned on the way.
    """

    name: str
    raw: JsonObject
    folder: Path | None = None
    repository: str = ""
    commit: str = ""
    catalogued: bool = False
    notes: tuple[str, ...] = ()
    gguf: GgufHeader | None = None


def is_gguf(name: str) -> bool:
    """Whether a name is that of a GGUF file."""
    return name.lower().endswith(".gguf")
