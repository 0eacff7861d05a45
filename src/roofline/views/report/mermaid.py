"""The model's diagram as Mermaid text, for Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.declared.sanitize import inert_mermaid
from roofline.views.plots.data import Box, DiagramPlot, Stack


def mermaid(plot: DiagramPlot) -> str:
    """A flowchart of the whole model, and of each kind of layer with its residual stream."""
    lines = ["flowchart TB"]
    for i, stack in enumerate((plot.model, *plot.layers)):
        title = inert_mermaid(stack.title)
        lines += [f'  subgraph s{i}["{title}"]', "    direction TB", *_stack(stack, f"s{i}n"), "  end"]
    return "\n".join(lines)


def _stack(stack: Stack, prefix: str) -> Iterator[str]:
    start = f"{prefix}in"
    adds = any(box.adds for box in stack.boxes)
    if adds:
        yield f'    {start}(["stream in"])'
    yield from (f"    {prefix}{i}{_label(box)}" for i, box in enumerate(stack.boxes))
    if adds:
        yield f"    {start} --> {prefix}0"
    yield from (f"    {prefix}{a} --> {prefix}{b}" for a, b in stack.edges)
    for i, box in enumerate(stack.boxes):
        if box.adds:
            yield f"    {start} --> {prefix}{i}"
            start = f"{prefix}{i}"


def _label(box: Box) -> str:
    text = f"{inert_mermaid(box.label)}<br/>{inert_mermaid(box.detail)}"
    return f'(["+ {text}"])' if box.adds else f'["{text}"]'
