"""Number formats by role: weights of each part, activations, KV cache, recurrent state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import get_args

from roofline.declared.errors import InputError, nearest
from roofline.declared.numbers.maths import Count
from roofline.declared.question import Settings
from roofline.model import modules as m
from roofline.model.formats import Format, format_named
from roofline.model.kind_table import KindTable, OfKind
from roofline.model.modules import PARTS, Part

WEIGHTS: tuple[Part, ...] = ("attention", "ffn", "experts")
"""Roles that `weights` stands for."""


@dataclass(frozen=True)
class Precision:
    """The format of every role.

    Weights by part: `attention` projections, dense feed-forwards (`ffn`), routed `experts`, the `router`, the
    `embedding` table, the `head`, `other` (norms, biases and the rest). `activations`: values passed between ops. `kv`:
    the KV cache. `state`: recurrent state of a scan. `dispatch`: tokens sent to experts on other ranks, None for the
    activations' format. `wide_state`: the state's format was chosen by the published code, not by the config or the
    caller, and an engine may keep it in the activations' format. `own`: parts in which modules with a separate format
    keep it; setting the format of a part sets that of all its modules.
    """

    attention: Format
    ffn: Format
    experts: Format
    router: Format
    embedding: Format
    head: Format
    other: Format
    activations: Format
    kv: Format
    state: Format
    own: frozenset[Part] = field(default=frozenset(PARTS), repr=False)
    dispatch: Format | None = None
    wide_state: bool = field(default=False, repr=False)

    @cached_property
    def _hash(self) -> int:
        return hash((tuple(getattr(self, role) for role in ROLES), self.own, self.wide_state))

    def __hash__(self) -> int:
        return self._hash

    def plain(self) -> dict[str, str]:
        """The name of the format of every role that has one."""
        formats = {role: getattr(self, role) for role in ROLES}
        return {role: fmt.name for role, fmt in formats.items() if fmt is not None}

    def leaves(self, name: str, unit: str) -> Iterator[tuple[str, str, str]]:
        """The formats as one text, for tables of figures."""
        yield name, self.text(), unit

    def text(self) -> str:
        """The formats in use: one name, or each role that differs from the activations.

        >>> uniform(format_named("bf16")).merged("fp8").text()
        'bf16, weights fp8'
        """
        base = self.activations.name
        groups: dict[str, list[str]] = {}
        for role, fmt in self.plain().items():
            if fmt != base:
                groups.setdefault(fmt, []).append(role)
        many = len(WEIGHTS)
        groups = {n: ["weights", *r[many:]] if tuple(r[:many]) == WEIGHTS else r for n, r in groups.items()}
        return ", ".join([base, *(f"{'/'.join(roles)} {name}" for name, roles in groups.items())])

    def sent(self, collective: str) -> Format:
        """Format of the values that a collective sends."""
        return self.dispatch if collective == "dispatch" and self.dispatch is not None else self.activations

    def weights(self, part: Part) -> Format:
        """Format of a part's weights."""
        chosen: Format = getattr(self, part)
        return chosen

    def chosen(self, part: Part, own: Format | None) -> Format:
        """Format of the weights of a module or op: its own format where its part keeps these, else that of the part."""
        return own if own is not None and part in self.own else self.weights(part)

    def of(self, module: m.Module) -> Format:
        """Format of a module's matrices."""
        return self.chosen(part_of(module), module.format)

    def weight_bytes(self, module: m.Module) -> Count:
        """Stored bytes of a module's parameters: matrices in their format, other values in the format of `other`."""
        rest = module.parameters - module.matrix
        return self.of(module).bytes(module.matrix) + self.other.bytes(rest)

    def with_roles(self, **roles: str | Format) -> Precision:
        """This precision with some roles changed; `weights` stands for attention, ffn and experts together.

        Raises InputError for a role or a format that does not exist.
        """
        names = ROLES
        changed: dict[str, Format] = {}
        for role, value in roles.items():
            if role != "weights" and role not in names:
                raise InputError("precision", role, "a role", nearest(role, [*names, "weights"]) or names)
            chosen = value if isinstance(value, Format) else format_named(value, role)
            for target in WEIGHTS if role == "weights" else (role,):
                changed[target] = chosen
        wide = self.wide_state and "state" not in changed
        return replace(self, **changed, own=self.own - frozenset(changed), wide_state=wide)

    def merged(self, spec: object) -> Precision:
        """This precision changed by `spec`: None, a Precision, a mapping role → format, or text.

        Text is one format for all matrices and activations (`bf16`), or comma-separated `role=format` pairs
        (`weights=int4,kv=fp8`). A single format of less than 16 bits (fp8, int4, mxfp4, …) changes only the weights and
        leaves activations and cache unchanged.
        """
        if spec is None:
            return self
        if isinstance(spec, Precision):
            return self._with(spec)
        if isinstance(spec, dict):
            return self.with_roles(**spec)
        if isinstance(spec, str) and "=" in spec:
            pairs = [item.partition("=") for item in spec.split(",") if item.strip()]
            return self.with_roles(**{role.strip(): value.strip() for role, _, value in pairs})
        chosen = format_named(spec, "precision")
        if chosen.bits >= 16:
            return replace(self._with(uniform(chosen)), own=frozenset())
        return self.with_roles(weights=chosen)

    def spec(self, base: Precision) -> str:
        """The text for which `base.merged(text)` gives this precision; "" if they are equal."""
        told = base.own - self.own
        differ: dict[str, Format] = {
            role: getattr(self, role)
            for role in self.plain()
            if role in told or getattr(self, role) != getattr(base, role)
        }
        if differ.keys() & set(WEIGHTS) and self.attention == self.ffn == self.experts:
            differ = {"weights": self.ffn} | {role: fmt for role, fmt in differ.items() if role not in WEIGHTS}
        alone = next((fmt.name for fmt in differ.values() if base.merged(fmt.name) == self), None)
        if alone is not None and len(differ) > 1:
            return alone
        return ",".join(f"{role}={fmt.name}" for role, fmt in differ.items())

    def _with(self, other: Precision) -> Precision:
        """This precision with the other's formats; roles that only this one has are unchanged."""
        if isinstance(other, type(self)):
            return other
        return replace(self, **{f.name: getattr(other, f.name) for f in fields(other)})


ROLES: tuple[str, ...] = tuple(f.name for f in fields(Precision) if f.name not in ("own", "wide_state"))
"""Names of the roles of a precision."""


def uniform(chosen: Format) -> Precision:
    """A precision with every role in one format."""
    roles: Settings = dict.fromkeys(ROLES, chosen) | {"dispatch": None}
    return Precision(**roles)


PARTS_OF: KindTable[OfKind[Part]] = KindTable("roles", m.Module)
"""Kind of module → the role of its weights."""
PARTS_OF.add(lambda x: x.part, m.Linear, m.Convolution)
PARTS_OF.add(lambda _: "experts", m.Experts, m.ExpertLinear)
PARTS_OF.add(lambda _: "router", m.Router)
PARTS_OF.add(lambda _: "attention", m.LatentAttention, m.RelativeBias)
PARTS_OF.add(lambda _: "embedding", m.Embedding)
PARTS_OF.add(
    lambda _: "other", m.Norm, m.Rope, m.Attention, m.Indexer, m.Compressor, m.CompressedAttention, m.Activation, m.Add,
    m.Gate, m.Mix, m.Conv, m.SelectiveScan, m.StateSpace, m.DeltaRule, m.LinearAttention, m.GatedRecurrence,
    m.TokenShift, m.Delay, m.DepthAttention, m.Wkv, m.MatrixMemory, m.Collective, m.Learned, m.Magnitude,
)  # fmt: skip


def part_of(module: m.Module) -> Part:
    """Role of a module's weights."""
    return PARTS_OF[type(module)](module)


assert set(m.PARTS) == set(get_args(Part))
