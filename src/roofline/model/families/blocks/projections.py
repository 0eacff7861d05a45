"""Projections by how tensor parallelism splits them (arXiv:1909.08053 §3)."""

from __future__ import annotations

from roofline.model.modules import Linear, Part


def column_product(
    name: str, inputs: int, outputs: int, bias: bool = False, part: Part = "attention", kv: int = 0, kv_groups: int = 1,
    beside: bool = False,
) -> Linear:  # fmt: skip
    """A column-parallel product: its outputs (heads, inner neurons) are split over the ranks."""
    return Linear(
        name=name, inputs=inputs, outputs=outputs, bias=bias, part=part, cut="columns", kv=kv, kv_groups=kv_groups,
        beside=beside,
    )  # fmt: skip


def row_product(name: str, inputs: int, outputs: int, bias: bool = False, part: Part = "attention") -> Linear:
    """A row-parallel product: its inputs are split over the ranks, and its outputs are summed."""
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias, part=part, cut="rows")


def replicated_product(
    name: str, inputs: int, outputs: int, bias: bool = False, beside: bool = False, stacked: int = 0
) -> Linear:
    """A replicated product of attention: every rank computes all of it, since all heads share its outputs."""
    return Linear(
        name=name, inputs=inputs, outputs=outputs, bias=bias, part="attention", beside=beside, stacked=stacked
    )
