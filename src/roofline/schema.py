"""JSON Schemas of the results, generated from their figures and types.

`python -m roofline.schema FOLDER` writes one file per schema.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from itertools import pairwise
from json import dumps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from roofline.declared.numbers.maths import Count
from roofline.declared.question import Hint
from roofline.declared.result import Figured, Flag, Result, Word
from roofline.views.files.atomic import whole_file

RESULTS = {
    "views.text.inference.analysis": "Steps",
    "work.analysis": "Analysis",
    "inference.step": "Estimate",
    "work.explain": "Explanation",
    "views.text.inference.explain": "Explanations",
    "inference.generate": "Generation",
    "inference.encode": "Encoding",
    "serving.server": "Serving",
    "serving.pools": "Pools",
    "serving.simulate.simulation": "Simulation",
    "inference.fit": "Fit",
    "inference.offload": "Offload",
    "training.estimate": "TrainingEstimate",
    "training.runs.run": "Run",
    "training.breakdown": "Breakdown",
    "measured.accuracy.accuracy": "Accuracy",
    "views.text.training.training": "Trained",
    "whatif.answer": "FirstAnswer",
    "whatif.diff": "Difference",
    "whatif.machine_choice": "MachineChoice",
    "whatif.search.search": "Search",
    "whatif.search.training_search": "TrainingSearch",
    "whatif.solve.solution": "Solution",
    "whatif.sensitivity.sensitivity": "Sensitivity",
    "whatif.codesign": "Codesign",
    "views.plots.data": "RooflinePlot SharesPlot SweepPlot MemoryPlot ParametersPlot MapPlot BarsPlot TornadoPlot "
    "DiagramPlot SimulationPlot StepMemoryPlot FrontPlot RowsPlot RatiosPlot "
    "EnergyPlot",
    "measured.compare.comparison": "Comparison",
    "measured.compare.benchmarks": "ComparedResults",
    "measured.compare.bench_fit": "BenchFit",
    "whatif.search.what_fits": "WhatRuns",
    "whatif.sweep.sweep": "Sweep",
    "views.report.completed": "Finished",
    "views.text.catalogs.models": "Catalog ModelTypes ModelAnswer StoredTensors ConfigChecks",
    "views.text.catalogs.chips": "Chips Clusters",
    "views.text.catalogs.here": "Here",
    "measured.calibrate.cases": "Calibration",
    "doors.compat.model_info.account": "Account",
    "declared.result": "Grid",
}
"""Module → its result types."""
Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, or several by name."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
COUNT = {
    "description": "A number, or an array of them as nested lists; null where there is none, or it is infinite.",
    "anyOf": [{"type": ["number", "null"]}, {"type": "array", "items": {"$ref": "#/$defs/Count"}}],
}
WORD = {
    "description": "A word, or an array of them as nested lists.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Word"}}],
}
FLAG = {
    "description": "Yes or no, or an array of these as nested lists.",
    "anyOf": [{"type": "boolean"}, {"type": "array", "items": {"$ref": "#/$defs/Flag"}}],
}
MARKERS: Mapping[Hint, Schema] = {Count: COUNT, Word: WORD, Flag: FLAG}
PLAIN: Mapping[Hint, Schema] = {
    str: {"type": "string"}, bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": ["number", "null"]},
    NoneType: {"type": "null"}, Any: {},
}  # fmt: skip
"""Python type → JSON Schema. An infinite float is null."""


def schemas() -> Mapping[str, Schema]:
    """Name of a schema, without its version → the schema."""
    together: dict[str, list[type[Result]]] = {}
    for kind in results():
        together.setdefault(kind.SCHEMA, []).append(kind)
    return {_short(name): _document(name, kinds) for name, kinds in together.items()}


def results() -> Iterator[type[Result]]:
    """All result types."""
    for module, names in RESULTS.items():
        for name in names.split():
            yield getattr(import_module(f"roofline.{module}"), name)


def _short(name: str) -> str:
    return name.removeprefix("roofline.").partition("/")[0]


def _document(name: str, kinds: Sequence[type[Result]]) -> Schema:
    definitions: Schema = {}
    bodies = [_object(kind, definitions) for kind in kinds]
    for body in bodies:
        body["properties"] = {"schema": {"const": name}, **body["properties"]}
        body["required"] = ["schema", *body["required"]]
    whole = bodies[0] if len(bodies) == 1 else {"anyOf": bodies}
    return {"$schema": DIALECT, "title": name, **whole, "$defs": dict(sorted(definitions.items()))}


def _object(kind: type, definitions: Schema) -> Schema:
    """The schema of a class: its figures if it declares any, else its fields."""
    units: Mapping[str, str] = getattr(kind, "FIGURES", None) or dict.fromkeys((f.name for f in fields(kind)), "")
    properties = {}
    for name, unit in units.items():
        type_, says = figure_type(kind, name)
        extras = {"description": says} if says else {}
        extras |= {"unit": unit} if unit else {}
        properties[name] = {**schema_of(type_, definitions), **extras}
    about = {"description": " ".join(inspect.cleandoc(kind.__doc__).split())} if kind.__doc__ else {}
    return {**about, "type": "object", "properties": properties, "required": list(properties)}


def figure_type(kind: type, name: str) -> tuple[Hint, str]:
    """The type of a figure of a class, and its description from the docstring."""
    attribute = getattr(kind, "NAMES", {}).get(name, name)
    member = inspect.getattr_static(kind, attribute, None)
    if isinstance(member, (property, cached_property)):
        getter: Any = member.fget if isinstance(member, property) else member.func
        return get_type_hints(getter, localns=_later())["return"], _first(member.__doc__)
    hints = _hints(kind)
    if attribute in hints:
        return hints[attribute], field_docs(kind).get(attribute, "")
    return figure_type(kind.OF, name)  # type: ignore[attr-defined]


def schema_of(type_: Any, definitions: Schema) -> Schema:
    """The schema of a type; objects and markers are added to `definitions`. Raises TypeError for unsupported types."""
    if type_ in MARKERS:
        definitions[type_.__name__] = MARKERS[type_]
        return {"$ref": f"#/$defs/{type_.__name__}"}
    if type_ in PLAIN:
        return dict(PLAIN[type_])
    origin, inner = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(t, definitions) for t in inner]}
    if origin is ClassVar:
        return schema_of(inner[0], definitions)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is tuple and inner[1:] != (...,):
        return {"type": "array", "prefixItems": [schema_of(t, definitions) for t in inner]}
    if origin in (tuple, list):
        return {"type": "array", "items": schema_of(inner[0], definitions)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1], definitions)}
    if hasattr(type_, "plain"):
        return schema_of(get_type_hints(type_.plain)["return"], definitions)
    if is_dataclass(type_) or (isinstance(type_, type) and issubclass(type_, Figured)):
        name = type_.__name__  # type: ignore[union-attr]
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = _object(type_, definitions)  # type: ignore[arg-type]
        return {"$ref": f"#/$defs/{name}"}
    raise TypeError(f"{type_} has no form in JSON")


@cache
def _hints(kind: type) -> Mapping[str, Hint]:
    """The types of a class's fields, cached since a schema needs them field by field."""
    return get_type_hints(kind, localns=_later())


@cache
def _later() -> dict[str, Hint]:
    """Types that modules name without importing them."""
    from roofline.inference.step import Estimate

    return {"Estimate": Estimate}


@cache
def field_docs(kind: type) -> Mapping[str, str]:
    """The descriptions of a class's fields, from the strings below them."""
    docs: dict[str, str] = {}
    for base in kind.__mro__[:-1]:
        for line, below in pairwise(_classes(base.__module__)[base.__name__].body):
            if isinstance(line, ast.AnnAssign) and isinstance(below, ast.Expr):
                docs.setdefault(ast.unparse(line.target), _first(ast.literal_eval(below.value)))
    return docs


@cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """Class name → syntax tree, for a module; of two classes with the same name, the outer. Modules are parsed once."""
    classes: dict[str, ast.ClassDef] = {}
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, node)
    return classes


def _first(doc: str | None) -> str:
    """The first paragraph of a docstring, as one line."""
    return " ".join(inspect.cleandoc(doc or "").partition("\n\n")[0].split())


def write_schemas(folder: Path) -> None:
    """Write all schemas into a folder, and delete other JSON files there."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {f"{name}.json": dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas().items()}
    for path in folder.glob("*.json"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        whole_file(folder / name, partial(Path.write_text, data=text, encoding="utf-8"), force=True)


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
