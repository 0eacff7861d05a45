"""Read traces of PyTorch's profiler (`export_chrome_trace`), plain or gzipped.

From a GPU trace: kernels, each with the operator that launched it. From a CPU trace: the outermost operators. Shapes
need `record_shapes=True`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeGuard

from roofline.declared.errors import InputError
from roofline.declared.trees import JsonValue
from roofline.measured.compare.kernels import MOST_KERNELS, ProfiledKernel, Shapes, SharedNames
from roofline.model.sources.pieces import JsonStream

_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = ("cuda_runtime", "cuda_driver")
_MICRO = 1e-6
MOST_EVENTS = 4 * MOST_KERNELS
"""Most events of a trace; of these, at most half may be kernels, operators and calls."""
_LOOK = 2**12


class TraceEvent(NamedTuple):
    """A complete event: category, name, thread, start and duration in microseconds, ids, and shapes of inputs."""

    category: str
    name: str
    thread: str
    start: float
    duration: float
    correlation: int | str | None
    external: int | str | None
    shapes: Shapes


def torch_kernels(text: Iterable[str], name: str) -> tuple[ProfiledKernel, ...]:
    """Kernels of a trace in order of start.

    Raises InputError for anything but a trace of PyTorch's profiler, and for no or too many kernels and operators.
    """
    shared = SharedNames(name)
    timed = _timed(JsonStream(text, name), shared)
    outer = _outermost([e for e in timed if e.category == "cpu_op"])
    launched = [e for e in timed if e.category in _GPU]
    kernels = list(_of_gpu(launched, outer, timed)) if launched else [_kernel("", e, e) for e in outer]
    if not kernels:
        raise InputError(name, "no kernel and no operator", "a trace of torch.profiler with activities")
    if len(kernels) > MOST_KERNELS:
        raise InputError(name, f"{len(kernels)} kernels", f"at most {MOST_KERNELS}")
    return tuple(sorted(kernels, key=lambda k: k.start))


def _timed(stream: JsonStream, shared: SharedNames) -> list[TraceEvent]:
    """The complete events that say where time goes; all others are passed over."""
    kept: list[TraceEvent] = []
    for number, given in enumerate(_events(stream)):
        if number >= MOST_EVENTS or len(kept) > MOST_EVENTS // 2:
            most = f"at most {MOST_EVENTS} events, half of them kernels, operators and calls"
            raise InputError(stream.field, "more", most)
        if not number % _LOOK:
            shared.in_time()
        event = _event(given, shared)
        if event is not None:
            kept.append(event)
    return kept


def _events(stream: JsonStream) -> Iterator[JsonValue]:
    """Items of `traceEvents`, or of the list that the file is."""
    if stream.sign() == "[":
        yield from stream.items()
        return
    known = False
    for key in stream.members():
        if key == "traceEvents" and stream.sign() == "[":
            known = True
            yield from stream.items()
        else:
            stream.value()
    if not known:
        raise InputError(stream.field, "JSON without traceEvents", "a trace of torch.profiler")


def _event(given: JsonValue, shared: SharedNames) -> TraceEvent | None:
    """A complete event of a category that is looked at; None for any other."""
    if not isinstance(given, dict) or given.get("ph") != "X":
        return None
    category = given.get("cat")
    start, duration = given.get("ts"), given.get("dur", 0)
    if category != "cpu_op" and category not in _GPU and category not in _CALLS:
        return None
    if not (_is_time(start) and _is_time(duration)):
        return None
    arguments = given.get("args")
    told = arguments if isinstance(arguments, Mapping) else {}
    shapes = _shapes(told.get("Input Dims", told.get("Input dims"))) if category == "cpu_op" else ()
    name = str(given.get("name", ""))[:500] if category not in _CALLS else ""
    return TraceEvent(
        str(category), shared.name(name), shared.name(str(given.get("tid"))[:100]), start, duration,
        _id(told.get("correlation")), _id(told.get("External id")), shared.shapes(shapes),
    )  # fmt: skip


def _is_time(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e18


def _outermost(operators: list[TraceEvent]) -> list[TraceEvent]:
    """Operators of `aten` and of extensions that are inside no other one of their thread, in order of start."""
    end: dict[str, float] = {}
    outer = []
    for event in sorted(operators, key=lambda e: (e.start, -e.duration)):
        if "::" not in event.name:
            continue  # the profiler's own marks and compiled regions, whose operators stand within
        if event.start >= end.get(event.thread, -1.0):
            end[event.thread] = event.start + event.duration
            outer.append(event)
    return outer


def _of_gpu(launched: list[TraceEvent], outer: list[TraceEvent], timed: list[TraceEvent]) -> Iterator[ProfiledKernel]:
    """Kernels with the outermost operator that launched them, by correlation id, else by External id."""
    calls = {e.correlation: e for e in timed if e.category in _CALLS}
    inner = {e.external: e for e in timed if e.category == "cpu_op"}
    starts = [e.start for e in outer]
    for event in launched:
        call = calls.get(event.correlation) or inner.get(event.external)
        around = None
        if call is not None:
            place = bisect_right(starts, call.start) - 1
            if place >= 0 and call.start <= outer[place].start + outer[place].duration:
                around = outer[place]
        yield _kernel(event.name, event, around)


def _id(value: JsonValue) -> int | str | None:
    if isinstance(value, str):
        return value[:100]
    return value if isinstance(value, int) and abs(value) < 2**64 else None


def _kernel(name: str, event: TraceEvent, call: TraceEvent | None) -> ProfiledKernel:
    named, shapes = ("", ()) if call is None else (call.name[:200], call.shapes)
    return ProfiledKernel(name, event.start * _MICRO, event.duration * _MICRO, named, shapes)


def _shapes(dims: JsonValue) -> Shapes:
    if not isinstance(dims, list):
        return ()
    sizes = (d if isinstance(d, list) and len(d) <= 8 else [] for d in dims[:16])
    return tuple(tuple(n for n in d if isinstance(n, int) and 0 <= n < 2**53) for d in sizes)
