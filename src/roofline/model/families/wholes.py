"""Find the language model in the config of a multimodal model: its section, its class, and whether its head is tied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofline.model.configs.class_defaults import class_defaults
from roofline.model.configs.config import Config
from roofline.model.configs.ignored_keys import HARMLESS
from roofline.model.families.registry import FAMILIES
from roofline.model.families.wrappers import (
    NEVER_TIED,
    OWN_HEADS,
    SECTIONS,
    TEXT_PARTS,
    TIED_BY_EITHER,
    TIED_INSIDE,
)

# The language model's type where a wrapper's text_config does not name it.
WRAPPERS = {
    **TEXT_PARTS,
    "llama4": "llama4_text", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text", "mistral3": "mistral", "llava": "llama", "llava_next": "llama",
    "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe",
    "mllama": "mllama_text_model", "inkling_mm_model": "inkling_text", "inkling2": "inkling2_text",
    "DeepseekOCR": "deepseek_v2", "deepseek_vl_v2": "deepseek_v2", "multi_modality": "llama", "ultravox": "llama",
}  # fmt: skip
# Types of a text part, or of a multimodal model with its text keys at top level, that equal another known type.
SAME = {
    "Keye": "qwen3", "KeyeVL1_5": "qwen3",
    "dots_ocr": "qwen2", "llava_llama": "llama", "llava_mistral": "mistral", "llava_mpt": "mpt", "llava_phi": "phi",
    "llava_qwen": "qwen2", "videollama3_qwen2": "qwen2",
    "emu3_text_model": "llama", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2",
    "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe",
}  # fmt: skip


def language_model(outer: Config) -> tuple[Config, list[str]]:
    """The config of the language model, and names of the other parts; a config without sections is returned whole."""
    raw = outer.raw
    key = next((key for key in SECTIONS if key in raw), None) or _left_out(outer)
    if key is None:
        beside = [key for key in raw if key in _BESIDE and raw[key] is not None]
        outer.mark_read(*beside)
        return _whole(outer), [_besides(key) for key in beside]
    c = _part(outer, key)
    if key != "thinker_config":
        c = _with_tie(outer, c)
    others = [other for other, value in raw.items() if other.endswith("_config") and value is not None]
    beside = [_besides(other) for other in others if other not in (key, *_OURS)]
    inner, within = language_model(c)
    return inner, [*within, *beside]


def _with_tie(outer: Config, c: Config) -> Config:
    """The text part with `tie_word_embeddings` as the modeling code of the multimodal model applies it.

    In most models the head belongs to the outer model and its `tie_word_embeddings` decides; `wrappers` lists the
    exceptions. Where the outer config says nothing, the part's own key decides, so that a checkpoint's separate head
    stays untied, and last the default of the outer model's class.
    """
    whole, key = str(outer.raw.get("model_type")), "tie_word_embeddings"
    own = outer.flag(key) if outer.raw.get(key) is not None else None
    inner = c.flag(key) if c.raw.get(key) is not None else None
    if whole in NEVER_TIED:
        tied: bool | None = False
    elif whole in TIED_INSIDE or own is None:
        tied = inner
    elif whole in TIED_BY_EITHER:
        tied = own or bool(inner)
    else:
        tied = own if outer.defaults.values or inner is None else inner
    if tied is None and whole not in TIED_INSIDE | OWN_HEADS and type(outer.get(key)) is bool:
        tied = bool(outer.get(key))
        if tied != class_defaults(c.kind).values.get(key, False):
            c.record.assumed[key] = tied
    for x, said in ((c, inner), (outer, own)):
        if said is not None and tied is not None and said != tied:
            c.note(f"{x.field(key)} = {said} was not used: the head of {whole} is {'tied' if tied else 'its own'}")
    return c if tied is None else c.with_values(tie_word_embeddings=tied)


def _left_out(outer: Config) -> str | None:
    """Key of a language model's section that the config leaves out because all its values are the class's defaults."""
    key = next((key for key in SECTIONS if key in outer.defaults.parts), None)
    if key is None or outer.raw.get("model_type") in {*FAMILIES, *SAME}:
        return None
    inside = class_defaults(outer.defaults.parts[key].type)
    flat = [k for k in outer.raw if inside.knows(k) and not outer.defaults.knows(k) and k not in HARMLESS]
    return None if flat else key


def _whole(outer: Config) -> Config:
    """The config itself as that of the language model, for a model that keeps its text keys at top level."""
    whole = str(outer.raw.get("model_type"))
    part = next((outer.defaults.parts[key] for key in SECTIONS if key in outer.defaults.parts), None)
    if whole in WRAPPERS and whole not in {*FAMILIES, *SAME}:
        text = WRAPPERS[whole]
        return replace(outer.with_values(model_type=text), kind=part.type if part else text, parent=outer)
    return outer if part is None else replace(outer, kind=part.type)


def _part(outer: Config, key: str) -> Config:
    """The section under `key`, with its model_type and the class that reads it."""
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
    return key + BESIDE


def sections_beside(outer: Config) -> list[str]:
    """Sections of parts beside the language model that a config has, at whatever depth."""
    raw = outer.raw
    named = [k for k, v in raw.items() if v is not None and (k in _BESIDE or k.endswith("_config"))]
    named += ["vision_config"] if raw.get("model_type") in UNNAMED_TOWERS else []
    inside = [outer.section(key) for key in SECTIONS if isinstance(raw.get(key), Mapping)]
    deeper = [k for c in inside for k in sections_beside(c)]
    return [k for k in named if k not in (*SECTIONS, *_OURS)] + deeper


UNNAMED_TOWERS = frozenset(("molmo", "internlmxcomposer2"))
"""Types whose config has no key for their tower."""
BESIDE = " (not part of the language model)"
"""End of a note on a part beside the language model."""
_OURS = ("quantization_config", "compression_config", "generation_config")
_BESIDE = (
    "vision_config", "audio_config", "vq_config", "img_processor", "embd_layer", "visual", "vision_encoder",
    "vision_encoder_config", "mm_vision_tower",
)  # fmt: skip
