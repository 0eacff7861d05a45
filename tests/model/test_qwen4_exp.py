"""Qwen4-Exp by hand: tables of n-grams, query-sparse attention in pools, residual streams; the oracle has the rest.

Parameters of `WHOLE` are those of transformers 5.23's Qwen4ExpForConditionalGeneration, built on the meta device.
"""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.model.families.decoders.recurrent.qwen4_exp import primes_from
from roofline.model.modules import Attention, Conv, Embedding, Indexer
from roofline.work.lower import attended_pairs
from roofline.work.step import Queries

TEXT: dict[str, Any] = {
    "model_type": "qwen4_exp_text", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16, "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40, "num_experts": 8, "num_experts_per_tok": 2, "hc_count": 3, "hc_lowrank": 8,
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 16,
    "indexer_compress_ratio": 4, "ple_layer_ids": [1, 3], "ple_embed_dim": 32, "heads_per_ngram": 4,
    "ngram_vocab_size_base": 100, "make_ngram_vocab_size_divisible_by": 8, "eos_token_id": 0, "dtype": "bfloat16",
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "model_type": "qwen4_exp", "text_config": TEXT, "dtype": "bfloat16",
    "vision_config": {
        "model_type": "qwen4_exp_vision", "depth": 2, "hidden_size": 48, "num_heads": 4, "intermediate_size": 64,
        "out_hidden_size": 64, "patch_size": 4, "deepstack_visual_indexes": [],
    },
}  # fmt: skip


def of_kind(model: rl.Model, kind: type) -> list[Any]:
    return [m for block in model.layers for m in block.modules if isinstance(m, kind)]


def test_the_whole_has_the_parameters_of_the_real_class() -> None:
    model = rl.load(WHOLE)
    assert model.parameters == 520_504
    assert sum(tower.parameters for tower in model.towers) == 196_464


def test_each_table_has_a_prime_of_rows_for_every_hash() -> None:
    def is_prime(n: int) -> bool:
        return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))

    primes = [n for n in range(100, 400) if is_prime(n)][:16]
    assert primes_from(100, 16).tolist() == primes
    assert primes_from(20_000_000, 2).tolist() == [20_000_003, 20_000_023]
    tables = of_kind(rl.load(TEXT), Embedding)
    assert [t.rows for t in tables] == [-(-sum(part) // 8) * 8 for part in (primes[:8], primes[8:])]
    assert {(t.width, t.lookups) for t in tables} == {(32 // 8, 8)}


def test_a_token_reads_a_row_of_each_hash() -> None:
    ops = {row.name: row for row in rl.analyze(rl.load(TEXT), rl.decode(batch=3, context=50)).ops}
    table = ops["ngram_table"]
    assert table.each_moved.weight == 3 * 8 * 4 * 2


def test_a_query_sees_the_chosen_blocks_and_the_incomplete_one() -> None:
    [one] = of_kind(rl.load(TEXT), Attention)

    def seen(position: int) -> int:
        whole = position // 4
        return min(whole, 16 // 4) * 4 + position % 4

    for cached, new in ((0, 3), (0, 64), (40, 1), (37, 19), (10, 100)):
        by_hand = sum(seen(p) for p in range(cached + 1, cached + new + 1))
        assert attended_pairs(one, Queries(cached, new)) == by_hand, (cached, new)


def test_cache_and_states() -> None:
    model = rl.load(TEXT)
    keys_values, means = 2 * 2 * 16, 16 // 4  # of the one layer in four that attends, and of its indexer
    assert model.kv_bytes(1000) == 1000 * (keys_values + means) * 2
    convolutions = [m for m in of_kind(model, Conv) if m.name == "ngram_conv"]
    assert [m.state for m in convolutions] == [3 * 64 * (4 - 1) * 3] * 2
    [indexer] = of_kind(model, Indexer)
    assert (indexer.heads, indexer.rate) == (2, 4)


@pytest.mark.parametrize(("cache", "bytes"), [("bf16", 2), ("fp8", 1)])
def test_sglang_keeps_the_indexer_s_means_in_bf16(cache: str, bytes: int) -> None:
    """As `qsa_bytes_per_token` of its memory pool has it: a key of 16 values for every four tokens."""
    asked = {"on": "h100-sxm", "context": 1000, "batch": 1, "engine": "sglang", "precision": f"kv={cache}"}
    assert rl.fit(TEXT, **asked).memory.cache == 1000 * 64 * bytes + 250 * 16 * 2


def test_tables_are_narrow_where_the_config_says_so_and_are_cut_by_tensor_parallelism() -> None:
    wide, narrow = rl.load(TEXT), rl.load({**TEXT, "ple_embedding_dtype": "float8_e4m3fn"})
    values = sum(t.matrix for t in of_kind(wide, Embedding))
    assert wide.weight_bytes() - narrow.weight_bytes() == values
    half = rl.shard(wide, "tp=2")
    rows = [m.rows for block, _ in half.blocks for m in block.modules if isinstance(m, Embedding)]
    assert sorted(rows) == sorted(t.rows // 2 for t in of_kind(wide, Embedding))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"ple_layer_ids": [0]}, "ple_layer_ids"),
        ({"ple_layer_ids": "all"}, "ple_layer_ids"),
        ({"ple_embed_dim": 33}, "ple_embed_dim"),
        ({"indexer_n_heads": None}, "indexer_n_heads"),
        ({"ple_layer_ids": [1, 2, 3, 4], "ngram_size": 64, "heads_per_ngram": 64}, "ple_layer_ids"),
        ({"ple_embedding_dtype": "int3"}, "ple_embedding_dtype"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.load({**TEXT, **changed})
    assert error.value.field.endswith(field)
