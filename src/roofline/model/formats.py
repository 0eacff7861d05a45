"""Number formats: how values are stored, and the format in which they are multiplied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

from roofline.declared.errors import InputError, nearest
from roofline.declared.numbers.maths import Count, ceil_div

Scales: TypeAlias = Literal["tensor", "channel", "block", "group"]


@dataclass(frozen=True)
class Format:
    """Storage format of a value: `bits` per value, plus `overhead` bits per value for its group's scale and zero point.

    Example: int4 in groups of 128 with an fp16 scale and a 4-bit zero point takes 4 + 20/128 bits.

    `scales`: the values that share a scale; those of a tensor are too few to count. `static`: activations are quantised
    with scales from the checkpoint, not computed in each step. `input_bits`, `output_bits`, `matrix_bits`: additional
    bits for every input of a matrix (GPTQ's group index, 32), for every output (the scale of a row, 16 or 32) and for
    every matrix (AQLM's codebooks); the format of a single module has them in its `overhead`.
    """

    name: str
    bits: Fraction
    overhead: Fraction = Fraction(0)
    compute: str | None = None
    """Format in which the matrix unit multiplies; None: the format of the activations (weight-only)."""
    scales: Scales = "tensor"
    static: bool = False
    input_bits: int = 0
    output_bits: int = 0
    matrix_bits: int = 0

    @cached_property
    def _hash(self) -> int:
        beside = self.input_bits, self.output_bits, self.matrix_bits
        return hash((self.name, self.bits, self.overhead, self.compute, self.scales, self.static, *beside))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def stored_bits(self) -> Fraction:
        """Bits that a value takes in memory, scales included."""
        return self.bits + self.overhead

    @cached_property
    def stored_bytes(self) -> Fraction:
        """Bytes that a value takes in memory, scales included."""
        return self.stored_bits / 8

    def plain(self) -> str:
        """Name of the format in results."""
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
    """A format where each `group` values share `extra_bits` bits of scale and zero point."""
    return Format(name, Fraction(bits), Fraction(extra_bits, group), compute, "group")


def integers(bits: int, group: int, *, zeros: bool = True) -> Format:
    """Weight-only integers with an fp16 scale and a zero point as wide as a value for each group.

    A `group` of −1 is a row. `zeros`: whether there are zero points.

    >>> integers(4, 128) == FORMATS["int4"], integers(4, 32, zeros=False).stored_bits
    (True, Fraction(9, 2))
    """
    if zeros and group == 128 and f"int{bits}" in FORMATS and bits < 8:
        return FORMATS[f"int{bits}"]
    shared = 16 + (bits if zeros else 0)
    if group < 0:
        return by_row(Format(f"int{bits}-row", Fraction(bits)), shared)
    return grouped(f"int{bits}-g{group}", bits, group, shared)


def by_row(fmt: Format, bits: int) -> Format:
    """The format with scales of `bits` bits for every row of a matrix, that is for every output."""
    return replace(fmt, scales="channel", overhead=Fraction(0), output_bits=bits)


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
        replace(grouped("fp8-block", 8, 128 * 128, 32, "fp8"), scales="block"),
        # DeepSeek-V3 §3.3, activations and tokens dispatched to experts: an fp32 scale for each 128 values of a token.
        replace(grouped("fp8-group", 8, 128, 32, "fp8"), scales="group"),
        # OCP Microscaling Formats v1.0: an 8-bit scale for each 32 values.
        grouped("mxfp8", 8, 32, 8, "fp8"),
        grouped("mxfp6", 6, 32, 8, "fp6"),
        grouped("mxfp4", 4, 32, 8),
        # NVIDIA NVFP4: an fp8 scale for each 16 values.
        grouped("nvfp4", 4, 16, 8, "fp4"),
        # NVFP4 weights, multiplied in the format of the activations.
        grouped("nvfp4-a16", 4, 16, 8),
        # QLoRA (arXiv:2305.14314): 64-value blocks with an fp32 scale; doubly quantised: 8 bits + fp32 per 256 blocks.
        grouped("nf4", 4, 64, 32),
        grouped("nf4-double", 4, 64 * 256, 8 * 256 + 32),
        # bitsandbytes LLM.int8(): an fp32 scale for each output row; counted per 4096 values.
        grouped("bnb-int8", 8, 4096, 32),
        # BitNet b1.58: four ternary values to a byte.
        _plain("ternary", 2, "int8"),
    )
}


@dataclass(frozen=True)
class GgmlType:
    """A tensor type of GGUF files: its number there, `values` and `bytes` per block, and the format of a value.

    A row is a whole number of blocks. The `bits` of the format are those of the value itself; the rest of a block is
    its overhead.
    """

    number: int
    values: int
    bytes: int
    format: Format

    @property
    def name(self) -> str:
        """Name in llama.cpp, in lower case: `q4_k`."""
        return self.format.name


def _ggml(name: str, number: int, values: int, size: int, bits: int | Fraction) -> GgmlType:
    stored = Fraction(8 * size, values)
    return GgmlType(number, values, size, Format(name, Fraction(bits), stored - bits, None, "group"))


GGML_TYPES: dict[str, GgmlType] = {
    t.name: t
    for t in (
        # Blocks as ggml/src/ggml-common.h of llama.cpp lays them out, numbers as ggml/include/ggml.h has them.
        _ggml("q4_0", 2, 32, 2 + 16, 4),  # fp16 scale
        _ggml("q4_1", 3, 32, 4 + 16, 4),  # fp16 scale and minimum
        _ggml("q5_0", 6, 32, 2 + 4 + 16, 5),  # fifth bits apart
        _ggml("q5_1", 7, 32, 4 + 4 + 16, 5),
        _ggml("q8_0", 8, 32, 2 + 32, 8),
        _ggml("q8_1", 9, 32, 4 + 32, 8),  # activations alone: fp16 scale and sum
        _ggml("q2_k", 10, 256, 64 + 16 + 4, 2),  # 4-bit scales and minima of 16 values each
        _ggml("q3_k", 11, 256, 64 + 32 + 12 + 2, 3),  # third bits apart, 6-bit scales
        _ggml("q4_k", 12, 256, 128 + 12 + 4, 4),  # 6-bit scales and minima of 32 values each
        _ggml("q5_k", 13, 256, 128 + 32 + 12 + 4, 5),
        _ggml("q6_k", 14, 256, 128 + 64 + 16 + 2, 6),  # 8-bit scales of 16 values each
        _ggml("q8_k", 15, 256, 256 + 4 + 32, 8),  # activations alone: fp32 scale, sums of 16 values each
        _ggml("iq2_xxs", 16, 256, 64 + 2, 2),  # points of a grid of 8 values, scales among their bits
        _ggml("iq2_xs", 17, 256, 64 + 8 + 2, 2),
        _ggml("iq3_xxs", 18, 256, 64 + 32 + 2, 3),
        _ggml("iq1_s", 19, 256, 32 + 16 + 2, 1),
        _ggml("iq4_nl", 20, 32, 2 + 16, 4),
        _ggml("iq3_s", 21, 256, 64 + 8 + 32 + 4 + 2, 3),
        _ggml("iq2_s", 22, 256, 64 + 8 + 8 + 2, 2),
        _ggml("iq4_xs", 23, 256, 128 + 4 + 2 + 2, 4),
        _ggml("iq1_m", 29, 256, 32 + 16 + 8, 1),
        _ggml("tq1_0", 34, 256, 48 + 4 + 2, Fraction(13, 8)),  # five ternary values to a byte, the last 16 four
        _ggml("tq2_0", 35, 256, 64 + 2, 2),
        _ggml("q1_0", 41, 128, 16 + 2, 1),
        GgmlType(39, 32, 17, FORMATS["mxfp4"]),
        GgmlType(40, 64, 36, FORMATS["nvfp4"]),
        GgmlType(0, 1, 4, FORMATS["fp32"]),
        GgmlType(1, 1, 2, FORMATS["fp16"]),
        GgmlType(28, 1, 8, FORMATS["fp64"]),
        GgmlType(30, 1, 2, FORMATS["bf16"]),
    )
}
"""Tensor types of GGUF files by the names of their formats; only llama.cpp stores the formats that FORMATS lacks."""

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
    """The format called `name`: a name, an alias such as `bfloat16`, or integers with another group size, `int4-g32`.

    Raises InputError with the nearest names.
    """
    text = name.strip().lower().removeprefix("torch.") if isinstance(name, str) else ""
    text = ALIASES.get(text, text)
    if text in FORMATS:
        return FORMATS[text]
    if text in GGML_TYPES:
        return GGML_TYPES[text].format
    base, dash, group = text.rpartition("-g")
    if dash and base in ("int2", "int3", "int4", "int8") and group.isdigit() and 1 <= int(group) <= 2**20:
        bits = int(base[3:])
        return grouped(text, bits, int(group), 16 + bits)
    known = [*FORMATS, *GGML_TYPES, *ALIASES]
    raise InputError(field, name, "a number format", nearest(text, known) or ["bf16", "fp8", "int4"])
