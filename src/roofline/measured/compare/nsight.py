"""Read exports of Nsight Systems (SQLite) and Nsight Compute (CSV): kernels in order, without shapes."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from roofline.declared.errors import InputError
from roofline.measured.compare.kernels import LARGEST_PROFILE, MOST_KERNELS, ProfiledKernel

_STEPS = 10_000_000
"""Unit of SQLite's budget for queries, in virtual machine instructions: the handler runs after each hundredth of it."""
_LOOKS = 500


def systems_kernels(path: Path) -> tuple[ProfiledKernel, ...]:
    """Kernels of `nsys export --type sqlite`, from the tables CUPTI_ACTIVITY_KIND_KERNEL and StringIds.

    The file is opened read-only. Raises InputError for a file that is larger than `LARGEST_PROFILE`, broken, or without
    kernels.
    """
    if path.stat().st_size > LARGEST_PROFILE:
        raise InputError(path.name, f"{path.stat().st_size} bytes", f"at most {LARGEST_PROFILE} bytes")
    looks = iter(range(_LOOKS))
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)) as base:
            base.set_progress_handler(lambda: next(looks, None) is None, _STEPS // 100)
            base.execute("PRAGMA trusted_schema = OFF")
            kinds = {row[0]: row[1] for row in base.execute("SELECT name, type FROM sqlite_master LIMIT 10000")}
            needed = ("CUPTI_ACTIVITY_KIND_KERNEL", "StringIds")
            if any(kinds.get(table) != "table" for table in needed):
                raise InputError(path.name, "no kernels", f"an export of nsys with the tables {' and '.join(needed)}")
            columns = {row[1] for row in base.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")}
            name = next((c for c in ("demangledName", "shortName") if c in columns), "shortName")
            rows = base.execute(
                f'SELECT k.start, k."end", substr(s.value, 1, 500) FROM CUPTI_ACTIVITY_KIND_KERNEL k '
                f"JOIN StringIds s ON s.id = k.{name} ORDER BY k.start LIMIT {MOST_KERNELS + 1}"
            ).fetchall()
    except sqlite3.Error as error:
        raise InputError(path.name, "a broken SQLite file", "a whole export of nsys") from error
    numbers = [(s, e, n) for s, e, n in rows if isinstance(s, int) and isinstance(e, int) and 0 <= s <= e < 2**62]
    if not numbers or len(rows) > MOST_KERNELS:
        raise InputError(path.name, f"{len(rows)} kernels", f"from 1 to {MOST_KERNELS}")
    return tuple(ProfiledKernel(str(n), s * 1e-9, (e - s) * 1e-9) for s, e, n in numbers)


_DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")
_BYTES = ("dram__bytes.sum",)
_UNITS = {
    "ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1.0, "second": 1.0,
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9,
}  # fmt: skip


def compute_kernels(text: str, name: str) -> tuple[ProfiledKernel, ...]:
    """Kernels of `ncu --csv`, with one row per metric (the default) or per kernel (`--page raw`).

    Raises InputError if no kernel has a duration.
    """
    lines = [line for line in text.splitlines() if not line.startswith("==")]
    head = next((i for i, line in enumerate(lines) if "Kernel Name" in line), None)
    if head is None:
        raise InputError(name, "no column Kernel Name", "CSV of ncu")
    try:
        kernels = tuple(_rows(csv.DictReader(lines[head:])))
    except csv.Error as error:
        raise InputError(name, "broken CSV", "CSV of ncu") from error
    if not kernels or len(kernels) > MOST_KERNELS:
        raise InputError(name, f"{len(kernels)} kernels with a duration", f"from 1 to {MOST_KERNELS}")
    return kernels


def _rows(reader: csv.DictReader[str]) -> Iterator[ProfiledKernel]:
    units: dict[str, str] | None = None
    by_id: dict[str, dict[str, float]] = {}
    names: dict[str, str] = {}
    for row in reader:
        if "Metric Name" not in row:  # a row for each kernel, units in the first
            if units is None:
                units = {k: v for k, v in row.items() if k and isinstance(v, str)}
                continue
            read = {k: _value(v, units.get(k, "")) for k, v in row.items() if k in (*_DURATION, *_BYTES)}
            by_id[str(len(by_id))] = {k: v for k, v in read.items() if v is not None}
            names[str(len(names))] = str(row.get("Kernel Name"))[:500]
            continue
        id, value = str(row.get("ID")), _value(row.get("Metric Value"), row.get("Metric Unit") or "")
        names.setdefault(id, str(row.get("Kernel Name"))[:500])
        if value is not None:
            by_id.setdefault(id, {})[str(row["Metric Name"])] = value
    start = 0.0
    for id, metrics in by_id.items():
        seconds = next((metrics[key] for key in _DURATION if key in metrics), None)
        if seconds is not None:
            yield ProfiledKernel(
                names[id], start, seconds, moved=next((metrics[k] for k in _BYTES if k in metrics), None)
            )
            start += seconds


def _value(text: str | None, unit: str) -> float | None:
    try:
        value = float((text or "").replace(",", "")) * _UNITS.get(unit.strip().lower(), 1.0)
    except ValueError:
        return None
    return value if 0 <= value < 1e18 else None
