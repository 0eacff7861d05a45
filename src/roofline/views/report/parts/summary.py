"""The first screen of a report: a verdict, four figures, the bottleneck, and the best three changes."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.declared.numbers.maths import Count
from roofline.declared.numbers.units import change, counted, percent, seconds, si, whole
from roofline.inference.generate import Generation
from roofline.inference.memory.memory import Memory
from roofline.inference.span import Span
from roofline.views.report.parts.subject import Report
from roofline.views.text.inference.estimate import memory_text, shares_text
from roofline.views.text.tables import Column, Table
from roofline.whatif.search.recommendations import Advice, best_of_levers

MOST_CHANGES = 3
FIGURES_TABLE, CHANGES_TABLE = "figures", "best"
"""Names of the two tables and of their files."""
NARROWER = frozenset({"weights", "cache"})
"""Levers that store numbers in fewer bits."""


@dataclass(frozen=True)
class Card:
    """A figure of the first screen as text: expected value, 80 % interval, and details.

    `full`: share of a chip's memory in use, on the memory card only.
    """

    name: str
    value: str
    interval: str = ""
    more: tuple[str, ...] = ()
    full: float | None = None


def verdict_lines(r: Report) -> tuple[str, ...]:
    """Whether it fits, its speed and cost, its bottleneck, and the first change to make."""
    g, memory, price = r.generation, r.fit.memory, r.generation.usd_per_million_tokens
    cost = "" if price is None else f" at ${price:,.2f} per million of them"
    rate = f"generates {float(g.tokens_per_second):,.0f} tokens/s{cost}"
    if r.fit.fits:
        first = [f"It fits, with {memory_text(memory)} in use on the fullest chip, and {rate}."]
    else:
        ways = " or ".join(c.detail for c in r.fit.changes)
        would = f"It would fit with {ways}" if ways else "No change that was tried would make it fit"
        first = [
            f"It does not fit: a chip would need {memory_text(memory)}.",
            f"{would}. With enough memory it {rate}.",
        ]
    if g.images is not None:
        first.append(f"Of every prompt {g.images.tokens:,} tokens are {g.images.text}.")
    phase, part = slower_phase(g)
    best = best_changes(r)
    gain = ""
    if best:
        more = f"{change(best[0].gain)} {best[0].gain_of}"
        gain = f" The largest gain of the changes tried is from {best[0].what}: {more}."
    bound = dict(r.estimates)[phase].bound
    return (*first, f"{phase.capitalize()} takes {percent(part)} of the time and is {bound} bound.{gain}")


def slower_phase(g: Generation) -> tuple[str, float]:
    """The phase with the larger share of a wave's time, and that share: of TTFT or TPOT · (output − 1) in their sum."""
    prompts, answers = float(g.ttft.expected), float(g.tpot.expected * (g.output - 1))
    name, longer = ("decode", answers) if answers > prompts else ("prefill", prompts)
    return name, longer / (prompts + answers)


def cards(r: Report) -> tuple[Card, ...]:
    """TTFT, TPOT, tokens/s with price, and memory."""
    g = r.generation
    return (
        Card("TTFT", seconds(g.ttft.expected), _between(g.ttft), ("time to first token", _light(g.ttft))),
        _tpot_card(g),
        _rate_card(g),
        _memory_card(r.fit.memory),
    )


def _between(s: Span) -> str:
    return f"{seconds(s.low)} to {seconds(s.high)}"


def _light(s: Span) -> str:
    return f"speed of light {seconds(s.floor)}"


def _tpot_card(g: Generation) -> Card:
    each = g.tokens_per_second_per_user
    if g.output == 1 or each is None:
        return Card("TPOT", "–", more=("one token is generated",))
    user = f"{float(each):,.1f} tokens/s per user"
    return Card("TPOT", seconds(g.tpot.expected), _between(g.tpot), ("time per output token", user, _light(g.tpot)))


def _rate_card(g: Generation) -> Card:
    """Tokens over latency. A longer latency means fewer tokens, each more expensive, since rented chips cost by the
    hour."""
    rate, price, latency = float(g.tokens_per_second), g.usd_per_million_tokens, g.latency
    low, high = map(float, g.tokens_per_second_interval)
    more = [f"{float(g.tokens_per_second_per_chip):,.0f} per chip", f"whole batch in {seconds(latency.expected)}"]
    if price is not None:
        between = f"${price * rate / high:,.2f} to ${price * rate / low:,.2f}"
        more.insert(0, f"${price:,.2f} per million generated tokens ({between})")
        if g.usd_per_million_input is not None and g.usd_per_million_output is not None:
            prompt, written = f"${g.usd_per_million_input:,.3g}", f"${g.usd_per_million_output:,.3g}"
            more.insert(1, f"by the time each takes {prompt} per million prompt tokens, {written} generated")
    return Card("Throughput", f"{rate:,.0f} tokens/s", f"{low:,.0f} to {high:,.0f} tokens/s", tuple(more))


def _memory_card(m: Memory) -> Card:
    parts = (("weights", m.weights), ("KV cache", m.cache), ("state", m.state), ("activations", m.activations),
             ("overhead", m.overhead))  # fmt: skip
    said = ", ".join(f"{name} {si(value, 'B')}" for name, value in parts if value)
    fits = "fits" if m.fits else "does not fit"
    return Card(
        "Memory", si(m.total, "B"), "", (f"of {si(m.capacity, 'B')} on the fullest chip: {fits}", said),
        float(m.total / m.capacity),
    )  # fmt: skip


def cards_table(every: tuple[Card, ...]) -> Table:
    """The cards as a table."""
    heads = (Column("Figure"), Column("Expected"), Column("80 % of measurements"), Column("Also"))
    return Table(heads, tuple((c.name, c.value, c.interval, "; ".join(c.more)) for c in every), name=FIGURES_TABLE)


# -- what limits, what helps ---------------------------------------------------------------------------------------
def limits(r: Report) -> tuple[str, ...]:
    """What limits each phase, and the batch size from which decode is compute bound."""
    lines = [f"{name.capitalize()} is {e.bound} bound: {shares_text(e)}." for name, e in r.estimates]
    return (*lines, critical_batch_text(r))


def critical_batch_text(r: Report) -> str:
    """The batch size from which decode is compute bound, as a sentence."""
    c, context = r.critical, counted(r.middle, "token")
    if c.batch is not None:
        return f"Decode at {context} of context is compute bound from a batch of {whole(c.batch)} on."
    return (
        f"Decode at {context} of context stays memory bound at every batch size: compute never exceeds "
        f"{percent(c.balance)} of memory time."
    )


def best_changes(r: Report) -> tuple[Advice, ...]:
    """The changes with the largest gain in tokens/s per chip, the best of each lever; none that loses."""
    best = best_of_levers(r.advice, lambda a: a.lever, lambda a: a.gain, lambda a: a.generation.grade)
    return best[:MOST_CHANGES]


def changes_table(r: Report) -> Table | None:
    """The best changes side by side with all their effects; None if nothing helps."""
    best = best_changes(r)
    if not best:
        return None
    now = r.generation
    columns = [_column(now, now), *(_column(a.generation, now, a) for a in best)]
    heads = (Column(""), Column("As it is"), *(Column(a.what) for a in best))
    rows = zip(ROWS, *columns, strict=True)
    kept = tuple(row for row in rows if any(cell not in ("", "–") for cell in row[1:]))
    return Table(heads, kept, name=CHANGES_TABLE)


ROWS = ("Option", "Chips", "Tokens/s per chip", "Tokens/s", "TTFT", "TPOT", "Latency of the batch", "Memory of a chip",
        "USD per million generated tokens", "Energy per token", "Quality", "Grade")  # fmt: skip


def _column(g: Generation, now: Generation, a: Advice | None = None) -> tuple[str, ...]:
    """Cells of a change, top to bottom: its figures, and their change from now."""

    def beside(value: Count | None, before: Count | None, text: str) -> str:
        if value is None or before is None:
            return "–"
        return text if a is None else f"{text} ({change(float(value / before))})"

    def time(value: Count, before: Count) -> str:
        return beside(value, before, seconds(value))

    per_chip, rate = float(g.tokens_per_second_per_chip), float(g.tokens_per_second)
    price, joules = g.usd_per_million_tokens, g.joules_per_token
    return (
        "" if a is None else a.option,
        whole(g.deployment.chips),
        beside(per_chip, float(now.tokens_per_second_per_chip), f"{per_chip:,.0f}"),
        beside(rate, float(now.tokens_per_second), f"{rate:,.0f}"),
        time(g.ttft.expected, now.ttft.expected),
        time(g.tpot.expected, now.tpot.expected) if now.output > 1 else "–",
        time(g.latency.expected, now.latency.expected),
        beside(g.memory.total, now.memory.total, si(g.memory.total, "B")),
        beside(price, now.usd_per_million_tokens, "–" if price is None else f"{price:,.2f}"),
        beside(joules, now.joules_per_token, "–" if joules is None else f"{float(joules):,.3g} J"),
        "–" if a is None else quality(a),
        g.grade,
    )


def quality(a: Advice) -> str:
    """Effect of a change on the answers: narrower formats may change them, other changes do not."""
    return "answers may change" if a.lever in NARROWER else "unchanged"
