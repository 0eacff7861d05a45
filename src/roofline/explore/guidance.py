"""What would help most: changes to how a model is served, each tried, the ones that gain most first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from roofline.estimates.generate import Generation, generate
from roofline.estimates.place import Place
from roofline.layout.layout import Layout, layout_named
from roofline.machine.engine import Engine
from roofline.model.errors import InputError
from roofline.model.model import Model
from roofline.model.precision import Precision


@dataclass(frozen=True)
class Served:
    """A way of serving: batch, prompt and answer, layout, formats."""

    on: Place
    layout: Layout
    batch: int
    input: int
    output: int
    precision: Precision
    engine: str | Engine | None = None

    def of(self, model: Model) -> Generation:
        """The generation."""
        return generate(
            model, on=self.on, layout=self.layout, batch=self.batch, input=self.input, output=self.output,
            precision=self.precision, engine=self.engine,
        )  # fmt: skip


@dataclass(frozen=True)
class Advice:
    """One change: in words, its options, and what it gives.

    `per_chip`: generated tokens per second and chip over those without it; `tpot` and `ttft`: times over those without.
    """

    what: str
    option: str
    generation: Generation
    per_chip: float
    tpot: float
    ttft: float


def rate(g: Generation) -> float:
    """Generated tokens per second and chip."""
    return g.tokens_per_second / g.where.chips


def advice(model: Model, now: Served, base: Generation) -> tuple[Advice, ...]:
    """Every change that can be made, by what it gains in tokens per second and chip, largest first."""
    found = []
    for what, option, other in changes(now):
        try:
            g = other.of(model)
        except InputError:  # the chip lacks a format, the memory room, or a degree does not divide
            continue
        if g.memory > g.chip.capacity:
            continue
        found.append(
            Advice(
                what, option, g, rate(g) / rate(base), _ratio(g.tpot.expected, base.tpot.expected),
                _ratio(g.ttft.expected, base.ttft.expected),
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda a: -a.per_chip))


def _ratio(after: float, before: float) -> float:
    return after / before if before else 1.0


def changes(now: Served) -> Iterator[tuple[str, str, Served]]:
    """What may be changed of how a model is served: formats, batch, layout."""
    formats = now.precision

    def with_formats(spec: dict[str, Any]) -> Served:
        return replace(now, precision=formats.merged(spec))

    if formats.ffn.bits > 8:
        yield "weights in 8 bits", "--precision weights=fp8", with_formats({"weights": "fp8"})
    if formats.ffn.bits > 4:
        yield "weights in 4 bits", "--precision weights=int4", with_formats({"weights": "int4"})
    if formats.kv.bits > 8:
        yield "KV cache in 8 bits", "--precision kv=fp8", with_formats({"kv": "fp8"})
    for factor in (2, 4):
        size = factor * now.batch
        yield f"a batch of {size}", f"--batch {size}", replace(now, batch=size)
    for degree in ("tp", "dp"):
        size = 2 * getattr(now.layout, degree)
        spread = replace(now.layout, **{degree: size})
        yield f"twice the {degree.upper()}", f"--layout {spread.text().replace(' ', '')}", replace(now, layout=spread)
    if now.layout.tp > 1:
        spread = replace(now.layout, tp=now.layout.tp // 2)
        yield "half the TP", f"--layout {spread.text().replace(' ', '')}", replace(now, layout=spread)


def served(
    model: Model, *, on: Place, layout: object = None, batch: int = 1, input: int = 1024, output: int = 256,
    precision: object = None, engine: str | Engine | None = None,
) -> Served:  # fmt: skip
    """A way of serving, its layout and formats understood. Raises InputError for what is not."""
    return Served(on, layout_named(layout), batch, input, output, model.precision.merged(precision), engine)
