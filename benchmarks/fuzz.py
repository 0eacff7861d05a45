"""What every reader makes of files that somebody changed: it reads them, or says why not in one line.

`python benchmarks/fuzz.py [COUNT] [SEED] [MINUTES]` changes small valid files of every kind at random, byte by byte and
value by value, and reads them: configs, indexes and headers of checkpoints, GGUF files, chips, clusters, measurements,
profiles, results of benchmarks, traces, lengths, tables, and the words that options take. Whatever ends otherwise than
with a result or an InputError of one printable line of at most 160 characters, warns, takes more than a second or
500 MB, or leaves a file anywhere, is a fault: it is listed, and the exit code is 1. It ends after so many inputs, or so
many minutes. Large files are in `hostile.py`.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from time import monotonic, process_time
from types import FrameType
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from machine_description import peak_bytes
from roofline.declared.errors import InputError, error_line
from roofline.declared.numbers.spelling import seconds_named
from roofline.doors.compat.llm_para import read_csv
from roofline.doors.web.page.gguf_model import dropped
from roofline.engines.engine import engine_named
from roofline.hardware.cluster import cluster_named
from roofline.hardware.grids import grid_named
from roofline.hardware.named_chip import chip_named
from roofline.inference.cost.bill import price_named
from roofline.layout.layout import layout_named
from roofline.measured.accuracy.accuracy import SAMPLE, accuracy
from roofline.measured.compare.read import bench_rows, compare, profiled_kernels
from roofline.model.load import catalog_config, load
from roofline.programs.estimate import estimate
from roofline.serving.simulate.load.arrivals import arrivals_named
from roofline.serving.simulate.load.lengths import lengths_named
from roofline.serving.simulate.tables.traces import Trace
from roofline.views.files.requests import RequestFile
from roofline.views.files.sweep_file import SweepFile
from roofline.whatif.diff import diff
from roofline.whatif.query.axes import figures_named, space_of
from roofline.whatif.query.condition import condition_of
from roofline.whatif.query.evaluate import Sweeper, sweeper_of
from roofline.whatif.query.ranges import layouts_named, numbers_named
from roofline.work.step import decode
from roofline.work.traffic import traffic_named

SLOWEST = 1.0
"""Seconds of the processor that an input may take."""
LARGEST = 500 * 10**6
"""Bytes that it may take beyond what the readers take that are loaded."""
STUCK = 20
"""Seconds after which a reader is stopped."""
WIDEST = 160
Fill = Callable[[Path, Callable[[bytes], bytes]], Any]
"""A folder, and what changes a file's bytes → what the reader makes of it."""


@dataclass(frozen=True)
class FuzzTrial:
    """An input that was read. outcome: `read`, `refused`, or what went wrong; `said`: the line."""

    reader: str
    number: int
    outcome: str
    said: str
    seconds: float


# -- valid files ---------------------------------------------------------------------------------------------------
CHIP = """[mine]
name = "Mine"
vendor = "acme"
generation = "hopper"
[mine.peak]
bf16 = 989.4
fp8 = 1978.9
[mine.memory]
bandwidth_gbs = 3350
capacity_gb = 80
"""
CLUSTER = """[pod]
name = "Pod"
chip = "h100-sxm"
levels = [
    { name = "node", size = 8, kind = "switch" },
    { name = "pod", size = 4, bandwidth_gbs = 50, kind = "network" },
]
source = "a data sheet"
date = "2024-01"
"""
ROWS = "time,input,output,prefix,shared\n" + "".join(
    f"{i / 4},{100 + i},{10 + i},p{i % 3},{i % 3 * 16}\n" for i in range(40)
)
LINES = "".join(f'{{"time": {i / 4}, "input": {100 + i}, "output": {10 + i}}}\n' for i in range(40))
TABLE = "step,op,flops,bytes\n" + "".join(f"prefill,op{i},{1000 + i},{10 + i}\n" for i in range(20))
CONFIGS = ("meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3", "openai-community/gpt2", "Qwen/Qwen3-0.6B")
WORDS = (
    "vllm(max_num_seqs=128)", "peak=1000T,bw=4.8T,mem=141G", "like=h100-sxm,bw=4.8T", "8xh100-sxm",
    "tp=8,pp=4,dp=2,stages=20+22+22", "weights=fp8,o_proj=bf16,model.layers.0.*=int4-g32", "lognormal(1024,0.8)",
    "uniform(100,2000)", "gamma(2.5,3)", "closed(32,1s,2s)", "sglang(mem_fraction_static=0.8)",
)  # fmt: skip


@cache
def _parquet() -> bytes:
    import polars

    content = io.BytesIO()
    columns = {"time": [i / 4 for i in range(40)], "input": list(range(100, 140)), "output": list(range(10, 50))}
    polars.DataFrame(columns).write_parquet(content)
    return content.getvalue()


def _header() -> bytes:
    shapes = {"model.embed_tokens.weight": [64, 8], "model.norm.weight": [8], "lm_head.weight": [64, 8]}
    header, end = dict[str, Any](), 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(end)


EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 10 * i, "dur": 8,
     "args": {"External id": i, "Input Dims": [[16, 64], [64, 256]]}} for i in range(1, 9)
] + [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1, "ts": 10 * i + 1, "dur": 2,
     "args": {"correlation": 100 + i}} for i in range(1, 9)
] + [
    {"ph": "X", "cat": "kernel", "name": f"gemm{i}", "tid": 7, "ts": 10 * i + 5, "dur": 3.5,
     "args": {"correlation": 100 + i, "External id": i}} for i in range(1, 9)
]  # fmt: skip
PROFILE = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": EVENTS, "traceName": "t"})
NCU = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n' + "".join(
    f'"{i}","gemm","gpu__time_duration.sum","usecond","1,{i:03}.5"\n"{i}","gemm","dram__bytes.sum","Mbyte","3"\n'
    for i in range(9)
)
NCU_RAW = '"ID","Kernel Name","gpu__time_duration.sum"\n"","","us"\n' + "".join(f'"{i}","k","{i}"\n' for i in range(9))
LLAMA_BENCH = [{"model_type": "llama", "n_prompt": 512, "n_gen": 0, "n_depth": 8, "avg_ts": 5e3}] * 3
SERVED = {"model_id": "m", "max_concurrency": 8, "request_rate": "inf", "completed": 10,
          "total_input_tokens": 10240, "total_output_tokens": 1280,
          "mean_ttft_ms": 50.0, "mean_tpot_ms": 8.0, "output_throughput": 900.0}  # fmt: skip
GENAI = {"input_config": {"perf_analyzer": {"stimulus": {"concurrency": 4}}},
         "time_to_first_token": {"unit": "ms", "avg": 40.0}, "inter_token_latency": {"unit": "ms", "avg": 7.0},
         "input_sequence_length": {"unit": "tokens", "avg": 1000.2}, "request_latency": {"unit": "ms", "avg": 940.0},
         "output_sequence_length": {"unit": "tokens", "avg": 128.0}}  # fmt: skip


@cache
def _nsys() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.sqlite")
        base = sqlite3.connect(path)
        base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        base.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER)")
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, f"gemm{i}") for i in range(50)])
        rows = [(i, i + 5, i % 50) for i in range(400)]
        base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?)", rows)
        base.commit()
        base.close()
        return path.read_bytes()


@cache
def _gguf() -> bytes:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from small_gguf import write_gguf

    with tempfile.TemporaryDirectory() as folder:
        write_gguf(Path(folder, "a.gguf"))
        return Path(folder, "a.gguf").read_bytes()


def _zipped(content: str, read: Callable[[Path], Any]) -> Fill:
    """A reader of a packed file: what is packed is changed, or, every fourth time, the file."""

    def fill(folder: Path, change: Callable[[bytes], bytes]) -> Any:
        plain = content.encode()
        packed = gzip.compress(change(plain), 1, mtime=0)
        (folder / "profile.json.gz").write_bytes(
            packed if len(packed) % 4 else change(gzip.compress(plain, 1, mtime=0))
        )
        return read(folder / "profile.json.gz")

    return fill


def _dropped(folder: Path, change: Callable[[bytes], bytes]) -> Any:
    """The head of a GGUF file as the page sends it."""
    head = change(_gguf()[:8192])
    return dropped(b64encode(head).decode(), 2**30)


def _written(name: str, content: str | bytes, read: Callable[[Path], Any]) -> Fill:
    """A reader of one file of that name."""
    valid = content.encode() if isinstance(content, str) else content

    def fill(folder: Path, change: Callable[[bytes], bytes]) -> Any:
        (folder / name).write_bytes(change(valid))
        return read(folder / name)

    return fill


def _checkpoint(changed: str) -> Fill:
    """A checkpoint of a folder, one of whose files is changed."""
    index = {"metadata": {}, "weight_map": {"model.norm.weight": "model-1.safetensors"}}
    config = {**catalog_config("Qwen/Qwen3-0.6B"), "num_hidden_layers": 1}
    files = {"config.json": json.dumps(config).encode()}
    if changed == "model.safetensors":
        files[changed] = _header()
    else:
        files["model.safetensors.index.json"] = json.dumps(index).encode()
        files["model-1.safetensors"] = _header()

    def fill(folder: Path, change: Callable[[bytes], bytes]) -> Any:
        for name, content in files.items():
            (folder / name).write_bytes(change(content) if name == changed else content)
        return load(folder, headers=True)

    return fill


def _asked(path: Path) -> Any:
    """A model that is read is also timed."""
    return estimate(load(path), decode(1, 64), on="h100-sxm").span.expected


def _timed(path: Path) -> Any:
    """So is a step on a machine that is read."""
    return estimate("openai-community/gpt2", decode(1, 64), on=path).span.expected


def _compared(path: Path) -> Any:
    """A profile is also compared with a step."""
    return compare("openai-community/gpt2", path, on="h100-sxm", batch=1, context=64)


def _drained(path: Path) -> int:
    return sum(len(block.input) for block in Trace(path).blocks())


def _spelled(words: str) -> Fill:
    """The words of an option, by everyone who may be meant."""

    def fill(folder: Path, change: Callable[[bytes], bytes]) -> Any:
        text = change(words.encode()).decode("utf-8", "surrogateescape")
        refused: list[InputError] = []
        for read in (engine_named, chip_named, cluster_named, layout_named, lengths_named, arrivals_named):
            try:
                read(text)
            except InputError as error:
                refused.append(error)
        longest = max(refused, key=lambda e: len(str(e)), default=None)
        if longest is not None and len(refused) == 6:
            raise longest

    return fill


def _said(words: str, read: Callable[[str], Any]) -> Fill:
    """The words of an option, by the one who is meant."""

    def fill(folder: Path, change: Callable[[bytes], bytes]) -> Any:
        return read(change(words.encode()).decode("utf-8", "surrogateescape"))

    return fill


@cache
def _sweeper() -> Sweeper:
    return sweeper_of(
        space_of(load(CONFIGS[2]), "decode", {"on": ["h100-sxm"], "batch": "1,2", "context": "64"}), None, ""
    )


def _met(text: str) -> Any:
    """A condition is also asked of a few rows."""
    columns = {"fits": np.array([True, False]), "tpot": np.array([0.01, 0.0]), "batch": np.array([1, 2**40])}
    units = {"fits": "flag", "tpot": "s", "batch": ""}
    return [part.value(columns.__getitem__) for part in condition_of(text, units).parts]


def _limits(text: str) -> Any:
    """A condition on two sides: how much of its limits is used."""
    units = {"fits": "flag", "tpot": "s", "time": "s", "bound": "word"}
    figures = {"fits": np.array([True, False]), "tpot": np.array([0.01, 0.0]), "time": np.array([1.0, np.nan])}
    return condition_of(text, units, sides=True).use(lambda name: figures.get(name.removeprefix("against "), "memory"))


def _signed(values: Mapping[str, Any], sign: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Changed values with their own digest, so that what stands in them is looked at."""
    text = change(json.dumps(values).encode()).replace(b"\n", b" ")
    return sha256(text).hexdigest().encode() + sign + text


def _log(folder: Path, change: Callable[[bytes], bytes]) -> Any:
    """The log of a sweep that goes on."""
    line = {"end": 0, "rows": 1, "entry": "0a0b", "kept": {"dropped": {}, "best": []}}
    first = _signed({"fingerprint": "x"}, b" ", lambda content: content)
    (folder / "a.csv.part.log").write_bytes(b"\n".join((first, _signed(line, b" ", change), b"")))
    (folder / "a.csv.part").write_bytes(bytes(100))
    file = SweepFile(folder / "a.csv", _sweeper().no_rows(), "x", resume=True)
    file.close()
    return file.pieces


def _checkpointed(folder: Path, change: Callable[[bytes], bytes]) -> Any:
    """The checkpoint of a simulation that goes on."""
    kept = {
        "fingerprint": "x",
        "parts": 1,
        "waiting": [[1, 0, 0.5, 3, 4, 0, 0.1, 0.2, None, 0.3, 0]],
        "state": {"number": 3},
    }
    part = folder / "a.csv.part"
    part.mkdir()
    (part / "checkpoint.json").write_bytes(_signed(kept, b"\n", change))
    try:
        with RequestFile(folder / "a.csv") as file:
            return file.begin("x")
    finally:
        rmtree(part)


def readers() -> Mapping[str, Fill]:
    """Every reader with a small valid input of its own."""
    configs = {f"config {name}": _written("config.json", json.dumps(catalog_config(name)), _asked) for name in CONFIGS}
    return {
        **configs,
        "index": _checkpoint("model.safetensors.index.json"), "header": _checkpoint("model.safetensors"),
        "chip": _written("chip.toml", CHIP, _timed), "cluster": _written("pod.toml", CLUSTER, _timed),
        "accuracy": _written("measured.csv", Path(SAMPLE).read_bytes(), accuracy),
        "trace csv": _written("trace.csv", ROWS, _drained), "trace jsonl": _written("trace.jsonl", LINES, _drained),
        "trace parquet": _written("trace.parquet", _parquet(), _drained),
        "lengths": _written("lengths.csv", ROWS, lambda path: lengths_named(f"file({path},input)")),
        "table": _written("table.csv", TABLE, read_csv),
        "resumed sweep": _log, "resumed simulation": _checkpointed,
        "profile torch": _written("profile.json", PROFILE, profiled_kernels),
        "profile torch compared": _written("profile.json", PROFILE, _compared),
        "profile torch packed": _zipped(PROFILE, profiled_kernels),
        "profile nsys": _written("profile.sqlite", _nsys(), profiled_kernels),
        "profile ncu": _written("profile.csv", NCU, profiled_kernels),
        "profile ncu raw": _written("profile.csv", NCU_RAW, profiled_kernels),
        "results llama-bench": _written("results.json", json.dumps(LLAMA_BENCH), bench_rows),
        "results csv": _written("results.csv", "n_prompt,n_gen,avg_ts\n" + 9 * "512,0,900.5\n", bench_rows),
        "results vllm": _written("results.jsonl", f"{json.dumps(SERVED)}\n" * 3, bench_rows),
        "results genai": _written("results.json", json.dumps(GENAI), bench_rows),
        "gguf": _written("model.gguf", _gguf(), load), "gguf dropped": _dropped,
        "condition": _said("fits and 1ms < tpot <= 30ms or not (batch * 2 >= 16Ki)", _met),
        "requirements": _said("tpot <= 30ms and fits and time < against", _limits),
        "axis": _said("1,2,8..64:x2", partial(numbers_named, "--batch")),
        "layouts": _said("tp=1,2,4 pp=1..2", partial(layouts_named, "--layout")),
        "figures": _said("bw=2T,4T,mem=80G,141G", figures_named), "price": _said("own(30000,years=4)", price_named),
        "grid": _said("0.25", grid_named), "time": _said("2.5ms", partial(seconds_named, "--think")),
        "traffic": _said("fused(weights=2)", traffic_named),
        "side": _said(f"{CONFIGS[2]}:batch=8,context=64,on=h100-sxm,layout=tp=2", lambda text: diff(text, text)),
        **{f"words {i}": _spelled(words) for i, words in enumerate(WORDS)},
    }  # fmt: skip


# -- changes -------------------------------------------------------------------------------------------------------
SPLICED = (
    b"-1", b"0", b"1e400", b"-1e-300", b"9" * 120, b"9" * 5000, b"NaN", b"-Infinity", b"null", b"true", b"[]", b"{}",
    b"[" * 400, b"{\"a\":" * 400, b'""', b"\x00", b"\x1b[31m", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\n\n", b",",
    b'"', b"'", b"=", b"\t", b"../../../etc/passwd", b"%s%n", b"a" * 3000, b"a." * 2000, "\u202e".encode(),
    "\u0661".encode(), b"\xed\xa0\x80", b"1.5", b"(", b")" * 50, b"*", b"x" * 70000, b"(" * 3000, b"1_000", b"0x10",
)  # fmt: skip
"""Pieces that readers stumble over."""


def changed(content: bytes, draw: random.Random) -> bytes:
    """Some bytes with one to four changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = draw.choice(CHANGES)(content, draw)
    return content


def _flip(content: bytes, draw: random.Random) -> bytes:
    if not content:
        return content
    at = draw.randrange(len(content))
    return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]


def _cut(content: bytes, draw: random.Random) -> bytes:
    start, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[:start] if draw.random() < 0.3 else content[:start] + content[min(end, start + 40) :]


def _repeat(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    piece = content[start : start + draw.randrange(1, 60)]
    return content[:start] + piece * draw.choice((2, 3, 200)) + content[start:]


def _splice(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(SPLICED) + content[at:]


def _value(content: bytes, draw: random.Random) -> bytes:
    """Another value in the place of a number or a word."""
    return _replaced(content, rb'"[^"\n]*"|[\w.+-]+', lambda old: draw.choice(SPLICED), draw)


NUMBERS = (
    b"0", b"1", b"-1", b"2", b"3", b"7", b"1.5", b"0.001", b"1e300", b"1e-300", b"1e-320", b"65536", b"1000000007",
    b"9007199254740993", b"9223372036854775808", b"1" + 30 * b"0", b"1" + 400 * b"0", b"nan", b"inf",
)  # fmt: skip


def _number(content: bytes, draw: random.Random) -> bytes:
    """Another number in the place of one."""
    return _replaced(content, rb"(?<![\w.])-?\d[\d.]*(e-?\d+)?", lambda old: draw.choice(NUMBERS), draw)


def _quoted(content: bytes, draw: random.Random) -> bytes:
    """Another text between quotes, hostile, empty, or one of the same file."""
    texts = re.findall(rb'"[^"\n]*"', content[: 2**16]) or [b'""']
    hostile = [b'"%s"' % t for t in (b"", b"<script>", b"=1+1", b"\\u001b[31m", b"\\u202e", 300 * b"x", b"..", b"a b")]
    return _replaced(content, rb'"[^"\n]*"', lambda old: draw.choice(hostile + texts), draw)


def _line(content: bytes, draw: random.Random) -> bytes:
    """A line left out, twice, or at another place; of a file of one line a part between commas."""
    sign = b"\n" if content.count(b"\n") > 3 else b","
    lines = content.split(sign)
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    line = lines[at]
    if draw.random() < 0.5:
        del lines[at]
    if draw.random() < 0.5:
        lines.insert(other, line)
    return sign.join(lines)


def _replaced(content: bytes, pattern: bytes, new: Callable[[bytes], bytes], draw: random.Random) -> bytes:
    places = list(re.finditer(pattern, content[: 2**16]))
    if not places:
        return content
    place = draw.choice(places)
    return content[: place.start()] + new(place[0]) + content[place.end() :]


CHANGES = (_flip, _cut, _repeat, _splice, _value, _value, _number, _number, _number, _quoted, _quoted, _line, _line)


# -- trials --------------------------------------------------------------------------------------------------------
class _StuckError(Exception):
    pass


@contextmanager
def _stopped(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _StuckError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def trials(count: int, seed: int) -> Iterator[FuzzTrial]:
    """So many inputs, over all readers in turn, each in a folder of its own that is looked at afterwards."""
    known = readers()
    with tempfile.TemporaryDirectory() as place:
        root, home = Path(place) / "work", os.getcwd()
        (root / "in").mkdir(parents=True)
        os.chdir(root)
        try:
            for reader, fill in known.items():  # loads what readers load, once
                trial = _read(reader, -1, root / "in", fill, bytes)
                if trial.outcome != "read" and not reader.startswith("words"):
                    raise AssertionError(f"{reader}: {trial.outcome}: {trial.said}")
            for number in range(count):
                reader = list(known)[number % len(known)]
                draw = random.Random(f"{seed} {number}")
                yield _read(reader, number, root / "in", known[reader], lambda content, d=draw: changed(content, d))  # type: ignore[misc]
        finally:
            os.chdir(home)


def tried(reader: str, place: Path, change: Callable[[bytes], bytes]) -> FuzzTrial:
    """What a reader makes of its valid input changed in that way, in a new folder within `place`."""
    folder = place / "work" / "in"
    folder.mkdir(parents=True)
    return _read(reader, 0, folder, readers()[reader], change)


def _read(reader: str, number: int, folder: Path, fill: Fill, change: Callable[[bytes], bytes]) -> FuzzTrial:
    before, start = peak_bytes(), process_time()
    try:
        with _stopped(STUCK), catch_warnings():
            simplefilter("error")
            fill(folder, change)
        outcome, said = "read", ""
    except InputError as error:
        outcome, said = "refused", error_line(error, WIDEST - len("roofline: "))
        if not said.isprintable() or len(said) > WIDEST - len("roofline: "):
            outcome = "no line"
    except _StuckError:
        outcome, said = "stuck", f"{STUCK} s"
    except Exception as error:
        outcome, said = f"{type(error).__name__}", str(error)[:200]
    seconds = process_time() - start
    if outcome in ("read", "refused"):
        if seconds > SLOWEST:
            outcome = "slow"
        elif peak_bytes() - before > LARGEST:
            outcome = "large"
        elif {p.name for p in folder.parent.iterdir()} != {"in"} or any(p.is_dir() for p in folder.iterdir()):
            outcome = "files"
    for path in folder.iterdir():
        path.unlink()
    return FuzzTrial(reader, number, outcome, said, seconds)


def main(count: int = 10_000, seed: int = 1, minutes: int = 10**6) -> int:
    """Runs the trials, prints how they ended and lists the faults; 1 where there are any."""
    until = monotonic() + 60 * minutes
    ended, faults, slowest = Counter[tuple[str, str]](), list[FuzzTrial](), 0.0
    for trial in trials(count, seed):
        ended[trial.reader.split(" ", 1)[0], trial.outcome] += 1
        slowest = max(slowest, trial.seconds)
        if trial.outcome not in ("read", "refused"):
            faults.append(trial)
        if monotonic() > until:
            break
    print(f"{sum(ended.values())} inputs of seed {seed}, {len(faults)} faults")
    for (reader, outcome), number in sorted(ended.items()):
        print(f"{reader:10} {outcome:20} {number}")
    print(f"slowest {slowest:.2f} s, most memory {peak_bytes() / 1e6:.0f} MB")
    for trial in faults[:40]:
        print(f"{trial.reader} {trial.number}: {trial.outcome}: {trial.said} ({trial.seconds:.2f} s)")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
