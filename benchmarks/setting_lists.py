"""Counts the places where the settings of `serve` are written out: each is one more to change for a new setting.

    python benchmarks/setting_lists.py            every list, with the settings that it names

A list is a signature, the body of a class, a collection, a call or a table of TOML or JavaScript with `LEAST` or more
of the settings' names. A text of several words counts as a collection of them, and a
mapping that is passed on with `**` as the arguments of its call. Generated files are left out.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEAST = 4
NAMES = frozenset(
    "on layout input output output_tokens concurrency rate rounds prefix formula engine precision law bill speculation "
    "images image_size draft mtp draft_length acceptance prefill_layout prefill_on prefill_engine chips prefills "
    "decodes price years utilisation pue grid".split()
)
GENERATED = frozenset({"__init__.pyi", "questions.json"})
TABLE = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]+(?=\"?\s*[:,=}\]])|(?<=\")[a-z_]+(?=\")")


LISTING = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Dict, ast.Tuple, ast.List, ast.Set, ast.Call,
    ast.Constant,
)  # fmt: skip
"""What of a module may be a list: most of its nodes are none."""


@dataclass(frozen=True)
class SettingList:
    """One place, and the names that stand there."""

    path: Path
    line: int
    kind: str
    names: tuple[str, ...]


def _words(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from re.findall(r"[a-z_]+", node.value.replace("-", "_")) if len(node.value) < 400 else ()


def _single(nodes: list[ast.expr]) -> Iterator[str]:
    """Texts of one word; the value of a name or an attribute of that name."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            yield node.value.strip("-").replace("-", "_")
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _named(node: ast.AST) -> tuple[str, list[str]]:
    match node:
        case ast.FunctionDef(args=a) | ast.AsyncFunctionDef(args=a) | ast.Lambda(args=a):
            return "signature", [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
        case ast.ClassDef(body=body):
            targets = [t for s in body for t in ([s.target] if isinstance(s, ast.AnnAssign)
                                                 else s.targets if isinstance(s, ast.Assign) else [])]  # fmt: skip
            return "class", [t.id for t in targets if isinstance(t, ast.Name)]
        case ast.Dict(keys=keys):
            return "mapping", list(_single([k for k in keys if k is not None]))
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return "collection", list(_single(elements))
        case ast.Call(keywords=keywords, args=args):
            given = [k.arg for k in keywords if k.arg is not None]
            return "call", [*given, *_single(list(args))]
        case ast.Constant(value=str()):
            return "text", list(_words(node))
        case _:
            return "", []


def python_lists(path: Path) -> Iterator[SettingList]:
    """Those of a module. Docstrings are no lists."""
    text = path.read_text(encoding="utf-8")
    if len(NAMES.intersection(word.strip("_") for word in re.findall(r"[a-z_]+", text.replace("-", "_")))) < LEAST:
        return
    nodes = list(ast.walk(ast.parse(text)))
    said = {id(n.value) for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    said |= {id(v) for n in nodes if isinstance(n, ast.JoinedStr) for v in n.values}
    prose = {id(n) for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)
             and not re.fullmatch(r"[-a-z_ ]+", n.value)}  # fmt: skip
    left_out = said | prose
    for node in nodes:
        if not isinstance(node, LISTING) or id(node) in left_out:
            continue
        kind, given = _named(node)
        names = tuple(dict.fromkeys(name for name in given if name in NAMES))
        if len(names) >= LEAST:
            yield SettingList(path, getattr(node, "lineno", 0), kind, names)


def text_lists(path: Path) -> Iterator[SettingList]:
    """Those of a file of TOML or JavaScript: brackets with that many names."""
    text = path.read_text(encoding="utf-8")
    for match in TABLE.finditer(text):
        names = tuple(dict.fromkeys(n for n in WORD.findall(match[0]) if n in NAMES))
        if len(names) >= LEAST:
            yield SettingList(path, text.count("\n", 0, match.start()) + 1, "table", names)


def setting_lists(folder: Path) -> tuple[SettingList, ...]:
    """All under a folder."""
    files = [p for p in sorted(folder.rglob("*")) if p.name not in GENERATED]
    return tuple(
        found
        for path in files
        if path.suffix in (".py", ".toml", ".js")
        for found in (python_lists(path) if path.suffix == ".py" else text_lists(path))
    )


if __name__ == "__main__":
    root = Path(__file__).parent.parent / "src" / "roofline"
    found = setting_lists(Path(sys.argv[1]) if len(sys.argv) > 1 else root)
    for one in found:
        print(f"{one.path.relative_to(root)}:{one.line}: {one.kind}: {' '.join(one.names)}")
    print(f"{len(found)} lists")
