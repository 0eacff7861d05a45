"""The first screen: the verdict, four figures, the roofline, what limits it, and the three changes that gain most."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.estimates.memory import Memory
from roofline.estimates.span import Span
from roofline.explore.guidance import Advice
from roofline.show.estimate import GRADES, memory_text, shares_text
from roofline.show.report.first_page import LEAST_GAIN, MOST_CHANGES, would_fit
from roofline.show.report.section import Card, Section
from roofline.show.report.subject import Report
from roofline.show.report.work_part import critical_batch_text, report_picture
from roofline.show.tables import Column, Table
from roofline.units import seconds, share, si, whole


def summary_section(r: Report) -> Section:
    """What a reader has a minute for."""
    g = r.generation
    lines = [
        verdict_text(r),
        f"{g.engine.titled} · {whole(g.batch)} prompts of {whole(g.input)} tokens, {whole(g.output)} generated tokens "
        f"each · {g.formats.text()} · grade {g.grade}: {GRADES[str(g.grade)]}",
        *(f"{name.capitalize()} time: {shares_text(e)}." for name, e in r.estimates),
        critical_batch_text(r),
    ]
    best = best_changes(r)
    picture = ("Roofline of prefill and decode", report_picture(r, "roofline", points="phases"))
    tables = (_changes(best),) if best else ()
    if not best:
        lines.append("No change that was tried gives more tokens/s per chip.")
    return Section("Summary", tuple(lines), tables, (picture,), tuple(_cards(r)))


def verdict_text(r: Report) -> str:
    """Whether it fits and what bounds it, in two sentences."""
    m, bounds = r.fit.memory, [(name, e.bound) for name, e in r.estimates]
    fits = (
        f"It fits: {memory_text(m)} on the fullest chip."
        if r.fit.fits
        else f"It does not fit: {memory_text(m)} on the fullest chip. {would_fit([c.detail for c in r.fit.changes])} "
        "The times below assume enough memory."
    )
    one = {bound for _, bound in bounds}
    if len(one) == 1:
        return f"{fits} Prefill and decode are {one.pop()} bound."
    (first, a), (second, b) = bounds
    return f"{fits} {first.capitalize()} is {a} bound, {second} is {b} bound."


def _cards(r: Report) -> Iterator[Card]:
    g = r.generation
    yield _time("Time to first token (TTFT)", g.ttft)
    if g.output > 1:
        yield _time("Time per output token (TPOT)", g.tpot)
    low, high = g.tokens_per_second_interval
    price, chips = g.usd_per_million_tokens, g.deployment.chips
    costs = "no price is known" if price is None else f"{price:,.3g} USD per million tokens"
    each = "" if chips == 1 else f"; {g.tokens_per_second_per_chip:,.0f} per chip"
    yield Card("Throughput", f"{g.tokens_per_second:,.0f} tokens/s", f"{low:,.0f} to {high:,.0f}", f"{costs}{each}")
    yield _held(r.fit.memory)


def _time(title: str, s: Span) -> Card:
    return Card(title, seconds(s.expected), f"{seconds(s.low)} to {seconds(s.high)}", f"floor {seconds(s.floor)}")


def _held(m: Memory) -> Card:
    terms = f"weights {si(m.weights, 'B')}, KV cache {si(m.cache + m.state, 'B')}"
    return Card(
        "Memory of a chip", f"{si(m.total, 'B')}", f"{share(m.total, m.capacity)} of {si(m.capacity, 'B')}", terms
    )


def best_changes(r: Report) -> list[Advice]:
    """The changes that gain most tokens/s per chip, the best of each lever."""
    best: dict[str, Advice] = {}
    for a in r.advice:
        if a.per_chip > LEAST_GAIN:
            best.setdefault(a.lever, a)
    return list(best.values())[:MOST_CHANGES]


def _changes(best: list[Advice]) -> Table:
    fields = (
        Column("Change"), Column("Tokens/s per chip", "change"), Column("TTFT", "change"), Column("TPOT", "change"),
        Column("USD per token", "change"), Column("J per token", "change"), Column("Memory", "change"),
        Column("Accuracy"), Column("Option"), Column("Grade"),
    )  # fmt: skip
    rows = tuple(
        (
            a.what, a.per_chip, a.ttft, a.tpot, a.cost, a.energy, a.memory_factor,
            "to be measured" if a.narrows else "unchanged", a.option, a.generation.grade,
        )
        for a in best
    )  # fmt: skip
    return Table(fields, rows, name="best")
