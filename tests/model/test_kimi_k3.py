"""Kimi K3 by hand, tensor by tensor as mlx-lm 0.32.2 makes them (models/kimi_k3.py), and by its published files.

`PUBLISHED` has the sizes of moonshotai/Kimi-K3, whose 96 files list their tensors in a report of a public repository:
the bytes of each kind of tensor, together 1453.66 GiB.
"""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl
from roofline.model.modules import Add, DepthAttention

WIDTH, INNER = 64, 3 * 16
TEXT: dict[str, Any] = {
    "model_type": "kimi_linear", "hidden_size": WIDTH, "intermediate_size": 96, "moe_intermediate_size": 24,
    "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 128, "q_lora_rank": 32,
    "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 12, "num_experts": 8,
    "num_shared_experts": 2, "num_experts_per_token": 2, "first_k_dense_replace": 1, "hidden_act": "situ",
    "attn_res_block_size": 2, "routed_expert_hidden_size": 40, "latent_moe_use_norm": True,
    "mla_use_output_gate": True, "mla_use_nope": True,
    "linear_attn_config": {
        "num_heads": 3, "head_dim": 16, "short_conv_kernel_size": 4, "kda_layers": [1, 2, 3, 5],
        "full_attn_layers": [4], "use_full_rank_gate": True,
    },
}  # fmt: skip
K3: dict[str, Any] = {"model_type": "kimi_k3", "text_config": TEXT, "dtype": "bfloat16"}


def delta(full_gate: bool = True) -> int:
    gate = WIDTH * INNER if full_gate else WIDTH * 16 + 16 * INNER
    decay = WIDTH * 16 + 16 * INNER
    vectors = 3 * INNER * 4 + 3 + INNER + 16  # convolution, A, bias of the decay, norm of a head
    return WIDTH * 3 * INNER + WIDTH * 3 + decay + gate + vectors + INNER * WIDTH


def latent(gate: bool = True) -> int:
    queries = WIDTH * 32 + 32 + 32 * 4 * (8 + 4)
    keys = WIDTH * (16 + 4) + 16 + 16 * 4 * (8 + 12)
    return queries + keys + 4 * 12 * WIDTH + (WIDTH * 4 * 12 if gate else 0)


def experts(wide: int | None = 40, norm: bool = True) -> int:
    around = 0 if wide is None else 2 * WIDTH * wide + (wide if norm else 0)
    return WIDTH * 8 + around + 3 * (wide or WIDTH) * 24 * 8 + 3 * WIDTH * 48


def whole(mixers: int, sparse: int, mixes: bool = True) -> int:
    layers = mixers + 3 * WIDTH * 96 + sparse + 5 * 2 * WIDTH
    return 2 * 128 * WIDTH + layers + WIDTH + (11 * 2 * WIDTH if mixes else 0)


def test_parameters() -> None:
    assert rl.load(K3).parameters == whole(4 * delta() + latent(), 4 * experts())


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"attn_res_block_size": None}, whole(4 * delta() + latent(), 4 * experts(), mixes=False)),
        ({"mla_use_output_gate": False}, whole(4 * delta() + latent(False), 4 * experts())),
        ({"routed_expert_hidden_size": None}, whole(4 * delta() + latent(), 4 * experts(None))),
        ({"latent_moe_use_norm": False}, whole(4 * delta() + latent(), 4 * experts(norm=False))),
        (
            {"linear_attn_config": {**TEXT["linear_attn_config"], "use_full_rank_gate": False}},
            whole(4 * delta(False) + latent(), 4 * experts()),
        ),
        ({"moe_layer_freq": 2}, whole(4 * delta() + latent(), 2 * experts() + 2 * 3 * WIDTH * 96)),
    ],
)
def test_its_settings(changed: dict[str, Any], expected: int) -> None:
    assert rl.load({**K3, "text_config": {**TEXT, **changed}}).parameters == expected


def test_sublayers_read_the_sums_of_the_blocks_before() -> None:
    """Played out as the code does: a block starts at layers 0, 2 and 4, whose attention adds to no sum."""
    model, stored = rl.load(K3), 0
    for i, block in enumerate(model.layers):
        before, behind = (m for m in block.modules if isinstance(m, DepthAttention))
        assert (before.states, before.idle) == (stored + 1, i == 0)
        stored += i % 2 == 0
        assert behind.states == stored + 1
        assert ("attn_residual" in {m.name for m in block.modules if isinstance(m, Add)}) == (i % 2 == 1)
    last = next(m for m in model.head if isinstance(m, DepthAttention))
    assert last.states == stored + 1 == 4


def test_cache_and_layers_by_the_numbers_of_the_others() -> None:
    inside = {k: v for k, v in TEXT["linear_attn_config"].items() if k != "full_attn_layers"}
    model = rl.load({**K3, "text_config": {**TEXT, "linear_attn_config": inside}})
    assert model.parameters == rl.load(K3).parameters
    assert model.kv_bytes(100) == 100 * (16 + 4) * 2
    assert model.warnings == rl.load(K3).warnings
    assert not any("attn_res" in line or "gate" in line for line in model.warnings)


# -- the published model -------------------------------------------------------------------------------------------
FULL = [*range(4, 93, 4), 93]
PUBLISHED: dict[str, Any] = {
    "architectures": ["KimiK3ForConditionalGeneration"], "model_type": "kimi_k3", "dtype": "bfloat16",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "kimi_linear", "activation_situ_beta": 4.0, "activation_situ_linear_beta": 25.0,
        "attn_res_block_size": 12, "first_k_dense_replace": 1, "hidden_act": "situ", "hidden_size": 7168,
        "intermediate_size": 33792, "kv_lora_rank": 512, "latent_moe_use_norm": True,
        "max_position_embeddings": 1048576, "mla_use_nope": True, "mla_use_output_gate": True,
        "moe_intermediate_size": 3072, "moe_layer_freq": 1, "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid", "num_attention_heads": 96, "num_expert_group": 1,
        "num_experts": 896, "num_experts_per_token": 16, "num_hidden_layers": 93, "num_key_value_heads": 96,
        "num_nextn_predict_layers": 0, "num_shared_experts": 2, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "routed_expert_hidden_size": 3584, "routed_scaling_factor": 1.0,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc",
        "use_grouped_topk": True, "v_head_dim": 128, "vocab_size": 163840,
        "linear_attn_config": {
            "full_attn_layers": FULL, "gate_lower_bound": -5.0, "head_dim": 128,
            "kda_layers": [i for i in range(1, 94) if i not in FULL], "num_heads": 96, "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
        },
        "quantization_config": {
            "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
            "quantization_status": "compressed", "kv_cache_scheme": None, "global_compression_ratio": None,
            "config_groups": {
                "group_0": {
                    "format": "mxfp4-pack-quantized", "input_activations": None, "output_activations": None,
                    "targets": ["Linear"],
                    "weights": {
                        "dynamic": False, "group_size": 32, "num_bits": 4, "observer": "minmax",
                        "scale_dtype": "torch.uint8", "strategy": "group", "symmetric": True, "type": "float",
                    },
                },
            },
            "ignore": [
                "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
                "re:.*lm_head.*", "re:.*vision_tower.*", "re:.*mm_projector.*",
            ],
        },
    },
    "vision_config": {
        "activation_func": "gelu_pytorch_tanh", "attn_bias": False, "init_pos_emb_height": 64,
        "init_pos_emb_time": 4, "init_pos_emb_width": 64, "linear_bias": False, "merge_kernel_size": [2, 2],
        "merge_type": "sd2_tpool", "mlp_type": "mlp2", "mm_hidden_size": 1024, "mm_projector_type": "patchmergerv2",
        "norm_type": "rmsnorm", "patch_embed_proj_bias": False, "patch_size": 14,
        "pos_emb_interpolation_mode": "bilinear", "pos_emb_type": "divided_fixed", "projector_hidden_act": "gelu",
        "projector_ln_eps": 1e-05, "qkv_hidden_size": 1536, "text_hidden_size": 7168, "vt_hidden_size": 1024,
        "vt_intermediate_size": 4096, "vt_num_attention_heads": 12, "vt_num_hidden_layers": 27,
    },
}  # fmt: skip


def test_bytes_of_the_published_files() -> None:
    """By tensor, in GiB as listed; convolutions and decays are in fp32 there, and in all 0.04 GiB."""
    model = rl.load(PUBLISHED)
    assert (model.warnings, model.not_counted) == ((), ())

    def gib(*names: str) -> float:
        its = [(m, n) for m, n in model.modules() if m.name in names and not m.stream]
        return sum(n * float(model.precision.weight_bytes(m)) for m, n in its) / 2**30

    listed = {
        ("experts",): 3 * (422.62 + 26.41), ("experts_in_proj",): 4.40, ("experts_out_proj",): 4.40,
        ("shared_gate_up_proj", "shared_down_proj"): 3 * 7.55, ("router",): 1.10, ("embedding",): 2.19,
        ("lm_head",): 2.19, ("out_proj", "o_proj"): 15.26, ("q_b_proj",): 1.27,
        ("kv_a_proj",): 189 / 1024, ("attention",): 576 / 1024, ("gate_up_proj", "down_proj"): 3 * 462 / 1024,
        ("in_proj", "attention_gate_proj"): 3 * 11.32 + 15.26 + 90.56 / 1024 + 120.75 / 1024,
    }  # fmt: skip
    assert {names: gib(*names) for names in listed} == {k: pytest.approx(v, abs=0.03) for k, v in listed.items()}
    assert model.weight_bytes() == pytest.approx(1453.66 * 2**30, rel=1e-4)


def test_its_tower_is_that_of_the_files() -> None:
    layer = 4096 * 1024 + 1024 * 4096 + 2 * 1024 + 1024 * 1536 + 4608 * 1024
    eyes = 27 * layer + 1024 + 64 * 64 * 1024 + 1024 * 3 * 14 * 14
    projector = 7168 + 4096 * 4096 + 7168 * 4096
    parts = rl.load(PUBLISHED).parameters_by_tower()
    assert (parts["vision"], parts["projector"]) == (eyes, projector)
    assert round(sum(parts.values()) / 1e10) == 278  # 2.78 T
