"""Options of who pays what: price, hours, site, grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

if TYPE_CHECKING:
    from roofline.estimates.bill import Bill


@Parameter(name="*")
@dataclass(frozen=True)
class BillOptions:
    """Money, energy, carbon: they change no time."""

    price: str | None = None
    "USD an hour of one chip (the catalog's), or `own(30000,rest=12000,electricity=0.08)`: bought, USD and USD/kWh."
    years: float | None = None
    "Years that a chip which is bought is paid off in (4)."
    utilisation: float | None = None
    "Share of the hours paid for in which chips work as estimated (1); in the others they idle."
    pue: float | None = None
    "Power usage effectiveness of the site (1: the chips alone)."
    grid: str | None = None
    "A country's code, such as `fr`, or kilograms of CO2 equivalent a kWh."

    def bill(self) -> Bill:
        """What was asked for. Raises InputError for what cannot be."""
        from roofline.estimates.bill import Bill, price_named

        given = {name: getattr(self, name) for name in ("utilisation", "pue", "grid")}
        known = {name: value for name, value in given.items() if value is not None}
        return Bill(price=price_named(self.price, self.years), **known)
