"""A model on the ranks of a layout, in formats, with an engine's kernels on a chip: compiled once, timed at any step.

A module is timed at the simplest step that looks the same to it (`roofline.work.step.View`): a matrix product sees only
the number of new tokens. Of arrays only the distinct elements of such steps are timed, in pieces that bound memory. The
times of modules with the same view are summed before they are gathered for every element. A single step is timed in the
same way, and the plan caches its times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.maths import Count, is_array, most, root, where
from roofline.declared.numbers.unique_rows import Distinct, distinct, everyone
from roofline.kernels.deviation import PARTS, Deviation
from roofline.kernels.target import Target
from roofline.kernels.timing import SUMMED, Timing, time_op, time_quantise
from roofline.model.model import Model
from roofline.model.modules import Experts, Module
from roofline.work import ops as o
from roofline.work.lower import fed, view_of
from roofline.work.step import Step, View, logits_alone, tokens_alone, tokens_and_phase
from roofline.work.training import Training, step_ops

PIECE = 2**13
"""Elements timed at once, so that a law's arrays fit in the cache of a core."""
REMEMBERED = 2**16
"""Steps whose times a plan caches."""
TABLE = 64
"""Token counts that are timed together when one of them is asked for; counts above TABULATED are timed alone."""
TABULATED = 512
WHOLE = 0.06
"""Error of whole models beyond that of their kernels, as a share of a step's time, which widens the 80 % interval: what
lies between kernels. To hold 80 % of the measured batches and servers, with each model left out in turn, an interval
needs 0.03 to 0.06 of it for dense models; of mixtures on servers of engines that were fitted on some 0.06, and 0.05 to
0.09 with each engine on a chip left out (`benchmarks/fit_mixtures.py`)."""
UNTRIED = 0.22
"""Further error of routed experts where nobody measured the engine's kernels of them, nor its servers: vLLM and
TensorRT-LLM of 2024, llama.cpp in data centres. With each engine on a chip left out 0.19 to 0.25."""
UNEVEN = 0.12
"""Further error of ranks whose experts are assumed to be loaded evenly. Balancing the residual load of such ranks has
gained up to 7.3 % of the throughput (LPLB) and up to 4.9 % (Waterfill): lmsys.org/blog/2026-06-26-waterfill-lplb."""
UNSERVED = 0.15
"""That error for an engine that was not fitted on servers of the chip: how it spreads experts and exchanges tokens is
not known either. It holds 80 % of the measured servers of such engines; with each engine on a chip left out 0.15 to
0.16 (`benchmarks/fit_mixtures.py`)."""
HOSTED = 0.54
"""Error of a server's host time in a step, as a share of it: the host's processor and the release are not those of the
servers that it was fitted on. It holds 80 % of the measured servers in whose steps it is more than a fifth; with each
engine on a chip left out 0.38 to 0.62 (`benchmarks/fit_hosts.py`)."""
ENDS = ("embedding", "head")
"""Sections of a model that are not layers; full recomputation leaves them alone."""


@dataclass(frozen=True)
class Total:
    """Sums over ops, in seconds as in `Timing`: numbers or arrays.

    `communication`: expected seconds of collectives. `graded`: expected seconds by the grade of their constants.
    `launches`: kernels launched. `common_below` to `own_above`: sums of the parts of a `Deviation`, from which the ends
    of the interval follow.
    """

    compute: Count = 0.0
    memory: Count = 0.0
    expected: Count = 0.0
    fixed: Count = 0.0
    network: Count = 0.0
    floor: Count = 0.0
    communication: Count = 0.0
    launches: Count = 0
    more_compute: Count = 0.0
    more_memory: Count = 0.0
    padding: Count = 0.0
    tiles: Count = 0.0
    common_below: Count = 0.0
    common_above: Count = 0.0
    own_below: Count = 0.0
    own_above: Count = 0.0
    graded: Mapping[str, Count] = field(default_factory=dict)

    def __add__(self, other: Total) -> Total:
        sums = {name: getattr(self, name) + getattr(other, name) for name in NUMBERS}
        grades = {**self.graded, **other.graded}
        return Total(**sums, graded={g: self.graded.get(g, 0.0) + other.graded.get(g, 0.0) for g in grades})

    def times(self, factor: Count) -> Total:
        """The sums for `factor` times the ops; their errors are fully correlated."""
        return self.mapped(lambda v: factor * v).with_error(self.error.times(factor))

    def with_error(self, error: Deviation) -> Total:
        """These sums with another deviation."""
        return replace(self, **{name: getattr(error, name) for name in PARTS})

    @property
    def error(self) -> Deviation:
        """Deviation of measurements from the expected sum."""
        return Deviation(self.common_below, self.common_above, self.own_below, self.own_above)

    @property
    def low(self) -> Count:
        """Lower end of the interval in which 80 % of measurements fall."""
        return most(self.expected - self.error.below, self.floor)

    @property
    def high(self) -> Count:
        """Upper end of the interval in which 80 % of measurements fall."""
        return self.expected + self.error.above

    def at(self, places: Array | slice | int) -> Total:
        """The sums at some elements; numbers shared by all elements are kept."""
        return self.mapped(lambda v: v[places] if _is_many(v) else v)

    def mapped(self, each: Callable[[Count], Count]) -> Total:
        """Apply a function to every number."""
        numbers = {name: each(getattr(self, name)) for name in NUMBERS}
        return Total(**numbers, graded={grade: each(value) for grade, value in self.graded.items()})


NUMBERS = tuple(f.name for f in fields(Total) if f.name != "graded")
EMPTY = Total()


def total_of(t: Timing, op: o.Op, layers: Count, squares: Count) -> Total:
    """The sums of one op in `layers` layers. `squares`: sum of squares over groups of layers with a common error."""
    sums = {name: layers * getattr(t, name) for name in SUMMED}
    expected = sums["expected"]
    sent = expected if isinstance(op, o.Communicate) else 0.0
    if isinstance(t.grade, str):
        graded = {t.grade: expected}
    else:
        graded = {str(g): np.where(t.grade == g, expected, 0.0) for g in np.unique(t.grade)}
    error = t.error.times(layers, squares)
    sums |= {name: getattr(error, name) for name in PARTS}
    return Total(**sums, floor=layers * t.floor, communication=sent, graded=graded)


Sorter: TypeAlias = Callable[[str, o.Op, str], Hashable]
"""Maps a section of the model, an op and its kind (`quantise` for the pass before a product) to the key of a sum."""


def together(section: str, op: o.Op, kind: str) -> Hashable:
    """The key of a single sum over all ops."""
    return ""


@dataclass(frozen=True)
class Placed:
    """A distinct module, and where it stands in the model.

    `whole`: it is part of a layer. `places`: for each section, the number of layers with the module, and the sum of the
    squares of that number over blocks and names. The error of a module is common to all layers of a block; modules with
    other names err independently, whatever their sizes.
    """

    module: Module
    whole: bool
    places: tuple[tuple[str, Count, Count], ...]

    @cached_property
    def view(self) -> View[Step]:
        """What the module sees of a step."""
        return view_of(self.module)

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """The sizes that are arrays, on a rank of several layouts."""
        values = {f.name: getattr(self.module, f.name) for f in fields(self.module) if f.name not in UNTIMED}
        return {name: value for name, value in values.items() if is_array(value)}


UNTIMED = ("name", "copies")
"""Fields of a module that do not affect its time."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What one rank holds, and the target it runs on. `totals` times a step of that rank."""

    rank: Model
    target: Target
    _known: dict[Hashable, Mapping[Hashable, Total]] = field(default_factory=dict, init=False, repr=False)
    _tables: dict[Hashable, Mapping[Hashable, Total]] = field(default_factory=dict, init=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the rank and the target; another process computes the rest when needed."""
        return type(self), (self.rank, self.target)

    @property
    def unsure_host(self) -> float:
        """Error of a server's host time, as a share of it; 0 where the law is not fitted."""
        return HOSTED if self.target.mode.name == "calibrated" else 0.0

    @cached_property
    def unexplained(self) -> Count:
        """Error of whole models beyond their kernels, as a share of a step's time; 0 where the law is not fitted."""
        if self.target.mode.name != "calibrated":
            return 0.0
        routed = [module for _, module, _ in self.rank.placed() if isinstance(module, Experts)]
        engine, chip = self.target.engine, self.target.chip
        assumed: Count = 0.0 if not routed or engine.was_tried_on(chip) else UNTRIED
        uneven = UNEVEN if engine.was_served_on(chip) else UNSERVED
        for module in routed:
            assumed = most(assumed, where(module.ranks > 1, where(module.load == 1, uneven, 0.0), 0.0))
        return root(WHOLE**2 + assumed**2) if routed else WHOLE

    @cached_property
    def entries(self) -> tuple[Placed, ...]:
        """The distinct modules, regardless of their names."""
        return self._entries(lambda module: _sizes(module, UNTIMED))

    @cached_property
    def named_entries(self) -> tuple[Placed, ...]:
        """The distinct modules by name, for steps that treat some of them differently."""
        return self._entries(lambda module: _sizes(module, ("copies",)))

    def _entries(self, key_of: Callable[[Module], Hashable]) -> tuple[Placed, ...]:
        modules: dict[Hashable, Module] = {}
        places: dict[Hashable, dict[str, tuple[Count, Count]]] = {}
        for section, module, layers in self.rank.placed():
            key = (key_of(module), section not in ENDS)
            modules.setdefault(key, module)
            counts = places.setdefault(key, {})
            many, squares = counts.get(section, (0, 0))
            counts[section] = (many + layers, squares + layers * layers)
        each = {
            key: tuple((section, *counts) for section, counts in sections.items()) for key, sections in places.items()
        }
        return tuple(Placed(modules[key], key[1], each[key]) for key in modules)  # type: ignore[index]

    @cached_property
    def _views(self) -> Mapping[View[Step], Sequence[Placed]]:
        return _by_view(self.entries)

    @cached_property
    def _named_views(self) -> Mapping[View[Step], Sequence[Placed]]:
        return _by_view(self.named_entries)

    def totals(self, step: Step, by: Sorter = together) -> Mapping[Hashable, Total]:
        """Sums of the times of a step's ops, sorted `by` a function: arrays where the step or the rank has any."""
        views, step = self._named_views if isinstance(step, Training) else self._views, fed(self.rank, step)
        if step.shape or self.rank.shape:
            step = step.as_floats()
            return _sums([(entries, view(step)) for view, entries in views.items()], self.target, by)
        sums: dict[Hashable, Total] = {}
        for view, entries in views.items():
            _add(sums, self._seen(view, entries, view(step), by))
        return sums

    def total(self, step: Step) -> Total:
        """The sum over all ops of a step."""
        return self.totals(step).get("", EMPTY)

    def by_view(
        self, step: Step, wanted: Callable[[View[Step]], bool] = lambda view: True
    ) -> Mapping[View[Step], Total]:
        """The sums of a step by view, each over the modules with that view; together they are the whole step."""
        step = fed(self.rank, step).as_floats()
        views = {view: entries for view, entries in self._views.items() if wanted(view)}
        each = {view: _sums([(entries, view(step))], self.target, together) for view, entries in views.items()}
        return {view: sums.get("", EMPTY) for view, sums in each.items()}

    def _seen(self, view: View[Step], entries: Sequence[Placed], step: Step, by: Sorter) -> Mapping[Hashable, Total]:
        """The sums of modules with the same view, for a step of plain numbers."""
        if isinstance(step, Training):
            return _at(entries, step, self.target, by)
        if not step.queries:
            return {}
        key = (view, by, step.queries, step.logits, step.beside)
        if key not in self._known:
            if len(self._known) > REMEMBERED:
                self._known.clear()
                self._tables.clear()
            self._known[key] = self._near(view, entries, step, by)
        return self._known[key]

    def _near(self, view: View[Step], entries: Sequence[Placed], step: Step, by: Sorter) -> Mapping[Hashable, Total]:
        """The times of a step, from a table of like steps with neighbouring token counts, timed at hardly any cost."""
        query = step.queries[0]
        alone = view is tokens_alone or (view is tokens_and_phase and not query.cached) or step.logits == "all"
        varying = "new" if alone else "count"
        wanted = getattr(query, varying)
        if view not in (tokens_alone, tokens_and_phase, logits_alone) or not 0 < wanted <= TABULATED:
            return _at(entries, step, self.target, by)
        first = (wanted - 1) // TABLE * TABLE + 1
        key = (view, by, replace(query, **{varying: first}), step.logits)
        if key not in self._tables:
            numbers = np.arange(first, first + TABLE)
            many = step.with_queries((replace(query, **{varying: numbers}),)).as_floats()
            self._tables[key] = _sums([(entries, many)], self.target, by)
        return {sorted_by: t.at(wanted - first).mapped(_plain) for sorted_by, t in self._tables[key].items()}


def _by_view(entries: Iterable[Placed]) -> Mapping[View[Step], Sequence[Placed]]:
    views: dict[View[Step], list[Placed]] = {}
    for entry in entries:
        views.setdefault(entry.view, []).append(entry)
    return views


def _sizes(module: Module, without: Iterable[str]) -> Hashable:
    values = (getattr(module, f.name) for f in fields(module) if f.name not in without)
    return type(module), *(v.tobytes() if is_array(v) else v for v in values)


def _add(sums: dict[Hashable, Total], more: Mapping[Hashable, Total]) -> None:
    for key, value in more.items():
        sums[key] = sums[key] + value if key in sums else value


# -- arrays --------------------------------------------------------------------------------------------------------
Seen: TypeAlias = tuple[Sequence[Placed], Step]
"""Modules, and the step as they see it."""
Tabulated: TypeAlias = tuple[Distinct, Mapping[Hashable, Total]]
"""Distinct elements, and the sums at each of them."""


def _sums(views: Iterable[Seen], target: Target, by: Sorter) -> Mapping[Hashable, Total]:
    """The sums of modules at the steps that they see, each timed at the distinct elements of its view only."""
    groups = [(members, step, _columns(members, step)) for view in views for members, step in _alike(*view)]
    shape = np.broadcast_shapes(*(a.shape for _, _, columns in groups for a in columns))
    tables, rest = list[Tabulated](), list[Seen]()
    for members, step, columns in groups:
        kinds = distinct(columns) if columns else None
        reach = np.broadcast_shapes(*(a.shape for a in columns))
        if kinds is None and prod(reach) == prod(shape):
            rest.append((members, step))
        else:
            tables.append(_table(members, step, kinds or everyone(reach), target, by))
    return _put_together(tables, rest, shape, target, by)


def _alike(entries: Sequence[Placed], step: Step) -> Iterator[Seen]:
    """Group modules that share the arrays among their sizes."""
    together: dict[tuple[int, ...], list[Placed]] = {}
    for entry in entries:
        together.setdefault(tuple(map(id, entry.arrays.values())), []).append(entry)
    return ((members, step) for members in together.values())


def _columns(entries: Sequence[Placed], step: Step) -> list[Array]:
    """The arrays that the times of modules depend on."""
    return [*_arrays(step), *entries[0].arrays.values()]


def _arrays(step: Step) -> list[Array]:
    return [v for v in step.numbers if is_array(v)]


def _table(entries: Sequence[Placed], step: Step, kinds: Distinct, target: Target, by: Sorter) -> Tabulated:
    """The sums of modules at the distinct elements of what they see."""
    seen = _taken(entries, step, kinds.take)
    return kinds, _put_together([], [seen], (len(kinds.first),), target, by)


def _taken(entries: Iterable[Placed], step: Step, take: Callable[[Array], Array]) -> Seen:
    """Modules and a step with their arrays reduced to some elements."""

    def few(entry: Placed) -> Placed:
        sizes: dict[str, Any] = {name: take(v) for name, v in entry.arrays.items()}
        return replace(entry, module=replace(entry.module, **sizes)) if sizes else entry

    return [few(entry) for entry in entries], step.mapped(lambda v: take(v) if is_array(v) else v)


def _put_together(
    tables: Sequence[Tabulated], rest: Sequence[Seen], shape: tuple[int, ...], target: Target, by: Sorter
) -> Mapping[Hashable, Total]:
    """Gather the tables and time the rest, piece by piece, so that only the sums are held for all elements."""
    size = prod(shape)
    indices = [kinds.within(shape) for kinds, _ in tables]
    arrays = (a for entries, step in rest for a in (*_arrays(step), *_all_arrays(entries)))
    flat = {id(a): np.broadcast_to(a, shape).reshape(-1) for a in arrays}
    sums: dict[Hashable, dict[str, Any]] = {}
    for start in range(0, size, PIECE):
        piece = slice(start, min(start + PIECE, size))

        def cut(a: Array, piece: slice = piece) -> Array:
            return flat[id(a)][piece]

        parts: dict[Hashable, Total] = {}
        for index, (_, table) in zip(indices, tables, strict=True):
            _add(parts, {key: t.at(index[piece]) for key, t in table.items()})
        for entries, step in rest:
            _add(parts, _at(*_taken(entries, step, cut), target, by))
        for key, part in parts.items():
            _write(sums.setdefault(key, {}), part, piece, size)
    return {key: _total(numbers, shape) for key, numbers in sums.items()}


def _all_arrays(entries: Iterable[Placed]) -> Iterator[Array]:
    return (a for e in entries for a in e.arrays.values())


def _is_many(value: Count) -> TypeGuard[Array]:
    return is_array(value) and value.ndim > 0


def _plain(value: Count) -> Count:
    return float(value) if is_array(value) else value


def _write(numbers: dict[str, Any], part: Total, piece: slice, size: int) -> None:
    """Write the numbers of a piece into the arrays of all elements; a number shared by all pieces stays a number."""
    values = {**{name: getattr(part, name) for name in NUMBERS}, **{f"={g}": v for g, v in part.graded.items()}}
    for name in {**numbers, **values}:
        value, known = values.get(name, 0.0), numbers.get(name, 0.0 if piece.start else None)
        if not _is_many(value) and (known is None or (not _is_many(known) and known == value)):
            numbers[name] = value
            continue
        if not _is_many(known):
            numbers[name] = np.empty(size)
            numbers[name][: piece.start] = 0.0 if known is None else known
        numbers[name][piece] = value


def _total(numbers: Mapping[str, Any], shape: tuple[int, ...]) -> Total:
    shaped = {name: v.reshape(shape) if _is_many(v) else v for name, v in numbers.items()}
    graded = {name[1:]: v for name, v in shaped.items() if name[0] == "="}
    return Total(**{name: v for name, v in shaped.items() if name[0] != "="}, graded=graded)


def _at(entries: Iterable[Placed], step: Step, target: Target, by: Sorter) -> dict[Hashable, Total]:
    """The sums of entries, timed at every element."""
    sums: dict[Hashable, Total] = {}
    for entry in entries:
        _add(sums, _entry(entry, step, target, by))
    return sums


def _entry(entry: Placed, step: Step, target: Target, by: Sorter) -> dict[Hashable, Total]:
    """The times of one module's ops, in all sections where it stands; none where its stream has no new inputs."""
    sums: dict[Hashable, Total] = {}
    inputs = step.new_tokens if step.stream else 1
    for op in step_ops((entry.module,), step, entry.whole):
        timings = [(op.kind, time_op(op, target))]
        before = time_quantise(op, target)
        if before is not None:
            timings.append(("quantise", before))
        for kind, timing in timings:
            places: dict[Hashable, tuple[Count, Count]] = {}
            for section, layers, squares in entry.places:
                key = by(section, op, kind)
                before_it = places.get(key, (0, 0))
                places[key] = (before_it[0] + layers, before_it[1] + squares)
            totals = {key: total_of(timing, op, *counts) for key, counts in places.items()}
            if is_array(inputs) and not inputs.all():
                totals = {key: total.times(np.minimum(inputs, 1)) for key, total in totals.items()}
            _add(sums, totals)
    return sums


def grade_of(graded: Mapping[str, Count], expected: Count) -> str | Array:
    """The worst grade that, with worse ones, accounts for more than a tenth of the expected time."""
    worse: Count = 0.0
    grade: str | Array = "-" if set(graded) <= {"-"} else "A"
    bad = {g: graded.get(g, 0.0) for g in ("C", "B")}
    for letter in ("B", "C"):
        worse = bad["C"] + (bad["B"] if letter == "B" else 0.0)
        over = worse > 0.1 * expected
        grade = np.where(over, letter, grade) if is_array(over) else letter if over else grade
    return grade if isinstance(grade, str) else np.asarray(grade)


def longer(a: Count, b: Count, c: Count = 0.0) -> Count:
    """The longest of three."""
    return most(most(a, b), c)
