"""A config's values never change; one record says what was read of it and of the configs made from it."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError

import pytest

import roofline as rl
from folded import folded
from oracle import defaults
from roofline.model.configs.config import Config

FIGURES = defaults.load()


def test_values_stay() -> None:
    c = Config({"hidden_size": 8})
    with pytest.raises(FrozenInstanceError):
        c.raw = {"hidden_size": 16}  # type: ignore[misc]


def test_a_config_with_other_values_writes_to_the_same_record() -> None:
    c = Config({"hidden_size": 8, "zebra": 1}, "text_config")
    other = c.with_values(hidden_size=16, n_layer=2)
    assert (c.size("hidden_size"), other.size("hidden_size"), other.size("n_layer")) == (8, 16, 2)
    assert (other.path, c.raw) == ("text_config", {"hidden_size": 8, "zebra": 1})
    assert c.read == other.read == {"hidden_size", "n_layer"}
    other.note("a note")
    assert c.notes == ["a note"]
    assert c.leftovers() == ["text_config.zebra is not understood and was not counted"]


def test_defaults_are_the_class_s_and_null_is_no_gap() -> None:
    c = Config({"sliding_window": None, "vocab_size": 100}).of_kind("mistral")
    assert c.size("sliding_window", None) is None
    assert (c.size("num_key_value_heads"), c.size("vocab_size")) == (8, 100)
    assert c.record.assumed == {"num_key_value_heads": 8}


def test_a_type_that_transformers_does_not_have_has_no_defaults() -> None:
    with pytest.raises(rl.InputError, match="hidden_size"):
        Config({}).of_kind("a type").size("hidden_size")


@folded("model_type", FIGURES)
def test_building_a_model_leaves_its_config_as_it_is(model_type: str) -> None:
    config = FIGURES[model_type]["config"]
    before = copy.deepcopy(config)
    rl.load(config)
    assert config == before
