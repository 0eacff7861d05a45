"""Converts the library's results to the content of pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

import numpy as np

from roofline.declared.errors import InputError
from roofline.declared.numbers.units import share, whole
from roofline.declared.result import FigureValue
from roofline.engines.engine import Engine
from roofline.hardware.chip import Chip
from roofline.inference.deployment import Deployment
from roofline.inference.step import Estimate
from roofline.kernels.power import draw_of, energy_balance, work_per_joule
from roofline.model.model import Model
from roofline.model.modules import Add, Module
from roofline.model.summary import GROUPS, in_words, layer_stack
from roofline.serving.simulate.simulation import Simulation
from roofline.views.plots import data as d
from roofline.views.text.inference.analysis import step_text
from roofline.views.text.inference.estimate import deployment_text
from roofline.whatif.markers import By, Point, formats, points, time_shares, work_shares
from roofline.whatif.search.memory import MemoryCurve
from roofline.whatif.sensitivity.tornado import KINDS, Answer, OperatingPoint
from roofline.whatif.sweep.branches import lanes
from roofline.whatif.sweep.crossovers import DecodeMap, StepSweep, rates
from roofline.work.analysis import Analysis
from roofline.work.step import PHASES

PART_NAMES = {
    "attention": "attention", "ffn": "feed-forward", "experts": "routed experts", "router": "router",
    "embedding": "embedding", "head": "head", "other": "norms and the rest",
}  # fmt: skip
VECTOR_GROUPS = ("norm", "elementwise", "scan")


@dataclass(frozen=True)
class NamedEstimate:
    """A named step under a deployment. `fits`: whether it fits in memory."""

    name: str
    estimate: Estimate
    fits: bool

    @property
    def deployment(self) -> Deployment:
        """Chips and layout."""
        return self.estimate.deployment

    @property
    def ran(self) -> Ran:
        """Engine, step name and deployment."""
        return self.estimate.engine, self.name, self.deployment


def deployment_names(deployments: Sequence[Deployment]) -> list[str]:
    """Names of deployments: chips and layout, with the cluster if these are not unique."""
    texts = [deployment_text(x) for x in deployments]
    alike = [{y for y, other in zip(deployments, texts, strict=True) if other == text} for text in texts]
    return [
        f"{text}, {x.cluster.name}" if len(same) > 1 else text
        for x, text, same in zip(deployments, texts, alike, strict=True)
    ]


Ran: TypeAlias = tuple[Engine, str, Deployment]
"""Engine, name of the step, and deployment."""


def engines_text(ran: Sequence[Ran]) -> str:
    """Engines of what is drawn, by step or place where they differ."""
    names = {engine.titled for engine, _, _ in ran}
    if len(names) <= 1:
        return "".join(names)
    steps, chips = [step for _, step, _ in ran], [deployment_text(deployment) for _, _, deployment in ran]
    both = [f"{step} on {chip}" for step, chip in zip(steps, chips, strict=True)]
    engines = [engine.titled for engine, _, _ in ran]
    places = next(p for p in (steps, chips, both) if len(set(zip(p, engines, strict=True))) == len(set(p)))
    where: dict[str, dict[str, None]] = {}
    for name, place in zip(engines, places, strict=True):
        where.setdefault(name, {})[place] = None
    return "; ".join(f"{', '.join(those)}: {name}" for name, those in where.items())


def roof(chip: Chip, used: Sequence[str], links: bool = False, vector: bool = False) -> d.DrawnRoof:
    """Ceilings of a chip in the formats used, and its memory slope; on request links and vector arithmetic."""
    ceilings = [d.Ceiling(f, chip.peak(f), chip.ridge(f)) for f in used if f in chip.peaks]
    if vector and chip.vector:
        peak = max(chip.vector.values())
        name = next(f for f, value in chip.vector.items() if value == peak)
        ceilings.append(d.Ceiling(f"{name} vector", peak, peak / chip.bandwidth, vector=True))
    slopes = [d.Slope(chip.memory_kind or "memory", chip.bandwidth)]
    slopes += [d.Slope(tier.kind or tier.name, tier.bandwidth) for tier in chip.tiers]
    if links:
        pairs = ((chip.link_kind or "link", chip.link), (chip.host_kind or "host", chip.host))
        slopes += [d.Slope(name, rate, link=True) for name, rate in dict.fromkeys(pairs) if rate]
    return d.DrawnRoof(chip.name, tuple(sorted(ceilings, key=lambda c: -c.peak)), tuple(slopes))


def roofline_plot(timed: Sequence[NamedEstimate], by: By = "ops", links: bool = False) -> d.RooflinePlot:
    """Named steps in one or several places as points under the roofs of the chips."""
    panels: list[d.Panel] = []
    for whose, steps in _places(timed):
        deployment = steps[0].deployment
        placed = tuple(_placed(t, p, by, p.performance, p.light) for t in steps for p in points(t.estimate, by))
        vector = any(p.group in VECTOR_GROUPS for p in placed)
        drawn = roof(deployment.chip, formats(t.estimate for t in steps), links, vector)
        panels.append(d.Panel(replace(drawn, chip=whose), placed))
    title = _title(timed[0].estimate.analysis)
    alone = f" · {panels[0].roof.chip}" if len(panels) == 1 else ""
    return d.RooflinePlot(f"{title}{alone}", tuple(panels), _note(timed, by), all(t.fits for t in timed))


def _places(timed: Sequence[NamedEstimate]) -> Iterator[tuple[str, list[NamedEstimate]]]:
    """The steps of each place, with the name of the chip that does them."""
    deployments = list(dict.fromkeys(t.deployment for t in timed))
    for deployment, text in zip(deployments, deployment_names(deployments), strict=True):
        steps = [t for t in timed if t.deployment == deployment]
        yield text if deployment.chips == 1 else f"one of {text}", steps


def _placed(t: NamedEstimate, p: Point, by: By, performance: float, light: float) -> d.RooflinePoint:
    """A point of a step, named by its phase where a point is a phase."""
    label, group = (t.name, t.name) if by == "phases" else (p.label, p.group)
    return d.RooflinePoint(label, group, t.name, p.intensity, performance, light, p.share)


ARCH = 97
"""Places at which an arch is worked out."""
BEYOND = 4.0
"""Factor between the outermost point or ridge and the ends of an arch."""


def energy_plot(timed: Sequence[NamedEstimate], by: By = "ops") -> d.EnergyPlot:
    """Named steps in one or several places as points under the energy arches of the chips.

    Raises InputError for a chip whose power is not known.
    """
    panels: list[d.EnergyPanel] = []
    for whose, steps in _places(timed):
        chip = steps[0].deployment.chip
        draw = draw_of(chip)
        if draw is None:
            raise InputError("on", chip.id, "a chip whose TDP is known, for a picture of energy")
        placed = tuple(
            _placed(t, p, by, p.work_per_joule, p.light_per_joule)
            for t in steps for p in points(t.estimate, by)
            if p.work_per_joule is not None and p.light_per_joule is not None
        )  # fmt: skip
        peaks = [(f, chip.peak(f), chip.ridge(f)) for f in formats(t.estimate for t in steps) if f in chip.peaks]
        reach = [*(p.intensity for p in placed), *(ridge for _, _, ridge in peaks)]
        intensity = np.geomspace(min(reach) / BEYOND, max(reach) * BEYOND, ARCH)
        arches = tuple(
            d.EnergyArch(
                f, _floats(intensity), _floats(work_per_joule(draw, chip, peak, intensity)),
                float(work_per_joule(draw, chip, peak, np.inf)), ridge, energy_balance(draw, chip, peak),
            )
            for f, peak, ridge in sorted(peaks, key=lambda item: -item[1])
        )  # fmt: skip
        panels.append(d.EnergyPanel(whose, arches, placed, draw.most, draw.low, draw.high, draw.grade))
    title = _title(timed[0].estimate.analysis)
    alone = f" · {panels[0].chip}" if len(panels) == 1 else ""
    boards = "; ".join(f"{p.chip}: × {p.low:g} to {p.high:g}, grade {p.grade}" for p in panels)
    note = f"{_note(timed, by)} · joules of one board with its memory; 80 % of boards draw {boards}"
    return d.EnergyPlot(f"{title}{alone}", tuple(panels), note, all(t.fits for t in timed))


def _title(a: Analysis) -> str:
    return f"{a.model.name} · {a.precision.text()}"


def _steps(pairs: Sequence[tuple[str, Analysis]]) -> str:
    return "; ".join(dict.fromkeys(f"{name} {step_text(a.step)}" for name, a in pairs))


def _note(timed: Sequence[NamedEstimate], by: By) -> str:
    deployment, first = timed[0].deployment, timed[0].estimate.analysis
    steps = _steps([(t.name, t.estimate.analysis) for t in timed])
    text = f"{steps} · {engines_text([t.ran for t in timed])}"
    text += f" · counting {first.counting.name} · traffic {first.traffic.name}"
    if by == "ops":
        steps_there = [t for t in timed if t.deployment == deployment]
        left = {t.name: share(1.0 - sum(p.share for p in points(t.estimate, by)), 1.0) for t in steps_there}
        listed = ", ".join(f"{part} of {name}" for name, part in left.items())
        text += f" · elementwise ops fused into neighbours are not shown ({listed})"
        if any(sum(1 for _ in points(t.estimate, by)) > d.MOST_NAMED for t in timed):
            text += f" · named: the {d.MOST_NAMED} ops of each phase that take most time"
    if first.traffic.unfused:
        text += " · expected times are those of fused kernels, which move less and may lie above this roof"
    return text


def shares_plot(steps: Sequence[tuple[str, Analysis]], timed: Sequence[NamedEstimate] = ()) -> d.SharesPlot:
    """Shares of FLOPs and bytes of named steps, and of expected time in each place."""
    bars: list[d.Bar] = []
    names = deployment_names([t.deployment for t in timed])
    for name, analysis in steps:
        bars += [d.Bar(name, what, _drawn(parts)) for what, parts in work_shares(analysis).items()]
        bars += [
            d.Bar(name, f"time, {deployment}", _drawn(time_shares(t.estimate)))
            for t, deployment in zip(timed, names, strict=True)
            if t.name == name
        ]
    a = steps[0][1]
    note = f"{_steps(steps)} · counting {a.counting.name} · traffic {a.traffic.name}"
    if timed:
        note += f" · times: {engines_text([t.ran for t in timed])}"
    return d.SharesPlot(_title(a), tuple(bars), note, all(t.fits for t in timed))


def _drawn(parts: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((group, value) for group, value in parts.items() if value)


def sweep_plot(sweeps: Sequence[StepSweep]) -> d.SweepPlot:
    """Steps of a phase over an axis, with a curve for each deployment."""
    first = sweeps[0]
    query = first.estimate.step.queries[0]
    length = query.cached if first.phase == "decode" else query.new
    fixed = f"context {length}" if first.over == "batch" else f"batch {query.count}"
    whose = engines_text([(s.estimate.engine, "", s.estimate.deployment) for s in sweeps])
    note = f"{first.phase}, {fixed} · {whose} · band: 80 % of measurements · dotted: speed of light"
    entries = rates(first.estimate.analysis.model) if (first.phase, first.over) == ("decode", "context") else ()
    if entries:
        note += f" · not drawn: steps that complete a compressed entry of {' or '.join(map(str, entries))} tokens"
    curves = tuple(map(_curve, sweeps, deployment_names([s.estimate.deployment for s in sweeps])))
    note += "".join(f" · {text}" for text in map(_ends, sweeps) if text)
    fits = all(bool(np.any(s.estimate.fits)) for s in sweeps)
    return d.SweepPlot(_title(first.estimate.analysis), first.phase, first.over, curves, note, fits)


def _ends(s: StepSweep) -> str:
    """The value from which memory is too small; None if it suffices throughout."""
    if s.unfit_from is None:
        return ""
    return f"beyond the memory of {s.estimate.chip.name} from {s.over} {whole(s.unfit_from)}"


def _curve(s: StepSweep, name: str) -> d.Curve:
    e = s.estimate
    labels = tuple(d.CrossingLabel(c.at, f"{c.after} from {whole(c.at)}", c.of == "floor") for c in s.crossings)
    return d.Curve(
        name, _ints(s.values), _floats(s.tokens_per_second), _floats(e.time), _floats(e.interval[0]),
        _floats(e.interval[1]), _floats(e.serial_floor), labels, s.unfit_from,
    )  # fmt: skip


def memory_plot(model: Model, curve: MemoryCurve) -> d.MemoryPlot:
    """Memory over context, with the capacities of chips."""
    terms = tuple((name, _floats(values)) for name, values in curve.terms)
    deployments = [limit.deployment for limit in curve.limits]
    capacities = (
        name if x.chips == 1 else f"the fullest of {name}"
        for x, name in zip(deployments, deployment_names(deployments), strict=True)
    )
    limits = tuple(
        d.Capacity(name, x.deployment.chip.whole_capacity, x.longest)
        for name, x in zip(capacities, curve.limits, strict=True)
    )
    whose = engines_text([(x.engine, "", x.deployment) for x in curve.limits])
    note = " · ".join(filter(None, (f"batch {curve.batch}", whose, "GB = 10⁹ bytes")))
    fits = not limits or any(x.longest != 0 for x in limits)
    return d.MemoryPlot(model.name, _ints(curve.context), terms, limits, note, fits)


def parameters_plot(model: Model) -> d.ParametersPlot:
    """Parameters by part."""
    total = model.parameters
    ranked = sorted(model.parameters_by_part().items(), key=lambda item: -item[1])
    parts = tuple((PART_NAMES[part], n, n / total) for part, n in ranked)
    active = f" · {whole(model.active_parameters)} active" if model.active_parameters != total else ""
    return d.ParametersPlot(model.name, parts, total, f"{whole(total)} parameters{active}")


def decode_map_plot(m: DecodeMap) -> d.MapPlot:
    """Decode over batch × context."""
    e = m.estimate
    rate, time, bound, fits = map(np.asarray, (m.tokens_per_second, e.time, e.bound, m.fits))
    rows = tuple(
        tuple(
            d.Cell(int(b), int(c), float(rate[i, j]), float(time[i, j]), str(bound[i, j]), bool(fits[i, j]))
            for j, c in enumerate(m.context)
        )
        for i, b in enumerate(m.batch)
    )
    return d.MapPlot(
        f"{_title(e.analysis)} · {deployment_text(e.deployment)}",
        rows,
        f"decode · {e.engine.titled} · tokens/s of the whole batch · a cell's limit is that of the whole step",
        bool(fits.any()),
    )


def tornado_plot(p: OperatingPoint, every: Sequence[Answer]) -> d.TornadoPlot:
    """Sensitivity of a prefill and a decode to each knob, deployment separate from architecture."""
    panels: list[d.TornadoPanel] = []
    still: list[str] = []
    for phase, kind in product(PHASES, KINDS):
        ranked = sorted((a for a in every if (a.phase, a.kind) == (phase, kind)), key=lambda a: -a.swing)
        swings = tuple(
            d.Swing(a.knob, f"× {a.low:.3g}", f"× {a.high:.3g}", a.at_low, a.at_high, a.elasticity) for a in ranked
        )
        drawn = tuple(s for s in swings if s.shows)
        if drawn:
            panels.append(d.TornadoPanel(phase, kind, drawn))
        if len(drawn) < len(swings):
            still.append(f"{phase}: {', '.join(s.knob for s in swings if not s.shows)}")
    note = (
        f"prefill of {p.batch} × {p.prompted}, decode after {p.context}, on {deployment_text(p.asked.deployment)} · "
        f"{p.asked.engine.titled} · "
        f"{d.TornadoPlot.AXIS} · ε: elasticity at the point, d log time / d log parameter"
    )
    if still:
        note += f" · not drawn, under 0.5 % of the time: {'; '.join(still)}"
    fits = all(bool(p.at(p.step(phase)).fits) for phase in PHASES)
    return d.TornadoPlot(f"{p.model.name} · {p.formats.text()}", tuple(panels), note, fits)


MOST_KINDS = 6
"""Largest number of layer kinds in a diagram."""


def diagram_plot(model: Model) -> d.DiagramPlot:
    """The model from embedding to head, and the modules of each kind of layer, the most frequent first."""
    ranked = sorted(model.blocks, key=lambda pair: -pair[1])
    drawn = ranked[:MOST_KINDS]
    runs = (d.Box(part, detail, "layers") for part, detail in layer_stack(model))
    whole_model = d.Stack("whole model", (*map(_box, model.embedding), *runs, *map(_box, model.head)))
    layers = tuple(d.Stack(f"{block.name} · {n} layers", _boxes(block.modules)) for block, n in drawn)
    left = len(ranked) - len(drawn)
    note = "modules in the order they run, with their sizes · a line on the left is the residual stream"
    if any(stack.lanes > 1 for stack in layers):
        note += " · paths side by side do not wait for each other"
    note += f" · {left} rarer kinds of layer are not drawn" if left else ""
    return d.DiagramPlot(f"{model.name} · {whole(model.parameters)} parameters", whole_model, layers, note)


def simulation_plot(s: Simulation) -> d.SimulationPlot:
    """A simulated server over time, and the distributions of request times."""
    over, most = s.timeline, s.objective
    distributions = (
        d.Distributed("TTFT", s.quantiles.ttft, most.get("ttft")),
        d.Distributed("TPOT (request)", s.quantiles.tpot, most.get("tpot")),
        d.Distributed("latency", s.quantiles.latency, most.get("latency")),
    )
    note = f"{s.traffic} · {whole(s.requests)} requests · {s.engine.titled}"
    note += " · overloaded: requests come faster than they are answered" if s.overloaded else ""
    return d.SimulationPlot(
        f"{s.model.name} · {s.formats.text()} · {deployment_text(s.deployment)}", over.seconds,
        (d.Traced("running", over.running), d.Traced("waiting", over.waiting)),
        (d.Traced("memory taken", over.memory), d.Traced("busy", over.busy)), distributions, note, not s.overloaded,
    )  # fmt: skip


def _boxes(modules: Sequence[Module]) -> tuple[d.Box, ...]:
    paths = lanes(x.name for x in modules)
    return tuple(replace(_box(x), lane=lane) for x, lane in zip(modules, paths, strict=True))


def _box(x: Module) -> d.Box:
    return d.Box(x.name, in_words(x), GROUPS[type(x)], isinstance(x, Add) and x.name.endswith("residual"))


def _floats(values: FigureValue) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _ints(values: FigureValue) -> tuple[int, ...]:
    return tuple(int(v) for v in values)
