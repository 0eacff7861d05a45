"""Published models whose code comes with the checkpoint: a config by its published values, and its published size.

transformers has no code for these types, so the total that others counted or the makers state stands in its place. An
exact total is that of the checkpoint's tensors. A rounded one ("480B") is held to its last digit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

BF16 = {"torch_dtype": "bfloat16"}


@dataclass(frozen=True)
class Published:
    """A model: its config, its total as published, where sizes and total come from, and what the total counts."""

    config: Mapping[str, Any]
    total: int | str
    source: str
    counts: Literal["all", "with drafts", "without embeddings"] = "all"


def _sizes(width: int, inner: int, layers: int, heads: int, kv_heads: int | None, vocab: int) -> dict[str, Any]:
    """The usual six, without key and value heads where the type has no such key."""
    kv = {} if kv_heads is None else {"num_key_value_heads": kv_heads}
    return {
        "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
        "vocab_size": vocab, **kv, **BF16,
    }  # fmt: skip


def _glm(layers: int, vocab: int) -> dict[str, Any]:
    return {
        "model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": layers,
        "num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2, "kv_channels": 128,
        "padded_vocab_size": vocab, "add_qkv_bias": True, "add_bias_linear": False, "rmsnorm": True,
        "post_layer_norm": True, "seq_length": 8192, **BF16,
    }  # fmt: skip


def _exaone(width: int, inner: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "exaone", "hidden_size": width, "intermediate_size": inner, "num_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": 8, "vocab_size": 102400, "activation_function": "silu",
        **more, **BF16,
    }  # fmt: skip


def _searched(group: int | None, factor: float, times: int) -> list[dict[str, Any]]:
    """So many layers of Llama Nemotron with that many query heads to a key head (None: no attention) and that width."""
    attention = {"n_heads_in_group": group, "no_op": group is None, "replace_with_linear": False}
    ffn = {"ffn_mult": factor, "no_op": False, "replace_with_linear": False}
    return [{"attention": attention, "ffn": ffn}] * times


NEMOTRON_SUPER = [
    *_searched(8, 5.25, 48), *_searched(None, 1.3125, 10), *_searched(None, 1.0, 8), *_searched(None, 0.5, 6),
    *_searched(None, 2.625, 5), *_searched(8, 2.625, 1), *_searched(None, 3.28125, 1), *_searched(None, 5.25, 1),
]  # fmt: skip

PUBLISHED: dict[str, list[Published]] = {
    "hunyuan": [
        Published(
            {
                "model_type": "hunyuan",
                **_sizes(6400, 18304, 64, 80, 8, 128512),
                "num_experts": 16,
                "moe_topk": 1,
                "num_shared_expert": 1,
                "use_mixed_mlp_moe": True,
                "use_cla": True,
                "cla_share_factor": 2,
                "use_qk_norm": True,
                "tie_word_embeddings": True,
            },
            "389B",
            "size of hf.co/tencent/Tencent-Hunyuan-Large and of arXiv:2411.02265 §2",
        )
    ],
    "internlm": [
        Published(
            {"model_type": "internlm", "bias": True, **_sizes(4096, 11008, 32, 32, None, 103168)},
            "7.32B",
            "config.json and size shown of hf.co/internlm/internlm-7b",
        )
    ],
    "internlm2": [
        Published(
            {"model_type": "internlm2", "bias": False, **_sizes(4096, 14336, 32, 32, 8, 92544)},
            7_737_708_544,
            "config.json and safetensors of hf.co/internlm/internlm2_5-7b-chat",
        ),
        Published(
            {"model_type": "internlm2", "bias": False, **_sizes(6144, 16384, 48, 48, 8, 92544)},
            19_861_149_696,
            "config.json and safetensors of hf.co/internlm/internlm2_5-20b-chat",
        ),
        Published(
            {"model_type": "internlm2", "bias": False, **_sizes(2048, 8192, 24, 16, 8, 92544)},
            1_889_110_016,
            "config.json and safetensors of hf.co/internlm/internlm2_5-1_8b-chat",
        ),
    ],
    "baichuan": [
        Published(
            {
                "model_type": "baichuan",
                "max_position_embeddings": 4096,
                "model_max_length": 4096,
                **_sizes(4096, 11008, 32, 32, None, 125696),
            },
            "7.51B",
            "arXiv:2309.10305; config.json of hf.co/baichuan-inc/Baichuan2-7B-Base",
        ),
        Published(
            {"model_type": "baichuan", "model_max_length": 4096, **_sizes(5120, 13696, 40, 40, None, 125696)},
            "13.9B",
            "arXiv:2309.10305; config.json of hf.co/baichuan-inc/Baichuan2-13B-Base",
        ),
    ],
    "qwen": [
        Published(
            {"model_type": "qwen", "kv_channels": 128, "no_bias": True, **_sizes(4096, 22016, 32, 32, None, 151936)},
            7_721_324_544,
            "config.json and safetensors of hf.co/Qwen/Qwen-7B",
        ),
        Published(
            {"model_type": "qwen", "kv_channels": 128, "no_bias": True, **_sizes(5120, 27392, 40, 40, None, 152064)},
            "14.2B",
            "config.json and size shown of hf.co/Qwen/Qwen-14B",
        ),
    ],
    "chatglm": [
        Published(_glm(28, 65024), 6_243_584_000, "config.json of hf.co/zai-org/chatglm3-6b, and what its code trains"),
        Published(
            _glm(40, 151552), 9_399_951_360, "config.json of hf.co/zai-org/glm-4-9b-chat, and what its code trains"
        ),
        Published(
            {
                "model_type": "chatglm",
                "hidden_size": 4096,
                "inner_hidden_size": 16384,
                "num_layers": 28,
                "num_attention_heads": 32,
                "max_sequence_length": 2048,
                "position_encoding_2d": True,
                "vocab_size": 130528,
                **BF16,
            },
            "6.2B",
            "arXiv:2210.02414; config.json and model card of hf.co/THUDM/chatglm-6b",
        ),
    ],
    "exaone": [
        Published(_exaone(4096, 14336, 32, 32), "7.8B", "arXiv:2408.03541"),
        Published(_exaone(2560, 7168, 30, 32, head_dim=80, tie_word_embeddings=True), "2.4B", "arXiv:2412.04862"),
        Published(_exaone(5120, 27392, 64, 40), "32B", "arXiv:2412.04862"),
    ],
    "PanguEmbedded": [
        Published(
            {"model_type": "PanguEmbedded", "bias": True, **_sizes(4096, 12800, 34, 32, 8, 153376)},
            "7B",
            "config.json and model card of openPangu-Embedded-7B (ai.gitcode.com/ascend-tribe)",
            counts="without embeddings",
        )
    ],
    "solar": [
        Published(
            {
                "model_type": "solar",
                "bskcn_1": [12, 20, 32, 44],
                "bskcn_2": [20, 32],
                "bskcn_3": [16, 24, 36, 48],
                "bskcn_4": [28, 40],
                "bskcn_tv": [0.9, 0.8],
                **_sizes(5120, 17920, 64, 40, 10, 32128),
            },
            "22B",
            "config.json and model card of hf.co/upstage/solar-pro-preview-instruct",
        )
    ],
    "orion": [
        Published(
            {"model_type": "orion", **_sizes(5120, 15360, 40, 40, 40, 84608)},
            "14B",
            "arXiv:2401.12246; config.json of hf.co/OrionStarAI/Orion-14B-Base",
        )
    ],
    "minicpm": [
        Published(
            {
                "model_type": "minicpm",
                "scale_emb": 12,
                "dim_model_base": 256,
                "scale_depth": 1.4,
                **_sizes(2304, 5760, 40, 36, 36, 122753),
            },
            2_724_880_896,
            "arXiv:2404.06395; config.json and safetensors of hf.co/openbmb/MiniCPM-2B-sft-bf16",
        )
    ],
    "mimo": [
        Published(
            {
                "model_type": "mimo",
                "attention_bias": True,
                "num_nextn_predict_layers": 1,
                "head_dim": 128,
                **_sizes(4096, 11008, 36, 32, 8, 151680),
            },
            "7.83B",
            "arXiv:2505.07608; config.json and size shown of hf.co/XiaomiMiMo/MiMo-7B-Base",
            counts="with drafts",
        )
    ],
    "phi3_v": [
        Published(
            {"model_type": "phi3_v", "img_processor": {}, "embd_layer": {}, **_sizes(3072, 8192, 32, 32, 32, 32064)},
            4_146_621_440,
            "arXiv:2404.14219; config.json and safetensors of hf.co/microsoft/Phi-3.5-vision-instruct",
        )
    ],
    "nemotron-nas": [
        Published(
            {
                "model_type": "nemotron-nas",
                "block_configs": NEMOTRON_SUPER,
                "hidden_act": "silu",
                "intermediate_size": None,
                "num_key_value_heads": None,
                "hidden_size": 8192,
                "num_hidden_layers": 80,
                "num_attention_heads": 64,
                "vocab_size": 128256,
                **BF16,
            },
            "49.9B",
            "config.json (layers by kind, not in order) of hf.co/nvidia/Llama-3_3-Nemotron-Super-49B-v1",
        )
    ],
    "deepseek": [
        Published(
            {
                "model_type": "deepseek",
                "n_routed_experts": 64,
                "n_shared_experts": 2,
                "num_experts_per_tok": 6,
                "moe_intermediate_size": 1408,
                "first_k_dense_replace": 1,
                "moe_layer_freq": 1,
                **_sizes(2048, 10944, 28, 16, 16, 102400),
            },
            16_375_728_128,
            "arXiv:2401.06066; config.json and safetensors of hf.co/deepseek-ai/deepseek-moe-16b-base",
        )
    ],
    "minimax_text_01": [
        Published(
            {
                "model_type": "minimax_text_01",
                "num_local_experts": 32,
                "num_experts_per_tok": 2,
                "head_dim": 128,
                "rotary_dim": 64,
                "shared_intermediate_size": 0,
                "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
                "postnorm": True,
                **_sizes(6144, 9216, 80, 64, 8, 200064),
            },
            "456B",
            "arXiv:2501.08313; config.json of hf.co/MiniMaxAI/MiniMax-Text-01",
        )
    ],
    "minimax_m1": [
        Published(
            {
                "model_type": "minimax_m1",
                "num_local_experts": 32,
                "num_experts_per_tok": 2,
                "head_dim": 128,
                "rotary_dim": 64,
                "shared_intermediate_size": 0,
                "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
                "postnorm": True,
                **_sizes(6144, 9216, 80, 64, 8, 200064),
            },
            456_089_655_296,
            "arXiv:2506.13585; config.json and safetensors of hf.co/MiniMaxAI/MiniMax-M1-80k",
        )
    ],
    "bailing_moe": [
        Published(
            {
                "model_type": "bailing_moe",
                "moe_intermediate_size": 1408,
                "num_experts": 64,
                "num_experts_per_tok": 6,
                "num_shared_experts": 2,
                "first_k_dense_replace": 0,
                "use_bias": False,
                "use_qkv_bias": False,
                "head_dim": 128,
                "norm_head": True,
                **_sizes(2048, 5632, 28, 16, 4, 126464),
            },
            "16.8B",
            "arXiv:2503.05139; config.json of hf.co/inclusionAI/Ling-lite",
        ),
        Published(
            {
                "model_type": "bailing_moe",
                "moe_intermediate_size": 3072,
                "num_experts": 64,
                "num_experts_per_tok": 4,
                "num_shared_experts": 1,
                "first_k_dense_replace": 0,
                "use_bias": False,
                "use_qkv_bias": False,
                "head_dim": 128,
                "norm_head": True,
                **_sizes(5376, 12288, 88, 42, 6, 126464),
            },
            "290B",
            "arXiv:2503.05139; config.json of hf.co/inclusionAI/Ling-plus",
        ),
    ],
    "arctic": [
        Published(
            {
                "model_type": "arctic",
                "num_local_experts": 128,
                "num_experts_per_tok": 2,
                "moe_layer_frequency": 1,
                "parallel_attn_mlp_res": True,
                "use_residual": True,
                **_sizes(7168, 4864, 35, 56, 8, 32000),
            },
            "480B",
            "config.json and model card of hf.co/Snowflake/snowflake-arctic-instruct",
        )
    ],
    "grok-1": [
        Published(
            {
                "model_type": "grok-1",
                "num_experts": 8,
                "num_experts_per_tok": 2,
                "tie_word_embeddings": True,
                **_sizes(6144, 32768, 64, 48, 8, 131072),
            },
            315_684_820_992,
            "sizes of github.com/xai-org/grok-1 run.py; elements of its checkpoint without int8's scales",
        )
    ],
    "step3_text": [
        Published(
            {
                "model_type": "step3_text",
                "moe_intermediate_size": 5120,
                "moe_num_experts": 48,
                "moe_top_k": 3,
                "share_expert_dim": 5120,
                "share_q_dim": 2048,
                "head_dim": 256,
                "num_attention_groups": 1,
                "moe_layers_enum": ",".join(str(i) for i in range(4, 60)),
                **_sizes(7168, 18432, 61, 64, None, 128815),
            },
            "316B",
            "arXiv:2507.19427; config.json of hf.co/stepfun-ai/step3",
        )
    ],
    "telechat": [
        Published(
            {
                "model_type": "telechat",
                "hidden_size": 4096,
                "n_layer": 30,
                "n_head": 32,
                "ffn_hidden_size": 12288,
                "vocab_size": 160256,
                **BF16,
            },
            "7B",
            "defaults of configuration_telechat.py beside the checkpoint; biases by vLLM's telechat2.py",
        )
    ],
    "xverse": [
        Published(
            {"model_type": "xverse", **_sizes(4096, 11008, 32, 32, None, 100534)},
            "7B",
            "model card of hf.co/xverse/XVERSE-7B; vLLM reads the type as Llama",
        )
    ],
    "mixformer-sequential": [
        Published(
            {
                "model_type": "mixformer-sequential",
                "architecture": {"block_cls": "parallel", "mlp": {"mlp_cls": "fused_mlp"}},
                "n_embd": 2560,
                "n_head": 32,
                "n_layer": 32,
                "n_positions": 2048,
                "rotary_dim": 32,
                "vocab_size": 51200,
                "tie_word_embeddings": False,
                **BF16,
            },
            2_779_683_840,
            "config.json and total_size, four bytes a value, of github.com/bacoco/Phi-2",
        )
    ],
    "phi3small": [
        Published(
            {
                "model_type": "phi3small",
                "ff_intermediate_size": 14336,
                "hidden_act": "gegelu",
                "hidden_size": 4096,
                "max_position_embeddings": 8192,
                "num_attention_heads": 32,
                "num_hidden_layers": 32,
                "num_key_value_heads": 8,
                "vocab_size": 100352,
                "dense_attention_every_n_layers": 2,
                "blocksparse_block_size": 64,
                "blocksparse_num_local_blocks": 16,
                "blocksparse_vert_stride": 8,
                "attention_bias": False,
                **BF16,
            },
            "7.39B",
            "config.json and model card of hf.co/microsoft/Phi-3-small-8k-instruct",
        )
    ],
    "openelm": [
        Published(
            {
                "model_type": "openelm",
                "activation_fn_name": "swish",
                "ffn_dim_divisor": 256,
                "ffn_multipliers": [
                    0.5,
                    0.63,
                    0.76,
                    0.89,
                    1.02,
                    1.15,
                    1.28,
                    1.41,
                    1.54,
                    1.67,
                    1.8,
                    1.93,
                    2.06,
                    2.19,
                    2.31,
                    2.44,
                    2.57,
                    2.7,
                    2.83,
                    2.96,
                    3.09,
                    3.22,
                    3.35,
                    3.48,
                    3.61,
                    3.74,
                    3.87,
                    4.0,
                ],
                "ffn_with_glu": True,
                "head_dim": 64,
                "max_context_length": 2048,
                "model_dim": 2048,
                "normalize_qk_projections": True,
                "num_gqa_groups": 4,
                "num_kv_heads": [4] * 3 + [5] * 7 + [6] * 8 + [7] * 6 + [8] * 4,
                "num_query_heads": [16] * 3 + [20] * 7 + [24] * 8 + [28] * 6 + [32] * 4,
                "num_transformer_layers": 28,
                "qkv_multipliers": [0.5, 1.0],
                "rope_freq_constant": 10000,
                "rope_max_length": 4096,
                "share_input_output_layers": True,
                "vocab_size": 32000,
                **BF16,
            },
            1_079_891_456,
            "config.json and model card of hf.co/apple/OpenELM-1_1B",
        )
    ],
    "plamo": [
        Published(
            {
                "model_type": "plamo",
                "n_shared_head": 8,
                "max_position_embeddings": 4096,
                "tie_word_embeddings": False,
                **_sizes(5120, 16640, 40, 40, None, 50432),
            },
            "13B",
            "config.json and model card of hf.co/pfnet/plamo-13b",
        )
    ],
    "plamo2": [
        Published(
            {
                "model_type": "plamo2",
                "hidden_size_per_head": 128,
                "attention_window_size": 2048,
                "mamba_d_state": 64,
                "mamba_d_conv": 4,
                "mamba_num_heads": 32,
                "mamba_step": 2,
                "mamba_chunk_size": 256,
                "mamba_enabled": True,
                "tie_word_embeddings": True,
                **_sizes(2048, 8192, 16, 16, 1, 100000),
            },
            1_291_441_920,
            "config.json and tensors of hf.co/pfnet/plamo-2-1b; mixers by mlx-lm's plamo2.py",
        )
    ],
    "ouro": [
        Published(
            {
                "model_type": "ouro",
                "head_dim": 128,
                "total_ut_steps": 4,
                "max_position_embeddings": 65536,
                "tie_word_embeddings": False,
                **_sizes(2048, 5632, 24, 16, 16, 49152),
            },
            "1.4B",
            "config.json and model card of hf.co/ByteDance/Ouro-1.4B",
        )
    ],
    "rwkv7": [
        Published(
            {
                "model_type": "rwkv7",
                "hidden_size": width,
                "intermediate_size": 4 * width,
                "num_hidden_layers": layers,
                "head_dim": 64,
                "decay_low_rank_dim": rank,
                "a_low_rank_dim": rank,
                "v_low_rank_dim": value,
                "gate_low_rank_dim": gate,
                "vocab_size": 65536,
                "tie_word_embeddings": False,
                **BF16,
            },
            total,
            "arXiv:2503.14456, table of the World models, and its formula of parameters",
        )
        for width, layers, rank, value, gate, total in (
            (768, 12, 64, 32, 128, 191_034_624),
            (1024, 24, 64, 32, 128, 450_767_872),
            (2048, 24, 96, 64, 256, 1_527_404_544),
            (2560, 32, 96, 64, 320, 2_947_735_040),
        )
    ],
    "smallthinker": [
        Published(
            {
                "model_type": "smallthinker",
                "hidden_size": 1536,
                "head_dim": 128,
                "moe_ffn_hidden_size": 768,
                "moe_num_primary_experts": 32,
                "moe_num_active_primary_experts": 4,
                "num_attention_heads": 12,
                "num_hidden_layers": 32,
                "num_key_value_heads": 2,
                "rope_layout": [1] * 32,
                "sliding_window_layout": [0] * 32,
                "sliding_window_size": 4096,
                "vocab_size": 151936,
                **BF16,
            },
            "4B",
            "config.json and model card of hf.co/PowerInfer/SmallThinker-4BA0.6B-Instruct",
        )
    ],
    "Klear": [
        Published(
            {
                "model_type": "Klear",
                "moe_intermediate_size": 896,
                "num_experts": 256,
                "num_experts_per_tok": 8,
                "n_shared_experts": 1,
                "mlp_only_layers": [],
                "decoder_sparse_step": 1,
                **_sizes(2048, 7168, 32, 32, 4, 151936),
            },
            "46B",
            "model card of hf.co/Kwai-Klear/Klear-46B-A2.5B-Instruct; layers by mlx-lm's Klear.py",
        )
    ],
    "PanguProMoE": [
        Published(
            {
                "model_type": "PanguProMoE",
                "moe_intermediate_size": 1344,
                "shared_expert_intermediate_size": 5376,
                "num_experts": 64,
                "num_experts_per_tok": 8,
                **_sizes(5120, 1344, 48, 40, 8, 153376),
            },
            "72B",
            "arXiv:2505.21411; layers by vllm-ascend's pangu_moe.py",
        )
    ],
}
