"""Number formats by role: weights of each part, activations, KV cache, recurrent state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, get_args

from roofline.model import modules as m
from roofline.model.errors import InputError, nearest
from roofline.model.maths import Count, ceil_div
from roofline.model.modules import Part
from roofline.model.table import KindTable


@dataclass(frozen=True)
class Format:
    """How a value is stored: `bits` each, plus `overhead` bits a value for the scales and zeros of its group.

    Example: int4 in groups of 128 with an fp16 scale and a 4-bit zero point takes 4 + 20/128 bits.
    """

    name: str
    bits: Fraction
    overhead: Fraction = Fraction(0)
    compute: str | None = None
    """The format a matrix unit multiplies in; None: that of the activations (weight-only)."""

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.bits, self.overhead, self.compute))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def stored_bits(self) -> Fraction:
        """Bits a value takes in memory, scales included."""
        return self.bits + self.overhead

    @cached_property
    def stored_bytes(self) -> Fraction:
        """The same in bytes."""
        return self.stored_bits / 8

    def plain(self) -> str:
        """How results call it."""
        return self.name

    def bytes(self, elements: Count) -> Count:
        """Bytes of `elements` stored values: ⌈elements · stored_bits / 8⌉, exact for ints."""
        per = self.stored_bytes
        if per.denominator == 1:
            return elements * per.numerator
        if isinstance(elements, float) or getattr(getattr(elements, "dtype", None), "kind", "") == "f":
            return elements * float(per)
        return ceil_div(elements * per.numerator, per.denominator)


def _plain(name: str, bits: int, compute: str | None = None) -> Format:
    return Format(name, Fraction(bits), compute=compute or name)


def grouped(name: str, bits: int | Fraction, group: int, extra_bits: int, compute: str | None = None) -> Format:
    """A format whose every `group` values share `extra_bits` of scale and zero point."""
    return Format(name, Fraction(bits), Fraction(extra_bits, group), compute)


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        _plain("fp64", 64),
        _plain("fp32", 32),
        _plain("tf32", 32),
        _plain("bf16", 16),
        _plain("fp16", 16),
        _plain("fp8", 8),
        _plain("int8", 8),
        _plain("fp4", 4),
        # Weight-only integers: fp16 scale and a zero point of the same width in groups of 128 (GPTQ, AWQ).
        grouped("int4", 4, 128, 16 + 4),
        grouped("int3", 3, 128, 16 + 3),
        grouped("int2", 2, 128, 16 + 2),
        # DeepSeek-V3 (arXiv:2412.19437, §3.3): an fp32 scale for each 128×128 block.
        grouped("fp8-block", 8, 128 * 128, 32, "fp8"),
        # OCP Microscaling Formats v1.0: an 8-bit scale for each 32 values.
        grouped("mxfp8", 8, 32, 8, "fp8"),
        grouped("mxfp6", 6, 32, 8, "fp6"),
        grouped("mxfp4", 4, 32, 8),
        # NVIDIA NVFP4: an fp8 scale for each 16 values.
        grouped("nvfp4", 4, 16, 8, "fp4"),
        # QLoRA (arXiv:2305.14314): 64-value blocks with an fp32 scale; doubly quantised: 8 bits + fp32 per 256 blocks.
        grouped("nf4", 4, 64, 32),
        grouped("nf4-double", 4, 64 * 256, 8 * 256 + 32),
        # bitsandbytes LLM.int8(): an fp32 scale for each output row; counted per 4096 values.
        grouped("bnb-int8", 8, 4096, 32),
        # BitNet b1.58: four ternary values to a byte.
        _plain("ternary", 2, "int8"),
    )
}

ALIASES = {
    "float64": "fp64", "double": "fp64",
    "float32": "fp32", "float": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16", "half": "fp16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float8": "fp8", "e4m3": "fp8", "e5m2": "fp8",
    "fp8_block": "fp8-block", "w4": "int4", "w4a16": "int4", "awq": "int4", "gptq": "int4", "w8": "int8",
    "bitnet": "ternary",
}  # fmt: skip


def format_named(name: object, field: str = "format") -> Format:
    """The format called `name` (a name or alias such as `bfloat16`), or `int4-g32`-like with a group of its own.

    Raises InputError with the nearest names.
    """
    text = name.strip().lower().removeprefix("torch.") if isinstance(name, str) else ""
    text = ALIASES.get(text, text)
    if text in FORMATS:
        return FORMATS[text]
    base, dash, group = text.rpartition("-g")
    if dash and base in ("int2", "int3", "int4", "int8") and group.isdigit() and 1 <= int(group) <= 2**20:
        bits = int(base[3:])
        return grouped(text, bits, int(group), 16 + bits)
    known = [*FORMATS, *ALIASES]
    raise InputError(field, name, "a number format", nearest(text, known) or ["bf16", "fp8", "int4"])


WEIGHTS: tuple[Part, ...] = ("attention", "ffn", "experts")
"""The roles that `weights` stands for."""


@dataclass(frozen=True)
class Precision:
    """The format of every role.

    Weights by part: `attention` projections, dense feed-forwards (`ffn`), routed `experts`, the `router`, the
    `embedding` table, the `head`, `other` (norms, biases and the rest). `activations`: streams between ops;
    `kv`: the KV cache; `state`: recurrent state of a scan.
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

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name) for f in fields(self)))

    def __hash__(self) -> int:
        return self._hash

    def plain(self) -> dict[str, str]:
        """The name of the format of every role."""
        return {f.name: getattr(self, f.name).name for f in fields(self)}

    def leaves(self, name: str, unit: str) -> Iterator[tuple[str, str, str]]:
        """The same in a word."""
        yield name, self.text(), unit

    def text(self) -> str:
        """The formats in use: one name, or each role that differs from the activations.

        >>> uniform(FORMATS["bf16"]).merged("fp8").text()
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

    def weights(self, part: Part) -> Format:
        """The format of a part's weights."""
        chosen: Format = getattr(self, part)
        return chosen

    def weight_bytes(self, module: m.Module) -> Count:
        """Stored bytes of a module's parameters: matrices in their part's format, the rest in that of `other`."""
        rest = module.parameters - module.matrix
        return self.weights(part_of(module)).bytes(module.matrix) + self.other.bytes(rest)

    def with_roles(self, **roles: str | Format) -> Precision:
        """This precision with some roles changed; `weights` stands for attention, ffn and experts together.

        Raises InputError for a role or a format that does not exist.
        """
        names = [f.name for f in fields(self)]
        changed: dict[str, Format] = {}
        for role, value in roles.items():
            if role != "weights" and role not in names:
                raise InputError("precision", role, "a role", nearest(role, [*names, "weights"]) or names)
            chosen = value if isinstance(value, Format) else format_named(value, role)
            for target in WEIGHTS if role == "weights" else (role,):
                changed[target] = chosen
        return replace(self, **changed)

    def merged(self, spec: object) -> Precision:
        """This precision changed by `spec`: None, a Precision, a mapping role → format, or text.

        Text is one format for all matrices and activations (`bf16`), or `role=format` pairs separated by commas
        (`weights=int4,kv=fp8`). A single format that is weight-only (int4, mxfp4, nf4, ternary …) changes the
        weights and leaves activations and cache as they are.
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
            return self._with(uniform(chosen))
        return self.with_roles(weights=chosen)

    def spec(self, base: Precision) -> str:
        """The text of which `base.merged` makes this precision; empty where they are the same."""
        differ: dict[str, Format] = {
            f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != getattr(base, f.name)
        }
        if differ.keys() & set(WEIGHTS) and self.attention == self.ffn == self.experts:
            differ = {"weights": self.ffn} | {role: fmt for role, fmt in differ.items() if role not in WEIGHTS}
        alone = next((fmt.name for fmt in differ.values() if base.merged(fmt.name) == self), None)
        if alone is not None and len(differ) > 1:
            return alone
        return ",".join(f"{role}={fmt.name}" for role, fmt in differ.items())

    def _with(self, other: Precision) -> Precision:
        """The other's formats; the roles that only this one has stay as they are."""
        if isinstance(other, type(self)):
            return other
        return replace(self, **{f.name: getattr(other, f.name) for f in fields(other)})


def uniform(chosen: Format) -> Precision:
    """Every role in one format."""
    return Precision(**{f.name: chosen for f in fields(Precision)})


PARTS_OF: KindTable[Callable[[Any], Part]] = KindTable("roles", m.Module)
"""Kind of module → the role of its weights."""
PARTS_OF.add(lambda x: x.part, m.Linear)
PARTS_OF.add(lambda _: "experts", m.Experts)
PARTS_OF.add(lambda _: "router", m.Router)
PARTS_OF.add(lambda _: "attention", m.LatentAttention, m.RelativeBias)
PARTS_OF.add(lambda _: "embedding", m.Embedding)
PARTS_OF.add(
    lambda _: "other", m.Norm, m.Rope, m.Attention, m.Indexer, m.Compressor, m.CompressedAttention, m.Activation, m.Add,
    m.Gate, m.Mix, m.Conv, m.SelectiveScan, m.StateSpace, m.DeltaRule, m.LinearAttention, m.GatedRecurrence,
    m.TokenShift, m.Delay, m.DepthAttention, m.Wkv, m.MatrixMemory, m.Collective,
)  # fmt: skip


def part_of(module: m.Module) -> Part:
    """The role of a module's weights."""
    return PARTS_OF[type(module)](module)


assert set(m.PARTS) == set(get_args(Part))
