"""Load a Model from a dict, a file, a folder, the catalog or the Hub, without weights or remote code.

A config.json is untrusted: it is parsed as data, with limits, and nothing in it is ever executed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonObject, JsonValue
from roofline.model.configs.config import Inputs
from roofline.model.families import build
from roofline.model.media.images import Images, image_rule
from roofline.model.media.sound import sound_rule
from roofline.model.model import Model
from roofline.model.sources.hub import CONFIG_NAME, SOURCES, HubError, commit_of, hub_file, hub_file_if_any
from roofline.model.sources.origin import Origin, is_gguf
from roofline.model.sources.untrusted import printable, read_config

CATALOG = Path(__file__).with_name("catalog")
PIPELINE = "model_index.json"
"""File that names the components of a pipeline of diffusers, each of which has a folder with its config.json."""
_QUANTIZATION = "hf_quant_config.json"
"""File in which TensorRT Model Optimizer states a checkpoint's formats."""
_HUB_ID = re.compile(r"(?:\w[\w.-]{0,95}/)?\w[\w.-]{0,95}", re.ASCII)
_PART = re.compile(r"[a-z]\w{0,40}", re.ASCII)
_REVISION = re.compile(r"\w[\w.+-]*(?:/\w[\w.+-]*)*", re.ASCII)


@dataclass(frozen=True)
class CatalogEntry:
    """A model of the catalog.

    `parameters` and `active_parameters` (those that a token uses) are exact; `published` and `active` are the figures
    of its makers (`active` is None if all parameters are active). `source`: where config and size come from. `scope`:
    what the count covers.
    """

    id: str
    model_type: str
    parameters: int
    active_parameters: int
    published: str
    active: str | None
    source: str
    scope: str


Source = Mapping[str, Any] | os.PathLike[str] | str


def load(
    source: Source,
    *,
    revision: str | None = None,
    headers: bool = False,
    text_only: bool = False,
    precision: object = None,
    inputs: Inputs | None = None,
) -> Model:
    """Load the model of a config.json: a dict, a file, a folder that holds one, a name in the catalog, or a Hub id.

    A folder, dict or repository of a diffusers pipeline (`model_index.json`) gives its denoiser, with the text encoders
    and the autoencoder beside it.

    A GGUF file works as well, `model.gguf` or `owner/repo/model.gguf` on the Hub. Only its header is read, and sizes,
    types and bytes are those of its tensors; one part of a split file stands for all.

    An existing path takes precedence over the catalog, and the catalog over the Hub. A catalog name may be the exact
    Hub id, the id in other case, or the part after the slash if only one model has it; it never needs the network
    unless a `revision` (branch, tag or commit) is given. Hub files are cached by huggingface_hub and read from there
    offline; HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE work as usual.

    `headers`: take the formats of the weights from the headers of the checkpoint's files (`checkpoints/headers.py`)
    instead of the config. This needs a folder or a repository with safetensors files, of which it reads some kB and
    no weights.

    `text_only`: the language model of a multimodal config alone, without the towers that read images or sound.

    `inputs`: sizes of an image, a video or sound that a model reads, where they differ from those of its config.

    `precision`: formats that replace the checkpoint's, as in `estimate`: `fp8`, `weights=int4,kv=fp8`, `q4_k_m`.

    Raises InputError (HubError where the Hub cannot be reached or fails) with one line that says what to do.
    """
    origin = origin_of(source, revision=revision)
    plain = origin.catalogued and inputs is None and not text_only
    model = _of_catalog(origin.name) if plain else model_from(origin, inputs, text_only=text_only)
    if headers and origin.gguf is None:  # whose tensors speak already
        from roofline.model.checkpoints.checkpoint import tensors_of
        from roofline.model.checkpoints.stored import as_stored, placed_tensors

        model = as_stored(placed_tensors(model, tensors_of(origin)))
    if precision is not None:
        from roofline.model.checkpoints.quantization.asked import formats_of

        model, formats = formats_of(model, precision)
        model = replace(model, precision=formats)
    return model


def model_from(origin: Origin, inputs: Inputs | None = None, *, text_only: bool = False) -> Model:
    """Build the model of a config with known origin, `text_only` without its towers. Raises InputError."""
    raw = _with_text(origin.raw)
    model = build(raw, origin.name, inputs, text_only=text_only)
    model = replace(model, rebuilt=partial(model_from, origin, text_only=text_only))
    if origin.gguf is not None:
        from roofline.model.checkpoints.gguf.metadata import as_in_file

        model = as_in_file(model, origin.gguf)
    rule = image_rule(origin.raw)
    if rule is not None:
        model = replace(model, images=rule)
    model = replace(model, sound=sound_rule(origin.raw))
    return replace(model, warnings=(*model.warnings, *origin.notes)) if origin.notes else model


def _with_text(raw: JsonObject) -> JsonObject:
    """A config that names its language model, whose weights stand elsewhere, with that model's own config (Ultravox).

    Raises InputError for one that is not in the catalog.
    """
    named = raw.get("text_model_id")
    if raw.get("model_type") != "ultravox" or raw.get("text_config") is not None or named is None:
        return raw
    if not isinstance(named, str) or named not in catalog():
        raise InputError("text_model_id", named, "a model of the catalog, or its config under text_config")
    return {**raw, "text_config": catalog_config(named)}


@lru_cache(maxsize=128)
def _of_catalog(id: str) -> Model:
    """A catalog model; the same object each time, so that results cached for it are found again."""
    return model_from(Origin(id, catalog_config(id)))


def model_of(model: Model | Source) -> Model:
    """Return a Model as is, or load it by its name, path or config. Raises InputError for anything else."""
    if isinstance(model, Model):
        return model
    if isinstance(model, (str, os.PathLike, Mapping)):
        return load(model)
    raise InputError("model", model, "a Model, or its name, path or config")


def stepping(model: Model | Source, images: Images | None = None) -> Model:
    """The model, as `model_of` loads it, for requests with `images` and sound beside their text.

    Raises InputError where its weights alone are known (`trace`).
    """
    built = model_of(model).hearing(images)
    if not built.steps:
        raise InputError("model", built.name, f"a model whose steps are known ({built.not_counted[0]})")
    return built


def decoder_of(model: Model | Source, images: Images | None = None) -> Model:
    """The model, as `stepping` has it, for questions about tokens that are generated one by one.

    Raises InputError for a model that has no decode step.
    """
    built = stepping(model, images)
    if "decode" not in built.steps:
        what = " and ".join(built.steps)
        expected = f"a model that generates tokens (this one can only {what}, which `encode` answers)"
        raise InputError("model", built.name, expected)
    return built


def config_of(source: Source, *, revision: str | None = None) -> tuple[str, dict[str, JsonValue]]:
    """Name and unchecked contents of the config.json that `source` means; see `load`.

    A dict has the name "". A folder or its config.json has the folder's name, any other file its name without
    extension. Raises InputError.
    """
    origin = origin_of(source, revision=revision)
    return origin.name, dict(origin.raw)


def origin_of(source: Source, *, revision: str | None = None) -> Origin:
    """The config.json that `source` means, with its origin; see `load`. Raises InputError."""
    if revision is not None and (
        not isinstance(revision, str) or not _REVISION.fullmatch(revision) or ".." in revision
    ):
        raise InputError("revision", revision, "a branch, a tag or a commit")
    if isinstance(source, str) and is_gguf(source) and not os.path.lexists(source):
        from roofline.model.checkpoints.gguf.files import on_hub, origin_on_hub

        place = on_hub(source)
        if place is not None:
            return origin_on_hub(*place, revision)
    if isinstance(source, str):
        if revision is None and (os.path.lexists(source) or _is_path(source)):
            return _from_path(source)
        return _from_name(source, revision)
    if revision is not None:
        raise InputError("revision", revision, "none, as only a name can have one")
    if isinstance(source, Mapping):
        return Origin("", dict(source))
    if isinstance(source, os.PathLike):
        return _from_path(os.fsdecode(source))
    raise InputError("model", source, f"{SOURCES}, or a dict")


@cache
def catalog() -> Mapping[str, CatalogEntry]:
    """Published models whose configs are included: Hub id → entry, with the exact number of parameters."""
    entries = json.loads((CATALOG / "index.json").read_text("utf-8"))
    return MappingProxyType({name: CatalogEntry(id=name, **entry) for name, entry in entries.items()})


def catalog_config(id: str) -> dict[str, JsonValue]:
    """The config.json of a catalog model, named by its exact Hub id. Raises InputError for any other name."""
    if id not in catalog():
        raise InputError("model", id, "the id of a model in the catalog", _near(id))
    return read_config(CATALOG / f"{id}.json")


# -- where it comes from -------------------------------------------------------------------------------------------
def _is_path(source: str) -> bool:
    """Whether a name that does not exist is meant as a path."""
    return source.startswith((".", "/", "~")) or "\\" in source or source.endswith((".json", ".gguf"))


def _from_path(source: str) -> Origin:
    path, field = Path(os.path.expanduser(source)), printable(source) or "."
    if os.path.isdir(path):
        if not os.path.lexists(path / CONFIG_NAME) and os.path.lexists(path / PIPELINE):
            index = read_config(path / PIPELINE, f"{field.rstrip('/')}/{PIPELINE}")
            raw = _with_parts(index, lambda part: path / part if os.path.lexists(path / part) else None)
            return Origin(printable(path.absolute().name), raw)
        if not os.path.lexists(path / CONFIG_NAME):
            raise InputError(field, "a folder without one", f"a folder with a {CONFIG_NAME}")
        path, field = path / CONFIG_NAME, f"{field.rstrip('/')}/{CONFIG_NAME}"
    if is_gguf(path.name):
        from roofline.model.checkpoints.gguf.files import origin_of_file

        return origin_of_file(path)
    raw = read_config(path, field)
    if path.name != CONFIG_NAME:
        return Origin(printable(path.stem), raw)
    beside = path.with_name(_QUANTIZATION)
    if _states_elsewhere(raw) and os.path.lexists(beside):
        raw = {**raw, "hf_quant_config": read_config(beside)}
    return Origin(printable(path.absolute().parent.name), raw, folder=path.parent)


def _with_parts(index: JsonObject, path_of: Callable[[str], Path | None]) -> dict[str, JsonValue]:
    """A pipeline's index with the config of each component under its name, instead of its library and class."""
    raw = dict(index)
    for name, value in index.items():
        if isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], str) and _PART.fullmatch(name):
            path = path_of(f"{name}/{CONFIG_NAME}")
            if path is not None:
                own = read_config(path, f"{name}/{CONFIG_NAME}")
                kind = {"architectures": [value[1]]} if "model_type" in own else {"_class_name": value[1]}
                raw[name] = {**kind, **own}
    return raw


def _states_elsewhere(raw: JsonObject) -> bool:
    """Whether NVIDIA's file beside the config may add to it: a quantisation of the weights or of the cache."""
    stated = raw.get("quantization_config")
    if not isinstance(stated, Mapping):
        return stated is None
    return stated.get("quant_method") == "modelopt" and not {"kv_cache_scheme", "kv_cache_quant_algo"} & set(stated)


def _from_name(name: str, revision: str | None) -> Origin:
    known = _find(name)
    if known is not None and revision is None:
        return Origin(known, catalog_config(known), catalogued=True)
    name = known or name
    if not _HUB_ID.fullmatch(name) or name.endswith(("-", ".", ".git")) or "--" in name or ".." in name:
        raise InputError("model", name, SOURCES, _near(name))
    path = _fetch(name, revision)
    if path.name == PIPELINE:
        commit = commit_of(path)
        raw = _with_parts(read_config(path, f"{name}/{PIPELINE}"), lambda part: hub_file_if_any(name, part, commit))
        return Origin(name, raw, repository=name, commit=commit)
    raw, commit = read_config(path, f"{name}/{CONFIG_NAME}"), commit_of(path)
    notes: tuple[str, ...] = ()
    if _states_elsewhere(raw):
        try:
            beside = hub_file_if_any(name, _QUANTIZATION, commit)
        except HubError as error:
            notes = (f"whether there is a {_QUANTIZATION} could not be asked ({error.trouble})",)
        else:
            raw = raw if beside is None else {**raw, "hf_quant_config": read_config(beside, f"{name}/{_QUANTIZATION}")}
    return Origin(name, raw, repository=name, commit=commit, notes=notes)


def _fetch(name: str, revision: str | None) -> Path:
    """Path of a Hub model's config.json in the cache; if the model is not found, the error suggests catalog ids."""
    try:
        return hub_file(name, CONFIG_NAME, revision)
    except HubError as error:
        if error.absent:
            try:
                return hub_file(name, PIPELINE, revision)
            except HubError:
                pass
        if not error.lost:
            raise
        raise HubError(name, error.trouble, error.expected, _near(name)) from error


def _find(name: str) -> str | None:
    """The catalog id that `name` means: the id in any case, or its part after the slash; None if there is none."""
    if name in catalog():
        return name
    lower = name.lower()
    same = [id for id in catalog() if lower in (id.lower(), id.lower().rpartition("/")[2])]
    if len(same) > 1:
        raise InputError("model", name, "the whole id, as more than one model has this name", same)
    return same[0] if same else None


def _near(name: str) -> list[str]:
    """Catalog ids most similar to `name`, compared by the part after the slash if `name` has no slash."""
    by_name = {id if "/" in name else id.rpartition("/")[2]: id for id in catalog()}
    return [by_name[match] for match in nearest(name[:200], by_name)]
