from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.training.pipeline.schedule import StageTimes, Timeline, closed_length, in_flight, length, timeline
from roofline.work.training import CHUNKED, SCHEDULES

seconds = st.integers(1, 9).map(float)
sizes = st.integers(2, 6)


def equal(p: int, f: float = 1.0, b: float = 1.0, w: float = 1.0, send: float = 0.0) -> list[StageTimes]:
    return [StageTimes(f, b, w, send)] * p


def check(t: Timeline, micro_batches: int, times: list[StageTimes]) -> None:
    """Every item once, none beside another on its stage, each after what it needs."""
    p, v = t.stages, t.chunks
    done = {(i.kind, i.micro_batch, i.chunk, i.stage): i for i in t.items}
    assert len(done) == len(t.items) == 3 * micro_batches * p * v
    for stage in range(p):
        mine = sorted((i for i in t.items if i.stage == stage), key=lambda i: i.start)
        assert all(a.end <= b.start + 1e-9 for a, b in pairwise(mine))
        assert all(
            i.end - i.start == pytest.approx(dict(zip("FBW", times[stage].by_kind, strict=True))[i.kind]) for i in mine
        )
    for (kind, micro, chunk, stage), item in done.items():
        if kind != "F":
            assert item.start >= done["F" if kind == "B" else "B", micro, chunk, stage].end - 1e-9


def test_gpipe_by_hand() -> None:
    """Two stages, two micro-batches of F = 1, B = W = 1: 0–1 1–2 forward on stage 0, 1–2 2–3 on stage 1, then back."""
    t = timeline("gpipe", equal(2), 2)
    starts = {(i.stage, i.kind, i.micro_batch): i.start for i in t.items}
    assert [starts[0, "F", 0], starts[0, "F", 1], starts[1, "F", 0], starts[1, "F", 1]] == [0, 1, 1, 2]
    assert [starts[1, "B", 1], starts[1, "B", 0], starts[0, "B", 1], starts[0, "B", 0]] == [3, 5, 5, 7]
    assert t.length == 9
    assert t.busy == (6, 6)
    assert t.bubble == pytest.approx(1 - 6 / 9)
    assert t.in_flight == (2, 2)


def test_1f1b_keeps_fewer() -> None:
    t = timeline("1f1b", equal(4), 8)
    assert t.length == 33
    assert t.in_flight == (4, 3, 2, 1)


@settings(max_examples=60, deadline=None)
@given(p=sizes, m=st.integers(1, 12), f=seconds, b=seconds, w=seconds, name=st.sampled_from(["gpipe", "1f1b"]))
def test_fixed_schedules_take_what_their_formulas_say(p: int, m: int, f: float, b: float, w: float, name: str) -> None:
    times = equal(p, f, b, w)
    t = timeline(name, times, m)
    check(t, m, times)
    if m >= p or name == "gpipe":
        assert t.length == closed_length(name, f, b, w, p, m)
    assert t.in_flight == tuple(in_flight(name, i, p, m) for i in range(p))


@settings(max_examples=40, deadline=None)
@given(p=sizes, rounds=st.integers(1, 4), v=st.integers(2, 4), w=seconds)
def test_interleaving_divides_the_bubble(p: int, rounds: int, v: int, w: float) -> None:
    m, times = rounds * p, equal(p, w, w, w)
    t = timeline("interleaved", times, m, v)
    check(t, m, times)
    assert t.length == closed_length("interleaved", v * w, v * w, v * w, p, m, v)
    assert t.in_flight == tuple(in_flight("interleaved", i, p, m, v) for i in range(p))


@settings(max_examples=40, deadline=None)
@given(p=sizes, m=st.integers(2, 12), name=st.sampled_from(["zb-h1", "zb-h2"]))
def test_zero_bubble_waits_less_than_1f1b_and_keeps_what_it_may(p: int, m: int, name: str) -> None:
    times = equal(p)
    t = timeline(name, times, m)
    check(t, m, times)
    assert max(t.in_flight) <= {"zb-h1": p, "zb-h2": 2 * p - 1}[name]
    assert closed_length(name, 1.0, 1.0, 1.0, p, m) <= t.length <= timeline("1f1b", times, m).length


@pytest.mark.parametrize(("name", "beyond"), [("zb-h1", 1.08), ("zb-h2", 1.13), ("dualpipe", 1.0)])
def test_schedules_come_near_their_formulas(name: str, beyond: float) -> None:
    for p, m in ((4, 16), (8, 32)):
        t = timeline(name, equal(p), m)
        assert t.length <= beyond * closed_length(name, 1.0, 1.0, 1.0, p, m)


@pytest.mark.parametrize(("f", "b", "w"), [(1, 1, 1), (1, 1.2, 0.8), (1, 1.5, 0.5), (1, 2, 1), (2, 1, 1)])
@pytest.mark.parametrize(("p", "m"), [(2, 8), (4, 16), (5, 11), (8, 32)])
def test_zb_v_has_no_bubble_where_passes_are_equal_and_keeps_what_1f1b_keeps(
    p: int, m: int, f: float, b: float, w: float
) -> None:
    """arXiv:2401.10241 §6: p micro-batches on every stage, two chunks each, and a stage that never waits."""
    times = [StageTimes(f / 2, b / 2, w / 2)] * p
    t = timeline("zb-v", times, m, 2)
    assert t.in_flight == tuple(in_flight("zb-v", i, p, m, 2) for i in range(p)) == (p,) * p
    bubble = length("zb-v", times, m, 2) - m * (f + b + w)
    assert bubble == pytest.approx((p - 1) * (max(f, b) - w), abs=1e-9)
    assert closed_length("zb-v", f, b, w, p, m) == pytest.approx(m * (f + b + w) + bubble)


@pytest.mark.parametrize("m", [1, 3, 6])
def test_zb_v_of_few_micro_batches_is_its_order_without_what_is_not_there(m: int) -> None:
    t = timeline("zb-v", equal(4), m, 2)
    assert len({(i.stage, i.kind, i.micro_batch, i.chunk) for i in t.items}) == len(t.items) == 3 * 4 * 2 * m
    assert max(t.in_flight) <= min(m, 4)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (3, 7), (4, 16), (5, 11)])
def test_dualpipev_is_dualpipe_cut_in_half(p: int, m: int) -> None:
    """DualPipe of 2p ranks whose halves mirror each other does the same twice; the parameters are held once."""
    times = [StageTimes(1 + 0.1 * i, 1.5 - 0.1 * i, 0.8) for i in range(p)]
    both = timeline("dualpipe", [*times, *reversed(times)], 2 * m)
    half = timeline("dualpipev", times, m, 2)
    assert half.length == pytest.approx(both.length, rel=1e-12)
    assert half.busy == pytest.approx(both.busy[:p])
    assert half.in_flight == tuple(in_flight("dualpipev", i, p, m, 2) for i in range(p)) == (p + 1 / 2,) * p
    assert both.in_flight == (2 * p + 1,) * 2 * p


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (8, 24)])
def test_dualpipe_feeds_both_ends(p: int, m: int) -> None:
    times = equal(p)
    t = timeline("dualpipe", times, m)
    check_both = {(i.stage, i.kind, i.micro_batch) for i in t.items}
    assert len(check_both) == len(t.items) == 3 * p * m
    assert {i.micro_batch % 2 for i in t.items if i.stage == 0 and i.start == 0} == {0}
    assert {i.micro_batch % 2 for i in t.items if i.stage == p - 1 and i.start == 0} == {1}
    assert max(t.in_flight) <= p + 1
    assert t.length < timeline("1f1b", times, m).length


def test_the_slowest_stage_sets_the_pace() -> None:
    times = [StageTimes(1, 1, 1), StageTimes(2, 2, 2), StageTimes(1, 1, 1)]
    lengths = [timeline("1f1b", times, m).length for m in (10, 11, 12)]
    assert lengths[1] - lengths[0] == lengths[2] - lengths[1] == 6


def test_sends_delay_neighbours() -> None:
    assert timeline("gpipe", equal(2, send=0.5), 1).length == 6 + 2 * 0.5


def test_one_stage_has_no_bubble() -> None:
    for name in SCHEDULES:
        t = timeline(name, equal(1), 4, 1)
        assert (t.bubble, t.length, len(t.items)) == (0, 4 * equal(1)[0].busy, 12)


@folded(
    ("name", "p", "m", "v", "field"),
    [("interleaved", 4, 6, 2, "micro-batches"), ("dualpipe", 4, 3, 1, "micro-batches"),
     ("dualpipe", 3, 8, 1, "micro-batches"), ("1f1b", 2, 4, 2, "layout.vp"),
     ("interleaved", 2, 4, 1, "layout.vp"), ("zb-v", 4, 8, 1, "layout.vp"), ("dualpipev", 4, 8, 3, "layout.vp"),
     ("dualpipev", 4, 7, 2, "micro-batches"), ("2f2b", 2, 4, 1, "schedule")],
)  # fmt: skip
def test_what_a_schedule_cannot_take_is_an_input_error(name: str, p: int, m: int, v: int, field: str) -> None:
    with pytest.raises(rl.InputError) as caught:
        timeline(name, equal(p), m, v)
    assert caught.value.field == field


def test_a_timeline_is_drawn_of_so_many_micro_batches() -> None:
    assert len(timeline("1f1b", equal(4), 10_922).items) == 3 * 4 * 10_922
    for micro_batches in (10_923, 10**6, 10**12, 10**30):
        with pytest.raises(InputError, match="at most 10922 for a timeline of 4 stages, which draws every one"):
            timeline("1f1b", equal(4), micro_batches)


@folded("name", SCHEDULES)
def test_the_length_of_very_many_micro_batches_takes_no_longer(name: str) -> None:
    """Every further one takes as long as the slowest stage; with DualPipe as its rank, which runs another's half."""
    stages, v = [StageTimes(2, 3, 1), *equal(3)], 2 if name in CHUNKED else 1
    start, seconds = time.process_time(), length(name, stages, 4 * 10**11, v)
    assert time.process_time() - start < 5
    each = (seconds - length(name, stages, 4 * 10**5, v)) / (4 * 10**11 - 4 * 10**5)
    assert each == pytest.approx((6 + 3) / 2 if name == "dualpipe" else 6 * v, rel=1e-9)
