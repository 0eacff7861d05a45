"""dump_model_info's conventions, rule by rule: DeepSeek-V3's and a small model's ops by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import roofline as rl
from roofline.doors.compat.chips import H200
from roofline.doors.compat.model_info.account import account, accounted
from roofline.doors.compat.model_info.conventions import Convention
from roofline.doors.compat.model_info.outline import outline
from roofline.doors.compat.model_info.rules import EFFICIENT, NAIVE, ReportPhase, Rules
from roofline.model.model import Model, with_modules
from roofline.model.modules import Attention, Module
from roofline.work.analysis import OpCost

V3 = rl.load("deepseek-ai/DeepSeek-V3")
WINDOWS = rl.load("openai/gpt-oss-20b")
LATENT_PROJECTIONS = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
EXPERT = 3 * 7168 * 2048


def costs(model: Model = V3, phase: ReportPhase = "decode", rules: Rules = NAIVE, **given: Any) -> dict[str, OpCost]:
    """The ops of the outline by name, of 2 sequences and 10 tokens; of ops alike the first."""
    work = account(model, phase, rules, **{"batch": 2, "length": 10, **given}).work
    return {cost.name: cost for cost in reversed(work.ops)}


def test_looking_up_counts_an_addition_and_reads_the_whole_table() -> None:
    embedding = costs()["embedding"]
    assert embedding.flops == 2 * 7168
    assert (embedding.moved.weight, embedding.moved.input, embedding.moved.output) == (129280 * 7168, 0, 2 * 7168)


def test_the_head_runs_for_every_position() -> None:
    assert costs(phase="prefill")["head"].flops == 2 * 20 * 7168 * 129280
    assert costs()["head"].flops == 2 * 2 * 7168 * 129280
    moved = costs(phase="prefill")["head"].moved
    assert moved.activations == 20 * (7168 + 129280)


def test_scores_count_the_whole_square_and_the_softmax_1() -> None:
    assert costs(phase="prefill")["attention"].each_flops == 2 * 128 * 10 * 10 * (2 * 192 + 1 + 2 * 128)


def test_a_decoded_token_does_not_see_itself() -> None:
    assert costs()["attention"].each_flops == 2 * 128 * 10 * (2 * 192 + 1 + 2 * 128)


def test_a_window_or_a_chunk_bounds_what_is_seen() -> None:
    """Every other layer of gpt-oss sees 128 tokens; 64 heads of 64."""
    work = account(WINDOWS, "prefill", NAIVE, batch=1, length=200).work
    cores = sorted(c.each_flops for c in work.ops if c.name == "attention")
    assert cores == [64 * 200 * seen * (4 * 64 + 1) for seen in (128, 200)]
    llama4 = rl.load("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    ops = account(llama4, "decode", NAIVE, batch=1, length=9000).work.ops
    seen = {c.each_flops // (40 * (4 * 128 + 1)) for c in ops if c.name == "attention"}
    assert seen == {8192, 9000}


def test_latents_are_multiplied_out_for_new_tokens_alone() -> None:
    for phase, tokens in (("decode", 2), ("prefill", 20)):
        up = costs(phase=phase)["attention_kv_b"]  # type: ignore[arg-type]
        assert up.each_flops == 2 * tokens * 512 * 128 * (128 + 128)
    attention = account(V3, "decode", NAIVE, batch=2, length=10).term("attention")
    assert attention.flops == 61 * (2 * 2 * LATENT_PROJECTIONS + 2 * 128 * 10 * 641)


def test_the_cache_is_written_in_a_prefill_and_read_in_a_decode_that_adds_its_own() -> None:
    prefill, decode = costs(phase="prefill")["cache"].each_moved, costs()["cache"].each_moved
    assert (prefill.cache_read, prefill.cache_write) == (0, 2 * 10 * 576)
    assert (decode.cache_read, decode.cache_write) == (2 * 10 * 576, 2 * 576)
    assert costs()["cache"].flops == costs()["attention"].moved.cache == 0


def test_borrowed_keys_are_read_and_not_written() -> None:
    """2 sequences whose 10 tokens are those of another layer: 2 · 10 · 2 heads · 2 · 64 elements."""

    def borrowing(x: Module) -> Module:
        return replace(x, borrowed=True) if isinstance(x, Attention) else x

    model = with_modules(rl.load("Qwen/Qwen2.5-0.5B"), borrowing)
    decode, prefill = (costs(model, phase)["cache"].each_moved for phase in ("decode", "prefill"))
    assert (decode.cache_read, decode.cache_write) == (2 * 10 * 2 * 2 * 64, 0)
    assert prefill.cache == 0


def test_a_knob_scales_the_width_of_a_token_in_the_cache() -> None:
    (cache,) = (x for x, _ in outline(V3, decoding=True, latent=1.5).modules() if x.name == "cache")
    assert isinstance(cache, Attention)
    assert cache.cache_width == 864


def test_attention_passes_the_stream_5_times_and_7_in_a_decode() -> None:
    assert costs(phase="prefill")["stream"].each_moved.activations == 5 * 20 * 7168
    assert costs()["stream"].each_moved.activations == 7 * 2 * 7168
    attention = account(V3, "prefill", NAIVE, batch=2, length=10).term("attention")
    assert attention.activations == 61 * 5 * 20 * 7168


def test_scores_and_probabilities_move_unless_they_are_flash() -> None:
    flash = replace(NAIVE, flash=True)
    assert costs(phase="prefill")["attention"].each_moved.scratch == 2 * 2 * 128 * 10 * 10
    assert costs(phase="prefill", rules=flash)["attention"].each_moved.scratch == 2 * 128 * 10
    shares = replace(flash, elementwise=0.5, fusion=0.25)
    assert costs(phase="prefill", rules=shares)["attention"].each_moved.scratch == 128 * 10
    assert costs(rules=shares)["stream"].each_moved.activations == 7 * 2 * 7168 / 4


def test_every_product_of_a_feed_forward_reads_and_writes_for_itself() -> None:
    """Of gate and up, side by side in one matrix, each reads the stream."""
    ffn = account(V3, "prefill", NAIVE, batch=2, length=10).term("ffn")
    assert ffn.flops == 3 * 2 * 20 * 3 * 7168 * 18432
    assert ffn.activations == 3 * 20 * 3 * (7168 + 18432)
    experts = account(V3, "prefill", NAIVE, batch=2, length=10).term("experts")
    assert experts.flops == 58 * 2 * 20 * (7168 * 256 + 9 * EXPERT)
    assert experts.activations == 58 * 20 * ((7168 + 256) + 3 * 9 * (7168 + 2048))


def test_shared_experts_move_as_so_many_of_one_experts_size() -> None:
    """DeepSeek-V2-Lite shares two of 1408: 2 · 3 · (2048 + 1408) a token, not 3 · (2048 + 2816)."""
    model = rl.load("deepseek-ai/DeepSeek-V2-Lite")
    experts = account(model, "decode", NAIVE, batch=1, length=10).term("experts")
    assert experts.activations == 26 * ((2048 + 64) + 3 * (6 + 2) * (2048 + 1408))


def test_a_gate_of_shared_experts_is_a_product_of_its_own() -> None:
    """Qwen1.5-MoE: 60 experts of 1408, 4 of them for a token, shared ones of 5632 and their gate to one value."""
    model = rl.load("Qwen/Qwen1.5-MoE-A2.7B")
    experts = account(model, "decode", NAIVE, batch=1, length=10).term("experts")
    assert experts.activations == 24 * ((2048 + 60) + 3 * (4 + 4) * (2048 + 1408) + (2048 + 1))


def test_what_is_not_seen_has_no_place() -> None:
    names = {x.name for x, _ in outline(V3, decoding=True).modules()}
    assert not [n for n in names if "rope" in n or "residual" in n or "act" in n]
    assert {n for n in names if n.endswith("norm")} == {"q_a_norm", "kv_a_norm"}
    counted = {c.kind for c in account(V3, "decode", NAIVE, batch=1, length=1).work.ops if c.flops}
    assert counted == {"matmul", "attention", "experts"}


def test_weights_are_divided_by_the_residency_of_their_part() -> None:
    """Attention's with its inner norms by 2, dense ones, table and head by 4, experts and routers by 8."""
    rules = replace(NAIVE, residency=(2.0, 4.0, 8.0), poisson=False)
    terms = {t.category: t.weights for t in account(V3, "prefill", rules, batch=1, length=1).terms}
    table = 129280 * 7168
    assert terms == {
        "embedding": table / 4, "attention": 61 * (LATENT_PROJECTIONS + 1536 + 512) / 2,
        "ffn": 3 * 3 * 7168 * 18432 / 4, "experts": 58 * (7168 * 256 + 9 * EXPERT) / 8, "head": table / 4,
    }  # fmt: skip


def test_a_knob_multiplies_attention() -> None:
    """Its FLOPs and weights, which stand for those of a wider one, and nothing else."""
    seen = outline(V3, decoding=True)
    once, twice = (accounted(seen, "decode", rl.decode(2, 10), Convention(NAIVE, 1, a), H200) for a in (1.0, 2.0))
    one, other = once.term("attention"), twice.term("attention")
    assert other == replace(one, flops=2 * one.flops, realizable=2 * one.realizable, weights=2 * one.weights)
    assert [t for t in twice.terms if t != other] == [t for t in once.terms if t != one]


def test_experts_are_drawn_by_poisson_or_exactly() -> None:
    """4 of 256 experts on each of 64 ranks, 2 tokens of 8 choices on each."""
    poisson = costs(ep=64)["experts_down_proj"].each_moved.weight
    assert poisson == pytest.approx(4 * (1 - math.exp(-2 * 8 / 4)) * 2048 * 7168, rel=1e-14)
    exact = costs(ep=64, rules=replace(NAIVE, poisson=False))["experts_down_proj"].each_moved.weight
    assert exact == pytest.approx(4 * (1 - (1 - 8 / 256) ** 128) * 2048 * 7168, rel=1e-12)
    uneven = costs(ep=3)["experts_down_proj"].each_moved.weight  # ⌈256 / 3⌉ = 86
    assert uneven == pytest.approx(86 * (1 - math.exp(-2 * 8 / 86)) * 2048 * 7168, rel=1e-14)


def test_rows_fill_a_matrix_unit() -> None:
    """32 tokens of 64 rows: half busy. 0.95 of attention are products, the rest runs at 0.35 of the peak."""
    term = account(V3, "decode", NAIVE, batch=32, length=10).term("attention")
    assert term.realizable == pytest.approx(term.flops * (0.95 / 0.5 + 0.05 / 0.35), rel=1e-14)
    full = account(V3, "decode", NAIVE, batch=128, length=10).term("attention")
    assert full.realizable == pytest.approx(full.flops * (0.95 + 0.05 / 0.35), rel=1e-14)
    peak = account(V3, "decode", NAIVE.at_peak(), batch=32, length=10)
    assert peak.realizable == peak.flops


def test_rows_of_experts_are_a_mean_of_routed_and_shared_ones() -> None:
    """64 tokens: 512 rows on 256·(1 − e^−2) = 221.4 experts, 2.313 each, 64 on the shared: (8·2.313 + 64) / 9 ≈ 9."""
    term = account(V3, "decode", NAIVE, batch=64, length=10).term("experts")
    assert term.realizable == pytest.approx(term.flops * (0.98 / (9 / 64) + 0.02 / 0.35), rel=1e-14)


def test_training_is_a_prefill_so_many_times() -> None:
    rules = replace(EFFICIENT, training_flops=5, training_bytes=7)
    training, prefill = (account(V3, phase, rules, batch=2, length=10) for phase in ("training", "prefill"))
    assert [t.flops for t in training.terms] == [5 * t.flops for t in prefill.terms]
    assert [t.bytes for t in training.terms] == pytest.approx([7 * t.bytes for t in prefill.terms], rel=1e-15)
    assert training.dispatch_bytes == prefill.dispatch_bytes


def test_tokens_go_to_their_experts_and_back_in_every_layer() -> None:
    one = account(V3, "decode", NAIVE, batch=2, length=10, ep=64)
    assert one.dispatch_bytes == 58 * 2 * 2 * 7168 * 8
    assert one.network_bytes == 58 * 2 * 2 * 7168 * 8 * 63 / 64
    assert account(V3, "decode", replace(NAIVE, network=False), batch=2, length=10, ep=64).network_bytes == 0


def test_every_role_has_the_rules_width() -> None:
    rules = replace(NAIVE, weight_bytes=0.5, activation_bytes=2.0, cache_bytes=1.5)
    c = costs(rules=rules)
    assert c["head"].moved.weight == 129280 * 7168 // 2
    assert c["stream"].each_moved.activations == 2 * 7 * 2 * 7168
    assert c["cache"].each_moved.cache == 11 * 2 * 576 * 3 // 2
