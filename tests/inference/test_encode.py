"""Inputs that a model reads as a whole, in batches within a limit, on the engines that serve them."""

import numpy as np
import pytest

import roofline as rl
from roofline.inference.batch_queue import BatchQueue

BGE = "BAAI/bge-m3"
HOW = {"on": "l4", "input": 512}


def test_the_batch_within_a_limit_is_the_largest() -> None:
    """Throughput at a latency: one input more would exceed it."""
    found = rl.encode(BGE, latency="100ms", **HOW)
    more, same = (rl.encode(BGE, batch=found.batch + n, **HOW) for n in (1, 0))
    assert found.latency.expected == same.latency.expected <= 0.1 < more.latency.expected
    assert found.inputs_per_second == found.batch / found.latency.expected


def test_the_batch_of_a_pipeline_within_a_limit() -> None:
    found = rl.encode("black-forest-labs/FLUX.1-dev", on="h100-sxm", latency="60s")
    assert found.batch == 10


def test_a_limit_that_one_input_exceeds() -> None:
    with pytest.raises(rl.InputError, match=r"at least 0\.00\d+ s, what one input takes"):
        rl.encode(BGE, latency="1ms", **HOW)
    with pytest.raises(rl.InputError, match="none beside `latency`"):
        rl.encode(BGE, latency="1s", batch=4, **HOW)


@pytest.mark.parametrize("engine", ["tei", "infinity", "vllm", "tensorrt", "none"])
def test_engines_of_embedders(engine: str) -> None:
    """They run the same products: a batch takes within a fifth of what kernels alone take."""
    alone, served = (rl.encode(BGE, batch=64, engine=e, **HOW).latency.expected for e in ("none", engine))
    assert served == pytest.approx(alone, rel=0.2)


def test_a_launch_at_a_time_is_slower_for_few_inputs() -> None:
    """Infinity launches PyTorch's kernels one by one, the Rust of TEI ahead."""
    rust, python = (
        rl.encode(BGE, batch=1, input=16, on="h100-sxm", engine=e).latency.expected for e in ("tei", "infinity")
    )
    assert python > 1.5 * rust


def test_xdit_is_diffusers_and_ctranslate2_takes_prompts_alone() -> None:
    one, other = (
        rl.encode("black-forest-labs/FLUX.1-dev", on="h100-sxm", engine=e).latency.expected
        for e in ("xdit", "diffusers")
    )
    assert one == other
    load = {"on": "l4", "input": 4, "output_tokens": 75, "concurrency": 4}
    rates = [
        rl.serve("openai/whisper-large-v3", engine=e, **load).requests_per_second for e in ("faster-whisper", "vllm")
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.35)


def followed(rate: float, seconds: np.ndarray, inputs: int = 300_000) -> np.ndarray:
    """Seconds of inputs that come at random to a server that reads all that wait, one event after another."""
    arrivals = np.random.default_rng(0).exponential(size=inputs).cumsum()
    arrivals *= inputs / rate / arrivals[-1]
    latencies = np.empty(inputs)
    free, first = 0.0, 0
    while first < inputs:
        begins = max(free, arrivals[first])
        behind = min(int(np.searchsorted(arrivals, begins, "right")), first + len(seconds))
        free = begins + seconds[behind - first - 1]
        latencies[first:behind] = free - arrivals[first:behind]
        first = behind
    return latencies


LINEAR = 0.01 + 0.002 * np.arange(1, 33)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("rate", "seconds"), [(0.3, np.ones(1)), (0.8, np.ones(1)), (100.0, LINEAR), (390.0, LINEAR)])
def test_the_queue_is_what_events_give(rate: float, seconds: np.ndarray) -> None:
    queue, latencies = BatchQueue(rate, seconds), followed(rate, seconds)
    assert queue.mean == pytest.approx(latencies.mean(), rel=0.02)
    for share in (0.5, 0.9, 0.99):
        assert queue.percentile(share) == pytest.approx(np.quantile(latencies, share), rel=0.05)


def test_one_input_at_a_time_is_m_d_1() -> None:
    """Pollaczek and Khinchine: the mean wait is load / (2 (1 - load)) of the service."""
    for load in (0.1, 0.5, 0.9, 0.99):
        queue = BatchQueue(load, np.ones(1))
        assert queue.mean == pytest.approx(1 + load / (2 * (1 - load)), rel=1e-6)
        assert queue.busy == pytest.approx(load, rel=1e-6)


def test_inputs_at_a_rate() -> None:
    """What comes leaves: batches of the mean size, in the share of the time that is busy."""
    slow, fast = (rl.encode(BGE, rate=rate, **HOW) for rate in (1.0, 120.0))
    alone = rl.encode(BGE, **HOW).latency.expected
    assert slow.input_latency["p50"] == pytest.approx(alone, rel=0.01)
    assert slow.busy == pytest.approx(alone, rel=0.01)
    assert (fast.batch, fast.inputs_per_second) == (32, 120.0)
    assert slow.input_latency["p99"] < fast.input_latency["mean"] < fast.input_latency["p99"]
    assert fast.usd_per_million_inputs == pytest.approx(fast.usd_per_hour / 3600 / 120 * 1e6)
    assert slow.joules_per_input > fast.joules_per_input, "a chip that waits draws power"
    two = rl.encode(BGE, rate=240.0, dp=2, on="2xl4", input=512)
    assert two.input_latency == fast.input_latency


def test_a_rate_that_no_batch_allows() -> None:
    with pytest.raises(rl.InputError, match="99 % of what batches of 32 allow"):
        rl.encode(BGE, rate=1e4, **HOW)
    with pytest.raises(rl.InputError, match="none beside `rate`"):
        rl.encode(BGE, rate=10, latency="1s", **HOW)
