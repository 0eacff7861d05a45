"""The kinds of models that people download most, at every door: whole, and with the same answer.

`popular.json` has a line for each of 139 kinds: a model of the catalog, or a config with where its sizes are from. Five
of them have neither a config of transformers nor of diffusers, or are a file, which `model/test_gguf_files.py` asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from roofline.model.load import catalog_config
from test_doors import Drawn, by_api, by_command, by_tool, plain

KINDS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("popular.json").read_text(encoding="utf-8"))
NO_CONFIG = {"pyannote-seg", "kokoro-82M", "xtts", "ultravox", "GGUF-q4"}
PARTLY: frozenset[str] = frozenset()
"""Kinds of which a part is left out, which the model names."""
ANSWERED = 134
"""Kinds that are answered whole; 125 are wanted."""
DRAFTS = "run only when drafting"
"""How a model says that its layers for drafts take no part in its own steps."""
BY_DAY = 5
ALONE = {"schema", "name", "estimate"}
"""What of an answer one door alone says."""


def config_of(kind: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a kind."""
    config = kind["config"] if "config" in kind else catalog_config(kind["catalog"])
    return {**config, **kind.get("keys", {})}


def questions(model: rl.Model) -> dict[str, dict[str, Any]]:
    """What is asked of a model, in the words of what it does; of an autoencoder, the half that makes images."""
    machine = {"on": "h100-sxm"}
    if not model.layers:
        return {"encode": {**machine, "batch": 2, "tower": "latents"}}
    if "denoise" in model.steps:
        return {"encode": {**machine, "batch": 2, "passes": 4}}
    if "decode" not in model.steps:
        return {"encode": {**machine, "batch": 8}, "analyze": {"batch": 2}}
    load = {"input": 64, "output_tokens": 32, "concurrency": 4}
    return {"analyze": {"phase": "decode", "batch": 2, "context": 64}, "serve": {**machine, **load}, "fit": machine}


CONFIGURED = [kind for kind in KINDS if kind["name"] not in NO_CONFIG]


def test_how_many_kinds_are_answered_whole() -> None:
    assert len(KINDS) == 139
    models = {kind["name"]: rl.load(config_of(kind)) for kind in CONFIGURED}
    whole = {name for name, model in models.items() if all(part.endswith(DRAFTS) for part in model.not_counted)}
    assert models.keys() - whole == PARTLY
    assert len(whole) == ANSWERED


@pytest.mark.drawn(BY_DAY)
@pytest.mark.parametrize("kind", CONFIGURED, ids=lambda kind: kind["name"])
def test_every_door_answers_it_alike(kind: dict[str, Any], tmp_path: Path) -> None:
    """The library, a command, the API, which is what the page asks, and a tool of agents."""
    config = config_of(kind)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    for name, settings in questions(rl.load(config)).items():
        expected = _common(plain(getattr(rl, name)(path, **settings).to_dict()))
        assert _common(by_command(Drawn(name, str(path), settings))) == expected, name
        for door in (by_api, by_tool):
            assert _common(door(Drawn(name, config, settings))) == expected, (door.__name__, name)  # type: ignore[arg-type]


@pytest.mark.drawn(BY_DAY)
@pytest.mark.parametrize("kind", CONFIGURED, ids=lambda kind: kind["name"])
def test_the_page_begins_with_it(kind: dict[str, Any]) -> None:
    """What the page asks of any model first: what it reads and how long it may be, then the first answer."""
    config = config_of(kind)
    model = rl.load(config)
    known = by_api(Drawn("limits", config, {}))  # type: ignore[arg-type]
    assert known == {"context": model.context, "steps": list(model.steps), "positions": model.positions}
    name, settings = (
        ("answer", {"on": "h100-sxm"}) if "decode" in model.steps else ("encode", questions(model)["encode"])
    )
    first = by_api(Drawn(name, config, settings))  # type: ignore[arg-type]
    assert first == plain(getattr(rl, name)(config, **settings).to_dict())


def _common(answer: dict[str, Any]) -> dict[str, Any]:
    """The figures that all doors say of the model, without its name: a file is named after its folder."""
    return {name: value for name, value in answer.items() if name not in ALONE | {"model", "warnings", "not_counted"}}
