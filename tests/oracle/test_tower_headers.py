"""Checkpoints of models with towers, as their classes save them: `headers` gives the bytes of the files.

A class is built with its default config on torch's meta device. Its tensors have the names under which it saves them,
those that are tied once. They are written as shards with true headers and room for their values, and read back.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import roofline as rl
from folded import folded
from headed import write_all
from oracle.auto_classes import classes
from roofline.model.trace.installed import real_code

pytestmark = pytest.mark.oracle
MAPPINGS = ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ")
DTYPES = {
    "torch.bfloat16": "BF16", "torch.float32": "F32", "torch.int64": "I64", "torch.int32": "I32", "torch.bool": "U8",
}  # fmt: skip
APART = {
    "Ernie4_5_VLMoeForConditionalGeneration": "its routers of text and of images are saved as two tensors of a layer",
}
"""Class → why its files hold other bytes."""
INSTALLED = find_spec("transformers") is not None and find_spec("diffusers") is not None
NAMED = sorted({(kind, name) for mapping, kind, name in classes() if mapping in MAPPINGS}) if INSTALLED else [("", "")]


def saved(kind: str, name: str) -> tuple[dict[str, Any], dict[str, tuple[str, list[int]]], int] | None:
    """The default config of a type, the tensors that its class saves, and the bytes of its parameters.

    None where the class is not built by it.
    """
    torch, transformers = real_code()
    from transformers.core_model_loading import revert_weight_conversion

    described = transformers.CONFIG_MAPPING[kind]()
    config = json.loads(described.to_json_string(use_diff=False)) | {"architectures": [name], "dtype": "bfloat16"}
    try:
        with torch.device("meta"):
            model = getattr(transformers, name)(described).to(torch.bfloat16)
    except Exception:  # the class contradicts its own default config, or needs a library
        return None
    once: dict[int, tuple[str, Any]] = {}
    for key, value in model.state_dict(keep_vars=True).items():
        if key not in (model._keys_to_ignore_on_save or ()):
            once.setdefault(id(value), (key, value.detach()))
    state = revert_weight_conversion(model, dict(once.values()))
    tensors = {key: (DTYPES[str(value.dtype)], list(value.shape)) for key, value in state.items()}
    return config, tensors, sum(p.numel() * p.itemsize for p in model.parameters())


@folded("kind, name", NAMED, drawn=12)
def test_headers_are_the_files(tmp_path: Path, kind: str, name: str) -> None:
    """Every byte of the files but buffers, which no parameter is; towers that are set aside are named."""
    held = saved(kind, name) if name and name not in APART else None
    if held is None:
        return
    config, tensors, parameters = held
    try:
        plain = rl.load(config)
    except rl.InputError:  # refused in one line
        return
    if plain.not_counted:
        return
    folder = write_all(tmp_path / kind, config, tensors, files=3)
    stored = rl.load(str(folder), headers=True)
    assert stored.weight_bytes() == parameters, [w for w in stored.warnings if w.startswith("headers")]
