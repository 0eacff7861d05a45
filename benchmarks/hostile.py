"""What every reader takes of large files that mean harm: seconds and memory, each in a process of its own.

`python benchmarks/hostile.py [NAME ...]` writes each file of `CASES`, reads it as its command does, and prints the
processor's seconds, megabytes and the line that was said. More than `SLOWEST` seconds, more than `LARGEST` bytes, or an
end without a result or one line is a fault: the exit code is 1. `tests/test_bounded_reading.py` holds some of the cases
to the same bounds.
"""

from __future__ import annotations

import gzip
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time

from machine_description import peak_bytes

SLOWEST, LARGEST = 10.0, 2 * 10**9
"""Seconds of a processor and bytes of memory that a reader may take."""
STOPPED_S, STOPPED_BYTES = 30, 6 * 10**9
"""Where the system ends it."""
MB = 10**6


@dataclass(frozen=True)
class HostileFile:
    """`write` puts the file into a folder, `read` is what meets it there."""

    write: Callable[[Path], object]
    read: Callable[[Path], object]


@dataclass(frozen=True)
class Spent:
    """`said`: the line of an InputError, "" for a result, else the end of what the process wrote."""

    name: str
    seconds: float
    peak: int
    said: str
    refused: bool
    ended: bool

    @property
    def fault(self) -> bool:
        """Whether it took too much, or ended otherwise than with a result or one line."""
        one_line = len(self.said) <= 160 and self.said.isprintable()
        return not (self.ended and one_line and self.seconds <= SLOWEST and self.peak <= LARGEST)


# -- readers -------------------------------------------------------------------------------------------------------
def _headers(folder: Path) -> object:
    from roofline.model.load import load

    return load(folder, headers=True).parameters


def _hub_headers(folder: Path) -> object:
    """Parameters from the headers of a repository on a Hub, which is this machine."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from huggingface_hub import constants

    from hub import COMMIT, FILES, Hub
    from roofline.model.load import load

    shard, index = next(folder.glob("*.safetensors")).read_bytes(), next(folder.glob("*.index.json"))
    FILES["org/shards"] = {path.name: shard for path in folder.glob("*.safetensors")} | {index.name: index.read_bytes()}
    constants.HF_HUB_CACHE = str(folder / "cache")
    with Hub() as hub:
        constants.ENDPOINT = hub.url
        constants.HUGGINGFACE_CO_URL_TEMPLATE = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        return load("org/shards", headers=True, revision=COMMIT).parameters


def _config(folder: Path) -> object:
    from roofline.model.load import load

    return load(folder / "config.json").parameters


def _profile(folder: Path) -> object:
    from roofline.measured.compare.read import profiled_kernels

    return len(profiled_kernels(next(folder.glob("profile*"))))


def _compared(folder: Path) -> object:
    from roofline.measured.compare.read import compare

    return compare("openai-community/gpt2", next(folder.glob("profile*")), on="h100-sxm").matched  # type: ignore[union-attr]


def _bench(folder: Path) -> object:
    from roofline.measured.compare.read import bench_rows

    return len(bench_rows(next(folder.glob("profile*"))))


def _accuracy(folder: Path) -> object:
    from roofline.measured.accuracy.accuracy import accuracy

    return accuracy(folder / "measured.csv").tally


def _table(folder: Path) -> object:
    from roofline.doors.compat.llm_para import read_csv

    return len(read_csv(folder / "table.csv"))


def _trace(folder: Path) -> object:
    from roofline.serving.simulate.tables.traces import Trace

    return sum(len(block.input) for block in Trace(next(folder.glob("trace*"))).blocks())


def _chip(folder: Path) -> object:
    from roofline.hardware.named_chip import chip_named

    return chip_named(folder / "chip.toml").name


def _gguf(folder: Path) -> object:
    from roofline.model.load import load

    return load(folder / "model.gguf").parameters


# -- files ---------------------------------------------------------------------------------------------------------
def _filled(piece: bytes, size: int) -> bytes:
    return piece * (size // len(piece))


def _safetensors(header: Callable[[], bytes], folder: Path, name: str = "model.safetensors") -> None:
    content = header()
    (folder / name).write_bytes(len(content).to_bytes(8, "little") + content)
    _tiny(folder)


def _tiny(folder: Path, **more: object) -> None:
    config = {"model_type": "llama", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 128,
              "num_hidden_layers": 2, "num_attention_heads": 4, **more}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))


def _lists() -> bytes:
    return b'{"a":[' + _filled(b"[],", 90 * MB) + b"[]]}"


def _members(value: bytes, count: int) -> bytes:
    return b"{" + b",".join(b'"%d":%b' % (i, value) for i in range(count)) + b"}"


def _shards(header: Callable[[], bytes], folder: Path) -> None:
    """Sixteen names of the same file."""
    files = [f"model-{i:05}.safetensors" for i in range(16)]
    _safetensors(header, folder, files[0])
    for name in files[1:]:
        (folder / name).hardlink_to(folder / files[0])
    index = {"weight_map": {f"t{i}": name for i, name in enumerate(files)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _index(content: Callable[[], bytes], folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_bytes(content())
    _tiny(folder)


def _many_tensors(folder: Path) -> None:
    """As many tensors as a checkpoint may have, in a header that is right."""
    count = 390_000
    entries = (
        f'"model.layers.{i % 61}.mlp.experts.{i}.w":'
        f'{{"dtype":"BF16","shape":[1,1],"data_offsets":[{2 * i},{2 * i + 2}]}}'
        for i in range(count)
    )
    header = f"{{{','.join(entries)}}}".encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(2 * count))
    _tiny(folder)


def slow_config(groups: int) -> dict[str, object]:
    """A config whose formats take long to work out."""
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    targets = {f"group_{i}": {"targets": [f"re:.*layers\\.{i}\\..*proj$"], "weights": weights} for i in range(groups)}
    formats = {"quant_method": "compressed-tensors", "format": "naive-quantized", "config_groups": targets}
    return {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 1000,
        "num_hidden_layers": 800, "num_attention_heads": 4, "num_key_value_heads": 4, "quantization_config": formats,
    }  # fmt: skip


def _groups(pattern: str, count: int, layers: int, folder: Path) -> None:
    """A checkpoint in `count` groups of formats, each of which names its layers by a pattern."""
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
    groups = {f"g{i}": {"targets": [pattern.format(i=i)], "weights": weights} for i in range(count)}
    _tiny(folder, num_hidden_layers=layers,
          quantization_config={"quant_method": "compressed-tensors", "config_groups": groups})  # fmt: skip


def _zipped(pieces: Iterator[bytes], folder: Path) -> None:
    """A trace, packed as it is made."""
    pack = zlib.compressobj(6, wbits=31)
    with (folder / "profile.json.gz").open("wb") as file:
        for piece in pieces:
            file.write(pack.compress(piece))
        file.write(pack.flush())


def _events(first: bytes, piece: bytes, last: bytes, size: int) -> Iterator[bytes]:
    yield b'{"traceEvents":[' + first
    many = _filled(piece, MB)
    for _ in range(size // len(many)):
        yield many
    yield last + b"]}"


def _operators(varied: bool, count: int, folder: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"traceEvents":['
        for start in range(0, count, 10_000):
            yield "".join(
                f'{{"ph":"X","cat":"cpu_op","name":"aten::{f"n{i:0400}" if varied else "mm"}","tid":1,"ts":{2 * i},'
                f'"dur":1,"args":{{"Input Dims":[[{i if varied else 1},8],[8,8]],"External id":{i}}}}},'
                for i in range(start, start + 10_000)
            ).encode()
        yield b"{}]}"

    _zipped(pieces(), folder)


NAMES = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)"
KERNELS = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER)"


def _sqlite(statements: tuple[str, ...], folder: Path) -> None:
    base = sqlite3.connect(folder / "profile.sqlite")
    for statement in statements:
        base.execute(statement)
    base.commit()
    base.close()


def _counted(count: int, what: str) -> str:
    return f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) {what}"


def _circle(folder: Path) -> None:
    """A table whose pages lead back to themselves."""
    row = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i, i + 1, 1 FROM n"
    _sqlite((NAMES, KERNELS, "INSERT INTO StringIds VALUES (1, 'k')", _counted(400_000, row)), folder)
    path = folder / "profile.sqlite"
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    for start in range(size, len(content), size):
        if content[start] == 5:  # an inner page of a table: all its children are this first one
            cells = int.from_bytes(content[start + 3 : start + 5], "big")
            first = int.from_bytes(content[start + 12 : start + 14], "big")
            child = content[start + first : start + first + 4]
            for i in range(cells):
                at = start + int.from_bytes(content[start + 12 + 2 * i : start + 14 + 2 * i], "big")
                content[at : at + 4] = child
    path.write_bytes(content)


def _written(name: str, content: Callable[[], bytes], folder: Path) -> None:
    (folder / name).write_bytes(content())


def _measured(rows: bytes, size: int = 60 * MB, head: bytes = b"quantity,model,on,seconds\n") -> Callable[[], bytes]:
    return lambda: head + _filled(rows, size)


def _gguf_of(entries: int, tensors: int, body: bytes) -> bytes:
    head = b"GGUF" + (3).to_bytes(4, "little") + tensors.to_bytes(8, "little") + entries.to_bytes(8, "little")
    return head + body


def _array(length: int, kind: int, values: bytes) -> bytes:
    key = b"general.architecture"
    return (
        len(key).to_bytes(8, "little") + key + (9).to_bytes(4, "little") + kind.to_bytes(4, "little")
        + length.to_bytes(8, "little") + values
    )  # fmt: skip


def _cases() -> Iterator[tuple[str, HostileFile]]:
    for name, header in {
        "lists": _lists, "objects": lambda: b'{"a":[' + _filled(b'{"b":0},', 90 * MB) + b"0]}",
        "members": partial(_members, b"0", 4_000_000), "broken": lambda: _lists()[:-3],
        "one long name": lambda: b'{"' + b"\\u00e9" * (15 * MB) + b'":1}', "deep": lambda: b'{"a":' + b"[" * (90 * MB),
        "wide letters": lambda: ('{"😀": "' + "a" * (90 * MB) + '"}').encode(),
    }.items():  # fmt: skip
        yield f"header of {name}", HostileFile(partial(_safetensors, header), _headers)
    yield "header of many tensors", HostileFile(_many_tensors, _headers)
    yield "shards", HostileFile(partial(_shards, _lists), _headers)
    yield "shards of a Hub", HostileFile(partial(_shards, _lists), _hub_headers)
    yield (
        "shards of spaces of a Hub",
        HostileFile(partial(_shards, lambda: b"{" + b" " * (90 * MB) + b"}"), _hub_headers),
    )
    yield "index of lists", HostileFile(partial(_index, _lists), _headers)
    for name, count in {"many files": 3_900_000, "files": 390_000}.items():
        index = partial(_members, b'"m.safetensors"', count)
        yield f"index of {name}", HostileFile(partial(_index, lambda i=index: b'{"weight_map":%b}' % i()), _headers)  # type: ignore[misc]
    for name, pattern in {
        "expressions of one layer": r"re:.*layers\.{i}\..*", "expressions": r"re:.*\.{i}\.[a-z].*",
        "slow expressions": r"re:.*.*.*.*x{i}", "names": "self_attn.q{i}", "layers": "model.layers.{i}.*",
    }.items():  # fmt: skip
        yield f"groups by {name}", HostileFile(partial(_groups, pattern, 2_000, 8_192), _config)
    yield "config of lists", HostileFile(
        lambda folder: _tiny(folder, x=[[] for _ in range(4_000_000)]), _config
    )  # fmt: skip
    size = 500 * MB
    for name, pieces in {
        "lists": partial(_events, b"", b"[],", b"[]", size), "events": partial(_events, b"", b"{},", b"{}", size),
        "one long event": partial(_events, b'{"a":[', b"[],", b"[]]}", size),
        "one long text": partial(_events, b'"', b"aaaa", b'"', size),
        "spaces": partial(_events, b"", b"    ", b"", size),
        "numbers": partial(_events, b"", b"1,", b"1", size), "deep lists": partial(_events, b"", b"[", b"", size),
        "names": partial(_events, b"", b'{"ph":"M","name":"process_name","pid":1},', b"{}", size),
    }.items():  # fmt: skip
        yield f"trace of {name}", HostileFile(lambda folder, p=pieces: _zipped(p(), folder), _profile)  # type: ignore[misc]
    yield "trace of different operators", HostileFile(partial(_operators, True, 400_000), _profile)
    yield "trace of many operators", HostileFile(partial(_operators, False, 950_000), _profile)
    yield "trace of many operators, compared", HostileFile(partial(_operators, False, 950_000), _compared)
    row = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i, i + 1, i FROM n"
    for name, statements in {
        "generated names": ("CREATE TABLE StringIds (id INTEGER, value AS (hex(zeroblob(300000000))))", KERNELS,
                            "INSERT INTO StringIds (id) VALUES (1)",
                            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1)"),
        "generated starts": (NAMES, "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (a, "
                                    "start AS (length(hex(zeroblob(400000000)))), end INTEGER, shortName INTEGER)",
                             "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (a, end, shortName) VALUES (1, 2, 1)",
                             "INSERT INTO StringIds VALUES (1, 'k')"),
        "a view": (KERNELS, "CREATE VIEW StringIds AS SELECT 1 AS id, hex(zeroblob(300000000)) AS value",
                   "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1)"),
        "a long name": (NAMES, KERNELS, "INSERT INTO StringIds VALUES (1, hex(zeroblob(100000000)))",
                        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1)"),
        "many kernels": (NAMES, KERNELS, "INSERT INTO StringIds VALUES (1, 'k')", _counted(6_000_000, row)),
        "many names": (NAMES, KERNELS, _counted(900_000, row),
                       _counted(900_000, "INSERT INTO StringIds SELECT i, printf('%400d', i) FROM n")),
        "many tables": (NAMES, KERNELS, *(f"CREATE TABLE t{i} (a)" for i in range(3_000))),
    }.items():  # fmt: skip
        yield f"nsys of {name}", HostileFile(partial(_sqlite, statements), _profile)
    yield "nsys of pages in a circle", HostileFile(_circle, _profile)
    ncu = b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
    for name, content in {
        "short rows": _measured(b"a\n", size, ncu), "empty lines": _measured(b"\n", size, ncu),
        "marks": _measured(b"==\n", size, b""),
        "one row": _measured(b"a,", size, ncu), "one cell": _measured(b"\n", size, ncu + b'"'),
        "rows": lambda: ncu + b"".join(b'%d,k,gpu__time_duration.sum,ns,1\n' % i for i in range(3_000_000)),
    }.items():  # fmt: skip
        yield f"ncu of {name}", HostileFile(partial(_written, "profile.csv", content), _profile)
    for name, content in {
        "lists": lambda: b"[" + _filled(b"[],", 60 * MB) + b"[]]", "lines": _measured(b"{}\n", 60 * MB, b""),
        "short lines": _measured(b"a\n", 60 * MB, b"{"), "letters": _measured(b"a", 100 * MB, b"["),
        "deep lists": _measured(b"[", 60 * MB, b""),
        "csv": _measured(b"a,b\n", 60 * MB, b"avg_ts,n_prompt\n"), "one row": _measured(b"a,", 60 * MB, b"avg_ts,"),
    }.items():  # fmt: skip
        yield f"results of {name}", HostileFile(partial(_written, "profile.json", content), _bench)
    quantity = b"quantity,model,on,seconds\n"
    for name, content in {
        "short rows": _measured(b"a,a,a,a\n"), "shortest rows": _measured(b"a\n"), "one row": _measured(b"a,"),
        "one cell": _measured(b"\n", head=quantity + b'"'), "quoted lines": _measured(b'"\n",', head=quantity),
        "columns": _measured(b"x,", head=b"quantity,model,on,seconds,"), "wide letters": _measured("😀,".encode()),
        "models": lambda: quantity + b"".join(b"prefill,m%d,h100-sxm,1\n" % i for i in range(99_000)),
    }.items():  # fmt: skip
        yield f"accuracy of {name}", HostileFile(partial(_written, "measured.csv", content), _accuracy)
    head = b"Phase,Operation,FLOPs,Total Bytes\n"
    for name, content in {
        "short rows": _measured(b"a,b,1,1\n", head=head), "one row": _measured(b",", head=head),
        "cells": _measured(b"a," * 500 + b"\n", head=head),
    }.items():  # fmt: skip
        yield f"table of {name}", HostileFile(partial(_written, "table.csv", content), _table)
    lines = b"time,input,output\n"
    for name, content in {
        "short rows.csv.gz": lambda: gzip.compress(lines + _filled(b"1,1,1\n", 300 * MB), 6),
        "one row.csv": _measured(b"1,", 100 * MB, lines), "cells.csv": _measured(b"," * 200 + b"\n", 100 * MB, lines),
        "lists.jsonl": lambda: b'{"time":[' + _filled(b"[],", 100 * MB) + b'[]],"input":1,"output":1}\n',
    }.items():  # fmt: skip
        ending = name.partition(".")[2]
        yield f"requests of {name}", HostileFile(partial(_written, f"trace.{ending}", content), _trace)
    for name, content in {
        "lists": lambda: b"a = [" + b"[],\n" * 250_000 + b"]",
        "keys": lambda: b"\n".join(b"a%d=1" % i for i in range(90_000)),
        "tables": lambda: b"".join(b"[a%d]\n" % i for i in range(110_000)),
        "dots": lambda: b"\n".join(b"%d.a.b.c.d.e.f.g=1" % i for i in range(40_000)),
    }.items():  # fmt: skip
        yield f"chip of {name}", HostileFile(partial(_written, "chip.toml", content), _chip)
    numbers = 2**22
    for name, content in {
        "arrays": lambda: _gguf_of(4000, 1, _array(numbers, 0, bytes(numbers)) * 14),
        "texts": lambda: _gguf_of(2, 1, _array(numbers, 8, bytes(8 * numbers)) * 2),
        "nested arrays": lambda: _gguf_of(1, 1, _array(2**20, 9, ((9).to_bytes(4, "little") + bytes(8)) * 2**20)),
    }.items():  # fmt: skip
        yield f"gguf of {name}", HostileFile(partial(_written, "model.gguf", content), _gguf)


CASES: Mapping[str, HostileFile] = dict(_cases())


# -- measuring -----------------------------------------------------------------------------------------------------
def spent(name: str, folder: Path) -> Spent:
    """What a process takes that reads this file, which is written into the folder."""
    CASES[name].write(folder)
    command = [sys.executable, __file__, "--one", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        told = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return Spent(name, STOPPED_S, STOPPED_BYTES, f"{done.returncode}: {done.stderr[-200:]}", False, False)
    return Spent(name, **told)


def _one(name: str, folder: Path) -> None:
    """Read, and print what it took."""
    from roofline.declared.errors import InputError, error_line

    for limit, most in ((resource.RLIMIT_AS, STOPPED_BYTES), (resource.RLIMIT_CPU, STOPPED_S)):
        resource.setrlimit(limit, (most, most))
    said, refused, ended, begin = "", False, True, process_time()
    try:
        CASES[name].read(folder)
    except InputError as error:
        said, refused = error_line(error, 150), True
    except Exception as error:
        said, ended = f"{type(error).__name__}: {error}"[:200], False
    took = {"seconds": process_time() - begin, "peak": peak_bytes()}
    print(json.dumps({**took, "said": said, "refused": refused, "ended": ended}))


def main(*names: str) -> int:
    """Reads every file, or those whose names begin so, and prints what that took; 1 where there is a fault."""
    faults, worst = 0, (0.0, 0)
    for name in (n for n in CASES if not names or any(n.startswith(first) for first in names)):
        with tempfile.TemporaryDirectory() as folder:
            took = spent(name, Path(folder))
        worst = max(worst[0], took.seconds), max(worst[1], took.peak)
        faults += took.fault
        mark = "FAULT" if took.fault else ""
        print(f"{name:36} {took.seconds:6.2f} s {took.peak / MB:7.0f} MB  {took.said[:110]} {mark}", flush=True)
    print(f"worst {worst[0]:.2f} s, {worst[1] / MB:.0f} MB; {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        _one(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main(*sys.argv[1:]))
