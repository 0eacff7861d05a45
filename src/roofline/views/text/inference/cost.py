"""Lines with the cost of a result in money, energy and carbon, and its assumptions."""

from __future__ import annotations

from roofline.inference.cost.cost import Spent
from roofline.inference.encode import Encoding


def cost_lines(result: Spent, width: int = 9, *, assumed: bool = True, token: str = "generated token") -> list[str]:
    """Lines of money and energy, where known, and of their assumptions; names are padded to a width.

    `token`: the tokens over which the total is divided; the price of generated tokens includes that of prompts.
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


def assumed_lines(result: Spent | Encoding, width: int = 9) -> list[str]:
    """The assumptions of the figures, each with its setting."""
    return [f"{'assumed':<{width}}{said}" for said in result.cost_assumptions]
