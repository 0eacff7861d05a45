"""An inline SVG picture that follows the page's colour theme and has a text alternative."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roofline.declared.numbers.units import brief
from roofline.declared.sanitize import inert_line
from roofline.views.plots import data as d
from roofline.views.plots.style import DARK, LIGHT, Theme
from roofline.views.plots.write import write

if TYPE_CHECKING:
    from markupsafe import Markup

COLOUR = re.compile(r"#[0-9a-f]{6}\b")
MOST_POINTS = 6
"""Largest number of roofline marks that are described one by one."""


@dataclass(frozen=True)
class InlinePicture:
    """A caption, an inline SVG, and a description of what it shows."""

    name: str
    svg: Markup
    words: str


def inline_picture(name: str, plot: d.Plot, prefix: str) -> InlinePicture:
    """Draw a plot for a page; `prefix` makes its ids unique on the page."""
    from markupsafe import Markup, escape

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.svg"
        write(plot, path, letters=True)
        svg = path.read_text(encoding="utf-8")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    names = {colour: f"var(--{name})" for name, colour in _colours(LIGHT).items()}
    svg = re.sub(r'fill="(#[0-9a-f]{6})"', r'style="fill: \1"', svg)  # an attribute cannot hold a property of the page
    svg = re.sub(r'style="[^"]*"', lambda style: COLOUR.sub(lambda c: names.get(c[0], c[0]), style[0]), svg)
    words = in_words_of(name, plot)
    return InlinePicture(name, Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(words)}"', 1)), words)


def in_words_of(name: str, plot: d.Plot) -> str:
    """Description of a picture: caption, title and note, and the marks of a roofline if they are few."""
    parts = [name, plot.title]
    if isinstance(plot, d.RooflinePlot):
        points = [point for panel in plot.panels for point in panel.points]
        if len(points) <= MOST_POINTS:
            parts += [
                f"{p.label}: {p.intensity:.3g} FLOP/B, {brief(p.performance, 'FLOP/s')}" for p in points
            ]  # fmt: skip
    return inert_line(". ".join(part.rstrip(".") for part in (*parts, plot.note) if part))


def theme_styles() -> str:
    """Colours of both themes as CSS properties: dark if the reader prefers it, light in print."""
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ color-scheme: dark; {_properties(DARK)} }} }}"
    return f":root {{ color-scheme: light; {_properties(LIGHT)} }}\n{dark}\n"


def _properties(theme: Theme) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in _colours(theme).items())


def _colours(theme: Theme) -> dict[str, str]:
    """Name → colour; ink and paper come last, since a palette colour may equal one of them."""
    palette = {f"c{i}": colour.lower() for i, colour in enumerate(theme.palette)}
    return {**palette, "grid": theme.grid, "muted": theme.muted, "ink": theme.ink, "paper": theme.paper}
