"""Read exports of Nsight Systems (SQLite) and Nsight Compute (CSV): kernels in order, without shapes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from roofline.declared.errors import InputError
from roofline.measured.compare.kernels import LARGEST_PROFILE, MOST_KERNELS, ProfiledKernel, SharedNames
from roofline.model.sources.pieces import rows_of_csv, text_lines
from roofline.model.sources.untrusted import opened

_KERNELS, _NAMES = "CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 2**22, sqlite3.SQLITE_LIMIT_COLUMN: 512, sqlite3.SQLITE_LIMIT_SQL_LENGTH: 2**20,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50, sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
}  # fmt: skip
"""SQLite's own limits: bytes of a value or row, columns, and sizes of statements."""
_LOOK = 10_000
"""Instructions of SQLite's virtual machine between two looks at the clock."""
MOST_TABLES = 2_000

Kernels: TypeAlias = list[tuple[int, int, int]]


def systems_kernels(path: Path) -> tuple[ProfiledKernel, ...]:
    """Kernels of `nsys export --type sqlite`, from the tables CUPTI_ACTIVITY_KIND_KERNEL and StringIds.

    The file is opened read-only, and nothing of its schema is evaluated: no view, trigger, generated column, function
    or virtual table. Raises InputError for a file that is larger than `LARGEST_PROFILE`, broken, slow, or without
    kernels.
    """
    with opened(path, LARGEST_PROFILE, path.name):
        shared = SharedNames(path.name)
    late: list[InputError] = []

    def look() -> bool:
        try:
            shared.in_time()
        except InputError as error:
            late.append(error)
        return bool(late)

    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)) as base:
            for limit, most in _LIMITS.items():
                base.setlimit(limit, most)
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "cache_size = -16384"):
                base.execute(f"PRAGMA {pragma}")
            base.set_progress_handler(look, _LOOK)
            base.set_authorizer(_may_read)
            name = _name_column(base, path)
            rows = _kernel_rows(base, path, name)
            names = _kernel_names(base, {row[2] for row in rows}, shared)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # names of a schema are decoded before any is read
        if late:
            raise late[0] from None
        raise InputError(path.name, "a broken SQLite file", "a whole export of nsys") from error
    numbers = [(start, end, names[key]) for start, end, key in rows if key in names]
    if not numbers:
        raise InputError(path.name, "0 kernels", f"from 1 to {MOST_KERNELS}")
    return tuple(ProfiledKernel(name, start * 1e-9, (end - start) * 1e-9) for start, end, name in numbers)


def _may_read(action: int, first: str | None, second: str | None, base: str | None, inner: str | None) -> int:
    """Authorizer of SQLite: the schema and two tables may be read, `substr` called, and nothing else done."""
    tables = ("sqlite_master", "sqlite_schema", _KERNELS, _NAMES)
    allowed = (
        action == sqlite3.SQLITE_SELECT
        or (action == sqlite3.SQLITE_READ and first in tables and inner is None)
        or (action == sqlite3.SQLITE_FUNCTION and second == "substr" and inner is None)
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo")
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _name_column(base: sqlite3.Connection, path: Path) -> str:
    """The column that refers to a kernel's name. Raises InputError for tables other than nsys writes."""
    needed = f"an export of nsys with the tables {_KERNELS} and {_NAMES}"
    query = f"SELECT name, type, rootpage FROM sqlite_master LIMIT {MOST_TABLES}"
    plain = {row[0] for row in base.execute(query) if row[1] == "table" and isinstance(row[2], int) and row[2] > 0}
    if not {_KERNELS, _NAMES} <= plain:  # a view and a virtual table have no page of their own
        raise InputError(path.name, "no kernels", needed)
    columns = {table: base.execute(f"PRAGMA table_xinfo({table})").fetchall() for table in (_KERNELS, _NAMES)}
    if any(column[6] for each in columns.values() for column in each):
        raise InputError(path.name, "columns that are computed", needed)
    known = {column[1] for column in columns[_KERNELS]}
    return next((column for column in ("demangledName", "shortName") if column in known), "shortName")


def _kernel_rows(base: sqlite3.Connection, path: Path, name: str) -> Kernels:
    """Start, end and id of the name of each kernel, in order of start."""
    query = f'SELECT start, "end", {name} FROM {_KERNELS} NOT INDEXED LIMIT {MOST_KERNELS + 1}'
    rows: Kernels = []
    count = 0
    for start, end, key in base.execute(query):
        count += 1
        if type(start) is type(end) is type(key) is int and 0 <= start <= end < 2**62:
            rows.append((start, end, key))
    if count > MOST_KERNELS:
        raise InputError(path.name, f"{count} kernels", f"from 1 to {MOST_KERNELS}")
    return sorted(rows)


def _kernel_names(base: sqlite3.Connection, wanted: set[int], shared: SharedNames) -> dict[int, str]:
    """Names by their ids, of those that are wanted."""
    rows = base.execute(f"SELECT id, substr(value, 1, 500) FROM {_NAMES} NOT INDEXED")
    return {key: shared.name(str(text)[:500]) for key, text in rows if key in wanted}


# -- Nsight Compute ------------------------------------------------------------------------------------------------
_DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")
_BYTES = ("dram__bytes.sum",)
_UNITS = {
    "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0,
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9,
}  # fmt: skip


MOST_ROWS = 4 * MOST_KERNELS
"""Most rows of CSV: a kernel has one for each of its metrics."""
_KNOWN = (*_DURATION, *_BYTES)


def compute_kernels(text: Iterable[str], name: str) -> tuple[ProfiledKernel, ...]:
    """Kernels of `ncu --csv`, with one row per metric (the default) or per kernel (`--page raw`).

    Raises InputError if no kernel has a duration.
    """
    lines = (line for line in text_lines(text, name, MOST_ROWS) if not line.startswith("=="))
    head = next((line for line in lines if "Kernel Name" in line), None)
    if head is None:
        raise InputError(name, "no column Kernel Name", "CSV of ncu")
    shared = SharedNames(name)
    rows = (row for _, row in rows_of_csv(chain((head,), lines), name, MOST_ROWS))
    kernels = tuple(_rows(rows, shared))
    if not kernels or len(kernels) > MOST_KERNELS:
        raise InputError(name, f"{len(kernels)} kernels with a duration", f"from 1 to {MOST_KERNELS}")
    return kernels


def _rows(rows: Iterator[list[str]], shared: SharedNames) -> Iterator[ProfiledKernel]:
    place = {column: i for i, column in enumerate(next(rows))}
    units: list[str] | None = None
    by_id: dict[str, dict[str, float]] = {}
    names: dict[str, str] = {}

    def cell(row: list[str], column: str) -> str:
        i = place.get(column, -1)
        return row[i] if 0 <= i < len(row) else ""

    for number, row in enumerate(rows):
        if not number % _LOOK:
            shared.in_time()
        if "Metric Name" not in place:  # a row for each kernel, units in the first
            if units is None:
                units = row
                continue
            read = {k: _value(cell(row, k), cell(units, k)) for k in _KNOWN if k in place}
            names[str(len(by_id))] = shared.name(cell(row, "Kernel Name")[:500])
            by_id[str(len(by_id))] = {k: v for k, v in read.items() if v is not None}
        else:
            id, metric = cell(row, "ID")[:40], cell(row, "Metric Name")
            if metric not in _KNOWN:
                continue
            value = _value(cell(row, "Metric Value"), cell(row, "Metric Unit"))
            names.setdefault(id, shared.name(cell(row, "Kernel Name")[:500]))
            if value is not None:
                by_id.setdefault(id, {})[metric] = value
        if len(names) > MOST_KERNELS:
            raise InputError(shared.file, f"more than {MOST_KERNELS} kernels", f"at most {MOST_KERNELS}")
    start = 0.0
    for id, metrics in by_id.items():
        seconds = next((metrics[key] for key in _DURATION if key in metrics), None)
        if seconds is not None:
            moved = next((metrics[k] for k in _BYTES if k in metrics), None)
            yield ProfiledKernel(names[id], start, seconds, moved=moved)
            start += seconds


def _value(text: str, unit: str) -> float | None:
    try:
        value = float(text.replace(",", "")) * _UNITS.get(unit.strip().lower(), 1.0)
    except ValueError:
        return None
    return value if 0 <= value < 1e18 else None
