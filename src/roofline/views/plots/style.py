"""Look of pictures: theme, colour-blind safe colours (Okabe and Ito 2008), markers, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from roofline.declared.errors import InputError, not_one_of

ThemeName: TypeAlias = Literal["light", "dark"]
LegendPlace: TypeAlias = Literal["beside", "separate", "none"]


@dataclass(frozen=True)
class Theme:
    """Colours of paper, ink and grid, with a palette."""

    paper: str
    ink: str
    muted: str
    grid: str
    palette: tuple[str, ...]


# Okabe and Ito, "Color Universal Design" (2008): blue, vermillion, green, orange, sky blue, purple, yellow, and a grey;
# four more by lightness, for the dozen operations of a table.
LIGHT = Theme(
    "#ffffff", "#1b1b1b", "#5f6368", "#e4e6e9",
    ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#F0E442", "#555555",
     "#1B1B1B", "#7A3B00", "#4B2E83", "#A3D9C9"),
)  # fmt: skip
DARK = Theme(
    "#15181d", "#eceff1", "#a7adb5", "#30353d",
    ("#3D9BE0", "#F0803C", "#1FC79A", "#F2B134", "#8FD0F5", "#E29CC4", "#F0E442", "#7F848C",
     "#FFFFFF", "#D2A679", "#B9A7F0", "#0F8F78"),
)  # fmt: skip
THEMES: Mapping[str, Theme] = MappingProxyType({"light": LIGHT, "dark": DARK})
MAP_COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "light": ("#f3f7fb", "#0b4f83"), "dark": ("#1d2a38", "#7cc4f5"),
})  # fmt: skip
"""Colours from few to many tokens/s in one hue, so that the order is visible without colour."""
GROUP_ORDER = (
    "matmul",
    "attention",
    "experts",
    "elementwise",
    "norm",
    "scan",
    "communication",
    "embedding",
    "optimizer",
)
"""Palette positions of the groups of ops, so that a group has the same colour in every picture."""
TERM_ORDER = ("weights", "activations and overhead", "KV cache", "recurrent state")
"""Palette positions of the terms of memory."""
MARKERS = ("o", "s", "^", "D", "v", "P")
PLOTLY_MARKERS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
HATCHES = ("", "///", "\\\\\\", "...", "xx", "++", "oo", "--")
"""Hatches for print without colour, in the order of the palette."""


@dataclass(frozen=True)
class Style:
    """Options of the caller. `broken`: an x axis without its empty middle. `legend`: beside the axes, in a separate
    file, or none. `dpi`: resolution of a PNG.

    Raises InputError for an unknown theme or legend and an impossible resolution.
    """

    theme: ThemeName = "light"
    legend: LegendPlace = "beside"
    broken: bool = False
    dpi: int = 150

    def __post_init__(self) -> None:
        for field, value, known in (("theme", self.theme, ThemeName), ("legend", self.legend, LegendPlace)):
            if value not in get_args(known):
                raise not_one_of(field, value, get_args(known))
        if type(self.dpi) is not int or not 20 <= self.dpi <= 1200:
            raise InputError("dpi", self.dpi, "a whole number from 20 to 1200")

    @property
    def colours(self) -> Theme:
        """Colours of the theme."""
        return THEMES[self.theme]


def colours_of(groups: Iterable[str], theme: Theme) -> dict[str, str]:
    """A colour for each group: fixed for known groups of ops and terms of memory, else the next of the palette."""
    names = list(dict.fromkeys(groups))
    ordered = _order_of(names)
    return {n: theme.palette[ordered.index(n) % len(theme.palette)] for n in names}


def _order_of(names: Sequence[str]) -> Sequence[str]:
    """Positions of names in the palette; fixed ones if all names have them."""
    return next((order for order in (GROUP_ORDER, TERM_ORDER) if all(n in order for n in names)), names)


def hatches_of(groups: Iterable[str]) -> dict[str, str]:
    """A hatch for each group, fixed for known groups of ops and terms of memory."""
    names = list(dict.fromkeys(groups))
    ordered = _order_of(names)
    return {n: HATCHES[ordered.index(n) % len(HATCHES)] for n in names}


def marker_of(phases: Iterable[str], markers: tuple[str, ...] = MARKERS) -> dict[str, str]:
    """A marker for each phase."""
    return {p: markers[i % len(markers)] for i, p in enumerate(dict.fromkeys(phases))}
