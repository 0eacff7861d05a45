"""Sanitise untrusted text (names of models, chips, engines and columns, keys of a config) for each kind of output.

The letters of such text are shown in a terminal, a table, a page or a plot, but none of it acts as a terminal command,
a tag, a link, a formula or a line break.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

Plot = TypeVar("Plot")
WIDEST_LINE = 160
"""Maximum characters of a line on stderr, prefix included."""
LONGEST_WORD = 60
"""Maximum characters of a name repeated in a warning."""


def inert_line(text: str) -> str:
    """One line: line breaks, control characters and bidirectional marks become blanks.

    >>> inert_line("a\\x1b[31m\\nb")
    'a [31m b'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def inert_lines(text: str) -> str:
    """Text for a terminal; line breaks are kept.

    >>> inert_lines("a\\x1b[31m\\nb")
    'a [31m\\nb'
    """
    return "\n".join(map(inert_line, text.split("\n")))


def shortened(text: str, most: int) -> str:
    """At most `most` characters, ending in dots if shortened.

    >>> shortened("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= most else f"{text[: max(0, most - 3)]}..."


def csv_cell(value: object) -> object:
    """A cell of a CSV file; an apostrophe is put before text that a spreadsheet would take for a formula.

    Formulas begin with =, +, −, @, a tab or a line break (OWASP, CSV injection); a lone sign is not one. Numbers are
    unchanged.

    >>> csv_cell("=1+1"), csv_cell("-"), csv_cell(-3.5)
    ("'=1+1", '-', -3.5)
    """
    if not isinstance(value, str):
        return value
    text = inert_line(value)
    return f"'{text}" if value[:1] in ("\t", "\r", "\n") or (text[:1] in tuple("=+-@") and len(text) > 1) else text


def inert_markdown(text: str) -> str:
    """Escape text within a line of Markdown: no tags, entities, links, images, fences or emphasis.

    Text between single backticks stays code, which Markdown does not interpret.

    >>> inert_markdown("<b>[x](y)</b> *z*")
    '&lt;b>\\\\[x\\\\](y)&lt;/b> \\\\*z\\\\*'
    """
    tagless = re.sub(r"&(?=[#\w])", "&amp;", inert_line(text)).replace("<", "&lt;")
    return re.sub(r"([\\*\[\]]|(?<=`)`)", r"\\\1", tagless)


def markdown_cell(text: str) -> str:
    """Escape text in a cell of a Markdown table.

    >>> markdown_cell("a|b")
    'a\\\\|b'
    """
    return inert_markdown(text).replace("|", "\\|")


def inert_mermaid(text: str) -> str:
    """Escape text of a quoted Mermaid label: characters special to Mermaid or HTML become entities such as `#34;`.

    >>> inert_mermaid('"]<b>')
    '#34;#93;#60;b#62;'
    """
    return re.sub(r"[\"'`#&;<>\[\]{}|\\]", lambda sign: f"#{ord(sign[0])};", inert_line(text))


def inert_html(text: str) -> str:
    """Escape text that a script inserts into a page: no tags, entities, formulas or templates.

    >>> inert_html("<b>${x}")
    '&lt;b&gt;&#36;&#123;x}'
    """
    from html import escape  # a large table, loaded only for pages

    return escape(inert_line(text), quote=False).replace("$", "&#36;").replace("{", "&#123;")


def each_text(value: Plot, change: Callable[[str], str]) -> Plot:
    """Apply `change` to every text in a value made of frozen dataclasses and tuples."""
    changed: Any = value
    if isinstance(value, str):
        changed = change(value)
    elif isinstance(value, tuple):
        changed = tuple(each_text(part, change) for part in value)
    elif is_dataclass(value) and not isinstance(value, type):
        changed = replace(value, **{f.name: each_text(getattr(value, f.name), change) for f in fields(value) if f.init})
    return changed  # type: ignore[no-any-return]
