"""The error for invalid user input: a value that a field does not accept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from roofline.declared.sanitize import WIDEST_LINE, inert_line, shortened

LONGEST = 160
"""Maximum characters of a value repeated in an error."""
SHORTEST = 24
"""Minimum characters that each part of a one-line error keeps."""
LONGEST_LIKENED = 80
MOST_LIKENED = 4096
"""Maximum characters of a word, and maximum known words, for similarity; its time grows with their product."""


class InputError(ValueError):
    """Invalid user input: the field, the value, what was expected, and the nearest valid choices.

    `str()` is one line. Commands print it and exit with 2.
    """

    def __init__(self, field: str, value: object, expected: str, nearest: Iterable[str] = ()) -> None:
        self.field, self.value, self.expected = field, value, expected
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"{field}: expected {expected}, got {_short(value)}{hint}")

    def forms(self) -> tuple[str, ...]:
        """The message in decreasing detail; a narrow output takes the first that fits."""
        hint = f"; nearest: {self.nearest[0]}" if self.nearest else ""
        return str(self), f"{self.field}: expected {self.expected}, got {_short(self.value)}{hint}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the parts of the error; a value that cannot be pickled is replaced by its text."""
        return _again, (type(self), self.args), {**self.__dict__, "value": _handed(self.value)}


class MachineNameWarning(FutureWarning):
    """A machine's bare name stands for fewer chips than in the previous release."""


def _again(kind: type[InputError], args: tuple[object, ...]) -> InputError:
    return kind.__new__(kind, *args)


def _handed(value: object) -> object:
    import pickle

    try:
        pickle.dumps(value)
    except Exception:
        return _short(value)
    return value


def not_one_of(field: str, value: object, known: Iterable[str]) -> InputError:
    """The error for a value that is not one of the known words, with the nearest of them."""
    words = tuple(known)
    return InputError(field, value, f"one of {', '.join(words)}", nearest(str(value), words))


def _plain(value: object) -> object:
    """A value with NumPy arrays and scalars replaced by lists and numbers, recursively."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        parts = map(_plain, value)
        return list(parts) if isinstance(value, list) else tuple(parts)
    own = getattr(value, "tolist", None)
    return value if own is None or isinstance(value, type) else own()


def _short(value: object) -> str:
    try:
        text = " ".join(repr(_plain(value)).split())
    except (ValueError, RecursionError):  # an int of thousands of digits, or deeply nested tables
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def error_line(error: InputError, most: int = WIDEST_LINE) -> str:
    """The error in one line of at most `most` characters.

    If all its forms are longer, the value is shortened first, then the field (its end is kept), what was expected, and
    the nearest choices. Each keeps at least a few words.
    """
    for form in error.forms():
        if len(form) <= most and form.isprintable():
            return form
    shown = (error.field, error.expected, _short(error.value), ", ".join(error.nearest))
    field, expected, value, near = (inert_line(shortened(text, 4 * most)) for text in shown)
    signs = len(": expected , got ") + (len("; nearest: ") if near else 0)

    def room(*others: str) -> int:
        return most - signs - sum(map(len, others))

    value = shortened(value, max(SHORTEST, room(field, expected, near)))
    field = shortened(field[::-1], max(2 * SHORTEST, room(expected, value, near)))[::-1]
    expected = shortened(expected, max(SHORTEST, room(field, value, near)))
    near = shortened(near, max(SHORTEST, room(field, expected, value)))
    field = shortened(field[::-1], max(SHORTEST, room(expected, value, near)))[::-1]
    hint = f"; nearest: {near}" if near else ""
    return f"{field}: expected {expected}, got {value}{hint}"


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known words most similar to `word`, best first.
    >>> nearest("lama", ["llama", "gemma", "bloom"], 1)
    ['llama']
    """
    import difflib  # loaded only for errors

    if len(word) > LONGEST_LIKENED:
        return []
    by_lower = {k.lower(): k for k in islice(known, MOST_LIKENED) if isinstance(k, str)}
    return [by_lower[name] for name in difflib.get_close_matches(word.lower(), by_lower, n=count, cutoff=0.4)]
