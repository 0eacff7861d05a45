"""Names: each public one has one meaning in the package, local ones say what they hold, and no call needs a crowd."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "roofline"
FILES = sorted(SRC.rglob("*.py"))
SAYS_NOTHING = frozenset({"found", "made", "here", "held"})
"""Names of locals that could be of anything."""
MOST_PARAMETERS = 8
ALIKE: dict[str, str] = {}
"""Public functions that several modules may define, and why. Commands share their library's names."""
SEEDS_OWN = {
    "dump_model_info": "the signature of the function that it stands in for",
    "compute_and_plot_transformer_analysis": "the same, of LLM-para",
    **dict.fromkeys(
        (
            "matmul_seconds",
            "quantised_matmul_seconds",
            "prefill_seconds",
            "decode_seconds",
            "experts_seconds",
            "tiling",
        ),
        "a law in the letters of its formula; each is an array of its own, whose distinct values are timed",
    ),
    **dict.fromkeys(
        ("attention", "moe", "causal_lm", "mamba2"),
        "a block of a model: flags by keyword, of which a family names the few that its paper names",
    ),
}
"""Functions that may take more parameters, and why."""


def name_of(path: Path) -> str:
    """The module that a file is."""
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def top_level(path: Path) -> Iterator[ast.stmt]:
    """The statements of a module, those under a condition (`if TYPE_CHECKING`) included."""
    todo: list[ast.stmt] = list(tree(path).body)
    for statement in todo:
        yield statement
        if isinstance(statement, ast.If):
            todo += [*statement.body, *statement.orelse]


def types_of(path: Path) -> set[str]:
    """Public classes, type aliases and type variables of a module."""
    names: set[str] = set()
    for node in top_level(path):
        match node:
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript()) if name[:1].isupper():
                names |= set() if name.isupper() else {name}  # Rule = Callable[…, …]
            case _:
                continue
    return {name for name in names if not name.startswith("_")}


def functions_of(path: Path) -> set[str]:
    """Public functions of a module, no methods."""
    return {n.name for n in top_level(path) if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")}


def is_command(path: Path) -> bool:
    """Whether it is of the commands, which are called as the library's functions are."""
    return path.is_relative_to(SRC / "doors" / "cli")


def homes(names: dict[Path, set[str]]) -> dict[str, list[str]]:
    """Every name, and the modules that define it."""
    of: dict[str, list[str]] = {}
    for path, defined in names.items():
        for name in sorted(defined):
            of.setdefault(name, []).append(name_of(path))
    return of


@cache
def type_homes() -> dict[str, list[str]]:
    """Every public type, and the modules that define it."""
    """Kinds of settings apart: `Tokens` is what a person is asked, in the field's own word, and no class."""
    return homes({path: types_of(path) for path in FILES if name_of(path) != "roofline.declared.kinds"})


@cache
def function_homes() -> dict[str, list[str]]:
    """Every public function but commands, and the modules that define it."""
    return homes({path: functions_of(path) for path in FILES if not is_command(path)})


def test_there_is_something_to_look_at() -> None:
    assert len(type_homes()) > 150
    assert len(function_homes()) > 400
    assert type_homes()["Model"] == ["roofline.model.model"]
    assert {"Count", "TrafficRule"} <= set(type_homes())


def test_a_type_is_defined_once() -> None:
    assert {name: modules for name, modules in type_homes().items() if len(modules) > 1} == {}


def test_a_function_has_one_meaning() -> None:
    assert {name: of for name, of in function_homes().items() if len(of) > 1 and name not in ALIKE} == {}


def test_every_exception_is_needed() -> None:
    assert {name for name in ALIKE if len(function_homes().get(name, [])) < 2} == set()
    many = {name for path in FILES for name, count, _ in crowds(path) if count > MOST_PARAMETERS}
    assert set(SEEDS_OWN) <= many


# -- within a function ---------------------------------------------------------------------------------------------
def bound(path: Path) -> Iterator[tuple[str, int]]:
    """Every name that code binds, with its line: targets, arguments, captures; no attributes."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchAs(name=str(name)):
                yield name, node.lineno
            case ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, node.lineno
            case _:
                continue


def test_local_names_say_what_they_hold() -> None:
    silent = (f"{name_of(p)}:{line} {name}" for p in FILES for name, line in bound(p) if name in SAYS_NOTHING)
    assert list(silent) == []


def crowds(path: Path) -> Iterator[tuple[str, int, int]]:
    """Every function and method: its name, the number of its parameters and its line; `self` does not count.

    Questions apart: their signatures declare what a person is asked.
    """
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if any("question" in ast.unparse(decorator) for decorator in node.decorator_list):
                continue
            a = node.args
            names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs) if x.arg not in ("self", "cls")]
            yield node.name, len(names), node.lineno


def test_no_function_takes_more_than_eight() -> None:
    """Commands apart, whose parameters are the options that a person types."""
    every = ((name_of(p), *crowd) for p in FILES if not is_command(p) for crowd in crowds(p))
    over = [f"{m}.{name} ({n})" for m, name, n, _ in every if n > MOST_PARAMETERS and name not in SEEDS_OWN]
    assert over == []
