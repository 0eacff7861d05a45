"""The sentences of a page or of a help text, and the words that have no place in them."""

from __future__ import annotations

import re

LONGEST = 30
"""Words of the longest sentence that is read in one go."""

FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|al|No|St)\.(?=\s)")
BREAK = re.compile(r"(?<=[.!?])[)*_\"']*\s+(?=[A-Z0-9`*_\[(])")


def sentences(markdown: str) -> list[str]:
    """The sentences of Markdown without its code, tables, headings and links' targets.

    A paragraph and an item of a list end a sentence; so do a full stop, a question mark and an exclamation mark.
    A piece of code counts as one word, and so does a formula, which has no spaces between backticks.
    """
    text = HIDDEN.sub("", FENCE.sub("", markdown))
    text = re.sub(r"`[^`\n]+(?:\n[^`\n]+)?`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    lines = [line for line in text.splitlines() if not re.match(r"\s*\||#|    \S|---|!!!", line)]
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)", "\n".join(lines))
    return [s for p in paragraphs for s in spoken(re.sub(r"^\s*(?:[-*+>]|\d+\.)\s+", "", p))]


def spoken(paragraph: str) -> list[str]:
    """The sentences of a paragraph of plain text."""
    text = " ".join(ABBREVIATIONS.sub(r"\1", paragraph).split())
    return [sentence for sentence in BREAK.split(text) if sentence]


def length(sentence: str) -> int:
    """Words: what stands between spaces and has a letter or a digit; names in code one after another are one."""
    once = re.sub(r"CODE(?:,? (?:and |or )?CODE)+", "CODE", sentence)
    return sum(bool(re.search(r"\w", word)) for word in once.split())
