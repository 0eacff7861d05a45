"""DeepSeek-V4.1 by its model card, the header of its checkpoint and by hand, as mlx-lm and SGLang 0.5.23 run it.

`CONFIG` has the values of deepseek-ai/DeepSeek-V4.1-Flash. Bytes of parts are sums over the headers of its 48 files,
whose `total_size` is 510,286,023,000 (public repositories that serve it list both); the model card states 552 B
parameters besides the n-grams, 8 B active in prefill and 16 B in decode, and 890 bytes of cache a token.
"""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.model.modules import CompressedAttention, Embedding, Indexer
from roofline.views.text.inference.fit import fit_text
from roofline.work.lower import lower
from roofline.work.ops import Attend, Score

TEXT: dict[str, Any] = {
    "model_type": "deepseek_v41_text", "vocab_size": 129280, "hidden_size": 5120, "moe_intermediate_size": 2304,
    "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
    "qk_rope_head_dim": 64, "q_lora_rank": 1280, "o_lora_rank": 1024, "o_groups": 8, "hidden_act": "silu",
    "swiglu_limit": 10.0, "rms_norm_eps": 1e-20, "attention_bias": False, "max_position_embeddings": 1048576,
    "rope_theta": 10000, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 6,
    "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 1.5,
    "sliding_window": 128, "compress_ratios": [0, 0] + [2] * 18 + [1] * 20, "compress_rope_theta": 160000,
    "kv_source_layer_ids": [2, 8, 14, 20], "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512, "candidate_source_layer_id": 20,
    "candidate_topk_blocks": 2048, "candidate_block_size": 8, "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-06,
    "engram_layer_ids": [1, 14], "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4,
    "engram_vocab_size": 16000000, "engram_n_heads": 8, "engram_head_dim": 256, "engram_pad_token_id": 2,
    "engram_compressed_vocab_size": 99092, "num_nextn_predict_layers": 3, "dspark_block_size": 5,
    "dspark_noise_token_id": 128799, "dspark_target_layer_ids": [37, 38, 39], "dspark_markov_rank": 256,
    "dspark_n_routed_experts": 128, "dspark_num_experts_per_tok": 3,
    "rope_scaling": {
        "rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 65536,
    },
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "dtype": "bfloat16",
    "image_token_id": 129264, "text_config": TEXT,
    "quantization_config": {
        "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32], "scale_fmt": "ue8m0",
        "expert_dtype": "fp4",
    },
    "vision_config": {
        "model_type": "deepseek_v41_vision", "num_hidden_layers": 32, "hidden_size": 1024, "num_attention_heads": 16,
        "intermediate_size": 2816, "patch_size": 14, "rope_theta": 10000, "downsample_ratio": 3,
        "max_image_tokens": 1024, "min_pixels": 295936, "max_wh_ratio": None,
    },
}  # fmt: skip
SMALL: dict[str, Any] = {
    **TEXT, "vocab_size": 128, "hidden_size": 64, "moe_intermediate_size": 24, "num_hidden_layers": 6,
    "num_attention_heads": 4, "head_dim": 16, "qk_rope_head_dim": 4, "q_lora_rank": 32, "o_lora_rank": 16,
    "o_groups": 2, "n_routed_experts": 8, "num_experts_per_tok": 2, "sliding_window": 8, "hc_mult": 3,
    "compress_ratios": [0, 2, 2, 1, 1, 1], "kv_source_layer_ids": [1, 3], "index_source_layer_ids": [1, 3, 5],
    "index_n_heads": 2, "index_head_dim": 8, "index_topk": 4, "candidate_source_layer_id": 3,
    "candidate_topk_blocks": 3, "candidate_block_size": 2, "engram_layer_ids": [2], "engram_num_embeddings": [1000],
    "engram_max_ngram_size": 3, "engram_n_heads": 2, "engram_head_dim": 32, "dtype": "bfloat16",
}  # fmt: skip


def bytes_of(model: rl.Model, *names: str) -> float:
    """Weights of the modules of these names outside towers, bytes."""
    return sum(
        n * float(model.precision.weight_bytes(m)) for m, n in model.modules() if m.name in names and not m.stream
    )


def test_bytes_of_every_part_are_those_of_the_files() -> None:
    model = rl.load(CONFIG)
    assert (model.warnings, model.not_counted) == ((), ())
    attention = "q_a_proj q_b_proj kv_proj o_a_proj o_b_proj q_a_norm kv_norm kv_compressor_proj attention".split()
    parts = {
        288.78: bytes_of(model, "experts"), 203.07: bytes_of(model, "ngram_table", "ngram_kv_proj"),
        5.11: bytes_of(model, *attention), 1.42: bytes_of(model, "shared_gate_up_proj", "shared_down_proj"),
        1.32: bytes_of(model, "embedding"),
        0.05: bytes_of(model, "index_q_proj", "index_k_proj", "index_weights_proj"), 0.16: bytes_of(model, "router"),
        0.82: 2 * sum(t.parameters for t in model.towers if t.name == "vision"),
        0.15: 2 * sum(t.parameters for t in model.towers if t.name == "projector"),
    }  # fmt: skip
    assert parts == {published: pytest.approx(published * 1e9, abs=5e6) for published in parts}
    drafts = 7.93e9  # DSpark's three blocks, `mtp.*`
    assert model.weight_bytes() == pytest.approx(510_286_023_000 - drafts, rel=1e-3)


def test_parameters_of_the_card() -> None:
    model = rl.load(CONFIG)
    tables = (384006168 + 384016682) * 256
    assert round((model.parameters - tables) / 1e9) == 552
    assert round((model.active_parameters - tables) / 1e9) == 17  # 16 and the table of words


def test_parameters_by_hand() -> None:
    """Tensor by tensor, with the names of the checkpoint."""
    width, streams = 64, 3
    hyper = 2 * ((2 + streams) * streams * (streams * width + 1) + 3 + width)  # hc_*_fn, base, scale and a norm
    attention = 4 + width * 32 + 32 + 32 * 4 * 16 + width * 16 + 16 + 16 * 2 * (4 * 16 // 2) + 2 * 16 * width
    experts = 8 * width + 8 + 9 * 3 * 24 * width
    makes = {2: 2 * width * 16, 1: width * 16}  # wkv, and wgate where an entry is of several tokens
    source = sum(makes[rate] + 16 + 16 * 8 + 8 for rate in (2, 1))
    index = 3 * (32 * 2 * 8 + width * 2)
    grams = 1000 * 32 + (streams + 1) * width * (2 * 2 * 32) + 2 * streams * width
    ends = 2 * 128 * width + width
    assert rl.load(SMALL).parameters == ends + 6 * (hyper + attention + experts) + source + index + grams


def test_active_in_prefill_and_in_decode() -> None:
    """Products of weights: 8 B a token of a long prompt, of whose last layers the last 128 tokens are computed."""
    model = rl.load(CONFIG)

    def products(step: rl.Step, tokens: int) -> float:
        ops = rl.analyze(model, step).ops
        return sum(o.flops for o in ops if o.name not in ("attention", "indexer", "lm_head")) / tokens / 2e9

    assert products(rl.prefill(1, 65536), 65536) == pytest.approx(8, abs=0.3)
    assert products(rl.prefill(1, 65536, logits="all"), 65536) == pytest.approx(16, abs=0.6)
    assert products(rl.decode(1, 65536), 1) == pytest.approx(16, abs=0.6)


def test_cache_of_a_token() -> None:
    """890 bytes: FP4 entries and keys of an indexer with their scales; and a window of 128 tokens in each layer."""
    fit = rl.fit(CONFIG, on="8xb200", layout="tp=8", precision="kv=fp4", context=1_000_000, batch=1)
    entry, key = 512 // 2 + 512 // 16, 128 // 2 + 128 // 32
    a_token = 3 * (entry + key) / 2 + entry + key
    assert a_token == 890
    assert fit.memory.cache == 1_000_000 * a_token + 40 * 128 * (512 + 512 // 32)


def test_the_tail_of_a_prompt() -> None:
    """Layers from the last that makes entries on see what their queries see at the end of the prompt."""
    model = rl.load(SMALL)
    layers = [block.modules for block in model.layers]
    for i, modules in enumerate(layers):
        [core] = [m for m in modules if isinstance(m, CompressedAttention)]
        [op] = [o for o in lower(core, rl.prefill(1, 100)) if isinstance(o, Attend)]
        rate, queries = core.rate, range(93, 101) if i >= 3 else range(1, 101)
        by_hand = sum(min(p, 8) + (0 if rate is None else min(p // rate, 4)) for p in queries)
        assert op.pairs == by_hand, i


def test_a_second_indexer_scores_what_the_first_chose() -> None:
    model = rl.load(SMALL)
    found = [m for block in model.layers for m in block.modules if isinstance(m, Indexer)]
    assert [m.most for m in found] == [None, None, 6]
    scored = [op.pairs for m in found for op in lower(m, rl.decode(1, 99)) if isinstance(op, Score)]
    assert scored == [50, 100, 6]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"compress_ratios": [0, 2]}, "compress_ratios"),
        ({"kv_source_layer_ids": [6]}, "kv_source_layer_ids"),
        ({"engram_num_embeddings": []}, "engram_num_embeddings"),
        ({"engram_num_embeddings": [0]}, "engram_num_embeddings"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.load({**SMALL, **changed})
    assert error.value.field == field


@pytest.mark.parametrize(
    ("hosted", "kept"), [("vllm", "vllm(ple_cpu_offload=0)"), ("sglang(ple_offload_embedding=1)", "sglang")]
)
def test_tables_of_ngrams_are_where_the_engine_puts_them(hosted: str, kept: str) -> None:
    """vLLM's EngramConfig leaves them in the host's pinned memory; SGLang does where it is told to.

    A prompt's rows cross the host's link: by hand, tables · hashes · bytes of a row · tokens at most.
    """
    model, tokens = rl.load(CONFIG), 8192
    tables = [m for m, _ in model.modules() if isinstance(m, Embedding) and m.lookups > 1]
    stored = sum(m.rows * m.width for m in tables) * 33 / 32  # MXFP8: a scale of a byte for 32
    fits = [rl.fit(model, on="h200-sxm", engine=e, tp=8, batch=1, context=1024) for e in (hosted, kept)]
    left = 8 * (fits[1].memory.weights - fits[0].memory.weights)
    assert left == pytest.approx(stored, rel=1e-6) == pytest.approx(203e9, rel=0.01)
    assert ["memory of the host" in fit_text(fit) for fit in fits] == [True, False]
    times = [rl.estimate(model, rl.prefill(1, tokens), on="h200-sxm", engine=e, tp=8).time for e in (hosted, kept)]
    read = sum(m.lookups * m.width for m in tables) * tokens * 33 / 32
    link = fits[0].chip.host
    assert link is not None
    assert 0 < times[0] - times[1] <= read / link
