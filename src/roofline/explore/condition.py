"""Conditions on columns, `fits and tpot < 30ms`: a small language of its own, parsed here and never run as code.

    condition   or of ands of nots of comparisons; comparisons may be chained (`1ms < tpot < 30ms`)
    value       + and − of × and / of numbers, columns, "words" in quotes and ( conditions )
    word        `=` and `is` are `==`; behind them a bound needs no quotes: `bound = compute`, as in `solve`
    number      with a unit where one is due: us µs ms s min h, B kB MB GB TB KiB MiB GiB TiB; % and k M G T Ki Mi Gi
                too; USD may have $

Times compare with times and bytes with bytes; everything else is a plain number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from roofline.declared.errors import InputError, nearest, not_one_of
from roofline.explore.columns import Words

LONGEST_CONDITION = 1000
"""Characters of a condition at most."""
DEEPEST_CONDITION = 32
"""Brackets and signs within one another at most."""
BOUNDS = ("compute", "memory", "network", "latency")
"""What may take most of a step's time."""
AGAINST = "against"
"""In place of a limit of `solve`: the same figure of the other settings."""
Dimension: TypeAlias = tuple[int, int]
"""Powers of seconds and of bytes."""
PLAIN: Dimension = (0, 0)
DIMENSIONS: Mapping[str, Dimension] = {"s": (1, 0), "B": (0, 1), "B/s": (-1, 1)}
"""Of a column's unit; others are plain."""
NUMBER_UNITS: Mapping[str, tuple[float, Dimension]] = {
    "": (1.0, PLAIN), "%": (0.01, PLAIN), "k": (1e3, PLAIN), "M": (1e6, PLAIN), "G": (1e9, PLAIN), "T": (1e12, PLAIN),
    "Ki": (2.0**10, PLAIN), "Mi": (2.0**20, PLAIN), "Gi": (2.0**30, PLAIN),
    "us": (1e-6, (1, 0)), "µs": (1e-6, (1, 0)), "ms": (1e-3, (1, 0)), "s": (1.0, (1, 0)), "min": (60.0, (1, 0)),
    "h": (3600.0, (1, 0)),
    "B": (1.0, (0, 1)), "kB": (1e3, (0, 1)), "MB": (1e6, (0, 1)), "GB": (1e9, (0, 1)), "TB": (1e12, (0, 1)),
    "KiB": (2.0**10, (0, 1)), "MiB": (2.0**20, (0, 1)), "GiB": (2.0**30, (0, 1)), "TiB": (2.0**40, (0, 1)),
}  # fmt: skip
ColumnLookup: TypeAlias = Callable[[str], Any]
"""The name of a column → its numbers, flags or `Words`."""


@dataclass(frozen=True)
class Clause:
    """A part of a condition: the columns that it needs, what it is (`number`, `flag`, `word`), and its value."""

    kind: str
    dimension: Dimension
    names: frozenset[str]
    value: Callable[[ColumnLookup], Any]


@dataclass(frozen=True)
class Condition:
    """A condition, understood: what all of its parts, joined by `and`, say."""

    text: str
    parts: tuple[Clause, ...]

    @property
    def names(self) -> frozenset[str]:
        """The columns that it needs."""
        return frozenset[str]().union(*(part.names for part in self.parts))


def condition_of(text: str, units: Mapping[str, str], field: str = "where") -> Condition:
    """A condition on columns with `units`: column → its unit, `flag` or `word`. An empty text is always met.

    Raises InputError for what is not understood, a column that is not there (with the nearest), a number without a
    unit where one is due, more than 1,000 characters and more than 32 levels.
    """
    if not isinstance(text, str) or len(text) > LONGEST_CONDITION:
        raise InputError(field, text, f"a text of at most {LONGEST_CONDITION} characters")
    if not text.strip():
        return Condition(text, ())
    parts = _Parser(text, units, field).whole()
    return Condition(text, tuple(parts))


_UNIT = "|".join(sorted(filter(str.isalpha, NUMBER_UNITS), key=len, reverse=True))
_TOKEN = re.compile(
    r"\s*(?:\$?(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"(?P<unit>\s*(?:%|(?:{_UNIT})(?![A-Za-z_0-9]))|[A-Za-zµ]*)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<word>\"[^\"]*\"|'[^']*')|(?P<sign><=|>=|==|!=|[-+*/<>=()]))"
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide,
}  # fmt: skip


class _Parser:
    """Reads a condition from left to right."""

    def __init__(self, text: str, units: Mapping[str, str], field: str) -> None:
        self.text, self.units, self.field = text, units, field
        self.tokens = list(self._tokens())
        self.at, self.depth = 0, 0

    def _tokens(self) -> Iterator[tuple[str, str, str]]:
        place = 0
        while self.text[place:].strip():
            match = _TOKEN.match(self.text, place)
            if match is None:
                raise self._wrong(self.text[place:].split()[0], "a column, a number with its unit, or a sign")
            place = match.end()
            kind = next(k for k in ("number", "name", "word", "sign") if match[k] is not None)
            yield kind, match[kind], (match["unit"] or "").strip()

    def _wrong(self, got: str, expected: str, close: list[str] | None = None) -> InputError:
        return InputError(self.field, got, expected, close or ())

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
    def whole(self) -> list[Clause]:
        """The parts that `and` joins at the top."""
        choices = self._either()
        if self._next()[0] != "end":
            raise self._wrong(self._next()[1], "and, or, or the end of the condition")
        if len(choices) > 1:
            return [self._or(choices)]
        return [self._flag(part) for part in choices[0]]

    def _either(self) -> list[list[Clause]]:
        """Alternatives, each the parts that are joined by `and`; a single part may be a value."""
        choices = [self._together()]
        while self._take("or"):
            choices.append(self._together())
        return choices

    def _together(self) -> list[Clause]:
        parts = [self._negated()]
        while self._take("and"):
            parts.append(self._negated())
        return parts

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
        return Clause("flag", PLAIN, inner.names, lambda look: np.logical_not(inner.value(look)))

    def _compared(self) -> Clause:
        left = self._sum()
        terms: list[Clause] = []
        while sign := self._take(*_COMPARISONS, "=", "is"):
            bare = sign in ("=", "is") and left.kind == "word" and "bound" in left.names
            right = self._bound() if bare else self._sum()
            sign = "==" if sign in ("=", "is") else sign
            terms.append(self._comparison(left, sign, right))
            left = right
        return self._and(terms) if terms else left

    def _bound(self) -> Clause:
        """A bound that needs no quotes; a column or a word in quotes otherwise."""
        kind, text, _ = self._next()
        if kind != "name" or text in self.units:
            return self._sum()
        if text not in BOUNDS:
            raise not_one_of(f"{self.field} bound", text, BOUNDS)
        self.at += 1
        return Clause("word", PLAIN, frozenset(), lambda look: text)

    def _sum(self) -> Clause:
        left = self._product()
        while sign := self._take("+", "-"):
            right = self._product()
            self._same(left, right)
            left = self._number(left, sign, right, left.dimension)
        return left

    def _product(self) -> Clause:
        left = self._signed()
        while sign := self._take("*", "/"):
            right = self._signed()
            turn = 1 if sign == "*" else -1
            (a, b), (c, d) = left.dimension, right.dimension
            left = self._number(left, sign, right, (a + turn * c, b + turn * d))
        return left

    def _signed(self) -> Clause:
        if not self._take("-"):
            return self._atom()
        self._deeper()
        inner = self._signed()
        self.depth -= 1
        self._needs_numbers(inner)
        return Clause("number", inner.dimension, inner.names, lambda look: -np.asarray(inner.value(look), dtype=float))

    def _atom(self) -> Clause:
        kind, text, unit = self._next()
        if self._take("("):
            self._deeper()
            either = self._bracket()
            if not self._take(")"):
                raise self._wrong(self._next()[1], "a closing bracket")
            self.depth -= 1
            return either
        self.at += 1
        if kind == "number":
            if unit not in NUMBER_UNITS:
                raise self._wrong(text + unit, f"a unit: {', '.join(filter(None, NUMBER_UNITS))}")
            factor, dimension = NUMBER_UNITS[unit]
            value = float(text) * factor
            return Clause("number", dimension, frozenset(), lambda look: value)
        if kind == "word":
            word = text[1:-1]
            return Clause("word", PLAIN, frozenset(), lambda look: word)
        if kind == "name" and text not in ("and", "or", "not"):
            return self._column(text)
        raise self._wrong(text, "a column or a number")

    def _bracket(self) -> Clause:
        """A condition or a value within brackets."""
        choices = self._either()
        return choices[0][0] if len(choices) == len(choices[0]) == 1 else self._or(choices)

    def _column(self, name: str) -> Clause:
        if name == AGAINST and name not in self.units:
            raise self._wrong(self.text, "a limit: `against` compares two sides in `solve` alone")
        if name not in self.units:
            close = nearest(name, self.units)
            raise self._wrong(name, "the name of a column", close)
        unit = self.units[name]
        kind = unit if unit in ("flag", "word") else "number"
        return Clause(kind, DIMENSIONS.get(unit, PLAIN), frozenset((name,)), lambda look: look(name))

    # -- terms of terms --------------------------------------------------------------------------------------------
    def _needs_numbers(self, *terms: Clause) -> None:
        for term in terms:
            if term.kind != "number":
                raise self._wrong(" ".join(sorted(term.names)) or self.text, f"a number, not a {term.kind}")

    def _same(self, left: Clause, right: Clause) -> None:
        """Raises InputError where one is a time, bytes or a plain number and the other is not."""
        if left.kind == right.kind == "number" and left.dimension != right.dimension:
            due = {(1, 0): "a time with its unit, such as 30ms", (0, 1): "bytes with their unit, such as 80GB"}
            wanted = next((due[t.dimension] for t in (left, right) if t.dimension in due), "numbers of one unit")
            if PLAIN not in (left.dimension, right.dimension):
                wanted = "numbers of one unit"
            raise self._wrong(self.text, wanted)

    def _number(self, left: Clause, sign: str, right: Clause, dimension: Dimension) -> Clause:
        self._needs_numbers(left, right)
        run = _ARITHMETIC[sign]

        def value(look: ColumnLookup) -> Any:
            with np.errstate(all="ignore"):
                return run(left.value(look), right.value(look))

        return Clause("number", dimension, left.names | right.names, value)

    def _comparison(self, left: Clause, sign: str, right: Clause) -> Clause:
        names = left.names | right.names
        if "word" in (left.kind, right.kind):
            if left.kind != right.kind or sign not in ("==", "!="):
                raise self._wrong(self.text, 'words compared by == or != with words in quotes, bound == "memory"')
            same = sign == "=="
            return Clause("flag", PLAIN, names, lambda look: equal_words(left.value(look), right.value(look)) == same)
        if "flag" in (left.kind, right.kind):
            raise self._wrong(self.text, "yes or no alone (fits, not fits), which compares with nothing")
        self._same(left, right)
        compare = _COMPARISONS[sign]
        return Clause("flag", PLAIN, names, lambda look: compare(left.value(look), right.value(look)))

    def _and(self, terms: list[Clause]) -> Clause:
        return self._all(terms, np.logical_and)

    def _or(self, choices: list[list[Clause]]) -> Clause:
        return self._all([self._and([self._flag(part) for part in parts]) for parts in choices], np.logical_or)

    def _all(self, terms: list[Clause], join: Callable[[Any, Any], Any]) -> Clause:
        if len(terms) == 1:
            return terms[0]

        def value(look: ColumnLookup) -> Any:
            answer = terms[0].value(look)
            for term in terms[1:]:
                answer = join(answer, term.value(look))
            return answer

        return Clause("flag", PLAIN, frozenset[str]().union(*(t.names for t in terms)), value)


def equal_words(left: Any, right: Any) -> Any:
    """Where words are the same; either may be a column of `Words`."""
    if isinstance(left, Words) and isinstance(right, Words):
        return left.text() == right.text()
    if isinstance(right, Words):
        left, right = right, left
    return left.equal(right) if isinstance(left, Words) else np.bool_(left == right)
