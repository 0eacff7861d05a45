"""Run a task for numbered pieces, in this process or on the workers of a Dask cluster, and return results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from roofline.declared.errors import InputError
from roofline.declared.kinds import Given
from roofline.extras import install_line

Done = TypeVar("Done")
AHEAD = 3
"""Pieces per worker in flight; finished pieces wait in memory for their turn."""
CONNECT_S = 10.0
"""Timeout in seconds for a scheduler to answer."""
RETRIES = 5
"""Number of times a piece is restarted when its worker is lost."""


def each_in_order(task: Callable[[int], Done], numbers: Iterable[int], cluster: Given = None) -> Iterator[Done]:
    """`task(number)` for each number, in order.

    `cluster`: None for this process, `local` for workers on this machine, the address of a Dask scheduler, or anything
    a Dask client accepts. The pieces of a lost worker are computed by others. Raises InputError where Dask is not
    installed or the scheduler does not answer.
    """
    if cluster is None:
        return map(task, numbers)
    return _on_workers(task, numbers, cluster)


def _on_workers(task: Callable[[int], Done], numbers: Iterable[int], cluster: Given) -> Iterator[Done]:
    with _client(cluster) as client:
        shared = client.scatter(task, broadcast=True, hash=False)
        waiting: deque[Any] = deque()
        limit = AHEAD * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        for number in numbers:
            waiting.append(client.submit(_call, shared, number, pure=False, retries=RETRIES))
            if len(waiting) >= limit:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _call(task: Callable[[int], Done], number: int) -> Done:
    return task(number)


@contextmanager
def _client(cluster: Given) -> Iterator[Any]:
    """A client of the cluster; for `local`, with one worker per core."""
    try:
        dask = import_module("distributed")
    except ImportError:
        raise InputError("cluster", cluster, f"Dask beside this package: {install_line('cluster')}") from None
    own = None
    try:
        if cluster == "local":
            own = dask.LocalCluster(threads_per_worker=1, dashboard_address=None, silence_logs=40)
        with dask.Client(own or cluster, timeout=CONNECT_S) as client:
            yield client
    except (OSError, TimeoutError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("cluster", cluster, "local, or the address of a Dask scheduler that answers") from None
    finally:
        if own is not None:
            own.close()
