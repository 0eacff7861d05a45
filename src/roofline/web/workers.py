"""Processes for long answers: so many at once, each ended when nobody waits any longer or it takes too long."""

from __future__ import annotations

import asyncio
import multiprocessing as mp
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from roofline.model.errors import InputError

PATIENCE_S = 30.0
"""Seconds after which a long answer is given up."""
LOOK_S = 0.05
"""Seconds between two looks at whether the client is still there."""


@dataclass
class Worker:
    """A process that answers one question after another, and the pipe to it."""

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
    from roofline.web.answers import answered

    while True:
        try:
            name, body, hub = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(answered(name, body, hub))
        except (InputError, ArithmeticError, RecursionError, MemoryError) as error:
            pipe.send(error)
        except Exception as error:
            pipe.send(RuntimeError(f"{type(error).__name__}: {error}"))


@dataclass
class Workers:
    """At most `most` workers; a question waits for one that is free."""

    most: int = 2
    patience: float = PATIENCE_S
    idle: list[Worker] = field(default_factory=list)
    turns: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.turns = asyncio.Semaphore(self.most)

    async def ask(self, name: str, body: Any, hub: bool, gone: Callable[[], Awaitable[bool]]) -> dict[str, Any]:
        """The answer. Raises InputError as the answer does, and where it takes too long; ends the work if `gone`."""
        async with self.turns:
            worker = self.idle.pop() if self.idle else await asyncio.to_thread(Worker.start)
            free = False
            try:
                worker.pipe.send((name, body, hub))
                answer = await self._wait(worker, name, gone)
                free = True
            finally:
                if free:
                    self.idle.append(worker)
                else:
                    worker.end()
        if isinstance(answer, BaseException):
            raise answer
        return dict(answer)

    async def _wait(self, worker: Worker, name: str, gone: Callable[[], Awaitable[bool]]) -> Any:
        clock = asyncio.get_running_loop().time
        end = clock() + self.patience
        while not worker.pipe.poll():
            if not worker.process.is_alive():
                raise InputError(name, "work beyond this server's memory", "a smaller question")
            if clock() > end or await gone():
                raise InputError(name, f"work of more than {self.patience:g} s", "a smaller question")
            await asyncio.sleep(LOOK_S if clock() > end - self.patience + 0.2 else 0.005)
        return worker.pipe.recv()

    def close(self) -> None:
        """Ends all that are idle; those at work are ended by whoever waits for them."""
        while self.idle:
            self.idle.pop().end()
