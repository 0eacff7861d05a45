"""The first page: a one-minute summary, what would help, and a comparison of machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline.declared.errors import InputError
from roofline.declared.numbers.units import percent
from roofline.hardware.chip import Chip
from roofline.hardware.cluster import Cluster
from roofline.inference.deployment import Machine
from roofline.views.report.parts.section import PHASE, Section
from roofline.views.report.parts.subject import Report
from roofline.views.report.parts.summary import (
    MOST_CHANGES,
    cards,
    cards_table,
    changes_table,
    limits,
    quality,
    verdict_lines,
)
from roofline.views.report.plots_of import report_plot
from roofline.views.text.inference.estimate import deployment_text, memory_text
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.search.recommendations import Advice, best_of_levers

PHASES_PICTURE = "Roofline of the phases"


def summary_section(r: Report) -> Section:
    """The first screen: verdict, figures, roofline of the phases, bottleneck, and best changes."""
    tables = (cards_table(cards(r)), changes_table(r))
    pictures = ((PHASES_PICTURE, report_plot(r, "roofline", points="phases")),)
    return Section("In one minute", (*verdict_lines(r), *limits(r)), tuple(t for t in tables if t), pictures)


@dataclass(frozen=True)
class Gain:
    """A change and its gain in tokens/s per chip in a phase; `grade`: how well its times are known."""

    lever: str
    what: str
    option: str
    gain: float
    grade: str


def _best(r: Report) -> list[tuple[str, list[Gain]]]:
    """For each phase the changes with the largest gain, the best of each lever; none that loses."""
    of: dict[str, Callable[[Advice], float | None]] = {"prefill": lambda a: a.prefill, "decode": lambda a: a.decode}
    rows = [
        (phase, [Gain(a.lever, a.what, a.option, gained, a.generation.grade) for a in r.advice
                 if a.lever != "machine" and (gained := gain(a)) is not None])
        for phase, gain in of.items()
    ]  # fmt: skip
    trained = [Gain(a.lever, a.what, f"train {a.option}", a.per_chip, a.estimate.grade) for a in r.training_advice]
    return [(phase, _levers(gains)) for phase, gains in (*rows, ("training", trained))]


def _levers(gains: list[Gain]) -> list[Gain]:
    """The best change of each lever that gains."""
    return list(best_of_levers(gains, lambda g: g.lever, lambda g: g.gain, lambda g: g.grade))[:MOST_CHANGES]


def guidance(r: Report) -> Section:
    """What limits each phase, and the changes that help most."""
    lines = [
        f"{name.capitalize()} is {e.bound} bound; most time goes to {e.shares[0][0]}, {percent(e.shares[0][1])}."
        for name, e in r.estimates
    ]
    t = r.training
    if t is not None and not isinstance(t, InputError):
        busy = t.micro(t.stages[0])
        kind, part = busy.shares[0]
        lines.append(f"Training is {busy.bound} bound; most time goes to {kind}, {percent(part)}.")
        if not t.fits:
            ways = " or ".join(f.detail for f in r.training_fixes)
            would = f"It fits with {ways}." if ways else "No change that was tried makes it fit."
            lines.append(f"A training step does not fit: {memory_text(t.memory)}. {would}")
    if not r.fit.fits:
        ways = " or ".join(c.detail for c in r.fit.changes)
        lines.append(f"It fits with {ways}." if ways else "No change that was tried makes it fit.")
    best = tuple((phase, g.what, g.option, g.gain, g.grade) for phase, gains in _best(r) for g in gains)
    every = tuple(
        (
            a.what,
            a.option,
            a.per_chip,
            a.prefill,
            a.decode,
            a.tpot,
            a.ttft,
            a.memory,
            a.generation.usd_per_million_tokens,
            a.generation.joules_per_token,
            quality(a),
            a.generation.grade,
        )
        for a in r.advice
    )
    gains = ("Tokens/s per chip", "Prefill alone", "Decode alone", "TPOT", "TTFT")
    change_and_option = (Column("Change"), Column("Option"))
    tables = (
        Table((PHASE, *change_and_option, Column(gains[0], "change"), Column("Grade")), best, name="guidance"),
        Table(
            (*change_and_option, *(Column(n, "change") for n in gains), Column("Memory of a chip", "B"),
             Column("USD per million generated tokens", "USD"), Column("Energy per token", "J"), Column("Quality"),
             Column("Grade")),
            every, name="changes",
        ),
    )  # fmt: skip
    return Section("Guidance", tuple(lines), tuple(t for t in tables if t.rows))


def _name(machine: Machine) -> str:
    return machine.name if isinstance(machine, (Chip, Cluster)) else str(machine)


def chips_section(r: Report) -> Section | None:
    """Figures of every machine, one line each; None for a single machine."""
    if not r.others:
        return None
    rows: list[tuple[TableCell, ...]] = []
    for machine, other in ((r.now.where.on, r), *r.elsewhere):
        if isinstance(other, InputError):
            rows.append((_name(machine), *(None,) * 10, str(other)))
            continue
        g, bounds = other.generation, [e.bound for _, e in other.estimates]
        between = g.tpot.expected if g.output > 1 else None
        rows.append((
            deployment_text(g.deployment), g.engine.titled, g.ttft.expected, between, g.tokens_per_second,
            g.tokens_per_second_per_chip, g.usd_per_million_tokens, *bounds, other.fit.memory.total,
            "yes" if other.fit.fits else "no", None,
        ))  # fmt: skip
    fields = (
        Column("Chip"), Column("Engine"), Column("TTFT", "s"), Column("TPOT", "s"), Column("Tokens/s", "tokens/s"),
        Column("Per chip", "tokens/s"), Column("Price of 10⁶ generated tokens", "USD"), Column("Prefill bound"),
        Column("Decode bound"), Column("Memory of a chip", "B"), Column("Fits"), Column("Why not"),
    )  # fmt: skip
    over = [str(row[0]) for row in rows if row[10] == "no"]
    beyond = (f"The times of {', '.join(over)} ignore the memory limit.",) if over else ()
    return Section("Chips", beyond, (Table(fields, tuple(rows), name="chips"),))
