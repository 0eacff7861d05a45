"""Read untrusted tables part by part in bounded memory: CSV and JSON lines, also gzipped, and Parquet."""

from __future__ import annotations

import csv
import gzip
import json
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from roofline.declared.errors import InputError
from roofline.model.sources.pieces import SCAN
from roofline.model.sources.untrusted import printable
from roofline.serving.simulate.tables.parts import ChooseColumns, TablePart, checked_names

CHUNK = 2**20
"""Bytes read at once."""
LONGEST_LINE = 2**20
MOST_INFLATED = 64
"""Maximum decompressed size of a gzipped file over its own size; applies above FREE_INFLATED."""
FREE_INFLATED = 2**24


def read_table(path: Path, choose: ChooseColumns) -> Iterator[TablePart]:
    """The columns that `choose` names, from a file by its suffix: `.csv`, `.jsonl`, either with `.gz`, or `.parquet`.

    CSV has commas, a header and a row per line; JSON lines are objects with the keys of the first line. Raises
    InputError for a file that is not regular or readable, another suffix, bytes that are not UTF-8, lines above 1 MiB,
    more than 256 columns, a repeated column, missing or extra cells, a table without rows, and a gzipped file that
    decompresses to more than 64 times its size and 16 MiB.
    """
    size = size_of_regular(path)
    kind = Path(path.name.lower().removesuffix(".gz")).suffix.removeprefix(".")
    zipped = path.name.lower().endswith(".gz")
    rows = 0
    for part in _reader(path, kind, zipped, size)(choose):
        rows += len(part)
        if len(part):
            yield part
    if not rows:
        raise InputError(printable(str(path)), "none", "at least one row")


def _reader(path: Path, kind: str, zipped: bool, size: int) -> Callable[[ChooseColumns], Iterator[TablePart]]:
    if kind == "parquet" and not zipped:
        from roofline.serving.simulate.tables.parquet import parquet_parts

        return lambda choose: parquet_parts(path, size, choose)
    if kind in ("csv", "jsonl", "ndjson"):
        read = _csv_parts if kind == "csv" else _json_parts
        return lambda choose: read(printable(str(path)), _lines(path, size, zipped), choose)
    raise InputError(
        printable(str(path)), path.name, "a name that ends in .csv, .jsonl, .csv.gz, .jsonl.gz or .parquet"
    )


def size_of_regular(path: Path) -> int:
    """Size in bytes of a regular file. Raises InputError for anything else."""
    try:
        info = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(printable(str(path)), reason, "a file that can be read") from error
    if not stat.S_ISREG(info.st_mode):
        raise InputError(printable(str(path)), "a folder or a device", "a regular file")
    return info.st_size


# -- text ----------------------------------------------------------------------------------------------------------
Lines = Iterator[tuple[int, list[str]]]
"""The number of the first line, and the lines without line ends."""


def _bytes(path: Path, size: int, zipped: bool) -> Iterator[bytes]:
    name, total = printable(str(path)), 0
    try:
        with path.open("rb") as plain:
            file = gzip.GzipFile(fileobj=plain) if zipped else plain
            while chunk := file.read(CHUNK):
                total += len(chunk)
                if zipped and total > max(FREE_INFLATED, MOST_INFLATED * size):
                    most = f"a file that inflates to at most {MOST_INFLATED} times its {size} bytes"
                    raise InputError(name, f"more than {total - len(chunk)} bytes", most)
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(name, reason, "a file that can be read") from error


def _lines(path: Path, size: int, zipped: bool) -> Lines:
    name, number, rest = printable(str(path)), 1, b""
    for chunk in _bytes(path, size, zipped):
        rest += chunk
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) > LONGEST_LINE:
            raise InputError(f"{name}, line {number}", "more", f"at most {LONGEST_LINE} bytes")
        if end:
            lines = _decoded(name, number, rest[:end]).split("\n")
            del lines[-1]
            yield number, lines
            number, rest = number + len(lines), rest[end:]
    if rest:
        yield number, [_decoded(name, number, rest)]


def _decoded(name: str, number: int, content: bytes) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = number + content.count(b"\n", 0, error.start)
        raise InputError(f"{name}, line {line}", f"byte 0x{content[error.start]:02x}", "UTF-8") from error
    if len(content) > LONGEST_LINE:
        for i, line_text in enumerate(text.split("\n")):
            if len(line_text) > LONGEST_LINE:
                raise InputError(f"{name}, line {number + i}", "more", f"at most {LONGEST_LINE} bytes")
    return text.removeprefix("\ufeff") if number == 1 else text


def _csv_parts(path: str, blocks: Lines, choose: ChooseColumns) -> Iterator[TablePart]:
    names: tuple[str, ...] = ()
    chosen: dict[str, int] = {}
    for number, lines in blocks:
        rows = _csv_rows(path, number, lines)
        numbers: Sequence[int] = range(number, number + len(rows))
        if not all(rows):
            numbers = [i for i, row in zip(numbers, rows, strict=True) if row]
            rows = [row for row in rows if row]
        if not names and rows:
            names = checked_names(path, [cell.strip() for cell in rows[0]])
            chosen = {name: names.index(name) for name in choose(names)}
            rows, numbers = rows[1:], numbers[1:]
        if any(count != len(names) for count in set(map(len, rows))):
            line, cells = next((i, len(r)) for i, r in zip(numbers, rows, strict=True) if len(r) != len(names))
            raise InputError(f"{path}, line {line}", f"{cells} cells", f"{len(names)} cells, as in the header")
        yield TablePart(path, {name: [row[i] for row in rows] for name, i in chosen.items()}, numbers)


def _csv_rows(path: str, number: int, lines: list[str]) -> list[list[str]]:
    """The cells of each line."""
    reader = csv.reader(lines, strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InputError(f"{path}, line {number + max(reader.line_num, 1) - 1}", str(error), "a row of CSV") from error
    if len(rows) != len(lines):
        raise InputError(path, f"a cell over several lines, after line {number}", "each row on a line of its own")
    return rows


def _json_parts(path: str, blocks: Lines, choose: ChooseColumns) -> Iterator[TablePart]:
    chosen: tuple[str, ...] | None = None
    keys: set[str] = set()
    for number, raw in blocks:
        lines = [line.strip() for line in raw]
        numbers: Sequence[int] = range(number, number + len(lines))
        if not all(lines):
            numbers = [i for i, line in zip(numbers, lines, strict=True) if line]
            lines = [line for line in lines if line]
        rows: list[dict[str, Any]] = []
        for i, line in zip(numbers, lines, strict=True):
            try:
                row, end = SCAN(line, 0)
                if end != len(line) or line.count(":") != len(row):  # otherwise each colon belongs to a key
                    row = _careful.decode(line)
            except (ValueError, TypeError, RecursionError, StopIteration):
                row = _object(path, i, line)
            if chosen is None:
                row = _object(path, i, line)
                chosen = tuple(choose(checked_names(path, list(row))))
                keys = set(row)
            if type(row) is not dict or row.keys() != keys:
                odd = next(iter(_object(path, i, line).keys() ^ keys))
                raise InputError(f"{path}, line {i}", odd, "the keys of the first line, no others")
            rows.append(row)
        yield TablePart(path, {name: [row[name] for row in rows] for name in chosen or ()}, numbers)


def _object(path: str, number: int, line: str) -> dict[str, Any]:
    """The JSON object on a line, parsed strictly."""
    try:
        row = _careful.decode(line)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or f"{type(error).__name__}: {error}"
        raise InputError(f"{path}, line {number}", reason, "a line of JSON, each key once") from error
    if not isinstance(row, dict):
        raise InputError(f"{path}, line {number}", f"a {type(row).__name__}", "a JSON object")
    return row


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key twice")
    return members


_careful = json.JSONDecoder(object_pairs_hook=_members)
