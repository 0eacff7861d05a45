"""The classes that transformers' Auto classes build, and diffusers' models, by their default configs, beside ours.

`benchmarks/auto_classes.py` prints tables of them.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import roofline as rl
from roofline.model.trace.installed import real_code

NAMES = "_MAPPING_NAMES"
OF_DIFFUSERS = "diffusers"


@dataclass(frozen=True)
class Row:
    """A class of a mapping: its type, its parameters and ours."""

    mapping: str
    type: str
    name: str
    real: int | None
    ours: int | None
    why: str = ""
    """The line that refuses it; of a model with parts set aside, what it says of them."""

    @property
    def exact(self) -> bool:
        """Whether both parameters are known and the same."""
        return self.real is not None and self.real == self.ours


def classes() -> Iterator[tuple[str, str, str]]:
    """(mapping, type, name of the class) of every Auto class of transformers, then the models of diffusers."""
    real_code()
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    for mapping in sorted(name for name in vars(auto) if name.startswith("MODEL_") and name.endswith(NAMES)):
        for kind, names in getattr(auto, mapping).items():
            for name in (names,) if isinstance(names, str) else names[:1]:
                yield mapping.removesuffix(NAMES).removeprefix("MODEL_").removeprefix("FOR_"), kind, name
    diffusers = importlib.import_module("diffusers")
    for name in sorted(set(dir(diffusers))):
        kind = getattr(diffusers, name, None)
        if isinstance(kind, type) and issubclass(kind, diffusers.ModelMixin) and kind is not diffusers.ModelMixin:
            yield OF_DIFFUSERS, name, name


def of_transformers(kind: str, name: str) -> tuple[dict[str, Any], int | None]:
    """The default config of a type as a config.json has it, and the parameters of the class."""
    torch, transformers = real_code()
    described = transformers.CONFIG_MAPPING[kind]()
    config = json.loads(described.to_json_string(use_diff=False)) | {"architectures": [name]}
    try:
        with torch.device("meta"):
            model = getattr(transformers, name)(described)
    except Exception:  # the class contradicts its own default config, or needs a library
        return config, None
    return config, sum(p.numel() for p in model.parameters())


def of_diffusers(name: str) -> tuple[dict[str, Any], int | None]:
    """The default config of a class of diffusers, and its parameters."""
    torch, _ = real_code()
    kind = getattr(importlib.import_module("diffusers"), name)
    taken = inspect.signature(kind.__init__).parameters
    defaults = {key: p.default for key, p in taken.items() if p.default is not p.empty}
    try:
        with torch.device("meta"):
            model = kind()
    except Exception:  # it has no size by default, or needs a library
        return {"_class_name": name, **defaults}, None
    return {**dict(model.config), "_class_name": name}, sum(p.numel() for p in model.parameters())


def row_of(mapping: str, kind: str, name: str) -> Row:
    """One class."""
    try:
        config, real = of_diffusers(name) if mapping == OF_DIFFUSERS else of_transformers(kind, name)
        config = json.loads(json.dumps(config, default=str))
    except Exception as error:  # a type whose default config cannot be made
        return Row(mapping, kind, name, None, None, f"no default config: {' '.join(str(error).split())[:120]}")
    try:
        model = rl.load(config)
        return Row(mapping, kind, name, real, model.parameters, "; ".join(model.not_counted))
    except rl.InputError as error:
        return Row(mapping, kind, name, real, None, " ".join(str(error).split()))
