"""The interval of a server's TTFT: the law's error of its steps, and the scatter of its host and its waits."""

from __future__ import annotations

from roofline.declared.numbers.maths import Count
from roofline.engines.first_token import scatter
from roofline.inference.settings import Setup
from roofline.inference.span import Span


def scattered(ttft: Span, asked: Setup, host: Count, wait: Count, alike: Count = False) -> Span:
    """Widen the interval of a TTFT by the measured scatter of host seconds and waits.

    `host`: seconds before a request is scheduled, `wait`: seconds of waiting, both part of the TTFT. `alike`: whether
    users send requests that are all equally long. Without an engine there is neither part, and a law that is not fitted
    has no interval; the TTFT is then unchanged.
    """
    engine = asked.engine
    if engine.id == "none" or asked.law.name != "calibrated":
        return ttft
    return ttft.scattered(scatter().log(engine.id, host / ttft.expected, wait / ttft.expected, alike))
