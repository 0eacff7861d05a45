"""Large files that mean harm (`benchmarks/hostile.py`): each is read or refused in one line, within 2 GB and 10 s."""

from __future__ import annotations

import json
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from time import thread_time

import pytest

from roofline.declared.errors import InputError
from roofline.measured.compare import kernels, nsight, torch_trace
from roofline.measured.compare.read import bench_rows, profiled_kernels
from roofline.model.checkpoints import headers
from roofline.model.checkpoints.headers import header_tensors
from roofline.model.checkpoints.quantization import rules
from roofline.model.load import load
from roofline.model.sources import pieces, untrusted
from roofline.model.sources.pieces import JsonStream, inflated, rows_of_csv, text_lines, text_pieces
from roofline.serving.simulate.tables import parquet

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import hostile


def held(name: str, folder: Path) -> hostile.Spent:
    took = hostile.spent(name, folder)
    assert not took.fault, took
    return took


# -- the findings --------------------------------------------------------------------------------------------------
def test_a_header_of_lists(tmp_path: Path) -> None:
    """90 MB of `[],[],…`, which took 3.1 GB."""
    took = held("header of lists", tmp_path)
    assert "bytes of memory" in took.said
    assert took.peak < 500e6


def test_sixteen_shards_of_a_hub(tmp_path: Path) -> None:
    """Which took 8 GB, eight at once: now one at a time, and 128 MB in all."""
    took = held("shards of a Hub", tmp_path)
    assert took.refused
    assert took.peak < 1e9  # the Hub's own file of 90 MB is in there, too


def test_a_trace_of_one_list_in_a_small_gzip_file(tmp_path: Path) -> None:
    """500 MB of `[],[],…` in 1 MB, which took 5 GB."""
    took = held("trace of one long event", tmp_path)
    assert took.refused
    assert took.peak < 300e6


def test_generated_columns_of_sqlite(tmp_path: Path) -> None:
    """12 kB that made texts of hundreds of megabytes, which a progress handler does not end."""
    took = held("nsys of generated names", tmp_path)
    assert "columns that are computed" in took.said
    assert took.peak < 200e6


def test_a_table_of_measurements_of_60_mb(tmp_path: Path) -> None:
    """Which took 3.8 GB."""
    took = held("accuracy of short rows", tmp_path)
    assert took.peak < 500e6


def test_2000_groups_of_8192_layers(tmp_path: Path) -> None:
    """Which took more than 25 s: expressions that name one layer are tried on it alone."""
    took = held("groups by expressions of one layer", tmp_path)
    assert not took.refused
    assert took.seconds < 5


@pytest.mark.parametrize("pattern", [r"re:.*\.{i}\.[a-z].*", "re:.*.*.*.*x{i}"])
def test_groups_that_each_layer_may_meet_are_matched_in_time(
    tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "SLOWEST_RULES", 0.2)
    hostile._groups(pattern, 2000, 8192, tmp_path)
    begin = thread_time()
    with pytest.raises(InputError, match=r"matched within 0\.2 s"):
        load(tmp_path)
    assert thread_time() - begin < 3


@pytest.mark.parametrize("tail", ["", "q_proj", "(q|k)_proj", "self_attn\\.q.*", "[a-z_.]*", ".|x"])
@pytest.mark.parametrize("head", ["re:.*layers\\.", "re:^model\\.layers\\.", "re:.*layers.", "re:(.*)layers\\."])
def test_an_expression_of_one_layer_is_what_it_is_on_all(head: str, tail: str) -> None:
    """The layer that is read off its text is the only one in which it matches a name."""
    names = [f"{i}.{name}" for i in range(25) for name in ("self_attn.q_proj", "mlp.up_proj", "mlp.experts.2.up_proj")]
    for number in ("1", "2", "12"):
        for dot in ("\\.", "."):
            text = f"{head}{number}{dot}{tail}"
            pattern = rules._parsed(text)
            assert pattern.regex is not None
            if pattern.only is not None:
                met = {name.split(".")[0] for name in names if pattern.regex.match(f"model.layers.{name}")}
                assert met <= {number}, text


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", hostile.CASES)
def test_every_hostile_file_is_within_bounds(tmp_path: Path, name: str) -> None:
    held(name, tmp_path)


# -- limits, one by one --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ['{"a":[%s0]}', '{"a":{%s"z":0}}'])
def test_values_of_json_are_counted_before_they_are_parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    many = "".join(f'"{i:05}":0,' for i in range(1000)) if "z" in text else "[]," * 1000
    content = (text % many).encode()
    assert untrusted.parse_json(content, "x")
    monkeypatch.setattr(untrusted.check_tree, "__defaults__", (100_000,))
    with pytest.raises(InputError, match="at most 100000 bytes of memory"):
        untrusted.parse_json(content, "x")


def test_what_is_counted_is_more_than_what_is_taken() -> None:
    """The estimate is an upper bound for lists, objects, members, numbers and texts, of the smallest kinds that are."""
    import tracemalloc

    for piece in ("[]", "[0]", "{}", '{"a":0}', "1.5", "12345", '"ab"', '"abcdef"', '{"%d":%d}', '["é"]', "[[[]]]"):
        parts = [piece % (i, i) if "%" in piece else piece for i in range(5000)]
        content = f'{{"a":[{",".join(parts)}]}}'.encode()
        tracemalloc.start()
        kept = untrusted.parse_json(content, "x")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert kept
        untrusted.check_tree(content, "x", 10**9)
        with pytest.raises(InputError):  # an estimate below what it took would let it pass
            untrusted.check_tree(content, "x", int(0.98 * peak))


def test_headers_of_all_files_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "LARGEST_HEADERS", 150_000)
    monkeypatch.setattr(headers, "_FIRST", 100)
    hostile._shards(lambda: b"{" + b" " * 60_000 + b"}", tmp_path)
    with pytest.raises(InputError, match="at most 150000 bytes in all"):
        load(tmp_path, headers=True)


def test_tensors_of_a_checkpoint_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    header = json.dumps({str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(11)}).encode()
    file = len(header).to_bytes(8, "little") + header

    def read(offset: int, length: int) -> tuple[bytes, int]:
        return file[offset : offset + length], len(file)

    assert len(header_tensors("x", read)) == 11
    monkeypatch.setattr(headers, "MOST_TENSORS", 10)
    with pytest.raises(InputError, match="at most 10, got '11 tensors'"):
        header_tensors("x", read)
    with pytest.raises(InputError, match="at most 10"):
        headers.index_files({"weight_map": {str(i): "m.safetensors" for i in range(11)}}, "x")


def stream(*texts: str) -> JsonStream:
    return JsonStream(texts, "x")


def test_a_stream_of_json_is_the_same_however_it_is_cut() -> None:
    value = {"a": [1, 2.5, "é\\n", None, True, {"b": []}], "traceEvents": [{"x": [[1], []]}, -3, "]},"], "z": {}}
    text = json.dumps(value, indent=1)
    for size in (1, 2, 3, 7, 50, len(text)):
        whole = stream(*(text[i : i + size] for i in range(0, len(text), size)))
        read = {key: list(whole.items()) if key == "traceEvents" else whole.value() for key in whole.members()}
        assert read == value


@pytest.mark.parametrize(
    "text", ['{"a" 1}', '{"a":[1 2]}', '{"a":[1,]}', '{"a":[', '{"a":', "{", '{"a":[tru]}', '{"a":["x]}', "", "[1]"]
)
def test_broken_json_in_a_stream_is_refused(text: str) -> None:
    whole = stream(*text)
    with pytest.raises(InputError, match=r"^x: "):
        [list(whole.items()) for _ in whole.members()]


def test_a_long_value_of_a_stream_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "LONGEST_LINE", 100)
    endless = (f"{first}{'1,' * 20}" for first in chain(("[[",), repeat("")))
    with pytest.raises(InputError, match="too long"):
        list(JsonStream(endless, "x").items())


def test_lines_and_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(text_lines(("a\nb", "c\r", "\nd"), "x", 9)) == ["a\n", "bc\r\n", "d"]
    with pytest.raises(InputError, match="at most 3 lines"):
        list(text_lines(("\n" * 4,), "x", 3))
    rows = rows_of_csv(['a,"b\n', 'c"\n', "\n", "d\n"], "x", 2)
    assert list(rows) == [(2, ["a", "b\nc"]), (4, ["d"])]
    with pytest.raises(InputError, match="at most 1 rows"):
        list(rows_of_csv(["a\n", "b\n"], "x", 1))
    monkeypatch.setattr(pieces, "LONGEST_LINE", 10)
    with pytest.raises(InputError, match="rows of at most 10 characters"):
        list(rows_of_csv(['"a\n', *["b\n"] * 9], "x", 99))
    with pytest.raises(InputError, match="line 2: expected at most 10 characters"):
        list(text_lines(("a\n" + "b" * 11,), "x", 9))


def test_text_that_is_cut_within_a_letter() -> None:
    content = "\ufeffé😀".encode()
    assert "".join(text_pieces((content[i : i + 1] for i in range(len(content))), "x")) == "é😀"
    with pytest.raises(InputError, match="UTF-8"):
        list(text_pieces((b"a", b"\xff"), "x"))


def test_gzip_is_inflated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zlib.compress(b"a" * 10_000, wbits=31)

    def each(size: int) -> Iterator[bytes]:
        return (packed[i : i + size] for i in range(0, len(packed), size))

    monkeypatch.setattr(pieces, "PIECE", 64)
    read = list(inflated(each(5), 10_000, "x"))
    assert b"".join(read) == b"a" * 10_000
    assert max(map(len, read)) <= 64
    with pytest.raises(InputError, match="at most 9999 bytes unpacked"):
        list(inflated(each(5), 9_999, "x"))


# -- SQLite --------------------------------------------------------------------------------------------------------
ROWS = ("INSERT INTO StringIds VALUES (1, 'gemm')", "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1)")


def sqlite_file(folder: Path, *statements: str) -> Path:
    hostile._sqlite(statements, folder)
    return folder / "profile.sqlite"


def test_an_export_of_nsys_is_read(tmp_path: Path) -> None:
    more = ("CREATE TABLE t (b, a AS (1))", "CREATE VIEW v AS SELECT 1", "CREATE INDEX i ON StringIds (value)")
    (kernel,) = profiled_kernels(sqlite_file(tmp_path, hostile.NAMES, hostile.KERNELS, *ROWS, *more))
    assert (kernel.name, kernel.start, kernel.seconds) == ("gemm", 1e-9, 1e-9)


@pytest.mark.parametrize(
    "names",
    [
        "CREATE TABLE StringIds (id INTEGER, value TEXT, more AS (upper(value)))",
        "CREATE TABLE StringIds (id INTEGER, value TEXT, more AS (upper(value)) STORED)",
        "CREATE VIEW StringIds AS SELECT 1 AS id, 'gemm' AS value",
        "CREATE VIRTUAL TABLE StringIds USING fts5(id, value)",
    ],
)
def test_nothing_of_a_schema_is_computed(tmp_path: Path, names: str) -> None:
    with pytest.raises(InputError, match=r"^profile.sqlite: expected an export of nsys"):
        profiled_kernels(sqlite_file(tmp_path, names, hostile.KERNELS))


def test_sqlite_may_do_nothing_else() -> None:
    base = sqlite3.connect(":memory:")
    base.execute(hostile.NAMES)
    base.execute("CREATE TABLE other (a)")
    base.set_authorizer(nsight._may_read)
    assert base.execute("SELECT substr(value, 1, 5) FROM StringIds").fetchall() == []
    for statement in (
        "SELECT a FROM other", "SELECT hex(value) FROM StringIds", "INSERT INTO StringIds VALUES (1, 'a')",
        "ATTACH 'x' AS x", "PRAGMA writable_schema = ON", "SELECT load_extension('x')", "DROP TABLE StringIds",
        "CREATE TABLE b (a)", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "SELECT * FROM pragma_table_info('StringIds')", "DETACH x", "BEGIN",
    ):  # fmt: skip
        with pytest.raises(sqlite3.DatabaseError):
            base.execute(statement).fetchall()


def test_sqlite_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "SLOWEST_PROFILE", -1.0)
    monkeypatch.setattr(nsight, "_LOOK", 1)
    with pytest.raises(InputError, match="read within -1 s"):
        profiled_kernels(sqlite_file(tmp_path, hostile.NAMES, hostile.KERNELS, *ROWS))


def test_sqlite_whose_names_are_no_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8: the name of a column, which SQLite hands over before any row, and of a kernel."""
    more = 'CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, shortName INTEGER, other INTEGER)'
    path = sqlite_file(
        tmp_path, hostile.NAMES, more, ROWS[0], "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1, 0)"
    )
    whole = path.read_bytes()
    for name in (b"other", b"gemm", b"StringIds (", b"INTEGER"):
        assert name in whole
        path.write_bytes(whole.replace(name, b"\xd2" + name[1:]))
        try:
            profiled_kernels(path)
        except InputError as error:
            assert "profile.sqlite" in str(error.field)  # noqa: PT017
    path.write_bytes(whole.replace(b"other", b"oth\xd2r"))
    with pytest.raises(InputError, match="a whole export of nsys"):
        profiled_kernels(path)


def test_sqlite_that_is_packed_is_refused(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path, hostile.NAMES, hostile.KERNELS, *ROWS)
    path.write_bytes(zlib.compress(path.read_bytes(), wbits=31))
    with pytest.raises(InputError, match="packed or piped in"):
        profiled_kernels(path)


# -- profiles ------------------------------------------------------------------------------------------------------
def test_events_and_names_of_a_trace_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "profile.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "tid": 1}
    path.write_text(json.dumps({"traceEvents": [event, {**event, "ts": 5, "name": "aten::add"}]}))
    assert [kernel.call for kernel in profiled_kernels(path)] == ["aten::mm", "aten::add"]
    monkeypatch.setattr(torch_trace, "MOST_EVENTS", 1)
    with pytest.raises(InputError, match="at most 1 events"):
        profiled_kernels(path)
    monkeypatch.undo()
    monkeypatch.setattr(kernels, "LONGEST_NAMES", 20)
    with pytest.raises(InputError, match="at most 20 characters in all"):
        profiled_kernels(path)


def test_a_server_that_completed_next_to_nothing_has_no_lengths(tmp_path: Path) -> None:
    """A ratio beyond all numbers is no length."""
    path = tmp_path / "bench.json"
    told = {"completed": 1e-320, "total_input_tokens": 1e4, "total_output_tokens": 1e4, "mean_ttft_ms": 5.0}
    path.write_text(json.dumps(told))
    with pytest.raises(InputError, match="0 measurements"):
        bench_rows(path)


def test_lists_within_lists_of_a_footer_of_parquet_are_bounded() -> None:
    with pytest.raises(parquet.MalformedError, match="too deep"):
        parquet.Compact(b"\x19" * 5000).struct()


def test_a_result_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps([{"avg_ts": 1.0, "n_prompt": 5, "n_gen": 0}]) + " " * 2000)
    assert bench_rows(path)[0].input == 5
    monkeypatch.setattr("roofline.measured.compare.read.LARGEST_RESULTS", 1000)
    with pytest.raises(InputError, match="at most 1000 bytes"):
        bench_rows(path)
