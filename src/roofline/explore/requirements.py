"""What an answer must keep, spelled: `tpot <= 30ms and fits`, `bound = compute`, `time <= against`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np

from roofline.declared.errors import InputError, not_one_of
from roofline.declared.result import Result, Units
from roofline.declared.spelling import TIME_UNITS, seconds_named
from roofline.distinct import Array
from roofline.estimates.cost import Cost, tariff
from roofline.estimates.generate import Generation
from roofline.estimates.server import Serving
from roofline.estimates.step import Estimate
from roofline.estimates.training_estimate import TrainingEstimate
from roofline.explore.condition import AGAINST, BOUNDS

SIGNS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
)


def declared_figures(*results: type[Result]) -> Units:
    """Every figure of these results that is a number with a unit."""
    return {name: unit for result in results for name, unit in result.FIGURES.items() if unit in MEASURED}


MEASURED = frozenset({"s", "B", "tokens/s", "requests/s", "share", "USD", "J", "W", "FLOP/B"})
"""Units of figures that may be required."""
_MIRRORED: Mapping[str, str] = MappingProxyType({"<=": ">=", ">=": "<=", "<": ">", ">": "<"})
METRICS: Units = MappingProxyType({
    **declared_figures(Estimate, Generation, Serving, TrainingEstimate),
    "time": "s", "ttft": "s", "tpot": "s", "latency": "s",
    **{f"{name}_{part}": "s" for name in ("ttft", "tpot", "latency") for part in ("p50", "p90", "p95", "p99")},
    "memory": "B", "tokens_per_second": "tokens/s", "tokens_per_second_per_user": "tokens/s",
    "tokens_per_second_per_chip": "tokens/s", "requests_per_second": "requests/s", "mfu": "share",
    "usd_per_million_tokens": "USD", "joules_per_token": "J", "power": "W", "intensity": "FLOP/B", "bound": "",
    "fits": "",
})  # fmt: skip
"""Figures that can be required, and their units. `memory`: all bytes of the fullest rank; `fits`: all that is asked for
is in memory at once."""
MOST_WORDS = 16
"""Requirements in one question."""
_PREFIXES = MappingProxyType({
    "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
})  # fmt: skip


@dataclass(frozen=True)
class Requirement:
    """A figure that is at most, or at least, a limit (`against`: that of the other settings), or a word that it is."""

    metric: str
    sign: str
    limit: float | str

    @property
    def unit(self) -> str:
        """The unit of the figure."""
        return METRICS[self.metric]

    @property
    def upper(self) -> bool:
        """Whether the limit is the most that the figure may be."""
        return self.sign in ("<", "<=")

    @property
    def of_words(self) -> bool:
        """Whether it is kept or not, and nothing between."""
        return self.sign == "="

    def use(self, value: Any, limit: Any) -> Array:
        """How much of the limit a figure takes: at most 1 where the requirement is kept. Of a word 0 or infinite."""
        if self.of_words:
            return np.where(np.asarray(value) == limit, 0.0, inf)
        value, limit = np.asarray(value, dtype=float), np.asarray(limit, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = value / limit if self.upper else limit / value
        kept = SIGNS[self.sign](value, limit)
        share = np.where(np.isnan(share), inf, share)
        return np.where(kept, np.minimum(share, 1.0), np.maximum(share, np.nextafter(1.0, 2.0)))

    def plain(self) -> str:
        """In words, with SI units."""
        if self.metric == "fits":
            return "fits"
        limit = self.limit if isinstance(self.limit, str) else f"{self.limit:.10g} {self.unit}".strip()
        if self.unit == "s" and not isinstance(self.limit, str) and self.limit < 1:
            limit = f"{1000 * self.limit:.10g} ms"
        return f"{self.metric} {self.sign} {limit}"


def requirements_named(where: str | Sequence[str] | None) -> tuple[Requirement, ...]:
    """The requirements of a text, joined by `and`, or of several texts.

    Times have a unit (`30ms`), bytes too (`80GB`, `64GiB`); a share is a number or percent; `$` may stand before USD.
    A comparison may be turned round and chained (`1ms < tpot < 30ms`), as in the conditions of `sweep`.
    Raises InputError for what is not understood, and for `or`, `not` and brackets: an end is looked for, where all
    limits hold.

    >>> requirements_named("tpot <= 30ms and fits")[0]
    Requirement(metric='tpot', sign='<=', limit=0.03)
    """
    texts = () if where is None else (where,) if isinstance(where, str) else tuple(where)
    for text in texts:
        if not isinstance(text, str) or len(text) > 1000:
            raise InputError("where", text, "text such as `tpot <= 30ms and fits`")
        if re.search(r"\b(or|not)\b|[()]", text):
            raise InputError("where", text, "limits joined by `and`: `or`, `not` and brackets are for `sweep --where`")
    parts = [one for text in texts for part in re.split(r"\s+and\s+", text.strip()) for one in _unchained(part)]
    if len(parts) > MOST_WORDS:
        raise InputError("where", f"{len(parts)} requirements", f"at most {MOST_WORDS}")
    return tuple(map(_requirement, parts))


def _unchained(text: str) -> list[str]:
    """The comparisons of a chain, each with its figure first: `1ms < tpot < 30ms` is `tpot > 1ms`, `tpot < 30ms`."""
    terms = re.split(r"\s*(<=|>=|<|>)\s*", text.strip())
    links = list(zip(terms[::2], terms[1::2], terms[2::2], strict=False))
    if len(terms) < 3 or (len(links) == 1 and not re.match(r"[$0-9.]", text.strip())):
        return [text]
    turned = [(a, sign, b) if a in METRICS else (b, _MIRRORED[sign], a) for a, sign, b in links]
    return [f"{figure} {sign} {limit}" for figure, sign, limit in turned]


def _requirement(text: str) -> Requirement:
    match = re.fullmatch(r"\s*([a-z0-9_]+)\s*(?:(<=|>=|==|=|<|>|is\s)\s*(\S.*?))?\s*", text)
    if match is None:
        raise InputError("where", text, "a figure, a sign and a limit, such as `tpot <= 30ms`, or `fits`")
    metric, sign, limit = match.groups()
    if metric not in METRICS:
        raise not_one_of("where", metric, METRICS)
    if metric == "fits":
        if sign is not None:
            raise InputError("where", text.strip(), "`fits` alone")
        return Requirement("fits", "=", "yes")
    if metric == "bound":
        if sign is None or sign.strip() not in ("=", "==", "is"):
            raise InputError("where", text.strip(), "`bound = compute`, or another of the bounds")
        word = re.sub(r"""^(["'])(.*)\1$""", r"\2", limit)
        if word not in BOUNDS:
            raise not_one_of("where bound", word, BOUNDS)
        return Requirement("bound", "=", word)
    if sign is None or sign not in SIGNS:
        raise InputError("where", text.strip(), f"{metric} with one of {', '.join(SIGNS)} and a limit")
    return Requirement(metric, sign, AGAINST if limit == AGAINST else limit_named(metric, limit))


def limit_named(metric: str, text: str) -> float:
    """A limit in the unit of its figure, SI. Raises InputError for what is not above 0, or has no unit where due."""
    field, unit = f"where {metric}", METRICS[metric]
    if unit == "s":
        number: float | None = seconds_named(field, text)
        expected = f"a time above 0 in one of {', '.join(TIME_UNITS)}"
    elif unit == "B":
        number, expected = _scaled(text, ("B",)), "bytes such as `80GB` or `64GiB`"
    elif unit == "share":
        percent = text.endswith("%")
        number, expected = _scaled(text.removesuffix("%"), ("",)), "a share such as `0.4` or `40%`"
        number = None if number is None else number / 100 if percent else number
    else:
        number, expected = _scaled(text.removeprefix("$"), (unit, "")), f"a number above 0, in {unit}"
    if number is None or not 0 < number < inf:
        raise InputError(field, text, expected)
    return number


def _scaled(text: str, units: Sequence[str]) -> float | None:
    for unit in units:
        match = re.fullmatch(rf"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([kMGT]i?)?{re.escape(unit)}\s*", text, re.ASCII)
        if match is not None:
            try:
                return float(match[1]) * _PREFIXES[match[2] or ""]
            except (KeyError, ValueError):
                return None
    return None


def figure_of(answer: Any, metric: str, strict: bool) -> Any:
    """A figure of an estimate, as expected or, of times and where `strict`, at the far end of its 80 % interval.

    Raises InputError where that kind of estimate has none.
    """
    name, _, part = metric.rpartition("_")
    if part in ("p50", "p90", "p95", "p99") and getattr(answer, "percentiles", None) is not None:
        return getattr(getattr(answer.percentiles, name), part)
    match metric:
        case "fits":
            return np.where(all_in_memory(answer), "yes", "no")
        case "memory":
            return answer.memory.total
        case "usd_per_million_tokens":
            return usd_per_million(answer)
    value = getattr(answer, "span" if metric == "time" and hasattr(answer, "span") else metric, None)
    if value is None:
        raise InputError("where", metric, f"a figure of {type(answer).__name__.lower()}")
    value = (value.high if strict else value.expected) if hasattr(value, "expected") else value
    if not isinstance(value, (int, float, str, np.ndarray, np.generic)):
        raise InputError("where", metric, "a figure of one number")
    return value


def all_in_memory(answer: Any) -> Any:
    """Whether all that an estimate was asked for is in memory at once: no waves, nothing that waits for a place."""
    fits = np.asarray(answer.fits)
    if hasattr(answer, "waves"):
        return fits & (np.asarray(answer.waves) == 1)
    return fits & (np.asarray(answer.in_flight) <= answer.capacity) if hasattr(answer, "capacity") else fits


def usd_per_million(answer: Any) -> Any:
    """USD of 10⁶ tokens at the chip's price: chips · price of a second / tokens per second · 10⁶.

    Raises InputError where the chip has no price.
    """
    cost = Cost(answer.asked.layout.chips, 1.0, tariff(answer.chip))
    usd = cost.usd_per(answer.tokens_per_second)
    if usd is None:
        raise InputError("on", answer.chip.id, "a chip with a price, as in `like=h100-sxm,price=2`")
    return usd * 1e6
