"""Where questions arrive: answers that are known are given at once, others come from a process, quick or patient."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.questions import QUESTIONS, Answered, AskedOfPage
from roofline.doors.web.workers import Workers

MOST_KEPT = 32 * 2**20
"""Bytes of answers that are remembered."""
LARGEST_SHARE = 1 / 16
"""Of what is remembered, that one answer may be."""
QUICK_S = 10.0
"""Seconds after which an answer that should be quick is given up."""


@dataclass
class KeptAnswers:
    """The answers that were used last, so many bytes of them: who moves a slider back asks the same again."""

    most: int = MOST_KEPT
    size: int = 0
    answers: OrderedDict[AskedOfPage, bytes] = field(default_factory=OrderedDict)

    def get(self, asked: AskedOfPage) -> bytes | None:
        """An answer that is known."""
        if asked in self.answers:
            self.answers.move_to_end(asked)
        return self.answers.get(asked)

    def put(self, asked: AskedOfPage, answer: bytes) -> None:
        """Remembers one, and forgets those that were used longest ago; one that is large is not remembered."""
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
    """`allowed`: what is looked up beyond the catalogs. Quick questions and long ones have processes of their own."""

    allowed: Allowed = NOTHING_MORE
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    quick: Workers = field(default_factory=lambda: Workers(2, QUICK_S))
    patient: Workers = field(default_factory=Workers)

    async def ask(self, asked: Sequence[AskedOfPage], gone: Callable[[], Awaitable[bool]]) -> list[Answered]:
        """An answer to each question, in order. Raises InputError where all of it takes too long."""
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
        """Ends the processes."""
        self.quick.close()
        self.patient.close()
