"""Bundle the page's ES modules into one script, as browsers do not load modules from `file:` URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_IMPORT = re.compile(r'^import (?:\{([^}]*)\}|\* as (\w+)) from "\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const|let|class) (\w+)", re.MULTILINE)


def bundled(folder: Path, last: str) -> str:
    """Bundle the module `last` and its imports; each module becomes a function call, dependencies first."""
    parts = [_called(name, text) for name, text in _wanted(folder, last, {})]
    return '"use strict";\n' + "\n".join(parts)


def _wanted(folder: Path, name: str, before: dict[str, None]) -> Iterator[tuple[str, str]]:
    """Yield (name, source) of a module after its imports, each once."""
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
    if not exports:  # the entry module, which may use await
        return f"(async () => {{\n{body}}})();\n"
    return f"const module_{name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


def _taken(imported: re.Match[str]) -> str:
    names = imported[2] or "{ " + imported[1].strip().replace(" as ", ": ") + " }"
    return f"const {names} = module_{imported[3]};\n"
