"""Read GGUF headers: metadata, and names, shapes, types and offsets of a file's tensors, without the tensors' data.

A file begins with `GGUF`, its version, the numbers of tensors and metadata entries, the entries, and the descriptions
of tensors; the data follows (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Headers are untrusted: invalid
ones are refused, and neither memory nor time grows with sizes that a header merely claims.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

from roofline.declared.errors import InputError
from roofline.model.formats import GGML_TYPES, Format, GgmlType
from roofline.model.sources.untrusted import printable

LARGEST_GGUF_HEADER = 64 * 2**20
"""Largest header in bytes; a tokenizer of 260,000 tokens takes about 12 MB."""
MOST_ENTRIES = 4096
MOST_TENSORS = 100_000
LARGEST_ARRAY = 2**22
"""Most values of an array."""
_KEPT = 1024
"""Most values of a numeric array that are kept (one per layer); longer arrays and text arrays keep only their length.
"""
_LONGEST_NAME, _LONGEST_TEXT = 256, 4 * 2**20
_PIECE = 2**20
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Type numbers of metadata → format characters of `struct`."""
_TEXT, _ARRAY = 8, 9
_INTEGERS = {24: 1, 25: 2, 26: 4, 27: 8}
"""Integer tensor types, used for tables of indices and never for weights → bytes."""
TENSOR_TYPES = {t.number: t for t in GGML_TYPES.values()} | {
    n: GgmlType(n, 1, size, Format(f"int{8 * size}-table", GGML_TYPES["fp32"].format.bits * size / 4))
    for n, size in _INTEGERS.items()
}

ReadRange: TypeAlias = Callable[[int, int], tuple[bytes, int]]
"""Reads a file: (offset, length) → at most `length` bytes, and the size of the file."""


@dataclass(frozen=True)
class ArrayLength:
    """A metadata array of which only the length is kept."""

    length: int


@dataclass(frozen=True)
class TensorOfFile:
    """A tensor as described in a GGUF header. `shape` starts with the length of a row."""

    name: str
    shape: tuple[int, ...]
    type: GgmlType

    @property
    def values(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the tensor's blocks."""
        return self.values // self.type.values * self.type.bytes


MetadataValue: TypeAlias = bool | int | float | str | tuple[float, ...] | ArrayLength
"""Value of a metadata key: a number, a text, a numeric array, or the length of a longer array."""


@dataclass(frozen=True)
class GgufHeader:
    """Header of a GGUF file: metadata by key, and its tensors."""

    metadata: Mapping[str, MetadataValue]
    tensors: tuple[TensorOfFile, ...]


class _Cursor:
    """A position in the header, which is read piece by piece."""

    def __init__(self, file: str, read: ReadRange) -> None:
        self.file, self._read = file, read
        self.position, self._start = 0, 0
        self._bytes, self.size = read(0, _PIECE)

    def take(self, length: int, what: str) -> bytes:
        """The next `length` bytes. Raises InputError beyond the end of the file or the largest header."""
        end = self.position + length
        if end > min(self.size, LARGEST_GGUF_HEADER):
            most = f"at most {LARGEST_GGUF_HEADER} bytes of header" if end <= self.size else "a whole file"
            raise InputError(self.file, f"{what} of {length} bytes at {self.position} of {self.size}", most)
        if end > self._start + len(self._bytes):
            self._start = self.position
            self._bytes = self._read(self.position, min(max(length, _PIECE), self.size - self.position))[0]
            if len(self._bytes) < length:
                raise InputError(self.file, f"{len(self._bytes)} bytes at {self.position}", f"{length}")
        piece = self._bytes[self.position - self._start : end - self._start]
        self.position = end
        return piece

    def number(self, kind: str, what: str) -> Any:
        """The next number of the `struct` type `kind`."""
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(f"<{kind}"), what))[0]

    def text(self, what: str, longest: int) -> str:
        """The next text. Raises InputError if it has more than `longest` bytes or is not UTF-8."""
        length = self.number("Q", what)
        if length > longest:
            raise InputError(self.file, f"{what} of {length} bytes", f"at most {longest} bytes")
        try:
            return self.take(length, what).decode()
        except UnicodeDecodeError:
            raise InputError(self.file, f"{what} of other bytes", "text in UTF-8") from None


def gguf_header(file: str, read: ReadRange) -> GgufHeader:
    """The header of a GGUF file, of which nothing else is read; `file` names it in errors.

    Raises InputError for anything that is not a GGUF file of version 2 or 3, for headers that are truncated, longer
    than 64 MiB, repeat a key or a tensor, or nest arrays, and for tensors of unknown types, with rows that are not
    whole blocks, or whose bytes overlap or lie outside the file.
    """
    cursor = _Cursor(file, read)
    if cursor.size < 24 or cursor.take(4, "a header") != b"GGUF":
        raise InputError(file, "something else", "a GGUF file, which begins with GGUF")
    version, tensors, entries = (cursor.number(kind, "a header") for kind in "IQQ")
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        raise InputError(f"{file}: version", f"{swapped}, big-endian" if swapped in (2, 3) else version, "2 or 3")
    for what, count, most in (("tensors", tensors, MOST_TENSORS), ("metadata entries", entries, MOST_ENTRIES)):
        if count > most:
            raise InputError(file, f"{count} {what}", f"at most {most}")
    metadata: dict[str, MetadataValue] = {}
    for _ in range(entries):
        key = cursor.text("a key", _LONGEST_NAME)
        if key in metadata:
            raise InputError(f"{file}: {printable(key)}", "twice", "each key once")
        metadata[key] = _value(cursor, cursor.number("I", "a type"), printable(key))
    return GgufHeader(metadata, _tensors(cursor, tensors, _alignment(file, metadata)))


def _alignment(file: str, metadata: Mapping[str, MetadataValue]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 8 <= alignment <= 2**20 or alignment & (alignment - 1):
        raise InputError(f"{file}: general.alignment", alignment, "a power of two from 8")
    return alignment


def _value(cursor: _Cursor, kind: int, key: str) -> MetadataValue:
    if kind == _TEXT:
        return cursor.text(key, _LONGEST_TEXT)
    if kind in _NUMBERS:
        number: float = cursor.number(_NUMBERS[kind], key)
        return number
    if kind != _ARRAY:
        raise InputError(f"{cursor.file}: {key}", f"type {kind}", "a type of GGUF, 0 to 12")
    inner, length = cursor.number("I", key), cursor.number("Q", key)
    if inner != _TEXT and inner not in _NUMBERS:
        raise InputError(f"{cursor.file}: {key}", f"an array of type {inner}", "an array of numbers or texts")
    if length > LARGEST_ARRAY:
        raise InputError(f"{cursor.file}: {key}", f"{length} values", f"at most {LARGEST_ARRAY}")
    if inner == _TEXT:
        for _ in range(length):
            size = cursor.number("Q", key)
            if size > _LONGEST_TEXT:
                raise InputError(f"{cursor.file}: {key}", f"a text of {size} bytes", f"at most {_LONGEST_TEXT}")
            cursor.take(size, key)
        return ArrayLength(length)
    each = struct.calcsize(f"<{_NUMBERS[inner]}")
    content = cursor.take(length * each, key)
    return struct.unpack(f"<{length}{_NUMBERS[inner]}", content) if length <= _KEPT else ArrayLength(length)


def _tensors(cursor: _Cursor, count: int, alignment: int) -> tuple[TensorOfFile, ...]:
    placed = [_tensor(cursor, alignment) for _ in range(count)]
    start = -(-cursor.position // alignment) * alignment
    names: set[str] = set()
    end = 0
    for tensor, offset in sorted(placed, key=lambda place: place[1]):
        field = f"{cursor.file}: {printable(tensor.name)}"
        if tensor.name in names:
            raise InputError(field, "twice", "each tensor once")
        if offset < end:
            raise InputError(field, f"bytes from {offset}", f"bytes behind those of the tensor before it, {end}")
        names.add(tensor.name)
        end = offset + tensor.bytes
        if start + end > cursor.size:
            raise InputError(field, f"bytes up to {start + end}", f"bytes within the file's {cursor.size}")
    return tuple(tensor for tensor, _ in placed)


def _tensor(cursor: _Cursor, alignment: int) -> tuple[TensorOfFile, int]:
    """A tensor, and the offset of its bytes after the header."""
    name = cursor.text("a tensor's name", _LONGEST_NAME)
    field = f"{cursor.file}: {printable(name)}"
    sides = cursor.number("I", field)
    if not 1 <= sides <= 4:
        raise InputError(field, f"{sides} dimensions", "1 to 4")
    shape = tuple(cursor.number("Q", field) for _ in range(sides))
    number, offset = cursor.number("I", field), cursor.number("Q", field)
    kind = TENSOR_TYPES.get(number)
    if kind is None:
        raise InputError(field, f"type {number}", "a tensor type of GGUF")
    if prod(shape) > 2**60 or min(shape) < 1:
        raise InputError(field, list(shape), "sizes from 1, and at most 2^60 values")
    if shape[0] % kind.values:
        raise InputError(field, f"rows of {shape[0]}", f"whole blocks of {kind.values}, as {kind.name} has")
    if offset % alignment:
        raise InputError(field, f"bytes from {offset}", f"a multiple of {alignment}")
    return TensorOfFile(name, shape, kind), offset
