"""Conditions on figures, `fits and tpot < 30ms`: one language for sweep, solve and codesign, never run as code.

    condition   comparisons joined by `or`, `and`, `not`; comparisons may be chained (`1ms < tpot < 30ms`)
    value       + − * / of numbers, figures, "words" in quotes and ( conditions )
    word        `=` and `is` mean `==`; a bound after them needs no quotes: `bound = compute`
    number      with a unit where one is required: us µs ms s min h, B kB MB GB TB KiB MiB GiB TiB, B/s with the same
                prefixes; also % and k M G T Ki Mi Gi Ti; `$` may precede a number; other units (W, J, tokens/s, …) are
                optional
    against     where two sides are compared, in place of a limit: the same value on the other side

Times compare with times and bytes with bytes; everything else is a plain number. A parsed condition is a tree of
terms. Every term has a value. A term that is true or false also says how much of its limits is used, which `solve`
searches on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from typing import ClassVar, TypeAlias

import numpy as np

from roofline.declared.errors import InputError, nearest, not_one_of
from roofline.declared.numbers.arrays import Array
from roofline.declared.numbers.units import unit_powers
from roofline.whatif.query.columns import ColumnValues, Words

LONGEST_CONDITION = 1000
"""Maximum length of a condition, in characters."""
DEEPEST_CONDITION = 32
"""Maximum nesting depth of brackets and signs."""
BOUNDS = ("compute", "memory", "network", "latency")
"""The possible bounds of a step: what takes most of its time."""
AGAINST = "against"
"""Keyword in place of a limit: the same value on the other side."""
Dimension: TypeAlias = tuple[int, int]
"""Powers of seconds and of bytes."""
PLAIN: Dimension = (0, 0)


def dimension_of(unit: str) -> Dimension:
    """The powers of seconds and bytes in a unit made of these alone; any other unit is plain.

    >>> dimension_of("B/s"), dimension_of("tokens/s")
    ((-1, 1), (0, 0))
    """
    powers = unit_powers(unit)
    return (powers.get("s", 0), powers.get("B", 0)) if {*powers} <= {"s", "B"} else PLAIN


_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BYTES = _DECIMAL | _BINARY
_WRITTEN = ("W", "J", "USD", "FLOP", "FLOP/s", "FLOP/B", "tokens/s", "requests/s", "tokens/J")
NUMBER_UNITS: Mapping[str, tuple[float, Dimension]] = {
    "%": (0.01, PLAIN), **{prefix: (factor, PLAIN) for prefix, factor in _BYTES.items()},
    "us": (1e-6, (1, 0)), "µs": (1e-6, (1, 0)), "ms": (1e-3, (1, 0)), "s": (1.0, (1, 0)), "min": (60.0, (1, 0)),
    "h": (3600.0, (1, 0)),
    **{f"{prefix}{unit}": (factor, dimension_of(unit)) for unit in ("B", "B/s") for prefix, factor in _BYTES.items()},
    **{f"{prefix}{unit}": (factor, PLAIN) for unit in _WRITTEN for prefix, factor in _DECIMAL.items()},
}  # fmt: skip
"""Unit of a number → its factor and dimension."""
SHOWN_UNITS = tuple(unit for unit in NUMBER_UNITS if unit and not re.search("[WJUF/]", unit))
"""The units that error messages list."""
ClauseValue: TypeAlias = ColumnValues | float | str | bool | np.bool_
"""The value of a term: a number, a flag or a word, or an array of them."""
ColumnLookup: TypeAlias = Callable[[str], ClauseValue]
"""Name of a figure → its values; a name after the prefix `against ` is looked up on the other side."""


# -- terms ---------------------------------------------------------------------------------------------------------
class Clause:
    """A term of a condition. `kind`: `number`, `flag` or `word`. `level`: operator precedence, for brackets."""

    kind: str = "flag"
    dimension: Dimension = PLAIN
    level: ClassVar[int] = 9

    @property
    def inner(self) -> tuple[Clause, ...]:
        """The operands of the term."""
        return ()

    @property
    def names(self) -> frozenset[str]:
        """The names of the figures that the term needs."""
        return frozenset[str]().union(*(term.names for term in self.inner))

    @property
    def text(self) -> str:
        """The term as it may be written."""
        raise NotImplementedError

    def value(self, look: ColumnLookup) -> ClauseValue:
        """The value of the term."""
        raise NotImplementedError

    def use(self, look: ColumnLookup) -> Array:
        """How much of its limits is used: at most 1 where the term holds. A term without limits gives 0 or infinity."""
        return np.where(np.asarray(self.value(look), dtype=bool), 0.0, inf)

    def negated(self) -> Clause:
        """The term that holds exactly where this one does not."""
        return Not(self)

    def within(self, level: int) -> str:
        """The text of the term, in brackets where its precedence is below `level`."""
        return f"({self.text})" if self.level < level else self.text


@dataclass(frozen=True)
class NumberClause(Clause):
    """A number in SI units."""

    amount: float
    dimension: Dimension = PLAIN
    kind: str = "number"

    @property
    def text(self) -> str:
        unit = {(1, 0): "s", (0, 1): "B", (-1, 1): "B/s"}.get(self.dimension, "")
        return limit_text(self.amount, unit)

    def value(self, look: ColumnLookup) -> float:
        return self.amount


@dataclass(frozen=True)
class FigureName(Clause):
    """A reference to a figure by name."""

    name: str
    unit: str

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.unit if self.unit in ("flag", "word") else "number"

    @property
    def dimension(self) -> Dimension:  # type: ignore[override]
        return dimension_of(self.unit) if self.kind == "number" else PLAIN

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.name,))

    @property
    def text(self) -> str:
        return self.name

    def value(self, look: ColumnLookup) -> ClauseValue:
        return look(self.name)


@dataclass(frozen=True)
class QuotedWord(Clause):
    """A literal word."""

    word: str
    kind: str = "word"

    @property
    def text(self) -> str:
        return self.word if self.word in BOUNDS else f'"{self.word}"'

    def value(self, look: ColumnLookup) -> str:
        return self.word


@dataclass(frozen=True)
class Against(Clause):
    """The value of a term on the other side."""

    of: Clause
    kind: str = "number"

    @property
    def dimension(self) -> Dimension:  # type: ignore[override]
        return self.of.dimension

    @property
    def text(self) -> str:
        return AGAINST

    def value(self, look: ColumnLookup) -> ClauseValue:
        return self.of.value(lambda name: look(f"{AGAINST} {name}"))


@dataclass(frozen=True)
class Arithmetic(Clause):
    """The sum, difference, product or quotient of two numbers."""

    left: Clause
    sign: str
    right: Clause
    dimension: Dimension = PLAIN
    kind: str = "number"

    @property
    def level(self) -> int:  # type: ignore[override]
        return 6 if self.sign in "+-" else 7

    @property
    def inner(self) -> tuple[Clause, ...]:
        return self.left, self.right

    @property
    def text(self) -> str:
        return f"{self.left.within(self.level)} {self.sign} {self.right.within(self.level + 1)}"

    def value(self, look: ColumnLookup) -> ClauseValue:
        with np.errstate(all="ignore"):
            return _ARITHMETIC[self.sign](_numbers(self.left, look), _numbers(self.right, look))


@dataclass(frozen=True)
class Negative(Clause):
    """A number with its sign changed."""

    of: Clause
    kind: str = "number"
    level: ClassVar[int] = 8

    @property
    def dimension(self) -> Dimension:  # type: ignore[override]
        return self.of.dimension

    @property
    def inner(self) -> tuple[Clause, ...]:
        return (self.of,)

    @property
    def text(self) -> str:
        return f"-{self.of.within(8)}"

    def value(self, look: ColumnLookup) -> ClauseValue:
        return -_numbers(self.of, look)


@dataclass(frozen=True)
class Compared(Clause):
    """A comparison of two numbers or two words."""

    left: Clause
    sign: str
    right: Clause
    level: ClassVar[int] = 5

    @property
    def inner(self) -> tuple[Clause, ...]:
        return self.left, self.right

    @property
    def of_words(self) -> bool:
        """Whether words are compared."""
        return self.left.kind == "word"

    @property
    def of_order(self) -> bool:
        """Whether the comparison is a limit: a maximum or a minimum of a number."""
        return self.sign in _MIRRORED

    @property
    def turned(self) -> Compared:
        """The comparison with figures on the left and their limit on the right."""
        if self.left.names or not self.right.names:
            return self
        return Compared(self.right, _MIRRORED.get(self.sign, self.sign), self.left)

    @property
    def text(self) -> str:
        sides = self.turned
        right = sides.right.within(6)
        if isinstance(sides.right, NumberClause) and isinstance(sides.left, FigureName):
            right = limit_text(sides.right.amount, sides.left.unit)
        return f"{sides.left.within(6)} {sides.said} {right}"

    @property
    def said(self) -> str:
        """The sign as written: `=` between words."""
        return "=" if self.of_words and self.sign == "==" else self.sign

    def value(self, look: ColumnLookup) -> ClauseValue:
        if self.of_words:
            same = equal_words(self.left.value(look), self.right.value(look))
            return np.asarray(same == (self.sign == "=="))
        return _COMPARISONS[self.sign](self.left.value(look), self.right.value(look))

    def use(self, look: ColumnLookup) -> Array:
        """For a limit `a < b`, the ratio a / b, and for `a > b` the ratio b / a: at most 1 where the limit holds."""
        if not self.of_order:
            return super().use(look)
        left, right = _numbers(self.left, look), _numbers(self.right, look)
        with np.errstate(all="ignore"):
            share = left / right if self.sign in ("<", "<=") else right / left
        kept = _COMPARISONS[self.sign](left, right)
        share = np.where(np.isnan(share), inf, share)
        return np.where(kept, np.minimum(share, 1.0), np.maximum(share, np.nextafter(1.0, 2.0)))

    def negated(self) -> Clause:
        return Compared(self.left, _OPPOSITE[self.sign], self.right)


@dataclass(frozen=True)
class _Joined(Clause):
    """Conditions joined by `and` or `or`."""

    terms: tuple[Clause, ...]

    @property
    def inner(self) -> tuple[Clause, ...]:
        return self.terms


class AllOf(_Joined):
    """A conjunction: holds where all of its terms hold."""

    level: ClassVar[int] = 3

    @property
    def text(self) -> str:
        return " and ".join(term.within(4) for term in self.terms)

    def value(self, look: ColumnLookup) -> ClauseValue:
        return np.asarray(np.logical_and.reduce(_flags(self.terms, look)))

    def use(self, look: ColumnLookup) -> Array:
        return reduce(np.maximum, (term.use(look) for term in self.terms))

    def negated(self) -> Clause:
        return AnyOf(tuple(term.negated() for term in self.terms))


class AnyOf(_Joined):
    """A disjunction: holds where at least one of its terms holds."""

    level: ClassVar[int] = 2

    @property
    def text(self) -> str:
        return " or ".join(term.within(3) for term in self.terms)

    def value(self, look: ColumnLookup) -> ClauseValue:
        return np.asarray(np.logical_or.reduce(_flags(self.terms, look)))

    def use(self, look: ColumnLookup) -> Array:
        return reduce(np.minimum, (term.use(look) for term in self.terms))

    def negated(self) -> Clause:
        return AllOf(tuple(term.negated() for term in self.terms))


@dataclass(frozen=True)
class Not(Clause):
    """A negation: holds where its operand does not."""

    of: Clause
    level: ClassVar[int] = 4

    @property
    def inner(self) -> tuple[Clause, ...]:
        return (self.of,)

    @property
    def text(self) -> str:
        return f"not {self.of.within(4)}"

    def value(self, look: ColumnLookup) -> ClauseValue:
        return np.logical_not(_flags((self.of,), look)[0])

    def use(self, look: ColumnLookup) -> Array:
        """How much of the limits of the negated operand is used."""
        opposite = self.of.negated()
        return super().use(look) if isinstance(opposite, Not) else opposite.use(look)

    def negated(self) -> Clause:
        return self.of


def _flags(terms: Sequence[Clause], look: ColumnLookup) -> list[Array]:
    """Whether each term holds, broadcast to one shape."""
    return list(np.broadcast_arrays(*(np.asarray(term.value(look), dtype=bool) for term in terms)))


def _numbers(term: Clause, look: ColumnLookup) -> Array:
    return np.asarray(term.value(look), dtype=float)


def limit_text(amount: float, unit: str) -> str:
    """A limit with its unit; times below a second are in milliseconds."""
    if unit == "s" and abs(amount) < 1:
        return f"{1000 * amount:.10g} ms"
    return f"{amount:.10g} {unit}".strip()


def equal_words(left: ClauseValue, right: ClauseValue) -> Array:
    """Whether words are equal, elementwise; either side may be a column of `Words`."""
    if isinstance(left, Words) and isinstance(right, Words):
        return np.asarray(left.text() == right.text())
    if isinstance(right, Words):
        left, right = right, left
    return left.equal(str(right)) if isinstance(left, Words) else np.asarray(left == right)


# -- conditions ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Condition:
    """A parsed condition: the conjunction of its `parts`. A condition without parts always holds."""

    text: str = ""
    parts: tuple[Clause, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of the figures that the condition needs."""
        return frozenset[str]().union(*(part.names for part in self.parts))

    @property
    def two_sided(self) -> bool:
        """Whether a part compares with the other side."""
        return any(isinstance(term, Against) for part in self.parts for term in _terms(part))

    def use(self, look: ColumnLookup) -> Array:
        """How much of the limits is used: the maximum over all parts."""
        return reduce(np.maximum, [part.use(look) for part in self.parts]) if self.parts else np.zeros(())


def _terms(term: Clause) -> Iterator[Clause]:
    yield term
    for inner in term.inner:
        yield from _terms(inner)


def condition_of(
    text: str | Sequence[str], units: Mapping[str, str], field: str = "where", sides: bool = False
) -> Condition:
    """Parse a condition on figures; `units` maps each figure to its unit, `flag` or `word`. An empty text always holds.

    `text`: a condition, or several that must all hold. `sides`: allow `against`, the other side of a comparison.
    Raises InputError for what is not understood, an unknown figure (with the nearest name), a number without a
    required unit, more than 1,000 characters and more than 32 levels.

    >>> condition_of("1ms < tpot <= 30ms and not fits", {"tpot": "s", "fits": "flag"}).parts[1].text
    'tpot <= 30 ms'
    """
    texts = (text,) if isinstance(text, str) else tuple(text)
    for each in texts:
        if not isinstance(each, str) or len(each) > LONGEST_CONDITION:
            raise InputError(field, each, f"a text of at most {LONGEST_CONDITION} characters")
    parts = [part for each in texts if each.strip() for part in _Parser(each, units, field, sides).whole()]
    return Condition(" and ".join(texts), tuple(parts))


_UNIT = "|".join(re.escape(unit) for unit in sorted(filter(None, NUMBER_UNITS), key=len, reverse=True) if unit != "%")
_TOKEN = re.compile(
    r"\s*(?:\$?(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"(?P<unit>\s*(?:%|(?:{_UNIT})(?![A-Za-z_0-9]))|[A-Za-zµ]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<word>\"[^\"]*\"|'[^']*')|(?P<sign><=|>=|==|!=|[-+*/<>=()]))"
)
_COMPARISONS: Mapping[str, Callable[..., Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_MIRRORED: Mapping[str, str] = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
_OPPOSITE: Mapping[str, str] = {"<=": ">", ">=": "<", "<": ">=", ">": "<=", "==": "!=", "!=": "=="}
_ARITHMETIC: Mapping[str, Callable[..., Array]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide,
}  # fmt: skip


class _Parser:
    """A recursive-descent parser of conditions."""

    def __init__(self, text: str, units: Mapping[str, str], field: str, sides: bool) -> None:
        self.text, self.units, self.field, self.sides = text, units, field, sides
        self.tokens = list(self._tokens())
        self.at, self.depth = 0, 0

    def _tokens(self) -> Iterator[tuple[str, str, str]]:
        place = 0
        while self.text[place:].strip():
            match = _TOKEN.match(self.text, place)
            if match is None:
                raise self._wrong(self.text[place:].split()[0], "a figure, a number with its unit, or a sign")
            place = match.end()
            kind = next(k for k in ("number", "name", "word", "sign") if match[k] is not None)
            yield kind, match[kind], (match["unit"] or "").strip()

    def _wrong(self, got: str, expected: str, close: Sequence[str] = (), of: Sequence[Clause] = ()) -> InputError:
        name = next((term.name for term in of if isinstance(term, FigureName)), "")
        return InputError(f"{self.field} {name}".strip(), got, expected, close)

    def _next(self) -> tuple[str, str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "its end", "")

    def _take(self, *texts: str) -> str | None:
        kind, text, _ = self._next()
        if kind in ("sign", "name") and text in texts:
            self.at += 1
            return text
        return None

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST_CONDITION:
            raise self._wrong(self.text, f"at most {DEEPEST_CONDITION} levels of brackets and signs")

    # -- grammar ---------------------------------------------------------------------------------------------------
    def whole(self) -> tuple[Clause, ...]:
        """Parse the whole text into the parts that a top-level `and` joins."""
        term = self._flag(self._either())
        if self._next()[0] != "end":
            raise self._wrong(self._next()[1], "and, or, or the end of the condition")
        return term.inner if isinstance(term, AllOf) else (term,)

    def _either(self) -> Clause:
        """A disjunction, or a single term or value."""
        return self._joined("or", self._together, AnyOf)

    def _together(self) -> Clause:
        return self._joined("and", self._negated, AllOf)

    def _joined(self, word: str, part: Callable[[], Clause], join: type[AllOf] | type[AnyOf]) -> Clause:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        flat = (self._flag(term) for term in parts)
        return join(tuple(each for term in flat for each in (term.inner if isinstance(term, join) else (term,))))

    def _flag(self, term: Clause) -> Clause:
        if term.kind != "flag":
            raise self._wrong(self.text, f"a comparison, not a {term.kind} alone")
        return term

    def _negated(self) -> Clause:
        if not self._take("not"):
            return self._compared()
        self._deeper()
        inner = self._flag(self._negated())
        self.depth -= 1
        return Not(inner)

    def _compared(self) -> Clause:
        left = self._sum()
        terms: list[Clause] = []
        while sign := self._take(*_COMPARISONS, "=", "is"):
            bare = sign in ("=", "is") and left.kind == "word" and "bound" in left.names
            right = self._bound() if bare else self._sum()
            terms.append(self._comparison(left, "==" if sign in ("=", "is") else sign, right))
            left = right
        return AllOf(tuple(terms)) if len(terms) > 1 else terms[0] if terms else left

    def _bound(self) -> Clause:
        """A bound without quotes, or else any value."""
        kind, text, _ = self._next()
        word = text[1:-1] if kind == "word" else text
        if kind not in ("name", "word") or (word not in BOUNDS and self.units.get(text) == "word"):
            return self._sum()
        if word not in BOUNDS:
            raise not_one_of(f"{self.field} bound", word, BOUNDS)
        self.at += 1
        return QuotedWord(word)

    def _sum(self) -> Clause:
        left = self._product()
        while sign := self._take("+", "-"):
            right = self._product()
            self._need_numbers(left, right)
            self._same(left, right)
            left = Arithmetic(left, sign, right, left.dimension)
        return left

    def _product(self) -> Clause:
        left = self._signed()
        while sign := self._take("*", "/"):
            right = self._signed()
            self._need_numbers(left, right)
            turn = 1 if sign == "*" else -1
            (a, b), (c, d) = left.dimension, right.dimension
            left = Arithmetic(left, sign, right, (a + turn * c, b + turn * d))
        return left

    def _signed(self) -> Clause:
        if not self._take("-"):
            return self._atom()
        self._deeper()
        inner = self._signed()
        self.depth -= 1
        self._need_numbers(inner)
        return Negative(inner)

    def _atom(self) -> Clause:
        kind, text, unit = self._next()
        if self._take("("):
            self._deeper()
            either = self._either()
            if not self._take(")"):
                raise self._wrong(self._next()[1], "a closing bracket")
            self.depth -= 1
            return either
        self.at += 1
        if kind == "number":
            if unit not in NUMBER_UNITS:
                raise self._wrong(text + unit, f"a unit: {', '.join(SHOWN_UNITS)}")
            factor, dimension = NUMBER_UNITS[unit]
            return NumberClause(float(text) * factor, dimension)
        if kind == "word":
            return QuotedWord(text[1:-1])
        if kind == "name" and text not in ("and", "or", "not"):
            return self._figure(text)
        raise self._wrong(text, "a figure or a number")

    def _figure(self, name: str) -> Clause:
        if name in self.units:
            return FigureName(name, self.units[name])
        if name != AGAINST:
            raise self._wrong(name, "the name of a figure", nearest(name, self.units))
        if not self.sides:
            raise self._wrong(self.text, "a limit: `against` compares two sides in `solve` alone")
        return _OTHER_SIDE

    # -- checks ----------------------------------------------------------------------------------------------------
    def _need_numbers(self, *terms: Clause) -> None:
        for term in terms:
            if term is _OTHER_SIDE:
                raise self._wrong(self.text, "`against` alone beside a sign, as in `time <= against`")
            if term.kind != "number":
                raise self._wrong(" ".join(sorted(term.names)) or self.text, f"a number, not a {term.kind}")

    def _same(self, left: Clause, right: Clause) -> None:
        """Raises InputError where the two sides have different dimensions."""
        if left.dimension == right.dimension:
            return
        due = {(1, 0): "a time with its unit, such as 30ms", (0, 1): "bytes with their unit, such as 80GB"}
        wanted = next((due[t.dimension] for t in (left, right) if t.dimension in due), "numbers of one unit")
        if PLAIN not in (left.dimension, right.dimension):
            wanted = "numbers of one unit"
        raise self._wrong(self.text, wanted, of=(left, right))

    def _comparison(self, left: Clause, sign: str, right: Clause) -> Compared:
        if right is _OTHER_SIDE:
            right = replace(_OTHER_SIDE, of=left)
        elif left is _OTHER_SIDE:
            left = replace(_OTHER_SIDE, of=right)
        if "word" in (left.kind, right.kind):
            if left.kind != right.kind or sign not in ("==", "!="):
                raise self._wrong(self.text, 'words compared by == or != with words in quotes, bound == "memory"')
        elif "flag" in (left.kind, right.kind):
            raise self._wrong(self.text, "yes or no alone (fits, not fits), which compares with nothing")
        else:
            self._same(left, right)
        return Compared(left, sign, right)


_OTHER_SIDE = Against(NumberClause(0.0))
"""Placeholder for the other side until its operand is known."""
