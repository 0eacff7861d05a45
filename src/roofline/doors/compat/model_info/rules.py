"""Settings of dump_model_info's conventions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from roofline.declared.errors import InputError, not_one_of
from roofline.doors.compat.numbers import number

ReportPhase: TypeAlias = Literal["training", "prefill", "decode"]
PHASES: tuple[ReportPhase, ...] = ("training", "prefill", "decode")
CATEGORIES = ("attention", "ffn", "experts", "head", "embedding")


@dataclass(frozen=True)
class Rules:
    """Settings of the conventions.

    `residency`: divisors of weight bytes (attention, dense, experts); above 1 they fall below the least traffic.
    `fusion`: share of the activations that move. `elementwise`: share of the scores' bytes; `flash`: one value per row
    instead of all scores. `saturation`: rows at which a matrix unit is fully used. `scalar`: speed of work outside of
    products, in units of the peak. `tensor`: share of products by category. `training_flops`, `training_bytes`:
    multiples of a prefill. `poisson`: distinct experts by E·(1 − e^(−T·k/E)) instead of the exact E·(1 − (1 − k/E)^T).
    `network`: traffic to experts on other chips takes time. Bytes are per element. Raises InputError naming an
    impossible field.
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
        object.__setattr__(self, "tensor", tuple(shares.items()))

    def plain(self) -> str:
        """The name of the rules in results."""
        return self.name

    def at_peak(self) -> Rules:
        """The rules with every FLOP at the peak: F instead of F·e/η + F·(1 − e)/scalar."""
        return replace(self, saturation=1.0, scalar=1.0)

    @property
    def all_at_peak(self) -> bool:
        """Whether every FLOP runs at the peak: saturation at one row, and work outside of products at full speed."""
        return self.saturation <= 1 and self.scalar == 1


NAIVE = Rules("naive")
EFFICIENT = Rules("efficient", residency=(4.0, 4.0, 2.0), fusion=0.5, elementwise=0.7, flash=True)
RULES = {r.name: r for r in (NAIVE, EFFICIENT)}


def rules_named(rules: Rules | str) -> Rules:
    """Rules as given, or those named naive or efficient. Raises InputError for anything else."""
    if isinstance(rules, Rules):
        return rules
    if isinstance(rules, str) and rules in RULES:
        return RULES[rules]
    raise (
        not_one_of("rules", rules, (*RULES, "a Rules"))
        if isinstance(rules, str)
        else InputError("rules", rules, "a Rules, or its name")
    )
