"""What a config means: classes' defaults, the head of `architectures`, files of 32 bits, ties that disagree."""

from __future__ import annotations

import time
from typing import Any

import pytest

import roofline as rl
from folded import by_day, folded
from oracle import cases, defaults
from roofline.model.configs.class_defaults import class_defaults
from roofline.model.families.registry import FAMILIES
from roofline.model.load import catalog_config

FIGURES = defaults.load()
LLAMA_31 = catalog_config("meta-llama/Llama-3.1-8B")
MISTRAL = {
    "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096,
    "torch_dtype": "bfloat16",
}  # fmt: skip


def difference(config: dict[str, Any], kind: str) -> dict[str, Any]:
    """The config without what its class has anyway, in its parts too."""
    own, short = class_defaults(kind), {"model_type": config["model_type"]} if "model_type" in config else {}
    for key, value in config.items():
        part = own.parts.get(key)
        if part is not None and isinstance(value, dict):
            short[key] = difference(value, part.type if part.fixed else value.get("model_type", part.type))
        elif key not in own.values or own.values[key] != value or type(own.values[key]) is not type(value):
            short[key] = value
    return short


def refused(config: dict[str, Any]) -> rl.InputError:
    with pytest.raises(rl.InputError) as caught:
        rl.load(config)
    assert str(caught.value).isprintable()
    return caught.value


# -- the classes' defaults -----------------------------------------------------------------------------------------
@folded("model_type", FIGURES)
def test_a_difference_from_the_defaults_is_the_whole_config(model_type: str) -> None:
    full = FIGURES[model_type]["config"]
    ties = {key: full[key] for key in ("tie_word_embeddings",) if key in full}
    short = {**difference(full, model_type), **ties}
    model = rl.load(short)
    assert model == rl.load(full)
    assert rl.load(short, text_only=True).parameters == FIGURES[model_type]["parameters"]


@folded("model_type", cases.CASES)
def test_a_difference_from_varied_configs_is_the_whole_config(model_type: str) -> None:
    for full in list(cases.one_by_one(model_type))[:: by_day(3, every=1)]:
        assert rl.load(difference(full, model_type)) == rl.load(full)


def test_one_changed_key_is_enough_and_the_other_sizes_are_named() -> None:
    model = rl.load({"model_type": "llama", "hidden_size": 2048, "torch_dtype": "bfloat16"})
    assert (model.hidden, len(model.layers), model.vocab) == (2048, 32, 32000)
    (note,) = model.warnings
    assert note == (
        "loaded with transformers' defaults: num_hidden_layers 32, num_attention_heads 32, intermediate_size 11008, "
        "vocab_size 32000, max_position_embeddings 2048"
    )


@folded("model_type", [name for name in FAMILIES if class_defaults(name).values])
def test_a_type_alone_is_refused(model_type: str) -> None:
    assert refused({"model_type": model_type}).field == "config"


@pytest.mark.parametrize("config", [{"model_type": "llava"}, {"model_type": "llava", "text_config": {}}])
def test_a_whole_that_names_no_size_is_refused(config: dict[str, Any]) -> None:
    assert "sizes" in str(refused(config))


def test_llava_as_published() -> None:
    """llava-hf/llava-1.5-7b-hf: Vicuna 7B with 64 more rows, CLIP ViT-L/14 and a projector (arXiv:2310.03744)."""
    vicuna = {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096, "torch_dtype": "float16"}
    vision = {
        "model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
        "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768,
    }  # fmt: skip
    config = {"model_type": "llava", "text_config": vicuna, "vision_config": vision}
    model = rl.load(config)
    assert rl.load(config, text_only=True).parameters == 6_738_415_616 + 2 * 64 * 4096
    assert model.parameters == 7_063_427_072
    assert model.parameters_by_tower() == {"vision": 303_507_456, "projector": 20_979_712, "": 6_738_939_904}
    assert "text_config.hidden_size 4096" in model.warnings[0]


def test_another_name_of_the_class_for_a_key_is_that_key() -> None:
    by_alias = rl.load({"model_type": "gpt2", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16})
    assert by_alias.parameters == 354_823_168  # GPT-2 medium
    assert not any("not understood" in warning for warning in by_alias.warnings)


def test_a_misspelt_size_is_no_default() -> None:
    assert refused({"model_type": "llama", "hiden_size": 2048, "vocab_size": 100}).nearest == ("hiden_size",)


def test_reading_defaults_takes_no_time() -> None:
    config = {"model_type": "qwen3", "hidden_size": 2048}
    rl.load(config)
    start = time.process_time()
    rl.load(config)
    assert time.process_time() - start < 0.03


# -- heads ---------------------------------------------------------------------------------------------------------
def test_a_base_model_has_no_head() -> None:
    """e5-mistral-7b-instruct."""
    model = rl.load({**MISTRAL, "architectures": ["MistralModel"]})
    assert model.parameters == 7_110_660_096
    assert any("without a head" in warning for warning in model.warnings)


def test_a_classifier_has_a_score_for_each_label() -> None:
    """Skywork-Reward-Llama-3.1-8B: one label; its score is made at one position of each sequence."""
    config = {**LLAMA_31, "architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    model, base = rl.load(config), rl.load({**LLAMA_31, "architectures": ["LlamaModel"]})
    assert model.parameters == 7_504_928_768
    assert any("1 label(s) at one position" in warning for warning in model.warnings)
    step = rl.prefill(batch=3, tokens=64)
    assert rl.analyze(model, step).flops - rl.analyze(base, step).flops == 3 * 2 * 4096


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("LlamaForTokenClassification", 5 * 4097),
        ("LlamaForQuestionAnswering", 2 * 4097),
    ],
)
def test_heads_at_every_token(name: str, parameters: int) -> None:
    config = {**LLAMA_31, "num_labels": 5}
    model, base = (rl.load({**config, "architectures": [a]}) for a in (name, "LlamaModel"))
    assert model.parameters - base.parameters == parameters
    step = rl.prefill(batch=3, tokens=64)
    done = rl.analyze(model, step).flops - rl.analyze(base, step).flops
    assert 0 <= done - 3 * 64 * 2 * 4096 * (parameters // 4097) <= 3 * 64 * 5


@pytest.mark.parametrize(("name", "labels"), [("Qwen2ForRewardModel", 1), ("Qwen2ForProcessRewardModel", 2)])
def test_qwen_s_reward_heads_have_two_layers(name: str, labels: int) -> None:
    config = {"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    model, base = (rl.load({**config, "architectures": [a]}) for a in (name, "Qwen2Model"))
    assert model.parameters - base.parameters == 64 * 64 + 64 + labels * 65


@pytest.mark.parametrize("name", ["LlamaForCausalLMEagle3", "EagleLlamaForCausalLM", "LlamaForRewardModelWithGating"])
def test_drafts_and_unknown_reward_models_are_refused(name: str) -> None:
    assert refused({**LLAMA_31, "architectures": [name]}).field == "architectures"


@folded("architectures", [None, [], ["LlamaForCausalLM"], "LlamaForCausalLM", ["A"], [3]])
def test_other_names_leave_the_language_model_as_it_is(architectures: object) -> None:
    assert rl.load({**LLAMA_31, "architectures": architectures}) == rl.load(LLAMA_31)


def test_the_head_is_that_of_the_whole() -> None:
    text = {"model_type": "llama", "vocab_size": 32064, "architectures": ["LlamaForSequenceClassification"]}
    whole = rl.load({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": text})
    assert whole.head[-1].name == "lm_head"


# -- formats -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_a_file_of_32_bits_is_loaded_in_16(key: str) -> None:
    model = rl.load({**MISTRAL, "torch_dtype": None, key: "float32"})
    assert model.precision.text() == "bf16"
    assert any("loaded in bf16, as engines do" in warning for warning in model.warnings)
    assert model.weight_bytes(model.precision.merged("fp32")) == 4 * model.parameters


# -- ties ----------------------------------------------------------------------------------------------------------
TEXT = {"hidden_size": 128, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128}


@folded(
    ("whole", "outer", "inner", "tied"),
    [
        ("gemma3", None, None, True), ("gemma3", False, True, False), ("gemma3", True, False, True),
        ("llava", False, True, True), ("llava", True, False, True), ("llava", None, None, False),
        ("llava_next", False, True, False), ("qwen3_vl", True, False, True), ("qwen2_vl", False, True, True),
        ("llama4", True, False, False), ("llama4", False, True, True), ("mllama", True, True, False),
        ("mistral3", None, None, False), ("mistral3", True, None, True), ("kimi_k25", False, True, False),
    ],
)  # fmt: skip
def test_ties_that_disagree_are_the_whole_s_code_s(
    whole: str, outer: bool | None, inner: bool | None, tied: bool
) -> None:
    parts = {"text_config": TEXT if inner is None else {**TEXT, "tie_word_embeddings": inner}}
    own = {} if outer is None else {"tie_word_embeddings": outer}
    model = rl.load({"model_type": whole, **own, **parts})
    assert getattr(model.head[-1], "tied") is tied  # noqa: B009
    said = [said for said in (outer, inner) if said is not None and said != tied]
    assert sum("the head of" in warning for warning in model.warnings) == len(said)
