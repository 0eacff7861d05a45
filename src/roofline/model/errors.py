"""The one error a user can cause: a value that is not what the field needs."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 160
"""Characters of a value that an error repeats."""


class InputError(ValueError):
    """A user's mistake: the field, the value, what was expected, the nearest valid choice.

    `str()` is one line. Commands print it and exit with 2.
    """

    def __init__(self, field: str, value: object, expected: str, nearest: Iterable[str] = ()) -> None:
        self.field, self.value, self.expected = field, value, expected
        self.nearest = tuple(nearest)
        hint = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"{field}: expected {expected}, got {_short(value)}{hint}")

    def __reduce__(self) -> tuple[object, ...]:
        """Its parts, from which another process makes it again; a value that cannot be handed over goes as words."""
        return _again, (type(self), self.args), {**self.__dict__, "value": _handed(self.value)}


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
    """The error for a word that is none of the known ones, with those nearest to it."""
    words = tuple(known)
    return InputError(field, value, f"one of {', '.join(words)}", nearest(str(value), words))


def _short(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an int of thousands of digits
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def nearest(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known words that look most like `word`, best first.

    >>> nearest("lama", ["llama", "gemma", "bloom"], 1)
    ['llama']
    """
    import difflib  # loaded where something is wrong

    by_lower = {k.lower(): k for k in known if isinstance(k, str)}
    return [by_lower[name] for name in difflib.get_close_matches(word.lower(), by_lower, n=count, cutoff=0.4)]
