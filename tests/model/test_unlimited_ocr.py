"""Unlimited-OCR's decoder, by hand: DeepSeekMoE of twelve layers, the first of them dense."""

import roofline as rl

TEXT = {
    "model_type": "unlimited_ocr_text", "hidden_size": 1280, "num_hidden_layers": 12, "num_attention_heads": 10,
    "num_key_value_heads": 10, "intermediate_size": 6848, "moe_intermediate_size": 896, "n_routed_experts": 64,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "vocab_size": 129280,
    "hidden_act": "silu", "tie_word_embeddings": False, "sliding_window": 128,
}  # fmt: skip


def test_parameters_of_every_part() -> None:
    width, vocabulary, layers = 1280, 129_280, 12
    attention, norms = 4 * width**2, 2 * width
    dense = 3 * width * 6848
    sparse = (64 + 2) * 3 * width * 896 + 64 * width
    by_hand = 2 * vocabulary * width + width + layers * (attention + norms) + dense + 11 * sparse
    model = rl.load(TEXT)
    assert model.parameters == by_hand
    assert any("sliding_window = 128 was not used" in line for line in model.warnings)
