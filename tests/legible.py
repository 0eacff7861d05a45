"""Whether every text of a picture can be read: it stands alone, on the paper, in its axes, and apart in lightness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

import roofline as rl
from roofline.views.plots.data import Plot
from roofline.views.plots.draw import canvas
from roofline.views.plots.style import Style, ThemeName
from roofline.views.plots.write import renderers

LEAST_CONTRAST = 4.5
"""Of text and what is behind it: WCAG 2.2, success criterion 1.4.3."""
TOUCH = 2.0
"""Pixels by which the boxes of two texts may meet; they have some room around their letters."""
BEYOND = 8.0
"""Pixels by which a text of axes may reach beyond them."""
CLEAR = 0.8
"""Share of the pixels behind a text that contrast with it; the others are lines of the grid."""

MODELS = {
    "dense": ("meta-llama/Llama-3.1-8B", "h100-sxm", "tp=1"),
    "latent": ("deepseek-ai/DeepSeek-V3", "8xh200-sxm", "tp=8"),
    "hybrid": ("Qwen/Qwen3-Next-80B-A3B-Instruct", "4xh100-sxm", "tp=4"),
}
"""Name → model, machine and layout."""
KINDS: Mapping[str, Mapping[str, Any]] = {
    "ops": {"kind": "roofline"},
    "layers": {"kind": "roofline", "points": "layers"},
    "phases": {"kind": "roofline", "points": "phases"},
    "shares": {"kind": "shares"},
    "sweep": {"kind": "sweep"},
    "sweep-context": {"kind": "sweep", "over": "context", "batch": 64},
    "sweep-prefill": {"kind": "sweep", "phase": "prefill", "over": "context", "batch": 4},
    "memory": {"kind": "memory", "batch": 64},
    "parameters": {"kind": "parameters"},
    "map": {"kind": "map"},
    "tornado": {"kind": "tornado", "batch": 16},
    "energy": {"kind": "energy"},
    "diagram": {"kind": "diagram"},
}
THEMES: tuple[ThemeName, ...] = ("light", "dark")


@dataclass(frozen=True)
class Written:
    """A text of a picture: its box in pixels, its colour, what is behind it, and the axes that it has to stay in."""

    text: str
    box: Any
    colour: str
    behind: np.ndarray
    axes: Any | None

    @property
    def contrast(self) -> float:
        """The ratio that all but a few of the pixels behind it reach."""
        return float(np.quantile(contrast(rgb_of(self.colour), self.behind), 1 - CLEAR))


def picture(model: str, kind: str) -> Plot:
    """A picture of one of the models."""
    name, on, layout = MODELS[model]
    alone = kind in ("parameters", "diagram")
    options: dict[str, Any] = {**KINDS[kind], **({} if alone else {"on": on, "layout": layout})}
    plot: Plot = rl.plot(name, **options)
    return plot


def every_picture() -> Iterator[tuple[str, str, ThemeName]]:
    """Model, kind and theme of each."""
    yield from product(MODELS, KINDS, THEMES)


def problems(plot: Plot, style: Style) -> list[str]:
    """What cannot be read in a picture, in words."""
    with canvas.settings():
        figure = renderers()[type(plot)](plot, style)
        texts, paper = written(figure), figure.bbox
    said = [f"no text: {len(texts)}"] if len(texts) < 5 else []
    for t in texts:
        if not _within(t.box, paper, 0.5):
            said.append(f"off the paper: {t.text!r}")
        if t.axes is not None and not _within(t.box, t.axes.bbox, BEYOND):
            said.append(f"outside its axes: {t.text!r}")
        if t.contrast < LEAST_CONTRAST:
            said.append(f"contrast {t.contrast:.1f}: {t.text!r}")
    level = [t for t in texts if t.box is not None]
    for a, b in combinations(level, 2):
        common = min(a.box.x1, b.box.x1) - max(a.box.x0, b.box.x0), min(a.box.y1, b.box.y1) - max(a.box.y0, b.box.y0)
        if min(common) > TOUCH:
            said.append(f"one on the other: {a.text!r}, {b.text!r}")
    return said


def written(figure: Any) -> list[Written]:
    """Every text of a figure that is seen; one at a slant is without a box, which would be larger than it is."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    every = [(t, None) for t in figure.texts]
    for ax in figure.axes:
        every += [(t, ax) for t in ax.texts]
        every += [(t, None) for t in (ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label)]
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim()))):
            every += [(tick.label1, None) for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    for legend in figure.legends:
        every += [(t, None) for t in legend.get_texts()]
    seen = [(t, ax) for t, ax in every if t.get_text().strip() and t.get_visible()]
    boxes = [t.get_window_extent(renderer) for t, _ in seen]
    colours = [to_hex(t.get_color()) for t, _ in seen]
    rims = [_rim(t) for t, _ in seen]
    for t, _ in seen:
        t.set_visible(False)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1, :, :3] / 255
    return [
        Written(t.get_text(), box if t.get_rotation() % 90 == 0 else None, colour, _behind(pixels, box, rim), ax)
        for (t, ax), box, colour, rim in zip(seen, boxes, colours, rims, strict=True)
    ]


def to_hex(colour: Any) -> str:
    from matplotlib.colors import to_hex as of_matplotlib

    return str(of_matplotlib(colour))


def _rim(text: Any) -> str | None:
    """The colour that a text brings with it: of its box, or of the rim around its letters."""
    patch = text.get_bbox_patch()
    if patch is not None:
        return to_hex(patch.get_facecolor())
    for effect in text.get_path_effects():
        colour = getattr(effect, "_gc", {}).get("foreground")
        if colour is not None:
            return to_hex(colour)
    return None


def _behind(pixels: np.ndarray, box: Any, rim: str | None) -> np.ndarray:
    """The colours behind a text, [n, 3] from 0 to 1."""
    if rim is not None:
        return rgb_of(rim)[None, :]
    high, wide = pixels.shape[:2]
    x0, x1 = (int(np.clip(v, 0, wide - 1)) for v in (box.x0, box.x1))
    y0, y1 = (int(np.clip(v, 0, high - 1)) for v in (box.y0, box.y1))
    return pixels[y0 : y1 + 1, x0 : x1 + 1].reshape(-1, 3)


def _within(box: Any, frame: Any, room: float) -> bool:
    if box is None:
        return True
    across = frame.x0 - room <= box.x0 and box.x1 <= frame.x1 + room
    return bool(across and frame.y0 - room <= box.y0 and box.y1 <= frame.y1 + room)


def rgb_of(colour: str) -> np.ndarray:
    """A colour's red, green and blue, from 0 to 1."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def luminance(rgb: np.ndarray) -> np.ndarray:
    """Relative luminance of sRGB colours [..., 3] (WCAG 2.2).

    >>> luminance(np.array([1.0, 1.0, 1.0])).item(), round(luminance(np.array([1.0, 0.0, 0.0])).item(), 4)
    (1.0, 0.2126)
    """
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The contrast ratio of colours, from 1 to 21."""
    a, b = luminance(one), luminance(other)
    return np.asarray((np.maximum(a, b) + 0.05) / (np.minimum(a, b) + 0.05))
