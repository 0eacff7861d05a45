"""Break-even: the price or the utilisation at which two options cost the same, in closed form.

Each answer is checked: the costs are computed again at the value found.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from roofline.declared.checks import numbers
from roofline.declared.errors import InputError
from roofline.declared.numbers.bracketing import TOLERANCE
from roofline.inference.cost.cost import Tariff, tariff
from roofline.serving.simulate.tables.parsers import spelled
from roofline.whatif.query.condition import Clause, Compared, FigureName, NumberClause
from roofline.whatif.query.parsing import other_side, side_text
from roofline.whatif.query.query import OpenQuestion
from roofline.whatif.query.questions import all_in_memory
from roofline.whatif.solve.solution import Met, Solution

HOURS = 8760.0
"""Hours in a year of 365 days."""
COST = "usd_per_million_tokens"
UNIT = {"price": "USD/h", "utilisation": "share"}
_OWNED = "owned(capital=USD,years=YEARS,kwh=USD), perhaps with pue, power and idle"


@dataclass(frozen=True)
class Owned:
    """The cost of owning a chip: `capital` in USD, including its part of the server, written off over `years`.

    `kwh`: USD per kWh. `pue`: energy of the site over energy of the computing equipment. `power` and `idle`: watts
    while working and while waiting; None for the chip's TDP and idle power. Raises InputError for values out of range.
    """

    capital: float
    years: float
    kwh: float
    pue: float = 1.0
    power: float | None = None
    idle: float | None = None

    def __post_init__(self) -> None:
        for name in ("capital", "years"):
            numbers(f"owned {name}", getattr(self, name), 0.0, inf, "a number above 0", above=True)
        for name in ("kwh", "power", "idle"):
            if getattr(self, name) is not None:
                numbers(f"owned {name}", getattr(self, name), 0.0, inf, "a number, zero or more")
        numbers("owned pue", self.pue, 1.0, inf, "1 or more")
        if self.idle is not None and self.power is None:
            raise InputError("owned idle", self.idle, "power as well")

    @property
    def fixed(self) -> float:
        """Fixed cost in USD per hour, used or not: capital / (years · 8760)."""
        return self.capital / (self.years * HOURS)

    def usd_per_hour(self, drawn: Tariff, utilisation: float) -> float:
        """USD per hour at utilisation u: fixed + (u·power + (1 − u)·idle)·PUE·kWh price."""
        power, idle = self.watts(drawn)
        watts = utilisation * power + (1 - utilisation) * idle
        return self.fixed + watts * self.pue * self.kwh / 1000

    def watts(self, drawn: Tariff) -> tuple[float, float]:
        """Watts while working and while waiting. Raises InputError where the power is unknown."""
        most = drawn.power if drawn.draw is None else drawn.draw.most
        power = most if self.power is None else self.power
        idle = self.idle if self.power is not None else drawn.idle
        if power is None:
            raise InputError("owned power", None, "watts: the TDP of the chip is not known")
        return power, power if idle is None else idle


def owned_named(text: object) -> Owned | None:
    """Parse the cost of owning, `owned(capital=30000,years=4,kwh=0.1,pue=1.2,power=900)`; None for any other value.

    Raises InputError for an unknown or missing argument.
    """
    if isinstance(text, Owned) or not isinstance(text, str):
        return text if isinstance(text, Owned) else None
    call = spelled(text)
    if call is None or call.name != "owned":
        return None
    values = call.numbers("capital", "years", "kwh", optional=("pue", "power", "idle"))
    if values is None:
        raise InputError("against", text, _OWNED)
    capital, years, kwh, pue, power, idle = values
    assert capital is not None
    assert years is not None
    assert kwh is not None
    return Owned(capital, years, kwh, 1.0 if pue is None else pue, power, idle)


def break_even(q: OpenQuestion, find: str, against: object, utilisation: float | None) -> Solution:
    """The price of a chip hour, or the utilisation, at which two costs are equal or a cost limit is reached.

    Against other settings: price = their USD per token / ours at 1 USD per hour; utilisation = ours / theirs, the
    lowest utilisation at which ours costs no more than theirs at full use. A cost limit takes the place of their cost.
    Against owning: price = USD per hour of owning / utilisation; the utilisation u solves
    fixed + (u·power + (1 − u)·idle)·k = u·price, k = PUE · USD per kWh / 1000.
    Raises InputError where a price is unknown, or there is nothing to compare with.
    """
    own = owned_named(against)
    if own is not None:
        return _owning(q, find, own, (side_text(against), utilisation))
    if utilisation is not None:
        raise InputError("utilisation", utilisation, "owning to compare with: " + _OWNED)
    limits = [limit for limit in map(_cost_limit, q.condition.parts) if limit is not None]
    if len(limits) < len(q.condition.parts) or len(limits) + (against is not None) != 1:
        raise InputError("against", against, "the settings to compare with, or `usd_per_million_tokens <= 0.5` alone")
    target, sign = limits[0] if limits else (_cost(other_side(q, against)), "=")
    if find == "price":
        value, extreme = target / _cost(q.priced(1.0)), "greatest"
        beyond = value * (1 + TOLERANCE)
        again = [_cost(q.priced(price)) for price in (value, beyond)]
    else:
        full = _cost(q)
        value, extreme = full / target, "least"
        beyond = value * (1 - TOLERANCE)
        again = [full / value, full / beyond]
    row = Met(COST, sign, target, again[0], again[1], "USD", again[0] / target)
    why = "" if find == "price" or value <= 1 else f"even at full use it is {value:.4g} times as dear"
    return _solution(q, (find, extreme, side_text(against)), None if why else value, beyond, row, why)


def _cost(q: OpenQuestion) -> float:
    """USD per 10⁶ tokens. Raises InputError where the chip has no price."""
    return float(q.figure(COST))


def _cost_limit(part: Clause) -> tuple[float, str] | None:
    """The limit on USD per 10⁶ tokens and its sign; None for any other part of a condition."""
    if not isinstance(part, Compared):
        return None
    sides = part.turned
    of_cost = isinstance(sides.left, FigureName) and sides.left.name == COST and sides.sign in ("<", "<=")
    return (sides.right.amount, sides.sign) if of_cost and isinstance(sides.right, NumberClause) else None


def _owning(q: OpenQuestion, find: str, own: Owned, words: tuple[str, float | None]) -> Solution:
    against, utilisation = words
    drawn = tariff(q.asked.deployment.chip)
    if find == "price":
        share = numbers("utilisation", utilisation, 0.0, 1.0 + 1e-12, "a share above 0, at most 1", above=True)
        hour = own.usd_per_hour(drawn, float(share))
        value = hour / float(share)
        beyond = value * (1 + TOLERANCE)
        row = Met("usd_per_hour", "=", hour, value * float(share), beyond * float(share), "USD", 1.0)
        return _solution(q, (find, "greatest", against), value, beyond, row, "")
    if utilisation is not None:
        raise InputError("utilisation", utilisation, "no value: it is what --find solves for")
    if drawn.price is None:
        raise InputError("on", q.asked.deployment.chip.id, "a chip with a price, as in `like=h100-sxm,price=2`")
    power, idle = own.watts(drawn)
    per_watt = own.pue * own.kwh / 1000
    saved = drawn.price - (power - idle) * per_watt
    value = (own.fixed + idle * per_watt) / saved if saved > 0 else inf
    beyond = value * (1 - TOLERANCE)
    why = ""
    if value > 1:
        why = f"even at full use owning takes {own.usd_per_hour(drawn, 1.0):.4g} USD an hour, renting {drawn.price:.4g}"
    at = 1.0 if why else value
    row = Met(
        "usd_per_hour", "<=", drawn.price * at, own.usd_per_hour(drawn, at), None if why else
        own.usd_per_hour(drawn, beyond), "USD", own.usd_per_hour(drawn, at) / (drawn.price * at),
    )  # fmt: skip
    return _solution(q, (find, "least", against), None if why else value, beyond, row, why)


def _solution(
    q: OpenQuestion, words: tuple[str, str, str], value: float | None, beyond: float, row: Met, why: str
) -> Solution:
    find, extreme, against = words
    owning = row.metric == "usd_per_hour"
    fits = None if owning or value is None else bool(all_in_memory(q.answer))
    return Solution(
        q.asked, q.subject, find, extreme, tuple(part.text for part in q.condition.parts), against, value, UNIT[find],
        None if value is None else beyond, 1, None if value is None else row.metric, (row,), fits, True,
        "closed form", 2, why,
    )  # fmt: skip
