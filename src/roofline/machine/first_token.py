"""How far the time to the first token scatters because of hosts, schedulers and load generators.

Kernels and steps have an interval by their law. The TTFT of a server holds two parts more, which differ from one
release of an engine, client and host to another: the time before the scheduler sees a request, and waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofline.declared.maths import Count, root
from roofline.machine.files import Tables

FILE = Path(__file__).with_name("first_token.toml")


@dataclass(frozen=True)
class Scatter:
    """What the logarithm of each part stays within, in four of five servers: waits, and by engine the host's time."""

    wait: float
    host: Mapping[str, float]

    def log(self, engine: str, host: Count, wait: Count) -> Count:
        """Of a TTFT that has these shares of both: √((host·h)² + (wait·w)²)."""
        return root((self.host.get(engine, 0.0) * host) ** 2 + (self.wait * wait) ** 2)


@cache
def scatter() -> Scatter:
    """The fitted constants."""
    return Tables(lambda _, table: Scatter(**table), FILE)["scatter"]
