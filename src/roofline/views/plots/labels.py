"""Label placement without overlaps: each label goes to the first free position around its point, or is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import cos, hypot, inf, pi, sin
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from roofline.declared.numbers.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

Rectangle = tuple[float, float, float, float]
"""Left, bottom, right, top in pixels."""
RADII = (4.0, 9.0, 16.0, 26.0, 38.0, 52.0, 70.0, 90.0, 115.0, 145.0, 180.0)
"""Distances to try, in points."""
ANGLES = (
    0,
    45,
    -45,
    90,
    -90,
    180,
    135,
    -135,
    *(sign * a for a in (22, 67, 158, 112, 80, 100, 30, 60) for sign in (1, -1)),
)
WIDEST = 0.7
"""Width of a character relative to the font size, at most on average."""
LEADER = 8.0
"""Distance in points from which a line leads from the label to its point."""
SHUFFLES = 24
"""Random orders to try besides those by position."""
ROUNDING = 1e-6
"""Rounding error of cost sums in different orders."""
CROSSING, DROPPED, NEEDED = 150.0, 6e3, 6e4
"""Cost of a label on a line, of one left out, and of a needed one left out, in points of distance."""


@dataclass(frozen=True)
class Label:
    """Text at a position in data coordinates; `clear`: radius in points of its own mark.

    `needed`: other labels are left out first.
    """

    text: str
    x: float
    y: float
    colour: str
    size: float = 7.5
    clear: float = 0.0
    needed: bool = False

    @property
    def worth(self) -> float:
        """Cost of leaving it out."""
        return NEEDED if self.needed else DROPPED


@dataclass
class Taken:
    """Occupied boxes of a drawing: labels always avoid `texts` and `marks`, and `lines` if there is room."""

    texts: list[Rectangle] = field(default_factory=list)
    marks: list[Rectangle] = field(default_factory=list)
    lines: list[Rectangle] = field(default_factory=list)

    @property
    def all(self) -> list[Rectangle]:
        """Everything drawn so far."""
        return [*self.texts, *self.marks, *self.lines]


@dataclass(frozen=True)
class Spot:
    """Position of a label: its box, its leader's boxes and ends, and its cost (0 is best)."""

    label: Label
    box: Rectangle
    leader: list[Rectangle]
    ends: Array
    cost: float


def place(ax: Axes, labels: Sequence[Label], taken: Taken, halo: str) -> list[Label]:
    """Write the labels, the most important first; return those that found no place.

    A leader crosses another point's mark, and a label a line, only if there is no other place; a leader and a text
    never cross. Several orders are tried, and the one with the shortest leaders is kept. The boxes of the labels join
    `taken`.
    """
    if not labels:
        return []
    sizes = {label.text: extent(ax, label.text, label.size) for label in labels}
    around = {label: Around.of(ax, label, sizes[label.text], taken) for label in labels}
    orders = [list(labels)]
    orders += [sorted(labels, key=key, reverse=back) for key in (_across, _up) for back in (False, True)]
    shuffle = Random(0)  # the same picture every time
    orders += [shuffle.sample(list(labels), len(labels)) for _ in range(SHUFFLES)]
    every = sum(label.worth for label in labels)
    best: list[Spot] = []
    least = inf
    for order in orders:
        spots = _placed(order, taken, around, least)
        if spots is not None and (cost := every + sum(s.cost - s.label.worth for s in spots)) < least:
            best, least = spots, cost
    back = ax.transData.inverted()
    for spot in best:
        taken.texts.append(spot.box)
        taken.lines += spot.leader
        if spot.leader:
            line = back.transform(spot.ends)
            ax.plot(line[:, 0], line[:, 1], color=spot.label.colour, linewidth=0.5, alpha=0.8, zorder=3.5)
        x, y = back.transform(((spot.box[0] + spot.box[2]) / 2, (spot.box[1] + spot.box[3]) / 2))
        write_labels(ax, x, y, spot.label.text, spot.label.colour, spot.label.size, halo)
    written = [spot.label for spot in best]
    return [label for label in labels if label not in written]


def _across(label: Label) -> float:
    return label.x


def _up(label: Label) -> float:
    return label.y


@dataclass(frozen=True)
class Around:
    """Candidate boxes of a label within its axes, nearest first: [m, 4], each with its distance; and its point.

    `covered`, `crossed`: whether a candidate overlaps a text or mark, or a line, [m].
    """

    at: Array
    boxes: Array
    places: tuple[tuple[Rectangle, float], ...]
    covered: Array
    crossed: Array
    leaders: dict[int, list[Rectangle]] = field(default_factory=dict)

    def leader(self, place: int, clear: float) -> list[Rectangle]:
        """Boxes that cover the line from the point to a candidate, none if it is adjacent; cached for other orders."""
        if place not in self.leaders:
            far = self.places[place][1] - clear >= LEADER
            self.leaders[place] = straight(self.at, self.edge(place), 1.0) if far else []
        return self.leaders[place]

    def edge(self, place: int) -> tuple[float, float]:
        """Where the line to a candidate meets its box."""
        (left, low, right, high), (x, y) = self.places[place][0], self.at
        return min(max(x, left), right), min(max(y, low), high)

    @classmethod
    def of(cls, ax: Axes, label: Label, size: tuple[float, float], taken: Taken) -> Around:
        """Candidates of a label with a size in pixels."""
        figure = ax.figure
        frame = ax.get_window_extent()
        bounds = (frame.x0, frame.y0, frame.x1, frame.y1)
        at = ax.transData.transform((label.x, label.y))
        every = _around(at, *size, label.clear, figure.dpi / 72)
        places = tuple((box, radius) for box, radius in every if inside(box, bounds))
        boxes = np.array([box for box, _ in places]).reshape(-1, 4)
        return cls(at, boxes, places, _hit(boxes, [*taken.texts, *taken.marks]), _hit(boxes, taken.lines))


def _placed(labels: Sequence[Label], taken: Taken, around: Mapping[Label, Around], most: float) -> list[Spot] | None:
    """Positions of the labels in this order; None as soon as their cost exceeds `most`."""
    texts: list[Rectangle] = []
    leaders: list[Rectangle] = []
    spots: list[Spot] = []
    spent = 0.0
    for label in labels:
        near = around[label]
        hard = near.covered | _hit(near.boxes, [*texts, *leaders])
        soft = hard | near.crossed
        written = [*taken.texts, *texts]
        spot = (
            _spot(label, near, soft, [*written, *taken.marks])
            or _spot(label, near, soft, written, CROSSING)
            or _spot(label, near, hard, written, 2 * CROSSING)
        )
        if spot is not None:
            spots.append(spot)
            texts.append(spot.box)
            leaders += spot.leader
        spent += label.worth if spot is None else spot.cost
        if spent > most + ROUNDING:
            return None
    return spots


def _spot(label: Label, near: Around, blocked: Array, stops: list[Rectangle], cost: float = 0.0) -> Spot | None:
    """First candidate that is not `blocked`, [m], and whose leader hits none of `stops`."""
    at = near.at
    way = np.array([b for b in stops if not (b[0] <= at[0] <= b[2] and b[1] <= at[1] <= b[3])])
    for i in np.flatnonzero(~blocked).tolist():
        leader = near.leader(i, label.clear)
        if not leader or not _hit(np.array(leader), way).any():
            box, radius = near.places[i]
            return Spot(label, box, leader, np.array([at, near.edge(i)]), cost + radius - label.clear)
    return None


def _hit(boxes: Array, others: Array | Sequence[Rectangle]) -> Array:
    """For each of `boxes` [m, 4], whether it overlaps any of `others`; distant ones are excluded first."""
    if not len(boxes) or not len(others):
        return np.zeros(len(boxes), dtype=bool)
    every = np.asarray(others)
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    near = every[((every[:, 2:] > low) & (every[:, :2] < high)).all(axis=1)]
    mine, theirs = boxes[:, None, :], near[None, :, :]
    beside = (theirs[..., 0] >= mine[..., 2]) | (theirs[..., 2] <= mine[..., 0])
    above = (theirs[..., 1] >= mine[..., 3]) | (theirs[..., 3] <= mine[..., 1])
    return np.asarray((~(beside | above)).any(axis=1))


def write_labels(
    ax: Axes, x: float, y: float, text: str, colour: str, size: float, halo: str, **place: str | float
) -> Text:
    """Write text over the drawing, with a halo in the paper's colour."""
    from matplotlib.patheffects import withStroke

    options: dict[str, str | float] = {"ha": "center", "va": "center", "zorder": 6, **place}
    rim = [withStroke(linewidth=2, foreground=halo)]
    return ax.text(x, y, text, None, color=colour, size=size, path_effects=rim, **options)


def extent(ax: Axes, text: str, size: float) -> tuple[float, float]:
    """Width and height of a text in pixels, with a little room."""
    box, room = text_box(ax, text, size), ax.figure.dpi / 72
    return box.width + 2 * room, box.height + 2 * room


def text_box(where: Axes | Figure, text: str, size: float, weight: str = "normal") -> Bbox:
    """Box of a text in pixels, without drawing it."""
    probe = where.text(0, 0, text, transform=None, size=size, weight=weight)
    box = probe.get_window_extent()
    probe.remove()
    return box


def fitting(ax: Axes, text: str, size: float, room: float) -> float:
    """Font size of a text, reduced if it is wider than `room` inches."""
    if len(text) * size * WIDEST / 72 <= room:
        return size
    figure = ax.figure
    wide = extent(ax, text, size)[0] / figure.dpi
    return size if wide <= room else max(3.5, 0.94 * size * room / wide)


def around_point(ax: Axes, x: float, y: float, radius: float) -> Rectangle:
    """Box of a mark with a radius in points."""
    figure = ax.figure
    px, py = ax.transData.transform((x, y))
    r = radius * figure.dpi / 72
    return (px - r, py - r, px + r, py + r)


def along(ax: Axes, start: tuple[float, float], end: tuple[float, float], width: float = 2.0) -> list[Rectangle]:
    """Boxes that cover a straight line between two positions in data coordinates."""
    a, b = ax.transData.transform([start, end])
    return straight(a, b, width)


def straight(start: Array | tuple[float, float], end: Array | tuple[float, float], width: float) -> list[Rectangle]:
    """Boxes that cover a straight line between two positions in pixels."""
    (x0, y0), (x1, y1) = start, end
    steps = max(1, int(hypot(x1 - x0, y1 - y0) / 4))
    spots = ((x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(steps + 1))
    return [(x - width, y - width, x + width, y + width) for x, y in spots]


def _around(at: Array, width: float, height: float, clear: float, scale: float) -> Iterator[tuple[Rectangle, float]]:
    """Candidate positions of a box around a point, nearest first; the box touches by the side that faces the point."""
    for more in RADII:
        radius = clear + more
        for degrees in ANGLES:
            dx, dy = cos(degrees * pi / 180), sin(degrees * pi / 180)
            x, y = at[0] + dx * (radius * scale + width / 2), at[1] + dy * (radius * scale + height / 2)
            yield (x - width / 2, y - height / 2, x + width / 2, y + height / 2), radius


def inside(box: Rectangle, frame: Rectangle) -> bool:
    """Whether a box lies within another."""
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def overlap(a: Rectangle, b: Rectangle) -> bool:
    """Whether two boxes overlap."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
