"""Kernels measured by a profiler, in order, with name, time and, where known, shapes."""

from __future__ import annotations

from dataclasses import dataclass
from time import thread_time
from typing import TypeAlias

from roofline.declared.errors import InputError

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
MOST_KERNELS = 1_000_000
"""Most kernels of a file; more are refused."""
LARGEST_PROFILE = 512 * 2**20
"""Largest profile after decompression, bytes."""
LONGEST_NAMES = 2**25
"""Maximum number of characters, and of numbers, in all distinct names and shapes of a profile."""
SLOWEST_PROFILE = 8.0
"""Seconds of a processor within which the events of a profile must be read."""


class SharedNames:
    """Names and shapes of a profile, each kept once. Raises InputError for too many, and after too long a time."""

    def __init__(self, file: str) -> None:
        self.file, self._size = file, 0
        self._names: dict[str, str] = {}
        self._shapes: dict[Shapes, Shapes] = {}
        self._until = thread_time() + SLOWEST_PROFILE

    def name(self, text: str) -> str:
        """One object for every name that equals `text`."""
        kept = self._names.setdefault(text, text)
        if kept is text:
            self._grow(len(text))
        return kept

    def shapes(self, sizes: Shapes) -> Shapes:
        """One object for all shapes that equal `sizes`."""
        kept = self._shapes.setdefault(sizes, sizes)
        if kept is sizes:
            self._grow(8 * sum(map(len, sizes)))
        return kept

    def _grow(self, size: int) -> None:
        self._size += size + 8
        if self._size > LONGEST_NAMES:
            raise InputError(self.file, "more", f"names and shapes of at most {LONGEST_NAMES} characters in all")

    def in_time(self) -> None:
        """Raise InputError if reading has taken too long."""
        if thread_time() > self._until:
            raise InputError(self.file, "a longer one", f"a profile that is read within {SLOWEST_PROFILE:g} s")


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """A GPU kernel, or a CPU operator.

    `call`: framework operator that launched it, "" if unknown. `shapes`: shapes of its inputs. `start`, `seconds`:
    start time and duration in seconds. `moved`: measured bytes of main memory traffic, None if not measured.
    """

    name: str
    start: float
    seconds: float
    call: str = ""
    shapes: Shapes = ()
    moved: float | None = None

    @property
    def words(self) -> str:
        """Operator and kernel name in lower case, for matching rules."""
        return f"{self.call} {self.name}".lower()
