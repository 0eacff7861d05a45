from __future__ import annotations

import json
from itertools import pairwise

import pytest

from roofline.training.pipeline.schedule import StageTimes, timeline
from roofline.views.files.timeline import chrome_trace, timeline_text

LINE = timeline("1f1b", [StageTimes(1, 1, 1)] * 2, 2)


def test_the_schedule_as_text() -> None:
    assert timeline_text(LINE, 36).splitlines() == [
        "stage 0 F0FF1F······B0Bw0w···B1Bw1ww",
        "stage 1 ···F0FB0Bw0wF1FB1Bw1w·······",
        "F forward, B backward, w weight gradients, · waiting; numbers are micro-batches",
        "9 s, bubble 33.3 %, micro-batches kept by each stage: 2, 1",
    ]


def test_a_long_schedule_shows_its_beginning() -> None:
    text = timeline_text(timeline("1f1b", [StageTimes(1, 1, 1)] * 2, 50), 60)
    assert "the first" in text
    assert max(len(line) for line in text.splitlines()[:2]) <= 60


def test_the_trace_is_the_format_that_perfetto_opens() -> None:
    trace = json.loads(json.dumps(chrome_trace(LINE, "two stages")))
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(events) == len(LINE.items)
    for stage in range(LINE.stages):
        mine = [e for e in events if e["tid"] == stage]
        assert sum(e["dur"] for e in mine) / 1e6 == pytest.approx(LINE.busy[stage])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(mine))
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names == {"two stages", "stage 0", "stage 1"}
