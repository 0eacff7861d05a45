"""Models whose code comes with the checkpoint have the totals that were published; nothing of their config is left."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

import roofline as rl
from folded import folded
from oracle.cases.remote import PUBLISHED, Published
from roofline.model.families.registry import FAMILIES
from roofline.model.model import Model

MODELS = [pytest.param(each, id=f"{name}-{each.total}") for name, models in PUBLISHED.items() for each in models]
SMALL: Mapping[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128, "torch_dtype": "bfloat16",
}  # fmt: skip


def counted(model: Model, published: Published) -> int:
    """The parameters that the published total counts."""
    if published.counts == "with drafts":
        return model.parameters + sum(block.parameters for block in model.drafts)
    if published.counts == "without embeddings":
        return model.parameters - 2 * model.vocab * model.hidden
    return model.parameters


@folded("published", MODELS)
def test_the_total_is_the_published_one(published: Published) -> None:
    total = counted(rl.load(published.config), published)
    if isinstance(published.total, int):
        assert total == published.total
        return
    size = re.fullmatch(r"([\d.]+)B", published.total)
    assert size
    digits = len(size[1].partition(".")[2])
    step = 1 if digits or not size[1].endswith("0") else 10  # a size such as 480B is rounded to tens
    assert abs(total / 1e9 - float(size[1])) <= step * 10**-digits / 2


@folded("published", MODELS)
def test_every_key_of_its_config_is_understood_and_a_step_runs(published: Published) -> None:
    model = rl.load(published.config)
    assert model.warnings == ()
    assert published.source
    assert rl.analyze(model, rl.decode(batch=2, context=100)).flops > 2 * (
        model.active_parameters - 2 * model.vocab * model.hidden
    )


def test_every_published_type_is_a_family() -> None:
    assert sorted({*PUBLISHED} - {*FAMILIES}) == []


# -- layers found by search ----------------------------------------------------------------------------------------
def searched(attention: dict[str, Any], ffn: dict[str, Any], **more: Any) -> dict[str, Any]:
    block = {"attention": attention, "ffn": ffn}
    return {**SMALL, "model_type": "nemotron-nas", "num_key_value_heads": None, "block_configs": [block] * 2, **more}


def test_a_searched_layer_may_have_a_product_or_nothing_in_the_place_of_a_part() -> None:
    whole = rl.load(searched({"n_heads_in_group": 2}, {"ffn_mult": 1.0})).layers[0]
    product = rl.load(searched({"replace_with_linear": True}, {"replace_with_linear": True})).layers[0]
    nothing = rl.load(searched({"no_op": True}, {"no_op": True})).layers[0]
    assert whole.parameters == 2 * 64 + 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 256
    assert product.parameters == 2 * (64 + 64 * 64)
    assert nothing.parameters == 0


@folded("blocks", [None, [], [{}], {"attention": {}}, ["x", "y"], [{"attention": 1, "ffn": {}}] * 2])
def test_block_configs_that_say_nothing_are_refused(blocks: object) -> None:
    with pytest.raises(rl.InputError, match="block_configs"):
        rl.load(searched({}, {}, block_configs=blocks))


def test_a_group_divides_the_heads() -> None:
    with pytest.raises(rl.InputError, match="n_heads_in_group"):
        rl.load(searched({"n_heads_in_group": 3}, {}))


# -- words of one type's own ---------------------------------------------------------------------------------------
def test_experts_of_step3_stand_where_the_config_says() -> None:
    more = {
        "model_type": "step3_text", "moe_intermediate_size": 48, "moe_num_experts": 4, "moe_top_k": 2,
        "share_expert_dim": 32, "share_q_dim": 24, "head_dim": 16, "num_attention_groups": 1,
    }  # fmt: skip
    by_text, by_list = (rl.load({**SMALL, **more, "moe_layers_enum": each}) for each in ("0", [0]))
    assert [block.name for block in by_text.layers] == ["moe", "dense"]
    assert by_text.layers == by_list.layers
    for wrong in ("0,x", "7", 5):
        with pytest.raises(rl.InputError, match="moe_layers_enum"):
            rl.load({**SMALL, **more, "moe_layers_enum": wrong})


def test_the_small_deepseek_vl2_do_without_latent_attention() -> None:
    text = {
        **SMALL, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "num_key_value_heads": 4,
    }  # fmt: skip
    latent = {"use_mla": False, "kv_lora_rank": None, "q_lora_rank": None, "qk_nope_head_dim": 0, "v_head_dim": 0}
    whole = {"model_type": "deepseek_vl_v2", "language_config": {"model_type": "deepseek_v2", **text, **latent}}
    assert rl.load(whole).layers == rl.load({"model_type": "deepseek", **text}).layers


def test_gate_and_up_projection_of_qwen_share_an_even_width() -> None:
    with pytest.raises(rl.InputError, match="intermediate_size"):
        rl.load({**SMALL, "model_type": "qwen", "intermediate_size": 97})


def test_step_3_5_reads_the_lists_that_its_draft_layers_lengthen() -> None:
    more = {
        "model_type": "step3p5", "moe_intermediate_size": 48, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "share_expert_dim": 32, "head_dim": 16, "sliding_window": 8, "moe_layers_enum": "1",
    }  # fmt: skip
    kinds, factors = ["full_attention", "sliding_attention"], [0.5, 1.0]
    short = rl.load({**SMALL, **more, "layer_types": kinds, "partial_rotary_factors": factors})
    longer = {"layer_types": [*kinds, "full_attention"], "partial_rotary_factors": [*factors, 0.5]}
    long = rl.load({**SMALL, **more, **longer, "num_nextn_predict_layers": 1})
    assert short.layers == long.layers
    assert [block.name for block in long.layers] == ["dense", "sliding moe"]
    with pytest.raises(rl.InputError, match="partial_rotary_factors"):
        rl.load({**SMALL, **more, "layer_types": kinds, "partial_rotary_factors": [0.5]})


def test_layers_of_mistral_large_4_that_share_a_cache_are_refused() -> None:
    config = {
        **SMALL, "model_type": "mistral_large4_text", "num_key_value_heads": 4, "kv_lora_rank": 16, "v_head_dim": 8,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "n_shared_experts": 1, "moe_intermediate_size": 48, "index_topk": 8, "index_n_heads": 2, "index_head_dim": 16,
    }  # fmt: skip
    assert [block.name for block in rl.load(config).layers] == ["dense", "moe"]
    assert rl.load({**config, "kv_source_layers": [0, 1]}).layers == rl.load(config).layers
    with pytest.raises(rl.InputError, match="kv_source_layers"):
        rl.load({**config, "kv_source_layers": [0, 0]})
