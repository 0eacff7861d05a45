"""The page's modules as one script: a browser loads no modules from files on a disk, but it runs a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_IMPORT = re.compile(r'^import (?:\{([^}]*)\}|\* as (\w+)) from "\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


def bundled(folder: Path, last: str) -> str:
    """All modules that the module `last` wants, each a function that is called once, in an order that suits them."""
    parts = [_called(name, text) for name, text in _wanted(folder, last, {})]
    return '"use strict";\n' + "\n".join(parts)


def _wanted(folder: Path, name: str, before: dict[str, None]) -> Iterator[tuple[str, str]]:
    """A module after those that it imports, each once."""
    if name in before:
        return
    before[name] = None
    text = (folder / f"{name}.js").read_text(encoding="utf-8")
    for imported in _IMPORT.finditer(text):
        yield from _wanted(folder, imported[3], before)
    yield name, text


def _called(name: str, text: str) -> str:
    exports = ", ".join(dict.fromkeys(_EXPORT.findall(text)))
    body = re.sub(r"^export ", "", _IMPORT.sub(_taken, text), flags=re.MULTILINE)
    if not exports:  # the last one, which may wait
        return f"(async () => {{\n{body}}})();\n"
    return f"const module_{name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


def _taken(imported: re.Match[str]) -> str:
    names = imported[2] or "{ " + imported[1].strip().replace(" as ", ": ") + " }"
    return f"const {names} = module_{imported[3]};\n"
