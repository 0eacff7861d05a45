"""Check every config in a folder: read exactly, read with warnings, or refused, with reasons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from roofline.declared.errors import InputError
from roofline.model.load import load
from roofline.model.sources.hub import CONFIG_NAME
from roofline.model.sources.untrusted import printable, read_config

Outcome: TypeAlias = Literal["exact", "warned", "refused"]


@dataclass(frozen=True)
class CheckedConfig:
    """Result of checking one config."""

    path: str
    "Within the folder."
    outcome: Outcome
    "`exact`: all of it was understood; `warned`: counted, though `reasons` leave doubts; `refused`: not counted."
    model_type: str | None
    "Of the language model; none where it was refused."
    parameters: int | None
    "Of the language model; none where it was refused."
    weight_bytes: int | None
    "In the formats of the config; none where it was refused."
    reasons: tuple[str, ...]
    "The warnings, or why it was refused."


def checked_configs(folder: Path) -> tuple[CheckedConfig, ...]:
    """Check every config in a folder and its subfolders, sorted by path.

    Configs are files called config.json and other JSON objects with a `model_type`. Links to folders are not followed.
    Raises InputError if the folder does not exist.
    """
    if not folder.is_dir():
        raise InputError("--check", printable(str(folder)), "a folder")
    return tuple(_checked(folder, path) for path in sorted(_json_files(folder)) if _is_config(path))


def _json_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if name.endswith(".json"))


def _is_config(path: Path) -> bool:
    if path.name == CONFIG_NAME:
        return True
    try:
        return "model_type" in read_config(path)
    except InputError:
        return False


def _checked(folder: Path, path: Path) -> CheckedConfig:
    place = printable(path.relative_to(folder).as_posix())
    try:
        model = load(path)
        size = int(model.weight_bytes())
    except InputError as error:
        return CheckedConfig(place, "refused", None, None, None, (str(error),))
    outcome: Outcome = "warned" if model.warnings else "exact"
    return CheckedConfig(place, outcome, model.model_type, model.parameters, size, model.warnings)
