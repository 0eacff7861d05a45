"""The tables of step times that a simulation looks up."""

from __future__ import annotations

import pytest

from roofline.inference.settings import setup
from roofline.model.load import model_of
from roofline.serving.simulate.simulate import Extent, simulate
from roofline.serving.simulate.steps import step_times


def test_tables_are_as_long_as_what_runs_and_not_as_what_memory_could_hold() -> None:
    """A scheduler without a bound: 30,000 sequences could run, of which only so many are timed as are looked up."""
    plan = setup(model_of("meta-llama/Llama-3.2-1B"), on="h200-sxm", engine="none").plan
    bounded, unbounded = step_times(plan, 2048, 8192, 1024), step_times(plan, 2048, 30_000, 1024)
    assert (len(unbounded.products), len(unbounded.decoding), len(unbounded.heads)) == (2049, 2049, 2049)
    assert unbounded.row(300).step(700.0) == bounded.row(300).step(700.0)
    assert len(unbounded.decoding) == 2049
    last = unbounded.row(8192).step(512.0)
    assert last == pytest.approx(bounded.row(8192).step(512.0), rel=1e-12)
    assert 8192 < len(unbounded.decoding) < 20_000
    assert last > unbounded.row(8191).step(512.0) > unbounded.row(2048).step(512.0)


def test_a_simulation_without_an_engine_is_light() -> None:
    """A small model on a large memory, whose 5 million sequences of one token would each have a place in the tables."""
    extent = Extent(requests=5, warmup=1)
    s = simulate("Qwen/Qwen2.5-0.5B", on="h200-sxm", engine="none", input=64, output=8, rate=1.0, extent=extent)
    assert s.ttft.mean < 0.01
