"""Arrival processes: at a constant rate, Poisson, in bursts (gamma), all at once, or a closed loop of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from roofline.declared.checks import integer, real, requests_a_second
from roofline.declared.errors import InputError, nearest
from roofline.declared.numbers.spelling import seconds_named
from roofline.serving.simulate.tables.parsers import number_above, spelled

LARGEST_CV = 100.0
MOST_USERS = 2**20
"""Maximum number of users; each takes 0.6 kB."""
PROCESSES = ("constant", "poisson", "gamma", "at-once", "closed")


class Arrivals(ABC):
    """An arrival process. rate: mean requests/s; None for a closed loop, where it follows from the server.

    RANDOM: whether times are drawn.
    """

    rate: float | None
    RANDOM: ClassVar[bool] = True

    @property
    @abstractmethod
    def text(self) -> str:
        """The process in words."""

    @abstractmethod
    def times(self, random: np.random.Generator, first: int, number: int, before: float) -> NDArray[np.float64]:
        """Arrival times in seconds of requests `first` to `first + number − 1`; the one before arrived at `before`.

        Request 0 arrives after time 0. Every request takes the same number of random draws, whatever `number` is.
        """


@dataclass(frozen=True)
class Constant(Arrivals):
    """Constant rate: request i arrives at i / rate."""

    RANDOM: ClassVar[bool] = False
    rate: float

    def __post_init__(self) -> None:
        _rate("rate", self.rate)

    @property
    def text(self) -> str:
        return f"{self.rate:g} requests/s (constant)"

    def times(self, random: np.random.Generator, first: int, number: int, before: float) -> NDArray[np.float64]:
        return np.arange(first, first + number) / self.rate


@dataclass(frozen=True)
class Poisson(Arrivals):
    """Poisson arrivals of independent users: exponential gaps with mean 1 / rate."""

    rate: float

    def __post_init__(self) -> None:
        _rate("rate", self.rate)

    @property
    def text(self) -> str:
        return f"{self.rate:g} requests/s (poisson)"

    def times(self, random: np.random.Generator, first: int, number: int, before: float) -> NDArray[np.float64]:
        return _after(before, random.standard_exponential(number) / self.rate)


@dataclass(frozen=True)
class Gamma(Arrivals):
    """Bursty arrivals: gaps follow a gamma distribution with mean 1 / rate and coefficient of variation `cv`.

    Its shape is 1 / cv², which the serving benchmark of vLLM (`vllm bench serve --burstiness`) calls burstiness. cv = 1
    is Poisson; larger values are burstier, smaller ones more even. BurstGPT (arXiv:2401.17644) fits it to real traffic.
    """

    rate: float
    cv: float

    def __post_init__(self) -> None:
        _rate("rate", self.rate)
        number_above("cv", self.cv, LARGEST_CV)

    @property
    def text(self) -> str:
        return f"{self.rate:g} requests/s (gamma({self.cv:g}))"

    def times(self, random: np.random.Generator, first: int, number: int, before: float) -> NDArray[np.float64]:
        square = self.cv * self.cv
        return _after(before, random.standard_gamma(1 / square, number) * (square / self.rate))


@dataclass(frozen=True)
class AtOnce(Arrivals):
    """All requests are sent at the start, as `vllm bench serve` does without a rate and offline batches do."""

    RANDOM: ClassVar[bool] = False
    rate: None = field(default=None, init=False)

    @property
    def text(self) -> str:
        return "all sent at once"

    def times(self, random: np.random.Generator, first: int, number: int, before: float) -> NDArray[np.float64]:
        return np.zeros(number)


@dataclass(frozen=True)
class Closed(Arrivals):
    """A closed loop of `concurrency` users, each of whom sends the next request `think` seconds after the last answer.

    The first request of user i arrives at i · ramp / concurrency. `ramp` None lets the engine and the lengths decide.
    Arrival times depend on the server: blocks of such a workload carry NaN as arrival, and the simulation sets them.
    """

    concurrency: int
    think: float = 0.0
    ramp: float | None = None
    RANDOM: ClassVar[bool] = False
    rate: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _users(self.concurrency)
        seconds_named("think", self.think)
        if self.ramp is not None:
            seconds_named("ramp", self.ramp)

    @property
    def text(self) -> str:
        think = f", {self.think:g} s apart" if self.think else ""
        ramp = f", the first within {self.ramp:.3g} s" if self.ramp else ""
        return f"{self.concurrency} always in flight{think}{ramp}"

    def times(self, random: np.random.Generator, first: int, number: int, before: float) -> NDArray[np.float64]:
        return np.full(number, np.nan)


def _users(value: object) -> int:
    users = integer(value)
    if users is None or not 1 <= users <= MOST_USERS:
        raise InputError("concurrency", value, f"a whole number from 1 to {MOST_USERS}")
    return users


def _after(before: float, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Times after consecutive gaps, by cumulative sum."""
    return np.cumsum(np.concatenate(([before], gaps)))[1:]


EXPECTED = "constant, poisson or gamma(cv) with a rate, or constant(rate), poisson(rate), gamma(rate,cv), at-once"


def arrivals_named(
    value: object = None, *, rate: object = None, concurrency: object = None, think: object = 0.0, ramp: object = None
) -> Arrivals:
    """Parse an arrival process.

    value: with `rate`, a process without its own (`constant`, `poisson`, `gamma(3)`); otherwise one with a rate
    (`constant(2.5)`, `poisson(2.5)`, `gamma(2.5,3)`), `at-once`, or a closed loop (`closed(32,1s)`). A number is the
    rate of a Poisson process; an Arrivals is returned as is. A rate by itself is Poisson. A `concurrency` by itself is
    a closed loop, with `think` and `ramp` in seconds or with a unit. Raises InputError for anything else, for both a
    rate and a concurrency, or neither.
    """
    closed = concurrency is not None
    within = None if ramp is None else seconds_named("ramp", ramp)
    if not closed and (seconds_named("think", think) or within):
        raise InputError("think or ramp", think if think else ramp, "a concurrency as well")
    if closed:
        if rate is not None or value is not None:
            raise InputError("concurrency", concurrency, "no rate and no arrivals with it: requests come as others end")
        return Closed(_users(concurrency), seconds_named("think", think), within)
    if value is None:
        if rate is None:
            raise InputError("arrivals", "nothing", "a rate, a concurrency or a trace")
        return Poisson(_rate("rate", rate))
    if isinstance(value, str):
        return _process(value, None if rate is None else _rate("rate", rate))
    if rate is not None:
        raise InputError("rate", rate, "no rate beside arrivals that have one")
    if isinstance(value, Arrivals):
        return value
    return Poisson(_rate("arrivals", value))


def _rate(field: str, value: object) -> float:
    """A rate in requests/s. Raises InputError for anything else."""
    number = real(value)
    if number is None:
        raise InputError(field, value, "a number of requests a second")
    return float(requests_a_second(field, number))


def _process(text: str, rate: float | None) -> Arrivals:
    if text.strip().lower() == "at-once":
        if rate is not None:
            raise InputError("rate", rate, "no rate with arrivals at once")
        return AtOnce()
    call = spelled(text)
    if call is None:
        raise InputError("arrivals", text, EXPECTED)
    if call.name not in PROCESSES:
        raise InputError("arrivals", text, EXPECTED, nearest(call.name, PROCESSES))
    if call.name == "closed":
        return _closed(text, rate)
    names = ("cv",) if call.name == "gamma" else ()
    if rate is not None:
        numbers = call.numbers(*names)
        given = None if numbers is None else (rate, *numbers)
    else:
        given = call.numbers("rate", *names)
    match call.name, given:
        case "constant", (float(each),):
            return Constant(each)
        case "poisson", (float(each),):
            return Poisson(each)
        case "gamma", (float(each), float(cv)):
            return Gamma(each, cv)
        case _:
            raise InputError("arrivals", text, EXPECTED)


def _closed(text: str, rate: float | None) -> Closed:
    expected = "closed(concurrency), closed(concurrency,think) or closed(concurrency,think,ramp), such as closed(32,1s)"
    call = spelled(text)
    texts = call.texts("concurrency", "think", "ramp") if call else None
    users = texts["concurrency"] if texts else None
    if texts is None or users is None or not (users.isascii() and users.isdigit() and len(users) < 16):
        raise InputError("arrivals", text, expected)
    if rate is not None:
        raise InputError("rate", rate, "no rate beside a concurrency: requests come as others end")
    think, ramp = (None if texts[name] is None else seconds_named(name, texts[name]) for name in ("think", "ramp"))
    return Closed(int(users), think or 0.0, ramp)
