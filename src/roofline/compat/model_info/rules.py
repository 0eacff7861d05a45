"""The settings of dump_model_info's counting, and the figures of a chip that it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from roofline.machine.chip import Chip
from roofline.model.errors import InputError, not_one_of

Phase: TypeAlias = Literal["training", "prefill", "decode"]
PHASES: tuple[Phase, ...] = ("training", "prefill", "decode")
CATEGORIES = ("attention", "ffn", "experts", "head", "embedding")


def number(field: str, value: Any, *, zero: bool = False) -> float:
    """A finite number above 0, or from 0 on with `zero`. Raises InputError naming `field`."""
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fine or value < 0 or (value == 0 and not zero):
        raise InputError(field, value, "a number of at least 0" if zero else "a positive number")
    return value  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Rules:
    """The settings.

    `residency`: weight bytes are divided by it (attention, dense, experts); above 1: below the floor. `fusion`: share
    of the activations that move. `elementwise`: share of the scores' bytes; `flash`: one value a row instead of all
    scores. `saturation`: rows at which a matrix unit is busy. `scalar`: speed of what is no product, in peaks.
    `tensor`: share of products by category. `training_flops`, `training_bytes`: multiples of prefill's. `poisson`:
    distinct experts E·(1 − e^(−T·k/E)), else exactly E·(1 − (1 − k/E)^T). `network`: what experts of other chips are
    sent takes time. Bytes are of one element. Raises InputError naming the field that cannot be.
    """

    name: str
    residency: tuple[float, float, float] = (1.0, 1.0, 1.0)
    fusion: float = 1.0
    elementwise: float = 1.0
    flash: bool = False
    saturation: float = 64.0
    scalar: float = 0.35
    tensor: tuple[tuple[str, float], ...] = (
        ("attention", 0.95), ("ffn", 0.98), ("experts", 0.98), ("head", 0.98), ("embedding", 0.70),
    )  # fmt: skip
    training_flops: float = 3
    training_bytes: float = 2
    weight_bytes: float = 1.0
    activation_bytes: float = 1.0
    cache_bytes: float = 1.0
    poisson: bool = True
    network: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError("rules.name", self.name, "text")
        if not isinstance(self.residency, (tuple, list)) or len(self.residency) != 3:
            raise InputError("rules.residency", self.residency, "three numbers: attention, dense, experts")
        object.__setattr__(self, "residency", tuple(number("rules.residency", x) for x in self.residency))
        for field in ("fusion", "elementwise"):
            number(f"rules.{field}", getattr(self, field), zero=True)
        for field in (
            "saturation", "scalar", "training_flops", "training_bytes", "weight_bytes", "activation_bytes",
            "cache_bytes",
        ):  # fmt: skip
            number(f"rules.{field}", getattr(self, field))
        for field in ("flash", "poisson", "network"):
            if not isinstance(getattr(self, field), bool):
                raise InputError(f"rules.{field}", getattr(self, field), "true or false")
        try:
            shares = dict(self.tensor)
        except (TypeError, ValueError):
            shares = {}
        if sorted(shares) != sorted(CATEGORIES) or any(
            number("rules.tensor", x, zero=True) > 1 for x in shares.values()
        ):
            raise InputError("rules.tensor", self.tensor, f"a share from 0 to 1 for each of {', '.join(CATEGORIES)}")

    def at_peak(self) -> Rules:
        """These rules with every FLOP at the peak: F instead of F·e/η + F·(1 − e)/scalar."""
        return replace(self, saturation=1.0, scalar=1.0)

    @property
    def all_at_peak(self) -> bool:
        """Whether every FLOP runs at the peak: one row is enough, and what is no product is as fast."""
        return self.saturation <= 1 and self.scalar == 1


NAIVE = Rules("naive")
EFFICIENT = Rules("efficient", residency=(4.0, 4.0, 2.0), fusion=0.5, elementwise=0.7, flash=True)
RULES = {r.name: r for r in (NAIVE, EFFICIENT)}


def rules_named(rules: Rules | str) -> Rules:
    """Rules as they are, or those called naive or efficient. Raises InputError for anything else."""
    if isinstance(rules, Rules):
        return rules
    if isinstance(rules, str) and rules in RULES:
        return RULES[rules]
    raise (
        not_one_of("rules", rules, (*RULES, "a Rules"))
        if isinstance(rules, str)
        else InputError("rules", rules, "a Rules, or its name")
    )


@dataclass(frozen=True)
class Peaks:
    """A chip's FLOP/s, bytes/s of memory, and bytes/s of its link in both directions together (None: it has none)."""

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
        """FLOP/B at which arithmetic takes as long as traffic."""
        return self.peak / self.bandwidth


H200 = Peaks(1979e12, 4.8e12, 900e9)
"""An H200 in fp8, with its figures rounded as that report rounds them."""


def on_chip(chip: Chip, fmt: str = "fp8") -> Peaks:
    """The figures of a chip in a format."""
    return Peaks(chip.peak(fmt), chip.bandwidth, None if chip.link is None else 2 * chip.link)
