"""Devices as reported by a machine's tools, and a check on the tools' output."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.declared.errors import InputError

LARGEST_OUTPUT = 2 * 2**20
"""Maximum characters of a tool's output."""
MOST_DEVICES = 64
MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class Gpu:
    """A GPU as its driver reports it. `memory`: bytes. `units`: cores (SMs, CUs or Apple GPU cores). `cut`: the tool
    truncated the name. `shared`: it shares the host's memory."""

    name: str
    memory: float | None = None
    units: int | None = None
    cut: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Processor:
    """A CPU. `cores`: physical cores of all visible sockets. `clock`: Hz. `features`: instruction sets, by their Linux
    names."""

    name: str
    vendor: str = ""
    sockets: int = 1
    cores: int = 1
    clock: float | None = None
    cache: float | None = None
    features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Dimms:
    """Memory modules: channels in use, transfers per second of each channel, and total bytes."""

    channels: int
    transfers: float
    memory: float

    @property
    def bandwidth(self) -> float:
        """Bytes/s: 8 bytes per transfer and channel."""
        return self.channels * self.transfers * 8


def bounded_output(tool: str, text: str) -> str:
    """Remove control characters from a tool's output.

    Raises InputError if the text is longer than `LARGEST_OUTPUT`.
    """
    if len(text) > LARGEST_OUTPUT:
        raise InputError(tool, f"{len(text)} characters", f"at most {LARGEST_OUTPUT}")
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text.replace("\r\n", "\n"))
