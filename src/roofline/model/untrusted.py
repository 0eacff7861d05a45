"""JSON files nobody vouches for: parsed as data, with limits, and nothing in them is ever run."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from roofline.model.errors import InputError

LARGEST_FILE = 16 * 2**20
"""Bytes of a config or a quantisation; a larger file is refused."""
DEEPEST = 64
LONGEST_NUMBER = 100


def read_config(path: Path, field: str = "", largest: int = LARGEST_FILE) -> dict[str, Any]:
    """The JSON object in a file nobody vouches for; `field` stands for the path in errors.

    Raises InputError on anything but a regular, readable file of at most `largest` bytes (16 MiB) that holds one JSON
    object in UTF-8, without a key given twice, a number of more than 100 characters or more than 64 levels. NaN and
    Infinity, which transformers writes, pass as floats.
    """
    field = field or printable(str(path))
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise InputError(field, "a folder or a device", "a regular file")
        size, content = info.st_size, b""
        if size <= largest:
            with path.open("rb") as file:
                content = file.read(largest + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(field, getattr(error, "strerror", None) or str(error), "a file that can be read") from error
    if max(size, len(content)) > largest:
        raise InputError(field, f"{max(size, len(content))} bytes", f"at most {largest} bytes")
    return parse_json(content, field)


def parse_json(content: bytes, field: str) -> dict[str, Any]:
    """The JSON object in some bytes; `field` says whose. Raises InputError, for what `read_config` names."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise InputError(field, f"{key!r} twice", "each key once")
            if not key.isprintable():
                raise InputError(field, key, "keys of printable characters")
            values[key] = value
        return values

    def number(text: str) -> str:
        if len(text) > LONGEST_NUMBER:
            raise InputError(field, f"one of {len(text)}", f"numbers of at most {LONGEST_NUMBER} characters")
        return text

    try:
        raw = json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=members,
            parse_int=lambda text: int(number(text)),
            parse_float=lambda text: float(number(text)),
        )
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise InputError(field, wrong, "JSON in UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(field, error.msg, f"JSON at line {error.lineno}, column {error.colno}") from error
    except RecursionError:
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting") from None
    if not isinstance(raw, dict):
        raise InputError(field, f"a {type(raw).__name__}", "a JSON object")
    if _deeper(raw, DEEPEST):
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting")
    return raw


def _deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists nest in more than `levels` levels."""
    level = [value]
    for _ in range(levels):
        inside = (v for node in level for v in (node.values() if isinstance(node, dict) else node))
        level = [v for v in inside if isinstance(v, (dict, list))]
    return bool(level)


def printable(text: str) -> str:
    """Text as it is, or quoted where a terminal would not show all of it."""
    return text if text.isprintable() else repr(text)
