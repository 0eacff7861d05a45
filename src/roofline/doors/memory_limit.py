"""A limit on the memory of a process, so that work beyond it is refused in a line instead of ended by the system."""

from __future__ import annotations

import sys
from pathlib import Path


def limit_memory(more: int) -> None:
    """Let this process write to at most `more` bytes beyond those it has; a limit that is lower already stays.

    What does not fit raises MemoryError. Does nothing where the system does not count them.
    """
    if sys.platform != "linux":
        return
    import resource

    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, ValueError, IndexError):
        return
    most = pages * resource.getpagesize() + more
    for known in resource.getrlimit(resource.RLIMIT_DATA):
        most = most if known == resource.RLIM_INFINITY else min(most, known)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
