"""A file with every request of a simulation: written in parts during the simulation and joined at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from json import dumps
from pathlib import Path
from shutil import rmtree
from time import monotonic

from roofline.declared.checks import integer, names_a_file
from roofline.declared.errors import InputError
from roofline.declared.trees import JsonValue
from roofline.model.sources.untrusted import parse_json, read_bytes
from roofline.serving.simulate.checkpoint import Ledger, Saved
from roofline.serving.simulate.recorder import ROW, Row
from roofline.views.files.atomic import check_ending, check_file, check_no_link, own_file, whole_file
from roofline.views.files.csv_columns import csv_header, csv_lines
from roofline.views.files.lock import FileLock

ENDINGS = (".parquet", ".csv")
PART = 2**14
"""Rows of a part; a fixed number, so that interrupted runs produce the same bytes."""
GROUP = 2**17
"""Rows of a Parquet row group."""
EVERY_ROWS = 100_000
EVERY_S = 10.0
"""A checkpoint is written after this many rows or seconds."""
CHECKPOINT = "checkpoint.json"
LARGEST = 2**29
"""Largest size in bytes of a checkpoint or part; a million requests in progress take half of it."""


class RequestFile(Ledger):
    """Collects rows in the folder `FILE.part/` beside the file; `finish` joins them into the file.

    If a run is killed the folder remains, and the same simulation resumes from its last checkpoint there. During a run
    `FILE.lock` keeps other runs out. Raises InputError for a file that cannot be written or, without `force`, already
    exists.
    """

    def __init__(self, path: Path, force: bool = False, field: str = "out") -> None:
        check_ending(path, ENDINGS, field)
        check_file(path, force, field)
        check_no_link(path.with_name(f"{path.name}.part"), field)
        self.path, self.force, self.field = path, force, field
        self.csv = path.suffix.lower() == ".csv"
        self.folder = path.with_name(f"{path.name}.part")
        self.lock = FileLock(path.with_name(f"{path.name}.lock"), field)
        self.fingerprint: str | None = None
        self.parts = self.saved = 0
        self.waiting: list[Row] = []
        self.clock = monotonic()

    def __enter__(self) -> RequestFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.lock.release()

    @property
    def rows(self) -> int:
        """Number of rows kept so far."""
        return self.parts * PART + len(self.waiting)

    def __call__(self, row: Row) -> None:
        self.waiting.append(row)
        if len(self.waiting) == PART:
            self._write_part()

    def _write_part(self) -> None:
        if self.csv:
            lines = csv_lines([_of_kind(place, kind, self.waiting) for place, kind in enumerate(ROW.values())])
            content = sha256(lines).hexdigest().encode() + b"\n" + lines
            self._write(self._part(self.parts), lambda path: path.write_bytes(content))
        else:
            from polars import DataFrame

            frame = DataFrame(self.waiting, schema=ROW, orient="row")
            self._write(self._part(self.parts), frame.write_ipc)
        self.parts += 1
        self.waiting.clear()

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:06}{'.lines' if self.csv else '.arrow'}"

    def _write(self, path: Path, fill: Callable[[Path], object], force: bool = True) -> None:
        whole_file(path, fill, self.field, force=force)

    # -- checkpoints -----------------------------------------------------------------------------------------------
    def begin(self, fingerprint: str) -> Saved | None:
        """Take the lock and read what the folder holds.

        Raises InputError if another run holds the lock and, without `force`, if the file has appeared in the meantime
        or the folder is damaged or belongs to another simulation.
        """
        self.lock.take()
        check_file(self.path, self.force, self.field)
        self.fingerprint = fingerprint
        kept = self._kept() if self.folder.exists() else None
        if kept is None:
            self._clear()
            return None
        self.parts, self.waiting = kept["parts"], [tuple(row) for row in kept["waiting"]]
        self.saved = self.rows
        state: Saved = kept["state"]
        return state

    def _kept(self) -> Saved | None:
        """State of the folder's checkpoint; None if there is none, or if the run may start anew."""
        path = self.folder / CHECKPOINT
        if not names_a_file(path):
            return None
        digest, _, text = read_bytes(path, LARGEST, self.field).partition(b"\n")
        whole = sha256(text).hexdigest().encode() == digest
        kept: Saved = parse_json(text, self.field) if whole else {}
        if kept.get("fingerprint") == self.fingerprint and _is_kept(kept):
            return kept
        whole = whole and kept.get("fingerprint") != self.fingerprint
        if self.force:
            return None
        what = "another simulation's requests" if whole else "a damaged checkpoint"
        raise InputError(self.field, what, f"no folder {self.folder.name}, or --force to begin it anew")

    def _clear(self) -> None:
        if self.folder.exists() and not self.force and not _ours(self.folder):
            raise InputError(self.field, self.folder.name, "a new name: this folder holds other files")
        try:
            if self.folder.exists():
                rmtree(self.folder)
            self.folder.mkdir()
        except OSError as error:
            raise InputError(self.field, str(self.folder), f"a folder that can be written ({error.strerror})") from None

    def due(self, rows: int) -> bool:
        return rows - self.saved >= EVERY_ROWS or (rows > self.saved and monotonic() - self.clock >= EVERY_S)

    def save(self, state: Saved) -> None:
        kept = {"fingerprint": self.fingerprint, "parts": self.parts, "waiting": self.waiting, "state": state}
        text = dumps(kept)
        digest = sha256(text.encode()).hexdigest()
        self._write(self.folder / CHECKPOINT, lambda path: path.write_text(f"{digest}\n{text}", encoding="utf-8"))
        self.saved, self.clock = self.rows, monotonic()

    def interrupted(self) -> int:
        """Number of requests from which the same command resumes; what was written without a checkpoint is removed.

        The checkpoint in the folder tells it: the interruption may have come between its writing and `saved`. A folder
        that this run has not begun is another run's, and is left alone.
        """
        if self.fingerprint is None:
            return 0
        if kept := self._kept():
            rows: int = kept["parts"] * PART + len(kept["waiting"])
            return rows
        if self.folder.is_dir() and _ours(self.folder):
            rmtree(self.folder, ignore_errors=True)
        return 0

    # -- the end ---------------------------------------------------------------------------------------------------
    def finish(self) -> None:
        """Join the parts into the file and remove them. Raises InputError if the file cannot be written."""
        if self.waiting or not self.parts:
            self._write_part()
        self._write(self.path, self._join_csv if self.csv else self._join_parquet, self.force)
        rmtree(self.folder)
        self.lock.release()

    def _join_csv(self, path: Path) -> None:
        with own_file(path, "wb") as file:
            file.write(csv_header(ROW))
            for number in range(self.parts):
                part = self._part(number)
                if not names_a_file(part):
                    raise self._damaged()
                digest, _, lines = read_bytes(part, LARGEST, self.field).partition(b"\n")
                if sha256(lines).hexdigest().encode() != digest:
                    raise self._damaged()
                file.write(lines)

    def _join_parquet(self, path: Path) -> None:
        from polars import scan_ipc
        from polars.exceptions import PanicException, PolarsError

        try:
            scan_ipc([self._part(number) for number in range(self.parts)]).sink_parquet(path, row_group_size=GROUP)
        except (PolarsError, PanicException):
            raise self._damaged() from None

    def _damaged(self) -> InputError:
        return InputError(self.field, "damaged parts", f"no folder {self.folder.name}, to begin anew")


def _is_kept(kept: Saved) -> bool:
    """Whether a checkpoint has the structure that `save` writes."""
    parts, waiting = integer(kept.get("parts")), kept.get("waiting")
    rows = isinstance(waiting, list) and len(waiting) < PART and all(map(_is_row, waiting))
    return parts is not None and parts >= 0 and rows and isinstance(kept.get("state"), dict)


def _is_row(row: JsonValue) -> bool:
    """Whether a value of a checkpoint is a row: a number or None in every column."""
    return isinstance(row, list) and len(row) == len(ROW) and all(v is None or type(v) in (int, float) for v in row)


def _of_kind(place: int, kind: type[float], rows: Sequence[Row]) -> list[float | None]:
    """Column `place` of some rows; missing values stay missing."""
    return [None if (value := row[place]) is None else kind(value) for row in rows]


def _ours(folder: Path) -> bool:
    """Whether a folder holds only parts of requests, complete or not."""
    return folder.is_dir() and all(p.name.endswith((".arrow", ".json", ".lines")) for p in folder.iterdir())
