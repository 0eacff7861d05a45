"""Origin of a config."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.declared.trees import JsonObject

if TYPE_CHECKING:
    from roofline.model.checkpoints.gguf.header import GgufHeader


@dataclass(frozen=True)
class Origin:
    """A config, its name, and its origin.

    `folder`: folder of a config.json; `repository` and `commit`: those on the Hub. A dict, the catalog and files with
    other names have neither. `catalogued`: the config is from the catalog. `notes`: facts that could not be determined.
    `gguf`: header of the GGUF file that the config comes from.
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
    """Whether a file name is that of a GGUF file."""
    return name.lower().endswith(".gguf")
