"""Lines of what a result costs, in money, energy and carbon, and of what is assumed."""

from __future__ import annotations

from roofline.inference.cost import Spent


def cost_lines(result: Spent, width: int = 9, *, assumed: bool = True, token: str = "generated token") -> list[str]:
    """A line of money and one of energy, as far as they are known, and what they assume; names padded to a width.

    `token`: over whose number the whole is shared out; prompts are part of the price of what is generated.
    """
    lines = []
    hour, each = result.usd_per_hour, result.usd_per_million_tokens
    read, written = result.usd_per_million_input, result.usd_per_million_output
    if hour is not None and each is not None:
        apart = ""
        if read is not None and written is not None:
            apart = f"; by the time each takes {read:,.3g} per million prompt tokens, {written:,.3g} generated"
        lines.append(f"{'cost':<{width}}{hour:,.2f} USD/h, {each:,.3g} USD per million {token}s{apart}")
    if result.power is not None and result.joules_per_token is not None:
        carbon = result.co2_per_million_tokens
        grams = "" if carbon is None else f", {carbon:,.3g} g CO2e per million {token}s"
        lines.append(f"{'energy':<{width}}{result.power:,.0f} W, {result.joules_per_token:.3g} J per {token}{grams}")
    return [*lines, *(assumed_lines(result, width) if lines and assumed else [])]


def assumed_lines(result: Spent, width: int = 9) -> list[str]:
    """What the figures assume, each with its setting."""
    return [f"{'assumed':<{width}}{said}" for said in result.cost_assumptions]
