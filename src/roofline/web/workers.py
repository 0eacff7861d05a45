"""Processes that answer: so many at once, each ended when nobody waits any longer or it takes too long."""

from __future__ import annotations

import asyncio
import multiprocessing as mp
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from roofline.model.errors import InputError
from roofline.web.choices import NOTHING_MORE, Allowed
from roofline.web.questions import Answered, AskedOfPage, answered_all

PATIENCE_S = 30.0
"""Seconds after which a long answer is given up."""
LOOK_S = 0.05
"""Seconds between two looks at whether the client is still there."""


@dataclass
class Worker:
    """A process that answers one list of questions after another, and the pipe to it."""

    process: Any
    pipe: Connection

    @classmethod
    def start(cls) -> Worker:
        """A new process, which imports the library before the first question."""
        context = mp.get_context("spawn")
        near, far = context.Pipe()
        process = context.Process(target=_work, args=(far,), daemon=True)
        process.start()
        far.close()
        return cls(process, near)

    def end(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection) -> None:
    """Answers until the pipe closes."""
    while True:
        try:
            asked, allowed = pipe.recv()
            pipe.send(answered_all(asked, allowed))
        except (EOFError, KeyboardInterrupt, BrokenPipeError):
            return


@dataclass
class Workers:
    """At most `most` workers; who asks waits for one that is free, the first that came first."""

    most: int = 2
    patience: float = PATIENCE_S
    idle: list[Worker] = field(default_factory=list)
    turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.turns = asyncio.Semaphore(self.most)

    async def ask(
        self, asked: Sequence[AskedOfPage], allowed: Allowed, gone: Callable[[], Awaitable[bool]]
    ) -> list[Answered]:
        """The answers. Raises InputError where they take too long; ends the work, or never begins it, if `gone`."""
        async with self.turns:
            if await gone():
                raise _late(asked, self.patience)
            worker = self.idle.pop() if self.idle else await asyncio.to_thread(Worker.start)
            free = False
            try:
                worker.pipe.send((list(asked), allowed))
                answers = await self._wait(worker, asked, gone)
                free = True
            finally:
                if free:
                    self.idle.append(worker)
                else:
                    worker.end()
        return answers

    async def _wait(
        self, worker: Worker, asked: Sequence[AskedOfPage], gone: Callable[[], Awaitable[bool]]
    ) -> list[Answered]:
        clock = asyncio.get_running_loop().time
        end = clock() + self.patience
        while not await asyncio.to_thread(worker.pipe.poll, LOOK_S):
            if not worker.process.is_alive():
                raise InputError(asked[0][0], "work beyond this server's memory", "a smaller question")
            if clock() > end or await gone():
                raise _late(asked, self.patience)
        try:
            answers: list[Answered] = worker.pipe.recv()
        except (EOFError, OSError) as error:
            raise InputError(asked[0][0], "work beyond this server's memory", "a smaller question") from error
        return answers

    async def prepare(self, asked: Sequence[AskedOfPage]) -> None:
        """Starts all workers and has each answer something, so that the first who ask need not wait for imports."""
        await asyncio.gather(*(self.ask(asked, NOTHING_MORE, _stays) for _ in range(self.most)))

    def close(self) -> None:
        """Ends all that are idle; those at work are ended by whoever waits for them."""
        while self.idle:
            self.idle.pop().end()


async def _stays() -> bool:
    return False


def _late(asked: Sequence[AskedOfPage], patience: float) -> InputError:
    return InputError(asked[0][0], f"work of more than {patience:g} s", "a smaller question")
