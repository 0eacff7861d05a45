"""What a real terminal gets of a command."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys

import pytest


def escaped(text: str) -> list[str]:
    """The lines without what only a terminal reads, and without what it clears again."""
    kept = re.sub(r"[^\n]*\x1b\[K", "", text)
    return re.sub(r"\x1b\[[0-9;]*m", "", kept).replace("\r", "").splitlines()


def seen(width: int, *words: str) -> list[str]:
    """The lines that stay on a real terminal `width` characters wide of a command; stderr is on it too."""
    return escaped(sent(width, *words))


def sent(width: int, *words: str) -> str:
    """All that a real terminal gets of a command."""
    fcntl, termios, pty = (pytest.importorskip(name) for name in ("fcntl", "termios", "pty"))
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm-256color"}
    command = [sys.executable, "-m", "roofline.doors.cli.main", *words]
    with subprocess.Popen(command, stdout=child, stderr=child, stdin=child, env=environment) as process:
        os.close(child)
        chunks = []
        try:
            while chunk := os.read(parent, 2**16):
                chunks.append(chunk)
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(parent)
    assert process.returncode == 0
    return b"".join(chunks).decode()
