"""The checked request of a report: model, chips, step and rules."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.trees import JsonValue
from roofline.doors.compat.chips import ORIGINAL_CHIP, Peaks, near_format, on_chip, wanted_format
from roofline.doors.compat.model_info.account import Account, account
from roofline.doors.compat.model_info.outline import checked_ranks, every_experts
from roofline.doors.compat.model_info.rules import PHASES, ReportPhase, Rules, rules_named
from roofline.doors.compat.numbers import number, whole_number
from roofline.hardware.chip import Chip
from roofline.hardware.named_chip import chip_named
from roofline.model.load import load
from roofline.model.model import Model
from roofline.model.sources.untrusted import DEEPEST

if TYPE_CHECKING:
    from roofline.doors.compat.model_info.physical import Physical

AnyPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Options:
    """Parameters of dump_model_info as given."""

    report_path: AnyPath | None
    batch_size: int
    seq_len: int | None
    activation_bytes: float
    kv_cache_bytes: float | None
    param_bytes_assumed: float
    optimizer_state_bytes: float
    master_weight_bytes: float
    hbm_capacity_gb: float | None
    interconnect_bw_gbps: float | None
    roofline: str | Chip
    roofline_targets: Sequence[str | Chip]
    training_flops_multiplier: float
    training_bytes_multiplier: float
    decode_batch_sizes: Sequence[int]
    prefill_seq_lengths: Sequence[int]
    include_architecture_diagrams: bool
    tensor_core_b_sat: float
    enable_tensor_core_model: bool
    rules: tuple[Rules | str, Rules | str]
    ep_size: int
    sensitivity_enable: bool
    sensitivity_csv: AnyPath | None
    plot_roofline: bool
    force: bool

    @property
    def cache_bytes(self) -> float:
        """Bytes of a cached element, by default those of an activation."""
        return self.activation_bytes if self.kv_cache_bytes is None else self.kv_cache_bytes

    def check(self) -> None:
        """Raise InputError for an impossible number, and for a CSV of the grid without the grid."""
        if self.sensitivity_csv is not None and not self.sensitivity_enable:
            raise InputError("sensitivity_csv", str(self.sensitivity_csv), "none, or sensitivity_enable=True")
        for name in ("optimizer_state_bytes", "master_weight_bytes"):
            number(name, getattr(self, name), zero=True)
        for name in (
            "param_bytes_assumed", "activation_bytes", "tensor_core_b_sat", "training_flops_multiplier",
            "training_bytes_multiplier",
        ):  # fmt: skip
            number(name, getattr(self, name))
        number("kv_cache_bytes", self.cache_bytes)

    def with_widths(self, rules: Rules) -> Rules:
        """The rules with these options' widths, saturation and training multiples."""
        own = replace(
            rules, weight_bytes=self.param_bytes_assumed, activation_bytes=self.activation_bytes,
            cache_bytes=self.cache_bytes, saturation=self.tensor_core_b_sat,
            training_flops=self.training_flops_multiplier, training_bytes=self.training_bytes_multiplier,
        )  # fmt: skip
        return own if self.enable_tensor_core_model and not rules.all_at_peak else own.at_peak()


@dataclass(frozen=True)
class ReportRequest:
    """Subject of a report: batch per rank, length (of the prompt, and context of a decode), chips, and rules.

    `fmt`: format of the chip's peak in `on`. `link`: bytes/s in both directions, if given by the caller. `capacity`:
    memory in bytes. `state`: bytes of optimizer state and master copy per parameter. `lengths`: prompt lengths of the
    prefill sweep; `left_out`: those beyond the model's context.
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

    def account(self, phase: ReportPhase, rules: Rules, **changes: Given) -> Account:
        """A step under the rules."""
        given = {"batch": self.batch, "length": self.length, "ep": self.ep, "on": self.on, **changes}
        return account(self.model, phase, rules, **given)

    @cached_property
    def accounts(self) -> Mapping[ReportPhase, tuple[Account, Account]]:
        """The step of each phase under both sets of rules."""
        first, second = self.rules
        return {phase: (self.account(phase, first), self.account(phase, second)) for phase in PHASES}

    @cached_property
    def physical(self) -> Mapping[ReportPhase, Physical]:
        """The step of each phase as the library counts it; empty if the experts do not divide over the ranks."""
        from roofline.doors.compat.model_info.physical import physical

        if not self.divides:
            return {}
        given = {"chip": self.chip, "batch": self.batch, "length": self.length, "ep": self.ep, "link": self.link}
        return {phase: physical(self.model, phase, self.rules[0], **given) for phase in PHASES}  # type: ignore[arg-type]

    @property
    def divides(self) -> bool:
        """Whether every rank has the same number of experts."""
        return all(e.experts % self.ep == 0 for e in every_experts(self.model))

    @property
    def chips(self) -> list[tuple[Chip, str, Peaks]]:
        """The chip and the target chips, each with its figures in the report's format or the nearest supported one."""
        near = [(chip, near_format(chip, self.fmt)) for chip in self.targets]
        return [(self.chip, self.fmt, self.on), *((chip, fmt, on_chip(chip, fmt)) for chip, fmt in near)]


def request(model: Given, o: Options) -> ReportRequest:
    """Check and resolve the options. Raises InputError for options that are not understood or impossible."""
    o.check()
    built = report_model(model)
    first, second = map(o.with_widths, two_rules(o.rules))
    chip, fmt, on = _machine(o.roofline, o.param_bytes_assumed, o.interconnect_bw_gbps)
    ranks = checked_ranks(built, o.ep_size, "ep_size")
    if ranks > 1 and on.link is None and (first.network or second.network):
        raise InputError("interconnect_bw_gbps", None, f"GB/s of the link; {chip.name} has none in the catalog")
    length = whole_number("seq_len", o.seq_len if o.seq_len is not None else built.context or 2048)
    lengths = whole_numbers("prefill_seq_lengths", o.prefill_seq_lengths)
    inside = tuple(n for n in lengths if built.context is None or n <= built.context)
    return ReportRequest(
        built, chip, fmt, on, None if o.interconnect_bw_gbps is None else on.link,
        whole_number("batch_size", o.batch_size), length, ranks, (first, second),
        whole_numbers("decode_batch_sizes", o.decode_batch_sizes), tuple(sorted({*inside, length})),
        tuple(n for n in lengths if n not in inside and n != length),
        chip.capacity if o.hbm_capacity_gb is None else 1e9 * number("hbm_capacity_gb", o.hbm_capacity_gb),
        o.optimizer_state_bytes + o.master_weight_bytes, _targets(o.roofline_targets), o.include_architecture_diagrams,
    )  # fmt: skip


def two_rules(rules: Given) -> tuple[Rules, Rules]:
    """Two sets of rules with distinct names. Raises InputError for anything else."""
    if not isinstance(rules, (tuple, list)) or len(rules) != 2:
        raise InputError("rules", rules, "two sets of rules")
    first, second = (rules_named(r) for r in rules)
    if first.name == second.name:
        raise InputError("rules", first.name, "two sets of rules with different names")
    return first, second


def whole_numbers(field: str, values: Given) -> tuple[int, ...]:
    """Sorted distinct whole numbers of at least 1. Raises InputError naming `field` for none, or for other values."""
    fine = isinstance(values, (Sequence, range)) and not isinstance(values, (str, bytes))
    if not fine or not len(values):
        raise InputError(field, values, "a list of whole numbers from 1")
    return tuple(sorted({whole_number(field, v) for v in values}))


def _machine(roofline: str | Chip, weights: float, link: float | None) -> tuple[Chip, str, Peaks]:
    """The chip, the format of its peak, and its figures, with the caller's link."""
    original = isinstance(roofline, str) and roofline == ORIGINAL_CHIP
    chip = chip_named(roofline)
    if original:
        chip = replace(chip, name="H200 SXM, 1979 TFLOP/s fp8, 4.8 TB/s")
    fmt = "fp8" if original else near_format(chip, wanted_format(weights))
    on = on_chip(chip, fmt)
    return chip, fmt, on if link is None else replace(on, link=1e9 * number("interconnect_bw_gbps", link))


def _targets(targets: Given) -> tuple[Chip, ...]:
    if isinstance(targets, (str, Chip)) or not isinstance(targets, Sequence):
        raise InputError("roofline_targets", targets, "a list of chips")
    return tuple(chip_named(c) for c in targets)


# -- the model -----------------------------------------------------------------------------------------------------
def report_model(given: Given) -> Model:
    """A Model as is, any source that `load` takes, a config object, or an object with a `config`.

    A config may be a mapping, have a `to_dict`, or be a dataclass or plain object. Raises InputError for anything else.
    """
    if isinstance(given, Model):
        return given
    config = getattr(given, "config", None)
    if config is None and (isinstance(given, (str, os.PathLike, Mapping)) or _named(given) is None):
        return load(given)
    named = _named(given if config is None else config)
    if named is None:
        raise InputError("config", config, "a mapping, or an object with to_dict() or with fields")
    return load({str(key): _plain(value, DEEPEST - 1) for key, value in named.items()})


def _named(value: Given) -> Mapping[str, Given] | None:
    """Contents of a mapping or an object by name; None for other values."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type):
        return None
    if hasattr(value, "to_dict"):
        config = value.to_dict()
        return config if isinstance(config, Mapping) else None
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_")} or None


def _plain(value: Given, levels: int) -> JsonValue:
    """A value as in config.json: objects inside become dicts, and types become their names."""
    if levels == 0:
        raise InputError("config", "more", f"at most {DEEPEST} levels of nesting")
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v, levels - 1) for v in value]
    named = _named(value)
    return str(value) if named is None else {str(k): _plain(v, levels - 1) for k, v in named.items()}
