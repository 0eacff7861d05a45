"""Memory: terms, engine rules, and the numbers at the edge."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import roofline as rl
from alike import EQUAL
from folded import folded
from roofline.doors.cli.main import main
from roofline.engines.engine import Engine, engine_named, engines
from roofline.hardware.chip import chips
from roofline.inference.fit import fit
from roofline.inference.memory.memory import activation_bytes, cache_bytes
from roofline.serving.simulate.policy import NoRoomError
from roofline.views.text.inference.fit import fit_text
from roofline.views.text.serving.serve import serving_text

LLAMA = rl.load("meta-llama/Llama-3.1-8B")


def test_terms() -> None:
    f = fit(LLAMA, on="h100-sxm", batch=4, context=1000)
    assert f.memory.weights == LLAMA.weight_bytes()
    assert f.memory.cache == 4 * 1008 * 131_072  # whole blocks of 16 tokens
    assert f.memory.total == f.memory.weights + f.memory.cache + f.memory.activations + f.memory.overhead
    assert f.fits


@folded("engine", [e for e in engines() if e != "none"])
def test_the_largest_batch_fits_and_one_more_does_not(engine: str) -> None:
    """The budget is that of the batch itself: every sequence's logits are activations."""
    f = fit(LLAMA, on="h100-sxm", batch=1, context=4096, engine=engine)
    full, over = (fit(LLAMA, on="h100-sxm", batch=f.largest_batch + n, context=4096, engine=engine) for n in (0, 1))
    assert (full.fits, over.fits) == (True, False)
    assert full.memory.cache <= full.memory.budget
    assert over.memory.cache == cache_bytes(LLAMA, LLAMA.precision, f.engine, f.largest_batch + 1, 4096)
    assert over.memory.cache > over.memory.budget


def test_the_longest_context_fits_and_one_block_more_does_not() -> None:
    f = fit(LLAMA, on="a100", batch=32, context=1000)
    assert float(cache_bytes(LLAMA, LLAMA.precision, f.engine, 32, f.longest_context)) <= f.memory.budget
    assert float(cache_bytes(LLAMA, LLAMA.precision, f.engine, 32, f.longest_context + 16)) > f.memory.budget


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3.2-Exp"])
def test_activations_are_those_of_exactly_so_many_tokens(name: str) -> None:
    """More sequences of a chunk of 8,192 tokens need no less: their logits, and what 8,192 tokens need."""
    model = rl.load(name)
    needed = [activation_bytes(model, model.precision, 8192, n) for n in range(4090, 4104)]
    assert all(b - a >= 4 * model.vocab for a, b in pairwise(needed))


def test_budget_rules_differ_by_engine() -> None:
    capacity, weights, activations = 80e9, 16e9, 1e9
    rule = {e.id: e.cache_budget(capacity, weights, activations, 1.5e9) for e in engines().values()}
    assert rule["vllm"] == 0.9 * 80e9 - 16e9 - 1e9 - 1.5e9
    assert rule["trtllm"] == 0.9 * (80e9 - 16e9 - 1e9 - 1.5e9)
    assert rule["sglang"] == pytest.approx(0.88 * 80e9 - 16e9)
    assert Engine("x", "x").cache_budget(capacity, weights, activations, 0) == 63e9


def test_overhead_by_chips_and_graphs() -> None:
    engine = Engine("x", "x", overhead_bytes=1e9, shared_bytes=2e9, graph_bytes=4e9)
    assert (engine.overhead(1), engine.overhead(2), engine.overhead(8)) == (5e9, 7e9, 7e9)
    assert replace(engine, eager=True).overhead(2) == 3e9
    assert engine_named("vllm(graphs=0B,reserve=1GB)").overhead(1) == 1e9


def test_profiled_activations_by_hand() -> None:
    """Llama-3.1-8B under vLLM: a stream of the step's tokens, and 14 bytes for each logit of those that run at once.

    8,192 tokens and 1,024 of 128,256 logits on an H100, 2,048 and 256 on an L4; whatever is asked. Eight sequences
    sampled take less than gate and up in, the activation out, and the stream twice.
    """
    for chip, tokens, sampled in (("h100-sxm", 8192, 1024), ("l4", 2048, 256)):
        for batch, context in ((1, 100), (7, 5000)):
            m = fit(LLAMA, on=chip, batch=batch, context=context).memory
            assert m.activations == 2 * 4096 * tokens + 14 * 128256 * sampled
    few = fit(LLAMA, on="l4", engine="vllm(max_num_seqs=8)").memory
    assert few.activations == 2 * 2048 * (3 * 14336 + 2 * 4096)
    before = fit(LLAMA, on="h100-sxm", engine="vllm(sampled=38.4B)").memory
    assert before.activations == pytest.approx(4.76 * 2**30, rel=0.002)  # as vLLM of 2025 logs it


def test_one_capacity_of_fit_serve_and_generate() -> None:
    """8B on an L4, 1,024 + 256: what is left of 0.9 of what CUDA shows, in sequences of 80 blocks of 2 MiB."""
    left = 0.9 * (23034 * 2**20 - 644245094) - LLAMA.weight_bytes() - 2 * 4096 * 2048 - 14 * 128256 * 256
    left -= 139586437 + 2**29
    assert fit(LLAMA, on="l4", context=1280).largest_batch == left // (80 * 2**21) == 23
    for batch in (1, 23, 32):
        f = fit(LLAMA, on="l4", batch=batch, context=1280)
        assert (f.largest_batch, f.fits) == (23, batch <= 23)
    assert rl.serve(LLAMA, on="l4", input=1024, output=256, concurrency=1).capacity == 23
    assert rl.generate(LLAMA, on="l4", input=1024, output=256, batch=47).waves == 3


FIGURES = "peak=165T,bw=1T,mem=24G"


def test_without_an_engine_memory_bounds_what_runs() -> None:
    """8B on 24 GB given as figures, 4,096 + 1,024: what weights, activations and the driver's context leave, in
    sequences of 131,072 bytes a token; and half of the answers' tokens for those that run at once."""
    left = 24e9 - LLAMA.weight_bytes() - 8192 * 2 * (14336 + 28672 + 2 * 4096) - 0.6e9
    held, begun = int(left // (5120 * 131072)), int(left // (4608 * 131072))
    assert (held, begun) == (9, 10)
    assert fit(LLAMA, on=FIGURES, context=5120, engine="none").largest_batch == held
    s = rl.serve(LLAMA, on=FIGURES, engine="none", input=4096, output=1024, concurrency=500, **EQUAL)
    assert (s.capacity, s.places, s.fits) == (held, begun, True)
    assert "500 in flight; memory holds 10, 9 to their last token; 490 wait" in serving_text(s)
    seen = rl.simulate(
        LLAMA, on=FIGURES, engine="none", input=4096, output_tokens=1024, concurrency=20, requests=300, **EQUAL
    )
    assert s.tpot.expected == pytest.approx(seen.tpot.mean, rel=0.05)
    assert s.requests_per_second == pytest.approx(seen.requests_per_second, rel=0.02)
    g = rl.generate(LLAMA, on=FIGURES, engine="none", input=4096, output=1024, batch=100)
    assert (g.first_wave, g.waves, g.fits) == (held, 12, True)
    apart = {"chips": 2, "prefill_layout": "tp=1", "decode_layout": "tp=1"}
    p = rl.pools(LLAMA, on="8xl4", engine="none", input=4096, output=1024, concurrency=500, **apart, **EQUAL)
    left += chips()["l4"].capacity - 24e9
    assert (p.running, p.prompts, p.fits) == (left // (4608 * 131072), 2, True)


def test_without_an_engine_what_does_not_fit_is_said() -> None:
    """70B in bf16 on 24 GB: no place at all, in every estimate, and no simulation."""
    big = rl.load("meta-llama/Llama-3.1-70B")
    s = rl.serve(big, on=FIGURES, engine="none", input=1000, output=100, concurrency=4)
    assert (s.capacity, s.fits) == (0, False)
    assert "4 in flight; memory holds 0" in serving_text(s)
    assert not rl.generate(big, on=FIGURES, engine="none", input=1000, output=100, batch=4).fits
    with pytest.raises(NoRoomError, match="memory for a request of 1100 tokens"):
        rl.simulate(big, on=FIGURES, engine="none", input=1000, output=100, concurrency=4)


def test_no_more_run_at_once_than_the_scheduler_takes() -> None:
    small = rl.load("meta-llama/Llama-3.2-1B")
    f = fit(small, on="b200", context=1280)
    assert (f.largest_batch, f.most_running, f.bound_by_scheduler) == (1024, 1024, True)
    assert "runs at most 1,024 at once" in fit_text(f)
    server = rl.serve(small, on="b200", input=1024, output=256, concurrency=np.array([1, 2000]))
    assert server.capacity == 1024
    one = rl.serve(small, on="b200", input=1024, output=256, concurrency=8)
    assert "8 in flight of 1024 that vLLM runs at once" in serving_text(one)
    held = rl.serve(LLAMA, on="l4", input=1024, output=256, concurrency=40, **EQUAL)
    assert "40 in flight; memory holds 26, 23 to their last token; 14 wait" in serving_text(held)
    more = fit(small, on="2xb200", layout="dp=2", context=1280, engine="vllm(max_num_seqs=3000)")
    assert more.largest_batch == 6000
    alone = fit(small, on="b200", context=1280, engine="none")
    assert (alone.most_running, alone.bound_by_scheduler) == (None, False)


def test_what_vllm_logs_in_text_and_json() -> None:
    """Qwen3-8B on an A100 of 40 GB: 147,456 bytes a token in blocks of 16 (vLLM 0.9.2 logged 136,080 and 3.32)."""
    model = rl.load("Qwen/Qwen3-8B")
    f = fit(model, on="a100-sxm-40gb", context=40960, engine="vllm(graphs=0B,sampled=38.4B)")
    blocks = f.memory.budget // (16 * 36 * 2 * 8 * 128 * 2)
    assert (f.gpu_kv_cache_size, f.maximum_concurrency) == (16 * blocks, blocks / 2560)
    assert abs(f.gpu_kv_cache_size / 136080 - 1) < 0.03
    assert f"GPU KV cache size: {f.gpu_kv_cache_size:,} tokens" in fit_text(f)
    assert f"Maximum concurrency for 40,960 tokens per request: {blocks / 2560:.2f}x" in fit_text(f)
    data = f.to_dict()
    assert (data["gpu_kv_cache_size"], data["maximum_concurrency"]) == (16 * blocks, blocks / 2560)
    assert fit(model, on="a100-sxm-40gb", engine="sglang").to_dict()["gpu_kv_cache_size"] is None


def test_what_does_not_fit_says_what_would() -> None:
    f = fit(rl.load("meta-llama/Llama-3.1-70B"), on="h100-sxm", batch=1, context=8192)
    assert not f.fits
    assert f.fewest_chips == 2
    assert any(c.detail == "weights=int4" for c in f.changes)
    assert any(c.detail == "2 chips" for c in f.changes)


def test_kv_heads_replicate_beyond_their_number_and_a_latent_cache_is_never_divided() -> None:
    def share(model: rl.Model, tp: int) -> float:
        return float(rl.shard(model, rl.Layout(tp=tp)).kv_bytes(1)) / float(model.kv_bytes(1))

    assert share(LLAMA, 4) == 1 / 4
    assert share(LLAMA, 16) == 1 / 8
    assert share(rl.load("deepseek-ai/DeepSeek-V3"), 8) == 1.0


def test_quantised_weights_count_their_scales() -> None:
    f = fit(LLAMA, on="h100-sxm", precision="weights=int4", context=1000)
    inner = sum(n * m.matrix for m, n in LLAMA.modules() if getattr(m, "part", "") in ("attention", "ffn"))
    assert f.memory.weights == pytest.approx(inner * (4 + 20 / 128) / 8 + 2 * (LLAMA.parameters - inner), rel=1e-6)


def test_llama_cpp_reserves_the_logits_of_every_token_of_a_ubatch() -> None:
    """4·ubatch·(V + d) on a GPU: logs say "compute buffer size = 258.50 MiB" of Llama-3-8B, 70.50 of Llama-2-7B."""
    for name, mebibytes in (("meta-llama/Llama-3.1-8B", 258.5), ("meta-llama/Llama-2-7b-hf", 70.5)):
        fit = rl.fit(name, on="rtx-4090", engine="llama.cpp", context=4096)
        assert fit.memory.activations == mebibytes * 2**20
    half = rl.fit("meta-llama/Llama-3.1-8B", on="rtx-4090", engine="llama.cpp(n_ubatch=256)", context=4096)
    assert half.memory.activations == 4 * 256 * (128_256 + 4096)
    short = rl.fit("meta-llama/Llama-3.1-8B", on="rtx-4090", engine="llama.cpp", context=100)
    assert short.memory.activations == 4 * 100 * (128_256 + 4096)


def test_llama_cpp_on_a_cpu_has_the_embeddings_in_its_buffer_and_no_context_of_a_driver() -> None:
    memory = rl.fit("meta-llama/Llama-3.1-8B", on="ryzen-9-7950x", engine="llama.cpp", context=4096).memory
    assert memory.activations == 4 * 512 * (128_256 + 2 * 4096)
    assert memory.overhead == 0


def test_llama_cpp_without_flash_attention_keeps_scores() -> None:
    """Logs of 2024: "CUDA0 compute buffer size = 296.00 MiB" of Llama-2-7B at 4,096 tokens, 560 of Llama-3-8B at 8,192;
    "CPU compute buffer size = 157.01 MiB" of 2048 wide layers with 16 heads and 2 of keys, at 4,096 (0.3.36)."""
    for name, context, mebibytes in (("Llama-2-7b-hf", 4096, 296), ("Meta-Llama-3-8B", 8192, 560)):
        fit = rl.fit(f"meta-llama/{name}", on="rtx-4090", engine="llama.cpp(flash_attn=off)", context=context)
        assert fit.memory.activations == mebibytes * 2**20
    small = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16,
             "num_key_value_heads": 2, "intermediate_size": 3072, "vocab_size": 8000}  # fmt: skip
    fit = rl.fit(small, on="ryzen-9-7950x", engine="llama.cpp(flash_attn=off)", context=4096, batch=1)
    assert fit.memory.activations == 157 * 2**20


def test_llama_cpp_without_flash_attention_moves_scores_twelve_times() -> None:
    """24 bytes a score, at most at the card's bandwidth: of 32 heads a step of 512 after 7,680 tokens has 512 · 8,192
    in each of 32 layers. Tokens of an answer have the same kernels."""
    for step, scores in ((rl.prefill(1, 512, cached=7680), 32 * 32 * 512 * 8192), (rl.decode(1, 8000), 0)):
        on, off = (
            rl.estimate("meta-llama/Meta-Llama-3-8B", step, on="rtx-3090", engine=f"llama.cpp(flash_attn={way})")
            for way in ("on", "off")
        )
        attention = sum(op.span.expected for op in off.ops if op.kind == "attention")
        assert attention > 24 * scores / 936e9
        assert scores or off.time == on.time


def test_llama_cpp_keeps_whole_blocks_of_256_and_a_window_with_a_step_beside_it() -> None:
    """Its logs: 1,100 tokens are 1,280 cells; of gpt-oss-20b at 4,096 tokens 12 layers have 768 cells, 18 MiB
    (ggml-org/llama.cpp pull 17609); 12 more have 4,096, 96 MiB."""
    cache = rl.fit("openai/gpt-oss-20b", on="m4-max", engine="llama.cpp", context=4096).memory.cache
    assert cache == (18 + 96) * 2**20
    for kind, bits in (("fp16", 16), ("q8_0", 8.5), ("q4_0", 4.5)):
        asked = {"on": "rtx-4090", "engine": "llama.cpp", "precision": f"kv={kind}"}
        assert rl.fit("meta-llama/Llama-3.1-8B", context=1100, **asked).memory.cache == 1280 * 65_536 * bits / 8
    short = rl.fit("openai/gpt-oss-20b", on="m4-max", engine="llama.cpp", context=300).memory.cache
    assert short == 24 * 512 * 2 * 512 * 2


def test_the_compute_buffer_of_gpt_oss_is_near_what_metal_logs() -> None:
    """404.00 MiB (ggml-org/llama.cpp pull 17609), to 3 %."""
    active = rl.fit("openai/gpt-oss-20b", on="m4-max", engine="llama.cpp", context=4096).memory.activations
    assert active == pytest.approx(404 * 2**20, rel=0.03)


# -- without a context ---------------------------------------------------------------------------------------------
def test_without_a_context_the_longest_that_fits_is_asked_about() -> None:
    """Llama 3.1 8B on an RTX 4090: what vLLM leaves the cache, over 131,072 bytes a token, in blocks of 16 tokens."""
    f = rl.fit(LLAMA, on="rtx-4090")
    assert f.memory.budget is not None
    assert (f.fits, f.context_chosen, f.context) == (True, True, f.memory.budget // (16 * 131072) * 16)
    assert f.context == f.longest_context == rl.fit(LLAMA, on="rtx-4090", context=8192).longest_context == 41184
    assert not rl.fit(LLAMA, on="rtx-4090", context=f.context + 1).fits
    whole = f.whole_context
    assert whole is not None
    assert (whole.context, whole.fits, whole.changes) == (
        131072, False, rl.fit(LLAMA, on="rtx-4090", context=131072).changes,
    )  # fmt: skip


def test_the_models_whole_context_is_chosen_where_it_fits() -> None:
    f = rl.fit(LLAMA, on="h100-sxm")
    assert (f.context, f.fits, f.whole_context) == (131072, True, None)
    assert f.memory == rl.fit(LLAMA, on="h100-sxm", context=131072).memory


@pytest.mark.parametrize(("model", "batch"), [("meta-llama/Llama-3.1-70B", 1), (LLAMA, 400)])
def test_less_than_a_useful_context_does_not_fit(model: str | rl.Model, batch: int) -> None:
    f = rl.fit(model, on="l4", batch=batch)
    assert (f.context, f.fits, f.context_chosen) == (1024, False, True)
    assert f.changes


def test_without_a_context_arrays_have_each_their_own() -> None:
    many = rl.fit(LLAMA, on="rtx-4090", batch=np.array([1, 4, 64]))
    each = [rl.fit(LLAMA, on="rtx-4090", batch=batch) for batch in (1, 4, 64)]
    assert list(many.context) == [f.context for f in each]
    assert list(many.fits) == [f.fits for f in each] == [True, True, False]


def test_fit_says_first_that_the_weights_fit(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fit", LLAMA.name, "--on", "rtx-4090"])
    lines = capsys.readouterr().out.splitlines()
    assert "does not fit" not in "".join(lines)
    assert lines[3].startswith("the weights fit, and 1 × 41184 tokens beside them")
    assert lines[-1].startswith("the model's whole context, 131,072 tokens, needs 34.39 GB: it would fit with ")
    with pytest.raises(SystemExit) as stop:
        main(["fit", LLAMA.name, "--on", "rtx-4090", "--context", "131072"])
    assert stop.value.code == 1
    assert "context 41184" in capsys.readouterr().out


def test_one_rule_at_every_door() -> None:
    from roofline.doors.web.allow_list import NOTHING_MORE
    from roofline.doors.web.answers import fit_answer
    from roofline.doors.web.request_models import FitAsked

    asked = FitAsked.model_validate({"model": LLAMA.name, "on": "rtx-4090"})
    assert fit_answer(asked, NOTHING_MORE).to_dict() == rl.fit(LLAMA, on="rtx-4090").to_dict()
