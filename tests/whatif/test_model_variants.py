"""A varied model is the one its config would make."""

from __future__ import annotations

import re

import pytest

import roofline as rl
from roofline.model.model import Model
from roofline.model.modules import Norm
from roofline.whatif.query.model_variants import (
    scaled,
    with_experts_per_token,
    with_inner,
    with_kv,
    with_layers,
    with_width,
)

LLAMA = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "vocab_size": 1000, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "dtype": "bfloat16",
    "tie_word_embeddings": False,
}  # fmt: skip
MIXTURE = {
    **LLAMA, "model_type": "qwen3_moe", "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 256,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
LATENT = {
    "model_type": "deepseek_v3", "hidden_size": 512, "intermediate_size": 1024, "moe_intermediate_size": 256,
    "vocab_size": 1000, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 256,
    "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "n_routed_experts": 16,
    "num_experts_per_tok": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
    "dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def same(one: Model | None, other: Model) -> None:
    """Equal in everything but the blocks' order of making."""
    assert one is not None
    for step in (rl.prefill(3, 100), rl.decode(3, 100)):
        a, b = rl.analyze(one, step), rl.analyze(other, step)
        assert (a.flops, a.bytes) == (b.flops, b.bytes)
    assert (one.parameters, one.kv_bytes(1)) == (other.parameters, other.kv_bytes(1))
    assert one.blocks == other.blocks


@pytest.mark.parametrize("config", [LLAMA, MIXTURE])
def test_heads_width_layers(config: dict[str, object]) -> None:
    model = rl.load(config)
    same(with_kv(model, 2), rl.load({**config, "num_key_value_heads": 2}))
    same(with_width(model, 0.5), rl.load({**config, "hidden_size": 256}))
    same(with_layers(model, 2), rl.load({**config, "num_hidden_layers": 2}))
    assert with_kv(model, 3) is None


def test_feed_forward_and_experts() -> None:
    same(with_inner(rl.load(LLAMA), 1.25), rl.load({**LLAMA, "intermediate_size": 1280}))
    same(with_inner(rl.load(MIXTURE), 0.5), rl.load({**MIXTURE, "moe_intermediate_size": 128}))
    same(with_experts_per_token(rl.load(MIXTURE), 2), rl.load({**MIXTURE, "num_experts_per_tok": 2}))


def test_latents() -> None:
    model = rl.load(LATENT)
    same(with_kv(model, 2), rl.load({**LATENT, "kv_lora_rank": 64}))
    same(with_width(model, 0.5), rl.load({**LATENT, "hidden_size": 256}))
    half = {"intermediate_size": 512, "moe_intermediate_size": 128}
    same(with_inner(model, 0.5), rl.load({**LATENT, **half}))


def test_fewer_layers_keep_the_mixture_of_kinds() -> None:
    names = [b.name for b in with_layers(rl.load("google/gemma-3-12b-it"), 8).layers]
    assert len(names) == 8
    assert set(names) == {"sliding dense", "dense"}


def test_a_scan_has_no_keys_to_halve() -> None:
    assert with_kv(rl.load("state-spaces/mamba-2.8b-hf"), 2) is None


def test_sizes_keep_their_grain() -> None:
    assert (scaled(4096, 0.75), scaled(1000, 0.75), scaled(128, 0.25)) == (3072, 750, 32)


@pytest.mark.parametrize("name", ["allenai/OLMo-2-0425-1B", "microsoft/bitnet-b1.58-2B-4T"])
def test_norms_of_the_heads_stay_as_wide_as_the_heads(name: str) -> None:
    def norms(model: Model) -> dict[str, int]:
        return {x.name: x.width for b, _ in model.blocks for x in b.modules if isinstance(x, Norm)}

    model = rl.load(name)
    before, after = norms(model), norms(with_width(model, 0.5))
    inside = {"q_norm", "k_norm", "attn_sub_norm"} & set(before)
    assert inside
    assert all(after[n] == before[n] for n in inside)
    assert all(after[n] == before[n] // 2 for n in set(before) - inside - {"ffn_sub_norm"})


@pytest.mark.parametrize("name", ["MiniMaxAI/MiniMax-Text-01-hf", "deepseek-ai/DeepSeek-V4-Flash", "gpt2"])
def test_the_inner_size_is_the_feed_forwards_alone(name: str) -> None:
    """What attention, gates between streams, embedding and head do is what it was."""
    model = rl.load("openai-community/gpt2" if name == "gpt2" else name)
    a, b = (rl.analyze(x, rl.prefill(1, 64)) for x in (model, with_inner(model, 0.5)))
    changed = {c.name for c, d in zip(a.ops, b.ops, strict=True) if c.flops != d.flops}
    assert changed
    assert all(re.match(r"(shared_)?(gate_up|up|down|act|gate)|experts|mlp", n) for n in changed), changed


def test_a_norm_inside_the_feed_forward_is_as_wide_as_it() -> None:
    model = rl.load("microsoft/bitnet-b1.58-2B-4T")
    found = {x.name: x.width for b, _ in with_inner(model, 0.5).blocks for x in b.modules if isinstance(x, Norm)}
    assert found["ffn_sub_norm"] == 6912 // 2
