"""Parquet files built from separately written row groups, concatenated under one footer.

Each group arrives as a file of its own. Its pages are copied byte for byte, and the offsets in its footer are shifted;
the page index, which also holds offsets, is left out. The footer is a struct of parquet.thrift (apache/parquet-format)
in Thrift's compact protocol (apache/thrift, doc/specs/thrift-compact-protocol.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from roofline.serving.simulate.tables.parquet import BINARY, LIST, MAGIC, SET, STRUCT, Compact

Fields: TypeAlias = "dict[int, tuple[int, Any]]"
"""Field id → type in the protocol, and value; structs are nested fields, lists hold the element type and the values."""
I64 = 6
SCHEMA, ROWS, GROUPS = 2, 3, 4
"""Field ids of FileMetaData."""
CHUNKS, GROUP_START, ORDINAL = 1, 5, 7
"""Field ids of RowGroup."""
CHUNK_PLACES, CHUNK_META, CHUNK_INDEX = (2,), 3, (4, 5, 6, 7)
META_PLACES = (9, 10, 11, 14)
"""Offsets in ColumnMetaData: first data page, index page, dictionary, Bloom filter."""


class Typed(Compact):
    """Reads a struct with the type of each value, so that it can be written back."""

    def fields(self) -> Fields:
        """Fields up to the stop marker."""
        values: Fields = {}
        last = 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            values[last] = head & 15, self._typed(head & 15)
        return values

    def _typed(self, kind: int) -> Any:
        if kind in (1, 2):
            return None
        if kind == STRUCT:
            return self.fields()
        if kind in (LIST, SET):
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.varint()
            inner = head & 15
            return inner, [self.byte() if inner in (1, 2) else self._typed(inner) for _ in range(size)]
        return self.value(kind, 0)


def written_fields(values: Fields) -> bytes:
    """Encode a struct."""
    out, last = bytearray(), 0
    for number, (kind, value) in sorted(values.items()):
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _varint(_zigzag(number))
        out += b"" if kind in (1, 2) else _value(kind, value)
        last = number
    return bytes(out) + b"\0"


def _value(kind: int, value: Any) -> bytes:
    match kind:
        case 1 | 2 | 3:
            return bytes([value])
        case 4 | 5 | 6:
            return _varint(_zigzag(value))
        case 7:
            return bytes(value)
        case _ if kind == BINARY:
            return _varint(len(value)) + bytes(value)
        case _ if kind == STRUCT:
            return written_fields(value)
        case _:
            inner, items = value
            size = len(items)
            head = bytes([size << 4 | inner]) if size < 15 else bytes([0xF0 | inner]) + _varint(size)
            return head + b"".join(_value(inner, item) for item in items)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# -- groups --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class GroupPart:
    """A row group within a file of many groups: its pages, and its entry in the footer."""

    pages: bytes
    entry: bytes


def footer_of(content: bytes) -> Fields:
    """Footer of a whole file."""
    length = int.from_bytes(content[-8:-4], "little")
    return Typed(content[-8 - length : -8]).fields()


def group_part(content: bytes, start: int, number: int) -> GroupPart:
    """Convert a file with one row group to group `number` of a larger file, with its pages at `start`."""
    (group,) = footer_of(content)[GROUPS][1][1]
    chunks = group[CHUNKS][1][1]
    ends = [len(content) - 8 - int.from_bytes(content[-8:-4], "little")]
    ends += [chunk[i][1] for chunk in chunks for i in (4, 6) if i in chunk]
    shift = start - len(MAGIC)
    for chunk in chunks:
        _moved(chunk, CHUNK_PLACES, shift)
        _moved(chunk[CHUNK_META][1], META_PLACES, shift)
        for index in CHUNK_INDEX:
            chunk.pop(index, None)
    _moved(group, (GROUP_START,), shift)
    group.pop(ORDINAL, None)  # 16 bits, and no more than the entry's place in the list
    return GroupPart(content[len(MAGIC) : min(ends)], written_fields(group))


def _moved(values: Fields, places: tuple[int, ...], shift: int) -> None:
    for place in places:
        if place in values:
            kind, value = values[place]
            values[place] = kind, value + shift if value else value


def whole_footer(empty: bytes, entries: list[bytes], rows: int) -> bytes:
    """End of a file of many groups: the footer of a file without rows, with the entries of all groups."""
    values = footer_of(empty)
    values[ROWS] = I64, rows
    values[GROUPS] = LIST, (STRUCT, [Typed(entry).fields() for entry in entries])
    footer = written_fields(values)
    return footer + len(footer).to_bytes(4, "little") + MAGIC
