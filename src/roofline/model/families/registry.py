"""Registry of model_type → function that builds the model from its config."""

from __future__ import annotations

from collections.abc import Callable

from roofline.model.config import Config
from roofline.model.model import Model

Family = Callable[[Config], Model]
FAMILIES: dict[str, Family] = {}


def family(*model_types: str) -> Callable[[Family], Family]:
    """Register a function for its model types. Raises ValueError for a type that is registered already."""

    def register(build: Family) -> Family:
        for model_type in model_types:
            if model_type in FAMILIES:
                raise ValueError(f"model_type {model_type} is registered twice")
            FAMILIES[model_type] = build
        return build

    return register
