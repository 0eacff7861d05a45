"""What training steps have in common that differ in ZeRO, chunks and recomputation alone: each is worked out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Shared:
    """Parts of training estimates of one model, batch, machine, recipe and list of degrees and micro-batches.

    A part is known by what it is and by those of its choices that it depends on.

    >>> shared = Shared()
    >>> shared.of("model", (), lambda: "once"), shared.of("model", (), lambda: "twice")
    ('once', 'once')
    """

    known: dict[Hashable, Any] = field(default_factory=dict)

    def of(self, part: str, choices: tuple[Hashable, ...], work: Callable[[], T]) -> T:
        """The part where it is known, else `work()`."""
        key = part, choices
        if key not in self.known:
            self.known[key] = work()
        value: T = self.known[key]
        return value
