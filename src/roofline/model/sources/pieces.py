"""Read long untrusted files part by part, in bounded memory: rows of CSV, values of JSON."""

from __future__ import annotations

import codecs
import csv
import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from io import StringIO
from json.scanner import make_scanner
from pathlib import Path

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonValue
from roofline.model.sources.untrusted import check_bytes, opened

PIECE = 2**20
"""Bytes that are read at once."""
LONGEST_LINE = 2**20
"""Most characters of a line, of a row of CSV, and of a value that is read from a stream of JSON."""
GZIP = b"\x1f\x8b"


def file_pieces(path: Path, largest: int, field: str) -> Generator[bytes, None, None]:
    """Contents of a file in pieces of 1 MiB. Raises InputError as `read_bytes` does."""
    total = 0
    with opened(path, largest, field) as file:
        while piece := file.read(PIECE):
            total += len(piece)
            check_bytes(field, total, largest)
            yield piece


def inflated(given: Iterator[bytes], largest: int, field: str) -> Iterator[bytes]:
    """The pieces, decompressed if they begin as gzip does.

    Raises InputError for more than `largest` bytes decompressed, and for a broken or cut-off gzip file.
    """
    first = next(given, b"")
    if not first.startswith(GZIP):
        yield first
        yield from given
        return
    unzip, total = zlib.decompressobj(wbits=31), 0
    try:
        for packed in _with_first(first, given):
            while packed and not unzip.eof:
                plain = unzip.decompress(packed, PIECE)
                total += len(plain)
                if total > largest:
                    raise InputError(field, "more bytes", f"at most {largest} bytes unpacked")
                yield plain
                packed = unzip.unconsumed_tail
            if unzip.eof:
                return
    except zlib.error as error:
        raise InputError(field, "a broken gzip file", "a whole one") from error
    raise InputError(field, "a cut-off gzip file", "a whole one")


def _with_first(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def text_pieces(given: Iterable[bytes], field: str) -> Iterator[str]:
    """Pieces of UTF-8 as text, without a byte order mark. Raises InputError for bytes that are not UTF-8."""
    decoder, offset = codecs.getincrementaldecoder("utf-8-sig")(), 0
    try:
        for piece in given:
            yield decoder.decode(piece)
            offset += len(piece)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        at = max(0, offset + error.start)
        raise InputError(field, f"byte 0x{error.object[error.start]:02x} near offset {at}", "text in UTF-8") from error


def text_lines(given: Iterable[str], field: str, most: int) -> Iterator[str]:
    """Lines with their ends. Raises InputError for more than `most`, and for one of more than 1 MiB."""
    rest, number = "", 0
    for piece in given:
        lines = list(StringIO(rest + piece, newline=""))
        rest = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        if number + len(lines) > most:
            raise InputError(field, "more", f"at most {most} lines")
        for line in lines:
            number += 1
            yield _short(line, field, number)
        _short(rest, field, number + 1)
    if rest:
        yield rest


def _short(line: str, field: str, number: int) -> str:
    if len(line) > LONGEST_LINE:
        raise InputError(f"{field}, line {number}", "more", f"at most {LONGEST_LINE} characters")
    return line


# -- CSV -----------------------------------------------------------------------------------------------------------
def rows_of_csv(lines: Iterable[str], field: str, most: int) -> Iterator[tuple[int, list[str]]]:
    """Rows of CSV with the number of their last line; a cell may span lines, and empty lines are left out.

    Raises InputError for more than `most` rows, a row of more than 1 MiB, and broken CSV.
    """
    length = count = 0

    def counted() -> Iterator[str]:
        nonlocal length
        for line in lines:
            length += len(line)
            if length > LONGEST_LINE:
                raise InputError(field, "a longer row", f"rows of at most {LONGEST_LINE} characters")
            yield line

    reader = csv.reader(counted())
    try:
        for cells in reader:
            length = 0
            if cells:
                count += 1
                if count > most:
                    raise InputError(field, "more", f"at most {most} rows")
                yield reader.line_num, cells
    except csv.Error as error:
        raise InputError(field, str(error), "a CSV file that can be read") from error


_LINES = 4
"""Most lines of a file for each row that it may have, empty ones and those of long cells included."""


def csv_file(path: Path, field: str, largest: int, most: int) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file of at most `largest` bytes. Raises InputError as `rows_of_csv` and `read_text` do."""
    with closing(file_pieces(path, largest, field)) as given:
        yield from rows_of_csv(text_lines(text_pieces(given, field), field, _LINES * most), field, most)


# -- JSON ----------------------------------------------------------------------------------------------------------
_NO_SPACE = re.compile(r"[^ \t\r\n]")
SCAN = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]
"""Parses the JSON value at a place of a text; returns it, and where it ends."""


class JsonStream:
    """JSON that is read value by value; what is passed is forgotten. `field` names the file in errors."""

    def __init__(self, given: Iterable[str], field: str) -> None:
        self.field = field
        self._pieces, self._text, self._at = iter(given), "", 0

    def sign(self) -> str:
        """The next character that is no space, which stays there; "" at the end."""
        while True:
            self._at = self._begin()
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def passes(self, sign: str) -> bool:
        """Whether the next character is this one, which is passed then."""
        if self.sign() != sign:
            return False
        self._at += 1
        return True

    def value(self) -> JsonValue:
        """The next value. Raises InputError for one that is broken, longer than 1 MiB or nested too deep."""
        self.sign()
        while True:
            try:
                value: JsonValue
                value, end = SCAN(self._text, self._at)
            except (StopIteration, ValueError):
                end = len(self._text)
            except RecursionError:
                break
            if end < len(self._text):
                self._at = end
                return value
            if len(self._text) - self._at > LONGEST_LINE or not self._more():
                break
        raise InputError(self.field, "a value that is broken, too deep or too long", "whole JSON")

    def members(self) -> Iterator[str]:
        """Keys of the object that begins here; each value must be read before the next key."""
        self._expect("{")
        if self.passes("}"):
            return
        while True:
            key = self.value()
            self._expect(":")
            yield key if isinstance(key, str) else ""
            if self.passes("}"):
                return
            self._expect(",")

    def items(self) -> Iterator[JsonValue]:
        """Items of the list that begins here."""
        self._expect("[")
        if self.passes("]"):
            return
        while True:
            try:  # nearly all items, quickly
                value, end = SCAN(self._text, self._begin())
                parted = self._text[end] == ","
            except (StopIteration, ValueError, IndexError, RecursionError):
                parted = False
            if parted:
                self._at = end + 1
                yield value
                continue
            yield self.value()
            if self.passes("]"):
                return
            self._expect(",")

    def _begin(self) -> int:
        """Where the next character is that is no space; the end of what is here, if there is none."""
        match = _NO_SPACE.search(self._text, self._at)
        return len(self._text) if match is None else match.start()

    def _expect(self, sign: str) -> None:
        if not self.passes(sign):
            raise InputError(self.field, "broken JSON", f"a {sign} there")

    def _more(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._text, self._at = self._text[self._at :] + piece, 0
        return True
