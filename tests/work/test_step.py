"""Steps: the sums over queries, checked against counting one by one."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.work.step import Queries, Step, step_of

lengths = st.integers(0, 60)
news = st.integers(1, 40)
windows = st.integers(1, 50)


def seen(position: int, window: int | None, chunk: int | None) -> int:
    """Keys that the token at `position` attends to, itself included, by the definition of the mask."""
    keys = range(position + 1)
    if window is not None:
        keys = [k for k in keys if position - k < window]
    if chunk is not None:
        keys = [k for k in keys if k // chunk == position // chunk]
    return len(keys)


@given(lengths, news, st.none() | windows, st.none() | windows)
def test_pairs_are_what_the_mask_leaves(cached: int, new: int, window: int | None, chunk: int | None) -> None:
    window = None if chunk else window
    expected = sum(seen(p, window, chunk) for p in range(cached, cached + new))
    assert Step([(cached, new)]).pairs(window, chunk) == expected


@given(lengths, news, st.none() | windows, st.none() | windows)
def test_cache_reads_are_the_cached_keys_some_token_sees(
    cached: int, new: int, window: int | None, chunk: int | None
) -> None:
    window = None if chunk else window
    read = set()
    for p in range(cached, cached + new):
        read |= {k for k in range(cached) if (not window or p - k < window) and (not chunk or k // chunk == p // chunk)}
    assert Step([(cached, new)]).cache_reads(window, chunk) == len(read)


@given(st.lists(st.tuples(lengths, news), min_size=1, max_size=5), st.none() | windows)
def test_a_mixed_batch_is_the_sum_of_its_queries(queries: list[tuple[int, int]], window: int | None) -> None:
    mixed, apart = Step(queries), [Step([q]) for q in queries]
    assert mixed.pairs(window) == sum(s.pairs(window) for s in apart)
    assert mixed.tokens == sum(s.tokens for s in apart)
    assert mixed.cache_reads(window) == sum(s.cache_reads(window) for s in apart)
    assert mixed.square_pairs == sum(s.square_pairs for s in apart)


@given(lengths, st.lists(news, min_size=1, max_size=4), st.none() | windows, st.none() | windows)
def test_chunks_of_a_prefill_leave_the_pairs_of_the_whole(
    cached: int, parts: list[int], window: int | None, chunk: int | None
) -> None:
    whole = Step([(cached, sum(parts))]).pairs(window, None if window else chunk)
    total = 0
    for part in parts:
        total += Step([(cached, part)]).pairs(window, None if window else chunk)
        cached += part
    assert total == whole


def test_prefill_decode_and_lists_say_the_same_in_several_ways() -> None:
    assert rl.prefill(batch=3, tokens=512) == Step([(0, 512)] * 3) == Step([(0, 512, 3)])
    assert rl.decode(batch=2, context=100) == Step(cached=[100, 100], new=[1, 1]) == Step(cached=100, new=1, batch=2)
    assert Step(cached=[1, 2], new=[3, 4], batch=4) == Step([(1, 3), (2, 4), (1, 3), (2, 4)])
    assert Step([(0, 5)]) + Step([(7, 1)]) == Step([(0, 5), (7, 1)])
    assert Step([(7, 1), (0, 5)] * 1000).queries == (Queries(7, 1, 1000), Queries(0, 5, 1000))


class Named(IntEnum):
    """An int that is no plain one."""

    two = 2
    three = 3
    five = 5


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array, Named])
def test_one_whole_number_of_any_kind_is_an_int(kind: Any) -> None:
    (query,) = rl.prefill(batch=kind(3), tokens=kind(5), cached=kind(2)).queries
    assert (query.cached, query.new, query.count) == (2, 5, 3)
    assert {type(query.cached), type(query.new), type(query.count)} == {int}


def test_verifying_drafts_needs_the_logits_of_every_token() -> None:
    assert rl.decode(batch=4, context=10).logit_tokens == 4
    assert rl.decode(batch=4, context=10, new=3).logit_tokens == 12
    assert rl.prefill(batch=4, tokens=10).logit_tokens == 4
    assert rl.prefill(batch=4, tokens=10, logits="all").logit_tokens == 40


def test_arrays_broadcast() -> None:
    step = rl.decode(batch=np.array([[1], [2]]), context=[10, 20, 30])
    assert step.shape == (2, 3)
    assert step.pairs().tolist() == [[11, 21, 31], [22, 42, 62]]


@folded(
    ("make", "field"),
    [
        (lambda: rl.prefill(batch=0, tokens=1), "batch"),
        (lambda: rl.prefill(batch=1, tokens=0), "tokens"),
        (lambda: rl.prefill(batch=1), "tokens"),
        (lambda: rl.prefill(batch=1, tokens=2.5), "tokens"),
        (lambda: rl.prefill(batch=1, tokens=True), "tokens"),
        (lambda: rl.prefill(batch=1, tokens=np.True_), "tokens"),
        (lambda: rl.prefill(batch=1, tokens=np.array(True)), "tokens"),
        (lambda: rl.prefill(batch=1, tokens=np.int64(0)), "tokens"),
        (lambda: rl.prefill(batch="1", tokens=1), "batch"),
        (lambda: rl.decode(batch=1, context=-1), "context"),
        (lambda: rl.decode(batch=1, context=[1, -1]), "context"),
        (lambda: rl.decode(batch=1, context=np.array([1.5])), "context"),
        (lambda: rl.decode(batch=1, context=np.array([np.nan])), "context"),
        (lambda: rl.decode(batch=1, context=10**30), "context"),
        (lambda: rl.decode(batch=[1, 2], context=[1, 2, 3]), "step"),
        (lambda: Step([]), "queries"),
        (lambda: Step([(1,)]), "queries"),
        (lambda: Step(cached=[1, 2], new=[1]), "new"),
        (lambda: Step(cached=[1, 2], new=[1, 1], batch=3), "batch"),
        (lambda: Step([(0, 1)], logits="some"), "logits"),  # type: ignore[arg-type]
        (lambda: Step([(0, 1)], batch=2), "queries"),
    ],
)
def test_bad_steps_name_the_field(make: object, field: str) -> None:
    with pytest.raises(InputError) as error:
        make()  # type: ignore[operator]
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_the_step_of_a_phase() -> None:
    assert step_of("prefill", 3, 7) == rl.prefill(3, 7)
    assert step_of("decode", 3, 7) == rl.decode(3, 7)
    with pytest.raises(InputError, match="phase: expected one of prefill, decode, got 'decoding'; nearest: decode"):
        step_of("decoding", 1, 1)


def test_one_new_token_of_numpy_is_one() -> None:
    assert rl.decode(4, 100, new=np.int64(1)) == rl.decode(4, 100)
