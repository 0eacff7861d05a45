"""config.json → Model: one short function for each architecture, one file for each lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.model.config import Config
from roofline.model.errors import InputError, nearest
from roofline.model.families import (  # noqa: F401  (importing a lineage registers its families)
    classic,
    convolved,
    cycles,
    deepseek,
    deepseek_moe,
    deepseek_v4,
    dense,
    gemma,
    gpt,
    hybrid,
    llama,
    memory,
    mistral_large,
    multimodal,
    open_science,
    qwen,
    recurrent,
    remote_dense,
    remote_sparse,
    sparse,
    step,
    zamba,
)
from roofline.model.families.blocks.layers import MOST_DRAFTS, draft_blocks
from roofline.model.families.deepseek_reference import named_as_published
from roofline.model.families.defaults import DEFAULTS
from roofline.model.families.refused import COVERED, REFUSED
from roofline.model.families.registry import FAMILIES, family
from roofline.model.families.wrappers import SECTIONS, TEXT_PARTS
from roofline.model.model import Model
from roofline.model.quantization import quantised, scheme_of

__all__ = ["FAMILIES", "WRAPPERS", "build", "family"]

# The language model's type where a wrapper's text_config does not name it.
WRAPPERS = {
    **TEXT_PARTS,
    "llama4": "llama4_text", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text", "mistral3": "mistral", "llava": "llama", "llava_next": "llama",
    "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe",
    "mllama": "mllama_text_model", "inkling_mm_model": "inkling_text", "inkling2": "inkling2_text",
}  # fmt: skip
_TRACED = " (of others that transformers has, analyze --traced counts the products)"
# Types of a text, or of a whole whose text stands in the same object, that are a known one by another name.
SAME = {
    "emu3_text_model": "llama", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2",
    "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe",
}  # fmt: skip


def build(raw: Mapping[str, Any], name: str = "") -> Model:
    """The model that a config.json describes.

    A multimodal config gives its language model; the other parts are named in `not_counted`. Raises InputError for
    an unknown model_type and for values that are not what their key needs.
    """
    if not isinstance(raw, Mapping):
        raise InputError("config", raw, "an object with the keys of a config.json")
    outer = named_as_published(Config(raw))
    _refuse(outer)
    c, not_counted = _language_model(outer)
    _refuse(c)
    model_type = c.text("model_type")
    model_type = SAME.get(model_type, model_type)
    build_family = FAMILIES.get(model_type)
    if build_family is None:
        raise c.error("model_type", f"a known model_type{_TRACED}", nearest(model_type, FAMILIES))
    draft = raw.get("num_nextn_predict_layers") or raw.get("num_mtp_modules")
    if draft:
        not_counted.append(f"{draft} multi-token-prediction layer(s), run only when drafting")
    c = c.with_defaults(DEFAULTS.get(model_type, {}))
    model = build_family(c)
    drafts = draft_blocks(model, draft) if isinstance(draft, int) and 0 < draft <= MOST_DRAFTS else ()
    model, scheme = replace(model, drafts=drafts), scheme_of(c)
    if scheme is not None:
        model, unmatched = quantised(model, scheme)
        c.note(*unmatched)
    warnings = tuple(dict.fromkeys([*c.notes, *c.leftovers()]))
    return replace(model, name=name or model.name, warnings=warnings, not_counted=tuple(not_counted))


def _refuse(c: Config) -> None:
    """Raises InputError for a type that is known to be no decoder of text tokens, saying what it is."""
    kind = REFUSED.get(str(c.raw.get("model_type")))
    if kind is not None and c.raw["model_type"] not in FAMILIES:
        raise c.error("model_type", f"{COVERED} (this is {kind})")


def _language_model(outer: Config) -> tuple[Config, list[str]]:
    """The config of the language model, and the parts beside it: of a wrapper its text part, else the whole."""
    raw = outer.raw
    key = next((key for key in SECTIONS if key in raw), None)
    if key is None:
        beside = [key for key in raw if key in _BESIDE]
        outer.mark_read(*beside)
        return outer, [_besides(key) for key in beside]
    if not isinstance(raw[key], Mapping):
        raise outer.error(key, "an object")
    c = outer.section(key)
    if c.raw.get("model_type") is None:
        c = c.with_values(model_type=WRAPPERS.get(str(raw.get("model_type")), raw.get("model_type")))
    if "tie_word_embeddings" in raw and "tie_word_embeddings" not in c.raw:
        c = c.with_values(tie_word_embeddings=raw["tie_word_embeddings"])
    beside = [_besides(other) for other in raw if other.endswith("_config") and other not in (key, *_OURS)]
    inner, within = _language_model(c)
    return inner, [*within, *beside]


def _besides(key: str) -> str:
    return f"{key} (not part of the language model)"


_OURS = ("quantization_config", "compression_config", "generation_config")
_BESIDE = ("vision_config", "audio_config", "vq_config", "img_processor", "embd_layer")
