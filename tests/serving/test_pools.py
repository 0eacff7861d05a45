from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from folded import by_day, folded
from roofline.serving.drafting import expected_steps
from roofline.serving.transfer import moved_bytes, rank_cache

LLAMA = rl.load("meta-llama/Llama-3.1-8B")
LATENT = rl.load("deepseek-ai/DeepSeek-V3")


def pools_of(**changes: object) -> rl.Pools:
    given: dict[str, Any] = {
        "on": "2xdgx-h100", "chips": 16, "prefill_layout": "tp=2", "decode_layout": "tp=4", "input": 2048,
        "output": 256, "concurrency": 32,
    }  # fmt: skip
    given = {**given, **changes}
    pools: rl.Pools = rl.pools(LLAMA, **{k: v for k, v in given.items() if v is not None})
    return pools


def cache_of(model: rl.Model, layout: str, tokens: int = 4096) -> float:
    asked = rl.generate(model, on="8xdgx-h100", layout=layout, batch=1, input=8, output=1).asked
    return float(rank_cache(asked, tokens))


# -- what travels --------------------------------------------------------------------------------------------------
def test_a_rank_holds_the_heads_it_has_and_a_latent_cache_whole() -> None:
    latent = 61 * (512 + 64) * 2 * 4096
    assert [cache_of(LATENT, layout) for layout in ("tp=8", "dp=32,ep=32", "tp=1", "cp=2")] == [
        latent, latent, latent, latent // 2,
    ]  # fmt: skip
    whole = 32 * 2 * 8 * 128 * 2 * 4096
    assert [cache_of(LLAMA, layout) for layout in ("tp=1", "tp=2", "tp=8", "tp=16", "pp=2", "dp=2")] == [
        whole, whole // 2, whole // 8, whole // 8, whole // 2, whole,  # 8 heads, so 16 ranks hold each of them twice
    ]  # fmt: skip


def test_the_busiest_link_is_that_of_the_side_with_fewer_parts() -> None:
    def setup_of(layout: str) -> object:
        return rl.generate(LLAMA, on="2xdgx-h100", layout=layout, batch=1, input=8, output=1).asked

    whole = LLAMA.kv_bytes(2048)
    for first, then, parts in (("tp=2", "tp=4", 2), ("tp=4", "tp=2", 2), ("tp=16", "tp=8", 8)):
        assert moved_bytes(setup_of(first), setup_of(then), 2048) == whole // parts  # type: ignore[arg-type]


def test_a_cache_that_one_rank_holds_goes_by_one_link() -> None:
    p = rl.pools(
        LATENT, on="8xdgx-h200", prefill_layout="dp=32,ep=32", decode_layout="dp=32,ep=32", chips=64, input=4096,
        output=256, concurrency=1,
    )  # fmt: skip
    assert p.cache == 287_834_112
    assert p.transfer.floor == pytest.approx(287_834_112 / 50e9)  # 5.76 ms by one 400 Gb/s link
    assert p.transfer_requests_per_second == pytest.approx(32 / p.transfer.expected)


@pytest.mark.parametrize(
    ("layout", "parts"), [("tp=4", 4), ("tp=16", 8), ("tp=2,pp=2", 4), ("tp=2,cp=2", 4), ("dp=4", 1)]
)
def test_a_cache_travels_in_the_parts_that_ranks_hold(layout: str, parts: int) -> None:
    p = pools_of(on="4xdgx-h100", chips=32, prefill_layout=layout, decode_layout=layout)
    assert p.transfer.floor == pytest.approx(p.cache / parts / 50e9)


# -- one request ---------------------------------------------------------------------------------------------------
def test_a_request_alone_waits_for_nobody() -> None:
    p = pools_of(concurrency=1, **EQUAL)
    alone = rl.generate(LLAMA, on="2xdgx-h100", layout="tp=2", batch=1, input=2048, output=1)
    step = rl.generate(LLAMA, on="2xdgx-h100", layout="tp=4", batch=1, input=2048 + 128, output=2)
    host = p.engine.before(2048)
    assert (p.prefill_wait, p.decode_wait, p.running) == (0, 0, 1)
    assert p.tpot.expected == pytest.approx(step.tpot.expected)
    expected = host + alone.ttft.expected + p.transfer.expected / 32 + p.tpot.expected
    assert p.ttft.expected == pytest.approx(expected)
    assert p.ttft.floor == pytest.approx(alone.ttft.floor + p.transfer.floor * (1 / 32) + p.tpot.floor)
    assert p.transfer.floor == pytest.approx(p.cache / 2 / 50e9)  # two ranks, each its half
    assert p.requests_per_second == pytest.approx(1 / p.latency.expected)
    assert host > 0


def test_what_a_prefix_cache_knows_is_not_computed_again_but_travels() -> None:
    p, whole = (pools_of(concurrency=1, prefix=share) for share in (0.5, 0.0))
    assert (p.cached_prefix, p.prompts, whole.prompts) == (1024, 8, 4)
    assert p.cache == whole.cache == LLAMA.kv_bytes(2048)
    assert 1.7 * whole.prefill_rate < p.prefill_rate < 2 * whole.prefill_rate
    assert p.ttft.expected < whole.ttft.expected


# -- what pools hold -----------------------------------------------------------------------------------------------
def test_prompts_are_batched_up_to_the_chunk() -> None:
    def rate_of(engine: str) -> rl.Pools:
        answer: rl.Pools = rl.pools(
            LLAMA, on="h100-sxm", prefill_layout="tp=1", decode_layout="tp=1", prefills=1, decodes=1, input=128,
            output=64, concurrency=1, prefill_engine=engine, **EQUAL,
        )  # fmt: skip
        return answer

    together, single = rate_of("vllm"), rate_of("vllm(max_num_batched_tokens=128)")
    assert (together.prompts, single.prompts) == (64, 1)
    alone, batch = (rl.generate(LLAMA, on="h100-sxm", batch=n, input=128, output_tokens=1) for n in (1, 64))
    assert single.prefill_rate == pytest.approx(1 / alone.ttft.expected)
    one_by_one = 0.02  # a scheduler's step attends to each prompt by itself, a static batch to all of them together
    assert together.prefill_rate == pytest.approx(64 / batch.ttft.expected, rel=one_by_one)
    assert together.prefill_rate > 2.5 * single.prefill_rate
    assert (together.prefill_engine.plain(), together.engine.plain()) == ("vllm", "vllm")
    assert single.prefill_engine.plain() == "vllm(max_num_batched_tokens=128)"


def test_decode_holds_what_all_its_places_yield() -> None:
    p = pools_of(prefills=2, decodes=3, chips=None, **EQUAL)
    served = rl.serve(LLAMA, on="2xdgx-h100", layout="tp=4", input=2048, output=256, concurrency=10**6, **EQUAL)
    step = rl.generate(LLAMA, on="2xdgx-h100", layout="tp=4", batch=served.running, input=2048 + 128, output=2)
    assert served.running > served.capacity
    between_nodes = 0.01
    assert p.decode_rate == pytest.approx(served.running / (256 * step.tpot.expected), rel=between_nodes)
    assert p.decode_requests_per_second == 3 * p.decode_rate
    assert p.prefill_requests_per_second == 2 * p.prefill_rate


def test_the_replicas_are_those_that_serve_most() -> None:
    for users in by_day((40,), (4, 40, 400)):
        p = pools_of(concurrency=users)
        assert p.chips == 2 * p.prefills + 4 * p.decodes <= 16
        rates = [
            pools_of(concurrency=users, chips=None, prefills=x, decodes=y).requests_per_second
            for x in range(1, 7) for y in range(1, 4) if 2 * x + 4 * y <= 16
        ]  # fmt: skip
        assert p.requests_per_second == pytest.approx(max(rates))


def test_at_a_rate_the_replicas_are_those_that_answer_soonest_and_none_is_saturated() -> None:
    for rate in by_day((20.0, 130.0), (1.0, 20.0, 80.0, 130.0)):
        p = pools_of(concurrency=None, rate=rate)
        assert p.requests_per_second == rate
        assert max(p.prefill_utilisation, p.transfer_utilisation, p.decode_utilisation) < 1
        assert p.prefill_utilisation == pytest.approx(rate / p.prefill_requests_per_second)
        assert p.in_flight == pytest.approx(rate * p.latency.expected)  # Little's law
        others = []
        for x in range(1, 7):
            try:
                others.append(
                    pools_of(concurrency=None, rate=rate, chips=None, prefills=x, decodes=(16 - 2 * x) // 4).latency
                )
            except rl.InputError:
                continue
        assert p.latency.expected == pytest.approx(min(other.expected for other in others))


def test_a_rate_beyond_what_the_pools_hold_is_refused_with_what_they_hold() -> None:
    most = pools_of(prefills=1, decodes=3, chips=None).prefill_requests_per_second
    assert pools_of(concurrency=None, rate=0.999 * most, prefills=1, decodes=3, chips=None).prefill_wait > 1
    with pytest.raises(rl.InputError, match=re.escape(f"less than {most:.3g} requests a second: 1 × prefill")):
        pools_of(concurrency=None, rate=1.001 * most, prefills=1, decodes=3, chips=None)


def test_everyone_is_in_flight_and_throughput_never_falls() -> None:
    users = np.array([1, 2, 3, 5, 8, 13, 30, 100, 300, 1000, 10_000])
    p = pools_of(concurrency=users, chips=None, prefills=2, decodes=2)
    rates = np.asarray(p.requests_per_second)
    assert (np.diff(rates) > -1e-9 * rates[1:]).all()
    np.testing.assert_allclose(rates * p.latency.expected, users, rtol=1e-6)
    most = np.minimum(p.prefill_requests_per_second, p.decode_requests_per_second)
    assert (rates <= most * (1 + 1e-9)).all()
    assert rates[-1] == pytest.approx(most[-1])


def test_waits_grow_with_the_rate() -> None:
    p = pools_of(concurrency=None, rate=np.array([1.0, 10.0, 30.0, 60.0, 69.0]), chips=None, prefills=2, decodes=3)
    assert (np.diff(p.prefill_wait) > 0).all()
    assert (np.diff(p.tpot.expected) > 0).all()
    assert (np.diff(p.ttft.expected) > 0).all()


def test_arrays_are_their_elements() -> None:
    rates, inputs = np.array([[1.0], [9.0]]), np.array([500, 2048, 9000])
    whole = pools_of(concurrency=None, rate=rates, input=inputs, prefix=0.25)
    assert whole.shape == (2, 3)
    for i, rate in enumerate(rates[:, 0]):
        for j, tokens in enumerate(inputs):
            one = pools_of(concurrency=None, rate=rate, input=int(tokens), prefix=0.25)
            figures = (whole.prefills, whole.decodes, whole.ttft.expected, whole.requests_per_second)
            alone = (one.prefills, one.decodes, one.ttft.expected, one.requests_per_second)
            assert [np.asarray(v)[i, j] for v in figures] == pytest.approx(list(alone))
            assert whole.bottleneck[i, j] == one.bottleneck


# -- unlike chips --------------------------------------------------------------------------------------------------
def test_unlike_chips_each_do_their_own_work() -> None:
    p = rl.pools(
        LLAMA, on="h200-sxm", prefill_on="a100-sxm-80gb", prefills=1,
        decodes=1, input=1024, output=64, concurrency=1, prefill_layout="tp=1", decode_layout="tp=1",
        **EQUAL,
    )  # fmt: skip
    alone = rl.generate(LLAMA, on=p.prefill.chip, batch=1, input=1024, output=1)
    step = rl.generate(LLAMA, on="h200-sxm", batch=1, input=1024 + 32, output=2)
    assert p.tpot.expected == pytest.approx(step.tpot.expected)
    assert p.transfer.floor == pytest.approx(LLAMA.kv_bytes(1024) / 25e9)  # an A100's 200 Gb/s, half an H200's
    expected = p.prefill_engine.before(1024) + alone.ttft.expected + p.transfer.expected / 32 + p.tpot.expected
    assert p.ttft.expected == pytest.approx(expected)
    assert (p.prefill.chip.id, p.decode.chip.id) == ("a100-sxm-80gb", "h200-sxm")


def test_either_pool_may_lack_memory() -> None:
    def fits(prefill_layout: str, decode_layout: str) -> tuple[bool, str]:
        p = rl.pools(
            "meta-llama/Llama-3.1-70B", on="2xdgx-h100", prefill_layout=prefill_layout, decode_layout=decode_layout,
            prefills=1, decodes=1, input=1024, output=64, concurrency=4,
        )  # fmt: skip
        return p.fits, p.limiting[0].layout.text()

    assert fits("tp=4", "tp=8") == (True, "tp=8")
    assert fits("tp=1", "tp=4") == (False, "one chip")
    assert fits("tp=4", "tp=1") == (False, "one chip")


@folded(
    ("changes", "field"),
    [
        ({"chips": 5}, "chips"),
        ({"chips": 10_000}, "chips"),
        ({"concurrency": 0}, "concurrency"),
        ({"input": 2**18}, "context"),
        ({"chips": 0}, "chips"),
        ({"rate": 1.0}, "concurrency and rate"),
        ({"concurrency": None}, "concurrency and rate"),
        ({"concurrency": None, "rate": 0.0}, "rate"),
        ({"prefix": 1.0}, "prefix"),
        ({"prefills": 2}, "chips"),
        ({"chips": None, "prefills": 2}, "chips"),
        ({"chips": None, "prefills": 2, "decodes": 0}, "decodes"),
        ({"chips": None, "prefills": 200, "decodes": 4}, "prefills and decodes"),
        ({"prefill_on": "l4"}, "prefill_on"),
        ({"layout": "tp=8"}, "layout"),
    ],
)
def test_what_cannot_be_is_an_input_error(changes: dict[str, object], field: str) -> None:
    with pytest.raises(rl.InputError) as caught:
        pools_of(**changes)
    assert caught.value.field == field


# -- drafts and images ---------------------------------------------------------------------------------------------
DRAFTS = rl.Speculation(0.7, 3, rl.load("meta-llama/Llama-3.2-1B"))


def test_a_request_alone_takes_the_steps_that_its_drafts_leave() -> None:
    p = pools_of(concurrency=1, speculation=DRAFTS)
    plain = pools_of(concurrency=1)
    verified = rl.serve(
        LLAMA, on="2xdgx-h100", layout="tp=4", input=2048, output=257, concurrency=1, speculation=DRAFTS
    )
    steps = expected_steps(DRAFTS, 256)  # of all tokens: this pool makes the first one too
    assert p.step.expected * steps == pytest.approx(256 * verified.tpot.expected, rel=1e-3)
    assert p.tpot.expected == pytest.approx(p.step.expected * (steps - 1) / 255)
    assert p.latency.expected - p.ttft.expected == pytest.approx(p.step.expected * (steps - 1))
    assert p.ttft.expected - plain.ttft.expected == pytest.approx(p.step.expected - plain.step.expected)
    assert plain.step == plain.tpot
    assert p.decode_rate == pytest.approx(p.decode_requests_per_second / p.decodes)
    assert p.to_dict()["speculation"]["length"] == 3
    assert plain.to_dict()["speculation"] is None


def test_a_draft_that_is_never_right_takes_a_step_for_each_token() -> None:
    wrong = pools_of(concurrency=1, speculation=rl.Speculation(0.0, 1))
    assert wrong.tpot == wrong.step
    assert pools_of(concurrency=1, speculation=rl.Speculation(1.0, 1), output=1).tpot.expected < wrong.tpot.expected


def test_a_draft_takes_the_memory_of_those_that_decode() -> None:
    p, plain = pools_of(speculation=DRAFTS), pools_of()
    draft = DRAFTS.draft
    assert draft is not None
    assert p.memory.weights - plain.memory.weights == draft.parameters * 2
    assert p.prefill_memory.weights == plain.prefill_memory.weights
    served = rl.serve(
        LLAMA, on="2xdgx-h100", layout="tp=4", input=2048, output=256, concurrency=10**6, speculation=DRAFTS
    )
    full = pools_of(speculation=DRAFTS, concurrency=10**6, chips=None, prefills=40, decodes=1, on="16xdgx-h100")
    assert full.running == served.running > served.capacity
    assert full.fits


def test_what_pools_with_drafts_spend_is_the_work_of_their_steps() -> None:
    p, plain = (pools_of(rate=20.0, concurrency=None, speculation=s) for s in (DRAFTS, None))
    joules = [np.asarray(each.joules_per_token, dtype=float).item() for each in (p, plain)]
    assert 0 < joules[0] < joules[1] * 1.5
    array = pools_of(rate=np.array([2.0, 20.0]), concurrency=None, speculation=DRAFTS)
    assert np.shape(array.tpot.expected) == (2,)


def test_images_are_tokens_of_the_prompt_and_their_cache_travels() -> None:
    given: dict[str, Any] = {
        "on": "h100-sxm", "prefill_layout": "tp=1", "decode_layout": "tp=1", "prefills": 1, "decodes": 1, "output": 64,
        "rate": 1.0, **EQUAL,  # images do not vary with the text beside them
    }  # fmt: skip
    text = rl.load("Qwen/Qwen3.5-9B", text_only=True)
    seen = rl.pools(text, input=300, images=rl.Images(2, 1024, 768), **given)
    alike = rl.pools(text, input=300 + seen.images.tokens, **given)
    assert (
        seen.images.tokens
        == rl.serve(
            "Qwen/Qwen3.5-9B", on="h100-sxm", input=300, images=rl.Images(2, 1024, 768), output=64, rate=1.0
        ).images.tokens
    )
    assert (seen.input, seen.cache, seen.ttft, seen.tpot) == (alike.input, alike.cache, alike.ttft, alike.tpot)
    whole = rl.pools("Qwen/Qwen3.5-9B", input=300, images=rl.Images(2, 1024, 768), **given)
    assert whole.ttft.expected > seen.ttft.expected * 1.1  # the tower encodes them first
    with pytest.raises(rl.InputError, match="images"):
        pools_of(images=rl.Images(1, 64, 64))
