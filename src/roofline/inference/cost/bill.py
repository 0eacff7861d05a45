"""Who pays for what: rented or owned chips, their utilisation, the site, its electricity and its grid."""

from __future__ import annotations

import math
import re
from dataclasses import InitVar, dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, TypeAlias

from roofline.declared.checks import numbers, real
from roofline.declared.errors import InputError, nearest
from roofline.declared.kinds import PlainNumber, ValueKind, WorkedShare
from roofline.declared.question import group
from roofline.declared.result import Figured, Units
from roofline.hardware.grids import grid_named

HOURS_A_YEAR = 8766.0
"""Hours of a year of 365.25 days."""
YEARS, ELECTRICITY = 4.0, 0.10
"""Default years over which owned chips are paid off, and USD per kWh: assumptions, stated with every answer."""


@dataclass(frozen=True)
class Own(Figured):
    """A chip that is bought and paid off in `years`.

    `price`: USD for the chip, `rest`: USD for its part of the server and the network, `electricity`: USD per kWh. An
    hour costs (price + rest) / (years · 8766) / utilisation, plus its electricity. Raises InputError for values out of
    range.
    """

    FIGURES: ClassVar[Units] = {"price": "USD", "rest": "USD", "years": "", "electricity": "USD"}

    price: float
    rest: float = 0.0
    years: float = YEARS
    electricity: float = ELECTRICITY

    def __post_init__(self) -> None:
        for name in ("price", "rest", "electricity"):
            _one(name, getattr(self, name), 0.0, "USD, zero or more")
        _one("years", self.years, 0.0, "a number of years, more than 0", above=True)

    @property
    def usd_per_hour(self) -> float:
        """USD per hour over the years of its use, without electricity."""
        return (self.price + self.rest) / (self.years * HOURS_A_YEAR)


def _grid(field: str, value: float | str) -> float | str:
    """Check that a value names a grid. Raises InputError otherwise."""
    del field
    grid_named(value)
    return value


ChipHour: TypeAlias = Annotated[float | Own, ValueKind((str, float), "USD", classes=("Own",))]
GridName: TypeAlias = Annotated[float | str, ValueKind((str,), check=_grid, classes=("float",))]


@group
@dataclass(frozen=True)
class Bill:
    """What is paid for, and by whom.

    `price`: USD per hour of a rented chip, an `Own`, or its text (`own(30000,rest=12000)`); None for the catalog's
    price. `power`: mean watts of one chip with its part of the host, whether it works or waits. `power_share`: the mean
    as a share of the TDP. Without either, the chip's energy roofline gives the power. Raises InputError for impossible
    values.
    """

    price: Annotated[
        ChipHour | None,
        "USD per hour of one chip (the catalog's), or `own(30000,rest=12000,electricity=0.08)` for a chip that is "
        "bought, in USD and USD/kWh.",
    ] = None
    years: InitVar[Annotated[PlainNumber | None, "Years over which a bought chip is paid off (4)."]] = field(
        default=None, kw_only=True
    )
    utilisation: Annotated[
        WorkedShare, "Share of the hours paid for in which chips work as estimated; in the others they idle."
    ] = 1.0
    pue: Annotated[
        PlainNumber,
        "Power usage effectiveness: energy of the site over that of its chips; 1 counts the chips alone.",
    ] = 1.0
    grid: Annotated[GridName | None, "A country's code, such as `fr`, or kilograms of CO2 equivalent a kWh."] = None
    power: float | None = None
    power_share: float | None = None
    given: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    """Settings that were given one by one."""

    def __post_init__(self, years: float | None) -> None:
        price = price_named(self.price, years)
        if price is not None and not isinstance(price, Own):
            _one("price", price, 0.0, "USD an hour of a chip, zero or more, or own(USD,…)")
        object.__setattr__(self, "price", price)
        _one("pue", self.pue, 1.0, "energy of the site over that of what computes, 1 or more")
        for name in ("power", "power_share"):
            if getattr(self, name) is not None:
                _one(name, getattr(self, name), 0.0, "a number, zero or more")
        if self.power is not None and self.power_share is not None:
            raise InputError("power_share", self.power_share, "power or power_share, not both")

    @classmethod
    def from_settings(cls, **settings: Any) -> Bill:
        """A bill from single settings, which remembers which of them were given."""
        bill = cls(**settings)
        object.__setattr__(
            bill, "given", frozenset(settings) - {"years"} | ({"price"} if "years" in settings else set())
        )
        return bill

    def over(self, other: Bill) -> Bill:
        """Another bill with the settings given for this one; this bill itself if it was made as a whole."""
        if not self.given:
            return self
        return replace(other, **{name: getattr(self, name) for name in self.given})


def price_named(text: object, years: float | None = None) -> float | Own | None:
    """Parse a price: `2.5`, USD per hour, or `own(30000,years=4,rest=12000,electricity=0.08)`.

    `years` replaces those in parentheses. Raises InputError for anything else, and for years of a rented chip.
    """
    price = text if isinstance(text, Own) or text is None else _read(str(text))
    if years is None:
        return price
    if not isinstance(price, Own):
        raise InputError("years", years, "a price of own(USD), which is paid off in them")
    return Own(price.price, price.rest, years, price.electricity)


def _read(text: str) -> float | Own:
    match = re.fullmatch(r"\s*own\s*\((.*)\)\s*", text, re.ASCII | re.DOTALL)
    if match is None:
        return _number("price", text, "USD an hour of a chip, or own(USD,years=4,rest=0,electricity=0.1)")
    names = [f.name for f in fields(Own)]
    given: dict[str, float] = {}
    for i, part in enumerate(match[1].split(",")):
        key, equals, value = (piece.strip() for piece in part.rpartition("="))
        key = key if equals else names[0] if i == 0 else ""
        if key not in names or key in given:
            raise InputError("price", part.strip(), f"one of {', '.join(names)}, each once", nearest(key, names))
        given[key] = _number(f"price {key}", value, "a number")
    if "price" not in given:
        raise InputError("price", text, "what a chip costs first: own(30000,…)")
    return Own(**given)


def _number(field: str, text: str, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(field, text, expected) from None
    if not math.isfinite(value):
        raise InputError(field, text, expected)
    return value


def _one(field: str, value: object, low: float, expected: str, above: bool = False) -> None:
    """Raise an InputError unless `value` is a number from `low` on."""
    if real(value) is None:
        raise InputError(field, value, expected)
    numbers(field, value, low, math.inf, expected, above=above)


PLAIN_BILL = Bill()
"""The default bill: the catalog's prices, chips that always work, no overhead of the site, and no carbon."""


@group
@dataclass(frozen=True, kw_only=True)
class MeanPower:
    """The mean power of a chip, where it is known."""

    power: Annotated[
        PlainNumber | None, "Mean watts of one chip with its part of the host (default: by the energy roofline)."
    ] = None
    power_share: Annotated[PlainNumber | None, "Instead: the mean as a share of the TDP."] = None

    def billed(self, bill: Bill | None) -> Bill | None:
        """The bill with this power. Raises InputError where both power and power_share are given."""
        if self.power is None and self.power_share is None:
            return bill
        return replace(bill or PLAIN_BILL, power=self.power, power_share=self.power_share)


BY_ENERGY = MeanPower()
