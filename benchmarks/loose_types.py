"""Counts the lines of the package that say `Any`, `cast`, `type: ignore` or `object`, by room.

    python benchmarks/loose_types.py

Generated stubs are left out. `tests/test_loose_types.py` lets the numbers only fall.
"""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from pathlib import Path

WORDS = ("Any", "cast", "object")
IGNORED = "type: ignore"


def loose_lines(path: Path) -> Counter[str]:
    """How many lines of a file hold each, in code or, where it is said to the type checker, in comments."""
    lines: dict[str, set[int]] = {word: set() for word in (*WORDS, IGNORED)}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME and token.string in WORDS:
            lines[token.string].add(token.start[0])
        elif token.type == tokenize.COMMENT and IGNORED in token.string:
            lines[IGNORED].add(token.start[0])
    return Counter({word: len(numbers) for word, numbers in lines.items()})


def loose_types(package: Path) -> dict[str, Counter[str]]:
    """The same of every room of the package; files of no room stand under ""."""
    rooms: dict[str, Counter[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        rooms.setdefault(parts[0] if len(parts) > 1 else "", Counter()).update(loose_lines(path))
    return rooms


def main() -> None:
    """Prints the table."""
    rooms = loose_types(Path(__file__).parents[1] / "src" / "roofline")
    print(f"{'room':<12}" + "".join(f"{word:>14}" for word in (*WORDS, IGNORED)))
    for name, count in (*rooms.items(), ("all", sum(rooms.values(), Counter()))):
        print(f"{name:<12}" + "".join(f"{count[word]:>14}" for word in (*WORDS, IGNORED)))


if __name__ == "__main__":
    main()
