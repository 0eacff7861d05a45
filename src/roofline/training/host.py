"""Offloading: seconds for bytes over a chip's link to its host."""

from __future__ import annotations

from roofline.declared.errors import InputError
from roofline.declared.numbers.maths import Count
from roofline.hardware.chip import Chip
from roofline.inference.span import Span

HOST_SHARE = 0.8
"""Share of the host link's bandwidth that offloading achieves: an assumption."""


def to_host(size: Count, chip: Chip) -> Span:
    """Seconds for `size` bytes over the link to the host. Raises InputError where the link's bandwidth is not known."""
    if chip.host is None:
        raise InputError("offload", chip.id, "a chip whose link to the host is known")
    least_seconds = size / chip.host
    return Span(least_seconds, least_seconds / HOST_SHARE, least_seconds, 2 * least_seconds / HOST_SHARE)
