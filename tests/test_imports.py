"""No module imports itself through others, not even inside a function or for types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import roofline

PACKAGE = Path(roofline.__file__).parent


def name_of(path: Path) -> str:
    """The module of a file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, known: frozenset[str]) -> Iterator[str]:
    """The modules of the package that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & known
            yield from inner or ({node.module} & known)


def graph() -> Mapping[str, frozenset[str]]:
    """Every module and those that it imports; the package itself names what it lends, to import it when it is used."""
    files = {name_of(path): path for path in PACKAGE.rglob("*.py")}
    known = frozenset(files) - {"roofline"}
    return {name: frozenset(imports_of(files[name], known)) - {name} for name in known}


def circles(edges: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Sets of modules that reach each other (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    sets: list[tuple[str, ...]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(edges[module] & edges.keys()):
            if other not in order:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                sets.append(tuple(sorted(stack[at:])))
            del stack[at:]

    for module in sorted(edges):
        if module not in order:
            visit(module)
    return sets


def test_no_module_imports_itself_through_others() -> None:
    assert circles(graph()) == []
