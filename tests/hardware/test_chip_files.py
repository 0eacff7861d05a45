"""The package's own TOML files, read table by table, hold what the whole files hold."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import roofline
from folded import folded
from roofline.hardware.chip import chip_id, chips
from roofline.hardware.chip_files import Tables, plain_name, raw
from roofline.hardware.cluster import clusters, is_catalogued

PACKAGE = Path(roofline.__file__).parent
FILES = sorted(path for room in ("hardware", "kernels", "engines") for path in (PACKAGE / room).rglob("*.toml"))


@folded("path", FILES, ids=lambda path: path.stem)
def test_tables_are_those_of_the_whole_file(path: Path) -> None:
    whole = tomllib.loads(path.read_text(encoding="utf-8"))
    tables = Tables(raw, path)
    assert list(tables) == list(whole)
    assert dict(tables) == whole
    text = path.read_text(encoding="utf-8")
    apart = set(re.findall(r"^\[\[?([\w.-]+?)\.(\w+)", text, re.MULTILINE))
    heads = {name: {k: v for k, v in table.items() if (name, k) not in apart} for name, table in whole.items()}
    assert {name: dict(tables.head(name)) for name in tables} == heads


def test_a_table_is_parsed_when_asked_for_and_once() -> None:
    built: list[str] = []

    def build(name: str, table: object) -> str:
        built.append(name)
        return name

    tables = Tables(build, *FILES[:2])
    name = next(iter(tables))
    assert name in tables
    assert len(tables) == len(list(tables))
    assert not built
    assert tables[name] is tables[name]
    assert built == [name]
    with pytest.raises(KeyError):
        tables["no such table"]


def test_every_name_is_one_machine() -> None:
    named = {plain_name(n): c.id for c in chips().values() for n in (c.id, c.name, *c.aliases)}
    assert {name: chip_id(name) for name in named} == named
    assert sum(len({plain_name(n) for n in (c.id, c.name, *c.aliases)}) for c in chips().values()) == len(named)
    presets = {plain_name(n) for c in clusters().values() for n in (c.name, *c.aliases)}
    assert not set(clusters()) & set(chips())
    assert all(map(is_catalogued, (*named, *presets)))
    assert not is_catalogued("no-such-machine")
