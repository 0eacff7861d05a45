"""The rows of a sweep in a file, written piece by piece; an interrupted sweep resumes and ends with the same bytes.

Rows go to `FILE.part`, and the state for resuming to `FILE.part.log`, one line for each piece; both are removed when
the file is complete. A piece is a Parquet row group, an Arrow record batch, or lines of CSV.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from json import dumps
from pathlib import Path
from typing import BinaryIO, TypedDict, TypeGuard

from roofline.declared.checks import integer, names_a_file
from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject
from roofline.model.sources.untrusted import parse_json, read_bytes
from roofline.serving.simulate.tables.parquet import MAGIC
from roofline.views.files.append_parquet import group_part, whole_footer
from roofline.views.files.atomic import check_ending, check_file, own_file
from roofline.views.files.csv_columns import csv_bytes
from roofline.whatif.query.columns import Rows, frame_of

ENDINGS = (".parquet", ".csv", ".arrow")
LARGEST_LOG = 2**28
"""Largest log in bytes that is resumed from; a sweep of 10^10 points writes a tenth of it."""
STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""End marker of an Arrow stream."""


def encoded(rows: Rows, ending: str) -> bytes:
    """A piece as a file of its own, as a worker returns it."""
    if ending == ".csv":
        return csv_bytes(rows)
    from polars import CompatLevel

    frame, content = frame_of(rows), BytesIO()
    if ending == ".parquet":
        frame.write_parquet(content, row_group_size=max(1, frame.height), compression="zstd", compression_level=1)
    else:
        frame.rechunk().write_ipc_stream(content, compat_level=CompatLevel.oldest())
    return content.getvalue()


class KeptRows(TypedDict, total=False):
    """State for resuming: how many points were left out and why, and the rows to show."""

    dropped: Mapping[str, int]
    best: Sequence[JsonObject]


class LogLine(TypedDict):
    """A line of the log: where a piece ends, its rows, its entry in the footer, and the state for resuming."""

    end: int
    rows: int
    entry: str
    kept: KeptRows


class SweepFile:
    """Writes the pieces of a sweep in order.

    `empty`: a piece without rows, which has the columns' types. Raises InputError for a file that cannot be written or,
    without `force`, already exists, and for an existing part without `resume` or `force`.
    """

    def __init__(self, path: Path, empty: Rows, fingerprint: str, *, resume: bool = False, force: bool = False) -> None:
        self.path, self.fingerprint, self.field = path, fingerprint, "--out"
        self.ending = path.suffix.lower()
        check_ending(path, ENDINGS, self.field)
        self.part = path.with_name(f"{path.name}.part")
        self.log = path.with_name(f"{path.name}.part.log")
        self.empty = encoded(empty, self.ending)
        self.entries: list[bytes] = []
        self.pieces = self.rows = 0
        kept = self._kept() if resume else []
        self.done = bool(kept) and path.exists() and not self.part.exists()
        check_file(path, force or self.done, self.field)
        if not resume and not force and self.part.exists():
            raise InputError(self.field, self.part.name, "--resume to go on where it was killed, or --force")
        self.kept: KeptRows = {}
        self._open(kept)

    # -- going on --------------------------------------------------------------------------------------------------
    def _kept(self) -> list[LogLine]:
        """The complete lines of this sweep's log.

        Raises InputError for the log of another sweep, a log that no sweep writes, and one longer than this sweep's.
        """
        if not names_a_file(self.log):
            return []
        lines: list[JsonObject] = []
        for content in read_bytes(self.log, LARGEST_LOG, self.field).split(b"\n"):
            digest, _, text = content.partition(b" ")
            if sha256(text).hexdigest().encode() != digest:
                break
            lines.append(parse_json(text, self.field))
        if lines and lines[0].get("fingerprint") != self.fingerprint:
            raise InputError(self.field, self.part.name, "the part of this same sweep, or --force to begin anew")
        kept: list[LogLine] = []
        for line in lines[1:]:
            if not _is_line(line) or (kept and line["end"] < kept[-1]["end"]):
                raise InputError(self.field, self.log.name, "the log of this sweep, or --force to begin anew")
            kept.append(line)
        return kept

    def _open(self, kept: list[LogLine]) -> None:
        """Open the part and the log, truncated to what both contain."""
        if self.done:
            self._restore(kept)
            return
        size = self.part.stat().st_size if self.part.exists() else 0
        kept = [line for line in kept if line["end"] <= size]
        try:
            self.file: BinaryIO = own_file(self.part, "r+b" if kept else "w+b")
            self.lines: BinaryIO = own_file(self.log, "wb")
        except OSError as error:
            raise InputError(self.field, str(self.part), f"a file that can be written ({error.strerror})") from None
        self._line({"fingerprint": self.fingerprint})
        for line in kept:
            self._line(line)
        self._restore(kept)
        if kept:
            self.file.truncate(kept[-1]["end"])
            self.file.seek(kept[-1]["end"])
        else:
            self.file.write(self._head())
        self._settle()

    def _restore(self, kept: list[LogLine]) -> None:
        self.entries = [bytes.fromhex(line["entry"]) for line in kept if line["entry"]]
        self.pieces, self.rows = len(kept), sum(line["rows"] for line in kept)
        self.kept = kept[-1]["kept"] if kept else {}

    def _line(self, values: JsonObject | LogLine) -> None:
        text = dumps(values)
        self.lines.write(f"{sha256(text.encode()).hexdigest()} {text}\n".encode())

    def _settle(self) -> None:
        """Flush to disk: rows before the log line that records them."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.lines.flush()
        os.fsync(self.lines.fileno())

    # -- pieces ----------------------------------------------------------------------------------------------------
    def _head(self) -> bytes:
        if self.ending == ".parquet":
            return MAGIC
        return self.empty if self.ending == ".csv" else self.empty[: _schema_end(self.empty)]

    def add(self, content: bytes, rows: int, kept: KeptRows) -> None:
        """Append the next piece, as `encoded` returns it; `kept`: the state for resuming after it."""
        entry = b""
        try:
            if rows and self.ending == ".parquet":
                group = group_part(content, self.file.tell(), len(self.entries))
                self.entries.append(entry := group.entry)
                self.file.write(group.pages)
            elif rows and self.ending == ".csv":
                self.file.write(content[len(self.empty) :])
            elif rows:
                self.file.write(content[_schema_end(content) : -len(STREAM_END)])
            self.file.flush()
            os.fsync(self.file.fileno())
            self._line({"end": self.file.tell(), "rows": rows, "entry": entry.hex(), "kept": kept})
            self.lines.flush()
        except OSError as error:
            raise InputError(self.field, str(self.part), f"a file that can be written ({error.strerror})") from None
        self.pieces, self.rows, self.kept = self.pieces + 1, self.rows + rows, kept

    def finish(self) -> None:
        """Complete the file and move it into place."""
        if not self.done:
            if self.ending == ".parquet":
                self.file.write(whole_footer(self.empty, self.entries, self.rows))
            elif self.ending == ".arrow":
                self.file.write(STREAM_END)
            self._settle()
            self.file.close()
            self.lines.close()
            self.part.replace(self.path)
        self.log.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files as they are, for a later run that resumes."""
        if not self.done:
            self.file.close()
            self.lines.close()


def _is_line(kept: JsonObject) -> TypeGuard[LogLine]:
    """Whether an object has the structure of a log line."""
    entry, sizes = kept.get("entry"), (integer(kept.get("end")), integer(kept.get("rows")))
    whole = all(size is not None and size >= 0 for size in sizes) and isinstance(kept.get("kept"), dict)
    return whole and isinstance(entry, str) and bool(re.fullmatch(r"([0-9a-f]{2})*", entry))


def _schema_end(stream: bytes) -> int:
    """Where the schema of an Arrow stream ends: a marker, the length of the message, and the message."""
    return 8 + int.from_bytes(stream[4:8], "little")
