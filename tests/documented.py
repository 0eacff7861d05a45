"""What a page of the documentation tells its reader to install and to run, and a Python that has no more than that."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
FOR_DEVELOPERS = frozenset({"test", "docs", "oracle"})
"""Extras that no command may need: who only uses the package never installs them."""
RUNNER = ("pytest", "pytest-xdist", "hypothesis", "packaging")
"""What runs the tests cannot be hidden from them."""


@dataclass(frozen=True)
class Told:
    """A command or a snippet of a page, and the extras that the install lines above it name."""

    page: str
    text: str
    extras: frozenset[str]


COMMAND = re.compile(r"^\$ (?!.*\bpip install\b)(.+)$", re.MULTILINE)
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[Told]:
    """The lines of a page that a prompt stands before, those that install apart."""
    return _told(page, COMMAND)


def snippets(page: Path) -> list[Told]:
    """The Python of a page."""
    return _told(page, SNIPPET)


def _told(page: Path, what: re.Pattern[str]) -> list[Told]:
    text = page.read_text(encoding="utf-8")
    return [Told(page.name, m[1], installs(text[: m.start()])) for m in what.finditer(text)]


def installs(text: str) -> frozenset[str]:
    """The extras that lines of code in a text install, those for developers apart."""
    lines = re.findall(r"^(?:    |\$ ).*\bpip install .*\[([\w,]+)\]", text, re.MULTILINE)
    return frozenset(extra for names in lines for extra in names.split(",")) - FOR_DEVELOPERS


@contextmanager
def installed(extras: Iterable[str]) -> Iterator[None]:
    """A Python that has the package with these extras: an import of what only others bring fails."""
    hidden = modules(extras)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in hidden}
    finder = _Hidden(hidden)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.modules.update(kept)


class _Hidden(MetaPathFinder):
    """Says of some packages that they are not there."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        """Fails for a hidden package, and leaves the others to Python."""
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def modules(extras: Iterable[str]) -> frozenset[str]:
    """Top-level modules in this Python that extras of the package brought, but not these nor the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    there = _needed((*project["dependencies"], *RUNNER, *(r for e in extras for r in optional[e])))
    away = _needed(r for needs in optional.values() for r in needs) - there
    return frozenset(
        module for module, names in _distributions().items() if {canonicalize_name(n) for n in names} <= away
    )


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def _needed(texts: Iterable[str]) -> frozenset[str]:
    """The distributions that requirements bring, those they need in turn included."""
    visited: set[tuple[str, frozenset[str]]] = set()
    left = [(Requirement(text), frozenset[str]()) for text in texts]
    while left:
        need, of = left.pop()
        key = canonicalize_name(need.name), frozenset(need.extras)
        if key in visited or not (need.marker is None or any(need.marker.evaluate({"extra": e}) for e in ("", *of))):
            continue
        visited.add(key)
        try:
            left += [(Requirement(text), key[1]) for text in requires(need.name) or ()]
        except PackageNotFoundError:
            continue
    return frozenset(name for name, _ in visited)
