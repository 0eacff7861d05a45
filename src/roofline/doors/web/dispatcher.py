"""Request dispatcher: cached answers first, then a pool of worker processes for quick or for long questions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.questions import QUESTIONS, Answered, AskedOfPage
from roofline.doors.web.workers import Workers

MOST_KEPT = 32 * 2**20
"""Capacity of the answer cache in bytes."""
LARGEST_SHARE = 1 / 16
"""Maximum share of the cache that one answer may occupy."""
QUICK_S = 10.0
"""Timeout in seconds of quick questions."""


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
    quick: Workers = field(default_factory=lambda: Workers(2, QUICK_S))
    patient: Workers = field(default_factory=Workers)

    async def ask(self, asked: Sequence[AskedOfPage], gone: Callable[[], Awaitable[bool]]) -> list[Answered]:
        """Answer each question, in order. Raises InputError if the questions together exceed the timeout."""
        known: dict[AskedOfPage, Answered] = {each: kept for each in asked if (kept := self.kept.get(each)) is not None}
        rest = [each for each in dict.fromkeys(asked) if each not in known]
        if rest:
            heavy = any(QUESTIONS[name].heavy for name, _ in rest)
            answers = await (self.patient if heavy else self.quick).ask(rest, self.allowed, gone)
            for each, answer in zip(rest, answers, strict=True):
                known[each] = answer
                if isinstance(answer, bytes):
                    self.kept.put(each, answer)
        return [known[each] for each in asked]

    def close(self) -> None:
        """Stop the worker processes."""
        self.quick.close()
        self.patient.close()
