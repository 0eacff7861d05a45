"""Read traces of PyTorch's profiler (`export_chrome_trace`), plain or gzipped.

From a GPU trace: kernels, each with the operator that launched it. From a CPU trace: the outermost operators. Shapes
need `record_shapes=True`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict, TypeGuard

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonObject, JsonValue
from roofline.measured.compare.kernels import LARGEST_PROFILE, MOST_KERNELS, ProfiledKernel, Shapes
from roofline.model.sources.untrusted import read_bytes

_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_MICRO = 1e-6


class TraceEvent(TypedDict, total=False):
    """A complete event: category, name, thread, start and duration in microseconds, and arguments."""

    cat: str
    name: str
    tid: int | str
    ts: float
    dur: float
    args: JsonValue


def unpacked(path: Path) -> bytes:
    """Bytes of a file, decompressed if it is gzipped.

    Raises InputError for anything but a regular file, for more than `LARGEST_PROFILE` bytes decompressed, and for a
    truncated file.
    """
    content = read_bytes(path, LARGEST_PROFILE)
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        unzip = zlib.decompressobj(wbits=31)
        plain = unzip.decompress(content, LARGEST_PROFILE)
        if unzip.unconsumed_tail:
            raise InputError(path.name, "more bytes", f"at most {LARGEST_PROFILE} bytes unpacked")
        if not unzip.eof:
            raise InputError(path.name, "a cut-off gzip file", "a whole one")
    except (zlib.error, gzip.BadGzipFile) as error:
        raise InputError(path.name, "a broken gzip file", "a whole one") from error
    return plain


def torch_kernels(content: bytes, name: str) -> tuple[ProfiledKernel, ...]:
    """Kernels of a trace in order of start.

    Raises InputError for anything but a trace of PyTorch's profiler, and for no or too many kernels and operators.
    """
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(name, "broken JSON", "a whole trace of torch.profiler") from error
    events = tree.get("traceEvents") if isinstance(tree, dict) else tree
    if not isinstance(events, list):
        raise InputError(name, "JSON without traceEvents", "a trace of torch.profiler")
    if len(events) > 4 * MOST_KERNELS:
        raise InputError(name, f"{len(events)} events", f"at most {4 * MOST_KERNELS}")
    timed = [e for e in events if isinstance(e, dict) and e.get("ph") == "X" and _is_time(e)]
    outer = _outermost([e for e in timed if e.get("cat") == "cpu_op"])
    launched = [e for e in timed if e.get("cat") in _GPU]
    kernels = list(_of_gpu(launched, outer, timed)) if launched else [_kernel(e, e) for e in outer]
    if not kernels:
        raise InputError(name, "no kernel and no operator", "a trace of torch.profiler with activities")
    if len(kernels) > MOST_KERNELS:
        raise InputError(name, f"{len(kernels)} kernels", f"at most {MOST_KERNELS}")
    return tuple(sorted(kernels, key=lambda k: k.start))


def _is_time(event: JsonObject) -> TypeGuard[TraceEvent]:
    times = (event.get("ts"), event.get("dur", 0))
    return all(isinstance(t, (int, float)) and not isinstance(t, bool) and 0 <= t < 1e18 for t in times)


def _outermost(operators: list[TraceEvent]) -> list[TraceEvent]:
    """Operators of `aten` and of extensions that are inside no other one of their thread, in order of start."""
    end: dict[str, float] = {}
    outer = []
    for event in sorted(operators, key=lambda e: (e["ts"], -e.get("dur", 0))):
        if "::" not in str(event.get("name")):
            continue  # the profiler's own marks and compiled regions, whose operators stand within
        thread = str(event.get("tid"))
        if event["ts"] >= end.get(thread, -1.0):
            end[thread] = event["ts"] + event.get("dur", 0)
            outer.append(event)
    return outer


def _of_gpu(launched: list[TraceEvent], outer: list[TraceEvent], timed: list[TraceEvent]) -> Iterator[ProfiledKernel]:
    """Kernels with the outermost operator that launched them, by correlation id, else by External id."""
    calls = {_argument(e, "correlation"): e for e in timed if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    inner = {_argument(e, "External id"): e for e in timed if e.get("cat") == "cpu_op"}
    starts = [e["ts"] for e in outer]
    for event in launched:
        call = calls.get(_argument(event, "correlation")) or inner.get(_argument(event, "External id"))
        around = None
        if call is not None:
            place = bisect_right(starts, call["ts"]) - 1
            if place >= 0 and call["ts"] <= outer[place]["ts"] + outer[place].get("dur", 0):
                around = outer[place]
        yield _kernel(event, around)


def _argument(event: TraceEvent, key: str) -> int | str | None:
    arguments = event.get("args")
    value = arguments.get(key) if isinstance(arguments, Mapping) else None
    return value if isinstance(value, (int, str)) else None


def _kernel(event: TraceEvent, call: TraceEvent | None) -> ProfiledKernel:
    named = str(call.get("name", ""))[:200] if call is not None else ""
    name = "" if event is call else str(event.get("name", ""))[:500]
    return ProfiledKernel(name, event["ts"] * _MICRO, event.get("dur", 0) * _MICRO, named, _shapes(call))


def _shapes(call: TraceEvent | None) -> Shapes:
    arguments = call.get("args") if call is not None else None
    dims = arguments.get("Input Dims", arguments.get("Input dims")) if isinstance(arguments, Mapping) else None
    if not isinstance(dims, list):
        return ()
    sizes = (d if isinstance(d, list) and len(d) <= 8 else [] for d in dims[:16])
    return tuple(tuple(n for n in d if isinstance(n, int) and 0 <= n < 2**53) for d in sizes)
