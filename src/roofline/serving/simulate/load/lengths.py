"""Length distributions of prompts and answers: a constant, a distribution, or lengths from a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import erfc, exp, isinf, log, log1p, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roofline.declared.checks import integer, real
from roofline.declared.errors import InputError, nearest
from roofline.model.sources.untrusted import printable
from roofline.serving.simulate.tables.parsers import MOST_TOKENS, Spelled, number_above, spelled

LARGEST_LENGTHS_CV = 100.0
MOST_VALUES = 2**24
"""Maximum number of lengths in a file."""
SUMMED = 128
"""For the mean of a lognormal, lengths up to this are summed one by one, longer ones integrated."""
FARTHEST, HALVED = 1e3, 32
"""Upper bound of `center` over the maximum length, and the number of bisection steps."""


class Lengths(ABC):
    """A distribution of token counts, each at least 1."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean length."""

    @property
    @abstractmethod
    def largest(self) -> int | None:
        """The maximum length; None without one."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The distribution as a user writes it."""

    @abstractmethod
    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        """Draw `number` lengths."""


@dataclass(frozen=True)
class Fixed(Lengths):
    """A constant length."""

    tokens: int

    def __post_init__(self) -> None:
        _tokens("length", self.tokens)

    @property
    def mean(self) -> float:
        return float(self.tokens)

    @property
    def largest(self) -> int:
        return self.tokens

    @property
    def text(self) -> str:
        return str(self.tokens)

    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        return np.full(number, self.tokens, dtype=np.int64)


@dataclass(frozen=True)
class Longer(Lengths):
    """Another distribution with `more` tokens added to each length."""

    lengths: Lengths
    more: int

    @property
    def mean(self) -> float:
        return self.lengths.mean + self.more

    @property
    def largest(self) -> int | None:
        most = self.lengths.largest
        return None if most is None else most + self.more

    @property
    def text(self) -> str:
        return f"{self.lengths.text} + {self.more}"

    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        return self.lengths.draw(random, number) + self.more


@dataclass(frozen=True)
class Uniform(Lengths):
    """Uniform over the whole numbers from `low` to `high`, inclusive."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if _tokens("low", self.low) > _tokens("high", self.high):
            raise InputError("uniform", f"{self.low} to {self.high}", "the lower bound first")

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def largest(self) -> int:
        return self.high

    @property
    def text(self) -> str:
        return f"uniform({self.low},{self.high})"

    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        return random.integers(self.low, self.high, number, dtype=np.int64, endpoint=True)


@dataclass(frozen=True)
class Lognormal(Lengths):
    """Lognormal X, rounded to a whole number and clipped to at least 1 and at most `most`.

    ln X is normal with variance σ² = ln(1 + cv²) and mean ln(center) − σ²/2, so that X itself has the mean `center` and
    the coefficient of variation `cv`.
    """

    center: float
    cv: float
    most: int | None = None

    def __post_init__(self) -> None:
        number_above("mean", self.center, MOST_TOKENS)
        if self.center < 1:
            raise InputError("mean", self.center, "a mean of at least 1 token")
        number_above("cv", self.cv, LARGEST_LENGTHS_CV)
        if self.most is not None:
            _tokens("max", self.most)

    @property
    def sigma(self) -> float:
        """Standard deviation of ln X."""
        return sqrt(log1p(self.cv * self.cv))

    @property
    def mu(self) -> float:
        """Mean of ln X."""
        return log(self.center) - self.sigma * self.sigma / 2

    @property
    def mean(self) -> float:
        """Σ P(length ≥ n) over n ≥ 1, with P(length ≥ n) = P(X ≥ n − ½) from n = 2 up to the maximum.

        Beyond 128 the sum is replaced by the integral of P(X ≥ x), by the midpoint rule.
        """
        last = float("inf") if self.most is None else float(self.most)
        near = min(last, float(SUMMED))
        one_by_one = 1 + sum(self._beyond(n - 0.5) for n in range(2, int(near) + 1))
        return one_by_one + (self._cut_mean(last) - self._cut_mean(near) if last > near else 0.0)

    @property
    def largest(self) -> int | None:
        return self.most

    @property
    def text(self) -> str:
        most = "" if self.most is None else f",max={self.most}"
        return f"lognormal({self.center:g},{self.cv:g}{most})"

    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        values = np.exp(self.mu + self.sigma * random.standard_normal(number))
        lengths: NDArray[np.int64] = np.rint(np.clip(values, 1, self.most or MOST_TOKENS)).astype(np.int64)
        return lengths

    def _beyond(self, x: float) -> float:
        """P(X ≥ x)."""
        return _tail((log(x) - self.mu) / self.sigma)

    def _cut_mean(self, x: float) -> float:
        """E[min(X, x)], the integral of P(X ≥ y) over y from 0 to x."""
        if isinf(x):
            return self.center
        z = (log(x) - self.mu) / self.sigma
        return self.center * _tail(self.sigma - z) + x * _tail(z)


@dataclass(frozen=True)
class About(Lengths):
    """Lognormal lengths with a mean of exactly `tokens` and none above `most`; `cv` is that before clipping."""

    tokens: int
    cv: float
    most: int

    def __post_init__(self) -> None:
        if not 1 < _tokens("length", self.tokens) < self.most:
            raise InputError("length", self.tokens, f"more than 1 and fewer than {self.most} tokens")

    @cached_property
    def law(self) -> Lognormal:
        """The lognormal whose `center` gives the mean, found by bisection of its logarithm."""
        low, high = 0.0, log(FARTHEST * self.most)
        for _ in range(HALVED):
            middle = (low + high) / 2
            short = Lognormal(exp(middle), self.cv, self.most).mean < self.tokens
            low, high = (middle, high) if short else (low, middle)
        return Lognormal(exp(high), self.cv, self.most)

    @property
    def mean(self) -> float:
        return float(self.tokens)

    @property
    def largest(self) -> int | None:
        return self.most

    @property
    def text(self) -> str:
        return f"{self.tokens} (cv {self.cv:g})"

    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        return self.law.draw(random, number)


@dataclass(frozen=True, eq=False)
class Empirical(Lengths):
    """Observed lengths, drawn with replacement. values: int64, each at least 1."""

    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iu":
            raise InputError("lengths", self.values, "a list of whole numbers from 1")
        if values.min() < 1 or values.max() > MOST_TOKENS:
            wrong = values.min() if values.min() < 1 else values.max()
            raise InputError("lengths", int(wrong), f"whole numbers from 1 to {MOST_TOKENS}")
        object.__setattr__(self, "values", values.astype(np.int64))

    @property
    def mean(self) -> float:
        return int(self.values.sum()) / self.values.size

    @property
    def largest(self) -> int:
        return int(self.values.max())

    @property
    def text(self) -> str:
        return f"of {self.values.size} lengths, {self.mean:.4g} on average"

    def draw(self, random: np.random.Generator, number: int) -> NDArray[np.int64]:
        return self.values[random.integers(0, self.values.size, number)]


def _tail(z: float) -> float:
    """P(Z ≥ z) of a standard normal."""
    return 0.5 * erfc(z / sqrt(2))


def _tokens(field: str, value: object) -> int:
    number = integer(value)
    if number is None or not 1 <= number <= MOST_TOKENS:
        raise InputError(field, value, f"a whole number from 1 to {MOST_TOKENS}")
    return number


def about(tokens: int, cv: float, most: int) -> Lengths:
    """Lengths with a mean of `tokens` that vary by `cv`; constant where `cv` is 0 or they cannot vary.

    >>> about(256, 0.0, 4096), about(1, 0.8, 4096)
    (Fixed(tokens=256), Fixed(tokens=1))
    """
    return About(tokens, cv, most) if cv > 0 and 1 < tokens < most else Fixed(tokens)


DISTRIBUTIONS = ("uniform", "lognormal", "file")
KINDS = "a number of tokens, uniform(low,high), lognormal(mean,cv), lognormal(mean,cv,max=n) or file(path,column)"


def lengths_named(value: object, field: str = "length") -> Lengths:
    """Parse a length distribution: a number, a text, a sequence of observed lengths, or a Lengths, returned as is.

    Texts: `1024`, `uniform(100,2000)`, `lognormal(1024,0.8)`, `lognormal(1024,0.8,max=8192)`, `file(lengths.csv)`,
    `file(lengths.csv,column)`; the column may be left out for a file with only one. Raises InputError for anything
    else; `field` is the name in the message.
    """
    if isinstance(value, Lengths):
        return value
    if isinstance(value, (list, tuple, range, np.ndarray)) and np.ndim(value):
        return Empirical(np.asarray(value))
    if not isinstance(value, str):
        return Fixed(_tokens(field, value.item() if isinstance(value, np.ndarray) else value))
    number = value.strip().replace("_", "")
    if number.lstrip("+-").isdigit() and number.isascii() and len(number) < 100:
        return Fixed(_tokens(field, int(number)))
    call = spelled(value)
    if call is None or call.name not in DISTRIBUTIONS or not call.arguments:
        raise InputError(field, value, KINDS, nearest(call.name, DISTRIBUTIONS) if call else ())
    if call.name == "file":
        return _of_file(value)
    return _distribution(call, field, value)


def _distribution(call: Spelled, field: str, text: str) -> Lengths:
    given = call.numbers("low", "high") if call.name == "uniform" else call.numbers("mean", "cv", optional=("max",))
    match call.name, given:
        case "uniform", (float(low), float(high)):
            return Uniform(_whole_of(field, low, text), _whole_of(field, high, text))
        case "lognormal", (float(mean), float(cv), most):
            return Lognormal(mean, cv, None if most is None else _whole_of(field, most, text))
        case _:
            raise InputError(field, text, KINDS)


def _whole_of(field: str, number: float, text: str) -> int:
    if real(number) is None or not number.is_integer() or not 1 <= number <= MOST_TOKENS:
        raise InputError(field, text, f"whole numbers of tokens from 1 to {MOST_TOKENS}")
    return int(number)


def _of_file(text: str) -> Empirical:
    """The lengths in a column of a file."""
    from roofline.serving.simulate.tables.columns import whole_column
    from roofline.serving.simulate.tables.read import read_table

    inside = text.strip()[len("file") :].strip()[1:-1]
    before, comma, last = inside.rpartition(",")
    path, asked = (Path(before.strip()), last.strip()) if comma else (Path(inside.strip()), None)

    def choose(names: tuple[str, ...]) -> tuple[str, ...]:
        if asked is None and len(names) != 1:
            raise InputError(printable(str(path)), ", ".join(names), "one column, or its name: file(path,column)")
        if asked is not None and asked not in names:
            near = nearest(asked, names) or names[:3]
            raise InputError(f"column of {printable(str(path))}", asked, "a column that is there", near)
        return names if asked is None else (asked,)

    values: list[NDArray[np.int64]] = []
    for part in read_table(path, choose):
        values.append(whole_column(part, next(iter(part.columns)), least=1))
        if sum(map(len, values)) > MOST_VALUES:
            raise InputError(printable(str(path)), "more", f"at most {MOST_VALUES} lengths")
    return Empirical(np.concatenate(values))
