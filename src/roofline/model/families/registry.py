"""Registry of model_type → function that builds the model from its config."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from roofline.model.configs.config import Config
from roofline.model.model import Model, Tower

Entry = TypeVar("Entry")
Family = Callable[[Config], Model]
Towers = Callable[[Config, Model], Iterable[Tower]]
"""(the whole config, its language model) → the towers beside it."""
FAMILIES: dict[str, Family] = {}
WHOLES: dict[str, Family] = {}
"""Families that read a whole config, sections included: encoder-decoders, models of images and text, denoisers."""
TOWERS: dict[str, Towers] = {}
"""Type of a multimodal config → its towers; the language model is a family of its own."""


def family(*model_types: str) -> Callable[[Family], Family]:
    """Register a function for its model types. Raises ValueError for a type that is registered already."""

    return _into(FAMILIES, model_types)


def complete(*model_types: str) -> Callable[[Family], Family]:
    """Register a function that reads a whole config, sections included, for its model types, as `family` does.

    The types may be names of diffusers' classes.
    """
    return _into(WHOLES, model_types)


def towers(*model_types: str) -> Callable[[Towers], Towers]:
    """Register a function that gives the towers of a multimodal model, for the types of the whole config."""
    return _into(TOWERS, model_types)


def _into(table: dict[str, Entry], model_types: tuple[str, ...]) -> Callable[[Entry], Entry]:
    def register(build: Entry) -> Entry:
        for model_type in model_types:
            if any(model_type in other for other in ((FAMILIES, WHOLES) if table is not TOWERS else (TOWERS,))):
                raise ValueError(f"model_type {model_type} is registered twice")
            table[model_type] = build
        return build

    return register
