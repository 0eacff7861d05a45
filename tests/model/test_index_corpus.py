"""Weights in bytes against `metadata.total_size` of indices in public repositories, within a thousandth.

`index_corpus.json`: pairs beside those of `published_bytes.json`, each with its repository, file and commit; `beside`
is what else the files hold, by hand; `drafts` says that the files hold the draft layers. Where a repository has no
index, `total_size` is the size of its files, whose headers are within the thousandth. Configs are cut to the keys that
set sizes and formats. Its `misses` are pairs whose bytes are not right yet, with the reason; where a tower is what is
missing, the bytes of the text are kept as counted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.model.adapters import with_drafts
from roofline.model.families import FAMILIES, WHOLES

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


SIZES = (
    "hidden_size", "n_embd", "d_model", "dim", "num_hidden_layers", "n_layer", "num_layers", "encoder_layers",
    "intermediate_size", "n_inner", "num_attention_heads", "num_key_value_heads", "num_experts", "block_out_channels",
    "cross_attention_dim", "latent_channels",
)  # fmt: skip


def base(config: dict[str, Any]) -> str:
    """What tells base models apart: the type, the sizes, the format."""
    text = config.get("text_config", config)
    section = config.get("quantization_config", config.get("quantization", {}))
    form = {key: section[key] for key in ("quant_method", "bits", "group_size") if key in section}
    return json.dumps([config.get("_class_name", config.get("model_type")), [text.get(key) for key in SIZES], form])


def test_pairs_are_of_many_types_and_formats() -> None:
    configs = [pair["config"] for pair in (*PAIRS.values(), *BEFORE.values())]
    types = {config.get("_class_name", config.get("model_type")) for config in configs}
    assert len({base(config) for config in configs}) >= 80
    assert len(types) >= 45
    assert sum("quantization_config" in config or "quantization" in config for config in configs) >= 12


def test_types_that_are_not_covered_are_still_not() -> None:
    """A type that came in leaves the misses."""
    missing = {miss["model_type"] for miss in MISSES.values() if "not covered" in miss["reason"]}
    assert missing.isdisjoint({*FAMILIES, *WHOLES})
