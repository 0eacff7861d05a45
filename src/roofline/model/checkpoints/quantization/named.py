"""Quantisations under their common names: MLX, ExLlama, GPTQ, AWQ, HQQ, bitsandbytes.

A name stands for what the tool produces by default: which matrices, how many bits, and what each group shares.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from roofline.declared.errors import InputError
from roofline.model.checkpoints.quantization.rules import Rule, Scheme
from roofline.model.formats import FORMATS, Format, by_row, grouped, integers
from roofline.model.modules import PARTS
from roofline.model.precision import WEIGHTS

_Parts: TypeAlias = tuple[str | None, ...]
_MLX_BITS, _MLX_GROUPS = ("2", "3", "4", "5", "6", "8"), ("32", "64", "128")
_EXL_BITS = {"exl2": (Fraction(2), Fraction(8)), "exl3": (Fraction(1), Fraction(8))}


def scheme_named(name: object) -> Scheme | None:
    """The scheme of a name such as `mlx-4bit`, `exl2-4.25bpw` or `gptq-4bit-g32`; None for what is no such name.

    Raises InputError for bits and groups that the tool does not have.

    >>> scheme_named("mlx-4bit").default.stored_bits
    Fraction(9, 2)
    """
    text = name.strip().lower() if isinstance(name, str) else ""
    for pattern, scheme in _NAMED.items():
        match = re.fullmatch(pattern, text)
        if match is not None:
            return scheme(text, match.groups())
    return None


def _mlx(text: str, parts: _Parts) -> Scheme:
    """MLX: all matrices including the embedding table, with a 16-bit scale and bias per group (mlx_lm.convert -q)."""
    bits, group = parts[0] or "4", parts[1] or "64"
    if bits not in _MLX_BITS or group not in _MLX_GROUPS:
        known = f"{', '.join(_MLX_BITS)} bits in groups of {', '.join(_MLX_GROUPS)}"
        raise InputError("precision", text, known, ["mlx-4bit", "mlx-8bit-g32"])
    fmt = grouped(f"int{bits}-g{group}", int(bits), int(group), 32)
    return Scheme(default=fmt, covers=frozenset(PARTS) - {"other"}, source="precision", linear_only=True)


def _exl(text: str, parts: _Parts) -> Scheme:
    """ExLlama: average bits per weight, scales included, from the name; 6 bits for the head, or as in the suffix `-h8`.

    Source: exllamav2 and exllamav3, convert.py (-b, -hb). The embedding table stays in 16 bits.
    """
    kind, bits, head = str(parts[0]), Fraction(parts[1] or 4), int(parts[2] or 6)
    least, most = _EXL_BITS[kind]
    if not least <= bits <= most or not 2 <= head <= 16:
        raise InputError("precision", text, f"{least} to {most} bits a weight", [f"{kind}-4.0bpw", f"{kind}-6.0bpw"])
    inner, outer = Format(f"{kind}-{parts[1]}bpw", bits), Format(f"{kind}-{head}bpw", Fraction(head))
    last = FORMATS["fp16"] if head == 16 else outer
    return Scheme((Rule("lm_head", last),), inner, covers=frozenset(WEIGHTS), source="precision")


def _integers(text: str, parts: _Parts) -> Scheme:
    """GPTQ and AWQ: a scale and a zero point as wide as a value per 128 values; HQQ: both in 16 bits, per 64 values.

    GPTQ also stores the 32-bit group index of each input.
    """
    kind, bits, group = str(parts[0]), int(parts[1] or 4), parts[2]
    if bits not in (2, 3, 4, 8) or (kind == "awq" and bits != 4) or not 1 <= int(group or 1) <= 2**20:
        raise InputError("precision", text, "4 bits" if kind == "awq" else "2, 3, 4 or 8 bits", [f"{kind}-4bit"])
    if kind == "hqq":
        each = int(group or 64)
        return Scheme(default=grouped(f"int{bits}-g{each}", bits, each, 32), source="precision")
    fmt = integers(bits, int(group or 128))
    return Scheme(default=replace(fmt, input_bits=32) if kind == "gptq" else fmt, source="precision")


def _bitsandbytes(text: str, parts: _Parts) -> Scheme:
    """bitsandbytes: NF4 in blocks of 64, or LLM.int8()."""
    return Scheme(default=FORMATS["nf4"] if parts[0] == "4" else by_row(FORMATS["bnb-int8"], 32), source="precision")


_NAMED: dict[str, Callable[[str, _Parts], Scheme]] = {
    r"mlx-(\d{1,2})bit(?:-g(\d{1,4}))?": _mlx,
    r"(exl[23])-(\d{1,2}(?:\.\d{1,3})?)bpw(?:-h(\d{1,2}))?": _exl,
    r"(gptq|awq|hqq)-(?:int)?(\d)(?:bit)?(?:-g(\d{1,7}))?": _integers,
    r"(?:bnb|bitsandbytes)-([48])bit": _bitsandbytes,
}
"""Pattern of a name → function that builds its scheme."""
