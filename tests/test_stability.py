"""What is public keeps its promise: names, signatures, options, bodies of REST and JSON schemas against the record.

The record is `tests/public.json`, of the last release. Something new is welcome; what was there stays, or its schema
has a higher number, or a former name leads to the new one.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

import public
import roofline as rl
from documented import ROOT
from roofline.declared import deprecated
from roofline.declared.question import OLD_NAMES

RECORD: Mapping[str, Any] = json.loads(public.RECORD.read_text(encoding="utf-8"))
REFERENCE = re.compile(r"#/\$defs/(\w+)")


@pytest.fixture(scope="module")
def now() -> Mapping[str, Any]:
    return public.public()


def broken(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """What a caller of a signature would stumble over. `=` follows a parameter that may be left out."""
    named, may = [each.rstrip("=") for each in after], {each for each in after if each.endswith("=")}
    places = [named.index(name) for each in before if (name := each.rstrip("=")) in named]
    for each in before:
        name = each.rstrip("=")
        if name not in named and OLD_NAMES.get(name) not in named:
            yield f"{name} is gone"
        elif each.endswith("=") and name in named and each not in may:
            yield f"{name} may no longer be left out"
    if places != sorted(places):
        yield "another order"
    known = {each.rstrip("=") for each in before}
    yield from (
        f"{each} is new and needed" for each in after if each[-1] != "=" and each[0] != "*" and each not in known
    )


def changed(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Where a schema promises less than it did, or something else: properties may be added, and nothing else may."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key, part in before.items():
            if key == "required":
                yield from (f"{at}: {name} may be missing" for name in part if name not in after.get(key, ()))
            elif key not in after:
                yield f"{at}/{key} is gone"
            else:
                yield from changed(part, after[key], f"{at}/{key}")
        free = at.endswith(("/properties", "/$defs")) or not at
        yield from (f"{at}/{key} is new" for key in after if key not in before and not free)
    elif before != after:
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for place, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from changed(old, new, f"{at}/{place}")
        else:
            yield f"{at}: {json.dumps(after)[:80]}, was {json.dumps(before)[:80]}"


# -- against the record --------------------------------------------------------------------------------------------
def test_no_name_is_gone(now: Mapping[str, Any]) -> None:
    for part in ("names", "commands", "paths", "tools"):
        assert sorted(RECORD[part].keys() - now[part].keys()) == [], part


def test_signatures_take_what_they_took(now: Mapping[str, Any]) -> None:
    wrong = {
        name: list(broken(before, now["names"][name]))
        for name, before in RECORD["names"].items()
        if not (isinstance(getattr(rl, name), type) and issubclass(getattr(rl, name), rl.Result))
    }
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_results_have_the_figures_they_had(now: Mapping[str, Any]) -> None:
    """Of the same number of their schema; a higher number may leave one out."""
    kinds = {name: getattr(rl, name) for name in RECORD["names"]}
    results = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, rl.Result)}
    assert len(results) > 20
    lost = {
        name: sorted(set(RECORD["names"][name]) - set(now["names"][name]))
        for name, kind in results.items()
        if getattr(kind, "SCHEMA", None) in RECORD["schemas"]
    }
    assert {name: figures for name, figures in lost.items() if figures} == {}


def test_options_and_bodies_take_what_they_took(now: Mapping[str, Any]) -> None:
    gone = {c: sorted(set(options) - set(now["commands"][c])) for c, options in RECORD["commands"].items()}
    assert {command: options for command, options in gone.items() if options} == {}
    for part in ("paths", "tools"):
        wrong = {key: list(broken(sorted(fields), sorted(now[part][key]))) for key, fields in RECORD[part].items()}
        assert {key: lines for key, lines in wrong.items() if lines} == {}


def test_schemas_of_a_number_stay(now: Mapping[str, Any]) -> None:
    """A schema that is gone has one of a higher number in its place."""
    latest = {title.partition("/")[0]: int(title.partition("/")[2]) for title in now["schemas"]}
    for title, before in RECORD["schemas"].items():
        name, _, number = title.partition("/")
        after = now["schemas"].get(title)
        if after is None:
            assert latest.get(name, 0) > int(number), f"{title} is gone: its successor needs a higher number"
        else:
            assert list(changed(before, after)) == [], f"{title}: give it the number {int(number) + 1}"


def test_every_schema_has_a_number(now: Mapping[str, Any]) -> None:
    assert [title for title in now["schemas"] if not re.fullmatch(r"roofline\.\w+/[1-9]\d*", title)] == []


# -- the measure itself --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("after", "said"),
    [
        (["model", "on="], []), (["model", "on=", "new="], []), (["model=", "on="], []), (["model"], ["on is gone"]),
        (["model", "on"], ["on may no longer be left out"]), (["on=", "model"], ["another order"]),
        (["model", "on=", "new"], ["new is new and needed"]),
    ],
)  # fmt: skip
def test_what_breaks_a_caller(after: list[str], said: list[str]) -> None:
    assert list(broken(["model", "on="], after)) == said


def test_a_former_name_of_a_setting_is_no_break() -> None:
    assert list(broken(["output="], ["output_tokens="])) == []


def test_what_breaks_a_reader() -> None:
    before = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
    more = {**before, "properties": {**before["properties"], "b": {}}, "required": ["a", "b"]}  # type: ignore[dict-item]
    assert list(changed(before, more)) == []
    assert list(changed(more, before)) == ["/properties/b is gone", ": b may be missing"]
    other = {**before, "properties": {"a": {"type": "string"}}}
    assert list(changed(before, other)) == ['/properties/a/type: "string", was "number"']


# -- deprecations --------------------------------------------------------------------------------------------------
def test_a_former_name_works_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecated, "_SAID", set())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loads = [rl.Demand(input=512, output=128, concurrency=4) for _ in range(3)]
        answers = [rl.generate("openai-community/gpt2", on="l4", input=8, output=2) for _ in range(2)]
    assert loads[0] == rl.Load(input=512, output_tokens=128, concurrency=4)
    assert answers[0].tpot == rl.generate("openai-community/gpt2", on="l4", input=8, output_tokens=2).tpot
    lines = [str(each.message).partition(";")[0] for each in said if each.category is DeprecationWarning]
    assert lines == ["rl.Demand is now called rl.Load", "output is now called output_tokens"]
    assert {each.filename for each in said if each.category is DeprecationWarning} == {__file__}


def test_the_page_says_what_is_public() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    for old in OLD_NAMES:
        assert f"`{old}`" in page, old
    assert "`rl.Demand`" in page
