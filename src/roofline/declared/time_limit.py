"""How long a search may take, and whom it tells how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from time import monotonic

SEARCH_S = 60.0
"""Seconds that a search may take by default."""


@dataclass
class SearchClock:
    """Time of a search. `progress`: called with the number of plans or layouts looked at so far."""

    seconds: float = inf
    progress: Callable[[int], None] | None = None
    end: float = inf
    looked: int = 0

    def start(self) -> None:
        """The time begins now."""
        self.end = monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        """Whether the time has ended."""
        return monotonic() > self.end

    def counts(self, number: int) -> None:
        """So many more plans were looked at."""
        self.looked += number
        if self.progress is not None:
            self.progress(self.looked)
