"""Layers of their own kind, by hand: what they hold, do, keep and share out."""

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.declared.errors import InputError
from roofline.layout.layout import Layout
from roofline.layout.shard import shard
from roofline.model import modules as m
from roofline.work import ops as o

RWKV = {"model_type": "rwkv", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "dtype": "bfloat16"}
XLSTM = {**RWKV, "model_type": "xlstm", "num_heads": 4, "chunk_size": 16}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
VISION = {
    **RWKV, **HEADS, "model_type": "mllama_text_model", "num_hidden_layers": 3, "intermediate_size": 96,
    "cross_attention_layers": [1], "max_position_embeddings": 64,
}  # fmt: skip
HRM = {**RWKV, **HEADS, "model_type": "hrm_text", "intermediate_size": 96, "H_cycles": 2, "L_cycles": 3}
ZAYA = {
    **RWKV, **HEADS, "model_type": "zaya", "num_experts": 4, "moe_intermediate_size": 32, "router_hidden_size": 8,
}  # fmt: skip
INKLING = {
    **RWKV, **HEADS, "model_type": "inkling_text", "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2,
    "swa_head_dim": 16, "sliding_window_size": 8, "d_rel": 4, "rel_extent": 12, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 2, "intermediate_size": 96,
    "layer_types": ["hybrid_sliding", "hybrid"],
}  # fmt: skip
INKLING_2 = {**INKLING, "model_type": "inkling2_text", "n_layers_per_attn_res_block": 1}


def named(model: rl.Model, name: str) -> Any:
    return next(x for x, _ in model.modules() if x.name == name)


def op(model: rl.Model, name: str, step: rl.Step, counting: str = "standard") -> Any:
    return next(cost for cost in rl.analyze(model, step, counting=counting).ops if cost.op.name == name)


# -- layers that a step of text passes over ------------------------------------------------------------------------
def test_a_layer_of_images_has_weights_and_no_work() -> None:
    """64·(64 + 2·32) for q, k, v and 64·64 for o, 3·64·96 of the feed-forward, two norms, two of heads, two gates."""
    model = rl.load(VISION)
    cross = model.layers[1]
    assert cross.parameters == 64 * 128 + 64 * 64 + 3 * 64 * 96 + 2 * 64 + 2 * 16 + 2
    assert model.active_parameters == model.parameters - cross.parameters
    alone = rl.load({**VISION, "num_hidden_layers": 2, "cross_attention_layers": []})
    step = rl.decode(batch=2, context=32)
    assert rl.analyze(model, step).flops == rl.analyze(alone, step).flops
    assert model.kv_bytes(10) == alone.kv_bytes(10) == 2 * 10 * 2 * 2 * 16 * 2


def test_an_idle_layer_exchanges_nothing() -> None:
    rank = shard(rl.load(VISION), Layout(tp=2))
    cross = next(block for block, _ in rank.blocks if block.name == "cross")
    assert not any(isinstance(x, m.Collective) for x in cross.modules)
    assert 2 * rank.distinct_parameters == rl.load(VISION).parameters  # type: ignore[attr-defined]


def test_images_have_rows_of_the_embedding_that_the_head_lacks() -> None:
    model = rl.load(VISION)
    assert named(model, "embedding").rows == 108
    assert named(model, "lm_head").outputs == 100


# -- RWKV ----------------------------------------------------------------------------------------------------------
def test_time_mixing() -> None:
    model, step = rl.load(RWKV), rl.prefill(batch=2, tokens=10)
    assert model.layers[0].parameters == 4 * 64 * 64 + 2 * 64 + 3 * 64 + 2 * 64 + 64 * 64 + 2 * 64 * 256 + 4 * 64
    assert op(model, "scan", step).flops == 2 * 23 * 64 * 20
    assert op(model, "time_shift", step).flops == 2 * 3 * 3 * 64 * 20
    assert op(model, "rkv_proj", step).flops == 2 * 2 * 3 * 64 * 64 * 20


def test_state_of_rwkv_is_three_values_a_channel_and_two_tokens() -> None:
    model = rl.load(RWKV)
    assert model.state_bytes() == 2 * (3 * 64 * 4 + 2 * 64 * 2)  # sums in fp32, last inputs in bf16
    assert model.kv_bytes(1000) == 0
    first, later = rl.prefill(batch=3, tokens=5), rl.decode(batch=3, context=5)
    assert op(model, "time_shift", first).op.cache_read == 0
    assert op(model, "time_shift", later).op.cache_read == op(model, "time_shift", later).op.cache_write == 3 * 64


def test_one_gather_serves_all_shifted_streams() -> None:
    rank = shard(rl.load(RWKV), Layout(tp=2, sp=True))
    gathers = [x.name for x in rank.blocks[0][0].modules if isinstance(x, m.Collective) and x.op == "all_gather"]
    assert gathers == ["time_shift_gather", "channel_shift_gather"]
    shares = {x.name: x for x in rank.blocks[0][0].modules}
    assert shares["rkv_proj"].outputs == 3 * 32  # type: ignore[attr-defined]
    assert shares["scan"].channels == 32  # type: ignore[attr-defined]
    assert shares["time_shift"].width == 64  # type: ignore[attr-defined]


def test_channels_that_ranks_cannot_share_are_named() -> None:
    with pytest.raises(InputError, match="channels"):
        shard(rl.load(RWKV), Layout(tp=3))


# -- xLSTM ---------------------------------------------------------------------------------------------------------
def test_matrix_memory() -> None:
    """Keys of 8 and values of 16 a head; 20 tokens are a chunk of 16 and four by themselves."""
    model, step = rl.load(XLSTM), rl.prefill(batch=3, tokens=20)
    assert op(model, "scan", step).flops == 2 * 4 * (5 * 8 * 16 + 5 * 8 + 16) * 60
    chunk = 2 * 16 * 16 * (8 + 16) + 2 * 16 * (2 * 8 * 16 + 8)
    alone = 2 * 4 * (2 * 8 * 16 + 8)
    assert op(model, "scan", step, "torch").flops == 2 * 3 * 4 * (chunk + alone)
    assert model.state_bytes() == 2 * 4 * (8 * 16 + 8 + 1) * 4


# -- cycles --------------------------------------------------------------------------------------------------------
def test_every_run_of_a_stack_has_keys_of_its_own_and_the_same_weights() -> None:
    model = rl.load(HRM)
    assert len(model.layers) == 2 * 2 * (3 + 1)
    layer = 64 * 4 * 64 + 64 * 64 + 3 * 64 * 96
    assert model.parameters == 2 * 100 * 64 + 64 + 2 * 2 * layer
    assert model.kv_bytes(1) == 16 * 2 * 64 * 2
    read = sum(cost.layers * cost.op.weight for cost in rl.analyze(model, rl.decode(batch=1, context=8)).ops)
    assert read == 16 * layer + 100 * 64 + 64 + 64


# -- ZAYA ----------------------------------------------------------------------------------------------------------
def test_compressed_convolutional_attention() -> None:
    """The first layer, whose router has nothing to carry on, is a block of its own."""
    model, step = rl.load(ZAYA), rl.prefill(batch=2, tokens=10)
    assert named(model, "conv").parameters == 96 * 3
    assert named(model, "head_conv").parameters == 96 * (2 * 16 + 1)
    assert op(model, "head_conv", step).flops == 2 * 2 * 16 * 96 * 20
    assert op(model, "conv", step, "torch").flops == 2 * 2 * 96 * (20 + 2 * 1)
    assert op(model, "value_delay", step).flops == 0
    assert op(model, "value_delay", step, "torch").flops == 2 * 64 * 16 * 2
    assert op(model, "value_delay", rl.decode(batch=2, context=10), "torch").flops == 0
    assert op(model, "attn_residual", step).flops == 5 * 64 * 20
    assert named(model, "router").experts == named(model, "experts").experts + 1


def test_values_are_shared_out_with_their_heads() -> None:
    rank = {x.name: x for x in shard(rl.load(ZAYA), Layout(tp=4)).blocks[0][0].modules}
    assert rank["value_delay"].width == 8  # type: ignore[attr-defined]  # one of two heads, on two ranks each
    assert rank["head_conv"].channels == 16 + 16  # type: ignore[attr-defined]
    assert rank["qk_mean"].width == 16  # type: ignore[attr-defined]
    assert rank["attn_residual"].width == 64  # type: ignore[attr-defined]


# -- Inkling -------------------------------------------------------------------------------------------------------
def test_a_bias_for_each_distance() -> None:
    model, step = rl.load(INKLING), rl.prefill(batch=2, tokens=10)
    tables = [x for x, _ in model.modules() if isinstance(x, m.RelativeBias)]
    assert [x.parameters for x in tables] == [4 * 8, 4 * 12]
    assert op(model, "relative_bias", step).flops == 2 * 4 * 20 * 4 * 8
    rank = shard(model, Layout(tp=2))
    share = next(x for x, _ in rank.modules() if isinstance(x, m.RelativeBias))
    assert (share.heads, share.parameters, share.copies) == (2, 4 * 8, 2)


def test_attention_to_blocks_of_layers() -> None:
    """With a block a layer: none before the first, then one for each layer and one for the layer itself."""
    model, step = rl.load(INKLING_2), rl.prefill(batch=2, tokens=10)
    depth = [(x.name, x.states, x.queries) for x, _ in model.modules() if isinstance(x, m.DepthAttention)]
    assert depth == [("ffn_input", 2, 1), ("attn_input", 2, 3), ("ffn_input", 3, 1), ("final_input", 3, 1)]
    assert op(model, "final_input_scores", step).flops == op(model, "final_input", step).flops == 2 * 3 * 64 * 20
    dynamic = [cost.op for cost in rl.analyze(model, step).ops if isinstance(cost.op, o.Convolve) and cost.op.dynamic]
    assert [x.channels for x in dynamic] == [64]


@folded("config", [RWKV, XLSTM, VISION, HRM, ZAYA, INKLING, INKLING_2], ids=lambda c: c["model_type"])
def test_each_trains_and_runs_on_every_layout(config: dict[str, Any]) -> None:
    model = rl.load(config)
    assert rl.estimate(model, rl.training(batch=2, tokens=16), on="h100-sxm").time > 0
    for layout in (Layout(tp=2), Layout(tp=2, sp=True), Layout(cp=2), Layout(pp=2), Layout(tp=2, dp=2, cp=2)):
        rank = shard(model, layout)
        assert rank.distinct_parameters * layout.ranks == model.parameters  # type: ignore[attr-defined]
        assert rl.estimate(model, rl.prefill(batch=2, tokens=16), on="h100-sxm", layout=layout).time > 0
