"""Chips as the earlier tools describe them: by a few figures, or the catalog's chip with rounded figures."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from roofline.doors.compat.numbers import number
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named

FLOATS = {"fp4": 4, "fp8": 8, "bf16": 16, "fp16": 16, "fp32": 32}
"""Floating-point formats that a report distinguishes, by bits."""


def chip_of(name: str, fmt: str, peak: float, bandwidth: float) -> Chip:
    """A chip described only by FLOP/s in one format and memory bandwidth in bytes/s."""
    return Chip(
        id=name, name=name, vendor="", generation="", kind="", peaks={fmt: peak}, bandwidth=bandwidth,
        capacity=float("inf"),
    )  # fmt: skip


@dataclass(frozen=True)
class Peaks:
    """FLOP/s, memory bandwidth in bytes/s, and link bandwidth in bytes/s, both directions together (None without a
    link)."""

    peak: float
    bandwidth: float
    link: float | None

    def __post_init__(self) -> None:
        number("peak", self.peak)
        number("bandwidth", self.bandwidth)
        if self.link is not None:
            number("link", self.link)

    @property
    def knee(self) -> float:
        """Ridge point in FLOP/B, where arithmetic takes as long as memory traffic."""
        return self.peak / self.bandwidth


def on_chip(chip: Chip, fmt: str = "fp8") -> Peaks:
    """Figures of a chip in a format."""
    return Peaks(chip.peak(fmt), chip.bandwidth, None if chip.link is None else 2 * chip.link)


def wanted_format(width: float) -> str:
    """Format in which elements of this many bytes are multiplied if the chip supports it."""
    return "bf16" if width >= 2 else "fp8" if width >= 1 else "fp4"


def near_format(chip: Chip, wanted: str) -> str:
    """Supported format nearest to the wanted one; the wider of two that are equally near."""
    known = [f for f in FLOATS if f in chip.peaks]
    if wanted in chip.peaks or not known:
        return wanted if wanted in chip.peaks else next(iter(chip.peaks))
    return min(known, key=lambda f: (abs(log2(FLOATS[f] / FLOATS[wanted])), -FLOATS[f]))


ORIGINAL_CHIP = "like=h200-sxm,fp8=1979T,bf16=989.5T,bw=4.8T,link=450G"
"""H200 with its figures rounded as in dump_model_info's report."""
H200 = on_chip(chip_named(ORIGINAL_CHIP))
"""Its figures in fp8."""
