"""Read untrusted Parquet files: footer and page headers are checked before anything is decompressed.

The footer and the page headers are structs in Thrift's compact protocol (apache/thrift,
doc/specs/thrift-compact-protocol.md); their fields are those of parquet.thrift (apache/parquet-format).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from roofline.declared.errors import InputError
from roofline.model.sources.untrusted import printable
from roofline.serving.simulate.tables.parts import ChooseColumns, TablePart, checked_names

MAGIC = b"PAR1"
LARGEST_FOOTER = 2**22
LARGEST_PAGE_HEADER = 2**16
MOST_PAGES = 2**16
MOST_GROUP_ROWS = 2**22
MOST_GROUP_BYTES = 2**29
"""Maximum uncompressed bytes of the requested columns in a row group."""
MOST_LIST_VALUES = 2**25
"""Maximum values of a list column in a row group."""
DEEPEST = 16
READ_ROWS = 2**17

BINARY, LIST, SET, MAP, STRUCT = 8, 9, 10, 11, 12


class MalformedError(ValueError):
    """Bytes that are not a valid struct in the compact protocol, or one without required fields."""


class Compact:
    """A reader of Thrift structs as field id → value; lists become lists, binary becomes bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        """The next byte."""
        if self.at >= len(self.data):
            raise MalformedError("its end is missing")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """An unsigned integer of at most 64 bits, seven per byte."""
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise MalformedError("a number of more than 64 bits")

    def zigzag(self) -> int:
        """A signed integer in zigzag encoding."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > len(self.data) - self.at:
            raise MalformedError("its end is missing")
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, kind: int, depth: int) -> Any:
        """A value of a Thrift type, as a list element or a field."""
        match kind:
            case 1 | 2:
                return self.byte() == 1
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.zigzag()
            case 7:
                return self.take(8)
            case 8:
                return self.take(self.varint())
            case 9 | 10:
                if depth > DEEPEST:
                    raise MalformedError("too deep")
                head = self.byte()
                size = head >> 4 if head >> 4 < 15 else self.varint()
                if size > len(self.data) - self.at:
                    raise MalformedError("its end is missing")
                return [self.value(head & 15, depth + 1) for _ in range(size)]
            case 12:
                return self.struct(depth + 1)
            case _:
                raise MalformedError(f"a value of the unknown kind {kind}")

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """All fields up to the stop field."""
        if depth > DEEPEST:
            raise MalformedError("too deep")
        values: dict[int, Any] = {}
        last = 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            values[last] = kind == 1 if kind in (1, 2) else self.value(kind, depth)
        return values


@dataclass(frozen=True)
class ColumnChunk:
    """The footer's entry for a column in a row group. start: offset of its pages in the file; packed: their bytes."""

    name: str
    values: int
    start: int
    packed: int


@dataclass(frozen=True)
class RowGroup:
    """Rows that are stored together."""

    rows: int
    chunks: tuple[ColumnChunk, ...]


def parquet_parts(path: Path, size: int, choose: ChooseColumns) -> Iterator[TablePart]:
    """The columns that `choose` names, in parts of at most 131,072 rows; one row group is in memory at a time.

    Raises InputError for a file that is not Parquet, for a footer or pages that contradict each other or the file, row
    groups above 4,194,304 rows or 512 MiB in these columns, more than 256 columns, and columns other than numbers,
    times, text or lists of whole numbers.
    """
    import polars as pl

    name = printable(str(path))
    try:
        groups = _groups(path, size)
        with _quiet():
            schema = pl.read_parquet_schema(path)
        names = checked_names(name, list(schema))
        chosen = list(choose(names))
        start = 0
        for group in groups:
            _check(path, group, chosen)
            scan = pl.scan_parquet(path, glob=False, hive_partitioning=False).select(chosen)
            with _quiet():
                frame = scan.slice(start, group.rows).collect()
            if frame.height != group.rows:
                raise MalformedError(f"{frame.height} of {group.rows} rows")
            for first in range(0, group.rows, READ_ROWS):
                piece = frame.slice(first, READ_ROWS)
                columns = {column: _values(name, piece[column]) for column in chosen}
                yield TablePart(name, columns, range(start + first, start + first + piece.height), "row")
            start += group.rows
    except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(name, reason, "a Parquet file") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what polars writes to standard error as it fails; its exception is raised anyway."""
    try:
        errors = os.dup(2)
    except OSError:  # a process without standard error
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)


def _values(path: str, column: Any) -> Any:
    """An array of numbers or times, else a list."""
    import polars as pl

    kind = column.dtype
    if kind == pl.Datetime and not column.null_count():
        return column.dt.replace_time_zone(None).dt.cast_time_unit("ns").to_physical().to_numpy().view("datetime64[ns]")
    if kind.is_numeric() and not kind.is_decimal() and not column.null_count():
        return column.to_numpy()
    if kind.is_numeric() or kind in (pl.String, pl.Categorical) or (kind == pl.List and kind.inner.is_integer()):
        return column.to_list()
    if kind == pl.Datetime:
        return column.dt.to_string().to_list()
    raise InputError(f"{path}: {column.name}", str(kind), "a column of numbers, times, text or lists of whole numbers")


def _groups(path: Path, size: int) -> tuple[RowGroup, ...]:
    """The row groups in the footer. Raises MalformedError where the footer contradicts itself or the file."""
    with path.open("rb") as file:
        if size < 12 or file.read(4) != MAGIC:
            raise MalformedError("no Parquet file")
        file.seek(size - 8)
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != MAGIC:
            raise MalformedError("no Parquet file, or one cut short")
        if length > min(LARGEST_FOOTER, size - 12):
            raise MalformedError(f"a footer of {length} bytes")
        file.seek(size - 8 - length)
        footer = Compact(file.read(length)).struct()
    try:
        groups = tuple(RowGroup(int(group[3]), tuple(_chunk(c[3]) for c in group[1])) for group in footer.get(4, ()))
        rows = int(footer[3])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise MalformedError("a footer without what it needs") from error
    if any(group.rows < 0 for group in groups) or sum(group.rows for group in groups) != rows:
        raise MalformedError("a footer whose rows do not add up")
    for chunk in (c for group in groups for c in group.chunks):
        if min(chunk.values, chunk.packed) < 0 or not 4 <= chunk.start <= size - chunk.packed:
            raise MalformedError("a column outside of the file")
    return groups


def _chunk(meta: dict[int, Any]) -> ColumnChunk:
    start = min(int(meta[9]), int(meta.get(11) or meta[9]))
    return ColumnChunk(meta[3][0].decode("utf-8"), int(meta[5]), start, int(meta[7]))


def _check(path: Path, group: RowGroup, chosen: list[str]) -> None:
    """Raises MalformedError for a row group too large to decompress, or with pages that contradict the footer."""
    if group.rows > MOST_GROUP_ROWS:
        raise MalformedError(f"a row group of {group.rows} rows, more than {MOST_GROUP_ROWS}")
    unpacked = 0
    with path.open("rb") as file:
        for chunk in (c for c in group.chunks if c.name in chosen):
            if chunk.values > MOST_LIST_VALUES:
                raise MalformedError(f"{chunk.values} values in a row group, more than {MOST_LIST_VALUES}")
            unpacked += _unpacked(file, chunk)
            if unpacked > MOST_GROUP_BYTES:
                raise MalformedError(f"a row group that unpacks to more than {MOST_GROUP_BYTES} bytes")


def _unpacked(file: BinaryIO, chunk: ColumnChunk) -> int:
    """Uncompressed bytes of a column's pages, by their headers. Raises MalformedError if the footer disagrees."""
    at, end, values, unpacked = chunk.start, chunk.start + chunk.packed, 0, 0
    for _ in range(MOST_PAGES):
        if at >= end:
            break
        file.seek(at)
        reader = Compact(file.read(min(LARGEST_PAGE_HEADER, end - at)))
        header = reader.struct()
        try:
            kind, inflated, packed = header[1], header[2], header[3]
            data = header.get(5) or header.get(8)
            values += data[1] if kind in (0, 3) and data else 0
        except (KeyError, TypeError) as error:
            raise MalformedError("a page without what it needs") from error
        if not all(isinstance(n, int) and n >= 0 for n in (inflated, packed, values)):
            raise MalformedError("a page of negative size")
        at += reader.at + packed
        unpacked += inflated
    if at != end or values != chunk.values:
        raise MalformedError("pages other than the footer says")
    return unpacked
