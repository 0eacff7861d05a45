"""Work for many values on all cores of this machine, where processes can be forked without harm."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TypeVar

Value = TypeVar("Value")
Done = TypeVar("Done")
LEAST = 40
"""Values for which further processes are worth their start."""
MOST = 8
"""Processes at most."""
AT_A_TIME = 4
"""Values that a process takes at once."""


@contextmanager
def each_on_cores(function: Callable[[Value], Done], values: Sequence[Value]) -> Iterator[Iterator[Done]]:
    """`function(value)` for each value, in order.

    Everything is done in this process where there are few values, one core, or other threads, whose locks a forked
    process would keep for ever; and on macOS and Windows, where Python does not fork.
    """
    cores = min(MOST, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1
    if cores < 2 or len(values) < LEAST or threading.active_count() > 1:
        yield map(function, values)
        return
    from multiprocessing import get_context

    with closing(get_context("fork").Pool(cores, _ignore_interrupts)) as pool:
        try:
            yield pool.imap(function, values, AT_A_TIME)
        finally:
            pool.terminate()


def _ignore_interrupts() -> None:
    """Ctrl-C is for the process that waits for the answers, which then ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
