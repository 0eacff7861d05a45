"""From results of the library to what a picture shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from roofline.estimates.latency import Estimate
from roofline.explore.marks import By, formats, marks, time_shares, work_shares
from roofline.explore.memory import MemoryCurve
from roofline.explore.sensitivity import KINDS, Answer, Point
from roofline.explore.sweep import PHASES, DecodeMap, StepSweep
from roofline.machine.chip import Chip
from roofline.model.model import Model
from roofline.model.modules import Add, Module
from roofline.show.analysis import precision_text, step_text
from roofline.show.estimate import place_text
from roofline.show.modules import group_of, in_words, layer_stack
from roofline.show.plots import data as d
from roofline.show.units import share, whole
from roofline.work.analysis import Analysis

PART_NAMES = {
    "attention": "attention", "ffn": "feed-forward", "experts": "routed experts", "router": "router",
    "embedding": "embedding", "head": "head", "other": "norms and the rest",
}  # fmt: skip
VECTOR_GROUPS = ("norm", "elementwise", "scan")
NamedEstimate = tuple[str, Estimate]


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


def roofline(estimates: Sequence[NamedEstimate], by: By = "ops", links: bool = False) -> d.RooflinePlot:
    """Named steps, on one or several chips, as points under their chips' roofs."""
    panels: list[d.Panel] = []
    for chip in dict.fromkeys(e.chip for _, e in estimates):
        here = [(name, e) for name, e in estimates if e.chip == chip]
        found = [(name, mark) for name, e in here for mark in marks(e, by)]
        points = tuple(
            d.Point(name if by == "phases" else m.label, name if by == "phases" else m.group, name, m.intensity,
                    m.performance, m.light, m.share)
            for name, m in found
        )  # fmt: skip
        vector = any(p.group in VECTOR_GROUPS for p in points)
        panels.append(d.Panel(roof(chip, formats(e for _, e in here), links, vector), points))
    return d.RooflinePlot(_title(estimates[0][1].analysis), tuple(panels), _note(estimates, by))


def _title(a: Analysis) -> str:
    return f"{a.model.name} · {precision_text(a.precision)}"


def _steps(pairs: Sequence[tuple[str, Analysis]]) -> str:
    return "; ".join(dict.fromkeys(f"{name} {step_text(a.step)}" for name, a in pairs))


def _note(estimates: Sequence[NamedEstimate], by: By) -> str:
    first = estimates[0][1]
    steps = _steps([(name, e.analysis) for name, e in estimates])
    text = f"{steps} · counting {first.analysis.counting.name} · traffic {first.analysis.traffic.name}"
    if by == "ops":
        left = {}
        for name, e in estimates:
            if e.chip == first.chip:
                left[name] = share(1.0 - sum(m.share for m in marks(e, by)), 1.0)
        listed = ", ".join(f"{part} of {name}" for name, part in left.items())
        text += f" · not drawn: what rides on these ops ({listed})"
    if first.analysis.traffic.unfused:
        text += " · expected times are those of fused kernels, which move less and may lie above this roof"
    return text


def shares(steps: Sequence[tuple[str, Analysis]], estimates: Sequence[NamedEstimate] = ()) -> d.SharesPlot:
    """Shares of FLOPs and bytes of named steps, and of the expected time on each chip."""
    bars: list[d.Bar] = []
    for name, analysis in steps:
        bars += [d.Bar(name, what, _drawn(parts)) for what, parts in work_shares(analysis).items()]
        timed = [e for other, e in estimates if other == name]
        bars += [d.Bar(name, f"time, {e.chip.name}", _drawn(time_shares(e))) for e in timed]
    a = steps[0][1]
    note = f"{_steps(steps)} · counting {a.counting.name} · traffic {a.traffic.name}"
    return d.SharesPlot(_title(a), tuple(bars), note)


def _drawn(parts: Any) -> tuple[tuple[str, float], ...]:
    return tuple((group, value) for group, value in parts.items() if value)


def sweep(sweeps: Sequence[StepSweep]) -> d.SweepPlot:
    """Steps of a phase over an axis, a curve for each place."""
    first = sweeps[0]
    query = first.estimate.analysis.step.queries[0]
    length = query.cached if first.phase == "decode" else query.new
    fixed = f"context {length}" if first.over == "batch" else f"batch {query.count}"
    note = f"{first.phase}, {fixed} · band: 80 % of measurements · dotted: speed of light"
    return d.SweepPlot(_title(first.estimate.analysis), first.phase, first.over, tuple(map(_curve, sweeps)), note)


def _curve(s: StepSweep) -> d.Curve:
    e = s.estimate
    found = tuple(d.CrossingMark(c.at, f"{c.after} from {whole(c.at)}", c.of == "floor") for c in s.crossings)
    return d.Curve(
        e.chip.name, _ints(s.values), _floats(s.tokens_per_second), _floats(e.time), _floats(e.interval[0]),
        _floats(e.interval[1]), _floats(e.serial_floor), found,
    )  # fmt: skip


def memory(model: Model, curve: MemoryCurve) -> d.MemoryPlot:
    """What has to be in memory over the context, and where the chips end."""
    terms = tuple((name, _floats(values)) for name, values in curve.terms)
    limits = tuple(d.Capacity(x.chip.name, x.chip.capacity, x.longest) for x in curve.limits)
    note = f"batch {curve.batch} · GB = 10⁹ bytes"
    return d.MemoryPlot(model.name, _ints(curve.context), terms, limits, note)


def parameters(model: Model) -> d.ParametersPlot:
    """Parameters by part."""
    total = model.parameters
    ranked = sorted(model.parameters_by_part().items(), key=lambda item: -item[1])
    parts = tuple((PART_NAMES[part], n, n / total) for part, n in ranked)
    active = f" · {whole(model.active_parameters)} active" if model.active_parameters != total else ""
    return d.ParametersPlot(model.name, parts, total, f"{whole(total)} parameters{active}")


def decode_map(m: DecodeMap) -> d.MapPlot:
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
        f"{_title(e.analysis)} · {e.chip.name}",
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
