"""Behaviour of stdout with a closed pipe, a full disk, a narrow encoding, or no stream; and signals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from threading import current_thread, main_thread
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals handled like Ctrl-C: incomplete output is removed."""


class EndedError(KeyboardInterrupt):
    """A signal asks the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def printing(program: str) -> Iterator[None]:
    """Context of every command. Exits with 0 if the reader of a pipe has left, 2 with one line if stdout cannot be
    written, and 128 plus the signal's number if a signal ends it (Ctrl-C 130, SIGTERM 143, SIGHUP 129); never with a
    traceback."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # × and µ where the encoding has none
    try:
        with _signals():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        _forget()
        raise SystemExit(0) from None
    except OSError as error:
        _forget()
        print(f"{program}: stdout: expected something that can be written to, got {error.strerror!r}", file=sys.stderr)
        raise SystemExit(2) from None
    except EndedError as error:
        raise SystemExit(128 + error.number) from None
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None


@contextmanager
def _signals() -> Iterator[None]:
    """Turn signals that end a process into exceptions, so that writers can clean up; ignored signals stay ignored."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        raise EndedError(number)

    ours = current_thread() is main_thread()
    taken = [s for s in ENDING if signal.getsignal(s) is signal.SIG_DFL] if ours else []
    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _open_streams() -> None:
    """Replace missing standard streams: printing to stdout fails as on a full disk, and stderr is discarded.

    Their file descriptors are taken, so that no file opened later gets one of them.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            taken = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if taken != number:
                os.dup2(taken, number)
                os.close(taken)
            stream = os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False)
            setattr(sys, name, stream)


def _forget() -> None:
    """Discard buffered output, so that Python does not fail on it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
