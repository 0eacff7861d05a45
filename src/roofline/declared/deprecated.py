"""What goes away: a former name works for one more minor release, and one line says what to write instead."""

from __future__ import annotations

import sys
import warnings

_SAID: set[str] = set()
"""Lines that this process has seen."""


def deprecated(former: str, instead: str) -> None:
    """Emit a DeprecationWarning at the caller's line outside of Roofline, once in a process for each former name.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     for _ in range(3):
    ...         deprecated("rl.Old", "rl.New")
    >>> [str(each.message) for each in said]
    ['rl.Old is now called rl.New; the former name goes with the next minor release']
    """
    line = f"{former} is now called {instead}; the former name goes with the next minor release"
    if line not in _SAID:
        _SAID.add(line)
        warnings.warn(line, DeprecationWarning, stacklevel=2 + _frames_of_the_package())


def _frames_of_the_package() -> int:
    """Callers of `deprecated` up to the first that is not of this package."""
    frame, count = sys._getframe(2), 0
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "roofline":
        frame, count = frame.f_back, count + 1
    return count
