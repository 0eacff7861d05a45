"""Convert a GGUF file's metadata to the equivalent config.json, and its tensors to formats of the model's modules."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from roofline.declared.errors import InputError, nearest
from roofline.declared.trees import JsonValue, TomlTable
from roofline.model.checkpoints.gguf.header import ArrayLength, GgufHeader, MetadataValue, TensorOfFile
from roofline.model.checkpoints.gguf.tensors import matrices_of, typed_model
from roofline.model.formats import GgmlType
from roofline.model.model import Model
from roofline.model.sources.untrusted import parse_toml

_TABLE = Path(__file__).with_name("architectures.toml")
_LAYER = re.compile(r"blk\.(\d{1,6})\.(.+)\.weight")
_OTHER_NAMES = {"attn_kv_b": "attention", "attn_qkv": "qkv_proj", "ffn_gate_up_exps": "experts"}
"""Tensor names of older or newer files that `tensors.py` does not produce → the module that they belong to."""
_ONE_EXPERT = re.compile(r"ffn_(gate|up|down)\.\d{1,5}")
"""Names from before 2024, when each expert had separate tensors."""
_COMPUTED = re.compile(r"rope_(freqs|factors_long|factors_short)\.weight")
"""Tensors that llama.cpp's converter computes from the config; they are not parameters."""


@cache
def architectures() -> Mapping[str, TomlTable]:
    """Supported architectures, each with its metadata keys → config keys."""
    tables = dict(parse_toml(_TABLE.read_text("utf-8"), _TABLE.name))
    common = tables.pop("common")
    return MappingProxyType({name: common | keys for name, keys in tables.items()})


def config_of_gguf(header: GgufHeader, file: str) -> dict[str, JsonValue]:
    """The config.json equivalent to a header's metadata. Raises InputError for an unknown architecture."""
    metadata, tensors = header.metadata, {t.name: t for t in header.tensors}
    name = metadata.get("general.architecture")
    if not isinstance(name, str) or name not in architectures():
        known = nearest(str(name), architectures()) or list(architectures())
        raise InputError(f"{file}: general.architecture", name, "an architecture whose metadata are understood", known)
    keys = dict(architectures()[name])
    model_type, sparse = keys.pop("model_type"), keys.pop("with_experts", None)
    raw: dict[str, JsonValue] = {"model_type": model_type, "torch_dtype": "float16"}
    for key, target in keys.items():
        value = metadata.get(f"{name}.{key}")
        if value is not None:
            raw[target] = _plain(value, f"{file}: {name}.{key}")
    if sparse is not None and raw.get("num_local_experts"):
        raw["model_type"] = sparse
    elif sparse is not None:
        raw = {key: value for key, value in raw.items() if "expert" not in key}
    table = tensors.get("token_embd.weight")
    if table is None:
        raise InputError(f"{file}: token_embd.weight", None, "the table of embeddings, which every model has")
    raw["vocab_size"] = table.values // table.shape[0]
    raw["tie_word_embeddings"] = "output.weight" not in tensors
    raw["attention_bias"] = "blk.0.attn_q.bias" in tensors
    return raw | _special(name, metadata, tensors)


def _special(
    name: str, metadata: Mapping[str, MetadataValue], tensors: Mapping[str, TensorOfFile]
) -> dict[str, JsonValue]:
    """Config values that do not follow from a single metadata key."""

    def value(key: str) -> Any:
        return metadata.get(f"{name}.{key}")

    if name == "deepseek2":
        rope, compressed = value("rope.dimension_count"), value("attention.key_length_mla") is not None
        keys = value("attention.key_length_mla" if compressed else "attention.key_length")
        values = value("attention.value_length_mla" if compressed else "attention.value_length")
        if not all(type(n) is int for n in (rope, keys, values)):
            raise InputError(f"{name}.attention.key_length", keys, "the sizes of keys, values and rotary dimensions")
        corrected = any(t.endswith("exp_probs_b.bias") for t in tensors)
        return {
            "model_type": "deepseek_v3" if corrected else "deepseek_v2", "qk_rope_head_dim": rope,
            "qk_nope_head_dim": keys - rope, "v_head_dim": values, "attention_bias": False,
            "num_key_value_heads": value("attention.head_count"), "q_lora_rank": value("attention.q_lora_rank"),
        }  # fmt: skip
    if name == "falcon":
        new = "blk.0.attn_norm_2.weight" in tensors
        return {"new_decoder_architecture": new, "multi_query": value("attention.head_count_kv") == 1, "alibi": False,
                "parallel_attn": True, "bias": False}  # fmt: skip
    if name == "mamba":
        return {"use_conv_bias": "blk.0.ssm_conv1d.bias" in tensors, "use_bias": "blk.0.ssm_in.bias" in tensors}
    return {}


def _plain(value: MetadataValue, field: str) -> JsonValue:
    """A metadata value; an array of one repeated value becomes that value. Raises InputError if layers differ."""
    if isinstance(value, tuple) and value and len(set(value)) == 1:
        return value[0]
    if isinstance(value, (tuple, ArrayLength)):
        raise InputError(field, "layers that differ", "one value for all layers")
    return value


def as_in_file(model: Model, header: GgufHeader) -> Model:
    """The model with the types of the file's tensors; if these do not match the config, a warning gives both sizes."""
    known = {t.name: (t.layer, t.module) for t in matrices_of(model)}
    parts: dict[tuple[int | None, str], list[tuple[int, GgmlType]]] = defaultdict(list)
    vectors: Counter[GgmlType] = Counter()
    for tensor in header.tensors:
        place = known.get(tensor.name) or _otherwise(tensor.name)
        if place is not None:
            parts[place].append((tensor.values, tensor.type))
        elif not _COMPUTED.fullmatch(tensor.name):
            vectors[tensor.type] += tensor.values
    changed = typed_model(model, parts, [(n, kind.format) for kind, n in vectors.items()])
    size = sum(t.bytes for t in header.tensors if not _COMPUTED.fullmatch(t.name))
    counted = changed.weight_bytes()
    if counted == size:
        return changed
    said = f"gguf: tensors take {size} bytes, the sizes of its metadata {counted}"
    return typed_model(model, parts, [(n, kind.format) for kind, n in vectors.items()], (said,))


def _otherwise(name: str) -> tuple[int, str] | None:
    inside = _LAYER.fullmatch(name)
    if inside is None:
        return None
    module = "experts" if _ONE_EXPERT.fullmatch(inside[2]) else _OTHER_NAMES.get(inside[2])
    return (int(inside[1]), module) if module is not None else None
