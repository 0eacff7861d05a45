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


CLIENTS = (
    "doors.mcp", "doors.web.answers", "doors.web.app", "doors.web.server.dispatcher", "doors.web.exports",
    "doors.web.page.gguf_model", "doors.web.server.middleware", "doors.web.page.page_form", "doors.web.questions",
    "doors.web.request_models", "doors.web.server.workers",
)  # fmt: skip
"""Modules that handle what clients of a server ask; `allow_list` alone turns their words into models and machines."""
REACH_PATHS = frozenset(
    "open Path PurePath pathlib os io shutil glob tempfile sqlite3 fileinput linecache runpy importlib load origin_of "
    "config_of model_of trace calibrate compare accuracy Trace chip_named cluster_named cluster_of chip_of_file "
    "own_machine read_bytes read_text read_config write_text write_bytes".split()
)
"""Names that can lead to a file."""
HARMLESS_THERE = {
    "doors.web.exports": frozenset({"BytesIO", "io"}),
    "doors.web.server.workers": frozenset({"os"}),  # `nice` and `setpriority` are imported from it
}
"""Names of these that a module uses for something else."""


def names_used(tree: ast.AST) -> Iterator[str]:
    """Names of variables, attributes and imports in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.name.partition(".")[0] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("roofline"):
                yield node.module.partition(".")[0]


def test_what_clients_ask_is_handled_without_a_name_that_reaches_a_path() -> None:
    """Beside the contract of imports: modules such as `model.load` hold both, a catalog and what opens files."""
    for name in CLIENTS:
        text = (PACKAGE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        used = set(names_used(ast.parse(text))) & REACH_PATHS
        assert used == HARMLESS_THERE.get(name, frozenset()) & used, (name, used)


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
