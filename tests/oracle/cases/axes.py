"""What a case is, and the axes that many types share.

A case is a small config as published ones look, and axes: for a key, the values it may take besides. Every axis changes
what the real code builds or runs, or might seem to. `ABSENT` leaves the key out, so that the class's default holds.
A tuple of keys is one axis: those keys only make sense together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any, Final

ABSENT: Final[EllipsisType] = ...

Axes = Mapping[str | tuple[str, ...], Sequence[Any]]


@dataclass(frozen=True)
class Case:
    """A base config without its model type, and what may vary in it."""

    base: Mapping[str, Any]
    axes: Axes = field(default_factory=dict)


def without(*keys: str | tuple[str, ...], of: Mapping[Any, Any]) -> dict[Any, Any]:
    """The sizes or axes but for those keys."""
    return {key: value for key, value in of.items() if key not in keys}


FLAG = (ABSENT, False, True)
TIED: Axes = {"tie_word_embeddings": FLAG}
WIDTHS: Axes = {
    "vocab_size": (1000, 517),
    "hidden_size": (128, 192),
    "intermediate_size": (352, 96),
    "num_attention_heads": (8, 4),
    **TIED,
}
DEPTH: Axes = {"num_hidden_layers": (1, 3)}
KV: Axes = {"num_key_value_heads": (1, 2, 4)}
KV_OR_ALL: Axes = {"num_key_value_heads": (1, 2, 4, None, ABSENT)}  # null or absent: as many as there are heads
HEAD: Axes = {"head_dim": (16, 40)}
HEAD_OR_DEFAULT: Axes = {"head_dim": (16, 40, ABSENT)}
HEAD_OR_NULL: Axes = {"head_dim": (16, 40, None, ABSENT)}
ATTENTION_BIAS: Axes = {"attention_bias": FLAG}
MLP_BIAS: Axes = {"mlp_bias": FLAG}
WINDOW: Axes = {"sliding_window": (ABSENT, None, 8, 4096)}
PARTIAL_ROTARY: Axes = {"partial_rotary_factor": (ABSENT, 0.5)}

SIZES = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
}
MULTI_HEAD_SIZES = without("num_key_value_heads", of=SIZES)
DENSE: Axes = {**WIDTHS, **DEPTH}

WINDOWED_SIZES = {**SIZES, "sliding_window": 8}
WINDOWED: Axes = {
    "layer_types": (ABSENT, ["sliding_attention", "full_attention", "full_attention"]),
    "sliding_window": (8, 4096),
}
WINDOWED_OR_DEFAULT: Axes = {**WINDOWED, "sliding_window": (ABSENT, 8, 4096)}

# Experts. Widths are multiples of 8: the grouped matmul wants rows of 16 bytes.

LOCAL_EXPERTS = {"num_local_experts": 8, "num_experts_per_tok": 2}
LOCAL: Axes = {"num_local_experts": (8, 6), "num_experts_per_tok": (1, 2)}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
NUMBERED: Axes = {"num_experts": (8, 6), "num_experts_per_tok": (1, 2), "moe_intermediate_size": (48, 80)}
SPARSE_LAYERS: Axes = {"mlp_only_layers": (ABSENT, [], [0, 2]), "decoder_sparse_step": (ABSENT, 1, 2)}
SHARED_EXPERT: Axes = {"shared_expert_intermediate_size": (64, 200)}

ROUTED_EXPERTS = {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
}
ROUTED: Axes = {
    "n_routed_experts": (8, 12),
    "num_experts_per_tok": (1, 3),
    "moe_intermediate_size": (48, 80),
    "n_shared_experts": (1, 2),
}
FINE_EXPERTS = {**EXPERTS, "num_shared_experts": 1}
FINE: Axes = {**NUMBERED, "num_shared_experts": (1, 2)}
MLP_LAYER_TYPES: Axes = {"mlp_layer_types": (ABSENT, ["sparse", "dense", "sparse"])}
DENSE_FIRST: Axes = {"first_k_dense_replace": (ABSENT, 0, 1, 3)}

LATENT_SIZES = {
    **SIZES,
    "num_key_value_heads": 8,
    "q_lora_rank": 56,
    "kv_lora_rank": 40,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
}
LATENT: Axes = {
    "vocab_size": (1000, 517),
    "hidden_size": (128, 192),
    "q_lora_rank": (56, None),
    "kv_lora_rank": (40, 72),
    "qk_nope_head_dim": (24, 48),
    "qk_rope_head_dim": (16, 8),
    "v_head_dim": (32, 24),
    "num_hidden_layers": (3, 4),
    **ATTENTION_BIAS,
    **TIED,
}
