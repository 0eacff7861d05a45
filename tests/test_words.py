"""Plain words: no long sentence and no quaint phrase in the README, the pages and the help of every command."""

from __future__ import annotations

import re

from documented import PAGES, README, ROOT
from folded import folded
from plain import LONGEST, length, sentences, spoken
from roofline.doors.cli.main import app
from roofline.doors.cli.table import COMMANDS

TEXTS = (README, ROOT / "CONTRIBUTING.md", *PAGES)
GENERATED = "<!-- what follows is written by"
QUAINT = (
    r"of which", r"those that", r"what is of", r"knobs?", r"honest", r"rides? on", r"experts apart", r"shared out",
    r"where not given", r"asks nothing of", r"some dozens", r"may as well be", r"(?:that|which|it) is no",
    r"takes? no option", r"with none", r"stands? at", r"answers? most to", r"tends? to", r"what cannot be",
    r"the times are those of", r"what rides", r"turned by", r"is left of",
)  # fmt: skip
"""Phrases of an older English than the field's, most of them seen in earlier texts of this project."""


def quaint(text: str) -> list[str]:
    """Phrases of a text that have no place in it."""
    return [m[0] for phrase in QUAINT for m in re.finditer(rf"\b{phrase}\b", " ".join(text.split()), re.IGNORECASE)]


@folded("page", TEXTS, ids=lambda p: p.name)
def test_pages(page: object) -> None:
    assert hasattr(page, "read_text")
    said = sentences(page.read_text(encoding="utf-8").partition(GENERATED)[0])
    assert [s for s in said if length(s) > LONGEST] == []
    assert [(phrase, s) for s in said for phrase in quaint(s)] == []


@folded("command", COMMANDS)
def test_help(command: str) -> None:
    """Its first words, its paragraphs, and what it says of every option; a code between backticks is one word."""
    one = app()[command]
    paragraphs = (one.help or "").partition("Parameters\n")[0].split("\n\n")
    texts = [*paragraphs, *(a.parameter.help or "" for a in one.assemble_argument_collection(parse_docstring=True))]
    said = [s for text in texts for s in spoken(re.sub(r"`[^`]+`", "CODE", text))]
    assert said
    assert [s for s in said if length(s) > LONGEST] == []
    assert [(phrase, s) for s in said for phrase in quaint(s)] == []


# -- the measure itself --------------------------------------------------------------------------------------------
def test_sentences_of_a_page() -> None:
    page = (
        "# A title. With two.\n\nOne `a b` two [three](x.md). Four\nfive!\n\n- an item\n"
        "- another; with `c`, `d` and `e`\n\n```console\n$ left out. Wholly.\n```\n\n"
        "| a | table. Row. |\n|---|---|\n\nTake e.g. this. 2.5 GB fit."
    )
    assert sentences(page) == [
        "One CODE two three.", "Four five!", "an item", "another; with CODE, CODE and CODE", "Take e.g this.",
        "2.5 GB fit.",
    ]  # fmt: skip
    assert [length(s) for s in sentences(page)] == [4, 2, 2, 3, 3, 3]


def test_quaint() -> None:
    assert quaint("Rows, of\nwhich some are those that fit.") == ["of which", "those that"]
    assert quaint("One of those cases; which is not enough.") == []
