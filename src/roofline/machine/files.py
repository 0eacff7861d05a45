"""Machine files: TOML that a user wrote, one machine in each."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from roofline.model.errors import InputError, nearest

LARGEST_FILE = 2**20


def one_table(noun: str, path: Path) -> tuple[str, Any]:
    """The name and the table of the one machine in a file; `noun` says what it should be, in errors.

    Raises InputError for a file that cannot be read, is too large, is no TOML, or holds none or several.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(noun, str(path), "a file of at most 1 MiB")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(noun, str(path), f"a file that can be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(noun, str(path), f"a TOML file ({' '.join(str(error).split())})") from None
    if len(tables) != 1:
        raise InputError(noun, str(path), f"one {noun}, not {len(tables)}")
    ((name, table),) = tables.items()
    return name, table


def only_known(where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    """An InputError with the nearest for a key of the table that means nothing."""
    known = tuple(known)
    for key in table:
        if key not in known:
            raise InputError(f"{where}.{key}", table[key], "a known key", nearest(str(key), known))


def plain_name(name: str) -> str:
    """A name as it is looked up: lower case, with hyphens."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")
