"""A sheet: named columns of plain figures with their units, shown as a table and written as CSV, Parquet or JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from roofline.show.tables import Column, Table, csv_text, parquet
from roofline.show.units import ratio, seconds, si, whole


def percent(value: float) -> str:
    """A share.

    >>> percent(0.125)
    '12.5 %'
    """
    return f"{100 * value:.1f} %"


def change(value: float) -> str:
    """A factor as what it adds.

    >>> change(1.25), change(0.5)
    ('+25 %', '-50 %')
    """
    return f"{100 * (value - 1):+.0f} %"


TEXTS: Mapping[str, Callable[[Any], str]] = MappingProxyType({
    "": str, "count": lambda v: whole(int(v)) if v == int(v) else f"{v:,.1f}",
    "s": seconds, "B": lambda v: si(v, "B"), "FLOP": lambda v: si(v, "FLOP"),
    "FLOP/B": ratio, "share": percent, "factor": lambda v: f"× {v:.3f}", "change": change,
    "elasticity": lambda v: f"{v:+.2f}", "tokens/s": lambda v: f"{v:,.0f}", "USD": lambda v: f"{v:,.2f}",
})  # fmt: skip
"""Unit of a column → how a person reads a value of it."""


@dataclass(frozen=True)
class Field:
    """A column: its name and the unit of its values, one of TEXTS; text without one."""

    name: str
    unit: str = ""

    def text(self, value: Any) -> str:
        """A value for a person; where there is none nothing, of a change a dash.

        >>> Field("TPOT", "change").text(None), Field("TPOT", "s").text(None)
        ('–', '')
        """
        if value is None:
            return "–" if self.unit == "change" else ""
        return TEXTS[self.unit](value)

    @property
    def header(self) -> str:
        """The name in a file, with an SI unit where it has one."""
        return f"{self.name} ({self.unit})" if self.unit in ("s", "B", "FLOP", "FLOP/B", "USD") else self.name


@dataclass(frozen=True)
class Sheet:
    """Rows of figures under columns; `name` is that of its file. `total`: rows set apart. `hidden`: only a file."""

    name: str
    fields: tuple[Field, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: tuple[tuple[Any, ...], ...] = ()
    hidden: bool = False

    def table(self) -> Table:
        """As a person reads it."""

        def texts(row: tuple[Any, ...]) -> tuple[str, ...]:
            return tuple(f.text(v) for f, v in zip(self.fields, row, strict=True))

        columns = tuple(Column(f.name, bool(f.unit)) for f in self.fields)
        return Table(columns, tuple(map(texts, self.rows)), tuple(map(texts, self.total)))

    @property
    def header(self) -> tuple[str, ...]:
        """The columns' names in a file."""
        return tuple(f.header for f in self.fields)

    def csv(self) -> str:
        """Plain figures, a line for each row."""
        return csv_text(self.header, [*self.rows, *self.total])

    def json(self) -> dict[str, Any]:
        """The name, columns with their units, and rows."""
        columns = [{"name": f.name, "unit": f.unit or None} for f in self.fields]
        return {"name": self.name, "columns": columns, "rows": [list(row) for row in (*self.rows, *self.total)]}

    def parquet(self) -> bytes:
        """A column of plain figures for each field; the totals are left out."""
        return parquet(self.header, self.rows)
