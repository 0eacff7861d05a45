"""What is public, as data: names and signatures, commands and options, fields of REST and MCP, JSON schemas.

`python tests/public.py` writes it to `tests/public.json`: the record of the last release, to which `test_stability.py`
holds the package. Write it when a release is made; before that, only for a change that the changelog announces.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import roofline as rl
from roofline import schema
from roofline.declared.question import question_settings
from roofline.declared.result import Figured
from roofline.doors.cli.main import app
from roofline.doors.cli.table import COMMANDS
from roofline.views.reference.settings import questions

RECORD = Path(__file__).with_name("public.json")


def signature_of(name: str) -> list[str]:
    """Parameters in their order; `=` follows one that may be left out. Of a result, its figures."""
    value = getattr(rl, name)
    asked = dict(questions()).get(name)
    if asked is not None:
        settings = {s.name: s.needed for s in question_settings(asked).values()}
        own = [text for text in parameters(asked) if text.rstrip("=") not in settings]
        return [*own, *(setting + "=" * (not needed) for setting, needed in settings.items())]
    if isinstance(value, type) and issubclass(value, Figured):
        return list(getattr(value, "FIGURES", ()))
    return list(parameters(value)) if callable(value) else []


def parameters(value: Any) -> Iterator[str]:
    """Parameters of a function or of the constructor of a class."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return
    for parameter in signature.parameters.values():
        match parameter.kind:
            case parameter.VAR_POSITIONAL:
                yield f"*{parameter.name}"
            case parameter.VAR_KEYWORD:
                yield f"**{parameter.name}"
            case _:
                yield parameter.name + "=" * (parameter.default is not parameter.empty)


def options(command: str) -> list[str]:
    """The options of a command, by the names that a person types."""
    arguments = app()[command].assemble_argument_collection(parse_docstring=True)
    return sorted({name for argument in arguments for name in argument.names if name.startswith("--")})


def bodies() -> dict[str, list[str]]:
    """The paths of REST with their methods, and the fields of their bodies."""
    from roofline.doors.web.app import page_app

    described = page_app().app.openapi()  # type: ignore[attr-defined]
    fields = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            kind = described["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {})
            needed = kind.get("required", ())
            fields[f"{method.upper()} {path}"] = [f + "=" * (f not in needed) for f in kind.get("properties", ())]
    return dict(sorted(fields.items()))


def fields_of_tools() -> dict[str, list[str]]:
    """The tools of MCP, and the fields they take."""
    from roofline.doors.mcp import tools

    taken = {tool.name: tool.input_schema for tool in tools()}
    return {
        name: [field + "=" * (field not in schema.get("required", ())) for field in schema["properties"]]
        for name, schema in sorted(taken.items())
    }


def shape(document: Mapping[str, Any]) -> Any:
    """A schema without its descriptions."""
    if isinstance(document, list):
        return [shape(part) for part in document]
    if not isinstance(document, Mapping):
        return document
    return {key: shape(part) for key, part in document.items() if not (key == "description" and isinstance(part, str))}


def public() -> dict[str, Any]:
    """All of it."""
    return {
        "names": {name: signature_of(name) for name in sorted(rl.__all__)},
        "commands": {command: options(command) for command in sorted(COMMANDS)},
        "paths": bodies(),
        "tools": fields_of_tools(),
        "schemas": {document["title"]: shape(document) for _, document in sorted(schema.schemas().items())},
    }


def written(record: Mapping[str, Mapping[str, Any]]) -> str:
    """The record with a line for each name, command, path and schema."""
    parts = []
    for part, entries in record.items():
        lines = (f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items())
        parts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    RECORD.write_text(written(public()), encoding="utf-8")
