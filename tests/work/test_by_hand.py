"""Figures worked out with pencil and paper from the published sizes, with the derivation beside each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import roofline as rl
from folded import folded
from roofline.model import modules as m

PRODUCTS = ("matmul", "experts", "attention")

KV_OF_ONE_TOKEN = {  # layers × (keys + values) × KV heads × head size × bytes; MLA: layers × (rank + rope) × bytes
    "meta-llama/Llama-3.1-8B": 131_072,  # 32 × 2 × 8 × 128 × 2
    "meta-llama/Llama-3.1-70B": 327_680,  # 80 × 2 × 8 × 128 × 2
    "meta-llama/Llama-3.1-405B": 516_096,  # 126 × 2 × 8 × 128 × 2
    "meta-llama/Llama-2-7b-hf": 524_288,  # 32 × 2 × 32 × 128 × 2
    "mistralai/Mixtral-8x7B-v0.1": 131_072,  # 32 × 2 × 8 × 128 × 2
    "Qwen/Qwen2.5-7B": 57_344,  # 28 × 2 × 4 × 128 × 2
    "Qwen/Qwen3-235B-A22B": 192_512,  # 94 × 2 × 4 × 128 × 2
    "tiiuae/falcon-7b": 8_192,  # 32 × 2 × 1 × 64 × 2
    "tiiuae/falcon-40b": 122_880,  # 60 × 2 × 8 × 64 × 2
    "zai-org/GLM-4.5": 376_832,  # 92 × 2 × 8 × 128 × 2
    "openai/gpt-oss-120b": 73_728,  # 36 × 2 × 8 × 64 × 2
    "google/gemma-3-27b-it": 507_904,  # 62 × 2 × 16 × 128 × 2
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 24_576,  # 12 of 48 layers × 2 × 2 × 256 × 2
    "ai21labs/Jamba-v0.1": 16_384,  # 4 of 32 layers × 2 × 8 × 128 × 2
    "ibm-granite/granite-4.0-h-small": 16_384,  # 4 of 40 layers × 2 × 8 × 128 × 2
    "deepseek-ai/DeepSeek-V2": 69_120,  # 60 × (512 + 64) × 2
    "deepseek-ai/DeepSeek-V3": 70_272,  # 61 × (512 + 64) × 2
    "moonshotai/Kimi-K2-Instruct": 70_272,  # 61 × (512 + 64) × 2
    "deepseek-ai/DeepSeek-V3.2": 85_888,  # 61 × (512 + 64 + 128 of the indexer) × 2
    "tiiuae/falcon-mamba-7b": 0,  # no attention
}
KV_OF_MANY_TOKENS = {
    # 10 full layers × 8192 B × 8192 tokens + 52 sliding ones × 8192 B × 1024
    ("google/gemma-3-27b-it", 8192): 1_107_296_256,
    # while the window is not full, all 62 layers keep everything: 507 904 × 1024
    ("google/gemma-3-27b-it", 1024): 520_093_696,
    # 32 layers × 4096 B × 4096 tokens of the window
    ("mistralai/Mistral-7B-v0.1", 32768): 536_870_912,
    # 18 full layers × 2048 B × 131 072 + 18 sliding ones × 2048 B × 128
    ("openai/gpt-oss-120b", 131072): 4_836_556_800,
    # 12 full layers × 4096 B × 131 072 + 36 chunked ones × 4096 B × 8192
    ("meta-llama/Llama-4-Scout-17B-16E", 131072): 7_650_410_496,
    # 16 full layers × 4096 B × 8192 + 48 sliding ones × 4096 B × 4096
    ("LGAI-EXAONE/EXAONE-4.0-32B", 8192): 1_342_177_280,
}
STATE = {
    "state-spaces/mamba-2.8b-hf": 12_451_840,  # 64 layers × 5120 channels × (16 states + 3 inputs) × 2 B, in bf16
    "tiiuae/falcon-mamba-7b": 19_922_944,  # 64 × 8192 × (16 + 3) × 2
    "ai21labs/Jamba-v0.1": 8_716_288,  # 28 × 8192 × (16 + 3) × 2
    # 36 × (128 heads × 64 × 128 + (8192 + 2 × 128) channels × 3) × 2
    "ibm-granite/granite-4.0-h-small": 77_322_240,
    # 36 × (32 heads × 128 × 128 × 4 + (2 × 16 × 128 + 32 × 128) channels × 3 × 2): the sums of a delta rule are in fp32
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 77_266_944,
    "LiquidAI/LFM2-1.2B": 81_920,  # 10 × 2048 channels × 2 inputs × 2
    "meta-llama/Llama-3.1-8B": 0,
}
ACTIVE = {  # parameters − layers × (experts − top_k) × 3 × hidden × inner (× + biases for gpt-oss)
    # 671 026 404 352 − 58 × 248 × 3 × 7168 × 2048 (the 58 × 256 score biases of the routers are buffers, no parameters)
    "deepseek-ai/DeepSeek-V3": (671_026_404_352, 37_552_282_624),
    # 46 702 792 704 − 32 × 6 × 3 × 4096 × 14336
    "mistralai/Mixtral-8x7B-v0.1": (46_702_792_704, 12_879_925_248),
    # 30 532 122 624 − 48 × 120 × 3 × 2048 × 768
    "Qwen/Qwen3-30B-A3B": (30_532_122_624, 3_353_032_704),
    # 1 026 408 209 408 − 60 × 376 × 3 × 7168 × 2048
    "moonshotai/Kimi-K2-Instruct": (1_026_408_209_408, 32_861_477_888),
    # 116 829 156 672 − 36 × 124 × (3 × 2880 × 2880 + 3 × 2880)
    "openai/gpt-oss-120b": (116_829_156_672, 5_711_982_912),
}
WEIGHT_BYTES = {
    # 8 030 261 248 × 2
    "meta-llama/Llama-3.1-8B": 16_060_522_496,
    # 32 layers of 2 × 4096² + 2 × 4096 × 1024 + 3 × 4096 × 14336 = 6 979 321 856 values of 4 + 20/128 bits, and
    # 2 × 128256 × 4096 + 65 × 4096 = 1 050 939 392 of 2 B
    "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4": 5_727_854_592,
    # experts 36 × 128 × 3 × 2880² = 114 661 785 600 values of 4 + 8/32 bits, 2 167 371 072 others of 2 B
    "openai/gpt-oss-120b": 65_248_815_744,
    # experts 24 × 32 × 3 × 2880² = 19 110 297 600 values of 4 + 8/32 bits, 1 804 459 584 others of 2 B
    "openai/gpt-oss-20b": 13_761_264_768,
}


def flops(analysis: rl.Analysis, *kinds: str) -> int:
    return sum(int(row.flops) for row in analysis.ops if row.kind in kinds)


def attention(name: str, step: rl.Step, chosen: Callable[[str], bool] = lambda block: True) -> tuple[int, int]:
    """FLOPs of attention in one layer, and bytes that it reads from the cache."""
    rows = rl.analyze(rl.load(name), step, precision="bf16").ops
    (row,) = (r for r in rows if r.kind == "attention" and chosen(r.block))
    return int(row.each_flops), int(row.each_moved.cache_read)


@folded("name", KV_OF_ONE_TOKEN)
def test_cache_of_one_token(name: str) -> None:
    assert rl.load(name).kv_bytes(1) == KV_OF_ONE_TOKEN[name]


@folded(("name", "tokens"), KV_OF_MANY_TOKENS)
def test_cache_of_windows_and_chunks(name: str, tokens: int) -> None:
    assert rl.load(name).kv_bytes(tokens) == KV_OF_MANY_TOKENS[name, tokens]


@folded("name", STATE)
def test_recurrent_state(name: str) -> None:
    assert rl.load(name).state_bytes() == STATE[name]


@pytest.mark.parametrize("name", ACTIVE)
def test_parameters_and_those_one_token_meets(name: str) -> None:
    model = rl.load(name)
    assert (model.parameters, model.active_parameters) == ACTIVE[name]


@pytest.mark.parametrize("name", WEIGHT_BYTES)
def test_stored_weights(name: str) -> None:
    assert rl.load(name).weight_bytes() == WEIGHT_BYTES[name]


def test_bitnet_stores_two_bits() -> None:
    """30 layers of 2·2560² + 2·2560·640 + 3·2560·6912 = 2 084 044 800 values of 2 bits; 328 775 680 others of 2 B."""
    assert rl.load("microsoft/bitnet-b1.58-2B-4T").weight_bytes() == 2_084_044_800 // 4 + 328_775_680 * 2


def test_forward_and_backward_of_llama_3_8b() -> None:
    """6·(N − embedding − norms) + 3·attention = 51.47 GFLOP a token at 8192, what Megatron-Bridge reports (51.5).

    N − embedding − norms = 32·218 103 808 + 128256·4096 = 7 504 658 432 weights in products.
    Attention: 4·heads·head_dim a pair, 8192·8193/2 pairs, 32 layers.
    """
    weights = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128256 * 4096
    assert weights == 7_504_658_432
    forward = flops(rl.analyze(rl.load("meta-llama/Meta-Llama-3-8B"), rl.prefill(1, 8192, logits="all")), *PRODUCTS)
    assert forward == 2 * weights * 8192 + 32 * 4 * 32 * 128 * (8192 * 8193 // 2)
    assert 3 * forward / 8192 == pytest.approx(51.5e9, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "tokens", "published", "close"),
    [
        ("meta-llama/Meta-Llama-3-70B", 8192, 449, 2e-3),
        ("meta-llama/Llama-3.1-405B", 8192, 2524, 1e-3),
        ("Qwen/Qwen3-235B-A22B", 4096, 148, 4e-3),
        ("deepseek-ai/DeepSeek-V3", 4096, 249.7, 1e-3),
    ],
)
def test_training_work_that_megatron_bridge_reports(name: str, tokens: int, published: float, close: float) -> None:
    """GFLOP a token, three forwards. Megatron leaves out the routers: 2·7168·256·58 FLOP a token in DeepSeek-V3."""
    analysis = rl.analyze(rl.load(name), rl.prefill(1, tokens, logits="all"))
    routers = sum(int(row.flops) for row in analysis.ops if row.name == "router")
    assert 3 * (flops(analysis, *PRODUCTS) - routers) / tokens / 1e9 == pytest.approx(published, rel=close)


def test_training_work_of_gpt_oss_without_the_slips_of_the_published_figure() -> None:
    """Megatron-Bridge says 27.2 GFLOP a token at 4096: ungated experts, and full attention in every layer.

    In it: 6·(36·(26 542 080 + 4·2·2880² + 2880·128) + 201088·2880), and 3·36 layers·4·64·64·2048.5 of attention.
    Really each expert has three matrices, and every second layer sees 128 tokens: 32.7 GFLOP.
    """
    inside = 2880 * 5120 + 4096 * 2880  # q, k, v and o
    slipped = 6 * (36 * (inside + 4 * 2 * 2880**2) + 201088 * 2880) + 3 * 36 * 4 * 64 * 64 * 2048.5
    assert slipped == pytest.approx(27.2e9, rel=5e-3)
    # pairs of a window: 128·129/2 while it fills, then 128 each
    pairs = 18 * (4096 * 4097 // 2) + 18 * (128 * 129 // 2 + (4096 - 128) * 128)
    weights = 36 * (inside + 4 * 3 * 2880**2 + 2880 * 128) + 201088 * 2880
    biases = 36 * (5120 + 2880 + 128 + 4 * (2 * 2880 + 2880))  # one addition each
    forward = flops(
        rl.analyze(rl.load("openai/gpt-oss-120b"), rl.prefill(1, 4096, logits="all")), "matmul", "experts", "attention"
    )
    assert forward == 4096 * (2 * weights + biases) + 4 * 64 * 64 * pairs
    assert 3 * forward / 4096 == pytest.approx(32.72e9, rel=1e-3)


def test_decode_of_one_token() -> None:
    """Llama-3.1-8B after 1024 tokens: 2·7 504 658 432 in products, 4·4096 a pair · 1025 pairs · 32 layers."""
    analysis = rl.analyze(rl.load("meta-llama/Llama-3.1-8B"), rl.decode(1, 1024))
    assert flops(analysis, "matmul") == 15_009_316_864
    assert flops(analysis, "attention") == 537_395_200
    # weights in products, 65 norms and one embedding row; 1024 cached tokens are read and one is written
    assert analysis.moved.weights == 2 * (7_504_658_432 + 65 * 4096 + 4096)
    assert (analysis.moved.cache_read, analysis.moved.cache_write) == (1024 * 131_072, 131_072)


def test_logits_for_the_last_token_or_for_all() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    last, all_ = (rl.analyze(model, rl.prefill(3, 100, logits=which)).op("lm_head").flops for which in ("last", "all"))
    assert (last, all_) == (2 * 4096 * 128256 * 3, 2 * 4096 * 128256 * 300)


def test_drafts_to_verify() -> None:
    """Five new tokens after 100: 5·100 + (1 + … + 5) = 515 pairs a sequence, and logits for all of them."""
    analysis = rl.analyze(rl.load("meta-llama/Llama-3.1-8B"), rl.decode(2, 100, new=5))
    assert analysis.op("attention").each_flops == 4 * 32 * 128 * 2 * 515
    assert analysis.op("lm_head").flops == 2 * 4096 * 128256 * 10


def test_prompt_after_a_cached_prefix() -> None:
    """24 new tokens after 1000: 24·1000 + 24·25/2 = 24 300 pairs; 1000 tokens of 4096 B are read in each layer."""
    assert attention("meta-llama/Llama-3.1-8B", rl.prefill(1, 24, cached=1000)) == (4 * 32 * 128 * 24_300, 4_096_000)


@folded(
    ("cached", "new", "pairs", "read"),
    [
        (5000, 1, 128, 127),
        (5000, 4, 512, 127),  # the first of them reaches back 127, the others less
        (126, 4, 127 + 3 * 128, 126),
        (0, 130, 128 * 129 // 2 + 2 * 128, 0),
        (127, 1, 128, 127),
        (128, 1, 128, 127),
    ],
)
def test_sliding_window_of_128(cached: int, new: int, pairs: int, read: int) -> None:
    """gpt-oss: 64 heads of 64, 8 KV heads; a token takes 2·8·64·2 = 2048 B of a layer's cache."""
    found = attention("openai/gpt-oss-20b", rl.Step([(cached, new)]), lambda b: b.startswith("sliding"))
    assert found == (4 * 64 * 64 * pairs, 2048 * read)


@pytest.mark.parametrize(
    ("cached", "new", "pairs", "read"),
    [
        (8191, 1, 8192, 8191),  # the last token of the first chunk
        (8192, 1, 1, 0),  # the first of the second sees itself
        (8190, 4, 8191 + 8192 + 1 + 2, 8190),
        (0, 16385, 2 * (8192 * 8193 // 2) + 1, 0),
        (20000, 1, 20001 - 16384, 20000 - 16384),
    ],
)
def test_chunks_of_8192(cached: int, new: int, pairs: int, read: int) -> None:
    """Llama-4-Scout: 40 heads of 128, 8 KV heads; a token takes 2·8·128·2 = 4096 B of a layer's cache."""
    found = attention("meta-llama/Llama-4-Scout-17B-16E", rl.Step([(cached, new)]), lambda b: b.startswith("chunked"))
    assert found == (4 * 40 * 128 * pairs, 4096 * read)


def test_one_more_cached_token_of_absorbed_latent_attention() -> None:
    """DeepSeek-V3: 2·128·(576 + 512) = 278 528 FLOP and (512 + 64)·2 = 1152 B in a layer: 241.8 FLOP/B."""
    model = rl.load("deepseek-ai/DeepSeek-V3")
    here, there = (rl.analyze(model, rl.decode(1, n)).op("attention_absorbed") for n in (10_000, 10_001))
    assert there.each_flops - here.each_flops == 278_528
    assert there.each_moved.cache - here.each_moved.cache == 1_152
    assert there.each_flops / there.each_moved.total == pytest.approx(241.8, rel=0.03)


@pytest.mark.parametrize(("new", "expanded"), [(1, False), (170, False), (171, True), (4096, True)])
def test_latents_are_expanded_from_171_new_tokens_on(new: int, expanded: bool) -> None:
    """(2·512 + 64)·T = (128 + 64 + 128)·T + 512·(128 + 128) at T = 131 072/768 = 170.7, after a long context."""
    analysis = rl.analyze(rl.load("deepseek-ai/DeepSeek-V3"), rl.Step([(10**7, new)]))
    assert ("attention_kv_b" in [row.name for row in analysis.ops]) == expanded


def test_expanded_latent_attention() -> None:
    """DeepSeek-V3, 1000 tokens: kv_b 2·512·32768 FLOP a token; 2·128·(192 + 128) a pair, 500 500 pairs."""
    analysis = rl.analyze(rl.load("deepseek-ai/DeepSeek-V3"), rl.prefill(1, 1000))
    assert analysis.op("attention_kv_b").each_flops == 33_554_432_000
    assert analysis.op("attention").each_flops == 81_920 * 500_500


def test_experts_that_a_batch_touches() -> None:
    """Mixtral: a token misses an expert with 6/8; two miss it with 9/16, so 3.5 of 8 are read; four rows multiply."""
    analysis = rl.analyze(rl.load("mistralai/Mixtral-8x7B-v0.1"), rl.decode(2, 100))
    up, down = analysis.op("experts_gate_up_proj"), analysis.op("experts_down_proj")
    assert up.each_moved.weight == 3.5 * 2 * 4096 * 14336 * 2
    assert down.each_moved.weight == 3.5 * 4096 * 14336 * 2
    assert up.each_flops + down.each_flops == 2 * 3 * 4096 * 14336 * 4


def test_mixed_step_works_as_much_as_its_queries_and_reads_the_weights_once() -> None:
    model = rl.load("meta-llama/Llama-3.1-8B")
    mixed = rl.analyze(model, rl.Step([(0, 512), (4096, 1), (4096, 1), (100, 28)]))
    alone = [rl.analyze(model, rl.Step([q])) for q in [(0, 512), (4096, 1), (4096, 1), (100, 28)]]
    assert mixed.flops == sum(a.flops for a in alone)
    # each alone reads all but the embedding rows again
    again = 3 * 2 * (7_504_658_432 + 65 * 4096)
    assert mixed.bytes == sum(a.bytes for a in alone) - again


def test_activations_of_a_gated_feed_forward() -> None:
    """Fused, a token of Llama-3.1-8B: 2·14336 written and read once between the products, 4096 in and 4096 out."""
    analysis = rl.analyze(rl.load("meta-llama/Llama-3.1-8B"), rl.prefill(1, 1000))
    moved = sum(analysis.op(n).each_moved.activations for n in ("gate_up_proj", "act", "down_proj"))
    assert moved == 1000 * 2 * (4096 + 4 * 14336 + 4096)


def test_state_of_a_scan_is_read_where_there_is_one_and_written_once_a_step() -> None:
    """falcon-mamba: 8192 channels of 16 states; (7·16 + 3) FLOP a channel and token."""
    analysis = rl.analyze(rl.load("tiiuae/falcon-mamba-7b"), rl.Step([(0, 50), (7, 1)]))
    scan = analysis.op("scan")
    assert scan.each_flops == 51 * 8192 * 115
    assert scan.each_moved.cache_read == 8192 * 16 * 2  # a prompt's own state starts at zero
    assert scan.each_moved.cache_write == 2 * 8192 * 16 * 2


@folded(
    ("chip", "fmt", "teraflops", "gigabytes"),
    [
        ("h100-sxm", "bf16", 989.4, 3350), ("h200-sxm", "fp8", 1978.9, 4800), ("b200", "fp4", 9000, 8000),
        ("a100-sxm-80gb", "int8", 624, 2039), ("l4", "bf16", 121, 300), ("l40s", "fp8", 733, 864),
        ("rtx-4090", "bf16", 165.2, 1008), ("mi300x", "bf16", 1307.4, 5300), ("mi355x", "fp8", 5033.2, 8000),
        ("tpu-v5e", "bf16", 197, 819), ("tpu-v6e", "bf16", 918, 1638), ("trainium2", "bf16", 667, 2900),
        ("gaudi-3", "bf16", 1835, 3670), ("h20", "bf16", 148, 4000), ("gb10", "fp4", 500, 273),
    ],
)  # fmt: skip
def test_dense_peak_bandwidth_and_ridge_of_the_datasheet(
    chip: str, fmt: str, teraflops: float, gigabytes: float
) -> None:
    found = rl.chips()[chip]
    assert found.peak(fmt) == pytest.approx(teraflops * 1e12)
    assert found.bandwidth == pytest.approx(gigabytes * 1e9)
    assert found.ridge(fmt) == pytest.approx(1000 * teraflops / gigabytes)


def test_a_compressor_weighs_what_it_sums_up() -> None:
    """Each value of an entry is a sum of `terms` products: 2·terms − 1 FLOPs (DeepSeek-V4, as its own code has it)."""
    model = rl.load("deepseek-ai/DeepSeek-V4-Flash")
    z = next(module for module, _ in model.modules() if isinstance(module, m.Compressor) and module.rate == 4)
    entries = 64 // 4
    op = rl.analyze(model, rl.prefill(1, 64)).op(z.name)
    assert op.each_flops == (2 * z.terms - 1) * z.width * entries
