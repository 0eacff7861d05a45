"""A cache shared by training steps that differ only in ZeRO, chunks and recomputation."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from roofline.training.layouts.degrees import MicroBatches

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Shared:
    """Cached parts of training estimates with one model, batch, machine, recipe, and list of degrees and micro-batches.

    The key of a part is its name and those choices that it depends on. `among`: micro-batches of a whole search, whose
    layers are timed once for all of its lists. `alone`: only expected seconds are asked for.

    >>> shared = Shared()
    >>> shared.of("model", (), lambda: "once"), shared.of("model", (), lambda: "twice")
    ('once', 'once')
    """

    among: MicroBatches | None = None
    alone: bool = False
    known: dict[Hashable, Any] = field(default_factory=dict)

    def of(self, part: str, choices: tuple[Hashable, ...], work: Callable[[], T]) -> T:
        """The part from the cache, else computed by `work()`."""
        key = part, choices
        if key not in self.known:
            self.known[key] = work()
        value: T = self.known[key]
        return value
