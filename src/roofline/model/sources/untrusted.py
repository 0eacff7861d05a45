"""Read untrusted files (JSON, TOML and text) with limits; they are parsed as data, and nothing in them is executed.

Every file that a user names is opened here, except tables of requests, which are read in parts (`simulate/tables`), and
headers of checkpoints, of which only the first bytes are read. `pieces.py` reads long files in parts.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonValue, TomlTable

LARGEST_FILE = 16 * 2**20
"""Largest config or quantisation file, bytes."""
LARGEST_TREE = 3 * 2**29
"""Most bytes of memory that the values of a JSON file may take, counted before it is parsed."""
DEEPEST = 64
LONGEST_NUMBER = 100
LARGEST_INTEGER = 332
"""Most bits of a whole number in a TOML file: 100 digits."""
LONGEST_LINE = 4096
"""Most characters of a line of TOML."""
LARGEST_TABLE = 64 * 2**20
"""Largest CSV file that is read whole, bytes."""
LARGEST_MACHINE = 2**20
"""Largest file of a chip, a cluster or an engine, bytes."""
STDIN = "/dev/stdin"
"""The only path that may be read although it is not a regular file."""


def read_config(path: Path, field: str = "", largest: int = LARGEST_FILE) -> dict[str, JsonValue]:
    """The JSON object in an untrusted file; `field` replaces the path in errors.

    Raises InputError for files that `read_bytes` refuses, and for anything but one JSON object in UTF-8 with distinct
    keys, numbers of at most 100 characters and at most 64 levels. NaN and Infinity, which transformers writes, are read
    as floats.
    """
    field = field or printable(str(path))
    return parse_json(read_bytes(path, largest, field), field)


def read_bytes(path: Path, largest: int, field: str = "") -> bytes:
    """Contents of a file that a user named, or of standard input as `/dev/stdin`; `field` replaces the path in errors.

    Raises InputError for anything but a regular, readable file of at most `largest` bytes: folders, devices, pipes.
    """
    field = field or printable(str(path))
    with opened(path, largest, field) as file:
        content = file.read(largest + 1)
    check_bytes(field, len(content), largest)
    return content


@contextmanager
def opened(path: Path, largest: int, field: str) -> Iterator[BinaryIO]:
    """A file that a user named, or standard input as `/dev/stdin`; `field` names it in errors.

    Raises InputError for anything but a regular, readable file of at most `largest` bytes, and where reading fails.
    What is piped in may be longer, and what grows while it is read: readers count with `check_bytes`.
    """
    try:
        if str(path) == STDIN:
            yield sys.stdin.buffer
            return
        _check_regular(path.stat(), largest, field)
        with open(path, "rb", opener=_without_waiting) as file:
            _check_regular(os.fstat(file.fileno()), largest, field)  # another file may have come to its place
            yield file
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        near = _siblings(path) if isinstance(error, FileNotFoundError) else ()
        said = getattr(error, "strerror", None) or str(error)
        raise InputError(field, said, "a file that can be read", near) from error


def _without_waiting(name: str, flags: int) -> int:
    """Open a file, and a pipe without waiting for its writer."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _check_regular(info: os.stat_result, largest: int, field: str) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise InputError(field, "a folder or a device", "a regular file")
    check_bytes(field, info.st_size, largest)


def check_bytes(field: str, size: int, largest: int) -> None:
    """Raise InputError for more bytes than a file may have."""
    if size > largest:
        raise InputError(field, f"{size} bytes", f"at most {largest} bytes")


def _siblings(path: Path) -> list[str]:
    """Names in a missing file's folder that are most similar to its own."""
    try:
        with os.scandir(path.parent) as entries:
            return nearest(path.name, (e.name for e in entries if e.name.isprintable()))
    except (OSError, ValueError):
        return []


def read_text(path: Path, largest: int, field: str = "") -> str:
    """Contents of a file as UTF-8 text, without a byte order mark.

    Raises InputError for files that `read_bytes` refuses, and for text that is not UTF-8.
    """
    field = field or printable(str(path))
    content = read_bytes(path, largest, field)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise InputError(field, wrong, "text in UTF-8") from error


def parse_toml(text: str, field: str) -> TomlTable:
    """Parse untrusted TOML; `field` names it in errors.

    Raises InputError for invalid TOML, for lines of more than 4,096 characters or 64 dots and braces, which could nest
    tables by the thousand, and for numbers of more than 100 characters.
    """
    import tomllib  # loaded where there is a file

    for number, line in enumerate(text.splitlines(), 1):
        nested = line if "{" in line or line.lstrip().startswith("[") else line.partition("=")[0]
        if len(line) > LONGEST_LINE or nested.count(".") + nested.count("{") > DEEPEST:
            most = f"at most {LONGEST_LINE} characters and {DEEPEST} dots and braces"
            raise InputError(f"{field}, line {number}", "more", most)
    try:
        tables = tomllib.loads(text, parse_float=_short_float)
    except RecursionError:
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting") from None
    except ValueError as error:
        raise InputError(field, " ".join(str(error).split()), "a TOML file") from None
    if _deeper(tables, DEEPEST):
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting")
    if any(isinstance(v, int) and v.bit_length() > LARGEST_INTEGER for v in _leaves(tables)):
        raise InputError(field, "a larger one", f"whole numbers of at most {LARGEST_INTEGER} bits")
    return tables


def _leaves(value: Any) -> Iterator[Any]:
    """Values inside nested dicts and lists."""
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def _short_float(text: str) -> float:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} characters, more than {LONGEST_NUMBER}")
    return float(text)


_TAKES = {b"{": 240, b"[": 96, b":": 176, b",": 42, b'"': 28}
"""Sign of JSON → most bytes of memory of what it begins or parts: a dict, a list, a member, a value, half a string."""


def check_tree(content: bytes, field: str, largest: int = LARGEST_TREE) -> None:
    """Raise InputError for JSON whose values could take more than `largest` bytes of memory; parses nothing."""
    taken = sum(content.count(sign) * size for sign, size in _TAKES.items())
    taken += len(content) * (2 if content.isascii() else 8)  # as text, and once more in strings
    if taken > largest:
        raise InputError(field, f"values that may take {taken} bytes", f"at most {largest} bytes of memory")


def parse_json(content: bytes, field: str) -> dict[str, JsonValue]:
    """Parse a JSON object; `field` names it in errors. Raises InputError as described in `read_config`."""

    def members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        values = dict(pairs)
        if len(values) < len(pairs):
            seen = Counter(key for key, _ in pairs)
            raise InputError(field, f"{next(key for key in seen if seen[key] > 1)!r} twice", "each key once")
        if not all(map(str.isprintable, values)):
            raise InputError(field, next(k for k in values if not k.isprintable()), "keys of printable characters")
        return values

    def whole(text: str) -> int:
        return int(text if len(text) <= LONGEST_NUMBER else refused(text))

    def real(text: str) -> float:
        return float(text if len(text) <= LONGEST_NUMBER else refused(text))

    def refused(text: str) -> str:
        raise InputError(field, f"one of {len(text)}", f"numbers of at most {LONGEST_NUMBER} characters")

    check_tree(content, field)
    try:
        raw = json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=members,
            parse_int=whole,
            parse_float=real,
        )
    except UnicodeDecodeError as error:
        wrong = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise InputError(field, wrong, "JSON in UTF-8") from error
    except json.JSONDecodeError as error:
        if _opens_deeper(error.doc[: error.pos], DEEPEST):  # how deep parsers go is not the same in all Pythons
            raise InputError(field, "more", f"at most {DEEPEST} levels of nesting") from None
        raise InputError(field, error.msg, f"JSON at line {error.lineno}, column {error.colno}") from error
    except RecursionError:
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting") from None
    if not isinstance(raw, dict):
        raise InputError(field, f"a {type(raw).__name__}", "a JSON object")
    if _deeper(raw, DEEPEST):
        raise InputError(field, "more", f"at most {DEEPEST} levels of nesting")
    return raw


_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STEPS = {ord(sign): step for signs, step in (("[{", 1), ("]}", -1)) for sign in signs}


def _opens_deeper(text: str, levels: int) -> bool:
    """Whether JSON brackets, outside strings, nest in more than `levels` levels."""
    outside = _STRING.sub("", text).encode("utf-8", "replace")
    steps = map(_STEPS.__getitem__, outside.translate(None, _NO_BRACKETS))
    return any(depth > levels for depth in accumulate(steps))


_NO_BRACKETS = bytes(set(range(256)) - set(_STEPS))


def _deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists nest in more than `levels` levels."""
    level = [value]
    for _ in range(levels):
        inside = (v for node in level for v in (node.values() if isinstance(node, dict) else node))
        level = [v for v in inside if isinstance(v, (dict, list))]
    return bool(level)


def printable(text: str) -> str:
    """The text, quoted if a terminal would not show all of it."""
    return text if text.isprintable() else repr(text)
