"""Pool of worker processes. A worker is killed if its client disconnects or its question times out."""

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
"""Timeout in seconds of long questions."""
LIFE = 2000
"""Number of requests after which a worker is replaced, as its caches of compiled plans keep growing."""
LOOK_S = 0.05
"""Interval in seconds at which a waiting request checks whether its client is still connected."""


@dataclass
class Worker:
    """A process that answers lists of questions one after another, and the pipe to it."""

    process: BaseProcess
    pipe: Connection
    asked: int = 0

    @classmethod
    def start(cls) -> Worker:
        """Start a process, which imports the library before its first question."""
        context = mp.get_context("spawn")
        near, far = context.Pipe()
        process = context.Process(target=_work, args=(far,), daemon=True)
        process.start()
        far.close()
        return cls(process, near)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection) -> None:
    """Main loop of a worker: answer questions until the pipe closes."""
    while True:
        try:
            asked, allowed = pipe.recv()
            pipe.send(answered_all(asked, allowed))
        except (EOFError, KeyboardInterrupt, BrokenPipeError):
            return


@dataclass
class Workers:
    """A pool of at most `most` workers. Requests wait for a free worker in order of arrival.

    `first`: questions that warm up a new worker.
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
        """Answer the questions. Raises InputError on timeout, or if `gone` reports that the client disconnected."""
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
        """Return a live idle worker, else start one. Idle processes may have been killed by the system."""
        while self.idle:
            worker = self.idle.pop()
            if worker.process.is_alive():
                return worker
            worker.end()
        return await asyncio.to_thread(Worker.start)

    def _back(self, worker: Worker) -> None:
        """Return a worker to the idle list. After `life` requests, start its replacement in the background."""
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
        """Start all workers and let each answer `first`, so that later requests do not wait for imports."""
        await asyncio.gather(*(self.ask(self.first, NOTHING_MORE, _stays) for _ in range(self.most)))

    def close(self) -> None:
        """Kill idle workers. A busy worker is killed by the request that waits for it."""
        for task in self.renewals:
            task.cancel()
        while self.idle:
            self.idle.pop().end()


async def _stays() -> bool:
    return False


def _late(asked: Sequence[AskedOfPage], patience: float) -> InputError:
    return InputError(asked[0][0], f"work of more than {patience:g} s", "a smaller question")
