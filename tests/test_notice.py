"""NOTICE.md has a licence for the source of every datum: models, tables of measurements, figures of chips."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

import roofline as rl
from documented import ROOT

NOTICE = (ROOT / "NOTICE.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "roofline"
SOURCES = frozenset({"source", "figures", "usable"})
"""Keys of the catalogs that say where a figure comes from."""


def rows(title: str) -> list[list[str]]:
    """The rows of the tables of a section, without their heads."""
    section = NOTICE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", section, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for table in tables for line in table.splitlines()]


def quoted(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def sources(table: Mapping[str, object] | list[object], key: str = "") -> Iterator[str]:
    """Every text of a catalog that names a source."""
    for name, value in table.items() if isinstance(table, Mapping) else ((key, value) for value in table):
        if isinstance(value, Mapping | list):
            yield from sources(value, name)
        elif name in SOURCES and isinstance(value, str):
            yield value


def every_source() -> set[str]:
    files = (path for path in PACKAGE.rglob("*.toml"))
    return {text for path in files for text in sources(tomllib.loads(path.read_text(encoding="utf-8")))}


def test_every_model_has_one_licence() -> None:
    patterns = [pattern for row in rows("Configs of models") for pattern in quoted(row[0])]
    models = list(rl.catalog())
    assert len(models) > 250
    licences = {model: [p for p in patterns if fnmatchcase(model, p)] for model in models}
    exact = {model: [p for p in of if p == model] or of for model, of in licences.items()}
    assert {model: of for model, of in exact.items() if len(of) != 1} == {}
    assert [p for p in patterns if not any(p in of for of in exact.values())] == []


def test_every_table_of_measurements_has_a_licence() -> None:
    globs = [glob for row in rows("Measurements") for glob in quoted(row[2])]
    page = (ROOT / "docs" / "accuracy" / "rows.csv").read_text(encoding="utf-8")
    fitted = (PACKAGE / "measured" / "accuracy" / "fitted_on.toml").read_text(encoding="utf-8")
    tables = {*re.findall(r"^([a-z0-9_]+\.csv),", page, re.MULTILINE), *re.findall(r'"(\w+\.csv)"', fitted)}
    assert len(tables) > 60
    assert sorted(table for table in tables if not any(fnmatchcase(table, glob) for glob in globs)) == []
    assert all(licence for _, licence, _ in rows("Measurements"))


def test_licences_that_constants_name_are_those_of_the_table() -> None:
    """The heads of the files of constants say `SOURCE (LICENCE)`."""
    licences = {name: row[1] for row in rows("Measurements") for name in re.findall(r"/([\w-]+)", row[0])}
    heads = (path.read_text(encoding="utf-8").partition("\n[")[0] for path in (PACKAGE / "kernels").rglob("*.toml"))
    said = {(m[1], m[2]) for head in heads for m in re.finditer(
        r"(?<=[ #])(\w[\w' ]*?) \((Apache-2\.0|MIT|BSD-3)\)", re.sub(r"\s*\n# ?", " ", head))}  # fmt: skip
    assert len(said) >= 6
    for words, licence in said:
        of = [value for name, value in licences.items() if name.lower() in words.lower()]
        assert any(value.startswith(licence) for value in of), (words, licence)


def test_every_source_of_a_catalog_has_a_licence() -> None:
    words = [word for row in rows("Published figures") if len(row) == 2 for word in quoted(row[0])]
    texts = every_source()
    assert len(texts) > 150
    assert sorted(text for text in texts if not any(word in text for word in words)) == []
    assert [word for word in words if not any(word in text for text in texts)] == []


def test_what_a_row_names_is_there() -> None:
    files = [
        row for title in ("Published figures", "Only in the source archive") for row in rows(title) if len(row) == 3
    ]
    assert len(files) == 8
    assert [path for row in files for path in quoted(row[0]) if not (ROOT / path).exists()] == []
