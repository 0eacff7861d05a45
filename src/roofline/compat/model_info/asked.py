"""What a report is asked of: the model, the chips, the step and the rules, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from roofline.compat.model_info import parts
from roofline.compat.model_info.accounting import Account, account
from roofline.compat.model_info.physical import Physical, near_format, physical
from roofline.compat.model_info.rules import H200, PHASES, Peaks, Phase, Rules, on_chip, rules_named
from roofline.machine.chip import Chip
from roofline.model.errors import InputError
from roofline.model.load import DEEPEST, load
from roofline.model.model import Model

ORIGINAL_CHIP = (
    f"like=h200-sxm,fp8={H200.peak / 1e12:g}T,bf16={H200.peak / 2e12:g}T,bw={H200.bandwidth / 1e12:g}T,"
    f"link={(H200.link or 0) / 2e9:g}G"
)
"""An H200 with its figures rounded as that report rounds them."""


@dataclass(frozen=True)
class Asked:
    """What a report is of: the batch of a rank, the length (prompt, and context of a decode), the chips, the rules.

    `fmt`: the format of the chip's peak in `on`. `link`: bytes/s of both directions, where the caller gave them.
    `capacity`: bytes of memory. `state`: bytes of optimizer state and master copy a parameter. `lengths`: of the sweep
    of prefill, `left_out` those beyond the model's context.
    """

    model: Model
    chip: Chip
    fmt: str
    on: Peaks
    link: float | None
    batch: int
    length: int
    ep: int
    rules: tuple[Rules, Rules]
    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    left_out: tuple[int, ...]
    capacity: float
    state: float
    targets: tuple[Chip, ...]
    diagrams: bool

    def account(self, phase: Phase, rules: Rules, **changes: Any) -> Account:
        """One step under the rules."""
        given = {"batch": self.batch, "length": self.length, "ep": self.ep, "on": self.on, **changes}
        return account(self.model, phase, rules, **given)

    @cached_property
    def accounts(self) -> Mapping[Phase, tuple[Account, Account]]:
        """The step of each phase under both rules."""
        first, second = self.rules
        return {phase: (self.account(phase, first), self.account(phase, second)) for phase in PHASES}

    @cached_property
    def physical(self) -> Mapping[Phase, Physical]:
        """The step of each phase as the library counts it; nothing where the experts do not divide over the ranks."""
        try:
            return {
                phase: physical(
                    self.model, phase, self.rules[0], chip=self.chip, batch=self.batch, length=self.length, ep=self.ep,
                    link=self.link,
                )
                for phase in PHASES
            }  # fmt: skip
        except InputError:
            if self.divides:
                raise
            return {}

    @property
    def divides(self) -> bool:
        """Whether every rank has as many experts."""
        return all(e.experts % self.ep == 0 for e in parts.every_experts(self.model))

    @property
    def chips(self) -> list[tuple[Chip, str, Peaks]]:
        """The chip and its targets, each with its figures in the report's format, or in the nearest that it has."""
        near = [(chip, near_format(chip, self.fmt)) for chip in self.targets]
        return [(self.chip, self.fmt, self.on), *((chip, fmt, on_chip(chip, fmt)) for chip, fmt in near)]


def two_rules(rules: Any) -> tuple[Rules, Rules]:
    """Two sets of rules, told apart by their names. Raises InputError for anything else."""
    if not isinstance(rules, (tuple, list)) or len(rules) != 2:
        raise InputError("rules", rules, "two sets of rules")
    first, second = (rules_named(r) for r in rules)
    if first.name == second.name:
        raise InputError("rules", first.name, "two sets of rules with different names")
    return first, second


def whole_numbers(field: str, values: Any) -> tuple[int, ...]:
    """Whole numbers of at least 1, sorted, each once. Raises InputError naming `field` for none and anything else."""
    fine = isinstance(values, (Sequence, range)) and not isinstance(values, (str, bytes))
    if not fine or not len(values):
        raise InputError(field, values, "a list of whole numbers from 1")
    return tuple(sorted({parts.whole_number(field, v) for v in values}))


# -- the model -----------------------------------------------------------------------------------------------------
def model_of(given: Any) -> Model:
    """A model as it is, what `load` takes, a config object, or an object with a `config`.

    A config may be a mapping, have a `to_dict`, be a dataclass or a plain object. Raises InputError for anything else.
    """
    if isinstance(given, Model):
        return given
    config = getattr(given, "config", None)
    if config is None and (isinstance(given, (str, os.PathLike, Mapping)) or _named(given) is None):
        return load(given)
    found = _named(given if config is None else config)
    if found is None:
        raise InputError("config", config, "a mapping, or an object with to_dict() or with fields")
    return load(_plain(found, DEEPEST))


def _named(value: Any) -> Mapping[Any, Any] | None:
    """What stands in a mapping or an object by name; None for what is neither."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if hasattr(value, "to_dict"):
        made = value.to_dict()
        return made if isinstance(made, Mapping) else None
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_")} or None


def _plain(value: Any, levels: int) -> Any:
    """A value as a config.json has it: objects inside as dicts, names of types as text."""
    if levels == 0:
        raise InputError("config", "more", f"at most {DEEPEST} levels of nesting")
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v, levels - 1) for v in value]
    found = _named(value)
    return str(value) if found is None else {str(k): _plain(v, levels - 1) for k, v in found.items()}
