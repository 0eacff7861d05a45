"""Kernels measured by a profiler, in order, with name, time and, where known, shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
MOST_KERNELS = 2_000_000
"""Most kernels of a file; more are refused."""
LARGEST_PROFILE = 512 * 2**20
"""Largest profile after decompression, bytes."""


@dataclass(frozen=True)
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
