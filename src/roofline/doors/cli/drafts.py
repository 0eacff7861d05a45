"""Notes about draft layers in commands that simulate or estimate servers."""

from __future__ import annotations

from dataclasses import replace

from roofline.inference.generate import Speculation
from roofline.model.adapters import drafts_note
from roofline.model.model import Model


def with_its_drafts(model: Model, speculation: Speculation | None) -> Model:
    """Adjust a model's "not counted" notes: with MTP speculation, one draft layer is counted."""
    if speculation is None or not speculation.mtp:
        return model
    note, left = drafts_note(len(model.drafts)), len(model.drafts) - 1
    others = tuple(text for text in model.not_counted if text != note)
    return replace(model, not_counted=(*others, *([drafts_note(left)] if left else [])))
