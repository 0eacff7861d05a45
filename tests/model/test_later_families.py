"""Attention to picked blocks and pools, experts that do nothing, and two attentions in a layer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.declared.numbers.maths import experts_visited
from roofline.model.checkpoints.tensor_names import pieces
from roofline.model.modules import Attention, Experts, LatentAttention
from roofline.work.lower import attended_pairs, lower
from roofline.work.ops import Attend, ExpertMatMul
from roofline.work.step import Queries

sizes = st.integers(0, 200)

LONGCAT: dict[str, Any] = {
    "model_type": "longcat_flash", "vocab_size": 131072, "hidden_size": 6144, "num_layers": 28,
    "num_attention_heads": 64, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 512,
    "zero_expert_num": 256, "moe_topk": 12, "torch_dtype": "bfloat16",
}  # fmt: skip


@given(cached=sizes, new=st.integers(1, 40), block=st.integers(1, 16), select=st.integers(1, 6))
def test_pairs_of_picked_blocks_token_by_token(cached: int, new: int, block: int, select: int) -> None:
    a = Attention(name="a", heads=1, kv_heads=1, head_dim=1, v_head_dim=1, block=block, select=select)
    places = range(cached, cached + new)
    by_hand = sum(i % block + 1 + block * min(i // block, select - 1) for i in places)
    assert attended_pairs(a, Queries(cached, new)) == by_hand


@given(cached=sizes, new=st.integers(1, 40), pool=st.integers(1, 8), pools=st.integers(1, 6))
def test_pairs_of_picked_pools_token_by_token(cached: int, new: int, pool: int, pools: int) -> None:
    a = LatentAttention(name="a", heads=1, rank=4, nope=2, rope=0, v=2, select=pool * pools, pool=pool)
    attend = next(op for op in lower(a, rl.prefill(batch=1, tokens=new, cached=cached)) if isinstance(op, Attend))
    seen = range(cached + 1, cached + new + 1)
    assert attend.pairs == sum(n % pool + pool * min(n // pool, pools) for n in seen)


def test_a_sliding_latent_attention_reads_and_expands_its_window_alone() -> None:
    sliding = LatentAttention(name="a", heads=4, rank=32, nope=8, rope=4, v=8, window=16)
    (_, attend, _) = lower(sliding, rl.decode(batch=1, context=1000))
    assert isinstance(attend, Attend)
    assert (attend.pairs, attend.cache_read) == (16, 15 * 36)


def test_longcat_by_its_paper() -> None:
    """560 billion parameters, of which a token meets 27 on average (arXiv:2509.01322)."""
    model = rl.load(LONGCAT)
    assert model.parameters == 560_664_958_976
    assert model.active_parameters == model.parameters - 28 * (512 - 8) * 3 * 6144 * 2048 == 27_954_796_544
    assert model.kv_elements(1) == 28 * 2 * (512 + 64)


def test_choices_that_fall_on_identities_do_no_work() -> None:
    experts = Experts(name="e", hidden=64, inner=32, experts=8, top_k=6, function="silu", identities=4)
    products = [op for op in lower(experts, rl.prefill(batch=1, tokens=10)) if isinstance(op, ExpertMatMul)]
    assert [op.m for op in products] == [10 * 6 * 8 // 12] * 2
    assert products[0].touched == pytest.approx(8 * (1 - 0.5**10))
    assert experts_visited(8, 6, 1, 4) == pytest.approx(4)


def test_two_attentions_in_a_layer_have_ops_and_tensors_of_their_own() -> None:
    model = rl.load(LONGCAT)
    for step in (rl.decode(batch=1, context=4096), rl.prefill(batch=1, tokens=4096)):
        names = [cost.op.name for cost in rl.analyze(model, step).ops]
        assert len(names) == len(set(names))
    block = model.layers[0].modules
    stored = {m.name: pieces(m, block)[0].names for m in block if m.matrix}
    assert "self_attn.0.kv_b_proj" in stored["attention"]
    assert stored["second_attention"] == ("self_attn.1.kv_b_proj",)
    assert "mlps.1.down_proj" in stored["second_down_proj"]


def test_a_pool_without_its_tail_is_refused() -> None:
    with pytest.raises(rl.InputError, match="index_kpool_always_select_tail"):
        rl.load(
            {
                **LONGCAT, "model_type": "glm5_next_text", "num_hidden_layers": 4, "intermediate_size": 64,
                "moe_intermediate_size": 32, "qk_rope_head_dim": 0, "index_n_heads": 2, "index_head_dim": 16,
                "index_topk": 32, "index_kpool_always_select_tail": False,
            }
        )  # fmt: skip


def test_a_null_where_a_size_is_assumed_is_an_input_error() -> None:
    """It was a TypeError: only what a window or the heads may lack is nothing where it is null."""
    with pytest.raises(rl.InputError, match="hc_mult"):
        rl.load({**LONGCAT, "model_type": "glm5_next_text", "num_hidden_layers": 4, "hc_mult": None})


@pytest.mark.parametrize("counting", ["standard", "torch"])
def test_an_indexer_is_explained(counting: str) -> None:
    m3 = {
        "model_type": "minimax_m3_vl_text", "hidden_size": 64, "intermediate_size": 32, "shared_intermediate_size": 32,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128,
        "num_local_experts": 4, "num_experts_per_tok": 2, "rotary_dim": 8,
        "layer_types": ["minimax_m3_sparse"],
    }  # fmt: skip
    assert "indexer" in str(rl.explain(rl.load(m3), "indexer", rl.decode(batch=1, context=500), counting=counting))
