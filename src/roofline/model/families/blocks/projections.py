"""Projections, by how tensor parallelism cuts them (arXiv:1909.08053 §3)."""

from __future__ import annotations

from roofline.model.modules import Linear, Part


def column_product(
    name: str, inputs: int, outputs: int, bias: bool = False, part: Part = "attention", kv: int = 0, kv_groups: int = 1,
    beside: bool = False,
) -> Linear:  # fmt: skip
    """A product whose outputs fall into pieces that do not need each other: heads, inner neurons."""
    return Linear(
        name=name, inputs=inputs, outputs=outputs, bias=bias, part=part, cut="columns", kv=kv, kv_groups=kv_groups,
        beside=beside,
    )  # fmt: skip


def row_product(name: str, inputs: int, outputs: int, bias: bool = False, part: Part = "attention") -> Linear:
    """A product that adds up the outputs of those pieces."""
    return Linear(name=name, inputs=inputs, outputs=outputs, bias=bias, part=part, cut="rows")


def replicated_product(
    name: str, inputs: int, outputs: int, bias: bool = False, beside: bool = False, stacked: int = 0
) -> Linear:
    """A product of attention that every rank does whole: its outputs are shared by all heads."""
    return Linear(
        name=name, inputs=inputs, outputs=outputs, bias=bias, part="attention", beside=beside, stacked=stacked
    )
