"""A folder of configs: what becomes of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from hub import CONFIG
from roofline.model.sources.survey import checked_configs


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_every_config_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path / "a" / "config.json", CONFIG)
    put(tmp_path / "b" / "deep" / "own-name.json", CONFIG | {"hiden_sizes": 5})
    put(tmp_path / "c" / "config.json", "{")
    put(tmp_path / "d.json", CONFIG | {"model_type": "lama"})
    put(tmp_path / "a" / "tokenizer.json", {"version": "1.0"})
    put(tmp_path / "a" / "broken.json", "[")
    put(tmp_path / "a" / "generation_config.json", {"do_sample": True})
    put(tmp_path / "e" / "config.json", CONFIG)
    put(tmp_path / "e" / "hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}})
    a, b, c, d, e = checked_configs(tmp_path)
    whole, fp8 = rl.load(CONFIG), rl.load(tmp_path / "e")
    assert (a.path, a.outcome, a.model_type, a.reasons) == ("a/config.json", "exact", "llama", ())
    assert (a.parameters, a.weight_bytes) == (whole.parameters, whole.weight_bytes())
    assert (b.path, b.outcome, b.parameters) == ("b/deep/own-name.json", "warned", whole.parameters)
    assert "hiden_sizes" in b.reasons[0]
    assert (c.path, c.outcome, c.parameters) == ("c/config.json", "refused", None)
    assert "JSON at line 1" in c.reasons[0]
    assert (d.path, d.outcome) == ("d.json", "refused")
    assert "nearest: llama" in d.reasons[0]
    assert (e.outcome, e.weight_bytes) == ("exact", fp8.weight_bytes())
    assert e.weight_bytes < a.weight_bytes  # type: ignore[operator]


def test_folder_that_is_none(tmp_path: Path) -> None:
    assert checked_configs(tmp_path) == ()
    with pytest.raises(rl.InputError, match="--check: expected a folder"):
        checked_configs(tmp_path / "gone")
