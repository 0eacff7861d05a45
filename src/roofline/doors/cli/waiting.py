"""What a terminal sees while a command works: its name and the seconds so far, until the command prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from typing import TextIO

FIRST = 0.25
"""Seconds without a word before the line appears."""
EVERY = 1.0
"""Seconds between two states of the line."""
SERVING = frozenset({"web", "mcp"})
"""Commands that work until they are stopped."""


@contextmanager
def waiting(command: str) -> Iterator[None]:
    """On a terminal a line on stderr that counts the seconds; the first output of the command takes its place."""
    if command in SERVING or not sys.stderr.isatty():
        yield
        return
    line = _Line(command)
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Watched(stream, line.end) for stream in streams)
    line.start()
    try:
        yield
    finally:
        line.end()
        sys.stdout, sys.stderr = streams


def stop_waiting() -> None:
    """End the line and its thread, before a progress bar takes its place or a process is forked."""
    if isinstance(sys.stderr, _Watched):
        sys.stderr.write("")


class _Line(Thread):
    """Writes the line and rewrites it every second."""

    def __init__(self, command: str) -> None:
        super().__init__(daemon=True)
        self._command, self._stream = command, sys.stderr
        self._ended, self._lock, self._shown = Event(), Lock(), False

    def run(self) -> None:
        """Until `end`."""
        start, pause = monotonic(), FIRST
        while not self._ended.wait(pause):
            with self._lock:
                if self._ended.is_set():
                    return
                seconds = int(monotonic() - start)
                self._stream.write(f"\r\x1b[K{self._command} …{f' {seconds} s' if seconds else ''}")
                self._stream.flush()
                self._shown = True
            pause = EVERY

    def end(self) -> None:
        """Clear the line, once, and end the thread."""
        with self._lock:
            if self._shown and not self._ended.is_set():
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            self._ended.set()
        self.join()


class _Watched:
    """A stream that says when it is first written to."""

    def __init__(self, stream: TextIO, written: Callable[[], None]) -> None:
        self._stream, self._written = stream, written

    def write(self, text: str) -> int:
        """As the stream itself."""
        self._written()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)
