"""A type that is no decoder of text tokens is refused in words that say what it is; wholes give their text part."""

from typing import Any

import pytest

import roofline as rl
from folded import folded
from roofline.model.families.refused import REFUSED
from roofline.model.families.registry import FAMILIES
from roofline.model.families.wholes import SAME, WRAPPERS

TEXT = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 128,
}  # fmt: skip
LLAMA = {"model_type": "llama", **TEXT}


@folded(
    ("model_type", "words"),
    [
        ("clap_text_model", "an encoder, which reads text and writes none"),
        ("pp_formulanet_text", "an encoder-decoder"),
        ("lxmert", "an encoder of text together with images"),
        ("superglue", "a vision model"),
        ("xcodec", "an audio model"),
        ("diffusion_gemma", "a diffusion model"),
        ("informer", "a forecaster of time series"),
        ("qwen2_5_omni_talker", "a part of a whole"),
    ],
)
def test_the_error_says_what_it_is_and_what_is_covered(model_type: str, words: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.load({"model_type": model_type, **TEXT})
    assert words in str(error.value)
    assert "a supported model" in str(error.value)
    assert "nearest" not in str(error.value)


def test_a_whole_is_refused_by_what_it_is_before_its_parts_are_read() -> None:
    with pytest.raises(rl.InputError, match="an encoder of text together with images"):
        rl.load({"model_type": "lxmert", "text_config": {"model_type": "llama"}})


def test_the_text_part_of_a_whole_is_refused_by_its_own_type() -> None:
    with pytest.raises(rl.InputError, match=r"text_config.model_type.*a whole of its own"):
        rl.load({"model_type": "blip-2", "text_config": {"model_type": "t5"}})


@pytest.mark.parametrize("section", ["text_config", "llm_config", "language_config", "thinker_config"])
def test_a_language_model_stands_under_any_of_these_names(section: str) -> None:
    whole = {"model_type": "a whole", section: LLAMA, "vision_config": {"hidden_size": 7}}
    model = rl.load(whole)
    assert model.parameters == rl.load(LLAMA).parameters
    assert model.not_counted == ("vision_config (not part of the language model)",)


def test_a_language_model_two_levels_down() -> None:
    thinker: dict[str, Any] = {"model_type": "qwen2_5_omni_thinker", "text_config": TEXT, "audio_config": {}}
    raw: dict[str, Any] = {"model_type": "qwen2_5_omni", "thinker_config": thinker, "talker_config": {}}
    whole = rl.load(raw | {"enable_audio_output": False})
    assert whole.model_type == "qwen2_5_omni_text"
    assert whole.parameters_by_tower()[""] == rl.load({"model_type": "qwen2", **TEXT}).parameters
    assert {tower.stream for tower in whole.towers} == {"sound"}
    assert not whole.not_counted
    spoken = rl.load(raw)
    assert spoken.parameters_by_tower()["talker"] == 7_048_076_928  # by the real class, with its default sizes
    assert spoken.served.parameters == whole.parameters


@folded("whole", [name for name, text in WRAPPERS.items() if SAME.get(text, text) in ("llama", "qwen2")])
def test_a_whole_knows_the_type_of_its_text(whole: str) -> None:
    same = SAME.get(WRAPPERS[whole], WRAPPERS[whole])
    text = {**TEXT, "tie_word_embeddings": False}
    assert (
        rl.load({"model_type": whole, "text_config": text}).parameters_by_tower()[""]
        == rl.load({"model_type": same, **text}).parameters
    )


def test_the_text_of_every_whole_is_a_family_or_refused() -> None:
    known = {*FAMILIES, *SAME, *REFUSED}
    assert [whole for whole, text in WRAPPERS.items() if text not in known] == []


def test_nothing_is_both_a_family_and_refused() -> None:
    assert sorted({*FAMILIES, *SAME, *WRAPPERS} & {*REFUSED}) == []


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (
            {"_class_name": "AnyTransformer2DModel", "_diffusers_version": "0.30.0", "num_layers": 19},
            "_class_name: expected a supported model, with a model_type "
            "(this is a part of a diffusion pipeline, by diffusers), got 'AnyTransformer2DModel'",
        ),
        (
            {"architecture": "vit_base_patch16_224", "num_classes": 1000, "pretrained_cfg": {"tag": "augreg"}},
            "architecture: expected a supported model, with a model_type "
            "(this is an image model, by timm), got 'vit_base_patch16_224'",
        ),
    ],
)
def test_configs_of_other_libraries_are_told_what_they_are(config: dict[str, object], line: str) -> None:
    with pytest.raises(rl.InputError) as error:
        rl.load(config)
    assert str(error.value) == line
