"""The base of all results: what was asked and where, figures that are numbers or arrays, and export.

A result is a frozen dataclass that lists its figures: attributes, each with the unit of its values. JSON, JSON Schema,
frame, text and HTML are derived from this list and from the types of the attributes. A value with a name in JSON
defines `plain`; a value that consists of several figures defines `leaves`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import product
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.numbers.arrays import np
from roofline.declared.numbers.maths import is_array
from roofline.declared.numbers.units import BARE, TEXTS, whole
from roofline.declared.trees import JsonValue
from roofline.extras import check_frames

if TYPE_CHECKING:
    from polars import DataFrame

Units: TypeAlias = Mapping[str, str]
"""Attribute → the unit of its values: s, B, FLOP, FLOP/B, share, USD, J, or "" for plain numbers and words."""
LINES = 30
"""Maximum number of lines in the text of a result."""
NONE = "–"
"""The text of a missing number."""

if TYPE_CHECKING:
    Word: TypeAlias = Any
    Flag: TypeAlias = Any
else:

    class Word:
        """A word, or an array of words."""

    class Flag:
        """A bool, or an array of bools."""


FigureValue: TypeAlias = Any
"""The value of a figure: a number, a word, an array of either, a result, or a list or mapping of these."""
Leaf: TypeAlias = tuple[str, FigureValue, str]
"""A name, a number or word (or an array of them), and its unit."""


class Figured:
    """An object that lists which of its attributes are figures, with their units."""

    FIGURES: ClassVar[Units]
    """In order. JSON has all of them, a frame only numbers and words."""
    NAMES: ClassVar[Mapping[str, str]] = {}
    """Figure → name of its attribute, where they differ."""

    def figure(self, name: str) -> FigureValue:
        """The value of a figure."""
        return getattr(self, self.NAMES.get(name, name))


class Result(Figured):
    """The base class of all answers. Subclasses are frozen dataclasses with `SCHEMA` and `FIGURES`."""

    SCHEMA: ClassVar[str]
    """The name and version of its JSON Schema."""

    def leaves(self) -> Iterator[Leaf]:
        """The numbers and words of all figures, each name once."""
        every = (leaf for name, unit in self.FIGURES.items() for leaf in leaves_of(name, self.figure(name), unit))
        return iter({leaf[0]: leaf for leaf in every}.values())

    def __getstate__(self) -> dict[str, FigureValue]:
        """The fields without cached values, for pickling and copying."""
        known: Any = self
        return {f.name: getattr(self, f.name) for f in fields(known)}

    @property
    def shape(self) -> tuple[int, ...]:
        """The broadcast shape of its arrays; () for scalars."""
        return np.broadcast_shapes(*(np.shape(value) for _, value, _ in self.leaves()))

    def to_dict(self) -> dict[str, JsonValue]:
        """The result as plain Python values, following the JSON Schema `docs/schema/NAME.json`."""
        return {"schema": self.SCHEMA, **{name: plain(self.figure(name)) for name in self.FIGURES}}

    def to_frame(self) -> DataFrame:
        """The result as a Polars frame: a row per element, a column per number and word.

        Raises InputError if Polars, the extra `frames`, is missing; `columns` has the same without it.
        """
        check_frames("to_frame", "no polars", "columns()")
        import polars

        return polars.DataFrame(self.columns(), strict=False)

    def columns(self) -> dict[str, list[FigureValue]]:
        """The columns of the frame, each with a value per element."""
        shape = self.shape
        return {name: np.broadcast_to(value, shape).reshape(-1).tolist() for name, value, _ in self.leaves()}

    def lines(self) -> list[tuple[str, str]]:
        """The names of figures and their values with units, as text; lists are given by their length."""
        lists = {name: self.figure(name) for name in self.FIGURES}
        lengths = [(name, whole(len(value))) for name, value in lists.items() if isinstance(value, tuple) and value]
        return [(name, text(value, unit)) for name, value, unit in _grouped(list(self.leaves()))] + lengths

    def __repr__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        shown = [f"{name:<{width}}  {value}" for name, value in lines[: LINES - 2]]
        more = [f"… {len(lines) - len(shown)} more: to_frame()"] if len(shown) < len(lines) else []
        shape = f", {' × '.join(map(str, self.shape))} points" if self.shape else ""
        return "\n".join([f"{type(self).__name__}{shape}", *shown, *more])

    def _repr_html_(self) -> str:
        """An HTML table for notebooks."""
        from html import escape  # loaded only in notebooks

        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.lines())
        return f"<table><caption>{escape(type(self).__name__)}</caption>{rows}</table>"


def leaves_of(name: str, value: FigureValue, unit: str) -> Iterator[Leaf]:
    """The numbers and words in a figure, with its name as prefix in a nested result; lists of objects have none."""
    if isinstance(value, Result):
        yield from ((f"{name}_{leaf}", number, unit) for leaf, number, unit in value.leaves())
    elif hasattr(value, "leaves"):
        yield from value.leaves(name, unit)
    elif hasattr(value, "plain"):
        yield name, value.plain(), unit
    elif not (isinstance(value, (tuple, list, Mapping, Figured)) or is_dataclass(value)):
        yield name, value, unit


def _grouped(leaves: Sequence[Leaf]) -> Iterator[Leaf]:
    """Leaves for display: a span's four numbers in one line, empty values left out."""
    by_name = {name: value for name, value, _ in leaves}
    for name, value, unit in leaves:
        base, _, end = name.rpartition("_")
        if end in ("floor", "low", "high") and base in by_name:
            continue
        if f"{name}_floor" in by_name:
            yield name, tuple(by_name[f"{name}{end}"] for end in ("", "_low", "_high", "_floor")), unit
        elif _says_something(name, value):
            yield name, value, unit


def _says_something(name: str, value: FigureValue) -> bool:
    """Whether a value is shown: not None, not an empty word, and not a memory term of 0."""

    if value is None or (isinstance(value, str) and not value):
        return False
    return not name.startswith("memory_") or bool(np.any(value))


# -- JSON ----------------------------------------------------------------------------------------------------------
def plain(value: FigureValue) -> JsonValue:
    """A value as JSON types. Raises TypeError for a value without such a form."""
    if hasattr(value, "plain"):
        return plain(value.plain())
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if isfinite(value) else None
        case Figured():
            return {name: plain(value.figure(name)) for name in value.FIGURES}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case tuple() | list():
            return [plain(item) for item in value]
    if is_array(value):
        return _listed(value.tolist())
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _listed(value: FigureValue) -> JsonValue:
    if isinstance(value, list):
        return [_listed(item) for item in value]
    return plain(value)


# -- text ----------------------------------------------------------------------------------------------------------
def text(value: FigureValue, unit: str) -> str:
    """A figure for display: a number with its unit, an interval in brackets, an array by its minimum and maximum."""
    if isinstance(value, tuple):
        expected, low, high, floor = value
        if text(expected, unit) == NONE:
            return NONE
        return f"{text(expected, unit)} [{text(low, unit)}, {text(high, unit)}], floor {text(floor, unit)}"
    if is_array(value) and value.ndim:
        if value.dtype.kind in "iuf":
            known = value[value == value]  # NaN means that there is no value
            if not known.size:
                return NONE
            low, high = known.min(), known.max()
            return text(low.item(), unit) if low == high else f"{text(low.item(), unit)} … {text(high.item(), unit)}"
        kinds = sorted(set(value.reshape(-1).tolist()))
        return ", ".join(map(str, kinds[:6])) + (", …" if len(kinds) > 6 else "")
    value = value.item() if is_array(value) else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(dict.fromkeys(map(str, value.values())))
    if not isinstance(value, (int, float)):
        return str(value)
    if value != value:
        return NONE
    if unit:
        return f"{TEXTS[unit](value)} {unit}" if unit in BARE else TEXTS[unit](value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


# -- grids ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Axis:
    """A setting with several values: its name, and a label for each."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Grid(Result):
    """Results of one type along labelled axes, the last axis fastest; `grid.time` has the axes first, then the points.

    Every attribute of the results that is a number, a word, a span or a memory is also an attribute of the grid; lists
    within these are left to the results.
    """

    SCHEMA: ClassVar[str] = "roofline.grid/2"
    FIGURES: ClassVar[Units] = {"axes": "", "results": ""}

    axes: tuple[Axis, ...]
    results: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes, then the shape of the points."""
        return (*self._lengths, *np.broadcast_shapes(*(r.shape for r in self.results)))

    @property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(len(axis.labels) for axis in self.axes)

    def at(self, **labels: str) -> Any:
        """The result, or the smaller grid, at some labels. Raises InputError for an unknown axis or label."""
        known = {axis.name: axis for axis in self.axes}
        for name, label in labels.items():
            if name not in known or label not in known[name].labels:
                expected = known[name].labels if name in known else tuple(known)
                raise InputError(name, label, f"one of {', '.join(expected)}")
        every = product(*(axis.labels for axis in self.axes))
        wanted = [labels.get(axis.name) for axis in self.axes]
        kept = [
            result
            for names, result in zip(every, self.results, strict=True)
            if all(w is None or w == n for w, n in zip(wanted, names, strict=True))
        ]
        axes = tuple(axis for axis in self.axes if axis.name not in labels)
        return Grid(axes, tuple(kept)) if axes else kept[0]

    def __getattr__(self, name: str) -> FigureValue:
        if name.startswith("_") or name in ("axes", "results"):
            raise AttributeError(name)
        return self._stacked([getattr(result, name) for result in self.results])

    def _stacked(self, values: list[FigureValue], points: tuple[int, ...] = ()) -> FigureValue:
        """The values of all results as one, with the shape of the axes, then that of the points."""
        first = values[0]
        if hasattr(first, "leaves") and is_dataclass(first) and not isinstance(first, type):
            columns = {f.name: [getattr(v, f.name) for v in values] for f in fields(first)}
            several = (name for name, column in columns.items() if isinstance(column[0], tuple))
            lists: dict[str, FigureValue] = dict.fromkeys(several, ())
            known = {name: c for name, c in columns.items() if c[0] is not None and name not in lists}
            points = np.broadcast_shapes(*(np.shape(v) for column in known.values() for v in column))
            return replace(first, **{name: self._stacked(column, points) for name, column in known.items()}, **lists)
        points = np.broadcast_shapes(points, *(np.shape(v) for v in values))
        stacked = np.stack([np.broadcast_to(v, points) for v in values])
        return stacked.reshape(*self._lengths, *points)

    def columns(self) -> dict[str, list[FigureValue]]:
        """The labels of the axes and the columns of every result, with a row per element."""
        columns: dict[str, list[FigureValue]] = {}
        for names, result in zip(product(*(axis.labels for axis in self.axes)), self.results, strict=True):
            rows = result.columns()
            labels = {a.name: [n] * prod(result.shape) for a, n in zip(self.axes, names, strict=True)}
            for name, values in {**rows, **labels}.items():
                columns.setdefault(name, []).extend(values)
        return columns

    def lines(self) -> list[tuple[str, str]]:
        """The axes, then the figures over all results."""
        axes = [(axis.name, ", ".join(axis.labels)) for axis in self.axes]
        names = {name for axis in self.axes for name in (axis.name, "chip" if axis.name == "on" else axis.name)}
        leaves = [
            (parts[0][0], self._flat([value for _, value, _ in parts]), parts[0][2])
            for parts in zip(*(result.leaves() for result in self.results), strict=True)
        ]
        return axes + [(n, text(v, unit)) for n, v, unit in _grouped(leaves) if n not in names]

    def _flat(self, values: list[FigureValue]) -> FigureValue:
        if any(v is None for v in values):
            return None
        return np.concatenate([np.asarray(v).reshape(-1) for v in values])
