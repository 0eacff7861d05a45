"""The default config of each model type, as a `config.json` holds it, with what the real code says of it.

`default.json` keeps the figures of transformers 5.23.0 and torch 2.13.0, so that a test can use them where neither is
installed; `real.py` says what is counted. Of a multimodal wrapper only the text part is. To write the file anew, run
`python -m oracle.defaults` in the folder `tests`.
"""

import json
from pathlib import Path
from typing import Any, TypedDict

FILE = Path(__file__).with_name("default.json")
SHAPES = {"1x64": (1, 64), "2x128": (2, 128)}  # sequences x tokens

# What the bare defaults of a type lack to be built, or counted, and why.
LACKING: dict[str, tuple[str, dict[str, Any]]] = {
    "chameleon": (
        "which token is which part of an image is not set",
        {"vocabulary_map": {"<image>": 8711}},
    ),
    "cohere_compass_text": (
        "which layers have rotary positions is not set",
        {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
    ),
    "dbrx": ("the settings of attention are not set", {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8}}),
    "deepseek_ocr2_text": (
        "which layers hold experts, and how many a token has, is not set; 1407 wide experts are refused",
        {"num_experts_per_tok": 6, "mlp_layer_types": ["dense"] + ["sparse"] * 31, "moe_intermediate_size": 1408},
    ),
    "deepseek_v2": (
        "how many experts a token has is not set; and 1407 wide experts are refused by the grouped matmul",
        {"num_experts_per_tok": 6, "moe_intermediate_size": 1408},
    ),
    "dots1": (
        "how many experts there are, and how many a token has, is not set",
        {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    ),
    "glm4v_text": (
        "half of each head is rotated, which is not set",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
    ),
    "glm_image_text": (
        "half of each head is rotated, which is not set",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
    ),
    "glm4v_moe_text": ("the head size is not set, and hidden_size / heads is not whole", {"head_dim": 128}),
    "hunyuan_v1_dense": ("the head size is not set, and is not derived", {"head_dim": 128}),
    "hunyuan_v1_moe": (
        "the head size is not set, and is not derived",
        {"head_dim": 128, "num_experts": 16, "moe_topk": 4, "intermediate_size": 3072},
    ),
    "hunyuan_vl_text": (
        "the head size, and how it is shared out over time, height and width, is not set",
        {
            "head_dim": 128,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [16, 16, 16, 16]},
        },
    ),
    "lfm2_moe": ("which layers attend is not set", {"layer_types": ["conv", "full_attention"] * 16}),
    "ministral": ("the head size is not set, and is not derived", {"head_dim": 128}),
    "qwen4_exp_text": (
        "the sizes of the indexer are not set",
        {
            "indexer_n_heads": 16,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 256,
            "indexer_budget": 2048,
            "indexer_compress_ratio": 16,
        },
    ),
    "qwen3_omni_moe_text": ("the head size is not set, and hidden_size / heads is odd", {"head_dim": 128}),
    "nemotron": ("the number of key and value heads is not set, and is not derived", {"num_key_value_heads": 8}),
}

# What of the defaults of a type is made smaller: experts that are looked up by the router's values run in memory.
SMALLER: dict[str, dict[str, Any]] = {
    "glm5_next_text": {
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "n_routed_experts": 16,
        "vocab_size": 8192,
        "pad_token_id": 0,
    },
    "qwen4_exp_text": {
        "hidden_size": 512,
        "num_hidden_layers": 4,
        "num_experts": 32,
        "vocab_size": 8192,
        "ple_layer_ids": [1, 2],
        "ngram_vocab_size_base": 20000,
        "eos_token_id": 0,
    },
    "longcat_flash": {
        "hidden_size": 1024,
        "num_layers": 2,
        "n_routed_experts": 16,
        "zero_expert_num": 8,
        "vocab_size": 8192,
        "ffn_hidden_size": 512,
        "expert_ffn_hidden_size": 256,
    },
    "step3p5": {
        "hidden_size": 1024,
        "num_hidden_layers": 6,
        "n_routed_experts": 16,
        "vocab_size": 8192,
    },
    "jetmoe": {"hidden_size": 512, "num_hidden_layers": 3, "intermediate_size": 1024, "vocab_size": 8192},
}


class Figures(TypedDict):
    """One model type: a config and its exact figures."""

    config: dict[str, Any]
    parameters: int
    flops: dict[str, int]


def load() -> dict[str, Figures]:
    """The kept figures by model type."""
    figures: dict[str, Figures] = json.loads(FILE.read_text())
    return figures


def config(model_type: str, *, bare: bool = False) -> dict[str, Any]:
    """The default config of that type, with what it lacks unless `bare`."""
    from transformers import AutoConfig, PreTrainedConfig

    common = PreTrainedConfig().to_dict().keys()
    lacking = {} if bare or model_type not in LACKING else LACKING[model_type][1]
    lacking = {**lacking, **SMALLER.get(model_type, {})}
    encoded = json.loads(AutoConfig.for_model(model_type, **lacking).to_json_string(use_diff=False))
    specific = _without(encoded, common - {"model_type", "tie_word_embeddings"})
    assert isinstance(specific, dict)
    return specific


def _without(value: Any, keys: set[str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without(inner, keys) for key, inner in sorted(value.items()) if key not in keys}


def _figures(model_type: str) -> Figures:
    from oracle import real

    described = config(model_type)
    return {
        "config": described,
        "parameters": real.parameters(described, text_only=True),
        "flops": {name: real.matmul_flops(described, *shape) for name, shape in SHAPES.items()},
    }


if __name__ == "__main__":
    from oracle import cases

    lines = (f"{json.dumps(model_type)}: {json.dumps(_figures(model_type))}" for model_type in cases.TYPES)
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
