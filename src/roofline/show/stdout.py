"""What becomes of stdout: a reader that left, a full disk, an encoding without our signs, Ctrl-C."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper


@contextmanager
def printing(program: str) -> Iterator[None]:
    """Around everything a command does. Exits with 0 where the reader of a pipe left, 130 on Ctrl-C, 2 with one line
    where stdout takes nothing; never with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # × and µ where the encoding has none
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _forget()
        raise SystemExit(0) from None
    except OSError as error:
        _forget()
        print(f"{program}: stdout: expected something that can be written to, got {error.strerror!r}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _forget() -> None:
    """What is left to print goes nowhere, so that Python does not stumble over it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
