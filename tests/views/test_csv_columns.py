"""CSV from columns: numbers that read back as themselves, words that stay one cell, and nothing where nothing is."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.views.files import csv_columns
from roofline.views.files.csv_columns import csv_bytes
from roofline.whatif.query.columns import Words, dicts_of, first_rows, rows_of

Numbers = st.lists(st.floats(), min_size=1, max_size=40)


def read(columns: dict[str, Any]) -> list[list[str]]:
    return list(csv.reader(io.StringIO(csv_bytes(columns).decode())))


@given(Numbers)
def test_numbers_read_back_as_themselves(values: list[float]) -> None:
    header, *rows = read({"array": np.array(values), "list": values})
    assert header == ["array", "list"]
    assert all(one == other for one, other in rows)
    back = np.array([float(one) for one, _ in rows])
    assert (back.view(np.int64) == np.array(values).view(np.int64))[~np.isnan(values)].all()
    assert np.isnan(back).tolist() == np.isnan(values).tolist()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.25e-5, "1.25e-05"), (5e-324, "5e-324"), (1e15, "1000000000000000.0"),
        (1e16, "1e+16"), (0.1, "0.1"), (float("nan"), "nan"), (float("-inf"), "-inf"),
        (True, "true"), (False, "false"), (3, "3"), (2**62, "4611686018427387904"), (None, ""),
        ("", '""'), ("a,b", '"a,b"'), ('a"b', '"a""b"'),
        ("a b", "a b"), ("a\nb", "a b"), ("=1+1", "'=1+1"), ("é", "é"),
    ],
)  # fmt: skip
def test_a_cell(value: object, text: str) -> None:
    assert csv_bytes({"x": [value]}).decode() == f"x\n{text}\n"
    if isinstance(value, float):
        assert csv_bytes({"x": np.array([value])}).decode() == f"x\n{text}\n"


def test_columns_of_several_types_and_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {
        "word": Words(np.array([1, 0, 1, 1, 0], dtype=np.uint32), ("a", "b,c")),
        "whole": np.zeros(5, dtype=np.int64), "real": np.zeros(5), "again": np.zeros(5), "flag": np.arange(5) > 2,
        "mixed": [1, 2, 3, 4, 0.5], "holes": [None, 1, None, 3, 4], "words": ["x", None, "", "y", 1],
    }  # fmt: skip
    whole = csv_bytes(columns)
    assert whole.decode().splitlines() == [
        "word,whole,real,again,flag,mixed,holes,words", '"b,c",0,0.0,0.0,false,1.0,,x', "a,0,0.0,0.0,false,2.0,1,",
        '"b,c",0,0.0,0.0,false,3.0,,""', '"b,c",0,0.0,0.0,true,4.0,3,y', "a,0,0.0,0.0,true,0.5,4,1",
    ]  # fmt: skip
    for size in (1, 2, 3):
        monkeypatch.setattr(csv_columns, "AT_ONCE", size)
        assert csv_bytes(columns) == whole
    assert csv_bytes({"a": np.zeros(0), "b": Words(np.zeros(0, dtype=np.uint32), ())}) == b"a,b\n"


# -- few of many rows ----------------------------------------------------------------------------------------------
@given(st.data(), st.sampled_from("bifw"), st.integers(1, 12), st.booleans())
def test_the_first_rows_are_those_of_a_stable_sort(data: st.DataObject, kind: str, most: int, falling: bool) -> None:
    of: dict[str, st.SearchStrategy[Any]] = {
        "b": st.booleans(), "i": st.integers(-3, 3), "f": st.sampled_from([float("nan"), -1.5, 0.0, 2.0, float("inf")]),
        "w": st.sampled_from(["b", "a", "c"]),
    }  # fmt: skip
    values = data.draw(st.lists(of[kind], min_size=1, max_size=30))
    if kind == "w":
        names = tuple(dict.fromkeys(values))
        column: Any = Words(np.array([names.index(v) for v in values], dtype=np.uint32), names)
    else:
        column = np.array(values, dtype={"b": bool, "i": np.int64, "f": np.float64}[kind])
    rows = {"x": column, "row": np.arange(len(values))}
    known = [i for i, v in enumerate(values) if v == v]
    expected = sorted(known, key=lambda i: values[i])
    if falling:
        expected = [i for v in sorted({values[i] for i in known}, reverse=True) for i in known if values[i] == v]
    expected += [i for i, v in enumerate(values) if v != v]
    assert first_rows(rows, most, "x", falling)["row"].tolist() == expected[:most]
    assert first_rows(rows, most)["row"].tolist() == list(range(len(values)))[:most]


def test_rows_that_were_kept_are_rows_again() -> None:
    rows = {
        "word": Words(np.array([1, 0], dtype=np.uint32), ("a", "b")), "whole": np.array([1, 2]),
        "real": np.array([0.5, 2.0]), "flag": np.array([True, False]),
    }  # fmt: skip
    kept = dicts_of(rows)
    assert kept[0] == {"word": "b", "whole": 1, "real": 0.5, "flag": True}
    again = rows_of(kept, rows)
    assert dicts_of(again) == kept
    assert [again[name].dtype for name in ("whole", "real", "flag")] == [
        rows[name].dtype for name in ("whole", "real", "flag")
    ]
    assert dicts_of(rows_of([], rows)) == []
    for name, wrong in (
        ("word", 1),
        ("whole", 1.0),
        ("whole", "1"),
        ("whole", True),
        ("whole", 2**70),
        ("real", 1),
        ("flag", 1),
    ):
        with pytest.raises((TypeError, OverflowError)):
            rows_of([{**kept[0], name: wrong}], rows)
    with pytest.raises(LookupError):
        rows_of([{"word": "a"}], rows)
