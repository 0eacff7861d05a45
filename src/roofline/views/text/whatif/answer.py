"""Text of a first answer: a block of lines for each machine, or a row for each."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import change, percent, seconds, si
from roofline.views.text.inference.analysis import headline
from roofline.views.text.inference.estimate import memory_text, routing_lines
from roofline.views.text.serving.search import limits_kept_text
from roofline.views.text.serving.serve import spread_text
from roofline.views.text.tables import Column, Table, TableCell
from roofline.whatif.answer import FirstAnswer, MachineAnswer
from roofline.whatif.search.serving.plans import ServingPlan

UNITS = "$/M prompt, generated: USD per million prompt tokens and per million generated tokens"
"""Explanations of short headings."""
WIDTH = 15
"""Width of the names of lines."""


def answer_heading(a: FirstAnswer) -> str:
    """The model, and the assumed requests."""
    lengths = f"requests of {a.input:,} tokens in, {a.output:,} out, {spread_text(a.demand)}"
    load = "; ".join([lengths, *routing_lines(a.assumed_popularity)])
    load += f"\n{a.images.tokens} of the input are {a.images.text}" if a.images else ""
    return f"{headline(a.model, a.model.precision)}\n{load}\nhighest load that keeps {limits_kept_text(a)}"


def machine_text(a: FirstAnswer, m: MachineAnswer) -> str:
    """The answer for one machine, one line per subject."""
    lines = [("", f"{machine_name(m)} · {m.engine.titled}"), ("fits", _fits(m))]
    if m.user_tokens_per_second is not None and m.user_ttft is not None:
        lines.append(("one user", f"{m.user_tokens_per_second:,.0f} tokens/s, TTFT {seconds(m.user_ttft)}"))
    if m.plan is not None:
        lines += [("highest load", _load(m.plan)), ("", _times(a, m.plan))]
    elif m.fits:
        lines.append(("highest load", m.why))
    if m.bound is not None:
        of = "decode" if m.plan is not None else "decode, one user"
        share = f"{m.bound_by}: {percent(m.bound_share or 0)} of a step"
        lines.append(("limited by", f"{_bound(m)} ({of}; {share})"))
    if m.plan is not None:
        lines += _spent(m, m.plan)
    if m.change is not None:
        lines.append(("helps most", _help(m)))
    if m.grade not in (None, "-"):
        costs = () if m.plan is None else (said.rpartition(" [")[0] for said in m.plan.cost_assumptions[:2])
        lines.append(("assumed", "; ".join([f"times of grade {m.grade}", *costs])))
    head, *rest = lines
    return "\n".join([head[1], *(f"{name:<{WIDTH}}{text}" for name, text in rest)])


def machine_name(m: MachineAnswer) -> str:
    """The chip, or the number of chips."""
    name = m.deployment.chip.name
    return name if m.chips == 1 else f"{m.chips} × {name}"


def _fits(m: MachineAnswer) -> str:
    if not m.fits:
        would = f"; would fit with {', or '.join(m.remedies)}" if m.remedies else ""
        return f"no: {memory_text(m.memory)} a chip{would}"
    own = m.fitted.formats.text()
    formats = f"{m.formats}, where answers may change" if m.formats else f"the checkpoint's formats ({own})"
    each = f"{si(m.memory.total, 'B')} of {si(m.memory.capacity, 'B')} a chip"
    return f"yes, in {formats}: {each} with one request"


def _load(p: ServingPlan) -> str:
    placed = "" if p.chips == 1 else f" on {p.replicas} × {p.layout}"
    load = f"{p.tokens_per_second:,.0f} tokens/s with {p.concurrency:,} requests in flight"
    return f"{load}{placed}; chance {percent(p.chance)}"


def _times(a: FirstAnswer, p: ServingPlan) -> str:
    far = "" if a.attainment is None else f" (p{100 * a.attainment:g} {seconds(p.limited[0].expected)})"
    return f"TTFT {seconds(p.ttft.expected)}{far}, TPOT {seconds(p.tpot.expected)}"


def _spent(m: MachineAnswer, p: ServingPlan) -> Iterator[tuple[str, str]]:
    if p.usd_per_million_input is not None and p.usd_per_million_output is not None:
        each = f"{_usd(p.usd_per_million_input)} per million prompt tokens, {_usd(p.usd_per_million_output)} generated"
        yield "cost", f"{each}; {p.usd_per_hour:,.2f} USD/h"
    if p.power is not None and m.power_low is not None and m.power_high is not None:
        yield "power", f"{p.power:,.0f} W ({m.power_low:,.0f} to {m.power_high:,.0f})"


def _bound(m: MachineAnswer) -> str:
    return {"memory": "memory bandwidth", "compute": "compute"}.get(str(m.bound), str(m.bound))


def _usd(value: Count) -> str:
    return f"${value:,.3g}"


def _help(m: MachineAnswer) -> str:
    return f"{m.change} ({m.option}): {change(m.gain or 1)} {m.gain_of}"


def answers_table(a: FirstAnswer) -> Table:
    """A row for each machine."""
    heads = (
        Column("machine"), Column("fits in"), Column("tok/s a user", "tokens/s"),
        Column("tok/s in all", "tokens/s", drop=2),
        Column("users", "count", drop=6), Column("TTFT", "s", drop=4), Column("bound", drop=7),
        Column("$/M prompt", "USD", drop=3), Column("$/M generated", "USD", drop=1), Column("power", "W", drop=8),
        Column("helps most", drop=5, long=20),
    )  # fmt: skip
    return Table(heads, tuple(map(_row, a.machines)), name="machines")


def _row(m: MachineAnswer) -> tuple[TableCell, ...]:
    helps = "" if m.change is None else f"{m.change}: {change(m.gain or 1)}"
    if not m.fits:
        helps = f"would fit with {', or '.join(m.remedies)}" if m.remedies else ""
    elif m.plan is None:
        helps = m.why
    p = m.plan
    load = (None, None, m.user_ttft) if p is None else (p.tokens_per_second, p.concurrency, p.ttft.expected)
    spent = (None,) * 3 if p is None else (p.usd_per_million_input, p.usd_per_million_output, p.power)
    formats = (m.formats or m.fitted.formats.text()) if m.fits else "does not fit"
    return m.machine, formats, m.user_tokens_per_second, *load, m.bound, *spent, helps
