"""Towers of models whose code comes with the checkpoint: the parameters of the published checkpoints, to the digit."""

from __future__ import annotations

from typing import Any

import pytest

import roofline as rl

INTERN: dict[str, Any] = {
    "model_type": "intern_vit_6b", "hidden_size": 1024, "image_size": 448, "intermediate_size": 4096,
    "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "qk_normalization": False, "qkv_bias": True,
    "norm_type": "layer_norm",
}  # fmt: skip
INTERNLM2: dict[str, Any] = {
    "model_type": "internlm2", "architectures": ["InternLM2ForCausalLM"], "vocab_size": 92553, "bias": False,
    "num_key_value_heads": 8,
}  # fmt: skip


def internvl(vision: dict[str, Any], **text: int) -> dict[str, Any]:
    return {
        "model_type": "internvl_chat", "downsample_ratio": 0.5, "vision_config": vision,
        "llm_config": {**INTERNLM2, **text},
    }  # fmt: skip


LLAVA: dict[str, Any] = {
    "model_type": "llava_llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
    "num_key_value_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000, "max_position_embeddings": 4096,
    "mm_hidden_size": 1024, "mm_projector_type": "mlp2x_gelu", "mm_vision_tower": "openai/clip-vit-large-patch14-336",
    "mm_patch_merge_type": "spatial_unpad",
}  # fmt: skip
SIGLIP = {
    "model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 980, "intermediate_size": 4304,
    "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14,
}  # fmt: skip
QWEN2_7B = {
    "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28, "num_hidden_layers": 28,
    "num_key_value_heads": 4,
}  # fmt: skip
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "InternVL2-2B": (
        internvl(INTERN, hidden_size=2048, intermediate_size=8192, num_attention_heads=16, num_hidden_layers=24),
        2_205_754_368,
    ),
    "InternVL2-8B": (
        internvl(INTERN, hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_hidden_layers=32),
        8_075_365_376,
    ),
    "InternVL2-26B": (
        internvl(
            {**INTERN, "hidden_size": 3200, "intermediate_size": 12800, "num_attention_heads": 25,
             "num_hidden_layers": 45, "norm_type": "rms_norm", "qk_normalization": True, "qkv_bias": False},
            hidden_size=6144, intermediate_size=16384, num_attention_heads=48, num_hidden_layers=48,
        ),
        25_514_186_112,
    ),
    "MiniCPM-V-2": (
        {
            "model_type": "minicpmv", "hidden_size": 2304, "intermediate_size": 5760, "num_attention_heads": 36,
            "num_key_value_heads": 36, "num_hidden_layers": 40, "vocab_size": 122753, "scale_depth": 1.4,
            "scale_emb": 12, "dim_model_base": 256, "query_num": 64, "image_size": 448, "drop_vision_last_layer": True,
            "vision_encoder": "vit_so400m_patch14_siglip_384.webli", "tie_word_embeddings": False,
            "max_position_embeddings": 4096,
        },
        3_434_965_792,
    ),
    "MiniCPM-V-2_6": (
        {
            "model_type": "minicpmv", "version": 2.6, **QWEN2_7B, "vocab_size": 151666, "query_num": 64,
            "image_size": 448, "drop_vision_last_layer": False, "vision_config": SIGLIP, "tie_word_embeddings": False,
            "slice_config": {"max_slice_nums": 9}, "max_position_embeddings": 32768,
        },
        8_099_175_152,
    ),
    "Qwen-VL": (
        {
            "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128, "no_bias": True,
            "num_attention_heads": 32, "num_hidden_layers": 32, "seq_length": 8192, "vocab_size": 151936,
            "tie_word_embeddings": False,
            "visual": {
                "heads": 16, "image_size": 448, "layers": 48, "mlp_ratio": 4.9231, "output_dim": 4096, "patch_size": 14,
                "width": 1664,
            },
        },
        9_656_935_168,
    ),
    "DeepSeek-OCR": (
        {
            "model_type": "deepseek_vl_v2", "vocab_size": 129280,
            "language_config": {
                "model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 1280, "intermediate_size": 6848,
                "kv_lora_rank": None, "lm_head": True, "max_position_embeddings": 8192, "moe_intermediate_size": 896,
                "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 10,
                "num_experts_per_tok": 6, "num_hidden_layers": 12, "num_key_value_heads": 10, "q_lora_rank": None,
                "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "topk_group": 1, "topk_method": "greedy",
                "use_mla": False, "v_head_dim": 0, "vocab_size": 129280,
            },
            "projector_config": {"input_dim": 2048, "n_embed": 1280, "projector_type": "linear"},
            "vision_config": {
                "image_size": 1024, "model_name": "deeplip_b_l",
                "width": {
                    "clip-l-14-224": {"heads": 16, "image_size": 224, "layers": 24, "patch_size": 14, "width": 1024},
                    "sam_vit_b": {
                        "downsample_channels": [512, 1024], "global_attn_indexes": [2, 5, 8, 11], "heads": 12,
                        "layers": 12, "width": 768,
                    },
                },
            },
        },
        3_336_106_240,
    ),
    "dots.ocr": (
        {
            "model_type": "dots_ocr", "hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12,
            "num_hidden_layers": 28, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": False,
            "max_position_embeddings": 131072, "vision_config": {"embed_dim": 1536, "hidden_size": 1536},
        },
        3_039_179_264,
    ),
    "Phi-3.5-vision": (
        {
            "model_type": "phi3_v", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32,
            "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32064, "sliding_window": 262144,
            "max_position_embeddings": 131072, "img_processor": {"image_dim_out": 1024},
            "embd_layer": {"use_hd_transform": True, "projection_cls": "mlp"},
        },
        4_146_621_440,
    ),
    "LLaVA-1.6-Vicuna-7B": (LLAVA, 7_062_906_880),
    "LLaVA-OneVision-7B": (
        {
            **LLAVA, **QWEN2_7B, "model_type": "llava_qwen", "vocab_size": 152064, "mm_hidden_size": 1152,
            "mm_vision_tower": "google/siglip-so400m-patch14-384",
        },
        8_030_348_832,
    ),
    "Molmo-7B-D": (
        {
            "model_type": "molmo", **QWEN2_7B, "intermediate_size": 37888, "embedding_size": 152064,
            "vocab_size": 152064, "qkv_bias": True, "layer_norm_type": "rms", "weight_tying": False,
            "max_position_embeddings": 4096,
        },
        8_021_025_280,
    ),
    "Phi-4-multimodal-instruct": (
        {"architectures": ["Phi4MMForCausalLM"],
         "model_type": "phi4mm",
         "hidden_size": 3072,
         "intermediate_size": 8192,
         "num_hidden_layers": 32,
         "num_attention_heads": 24,
         "num_key_value_heads": 8,
         "vocab_size": 200064,
         "tie_word_embeddings": True,
         "partial_rotary_factor": 0.75,
         "torch_dtype": "bfloat16",
         "img_processor": None,
         "audio_processor": {"config": {"attention_dim": 1024,
                                        "attention_heads": 16,
                                        "linear_units": 1536,
                                        "num_blocks": 24,
                                        "input_size": 80,
                                        "kernel_size": 3,
                                        "ext_pw_out_channel": 1024,
                                        "time_reduction": 8,
                                        "nemo_conv_settings": {"conv_channels": 1024},
                                        "relative_attention_bias_args": {"t5_bias_max_distance": 500,
                                                                         "type": "t5"}},
                             "name": "cascades"},
         "embd_layer": {"audio_embd_layer": {"compression_rate": 8},
                        "embedding_cls": "image_audio",
                        "image_embd_layer": {"crop_size": 448}},
         "speech_lora": {"dp": 0.01, "layer": "x", "lora_alpha": 640, "r": 320},
         "vision_lora": {"dp": 0.0, "layer": "x", "lora_alpha": 512, "r": 256}},
        5_574_460_384,
    ),
    "cogvlm-chat-hf": (
        {"architectures": ["CogVLMForCausalLM"],
         "model_type": "cogvlm",
         "hidden_size": 4096,
         "intermediate_size": 11008,
         "num_hidden_layers": 32,
         "num_attention_heads": 32,
         "vocab_size": 32000,
         "hidden_act": "silu",
         "torch_dtype": "bfloat16",
         "vision_config": {"dropout_prob": 0.0,
                           "hidden_act": "gelu",
                           "hidden_size": 1792,
                           "image_size": 490,
                           "in_channels": 3,
                           "intermediate_size": 15360,
                           "layer_norm_eps": 1e-06,
                           "num_heads": 16,
                           "num_hidden_layers": 63,
                           "num_positions": 1226,
                           "patch_size": 14}},
        17_639_685_376,
    ),
    "cogvlm2-llama3-chat-19B": (
        {"architectures": ["CogVLMForCausalLM"],
         "hidden_act": "silu",
         "hidden_size": 4096,
         "intermediate_size": 14336,
         "num_hidden_layers": 32,
         "num_attention_heads": 32,
         "num_key_value_heads": 8,
         "vocab_size": 128256,
         "num_multi_query_heads": 8,
         "torch_dtype": "bfloat16",
         "vision_config": {"dropout_prob": 0.0,
                           "hidden_act": "gelu",
                           "hidden_size": 1792,
                           "image_size": 1344,
                           "in_channels": 3,
                           "intermediate_size": 15360,
                           "layer_norm_eps": 1e-06,
                           "num_heads": 16,
                           "num_hidden_layers": 63,
                           "num_positions": 9217,
                           "patch_size": 14}},
        19_503_105_280,
    ),
    "PaddleOCR-VL": (
        {"model_type": "paddleocr_vl",
         "architectures": ["PaddleOCRVLForConditionalGeneration"],
         "hidden_size": 1024,
         "intermediate_size": 3072,
         "num_hidden_layers": 18,
         "num_attention_heads": 16,
         "num_key_value_heads": 2,
         "head_dim": 128,
         "vocab_size": 103424,
         "tie_word_embeddings": False,
         "use_bias": False,
         "torch_dtype": "bfloat16",
         "vision_config": {"hidden_size": 1152,
                           "image_size": 384,
                           "intermediate_size": 4304,
                           "num_attention_heads": 16,
                           "num_hidden_layers": 27,
                           "patch_size": 14,
                           "spatial_merge_size": 2}},
        958_588_736,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_published_checkpoint(name: str) -> None:
    config, parameters = PUBLISHED[name]
    model = rl.load(config)
    assert model.parameters == parameters
    assert {"vision", "projector"} <= {tower.name for tower in model.towers} <= {"vision", "projector", "audio"}
    assert model.not_counted == ()
    text = rl.load(config, text_only=True)
    assert text.parameters == parameters - sum(tower.parameters for tower in model.towers)


def test_minicpm_o_also_hears() -> None:
    """MiniCPM-o 2.6: Whisper-medium's encoder has 307,216,384 parameters (openai/whisper-medium, its encoder alone)."""
    config, parameters = PUBLISHED["MiniCPM-V-2_6"]
    whisper = {
        "model_type": "whisper", "d_model": 1024, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096,
        "encoder_layers": 24, "num_mel_bins": 80, "max_source_positions": 1500,
    }  # fmt: skip
    more = rl.load({**config, "model_type": "minicpmo", "audio_config": whisper})
    projector = 1024 * 3584 + 3584 + 3584 * 3584 + 3584
    assert more.parameters - parameters == 307_216_384 + projector


def test_a_tower_that_is_not_known_is_named() -> None:
    with pytest.raises(rl.InputError, match=r"mm_vision_tower: expected one of .*, got 'org/tower'"):
        rl.load({**LLAVA, "mm_vision_tower": "org/tower"})


def test_a_version_that_is_not_known_is_named() -> None:
    config, _ = PUBLISHED["MiniCPM-V-2_6"]
    with pytest.raises(rl.InputError, match=r"version: expected one of 2\.0, 2\.5, 2\.6, 4\.0, 4\.5, got '3\.0'"):
        rl.load({**config, "version": 3.0})


def test_images_take_time() -> None:
    """One tile of 448 pixels: 1,025 positions of InternViT-300M, twice its parameters each, and attention."""
    model = rl.load(PUBLISHED["InternVL2-8B"][0])
    seen = rl.analyze(model.alone("images"), rl.prefill(1, 1).reading("images", 1025), counting="torch").flops
    linear = 2 * 1025 * 24 * 12 * 1024**2
    attention = 24 * 4 * 1025**2 * 1024
    patches, projector = 2 * 1024 * 588 * 1024, 2 * 256 * (4096 * 4096 + 4096 * 4096)
    assert seen == linear + attention + patches + projector


def test_janus_by_hand() -> None:
    """SigLIP-L with its pool, DeepSeek-LLM 7B, two projectors, LlamaGen's VQ-16 of 71,883,403 values, a head."""
    part = {"cls": "MlpProjector", "params": {"depth": 2, "input_dim": 1024, "n_embed": 4096}}
    drawn = {"params": {"image_token_embed": 4096, "image_token_size": 16384, "n_embed": 4096}}
    model = rl.load({
        "model_type": "multi_modality", "aligner_config": part, "gen_head_config": drawn,
        "gen_aligner_config": {"params": {"depth": 2, "input_dim": 8, "n_embed": 4096}},
        "gen_vision_config": {"params": {"image_token_size": 16384, "n_embed": 8}},
        "vision_config": {"params": {"model_name": "siglip_large_patch16_384"}},
        "language_config": {
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
            "num_hidden_layers": 30, "num_key_value_heads": 32, "vocab_size": 102400,
        },
    })  # fmt: skip
    book = 71_883_403 + 16384 * 8 + (8 + 1 + 4096 + 1) * 4096 + (4096 + 1) * 4096 + (4096 + 1) * 16384
    assert model.parts["image_writer"] == pytest.approx(book, rel=2e-3)
    assert model.parts["text"] == 6_910_365_696
    assert model.served.parts == {k: n for k, n in model.parts.items() if k != "image_writer"}


def test_a_language_model_that_is_named_stands_in_the_catalog() -> None:
    """Ultravox's files hold an encoder and a projector; `text_model_id` says which model they are beside."""
    config = {
        "model_type": "ultravox", "text_model_id": "meta-llama/Llama-3.1-8B-Instruct", "audio_model_id": None,
        "audio_config": {"d_model": 1280, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "encoder_layers": 32},
    }  # fmt: skip
    assert rl.load(config).parts["text"] == rl.load("meta-llama/Llama-3.1-8B").parameters
    with pytest.raises(rl.InputError, match="text_model_id"):
        rl.load({**config, "text_model_id": "someone/else"})
