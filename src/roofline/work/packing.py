"""Sequences packed into one: the lengths that a call names, or those of a distribution.

Tokens attend within their own sequence, as kernels of variable lengths do by `cu_seqlens` (flash-attention,
flash_attn_varlen_func). A pack is full, and holds whole sequences; longer ones are cut to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from math import erfc, log, log1p, sqrt
from typing import TypeAlias

from roofline.declared.checks import count
from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.declared.numbers.arrays import np
from roofline.declared.numbers.maths import Count, is_array

Packed: TypeAlias = tuple[tuple[int, int | float], ...]
"""Sequences of a pack: (length, number); numbers of a distribution are means, and may be fractions."""
PACKED = "lengths of sequences such as 4096,512x8, or lognormal(MEAN,CV) or uniform(LOW,HIGH)"
KINDS = 12
"""Different lengths that stand for a distribution, each for as many tokens."""
CELLS = 2048
"""Lengths at which a distribution is evaluated, evenly spaced on a logarithmic scale."""
PART = 2**-16
"""Numbers of sequences are whole multiples of this, so that sums of tokens are exact in floating point."""


def packed(lengths: Given, tokens: Count) -> Packed:
    """Sequences packed into one: (length, number), longest first, from a list, "4096,512x8" or "lognormal(512,1.2)"; ()
    means a single sequence.

    Raises InputError where the lengths do not add up to `tokens`.
    """
    if lengths is None or (isinstance(lengths, (str, list, tuple)) and not lengths):
        return ()
    if isinstance(lengths, str) and "(" in lengths:
        return drawn_pack(lengths, tokens)
    if _is_drawn(lengths):
        return tuple(lengths)
    words = lengths.split(",") if isinstance(lengths, str) else lengths
    if not isinstance(words, (list, tuple)):
        raise InputError("lengths", lengths, PACKED)
    entries = sorted((_entry(word) for word in words), reverse=True)
    merged = tuple((length, sum(n for _, n in same)) for length, same in groupby(entries, key=lambda e: e[0]))
    whole = sum(length * n for length, n in merged)
    if not isinstance(tokens, int) or whole != tokens:
        raise InputError("lengths", lengths, f"lengths that add up to tokens, {tokens}; they add up to {whole}")
    return merged


def _is_drawn(lengths: Given) -> bool:
    """Whether it is what `drawn_pack` made: pairs of which some have a fraction for their number."""
    pairs = isinstance(lengths, tuple) and all(isinstance(x, tuple) and len(x) == 2 for x in lengths)
    return pairs and any(isinstance(number, float) for _, number in lengths)


def _entry(word: Given) -> tuple[int, int]:
    """A length and its number: 512, "512", "512x8" or (512, 8)."""
    pair = word.strip().split("x") if isinstance(word, str) else word
    values = list(pair) if isinstance(pair, (list, tuple)) else [pair]
    if isinstance(word, str):
        if not all(v.isdigit() and len(v) <= 9 for v in values):
            raise InputError("lengths", word, "a length such as 512, or 512x8")
        values = [int(v) for v in values]
    if len(values) not in (1, 2):
        raise InputError("lengths", word, "a length such as 512, or 512x8")
    length, times = (*values, 1)[:2]
    return count("lengths", length, 1), count("lengths", times, 1)


def packed_text(lengths: Packed) -> str:
    """A pack in words: each length, or of drawn ones how many there are on average.

    >>> packed_text(((4096, 1), (512, 8))), packed_text(((1024, 2.5), (512, 3.0)))
    ('1 × 4096, 8 × 512', '5.5 drawn sequences on average')
    """
    if _is_drawn(lengths):
        return f"{sum(number for _, number in lengths):.3g} drawn sequences on average"
    return ", ".join(f"{number} × {length}" for length, number in lengths)


def packs(sequences: Count, each: float) -> Count:
    """The number of packs of so many equal sequences, `each` in a pack."""
    if isinstance(each, int):
        return sequences // each
    number = np.rint(sequences / each)
    return number.astype(int) if is_array(sequences) else int(number)


def drawn_pack(text: str, tokens: Count) -> Packed:
    """A mean pack of `tokens` tokens of sequences whose lengths are drawn.

    Of a length l there are T·p(l)/E[l] sequences. Lengths are joined to `KINDS` groups of as many tokens each, with
    E[l²]/E[l] of a group as its length: Σ l² of a pack, and so attention's work, is that of the distribution.
    Raises InputError for what is no distribution, and for arrays of tokens.
    """
    below = _distribution(text)
    if below is None or not isinstance(tokens, int):
        raise InputError("lengths", text, PACKED if below is None else "one number of tokens")
    ends = np.unique(np.geomspace(1, tokens, CELLS).astype(int))
    share = np.diff([0.0, *(below(end + 0.5) for end in ends[:-1]), 1.0])  # what is longer is cut to the pack
    starts = np.concatenate([[1], ends[:-1] + 1])
    each = np.where(ends == tokens, tokens, (starts + ends) / 2)
    weights = share * each / np.sum(share * each)
    before = np.concatenate([[0.0], np.cumsum(weights)])
    rows: dict[int, float] = {}
    for k in range(KINDS):
        inside = np.clip((k + 1) / KINDS, before[:-1], before[1:]) - np.clip(k / KINDS, before[:-1], before[1:])
        length = max(1, round(float(np.sum(inside * each) / np.sum(inside))))
        rows[length] = rows.get(length, 0.0) + tokens / KINDS / length
    rows = {length: number // PART * PART for length, number in rows.items()}
    rows[1] = rows.get(1, 0.0) + tokens - sum(length * number for length, number in rows.items())
    return tuple((length, number) for length, number in sorted(rows.items(), reverse=True) if number)


def _distribution(text: str) -> Callable[[float], float] | None:
    """The share of sequences that are at most so long; None for a text that is no distribution."""
    call = re.fullmatch(r"\s*(lognormal|uniform)\(\s*([0-9.]+)\s*,\s*([0-9.]+)\s*\)\s*", text)
    try:
        first, second = (float(x) for x in call.groups()[1:]) if call else (0.0, 0.0)
    except ValueError:
        return None
    if call is None or first < 1 or second <= 0:
        return None
    if call[1] == "uniform":
        return None if second < first else lambda x: min(1.0, max(0.0, (x - first + 0.5) / (second - first + 1)))
    wide = log1p(second**2)
    return lambda x: 0.5 * erfc((log(first) - wide / 2 - log(x)) / sqrt(2 * wide))
