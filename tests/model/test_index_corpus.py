"""Weights in bytes against `metadata.total_size` of indices in public repositories, within a thousandth.

`index_corpus.json`: pairs beside those of `published_bytes.json`, each with its repository, file and commit; `beside`
is what else the files hold, by hand; `drafts` says that the files hold the draft layers. Configs are cut to the keys
that set sizes and formats. Its `misses` are pairs whose bytes are not right yet, with the reason; where a tower is
what is missing, the bytes of the text are kept as counted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.model.adapters import with_drafts
from roofline.model.families.registry import FAMILIES

FOLDER = Path(__file__).parent
CORPUS: dict[str, dict[str, Any]] = json.loads((FOLDER / "index_corpus.json").read_text())
PAIRS, MISSES = CORPUS["pairs"], CORPUS["misses"]
BEFORE: dict[str, Any] = json.loads((FOLDER / "published_bytes.json").read_text())
WITHIN = 1e-3


@pytest.mark.parametrize("name", PAIRS)
def test_bytes_are_those_of_the_index(name: str) -> None:
    pair = PAIRS[name]
    model = rl.load(pair["config"], precision=pair.get("precision"))
    model = with_drafts(model) if pair.get("drafts") else model
    assert model.weight_bytes() == pytest.approx(pair["total_size"] - sum(pair["beside"].values()), rel=WITHIN)


@pytest.mark.parametrize("name", [name for name, miss in MISSES.items() if "counted" in miss])
def test_a_miss_counts_its_text(name: str) -> None:
    miss = MISSES[name]
    text = rl.load(miss["config"], precision=miss["precision"]).weight_bytes()
    assert text == miss["counted"] < (1 - WITHIN) * miss["total_size"]


def test_every_miss_has_a_reason_and_no_pair_is_twice() -> None:
    assert all(miss["reason"] and miss["source"] and miss["model_type"] for miss in MISSES.values())
    assert set(PAIRS).isdisjoint({*MISSES, *BEFORE})


def test_pairs_are_of_many_types_and_formats() -> None:
    configs = [pair["config"] for pair in (*PAIRS.values(), *BEFORE.values())]
    types = {config["model_type"] for config in configs}
    assert len(configs) >= 45
    assert len(types) >= 20
    assert sum("quantization_config" in config or "quantization" in config for config in configs) >= 4


def test_types_that_are_not_covered_are_still_not() -> None:
    """A type that came in leaves the misses."""
    missing = {miss["model_type"] for miss in MISSES.values() if "not covered" in miss["reason"]}
    assert missing.isdisjoint(FAMILIES)
