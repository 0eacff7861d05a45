"""Generation and serving: sums, waves, steady state, speculation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from folded import folded
from roofline.declared.errors import InputError
from roofline.hardware.named_chip import chip_named
from roofline.inference.generate import Speculation, generate
from roofline.serving.serve import serve
from roofline.views.text.inference.generate import generation_text

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
H100 = "h100-sxm"


def test_a_generation_is_the_prefill_and_every_decode_step() -> None:
    g = generate(LLAMA, on=H100, batch=4, input=100, output=8)
    steps = [rl.estimate(LLAMA, rl.decode(batch=4, context=c), on=H100).time for c in range(100, 107)]
    first = rl.estimate(LLAMA, rl.prefill(batch=4, tokens=100), on=H100).time
    assert g.ttft.expected == pytest.approx(first)
    assert g.latency.expected == pytest.approx(first + sum(steps))
    assert g.tpot.expected == pytest.approx(sum(steps) / 7)
    assert g.tokens_per_second == pytest.approx(4 * 8 / g.latency.expected)
    assert g.latency.floor <= g.latency.low <= g.latency.expected <= g.latency.high


def test_per_chip_and_per_dollar() -> None:
    g = generate(LLAMA, on="8xh100-sxm", layout="tp=2", batch=4, input=100, output=8)
    assert g.tokens_per_second_per_chip == pytest.approx(4 * 8 / g.latency.expected / 2)
    each = rl.chips()[H100].price
    assert each is not None
    assert g.usd_per_million_tokens == pytest.approx(2 * each.usd_per_hour / 3600 * g.latency.expected / 32 * 1e6)
    assert generate(LLAMA, on="peak=1T,bw=1T,mem=99G", input=9, output=2).usd_per_million_tokens is None


def test_one_token_is_the_prefill() -> None:
    g = generate(LLAMA, on=H100, input=100, output=1)
    assert g.latency == g.ttft
    assert g.tpot.expected == 0


def test_what_does_not_fit_runs_in_waves() -> None:
    g = generate(
        rl.load("meta-llama/Llama-2-7b-hf"), on="a100-sxm-40gb", batch=32, input=2048, output=2048, engine="vllm"
    )
    full, left = divmod(32, g.first_wave)
    assert g.waves == full + (left > 0) > 1
    waves = [g.first_wave] * full + [left] * (left > 0)
    alone = [generate(g.model, on=g.chip, batch=n, input=2048, output=2048, engine="vllm") for n in waves]
    assert [w.waves for w in alone] == [1] * len(waves)
    assert g.latency.expected == pytest.approx(sum(w.latency.expected for w in alone))


def test_what_does_not_fit_says_so_and_takes_what_it_would_with_more_memory() -> None:
    large, chip = rl.load("meta-llama/Llama-3.1-70B"), chip_named(H100)
    g = generate(large, on=H100, batch=4, input=10, output=10, engine="vllm")
    assert not g.fits
    roomy = generate(large, on=replace(chip, capacity=1e12), batch=4, input=10, output=10, engine="vllm")
    assert roomy.fits
    assert (g.waves, g.latency, g.memory.total) == (1, roomy.latency, roomy.memory.total)


def test_a_server_that_holds_nothing_says_so_and_takes_what_it_would_with_more_memory() -> None:
    large, chip = rl.load("meta-llama/Llama-3.1-70B"), chip_named(H100)
    s = serve(large, on=H100, input=1000, output=10, concurrency=8)
    assert (s.fits, s.capacity) == (False, 0)
    roomy = serve(large, on=replace(chip, capacity=1e12), input=1000, output=10, concurrency=8)
    assert roomy.fits
    assert (s.latency, s.memory.total) == (roomy.latency, roomy.memory.total)


def test_serving_obeys_littles_law() -> None:
    s = serve(LLAMA, on=H100, input=1000, output=200, concurrency=32)
    assert s.requests_per_second * s.latency.expected == pytest.approx(32)
    assert s.tokens_per_second == pytest.approx(200 * s.requests_per_second)
    assert s.tpot.floor < s.tpot.low <= s.tpot.expected <= s.tpot.high


def test_one_request_meets_no_other_prompt() -> None:
    s = serve(LLAMA, on=H100, input=1000, output=200, concurrency=1, **EQUAL)
    assert s.tpot.expected == pytest.approx(rl.estimate(LLAMA, rl.decode(batch=1, context=1100), on=H100).time)


def test_prompts_slow_the_tokens_of_others() -> None:
    def tpot(prompt: int) -> float:
        return float(serve(LLAMA, on=H100, input=prompt, output=200, concurrency=64).tpot.expected)

    assert tpot(4000) > tpot(1000) > tpot(100)


def test_a_prefix_cache_spares_the_prompt() -> None:
    plain, cached = (serve(LLAMA, on=H100, input=4000, output=100, concurrency=32, prefix=p) for p in (0.0, 0.9))
    assert cached.tpot.expected < plain.tpot.expected
    assert cached.ttft.expected < plain.ttft.expected


def test_a_rate_gives_the_smallest_concurrency_that_serves_it() -> None:
    s = serve(LLAMA, on=H100, input=1000, output=100, rate=5.0)
    assert s.requests_per_second >= 5.0
    if s.in_flight > 1:
        fewer = serve(LLAMA, on=H100, input=1000, output=100, concurrency=s.in_flight - 1)
        assert fewer.requests_per_second < 5.0


def test_requests_beyond_memory_wait() -> None:
    places = serve(LLAMA, on=H100, input=8000, output=100, concurrency=1).capacity
    s = serve(LLAMA, on=H100, input=8000, output=100, concurrency=4 * places)
    assert s.ttft.expected > 3 * serve(LLAMA, on=H100, input=8000, output=100, concurrency=places).ttft.expected


@pytest.mark.parametrize(
    ("a", "n", "tokens"), [(0.7, 1, 1.70), (0.7, 3, 2.53), (0.7, 5, 2.94), (1.0, 4, 5.0), (0.0, 4, 1.0)]
)
def test_speculation_yields_at_most_one_more_than_the_draft(a: float, n: int, tokens: float) -> None:
    s = Speculation(a, n)
    assert s.tokens_per_step == pytest.approx(tokens, abs=0.006)
    assert s.tokens_per_step <= n + 1


def test_free_drafts_help_a_memory_bound_decode_and_bad_ones_do_not() -> None:
    def latency(speculation: Speculation | None) -> float:
        g = generate(LLAMA, on=H100, batch=1, input=500, output=200, speculation=speculation)
        return float(g.latency.expected)

    assert latency(Speculation(0.8, 4)) < 0.5 * latency(None)
    assert latency(Speculation(0.0, 4, rl.load("meta-llama/Llama-3.2-1B"))) > latency(None)


@folded(
    ("call", "field"),
    [
        (lambda: serve(LLAMA, on=H100, input=10, output=10), "concurrency and rate"),
        (lambda: serve(LLAMA, on=H100, input=10, output=10, concurrency=1, rate=1.0), "concurrency and rate"),
        (lambda: serve(LLAMA, on=H100, input=10, output=10, concurrency=0), "concurrency"),
        (lambda: serve(LLAMA, on=H100, input=10, output=10, rate=-1.0), "rate"),
        (lambda: serve(LLAMA, on=H100, input=1000, output=1000, rate=1e6), "rate"),
        (lambda: serve(LLAMA, on=H100, input=10, output=10, concurrency=1, prefix=1.0), "prefix"),
        (lambda: serve(LLAMA, on=H100, input=10, output=10, concurrency=1, engine="vlm"), "engine"),
        (lambda: generate(LLAMA, on=H100, input=131072, output=10), "context"),
        (lambda: generate(LLAMA, on=H100, input=0, output=10), "input"),
        (lambda: Speculation(1.5, 3), "acceptance"),
        (lambda: Speculation(0.5, 0), "draft length"),
    ],
)
def test_bad_input_names_the_field(call: Any, field: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert error.value.field == field


@folded("law", ["ideal", "calibrated"])
@folded("output", [1, 2, 16, 200], drawn=2)
@folded("concurrency", [1, 32, 256, 1000], drawn=3)
def test_no_server_beats_its_peak(law: str, output: int, concurrency: int) -> None:
    s = serve(LLAMA, on=H100, input=1024, output=output, concurrency=concurrency, law=law)
    prompt = rl.analyze(LLAMA, rl.prefill(batch=1, tokens=1024)).flops
    token = rl.analyze(LLAMA, rl.decode(batch=1, context=1024)).flops
    assert s.requests_per_second * (prompt + (output - 1) * token) <= 989.4e12 * 1.001


def test_a_rate_beyond_the_peak_is_refused() -> None:
    with pytest.raises(InputError):
        serve(LLAMA, on=H100, input=1024, output=1, rate=300.0, law="ideal")


def test_a_lone_user_is_served_as_a_batch_of_one() -> None:
    s = serve(LLAMA, on=H100, input=1024, output=257, concurrency=1, **EQUAL)
    g = generate(LLAMA, on=H100, batch=1, input=1024, output=257)
    assert s.ttft.expected == pytest.approx(g.ttft.expected + s.engine.before(1024))
    assert s.tpot.expected == pytest.approx(g.tpot.expected, rel=0.01)


def test_one_token_has_no_time_between_tokens() -> None:
    g = rl.generate(rl.load("meta-llama/Llama-3.1-8B"), on="h100-sxm", input=128, output=1)
    assert g.tokens_per_second_per_user is None
    assert "TPOT     – (one token)" in generation_text(g)
    assert "per user" not in generation_text(g)
    assert set(g.to_dict()["tpot"].values()) == {None}
    several = rl.generate("meta-llama/Llama-3.1-8B", on="h100-sxm", input=128, output=np.array([1, 2]))
    assert [line.split() for line in repr(g).splitlines() if "tpot" in line] == [["tpot", "–"]]
    assert [tpot is None for tpot in several.to_dict()["tpot"]["expected"]] == [True, False]


# -- start-up ------------------------------------------------------------------------------------------------------
def test_a_cold_process_waits_before_its_prompts_and_never_between_tokens() -> None:
    """Fitted on Max 1550 with vLLM 0.5.2: 16.7 s, as wide as whole models there; a warm process waits for nothing."""
    sizes = {"batch": 1, "input": 128, "output": 128, "on": "max-1550"}
    warm = rl.generate("meta-llama/Llama-2-7b-hf", engine="vllm-2024", **sizes)
    cold = rl.generate("meta-llama/Llama-2-7b-hf", engine="vllm-2024(cold=1)", **sizes)
    width = math.exp(0.33)
    for one, other in ((cold.ttft, warm.ttft), (cold.latency, warm.latency)):
        assert one.expected - other.expected == pytest.approx(16.7)
        assert one.low - other.low == pytest.approx(16.7 / width)
        assert one.high - other.high == pytest.approx(16.7 * width)
        assert one.floor == other.floor
    assert cold.tpot == warm.tpot
    assert cold.tokens_per_second < warm.tokens_per_second


def test_a_start_up_is_known_of_the_generation_that_was_measured_alone() -> None:
    one, other = (
        rl.generate("openai-community/gpt2", batch=1, input=64, output=8, on="h100-sxm", engine=engine).latency
        for engine in ("vllm-2024", "vllm-2024(cold=1)")
    )
    assert one == other


def test_an_array_of_cold_batches_is_each_of_them() -> None:
    where = {"on": "max-1550", "engine": "vllm-2024(cold=1)"}
    both = rl.generate("openai-community/gpt2", batch=np.array([1, 4]), input=64, output=8, **where)
    for i, batch in enumerate((1, 4)):
        one = rl.generate("openai-community/gpt2", batch=batch, input=64, output=8, **where)
        assert both.latency.expected[i] == pytest.approx(one.latency.expected, rel=1e-12)
        assert both.ttft.high[i] == pytest.approx(one.ttft.high, rel=1e-12)


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"rate": 0.5}])
def test_short_answers_of_a_server_that_holds_nothing_have_times(load: dict[str, float]) -> None:
    """They were an error where they are followed and the engine runs more than a replication has places."""
    given = {"input": 1000, "output_tokens": 10, "engine": "none", **load}
    s, roomy = (rl.serve("meta-llama/Llama-3.1-8B", on=f"peak=165T,bw=1T,mem={m}", **given) for m in ("15G", "1T"))
    assert (s.fits, roomy.fits) == (False, True)
    assert s.ttft.expected == pytest.approx(roomy.ttft.expected, rel=1e-3)
