"""A config's values never change; one record says what was read of it and of the configs made from it."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError

import pytest

import roofline as rl
from oracle import defaults
from roofline.model.config import Config

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


def test_defaults_are_noted_and_null_is_no_gap() -> None:
    c = Config({"sliding_window": None}).with_defaults({"sliding_window": 4096, "num_key_value_heads": 8})
    assert c.raw == {"sliding_window": None, "num_key_value_heads": 8}
    assert c.notes == ["num_key_value_heads is missing; 8, the default of this model_type, was used"]


@pytest.mark.parametrize("model_type", FIGURES)
def test_building_a_model_leaves_its_config_as_it_is(model_type: str) -> None:
    config = FIGURES[model_type]["config"]
    before = copy.deepcopy(config)
    rl.load(config)
    assert config == before
