"""Grids: how much carbon a kilowatt-hour of electricity stands for, by country."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofline.declared.checks import real
from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import TomlTable
from roofline.machine.files import Tables

GRIDS = Path(__file__).with_name("grids.toml")
YEAR = 2021
MOST_CARBON = 2.0
"""kg a kWh: coal alone stays below 1.3. More is a number of grams."""


@dataclass(frozen=True)
class PowerGrid:
    """Electricity of a place: kilograms of CO₂ equivalent a kWh, and whose figure it is."""

    name: str
    kg: float
    source: str


@cache
def grids() -> Tables[PowerGrid]:
    """Country code → its grid."""

    def build(code: str, table: TomlTable) -> PowerGrid:
        return PowerGrid(table["name"], table["kg"], f"{table['name']} {YEAR}, Our World in Data (Ember)")

    return Tables(build, GRIDS)


def grid_named(value: object) -> PowerGrid:
    """The grid of a country by its code (`fr`), or one of so many kg of CO₂ equivalent a kWh.

    Raises InputError for a code there is not, and for a number that is negative or of grams.
    """
    number = real(value)
    if isinstance(value, str):
        code = value.strip().lower()
        if code in grids():
            return grids()[code]
        try:
            number = float(code)
        except ValueError:
            number = None
    if number is None or not 0 <= number <= MOST_CARBON:
        expected = (
            f"kg of CO2 equivalent a kWh, at most {MOST_CARBON:g} (400 g are 0.4), or one of {', '.join(grids())}"
        )
        raise InputError("grid", value, expected, nearest(str(value).lower(), grids()))
    return PowerGrid("", number, "as given")
