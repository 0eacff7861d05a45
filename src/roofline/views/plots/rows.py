"""Picture of one column of a sweep over an axis, with a line for each combination of the other axes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.numbers.units import whole
from roofline.views.plots.data import RowsLine, RowsPlot
from roofline.whatif.query.columns import Words
from roofline.whatif.query.figures import ColumnKind
from roofline.whatif.sweep.sweep import Sweep, axis_sizes

MOST_LINES = 12
MOST_DRAWN = 20_000
"""Largest number of points of a line."""


def rows_plot(sweep: Sweep, x: str | None = None, y: str | None = None) -> RowsPlot:
    """Plot a column `y` (default: the first figure) over a numeric column `x` (default: the longest numeric axis).

    Raises InputError for columns that are not numeric, more than 12 lines, and a line with more than 20,000 points.
    """
    kinds = {column.name: column for column in sweep.sweeper.columns if column.kind in ("int", "float")}
    axes = {axis.name: len(axis.values) for axis in sweep.sweeper.space.numbers}
    chosen_x = x or max(axes, key=lambda name: axes[name])
    chosen_y = y or next(name for name, column in kinds.items() if column.figure)
    for name, option in ((chosen_x, "--x"), (chosen_y, "--y")):
        if name not in kinds:
            raise not_one_of(option, name, kinds)
    names = [name for name, size in _several(sweep).items() if size > 1 and name not in (chosen_x, chosen_y)]
    lines = tuple(_lines(sweep, names, chosen_x, chosen_y))
    fixed = [f"{name} {_first(sweep, name)}" for name, size in axis_sizes(sweep.sweeper.space).items() if size == 1]
    title = f"{_label(kinds[chosen_y])} of {sweep.phase} over {chosen_x}"
    where = [f"where {sweep.where}"] if sweep.where else []
    return RowsPlot(
        title, _label(kinds[chosen_x]), _label(kinds[chosen_y]), kinds[chosen_y].unit, lines, ", ".join(fixed + where)
    )


def _several(sweep: Sweep) -> dict[str, int]:
    """The axes with their numbers of values among the rows, and the layout if it was chosen automatically."""
    names = [column.name for column in sweep.sweeper.columns if not column.figure]
    return {name: len(_values(sweep, name)) for name in names}


def _values(sweep: Sweep, name: str) -> Sequence[str | float]:
    """Values of an axis among the rows, in order."""
    values = sweep.values[name]
    if isinstance(values, Words):
        return [values.names[code] for code in dict.fromkeys(values.codes.tolist())]
    return list(dict.fromkeys(values.tolist()))


def _lines(sweep: Sweep, names: list[str], x: str, y: str) -> list[RowsLine]:
    choices = [_values(sweep, name) for name in names]
    number = int(np.prod([len(c) for c in choices], dtype=float))
    if number > 64 * MOST_LINES:
        raise InputError("--plot", f"{number} lines ({', '.join(names)})", f"at most {MOST_LINES}: fewer values")
    lines = []
    for chosen in product(*choices):
        rows = np.ones(sweep.rows, dtype=bool)
        for name, value in zip(names, chosen, strict=True):
            values = sweep.values[name]
            rows &= values.equal(str(value)) if isinstance(values, Words) else values == value
        across, up = np.asarray(sweep.values[x])[rows], np.asarray(sweep.values[y])[rows]
        known = np.isfinite(up)
        order = np.argsort(across[known], kind="stable")
        if order.size > MOST_DRAWN:
            raise InputError("--plot", f"{order.size} points of a line", f"at most {MOST_DRAWN}: fewer values of {x}")
        if order.size:
            label = ", ".join(_name(name, value) for name, value in zip(names, chosen, strict=True))
            points = across[known][order].astype(float).tolist(), up[known][order].astype(float).tolist()
            lines.append(RowsLine(label or sweep.phase, tuple(points[0]), tuple(points[1])))
    if not 0 < len(lines) <= MOST_LINES:
        raise InputError("--plot", f"{len(lines)} lines ({', '.join(names)})", f"1 to {MOST_LINES}: fewer values")
    return lines


def _name(axis: str, value: str | float) -> str:
    return value if isinstance(value, str) else f"{axis} {whole(value)}"


def _first(sweep: Sweep, name: str) -> str:
    value = _values(sweep, name)[0]
    return value if isinstance(value, str) else whole(value)


def _label(column: ColumnKind) -> str:
    """A column's label; its unit is in the tick labels, or here."""
    known = {"tpot": "TPOT", "ttft": "TTFT", "mfu": "MFU"}
    words = " ".join(known.get(word, word) for word in column.name.split("_"))
    label = words[:1].upper() + words[1:]
    return f"{label} ({column.unit})" if column.unit in ("USD", "share", "requests/s", "FLOP/B") else label
