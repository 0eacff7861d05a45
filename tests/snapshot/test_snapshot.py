"""Estimates are what they were at version 0.1.0, apart from what was put right; each correction has its reason."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from snapshot.cases import Case, cases

FIGURES = Path(__file__).with_name("figures.json")
CORRECTED = Path(__file__).with_name("corrected.json")
load = lru_cache(rl.load)


def span(name: str, s: rl.Span) -> dict[str, float]:
    """The four numbers of a span."""
    return {f"{name}.{end}": getattr(s, end) for end in ("expected", "floor", "low", "high")}


def step_figures(case: Case, phase: str, batch: int, tokens: int, **options: Any) -> dict[str, Any]:
    step = rl.decode(batch, tokens) if phase == "decode" else rl.prefill(batch, tokens)
    e = rl.estimate(load(case.model), step, on=case.on, layout=case.layout, **options)
    return {
        **span("time", e.span), "floor": e.floor, "compute": e.compute_time, "memory": e.memory_time,
        "network": e.network_time, "communication": e.communication_time, "flops": e.flops, "bytes": e.bytes,
        "bound": e.bound, "grade": e.grade, "mfu": e.mfu, "launches": e.launches, "shares": dict(e.shares),
    }  # fmt: skip


def generate_figures(case: Case, **options: Any) -> dict[str, Any]:
    g = rl.generate(load(case.model), on=case.on, layout=case.layout, **options)
    spans = {**span("ttft", g.ttft), **span("tpot", g.tpot), **span("latency", g.latency)}
    return {**spans, "tokens_per_second": g.tokens_per_second, "waves": g.waves, "grade": g.grade}


def serve_figures(case: Case, **options: Any) -> dict[str, Any]:
    s = rl.serve(load(case.model), on=case.on, layout=case.layout, **options)
    return {
        **span("ttft", s.ttft), **span("tpot", s.tpot), **span("latency", s.latency),
        "requests_per_second": s.requests_per_second, "in_flight": s.in_flight, "capacity": s.capacity,
        "prefill_share": s.prefill_share, "grade": s.grade,
    }  # fmt: skip


def fit_figures(case: Case, **options: Any) -> dict[str, Any]:
    f = rl.fit(load(case.model), on=case.on, layout=case.layout, **options)
    terms = {name: getattr(f.memory, name) for name in ("weights", "activations", "overhead", "capacity")}
    return {
        **terms, "cache": f.memory.cache + f.memory.state, "budget": f.memory.budget,
        "fits": f.fits, "largest_batch": f.largest_batch, "longest_context": f.longest_context,
        "fewest_chips": f.fewest_chips, "chunk": f.chunk,
    }  # fmt: skip


def pools_figures(case: Case, **options: Any) -> dict[str, Any]:
    p = rl.pools(load(case.model), on=case.on, **options)
    spans = {**span("ttft", p.ttft), **span("tpot", p.tpot), **span("transfer", p.transfer)}
    rate = p.requests_per_second
    return {**spans, "cache": p.cache, "prefills": p.prefills, "decodes": p.decodes, "requests_per_second": rate,
            "chips": p.chips}  # fmt: skip


def train_figures(case: Case, **options: Any) -> dict[str, Any]:
    t = rl.train(load(case.model), on=case.on, layout=case.layout, **options)
    run = rl.run(t, tokens=1e12)
    parts = {f"{name}.expected": getattr(t, name).expected for name in ("passes", "reduction", "gathering", "update")}
    return {
        **span("time", t.span), **parts, "bubble": t.bubble, "mfu": t.mfu, "hfu": t.hfu, "model_flops": t.model_flops,
        "hardware_flops": t.hardware_flops, "memory": t.memory.total, "fits": t.fits, "grade": t.grade,
        "days": run.seconds / 86400, "cost": run.cost, "energy": run.energy, "exposed": dict(t.exposed),
    }  # fmt: skip


COMMANDS = {
    "step": step_figures, "generate": generate_figures, "serve": serve_figures, "fit": fit_figures,
    "pools": pools_figures, "train": train_figures,
}  # fmt: skip


def figures(case: Case) -> dict[str, Any]:
    """What a case comes to now."""
    return COMMANDS[case.command](case, **case.options)


# -- what was put right --------------------------------------------------------------------------------------------
Corrections = dict[str, dict[str, dict[str, Any]]]
"""Reason → case → figure → what it is now; null where it is no longer given."""


def kept() -> dict[str, dict[str, Any]]:
    """The figures of version 0.1.0 by case."""
    figures: dict[str, dict[str, Any]] = json.loads(FIGURES.read_text())
    return figures


@lru_cache
def corrections() -> Corrections:
    """What was put right since, by reason."""
    corrected: Corrections = json.loads(CORRECTED.read_text())
    return corrected


def same(one: Any, other: Any) -> bool:
    """Whether two figures are equal, numbers to 1e-9."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, bool) or not isinstance(one, (int, float)) or not isinstance(other, (int, float)):
        return bool(one == other)
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other))


def now(case: Case) -> dict[str, Any]:
    """What a case comes to now, errors too."""
    try:
        return figures(case)
    except rl.InputError as error:
        return {"error": str(error)[:90]}


def differences(case: Case, expected: dict[str, Any]) -> dict[str, Any]:
    """The figures of a case that are not what was expected, as they are now."""
    current = now(case)
    names = sorted(expected.keys() | current.keys())
    return {name: current.get(name) for name in names if not same(expected.get(name), current.get(name))}


KEPT = kept()
CORRECTED_NOW = {
    key: {name: value for of_reason in corrections().values() for name, value in of_reason.get(key, {}).items()}
    for key in KEPT
}


def test_the_snapshot_has_at_least_500_estimates() -> None:
    assert sorted(KEPT) == sorted(case.key for case in cases())
    assert len(KEPT) >= 500


@pytest.mark.parametrize("command", COMMANDS)
def test_estimates_are_what_they_were_but_for_corrections(command: str, whole: bool) -> None:
    """By day a sixth of the cases, always the same."""
    every = [case for case in cases() if case.command == command]
    wrong = {
        case.key: differing
        for case in (every if whole else random.Random(command).sample(every, -(-len(every) // 6)))
        if (differing := differences(case, {**KEPT[case.key], **CORRECTED_NOW[case.key]}))
    }
    assert wrong == {}


def test_every_correction_has_one_reason_and_changes_something() -> None:
    for reason, by_case in corrections().items():
        assert len(reason) > 20
        for key, names in by_case.items():
            for name, value in names.items():
                assert not same(KEPT[key].get(name), value), (reason, key, name)
                others = [r for r, of_reason in corrections().items() if r != reason and name in of_reason.get(key, {})]
                assert not others, (reason, others, key, name)
