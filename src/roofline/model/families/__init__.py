"""Build a Model from a config.json: one short function for each architecture, one file for each lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonObject, JsonValue
from roofline.model.adapters import drafts_note
from roofline.model.checkpoints.quantization import quantised, scheme_of
from roofline.model.configs.config import Config, Inputs, ReadKeys
from roofline.model.families.blocks.layers import MOST_DRAFTS, draft_blocks
from roofline.model.families.blocks.seq2seq import written_alone

# importing a lineage registers its families
from roofline.model.families.decoders.dense import (  # noqa: F401
    classic,
    dense,
    gemma,
    gpt,
    llama,
    looped,
    open_science,
    qwen,
    remote_dense,
    remote_older,
    variations,
)
from roofline.model.families.decoders.dense.multimodal import (  # noqa: F401
    captions,
    inside_multimodal,
    multimodal_only,
    with_experts_of_images,
)
from roofline.model.families.decoders.experts import (  # noqa: F401
    deepseek,
    deepseek_moe,
    deepseek_v4,
    glm5_next,
    latent,
    longcat,
    minimax_m3,
    mistral_large,
    remote_sparse,
    sparse,
    step,
)
from roofline.model.families.decoders.experts.deepseek_reference import named_as_published
from roofline.model.families.decoders.recurrent import (  # noqa: F401
    gigachat,
    hybrid,
    kimi,
    plamo,
    qwen4_exp,
    rwkv_xlstm,
    short_convolutions,
    state_spaces,
    zamba,
)
from roofline.model.families.diffusion.pipelines import diffusion_pipeline, is_pipeline
from roofline.model.families.refused import COVERED, NOT_COVERED_YET, REFUSED
from roofline.model.families.registry import FAMILIES, TOWERS, WHOLES, complete, family, towers
from roofline.model.families.wholes import BESIDE, SAME, WRAPPERS, language_model, sections_beside
from roofline.model.families.wrappers import SECTIONS
from roofline.model.heads import headed, unshared
from roofline.model.model import SOURCE, Model

__all__ = ["FAMILIES", "SAME", "TOWERS", "WHOLES", "WRAPPERS", "build", "complete", "family", "towers"]

_DRAFTS = ("num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers")
_TRACED = " (of others that transformers has, analyze --traced counts the products)"


def build(raw: JsonObject, name: str = "", inputs: Inputs | None = None, *, text_only: bool = False) -> Model:
    """Build the model that a config.json describes.

    A multimodal config gives its language model with the towers beside it whose sections it has, as a checkpoint whose
    config leaves a section out holds none of its weights; `not_counted` names parts that are not counted. A pipeline of
    diffusers, its components' configs under their names, gives its denoiser with the text encoders and the autoencoder
    beside it. Missing keys have the defaults of the transformers class for the type, which a note lists. `inputs`:
    sizes of an image, a video or sound that replace those of the config. `text_only`: the language model alone. Raises
    InputError for an unknown model_type, for invalid values, and where only the type is given.
    """
    if not isinstance(raw, Mapping):
        raise InputError("config", raw, "an object with the keys of a config.json")
    if is_pipeline(raw):
        return diffusion_pipeline(raw, name, inputs, build)
    if raw.get("model_type") not in (*FAMILIES, *SAME) or sections_beside(Config(raw)):
        import_module("roofline.model.families.beyond")
    if raw.get("model_type") == "llava" and "mm_vision_tower" in raw:  # as its authors published it first
        raw = {**raw, "model_type": "llava_llama"}
    if "model_type" not in raw and (named := _unnamed(raw)):
        raw = {**raw, "model_type": named}
    kind = raw.get("model_type")
    if str(raw.get("_class_name")) in WHOLES and kind not in (*FAMILIES, *SAME, *WHOLES):
        # diffusers names a class alone; Wan's own code names beside it what the model makes (`t2v`).
        kind, raw = raw["_class_name"], {"model_type": raw["_class_name"], **raw}
    outer = named_as_published(Config(raw, kind=str(kind), own_inputs=inputs))
    if outer.kind in WHOLES:
        whole = _whole(outer, name)
        return _without_towers(whole) if text_only else whole
    _refuse(outer)
    given, not_counted = language_model(outer)
    _refuse(given)
    if given is not outer and str(given.raw.get("model_type")) in WHOLES:
        raise given.error("model_type", f"{COVERED} (this is a whole of its own, {given.raw['model_type']})")
    _refuse_bare(outer, given)
    c = given.of_kind(given.kind)
    model_type = c.text("model_type")
    model_type = SAME.get(model_type, model_type)
    build_family = FAMILIES.get(model_type)
    if build_family is None:
        raise c.error("model_type", f"a known model_type{_TRACED}", nearest(model_type, {**FAMILIES, **WHOLES}))
    draft = next((raw[key] for key in _DRAFTS if raw.get(key)), None) or _by_class(outer, *_DRAFTS)
    if draft:
        not_counted.append(drafts_note(draft))
    model = build_family(c)
    drafts = draft_blocks(model, draft) if isinstance(draft, int) and 0 < draft <= MOST_DRAFTS else ()
    (model, heads), scheme = headed(replace(model, drafts=drafts), outer), scheme_of(c)
    if scheme is not None:
        model, unmatched = quantised(model, scheme)
        c.note(*unmatched)
    c.mark_read(*(key for key, other in c.same_keys if other in c.read))
    if text_only:
        not_counted = [text for text in not_counted if not text.endswith(BESIDE)]
    elif (beside := TOWERS.get(str(outer.raw.get("model_type")))) is not None and sections_beside(outer):
        own = replace(outer, record=ReadKeys())
        model = replace(model, towers=tuple(beside(own, model)))
        if given.path == outer.path:  # the keys of the language model and of the towers stand side by side
            given.mark_read(*own.read)
        not_counted = [text for text in not_counted if text.removesuffix(BESIDE) not in own.read]
    warnings = tuple(dict.fromkeys([*_assumed(c), *heads, *c.notes, *given.leftovers()]))
    return replace(model, name=name or model.name, warnings=warnings, not_counted=tuple(not_counted))


_UNNAMED = {"CogVLMForCausalLM": "cogvlm", "InternLMXComposer2ForCausalLM": "internlmxcomposer2"}
"""Class → type of models whose published configs name no type."""


def _unnamed(raw: JsonObject) -> str | None:
    """The type of a config that names none, by its class."""
    names = raw.get("architectures")
    first = names[0] if isinstance(names, list) and names else None
    return _UNNAMED.get(first) if isinstance(first, str) else None


def _whole(outer: Config, name: str) -> Model:
    """The model of a config whose family reads all of it."""
    _refuse_bare(outer, outer)
    c = outer.of_kind(outer.kind)
    model, scheme = WHOLES[outer.kind](c), scheme_of(c)
    if c.architecture.endswith("ForCausalLM") and model.reads(SOURCE):
        model = written_alone(model)
    if scheme is not None:
        model, unmatched = quantised(model, scheme)
        c.note(*unmatched)
    c.mark_read(*(key for key, other in c.same_keys if other in c.read))
    warnings = tuple(dict.fromkeys([*_assumed(c), *c.notes, *c.leftovers()]))
    return replace(unshared(model), name=name or model.name, warnings=warnings)


def _without_towers(model: Model) -> Model:
    """The decoder of a whole without the towers beside it; the whole where its layers attend to what a tower made."""
    reads = any(m.stream or getattr(m, "reads", "") for block in model.layers for m in block.modules)
    return model if reads or "decode" not in model.steps else replace(model, towers=())


_OTHER_LIBRARIES = (
    ("_class_name", "a part of a diffusion pipeline, by diffusers"),
    ("architecture", "an image model, by timm"),
)
"""Keys in which configs of other libraries, which have no `model_type`, name their class."""


def _refuse(c: Config) -> None:
    """Raise an InputError for a type known but not counted, naming what it is."""
    for key, what in () if c.has("model_type") else _OTHER_LIBRARIES:
        if isinstance(c.raw.get(key), str):
            raise c.error(key, f"{COVERED}, with a model_type (this is {what})")
    kind = REFUSED.get(str(c.raw.get("model_type")))
    if kind is not None and c.raw["model_type"] not in FAMILIES:
        hint = "; analyze --traced counts its products" if kind == NOT_COVERED_YET else ""
        raise c.error("model_type", f"{COVERED} (this is {kind}{hint})")


def _refuse_bare(outer: Config, given: Config) -> None:
    """Raise an InputError where a config holds only its type, so that every size would be a default."""
    known = (outer.defaults, given.defaults)
    if given.defaults.values and not any(d.knows(key) for key in _keys(outer.raw) for d in known):
        raise InputError(given.path or "config", dict(given.raw), "the model's sizes beside its model_type")


def _keys(raw: JsonObject) -> Iterator[str]:
    """Keys of a config and of the language model inside it."""
    for key, value in raw.items():
        if key in SECTIONS and isinstance(value, Mapping):
            yield from _keys(value)
        elif key not in SECTIONS:
            yield key


def _assumed(c: Config) -> list[str]:
    """Note that lists the values taken from the class's defaults."""
    listed = ", ".join(f"{key} {value}" for key, value in c.record.assumed.items())
    return [f"loaded with transformers' defaults: {listed}"] if listed else []


def _by_class(c: Config, *keys: str) -> JsonValue:
    """Default of the class for the first of these keys that has one, if none of the keys is in the config."""
    return None if any(key in c.raw for key in keys) else next((v for key in keys if (v := c.get(key))), None)
