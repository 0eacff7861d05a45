"""Recorded traffic: what a trace says is what is sent, and what is no trace is refused in one line."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folded import folded
from roofline.declared.errors import InputError
from roofline.serving.simulate.load.workload import ARRAYS, Requests, joined
from roofline.serving.simulate.tables import parquet, traces
from roofline.serving.simulate.tables import read as tables
from roofline.serving.simulate.tables.traces import Trace, TraceSummary, trace_named

Write = Callable[[str, "str | bytes"], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def run(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return run


def sent(path: Path, speed: float = 1.0) -> Requests:
    return joined(list(Trace(path, speed).blocks()))


def refused(path: Path) -> str:
    """The one line."""
    with pytest.raises(InputError) as caught:
        list(Trace(path).blocks())
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 1000
    return text


# -- the columns of public traces ----------------------------------------------------------------------------------
def test_own_columns(write: Write) -> None:
    block = sent(write("a.csv", "time,input,output\n5,10,3\n5.5,20,4\n7.25,30,5\n"))
    assert block.arrival.tolist() == [0.0, 0.5, 2.25]
    assert block.input.tolist() == [10, 20, 30]
    assert block.output.tolist() == [3, 4, 5]
    assert block.prefix.tolist() == [-1, -1, -1]
    assert block.shared.tolist() == block.kept.tolist() == [0, 0, 0]
    assert block.chains is None


def test_speed_compresses_time(write: Write) -> None:
    path = write("a.csv", "time,input,output\n5,10,3\n7,20,4\n")
    assert sent(path, 4.0).arrival.tolist() == [0.0, 0.5]
    assert sent(path, 0.5).arrival.tolist() == [0.0, 4.0]


AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:16:46.6805901,879,55
"""


def test_azure(write: Write) -> None:
    """Ticks of 100 ns: 50.995169 − 46.68059 = 4.314579 s, and a minute and a tick."""
    block = sent(write("conv.csv", AZURE))
    assert block.arrival.tolist() == [0.0, 4.314579, 60.0000001]
    assert block.input.tolist() == [374, 396, 879]
    assert block.output.tolist() == [44, 109, 55]


def test_azure_with_an_offset(write: Write) -> None:
    rows = "2024-05-10 00:00:00.009930+00:00,1,2\n2024-05-10 00:00:01+00:00,1,2\n2024-05-10T02:00:02+02:00,1,2\n"
    block = sent(write("week.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows))
    assert block.arrival.tolist() == [0.0, 0.99007, 1.99007]


MOONCAKE = """{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0,1,2,3,4,5,6,7,8,9,10,11,12,3]}
{"timestamp": 3052, "input_length": 2287, "output_length": 316, "hash_ids": [0, 42, 43, 44, 45]}
"""


def test_mooncake(write: Write) -> None:
    """Milliseconds; ⌈6755 / 512⌉ = 14 blocks and ⌈2287 / 512⌉ = 5."""
    block = sent(write("mooncake.jsonl", MOONCAKE))
    assert block.arrival.tolist() == [0.0, 3.052]
    assert block.chains == ((*range(13), 3), (0, 42, 43, 44, 45))
    assert block.chain_tokens == 512
    assert block.prefix.tolist() == [-1, -1]
    assert block.at(slice(1, 2)).chains == ((0, 42, 43, 44, 45),)


def test_bailian(write: Write) -> None:
    """Seconds, and blocks of 16 tokens."""
    rows = [
        {"chat_id": i, "parent_chat_id": -1, "timestamp": t, "input_length": n, "output_length": 9, "type": "text",
         "turn": 1, "hash_ids": ids}
        for i, (t, n, ids) in enumerate([(0.5, 33, [7, 8, 9]), (61.114, 16, [7])])
    ]  # fmt: skip
    path = write("qwen.jsonl", "\n".join(map(json.dumps, rows)))
    block = sent(path)
    assert block.arrival.tolist() == [0.0, 61.114 - 0.5]
    assert block.chains == ((7, 8, 9), (7,))
    assert block.chain_tokens == 16
    assert Trace(path).summary().unused == ("chat_id", "parent_chat_id", "type", "turn")


BURST = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,0,1087,API log
118,GPT-4,0,276,276,Conversation log
120,GPT-4,300,7,307,API log
"""


def test_burst_leaves_out_failures_and_says_so(write: Write) -> None:
    path = write("burst.csv", BURST)
    assert sent(path).arrival.tolist() == [0.0, 115.0]
    summary = Trace(path).summary()
    unused = ("Model", "Total tokens", "Log Type")
    assert summary == TraceSummary("BurstGPT", 4, 2, 1, 1, 0, 115.0, 772, 25, 472, 18, 490, unused)
    assert Trace(path).summary(1).rows == Trace(path).summary(1).requests == 1
    assert Trace(path).summary(2) == Trace(path).summary(9) == summary
    assert summary.left_out == (("an answer of 0 tokens", 1), ("a prompt of 0 tokens", 1))


def test_burst_sessions(write: Write) -> None:
    rows = "1,a,,ChatGPT,10,5\n2,b,,ChatGPT,9,5\n3,a,,ChatGPT,20,5\n"
    block = sent(write("b.csv", "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens\n" + rows))
    assert block.prefix.tolist() == [0, 1, 0]
    assert block.shared.tolist() == [0, 0, 15]
    assert block.kept.tolist() == [15, 14, 25]


# -- what prompts share --------------------------------------------------------------------------------------------
def test_prefixes_and_sessions(write: Write) -> None:
    """A session's turn begins with all of the turn before; one too short for that begins anew."""
    rows = [
        "0,100,10,sys,64,", "1,50,5,,,u", "2,80,5,,,u", "3,60,5,,,u", "4,70,10,,0,-1", "5,64,1,sys,64,", "6,65,1,,,u",
    ]  # fmt: skip
    path = write("s.csv", "time,input,output,prefix,shared,session\n" + "\n".join(rows) + "\n")
    block = sent(path)
    assert block.prefix.tolist() == [0, 1, 1, 1, -1, 0, 1]
    assert block.shared.tolist() == [64, 0, 55, 0, 0, 64, 65]
    assert block.kept.tolist() == [64, 55, 85, 65, 0, 64, 66]
    assert Trace(path).summary().restarted == 1


def test_turns_follow_their_times(write: Write) -> None:
    block = sent(write("s.csv", "time,input,output,session\n2,80,5,u\n1,50,5,u\n"))
    assert block.input.tolist() == [50, 80]
    assert block.shared.tolist() == [0, 55]


# -- one file, several ways ----------------------------------------------------------------------------------------
def test_formats_agree(write: Write, tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [
        {
            "time": round(i * 0.37, 2),
            "input": draw.randint(1, 999),
            "output": draw.randint(0, 99),
            "session": f"u{i % 7}",
        }
        for i in range(500)
    ]
    text = "time,input,output,session\n" + "".join(",".join(map(str, r.values())) + "\n" for r in rows)
    lines = "".join(json.dumps(r) + "\n" for r in rows)
    written = [
        write("a.csv", text), write("b.csv", text.replace("\n", "\r\n")), write("c.csv", "\ufeff" + text.rstrip()),
        write("d.csv.gz", gzip.compress(text.encode())), write("e.jsonl", lines), write("f.JSONL", lines + "\n\n"),
        write("g.jsonl.gz", gzip.compress(lines.encode()[:999]) + gzip.compress(lines.encode()[999:])),
        tmp_path / "h.parquet", tmp_path / "i.parquet",
    ]  # fmt: skip
    frame = pl.DataFrame(rows)
    frame.write_parquet(written[-2], row_group_size=64)
    frame.with_columns(pl.col("input").cast(pl.UInt16), pl.col("output").cast(pl.Float32)).write_parquet(written[-1])
    first, *others = (sent(path) for path in written)
    assert len(first) == sum(r["output"] > 0 for r in rows)
    for other in others:
        assert all(getattr(first, name).tobytes() == getattr(other, name).tobytes() for name in ARRAYS)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_of_dates_and_lists(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "a.parquet"
    times = np.array(["2023-11-16T18:15:46.680", "2023-11-16T18:15:47"], dtype=f"datetime64[{unit}]")
    pl.DataFrame({"TIMESTAMP": times, "ContextTokens": [1, 2], "GeneratedTokens": [3, 4]}).write_parquet(path)
    assert sent(path).arrival.tolist() == [0.0, 0.32]
    columns = {"timestamp": [0, 40], "input_length": [513, 9], "output_length": [1, 1], "hash_ids": [[3, 4], [3]]}
    pl.DataFrame(columns).write_parquet(path)
    assert sent(path).chains == ((3, 4), (3,))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_the_size_of_blocks_and_chunks_changes_no_byte(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Rows in any order, read in chunks of any size: those of Python's own stable sort."""
    times = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=80))
    path = tmp_path_factory.mktemp("t") / "a.csv"
    path.write_text("time,input,output\n" + "".join(f"{t},{i + 1},1\n" for i, t in enumerate(times)))
    order = sorted(range(len(times)), key=times.__getitem__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "CHUNK", data.draw(st.integers(1, 300)))
        patch.setattr(traces, "WINDOW", data.draw(st.integers(80, 200)))
        blocks = list(Trace(path).blocks(size=data.draw(st.integers(1, 100))))
    whole = joined(blocks)
    assert whole.input.tolist() == [i + 1 for i in order]
    assert whole.arrival.tolist() == [float(times[i] - min(times)) for i in order]


def test_rows_too_late_are_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of 4 rows: one may come after 4 that are later than it, and after more it may not."""
    monkeypatch.setattr(traces, "WINDOW", 4)
    monkeypatch.setattr(tables, "CHUNK", 8)

    def trace(late: int) -> Path:
        times = [*range(10, 10 + 3 * late), *range(50, 50 + late), 49, *range(60, 90)]
        return write("a.csv", "time,input,output\n" + "".join(f"{t},1,1\n" for t in times))

    assert np.diff(sent(trace(4)).arrival).min() > 0
    assert "rows in order of time, none of them more than 4 rows too late" in refused(trace(40))


def test_the_first_requests(write: Write) -> None:
    path = write("a.csv", "time,input,output\n" + "".join(f"{t},{t + 1},1\n" for t in range(100)))
    blocks = list(Trace(path).blocks(25, size=10))
    assert [len(b) for b in blocks] == [10, 10, 5]
    assert joined(blocks).input.tolist() == list(range(1, 26))
    assert sum(map(len, Trace(path).blocks(1000))) == 100
    assert Trace(path).name == "a.csv"


def test_named(write: Write) -> None:
    path = write("a.csv", AZURE)
    assert trace_named(str(path), 2.0) == Trace(path, 2.0)
    assert trace_named(Trace(path)) == Trace(path)
    for wrong in (None, 3, "", " "):
        with pytest.raises(InputError, match="the path of a trace"):
            trace_named(wrong)
    for speed in (0, -1, float("nan"), float("inf"), "2"):
        with pytest.raises(InputError, match="speed"):
            Trace(path, speed)  # type: ignore[arg-type]


# -- files that are no traces --------------------------------------------------------------------------------------
HEAD = "time,input,output\n"


@folded(
    ("content", "says"),
    [
        ("", "at least one row, got 'none'"),
        ("\n\n", "at least one row"),
        (HEAD, "at least one row"),
        (HEAD + "1,0,0\n", "at least one request"),
        ("time,input\n1,2\n", "a column output too"),
        ("time,inputs,output\n1,2,3\n", "a column input too, .*nearest: inputs"),
        ("a,b\n1,2\n", "the columns of a trace"),
        ("time;input;output\n1;2;3\n", "the columns of a trace"),
        ("time,input,output,time\n1,2,3,4\n", "each column once, got \"'time' twice\""),
        ("time,input,output,prefix\n1,2,3,4\n", "a column shared beside"),
        ("time,input,output,shared\n1,2,3,4\n", "a column prefix beside shared"),
        ("time,input,output," + "x" * 300 + "\n", "columns of at most 256"),
        ("time,input,output,\x1b[31m\n1,2,3,4\n", "printable"),
        (",".join(["time", "input", "output", *map(str, range(100_000))]) + "\n", "at most 256 columns"),
        ("," * 10**6 + "\n", "at most 256 columns"),
        ("," * 2 * 10**6 + "\n", "at most 1048576 bytes"),
        ("x" * 3 * 10**6, "at most 1048576 bytes"),
        (HEAD + "1,2\n", "line 2: expected 3 cells"),
        (HEAD + "1,2,3\n\n1,2,3,4\n", "line 4: expected 3 cells"),
        (HEAD + '1,2,"3\n', "a row of CSV"),
        (HEAD + '1,2,"3\n"\n', "each row on a line of its own"),
        (HEAD + "1,2,3\n-1,2,3\n", "line 3: time: expected a number from 0"),
        (HEAD + "nan,2,3\n", "line 2: time"),
        (HEAD + "inf,2,3\n", "line 2: time"),
        (HEAD + "1e400,2,3\n", "line 2: time"),
        (HEAD + "1_0,2,3\n", "line 2: time"),
        (HEAD + "x,2,3\n", "line 2: time"),
        (HEAD + ",2,3\n", "line 2: time"),
        (HEAD + "0,2,3\n2147483649,2,3\n", r"times within 2\^31 seconds"),
        (HEAD + "1,2,3\n1,nan,3\n", "line 3: input: expected a whole number from 0 to 2147483647, got 'nan'"),
        (HEAD + "1,-2,3\n", "line 2: input"),
        (HEAD + "1,2,3.5\n", "line 2: output"),
        (HEAD + "1,2,\n", "line 2: output"),
        (HEAD + "1,2,2147483648\n", "line 2: output"),
        (HEAD + "1,2," + "9" * 5000 + "\n", "line 2: output"),
        (HEAD + "1,2," + "9" * 30 + "\n", "line 2: output"),
        (HEAD + "1,2,٣\n", "line 2: output"),
        (HEAD + "1,2,1_0\n", "line 2: output"),
        (HEAD + "1,2,true\n", "line 2: output"),
        (HEAD + "2023-13-01 00:00:00,2,3\n", "line 2: time"),
        (HEAD + "2023-11-01 00:00:00,2,3\n5,2,3\n", "line 3: time"),
        (HEAD + "2023-11-01 00:00:00,2,3\n2023-11-01 00:00:00Z,2,3\n", "all with an offset"),
        (HEAD + "1500-11-01 00:00:00,2,3\n", "line 2: time"),
        (HEAD + "today,2,3\n", "line 2: time"),
        ("time,input,output,prefix,shared\n1,9,3,a,10\n", "at most the prompt's 9 tokens"),
        ("time,input,output,prefix,shared\n1,9,3,,5\n", "a prefix that they belong to"),
        ("time,input,output,prefix,shared\n1,9,3,a,\n", "line 2: shared"),
        ("time,input,output,prefix,shared,session\n1,9,3,a,5,b\n", "not both"),
        ("time,input,output,session\n1,9,3," + "u" * 300 + "\n", "at most 256 characters"),
        (b"time,input,output\n1,2,3\n\xff,2,3\n", "line 3: expected UTF-8, got 'byte 0xff'"),
        ("time,input,output\n1,2,3\n".encode("utf-16"), "expected UTF-8"),
        (b"\0" * 1000, "printable|columns"),
    ],
)
def test_csv_refused(write: Write, content: str | bytes, says: str) -> None:
    path = write("a.csv", content)
    with pytest.raises(InputError, match=says):
        list(Trace(path).blocks())
    refused(path)


ROW = '{"time": 0, "input": 1, "output": 2}\n'


@folded(
    ("content", "says"),
    [
        ("", "at least one row"),
        ("[1]\n", "line 1: expected a JSON object, got 'a list'"),
        ("3\n", "a JSON object"),
        ("{\n", "line 1: expected a line of JSON"),
        (ROW + "{}{}\n", "line 2: expected a line of JSON"),
        (ROW + "[" * 100_000 + "\n", "line 2: expected a line of JSON"),
        (ROW + '{"time": 0, "input": 1}\n', "line 2: expected the keys of the first line"),
        (ROW + '{"time": 0, "input": 1, "output": 2, "x": 3}\n', "line 2: expected the keys of the first line"),
        ('{"time": 0, "input": 1, "output": 2, "time": 5}\n', "each key once"),
        (ROW + '{"time": 0, "input": 1, "output": 2, "time": 5}\n', "line 2: .*each key once"),
        ('{"time": NaN, "input": 1, "output": 2}\n', "line 1: time"),
        ('{"time": -1, "input": 1, "output": 2}\n', "line 1: time"),
        ('{"time": null, "input": 1, "output": 2}\n', "line 1: time"),
        ('{"time": true, "input": 1, "output": 2}\n', "line 1: time"),
        ('{"time": 1, "input": NaN, "output": 2}\n', "line 1: input"),
        ('{"time": 1, "input": true, "output": 2}\n', "line 1: input"),
        ('{"time": 1, "input": "7_0", "output": 2}\n', "line 1: input"),
        ('{"time": 1, "input": [1], "output": 2}\n', "line 1: input"),
        ('{"time": 1, "input": 1e99, "output": 2}\n', "line 1: input"),
        ('{"time": 1, "input": 1, "output": 99999999999999999999}\n', "line 1: output"),
        ('{"time": 1, "input": 1, "output": ' + "9" * 5000 + "}\n", "line 1"),
        ('{"time": 1, "input": 1, "output": 1, "session": {}}\n', "line 1: session"),
        ("{" + ",".join(f'"{i}": 1' for i in range(300)) + "}\n", "at most 256 columns"),
        ('{"timestamp": 1, "input_length": 1, "output_length": 1}\n', "a column hash_ids too"),
        (MOONCAKE.replace("42", "-42"), "line 2: hash_ids"),
        (MOONCAKE.replace("42", '"a"'), "line 2: hash_ids"),
        (MOONCAKE.replace("42", "4.5"), "line 2: hash_ids"),
        (MOONCAKE.replace("42", str(2**63)), "line 2: hash_ids"),
        (MOONCAKE.replace("42", "42, 42"), "line 2: hash_ids: expected at most 5"),
        (MOONCAKE.replace("[0, 42, 43, 44, 45]", "null"), "line 2: hash_ids"),
    ],
)
def test_json_lines_refused(write: Write, content: str, says: str) -> None:
    path = write("a.jsonl", content)
    with pytest.raises(InputError, match=says):
        list(Trace(path).blocks())
    refused(path)


def test_a_message_with_colons_is_no_key_twice(write: Write) -> None:
    row = {"time": "2023-11-16 18:15:46", "input": 1, "output": 2, "note": 'a": {"b": 3}'}
    assert len(sent(write("a.jsonl", json.dumps(row)))) == 1


def test_bombs(write: Write) -> None:
    """128 MiB of zeros and 96 MB of rows, each in about 100 kB."""
    zeros = gzip.compress(bytes(2**24)) * 8
    many = (
        gzip.compress((HEAD.strip() + ",note\n").encode()) + gzip.compress((b"1,2,3," + bytes(6000) + b"\n") * 2000) * 8
    )
    assert "at most 1048576 bytes" in refused(write("a.csv.gz", zeros))
    assert "inflates to at most 64 times" in refused(write("b.csv.gz", many))
    assert "at most 1048576 bytes" in refused(write("c.jsonl.gz", zeros))


@pytest.mark.parametrize("cut", [1, 5, 20, -9, -1])
def test_gzip_refused(write: Write, cut: int) -> None:
    refused(write("a.csv.gz", gzip.compress((HEAD + "1,2,3\n" * 9).encode())[:cut]))


def test_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    for name in ("fifo.csv", "folder.csv", "device.csv"):
        assert "expected a regular file" in refused(tmp_path / name)
    for name in ("none.csv", "a\0.csv", "x" * 300 + ".csv"):
        refused(tmp_path / name)


@pytest.mark.parametrize("name", ["a.txt", "csv", "a.csv.zip", "a.parquet.gz", "a.xlsx"])
def test_other_endings(write: Write, name: str) -> None:
    assert "a name that ends in .csv, .jsonl" in refused(write(name, HEAD))


def test_too_many_ids(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MOST_IDS", 3)
    rows = [f"{i},1,1,u{i}" for i in range(4)]
    assert len(sent(write("a.csv", "time,input,output,session\n" + "\n".join(rows[:3])))) == 3
    assert "at most 3 different" in refused(write("a.csv", "time,input,output,session\n" + "\n".join(rows)))


# -- Parquet -------------------------------------------------------------------------------------------------------
def frame(rows: int = 100, **columns: Sequence[object]) -> pl.DataFrame:
    return pl.DataFrame({"time": range(rows), "input": [1] * rows, "output": [2] * rows, **columns})


@folded(
    ("table", "says"),
    [
        (frame(0), "at least one row"),
        (frame().drop("output"), "a column output too"),
        (frame(2, time=[1.0, None]), "row 1: time"),
        (frame(2, time=[1.0, float("nan")]), "row 1: time"),
        (frame(2, time=[1, -1]), "row 1: time"),
        (frame(2, input=[1, None]), "row 1: input"),
        (frame(2, input=[1.0, 1.5]), "row 1: input"),
        (frame(2, input=[1, 2**31]), "row 1: input"),
        (frame(2, input=[1, 2**63 - 1]), "row 1: input"),
        (frame(2, input=[True, False]), "a column of numbers"),
        (frame(2, input=[[1], [2]]), "row 0: input"),
        (frame(2, input=[b"1", b"2"]), "a column of numbers"),
        (pl.DataFrame({str(i): [1] for i in range(300)}), "at most 256 columns"),
    ],
)
def test_parquet_refused(tmp_path: Path, table: pl.DataFrame, says: str) -> None:
    path = tmp_path / "a.parquet"
    table.write_parquet(path)
    with pytest.raises(InputError, match=says):
        list(Trace(path).blocks())
    refused(path)


@folded("content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1", HEAD.encode(), bytes(99)])
def test_no_parquet(write: Write, content: bytes) -> None:
    assert "expected a Parquet file" in refused(write("a.parquet", content))


def test_a_small_file_of_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows pack to next to nothing: 10 million in some kB are refused before they are unpacked."""
    path = tmp_path / "a.parquet"
    same = pl.DataFrame({"time": pl.zeros(10**7, pl.Int8, eager=True)}).with_columns(input=1, output=1)
    same.write_parquet(path, row_group_size=10**7)
    assert path.stat().st_size < 10**5
    assert "a row group of 10000000 rows, more than 4194304" in refused(path)
    frame(1000).write_parquet(path)
    monkeypatch.setattr(parquet, "MOST_GROUP_BYTES", 1000)
    assert "unpacks to more than 1000 bytes" in refused(path)


def test_lying_footers(tmp_path: Path) -> None:
    """Any byte of the footer or of a page's header may lie: a request or an error of one line, never more rows."""
    path = tmp_path / "a.parquet"
    frame(3).write_parquet(path, compression="zstd")
    content = path.read_bytes()
    draw = random.Random(4)
    for _ in range(150):
        at = draw.randrange(len(content))
        path.write_bytes(content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :])
        with suppress(InputError):
            assert sum(map(len, Trace(path).blocks())) <= 3


def test_a_footer_of_other_rows(tmp_path: Path) -> None:
    """The count of rows of the file is a zigzag varint after field 3 of the footer: 100 is 0xc8 0x01."""
    path = tmp_path / "a.parquet"
    frame(100).write_parquet(path)
    content = path.read_bytes()
    at = content.rindex(b"\xc8\x01", 0, content.rindex(b"\xc8\x01")) if content.count(b"\xc8\x01") > 1 else -1
    assert at > 0
    path.write_bytes(content[:at] + b"\xca\x01" + content[at + 2 :])
    assert "expected a Parquet file" in refused(path)


# -- a million rows ------------------------------------------------------------------------------------------------
def test_memory_does_not_grow_with_the_file(write: Write) -> None:
    """Python's own memory at its most, while 10,000 and 40,000 rows go by: the same to a fifth."""
    import tracemalloc

    peaks = []
    for rows in (10_000, 40_000):
        path = write("a.csv", HEAD + "".join(f"{i}.123456,{i % 999 + 1},77\n" for i in range(rows)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(traces, "WINDOW", 2**9)
            patch.setattr(tables, "CHUNK", 2**13)
            tracemalloc.start()
            total = sum(map(len, Trace(path).blocks(size=100)))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert total == rows
    assert peaks[1] < 1.2 * peaks[0]


def test_ids_and_turns_whatever_the_chunks(write: Write) -> None:
    draw = random.Random(2)
    rows = [f"{i},{draw.randint(64, 999)},{draw.randint(0, 9)}," for i in range(2000)]
    rows = [r + (f"p{draw.randrange(9)},64," if draw.random() < 0.3 else f",,s{draw.randrange(50)}") for r in rows]
    path = write("a.csv", "time,input,output,prefix,shared,session\n" + "\n".join(rows))
    whole = sent(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces, "WINDOW", 7)
        patch.setattr(tables, "CHUNK", 100)
        other = sent(path)
    assert all(getattr(whole, name).tobytes() == getattr(other, name).tobytes() for name in ARRAYS)
    first = [int(i) for i in dict.fromkeys(whole.prefix.tolist())]
    assert first == list(range(59))


def test_a_file_that_is_not_there_is_said_in_the_system_s_words(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        tables.size_of_regular(tmp_path / "missing.csv")
    assert error.value.value == "No such file or directory"
