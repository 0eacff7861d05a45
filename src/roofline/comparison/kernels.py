"""What a profiler measured: kernels in order, each with its name, its shapes where there are any, and its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
MOST_KERNELS = 2_000_000
"""Kernels of a file; more are refused."""
LARGEST_PROFILE = 512 * 2**20
"""Bytes of a profile, unpacked."""


@dataclass(frozen=True)
class ProfiledKernel:
    """One kernel, or one operator of a CPU. `call`: the framework's operator that launched it, "" where unknown;
    `shapes`: of its inputs; `start`, `seconds`; `moved`: bytes of main memory that were counted, None where not."""

    name: str
    start: float
    seconds: float
    call: str = ""
    shapes: Shapes = ()
    moved: float | None = None

    @property
    def words(self) -> str:
        """Both names in lower case, as rules look at them."""
        return f"{self.call} {self.name}".lower()
