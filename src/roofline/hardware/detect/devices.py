"""Devices as reported by a machine's tools, and a check on the tools' output."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.declared.errors import InputError

LARGEST_OUTPUT = 2 * 2**20
"""Most characters of a tool's output that are accepted."""
MOST_DEVICES = 64
MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class Gpu:
    """A GPU as its driver names it. `memory`: bytes reported by the driver. `units`: cores (SMs, CUs, Apple's cores).
    `cut`: the tool truncated its name. `shared`: its memory is the host's."""

    name: str
    memory: float | None = None
    units: int | None = None
    cut: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Processor:
    """The CPU. `cores`: physical cores of all visible sockets. `clock`: Hz. `features`: instruction sets by Linux's
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
    """Memory modules: channels in use, transfers per second of each, and total bytes."""

    channels: int
    transfers: float
    memory: float

    @property
    def bandwidth(self) -> float:
        """Bytes a second: 8 bytes a transfer and channel."""
        return self.channels * self.transfers * 8


def bounded_output(tool: str, text: str) -> str:
    """The text without control characters.

    Raises InputError for one that is too long to be a tool's.
    """
    if len(text) > LARGEST_OUTPUT:
        raise InputError(tool, f"{len(text)} characters", f"at most {LARGEST_OUTPUT}")
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text.replace("\r\n", "\n"))
