"""Pool of worker processes. A worker is killed if its client disconnects or its question times out; a question whose
worker died is asked again once.
"""

from __future__ import annotations

import asyncio
import multiprocessing as mp
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from os import PRIO_PROCESS, nice, setpriority

from roofline.declared.errors import InputError
from roofline.doors.memory_limit import limit_memory
from roofline.doors.web.allow_list import NOTHING_MORE, Allowed
from roofline.doors.web.questions import Answered, AskedOfPage, answered_all
from roofline.doors.web.server.fair_queue import NOBODY, Asker, BusyError, FairQueue, Gone, QueueLimits

PATIENCE_S = 30.0
"""Timeout in seconds of long questions."""
LIFE = 2000
"""Number of requests after which a worker is replaced, as its caches of compiled plans keep growing."""
LOOK_S = 0.05
"""Interval in seconds at which a waiting request checks whether its client is still connected."""
WORKER_MEMORY = 768 * 2**20
"""Bytes that a worker may write to beyond what it starts with."""
TRIES = 2
"""Times that a question is asked whose worker dies."""
START_S = 60.0
"""Time in seconds in which a new worker has to be ready; it is no time of its first question."""
READY = b"ready"
"""What a worker says before its first question."""
AT_ONCE_SENT = 32 * 1024
"""Maximum size in bytes of questions that a pipe takes at once; larger ones could wait for a worker that starts."""
NICENESS = 10
"""Niceness of workers that answer long questions: quick ones go first."""


@dataclass
class Worker:
    """A process that answers lists of questions one after another, and the pipe to it."""

    process: BaseProcess
    pipe: Connection
    asked: int = 0

    @classmethod
    def start(cls, niceness: int = 0) -> Worker:
        """Start a process, which has the library before its first question."""
        near, far = mp.Pipe()
        process = _process(far, niceness)
        process.start()
        far.close()
        return cls(process, near)

    def step_back(self) -> None:
        """Let other workers go first from now on."""
        if sys.platform != "win32" and self.process.pid is not None:
            with suppress(OSError):  # it may have ended
                setpriority(PRIO_PROCESS, self.process.pid, NICENESS)

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _process(pipe: Connection, niceness: int) -> BaseProcess:
    """A worker's process. On Linux it is a fork of a process of one thread that has imported the library, once for all
    of them: that takes milliseconds and shares its memory. Elsewhere it imports the library itself.
    """
    if sys.platform != "linux":
        return mp.get_context("spawn").Process(target=_work, args=(pipe, niceness), daemon=True)
    context = mp.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context.Process(target=_work, args=(pipe, niceness), daemon=True)


def _work(pipe: Connection, niceness: int) -> None:
    """Main loop of a worker: answer questions until the pipe closes."""
    if niceness and sys.platform != "win32":
        nice(niceness)
    limit_memory(WORKER_MEMORY)
    pipe.send(READY)
    while True:
        try:
            asked, allowed = pipe.recv()
            pipe.send(answered_all(asked, allowed))
        except (EOFError, KeyboardInterrupt, BrokenPipeError, ConnectionResetError):
            return


class WorkerDiedError(Exception):
    """A worker ended before it answered: killed by the system or by someone else."""


@dataclass
class Workers:
    """A pool of at most `most` workers. Requests wait for a free worker, shared fairly among clients.

    `first`: questions that warm up a new worker. `queue`: who waits. `slow`: seconds after which a question gives its
    place to the next one, if one waits: it goes on in the pool `others`, or waits there for its turn, if its client has
    work there already. `spare`: workers beyond `most` that stand ready to replace one that went or ended.
    """

    most: int = 2
    patience: float = PATIENCE_S
    life: int = LIFE
    first: Sequence[AskedOfPage] = ()
    idle: list[Worker] = field(default_factory=list)
    renewals: set[asyncio.Task[None]] = field(default_factory=set)
    niceness: int = 0
    limits: QueueLimits | None = None
    slow: float | None = None
    others: Workers | None = None
    spare: int = 0
    queue: FairQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = FairQueue(self.limits or QueueLimits(self.most, self.most, 256, 256))

    async def ask(
        self, asked: Sequence[AskedOfPage], allowed: Allowed, gone: Gone, asker: Asker = NOBODY
    ) -> list[Answered]:
        """Answer the questions.

        Raises InputError on timeout, or if `gone` reports that the client disconnected; BusyError where too many wait.
        """
        return await _Work(self, asked, allowed, gone, asker, self.patience).answered()

    async def free(self) -> Worker:
        """Return a live idle worker, else start one. Idle processes may have been killed by the system."""
        while self.idle:
            worker = self.idle.pop()
            if worker.process.is_alive():
                return worker
            worker.end()
        return await self.started()

    async def started(self) -> Worker:
        """A new worker that is ready. Raises BusyError where none can be started, WorkerDiedError where one ended."""
        try:
            worker = await asyncio.to_thread(Worker.start, self.niceness)
        except OSError as error:
            raise BusyError("processes and memory for another worker", self.queue.retry(1)) from error
        ready = False
        try:
            ready = await _readable(worker, START_S) and worker.pipe.recv() == READY
        except (EOFError, OSError) as error:
            raise WorkerDiedError from error
        finally:
            if not ready:
                worker.end()
        if not ready:
            raise BusyError("processes that start in time", self.queue.retry(1))
        return worker

    def back(self, worker: Worker) -> None:
        """Return a worker to the idle list. After `life` requests, start its replacement in the background."""
        worker.asked += 1
        self.idle.append(worker)
        if worker.asked == self.life:
            self._behind(self._renew())

    def went(self) -> None:
        """Start another worker in the background, if some are to stand ready: one is gone."""
        if self.spare:
            self._behind(self._refill())

    def adopts(self, worker: Worker, asker: Asker) -> bool:
        """Take over a worker of another pool with its question, if a place is free; an idle worker ends instead."""
        if not self.queue.takes(asker):
            return False
        if self.idle and len(self.idle) + self.queue.working.total() > self.most:
            self.idle.pop(0).end()
        worker.step_back()
        return True

    def _behind(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self.renewals.add(task)
        task.add_done_callback(self.renewals.discard)

    async def _fresh(self) -> Worker | None:
        """A new worker that has answered the first questions; None if it did not."""
        try:
            fresh = await self.started()
        except (BusyError, WorkerDiedError):
            return None
        with suppress(EOFError, OSError):
            fresh.pipe.send((list(self.first), NOTHING_MORE))
            if await _readable(fresh, self.patience):
                fresh.pipe.recv()
                return fresh
        fresh.end()
        return None

    async def _refill(self) -> None:
        if len(self.idle) < self.spare and (fresh := await self._fresh()) is not None:
            self.idle.append(fresh)

    async def _renew(self) -> None:
        fresh = await self._fresh()
        if fresh is None:
            return
        async with self.queue.turn(NOBODY, stays):
            if self.idle:
                worn = max(self.idle, key=lambda worker: worker.asked)
                self.idle.remove(worn)
                await asyncio.to_thread(worn.end)
            self.idle.append(fresh)

    async def prepare(self) -> None:
        """Start all workers and let each answer `first`, so that later requests do not wait for imports."""
        with suppress(BusyError):
            await asyncio.gather(*(self.ask(self.first, NOTHING_MORE, stays) for _ in range(self.most)))
        for _ in range(self.spare):
            if (fresh := await self._fresh()) is not None:
                self.idle.insert(0, fresh)

    def close(self) -> None:
        """Kill idle workers. A busy worker is killed by the request that waits for it."""
        for task in self.renewals:
            task.cancel()
        while self.idle:
            self.idle.pop().end()


@dataclass
class _Work:
    """Questions of one request on their way through a pool, and from there perhaps to another."""

    pool: Workers
    asked: Sequence[AskedOfPage]
    allowed: Allowed
    gone: Gone
    asker: Asker
    patience: float

    async def answered(self) -> list[Answered]:
        """The answers. Raises as `Workers.ask` does."""
        pool = self.pool
        async with pool.queue.turn(self.asker, self.gone) as has_turn:
            if not has_turn or await self.gone():
                raise self._late()
            answers = await self._tried()
        return await self._elsewhere(answers) if isinstance(answers, _Moved) else answers

    async def _tried(self) -> list[Answered] | _Moved:
        """The answers of a worker; asked again of a new one if it died, or lacked memory after others' questions."""
        for _ in range(TRIES - 1):
            with suppress(WorkerDiedError):
                worker = await self.pool.free()
                worn, answers = worker.asked > 0, await self._by(worker)
                if not (worn and _is_short_of_memory(answers)):
                    return answers
        try:
            return await self._by(await self.pool.started())
        except WorkerDiedError as error:
            raise self._died() from error

    async def _by(self, worker: Worker) -> list[Answered] | _Moved:
        """The answers of a worker, which is idle afterwards; or where it went on after it took long."""
        kept = False
        try:
            await _send(worker, (list(self.asked), self.allowed))
            answers = await self._wait(worker)
            kept = _is_sound(answers)
        finally:
            if not kept:
                worker.end()
                self.pool.went()
        if isinstance(answers, _Moved) and kept:
            self.pool.went()
        elif kept:
            self.pool.back(worker)
        return answers

    async def _elsewhere(self, moved: _Moved) -> list[Answered]:
        """The answers of a worker that another pool took over, or of that pool's own after another wait."""
        others, clock = self.pool.others, asyncio.get_running_loop().time
        assert others is not None
        if moved.worker is None:
            return await replace(self, pool=others).answered()
        kept = False
        try:
            answers = await self._until(moved.worker, moved.start + self.patience)
            kept = _is_sound(answers)
        except WorkerDiedError as error:
            raise self._died() from error
        finally:
            others.queue.leave(self.asker, clock() - moved.start)
            if not kept:
                moved.worker.end()
        if kept:
            others.back(moved.worker)
        return answers

    async def _wait(self, worker: Worker) -> list[Answered] | _Moved:
        """The answers, or the worker that goes on in the other pool."""
        pool, start = self.pool, asyncio.get_running_loop().time()
        if pool.slow is None or pool.others is None:
            return await self._until(worker, start + self.patience)
        end, looks = start + self.patience, start + pool.slow
        while looks < end:
            answers = await self._before(worker, looks)
            if answers is not None:
                return answers
            if pool.queue.waiting and pool.others.adopts(worker, self.asker):
                return _Moved(worker, start)
            if pool.queue.waiting and pool.others.queue.at_work(self.asker):
                return _Moved(None, start)
            looks += LOOK_S
        return await self._until(worker, end)

    async def _until(self, worker: Worker, end: float) -> list[Answered]:
        answers = await self._before(worker, end)
        if answers is None:
            raise self._late()
        return answers

    async def _before(self, worker: Worker, end: float) -> list[Answered] | None:
        """The answers, if they come before `end`. Raises WorkerDiedError, and InputError where the client left."""
        clock = asyncio.get_running_loop().time
        while not await _readable(worker, min(LOOK_S, max(0.0, end - clock()))):
            if not worker.process.is_alive() and not worker.pipe.poll():
                raise WorkerDiedError
            if await self.gone():
                raise self._late()
            if clock() >= end:
                return None
        try:
            answers: list[Answered] = worker.pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerDiedError from error
        return answers

    def _late(self) -> InputError:
        return InputError(self.asked[0][0], f"work of more than {self.patience:g} s", "a smaller question")

    def _died(self) -> InputError:
        return InputError(self.asked[0][0], "work that ended its process", "a smaller question")


@dataclass(frozen=True)
class _Moved:
    """A worker that another pool took over with its question, None where it had no place; and when that began."""

    worker: Worker | None
    start: float


def _is_sound(answers: list[Answered] | _Moved) -> bool:
    """Whether the worker goes on: not where it was given up, nor where it ran out of memory, at an import perhaps."""
    if isinstance(answers, _Moved):
        return answers.worker is not None
    return not _is_short_of_memory(answers)


def _is_short_of_memory(answers: list[Answered] | _Moved) -> bool:
    return not isinstance(answers, _Moved) and any(isinstance(answer, MemoryError) for answer in answers)


async def _send(worker: Worker, what: tuple[Sequence[AskedOfPage], Allowed]) -> None:
    try:
        if sum(len(body) for _, body in what[0]) > AT_ONCE_SENT:
            await asyncio.to_thread(worker.pipe.send, what)
        else:
            worker.pipe.send(what)
    except OSError as error:
        raise WorkerDiedError from error


async def _readable(worker: Worker, seconds: float) -> bool:
    """Whether a worker's pipe has something to read, or has been closed, within these seconds."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":  # its loop cannot watch a pipe
        return await asyncio.to_thread(worker.pipe.poll, seconds)
    if worker.pipe.poll():
        return True
    ready: asyncio.Future[None] = loop.create_future()
    pipe = worker.pipe.fileno()
    loop.add_reader(pipe, _set, ready)
    try:
        await asyncio.wait((ready,), timeout=seconds)
    finally:
        loop.remove_reader(pipe)
    return ready.done()


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def stays() -> bool:
    """A client that never disconnects."""
    return False
