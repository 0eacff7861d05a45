"""Carbon intensity of electricity, by country."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofline.declared.checks import real
from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import TomlTable
from roofline.hardware.chip_files import Tables

GRIDS = Path(__file__).with_name("grids.toml")
YEAR = 2021
MOST_CARBON = 2.0
"""Largest accepted kg per kWh: coal alone is below 1.3, so a larger number must be in grams."""


@dataclass(frozen=True)
class PowerGrid:
    """An electricity grid: kilograms of CO₂ equivalent per kWh, and the source."""

    name: str
    kg: float
    source: str


@cache
def grids() -> Tables[PowerGrid]:
    """Country code → grid."""

    def build(code: str, table: TomlTable) -> PowerGrid:
        return PowerGrid(table["name"], table["kg"], f"{table['name']} {YEAR}, Our World in Data (Ember)")

    return Tables(build, GRIDS)


def grid_named(value: object) -> PowerGrid:
    """A country's grid by its code (`fr`), or a grid with the given kg of CO₂ equivalent per kWh.

    Raises InputError for an unknown code, and for a number that is negative or appears to be in grams.
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
