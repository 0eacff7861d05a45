"""Request dispatcher: cached answers first, then a pool of worker processes for quick or for long questions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.questions import QUESTIONS, Answered, AskedOfPage
from roofline.doors.web.server.fair_queue import NOBODY, Asker, Gone, QueueLimits
from roofline.doors.web.server.workers import NICENESS, PATIENCE_S, Workers

MOST_KEPT = 32 * 2**20
"""Capacity of the answer cache in bytes."""
LARGEST_SHARE = 1 / 16
"""Maximum share of the cache that one answer may occupy."""
QUICK_S = 20.0
"""Timeout in seconds of quick questions."""
SLOW_S = 1.0
"""Time in seconds after which a quick question goes on as a long one, if others wait."""
QUICK_QUEUE = QueueLimits(2, 2, 512, 256, 30.0)
LONG_QUEUE = QueueLimits(3, 2, 128, 32, 120.0)
"""Requests at work and in the queue, in all and of one client: those of quick questions and of long ones."""


@dataclass
class KeptAnswers:
    """LRU cache of answers, at most `most` bytes. Moving a slider back on the page repeats an earlier question."""

    most: int = MOST_KEPT
    size: int = 0
    answers: OrderedDict[AskedOfPage, bytes] = field(default_factory=OrderedDict)

    def get(self, asked: AskedOfPage) -> bytes | None:
        """Return the cached answer, or None."""
        if asked in self.answers:
            self.answers.move_to_end(asked)
        return self.answers.get(asked)

    def put(self, asked: AskedOfPage, answer: bytes) -> None:
        """Cache an answer and evict the least recently used ones; large answers are not cached."""
        if asked in self.answers or _bytes(asked, answer) > self.most * LARGEST_SHARE:
            return
        self.answers[asked] = answer
        self.size += _bytes(asked, answer)
        while self.size > self.most:
            self.size -= _bytes(*self.answers.popitem(last=False))


def _bytes(asked: AskedOfPage, answer: bytes) -> int:
    return len(asked[1]) + len(answer)


@dataclass
class Desk:
    """Cache and worker pools, one for quick questions and one for long ones. `allowed`: names beyond the catalogs."""

    allowed: Allowed = NOTHING_MORE
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    patient: Workers = field(
        default_factory=lambda: Workers(LONG_QUEUE.at_once, PATIENCE_S, niceness=NICENESS, limits=LONG_QUEUE)
    )
    quick: Workers = field(default_factory=lambda: Workers(QUICK_QUEUE.at_once, QUICK_S, limits=QUICK_QUEUE, spare=1))

    def __post_init__(self) -> None:
        self.quick.slow, self.quick.others = SLOW_S, self.patient

    async def ask(self, asked: Sequence[AskedOfPage], gone: Gone, asker: Asker = NOBODY) -> list[Answered]:
        """Answer each question, in order.

        Raises InputError if the questions together exceed the timeout, BusyError where too many wait.
        """
        known: dict[AskedOfPage, Answered] = {each: kept for each in asked if (kept := self.kept.get(each)) is not None}
        rest = [each for each in dict.fromkeys(asked) if each not in known]
        if rest:
            heavy = any(QUESTIONS[name].heavy for name, _ in rest)
            answers = await (self.patient if heavy else self.quick).ask(rest, self.allowed, gone, asker)
            for each, answer in zip(rest, answers, strict=True):
                known[each] = answer
                if isinstance(answer, bytes):
                    self.kept.put(each, answer)
        return [known[each] for each in asked]

    def places(self, asker: Asker) -> list[int]:
        """Places of a client's long questions in their queue, 1 for the next."""
        return self.patient.queue.places(asker)

    def close(self) -> None:
        """Stop the worker processes."""
        self.quick.close()
        self.patient.close()
