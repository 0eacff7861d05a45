"""The table of class defaults is what the classes of transformers say, and a config read with it is the class's."""

import json
from dataclasses import replace
from typing import Any

import pytest

import roofline as rl
from roofline.model.configs.class_defaults import FILE, class_defaults
from roofline.model.families.registry import FAMILIES

pytestmark = pytest.mark.oracle

TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
APART = {
    "gpt-sw3": "its class is GPT-2's",
    "mllama_text_model": "half of its layers lack the ones that attend to images, which the class does not see",
    "step3p5": "the class's default of one name overrides what another name says",
    "zamba2": "use_long_context sets the longest sequence",
}


def test_the_table_is_what_the_generator_gives() -> None:
    pytest.importorskip("transformers")
    from oracle import class_defaults as generator

    assert FILE.read_text("utf-8") == generator.text()


def whole(short: dict[str, Any]) -> dict[str, Any]:
    from transformers import CONFIG_MAPPING

    settings = {key: value for key, value in short.items() if key != "model_type"}
    full = json.loads(CONFIG_MAPPING[short["model_type"]](**settings).to_json_string(use_diff=False))
    assert isinstance(full, dict)
    return {key: value for key, value in full.items() if key not in ("transformers_version", "_name_or_path")}


def changed(model_type: str) -> list[dict[str, Any]]:
    """The type and one other value."""
    forms = []
    for key, value in class_defaults(model_type).values.items():
        if key in TOKENS or key == "use_cache":
            continue
        others = [not value] if type(value) is bool else [2 * value, value // 2] if type(value) is int else []
        forms += [{"model_type": model_type, key: other} for other in others if other or type(value) is bool]
    return forms


@pytest.mark.parametrize("model_type", [t for t in FAMILIES if class_defaults(t).values and t not in APART])
def test_one_changed_key_means_what_it_means_to_the_class(model_type: str) -> None:
    pytest.importorskip("transformers")
    for short in changed(model_type):
        try:
            full = whole(short)
        except Exception:  # the class refuses it
            continue
        results = []
        for config in (full, short):
            try:
                results.append(replace(rl.load(config, text_only=True), name="", model_type=""))
            except rl.InputError:
                results.append(None)
        assert results[0] == results[1], str(short)
