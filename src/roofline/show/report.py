"""The report of a model on a machine: sections of text, tables and pictures, as one HTML page or as Markdown.

Every sentence is made of this report's figures.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from roofline.estimates.generate import Generation
from roofline.estimates.latency import Estimate, time_of
from roofline.estimates.memory import Fit, fit
from roofline.estimates.place import Placed, placed
from roofline.explore.guidance import Advice, Served, advice, rate
from roofline.explore.sensitivity import Point, answers
from roofline.model.model import Model
from roofline.show.analysis import headline, precision_text
from roofline.show.estimate import GRADES, fit_text, place_text, shares_text, span_text
from roofline.show.tables import Column, Table, csv_text, markdown
from roofline.show.units import ratio, seconds, share, si, whole
from roofline.work.analysis import Analysis, analyze
from roofline.work.explain import explain
from roofline.work.ops import Communicate
from roofline.work.step import Step, decode, prefill
from roofline.work.training import train


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, tables each with a name for its file, and pictures by name."""

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()
    pictures: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True)
class Report:
    """A model served in one way, and everything that is said of it."""

    model: Model
    now: Served

    @cached_property
    def where(self) -> Placed:
        """Where it runs."""
        return placed(self.now.on, self.now.layout)

    @cached_property
    def rank(self) -> Model:
        """What one rank holds."""
        return self.where.rank(self.model)

    @cached_property
    def steps(self) -> tuple[tuple[str, Step], ...]:
        """A prefill of the batch, and a decode in the middle of the answer."""
        s = self.now
        return ("prefill", prefill(s.batch, s.input)), ("decode", decode(s.batch, s.input + s.output // 2))

    @cached_property
    def estimates(self) -> tuple[tuple[str, Estimate], ...]:
        """Their times."""
        formats, engine = self.now.precision, self.now.engine
        return tuple(
            (name, time_of(self.rank, step, self.where, "calibrated", formats, engine)) for name, step in self.steps
        )

    @cached_property
    def generation(self) -> Generation:
        """The batch from prompt to last token."""
        return self.now.of(self.model)

    @cached_property
    def fit(self) -> Fit:
        """Memory of the fullest rank."""
        s = self.now
        return fit(
            self.model, on=s.on, layout=s.layout, batch=s.batch, context=s.input + s.output, precision=s.precision,
            engine=s.engine or "none",
        )  # fmt: skip

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """What would help, largest gain first."""
        return advice(self.model, self.now, self.generation)


def sections(r: Report, pictures: Path) -> Iterator[Section]:
    """All of the report; pictures are drawn into a folder."""
    yield _summary(r)
    yield Section("Model", (headline(r.model, r.now.precision),), (("parameters", _parameters(r.model)),))
    yield Section("Memory", tuple(fit_text(r.fit).splitlines()))
    yield Section("Bytes and FLOPs by term", (), (("terms", _terms(r)),))
    yield _regimes(r)
    yield from _pictures(r, pictures)
    if any(isinstance(op.cost.op, Communicate) for _, e in r.estimates for op in e.ops):
        yield Section("Communication", (), (("communication", _communication(r)),))
    yield Section("Where the time goes", (), (("time", _heaviest(r)),))
    yield Section("Worked formulas", (), (("formulas", _formulas(r)),))
    yield _sensitivity(r)
    yield _guidance(r)
    yield Section("Assumptions", _assumptions(r))


def _summary(r: Report) -> Section:
    g = r.generation
    lines = [
        f"{g.batch} × ({g.input} in, {g.output} out) on {place_text(g.where)}.",
        f"It {'fits' if r.fit.fits else 'does not fit'}: {si(r.fit.needed, 'B')} of {si(r.fit.capacity, 'B')} on the "
        f"fullest chip.",
        f"TTFT {span_text(g.ttft)}; TPOT {span_text(g.tpot)}.",
        f"{g.tokens_per_second:,.0f} tokens/s, {rate(g):,.0f} per chip.",
    ]
    price = g.chip.price
    if price is not None:
        dollars = g.where.chips * price.usd_per_hour / 3600 / g.tokens_per_second * 1e6
        lines.append(f"{dollars:,.2f} USD per million generated tokens at {price.usd_per_hour:g} $/h a chip.")
    lines += [f"{name} is {e.bound} bound: {shares_text(e)}." for name, e in r.estimates]
    best = [a for a in r.advice if a.per_chip > 1][:3]
    if best:
        said = "; ".join(f"{a.what} {_gain(a.per_chip)} tokens/s per chip" for a in best)
        lines.append(f"Most would help: {said}.")
    return Section("In one minute", tuple(lines))


def _gain(factor: float) -> str:
    return f"{100 * (factor - 1):+.0f} %"


def _parameters(model: Model) -> Table:
    counted = model.parameters_by_part()
    rows = [(part, whole(n), share(n, model.parameters)) for part, n in counted.items() if n]
    columns = (Column("Part", False), Column("Parameters"), Column("Share"))
    return Table(columns, tuple(rows), (("all", whole(model.parameters), "100.0 %"),))


def _terms(r: Report) -> Table:
    """Weights, activations, cache and scratch, unfused and fused, of one rank."""
    rows = []
    for name, step in r.steps:
        for traffic in ("unfused", "fused", "floor"):
            a = analyze(r.rank, step, traffic=traffic, precision=r.now.precision)
            moved = a.moved
            terms = (moved.weights, moved.input + moved.output, moved.cache, moved.scratch, a.bytes)
            rows.append((name, traffic, si(a.flops, "FLOP"), *(si(v, "B") for v in terms), ratio(a.intensity)))
    columns = (
        Column("Phase", False), Column("Traffic", False), Column("FLOPs"), Column("Weights"), Column("Activations"),
        Column("KV cache"), Column("Scratch"), Column("All bytes"), Column("FLOP/B"),
    )  # fmt: skip
    return Table(columns, tuple(rows))


def _regimes(r: Report) -> Section:
    rows = []
    tokens = min(r.now.input, r.model.context or r.now.input)
    learned: Analysis = analyze(r.rank, train(r.now.batch, tokens))
    rows.append(("training", si(learned.flops, "FLOP"), ratio(learned.intensity), "", "", "", ""))
    for name, e in r.estimates:
        a = e.analysis
        rows.append((
            name, si(a.flops, "FLOP"), ratio(a.intensity), seconds(e.time), seconds(e.serial_floor), e.bound, e.grade,
        ))  # fmt: skip
    columns = (
        Column("Phase", False), Column("FLOPs of a rank"), Column("FLOP/B"), Column("Expected"),
        Column("Speed of light"), Column("Bound", False), Column("Grade", False),
    )  # fmt: skip
    chip = r.where.chip
    ridges = ", ".join(f"{f} {chip.ridge(f):.0f}" for f in chip.peaks if f in ("bf16", "fp16", "fp8", "fp4", "int8"))
    lines = [f"Ridge of {chip.name}, FLOP/B: {ridges}."]
    for name, e in r.estimates:
        beyond = "above" if e.compute_time >= e.memory_time else "below"
        lines.append(
            f"{name}: {seconds(e.compute_time)} of arithmetic at full peak, {seconds(e.memory_time)} of traffic at "
            f"full bandwidth, so it lies {beyond} the ridge; expected {e.time / e.serial_floor:.2f} times its speed of "
            f"light. Of its bytes weights are {share(float(e.analysis.moved.weights), float(e.analysis.bytes))}, "
            f"activations {share(float(e.analysis.moved.activations), float(e.analysis.bytes))}, the cache "
            f"{share(float(e.analysis.moved.cache), float(e.analysis.bytes))}."
        )
    return Section("Regimes", tuple(lines), (("regimes", Table(columns, tuple(rows))),))


def _pictures(r: Report, folder: Path) -> Iterator[Section]:
    from roofline.show.plots.make import plot

    made = []
    options = {"precision": r.now.precision, "on": (r.where.chip,), "force": True}
    for title, kind in (
        ("Roofline", "roofline"),
        ("Shares", "shares"),
        ("Decode over batch", "sweep"),
        ("Memory", "memory"),
    ):
        path = folder / f"{kind}.svg"
        steps = dict(r.steps) if kind in ("roofline", "shares") else None
        plot(
            r.model, steps, kind=kind, output=path, batch=r.now.batch, context=r.now.input, **options,  # type: ignore[arg-type]
        )  # fmt: skip
        made.append((title, path))
    yield Section("Pictures", (f"One {r.where.chip.name}, {precision_text(r.now.precision)}.",), (), tuple(made))


def _communication(r: Report) -> Table:
    rows = [
        (
            name, op.name, op.cost.op.collective, str(op.cost.op.ranks), str(op.cost.layers), seconds(op.expected),
            share(op.expected, e.time),
        )
        for name, e in r.estimates
        for op in e.ops
        if isinstance(op.cost.op, Communicate)
    ]  # fmt: skip
    names = ("Phase", "Op", "Collective", "Ranks", "Times", "Expected", "Share of the step")
    return Table(tuple(Column(n, n not in ("Phase", "Op", "Collective")) for n in names), tuple(rows))


def _heaviest(r: Report, most: int = 8) -> Table:
    rows = [
        (name, op.name, op.kind, seconds(op.expected), seconds(op.floor), share(op.expected, e.time), op.bound)
        for name, e in r.estimates
        for op in sorted(e.ops, key=lambda o: -o.expected)[:most]
    ]
    names = ("Phase", "Op", "Kind", "Expected", "Speed of light", "Share", "Bound")
    return Table(tuple(Column(n, n in ("Expected", "Speed of light", "Share")) for n in names), tuple(rows))


def _formulas(r: Report) -> Table:
    analyses = [(name, analyze(r.model, step, precision=r.now.precision)) for name, step in r.steps]
    rows = [
        (name, cost.name, figure.name, str(figure.formula), figure.filled, f"{figure.value:,}")
        for name, a in analyses
        for cost in sorted(a.ops, key=lambda c: -c.flops)[:3]
        for figure in explain(a, cost.name).figures[:2]
    ]
    names = ("Phase", "Op", "Figure", "Formula", "With numbers", "Of a layer")
    return Table(tuple(Column(n, n == "Of a layer") for n in names), tuple(rows))


def _sensitivity(r: Report) -> Section:
    """Elasticities and swings, deployment apart from architecture."""
    s = r.now
    found = answers(Point(r.model, r.where, s.precision, s.batch, s.input, s.engine))
    columns = (
        Column("Phase", False), Column("Knob", False), Column("Kind", False), Column("Range"),
        Column("Time at its ends"), Column("Elasticity"),
    )  # fmt: skip
    rows = tuple(
        (
            a.phase, a.knob, a.kind, f"× {a.low:.3g} to × {a.high:.3g}", f"× {a.at_low:.3f} to × {a.at_high:.3f}",
            f"{a.elasticity:+.2f}",
        )
        for a in found
    )  # fmt: skip
    lines = []
    for phase in ("prefill", "decode"):
        best = max((a for a in found if a.phase == phase and a.kind == "deployment"), key=lambda a: abs(a.elasticity))
        lines.append(f"{phase} answers most to {best.knob}: elasticity {best.elasticity:+.2f}.")
    return Section("Sensitivity", tuple(lines), (("sensitivity", Table(columns, rows)),))


def _guidance(r: Report) -> Section:
    columns = (
        Column("Change", False), Column("Option", False), Column("Tokens/s per chip"), Column("TPOT"), Column("TTFT"),
        Column("Memory"),
    )  # fmt: skip
    rows = tuple(
        (a.what, a.option, _gain(a.per_chip), _gain(a.tpot), _gain(a.ttft), si(a.generation.memory, "B"))
        for a in r.advice
    )
    lines = [
        f"{name}: {e.shares[0][0]} takes most of the time, {100 * e.shares[0][1]:.0f} %." for name, e in r.estimates
    ]
    return Section("Guidance", tuple(lines), (("guidance", Table(columns, rows)),) if rows else ())


def _assumptions(r: Report) -> tuple[str, ...]:
    e = r.estimates[0][1]
    grades = sorted({x.grade for _, x in r.estimates})
    return (
        f"Formats: {precision_text(r.now.precision)}. Counting {e.analysis.counting.name}, traffic "
        f"{e.analysis.traffic.name}.",
        f"Layout: {r.now.layout.text()}. Engine: {e.target.engine.name}.",
        *(f"Grade {g}: {GRADES[g]}." for g in grades),
        *r.model.warnings,
        *(f"Not counted: {x}." for x in r.model.not_counted),
    )


# -- forms ---------------------------------------------------------------------------------------------------------
TEMPLATE = Path(__file__).with_name("report.html.j2")


def html(r: Report) -> str:
    """One page with its pictures inside; nothing is asked of any other."""
    from jinja2 import Environment
    from markupsafe import Markup

    with tempfile.TemporaryDirectory() as folder:
        made = list(sections(r, Path(folder)))
        inline = [
            {
                "title": s.title, "text": s.text, "tables": s.tables,
                "pictures": [(name, Markup(_inline(path, f"p{i}-{j}"))) for j, (name, path) in enumerate(s.pictures)],
            }
            for i, s in enumerate(made)
        ]  # fmt: skip
    environment = Environment(autoescape=True)
    environment.filters["anchor"] = anchor
    title = f"{r.model.name} on {place_text(r.where)}"
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(title=title, sections=inline)


def anchor(title: str) -> str:
    """A heading as the end of an address."""
    return title.lower().replace(" ", "-")


def _inline(path: Path, prefix: str) -> str:
    """An SVG without its prologue, its ids its own among several on one page."""
    import re

    text = path.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{prefix}-", text)


def as_markdown(r: Report, folder: Path) -> str:
    """Markdown whose pictures and tables lie in a folder beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {r.model.name} on {place_text(r.where)}"]
    for s in sections(r, folder):
        lines += [f"## {s.title}", *s.text]
        for name, table in s.tables:
            (folder / f"{name}.csv").write_text(
                csv_text([c.name for c in table.columns], [*table.rows, *table.total]), encoding="utf-8"
            )
            lines.append(markdown(table))
        lines += [f"![{name}]({folder.name}/{path.name})" for name, path in s.pictures]
    return "\n\n".join(lines) + "\n"
