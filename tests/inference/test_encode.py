"""Inputs that a model reads as a whole, in batches within a limit, on the engines that serve them."""

import pytest

import roofline as rl

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
