"""Numbers for people: SI prefixes for FLOPs and bytes (1 GB = 10⁹), counts with separators."""

from __future__ import annotations

from prefixed import Float


def si(value: float, unit: str) -> str:
    """Three or four figures with an SI prefix.

    >>> si(16_060_522_496, "B")
    '16.06 GB'
    >>> si(0, "FLOP")
    '0 FLOP'
    """
    if value == 0:
        return f"0 {unit}"
    if abs(value) < 1000:
        return f"{value:.4g} {unit}"
    return f"{Float(value):!.2h}{unit}"


def whole(value: int) -> str:
    """A count with separators.

    >>> whole(8030261248)
    '8,030,261,248'
    """
    return f"{value:,}"


def share(part: float, total: float) -> str:
    """A part of a total in percent.

    >>> share(1, 8)
    '12.5 %'
    """
    return f"{100 * part / total:.1f} %" if total else "–"
