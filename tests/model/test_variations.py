"""Decoders that vary others by one thing, by hand: what they hold, do, keep and share out."""

from typing import Any

import pytest

import roofline as rl
from roofline.layout.layout import Layout
from roofline.layout.shard import shard
from roofline.model import modules as m
from roofline.model.checkpoints.tensor_names import pieces

SIZES = {
    "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "intermediate_size": 96, "dtype": "bfloat16",
}  # fmt: skip
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
DOGE = {"model_type": "doge", **SIZES}
DIFFLLAMA = {"model_type": "diffllama", **SIZES}
JETMOE = {
    "model_type": "jetmoe", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 1, "num_key_value_heads": 4,
    "kv_channels": 16, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 32, "dtype": "bfloat16",
}  # fmt: skip
ZAMBA = {
    "model_type": "zamba", **SIZES, "num_hidden_layers": 4, "n_mamba_heads": 2, "mamba_dt_rank": 6, "mamba_d_state": 8,
    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
}  # fmt: skip
LFM3 = {"model_type": "lfm3", **SIZES, "num_hidden_layers": 5, "head_dim": 8, "sliding_window": 16}
BEAM = {"model_type": "beam", **SIZES, **EXPERTS, "head_dim": 8, "sliding_window": 16, "num_hidden_layers": 7}
FLINT = {"model_type": "flint", **SIZES, **EXPERTS, "shared_expert_intermediate_size": 24, "head_dim": 8}


def op(model: rl.Model, name: str, step: rl.Step, counting: str = "standard") -> Any:
    return next(cost for cost in rl.analyze(model, step, counting=counting).ops if cost.op.name == name)


def names(model: rl.Model, block: int, module: str) -> set[str]:
    modules = model.layers[block].modules
    return {name for x in modules if x.name == module for piece in pieces(x, modules) for name in piece.names}


# -- differential attention ----------------------------------------------------------------------------------------
def test_two_heads_share_a_value_twice_as_wide() -> None:
    """q·kᵀ over 8 of a head and its product with 16 of a value; the published code multiplies q·kᵀ for each half."""
    model, step = rl.load(DIFFLLAMA), rl.prefill(batch=3, tokens=10)
    assert op(model, "attention", step).each_flops == 2 * 8 * (8 + 16) * 3 * 55
    assert op(model, "attention", step, "torch").each_flops == 2 * (2 * 8 * (8 + 8) * 3 * 100)
    assert model.kv_bytes(10) == 2 * 10 * (4 * 8 + 2 * 16) * 2


def test_its_pairs_of_heads_are_shared_out() -> None:
    model = rl.load(DIFFLLAMA)
    core = next(x for x, _ in shard(model, Layout(tp=2)).modules() if isinstance(x, m.Attention))
    assert (core.heads, core.kv_heads, core.kv_width) == (4, 2, 2 * 8 + 16)
    with pytest.raises(rl.InputError, match="pairs of key/value heads"):
        shard(model, Layout(tp=4))


def test_an_odd_number_of_its_key_heads_is_an_error() -> None:
    with pytest.raises(rl.InputError, match="num_key_value_heads: expected an even number"):
        rl.load({**DIFFLLAMA, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 8})


# -- dynamic masks -------------------------------------------------------------------------------------------------
def test_a_query_attends_to_the_tokens_that_are_kept() -> None:
    """All tokens stay in the cache; of 100 and itself a new one attends to 16."""
    model, step = rl.load({**DOGE, "keep_window_size": 16}), rl.decode(batch=3, context=100)
    cost = op(model, "attention", step)
    assert cost.each_flops == 2 * 8 * (8 + 8) * 3 * 16
    assert cost.op.cache_read == 3 * 16 * 4 * (8 + 8)
    assert model.kv_bytes(100) == rl.load(DOGE).kv_bytes(100) == 2 * 100 * 4 * (8 + 8) * 2


def test_short_sequences_are_not_masked() -> None:
    kept, full, step = rl.load({**DOGE, "keep_window_size": 16}), rl.load(DOGE), rl.prefill(batch=1, tokens=16)
    assert op(kept, "attention", step).each_flops == op(full, "attention", step).each_flops == 2 * 8 * 16 * 136


def test_its_experts_are_neurons() -> None:
    """Two tables of 49 rows, keys for both halves of 7·7 places, and 4 of the neurons for a token."""
    model = rl.load({**DOGE, "is_moe": True, "num_experts": 49, "num_experts_per_tok": 4})
    assert model.parameters - rl.load(DOGE).parameters == 2 * (2 * 49 * 64 + 64 * 14)
    assert model.parameters - model.active_parameters == 2 * 2 * (49 - 4) * 64
    with pytest.raises(rl.InputError, match="num_experts_per_tok: expected at most 49"):
        rl.load({**DOGE, "is_moe": True, "num_experts": 60, "num_experts_per_tok": 50})


# -- heads as experts ----------------------------------------------------------------------------------------------
def test_a_token_meets_two_of_eight_experts_in_attention_and_network() -> None:
    """An expert of attention: 64·64 in and out; of the network: 3·64·32. Routers of 64·8, one key and value a head."""
    model = rl.load(JETMOE)
    layer, vectors = model.layers[0], 4 * 64
    assert layer.parameters == 8 * (2 * 64 * 64 + 3 * 64 * 32) + 2 * 64 * 8 + 64 * 128 + vectors
    assert model.parameters - model.active_parameters == 6 * (2 * 64 * 64 + 3 * 64 * 32)
    assert model.kv_bytes(10) == 10 * 2 * 4 * 16 * 2


def test_its_experts_make_rows_for_each_of_a_token() -> None:
    model, step = rl.load(JETMOE), rl.prefill(batch=1, tokens=10)
    assert op(model, "q_experts", step).each_flops == op(model, "o_experts", step).each_flops == 2 * 20 * 64 * 64
    assert op(model, "attention", step).each_flops == 2 * 8 * 32 * 55
    assert op(model, "q_experts", rl.decode(batch=1, context=5)).op.weight == 2 * 64 * 64
    assert names(model, 0, "q_experts") > {"self_attention.experts.input_linear"}
    assert names(model, 0, "experts") > {"mlp.input_linear", "mlp.output_linear"}


def test_every_rank_has_its_heads_of_every_expert() -> None:
    model = rl.load(JETMOE)
    rank = shard(model, Layout(tp=2))
    queries, outputs = (x for x, _ in rank.modules() if isinstance(x, m.ExpertLinear))
    assert (queries.outputs, outputs.inputs) == (32, 32)
    assert 2 * rank.distinct_parameters == model.parameters  # type: ignore[attr-defined]


# -- one transformer for many layers -------------------------------------------------------------------------------
def test_a_transformer_of_shared_weights_is_counted_once() -> None:
    """Norms of 128 and 64, q 128·(8·16), k and v 128·(4·16) each, o 128·64, a gated network of 3·64·96."""
    once, apart = rl.load(ZAMBA), rl.load({**ZAMBA, "tie_word_embeddings": False})
    shared = 128 + 64 + 128 * 128 + 2 * 128 * 64 + 128 * 64 + 3 * 64 * 96
    assert apart.parameters - once.parameters == shared + 100 * 64
    assert once.kv_bytes(10) == 2 * 10 * 2 * 4 * 16 * 2


def test_its_mamba_has_heads_with_streams_of_their_own() -> None:
    """x: 128·(6 + 2·8) for both heads together, dt: 6·128 and its bias, as if it had one; B and C come twice."""
    one, two = (rl.load({**ZAMBA, "n_mamba_heads": heads}) for heads in (1, 2))
    assert one.parameters == two.parameters
    step = rl.decode(batch=1, context=5)
    more = op(two, "scan", step).op.input - op(one, "scan", step).op.input
    assert more == 2 * 8
    rank = shard(two, Layout(tp=2))
    assert {x.groups for x, _ in rank.modules() if isinstance(x, m.SelectiveScan)} == {1}


# -- kinds of layers -----------------------------------------------------------------------------------------------
def test_lfm3_has_three_kinds_of_layers() -> None:
    """Convolutions, a full layer of half a head's rotation, a sliding one of a whole head's."""
    model = rl.load(LFM3)
    assert [block.name for block in model.layers] == [
        "conv dense",
        "conv dense",
        "dense",
        "conv dense",
        "sliding dense",
    ]
    ropes = {block.name: x.dims for block, _ in model.blocks for x in block.modules if isinstance(x, m.Rope)}
    assert ropes == {"dense": 4, "sliding dense": 8}
    assert names(model, 2, "attention_gate_proj") > {"self_attn.g_proj"}


def test_full_layers_of_beam_and_flint_carry_no_positions() -> None:
    for config, full in ((BEAM, [5, 6]), (FLINT, [0, 1])):
        model = rl.load(config)
        windows = [next(x.window for x in b.modules if isinstance(x, m.Attention)) for b in model.layers]
        turned = [any(isinstance(x, m.Rope) for x in b.modules) for b in model.layers]
        assert [i for i, window in enumerate(windows) if window is None] == full
        assert [i for i, turns in enumerate(turned) if not turns] == full


def test_beam_adds_a_bias_a_head_to_its_gates() -> None:
    model = rl.load(BEAM)
    biases = [x.parameters for x in model.layers[0].modules if x.name == "attention_gate_bias"]
    assert biases == [8]
    assert [("moe" in block.name) for block in model.layers] == [False] * 3 + [True] * 4


# -- decoders inside wholes ----------------------------------------------------------------------------------------
def test_a_stream_is_scaled_by_a_delay_once() -> None:
    """2·32·64 a layer that no token meets; the rest is Mistral."""
    model = rl.load({"model_type": "voxtral_realtime_text", **SIZES, "sliding_window": 16})
    mistral = rl.load({"model_type": "mistral", **SIZES, "sliding_window": 16, "tie_word_embeddings": True})
    assert model.parameters - mistral.parameters == 2 * 2 * 32 * 64
    assert model.active_parameters == mistral.parameters
    step = rl.prefill(batch=1, tokens=10)
    assert rl.analyze(model, step, counting="torch").flops == rl.analyze(mistral, step, counting="torch").flops


def test_pictures_of_git_are_read_by_a_tower() -> None:
    vision = {"hidden_size": 24, "num_hidden_layers": 1, "image_size": 32, "patch_size": 16, "intermediate_size": 48}
    config = {"model_type": "git", **SIZES, "max_position_embeddings": 50, "vision_config": vision}
    model, text = rl.load(config), rl.load(config, text_only=True)
    assert [tower.name for tower in model.towers] == ["vision", "projector"]
    assert (model.not_counted, text.not_counted, text.towers) == ((), (), ())
    assert text.parameters == model.parameters_by_tower()[""]


def test_image_gpt_answers_with_one_token_fewer_than_it_reads() -> None:
    config = {"model_type": "imagegpt", "vocab_size": 513, "n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": 32}
    model = rl.load(config)
    assert (model.vocab, model.embedding[0].parameters, model.head[-1].parameters) == (512, 513 * 64, 512 * 64)
    with pytest.raises(rl.InputError, match="tie_word_embeddings"):
        rl.load({**config, "tie_word_embeddings": True})


@pytest.mark.parametrize(
    ("model_type", "words"),
    [
        ("blt", "a decoder of bytes in patches"),
        ("cpmant", "attend to those behind them"),
        ("xlnet", "attend to those behind them"),
        ("csm", "an audio model"),
    ],
)
def test_what_no_config_tells_or_no_decoder_is_is_refused_in_words(model_type: str, words: str) -> None:
    with pytest.raises(rl.InputError, match=words):
        rl.load({"model_type": model_type, **SIZES})


# -- Muse ----------------------------------------------------------------------------------------------------------
MUSE = {
    "model_type": "muse_spark_text", **SIZES, "num_hidden_layers": 4, "head_dim": 8, "sliding_window": 16,
    "num_local_experts": 8, "num_experts_per_tok": 2, "moe_hidden_size": 32, "moe_intermediate_size": 24,
}  # fmt: skip


def test_spark_routes_a_narrower_stream() -> None:
    """A router of 64·8, 64·32 in and out, a norm before and one behind each expert, experts of 3·32·24."""
    layer = rl.load(MUSE).layers[0]
    behind = [x.name for x in layer.modules].index("ffn_norm")
    inside = layer.modules[behind + 1 : behind + 7]
    assert [x.name for x in inside] == [
        "router", "experts_in_proj", "experts_norm", "experts", "experts_post_norm", "experts_out_proj",
    ]  # fmt: skip
    assert sum(x.parameters for x in inside) == 64 * 8 + 2 * 64 * 32 + 2 * 32 + 8 * 3 * 32 * 24
    assert names(rl.load(MUSE), 0, "experts_in_proj") > {"mlp.pre_expert_proj"}


def test_spark_gates_its_residual_sums_with_a_vector_each() -> None:
    layer = rl.load(MUSE).layers[0]
    gates = {x.name: x.parameters for x in layer.modules if x.name.endswith("_residual")}
    assert gates == {"attn_residual": 64, "ffn_residual": 64}


@pytest.mark.parametrize("model_type", ["muse_spark_text", "muse_glimmer_text"])
def test_layers_without_a_base_have_no_rotary_embedding(model_type: str) -> None:
    config = {**MUSE, "model_type": model_type}
    usual, given = rl.load(config), rl.load({**config, "layer_rope_theta": [0, 1e4, 1e4, 1e4]})
    turned = [[any(isinstance(x, m.Rope) for x in b.modules) for b in model.layers] for model in (usual, given)]
    assert turned == [[True, True, True, False], [False, True, True, True]]
    assert usual.parameters == given.parameters
    with pytest.raises(rl.InputError, match="layer_rope_theta: expected a list of 4 numbers"):
        rl.load({**config, "layer_rope_theta": [0]})
