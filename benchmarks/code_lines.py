"""Counts the code of the package by room, and lists its largest and most complex functions.

    python benchmarks/code_lines.py [FOLDER] [--functions 10]

A code line is one that holds code: docstrings, comments, blank lines and imports are none. JavaScript, style sheets and
templates count all lines but blank ones and comments. Complexity is McCabe's (1976): one more than the branches,
boolean operators and comprehension conditions of a function. `FOLDER`: another tree's `src/roofline`.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "roofline"
OTHER = (".js", ".css", ".j2", ".html")
NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
)  # fmt: skip
BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension, ast.match_case, ast.Assert)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def code_lines(text: str) -> set[int]:
    """The numbers of the lines of a Python file that hold code."""
    tree = ast.parse(text)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - left_out


def other_lines(text: str) -> int:
    """Lines of a script, style sheet or template that are neither blank nor comments."""
    plain = re.sub(r"/\*.*?\*/|<!--.*?-->|\{#.*?#\}", "", text, flags=re.DOTALL)
    return sum(1 for line in plain.splitlines() if line.strip() and not line.strip().startswith("//"))


def functions(tree: ast.Module, prefix: str) -> Iterator[tuple[str, Function]]:
    """All functions of a file with their names, methods and inner ones too."""

    def inside(node: ast.AST, name: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield f"{name}{child.name}", child
                yield from inside(child, f"{name}{child.name}.")
            else:
                yield from inside(child, f"{name}{child.name}." if isinstance(child, ast.ClassDef) else name)

    yield from inside(tree, prefix)


def complexity(function: Function) -> int:
    """McCabe's number."""
    nodes = list(ast.walk(function))
    operators = sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
    conditions = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return 1 + sum(isinstance(node, BRANCHES) for node in nodes) + operators + conditions


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PACKAGE)
    parser.add_argument("--functions", type=int, default=10, help="of each list")
    asked = parser.parse_args()
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    sizes: list[tuple[int, str]] = []
    branches: list[tuple[int, str]] = []
    for path in sorted(asked.folder.rglob("*")):
        parts = path.relative_to(asked.folder).parts
        room = parts[0] if len(parts) > 1 else ""
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            code = code_lines(text)
            files[room], lines[room] = files[room] + 1, lines[room] + len(code)
            name = ".".join(path.relative_to(asked.folder).with_suffix("").parts)
            for function, node in functions(ast.parse(text), f"{name}:"):
                span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                sizes.append((len(code & set(span)), function))
                branches.append((complexity(node), function))
        elif path.suffix in OTHER:
            lines["scripts, styles, templates"] += other_lines(path.read_text(encoding="utf-8"))
            files["scripts, styles, templates"] += 1
    print(f"{'room':<28}{'files':>6}{'code lines':>12}")
    for room in sorted(lines):
        print(f"{room or '(beside the rooms)':<28}{files[room]:>6}{lines[room]:>12,}")
    python = sum(count for room, count in lines.items() if "," not in room)
    print(f"{'all Python':<28}{sum(n for room, n in files.items() if ',' not in room):>6}{python:>12,}")
    for title, rows in (("largest, code lines", sizes), ("most complex", branches)):
        print(f"\n{title}")
        for value, name in sorted(rows, reverse=True)[: asked.functions]:
            print(f"{value:>6}  {name}")


if __name__ == "__main__":
    main()
