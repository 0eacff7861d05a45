"""From results of the library to what a picture shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from roofline.estimates.latency import Estimate
from roofline.estimates.place import Placed
from roofline.explore.marks import By, formats, marks, time_shares, work_shares
from roofline.explore.memory import MemoryCurve
from roofline.explore.sensitivity import KINDS, Answer, Point
from roofline.explore.sweep import DecodeMap, StepSweep, rates
from roofline.machine.chip import Chip
from roofline.model.model import Model
from roofline.model.modules import Add, Module
from roofline.show.analysis import precision_text, step_text
from roofline.show.estimate import place_text
from roofline.show.modules import group_of, in_words, layer_stack
from roofline.show.plots import data as d
from roofline.show.units import share, whole
from roofline.work.analysis import Analysis
from roofline.work.step import PHASES

PART_NAMES = {
    "attention": "attention", "ffn": "feed-forward", "experts": "routed experts", "router": "router",
    "embedding": "embedding", "head": "head", "other": "norms and the rest",
}  # fmt: skip
VECTOR_GROUPS = ("norm", "elementwise", "scan")


@dataclass(frozen=True)
class Timed:
    """A named step somewhere."""

    name: str
    where: Placed
    estimate: Estimate


def place_names(places: Sequence[Placed]) -> list[str]:
    """What places are called: chips and layout, and the cluster where these are those of another place too."""
    texts = [place_text(p) for p in places]
    alike = [{q for q, other in zip(places, texts, strict=True) if other == text} for text in texts]
    return [
        f"{text}, {p.cluster.name}" if len(same) > 1 else text
        for p, text, same in zip(places, texts, alike, strict=True)
    ]


def roof(chip: Chip, used: Sequence[str], links: bool = False, vector: bool = False) -> d.Roof:
    """A chip's ceilings in the formats used and its memory; its links and ordinary arithmetic where asked."""
    found = [d.Ceiling(f, chip.peak(f), chip.ridge(f)) for f in used if f in chip.peaks]
    if vector and chip.vector:
        peak = max(chip.vector.values())
        name = next(f for f, value in chip.vector.items() if value == peak)
        found.append(d.Ceiling(f"{name} vector", peak, peak / chip.bandwidth, vector=True))
    slopes = [d.Slope(chip.memory_kind or "memory", chip.bandwidth)]
    if links:
        pairs = ((chip.link_kind or "link", chip.link), (chip.host_kind or "host", chip.host))
        slopes += [d.Slope(name, rate, link=True) for name, rate in dict.fromkeys(pairs) if rate]
    return d.Roof(chip.name, tuple(sorted(found, key=lambda c: -c.peak)), tuple(slopes))


def roofline(timed: Sequence[Timed], by: By = "ops", links: bool = False) -> d.RooflinePlot:
    """Named steps, in one or several places, as points under the roof of a chip there."""
    panels: list[d.Panel] = []
    places = list(dict.fromkeys(t.where for t in timed))
    for where, place in zip(places, place_names(places), strict=True):
        here = [t for t in timed if t.where == where]
        found = [(t.name, mark) for t in here for mark in marks(t.estimate, by)]
        points = tuple(
            d.Point(name if by == "phases" else m.label, name if by == "phases" else m.group, name, m.intensity,
                    m.performance, m.light, m.share)
            for name, m in found
        )  # fmt: skip
        vector = any(p.group in VECTOR_GROUPS for p in points)
        whose = place if where.chips == 1 else f"one of {place}"
        drawn = roof(where.chip, formats(t.estimate for t in here), links, vector)
        panels.append(d.Panel(replace(drawn, chip=whose), points))
    title = _title(timed[0].estimate.analysis)
    alone = f" · {panels[0].roof.chip}" if len(panels) == 1 else ""
    return d.RooflinePlot(f"{title}{alone}", tuple(panels), _note(timed, by))


def _title(a: Analysis) -> str:
    return f"{a.model.name} · {precision_text(a.precision)}"


def _steps(pairs: Sequence[tuple[str, Analysis]]) -> str:
    return "; ".join(dict.fromkeys(f"{name} {step_text(a.step)}" for name, a in pairs))


def _note(timed: Sequence[Timed], by: By) -> str:
    where, first = timed[0].where, timed[0].estimate.analysis
    steps = _steps([(t.name, t.estimate.analysis) for t in timed])
    text = f"{steps} · counting {first.counting.name} · traffic {first.traffic.name}"
    if by == "ops":
        here = [t for t in timed if t.where == where]
        left = {t.name: share(1.0 - sum(m.share for m in marks(t.estimate, by)), 1.0) for t in here}
        listed = ", ".join(f"{part} of {name}" for name, part in left.items())
        text += f" · not drawn: what rides on these ops ({listed})"
    if first.traffic.unfused:
        text += " · expected times are those of fused kernels, which move less and may lie above this roof"
    return text


def shares(steps: Sequence[tuple[str, Analysis]], timed: Sequence[Timed] = ()) -> d.SharesPlot:
    """Shares of FLOPs and bytes of named steps, and of the expected time in each place."""
    bars: list[d.Bar] = []
    places = place_names([t.where for t in timed])
    for name, analysis in steps:
        bars += [d.Bar(name, what, _drawn(parts)) for what, parts in work_shares(analysis).items()]
        bars += [
            d.Bar(name, f"time, {place}", _drawn(time_shares(t.estimate)))
            for t, place in zip(timed, places, strict=True)
            if t.name == name
        ]
    a = steps[0][1]
    note = f"{_steps(steps)} · counting {a.counting.name} · traffic {a.traffic.name}"
    return d.SharesPlot(_title(a), tuple(bars), note)


def _drawn(parts: Any) -> tuple[tuple[str, float], ...]:
    return tuple((group, value) for group, value in parts.items() if value)


def sweep(sweeps: Sequence[StepSweep], places: Sequence[Placed]) -> d.SweepPlot:
    """Steps of a phase over an axis, a curve for each place."""
    first = sweeps[0]
    query = first.estimate.analysis.step.queries[0]
    length = query.cached if first.phase == "decode" else query.new
    fixed = f"context {length}" if first.over == "batch" else f"batch {query.count}"
    note = f"{first.phase}, {fixed} · band: 80 % of measurements · dotted: speed of light"
    entries = rates(first.estimate.analysis.model) if (first.phase, first.over) == ("decode", "context") else ()
    if entries:
        note += f" · not drawn: steps that complete a compressed entry of {' or '.join(map(str, entries))} tokens"
    curves = tuple(map(_curve, sweeps, place_names(places)))
    return d.SweepPlot(_title(first.estimate.analysis), first.phase, first.over, curves, note)


def _curve(s: StepSweep, place: str) -> d.Curve:
    e = s.estimate
    found = tuple(d.CrossingMark(c.at, f"{c.after} from {whole(c.at)}", c.of == "floor") for c in s.crossings)
    return d.Curve(
        place, _ints(s.values), _floats(s.tokens_per_second), _floats(e.time), _floats(e.interval[0]),
        _floats(e.interval[1]), _floats(e.serial_floor), found,
    )  # fmt: skip


def memory(model: Model, curve: MemoryCurve, places: Sequence[Placed] = ()) -> d.MemoryPlot:
    """What has to be in memory over the context, and where the chips end."""
    terms = tuple((name, _floats(values)) for name, values in curve.terms)
    whose = (
        name if where.chips == 1 else f"the fullest of {name}"
        for where, name in zip(places, place_names(places), strict=True)
    )
    limits = tuple(d.Capacity(n, x.chip.capacity, x.longest) for n, x in zip(whose, curve.limits, strict=True))
    note = f"batch {curve.batch} · GB = 10⁹ bytes"
    return d.MemoryPlot(model.name, _ints(curve.context), terms, limits, note)


def parameters(model: Model) -> d.ParametersPlot:
    """Parameters by part."""
    total = model.parameters
    ranked = sorted(model.parameters_by_part().items(), key=lambda item: -item[1])
    parts = tuple((PART_NAMES[part], n, n / total) for part, n in ranked)
    active = f" · {whole(model.active_parameters)} active" if model.active_parameters != total else ""
    return d.ParametersPlot(model.name, parts, total, f"{whole(total)} parameters{active}")


def decode_map(m: DecodeMap, where: Placed) -> d.MapPlot:
    """Decode over batch × context."""
    e = m.estimate
    rate, time, bound, fits = m.tokens_per_second, e.time, e.bound, m.fits
    rows = tuple(
        tuple(
            d.Cell(int(b), int(c), float(rate[i, j]), float(time[i, j]), str(bound[i, j]), bool(fits[i, j]))
            for j, c in enumerate(m.context)
        )
        for i, b in enumerate(m.batch)
    )
    return d.MapPlot(
        f"{_title(e.analysis)} · {place_text(where)}",
        rows,
        "decode · tokens/s of the whole batch · a cell's limit is that of the whole step",
    )


def tornado(p: Point, found: Sequence[Answer]) -> d.TornadoPlot:
    """How a prefill and a decode answer to each knob, deployment apart from architecture."""
    panels = []
    for phase, kind in product(PHASES, KINDS):
        here = sorted((a for a in found if (a.phase, a.kind) == (phase, kind)), key=lambda a: -a.swing)
        swings = tuple(
            d.Swing(a.knob, f"× {a.low:.3g}", f"× {a.high:.3g}", a.at_low, a.at_high, a.elasticity) for a in here
        )
        if swings:
            panels.append(d.TornadoPanel(phase, kind, swings))
    note = (
        f"prefill of {p.batch} × {p.prompted}, decode after {p.context}, on {place_text(p.where)} · time with one knob "
        "turned, over that with none · ε: elasticity, d log time / d log knob"
    )
    return d.TornadoPlot(f"{p.model.name} · {precision_text(p.precision)}", tuple(panels), note)


MOST_KINDS = 6
"""Kinds of layer that a diagram draws."""


def diagram(model: Model) -> d.DiagramPlot:
    """The model from embedding to head, and the modules of each kind of layer, the most frequent ones first."""
    ranked = sorted(model.blocks, key=lambda pair: -pair[1])
    drawn = ranked[:MOST_KINDS]
    runs = (d.Box(part, detail, "layers") for part, detail in layer_stack(model))
    whole_model = d.Stack("whole model", (*map(_box, model.embedding), *runs, *map(_box, model.head)))
    layers = tuple(d.Stack(f"{block.name} · {n} layers", tuple(map(_box, block.modules))) for block, n in drawn)
    left = len(ranked) - len(drawn)
    note = "modules in the order they run, with their sizes · a line on the left is the residual stream"
    note += f" · {left} rarer kinds of layer are not drawn" if left else ""
    return d.DiagramPlot(f"{model.name} · {whole(model.parameters)} parameters", whole_model, layers, note)


def _box(x: Module) -> d.Box:
    return d.Box(x.name, in_words(x), group_of(x), isinstance(x, Add) and x.name.endswith("residual"))


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in values)
