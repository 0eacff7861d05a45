"""config.json → Model: one short function for each architecture, one file for each lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roofline.model.class_defaults import class_defaults
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
from roofline.model.families.refused import COVERED, REFUSED
from roofline.model.families.registry import FAMILIES, family
from roofline.model.families.wrappers import SECTIONS, TEXT_PARTS
from roofline.model.keys import HARMLESS
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
# Types of a text, or of a whole whose text stands in the same object, that are a known one by another name.
SAME = {
    "emu3_text_model": "llama", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2",
    "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe",
}  # fmt: skip


def build(raw: Mapping[str, Any], name: str = "") -> Model:
    """The model that a config.json describes.

    A multimodal config gives its language model; the other parts are named in `not_counted`. Keys that are left out
    are as the class of transformers for the type has them; a note lists them. Raises InputError for an unknown
    model_type, for values that are not what their key needs, and where nothing but the type is given.
    """
    if not isinstance(raw, Mapping):
        raise InputError("config", raw, "an object with the keys of a config.json")
    outer = Config(raw, kind=str(raw.get("model_type")))
    _refuse(outer)
    given, not_counted = _language_model(outer)
    _refuse(given)
    _refuse_bare(outer, given)
    c = given.of_kind(given.kind)
    model_type = c.text("model_type")
    model_type = SAME.get(model_type, model_type)
    build_family = FAMILIES.get(model_type)
    if build_family is None:
        raise c.error("model_type", "a known model_type", nearest(model_type, FAMILIES))
    draft = raw.get("num_nextn_predict_layers") or raw.get("num_mtp_modules") or _by_class(outer, *_DRAFTS)
    if draft:
        not_counted.append(f"{draft} multi-token-prediction layer(s), run only when drafting")
    model = build_family(c)
    drafts = draft_blocks(model, draft) if isinstance(draft, int) and 0 < draft <= MOST_DRAFTS else ()
    model, scheme = replace(model, drafts=drafts), scheme_of(c)
    if scheme is not None:
        model, unmatched = quantised(model, scheme)
        c.note(*unmatched)
    c.mark_read(*(alias for alias, key in c.renamed.items() if key in c.read))
    warnings = tuple(dict.fromkeys([*_assumed(c), *c.notes, *given.leftovers()]))
    return replace(model, name=name or model.name, warnings=warnings, not_counted=tuple(not_counted))


def _refuse(c: Config) -> None:
    """Raises InputError for a type that is known to be no decoder of text tokens, saying what it is."""
    kind = REFUSED.get(str(c.raw.get("model_type")))
    if kind is not None and c.raw["model_type"] not in FAMILIES:
        raise c.error("model_type", f"{COVERED} (this is {kind})")


def _refuse_bare(outer: Config, given: Config) -> None:
    """Raises InputError where a config says no more than its type: every size would be its class's default."""
    keys = {key for c in (outer, given) for key in c.raw if c.defaults.knows(key) and key not in SECTIONS}
    if given.defaults.values and not keys:
        raise InputError(given.path or "config", dict(given.raw), "the model's sizes beside its model_type")


def _assumed(c: Config) -> list[str]:
    """The note on the values that are the class's."""
    listed = ", ".join(f"{key} {value}" for key, value in c.record.assumed.items())
    return [f"loaded with transformers' defaults: {listed}"] if listed else []


def _by_class(c: Config, *keys: str) -> Any:
    """The class's value for the first of these keys that it has, where none of them is here."""
    return None if any(key in c.raw for key in keys) else next((v for key in keys if (v := c.get(key))), None)


def _language_model(outer: Config) -> tuple[Config, list[str]]:
    """The config of the language model, and the parts beside it: of a wrapper its text part, else the whole."""
    raw = outer.raw
    key = next((key for key in SECTIONS if key in raw), None) or _left_out(outer)
    if key is None:
        beside = [key for key in raw if key in _BESIDE]
        outer.mark_read(*beside)
        return _whole(outer), [_besides(key) for key in beside]
    c = _part(outer, key)
    if "tie_word_embeddings" in raw and "tie_word_embeddings" not in c.raw:
        c = c.with_values(tie_word_embeddings=raw["tie_word_embeddings"])
    beside = [_besides(other) for other in raw if other.endswith("_config") and other not in (key, *_OURS)]
    inner, within = _language_model(c)
    return inner, [*within, *beside]


def _left_out(outer: Config) -> str | None:
    """The key under which a whole would hold its language model, where that is all as its class has it."""
    key = next((key for key in SECTIONS if key in outer.defaults.parts), None)
    if key is None or outer.raw.get("model_type") in {*FAMILIES, *SAME}:
        return None
    inside = class_defaults(outer.defaults.parts[key].type)
    flat = [k for k in outer.raw if inside.knows(k) and not outer.defaults.knows(k) and k not in HARMLESS]
    return None if flat else key


def _whole(outer: Config) -> Config:
    """A config whose keys are those of the language model: a whole's may be, beside its other parts."""
    part = next((outer.defaults.parts[key] for key in SECTIONS if key in outer.defaults.parts), None)
    return outer if part is None else replace(outer, kind=part.type)


def _part(outer: Config, key: str) -> Config:
    """The part under that key: its type, and the class that reads it."""
    part = outer.defaults.parts.get(key)
    if key in outer.raw:
        if not isinstance(outer.raw[key], Mapping):
            raise outer.error(key, "an object")
        c = outer.section(key)
    else:
        c = Config(part.values if part else {}, outer.field(key), outer)
        c.record.assumed.update({c.field(k): v for k, v in c.raw.items() if type(v) is int})
    whole, said = str(outer.raw.get("model_type")), c.raw.get("model_type")
    if said is None:
        c = c.with_values(model_type=WRAPPERS.get(whole) or (part.type if part else outer.raw.get("model_type")))
    return replace(c, kind=part.type if part and (part.fixed or said is None) else str(c.raw["model_type"]))


def _besides(key: str) -> str:
    return f"{key} (not part of the language model)"


_DRAFTS = ("num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers")
_OURS = ("quantization_config", "compression_config", "generation_config")
_BESIDE = ("vision_config", "audio_config", "vq_config", "img_processor", "embd_layer")
