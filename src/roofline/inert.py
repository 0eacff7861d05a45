"""Text from outside (names of models, chips, engines and columns, keys of a config) made inert, a function per target.

Whoever reads such text in a terminal, a table, a page or a picture sees its letters; none of it is a command of a
terminal, a tag, a link, a formula or a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

Plot = TypeVar("Plot")
WIDEST_LINE = 160
"""Characters of a line on stderr, its beginning included."""
LONGEST_WORD = 60
"""Characters of a name that a warning repeats."""


def inert_line(text: str) -> str:
    """One line: blanks instead of line ends, controls, and marks that turn the direction of what follows.

    >>> inert_line("a\\x1b[31m\\nb")
    'a [31m b'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def inert_lines(text: str) -> str:
    """Text for a terminal, whose own line ends stay.

    >>> inert_lines("a\\x1b[31m\\nb")
    'a [31m\\nb'
    """
    return "\n".join(map(inert_line, text.split("\n")))


def shortened(text: str, most: int) -> str:
    """At most so many characters, the last of them dots where some are left out.

    >>> shortened("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= most else f"{text[: max(0, most - 3)]}..."


def csv_cell(value: object) -> object:
    """A cell of a CSV file: text that a spreadsheet would take for a formula has an apostrophe before it.

    Formulas begin with =, +, −, @, a tab or a line end (OWASP, CSV injection); a sign alone is none. Numbers stay.

    >>> csv_cell("=1+1"), csv_cell("-"), csv_cell(-3.5)
    ("'=1+1", '-', -3.5)
    """
    if not isinstance(value, str):
        return value
    text = inert_line(value)
    return f"'{text}" if value[:1] in ("\t", "\r", "\n") or (text[:1] in tuple("=+-@") and len(text) > 1) else text


def inert_markdown(text: str) -> str:
    """Text within a line of Markdown: no tags, entities, links, pictures, fences or emphasis.

    A name between single backticks stays code, in which nothing is read.

    >>> inert_markdown("<b>[x](y)</b> *z*")
    '&lt;b>\\\\[x\\\\](y)&lt;/b> \\\\*z\\\\*'
    """
    tagless = re.sub(r"&(?=[#\w])", "&amp;", inert_line(text)).replace("<", "&lt;")
    return re.sub(r"([\\*\[\]]|(?<=`)`)", r"\\\1", tagless)


def markdown_cell(text: str) -> str:
    """The same in a cell of a table.

    >>> markdown_cell("a|b")
    'a\\\\|b'
    """
    return inert_markdown(text).replace("|", "\\|")


def inert_mermaid(text: str) -> str:
    """Text of a label in quotes: what Mermaid or the page around it reads is an entity of Mermaid's, `#34;`.

    >>> inert_mermaid('"]<b>')
    '#34;#93;#60;b#62;'
    """
    return re.sub(r"[\"'`#&;<>\[\]{}|\\]", lambda sign: f"#{ord(sign[0])};", inert_line(text))


def inert_html(text: str) -> str:
    """Text that a script puts into a page: no tags, entities, formulas or templates.

    >>> inert_html("<b>${x}")
    '&lt;b&gt;&#36;&#123;x}'
    """
    from html import escape  # a long table, for pages alone

    return escape(inert_line(text), quote=False).replace("$", "&#36;").replace("{", "&#123;")


def each_text(value: Plot, change: Callable[[str], str]) -> Plot:
    """A value made of frozen dataclasses and tuples with every text in it changed."""
    changed: Any = value
    if isinstance(value, str):
        changed = change(value)
    elif isinstance(value, tuple):
        changed = tuple(each_text(part, change) for part in value)
    elif is_dataclass(value) and not isinstance(value, type):
        changed = replace(value, **{f.name: each_text(getattr(value, f.name), change) for f in fields(value) if f.init})
    return changed  # type: ignore[no-any-return]
