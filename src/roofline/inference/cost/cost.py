"""What it takes to run chips for a time: chip hours, money, energy and carbon; also per token or request.

The caller's `Bill` says who pays for what. Prices and power that it leaves out are those of the chip, with their
source. Numbers may be arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count
from roofline.declared.question import group_settings
from roofline.declared.result import Figured, Units
from roofline.hardware.chip import Chip, Price
from roofline.hardware.grids import PowerGrid, grid_named
from roofline.inference.cost.bill import PLAIN_BILL, Bill, Own
from roofline.kernels.power import Busy, Draw, draw_of

JOULES_PER_KWH = 3.6e6
MILLION = 1e6


@dataclass(frozen=True)
class Tariff(Figured):
    """What one chip costs and draws: a bill applied to that chip.

    `power`: watts of a chip that works, `idle`: of one that waits, `draw`: its energy roofline where no power is given.
    `listed`: the catalog's price. `price`: USD per hour of a rented chip, `own`: the terms of one that is bought,
    `grid`: kg of CO₂ equivalent per kWh. None means unknown. The `…_source` figures say where values come from.
    """

    FIGURES: ClassVar[Units] = {
        **{name: setting.kind.unit for name, setting in group_settings(Bill).items() if name != "years"},
        "power": "W", "idle": "W", "price_source": "", "power_source": "", "grid_source": "", "own": "", "draw": "",
    }  # fmt: skip

    bill: Bill
    power: float | None
    idle: float | None
    power_source: str = ""
    draw: Draw | None = None
    listed: Price | None = None

    @property
    def own(self) -> Own | None:
        """What a chip that is bought costs; None for a rented one."""
        return self.bill.price if isinstance(self.bill.price, Own) else None

    @property
    def price(self) -> float | None:
        """USD per hour of a rented chip: the bill's price, else the catalog's."""
        if isinstance(self.bill.price, Own):
            return None
        return self.listed.usd_per_hour if self.bill.price is None and self.listed is not None else self.bill.price

    @property
    def price_source(self) -> str:
        """Source of the price."""
        if self.price is None or self.listed is None or self.bill.price is not None:
            return "" if self.price is None else "as given"
        return f"assumed {self.listed.date}".strip()

    @property
    def utilisation(self) -> float:
        """Share of the hours paid for in which the chip works."""
        return self.bill.utilisation

    @property
    def pue(self) -> float:
        """Power usage effectiveness: energy of the site over that of its chips."""
        return float(self.bill.pue)

    @cached_property
    def _grid(self) -> PowerGrid | None:
        return None if self.bill.grid is None else grid_named(self.bill.grid)

    @property
    def grid(self) -> float | None:
        """Kilograms of CO₂ equivalent per kWh."""
        return None if self._grid is None else self._grid.kg

    @property
    def grid_source(self) -> str:
        """Source of the grid's figure."""
        return "" if self._grid is None else self._grid.source

    @property
    def wasted(self) -> float:
        """Hours that a chip idles for each hour that it works."""
        return 1 / self.utilisation - 1

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions behind the figures, each with the setting that changes it."""
        o = self.own
        if o is not None:
            price = (
                f"{o.price:,.0f} USD a chip and {o.rest:,.0f} USD for the rest of its server over {o.years:g} years, "
                f"electricity at {o.electricity:g} USD/kWh"
            )
        else:
            price = "none" if self.price is None else f"{self.price:g} $/h a chip, {self.price_source}"
        idles = (
            "" if self.utilisation == 1 else f", {100 * self.utilisation:g} % of the hours; chips idle in the others"
        )
        said = [
            f"price: {price} [price]",
            f"utilisation: chips work {'all the time' if not idles else idles[2:]} [utilisation]",
            f"power: {self.power_source or 'not known'}; PUE {self.pue:g} [power, power_share, pue]",
        ]
        if self.grid is not None:
            said.append(f"grid: {self.grid:g} kg CO2e/kWh, {self.grid_source} [grid]")
        return tuple(said)


def tariff(chip: Chip, bill: Bill = PLAIN_BILL) -> Tariff:
    """The tariff of a chip: what the bill names, else the chip's own price and energy roofline.

    Raises InputError for a share of an unknown TDP.
    """
    power, draw = bill.power, None
    idle, power_source = power, "as given" if power is not None else ""
    if bill.power_share is not None:
        if chip.tdp is None:
            raise InputError("power_share", bill.power_share, f"power in watts: the TDP of {chip.id} is not known")
        power = idle = bill.power_share * chip.tdp
        power_source = f"{bill.power_share:g} of the TDP, as given"
    elif power is None:
        draw = draw_of(chip)
    if draw is not None:
        idle = draw.idle
        power_source = (
            f"energy roofline of a {draw.most:g} W board, grade {draw.grade}, × {draw.low:g} to {draw.high:g}"
        )
    return Tariff(bill, power, idle, power_source, draw, chip.price)


@dataclass(frozen=True)
class Cost(Figured):
    """What `chips` chips cost and draw in `seconds` at a tariff. `waiting`: share of the time in which a chip is idle.

    `busy`: work of the chips' units, in seconds summed over all chips; without it a working chip is taken to draw its
    maximum. For owned chips, the USD cover hours and joules. For every hour that a chip works it idles
    1/utilisation − 1 hours, which are paid for and draw idle power.
    USD = chips · hours · price / utilisation. Joules = (those of the energy roofline, or chips · seconds · (power·(1 −
    waiting) + idle·waiting), plus idle power in the hours without work) · PUE. kg CO₂e = kWh · grid.

    >>> spent = Cost(8, 3600.0, Tariff(Bill(2.0, pue=1.25, grid=0.4), power=500.0, idle=500.0))
    >>> spent.usd, spent.joules / 3.6e6, spent.carbon, spent.usd_per(2e6) * 1e6
    (16.0, 5.0, 2.0, 8.0)
    """

    FIGURES: ClassVar[Units] = {
        "tariff": "", "chip_hours": "", "usd": "USD", "joules": "J", "carbon": "", "mean_power": "W",
    }  # fmt: skip

    chips: Count
    seconds: Count
    tariff: Tariff
    waiting: Count = 0.0
    busy: Busy | None = None

    @property
    def chip_hours(self) -> Count:
        """Chips times hours."""
        return self.chips * self.seconds / 3600

    @property
    def working_joules(self) -> Count | None:
        """Joules of the chips alone, in the hours that they work; None where power is unknown."""
        t, seconds = self.tariff, self.chips * self.seconds
        if t.draw is not None and self.busy is not None:
            return t.draw.joules(seconds, self.busy)
        most = t.power if t.draw is None else t.draw.most
        if most is None or t.idle is None:
            return None
        return seconds * (most * (1 - self.waiting) + t.idle * self.waiting)

    @property
    def mean_power(self) -> Count | None:
        """Mean watts of one chip over the time, without PUE; None where power is unknown."""
        return None if self.working_joules is None else self.working_joules / (self.chips * self.seconds)

    @property
    def joules(self) -> Count | None:
        """Joules of the site; None where power is unknown."""
        t = self.tariff
        if self.working_joules is None or t.idle is None:
            return None
        return (self.working_joules + self.chips * self.seconds * t.idle * t.wasted) * t.pue

    @property
    def usd(self) -> Count | None:
        """USD; None without a price, or for owned chips where power is unknown."""
        t = self.tariff
        if t.own is None:
            return None if t.price is None else self.chip_hours * t.price / t.utilisation
        if self.joules is None:
            return None
        bought = self.chip_hours * t.own.usd_per_hour / t.utilisation
        return bought + self.joules / JOULES_PER_KWH * t.own.electricity

    @property
    def carbon(self) -> Count | None:
        """Kilograms of CO₂ equivalent; None where power or the grid is unknown."""
        if self.joules is None or self.tariff.grid is None:
            return None
        return self.joules / JOULES_PER_KWH * self.tariff.grid

    def usd_per(self, number: Count) -> Count | None:
        """USD for each of `number` tokens, requests or steps made in that time."""
        return None if self.usd is None else self.usd / number

    def joules_per(self, number: Count) -> Count | None:
        """Joules for each of `number` tokens, requests or steps made in that time."""
        return None if self.joules is None else self.joules / number


def _sum(values: tuple[Count | None, ...]) -> Count | None:
    """The sum of the values, None where one of them is None."""
    total: Count = 0.0
    for value in values:
        if value is None:
            return None
        total = total + value
    return total


@dataclass(frozen=True)
class Spending:
    """The cost of reading `read` tokens of prompts and writing `written` tokens of answers, in `seconds`.

    `prompts`, `answers`: the cost of each phase. A server's chips are split by the time that each phase takes, and idle
    time is split in the same proportion; pools have chips of their own all the time. `encoding`: the cost of an encoder
    pool, which counts towards prompts.
    """

    prompts: Cost
    answers: Cost
    seconds: Count
    read: Count
    written: Count
    encoding: Cost | None = None

    @property
    def _read(self) -> tuple[Cost, ...]:
        """The costs of prompts: prefill, and the encoder pool if there is one."""
        return (self.prompts,) if self.encoding is None else (self.prompts, self.encoding)

    @property
    def _all(self) -> tuple[Cost, ...]:
        return *self._read, self.answers

    @property
    def usd(self) -> Count | None:
        """USD of prefill and decode together."""
        return _sum(tuple(part.usd for part in self._all))

    @property
    def joules(self) -> Count | None:
        """Joules of the site for prefill and decode together."""
        return _sum(tuple(part.joules for part in self._all))

    @property
    def usd_per_hour(self) -> Count | None:
        """USD per hour of work."""
        return None if self.usd is None else self.usd / self.seconds * 3600

    @property
    def usd_per_million_tokens(self) -> Count | None:
        """USD per 10⁶ generated tokens, the cost of prompts included."""
        return None if self.usd is None else self.usd / self.written * MILLION

    @property
    def usd_per_million_input(self) -> Count | None:
        """USD per 10⁶ tokens of prompts, by the time that prefill takes."""
        value = _sum(tuple(part.usd for part in self._read))
        return None if value is None or (isinstance(self.read, int) and not self.read) else value / self.read * MILLION

    @property
    def usd_per_million_output(self) -> Count | None:
        """USD per 10⁶ generated tokens, by the time that decoding takes."""
        value = self.answers.usd
        return None if value is None else value / self.written * MILLION

    @property
    def power(self) -> Count | None:
        """Mean watts of all chips while they work, without the site's overhead."""
        joules = _sum(tuple(part.working_joules for part in self._all))
        return None if joules is None else joules / self.seconds

    @property
    def joules_per_token(self) -> Count | None:
        """Joules of the site per generated token, those of prompts included."""
        return None if self.joules is None else self.joules / self.written

    @property
    def co2_per_million_tokens(self) -> Count | None:
        """Grams of CO₂ equivalent per 10⁶ generated tokens; None without a grid."""
        carbon = _sum(tuple(part.carbon for part in self._all))
        return None if carbon is None else 1000 * carbon / self.written * MILLION

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions behind the figures, each with the setting that changes it; of all phases if they differ."""
        return tuple(dict.fromkeys(text for part in self._all for text in part.tariff.assumptions))


class Spent:
    """A result with figures of money and energy, which come from its `spending`."""

    BILLED: ClassVar[Units] = {
        "usd_per_hour": "USD", "usd_per_million_tokens": "USD", "usd_per_million_input": "USD",
        "usd_per_million_output": "USD", "power": "W", "joules_per_token": "J", "co2_per_million_tokens": "",
        "cost_assumptions": "",
    }  # fmt: skip

    @property
    def spending(self) -> Spending | None:
        """The cost of prompts and answers; None where unknown."""
        raise NotImplementedError

    @property
    def usd_per_hour(self) -> Count | None:
        """USD per hour of work; null without a price."""
        return None if self.spending is None else self.spending.usd_per_hour

    @property
    def usd_per_million_tokens(self) -> Count | None:
        """USD per 10⁶ generated tokens, or new tokens of a step: USD per hour / tokens per hour · 10⁶."""
        return None if self.spending is None else self.spending.usd_per_million_tokens

    @property
    def usd_per_million_input(self) -> Count | None:
        """USD per 10⁶ tokens of prompts, by the time that prefill takes."""
        return None if self.spending is None else self.spending.usd_per_million_input

    @property
    def usd_per_million_output(self) -> Count | None:
        """USD per 10⁶ generated tokens, by the time that decoding takes."""
        return None if self.spending is None else self.spending.usd_per_million_output

    @property
    def power(self) -> Count | None:
        """Mean watts of all chips while they work, without the site's overhead; null where power is unknown."""
        return None if self.spending is None else self.spending.power

    @property
    def joules_per_token(self) -> Count | None:
        """Joules of the site per generated token, those of prompts included, or per new token of a step."""
        return None if self.spending is None else self.spending.joules_per_token

    @property
    def co2_per_million_tokens(self) -> Count | None:
        """Grams of CO₂ equivalent per 10⁶ generated tokens, or new tokens of a step; null without a grid."""
        return None if self.spending is None else self.spending.co2_per_million_tokens

    @property
    def cost_assumptions(self) -> tuple[str, ...]:
        """The assumptions behind these figures, each with the setting that changes it."""
        return () if self.spending is None else self.spending.assumptions
