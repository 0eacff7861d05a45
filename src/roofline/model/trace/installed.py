"""The real code that a trace runs: torch and transformers, as they are installed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_DECLARED_AT_IMPORT = ("nms", "qnms")
"""Operators of torchvision whose shapes its import declares whether or not they were loaded."""

_KEPT: list[object] = []
"""Libraries of declared names, which live as long as they do."""


@cache
def real_code() -> tuple[ModuleType, ModuleType]:
    """torch and transformers, able to import every model that they have.

    torchvision's wheel for CUDA cannot load its operators beside a CPU build of torch, and then fails to import; with
    it fails half of transformers, and timm. A trace needs none of those operators, only that their names exist.
    """
    torch = import_module("torch")
    if (vision := find_spec("torchvision")) is not None and vision.origin is not None:
        try:
            for library in Path(vision.origin).parent.glob("_C*.so"):
                torch.ops.load_library(library)
        except OSError:
            names = torch.library.Library("torchvision", "FRAGMENT")
            for name in _DECLARED_AT_IMPORT:
                names.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _KEPT.append(names)
    return torch, import_module("transformers")
