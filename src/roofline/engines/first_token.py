"""Uncertainty of TTFT due to hosts, schedulers and load generators.

Times of kernels and steps have the interval of their law. A server's TTFT has two further parts, which vary between
releases of an engine, clients and hosts: the time until the scheduler sees a request, and waits in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from roofline.declared.numbers.maths import Count, root, where
from roofline.hardware.chip_files import Tables

FILE = Path(__file__).with_name("first_token.toml")


@dataclass(frozen=True)
class Scatter:
    """Log deviation that holds 80 % of servers, for each part: `wait`, and `host` by engine.

    `alike`: that of waits where users send requests that are all equally long. Those that begin together end together,
    so that prompts keep meeting, and how many do is a matter of chance.
    """

    wait: float
    alike: float
    host: Mapping[str, float]

    def log(self, engine: str, host: Count, wait: Count, alike: Count = False) -> Count:
        """Log deviation of a TTFT, given the shares of both parts in it: √((host·h)² + (wait·w)²)."""
        return root((self.host.get(engine, 0.0) * host) ** 2 + (where(alike, self.alike, self.wait) * wait) ** 2)


@cache
def scatter() -> Scatter:
    """The fitted constants."""
    return Tables(lambda _, table: Scatter(**table), FILE)["scatter"]
