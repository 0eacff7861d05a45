"""A pipeline's timeline as text and as a Chrome trace, which Perfetto and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.declared.numbers.units import seconds
from roofline.declared.trees import JsonObject
from roofline.training.breakdown import between, breakdown
from roofline.training.estimate import TrainingEstimate
from roofline.training.pipeline.schedule import Item, Timeline

MARKS = {"F": "F", "B": "B", "W": "w"}
CELL = 3
"""Least number of characters of the shortest piece of work."""
NAMES = {"F": "forward", "B": "backward", "W": "weights"}
LEAST_SHARE = 1e-9
"""Smallest share of a pass that is drawn; less is rounding."""
COLOURS = {"F": "thread_state_running", "B": "thread_state_iowait", "W": "thread_state_runnable"}


def timeline_text(t: Timeline, width: int = 100) -> str:
    """One row for each stage, time from left to right: F forward, B backward, w weight gradients, · waiting.

    A cell shows the kind of work and, if there is room, the micro-batch's number.
    """
    label = len(str(t.stages - 1)) + 7
    columns = max(10, width - label)
    shortest = min((i.end - i.start for i in t.items if i.end > i.start), default=1.0)
    scale = max(columns / t.length, CELL / shortest)
    grid = [["·"] * columns for _ in range(t.stages)]
    for item in t.items:
        _draw(grid[item.stage], item, scale)
    rows = [f"stage {stage:<{label - 6}}{''.join(cells)}".rstrip() for stage, cells in enumerate(grid)]
    kept = ", ".join(f"{n:g}" for n in t.in_flight)
    legend = "F forward, B backward, w weight gradients, · waiting; numbers are micro-batches"
    part = "" if scale * t.length <= columns + 1 else f"the first {seconds(columns / scale)} of "
    summary = f"{part}{seconds(t.length)}, bubble {100 * t.bubble:.1f} %, micro-batches kept by each stage: {kept}"
    return "\n".join([*rows, legend, summary])


def _draw(cells: list[str], item: Item, scale: float) -> None:
    start, end = int(item.start * scale), min(int(item.end * scale), len(cells))
    text = f"{MARKS[item.kind]}{item.micro_batch}"
    room = end - start
    shown = text if len(text) <= room else MARKS[item.kind] * min(room, 1)
    for i, mark in enumerate(shown.ljust(room, MARKS[item.kind])):
        if start + i < len(cells):
            cells[start + i] = mark


def chrome_trace(t: Timeline, name: str) -> JsonObject:
    """The Trace Event Format: a complete event in microseconds for each item, and a thread for each stage."""
    return _trace(_passes(t, name))


def _trace(events: Sequence[JsonObject]) -> JsonObject:
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _passes(t: Timeline, name: str) -> list[JsonObject]:
    events: list[JsonObject] = [{"ph": "M", "pid": 0, "tid": 0, "name": "process_name", "args": {"name": name}}]
    for stage in range(t.stages):
        args = {"name": f"stage {stage}"}
        events.append({"ph": "M", "pid": 0, "tid": stage, "name": "thread_name", "args": args})
    return events + [_event(item) for item in sorted(t.items, key=lambda i: (i.stage, i.start))]


def _event(item: Item) -> JsonObject:
    return {
        "ph": "X", "pid": 0, "tid": item.stage, "cat": NAMES[item.kind], "cname": COLOURS[item.kind],
        "name": f"{MARKS[item.kind]}{item.micro_batch}", "ts": item.start * 1e6, "dur": (item.end - item.start) * 1e6,
        "args": {"micro_batch": item.micro_batch, "chunk": item.chunk, "kind": NAMES[item.kind]},
    }  # fmt: skip


# -- a whole step --------------------------------------------------------------------------------------------------
def training_trace(e: TrainingEstimate, name: str) -> JsonObject:
    """Trace of a step: passes and optimizer of each stage, with a second track for its exposed collectives.

    Exposed communication is shown at the end of its pass. Data-parallel communication follows the passes: gradients,
    optimizer, then updated weights; with ZeRO-3 the exposed part of both for all micro-batches. The last event ends
    with the step.
    """
    line, shares = e.timeline, _exposed_shares(e)
    events = _passes(line, name)
    for stage in range(line.stages):
        args = {"name": f"stage {stage} collectives"}
        events.append({"ph": "M", "pid": 0, "tid": line.stages + stage, "name": "thread_name", "args": args})
    for item in sorted(line.items, key=lambda i: (i.stage, i.start)):
        length = (item.end - item.start) * shares[item.stage][NAMES[item.kind]]
        if length > 0:
            track = line.stages + item.stage
            events.append(_slice(track, "exposed communication", item.end - length, length, item.micro_batch))
    for stage in range(line.stages):
        now = line.length
        for track, what, span in (
            (line.stages + stage, "reduction", e.reduction), (stage, "optimizer", e.update),
            (line.stages + stage, "gathering", e.gathering),
        ):  # fmt: skip
            if span.expected > 0:
                events.append(_slice(track, what, now, float(span.expected)))
            now += float(span.expected)
        if between(e) > 0:
            events.append(_slice(stage, "slowest rank, next step", now, between(e)))
    return _trace(events)


def _exposed_shares(e: TrainingEstimate) -> list[dict[str, float]]:
    """For each stage and pass, the share of exposed communication, or of the slowdown of work beside it."""
    known: dict[int, dict[str, float]] = {}
    for stage in e.stages:
        if id(stage.rank) not in known:
            beside, many = breakdown(e, stage.number).beside, float(e.micro_batches)
            passes = {
                "forward": stage.turns.forward,
                "backward": stage.turns.backward,
                "weights": stage.turns.weight,
            }
            seconds_of = {"forward": beside["forward"], "backward": beside["backward"], "weights": beside["weight"]}
            known[id(stage.rank)] = {
                kind: min(1.0, max(0.0, seconds_of[kind] / (many * float(span.expected)))) if span.expected > 0 else 0.0
                for kind, span in passes.items()
            }
    return [
        {kind: share if share > LEAST_SHARE else 0.0 for kind, share in known[id(stage.rank)].items()}
        for stage in e.stages
    ]


def _slice(track: int, name: str, start: float, length: float, micro_batch: int | None = None) -> JsonObject:
    args = {} if micro_batch is None else {"micro_batch": micro_batch}
    return {
        "ph": "X", "pid": 0, "tid": track, "cat": name, "name": name, "ts": start * 1e6, "dur": length * 1e6,
        "args": args,
    }  # fmt: skip
