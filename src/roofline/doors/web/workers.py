"""Processes that answer: so many at once, each ended when nobody waits any longer or it takes too long."""

from __future__ import annotations

import asyncio
import multiprocessing as mp
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from roofline.declared.errors import InputError
from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.questions import Answered, AskedOfPage, answered_all

PATIENCE_S = 30.0
"""Seconds after which a long answer is given up."""
LIFE = 2000
"""Lists of questions after which a fresh process takes the place of one, whose plans know ever more steps."""
LOOK_S = 0.05
"""Seconds between two looks at whether the client is still there."""


@dataclass
class Worker:
    """A process that answers one list of questions after another, and the pipe to it."""

    process: BaseProcess
    pipe: Connection
    asked: int = 0

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
    """At most `most` workers; who asks waits for one that is free, the first that came first.

    `first`: what a new one is asked before anybody waits for it.
    """

    most: int = 2
    patience: float = PATIENCE_S
    life: int = LIFE
    first: Sequence[AskedOfPage] = ()
    idle: list[Worker] = field(default_factory=list)
    renewals: set[asyncio.Task[None]] = field(default_factory=set)
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
            worker = await self._free()
            free = False
            try:
                worker.pipe.send((list(asked), allowed))
                answers = await self._wait(worker, asked, gone)
                free = True
            finally:
                if free:
                    self._back(worker)
                else:
                    worker.end()
        return answers

    async def _free(self) -> Worker:
        """An idle worker that still lives, else a new one: an idle process may have been killed from outside."""
        while self.idle:
            worker = self.idle.pop()
            if worker.process.is_alive():
                return worker
            worker.end()
        return await asyncio.to_thread(Worker.start)

    def _back(self, worker: Worker) -> None:
        """Into the row of those that are idle; one that has lived long enough until a fresh one is ready."""
        worker.asked += 1
        self.idle.append(worker)
        if worker.asked == self.life:
            task = asyncio.create_task(self._renew())
            self.renewals.add(task)
            task.add_done_callback(self.renewals.discard)

    async def _renew(self) -> None:
        fresh = await asyncio.to_thread(Worker.start)
        fresh.pipe.send((list(self.first), NOTHING_MORE))
        await asyncio.to_thread(fresh.pipe.poll, self.patience)
        if not fresh.pipe.poll():
            fresh.end()
            return
        fresh.pipe.recv()
        async with self.turns:
            if self.idle:
                worn = max(self.idle, key=lambda worker: worker.asked)
                self.idle.remove(worn)
                await asyncio.to_thread(worn.end)
            self.idle.append(fresh)

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

    async def prepare(self) -> None:
        """Starts all workers and has each answer `first`, so that those who ask next need not wait for imports."""
        await asyncio.gather(*(self.ask(self.first, NOTHING_MORE, _stays) for _ in range(self.most)))

    def close(self) -> None:
        """Ends all that are idle; those at work are ended by whoever waits for them."""
        for task in self.renewals:
            task.cancel()
        while self.idle:
            self.idle.pop().end()


async def _stays() -> bool:
    return False


def _late(asked: Sequence[AskedOfPage], patience: float) -> InputError:
    return InputError(asked[0][0], f"work of more than {patience:g} s", "a smaller question")
