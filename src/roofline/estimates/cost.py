"""What chips for so long take: chip hours, money, energy, carbon; and of each of so many tokens or requests.

Price, power and grid are the caller's. Where no price or power is given, those of the chip stand in, and say whose they
are. Numbers may be arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from roofline.machine.chip import Chip
from roofline.model.checks import numbers
from roofline.model.errors import InputError
from roofline.model.maths import Count
from roofline.result import Figured, Units

IDLE_SHARE = 0.12
"""Of a chip's power, where its idle power is not known: an assumption."""
JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Tariff(Figured):
    """What one chip costs and draws: `price` in USD an hour, `power` in watts while it works and `idle` while it waits.

    `pue`: power usage effectiveness, the site's energy over that of what computes. `grid`: kg of CO₂ equivalent a kWh.
    None is what nobody said. `price_source` and `power_source` say whose figures they are.
    """

    FIGURES: ClassVar[Units] = {
        "price": "USD", "power": "", "idle": "", "pue": "", "grid": "", "price_source": "", "power_source": "",
    }  # fmt: skip

    price: float | None
    power: float | None
    idle: float | None
    pue: float = 1.0
    grid: float | None = None
    price_source: str = ""
    power_source: str = ""


def tariff(
    chip: Chip, *, price: float | None = None, power: float | None = None, power_share: float | None = None,
    pue: float = 1.0, grid: float | None = None,
) -> Tariff:  # fmt: skip
    """The tariff of a chip.

    `price`: USD a chip hour. `power`: mean watts of one chip with its part of the host, working or waiting;
    `power_share`: the mean as a share of the chip's TDP instead. Without either the chip draws its TDP while it works
    and its idle power while it waits. `pue` ≥ 1. `grid`: kg of CO₂ equivalent a kWh.
    Raises InputError for what is not positive, for both of power and its share, and a share of a TDP nobody knows.
    """
    for field, value in (("price", price), ("power", power), ("power_share", power_share), ("grid", grid)):
        if value is not None:
            numbers(field, value, 0.0, math.inf, "a number, zero or more")
    numbers("pue", pue, 1.0, math.inf, "energy of the site over that of what computes, 1 or more")
    if power is not None and power_share is not None:
        raise InputError("power_share", power_share, "power or power_share, not both")
    if power_share is not None and chip.tdp is None:
        raise InputError("power_share", power_share, f"power in watts: the TDP of {chip.id} is not known")
    price_source, whose = "as given", "as given"
    if price is None and chip.price is not None:
        price, price_source = chip.price.usd_per_hour, f"assumed {chip.price.date}".strip()
    idle = power
    if power_share is not None and chip.tdp is not None:
        power = idle = power_share * chip.tdp
        whose = f"{power_share:g} of the TDP, as given"
    elif power is None and chip.tdp is not None:
        power = chip.tdp
        idle = chip.idle if chip.idle is not None else IDLE_SHARE * chip.tdp
        whose = "the TDP of the chip alone while it works, idle power while it waits"
    return Tariff(
        price, power, idle, float(pue), grid, price_source if price is not None else "",
        whose if power is not None else "",
    )  # fmt: skip


@dataclass(frozen=True)
class Cost(Figured):
    """What `chips` for `seconds` take at a tariff; `waiting`: the share of the time in which a chip is idle.

    USD = chips · hours · price; joules = chips · seconds · (power·(1 − waiting) + idle·waiting) · PUE;
    kg CO₂e = kWh · grid.

    >>> bill = Cost(8, 3600.0, Tariff(price=2.0, power=500.0, idle=500.0, pue=1.25, grid=0.4))
    >>> bill.usd, bill.joules / 3.6e6, bill.carbon, bill.usd_per(2e6) * 1e6
    (16.0, 5.0, 2.0, 8.0)
    """

    FIGURES: ClassVar[Units] = {
        "tariff": "", "chip_hours": "", "usd": "USD", "joules": "J", "carbon": "", "mean_power": "",
    }  # fmt: skip

    chips: Count
    seconds: Count
    tariff: Tariff
    waiting: Count = 0.0

    @property
    def chip_hours(self) -> Count:
        """Chips times hours."""
        return self.chips * self.seconds / 3600

    @property
    def usd(self) -> Count | None:
        """USD; None where nobody named a price."""
        return None if self.tariff.price is None else self.chip_hours * self.tariff.price

    @property
    def mean_power(self) -> Count | None:
        """Watts of one chip over the time, PUE apart; None where power is not known."""
        if self.tariff.power is None or self.tariff.idle is None:
            return None
        return self.tariff.power * (1 - self.waiting) + self.tariff.idle * self.waiting

    @property
    def joules(self) -> Count | None:
        """Joules of the site; None where power is not known."""
        return None if self.mean_power is None else self.chips * self.seconds * self.mean_power * self.tariff.pue

    @property
    def carbon(self) -> Count | None:
        """Kilograms of CO₂ equivalent; None where power or the grid is not known."""
        if self.joules is None or self.tariff.grid is None:
            return None
        return self.joules / JOULES_PER_KWH * self.tariff.grid

    def usd_per(self, number: Count) -> Count | None:
        """USD of each of so many tokens, requests or steps made in that time."""
        return None if self.usd is None else self.usd / number

    def joules_per(self, number: Count) -> Count | None:
        """Joules of each of them."""
        return None if self.joules is None else self.joules / number
