"""The interval of a server's TTFT: what the law knows of its steps, and what nobody knows of its host and its waits."""

from __future__ import annotations

from roofline.declared.maths import Count
from roofline.estimates.settings import Setup
from roofline.estimates.span import Span
from roofline.machine.first_token import scatter


def scattered(ttft: Span, asked: Setup, host: Count, wait: Count) -> Span:
    """A TTFT with the law's interval, of whose seconds `host` pass before a request is scheduled and `wait` in waits.

    Kernels alone have neither, and a law that is no fit has no interval.
    """
    engine = asked.engine
    if engine.id == "none" or asked.law.name != "calibrated":
        return ttft
    return ttft.scattered(scatter().log(engine.id, host / ttft.expected, wait / ttft.expected))
