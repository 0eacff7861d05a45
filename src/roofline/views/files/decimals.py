"""The shortest decimals that read back as a float, for many floats at once, in ASCII.

Python finds them one by one, in half a microsecond each. Here a float is multiplied by the power of ten that makes a
whole number of 17 digits of it: exactly, as the sum of two floats (T. J. Dekker 1971, doi:10.1007/BF01397083), since
powers up to 10^22 are floats themselves. What reads back as the float lies less than half of its spacing away, and the
shortest of it is the nearest multiple of 100, of 10 or of 1. Python is asked where a float is too small or too large,
where its neighbours are not equally far, and where a decision is too close to make.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Texts = NDArray[np.uint8]
"""ASCII in a row for each number, [numbers, width]; what is not used is 0, in any place."""
DIGITS = 17
LEAST, MOST = 1e-5, 1e15
"""Absolute values that are written without an exponent, and whose power of ten is a float."""
DOUBT = 1e-6
"""Of the last of 17 digits; sums are exact to 2^-45."""
SPLIT = 2.0**27 + 1
"""Dekker's constant, which cuts a float into two of 26 bits."""
WIDTH = 24
SIGN, ZERO, POINT = b"-0."
POWERS = np.array([float(10**k) for k in range(23)])
FOURS = np.array([f"{number:04}".encode() for number in range(10**4)], dtype="S4").view(np.uint32)
"""The four digits of each number below 10,000."""
PLACES = np.arange(DIGITS, dtype=np.uint8)


def float_texts(values: NDArray[np.float64]) -> Texts:
    """The floats in ASCII, as `repr` has them but for the exponents; `python_texts` says how those are written."""
    size = np.abs(values)
    sure = (size >= LEAST) & (size < MOST) & (np.frexp(size)[0] != 0.5)
    size = np.where(sure, size, 3.0)
    power = DIGITS - 1 - np.floor(np.log10(size)).astype(np.int64)
    digits, last, known = _shortest(size, POWERS[power])
    sure &= known
    whole = _ascii(digits)
    _find_last(whole, last)
    texts = np.zeros((len(values), WIDTH), dtype=np.uint8)
    for each in np.flatnonzero(np.bincount(power)).tolist():
        rows = power == each
        texts[rows, 1:] = _with_point(whole[rows], last[rows], each)
    texts[:, 0] = (values < 0) * SIGN
    others = np.flatnonzero(~sure)
    if others.size:
        each_once, places = np.unique(values[others].view(np.int64), return_inverse=True)  # bits: −0 is not 0
        texts[others] = python_texts(each_once.view(np.float64).tolist(), WIDTH)[places]
    return texts


def whole_texts(values: NDArray[np.int64]) -> Texts:
    """Whole numbers in ASCII."""
    if not len(values) or values.min() < 0 or values.max() >= 10**DIGITS:
        return python_texts(values.tolist())
    texts = _ascii(values)
    first = np.where(values == 0, DIGITS - 1, np.argmax(texts != ZERO, axis=1)).astype(np.uint8)
    return texts * (first[:, None] <= PLACES)


def _shortest(
    size: NDArray[np.float64], power: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_]]:
    """The shortest decimals of `size` times `power` as whole numbers of 17 digits.

    With the place of the last digit that is not 0, at most 14 where there are several zeros, and whether each is sure.
    """
    whole = size * power
    (a, b), (c, d) = _halves(size), _halves(power)
    rest = ((a * c - whole) + a * d + b * c) + b * d
    most = np.spacing(size) * power / 2
    base = whole.astype(np.int64)
    sure, settled = (whole >= 1e16) & (whole < 1e17), np.zeros(len(size), dtype=bool)
    digits, last = base.copy(), np.full(len(size), DIGITS - 1, dtype=np.uint8)
    for zeros, step in ((2, 100), (1, 10), (0, 1)):
        left = base % step
        beyond = rest + left
        near = np.rint(beyond / step) * step
        away = np.abs(beyond - near)
        taken = ~settled & (away <= most)
        sure &= settled | ((np.abs(away - most) > DOUBT) & (np.abs(away - step / 2) > DOUBT))
        np.copyto(digits, base - left + near.astype(np.int64), where=taken)
        last -= np.uint8(zeros) * taken
        settled |= taken
    sure &= digits < 10**DIGITS
    digits[~sure] = 10 ** (DIGITS - 1)
    return digits, last, sure


def _find_last(texts: Texts, last: NDArray[np.uint8]) -> None:
    """The place of the last digit that is not 0, where there are several zeros behind it."""
    rows = np.flatnonzero(last == DIGITS - 3)
    if rows.size:
        last[rows] -= np.argmax(texts[rows, DIGITS - 3 :: -1] != ZERO, axis=1).astype(np.uint8)


def _halves(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two floats of 26 bits whose sum is each."""
    wide = SPLIT * values
    high = wide - (wide - values)
    return high, values - high


def _ascii(digits: NDArray[np.int64]) -> Texts:
    """Whole numbers of 17 digits, [numbers, 17]."""
    texts = np.empty((len(digits), 5), dtype=np.uint32)
    for place in (4, 3, 2, 1):
        above = digits // 10**4
        texts[:, place] = FOURS[digits - 10**4 * above]
        digits = above
    texts[:, 0] = FOURS[digits]
    return texts.view(np.uint8)[:, 3:]


def _with_point(texts: Texts, last: NDArray[np.uint8], power: int) -> Texts:
    """Digits divided by 10^power, without zeros at the end but for one behind the point, [numbers, WIDTH - 1]."""
    before = DIGITS - power
    texts = texts * (np.maximum(last, max(before, 0))[:, None] >= PLACES)
    out = np.zeros((len(texts), WIDTH - 1), dtype=np.uint8)
    if before > 0:
        out[:, :before], out[:, before], out[:, before + 1 : DIGITS + 1] = texts[:, :before], POINT, texts[:, before:]
    else:
        out[:, : 2 - before] = np.frombuffer(b"0." + -before * b"0", dtype=np.uint8)
        out[:, 2 - before : 2 - before + DIGITS] = texts
    return out


def python_texts(values: list[float | None], width: int = 0) -> Texts:
    """Numbers or flags of one type, and None, as Python writes them one by one.

    Exponents have no leading zeros (`1e-7`) and begin below 1e-5; flags are `true` and `false`, None is empty.
    """
    text = repr(values)[1:-1]
    for python, written in (("None", ""), ("nan", "NaN"), ("True", "true"), ("False", "false")):
        text = text.replace(python, written)
    for digit in "6789":
        text = text.replace(f"e-0{digit}", f"e-{digit}")
    cells = text.split(", ")
    if "e-05" in text:
        cells = [_plain(cell) if cell.endswith("e-05") else cell for cell in cells]
    return text_rows([cell.encode() for cell in cells], width)


def _plain(cell: str) -> str:
    """A number of the exponent −5 without it."""
    digits = cell.removesuffix("e-05").replace(".", "")
    return f"-0.0000{digits[1:]}" if digits[0] == "-" else f"0.0000{digits}"


def text_rows(cells: list[bytes], width: int = 0) -> Texts:
    """Texts of any lengths as rows of one width, by default that of the longest."""
    width = width or max(1, *map(len, cells))
    return np.array(cells, dtype=f"S{width}").view(np.uint8).reshape(-1, width)
