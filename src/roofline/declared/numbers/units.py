"""Format numbers for people: SI prefixes for FLOPs and bytes (1 GB = 10⁹), counts with separators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from prefixed import Float

from roofline.declared.numbers.maths import Count


def si(value: Count, unit: str) -> str:
    """A number to three or four figures with an SI prefix.

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


def brief(value: float, unit: str = "") -> str:
    """A number to three figures with an SI prefix, for narrow places in a plot.

    >>> brief(989.4e12, "FLOP/s"), brief(3.35e12, "B/s"), brief(1e15, "FLOP/s"), brief(12345.6)
    ('989 TFLOP/s', '3.35 TB/s', '1 PFLOP/s', '12.3 k')
    """
    if not value:
        return f"0 {unit}".rstrip()
    rounded = Float(f"{value:.3g}")
    number = f"{rounded:!.2h}".split(" ")
    digits = f"{float(number[0]):.3g}" if abs(rounded) >= 1e-24 else "0"
    return f"{digits} {''.join(number[1:])}{unit}".rstrip()


def whole(value: Count) -> str:
    """A count with separators.

    >>> whole(8030261248)
    '8,030,261,248'
    """
    return f"{value:,}"


def counted(value: Count, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "token"), counted(4096, "token")
    ('1 token', '4,096 tokens')
    """
    return f"{whole(value)} {noun}{'' if value == 1 else 's'}"


def share(part: Count, total: Count) -> str:
    """A part of a total in percent.

    >>> share(1, 8)
    '12.5 %'
    """
    return f"{100 * part / total:.1f} %" if total else "–"


def ratio(value: Count) -> str:
    """FLOPs per byte; a dash where no byte is moved.

    >>> ratio(0.99934), ratio(float("inf"))
    ('0.9993', '–')
    """
    return f"{value:.4g}" if value < float("inf") else "–"


def seconds(value: Count) -> str:
    """A time to three figures with a suitable prefix; in hours from two hours on, in days from two days on.

    >>> seconds(0.00123), seconds(75.0), seconds(0), seconds(0.9996), seconds(3600.0)
    ('1.23 ms', '75 s', '0 s', '1 s', '3,600 s')
    >>> seconds(9000.0), seconds(22_500_000.0)
    ('2.5 h', '260 days')
    """
    if value == 0:
        return "0 s"
    for scale, unit in ((86400.0, "days"), (3600.0, "h")):
        if 2 * scale <= abs(value) < float("inf"):
            return f"{value / scale:,.3g} {unit}" if abs(value) < 999.5 * scale else f"{value / scale:,.0f} {unit}"
    rounded = float(f"{value:.3g}")
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(rounded) >= scale:
            kept = rounded if abs(value) < 1000 else value
            return f"{kept / scale:,.3g} {unit}" if kept / scale < 1000 else f"{kept / scale:,.0f} {unit}"
    return f"{value * 1e9:.3g} ns"


def binary(value: int) -> str:
    """A number of tokens, with a binary prefix if it is a whole multiple.

    >>> binary(512), binary(4096), binary(2**20), binary(131071)
    ('512', '4 Ki', '1 Mi', '131,071')
    """
    for unit, name in ((2**20, "Mi"), (2**10, "Ki")):
        if value >= unit and value % unit == 0:
            return f"{value // unit} {name}"
    return whole(value)


def percent(value: Count) -> str:
    """A share in percent.

    >>> percent(0.125)
    '12.5 %'
    """
    return f"{100 * value:.1f} %"


def percent_known(share: float, half_width: float) -> str:
    """A share in percent with its confidence half-width, if that shows in one digit.

    >>> percent_known(0.987, 0.004), percent_known(1.0, 0.0)
    ('98.7 ± 0.4 %', '100.0 %')
    """
    known = f" ± {100 * half_width:.1f}" if 100 * half_width >= 0.05 else ""
    return f"{100 * share:.1f}{known} %"


def signed(value: Count, form: str) -> str:
    """A number with its sign, with a typographic minus; `form` is the format after the sign, such as `.1f`.

    >>> signed(2.5, ".1f"), signed(-2.5, ".1f"), signed(-0.01, ".1f")
    ('+2.5', '−2.5', '+0.0')
    """
    text = f"{value:+{form}}"
    return f"+{text[1:]}" if text[0] == "-" and not text.strip("-0.") else text.replace("-", "−", 1)


def change(value: Count) -> str:
    """A factor as a change in percent.

    >>> change(1.25), change(0.5)
    ('+25 %', '−50 %')
    """
    return f"{signed(100 * (value - 1), '.0f')} %"


def tokens_text(value: Count) -> str:
    """A number of tokens in short form: 15T, 1.5B, 131k; below a thousand in full.

    >>> tokens_text(15e12), tokens_text(1_234_000_000), tokens_text(131_072), tokens_text(512)
    ('15T', '1.23B', '131k', '512')
    """
    for scale, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * scale:
            return f"{value / scale:.3g}{letter}" if value < 999.5 * scale else f"{value / scale:,.0f}{letter}"
    return f"{value:.3g}"


TEXTS: Mapping[str, Callable[[Any], str]] = MappingProxyType({
    "plain": lambda v: f"{v:g}",
    "count": lambda v: whole(int(v)) if v == int(v) else f"{v:,.1f}",
    "s": seconds, "B": lambda v: si(v, "B"), "FLOP": lambda v: si(v, "FLOP"), "J": lambda v: si(v, "J"),
    "W": lambda v: f"{v:.0f} W", "FLOP/s": lambda v: si(v, "FLOP/s"), "B/s": lambda v: si(v, "B/s"),
    "FLOP/B": ratio, "share": percent, "factor": lambda v: f"× {v:.3f}", "change": change,
    "elasticity": lambda v: signed(v, ".2f"), "tokens/s": lambda v: f"{v:,.0f}", "requests/s": lambda v: f"{v:,.3g}",
    "inputs/s": lambda v: f"{v:,.3g}",
    "USD": lambda v: f"{v:,.2f}", "interval": lambda v: f"{seconds(v[0])} – {seconds(v[1])}",
})  # fmt: skip
"""Unit → formatter of a number in it; some leave the unit to a heading."""
BARE = frozenset({"tokens/s", "requests/s", "inputs/s", "USD", "FLOP/B"})
"""Units that the formatters of `TEXTS` leave out."""


def written(value: Any, unit: str = "") -> str:
    """A number of a unit, or a word, as text; empty for None, or a dash for a change.

    >>> written(1_500_000, "FLOP"), written(None, "s"), written(None, "change"), written("moe")
    ('1.50 MFLOP', '', '–', 'moe')
    """
    if value is None:
        return "–" if unit == "change" else ""
    return str(value) if isinstance(value, str) or not unit else TEXTS[unit](value)


# -- powers of units -----------------------------------------------------------------------------------------------
PER_SECOND: Mapping[str, int] = MappingProxyType({"s": 1, "J": 1, "USD": 1})
"""Base unit → the power of seconds in it, at constant watts and hourly prices."""


def unit_powers(unit: str) -> Mapping[str, int]:
    """The base units in a unit and their powers.

    >>> dict(unit_powers("tokens/s")), dict(unit_powers("FLOP/B")), dict(unit_powers(""))
    ({'tokens': 1, 's': -1}, {'FLOP': 1, 'B': -1}, {})
    """
    powers: dict[str, int] = {}
    for place, base in enumerate(unit.split("/")):
        if base:
            powers[base] = powers.get(base, 0) + (-1 if place else 1)
    return powers


def seconds_power(unit: str) -> int:
    """The power of seconds in the unit of a figure, at constant watts and hourly prices.

    >>> [seconds_power(unit) for unit in ("s", "tokens/s", "J", "USD", "tokens/J", "W", "share", "FLOP/B")]
    [1, -1, 1, 1, -1, 0, 0, 0]
    """
    return sum(power * PER_SECOND.get(base, 0) for base, power in unit_powers(unit).items())
